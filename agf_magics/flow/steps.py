"""The kinds of steps of which every flow consists, whatever its language.

Checks, pictures, progress and engine read the same tree of steps. The id of a step is its path in
the text: ``steps[1].branches.security``. Names that are not identifiers are quoted, so that ids are
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
"""The kind of callee whose names are looked up first in the registry; a tool or an agent may be a
flow. A ``question`` is for a person."""


@data
class Invoke(Step):
    """Call a tool, an agent, a flow, a model, a transform or a vendor's policy by name, or ask a
    person."""

    kind: CalleeKind
    name: Name
    """The name of the callee. For an agent it is the identity; an empty text means the invoker's
    identity, answered by the default agent."""
    args: Args
    """The arguments. For an agent: those of `Agent.arguments` (``prompt``, ``input``, ``alone``),
    of which a flow gets only the input. For a transform: its value. For a question: ``{"text": …,
    "choices": […]}``."""
    tools: tuple[Name, ...] | None = None
    """The tools that the callee may use; None: those of its invoker. For a model: the tools that it
    is offered."""
    gives: Name | None = None
    """The name of the schema to which the result must conform; None: there is none."""
    timeout: float | None = None
    """Seconds for the call; the callee's own timeout and the settings' apply too."""
    awaited: bool = True
    """False: the call runs in the background. The step does not wait for its end, which is a
    separate event."""
    pick: Pick | None = None
    """The choice of the callee during the run; ``name`` is then only a title. None: the callee is
    ``name``."""
    lookup: Lookup = Lookup()
    """The meanings of the names if nothing is registered under them."""
    exchange: Exchange = Exchange()
    """The exchange between the step and its callee besides the arguments and the result."""
    permit: Permit | None = None
    """The question to a person before the call; None: there is none."""
    asking: Asking = Asking()
    """The settings for an agent, a model or a vendor's policy, besides the arguments."""

    @property
    def place(self) -> Span | None:
        """The place of the name, or of the word if there is no name, for errors about the call."""
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
    """Stores the values for ``collect``; None: ``collect`` does not run."""
    collect: Step | None = None
    """The step that computes the value from those of the branches; None: `gather` does it."""
    gather: Callable[[FanOutResult], Value] | None = None
    """Computes the value from those of the branches, or raises StepError if too few succeeded. None
    as well: the value maps the branches' names to their values."""
    failing: FailurePolicy = FailurePolicy()
    leaves: bool = False
    """Whether later steps see the writes of `join` and ``collect``."""


WIDTH = 8
"""The number of elements that run at the same time in a fan-out without a limit and without workers
(decision P14, AMB-33)."""


@data
class Each(Step):
    """Run ``body`` once per element, at most ``limit`` at a time, then ``collect`` over the result
    of `join`."""

    over: Expr
    element: Binding
    body: Step
    join: Join | None = None
    """Stores the values for ``collect``; None: ``collect`` does not run."""
    collect: Step | None = None
    """The step that computes the value from those of the elements; None: `gather` does it."""
    gather: Callable[[FanOutResult], Value] | None = None
    """Computes the value from those of the elements, or raises StepError. None as well: the value
    is the list of the values, without dropped elements."""
    limit: int | None = None
    """The number of elements that run at a time; None: `WIDTH`, or as many as the workers of the
    run make at the same time."""
    failing: FailurePolicy = FailurePolicy()
    cut: ElementLimit | None = None
    """The limit of the number of elements; None: all elements are used."""
    scope: bool = True
    """Whether the step counts for the fan-out depth (decision A15). The calls of a model's reply do
    not count."""
    ahead: bool = False
    """Whether the arguments of all elements are built before the first call (``body`` is an
    Invoke)."""
    first: int = 0
    """The number of elements after which a person is asked whether the others shall run, if the
    price of the first ones is known; 0: nobody is asked."""
    number_of: Callable[[int], int] | None = None
    """The number by which a person knows an element; None: its place. A run over a table may have
    some of its rows."""


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
    """The number of elements that are used; further ones are ignored. None: all."""


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
    """Returns the problem if the limit ended the loop, given the limit and the last frame. An error
    fails the step."""
    session: bool = False
    """Whether the loop is a session of a model, which counts as an agent session (decision A15)."""


@data
class Choose(Step):
    """Run the case whose label is the value of ``pick``."""

    pick: Expr
    labels: Callable[[Any], tuple[str, ...]]
    """Returns the possible labels of a value, best first."""
    cases: Mapping[str, Step]
    default: Step | None = None
    """The step for a value without a case; None: such a value fails the step."""
    conditions: Mapping[str, str] = field(default_factory=dict)
    """The text of each case's condition by its label, for the picture; default: the label."""


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
    """The expressions that ``step`` itself evaluates, without those of the steps inside it."""
    match step:
        case Invoke():
            # Every called flow gets the pipe; this check cannot know whether the flow reads it.
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
    """The paths that ``step`` itself reads, without those of the steps inside it, in the order of
    the text."""
    return tuple(ref for part in expressions(step) for ref in part.reads())


def every(step: Step) -> Iterator[Step]:
    """``step`` and all steps under it, in the order of the text."""
    waiting = [step]
    while waiting:
        inner = waiting.pop()
        yield inner
        waiting += reversed(children(inner))


def path_to(outer: Step, id: str) -> list[Step]:
    """The steps from ``outer`` to the step ``id``, each inside the step before it; empty if no step
    has this id."""
    if outer.id == id:
        return [outer]
    inside = next(filter(None, (path_to(child, id) for child in children(outer))), None)
    return [outer, *inside] if inside else []


def calls(step: Step) -> Iterator[Invoke]:
    """The calls in ``step``, in the order of the text."""
    return (inner for inner in every(step) if isinstance(inner, Invoke))


def part(name: str) -> str:
    """A name as the last part of an id: ``.name``, or ``["x.y"]`` if it is not an identifier."""
    if name.isidentifier():
        return f".{name}"
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    return f'["{escaped}"]'
