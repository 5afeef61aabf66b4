"""Functions and arguments as bytes for a worker, and the errors of those that cannot be sent.

A function of the notebook or of a file that is not installed travels by value, with the globals that it
uses; a function of an installed package travels by its name. cloudpickle is imported when the first
function is sent.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import io
import operator
import pickle
import re
import sys
import sysconfig
import threading
import types
from collections import ChainMap
from collections.abc import Callable, Iterator, Sequence
from functools import cache, lru_cache
from typing import Any, NamedTuple

from ...catalog.digests.origins import is_ours
from ..chunk import ByName, reduce_known
from .later import Later

_PACKAGE = __name__.partition(".")[0]
_registry = threading.RLock()
"""Held while modules are registered: cloudpickle has a single registry for the process."""


class Program:
    """A function as bytes, for all its calls in one run."""

    __slots__ = ("digest", "function", "modules", "pickled")

    def __init__(self, function: Callable[..., Any]) -> None:
        """Raises what pickling raises."""
        self.function = function
        self.modules = own_modules()
        self.pickled = dumped_by_value(function, self.modules)
        self.digest = hashlib.sha256(self.pickled).hexdigest()

    def dump(
        self,
        value: Any,
        *,
        reduce: Callable[[Any], Any] = reduce_known,
        buffers: list[Any] | None = None,
    ) -> bytes:
        """The pickle of a part of the arguments: see `dumped`."""
        return dumped(value, self.modules, reduce, buffers)

    def dump_each(
        self, values: Sequence[Any], *, reduce: Callable[[Any], Any] = reduce_known
    ) -> tuple[bytes, list[int]]:
        """The pickles of ``values``, the arguments of calls, one after another, and their sizes. No
        two calls share an object: each may change what it gets."""
        pickles = Pickles(self.modules, reduce)
        for value in values:
            pickles.add(value)
        return pickles.file.getvalue(), pickles.sizes


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
    # Cached by name and module: another module may have the name later. Without the cache, asking for
    # 1,700 modules took a third of the time in which a run of few calls starts.
    return name != "__main__" and is_ours(name)


PYTHON = sysconfig.get_python_version()
"""The minor version of Python here: ``3.12``."""

_LOADS = Later(operator.getitem, {PYTHON: pickle.loads}, Later(sysconfig.get_python_version))
"""On a worker this becomes ``pickle.loads``, or raises a KeyError if the worker has another minor version
of Python, which compiled code can crash. Pickle evaluates this before it comes to the code."""


def dumped(
    value: Any,
    modules: Sequence[str],
    reduce: Callable[[Any], Any] = reduce_known,
    buffers: list[Any] | None = None,
) -> bytes:
    """``value`` by plain pickle, or by cloudpickle if it has something that only this process knows, such as
    the notebook's own ``modules``. ``reduce``: asked first how to pickle an object. ``buffers``: receives
    the large buffers, which are then not in the pickle; None: they are in the pickle."""
    aside = None if buffers is None else buffers.append
    with contextlib.suppress(Exception):
        file = io.BytesIO()
        pickler = ByName(file, 5, buffer_callback=aside)
        pickler.own, pickler.reduce = {"__main__", *modules}, reduce
        pickler.dump(value)
        return file.getvalue()
    if buffers is not None:
        buffers.clear()
    return dumped_by_value(value, modules, asking(by_value_pickler(), reduce), aside=aside)


class Pickles:
    """Pickles in one file, each as `dumped` makes it. One pickler makes them all: a pickler for each
    small value would take as long as its pickle."""

    def __init__(self, modules: Sequence[str], reduce: Callable[[Any], Any]) -> None:
        self._modules, self._reduce = modules, reduce
        self.file = io.BytesIO()
        self.sizes = list[int]()
        self._pickler: ByName = ByName(self.file, 5)
        self._pickler.own, self._pickler.reduce = {"__main__", *modules}, reduce

    def add(self, value: Any) -> None:
        """Raises what pickling raises."""
        start = self.file.tell()
        try:
            self._pickler.clear_memo()
            self._pickler.dump(value)
        except Exception:
            self.file.seek(start)
            self.file.truncate()
            if type(self._pickler) is ByName:
                # The values of the other calls are of the same kind.
                pickler = _WithClasses(self.file, 5)
                pickler.own, pickler.reduce = self._pickler.own, self._reduce
                pickler.modules = self._modules
                self._pickler = pickler
                self.add(value)
                return
            asks = asking(by_value_pickler(), self._reduce)
            self.file.write(dumped_by_value(value, self._modules, asks))
        self.sizes.append(self.file.tell() - start)


class _WithClasses(ByName):
    """Plain pickle in which a class of the notebook is a pickle of its own, which is made once for all
    calls of a chunk: it takes twenty times as long as an object of the class."""

    modules: Sequence[str] = ()

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._classes = dict[type, bytes]()

    def reducer_override(self, thing: Any) -> Any:
        if isinstance(thing, type) and thing.__module__ in self.own:
            if thing not in self._classes:
                self._classes[thing] = dumped_by_value(thing, self.modules)
            return _CLASS_OF, (self._classes[thing],)
        if type(thing).__module__ in self.own:
            return self.reduce(thing)
        return super().reducer_override(thing)


_CLASS_OF = Later(operator.attrgetter("class_of"), Later(importlib.import_module, "_agf_chunk"))
"""On a worker, the function `chunk._class_of`."""


def asking(pickler: Any, reduce: Callable[[Any], Any]) -> Any:
    """The class of a pickler that asks ``reduce`` first how to pickle an object."""

    class Asking(pickler):  # type: ignore[misc]
        def reducer_override(self, thing: Any) -> Any:
            reduced = reduce(thing)
            return super().reducer_override(thing) if reduced is NotImplemented else reduced

    return Asking


def dumped_by_value(
    value: Any,
    modules: Sequence[str],
    pickler: Any = None,
    most: int = sys.maxsize,
    aside: Callable[[Any], None] | None = None,
) -> bytes:
    """``value`` pickled by cloudpickle, with ``modules`` by value. ``pickler``: the class; by default
    `by_value_pickler`. ``aside``: receives the buffers, which are then not in the pickle; None: they are
    in the pickle. Raises ValueError as soon as there are more than ``most`` bytes."""
    file = _Bounded(most)
    with by_value([sys.modules[name] for name in modules if name in sys.modules]):
        (pickler or by_value_pickler())(file, 5, aside or file.has_room).dump(value)
    return file.getvalue()


class _Bounded(io.BytesIO):
    """The bytes of a pickle, which raises ValueError for more than ``most`` of them."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def write(self, data: Any) -> int:
        self.has_room(data)
        return super().write(data)

    def has_room(self, data: Any) -> bool:
        """Return True, or raise ValueError. Pickle calls this before it copies the data of an
        array, and True means: into the pickle."""
        if self.tell() + memoryview(data).nbytes > self._most:
            raise ValueError(f"it has more than {self._most:,} bytes")
        return True


