"""Follows five tasks through the code: the functions and files of the package that each of them passes, in order.

``python -m tests.ways`` prints them as JSON, from a process of its own, because it profiles all threads. A function
that only some of the rounds pass depends on timing and is left out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

ROOT = Path(__file__).parents[1]
ROUNDS = 3
LATE = {"Job._end"}
"""Functions that a thread runs after it has woken the waiting thread. Whether they are profiled depends on timing."""
ONE_CALL = "pipeline: one_call\nsteps:\n- tool: {name: double, args: {number: !expr ctx.x}, output: y}\n"
ELEMENTS = """\
pipeline: elements
steps:
- for_each:
    over: ctx.numbers
    on_error: abort
    do: {tool: {name: double, args: {number: !expr item}}}
    collect: {transform: {value: pipe}}
"""


class Profile:
    """Collects the calls of functions of the package, on all threads, while the profile is on."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.calls: list[tuple[str, str]] = []
        self.on = False

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if self.on and event == "call" and frame.f_code.co_filename.startswith(self.package):
            self.calls.append((frame.f_code.co_filename[len(self.package) :], frame.f_code.co_qualname))

    def follow(self, act: Callable[[], object]) -> list[tuple[str, str]]:
        """The functions that every round of ``act`` passes, in the order of the last round. The first rounds fill
        caches."""
        rounds: list[dict[tuple[str, str], None]] = []
        for _ in range(2 * ROUNDS):
            self.calls, self.on = [], True
            try:
                act()
            finally:
                self.on = False
            rounds.append(dict.fromkeys(self.calls))
        always = (call for call in rounds[-1] if all(call in calls for calls in rounds[ROUNDS:]))
        return [(file, function) for file, function in always if function not in LATE]


def follow_all() -> dict[str, list[tuple[str, str]]]:
    import agf_magics as agf

    profile = Profile(os.path.dirname(agf.__file__) + "/")
    threading.setprofile(profile)  # before the first thread starts
    sys.setprofile(profile)
    agf.tool(double)
    _journal("")
    ways = {"a text to a flow": profile.follow(lambda: agf.define(ONE_CALL))}
    flow = agf.define(ONE_CALL)
    ways["a run of one call"] = profile.follow(lambda: agf.run(flow, {"x": 2}))
    _journal("runs.sqlite")
    ways["the same with the journal"] = profile.follow(lambda: agf.run(flow, {"x": 2}))
    ended = agf.start(flow, {"x": 2})
    ended.result()
    ways["Run from here"] = profile.follow(lambda: agf.rerun(ended.run_id, "steps[0]"))
    _journal("")
    elements = agf.define(ELEMENTS)
    ways["elements on workers, in the kernel"] = profile.follow(
        lambda: agf.run(elements, {"numbers": list(range(8))}, on="processes:1")
    )
    return ways


def double(number: int) -> int:
    return 2 * number


def _journal(file: str) -> None:
    import dataclasses

    from agf_magics.settings.settings import current

    current.settings = dataclasses.replace(current.settings, journal=file)


def ways() -> dict[str, list[tuple[str, str]]]:
    """The functions of each task, as ``(file, name)``, from a new process in an empty folder."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "pyproject.toml").touch()
        completed = subprocess.run(
            [sys.executable, "-m", "tests.ways"],
            cwd=folder,
            env={**os.environ, "HOME": folder, "XDG_DATA_HOME": folder, "PYTHONPATH": str(ROOT)},
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
    return {
        name: [(file, function) for file, function in calls] for name, calls in json.loads(completed.stdout).items()
    }


def files(way: list[tuple[str, str]]) -> list[str]:
    """The files of a task in the order in which it reaches them."""
    return list(dict.fromkeys(file for file, _ in way))


if __name__ == "__main__":
    print(json.dumps(follow_all()))
