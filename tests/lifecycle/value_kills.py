"""Kills two processes at random instants while they write, read and delete the same large values.

`python -m tests.lifecycle.value_kills 200 SEED` does this in a new folder and prints the problems. Three rules must
hold. A file that is named by a digest has the bytes of the digest at every moment. The results of runs and the values
from the journal are right. In the end all interrupted runs can be resumed, and no temporary file is left.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import agf_magics as agf
from agf_magics.journal.database import value_files
from agf_magics.lifecycle.past import past_runs
from agf_magics.settings.settings import current

N = 40_000
"""The count of numbers in an array of 320 kB, which is a large value with the `journal_value` of this script."""

KINDS = 3
"""The number of different inputs. It is small, so that the two processes often write the same parts."""

LONGEST = 0.5
"""The largest number of seconds after which a process is killed."""


class Outcome(NamedTuple):
    """The outcome of all rounds."""

    kills: Counter[str]
    """The number of kills, by the activity of the process."""
    wrong: list[str]
    """The violations of the rules."""
    resumed: int
    """The runs that were resumed to the right output."""


def expected(kind: int) -> float:
    return float(first(kind).sum() * 2)


def first(kind: int) -> Any:
    return np.arange(N) + float(kind)


def define() -> None:
    @agf.tool
    def load(kind: int) -> object:
        """A dict with an array."""
        return {"a": first(kind), "text": ["words"] * 30_000}

    @agf.tool
    def grow(data: object) -> object:
        """One more array."""
        return {**data, "b": data["a"] * 2.0}  # type: ignore[dict-item, index]

    @agf.tool
    def pick(data: object) -> object:
        """The array alone, which is read only when it is needed."""
        return data["b"]  # type: ignore[index]

    @agf.tool
    def total(array: object) -> float:
        """The sum."""
        return float(array.sum())  # type: ignore[attr-defined]

    agf.define("""
