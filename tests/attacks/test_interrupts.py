"""Interrupts in every state of a run: a real SIGINT at the N-th call that the package makes on the main thread.

Python handles signals when a function begins and when a C function has returned. A profile function counts these
places, so a sweep over them is the same each time.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes import printed

SWEEP = '''
import asyncio, json, os, signal, sys, threading, time
from pathlib import Path
import agf_magics as agf
from agf_magics.lifecycle.runs.live import live
from agf_magics.engine.host import waiting_thread

PACKAGE = os.path.dirname(agf.__file__)
effects = []

@agf.tool
async def effect(n: int) -> int:
    effects.append(n)
    return n

@agf.tool
def plain(n: int) -> int:
    effects.append(n)
    return n

agf.define("{pipeline: p, steps: [%s]}" % ", ".join(
    "{tool: {name: %s, args: {n: %d}}}" % (name, n) for n, name in enumerate(["effect", "plain", "effect"])))

dropped = []
sys.unraisablehook = dropped.append  # Python drops what is raised in a weakref callback, so that interrupt is lost

class AtCall:
    "Sends a SIGINT at the N-th call of, or by, a function of the package on this thread."

    def __init__(self, number):
        self.left = number
        self.made = 0

    def __call__(self, frame, event, arg):
        by = frame.f_back if event == "call" else frame
        if event in ("call", "c_return") and by is not None and by.f_code.co_filename.startswith(PACKAGE):
            self.left -= 1
            if self.left == 0:
                sys.setprofile(None)
                self.made = len(effects)
                signal.raise_signal(signal.SIGINT)

def interrupted_at(number, begin):
    """What came of it: the outcome, and whether the signal was sent at all."""
    tracer = AtCall(number)
    effects.clear()
    dropped.clear()
    sys.setprofile(tracer)
    try:
        outcome = begin().status
    except agf.RunInterrupted as interrupt:
        outcome = interrupt.run.status
    except KeyboardInterrupt:
        outcome = "KeyboardInterrupt"
    finally:
        sys.setprofile(None)
    sent = tracer.left <= 0
    assert not (sent and not tracer.made and outcome == "ok" and not dropped), (number, "the interrupt was lost")
    return outcome, sent

def still():
    """Wait until nothing runs; what was made by then."""
    until = time.monotonic() + 60
    while live.running:
        assert time.monotonic() < until, "a run goes on, and nobody waits for it"
        time.sleep(0.001)
    return list(effects)

def checked(number, begin):
    outcome, sent = interrupted_at(number, begin)
    made = still()
    assert outcome in ("ok", "cancelled", "KeyboardInterrupt"), outcome
    assert outcome == "ok" or made == [0, 1, 2][: len(made)], (number, outcome, made)
    assert outcome != "ok" or made == [0, 1, 2] or not sent or "resume" in sys.argv[1], (number, outcome, made)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, number
    assert not waiting_thread.waiters.stack and waiting_thread.waiters.held is None, number
    kept = [one.status for one in agf.runs()]
    assert "running" not in kept, (number, outcome, kept)
    return outcome, sent
'''

FRESH = """
first, step = int(sys.argv[2]), int(sys.argv[3])
agf.run("p")  # what is imported and made once is
seen, number = set(), first
while True:
    outcome, sent = checked(number, lambda: agf.run("p"))
    seen.add(outcome)
    if not sent:
        break
    number += step
print(sorted(seen), number > 200)
"""


@pytest.mark.slow
@pytest.mark.parametrize("first", [1, 2, 3])
def test_an_interrupt_at_any_call_ends_the_run_in_order(first: int, tmp_path: Path) -> None:
    assert printed(SWEEP + FRESH, tmp_path, "run", str(first), "3") == ["['KeyboardInterrupt', 'cancelled', 'ok'] True"]


RESUMED = """
import subprocess
from agf_magics.journal.database.store import Store

