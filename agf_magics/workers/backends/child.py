"""The program of a worker process (`processes`): reads chunks from its standard input and writes
their outcomes.

It runs as a script and imports nothing of ours. A frame is 8 bytes of length and a pickle; reading the
pickle executes the chunk (`sending.functions.applied`). An empty frame asks whether a new process should
take the place of this one: yes if a module that is not installed was edited since it was imported here,
or if a call that took too long is still running. The frame `ALIVE` asks for a sign of life; the answer
is an empty frame. The process ends when its input ends or its parent is gone, whatever a call does.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import sysconfig
import threading
import time
import types
from queue import SimpleQueue
from typing import Any, BinaryIO

LOOK = 1.0
"""Seconds between two looks: this process looks whether its parent is gone, and the parent whether this
process is gone. The pipe alone does not tell: a process that a call has forked may hold it open."""
ALIVE = b"?"
"""The frame that asks for a sign of life. The thread that reads answers it: if a call holds the
interpreter's lock, or the process is stopped, there is no answer."""
PROGRESS = "progress"
"""The first part of a frame with what a running call reports (`engine.calls.tool_context.hear`)."""
SET_DEATH_SIGNAL = 1
"""``PR_SET_PDEATHSIG`` of Linux: the signal that this process gets when the thread that started it
ends."""


def main() -> None:
    """Execute the chunks of the parent process until it is gone."""
    # The pipes get other numbers. A program that a call starts does not inherit them: it must neither
    # take the next chunk as its input nor write into a frame.
    source, target = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = sys.stderr
    parent = os.getppid()
    _end_with_parent()
    frames: SimpleQueue[bytes] = SimpleQueue()
    writes = threading.Lock()
    threading.Thread(
        target=_read_frames, args=(source, frames, target, writes), daemon=True
    ).start()
    # macOS and Windows do not end this process with its parent.
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    path = pickle.loads(frames.get())
    here = os.path.realpath(os.getcwd())
    # cloudpickle is imported without the current folder, which may have a stranger's module of that
    # name.
    sys.path[:] = [part for part in path if os.path.realpath(part) != here]
    with contextlib.suppress(ImportError):
        import cloudpickle  # noqa: F401
    sys.path[:] = path
    modules = Modules()
    state: Any = sys.modules.setdefault("_agf_chunk", types.ModuleType("_agf_chunk"))

    def tell(report: tuple[Any, ...]) -> None:
        with writes:
            write_frame(target, pickle.dumps((PROGRESS, *report)))

    state.tellers = {threading.get_ident(): tell}
    try:
        while True:
            frame, began = frames.get(), time.time()
            # Reading the pickle executes the chunk.
            answer = _outcome(frame) if frame else pickle.dumps(modules.were_edited() or _is_busy())
            with writes:
                write_frame(target, answer)
            modules.note(began)
    except OSError:  # the kernel is gone
        os._exit(0)


def _outcome(frame: bytes) -> bytes:
    """Execute a chunk, and return its outcome as a pickle."""
    outcome: Any
    try:
        outcome = pickle.loads(frame)
    except BaseException as error:
        # The error has many causes; for instance, cloudpickle is missing here.
        outcome = error
    try:
        return pickle.dumps(outcome, 5)
    except BaseException as error:
        try:
            return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"), 5)
        except BaseException:
            # A tool has emptied sys.modules, or set pickle.dumps.
            os._exit(1)


def _is_busy() -> bool:
    """Whether a call of an earlier chunk is still running (`chunk` notes the threads of calls)."""
    return bool(getattr(sys.modules.get("_agf_chunk"), "calls", None))


class Modules:
    """The modules of this process that are not installed, and the state of their files when they
    were imported."""

    def __init__(self) -> None:
        paths = (
            sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")
        )
        package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        self._installed = tuple(
            os.path.join(os.path.realpath(path), "") for path in (*paths, package)
        )
        self._seen: set[str] = set()
        """The names of the modules that were looked at."""
        self._files: dict[str, tuple[int, int, float]] = {}
        """The `_state` of each file when it was noted, and the begin of the chunk that imported it,
        in seconds since 1970. A change after that begin may be later than the import."""

    def note(self, began: float) -> None:
        """Note the modules that were imported since ``began``, a time in seconds."""
        for name in sys.modules.keys() - self._seen:
            self._seen.add(name)
            file = getattr(sys.modules.get(name), "__file__", None)
            # An installed package does not change while a kernel runs, and a look at
            # each of its files takes time.
            if isinstance(file, str) and not os.path.realpath(file).startswith(self._installed):
                self._files[file] = (*_state(file), began)

    def were_edited(self) -> bool:
        """Whether the file of a noted module has changed since its import."""
        return any(
            _state(file) != (changed, size) or changed > began * 1e9
            for file, (changed, size, began) in self._files.items()
        )


def _state(file: str) -> tuple[int, int]:
    """When a file was changed, in nanoseconds, and its size."""
    try:
        status = os.stat(file)
    except OSError:
        return 0, 0
    return status.st_mtime_ns, status.st_size


def _read_frames(
    source: BinaryIO, frames: SimpleQueue[bytes], target: BinaryIO, writes: threading.Lock
) -> None:
    try:
        while (frame := read_frame(source)) is not None:
            if frame != ALIVE:
                frames.put(frame)
                continue
            with writes:
                write_frame(target, b"")
    finally:
        os._exit(0)


def _end_with_parent() -> None:
    """Let Linux end this process with the thread that has started it: the thread of `_watch` gets no
    turn while a call holds the interpreter's lock."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(SET_DEATH_SIGNAL, signal.SIGKILL)


def _watch(parent: int) -> None:
    """End this process when its parent is gone: it then has another parent."""
    while os.getppid() == parent:
        time.sleep(LOOK)
    os._exit(0)


def read_frame(source: BinaryIO) -> bytes | None:
    """The next frame; None if the other side has closed the pipe."""
    header = source.read(8)
    if len(header) < 8:
        return None
    length = int.from_bytes(header, "big")
    frame = source.read(length)
    return frame if len(frame) == length else None


def write_frame(target: BinaryIO, frame: bytes) -> None:
    target.write(len(frame).to_bytes(8, "big"))
    target.write(frame)
    target.flush()


if __name__ == "__main__":
    main()
