"""Provides a real shell with the extension loaded, and a real kernel whose messages are all kept."""

from __future__ import annotations

import gc
import os
import queue
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from jupyter_client.manager import start_new_kernel
from traitlets.config import Config

from agf_magics.catalog import Registry, default
from agf_magics.text.diagnostics import AgfError
from tests.shells import only_shell

PATIENCE = 60.0
"""Seconds after which a silent kernel counts as dead. Only a failing test waits that long."""


class Shown:
    """The outcome of a cell in a shell."""

    def __init__(self, result: Any, captured: Any) -> None:
        self.ok = result.success
        self.value = result.result
        self.error = result.error_in_exec or result.error_before_exec
        self.out = captured.stdout
        self.err = captured.stderr
        self.outputs = [output.data for output in captured.outputs]


class Shell:
    """An IPython shell without a kernel."""

    def __init__(self, ip: InteractiveShell) -> None:
        self.ip = ip

    def run(self, cell: str) -> Shown:
        with capture_output() as captured:
            result = self.ip.run_cell(cell, store_history=True)
        return Shown(result, captured)

    def good(self, cell: str) -> Shown:
        """Run a cell that must succeed."""
        result = self.run(cell)
        assert result.ok, result.out
        return result

    @property
    def names(self) -> dict[str, Any]:
        return self.ip.user_ns


BUILT_IN = ("file__read", "file__write", "shell", "sql")


def empty(registry: Registry) -> None:
    """Remove everything that a test registered."""
    shelves = (registry.tools, registry.agents, registry.flows, registry.schemas, registry.contexts)
    for shelf in (*shelves, registry.transforms, registry.policies):
        for name in list(shelf):
            if name not in BUILT_IN:
                shelf.remove(name)


@pytest.fixture(scope="session")
def _ip(tmp_path_factory: pytest.TempPathFactory) -> Iterator[InteractiveShell]:
    config = Config({"HistoryManager": {"enabled": False}})
    with only_shell(lambda: InteractiveShell.instance(colors="nocolor", config=config)) as shell:
        yield shell


