"""The errors of functions and arguments that cannot be sent to a worker, with the part at fault."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...engine.threads.call_threads import name_of
from ...text.diagnostics import Diagnostic, StepError
from .functions import Program, dumped, dumped_by_value

HEAVY = 1_000_000
"""Bytes of a pickled function above which it is heavy: a warning says so."""

STAY = "@tool(where='thread') makes the calls of the tool in the kernel"


# --- errors ---


def unsendable_function(function: Callable[..., Any], error: BaseException) -> StepError:
    """The failure of calls whose function cannot be pickled."""
    part = ""
    for name, value in _used(function):
        if not _is_sendable(value, dump=dumped_by_value):
            part = f" uses {name!r}, which"
            break
    message = f"the function {name_of(function)!r}{part} cannot be sent to a worker: {_why(error)}"
    return StepError(Diagnostic("step.unsendable", message, hint=STAY))


def unsendable_arguments(
    program: Program, arguments: Mapping[str, Any], error: BaseException
) -> StepError:
    """The failure of a call whose arguments cannot be pickled."""
    function = name_of(program.function)
    for name, value in arguments.items():
        if not _is_sendable(value, program.modules):
            path, part = _part(value, program.modules)
            subject = f"{name + path if path else 'it'} is {_a(type(part).__name__)}"
            message = (
                f"the argument {name!r} of {function!r} cannot be sent to a worker: {subject} "
                f"({_why(error)})"
            )
            failure = StepError(Diagnostic("step.unsendable", message, hint=STAY))
            failure.arguments = frozenset({name})
            return failure
    message = f"the arguments of {function!r} cannot be sent to a worker: {_why(error)}"
    return StepError(Diagnostic("step.unsendable", message, hint=STAY))


def heavy_function(program: Program) -> Diagnostic:
    """The warning about a heavy function, with the name of the variable that makes it heavy."""
    function = name_of(program.function)
    sizes = {name: _size(value, program.modules) for name, value in _used(program.function)}
    sizes = {name: size for name, size in sizes.items() if size > HEAVY / 2}
    largest = max(sizes, key=lambda name: sizes[name], default="")
    why = f", because it uses {largest!r} ({sizes[largest] / 1e6:.1f} MB)" if largest else ""
    message = (
        f"the function {function!r} is sent to the workers with "
        f"{len(program.pickled) / 1e6:.1f} MB{why}"
    )
    hint = "let the tool read the data itself, or pass the path of a file as an argument"
    return Diagnostic("on.heavy", message, hint=hint, severity="warning")


def _size(value: Any, modules: Sequence[str]) -> int:
    """The bytes of a pickled value; 0 if it cannot be pickled."""
    try:
        return len(dumped_by_value(value, modules))
    except Exception:
        return 0


def _why(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"[:300]
    except BaseException:
        return type(error).__name__


def _a(name: str) -> str:
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _used(function: Any) -> Iterator[tuple[str, Any]]:
    """The names that a function uses, and their values."""
    inner = getattr(function, "__func__", function)
    code, globals_of_function = getattr(inner, "__code__", None), getattr(inner, "__globals__", {})
    for name, cell in zip(
        getattr(code, "co_freevars", ()), getattr(inner, "__closure__", None) or (), strict=False
    ):
        with contextlib.suppress(ValueError):  # empty
            yield name, cell.cell_contents
    for name in getattr(code, "co_names", ()):
        if name in globals_of_function:
            yield name, globals_of_function[name]


def _is_sendable(
    value: Any,
    modules: Sequence[str] = (),
    dump: Callable[[Any, Sequence[str]], bytes] = dumped,
) -> bool:
    """Whether a value can be pickled. ``dump``: pickles it; default: as an argument."""
    try:
        dump(value, modules)
    except Exception:
        return False
    return True


def _part(value: Any, modules: Sequence[str], most: int = 200) -> tuple[str, Any]:
    """The smallest part of a value that cannot be pickled, and its path: ``.rows[2].lock``.
    ``most``: the number of parts to try, after which the smallest one so far is returned."""
    path, seen = "", 0
    while True:
        for key, inner in _parts(value):
            seen += 1
            if seen > most:
                return path, value
            if not _is_sendable(inner, modules):
                path, value = path + key, inner
                break
        else:
            return path, value


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """The parts of a value, each with the path to it from the value."""
    if isinstance(value, Mapping):
        yield from ((f"[{key!r}]", inner) for key, inner in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"[{i}]", inner) for i, inner in enumerate(value))
    elif isinstance(attributes := getattr(value, "__dict__", None), dict):
        yield from ((f".{name}", inner) for name, inner in attributes.items())
