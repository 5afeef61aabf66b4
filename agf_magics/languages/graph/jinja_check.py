"""Checks a Jinja2 template against the subset, and compiles it.

jinja2 parses. Then the tree is walked, and a node that is not in the tables is refused with its
line. Operations that could make a large value are replaced by calls of our own
(jinja_environment.py), and jinja2 generates the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from jinja2 import Template, nodes
from jinja2.exceptions import TemplateSyntaxError

from ...text.diagnostics import suggest
from .jinja_environment import CALLS, ENVIRONMENT, METHODS

MOST_TOKENS, MOST_NODES, DEEPEST, MOST_CHARACTERS = 20_000, 5_000, 40, 200_000

OWN = frozenset({"loop", "state"})
"""Names that are not variables."""

_ALLOWED = (
    nodes.Template,
    nodes.Output,
    nodes.TemplateData,
    nodes.Name,
    nodes.If,
    nodes.For,
    nodes.Assign,
    nodes.Getattr,
    nodes.Getitem,
    nodes.Slice,
    nodes.Filter,
    nodes.Test,
    nodes.Const,
    nodes.Compare,
    nodes.Operand,
    nodes.CondExpr,
    nodes.List,
    nodes.Tuple,
    nodes.Dict,
    nodes.Pair,
    nodes.Concat,
    nodes.And,
    nodes.Or,
    nodes.Not,
    nodes.Add,
    nodes.Sub,
    nodes.Mul,
    nodes.Div,
    nodes.FloorDiv,
    nodes.Mod,
    nodes.Neg,
    nodes.Pos,
    nodes.Call,
    nodes.Keyword,
)
_TAGS = "{% if %}, {% for %} and {% set %} are supported"
_NO_NAMES = ("self", "super", "caller", "varargs", "kwargs")


class NotSupported(Exception):
    """A template is refused: the message, its line from 1, the word that the caret shows, and the
    hint."""

    def __init__(
        self, message: str, line: int = 1, word: str = "", hint: str | None = None
    ) -> None:
        super().__init__(message)
        self.message, self.line, self.word, self.hint = message, line, word, hint


class Read(NamedTuple):
    """A path that a template reads."""

    names: tuple[str, ...]
    line: int
    certain: bool
    """Whether the template fails without a value."""


class Compiled(NamedTuple):
    template: Template
    reads: tuple[Read, ...]


def compile_jinja(text: str) -> Compiled:
    """Raises NotSupported."""
    if len(text) > MOST_CHARACTERS:
        raise NotSupported(f"the template has more than {MOST_CHARACTERS:,} characters")
    try:
        for count, _ in enumerate(ENVIRONMENT.lex(text)):
            if count > MOST_TOKENS:
                raise NotSupported("the template is too large")
        tree = ENVIRONMENT.parse(text)
        nested = _check(tree)
        reads = tuple(_reads(tree))
        for node in reversed(nested):
            _replace_children(node)
        return Compiled(ENVIRONMENT.from_string(tree), reads)
    except NotSupported:
        raise
    except TemplateSyntaxError as error:
        raise NotSupported(
            _in_lower_case(error.message or "it is not valid"), error.lineno
        ) from None
    except RecursionError:
        raise NotSupported("the template is nested too deep") from None
    except (
        Exception
    ) as error:  # of jinja2 and of Python's compiler: a number that is too long, 21 nested loops
        raise NotSupported(f"the template cannot be read: {_first_line(error)}") from None


def _check(tree: nodes.Template) -> list[nodes.Node]:
    """All nodes, the innermost last. Raises NotSupported."""
    queue: list[tuple[nodes.Node, int]] = [(tree, 0)]
    found: list[nodes.Node] = []
    while queue:
        node, depth = queue.pop()
        found.append(node)
        if depth > DEEPEST:
            raise NotSupported("the template is nested too deep", node.lineno)
        if len(found) > MOST_NODES:
            raise NotSupported("the template is too large", node.lineno)
        _check_node(node)
        queue += [(child, depth + 1) for child in node.iter_child_nodes()]
    return found


def _check_node(node: nodes.Node) -> None:
    if not isinstance(node, _ALLOWED):
        name = _TAG_NAMES.get(type(node).__name__, type(node).__name__.lower())
        raise NotSupported(f"{name!r} is not supported in a prompt", node.lineno, name, _TAGS)
    match node:
        case nodes.For() if node.recursive:
            raise NotSupported(
                "a loop cannot be recursive", node.lineno, "recursive", "remove recursive"
            )
        case nodes.Filter() if node.name not in ENVIRONMENT.filters:
            hint = suggest(node.name, ENVIRONMENT.filters, "filters")
            raise NotSupported(f"unknown filter {node.name!r}", node.lineno, node.name, hint)
        case nodes.Test() if node.name not in ENVIRONMENT.tests:
            hint = suggest(
                node.name, [name for name in ENVIRONMENT.tests if name.isidentifier()], "tests"
            )
            raise NotSupported(f"unknown test {node.name!r}", node.lineno, node.name, hint)
        case nodes.Filter() | nodes.Test() if node.dyn_args or node.dyn_kwargs:
            raise NotSupported("arguments with * are not supported", node.lineno, "*")
        case nodes.Name() if node.name.startswith("__") or node.name in _NO_NAMES:
            raise NotSupported(
                f"a template cannot use the name {node.name!r}", node.lineno, node.name
            )
        case nodes.Getattr() if node.attr.startswith("_"):
            hint = "keys of mappings that begin with _ are read as name['_key']"
            raise NotSupported(
                f"a template cannot read {node.attr!r}", node.lineno, node.attr, hint
            )
        case nodes.Call():
            _check_call(node)


_TAG_NAMES: Mapping[str, str] = {
    "FromImport": "import",
    "CallBlock": "call",
    "FilterBlock": "filter",
    "AssignBlock": "set block",
    "Pow": "**",
    "ScopedEvalContextModifier": "autoescape",
    "NSRef": "namespace",
}


def _check_call(node: nodes.Call) -> None:
    called = node.node
    name = (
        called.attr
        if isinstance(called, nodes.Getattr)
        else called.name
        if isinstance(called, nodes.Name)
        else ""
    )
    is_range = isinstance(called, nodes.Name) and name == "range" and not node.kwargs
    if not is_range and not (isinstance(called, nodes.Getattr) and name in METHODS):
        hint = (
            f"only range() and the methods {', '.join(sorted(METHODS))} can be called; | "
            f"applies a filter"
        )
        raise NotSupported(f"{name or 'this value'!r} cannot be called", node.lineno, name, hint)
    if node.dyn_args or node.dyn_kwargs:
        raise NotSupported("arguments with * are not supported", node.lineno, "*")


def _replace_children(node: nodes.Node) -> None:
    """Replace the operations directly below ``node``; it is called for the inner nodes first."""
    for name in node.fields:
        held = getattr(node, name)
        if isinstance(held, nodes.Node):
            setattr(node, name, _replaced(held))
        elif isinstance(held, list):
            setattr(
                node, name, [_replaced(one) if isinstance(one, nodes.Node) else one for one in held]
            )
    if isinstance(node, nodes.For):
        node.iter = _call("__each", [node.iter], node.lineno)


def _replaced(node: nodes.Node) -> nodes.Node:
    line = node.lineno
    match node:
        case nodes.Concat():
            return _call("__join", [nodes.List(node.nodes, lineno=line)], line)
        case nodes.Getitem() if isinstance(node.arg, nodes.Slice):
            bounds = [
                bound or nodes.Const(None)
                for bound in (node.arg.start, node.arg.stop, node.arg.step)
            ]
            return _call("__cut", [node.node, *bounds], line)
        case nodes.Compare():
            return _compare(node)
        case nodes.Call() if isinstance(node.node, nodes.Name) and node.node.name == "range":
            return _call("__range", node.args, line)
        case nodes.Call() if isinstance(node.node, nodes.Getattr):
            args = [node.node.node, nodes.Const(node.node.attr), *node.args]
            return _call("__method", args, line, node.kwargs)
    return node


def _compare(node: nodes.Compare) -> nodes.Node:
    """``a < b < c`` as ``a < b and b < c``: nothing that a template can read has side effects."""
    left, made = node.expr, list[nodes.Expr]()
    for operand in node.ops:
        made.append(_call("__compare", [nodes.Const(operand.op), left, operand.expr], node.lineno))
        left = operand.expr
    whole = made[0]
    for one in made[1:]:
        whole = nodes.And(whole, one, lineno=node.lineno)
    return whole


def _call(
    name: str, args: list[Any], line: int, named: list[nodes.Keyword] | None = None
) -> nodes.Call:
    assert name in CALLS or name == "__each"
    return nodes.Call(
        nodes.Name(name, "load", lineno=line), args, named or [], None, None, lineno=line
    )


def _reads(tree: nodes.Template) -> Iterator[Read]:
    """The variables and the keys of the state that ``tree`` reads, in the order of the text."""
    stored = {one.name for one in tree.find_all(nodes.Name) if one.ctx == "store"}
    guarded = {id(name) for part in _tested(tree) for name in (part, *part.find_all(nodes.Name))}
    for path, name in _paths(tree):
        if name.name not in stored and name.name not in OWN | {"range"}:
            yield Read((name.name,), name.lineno, id(name) not in guarded)
        elif name.name == "state" and "state" not in stored and len(path) > 1:
            yield Read(path, name.lineno, id(name) not in guarded)


def _paths(tree: nodes.Template) -> Iterator[tuple[tuple[str, ...], nodes.Name]]:
    """Each name that is loaded, with the keys that are read of it."""
    queue: list[tuple[nodes.Node, tuple[str, ...]]] = [(tree, ())]
    while queue:
        node, after = queue.pop()
        if isinstance(node, nodes.Name) and node.ctx == "load":
            yield (node.name, *after), node
        elif isinstance(node, nodes.Getattr):
            queue.append((node.node, (node.attr, *after)))
        elif isinstance(node, nodes.Call) and isinstance(node.node, nodes.Getattr):
            queue += [(child, ()) for child in (*node.args, *node.kwargs, node.node.node)][::-1]
        else:
            queue += [(child, ()) for child in node.iter_child_nodes()][::-1]


def _tested(tree: nodes.Template) -> Iterator[nodes.Node]:
    """The parts in which a name may have no value."""
    yield from tree.find_all((nodes.If, nodes.CondExpr))
    yield from tree.find_all(nodes.Test)
    for applied in tree.find_all(nodes.Filter):
        if applied.name in ("default", "d"):
            yield applied


def _in_lower_case(message: str) -> str:
    return f"{message[:1].lower()}{message[1:]}".rstrip(".")


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:200]
