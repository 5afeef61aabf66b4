"""Functions and arguments as bytes for a worker, and the errors of those that cannot be sent.

A function of the notebook or of a file that is not installed travels by value, with what it uses;
one of an installed package by its name. cloudpickle is imported when the first function is sent.

The traceback of an exception on its worker, as its cause: with it, Python and IPython show where
the tool failed.

What the kernel has and a worker does not: a module (the failure ``step.worker-lacks``),
flows.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import io
import linecache
import operator
import os
import pickle
import re
import sys
import sysconfig
import tempfile
import threading
import types
import weakref
from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, lru_cache
from importlib.util import find_spec
from typing import Any, NamedTuple, TypeGuard

from ..catalog.digests import is_ours
from ..engine.user_code import name_of
from ..journal.codec import bytes_of_data
from ..text.diagnostics import Diagnostic, StepError
from .chunk import ByName, reduce_exception

_PACKAGE = __name__.partition(".")[0]
_registry = threading.RLock()
"""Held while modules are registered: cloudpickle has one registry for the process."""

HEAVY = 1_000_000
"""Bytes from which on a function is heavy."""

STAY = "@tool(where='thread') makes the calls of the tool in the kernel"


class Program:
    """A function as bytes, for all its calls in one run."""

    __slots__ = ("digest", "function", "modules", "pickled")

    def __init__(self, function: Callable[..., Any]) -> None:
        """Raises what pickling raises."""
        self.function = function
        self.modules = own_modules()
        self.pickled = dumped_by_value(function, self.modules)
        self.digest = hashlib.sha256(self.pickled).hexdigest()

    def pack(self, given: Sequence[Mapping[str, Any]], shared: SharedData | None = None) -> bytes:
        """The arguments of calls. An object that several of them share is written once; ``shared``
        has the large ones, of which each call gets a copy."""
        if shared is not None:
            given = [{name: shared.apart(value) for name, value in each.items()} for each in given]
        return dumped(given, self.modules)


def own_modules() -> list[str]:
    """The loaded modules that are the notebook's own."""
    # dict.copy() is one step for other threads; list(dict.items()) makes tuples, so that the garbage
    # collector may run in it, and another thread import a module.
    loaded = sys.modules.copy()
    return [
        name
        for name, module in loaded.items()
        if isinstance(module, types.ModuleType) and _is_own(name, module)
    ]


@lru_cache(maxsize=4096)
def _is_own(name: str, module: types.ModuleType) -> bool:
    # By the module too: another one with this name may be in its place later. Asking for each of
    # 1,700 modules took a third of the time in which a run of few calls starts.
    return name != "__main__" and is_ours(name)


LARGE = 200_000
"""Bytes from which on an array or a table travels in a file."""


