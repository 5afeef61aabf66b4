"""Renders templates in one separate process of the kernel (decision A20 has the reasons).

A template is untrusted text, and Jinja2's sandbox bounds neither time nor memory: a short template
can block the interpreter for ever, in C code that nothing interrupts. So a process renders it that
can be killed. The process is started with the first template and renders one template at a time. If
it takes too much time or memory, it is killed, the rendering fails, and the next template starts a
new process.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, cast

from ....compat.browser import IN_BROWSER
from ....compat.memory import memory_of

PROGRAM = Path(__file__).with_name("jinja_child.py")
RENDERING_SECONDS = 5
"""Seconds that one rendering may take."""
START_SECONDS = 60
"""Seconds that the process may take to start, on a busy machine too."""
MEMORY = 512 << 20
"""Bytes of memory."""
LONGEST_ANSWER = 16 << 20
"""Bytes of an answer: a character takes up to twelve of them."""
_INHERITED = ("PATH", "SYSTEMROOT", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")
"""The environment of the process: no key or token of the kernel's."""


class NoProcess(Exception):
    """No process can be started here."""


class Killed(Exception):
    """The process was killed, or ended by itself; the text completes "the template …"."""


class Renderer:
    """Renders templates in a process of its own. Safe to use from several threads."""

    def __init__(self, seconds: float = RENDERING_SECONDS, memory: int = MEMORY) -> None:
        self.seconds = seconds
        self.memory = memory
        self.forget()

    def forget(self) -> None:
        """Forget the process, in a fork of the kernel, which needs another process."""
        self.lock = threading.Lock()
        self.process: subprocess.Popen[bytes] | None = None

    def render(self, text: str, values: Mapping[str, Any]) -> dict[str, Any]:
        """The answer of the process; jinja_child.py has its form. Raises NoProcess, Killed."""
        if IN_BROWSER:
            # A browser starts no processes. Its page is a sandbox that a person can close, so the
            # template is rendered in it (decision D59).
            from .jinja_child import NoNumber
            from .jinja_child import answer as answer_here

            return answer_here(text, json.loads(json.dumps(values), parse_constant=NoNumber))
        line = json.dumps({"text": text, "values": values}).encode() + b"\n"
        with self.lock:
            try:
                if self.process is None or self.process.poll() is not None:
                    self.process = self._start()
                    self._await_start(self.process)
                return self._ask(self.process, line, self.seconds)
            except BaseException:  # even an interrupt: the next request would read this answer
                self._end()
                raise

    def close(self) -> None:
        """End the process; the next template starts another one."""
        with self.lock:
            self._end()

    def _start(self) -> subprocess.Popen[bytes]:
        import jinja2
        import markupsafe

        packages = [cast("str", package.__file__) for package in (jinja2, markupsafe)]
        folders = [str(Path(file).parents[1]) for file in packages]
        limits = [str(self.memory), str(int(self.seconds)), str(os.getpid())]
        try:
            return subprocess.Popen(
                [sys.executable, "-I", PROGRAM, *limits, *folders],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                cwd=PROGRAM.parent,
                env={name: os.environ[name] for name in _INHERITED if name in os.environ},
            )
        except (OSError, ValueError) as error:  # a sandbox may refuse to start a process
            raise NoProcess(str(error)) from error

    def _await_start(self, process: subprocess.Popen[bytes]) -> None:
        """Render an empty template, so that the time of the start does not count for the first
        one."""
        try:
            self._ask(process, b'{"text": "", "values": {}}\n', START_SECONDS)
        except Killed as error:
            raise NoProcess("it ended when it started") from error

    def _ask(self, process: subprocess.Popen[bytes], line: bytes, seconds: float) -> dict[str, Any]:
        """The answer to the request in ``line``. Raises Killed if none comes in time, or if the
        process ends."""
        watch = _Watch(process, seconds, self.memory)
        requests = cast("IO[bytes]", process.stdin)
        answers = cast("IO[bytes]", process.stdout)
        try:
            requests.write(line)
            requests.flush()
            answer = answers.readline(LONGEST_ANSWER)
        except OSError:
            answer = b""
        finally:
            watch.done.set()
        if not answer.endswith(b"\n"):
            raise Killed(watch.reason or "used too much time or memory: its process ended")
        return cast("dict[str, Any]", json.loads(answer))

    def _end(self) -> None:
        process = self.process
        self.process = None
        if process is not None:
            process.kill()
            with contextlib.suppress(OSError):
                process.communicate()


class _Watch:
    """Kills a process that takes too long or too much memory, so that whoever reads from it goes
    on."""

    def __init__(self, process: subprocess.Popen[bytes], seconds: float, memory: int) -> None:
        self.process = process
        self.memory = memory
        self.until = time.monotonic() + seconds
        self.limit = seconds
        self.reason = ""
        """Why it was killed, as `Killed` says it; empty: it was not."""
        self.done = threading.Event()
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        # The memory is looked at four times a second, and the time when it is over.
        while not self.done.wait(min(0.25, max(self.until - time.monotonic(), 0.01))):
            if time.monotonic() > self.until:
                self.reason = f"takes longer than {self.limit:g} s"
            elif (memory_of(self.process.pid) or 0) > self.memory:
                self.reason = f"needs more than {self.memory >> 20} MB of memory"
            if self.reason:
                self.process.kill()
                return


RENDERER = Renderer()
"""The renderer of this process for all registries, because a child process costs 20 MB."""

atexit.register(RENDERER.close)
if hasattr(os, "register_at_fork"):  # Windows has no fork
    os.register_at_fork(after_in_child=RENDERER.forget)
