"""Reads the name, description, signature and kind of any callable that a user registers.

Functions, bound methods, partials, callable objects, classes and builtins are inspected in
different ways. The signature is read when a tool is registered. The model of the annotations is
built at first use: a later cell may define the types, and pydantic is imported only for calls.
"""

from __future__ import annotations

import functools
import inspect
import math
import sys
import types
import typing
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Literal, TypeAlias, TypeVar, get_args

from ...text.names import same_name
from .throttle import is_number

Where: TypeAlias = Literal["loop", "kernel", "thread", "worker"]
"""The place of a call: the engine's loop, the thread that waits for the run, another thread, a
worker of the run."""

Names: TypeAlias = list[str] | tuple[str, ...] | set[str] | frozenset[str] | str
"""Names for a decorator; a string is one name."""

F = TypeVar("F", bound=Callable[..., Any])

PLACES = get_args(Where)

_NO_FUNCTION = {
    "agent": "write the name as name=…; a model is agf.model_agent(NAME, model='openai:gpt-4o')"
}


def name_of(
    function: Callable[..., Any], kind: str, name: str | None, group: str | None = None
) -> str:
    """The name to register ``function`` under: ``name``, or its own; ``group`` makes
    ``group__name``. ``kind``: the decorator, ``tool``."""
    if not callable(function):
        hint = _NO_FUNCTION.get(kind, "write the name as name=…")
        raise TypeError(f"@{kind} needs a function, not {function!r}; {hint}")
    own_name = getattr(function, "__name__", None)
    if name is None:
        if isinstance(function, functools.partial) or own_name == "<lambda>":
            nameless = "a lambda" if own_name == "<lambda>" else "a partial"
            raise ValueError(f"{nameless} has no name: write {kind}(…, name=…)")
        name = own_name or type(function).__name__
    check_name(name, kind, "name")
    _refuse_shape(function, kind, name)
    if group is None:
        return same_name(name)
    check_name(group, kind, "group")
    return same_name(f"{group}__{name}")


def description_of(function: Callable[..., Any]) -> str:
    """The first line of the docstring; empty if there is none."""
    inner = _inner(function)
    if not inspect.isroutine(inner) and not inspect.isclass(inner):
        inner = inner if type(inner).__call__.__doc__ is None else type(inner).__call__
    lines = (inspect.getdoc(inner) or "").strip().splitlines()
    return lines[0].strip() if lines else ""


def is_async(function: Callable[..., Any]) -> bool:
    """Whether a call returns a coroutine."""
    inner = _inner(function)
    if inspect.iscoroutinefunction(inner):
        return True
    call = getattr(inner, "__call__", None)  # noqa: B004  # reads the method itself
    return not inspect.isclass(inner) and inspect.iscoroutinefunction(call)


def signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    """The signature of ``function``; None for a builtin without a signature (``math.log``)."""
    with suppress(ValueError):
        return inspect.signature(function)
    return None


def routine_of(function: Callable[..., Any]) -> Any:
    """The Python function from which the parameters are read. ``%autoreload`` replaces its code."""
    inner = inspect.unwrap(_inner(function))
    if inspect.isclass(inner):
        return inner.__init__
    return inner if inspect.isroutine(inner) else type(inner).__call__


def names_around(function: Callable[..., Any]) -> dict[str, Any]:
    """The globals in which the annotations of ``function`` are resolved."""
    inner = inspect.unwrap(_inner(function))
    if inspect.isclass(inner):
        return getattr(sys.modules.get(inner.__module__), "__dict__", {})
    if not hasattr(inner, "__globals__"):
        inner = inspect.unwrap(type(inner).__call__)
    globals_of_inner = getattr(inner, "__globals__", {})
    return globals_of_inner if isinstance(globals_of_inner, dict) else {}


def callable_by_name(
    function: Callable[..., Any], signature: inspect.Signature | None
) -> Callable[..., Any]:
    """``function``, wrapped so that its positional-only parameters can be passed by name."""
    parameters = list(signature.parameters.values()) if signature else []
    positional = [p for p in parameters if p.kind is p.POSITIONAL_ONLY]
    if not positional and parameters and _dispatches(function):
        positional = [p for p in parameters[:1] if p.kind is p.POSITIONAL_OR_KEYWORD]
    if not positional:
        return function

    def by_name(**arguments: Any) -> Any:
        first = [arguments.pop(p.name, p.default) for p in positional]
        return function(*first, **arguments)

    return by_name


