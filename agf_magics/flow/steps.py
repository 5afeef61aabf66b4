"""The shapes of running: every definition is lowered to these and nothing else.

What is drawn is what runs: checks, picture, progress and engine read one tree with one id per step. A step's id is
where it stands in its text: ``steps[1].branches.security``; a name that is no identifier is quoted, so ids never
collide. A new shape needs a section in docs/design.md and a sentence of a seed that no field of an existing shape can
say.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from collections.abc import Sequence as Listed
from dataclasses import field
from typing import Any, Literal, NamedTuple, Protocol

from ..text.diagnostics import Diagnostic, StepError
from ..text.source import Source, Span
from .data import data
from .declared import END as END
from .declared import START as START
from .declared import Caps, DerivedTool, Instead, Taken, Uses
from .declared import Edge as Edge
from .frame import Args, Expr, FanOutResult, FlowInput, FlowResult, Frame, Join, Outcome, Scheduler, Target
from .schemas import Schema
from .shapes import Look, Shape
from .values import Value

CalleeKind = Literal["tool", "agent", "flow", "model", "transform", "policy", "question"]
"""In which list of the registry a name is looked up first; a tool's or an agent's name may turn out to be a flow. A
``question`` is asked of a person."""

OnError = Literal["abort", "continue", "finish"]
"""``abort``: no further element starts, running ones are cancelled, the step fails. ``continue``: it is dropped.
``finish``: the rest runs to its end, then the step fails with all failures and what did succeed."""


class Name(NamedTuple):
    """A name in a definition and where it stands."""

    text: str
    span: Span | None = None

    def __str__(self) -> str:
        return self.text


@data
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
    rescue: Callable[[StepError], Value] | None = None
    """What stands in for its value when it failed: the failure is kept like a value and the run goes on. None: it fails
    whatever it stands in. A breached cap is never kept."""


@data
class Invoke(Step):
    """Call what a name means: a tool, an agent, a flow, a model, a transform, a vendor's policy; or ask a person."""

    kind: CalleeKind
    name: Name
    """For an agent: the identity; empty text means the invoker's own, answered by the default agent."""
    args: Args
    """For an agent it gives what `Agent.arguments` takes (``prompt``, ``input``, ``alone``), of which a flow of that
    name gets the input; for a transform the one value it takes; for a question ``{"text": …, "choices": […]}``."""
    among: tuple[Name, ...] | None = None
    """The names to choose from while it runs, where `pick` chooses; then ``name`` is only what it is called."""
    pick: Expr | None = None
    registered: Mapping[str, str] = field(default_factory=dict)
    """What a name of ``among`` or ``tools`` is registered as, where nothing is registered under itself (B5)."""
    file: Name | None = None
    """What defines it where nothing is registered under its name: a definition's file, or a function of a Python file
    (``tools.py:add``). A path is relative to the file that names it, else to the notebook's folder (decision A16)."""
    files: Mapping[str, Name] = field(default_factory=dict)
    """The same for names of `among`, and for names of `tools`."""
    derived: tuple[DerivedTool, ...] = ()
    """Tools that the definition itself makes: what names of `tools` mean where nothing is registered under them."""
    config: Mapping[str, Value] | None = None
    """What a vendor's policy or a model is set up with."""
    permit: Callable[[Frame, Mapping[str, Value], Mapping[str, Value]], str | None] | None = None
    """Given the frame, what the call is given, and that as it may be shown: what a person must approve before it is
    made; None: nothing."""
    instead: Instead | None = None
    """What becomes of what that person puts in the call's place; None: only yes or no is asked."""
    keeps: bool = False
    """Whether its target is told what the call was given."""
    wants: bool = False
    """Whether `args` asks for the schema of what is called."""
    offers: tuple[str, ...] = ()
    """Arguments that `args` gives, beside those it names, to a tool that has a parameter of that name."""
    spawns: bool = True
    """Whether an agent that answers it is one of the sessions that a run may open (decision A15: a pipeline's are)."""
    awaited: bool = True
    """False: fire and forget. It is started and nobody waits for its end, which is told by its own event."""
    timeout: float | None = None
    """Seconds it may take; the callee's own timeout and the settings' hold as well."""
    pipe: Expr | None = None
    """What flows into a called flow beside its input."""
    gives: Name | None = None
    """The schema its result must conform to."""
    only_tools: bool = False
    """Whether the name of a tool cannot be a flow's (decision P22)."""
    tools: tuple[Name, ...] | None = None
    """Capabilities: the tools it may use at most; None: its invoker's. For a model: what it is offered of them."""


