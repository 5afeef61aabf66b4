"""The step kinds: every definition is lowered to them.

Checks, picture, progress and engine read one tree with one id per step. The id is the path in the
text: ``steps[1].branches.security``; names that are not identifiers are quoted, so that ids are
unique. A new kind needs a section in docs/design.md and a sentence of a seed that no field of an
existing kind can express.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any, Literal

from ..text.diagnostics import Diagnostic
from ..text.source import Span
from ..values.value import Value
from .graph_steps import Dag, Walk
from .protocols import Args, Binding, Expr, FanOutResult, Frame, Join, Name, Ref, Target, data
from .step import ElementLimit, FailurePolicy, Step
from .step_options import Asking, Exchange, Lookup, Permit, Pick

CalleeKind = Literal["tool", "agent", "flow", "model", "transform", "policy", "question"]
"""The list of the registry in which a name is looked up first; a tool or an agent may be a flow. A
``question`` is for a person."""


@data
class Invoke(Step):
    """Call a tool, an agent, a flow, a model, a transform or a vendor's policy by name, or ask a
    person."""

    kind: CalleeKind
    name: Name
    """For an agent: the identity; empty text means the invoker's own, answered by the default
    agent."""
    args: Args
    """For an agent: the arguments of `Agent.arguments` (``prompt``, ``input``, ``alone``), of which
    a flow gets only the input; for a transform: its value; for a question: ``{"text": …, "choices":
    […]}``."""
    tools: tuple[Name, ...] | None = None
    """Capabilities: the tools that it may use; None: its invoker's. For a model: the tools that it
    is offered."""
    gives: Name | None = None
    """The schema to which its result must conform."""
    timeout: float | None = None
    """Seconds for the call; the callee's own timeout and the settings' apply too."""
    awaited: bool = True
    """False: fire and forget. The step does not wait for its end, which is an event of its own."""
    pick: Pick | None = None
    """How the callee is chosen during the run; then ``name`` is only a title. None: it is
    ``name``."""
    lookup: Lookup = Lookup()
    """What its names mean where nothing is registered under them."""
    exchange: Exchange = Exchange()
    """What passes between the step and its callee, beyond the arguments and the result."""
    permit: Permit | None = None
    """The question to a person before the call; None: there is none."""
    asking: Asking = Asking()
    """What is asked of an agent, a model or a vendor's policy, beyond the arguments."""

    @property
    def place(self) -> Span | None:
        """The place of the name, else of the word: for errors about the call."""
        return self.name.span or self.span


@data
class Compute(Step):
    """Evaluate an expression."""

    value: Expr


@data
class Sequence(Step):
    """Run steps in order; each sees the stores of the previous ones. Its value is that of the last
    step."""

    steps: tuple[Step, ...]


@data
class Branches(Step):
    """Run named steps in parallel, then ``collect`` over the result of `join`."""

    branches: Mapping[str, Step]
    join: Join | None = None
    collect: Step | None = None
    """Makes its value from those of its parts; None: `gather` does."""
    gather: Callable[[FanOutResult], Value] | None = None
    """May raise StepError: too few succeeded. None as well: its value maps the branches' names to
    their values."""
    failing: FailurePolicy = FailurePolicy()
    leaves: bool = False
    """Whether the steps after it see the writes of `join` and ``collect``."""


WIDTH = 8
"""The elements of a fan-out without a limit that run at the same time, without workers (decision
P14, AMB-33)."""


@data
class Each(Step):
    """Run ``body`` once per element, at most ``limit`` at a time, then ``collect`` over the result
    of `join`."""

    over: Expr
    element: Binding
    body: Step
    join: Join | None = None
    collect: Step | None = None
    """Makes its value from those of its parts; None: `gather` does."""
    gather: Callable[[FanOutResult], Value] | None = None
    """May raise StepError. None as well: its value is the list of the values, without dropped
    ones."""
    limit: int | None = None
    """The number of elements that run at a time; None: `WIDTH`, or as many as the workers of the
    run make at the same time."""
    failing: FailurePolicy = FailurePolicy()
    cut: ElementLimit | None = None
    """The limit of its elements; None: all elements are used."""
    scope: bool = True
    """Whether it counts for the fan-out depth (decision A15): a model's calls do not."""
    ahead: bool = False
    """Whether the arguments of all elements are built before the first call (``body`` is an
    Invoke)."""
    first: int = 0
    """The number of elements after which a person is asked whether the others shall run, if the
    price of the first ones is known; 0: nobody is asked."""


