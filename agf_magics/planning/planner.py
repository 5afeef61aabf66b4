"""A planner and its plans, tick by tick: it is shown the context and says what to call next, until it has an answer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from ..catalog import Registry, default
from ..definitions.define import load
from ..engine.runner import clock
from ..flow.values import Value, isolate, type_name
from ..host.limits import Limits
from ..lifecycle.driving import driven
from ..lifecycle.launch import begin
from ..lifecycle.options import RunOptions
from ..lifecycle.run import Run
from ..progress.events import Event, Warned
from ..text.diagnostics import DefinitionError, Diagnostic
from ..text.source import Source

Planner = Callable[[Sequence[Mapping[str, Value]]], Any]
"""Given the messages so far it gives the next plan: a list of calls, or a mapping with ``calls`` and ``output``."""


def run_planner(
    planner: Planner,
    input: Mapping[str, Value] | None = None,
    *,
    context: str = "ticks",
    max_ticks: int = 10,
    registry: Registry | None = None,
    limits: Limits | None = None,
    on_event: Callable[[Event], None] | None = None,
    raises: bool = True,
) -> tuple[Run, ...]:
    """Ask a planner for a plan and run it, repeatedly and on one context, until a plan with an ``output`` has run.

    The planner receives failures as error messages in the context; only the failure of the last plan is raised. If
    ``max_ticks`` plans have no output, the last run has the warning ``run.max-ticks``.

    Parameters:

    - ``planner``: a function that receives the list of messages and returns a plan: a list of calls, a mapping with
      ``calls`` and ``output``, or the JSON text of one. Required.
    - ``input``: a mapping of names to values for the first plan. Default None: empty.
    - ``context``: the name of the context. Default ``"ticks"``.
    - ``max_ticks``: the largest number of plans, at least 1. Default 10.
    - ``registry``: the `Registry` to look names up in. Default None: the registry of this process.
    - ``limits``: the `Limits` of each run. Default None: those of the settings.
    - ``on_event``: a function that is called with each event, on the engine's thread. If it raises, it is not called
      again and the run continues with a warning. Default None.
    - ``raises``: whether the error of the last run is raised; otherwise it is in its ``error``. Default True.

    Returns the runs in order.
    """
    if type(max_ticks) is not int or max_ticks < 1:
        raise ValueError(f"max_ticks is a whole number, 1 or more, not {max_ticks!r}")
    registry = registry or default()
    runs: list[Run] = []
    for number in range(1, max_ticks + 1):
        said = planner(_messages(registry, context))
        text, answers = _document(said, number)
        flow = replace(load(text, "plan", registry=registry), name=f"{context}-{number}", context=context)
        given = input if number == 1 else None
        options = RunOptions(registry=registry, limits=limits, on_event=on_event)
        runs.append(driven(partial(begin, flow, given, options)))
        if runs[-1].status == "cancelled" or answers:
            break
    else:
        message = f"no plan of the first {max_ticks} had an output"
        found = Diagnostic("run.max-ticks", message, hint="max_ticks=… allows more", severity="warning")
        runs[-1].progress.apply(Warned(clock(), found))
    if raises:
        runs[-1].result()
    return tuple(runs)


def _messages(registry: Registry, context: str) -> list[Mapping[str, Value]]:
    log = registry.contexts.named(context).log
    return [isolate(message) for message in log or ()]


def _document(said: Any, number: int) -> tuple[Source, bool]:
    """What a planner said, as a plan's text, and whether it has an output."""
    name = f"tick {number}"
    if isinstance(said, str):
        try:
            said = json.loads(said)
        except ValueError as error:
            raise DefinitionError(
                Diagnostic("run.planner", f"{name}: the planner's text is no JSON: {error}")
            ) from None
    plan: dict[str, Any] = (
        {"calls": said} if isinstance(said, list) else dict(said) if isinstance(said, Mapping) else {}
    )
    if not isinstance(plan.get("calls"), list):
        hint = 'a list of calls, or {"calls": [...], "output": ...}'
        raise DefinitionError(
            Diagnostic("run.planner", f"{name}: a planner gives a plan, not {type_name(said)}", hint=hint)
        )
    plan.pop("meta", None)
    if plan.get("output") is None:
        plan.pop("output", None)
    try:
        text = json.dumps(plan, ensure_ascii=False, indent=2)
    except (TypeError, ValueError, RecursionError) as error:
        raise DefinitionError(Diagnostic("run.planner", f"{name}: the plan is no JSON: {error}")) from None
    return Source(name, text), "output" in plan