@pytest.fixture
def shell(_ip: InteractiveShell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    """A shell with the extension loaded, in a new folder, with only the built-in tools registered."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").touch()  # makes the folder a project, whatever the folders above contain
    empty(default())
    _ip.reset(new_session=True)
    gc.freeze()  # the reset has just collected, and the next reset need not visit the surviving objects again
    _ip.extension_manager.load_extension("agf_magics")
    _ip.run_cell("from agf_magics import agent, tool", silent=True)
    yield Shell(_ip)
    _ip.extension_manager.unload_extension("agf_magics")
    _ip.config.pop("AgfMagics", None)  # after the unloading, which restores the configuration from before
    empty(default())


TOOLS = """\
@tool
def measure(word: str) -> int:
    print('measuring', word)
    return len(word)

@tool
def explode(word: str) -> int:
    return inner(word)

def inner(word):
    raise KeyError(word)
"""

LONGEST = """\
pipeline: longest
steps:
- for_each:
    over: ctx.words
    on_error: abort
    do: {tool: {name: measure, args: {word: !expr item}}}
    collect: {transform: {value: pipe}}
    output: lengths
- transform: {value: "count(lengths)", output: number}
"""


@pytest.fixture
def ready(shell: Shell) -> Shell:
    shell.good(TOOLS)
    shell.good("%%pipeline\n" + LONGEST)
    return shell


def code(result: Any) -> str:
    assert isinstance(result.error, AgfError)
    return result.error.code


class Cell:
    """The messages of one cell in order."""

    def __init__(self, kernel: Kernel, id: str) -> None:
        self.kernel = kernel
        self.id = id
        self.messages: list[dict[str, Any]] = []
        self.reply: dict[str, Any] = {}

    def until(self, kind: str, part: str = "") -> dict[str, Any]:
        """Wait for a message of this kind with this text in it. Returns its content."""
        for message in self.messages:
            if message["msg_type"] == kind and part in str(message["content"]):
                content: dict[str, Any] = message["content"]
                return content
        while True:
            message = self.kernel.next()
            if message["parent_header"].get("msg_id") != self.id:
                self.kernel.strays.append(message)
                continue
            self.messages.append(message)
            if message["msg_type"] == kind and part in str(message["content"]):
                return message["content"]  # type: ignore[no-any-return]
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                raise AssertionError(f"the cell ended without {kind} {part!r}: {self.told}")

    def end(self) -> Cell:
        """Wait for the end of the cell."""
        self.until("status", "'idle'")
        self.reply = self.kernel.reply(self.id)
        self.kernel.unended.discard(self.id)
        return self

    @property
    def told(self) -> list[tuple[str, str]]:
        return [(message["msg_type"], str(message["content"])[:300]) for message in self.messages]

    def of(self, *kinds: str) -> list[dict[str, Any]]:
        return [message["content"] for message in self.messages if message["msg_type"] in kinds]

    @property
    def printed(self) -> str:
        return "".join(content["text"] for content in self.of("stream"))

    @property
    def outputs(self) -> list[dict[str, Any]]:
        """The outputs as a notebook would save them: displays in order, each with its last update."""
        outputs: list[dict[str, Any]] = []
        by_id: dict[str, int] = {}
        for message in self.messages:
            content, kind = message["content"], message["msg_type"]
            id = content.get("transient", {}).get("display_id")
            if kind == "update_display_data" and id in by_id:
                outputs[by_id[id]] = content["data"]
            elif kind in ("display_data", "execute_result"):
                if id:
                    by_id[id] = len(outputs)
                outputs.append(content["data"])
        return outputs

    @property
    def traceback(self) -> str:
        """The traceback without its colours."""
        return re.sub(r"\x1b\[[0-9;]*m", "", "\n".join(self.reply["traceback"]))


def started(messages: list[dict[str, Any]]) -> list[tuple[str, str, dict[str, Any]]]:
    """The explorers that were opened, each as the id of the comm, the mark, and the start message for the page. The
    first explorer of a kernel comes with the model."""
    starts = []
    for message in messages:
        content = message["content"]
        if message["msg_type"] == "comm_open":
            runs = content["data"]["state"].get("runs", {})
            starts += [(content["comm_id"], mark, start) for mark, start in runs.items()]
        elif message["msg_type"] == "comm_msg" and content["data"].get("content", {}).get("type") == "run":
            start = content["data"]["content"]
            starts.append((content["comm_id"], start["mark"], start))
    return starts


class Kernel:
    """A real ipykernel that is connected over ZMQ."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        (folder / "pyproject.toml").touch()
        self.manager, self.client = start_new_kernel(cwd=str(folder), env=env, startup_timeout=PATIENCE)
        self.folder = folder
        self.strays: list[dict[str, Any]] = []
        """Messages that belong to another cell than the awaited one."""
        self.unended: set[str] = set()
        """The cells that no test has seen end."""

    def next(self) -> dict[str, Any]:
        message: dict[str, Any] = self.client.get_iopub_msg(timeout=PATIENCE)
        return message

    def reply(self, id: str) -> dict[str, Any]:
        """The content of the reply to a request. The start of a kernel may leave an earlier reply behind."""
        while True:
            message = self.client.get_shell_msg(timeout=PATIENCE)
            if message["parent_header"]["msg_id"] == id:
                content: dict[str, Any] = message["content"]
                return content

    def begin(self, code: str, front: str = "notebook", id: str = "a-cell") -> Cell:
        """Send a cell. ``front``: the sender, which is a ``notebook`` that names its cell, a ``console``, or
        ``nbclient``. ``id``: the name of the cell."""
        content = {"code": code, "silent": False, "store_history": True, "user_expressions": {}}
        content |= {"allow_stdin": front != "nbclient", "stop_on_error": True}
        metadata = {"cellId": id} if front == "notebook" else {}
        message = self.client.session.msg("execute_request", content, metadata=metadata)
        self.client.shell_channel.send(message)
        self.unended.add(message["header"]["msg_id"])
        return Cell(self, message["header"]["msg_id"])

    def run(self, code: str, front: str = "notebook") -> Cell:
        return self.begin(code, front).end()

    def good(self, code: str, id: str = "a-cell") -> Cell:
        cell = self.begin(code, id=id).end()
        assert cell.reply["status"] == "ok", cell.told
        return cell

    def interrupt(self) -> None:
        self.manager.interrupt_kernel()

    def drain(self) -> list[dict[str, Any]]:
        """All messages that are still to come."""
        messages = []
        while True:
            try:
                messages.append(self.client.get_iopub_msg(timeout=0.2))
            except queue.Empty:
                return messages

    def close(self, now: bool = False) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=now)


