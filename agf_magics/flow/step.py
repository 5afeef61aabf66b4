"""The protocols by which languages differ: reading values, storing results. The engine knows
nothing else of them.

A frame is a plain dict that is never changed: ``{**frame, "pipe": value}`` is the next one. So
siblings are isolated by the data structure, without checks.

Data that is frozen for the type checker only.

A frozen dataclass takes twice as long to declare (a module of steps took a tenth of ``%load_ext``)
and three times as long to create (a definition has thousands of them).

What all steps have: a name with a place, and the fields of a step. The kinds are in `steps`.

What a definition declares besides its steps: limits, allowed tools, fields it reads of results,
edges.

The step kinds whose parts are not in order: they run by dependency, or along edges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MethodType
from typing import (
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Protocol,
    TypeVar,
    dataclass_transform,
    runtime_checkable,
)

from ..text.diagnostics import Diagnostic, Span, StepError
from .values import Value

Frame = dict[str, Value]
"""The values that a step can read."""


class Ref(NamedTuple):
    """A path that an expression reads or a target writes: ``("ctx", "review", "passed")``."""

    path: tuple[str, ...]
    span: Span | None = None
    certain: bool = True
    """Every evaluation reads it and fails without it; False after ``and``, in a lambda, in
    ``get``."""
    into: str = ""
    """The field of a mapping that it fills: the picture shows ``draft → topic``."""
    optional: bool = False
    """Nothing fails without it, as in ``get``."""


class Expr(Protocol):
    """Reads a value. ``evaluate`` is a slot with the function itself: a method around it would take
    half of the time of an R1 expression.
    """

    span: Span

    @property
    def evaluate(self) -> Callable[[Frame], Value]:
        """May raise a StepError that points at the very token."""
        ...

    def reads(self) -> tuple[Ref, ...]:
        """In the order of the text."""
        ...


class Args(Protocol):
    """The arguments of a call, by the language's rules for absent, null, default and type."""

    @property
    def names(self) -> tuple[tuple[str, Span | None], ...] | None:
        """The names of the arguments with their places, for linking. None: the text does not have
        them."""
        ...

    def build(self, frame: Frame, wanted: Mapping[str, Any] | None = None) -> Value:
        """``wanted``: the JSON Schema of the callee's input, if linking knows one."""
        ...

    def reads(self) -> tuple[Ref, ...]: ...


@runtime_checkable
class HintedArgs(Protocol):
    """Arguments of a language that has a hint where one of them is missing or does not fit."""

    def hint_for(self, name: str, frame: Frame) -> str | None: ...


Status = Literal["finished", "failed", "skipped", "fired"]
"""``fired``: started without waiting for its end."""


class Outcome(NamedTuple):
    """The result of a step, which its target stores."""

    value: Value = None
    given: Value = None
    """The arguments of a call, for a step with `keeps`."""
    error: StepError | None = None
    """Why it failed; its value is then the result of `Step.rescue`. The value of a skipped step is
    the reason."""
    status: Status = "finished"


finished: Callable[[tuple[Value, Value, None, Status]], Outcome] = MethodType(
    tuple.__new__, Outcome
)
"""Creates an outcome in half the time of the class; there is one for each step and element."""


class Target(Protocol):
    """Stores the outcome of a step, an element or an accumulator in a frame."""

    def store(self, frame: Frame, outcome: Outcome) -> Frame: ...

    def writes(self) -> tuple[Ref, ...]: ...


class Binding(Target, Protocol):
    """Binds an element of a fan-out in its frame. It needs no `Outcome`, which would take 4 % of an
    element."""

    def bind(self, frame: Frame, value: Value) -> Frame: ...


DROPPED = object()
"""The value of a dropped element in `FanOutResult.values`."""


class FanOutResult(NamedTuple):
    """The values of elements or branches that ran in parallel. Without an outcome for each of them,
    to save memory."""

    values: Sequence[Value]
    """In declared order, with DROPPED for a missing one."""
    names: Sequence[str] | None = None
    """The branches' names in the same order; None for elements."""
    failures: Mapping[int, StepError] = {}
    """The errors of the dropped ones."""
    order: Sequence[int] = ()
    """The branches that finished, in the order of their ends; empty for elements."""


