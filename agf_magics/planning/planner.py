"""Runs a planner: it receives the context and returns the next plan, until a plan has an output."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

from ..catalog import Registry, default
from ..definitions.define import load
from ..engine.runner import clock
from ..flow.values import Value, isolate, type_name
from ..host.limits import Limits
from ..lifecycle.driving import drive
from ..lifecycle.launch import start_run
from ..lifecycle.options import RunOptions
from ..lifecycle.run import Run
from ..progress.events import Event, Warned
from ..text.diagnostics import DefinitionError, Diagnostic
from ..text.source import Source

Planner = Callable[[Sequence[Mapping[str, Value]]], Any]
"""Receives the messages and returns the next plan: a list of calls, or a mapping with ``calls`` and ``output``."""


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
        raise ValueError(f"max_ticks must be a whole number of at least 1, not {max_ticks!r}")
    registry = registry or default()
    runs: list[Run] = []
    for number in range(1, max_ticks + 1):
        text, has_output = _document(planner(_messages(registry, context)), number)
        flow = load(text, "plan", registry=registry)
        extension = flow.extension and flow.extension.with_context(context)
        flow = replace(flow, name=f"{context}-{number}", extension=extension)
        given = input if number == 1 else None
        options = RunOptions(registry=registry, limits=limits, on_event=on_event)
        runs.append(drive(partial(start_run, flow, given, options)))
        if runs[-1].status == "cancelled" or has_output:
            break
    else:
        message = f"none of the first {max_ticks} plans had an output"
        found = Diagnostic("run.max-ticks", message, hint="raise max_ticks", severity="warning")
        runs[-1].progress.apply(Warned(clock(), found))
    if raises:
        runs[-1].result()
    return tuple(runs)


def _messages(registry: Registry, context: str) -> list[Mapping[str, Value]]:
    log = registry.contexts.named(context).log
    return [isolate(message) for message in log or ()]


def _document(plan: Any, number: int) -> tuple[Source, bool]:
    """The text of a plan that a planner returned, and whether it has an output."""
    name = f"tick {number}"

    def refuse(why: str, hint: str | None = None) -> NoReturn:
        raise DefinitionError(Diagnostic("run.planner", f"{name}: {why}", hint=hint))

    if isinstance(plan, str):
        try:
            plan = json.loads(plan)
        except ValueError as error:
            refuse(f"the planner returned text that is not JSON: {error}")
    document: dict[str, Any] = {"calls": plan} if isinstance(plan, list) else {}
    if isinstance(plan, Mapping):
        document = {key: plan[key] for key in plan if key != "meta" and (key != "output" or plan[key] is not None)}
    if not isinstance(document.get("calls"), list):
        hint = 'return a list of calls, or {"calls": [...], "output": ...}'
        refuse(f"the planner must return a plan, not {type_name(plan)}", hint)
    try:
        text = json.dumps(document, ensure_ascii=False, indent=2)
    except (TypeError, ValueError, RecursionError) as error:
        refuse(f"the plan is not JSON: {error}")
    return Source(name, text), "output" in document