def _dispatches(function: Callable[..., Any]) -> bool:
    """Whether ``function`` is a `functools.singledispatch`, which needs its first argument by
    position."""
    inner = _inner(function)
    return isinstance(inner, types.FunctionType) and hasattr(inner, "dispatch")


def resolve(annotation: object, names: Mapping[str, Any]) -> Any:
    """An annotation without texts in it; None if it cannot be resolved yet. ``names``: the globals of
    the function."""
    # To resolve an annotation runs user code.
    with suppress(Exception):
        holder = types.SimpleNamespace(__annotations__={"it": annotation})
        return typing.get_type_hints(holder, dict(names), include_extras=True)["it"]
    return None


def options_of(
    parameter: inspect.Parameter, names: dict[str, Any]
) -> dict[str, inspect.Parameter] | None:
    """The parameters that ``**options: Unpack[Options]`` stands for, by the fields of the typed
    dict; None for any other annotation, and for one that cannot be resolved yet."""
    annotation = parameter.annotation
    # Only a text is searched: Python 3.11 writes ``Unpack[Options]`` as ``*Options``.
    if not _is_unpack(annotation) and "Unpack" not in str(annotation):
        return None
    # To read a typed dict resolves its annotations.
    with suppress(Exception):
        hint = resolve(parameter.annotation, names)
        (kind,) = typing.get_args(hint)
        if _is_unpack(hint) and hasattr(kind, "__required_keys__"):
            hints = typing.get_type_hints(kind, include_extras=True)
            return {name: _option(name, hints[name], kind) for name in hints}
    return None


def _is_unpack(annotation: object) -> bool:
    """Whether an annotation is ``Unpack[…]``, of typing or of typing_extensions."""
    name = getattr(typing.get_origin(annotation), "_name", None)
    return name == "Unpack" or type(annotation).__name__ == "_UnpackAlias"


EXTRAS = "**"
"""The name that stands for all arguments that ``**options: T`` accepts."""

UNSET = object()
"""The default of an option that may be left out."""


def _option(name: str, hint: Any, kind: Any) -> inspect.Parameter:
    is_required = name in kind.__required_keys__
    # `__required_keys__` misses these words in annotations that are texts.
    while (word := typing.get_origin(hint)) in (typing.Required, typing.NotRequired):
        is_required = word is typing.Required
        (hint,) = typing.get_args(hint)
    default = inspect.Parameter.empty if is_required else UNSET
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def check_limits(where: object, timeout: Any) -> None:
    """Raise TypeError or ValueError for a wrong place or time."""
    if where is not None and where not in PLACES:
        raise ValueError(f"where must be one of {', '.join(map(repr, PLACES))}, got {where!r}")
    if timeout is None:
        return
    if not is_number(timeout):
        raise TypeError(f"timeout must be a number of seconds, got {timeout!r}")
    if not (math.isfinite(timeout) and timeout > 0):
        raise ValueError(f"timeout must be a number of seconds above 0, got {timeout!r}")


def as_names(names: object, option: str) -> tuple[str, ...]:
    """The names for an option; a string is one name, not its letters."""
    if isinstance(names, str):
        return (same_name(names),)
    listed = names if isinstance(names, (list, tuple, set, frozenset)) else (None,)
    if not all(isinstance(name, str) for name in listed):
        raise TypeError(f"{option} must be a list of names, got {names!r}")
    return tuple(dict.fromkeys(map(same_name, listed)))


def check_name(name: object, kind: str, word: str) -> None:
    """Raise TypeError or ValueError for a ``name`` that no definition could write."""
    if not isinstance(name, str):
        raise TypeError(f"the {word} of {kind} must be text, not {name!r}")
    if not name or any(c.isspace() or not c.isprintable() for c in name):
        raise ValueError(
            f"the {word} of {kind} must be text without spaces, not {name!r}: write 'fetch_page'"
        )


def _refuse_shape(function: Callable[..., Any], kind: str, name: str) -> None:
    """Raise ValueError for a generator, and for an unbound method."""
    inner = _inner(function)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise ValueError(
            f"{kind} {name!r} yields, but a call has one result: return a list instead"
        )
    if isinstance(inner, types.FunctionType):
        around = inner.__qualname__.rpartition(".")[0]
        first = next(iter(inspect.signature(inner).parameters), None)
        if first in ("self", "cls") and around and not around.endswith("<locals>"):
            raise ValueError(
                f"{around}.{name} is not bound to an object: register a bound method, "
                f"{kind}(obj.{name})"
            )


def _inner(function: Callable[..., Any]) -> Any:
    """The function inside of partials."""
    while isinstance(function, functools.partial):
        function = function.func
    return function
