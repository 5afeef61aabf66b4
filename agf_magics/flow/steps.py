"""The shapes of running: every definition is lowered to these and nothing else.

What is drawn is what runs: checks, picture, progress and engine read one tree with one id per step. A step's id is
where it stands in its text: ``steps[1].branches.security``; a name that is no identifier is quoted, so ids never
collide. A new shape needs a section in docs/design.md and a sentence of a seed that no field of an existing shape can
say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from ..text.diagnostics import Diagnostic
from ..text.source import Source, Span
from .frame import Args, Ended, Expr, Frame, Given, Join, Target
from .schemas import Schema
from .shapes import Look, Shape

CalleeKind = Literal["tool", "agent", "flow"]
"""In which list of the registry a name is looked up first; a tool's or an agent's name may turn out to be a flow."""

OnError = Literal["abort", "continue"]
"""``abort``: no further element starts, running ones are cancelled, the step fails. ``continue``: it is dropped."""


class Name(NamedTuple):
    """A name in a definition and where it stands."""

    text: str
    span: Span | None = None

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """What all steps have."""

    id: str
    word: str
    """The language's own noun for it: ``for_each``, ``transform``; shown in the picture and the progress tree."""
    label: str = ""
    """What tells it from its siblings: a tool's name, the beginning of an expression."""
    span: Span | None = None
    """The step's own word in the text (what an error about the whole step points at)."""
    target: Target | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Invoke(Step):
    """Call a tool, an agent or a flow."""

    kind: CalleeKind
    name: Name
    """For an agent: the identity; empty text means the invoker's own, answered by the default agent."""
    args: Args
    pipe: Expr | None = None
    """What flows into a called flow beside its input."""
    gives: Name | None = None
    """The schema its result must conform to."""
    tools: tuple[Name, ...] | None = None
    """Capabilities: the tools it may use at most; None: its invoker's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Compute(Step):
    """Evaluate an expression."""

    value: Expr


@dataclass(frozen=True, slots=True, kw_only=True)
class Sequence(Step):
    """Run steps in order; each sees what the ones before it stored. Its value is the last one's."""

    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Branches(Step):
    """Run named steps side by side, all at once, then ``collect`` over what `join` makes of their values."""

    branches: Mapping[str, Step]
    join: Join
    collect: Step
    on_error: OnError = "abort"
    retries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Each(Step):
    """Run ``body`` once per element, ``limit`` at once, then ``collect`` over what `join` makes of the values."""

    over: Expr
    element: Target
    body: Step
    join: Join
    collect: Step
    limit: int
    on_error: OnError = "abort"
    retries: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold(Step):
    """Run ``body`` once per element, in order; what it stores and gives is seen by the next one. Its value is the
    last.
    """

    over: Expr
    init: Expr
    element: Target
    acc: Target
    body: Step
    most: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Choose(Step):
    """Run the case whose label ``pick`` gives."""

    pick: Expr
    labels: Callable[[Any], tuple[str, ...]]
    """The labels a picked value may stand under, best first."""
    cases: Mapping[str, Step]
    default: Step | None = None


Infer = Callable[[Expr | Args, Look, list[Diagnostic]], Shape | None]
"""What an expression gives as far as its text tells; what can never work is added to the list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow:
    """A definition, ready to check, link, draw and run."""

    name: str
    language: str
    source: Source
    body: Sequence
    start: Callable[[Given], Frame]
    end: Callable[[Frame], Ended]
    description: str = ""
    stores: tuple[str, ...] = ()
    """Where in a frame its named stores live: ``("ctx",)``; what no step writes there its input must bring."""
    schemas: Mapping[str, Schema] = field(default_factory=dict)
    """The schemas its own document set declares."""
    infer: Infer | None = None
    """None: nothing is known of what its expressions give."""
    inputs: tuple[Any, ...] = ()
    """The names it reads from its input, as `rules` finds them: `Ref`s with a span each."""
    warnings: tuple[Diagnostic, ...] = ()
    """What loading found that does not refuse it: warnings and notes."""
    span: Span | None = None
    """The name in the text."""


def children(step: Step) -> tuple[Step, ...]:
    """The steps directly under ``step``, in the order they are written."""
    match step:
        case Sequence():
            return step.steps
        case Branches():
            return (*step.branches.values(), step.collect)
        case Each():
            return (step.body, step.collect)
        case Fold():
            return (step.body,)
        case Choose():
            return (*step.cases.values(), *([step.default] if step.default else []))
    return ()


def every(step: Step) -> Iterator[Step]:
    """``step`` and every step under it, in the order they are written."""
    yield step
    for child in children(step):
        yield from every(child)


def part(name: str) -> str:
    """A name as the last part of an id: ``.name``, or ``["x.y"]`` for one that is no identifier."""
    return f".{name}" if name.isidentifier() else '["' + name.replace("\\", "\\\\").replace('"', '\\"') + '"]'
