"""The step kinds: every definition is lowered to them.

Checks, picture, progress and engine read one tree with one id per step. The id is the path in the
text: ``steps[1].branches.security``; names that are not identifiers are quoted, so that ids are
unique. A new kind needs a section in docs/design.md and a sentence of a seed that no field of an
existing kind can express.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from ..schemas.schema import Schema
from ..schemas.shape_paths import Look
from ..schemas.shapes import Shape
from ..text.diagnostics import Diagnostic, StepError
from ..text.source import Source, Span
from ..values.value import Value, type_name
from .graph_steps import Dag, Walk
from .protocols import (
    Args,
    Binding,
    Expr,
    FanOutResult,
    FlowInput,
    FlowResult,
    Frame,
    Join,
    Name,
    Ref,
    Target,
    data,
)
from .step import ElementLimit, FailurePolicy, Step
from .step_options import (
    Asking,
    Exchange,
    Export,
    Lookup,
    OwnLimits,
    Permit,
    Pick,
    ResultRead,
    Uses,
)

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


Infer = Callable[[Expr | Args, Look, list[Diagnostic], bool], Shape | None]
"""The shape of an expression; errors are added to the list. The flag: whether it is evaluated for
each item of a list."""


WithoutSecrets = Callable[[Any, Collection[tuple[str, ...]], Callable[[Value], bool]], Any]
"""The log of a context without the values at the paths and the messages that hold a secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """How the flows of a language hold and read values, and the parts that only it has: a language
    without named contexts and options uses this class as it is."""

    stores: tuple[str, ...] = ()
    """The path of the named stores in a frame: ``("ctx",)``; the input must have those that no step
    writes."""
    kept: Callable[[Frame], Mapping[str, Value]] | None = None
    """The stores in a frame, also of a failed run; None: those of `Flow.end`."""
    infer: Infer | None = None
    """Finds the shapes of its expressions; None: they are unknown."""
    reads_are_complete: bool = False
    """Whether ``reads()`` of its expressions and arguments names everything that they read, so that
    a frame without the rest means the same to them."""
    foreign: Callable[[Collection[str]], Diagnostic | None] | None = None
    """Given the names in the code of a function that a flow calls: the warning about one that
    another program means."""
    context: str | None = None
    """The named context that a run reads and adds to; empty: the one of the flow's name; None: no
    context."""
    options: tuple[str, ...] = ()
    """The options in effect, for example ``--ordered``. The text does not contain them."""
    latent: tuple[str, ...] = ()
    """Tools that were declared latent when the flow was defined. The text does not contain them."""
    without_secrets: WithoutSecrets | None = None
    """Its log without secrets; None: it has no log."""

    def with_option(self, flow: Flow, option: str) -> Flow | None:
        """``flow`` with an option in effect; None: there is no such option."""
        return None


class Declarations(NamedTuple):
    """What a definition says besides its steps."""

    description: str = ""
    accepts: Mapping[str, Any] | None = None
    """The JSON Schema of its input; `Flow.start` checks it."""
    gives: Mapping[str, Any] | None = None
    """The JSON Schema of its output; `Flow.end` checks it."""
    schemas: Mapping[str, Schema] = {}
    """The schemas of its own document set."""
    taken: tuple[ResultRead, ...] = ()
    """The fields that it reads of its calls' results."""
    own_limits: OwnLimits | None = None
    uses: tuple[Uses, ...] | None = None
    """The tools that it allows itself and all that it calls; None: those of its invoker (decision
    B1′)."""
    asks: frozenset[str] = frozenset()
    """The tools that only a step which asks a person may call, and nothing below it."""
    refuses: tuple[Diagnostic, ...] = ()
    """Requirements that cannot be met: warnings when it is defined, errors of a run (decision
    A5)."""
    exports: tuple[Export, ...] = ()
    """The files that `export` writes."""


class Origin(NamedTuple):
    """Where a flow comes from."""

    span: Span | None = None
    """Its name in the text."""
    file: str | None = None
    """The file that defines it, if a definition named that file."""
    is_built: bool = False
    """Whether the linker made it of another definition: it has no text of its own."""


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
    dialect: Dialect = Dialect()
    declared: Declarations = Declarations()
    origin: Origin = Origin()
    inputs: tuple[Any, ...] = ()
    """The names that it reads from its input, as `rules` finds them: `Ref`s with spans."""
    warnings: tuple[Diagnostic, ...] = ()
    """Warnings and notes of loading."""
    linked: dict[object, Any] = field(default_factory=dict, init=False, repr=False)
    """Of `definitions.link_flow`: the linked flow by the version of the registry, for the last
    one."""


def named_values(given: FlowInput, code: str, what: str, hint: str) -> dict[str, Value]:
    """The input of a flow as values by their names. Raises StepError ``code``."""
    values = {} if given.input is None else given.input
    if type(values) is dict and all(type(name) is str for name in values):
        return values
    wrong = type_name(values) if type(values) is not dict else "one whose names are not all texts"
    raise StepError(Diagnostic(code, f"{what}, not {wrong}", hint=hint))


def stores_in(flow: Flow, frame: Frame) -> Mapping[str, Value]:
    """The stores in a frame of ``flow``, which may not have reached its end."""
    kept = flow.dialect.kept
    return kept(frame) if kept is not None else flow.end(frame).stores


class Definition(NamedTuple):
    """The content of a text."""

    flow: Flow | None
    """The flow; None: there is none, or it has errors."""
    schemas: Mapping[str, Schema] = {}


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


def outermost(flow: Flow) -> tuple[Step, ...]:
    """The outermost steps for a reader: the calls or nodes of a flow that is one plan or one
    graph."""
    match flow.body.steps:
        case (Dag() | Walk() as whole,):
            return children(whole)
    return flow.body.steps


def every(step: Step) -> Iterator[Step]:
    """``step`` and all steps under it, in the order of the text."""
    left = [step]
    while left:
        inner = left.pop()
        yield inner
        left += reversed(children(inner))


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
