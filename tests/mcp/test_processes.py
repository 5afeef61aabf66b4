"""The processes of servers end together with the kernel, and connecting leaves nothing behind."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import agf_magics as agf
from agf_magics.mcp.client import session
from agf_magics.mcp.client.connecting import Command
from agf_magics.mcp.client.foreign_text import Masked
from agf_magics.mcp.client.home_loop import HomeLoop
from tests.mcp.servers import is_alive, marks, program, until

CONNECTS = """
import os, sys, agf_magics as agf
mark, server = sys.argv[1:]
agf.mcp.connect("one", command=[sys.executable, server], env={"MARK": mark})
agf.mcp.connect("two", command=[sys.executable, server], env={"MARK": mark})
END
"""


def marking(folder: Path) -> tuple[Path, Path]:
    """A server that adds the number of its process to the file in ``MARK``, and a place for that file."""
    mark, server = folder / "mark", folder / "server.py"
    text = Path(program("quick")[1]).read_text(encoding="utf-8")
    begin = 'import os\nopen(os.environ["MARK"], "a").write(f"{os.getpid()}\\n")\n'
    head = "from __future__ import annotations\n"
    server.write_text(text.replace(head, head + begin))
    return mark, server


@pytest.mark.parametrize("end", ["", "raise SystemExit(1)", "os.kill(os.getpid(), 9)"], ids=["end", "exit", "killed"])
def test_servers_end_with_the_process_that_connected_them(end: str, tmp_path: Path) -> None:
    mark, server = marking(tmp_path)
    code = CONNECTS.replace("END", end)
    subprocess.run([sys.executable, "-c", code, mark, server], timeout=60, check=False)
    processes = [int(pid) for pid in marks(mark)]
    assert len(processes) == 2
    assert until(lambda: not any(map(is_alive, processes)))


def test_an_interrupt_while_a_server_is_connected_ends_it(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    main = threading.main_thread().ident

    def interrupt() -> None:
        assert until(mark.exists)
        signal.pthread_kill(main, signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        agf.mcp.connect("deaf", command=program("hostile", "deaf"), env={"MARK": str(mark)}, wait=60)
    assert "deaf" not in agf.mcp.servers
    assert until(lambda: not any(map(is_alive, map(int, mark.read_text().split()))))


@pytest.mark.parametrize("turns", [0, 1, 3, 100])
def test_a_second_close_while_the_first_one_ends_a_server_leaves_no_process(turns: int, tmp_path: Path) -> None:
    """``connect`` closes a server twice when it is interrupted. ``turns``: of the loop in between."""
    mark = tmp_path / "mark"
    words, environment = program("hostile", "deaf"), {"MARK": str(mark)}

    async def close_twice() -> None:
        ends: list[str] = []
        opens = Command(words, environment).prepare("x", ends.append).opens
        one = session.Session("deaf", opens, "auto", Masked())
        opening = asyncio.create_task(one.open(60))
        while not mark.exists() or not mark.read_text():
            await asyncio.sleep(0.01)
        opening.cancel()
        for _ in range(turns):
            await asyncio.sleep(0)
        await one.close()
        await asyncio.wait({opening})

    HomeLoop.current().wait(close_twice())
    processes = [int(pid) for pid in mark.read_text().split()]
    assert len(processes) == 2
    assert until(lambda: not any(map(is_alive, processes)))


@pytest.mark.parametrize("act", ["close", "restart"])
def test_a_server_that_does_not_end_in_time_is_a_note_and_ends_later(
    act: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark, program = marking(tmp_path)
    server = agf.mcp.connect("one", command=[sys.executable, str(program)], env={"MARK": str(mark)}, wait=60)
    monkeypatch.setattr(session, "CLOSING", 0.0)
    getattr(server, act)()
    (note,) = server.problems
    assert (note.code, "it did not end within" in note.message) == ("mcp.noise", True)
    assert (server.state, bool(server.tools)) == (("closed", False) if act == "close" else ("open", True))
    first, *later = map(int, marks(mark))
    assert until(lambda: not is_alive(first))
    assert [is_alive(pid) for pid in later] == [True] * (act == "restart")
    server.close()
    assert until(lambda: not any(map(is_alive, later)))


def leftovers() -> dict[str, int]:
    """The numbers of threads, files and other things that this process has open."""
    gc.collect()
    pid = os.getpid()
    return {
        "files": len(os.listdir(f"/proc/{pid}/fd")),
        "threads": threading.active_count(),
        "processes": len(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()),
        "tasks": len(asyncio.all_tasks(HomeLoop.current().loop)),
        "tools": len(agf.registry.tools),
    }


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")
def test_1000_connects_and_closes_leave_nothing() -> None:
    for _ in range(5):  # makes the lasting things: the loop, its thread, caches
        agf.mcp.connect("quick", command=program("quick")).close()
    before = leftovers()
    for _ in range(1_000):
        agf.mcp.connect("quick", command=program("quick")).close()
    until(lambda: leftovers() == before)
    assert leftovers() == before