class Join(Protocol):
    """Makes one frame of the values of parallel steps."""

    def join(self, frame: Frame, ran: FanOutResult) -> Frame: ...

    def writes(self) -> tuple[Ref, ...]:
        """The places of the values in the frame."""
        ...


class Node(NamedTuple):
    """One run of a step of a `Dag`: a step has one node for each instance."""

    step: str
    """Its id."""
    instance: int | None = None
    """The instance, as in the path of the run; None: it has no instances."""


class Skip(NamedTuple):
    """A node that will not run."""

    why: str


Ready = Literal["go", "wait"] | Skip


class Scheduler(Protocol):
    """The state of a `Dag` in one run: the nodes that are ready, that wait, that will never run. A
    node is known by its position in `nodes`."""

    nodes: Sequence[Node]
    """In the order of the text."""

    def feeds(self, number: int) -> Sequence[int]:
        """The nodes that may become ready when it ends."""
        ...

    def ready(self, number: int, frame: Frame) -> Ready: ...

    def enter(self, number: int, frame: Frame) -> Frame:
        """The frame that the node's step sees."""
        ...

    def come(self, number: int) -> None:
        """The node has ended, and may be stored."""
        ...

    def next(self) -> int | None:
        """The ended node to be stored next; None: another one must end first."""
        ...

    def store(self, number: int, frame: Frame, outcome: Outcome) -> Frame:
        """The frame after the end of the node, also after a failure or a skip."""
        ...

    def close(self, frame: Frame) -> Frame:
        """The frame after the last node."""
        ...


class FlowInput(NamedTuple):
    """The input of a flow."""

    input: Value = None
    pipe: Value = None
    """The pipe of the calling step (pipelines)."""
    context: Any = None
    """The named context that the run reads and extends (plans)."""


class FlowResult(NamedTuple):
    """The result of a flow."""

    output: Value
    stores: Mapping[str, Value]
    notes: Sequence[Diagnostic] = ()
    """Warnings at its end."""


T = TypeVar("T")


@dataclass_transform(
    frozen_default=True, kw_only_default=True, eq_default=False, field_specifiers=(field,)
)
def data(kind: type[T]) -> type[T]:
    """A class of frozen data with slots and keyword arguments; two objects are never equal."""
    # Not `frozen`, which makes creating a step three times as long; the type checker sees the
    # decorator above.
    return dataclass(slots=True, kw_only=True, eq=False)(kind)


class Name(NamedTuple):
    """A name in a definition with its place."""

    text: str
    span: Span | None = None

    def __str__(self) -> str:
        return self.text


OnError = Literal["abort", "continue", "finish"]
"""``abort``: no further element starts, running ones are cancelled, the step fails. ``continue``:
it is dropped. ``finish``: the others finish, then the step fails with all failures and the
successful values."""


class Failing(NamedTuple):
    """What happens to an element or a branch that fails, and to its fan-out."""

    on_error: OnError = "abort"
    """After the last attempt."""
    retries: int = 0
    wait: float = 0.0
    """Seconds before each further attempt."""
    kept: bool = False
    """Whether `join` reads the failures of what was dropped."""


class Cut(NamedTuple):
    """The bound of the elements of a fan-out: only the first ones are used."""

    most: int
    finding: Callable[[int], Diagnostic]
    """About more elements, given how many there are more; an error fails the step."""


