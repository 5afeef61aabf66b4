"""Programs, elements and answers as bytes, with rules for what `pickle` and cloudpickle do not send
well.

A function of this package that has no name of its own (a lambda of a language) is sent as its code
and its closure, and uses the globals of its module on the worker: a copy of them would have other
sentinels, and `is` would fail. A source is sent once, and answers name it by its number. A failure
keeps its cause, which Python's own pickle drops.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import marshal
import pickle
import re
import sys
import types
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import Any

from ..catalog import origins
from ..catalog.arguments import Arguments
from ..catalog.callables import names_around
from ..text.diagnostics import StepError
from ..text.source import Source
from .chunk import described, reduce_exception
from .remote_traceback import raised_there
from .sending import ByName, by_value

PACKAGE = __name__.partition(".")[0]

WORD = re.compile(r"[^\W\d]\w*")

_sources: ContextVar[Sequence[Source]] = ContextVar("sources", default=())
"""The sources that numbers mean while an answer is read."""


class Unreadable(Exception):
    """A program means something else on this worker than in the kernel."""


# --- programs ---


def dump_program(program: Any, modules: Sequence[str]) -> bytes:
    """A program; the notebook's own ``modules`` travel by value. Raises whatever pickling
    raises."""
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, thing: Any) -> Any:
            reduced = _reduce_program(thing)
            return super().reducer_override(thing) if reduced is NotImplemented else reduced

    return _cloudpickled(Pickler, program, modules)


def _cloudpickled(pickler: Any, value: Any, modules: Sequence[str]) -> bytes:
    file = io.BytesIO()
    with by_value([sys.modules[name] for name in modules if name in sys.modules]):
        pickler(file, protocol=5).dump(value)
    return file.getvalue()


def _reduce_program(thing: Any) -> Any:
    kind = type(thing)
    if kind is types.FunctionType and _is_nameless(thing):
        return _reduce_function(thing)
    if kind is Arguments:
        return _reduce_arguments(thing)
    return NotImplemented


def _is_nameless(function: types.FunctionType) -> bool:
    """Whether a function of this package cannot be imported by its name."""
    module = function.__globals__.get("__name__")
    if not isinstance(module, str) or module.partition(".")[0] != PACKAGE:
        return False
    return (
        "<" in function.__qualname__
        or getattr(sys.modules.get(module), function.__qualname__, None) is not function
    )


def _reduce_function(function: types.FunctionType) -> Any:
    module = function.__globals__["__name__"]
    cells = tuple(_content(cell) for cell in function.__closure__ or ())
    state = (
        function.__defaults__,
        function.__kwdefaults__,
        cells,
        function.__dict__,
        function.__name__,
    )
    code = marshal.dumps(function.__code__)
    return (
        _new_function,
        (module, code, function.__qualname__, len(cells)),
        state,
        None,
        None,
        _fill_function,
    )


def _content(cell: Any) -> tuple[Any, ...]:
    try:
        return (cell.cell_contents,)
    except ValueError:  # not bound yet
        return ()


def _new_function(module: str, code: bytes, qualname: str, cells: int) -> types.FunctionType:
    found = vars(importlib.import_module(module))
    closure = tuple(types.CellType() for _ in range(cells)) or None
    function = types.FunctionType(marshal.loads(code), found, None, None, closure)
    function.__qualname__, function.__module__ = qualname, module
    return function


def _fill_function(function: types.FunctionType, state: Any) -> None:
    function.__defaults__, function.__kwdefaults__, cells, attributes, function.__name__ = state
    function.__dict__.update(attributes)
    for cell, content in zip(function.__closure__ or (), cells, strict=True):
        if content:
            cell.cell_contents = content[0]


def _reduce_arguments(arguments: Arguments) -> Any:
    """What makes them, and what the worker must find: another schema would check other things."""
    function = arguments._function
    more = dict(_annotated(function))
    given = (function, arguments._what, arguments.secret, arguments._unchecked)
    return _read_arguments, (*given, more, arguments.schema, arguments.problems)


def _read_arguments(
    function: Any,
    what: str,
    secret: Any,
    unchecked: Any,
    names: dict[str, Any],
    schema: Any,
    problems: Any,
) -> Arguments:
    around = names_around(function)
    for name, value in names.items():
        around.setdefault(name, value)
    made = Arguments(function, what, secret=secret, unchecked=unchecked)
    if made.schema != schema or made.problems != problems:
        raise Unreadable(f"the annotations of {what} mean something else here")
    return made


def _annotated(function: Any) -> Iterator[tuple[str, Any]]:
    """The globals that annotations of a notebook's function name in texts: cloudpickle does not see
    them."""
    around = names_around(function)
    if not origins.is_ours(str(around.get("__name__", "builtins"))):
        return
    inner = getattr(function, "__func__", function)
    for annotation in (getattr(inner, "__annotations__", None) or {}).values():
        for word in WORD.findall(annotation) if isinstance(annotation, str) else ():
            if word in around:
                yield word, around[word]


# --- elements and answers ---


def dump_plain(value: Any, sources: Sequence[Source] = (), modules: Sequence[str] = ()) -> bytes:
    """Elements, or an answer: plain pickle, and cloudpickle for what only this process knows, such
    as the notebook's own ``modules``."""
    numbers = {id(source): number for number, source in enumerate(sources)}

    def reduce(thing: Any) -> Any:
        if isinstance(thing, StepError):
            return _reduce_error(thing)
        if type(thing) is Source and id(thing) in numbers:
            return _source, (numbers[id(thing)],)
        return reduce_exception(thing)

    class Plain(ByName):
        def reducer_override(self, thing: Any) -> Any:
            reduced = reduce(thing)
            return super().reducer_override(thing) if reduced is NotImplemented else reduced

    with contextlib.suppress(Exception):  # cloudpickle may send it
        file = io.BytesIO()
        Plain(file, modules).dump(value)
        return file.getvalue()
    import cloudpickle

    class Cloud(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, thing: Any) -> Any:
            reduced = reduce(thing)
            return super().reducer_override(thing) if reduced is NotImplemented else reduced

    return _cloudpickled(Cloud, value, modules)


def load_plain(data: bytes, sources: Sequence[Source] = ()) -> Any:
    before = _sources.set(sources)
    try:
        return pickle.loads(data)
    finally:
        _sources.reset(before)


def _source(number: int) -> Source:
    return _sources.get()[number]


def _reduce_error(error: StepError) -> Any:
    cause = error.__cause__
    packed = described(cause, dump_plain) if cause is not None else None
    state = (
        *(error.path, error.where, error.arguments, error.partial),
        *(error.is_unknown_name, packed),
    )
    return _new_error, (type(error), tuple(error.diagnostics)), state, None, None, _fill_error


def _new_error(kind: Any, diagnostics: tuple[Any, ...]) -> StepError:
    if not (isinstance(kind, type) and issubclass(kind, StepError)):
        raise TypeError("a failure is a StepError")
    error = kind.__new__(kind, *diagnostics)  # a subclass of a user has an __init__ of its own
    error.diagnostics = diagnostics
    return error


def _fill_error(error: StepError, state: tuple[Any, ...]) -> None:
    path, error.where, arguments, partial, is_unknown_name, packed = state
    error.path = path
    if is_unknown_name is True:
        error.is_unknown_name = True
    if arguments:
        error.arguments = arguments
    if partial is not None:
        error.partial = partial
    if packed is not None:
        error.__cause__ = raised_there(*packed)