class SharedData:
    """The large arrays and tables that calls of one fan-out get. Each is written to a file once,
    which a worker of this machine maps; a page that a call changes becomes its own. The file goes
    with the value: a sequence whose elements are dropped needs no more room here than in memory.

    A fan-out sends what it had when it was first needed: its calls are concurrent, so that none of
    them can rely on what another one does to its arguments."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._known: dict[int, tuple[weakref.ref[Any], str]] = {}

    def apart(self, value: Any) -> Any:
        """What travels for an argument: itself, if it is small."""
        if bytes_of_data(value) < LARGE:
            return value
        # By identity, and not by content: comparing large arrays costs more than writing
        # one again.
        key = id(value)
        if key not in self._known:
            path = write_apart(value, self._folder)
            # Weak: the file must not keep a table of 1 GB in memory, and its id is free
            # once it is gone.
            self._known[key] = weakref.ref(value, lambda _: self._forget(key)), path
        return Later(_MAPPED, self._known[key][1])

    def _forget(self, key: int) -> None:
        with contextlib.suppress(KeyError, OSError):
            # Windows: a worker still maps it; the folder goes at our end.
            os.unlink(self._known.pop(key)[1])

    def close(self) -> None:
        for key in list(self._known):
            self._forget(key)


def write_apart(value: Any, folder: str) -> str:
    """Write ``value`` to a new file, its buffers as they are and at places that fit any type: see
    `chunk._mapped`."""
    buffers: list[pickle.PickleBuffer] = []
    head = pickle.dumps(value, 5, buffer_callback=buffers.append)
    views = [buffer.raw() for buffer in buffers]
    sizes = [view.nbytes for view in views]
    # For this user only, with a name that nobody can guess.
    number, path = tempfile.mkstemp(dir=folder)
    with os.fdopen(number, "wb") as file:
        index = pickle.dumps((head, sizes), 5)
        file.write(len(index).to_bytes(8, "little") + index)
        for view in views:
            file.seek(-file.tell() % ALIGNED, os.SEEK_CUR)
            file.write(view)
    return path


ALIGNED = 64
"""Bytes; `chunk._mapped` knows it too."""


class Later:
    """What pickle reads as ``make(*parts)``, without our package: the parts, and what makes them,
    may be `Later` too. One object for each call that must have a value of its own: pickle writes
    an object that calls share only once."""

    def __init__(self, make: Callable[..., Any], *parts: Any) -> None:
        self.make, self.parts = make, parts

    def __call__(self) -> None:
        """Pickle asks for something that can be called."""

    def __reduce__(self) -> Any:
        return self.make, self.parts


_MAPPED = Later(operator.attrgetter("mapped"), Later(importlib.import_module, "_agf_chunk"))
"""On a worker `chunk._mapped`, which that has put into its module."""

PYTHON = sysconfig.get_python_version()
"""``3.12``."""

_LOADS = Later(operator.getitem, {PYTHON: pickle.loads}, Later(sysconfig.get_python_version))
"""On a worker ``pickle.loads``, or a KeyError if it has another minor version of Python: the
compiled code of a function can crash it. Pickle evaluates this before it gets to the code."""


def dumped(
    value: Any, modules: Sequence[str], reduce: Callable[[Any], Any] = reduce_exception
) -> bytes:
    """Plain pickle, and cloudpickle for what only this process knows, such as the notebook's own
    ``modules``. ``reduce``: asked first."""
    with contextlib.suppress(Exception):
        file = io.BytesIO()
        pickler = ByName(file, 5)
        pickler.own, pickler.reduce = {"__main__", *modules}, reduce
        pickler.dump(value)
        return file.getvalue()
    return dumped_by_value(value, modules, asking(by_value_pickler(), reduce))


def asking(pickler: Any, reduce: Callable[[Any], Any]) -> Any:
    """A pickler that asks ``reduce`` first."""

    class Asking(pickler):  # type: ignore[misc]
        def reducer_override(self, thing: Any) -> Any:
            reduced = reduce(thing)
            return super().reducer_override(thing) if reduced is NotImplemented else reduced

    return Asking


def dumped_by_value(
    value: Any, modules: Sequence[str], pickler: Any = None, most: int = sys.maxsize
) -> bytes:
    """``pickler``: default `by_value_pickler`. Raises ValueError as soon as there are more than
    ``most`` bytes."""
    file = _Bounded(most)
    with by_value([sys.modules[name] for name in modules if name in sys.modules]):
        (pickler or by_value_pickler())(file, 5, file.has_room).dump(value)
    return file.getvalue()


class _Bounded(io.BytesIO):
    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def write(self, data: Any) -> int:
        self.has_room(data)
        return super().write(data)

    def has_room(self, data: Any) -> bool:
        """True, or ValueError. Pickle asks it before it copies the data of an array."""
        if self.tell() + memoryview(data).nbytes > self._most:
            raise ValueError(f"it has more than {self._most:,} bytes")
        return True


@cache
def by_value_pickler() -> Any:
    """cloudpickle's class, for code with its file: the traceback of a worker names the cell."""
    import cloudpickle

    table = cloudpickle.Pickler.dispatch_table

    def reduced(code: types.CodeType) -> Any:
        make, parts = table[types.CodeType](code)
        # What cloudpickle 3.1.3 writes instead of the file.
        return make, tuple(code.co_filename if part == "<dynamic-code>" else part for part in parts)

    own = {"dispatch_table": ChainMap({types.CodeType: reduced}, table)}
    return type("Pickler", (cloudpickle.Pickler,), own)


@contextlib.contextmanager
def by_value(modules: Sequence[types.ModuleType]) -> Iterator[None]:
    import cloudpickle

    with _registry:
        before = set(cloudpickle.list_registry_pickle_by_value())
        # What a person has registered stays registered.
        added = [module for module in modules if module.__name__ not in before]
        for module in added:
            cloudpickle.register_pickle_by_value(module)
        try:
            yield
        finally:
            for module in added:
                with contextlib.suppress(ValueError):
                    cloudpickle.unregister_pickle_by_value(module)