@data
class Step:
    """The fields of all steps."""

    id: str
    word: str
    """The language's noun for it: ``for_each``, ``transform``; shown in the picture and the
    progress tree."""
    label: str = ""
    """Distinguishes it from its siblings: a tool's name, the beginning of an expression."""
    title: str = ""
    """What the author calls it; empty: nothing."""
    span: Span | None = None
    """The place of the word, for errors about the whole step."""
    target: Target | None = None
    rescue: Callable[[StepError], Value] | None = None
    """Makes the value of a failed step from its error, and the run continues. None: the parent
    fails. Never used for a breached limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Caps:
    """The limits of one run of a definition, with all that it calls. They only narrow those of the
    outer run."""

    tool_calls: int | None = None
    model_calls: int | None = None
    tokens: int | None = None
    cost: float | None = None
    """US dollars."""
    depth: int | None = None
    """How deep flows and agents may call each other below it."""
    seconds: float | None = None
    span: Span | None = None


class Uses(NamedTuple):
    """A tool that a definition allows for itself and all that it calls (a local tool of an action
    space)."""

    alias: str
    registered: str = ""
    """The name of the registered tool, if none is registered as the alias."""
    asks: bool = False
    """Whether a person must approve each call: then only a step that asks may make it."""


class DerivedTool(NamedTuple):
    """A tool that a definition makes from a registered tool."""

    name: str
    base: str
    """The name of the registered tool. Who may not use that one may not use this one."""
    description: str
    parameters: tuple[str, ...]
    """All are required; any JSON value is accepted."""
    arguments: Callable[[Mapping[str, Value]], Mapping[str, Value]]
    """The arguments for the registered tool."""
    result: Callable[[Value], Value]
    """The result, given that of the registered tool."""


class Taken(NamedTuple):
    """The fields that a text reads of a call's result, to be checked against the schema of the
    result."""

    step: str
    """The id of the `Invoke`."""
    whose: str
    """The name of the result: ``writer.output``."""
    fields: tuple[tuple[str, Span], ...]
    """The path of fields, each with its place; ``[]`` is every element of a list."""
    into: tuple[str, str] | None = None
    """The id of the call that gets it, and the field of its input."""


class Asking(NamedTuple):
    """What a step asks of the agent, the model or the vendor's policy that answers it, beyond the
    arguments."""

    model: str = ""
    """``provider:model``, for an agent that has no model of its own; the configured model replaces
    it (decision B2)."""
    settings: Mapping[str, Value] = {}
    """For the requests of a model: ``temperature``, ``max_output_tokens``. They replace those of
    the agent."""
    steps: int | None = None
    """The largest number of requests of a session; None: the agent's."""
    schema: Mapping[str, Any] | None = None
    """JSON Schema of the answer, for a definition that has one and no name for it."""
    no_tools: bool = False
    """Whether a model is offered none, whatever its agent lists."""
    calls: bool = False
    """Whether the value is ``{"answer", "calls"}``, with the tool calls of the session."""
    span: Span | None = None
    """The place of the model's name."""
    attach: tuple[Span, ...] = ()
    """The places of the expressions whose values are the argument ``attach``: images and
    documents."""
    wins: bool = False
    """Whether the model replaces that of the agent; an agent that has none is then an error."""
    config: Mapping[str, Value] = {}
    """The configuration of a model or a vendor's policy."""
    spawns: bool = True
    """Whether an agent that answers it counts as a session of the run (decision A15): a pipeline's
    do."""


class Export(NamedTuple):
    """A file that a definition makes of a result, when a person exports a run."""

    name: str
    """The store."""
    format: str
    """``json``, ``markdown`` or ``text``."""
    file: str
    """Relative to the folder of the export."""
    span: Span | None = None


class Instead(NamedTuple):
    """How a person's answer replaces a call: with other arguments, or with its result."""

    result: str
    """The key of a result; all other keys are arguments."""
    take: Callable[[Frame, Mapping[str, Value]], None]
    """Called with the answer, without secrets, before it is used; may refuse it with a
    StepError."""


class Permit(NamedTuple):
    """The question to a person before a call."""

    ask: Callable[[Frame, Mapping[str, Value], Mapping[str, Value]], str | None]
    """Given the frame, the arguments, and these without secrets: the question; None: the call needs
    none."""
    instead: Instead | None = None
    """How the person's answer can replace the call; None: only yes or no."""


class RowTerms(NamedTuple):
    """How the call of a flow for one row of a table differs from any other call: its outcome is
    journaled, and a limit that it reaches fails the row, not the run."""

    sessions: int
    """The agent sessions of one row, at most; 0: no limit."""


class Pick(NamedTuple):
    """How a step chooses its callee while it runs."""

    by: Expr
    """Its value is the name."""
    among: tuple[Name, ...] | None = None
    """The names to choose from; None: all that are registered."""


class Lookup(NamedTuple):
    """What the names of a call mean where nothing is registered under them."""

    file: Name | None = None
    """Defines the callee: the file of a definition, or a function of a Python file
    (``tools.py:add``). A path is relative to the file that names it, else to the notebook's folder
    (decision A16)."""
    files: Mapping[str, Name] = {}
    """The same for names of `Pick.among` and of the step's tools."""
    registered: Mapping[str, str] = {}
    """The registered names of `Pick.among` and of the step's tools (B5)."""
    derived: tuple[DerivedTool, ...] = ()
    """Tools that the definition itself makes."""
    only_tools: bool = False
    """Whether a tool's name must not be a flow's (decision P22)."""


