"""What a worker needs to run elements of one fan-out: the step, the callees, the frame, the
limits."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from collections.abc import Sequence as Listed
from dataclasses import replace
from typing import Any, NamedTuple

from ..catalog import Tool, Transform
from ..engine.linked import Linked
from ..engine.runner import CallSite, Index, Runner, Scope, StepEvents
from ..flow.frame import FlowInput, FlowResult, Frame
from ..flow.steps import Each, Flow, Invoke, Sequence, Step, every
from ..host.limits import Limits
from ..text.source import Source
from .eligible import flows_of, pruned
from .pickles import dump_program

Wrap = Callable[[Callable[..., Any]], Callable[..., Any]]

VERSION = 2
"""Of the programs and answers."""


class ElementProgram(NamedTuple):
    step: Each
    linked: Linked
    frame: Frame
    scope: Scope
    """Of the elements; its ``linked`` is empty, because a scope is pickled by its class and
    values."""
    around: Index
    """The numbers around the fan-out."""
    limits: Limits
    most: int
    """Bytes of one value in the journal; 0: the run is not journaled."""
    events: bool
    """Whether every event travels, for a listener; otherwise starts and ends are counted."""
    stream: bool
    sources: tuple[Source, ...]
    """Those of the definitions: answers name them by their number."""


def version_of_workers() -> tuple[str, str, int]:
    """What a worker must have in common with the kernel: this package, Python, the form of
    programs."""
    package: Any = sys.modules[__name__.partition(".")[0]]
    return package.__version__, sys.version.split()[0], VERSION


def sources_of(step: Each, linked: Linked) -> tuple[Source, ...]:
    found = [linked.flow.source, *(flow.source for flow in flows_of(step.body, linked))]
    return tuple({id(source): source for source in found}.values())


def make_program(
    site: CallSite[Each], inside: Scope, sources: tuple[Source, ...], modules: Listed[str]
) -> bytes:
    """The program of a fan-out, pickled; ``modules`` travel by value. Raises whatever pickling
    raises."""
    run, step, linked = site.run, site.step, inside.linked
    program = ElementProgram(
        replace(step, over=None, join=None, collect=None, gather=None, cut=None),  # type: ignore[arg-type]
        reduced(linked, [step.body], without_text=True),
        pruned(site.frame, step, linked.flow),
        inside._replace(linked=None, meters=()),  # type: ignore[arg-type]
        site.index,
        run.budget.limits,
        run.journal.most if run.journal is not None else 0,
        sends_events(run),
        run.stream,
        sources,
    )
    return dump_program(program, modules)


def sends_events(run: Runner) -> bool:
    """Whether something listens to the events of a run."""
    return isinstance(run.steps, StepEvents)


def reduced(linked: Linked, steps: Iterable[Step], without_text: bool = False) -> Linked:
    """``linked`` with only what ``steps`` of it need. ``without_text``: its own flow is not run."""
    own = [inner for step in steps for inner in every(step)]
    callees: dict[str, Any] = {}
    for step in own:
        callee = linked.callees.get(step.id)
        if callee is not None:
            callees[step.id] = (
                reduced(callee, callee.flow.body.steps) if isinstance(callee, Linked) else callee
            )
    named = any(isinstance(step, Invoke) and step.gives is not None for step in own)
    return replace(
        linked,
        flow=_bare(linked.flow)
        if without_text
        else replace(linked.flow),  # without what `Flow.linked` caches
        callees=callees,
        schemas=linked.schemas if named else {},
        tools={},
        own={},
        accepted={},
    )


def _bare(flow: Flow) -> Flow:
    """A flow of which only one step is run."""
    return Flow(
        name=flow.name,
        language=flow.language,
        source=flow.source,
        span=flow.span,
        body=Sequence(id=flow.body.id, word=flow.body.word, steps=()),
        start=_no_start,
        end=_no_end,
    )


def _no_start(given: FlowInput) -> Frame:
    raise AssertionError("a worker runs a step of this flow, never the flow")


def _no_end(frame: Frame) -> FlowResult:
    raise AssertionError("a worker runs a step of this flow, never the flow")


def on_one_thread(linked: Linked, steps: Iterable[Step], call: Wrap) -> Linked:
    """``linked`` on a worker: every function is called on the thread of its chunk. ``steps``: those
    of it that run; ``call``: wraps a function."""
    callees: dict[str, Any] = {}
    for name, callee in linked.callees.items():
        if isinstance(callee, Linked):
            callees[name] = on_one_thread(callee, callee.flow.body.steps, call)
        elif isinstance(callee, Tool | Transform):
            callees[name] = replace(callee, function=call(callee.function), where="loop")
    return replace(linked, callees=callees)