@data
class Compute(Step):
    """Evaluate an expression."""

    value: Expr


@data
class Sequence(Step):
    """Run steps in order; each sees what the ones before it stored. Its value is the last one's."""

    steps: tuple[Step, ...]


@data
class Branches(Step):
    """Run named steps side by side, all at once, then ``collect`` over what `join` makes of their values."""

    branches: Mapping[str, Step]
    join: Join | None = None
    collect: Step | None = None
    """None: its value is what `gather` makes of them."""
    gather: Callable[[FanOutResult], Value] | None = None
    """May raise StepError: too few succeeded. None, too: a mapping of the branches' values by name."""
    on_error: OnError = "abort"
    retries: int = 0
    leaves: bool = False
    """Whether what `join` and ``collect`` leave is what the steps after it see; else nothing is."""


@data
class Each(Step):
    """Run ``body`` once per element, ``limit`` at once, then ``collect`` over what `join` makes of the values."""

    over: Expr
    element: Target
    body: Step
    join: Join | None = None
    collect: Step | None = None
    """None: its value is what `gather` makes of them."""
    gather: Callable[[FanOutResult], Value] | None = None
    """May raise StepError. None, too: the list of the values, dropped ones left out."""
    limit: int
    on_error: OnError = "abort"
    retries: int = 0
    most: int | None = None
    """Only so many elements, the first ones."""
    cut: Callable[[int], Diagnostic] | None = None
    """What to say of the elements that `most` leaves out, by their number; an error refuses."""
    scope: bool = True
    """Whether it is one of the fan-out scopes that may nest only so deep (decision A15): a model's calls are not."""
    ahead: bool = False
    """Whether the arguments of all elements are built, and may fail, before the first call (``body`` is an Invoke)."""


@data
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


@data
class Repeat(Step):
    """Run ``body`` until ``until`` is true, at most ``limit`` times; an iteration sees what the one before it left.

    Its value is the last iteration's, and so is the frame it leaves.
    """

    body: Step
    until: Expr | None = None
    """Looked at after each iteration; None: ``limit`` times."""
    limit: int
    over: Callable[[int, Frame], Diagnostic] | None = None
    """What to say, given the limit and the last frame, when it ended by the limit though ``until`` was not true; an
    error fails the step."""
    session: bool = False
    """Whether it is one session of a model: counted as a spawn (decision A15)."""


@data
class Dag(Step):
    """Run steps by need: each when what it reads is there; an `Scheduler` knows which."""

    steps: tuple[Step, ...]
    open: Callable[[Frame], Scheduler]
    feeds: tuple[tuple[str, str, str], ...] = ()
    """What flows, as the text tells it: the id that writes, the id that reads, the name. What is drawn."""
    written: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    """Where each step's result goes, by the step's id."""


@data
class Walk(Step):
    """Run nodes along edges, in rounds: all ready nodes see one frame, then `join` makes the next one of their ends.

    From each node of a round lead the edges without a condition and the first whose condition is true, else its
    ``otherwise``; a node that several edges lead to runs once a round. A node that ran as often as `limits` says is
    skipped and the walk goes on at its exit.
    """

    nodes: Mapping[str, Step]
    edges: tuple[Edge, ...]
    join: Callable[[Frame, Listed[tuple[str, Outcome]]], Frame]
    """The frame after a round, from its nodes' outcomes in the order of their names. May raise StepError."""
    limits: Mapping[str, int] = field(default_factory=dict)
    exits: Mapping[str, str] = field(default_factory=dict)
    """Where a node over its limit leads to; else END."""
    over: Callable[[str], Diagnostic] | None = None
    """What to say of a node that reached its limit."""
    rounds: int
    """How many there may be."""
    endless: Callable[[int], Diagnostic]
    """What to say, given `rounds`, when it has not come to an end by then; names what sets them."""
    width: int = 0
    """How many nodes of a round run at once; 0: all."""
    written: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Which keys of the state each node writes, as far as its text says."""
    feeds: tuple[tuple[str | None, str, str], ...] = ()
    """The data flow: the id of the node that writes (None: the input), of the node that reads, the key."""


@data
class Choose(Step):
    """Run the case whose label ``pick`` gives."""

    pick: Expr
    labels: Callable[[Any], tuple[str, ...]]
    """The labels a picked value may stand under, best first."""
    cases: Mapping[str, Step]
    default: Step | None = None
    said: Mapping[str, str] = field(default_factory=dict)
    """What the picture says of a case by its label, where it is not that the value equals it: its condition."""


Infer = Callable[[Expr | Args, Look, list[Diagnostic]], Shape | None]
"""What an expression gives as far as its text tells; what can never work is added to the list."""


class Extension(Protocol):
    """Parts of a flow that only some languages have: a named context, options and latent tools."""

    @property
    def context(self) -> str | None:
        """The named context that a run reads and adds to; empty: the one of the flow's name; None: no context."""

    @property
    def options(self) -> tuple[str, ...]:
        """The options in effect, for example ``--ordered``. The text does not contain them."""

    @property
    def latent(self) -> tuple[str, ...]:
        """Tools that were declared latent when the flow was defined. The text does not contain them."""

    def with_context(self, name: str | None) -> Extension: ...

    def with_option(self, flow: Flow, option: str) -> Flow | None:
        """``flow`` with an option in effect; None: there is no such option."""

    def without_secrets(self, log: Any, paths: Collection[tuple[str, ...]], holds: Callable[[Value], bool]) -> Any:
        """The log of a context without the values at ``paths`` and the messages that hold a secret."""


