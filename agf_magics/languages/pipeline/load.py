"""The shape of an expression's value, as far as its text and the shapes of its reads decide.

It finds errors before a run: `+` of a bool, a field that a schema does not have, a comparison that
is never equal. An unknown shape is None, and gives no finding. The rules are those of r1/closures.

Text to flow: the documents of one pipeline definition.

Everything that the text alone decides is an error here (decision A5). All errors are reported: one
in a step does not hide one in the next step. The linker checks what the registry or the input
decides.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...flow.schemas import Schema, check_schemas
from ...flow.shapes import (
    BOOL,
    NUMBER,
    TEXT,
    Look,
    PathFault,
    Shape,
    descend,
    either,
    list_of,
    literal,
    part_that_is,
)
from ...flow.step import Args, Expr, Name, Step
from ...flow.steps import (
    Constant,
    Declarations,
    Definition,
    Dialect,
    Flow,
    NamedArguments,
    Origin,
    Sequence,
)
from ...flow.values import equal
from ...text.diagnostics import Diagnostic, Diagnostics, Source, suggest
from ...text.nodes import Fields as nodes_Fields
from ...text.nodes import Node as nodes_Node
from ...text.nodes import shown
from ...text.yamlnodes import Bounds, documents
from ..documents import said
from .body import Grammar, Reader
from .kinds import DOCUMENTS, PLANNED, STEPS, build_step
from .r1 import R1
from .r1.nodes import (
    STORES,
    Arithmetic,
    Call,
    Compare,
    Each,
    Fields,
    Get,
    Items,
    Lit,
    Logic,
    Minus,
    Node,
    Not,
    Operation,
    Path,
)
from .schema_documents import read_schema
from .takes import written
from .texts import Attached, Command, Named, Template, end, outermost, start

KINDS = {"+": ("number", "text", "list"), "-": ("number",), "*": ("number",), "/": ("number",)}
RETURNS = {"count": (NUMBER, ""), "sum": (NUMBER, "number"), "join": (TEXT, "text")}
"""The shape of the value of a function, and of the elements of its list."""
ORDERED = ("number", "text")
NEEDS = {"+": "two numbers, two texts or two lists", "<": "two numbers or two texts"}


def infer(
    read: Expr | Args, look: Look, found: list[Diagnostic], repeated: bool = False
) -> Shape | None:
    """The shape of the value of ``read``; certain errors are added to ``found``.

    ``repeated``: whether it is evaluated for each item of a list. Then all of it counts as
    evaluated: ``on_error: continue`` would drop the item that comes to the error (decision P24).
    """

    def inside(part: Expr | Args) -> Shape | None:
        return infer(part, look, found, repeated)

    match read:
        case R1():
            return _Inference(read, look, found, repeated).shape(read.node, True)
        case Constant():
            return literal(read.value)
        case Template():
            for hole in read.holes:
                inside(hole.path)
            return TEXT
        case Command():
            inside(read.expr)
            return list_of(TEXT)
        case Attached():
            return list_of(either([_attached(inside(expr), expr, found) for expr in read.exprs]))
        case Named():
            return look(read.path)[0]
        case NamedArguments():
            for _, expr in read.values:
                inside(expr)
    return None


DIALECT = Dialect(stores=STORES, infer=infer, reads_are_complete=True)


def _attached(shape: Shape | None, expr: Expr, found: list[Diagnostic]) -> Shape | None:
    """The shape of an attachment; a number, an object, null or true is certainly none."""
    if _kinds(shape).isdisjoint(("text", "list")):
        hint = "give the path of a file as text"
        found.append(
            Diagnostic(
                "agent.attach", f"an attachment is a path or bytes, not {shape}", expr.span, hint
            )
        )
    return shape


class Split(NamedTuple):
    """The shapes of a value that is true and of one that is false: `and` and `or` select one."""

    yes: tuple[Shape | None, ...]
    no: tuple[Shape | None, ...]


class _Inference:
    """One expression."""

    def __init__(self, expr: R1, look: Look, found: list[Diagnostic], repeated: bool) -> None:
        self.expr, self.look, self.found, self.repeated = expr, look, found, repeated
        self.params: list[Shape | None] = []
        """The shape of the parameter of each lambda around."""

    def shape(self, node: Node, certain: bool) -> Shape | None:
        """``certain``: whether ``node`` is evaluated whenever the expression is."""
        return SHAPES[type(node)](self, node, certain or self.repeated)

    def error(
        self, message: str, at: int, width: int, certain: bool, hint: str | None = None
    ) -> None:
        place = self.expr.locate(at, at + width)
        self.found.append(
            Diagnostic("r1.type", message, place, hint, "error" if certain else "warning")
        )

    def need(
        self, kind: str, shape: Shape | None, what: str, at: int, width: int, certain: bool
    ) -> None:
        """Report a value that is certainly not of the kind that ``what`` says is needed."""
        if kind not in _kinds(shape):
            self.error(f"{what}, not {shape}", at, width, certain)

    def fault(self, fault: PathFault | None, at: int, end: int, certain: bool) -> None:
        if fault is not None:
            self.found.append(fault.told(self.expr.locate(at, end), certain))

    def literal(self, node: Lit, certain: bool) -> Shape | None:
        return literal(node.value)

    def path(self, node: Path, certain: bool) -> Shape | None:
        first = node.read[0]
        if isinstance(first, int):
            shape, fault = descend(self.params[first], node.parts[1:])
        else:
            shape, fault = self.look(node.read)  # type: ignore[arg-type]  # without a parameter it is all names
        self.fault(fault, node.at, node.end, certain)
        return shape

    def items(self, node: Items, certain: bool) -> Shape | None:
        return list_of(either([self.shape(item, certain) for item in node.items]))

    def fields(self, node: Fields, certain: bool) -> Shape | None:
        fields = {key: self.shape(value, certain) for key, value in node.fields}
        return Shape(frozenset({"object"}), fields=fields, closed=True)

    def inverted(self, node: Not, certain: bool) -> Shape | None:
        self.shape(node.operand, certain)
        return BOOL

    def minus(self, node: Minus, certain: bool) -> Shape | None:
        shape = self.shape(node.operand, certain)
        self.need("number", shape, "'-' needs a number", node.at, 1, certain)
        return NUMBER

    def choice(self, node: Logic, certain: bool) -> Shape | None:
        split = self.split(node, certain)
        return either((*split.yes, *split.no))

    def split(self, node: Node, certain: bool) -> Split:
        if isinstance(node, Logic):
            found = self.split(node.parts[0], certain)
            for part in node.parts[1:]:
                right = self.split(part, False)
                if node.op == "and" and found.yes:
                    found = Split(right.yes, (*found.no, *right.no))
                elif node.op == "or" and found.no:
                    found = Split((*found.yes, *right.yes), right.no)
            return found
        shape = self.shape(node, certain)
        if shape is None:
            return Split((None,), (None,))
        yes, no = part_that_is(True, shape), part_that_is(False, shape)
        return Split((yes,) if yes else (), (no,) if no else ())

    def compare(self, node: Compare, certain: bool) -> Shape | None:
        left, right = self.shape(node.left, certain), self.shape(node.right, certain)
        if left is None or right is None:
            return BOOL
        if node.op not in ("==", "!="):
            if (left.kinds & right.kinds).isdisjoint(ORDERED):
                message = f"{node.op!r} needs {NEEDS['<']}, not {left} and {right}"
                self.error(message, node.at, len(node.op), certain)
        elif not _can_equal(left, right):
            words = [
                value
                for shape in (left, right)
                for value in shape.values or ()
                if isinstance(value, str)
            ]
            hint = suggest(words[-1], words[:-1]) or suggest(words[0], words[1:]) if words else None
            message = f"{_shown(left)} never equals {_shown(right)}"
            place = self.expr.locate(node.at, node.at + 2)
            self.found.append(Diagnostic("r1.never-equal", message, place, hint, "warning"))
        return BOOL

    def arithmetic(self, node: Arithmetic, certain: bool) -> Shape | None:
        left = self.shape(node.first, certain)
        for operation in node.rest:
            left = self.operation(operation, left, self.shape(operation.operand, certain), certain)
        return left

    def operation(
        self, node: Operation, left: Shape | None, right: Shape | None, certain: bool
    ) -> Shape | None:
        works = [kind for kind in KINDS[node.op] if kind in _kinds(left) & _kinds(right)]
        if not works:
            given = f"{left or 'something'} and {right or 'something'}"
            needs = NEEDS.get(node.op, "two numbers")
            self.error(f"{node.op!r} needs {needs}, not {given}", node.at, 1, certain)
        if len(works) != 1:
            return None
        if works == ["list"]:
            return list_of(either([left.of if left else None, right.of if right else None]))
        return NUMBER if works == ["number"] else TEXT

    def elements(self, shape: Shape | None, node: Each | Call, certain: bool) -> Shape | None:
        """The shape of the elements of a combinator's list."""
        self.need("list", shape, f"{node.name} needs a list", node.at, len(node.name), certain)
        return shape and shape.of

    def each(self, node: Each, certain: bool) -> Shape | None:
        base = self.shape(node.base, certain)
        element = self.elements(base, node, certain)
        self.params.append(element)
        body = self.shape(node.body, False)
        self.params.pop()
        if node.name == "map":
            return list_of(body)
        if node.name == "find":
            return either([element, literal(None)])
        return list_of(element) if node.name == "filter" else BOOL

    def call(self, node: Call, certain: bool) -> Shape | None:
        if node.name == "text":
            self.shape(node.args[0], certain)
            return TEXT
        if node.name == "parse_json":
            text = self.shape(node.args[0], certain)
            self.need("text", text, "parse_json needs a text", node.at, len(node.name), certain)
            return None
        element = self.elements(self.shape(node.args[0], certain), node, certain)
        result, wanted = RETURNS[node.name]
        if wanted and wanted not in _kinds(element):
            # An empty list is fine, so this is never certain.
            message = f"{node.name} needs a list of {wanted}s, not of {element}"
            self.error(message, node.at, len(node.name), False)
        for arg in node.args[1:]:
            separator = self.shape(arg, certain)
            self.need("text", separator, "the separator of join is a text", node.at, 4, certain)
        return result

    def get(self, node: Get, certain: bool) -> Shape | None:
        default = literal(None) if node.default is None else self.shape(node.default, certain)
        keys = tuple(node.key.split("."))
        if isinstance(node.base, Path) and not isinstance(node.base.read[0], int):
            shape, fault = self.look((*map(str, node.base.read), *keys))
        else:
            shape, fault = descend(self.shape(node.base, certain), keys)
        if fault is not None and fault.name not in fault.within.optional:
            # get is for a field that may be absent
            self.fault(fault, *node.key_at, False)
        return either([shape, default])


