"""Runs scripts in processes of their own, for tests that may hang, kill or fork their process.

Each process is a fork of a server that has imported IPython and the package, has one thread and has run nothing. So the
fork is like a new interpreter after these imports. The imports take 0.6 s of CPU time, a fork takes 0.02 s.
"""

from __future__ import annotations

import atexit
import gc
import json
import os
import select
import signal
import subprocess
import sys
import textwrap
import threading
import types
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

PATIENCE = 120.0
"""Seconds after which a process counts as hanging. Only a failing test waits that long."""


def script(text: str, folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a Python script in ``folder`` to its end. Raises TimeoutExpired if the script hangs."""
    with TemporaryDirectory() as outputs:
        out, err = Path(outputs, "out"), Path(outputs, "err")
        order = {"text": textwrap.dedent(text), "arguments": arguments, "folder": str(folder.absolute())}
        order |= {"environment": {**os.environ, **environment}, "outputs": [str(out), str(err)]}  # type: ignore[dict-item]
        status = forks().run(order)
        output, errors = out.read_text(encoding="utf-8"), err.read_text(encoding="utf-8")
    return subprocess.CompletedProcess(["python", "-c", text, *arguments], status, output, errors)


def command_line(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run ``agf-magics`` in ``folder``."""
    started = "import runpy; runpy.run_module('agf_magics', run_name='__main__', alter_sys=True)"
    return script(started, folder, *words, **environment)


def printed(text: str, folder: Path, *arguments: str) -> list[str]:
    """Run a script, which must succeed, and return the lines that it prints. ``folder`` becomes a project."""
    (folder / "pyproject.toml").touch()
    completed = script(text, folder, *arguments)
    assert completed.returncode == 0, completed.stderr
    return completed.stdout.splitlines()


@cache
def forks() -> Forks:
    forked = Forks()
    atexit.register(forked.close)
    return forked


class Forks:
    """The client of the server that forks."""

    def __init__(self) -> None:
        command = [sys.executable, "-P", __file__]
        # A group of its own, so that the server and the script that it runs can be killed together.
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, process_group=0
        )
        assert self.process.stdin
        assert self.process.stdout
        self.orders, self.answers = self.process.stdin, self.process.stdout

    def run(self, order: dict[str, Any]) -> int:
        """Run a script as ``order`` describes it. Returns its exit status."""
        self.orders.write(json.dumps(order) + "\n")
        self.orders.flush()
        try:
            if not select.select([self.answers], [], [], PATIENCE)[0]:
                raise subprocess.TimeoutExpired(order["text"], PATIENCE)
        except BaseException:  # even the time limit of the test; the next order must not read the answer to this one
            forks.cache_clear()
            os.killpg(self.process.pid, signal.SIGKILL)
            raise
        line = self.answers.readline()
        assert line, "the process that forks has ended"
        return int(line)

    def close(self) -> None:
        self.orders.close()
        self.process.wait()


def serve() -> None:
    """For each order on the standard input, fork and become the ordered script in the fork."""
    import IPython.core.interactiveshell  # noqa: F401

    import agf_magics as agf

    def echo(x: int) -> int:
        return x

    registry = agf.Registry()
    agf.tool(echo, registry=registry)
    agf.load(
        "{pipeline: p, steps: [{tool: {name: echo, args: {x: 1}}}]}", registry=registry
    )  # imports what a run needs
    gc.freeze()  # the collector of a fork does not visit, and so copy, these objects
    assert threading.active_count() == 1, "a fork has only the thread that forks"
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            return become(**json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def become(text: str, arguments: list[str], folder: str, environment: dict[str, str], outputs: list[str]) -> None:
    """Become a new ``python -c``, which keeps only the imports of the process that forked."""
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    writes = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    files = [os.open(os.devnull, os.O_RDONLY), *(os.open(path, writes) for path in outputs)]
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    sys.argv, sys.path = ["-c", *arguments], ["", *sys.path]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    exec(compile(text, "<string>", "exec"), main.__dict__)


if __name__ == "__main__":
    serve()
