"""Tools that fork: the child process ends together with the code of the tool, and the parent's run continues."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.processes import printed

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")

CODE = """
import asyncio, os, sys, threading
import agf_magics as agf

def child(way):
    if way == "exits": sys.exit(3)
    if way == "exits with a text": sys.exit("a reason")
    if way == "raises": raise ValueError("in the child")
    if way == "runs" and name in ("plain", "elsewhere"):
        os._exit(agf.run("{pipeline: inner, steps: [{transform: {value: 40 + 2}}]}").output)
    if way == "runs":  # the child has no loop: it can run one of its own
        os._exit(asyncio.run(agf.arun("{pipeline: inner, steps: [{transform: {value: 40 + 2}}]}")).output)
    return "returned"

def code(pid):
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

@agf.tool
def plain(way: str):
    pid = os.fork()
    return code(pid) if pid else child(way)

@agf.tool
async def at_once(way: str):
    pid = os.fork()
    return code(pid) if pid else child(way)

class Forever:
    "Waits on the loop of the parent."
    def __await__(self):
        while True:
            yield

@agf.tool
async def waits(way: str):
    await asyncio.sleep(0)
    pid = os.fork()
    if pid == 0:
        child(way)
        await Forever()
    return await asyncio.to_thread(code, pid)

@agf.tool(where="thread")
def elsewhere(way: str):
    pid = os.fork()
    return code(pid) if pid else child(way)

name, way = sys.argv[1:]
text = "{pipeline: p, steps: [{tool: {name: %s, args: {way: %s}}}]}" % (name, way)
print(agf.run(text).output)
print([(one.name, one.status) for one in agf.runs()])
"""

WAYS = {"exits": 3, "exits with a text": 1, "raises": 1, "returns": 0, "runs": 42}


@pytest.mark.slow
@pytest.mark.parametrize("tool", ["plain", "at_once", "waits", "elsewhere"])
@pytest.mark.parametrize("way", WAYS)
def test_a_forked_child_ends_with_its_tool_and_the_run_goes_on(tool: str, way: str, tmp_path: Path) -> None:
    assert printed(CODE, tmp_path, tool, way) == [str(WAYS[way]), "[('p', 'ok')]"]
