"""Makes the calls of one function on a worker, one after another, and returns the outcome of each.

The code is sent by value: a worker needs Python and cloudpickle, not this package. So this file imports
nothing of ours, and the state between chunks is in a module that is made on the worker (``_agf_chunk``).
`run` never raises: what a call raised is data, so that no backend logs the arguments of a failed task.
The setup of a worker process, a function of the person, is called once, before its first chunk.
"""

from __future__ import annotations

import contextvars
import copyreg
import inspect
import io
import mmap
import os
import pickle
import socket
import stat
import sys
import threading
import time
import traceback
import types
from collections.abc import Callable, Collection, Sequence
from contextlib import closing, suppress
from itertools import accumulate
from typing import Any

PRINTS = 65_536
"""The most characters of prints that a chunk returns."""
FUNCTIONS = 64
"""The most functions that a worker keeps; the oldest one is dropped."""
KEPT = 256_000_000
"""The most bytes of pickled functions that a worker keeps; the last one stays, whatever its size."""
IN_FILE = 1_000_000
"""Bytes from which on a buffer of a result, or its pickle, travels in a file."""
ALIGNED = 64
"""Each buffer in a file begins at a multiple of this number of bytes, which fits any type."""
NO_LINK = getattr(os, "O_NOFOLLOW", 0)
READ = os.O_RDONLY | NO_LINK | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""The flags with which a file that may be anything is opened: no link is followed, no pipe waited for."""
OUR_MODULES = "agf_magics."
"""The beginning of the names of our modules."""
MOST_WRITTEN = 100_000
"""The most parts in the arguments of an exception whose text is made."""
UNWRITTEN = "(its text would have millions of characters)"
TRACE = 20_000
"""The most characters of a traceback: the last ones."""

VALUE, RAISED, LATE, UNSENT, UNREAD, NOT_STARTED = "v", "e", "t", "u", "x", "n"
"""The marks of a call that has a value, raised, ran past its time limit, has a result that cannot be sent,
has a function or arguments that the worker could not read, or was not started."""

Outcome = tuple[str, list[Any], float, list[tuple[int, str, str]], str]
"""A mark for each call; a pickle for each call that was started, as `_File.packed` returns it; the seconds
of all calls; the prints (call, stream, text); the name of the worker."""


def run(
    program: Any, digest: str, given: Any, sizes: Sequence[int], *shared_and_options: Any
) -> Outcome:
    """Make the calls of a function.

    ``program``: the pickled function, or the path of a file with it. ``digest``: the name of the function
    in this process. ``given``: the pickled keyword arguments of each call, one after another, or the path
    and the size of a file with them. ``sizes``: the bytes of each of these pickles.
    ``shared_and_options``: pickled arguments that other chunks have, too, and last the options: ``timeout``
    (seconds of each call), ``stops`` (whether a failure ends the chunk), ``grant`` (the rights of the
    calls), ``most`` (bytes of a result), ``kernel`` (the kernel's name), ``results`` (two paths for large
    results: an existing file, and a new file if the first cannot be opened; empty if the kernel sees no
    file of this worker).
    """
    state = _state()
    *state.local.shared, options = shared_and_options
    state.local.classes = {}
    try:
        try:
            function = _function(state, program, digest)
            view = _map(*given) if type(given) is tuple else memoryview(given)
        except BaseException as error:
            # For instance, the worker lacks a module.
            failure = _in_memory(described(error))
            return UNREAD * len(sizes), [failure] * len(sizes), 0.0, [], _worker()
        ends = list(accumulate(sizes))
        pickles = [view[end - size : end] for end, size in zip(ends, sizes, strict=True)]
        capture = _capture_of(state, options.get("kernel"))
        with closing(_File(*options.get("results", ()))) as file:
            outcome = _make_calls(state, function, pickles, options, capture, file)
        return *outcome, capture.texts if capture is not None else [], _worker()
    finally:
        state.local.shared = state.local.classes = ()


def _state() -> Any:
    """The state of this process between chunks. Its ``calls`` are the threads that make calls now, which
    `child` reads."""
    # A module holds the state, because the code is sent by value and each chunk has other globals.
    state: Any = sys.modules.setdefault("_agf_chunk", types.ModuleType("_agf_chunk"))
    if not hasattr(state, "functions"):
        state.functions, state.weights = {}, {}
        state.local = threading.local()
        state.calls = set()
        state.mapped, state.shared, state.class_of = _mapped, _shared, _class_of
    return state


def _function(state: Any, program: Any, digest: str) -> Any:
    """The function of a chunk, which is unpickled once in this process."""
    function = state.functions.get(digest)
    if function is None:
        if isinstance(program, str):
            with open(program, "rb") as file:
                program = file.read()
        function = pickle.loads(program)
        state.functions[digest], state.weights[digest] = function, len(program)
        # The last function stays even if it alone is too large: the chunk is about to use it.
        while len(state.functions) > 1:
            if len(state.functions) <= FUNCTIONS and sum(state.weights.values()) <= KEPT:
                break
            oldest = next(iter(state.functions))
            state.functions.pop(oldest, None)
            state.weights.pop(oldest, None)
    return function


def _shared(number: int) -> Any:
    """The shared argument with this number, made anew for each call. Pickled arguments call it."""
    return pickle.loads(sys.modules["_agf_chunk"].local.shared[number])


def _class_of(data: bytes) -> Any:
    """The class of a pickle, which is read once for all calls of a chunk. Pickled arguments call it."""
    classes = sys.modules["_agf_chunk"].local.classes
    if data not in classes:
        classes[data] = pickle.loads(data)
    return classes[data]


def _mapped(path: str, size: int) -> Any:
    """A value that `sending.argument_files.write_apart` has written. Its buffers are the pages of files; a
    page that something writes to becomes a copy."""
    data = _map(path, size)
    position = 8 + int.from_bytes(data[:8], "little")
    head, places = pickle.loads(data[8:position])
    buffers, maps = [], dict[str, memoryview]()
    for place in places:
        if type(place) is tuple:
            other_path, other_size, start, count = place
            if other_path not in maps:
                maps[other_path] = _map(other_path, other_size, READ & ~NO_LINK)
            buffers.append(maps[other_path][start : start + count])
            continue
        position += -position % ALIGNED
        buffers.append(data[position : position + place])
        position += place
    return pickle.loads(head, buffers=buffers)


def _map(path: str, size: int, way: int = READ) -> memoryview:
    """A private map of a file of the kernel. Raises ValueError if the file is not as the kernel wrote it:
    a tool may have cut it, or put a link in its place."""
    with os.fdopen(os.open(path, way), "rb") as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode) or facts.st_size != size:
            raise ValueError("the file of an argument is not what the kernel wrote")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))


def _worker() -> str:
    return f"process {os.getpid()} on {socket.gethostname()}"


# --- calls ---


def _make_calls(
    state: Any,
    function: Any,
    pickles: list[memoryview],
    options: dict[str, Any],
    capture: Any,
    file: _File,
) -> tuple[str, list[Any], float]:
    """The mark and the packed outcome of each call, and the seconds of all calls."""
    timeout = options.get("timeout")
    marks, packed, seconds = "", list[Any](), 0.0
    for i, pickled in enumerate(pickles):
        # Read here and packed at once: a call may change what it gets, and what an earlier call returned.
        try:
            keywords = pickle.loads(pickled)
        except BaseException as error:
            mark, value = UNREAD, described(error)
        else:
            began = time.perf_counter()
            target = (state, function, keywords, options, capture, i)
            mark, value = _call(*target) if timeout is None else _call_in_time(target, timeout)
            seconds += time.perf_counter() - began
            if mark == RAISED:
                value = described(value)
        mark, data = _packed(mark, value, options.get("most") or sys.maxsize, file)
        marks += mark
        packed.append(data)
        if mark != VALUE and options.get("stops"):
            return marks + NOT_STARTED * (len(pickles) - i - 1), packed, seconds
    return marks, packed, seconds


def _call(
    state: Any,
    function: Any,
    keywords: dict[str, Any],
    options: dict[str, Any],
    capture: Any,
    i: int,
) -> tuple[str, Any]:
    """Make one call in a new context. A process that the call has forked ends here."""
    # If a tool forks, the child process returns here, too, and must not go on with the chunk.
    process, outer_capture = os.getpid(), getattr(state.local, "capture", None)
    state.calls.add(threading.get_ident())
    if capture is not None:
        state.local.capture = (capture, i)
    try:
        result = VALUE, contextvars.copy_context().run(_perform, function, keywords, options)
    except BaseException as error:
        result = RAISED, error
    finally:
        state.local.capture = outer_capture
        state.calls.discard(threading.get_ident())
    if os.getpid() != process:
        os._exit(0 if result[0] == VALUE else 1)
    return result


def _perform(function: Any, keywords: dict[str, Any], options: dict[str, Any]) -> Any:
    limits: Any = sys.modules.get("agf_magics.limits.grants")
    if limits is not None and options.get("grant") is not None:
        # Without the package, no run can be started here, and nothing needs the rights.
        limits.granted.set(limits.Grant(*options["grant"]))
        # A tool that starts a run here is refused: a worker has no registry.
        limits.inside.set(True)
    value = function(**keywords)
    if inspect.isawaitable(value):
        import asyncio

        return asyncio.run(_awaited(value))
    return value


async def _awaited(value: Any) -> Any:
    return await value


def _call_in_time(target: tuple[Any, ...], timeout: float) -> tuple[str, Any]:
    """Make one call on a new thread, which is left running after ``timeout`` seconds."""
    ended: list[tuple[str, Any]] = []
    context = contextvars.copy_context()
    # A daemon thread: a call that hangs must not keep the process of the worker alive.
    thread = threading.Thread(target=lambda: ended.append(context.run(_call, *target)), daemon=True)
    thread.start()
    thread.join(timeout)
    return ended[0] if ended else (LATE, timeout)


# --- prints ---


class _Capture:
    """The prints of one chunk."""

    def __init__(self) -> None:
        self.texts: list[tuple[int, str, str]] = []
        """The prints: the number of the call, the stream, the text."""
        self.room = PRINTS
        """The number of characters that may still be added."""

    def take(self) -> list[tuple[int, str, str]]:
        """Take the prints so far. The chunk does not return them any more."""
        texts = self.texts[:]
        del self.texts[: len(texts)]
        return texts

    def write(self, i: int, stream: str, text: str) -> None:
        """Add a print of call ``i``, as long as there is room."""
        # A tool that prints in a loop must not fill the memory of the kernel.
        if self.room > 0:
            self.texts.append((i, stream, text[: self.room]))
            self.room -= len(text)
            if self.room <= 0:
                self.texts.append(
                    (i, stream, f"\n… (a chunk returns {PRINTS:,} characters of prints)\n")
                )


def _capture_of(state: Any, kernel: Any) -> _Capture | None:
    """The object that collects the prints of a chunk; None in the kernel's process, where prints stay."""
    if kernel == getattr(state, "kernel", ""):
        return None
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not getattr(stream, "agf_routed", False):
            setattr(sys, name, _Routed(state, name, stream))
    capture = _Capture()
    # A task of Dask reports the prints while the chunk runs.
    getattr(state, "captures", {}).get(threading.get_ident(), []).append(capture)
    return capture