first, step = int(sys.argv[2]), int(sys.argv[3])
seen, number = set(), first
made = agf.run("p")
run_id = made.run_id
path = Path(".agf/runs.sqlite").absolute()

def cut():
    "The run as a process that died in its second call would have left it."
    store = Store.at(path)
    store.flush()
    with store.writing() as connection:
        connection.execute(
            "UPDATE runs SET status='running', ended=NULL, owner='1-000000000000',"
            " state_crc=agf_checksum(num, '1-000000000000', pauses, 'running', NULL, tokens, cost,"
            " dropped, lost, end_crc)"
        )
        connection.execute("DELETE FROM records WHERE name!='effect' OR at LIKE '%2%'")
        connection.execute("COMMIT")

while True:
    cut()
    outcome, sent = interrupted_at(number, lambda: agf.resume(run_id))
    still()
    (one,) = agf.runs()
    assert one.status in ("ok", "cancelled", "interrupted"), (number, outcome, one.status)
    assert outcome != "ok" or one.status == "ok", (number, outcome, one.status)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, number
    if one.status != "ok":
        assert agf.resume(run_id).status == "ok", number  # it can be resumed
    seen.add(one.status)
    if not sent:
        break
    number += step
print(sorted(seen), number > 200)
"""


@pytest.mark.slow
@pytest.mark.parametrize("first", [1, 4])
def test_a_resumed_run_can_be_resumed_again_wherever_an_interrupt_comes(
    first: int, tmp_path: Path, thorough: bool
) -> None:
    step = "3" if thorough else "23"
    assert printed(SWEEP + RESUMED, tmp_path, "resume", str(first), step) == ["['cancelled', 'interrupted', 'ok'] True"]


def test_a_resume_that_cannot_begin_leaves_the_run_as_it_was(tmp_path: Path) -> None:
    code = """
import subprocess
ran = subprocess.run([sys.executable, "-c", '''
import os, agf_magics as agf
@agf.tool
def dies(): os.kill(os.getpid(), 9)
agf.run("{pipeline: p, steps: [{tool: {name: dies}}]}")
'''])
@agf.tool
def dies() -> str:
    return "lives"
before = agf.runs()[0]
start = threading.Thread.start
def none_left(thread):
    if thread.name == "agf-engine":
        raise RuntimeError("can't start new thread")
    start(thread)
threading.Thread.start = none_left
try:
    agf.resume(before.run_id)
except RuntimeError as error:
    print(error)
threading.Thread.start = start
print(agf.runs()[0] == before, before.status)
print(agf.resume(before.run_id).output)
"""
    assert printed(SWEEP + code, tmp_path) == ["can't start new thread", "True interrupted", "lives"]


def test_a_second_interrupt_gives_the_prompt_back_while_a_tool_catches_each(tmp_path: Path) -> None:
    code = """
def press(tool):
    "Until the run has ended: as a person does, who sees that nothing happens."
    while not tool.over and live.running:
        os.kill(os.getpid(), signal.SIGINT)
        tool.pause.wait(0.05)

class Tool:
    caught, over, pause = 0, False, threading.Event()

@agf.tool
def deaf() -> None:
    pressing = threading.Thread(target=press, args=(Tool,), daemon=True)  # so that the process can end
    while True:
        try:
            if pressing.ident is None:
                pressing.start()
            while True:
                time.sleep(0.01)
        except KeyboardInterrupt:
            Tool.caught += 1

def no_more():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Tool.over = True

try:
    try:
        agf.run("{pipeline: q, steps: [{tool: {name: deaf}}]}")
    except KeyboardInterrupt:
        no_more()
except KeyboardInterrupt:  # the last one that was pressed
    no_more()
if Tool.over:
    print("back", Tool.caught >= 1, sys.gettrace(), sys.getprofile())
"""
    assert printed(SWEEP + code, tmp_path) == ["back True None None"]