@cache
def by_value_pickler() -> Any:
    """cloudpickle's class, changed so that code keeps its file name: so the traceback of a worker names the
    cell."""
    import cloudpickle

    table = cloudpickle.Pickler.dispatch_table

    def reduced(code: types.CodeType) -> Any:
        make, parts = table[types.CodeType](code)
        # cloudpickle 3.1.3 writes this text instead of the file name.
        return make, tuple(code.co_filename if part == "<dynamic-code>" else part for part in parts)

    overrides = {"dispatch_table": ChainMap({types.CodeType: reduced}, table)}
    return type("Pickler", (cloudpickle.Pickler,), overrides)


@contextlib.contextmanager
def by_value(modules: Sequence[types.ModuleType]) -> Iterator[None]:
    """Let cloudpickle pickle what is in ``modules`` by value, in the block."""
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
    """``Python 3.12 there, 3.11 here`` for the error of `_LOADS`; empty for every other error."""
    version = error.args[0] if isinstance(error, KeyError) and error.args else None
    is_python = isinstance(version, str) and re.fullmatch(r"[0-9]+\.[0-9]+", version) is not None
    return f"Python {version} there, {PYTHON} here" if is_python else ""


@cache
def loadable(run: Callable[..., Any]) -> Later:
    """A function for a worker. A function of a module in `BY_VALUE` needs only Python and cloudpickle
    there; any other function needs this package there."""
    return Later(_LOADS, dumped_by_value(run, [*BY_VALUE & {run.__module__}]))


def applied(run: Callable[..., Any], order: tuple[Any, ...]) -> bytes:
    """Bytes of which ``pickle.loads`` makes ``run(*order)``."""
    return pickle.dumps(Later(loadable(run), *order), 5)


class Apart(NamedTuple):
    """A part of an order that travels beside the pickle and is not copied into it."""

    data: Any
    """Bytes, or a future that the backend replaces by bytes on the worker."""


def applied_apart(run: Callable[..., Any], order: tuple[Any, ...]) -> tuple[bytes, list[Any]]:
    """A head and buffers of which ``pickle.loads(head, buffers=buffers)`` makes ``run(*order)``.
    The buffers are the parts of ``order`` that are `Apart`."""
    buffers = [part.data for part in order if type(part) is Apart]
    inside = [_as_buffer(part) if type(part) is Apart else part for part in order]
    # Pickle asks its callback whether to write a buffer; `append` returns None, which means no.
    left_out: list[pickle.PickleBuffer] = []
    return pickle.dumps(Later(loadable(run), *inside), 5, buffer_callback=left_out.append), buffers


def _as_buffer(part: Apart) -> pickle.PickleBuffer:
    return pickle.PickleBuffer(part.data if type(part.data) is bytes else b"")


BY_VALUE = frozenset(f"{_PACKAGE}.workers.{name}" for name in ("chunk", "backends.dask.tasks"))
"""The modules of ours that import nothing of ours. What is in them is sent to workers by value, since
a worker may lack this package."""