class _Routed:
    """A stand-in for stdout or stderr that passes the prints of a call's thread to the call's chunk."""

    agf_routed = True

    def __init__(self, state: Any, name: str, stream: Any) -> None:
        self._state, self._name, self._stream = state, name, stream

    def write(self, text: str) -> Any:
        capture_of_call = getattr(self._state.local, "capture", None)
        if capture_of_call is None:
            return self._stream.write(text)
        capture, i = capture_of_call
        capture.write(i, self._name, str(text))
        return len(text)

    def writelines(self, lines: Any) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


# --- results ---


class _File:
    """A file with the large buffers of results, one behind the other: a pipe would copy them several
    times. ``existing`` and ``new``: the two paths in ``results`` of `run`."""

    def __init__(self, existing: str = "", new: str = "") -> None:
        self._existing, self._new = existing, new
        self._file: Any = None
        """The open file; None: nothing was written."""
        self._end = self._position = 0
        """The end of the last complete pickle's buffers, and the end of the buffers so far."""
        self._places = list[tuple[int, int]]()
        """The offsets and the sizes of the buffers of the current pickle."""
        self._plain: tuple[io.BytesIO, pickle.Pickler] | None = None
        """The pickler of all values, and its file: a new one takes as long as a small value."""

    def plain(self, value: Any) -> bytes:
        """The plain pickle of ``value``. Raises what pickling raises."""
        if self._plain is None:
            file = io.BytesIO()
            self._plain = file, ByName(file, 5, buffer_callback=self.take)
        file, pickler = self._plain
        # A failed pickle leaves a part of itself behind.
        self._plain = None
        pickler.dump(value)
        data = file.getvalue()
        pickler.clear_memo()
        file.seek(0)
        file.truncate()
        self._plain = file, pickler
        return data

    def packed(self, value: Any, most: int) -> Any:
        """The pickle of ``value``. If it has buffers in the file: the pickle, empty if it is itself the
        last part in the file, and the places of the parts. Raises what pickling raises, and ValueError
        for more than ``most`` bytes."""
        data = _dumped(value, self)
        if len(data) >= IN_FILE and self._write(data):
            data = b""
        if len(data) > most:
            raise ValueError(too_large(len(data), most))
        self._end = self._position
        return (data, self._places) if self._places else data

    def begin(self) -> None:
        """Begin a pickle, in the place of an earlier pickle that has failed."""
        self._position = self._end
        self._places = []

    def take(self, buffer: pickle.PickleBuffer) -> bool:
        """Write a large buffer to the file. Returns whether the buffer stays in the pickle."""
        raw = buffer.raw()
        return raw.nbytes < IN_FILE or not self._write(raw)

    def _write(self, data: Any) -> bool:
        """Write a buffer; False: there is no file, or no room for it."""
        # The buffer begins at a new page: later the kernel can tell for each page whether it was changed.
        start, size = self._position + -self._position % mmap.PAGESIZE, memoryview(data).nbytes
        try:
            file = self._opened()
            file.seek(start)
            file.write(data)
            file.flush()
        except OSError:
            return False
        self._places.append((start, size))
        self._position = start + size
        return True

    def _opened(self) -> Any:
        if self._file is None:
            try:
                number = os.open(self._existing, os.O_WRONLY)
            except OSError:
                new = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
                number = os.open(self._new, new, 0o600)
            self._file = os.fdopen(number, "wb")
        return self._file

    def close(self) -> None:
        if self._file is None:
            return
        with suppress(OSError):  # the disk is full
            # Only shortened: a file that a tool has cut must not get zeros for the lost part.
            if os.fstat(self._file.fileno()).st_size > self._end:
                self._file.truncate(self._end)
            self._file.close()