class Exchange(NamedTuple):
    """What passes between a step and its callee, beyond the arguments and the result."""

    wants: bool = False
    """Whether the arguments are built with the schema of the callee's input."""
    offers: tuple[str, ...] = ()
    """Additional arguments, for a tool that has parameters with these names."""
    keeps: bool = False
    """Whether the step's target gets the arguments of the call."""
    pipe: Expr | None = None
    """The pipe of a called flow."""
    while_waiting: Callable[[Frame, Mapping[str, Value]], Frame] | None = None
    """Of a flow: given the frame of the step and the stores of the called flow, the frame that a
    run shows while that flow waits for an answer; None: the frame of the step."""
    row: RowTerms | None = None
    """Of a called flow: the terms of a row of a table (decision D53); None: it is none."""


START, END = "START", "END"
"""The start and the end of a walk: names that no node can have."""


class Edge(NamedTuple):
    """An edge from one node of a `Walk` to another."""

    source: str
    target: str
    when: Expr | None = None
    """None: always taken."""
    otherwise: bool = False
    """Taken if none of the source's conditions is true."""
    span: Span | None = None
    label: str = ""
    """The condition, as it is written."""

    @property
    def is_plain(self) -> bool:
        """Whether it is always taken."""
        return self.when is None and not self.otherwise


def edges_by_source(edges: Iterable[Edge]) -> dict[str, list[Edge]]:
    """The edges by the node that they leave, in the order of the text."""
    leaving: dict[str, list[Edge]] = {}
    for edge in edges:
        leaving.setdefault(edge.source, []).append(edge)
    return leaving


@data
class Dag(Step):
    """Run each step when its inputs exist, as a `Scheduler` decides."""

    steps: tuple[Step, ...]
    open: Callable[[Frame], Scheduler]
    feeds: tuple[tuple[str, str, str], ...] = ()
    """The data flow in the text: the id that writes, the id that reads, the name. The picture shows
    it."""
    written: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    """The paths of each step's result, by the step's id."""


@data
class Walk(Step):
    """Run nodes along edges, in rounds: all nodes of a round see one frame, then `join` makes the
    next one.

    After a node follow its edges without a condition and the first one whose condition is true,
    else its ``otherwise``; a node with several incoming edges runs once per round. A node that
    reached its limit is skipped, and the walk continues at its exit.
    """

    nodes: Mapping[str, Step]
    edges: tuple[Edge, ...]
    join: Callable[[Frame, Sequence[tuple[str, Outcome]]], Frame]
    """The frame after a round, from the outcomes of its nodes in the order of their names. May
    raise StepError."""
    limits: Mapping[str, int] = field(default_factory=dict)
    exits: Mapping[str, str] = field(default_factory=dict)
    """The node after one that reached its limit; default END."""
    over: Callable[[str], Diagnostic] | None = None
    """The finding about a node that reached its limit."""
    rounds: int
    """The maximum number of rounds."""
    endless: Callable[[int], Diagnostic]
    """The error, given `rounds`, after the last one; it names the setting."""
    width: int = 0
    """How many nodes of a round run at a time; 0: all."""
    failing: ClassVar[Failing] = Failing()
    gather: ClassVar[None] = None
    """A round is a fan-out that its first failure ends."""
    written: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The keys of the state that each node writes, as far as its text determines them."""
    feeds: tuple[tuple[str | None, str, str], ...] = ()
    """The data flow: the id of the node that writes (None: the input), of the node that reads, the
    key."""
    leaving: Mapping[str, Sequence[Edge]] = field(init=False)
    """The edges by the node that they leave, in the order of the text."""

    def __post_init__(self) -> None:  # once: a walk runs far more often than it is made
        object.__setattr__(self, "leaving", edges_by_source(self.edges))

    @property
    def forks(self) -> bool:
        """Whether several nodes may run in one round."""
        return any(_forks(edges) for edges in self.leaving.values() if len(edges) > 1)


def _forks(edges: Sequence[Edge]) -> bool:
    """Whether several of these edges may be taken in one round."""
    return any(edge.is_plain for edge in edges) or sum(edge.otherwise for edge in edges) > 1
