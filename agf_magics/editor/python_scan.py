"""Finds the tools and agents that a Python text registers, without importing or running it.

A function becomes a stand-in with the same parameters. A default that is computed becomes None. An
annotation that is not one of Python's own types is left out. So the stand-in accepts more than the
function, never less.
"""

from __future__ import annotations

import ast
import inspect
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from ..catalog import Registry, ToolContext
from ..catalog.decorators import agent, model_agent, policy, tool, transform
from .python_cells import UNREADABLE, tree_of

Function = ast.FunctionDef | ast.AsyncFunctionDef

DECORATORS: Mapping[str, Callable[..., Any]] = {
    "tool": tool,
    "agent": agent,
    "transform": transform,
    "policy": policy,
    "model_agent": model_agent,
}
"""The functions of this package that register something, by their names."""

NAMED_FIRST = ("transform", "policy", "model_agent")
"""The functions that accept the name of the registered thing as the first argument."""

KEPT = ("name", "group", "secret", "tools", "default", "where", "timeout", "reuse")
"""Options that a check of a definition depends on."""

TYPES: Mapping[str, Any] = {
    **{kind.__name__: kind for kind in (int, float, str, bool, bytes, list, dict, tuple, set)},
    **{name: getattr(typing, name) for name in ("Any", "Literal", "Optional", "Union")},
    "Mapping": Mapping,
    "Sequence": Sequence,
    "Iterable": Iterable,
    "ToolContext": ToolContext,
}
"""Annotations that are kept, by the names that everybody gives them."""

REGISTERING = ("registry", "define", "mcp")
"""Other words of the package by which a program registers something."""

READING = ("get", "keys", "values", "items")
"""Methods of the registry that only look at it."""


class Registered(NamedTuple):
    """Something that a text registers."""

    kind: str
    """A word of `DECORATORS`; empty: only the running program knows what is registered."""
    name: str | None
    """The name; None: only the running program knows it."""
    line: int
    """From 0."""
    column: int
    """The column in bytes of UTF-8, as Python counts."""
    width: int
    part: int = 0
    """The number of the program's part."""


def scan_python(text: str, registry: Registry) -> list[Registered]:
    """`scan_program` of one text. A text that Python cannot read registers nothing."""
    tree = tree_of(text)
    return scan_program([tree], registry) if tree is not None else []