def other_python(error: BaseException) -> str:
    """``Python 3.12 there, 3.11 here`` for the error of `_Loads`; empty for every other one."""
    found = error.args[0] if isinstance(error, KeyError) and error.args else None
    is_python = isinstance(found, str) and re.fullmatch(r"[0-9]+\.[0-9]+", found) is not None
    return f"Python {found} there, {PYTHON} here" if is_python else ""


@cache
def loadable(run: Callable[..., Any]) -> Later:
    """A function for a worker. One of a module of `BY_VALUE` needs only Python and cloudpickle
    there; any other one needs this package."""
    return Later(_LOADS, dumped_by_value(run, [*BY_VALUE & {run.__module__}]))


def applied(run: Callable[..., Any], order: tuple[Any, ...]) -> bytes:
    """Bytes of which ``pickle.loads`` makes ``run(*order)``."""
    return pickle.dumps(Later(loadable(run), *order), 5)


class Apart(NamedTuple):
    """A part of an order that travels next to the pickle, without a copy into it."""

    data: Any
    """Bytes, or a future that the backend replaces by bytes on the worker."""


def applied_apart(run: Callable[..., Any], order: tuple[Any, ...]) -> tuple[bytes, list[Any]]:
    """A head and buffers of which ``pickle.loads(head, buffers=buffers)`` makes ``run(*order)``.
    The buffers are the parts of ``order`` that are `Apart`."""
    buffers = [part.data for part in order if type(part) is Apart]
    inside = [
        pickle.PickleBuffer(part.data if type(part.data) is bytes else b"")
        if type(part) is Apart
        else part
        for part in order
    ]
    # Pickle asks whether it writes a buffer: `append` says no.
    left_out: list[pickle.PickleBuffer] = []
    return pickle.dumps(Later(loadable(run), *inside), 5, buffer_callback=left_out.append), buffers


BY_VALUE = frozenset(f"{_PACKAGE}.workers.{name}" for name in ("chunk", "dask.tasks"))
"""Modules of ours that import nothing of ours."""


# --- errors ---


def unsendable_function(function: Callable[..., Any], error: BaseException) -> StepError:
    """The failure of calls whose function cannot be pickled."""
    part = next(
        (f" uses {name!r}, which" for name, value in _used(function) if not _is_sendable(value)), ""
    )
    message = f"the function {name_of(function)!r}{part} cannot be sent to a worker: {_why(error)}"
    return StepError(Diagnostic("step.unsendable", message, hint=STAY))


def unsendable_arguments(
    program: Program, given: Mapping[str, Any], error: BaseException
) -> StepError:
    """The failure of a call whose arguments cannot be pickled."""
    function = name_of(program.function)
    for name, value in given.items():
        if not _is_sendable(value, program.modules):
            path, part = _part(value, program.modules)
            what = (
                f"{name + path} is {_a(type(part).__name__)}"
                if path
                else f"it is {_a(type(part).__name__)}"
            )
            message = (
                f"the argument {name!r} of {function!r} cannot be sent to a worker: {what} "
                f"({_why(error)})"
            )
            found = StepError(Diagnostic("step.unsendable", message, hint=STAY))
            found.arguments = frozenset({name})
            return found
    message = f"the arguments of {function!r} cannot be sent to a worker: {_why(error)}"
    return StepError(Diagnostic("step.unsendable", message, hint=STAY))


def heavy_function(program: Program) -> Diagnostic:
    """The warning about a function that weighs much, and what makes it heavy."""
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
    code, known = getattr(inner, "__code__", None), getattr(inner, "__globals__", {})
    for name, cell in zip(
        getattr(code, "co_freevars", ()), getattr(inner, "__closure__", None) or (), strict=False
    ):
        with contextlib.suppress(ValueError):  # empty
            yield name, cell.cell_contents
    for name in getattr(code, "co_names", ()):
        if name in known:
            yield name, known[name]


def _is_sendable(value: Any, modules: Sequence[str] = ()) -> bool:
    try:
        dumped_by_value(value, modules)
    except Exception:
        return False
    return True


def _part(value: Any, modules: Sequence[str], most: int = 200) -> tuple[str, Any]:
    """The smallest part of a value that cannot be pickled, and its path: ``.rows[2].lock``."""
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
    if isinstance(value, Mapping):
        yield from ((f"[{key!r}]", inner) for key, inner in value.items())
    elif isinstance(value, list | tuple | set | frozenset):
        yield from ((f"[{i}]", inner) for i, inner in enumerate(value))
    elif isinstance(found := getattr(value, "__dict__", None), dict):
        yield from ((f".{name}", inner) for name, inner in found.items())


