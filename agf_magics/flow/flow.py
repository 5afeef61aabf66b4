"""`Flow`, a loaded definition: its steps, its declarations and the way its language holds values.

The checks, the linker, the pictures and the engine read flows, whatever language they come from.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..schemas.schema import Schema
from ..schemas.shape_paths import FindShape
from ..schemas.shapes import Shape
from ..text.diagnostics import Diagnostic, StepError
from ..text.source import Source, Span
from ..values.value import Value, type_name
from .graph_steps import Dag, Walk
from .protocols import Args, Expr, FlowInput, FlowResult, Frame, data
from .step import Step
from .step_options import Export, OwnLimits, ResultRead, ServerUse, Uses
from .steps import Sequence, children

Infer = Callable[[Expr | Args, FindShape, list[Diagnostic], bool], Shape | None]
"""Infers the shape of an expression and adds errors to the list. The flag tells whether the
expression is evaluated for each item of a list."""


WithoutSecrets = Callable[[Any, Collection[tuple[str, ...]], Callable[[Value], bool]], Any]
"""Removes from the log of a context the values at the paths, and the messages that hold a
secret."""

SecretValues = Callable[
    [Mapping[str, Value], Collection[str], Collection[tuple[str, str]]], Iterable[Value]
]
"""Returns the values of an input that feed secret arguments of tools, by the names of the secret
fields, and by the arguments of calls: the id of the step, and the name, empty if it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """The way in which the flows of a language hold and read values. The defaults fit a language
    without named contexts and options."""

    stores: tuple[str, ...] = ()
    """The path of the named stores in a frame: ``("ctx",)``. The input must have the stores that no
    step writes."""
    input: tuple[str, ...] | None = None
    """The path of the whole input in a frame; None: that of the stores, which begin with it."""
    stores_of: Callable[[Frame], Mapping[str, Value]] | None = None
    """Returns the stores in a frame, even of a failed run; None: those of `Flow.end` are used."""
    infer: Infer | None = None
    """Infers the shapes of expressions; None: they are unknown."""
    reads_are_complete: bool = False
    """Whether ``reads()`` of expressions and arguments names everything that they read, so that the
    rest of a frame makes no difference to them."""
    foreign: Callable[[Collection[str]], Diagnostic | None] | None = None
    """Looks at the names in the code of a function that a flow calls for one that only another
    program knows (``_map_…_sub`` of YAMLGraph), and returns a warning about it."""
    context: str | None = None
    """The name of the context that a run reads and extends; empty: the context with the flow's
    name; None: no context."""
    options: tuple[str, ...] = ()
    """The options in effect, for example ``--ordered``. The text does not contain them."""
    latent: tuple[str, ...] = ()
    """The tools that were declared latent when the flow was defined. The text does not contain
    them."""
    without_secrets: WithoutSecrets | None = None
    """Removes secrets from the log of a context; None: the language has no contexts."""
    secret_values: SecretValues | None = None
    """Returns the values of an input that feed secret arguments of tools; None: a field that feeds
    one is secret as a whole."""

    def with_option(self, flow: Flow, option: str) -> Flow | None:
        """``flow`` with an option in effect; None: there is no such option."""
        return None


class Declarations(NamedTuple):
    """The declarations of a definition besides its steps."""

    description: str = ""
    accepts: Mapping[str, Any] | None = None
    """The JSON Schema of the input; `Flow.start` checks it."""
    gives: Mapping[str, Any] | None = None
    """The JSON Schema of the output; `Flow.end` checks it."""
    schemas: Mapping[str, Schema] = {}
    """The schemas in the same document set."""
    result_reads: tuple[ResultRead, ...] = ()
    """The fields that the text reads of results of calls."""
    own_limits: OwnLimits | None = None
    """The limits in the definition; None: it has none."""
    uses: tuple[Uses, ...] | None = None
    """The tools that the definition allows for itself and everything that it calls; None: the tools
    of its invoker (decision B1)."""
    asks: frozenset[str] = frozenset()
    """The tools that only a step which asks a person may call. Steps below such a step may not."""
    servers: tuple[ServerUse, ...] = ()
    """The MCP servers that a run needs."""
    refuses: tuple[Diagnostic, ...] = ()
    """The requirements that cannot be met: warnings for a definition, errors for a run (decision
    A5)."""
    exports: tuple[Export, ...] = ()
    """The files that `export` writes."""


class Origin(NamedTuple):
    """The place and the file that a flow comes from."""

    span: Span | None = None
    """The place of the flow's name in the text."""
    file: str | None = None
    """The file with the text, if another definition named that file."""
    is_built: bool = False
    """Whether the linker built the flow from another definition, so that it has no text of its
    own."""


@data
class Flow:
    """A loaded definition that can be checked, linked, drawn and run."""

    name: str
    language: str
    source: Source
    body: Sequence
    start: Callable[[FlowInput], Frame]
    """Returns the first frame for an input. Raises StepError if the input does not fit."""
    end: Callable[[Frame], FlowResult]
    """Returns the result for the last frame. Raises StepError if the output does not conform, or if
    some calls failed."""
    dialect: Dialect = Dialect()
    declared: Declarations = Declarations()
    origin: Origin = Origin()
    inputs: tuple[Any, ...] = ()
    """The names that the flow reads from its input: `Ref`s with spans, found by the module
    `rules`."""
    warnings: tuple[Diagnostic, ...] = ()
    """The warnings and notes of loading."""
    linked: dict[object, Any] = field(default_factory=dict, init=False, repr=False)
    """The cache of `link_flow` (``lifecycle/definitions/linking.py``): the linked flow for the last
    version of the registry."""

    def __repr__(self) -> str:
        """One line, for a shell that shows no pictures."""
        return f"<Flow {self.language} {self.name!r}>"


def named_values(flow_input: FlowInput, code: str, expected: str, hint: str) -> dict[str, Value]:
    """The input of a flow as values by name. Raises StepError with ``code`` if it is no mapping."""
    values = {} if flow_input.input is None else flow_input.input
    if type(values) is dict and all(type(name) is str for name in values):
        return values
    wrong = type_name(values) if type(values) is not dict else "one whose names are not all texts"
    raise StepError(Diagnostic(code, f"{expected}, not {wrong}", hint=hint))


def stores_in(flow: Flow, frame: Frame) -> Mapping[str, Value]:
    """The stores in ``frame``, which may come from the middle of a run of ``flow``."""
    stores_of = flow.dialect.stores_of
    return stores_of(frame) if stores_of is not None else flow.end(frame).stores


class Definition(NamedTuple):
    """The content of a loaded text."""

    flow: Flow | None
    """The flow; None: the text has no flow, or the flow has errors."""
    schemas: Mapping[str, Schema] = {}


def outermost(flow: Flow) -> tuple[Step, ...]:
    """The outermost steps as a reader sees them: in a plan or a graph, its calls or nodes."""
    match flow.body.steps:
        case (Dag() | Walk() as whole,):
            return children(whole)
    return flow.body.steps
