"""A `Flow`: a definition as it is loaded, with its steps, what it declares and how its language
holds values.

Whoever checks, links, draws or runs a definition of any language gets one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..schemas.schema import Schema
from ..schemas.shape_paths import Look
from ..schemas.shapes import Shape
from ..text.diagnostics import Diagnostic, StepError
from ..text.source import Source, Span
from ..values.value import Value, type_name
from .graph_steps import Dag, Walk
from .protocols import Args, Expr, FlowInput, FlowResult, Frame, data
from .step import Step
from .step_options import Export, OwnLimits, ResultRead, ServerUse, Uses
from .steps import Sequence, children

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
    stores_of: Callable[[Frame], Mapping[str, Value]] | None = None
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
    result_reads: tuple[ResultRead, ...] = ()
    """The fields that it reads of its calls' results."""
    own_limits: OwnLimits | None = None
    uses: tuple[Uses, ...] | None = None
    """The tools that it allows itself and all that it calls; None: those of its invoker (decision
    B1′)."""
    asks: frozenset[str] = frozenset()
    """The tools that only a step which asks a person may call, and nothing below it."""
    servers: tuple[ServerUse, ...] = ()
    """The MCP servers without which it does not run."""
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

    def __repr__(self) -> str:
        """One line, which a shell without pictures shows as the value of a cell."""
        return f"<Flow {self.language} {self.name!r}>"


def named_values(flow_input: FlowInput, code: str, what: str, hint: str) -> dict[str, Value]:
    """The input of a flow as values by their names. Raises StepError ``code``."""
    values = {} if flow_input.input is None else flow_input.input
    if type(values) is dict and all(type(name) is str for name in values):
        return values
    wrong = type_name(values) if type(values) is not dict else "one whose names are not all texts"
    raise StepError(Diagnostic(code, f"{what}, not {wrong}", hint=hint))


def stores_in(flow: Flow, frame: Frame) -> Mapping[str, Value]:
    """The stores in a frame of ``flow``, which may not have reached its end."""
    kept = flow.dialect.stores_of
    return kept(frame) if kept is not None else flow.end(frame).stores


class Definition(NamedTuple):
    """The content of a text."""

    flow: Flow | None
    """The flow; None: there is none, or it has errors."""
    schemas: Mapping[str, Schema] = {}


def outermost(flow: Flow) -> tuple[Step, ...]:
    """The outermost steps for a reader: the calls or nodes of a flow that is one plan or one
    graph."""
    match flow.body.steps:
        case (Dag() | Walk() as whole,):
            return children(whole)
    return flow.body.steps