FRAME = re.compile(r'  File "([^"\n]+)", line ([0-9]{1,9}), in [^\n]+')


class RemoteTraceback(Exception):
    """The text of a traceback. A worker has no file of a notebook's cell, so the lines of the
    source are added here."""

    def __str__(self) -> str:
        return f"\n{with_source(self.args[0])}"


def raised_there(data: bytes, text: str) -> BaseException:
    """An exception of a worker, with the traceback there as its cause."""
    try:
        error = pickle.loads(data)
    except BaseException:
        error = ("RuntimeError", text.strip().rpartition("\n")[2])
    if isinstance(error, tuple):
        name, said, *answer = error
        # Its class cannot be sent: one of the same name shows what it was, and `retry`
        # finds its status.
        error = type(name, (Exception,), {})(said)
        if len(answer) == 2:
            error.status_code, error.headers = answer[0], {"retry-after": str(answer[1])}
    assert isinstance(error, BaseException)
    error.__cause__ = RemoteTraceback(text)
    return error


def with_source(text: str, name_of_file: Callable[[str], str] | None = None) -> str:
    """The text of a traceback, with the lines of the source that this process knows and the text
    lacks.

    ``name_of_file``: what to call a file instead of ``File "…"``; empty: no other name. None: no
    file has one."""
    return "\n".join(_lines(text.split("\n"), name_of_file))


def _lines(lines: list[str], name_of_file: Callable[[str], str] | None) -> Iterator[str]:
    for line, after in zip(lines, [*lines[1:], ""], strict=True):
        found = FRAME.fullmatch(line)
        if found is None:
            yield line
            continue
        file, number = found[1], int(found[2])
        name = name_of_file(file) if name_of_file is not None else ""
        yield line.replace(f'File "{file}"', name, 1) if name else line
        source = linecache.getline(file, number).strip()
        # Python has written the line where the worker had the file.
        if source and not after.startswith("    "):
            yield f"    {source}"


def lacking_module(function: str, where: str, error: ImportError) -> Diagnostic:
    """The failure of calls of ``function``, because an import of the module ``error.name`` failed
    on a worker.

    ``where``: the name of the backend."""
    message = f"{function!r} needs the module {error.name!r}, which a worker of {where} lacks"
    top = str(error.name).partition(".")[0]
    hint = f"install {top!r} on the workers"
    # A module of the notebook is sent with a function that uses it as a global.
    if is_here(error) and is_ours(top):
        hint = f"import {top!r} outside of the function: it is then sent with the function"
    return Diagnostic("step.worker-lacks", message, hint=f"{hint}; or {STAY}")


def is_worker() -> bool:
    """Whether this process makes calls for a kernel, and is none itself."""
    held = sys.modules.get("_agf_chunk")
    return held is not None and not hasattr(held, "kernel")


def is_here(error: BaseException | None) -> TypeGuard[ModuleNotFoundError]:
    """Whether ``error`` says that a module is missing which this process has."""
    top = str(getattr(error, "name", None)).partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or not top.isidentifier():
        return False
    try:
        return find_spec(top) is not None
    except (ImportError, ValueError):
        # A module that was made by code.
        return False


LOST_HINT = (
    "does it end its process? If memory is short: give each call less data, or start "
    "workers with more memory"
)
NO_SIGN = "its worker gave no sign of life and was ended"
GONE_HINT = (
    "%resume continues a run that has failed, on new processes; workers of a cluster must "
    "be started first"
)


def worker_lost(name: str, what: str, losses: Sequence[str], gone: bool = False) -> Diagnostic:
    """The failure of a call. ``losses``: how its workers were lost; ``gone``: now
    there are none."""
    if gone:
        return Diagnostic(
            "step.worker-lost", f"no worker can run {name!r}: {losses[-1]}", hint=GONE_HINT
        )
    times = {1: "once", 2: "twice"}.get(len(losses), f"{len(losses)} times")
    why = "; ".join(dict.fromkeys(losses[-3:]))
    message = f"the worker of {name!r} ended before the {what} did, {times}: {why}"
    return Diagnostic("step.worker-lost", message, hint=LOST_HINT)