def _kinds(shape: Shape | None) -> frozenset[str]:
    """The kinds of a value that an operator may take."""
    return frozenset(KINDS["+"]) if shape is None else shape.kinds


def _can_equal(left: Shape, right: Shape) -> bool:
    if left.values is not None and right.values is not None:
        return any(equal(a, b) for a in left.values for b in right.values)
    return not _comparable(left).isdisjoint(_comparable(right))


def _comparable(shape: Shape) -> frozenset[str]:
    """true equals 1 (decision P17)."""
    return shape.kinds | {"number"} if "bool" in shape.kinds else shape.kinds


def _shown(shape: Shape) -> str:
    if shape.values is None or len(shape.values) > 5 or shape == BOOL:
        return str(shape)
    return " or ".join(
        repr(value) if isinstance(value, str) else json.dumps(value) for value in shape.values
    )


SHAPES: Mapping[type, Callable[[_Inference, Any, bool], Shape | None]] = {
    Lit: _Inference.literal,
    Path: _Inference.path,
    Items: _Inference.items,
    Fields: _Inference.fields,
    Not: _Inference.inverted,
    Minus: _Inference.minus,
    Logic: _Inference.choice,
    Compare: _Inference.compare,
    Arithmetic: _Inference.arithmetic,
    Each: _Inference.each,
    Call: _Inference.call,
    Get: _Inference.get,
}