@data
class Flow:
    """A loaded definition that can be checked, linked, drawn and run."""

    name: str
    language: str
    source: Source
    body: Sequence
    start: Callable[[FlowInput], Frame]
    end: Callable[[Frame], FlowResult]
    """May raise StepError: its output does not conform, some of its calls failed."""
    kept: Callable[[Frame], Mapping[str, Value]] | None = None
    """Its stores as a frame has them, however the run ended; None: what `end` says."""
    description: str = ""
    stores: tuple[str, ...] = ()
    """Where in a frame its named stores live: ``("ctx",)``; what no step writes there its input must bring."""
    schemas: Mapping[str, Schema] = field(default_factory=dict)
    """The schemas its own document set declares."""
    infer: Infer | None = None  # None: nothing is known of what its expressions give
    inputs: tuple[Any, ...] = ()
    """The names it reads from its input, as `rules` finds them: `Ref`s with a span each."""
    warnings: tuple[Diagnostic, ...] = ()
    """What loading found that does not refuse it: warnings and notes."""
    span: Span | None = None
    """The name in the text."""
    accepts: Mapping[str, Any] | None = None
    """JSON Schema of its input, where it declares one; `start` checks it."""
    gives: Mapping[str, Any] | None = None
    """JSON Schema of its output, where it declares one; `end` checks it."""
    taken: tuple[Taken, ...] = ()
    """What it reads of its calls' results by name."""
    caps: Caps | None = None
    uses: tuple[Uses, ...] | None = None
    """The tools that it allows itself and all that it calls; None: those of its invoker (decision B1′)."""
    refuses: tuple[Diagnostic, ...] = ()
    """What it needs that nobody can give: told as warnings when it is defined, and a run is refused (decision A5)."""
    file: str | None = None
    """The file that defines it, where a definition named that file; None: it is registered, or a text of its own."""
    extension: Extension | None = None
    """Parts that only some languages have."""


class Definition(NamedTuple):
    """What a text defines."""

    flow: Flow | None
    """None: it has no flow, or one that cannot be used."""
    schemas: Mapping[str, Schema] = {}


def children(step: Step) -> tuple[Step, ...]:
    """The steps directly under ``step``, in the order they are written."""
    match step:
        case Invoke() | Compute():
            return ()
        case Sequence() | Dag():
            return step.steps
        case Branches():
            return (*step.branches.values(), *([step.collect] if step.collect else []))
        case Each():
            return (step.body, *([step.collect] if step.collect else []))
        case Fold() | Repeat():
            return (step.body,)
        case Walk():
            return tuple(step.nodes.values())
        case Choose():
            return (*step.cases.values(), *([step.default] if step.default else []))
    return ()


def outermost(flow: Flow) -> tuple[Step, ...]:
    """The steps a reader counts: of a flow that is one plan or one graph its calls or nodes."""
    match flow.body.steps:
        case (Dag() | Walk() as whole,):
            return children(whole)
    return flow.body.steps


def every(step: Step) -> Iterator[Step]:
    """``step`` and every step under it, in the order they are written."""
    yield step
    for child in children(step):
        yield from every(child)


def part(name: str) -> str:
    """A name as the last part of an id: ``.name``, or ``["x.y"]`` for one that is no identifier."""
    return f".{name}" if name.isidentifier() else '["' + name.replace("\\", "\\\\").replace('"', '\\"') + '"]'