def _packed(mark: str, value: Any, most: int, file: _File) -> tuple[str, Any]:
    """The mark and the pickle of an outcome. If it cannot be pickled or is too large: `UNSENT`, and the
    reason."""
    try:
        return mark, file.packed(value, most)
    except BaseException as error:
        return UNSENT, pickle.dumps(f"{type(error).__name__}: {_text(error)}"[:500])


def too_large(size: int, most: int) -> str:
    return f"it has {size:,} bytes, and at most {most:,} are sent"


def reduce_known(thing: Any) -> Any:
    """How pickle should write an exception or an array of dates or durations, for which pickle itself
    would make no buffer. NotImplemented for everything else. Raises TypeError for what cloudpickle would
    turn into another type: a memoryview into bytes, an open text file into its text."""
    kind: Any = type(thing)
    if kind is memoryview or (kind is io.TextIOWrapper and thing not in (sys.stdout, sys.stderr)):
        raise TypeError(f"cannot pickle {kind.__name__!r} object")
    if kind.__name__ != "ndarray" or kind.__module__ != "numpy" or thing.dtype.kind not in "mM":
        return _reduce_exception(thing)
    if not thing.flags.c_contiguous and not thing.flags.f_contiguous:
        return NotImplemented
    return kind.view, (thing.view("i8"), thing.dtype)