_BOUNDS = Bounds()


def load(source: Source, problems: Diagnostics, bounds: Bounds = _BOUNDS) -> Definition:
    """The pipeline and the schemas in ``source``; errors and warnings go to ``problems``."""
    before = problems.error_count
    nodes = documents(source, problems, bounds)
    loading = _Loading(source, problems)
    for node in nodes:
        loading.document(node)
    flow = loading.flow()
    if loading.schemas:
        check_schemas(loading.schemas, problems)
    if problems.error_count > before:
        flow = None
    elif not nodes:
        hint = "begin with pipeline: NAME"
        problems.error("pipeline.no-pipeline", "there is no pipeline here", source.span(0, 0), hint)
    return Definition(flow, loading.schemas)


class _Loading:
    def __init__(self, source: Source, problems: Diagnostics) -> None:
        self.source, self.problems = source, problems
        self.grammar = Grammar(STEPS, build_step, problems.error_count > 0)
        self.schemas: dict[str, Schema] = {}
        self.pipelines: list[nodes_Fields] = []

    def document(self, node: nodes_Node) -> None:
        error = self.problems.error
        if not isinstance(node, nodes_Fields):
            hint = "begin with pipeline: NAME or schema: NAME"
            error(
                "pipeline.document-shape",
                f"a document must be a mapping, got {shown(node)}",
                node.span,
                hint,
            )
        elif "schema" in node.fields:
            schema = read_schema(node, self.problems, self.schemas)
            if schema is not None:
                self.schemas[schema.name] = schema
        elif "pipeline" in node.fields:
            self.pipelines.append(node)
        else:
            near = suggest(next(iter(node.fields), ""), DOCUMENTS)
            hint = near or "begin with pipeline: NAME or schema: NAME"
            message = "a document must have the key 'pipeline' or 'schema'"
            error("pipeline.document-kind", message, node.head, hint)

    def flow(self) -> Flow | None:
        """The one pipeline; every other one is an error."""
        for other in self.pipelines[1:]:
            hint = "define the other one in a cell or file of its own; a call step runs it"
            self.problems.error(
                "pipeline.two-pipelines",
                "one pipeline: per cell",
                other.keys["pipeline"].span,
                hint,
            )
        if not self.pipelines:
            return None
        given = self.read(self.pipelines[0])
        if self.problems.error_count:
            return None
        name: Name = given["pipeline"]
        steps: tuple[Step, ...] = given["steps"]
        return Flow(
            name=name.text,
            language="pipeline",
            source=self.source,
            body=Sequence(
                id="steps", word="pipeline", label=name.text, span=name.span, steps=steps
            ),
            start=start,
            end=end,
            dialect=DIALECT,
            declared=Declarations(said(given, "description"), schemas=self.schemas),
            origin=Origin(name.span),
        )

    def read(self, node: nodes_Fields) -> dict[str, Any]:
        """The keys of a pipeline document."""
        for name, hint in PLANNED.items():
            if name in node.keys:
                message = f"{name!r} is not yet supported"
                self.problems.error("pipeline.not-supported", message, node.keys[name].span, hint)
        keys = {name: key for name, key in node.keys.items() if name not in PLANNED}
        scope = outermost(frozenset().union(*map(written, node.entries("steps"))))
        span = keys["pipeline"].span
        return Reader(self.problems, self.grammar, "", span, scope).fields(
            DOCUMENTS["pipeline"], node._replace(keys=keys), span
        )
