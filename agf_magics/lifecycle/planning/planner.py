"""Runs a planner: a model or function gets the context and returns the next plan, until a plan has
an output.

A tick of a model is two runs on one context: the request, then the plan. Both are journaled, so
that a planner can be resumed. All ticks share one budget.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from ...catalog import Model, Registry, default, model_of
from ...engine.host.host import Asker
from ...flow.progress.events import Event
from ...limits.limits import Limits, limits_of_run
from ...schemas.patterns import unusable
from ...settings.settings import current
from ...text.diagnostics import DefinitionError, Diagnostic
from ...text.shorten import shorten
from ...text.source import Source
from ...values.once_each import DoubleKey, read_once_each
from ...values.value import Value, isolate, type_name
from ..definitions.define import load
from ..input.fields import settle_fields
from .asking import Assignment, ModelPlanner
from .offer import make_offer, secret_fields
from .resuming import resume_planner
from .ticks import PlannedTick, PlannerResult, TickOptions, Ticks

Planner = Callable[[Sequence[Mapping[str, Value]]], Any]
"""Receives the messages and returns the next plan: a list of calls, or a mapping with ``calls`` and
``output``."""
THINK = {"think": "Think about the next calls. The thought is not stored."}
"""The latent tools of a planner whose author names none, with their descriptions."""


def run_planner(
    planner: Any,
    task: str | None = None,
    *,
    tools: Sequence[str] | None = None,
    latent: Mapping[str, str] | None = None,
    paths: Mapping[str, str] | None = None,
    gives: Mapping[str, Any] | None = None,
    input: Mapping[str, Value] | None = None,
    context: str = "planner",
    max_ticks: int = 10,
    instructions: str | None = None,
    confirm: bool | Sequence[str] = False,
    resume: bool = False,
    registry: Registry | None = None,
    limits: Limits | None = None,
    on_event: Callable[[Event], None] | None = None,
    ask: Asker | None = None,
    on: object = None,
    raises: bool = True,
) -> PlannerResult:
    """Ask a planner for a plan and run it, repeatedly and on one context, until a plan with an
    ``output`` has run.

        done = agf.planning.run_planner("openai:gpt-4o", "What do two kilos of figs cost?", tools=["price", "times"])
        done.output

    A model gets the messages of the context without ``_call``, ``_date`` and ``_outputMethod``
    (ACT-6) and replies with calls and an output. A reply that is not a valid plan is returned to
    the model with the reasons, at most twice. The planner receives failed calls as error messages
    in the context; only the failure of the last plan is raised. If ``max_ticks`` plans have no
    output, the last run has the warning ``run.max-ticks``.

    Parameters:

    - ``planner``: the name of a model, a model object of pydantic-ai, or a function that receives
      the list of messages and returns a plan: a list of calls, a mapping with ``calls`` and
      ``output``, or the JSON text of one. Required.
    - ``task``: the task in words, for a model. Default None: a model must have one.
    - ``tools``: the names of the tools and flows that the model may call. Default None: all
      registered tools but the built-in ones.
    - ``latent``: a mapping of the names of latent tools, which are never executed, to descriptions:
      the model writes their output. Default None: one tool ``think``.
    - ``paths``: a mapping of names of tools to the output path of their calls. Default None: the
      model chooses.
    - ``gives``: the JSON Schema of the output. Default None: any value.
    - ``input``: a mapping of names to values, the input message of the context. A field with the
      name of a secret argument of a tool is a secret: the model gets a placeholder. Default None:
      no message.
    - ``context``: the name of the context. Default ``"planner"``.
    - ``max_ticks``: the largest number of plans, at least 1. Default 10.
    - ``instructions``: further instructions for the model. Default None: none.
    - ``confirm``: whether a person must approve each call, or the names of the tools whose calls a
      person must approve. Default False.
    - ``resume``: whether to continue the last model of this context, which was interrupted or
      failed. Completed ticks are not repeated. A function continues with the messages of the
      context, and is not resumed. Default False.
    - ``registry``: the `Registry` to look names up in. Default None: the registry of this process.
    - ``limits``: the `Limits` of all ticks together. Default None: those of the settings.
    - ``on_event``: a function that is called with each event, on the engine's thread. If it raises,
      it is not called again and the run continues with a warning. Default None.
    - ``ask``: a function that puts a question to a person, ``ask(question) -> answer``. Default
      None: the notebook or the terminal asks.
    - ``on``: where concurrent calls of tools are made, as in `run`. Default None: as the settings
      say.
    - ``raises``: whether the error of the last run is raised; otherwise it is in ``error``. Default
      True.

    Returns a `PlannerResult`. Raises DefinitionError ``planner.no-tools`` if there is no tool to
    call, and StepError ``planner.reply`` if a model does not reply with a valid plan.
    """
    registry = default(registry)
    fields = settle_fields(input or {})
    options = TickOptions(
        context=context,
        max_ticks=check_ticks(max_ticks),
        registry=registry,
        limits=limits_of_run(limits, current.settings.limits),
        on_event=on_event,
        ask=ask,
        on=on,
    )
    if _is_function(planner):
        for_models = {
            "task": task,
            "tools": tools,
            "latent": latent,
            "paths": paths,
            "gives": gives,
            "instructions": instructions,
            "confirm": confirm,
            "resume": resume,
        }
        _refuse_words_for_models(for_models)
        result = run_function(planner, replace(options, resume_with=""), fields)
    else:
        if refused := unusable(gives, "gives"):
            raise DefinitionError(*refused)
        offer = make_offer(registry, tools, THINK if latent is None else latent, paths or {}, gives)
        assignment = Assignment(
            model=find_model(planner, registry),
            task=_check_task(task),
            offer=offer,
            instructions=instructions or "",
            confirm=confirm,
        )
        result = run_model(assignment, options, fields, resume=resume)
    if raises and result.error is not None:
        raise result.error
    return result


def run_model(
    assignment: Assignment,
    options: TickOptions,
    input: Mapping[str, Value],
    *,
    resume: bool = False,
    messages: Sequence[Mapping[str, Value]] = (),
) -> PlannerResult:
    """The ticks of a model. ``messages``: the first messages of the context, before the input."""
    hidden = {name: input[name] for name in secret_fields(assignment.offer, input)}
    ticks = Ticks(replace(options, secret=hidden))
    model = ModelPlanner(assignment, ticks)
    with ticks.errors():
        if resume:
            resume_planner(model)
        else:
            shown_input = {name: value for name, value in input.items() if name not in hidden}
            ticks.append(*messages, *_input_message(shown_input))
            ticks.repeat(model)
    return ticks.result


def run_function(
    planner: Planner, options: TickOptions, input: Mapping[str, Value]
) -> PlannerResult:
    """The ticks of a function."""
    ticks = Ticks(options)

    def plan_of(number: int) -> PlannedTick:
        text, has_output = _document(planner(list(map(isolate, ticks.log))), number)
        return PlannedTick(load(text, "plan", registry=options.registry), has_output)

    with ticks.errors():
        ticks.append(*_input_message(input))
        ticks.repeat(plan_of)
    return ticks.result


def find_model(planner: Any, registry: Registry) -> Model:
    """The model of a name or a model object. Raises TypeError, or DefinitionError if it cannot be
    asked."""
    model = registry.named(planner) if isinstance(planner, str) else model_of(planner)
    if problem := model.problem():
        raise DefinitionError(problem)
    return model


def check_ticks(max_ticks: int) -> int:
    if type(max_ticks) is not int or max_ticks < 1:
        raise ValueError(f"max_ticks must be a whole number of at least 1, not {max_ticks!r}")
    return max_ticks


def _is_function(planner: Any) -> bool:
    """Whether a planner returns its plans itself. The object of a model may be callable, too."""
    return callable(planner) and not hasattr(planner, "model_name")


def _refuse_words_for_models(for_models: Mapping[str, Any]) -> None:
    """Raises TypeError for the first parameter that has a value."""
    for name, value in for_models.items():
        if value:
            raise TypeError(f"{name} is for a model: a function returns the plan itself")


def _check_task(task: str | None) -> str:
    if not isinstance(task, str) or not task.strip():
        raise TypeError(
            f"a model needs a task in words, not {type_name(task)}: run_planner(model, 'What …?')"
        )
    return task


def _input_message(input: Mapping[str, Value]) -> tuple[Mapping[str, Value], ...]:
    return ({"type": "data", "kind": "input", "data": dict(input)},) if input else ()


def _document(plan: Any, number: int) -> tuple[Source, bool]:
    """The text of a plan that a function returned, and whether it has an output."""
    name = f"tick {number}"

    def refuse(why: str, hint: str | None = None) -> NoReturn:
        raise DefinitionError(Diagnostic("run.planner", f"{name}: {why}", hint=hint))

    if isinstance(plan, str):
        try:
            plan = read_once_each(plan)
        except DoubleKey as error:
            refuse(f"an object in the text of the plan has {shorten(error.args[0])!r} twice")
        except (ValueError, RecursionError) as error:
            refuse(f"the planner returned text that is not JSON: {error}")
    document: dict[str, Any] = {"calls": plan} if isinstance(plan, list) else {}
    if isinstance(plan, Mapping):
        document = dict(plan)
        document.pop("meta", None)
        if document.get("output") is None:
            document.pop("output", None)
    if not isinstance(document.get("calls"), list):
        hint = 'return a list of calls, or {"calls": [...], "output": ...}'
        refuse(f"the planner must return a plan, not {type_name(plan)}", hint)
    try:
        text = json.dumps(document, ensure_ascii=False, indent=2)
    except (TypeError, ValueError, RecursionError) as error:
        refuse(f"the plan is not JSON: {error}")
    return Source(name, text), "output" in document