def _reduce_exception(thing: Any) -> Any:
    """How an exception is pickled if its class defines an ``__init__``; NotImplemented for everything else.

    Pickle calls the class with ``args``. Often ``args`` has a text that ``__init__`` has made, not the
    arguments of ``__init__``: ``NoSuch("pear")`` would fail, or say "no such no such pear". So the copy
    is made without ``__init__``."""
    kind: Any = type(thing)
    if not isinstance(thing, Exception) or not isinstance(kind.__init__, types.FunctionType):
        return NotImplemented
    # The __init__ of these classes of Python sets more than ``args``.
    if isinstance(thing, SyntaxError | UnicodeError | StopIteration):
        return NotImplemented
    has_own_new = isinstance(kind.__new__, types.FunctionType)
    is_usual = kind.__reduce__ is BaseException.__reduce__
    is_usual = is_usual and kind.__reduce_ex__ is object.__reduce_ex__
    if has_own_new or not is_usual:
        return NotImplemented
    return copyreg.__newobj__, (kind, *thing.args), thing.__dict__ or None  # type: ignore[attr-defined]


class ByName(pickle.Pickler):
    """Plain pickle that raises PicklingError for anything that belongs to the notebook: the other side
    cannot import it.

    The pickler looks at objects, functions and classes only. A search for names in the bytes took half of
    the CPU time of a fan-out over texts of 100 kB."""

    own: Collection[str] = frozenset({"__main__"})
    """The names of the notebook's modules."""
    reduce: Callable[[Any], Any] = staticmethod(reduce_known)
    """Says how everything else is pickled; NotImplemented: as pickle does it."""

    def reducer_override(self, thing: Any) -> Any:
        if getattr(thing, "__module__", None) in self.own:
            raise pickle.PicklingError("it travels by value")
        return self.reduce(thing)