def scan_program(parts: Sequence[ast.Module], registry: Registry) -> list[Registered]:
    """Put stand-ins for the things that a program registers into ``registry``. ``parts``: its cells
    in order, or one file. Imports and definitions of one part hold in all parts."""
    names = dict[str, str]()
    functions = dict[str, Function]()
    for tree in parts:
        for node in ast.walk(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                names |= _imported(node)
            elif isinstance(node, Function):
                functions[node.name] = node
    registered = list[Registered]()
    for number, tree in enumerate(parts if names else ()):
        of_part = _scan_part(tree, names, functions, registry)
        registered += (found_name._replace(part=number) for found_name in of_part)
    return registered


def _scan_part(
    tree: ast.Module,
    names: Mapping[str, str],
    functions: Mapping[str, Function],
    registry: Registry,
) -> Iterator[Registered]:
    """The things that the decorators and calls of a part of the text register. An entry without a
    kind stands for things that only the running program knows."""
    decorators = set[int]()
    for node in ast.walk(tree):
        if isinstance(node, Function):
            for decorator in node.decorator_list:
                decorators.add(id(decorator))
                yield from _by_call(decorator, node, names, registry)
        elif isinstance(node, ast.Call) and id(node) not in decorators:
            first = node.args[0] if node.args else None
            function = functions.get(first.id) if isinstance(first, ast.Name) else None
            yield from _by_call(node, function, names, registry)
            if _hands_on(node, names):
                yield _place("", None, None, node)


def _imported(node: ast.Import | ast.ImportFrom) -> Mapping[str, str]:
    """The words of this package by their names in the text: ``{"tool": "tool", "agf": ""}``."""
    if isinstance(node, ast.Import):
        package_aliases = (alias for alias in node.names if alias.name == "agf_magics")
        return {alias.asname or alias.name: "" for alias in package_aliases}
    words = dict[str, str]()
    for alias in node.names if node.module == "agf_magics" else ():
        if alias.name == "*":
            words |= {word: word for word in (*DECORATORS, *REGISTERING)}
        elif alias.name in DECORATORS or alias.name in REGISTERING:
            words[alias.asname or alias.name] = alias.name
    return words


def _hands_on(call: ast.Call, names: Mapping[str, str]) -> bool:
    """Whether a call registers things that only the running program knows: the tools of a server, a
    model, a definition, or anything that a function does with the registry."""
    arguments = [*call.args, *(word.value for word in call.keywords if word.arg != "registry")]
    if any(_word_of(argument, names) == "registry" for argument in arguments):
        return True
    called = call.func
    while isinstance(called, ast.Attribute | ast.Subscript):
        if _word_of(called, names) in REGISTERING:
            return isinstance(call.func, ast.Attribute) and call.func.attr not in READING
        called = called.value
    return _word_of(called, names) in REGISTERING


def _by_call(
    called: ast.expr, function: Function | None, names: Mapping[str, str], registry: Registry
) -> Iterator[Registered]:
    """The thing that a decorator, or a call such as ``tool(fetch)``, registers; nothing if it is
    foreign, or registers in another registry."""
    call = called if isinstance(called, ast.Call) else None
    kind = _word_of(call.func if call else called, names)
    if kind not in DECORATORS or (call is not None and _is_elsewhere(call, names)):
        return
    options = _options(call) if call is not None else {}
    if options is not None and kind in NAMED_FIRST and call is not None and call.args:
        first = call.args[0]
        is_function = isinstance(first, ast.Name) and function and first.id == function.name
        written = _literal(first)
        if isinstance(written, str):
            options |= {"name": written}
        elif not is_function:
            options = None  # the name is computed
    if function is None and call is not None and not call.args and options == {}:
        return  # the call makes a decorator, which is found above its function
    name = _put(kind, options, function, registry) if options is not None else None
    yield _place(kind, name, function, called)


def _put(
    kind: str, options: Mapping[str, Any], function: Function | None, registry: Registry
) -> str | None:
    """Register a stand-in, and return its name; None: only the running program knows the name, or
    the cell will report an error when it is run."""
    name = options.get("name") or (function.name if function is not None else "")
    if not isinstance(name, str) or not name:
        return None
    stand_in = _stand_in(function) if function is not None else _anything(kind)
    with suppress(TypeError, ValueError):
        # Their other options change nothing that a check of a definition depends on.
        if kind == "model_agent":
            model_agent(name, registry=registry)
        elif kind == "policy":
            policy(name, registry=registry)(stand_in)
        else:
            DECORATORS[kind](stand_in, **options, registry=registry)
        return f"{options['group']}__{name}" if options.get("group") else name
    return None


def _is_elsewhere(call: ast.Call, names: Mapping[str, str]) -> bool:
    """Whether the call registers in another registry."""
    return any(
        word.arg == "registry" and _word_of(word.value, names) != "registry"
        for word in call.keywords
    )


def _place(kind: str, name: str | None, function: Function | None, called: ast.expr) -> Registered:
    """A registered thing, at the name of its function, or else at the call."""
    if function is not None:
        word = len("async def ") if isinstance(function, ast.AsyncFunctionDef) else len("def ")
        return Registered(
            kind, name, function.lineno - 1, function.col_offset + word, len(function.name)
        )
    is_one_line = called.end_lineno == called.lineno and called.end_col_offset is not None
    width = called.end_col_offset - called.col_offset if is_one_line else 1  # type: ignore[operator]
    return Registered(kind, name, called.lineno - 1, called.col_offset, width)


def _word_of(called: ast.expr, names: Mapping[str, str]) -> str:
    """The word of the package that an expression is: ``tool`` for ``agf.tool``; empty: it is
    none."""
    match called:
        case ast.Name(id=name):
            return names.get(name, "")
        case ast.Attribute(value=ast.Name(id=package), attr=name) if names.get(package) == "":
            return name if name in DECORATORS or name in REGISTERING else ""
    return ""


def _options(call: ast.Call) -> dict[str, Any] | None:
    """The options that are literals; None if the name is computed."""
    if any(word.arg is None for word in call.keywords):
        return None
    options = {word.arg: _literal(word.value) for word in call.keywords if word.arg in KEPT}
    if any(options.get(word) is ... for word in ("name", "group")):
        return None
    return {str(word): value for word, value in options.items() if value is not ...}


def _literal(node: ast.expr) -> Any:
    """The value of a literal; ``...`` for everything else."""
    try:
        return ast.literal_eval(node)
    except UNREADABLE:
        return ...


def _anything(kind: str) -> Callable[..., Any]:
    """A stand-in for a callable that is not in the text."""

    def of_arguments(**values: Any) -> None: ...
    def of_one(value: Any) -> None: ...

    return of_arguments if kind == "tool" else of_one


def _stand_in(function: Function) -> Callable[..., Any]:
    """A function that does nothing, with the parameters and the docstring of ``function``."""

    def called(*values: Any, **named: Any) -> None: ...
    async def awaited(*values: Any, **named: Any) -> None: ...

    stand_in: Any = awaited if isinstance(function, ast.AsyncFunctionDef) else called
    stand_in.__name__ = stand_in.__qualname__ = function.name
    stand_in.__doc__ = ast.get_docstring(function)
    stand_in.__signature__ = inspect.Signature(
        list(_parameters(function.args)), return_annotation=_annotation(function.returns)
    )
    stand_in.__annotations__ = {}
    return stand_in  # type: ignore[no-any-return]


def _parameters(arguments: ast.arguments) -> Iterator[inspect.Parameter]:
    """The parameters of a function, in the order of a signature."""
    kinds = inspect.Parameter
    positional = [
        *((argument, kinds.POSITIONAL_ONLY) for argument in arguments.posonlyargs),
        *((argument, kinds.POSITIONAL_OR_KEYWORD) for argument in arguments.args),
    ]
    without_default = len(positional) - len(arguments.defaults)
    defaults = [*[None] * without_default, *arguments.defaults]
    for (argument, kind), default in zip(positional, defaults, strict=True):
        yield _parameter(argument, kind, default)
    if arguments.vararg:
        yield kinds(arguments.vararg.arg, kinds.VAR_POSITIONAL)
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _parameter(argument, kinds.KEYWORD_ONLY, default)
    if arguments.kwarg:
        yield _parameter(arguments.kwarg, kinds.VAR_KEYWORD, None)


def _parameter(argument: ast.arg, kind: Any, default: ast.expr | None) -> inspect.Parameter:
    """A parameter. Its default is None if the text computes the default."""
    value: Any = inspect.Parameter.empty
    if default is not None:
        written = _literal(default)
        value = None if written is ... else written
    annotation = _annotation(argument.annotation)
    return inspect.Parameter(argument.arg, kind, default=value, annotation=annotation)


def _annotation(node: ast.expr | None) -> Any:
    """The type of an annotation that consists of `TYPES` and literals; otherwise no annotation."""
    try:
        return inspect.Parameter.empty if node is None else _type(node)
    except (LookupError, *UNREADABLE):
        return inspect.Parameter.empty


def _type(node: ast.expr) -> Any:
    """The type that an expression means. Raises LookupError for a type that `TYPES` does not
    have."""
    match node:
        case ast.Constant(value=None):
            return None
        case ast.Constant(value=str() as text):  # a postponed annotation
            [statement] = ast.parse(text.strip()).body
            if isinstance(statement, ast.Expr) and not isinstance(statement.value, ast.Constant):
                return _type(statement.value)
        case ast.Attribute(attr="ToolContext"):  # agf.ToolContext, whatever agf is called
            return ToolContext
        case ast.Name(id=name) | ast.Attribute(value=ast.Name(id="typing"), attr=name):
            return TYPES[name]
        case ast.Subscript(value=ast.Name(id="Literal"), slice=inner):
            return typing.Literal[ast.literal_eval(inner)]
        case ast.Subscript(value=outer, slice=ast.Tuple(elts=parts)):
            return _type(outer)[tuple(map(_part, parts))]
        case ast.Subscript(value=outer, slice=inner):
            return _type(outer)[_part(inner)]
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return typing.Union[_type(left), _type(right)]  # noqa: UP007 - values, not a type
    raise LookupError(node)


def _part(node: ast.expr) -> Any:
    return ... if isinstance(node, ast.Constant) and node.value is ... else _type(node)