@data
class Fold(Step):
    """Run ``body`` once per element, in order; the next one sees its stores and value. Its value is
    the last one."""

    over: Expr
    init: Expr
    element: Target
    acc: Target
    body: Step
    most: int | None = None


@data
class Repeat(Step):
    """Run ``body`` until ``until`` is true, at most ``limit`` times; an iteration sees the writes
    of the previous one.

    Its value and its frame are those of the last iteration.
    """

    body: Step
    until: Expr | None = None
    """Evaluated after each iteration; None: ``limit`` times."""
    limit: int
    over: Callable[[int, Frame], Diagnostic] | None = None
    """The problem, given the limit and the last frame, if the limit ended it; an error fails the
    step."""
    session: bool = False
    """Whether it is a session of a model, which counts as a spawn (decision A15)."""


@data
class Choose(Step):
    """Run the case whose label is the value of ``pick``."""

    pick: Expr
    labels: Callable[[Any], tuple[str, ...]]
    """The possible labels of a value, best first."""
    cases: Mapping[str, Step]
    default: Step | None = None
    conditions: Mapping[str, str] = field(default_factory=dict)
    """The condition of a case by its label, for the picture; default: that the value equals the
    label."""


def children(step: Step) -> tuple[Step, ...]:
    """The steps directly under ``step``, in the order of the text."""
    match step:
        case Sequence() | Dag():
            return step.steps
        case Branches():
            return tuple(filter(None, (*step.branches.values(), step.collect)))
        case Each():
            return tuple(filter(None, (step.body, step.collect)))
        case Fold() | Repeat():
            return (step.body,)
        case Walk():
            return tuple(step.nodes.values())
        case Choose():
            return tuple(filter(None, (*step.cases.values(), step.default)))
    return ()


def expressions(step: Step) -> tuple[Expr | Args, ...]:
    """What ``step`` itself evaluates, without the steps inside it, in the order of the text."""
    match step:
        case Invoke():
            # Every called flow gets `pipe`; whether it reads it is unknown here.
            return (step.args,)
        case Compute():
            return (step.value,)
        case Choose():
            return (step.pick,)
        case Each():
            return (step.over,)
        case Fold():
            return (step.over, step.init)
        case Repeat():
            return tuple(filter(None, (step.until,)))
        case Walk():
            return tuple(filter(None, (edge.when for edge in step.edges)))
    return ()


def own_reads(step: Step) -> tuple[Ref, ...]:
    """What ``step`` itself reads, without the steps inside it, in the order of the text."""
    return tuple(ref for part in expressions(step) for ref in part.reads())


def every(step: Step) -> Iterator[Step]:
    """``step`` and all steps under it, in the order of the text."""
    waiting = [step]
    while waiting:
        inner = waiting.pop()
        yield inner
        waiting += reversed(children(inner))


def path_to(outer: Step, id: str) -> list[Step]:
    """The steps from ``outer`` to the one with this id, each inside the one before; empty if no
    step has it."""
    if outer.id == id:
        return [outer]
    inside = next(filter(None, (path_to(child, id) for child in children(outer))), None)
    return [outer, *inside] if inside else []


def calls(step: Step) -> Iterator[Invoke]:
    """The calls in ``step``, in the order of the text."""
    return (inner for inner in every(step) if isinstance(inner, Invoke))


def part(name: str) -> str:
    """A name as the last part of an id: ``.name``, or ``["x.y"]`` if it is not an identifier."""
    return (
        f".{name}"
        if name.isidentifier()
        else '["' + name.replace("\\", "\\\\").replace('"', '\\"') + '"]'
    )