def _dumped(value: Any, large: _File) -> bytes:
    """``value`` by plain pickle, or by cloudpickle if it has something that only this process knows."""
    try:
        large.begin()
        return large.plain(value)
    except Exception:
        file = io.BytesIO()
        large.begin()
    import cloudpickle

    class Cloud(cloudpickle.Pickler):  # type: ignore[misc]
        def reducer_override(self, thing: Any) -> Any:
            reduced = reduce_known(thing)
            return super().reducer_override(thing) if reduced is NotImplemented else reduced

    Cloud(file, protocol=5, buffer_callback=large.take).dump(value)
    return file.getvalue()


def _in_memory(value: Any) -> bytes:
    return _dumped(value, _File())


def described(error: BaseException, dump: Callable[[Any], bytes] = _in_memory) -> tuple[bytes, str]:
    """A pickled exception, and the text of its traceback. An exception that cannot be sent becomes the
    name of its class and its text. ``dump``: pickles an exception."""
    text = _trace(error)
    try:
        data = dump(error)
        pickle.loads(data)
        return data, text
    except BaseException:
        return pickle.dumps((type(error).__name__, _text(error), *_answer_in(error))), text


def _text(error: BaseException) -> str:
    try:
        return str(error) if _is_writable(error) else UNWRITTEN
    except BaseException as worse:
        # As in `text.raised`, which a worker may not have.
        return f"(its text cannot be read: {type(worse).__name__})"


def _answer_in(error: BaseException) -> tuple[int, str] | tuple[()]:
    """The status and the ``Retry-After`` that a server answered, for the kernel that repeats the call. An
    HTTPError of urllib, for instance, has a socket, so that the error itself cannot be sent."""
    answer: Any = error
    with suppress(BaseException):  # a property of a user's class
        answer = getattr(error, "response", None) or error
    try:
        numbers = (getattr(answer, name, None) for name in ("status_code", "status", "code"))
        status = next(number for number in numbers if type(number) is int)
        return status, str((getattr(answer, "headers", None) or {}).get("Retry-After") or "")
    except BaseException:
        # The error has no status, or a property of a user's class fails.
        return ()


def _is_writable(error: BaseException) -> bool:
    """Whether the text of an exception is short enough to be made. Python writes each argument part by
    part, and a small list whose parts are shared can have any number of parts."""
    # Read past properties of a user's class. The type alone counts: `isinstance` asks the object, too.
    waiting: list[Any] = [vars(BaseException)["args"].__get__(error)]
    for _ in range(MOST_WRITTEN):
        if not waiting:
            return True
        part = waiting.pop()
        if issubclass(type(part), dict):
            waiting += dict.values(part)
        elif issubclass(type(part), (list, tuple, set, frozenset)):
            waiting += part
    return False


def _trace(error: BaseException) -> str:
    """The text of the traceback, without the frames of this package around the call. A function that was
    sent by value still has the name of its module, by which they are recognised."""
    try:
        if not _is_writable(error):
            return f"{type(error).__name__}: {UNWRITTEN}"
        # Read past a property of a user's class.
        trace = vars(BaseException)["__traceback__"].__get__(error)
        while trace is not None and _is_ours(trace):
            trace = trace.tb_next
        return "".join(traceback.format_exception(type(error), error, trace))[-TRACE:]
    except BaseException:
        return type(error).__name__


def _is_ours(trace: types.TracebackType) -> bool:
    return str(trace.tb_frame.f_globals.get("__name__")).startswith(OUR_MODULES)


def run_after_setup(*order: Any) -> Any:
    """Call the setup if this process has not called it yet, then ``run`` with all of ``order`` but the last
    part. ``setup`` in the last part is the pickled setup (empty if there is none), the digest of the setup,
    and ``run``. If the setup failed, now or earlier, the result is ``("setup", why, traceback)``."""
    pickled, digest, run = order[-1]["setup"]
    if not pickled:
        return run(*order[:-1])
    state = _state()
    with state.__dict__.setdefault("setup_lock", threading.Lock()):
        outcomes: dict[str, tuple[str, str] | None] = state.__dict__.setdefault("setups", {})
        if digest not in outcomes:
            outcomes[digest] = None
            try:
                pickle.loads(pickled)()
            except BaseException as error:
                outcomes[digest] = f"{type(error).__name__}: {_text(error)}"[:500], _trace(error)
        failure = outcomes[digest]
    return ("setup", *failure) if failure is not None else run(*order[:-1])