SETUP = """\
%load_ext agf_magics
import asyncio, time, threading
from agf_magics import tool

@tool
def say(word: str) -> str:
    print(f'saying {word}\\n', end='')  # in one piece: other threads print too
    return word

@tool
async def whisper(word: str) -> str:
    print('whispering', word)
    return word

@tool
def gate(name: str) -> str:
    "Waits until the test opens it."
    print('at the gate', name)
    with open(name) as fifo:
        return fifo.read()

@tool
def sleep() -> None:
    print('asleep')
    time.sleep(30)

@tool
async def doze() -> None:
    print('dozing')
    await asyncio.sleep(30)

@tool
def stubborn() -> None:
    try:
        print('asleep')
        time.sleep(30)
    except KeyboardInterrupt:
        print('not yet')
        time.sleep(30)

@tool
def fail() -> None:
    raise ValueError('no pears')
"""


NO_JOURNAL = "%config AgfMagics.journal = None"  # a test that needs one sets it, and resets it to None


def kernel_in(folder: Path, **env: str) -> Kernel:
    fresh = {name: value for name, value in os.environ.items() if name not in ("JPY_SESSION_NAME", "VSCODE_PID")}
    kernel = Kernel(folder, {**fresh, **env})
    os.mkfifo(folder / "gate")
    kernel.good(SETUP)
    return kernel


@pytest.fixture(scope="session")
def kernels() -> Iterator[dict[str, Kernel]]:
    """The kernels that tests share, by name."""
    shared: dict[str, Kernel] = {}
    yield shared
    for kernel in shared.values():
        kernel.close()


def lent(
    kernels: dict[str, Kernel], name: str, folders: pytest.TempPathFactory, setup: str = NO_JOURNAL, **env: str
) -> Iterator[Kernel]:
    if name not in kernels:
        # Two levels deep: a tool may leave its folder, and what the kernel then writes must not reach other tests.
        folder = folders.mktemp(name) / "inner"
        folder.mkdir()
        kernels[name] = kernel_in(folder, **env)
        kernels[name].good(setup)
    kernel = kernels[name]
    kernel.strays.clear()
    yield kernel
    # A test that failed left a cell that may wait for ever, and with it every later test of this kernel.
    if kernel.unended:
        kernels.pop(name).close(now=True)


@pytest.fixture
def headless(kernels: dict[str, Kernel], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    yield from lent(kernels, "headless", tmp_path_factory)


@pytest.fixture
def page_kernel(kernels: dict[str, Kernel], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """A kernel with a front end, as JupyterLab starts it."""
    yield from lent(kernels, "page_kernel", tmp_path_factory, JPY_SESSION_NAME="a.ipynb")


@pytest.fixture(params=[pytest.param("headless", marks=pytest.mark.slow), "page_kernel"])
def kernel(request: pytest.FixtureRequest) -> Iterator[Kernel]:
    started_kernel: Kernel = request.getfixturevalue(request.param)
    yield started_kernel
    if started_kernel.unended:
        return
    started_kernel.good("%config AgfMagics.progress_after = 0.3\n%config AgfMagics.progress = 'auto'")
    assert not [m for m in started_kernel.strays if m["msg_type"] in ("stream", "display_data", "error")], (
        "output of no cell"
    )


def steps(*names: str) -> str:
    body = "\n".join(f"- tool: {{name: {name}}}" for name in names)
    return f"%%pipeline --run\npipeline: p\nsteps:\n{body}\n"
