"""What is read of any callable: its name, description, parameters, and where it may run.

Functions, bound methods, partials, callable objects, classes and builtins are inspected in
different ways: their name, their description, their signature, and whether they are async. The
signature is read when a tool is registered. The model of its annotations is built when it is first
needed: a later cell may define the types, and pydantic is imported only for calls.
"""

from __future__ import annotations

import functools
import inspect
import math
import sys
import types
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Literal, TypeAlias, TypeVar, get_args

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
    function: Callable[..., Any], what: str, name: str | None, group: str | None = None
) -> str:
    """The name to register ``function`` under: the one that is given, or its own; ``group`` makes
    ``group__name``."""
    if not callable(function):
        hint = _NO_FUNCTION.get(what, "write the name as name=…")
        raise TypeError(f"@{what} needs a function, not {function!r}; {hint}")
    own = getattr(function, "__name__", None)
    if name is None:
        if isinstance(function, functools.partial) or own == "<lambda>":
            kind = "a lambda" if own == "<lambda>" else "a partial"
            raise ValueError(f"{kind} has no name: write {what}(…, name=…)")
        name = own or type(function).__name__
    checked_name(name, what, "name")
    _refuse_shape(function, what, name)
    if group is None:
        return name
    checked_name(group, what, "group")
    return f"{group}__{name}"


def description_of(function: Callable[..., Any]) -> str:
    """The first line of its docstring; empty without one."""
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
    call = getattr(inner, "__call__", None)  # noqa: B004  # a method, not whether there is one
    return not inspect.isclass(inner) and inspect.iscoroutinefunction(call)


def signature_of(function: Callable[..., Any]) -> inspect.Signature | None:
    """None for a builtin without one (``math.log``)."""
    with suppress(ValueError):
        return inspect.signature(function)
    return None


def routine_of(function: Callable[..., Any]) -> Any:
    """The function that its parameters are read of. A module that is loaded again gives it another
    code."""
    inner = inspect.unwrap(_inner(function))
    if inspect.isclass(inner):
        return inner.__init__
    return inner if inspect.isroutine(inner) else type(inner).__call__


def names_around(function: Callable[..., Any]) -> dict[str, Any]:
    """The globals that its annotations use."""
    inner = inspect.unwrap(_inner(function))
    if inspect.isclass(inner):
        return getattr(sys.modules.get(inner.__module__), "__dict__", {})
    if not hasattr(inner, "__globals__"):
        inner = inspect.unwrap(type(inner).__call__)
    found = getattr(inner, "__globals__", {})
    return found if isinstance(found, dict) else {}


def callable_by_name(
    function: Callable[..., Any], signature: inspect.Signature | None
) -> Callable[..., Any]:
    """``function``, wrapped if it has positional-only parameters, so that it can be called by
    names."""
    positional = (
        [p for p in signature.parameters.values() if p.kind is p.POSITIONAL_ONLY]
        if signature
        else []
    )
    if not positional:
        return function

    def by_name(**given: Any) -> Any:
        first = [given.pop(p.name, p.default) for p in positional]
        return function(*first, **given)

    return by_name


def checked_limits(where: object, timeout: Any) -> None:
    """Raise TypeError or ValueError for a wrong place or time."""
    if where is not None and where not in PLACES:
        raise ValueError(f"where must be one of {', '.join(map(repr, PLACES))}, got {where!r}")
    if timeout is None:
        return
    if not is_number(timeout):
        raise TypeError(f"timeout must be a number of seconds, got {timeout!r}")
    if not (math.isfinite(timeout) and timeout > 0):
        raise ValueError(f"timeout must be a number of seconds above 0, got {timeout!r}")


def checked_names(names: object, option: str) -> tuple[str, ...]:
    """The names for an option; a string is one name, not its letters."""
    if isinstance(names, str):
        return (names,)
    if not isinstance(names, (list, tuple, set, frozenset)) or not all(
        isinstance(n, str) for n in names
    ):
        raise TypeError(f"{option} must be a list of names, got {names!r}")
    return tuple(dict.fromkeys(names))


def checked_name(name: object, what: str, word: str) -> None:
    if not isinstance(name, str):
        raise TypeError(f"the {word} of {what} must be text, not {name!r}")
    if not name or any(c.isspace() or not c.isprintable() for c in name):
        raise ValueError(
            f"the {word} of {what} must be text without spaces, not {name!r}: write 'fetch_page'"
        )


def _refuse_shape(function: Callable[..., Any], what: str, name: str) -> None:
    inner = _inner(function)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        raise ValueError(
            f"{what} {name!r} yields, but a call has one result: return a list instead"
        )
    if isinstance(inner, types.FunctionType):
        around = inner.__qualname__.rpartition(".")[0]
        first = next(iter(inspect.signature(inner).parameters), None)
        if first in ("self", "cls") and around and not around.endswith("<locals>"):
            raise ValueError(
                f"{around}.{name} is not bound to an object: register a bound method, "
                f"{what}(obj.{name})"
            )


def _inner(function: Callable[..., Any]) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function