pipeline: main
steps:
- tool: {name: load, args: {kind: !expr ctx.kind}, output: one}
- tool: {name: grow, args: {data: !expr one}, output: two}
- tool: {name: pick, args: {data: !expr two}, output: three}
- tool: {name: total, args: {array: !expr three}}
""")


def work(note: Callable[[str], None], chance: random.Random) -> str | None:
    """Resume an interrupted run, or start another. Returns the problem, if there is one."""
    for head in list(agf.runs()):
        if head.status == "interrupted":
            note("resume")
            try:
                run = agf.resume(head.run_id)
            except agf.DefinitionError as error:
                if error.code in ("journal.running", "journal.unknown-run", "journal.finished"):
                    continue  # the other process has resumed it first
                return f"a resume was refused: {error}"
            kind = run.input["kind"]
            return None if run.output == expected(kind) else f"resumed {kind}: {run.output}"
    note("run")
    kind = chance.randrange(KINDS)
    run = agf.run("main", {"kind": kind}, reuse=chance.random() < 0.5)
    return None if run.output == expected(kind) else f"run {kind}: {run.output}"


def load_value(note: Callable[[str], None], chance: random.Random) -> str | None:
    """Load a stored value. Returns the problem, if there is one."""
    note("load")
    past = [run for run in agf.runs() if run.status == "ok"]
    if not past:
        return None
    try:
        run = agf.runs(chance.choice(past).run_id)
        kind, stored = run.input["kind"], run.load("steps[1]")
    except (agf.DefinitionError, KeyError):  # the other process has deleted it
        return None
    return None if np.array_equal(stored["b"], first(kind) * 2.0) else f"loaded {kind} wrongly"


def clean(note: Callable[[str], None], chance: random.Random) -> str | None:
    """Delete old runs. This alone cannot find a problem."""
    note("clean")
    past_runs.prune(days=0, size=chance.choice([2_000_000, 4_000_000, 1_000_000]))
    return None


def session(folder: Path, number: int, seed: int, ready: int) -> None:
    """Work in this process until it is killed. ``ready``: the descriptor to which it reports that it begins."""
    os.chdir(folder)
    prepare(folder)
    os.write(ready, b".")
    os.close(ready)
    chance, doing = random.Random(seed), folder / f"doing-{number}"
    note = doing.write_text
    while True:
        for act in chance.choices((work, load_value, clean), (3, 1, 1)):
            try:
                problem = act(note, chance)  # type: ignore[arg-type]
            except BaseException:
                problem = traceback.format_exc()
            if problem is not None:
                (folder / f"wrong-{os.getpid()}").write_text(problem)
                os._exit(1)


def prepare(folder: Path) -> None:
    os.environ["HOME"] = str(folder)
    current.settings = replace(
        current.settings, journal=str(folder / "runs.sqlite"), journal_value=100_000, journal_size=0, journal_days=0
    )
    value_files.RATE = 1e18
    define()


def forked(do: Callable[[], object]) -> int:
    """Start a child of this process, which has only one thread."""
    pid = os.fork()
    if not pid:
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, 1)
        try:
            do()
        finally:
            os._exit(0)
    return pid


def torn(folder: Path) -> list[str]:
    """The parts whose bytes do not fit their names."""
    torn_files = []
    for file in (folder / "values").glob("*") if (folder / "values").exists() else ():
        if value_files.DIGEST.fullmatch(file.name):
            try:
                data = file.read_bytes()
            except FileNotFoundError:
                continue
            if hashlib.sha256(data).hexdigest() != file.name:
                torn_files.append(f"torn: {file.name}")
    return torn_files


def rounds(count: int, seed: int, folder: Path) -> Outcome:
    chance, kills, wrong = random.Random(seed), Counter[str](), list[str]()
    for place in range(0, count, 2):
        readers, writers = zip(os.pipe(), os.pipe(), strict=True)
        seeds = [seed * 1_000 + place, seed * 1_000 + place + 1]
        pids = [forked(partial(session, folder, n, seeds[n], writers[n])) for n in (0, 1)]
        for writer in writers:
            os.close(writer)
        for reader in readers:
            os.read(reader, 1)
            os.close(reader)
        for number, pid in enumerate(pids):
            time.sleep(chance.random() * LONGEST)
            os.kill(pid, signal.SIGKILL)
            _, status = os.waitpid(pid, 0)
            doing = folder / f"doing-{number}"
            doing_now = doing.read_text() if doing.exists() else "start"
            kills[doing_now if os.WIFSIGNALED(status) else "had failed"] += 1
            doing.unlink(missing_ok=True)
        wrong += torn(folder)
    pid = forked(partial(finish, folder))
    os.waitpid(pid, 0)
    wrong += [file.read_text() for file in folder.glob("wrong-*")]
    end = folder / "end.json"
    if not end.exists():
        return Outcome(kills, [*wrong, "the last process did not end"], 0)
    resumed, problems = json.loads(end.read_text())
    return Outcome(kills, [*wrong, *problems, *torn(folder)], resumed)


def finish(folder: Path) -> None:
    """Resume all remaining runs, and clean up."""
    os.chdir(folder)
    prepare(folder)
    resumed, problems = 0, list[str]()
    try:
        for head in list(agf.runs()):
            if head.status == "interrupted":
                run = agf.resume(head.run_id)
                resumed += run.output == expected(run.input["kind"])
                problems += [] if run.output == expected(run.input["kind"]) else [f"{run.run_id}: {run.output}"]
        for past in [agf.runs(line.run_id) for line in agf.runs()]:
            stored = past.load("steps[2]")
            if not np.array_equal(stored, first(past.input["kind"]) * 2.0):
                problems.append(f"{past.run_id}: a wrong array")
        past_runs.prune(days=0, size=0)
        problems += [f"left: {file.name}" for file in (folder / "values").glob("*.part")]
    except BaseException:
        problems.append(traceback.format_exc())
    (folder / "end.json").write_text(json.dumps([resumed, problems]))


def main() -> None:
    count, seed = int(sys.argv[1]), int(sys.argv[2])
    with tempfile.TemporaryDirectory() as name:
        counts = rounds(count, seed, Path(name))
    print(json.dumps({"kills": counts.kills, "resumed": counts.resumed, "wrong": counts.wrong}))


if __name__ == "__main__":
    main()
