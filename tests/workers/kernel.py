"""A kernel with a run on processes, for tests that kill the kernel and its workers.

``python -m tests.workers.kernel FOLDER SHAPE DIES AFTER`` runs the shape, or resumes the run of an earlier kernel in
this folder. Every ``DIES``-th call ends its process when it is made for the first time (0: none). The kernel ends
itself after ``AFTER`` steps (0: never). Both use SIGKILL. The file ``chunks`` in the folder gets a line for each chunk
that was sent.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import agf_magics as agf
from agf_magics.flow.progress.events import Event
from agf_magics.settings.settings import current
from agf_magics.workers.backends.backend import Cancel
from agf_magics.workers.backends.processes import Processes

COUNT = 60
"""The number of elements of the fan-outs."""

FAN = """\
pipeline: main
steps:
- for_each:
    over: ctx.xs
    on_error: abort
    do: {tool: {name: work, args: {x: !expr item}}}
    collect: {transform: {value: pipe}}
"""
TWICE = """\
pipeline: twice
steps:
- tool: {name: work, args: {x: !expr ctx.item}}
- tool: {name: work, args: {x: !expr "pipe + 1000"}}
"""
CALLS = """\
pipeline: main
steps:
- for_each:
    over: ctx.xs
    on_error: continue
    do: {call: {pipeline: twice, pass: [item]}}
    collect: {transform: {value: pipe}}
"""
INNER = """\
pipeline: inner
steps:
- for_each:
    items: [1, 2, 3]
    on_error: retry(1)
    do: {tool: {name: work, args: {x: !expr "item + ctx.base * 10"}}}
    collect: {transform: {value: pipe}}
"""
NESTED = """\
pipeline: main
steps:
- for_each:
    over: ctx.xs
    max_parallel: 4
    on_error: abort
    do: {call: {pipeline: inner, pass: {base: item}}}
    collect: {transform: {value: pipe}}
"""
BRANCHES = """\
pipeline: main
steps:
- parallel:
    branches:
      a: {tool: {name: work, args: {x: 1}}}
      b: {tool: {name: work, args: {x: 2}}}
      c: {for_each: {over: ctx.xs, on_error: continue, do: {tool: {name: work, args: {x: !expr "item + 100"}}},
                     collect: {transform: {value: pipe}}}}
    collect: {transform: {value: pipe}}
- tool: {name: work, args: {x: 3}}
"""
MAP = """\
name: main
state: {xs: list}
nodes:
  each: {type: map, over: "{state.xs}", as: x, node: {type: python, tool: work}, collect: found}
edges: [{from: START, to: each}]
"""
PLAN = """\
name: main
calls:
- {_tool: work, x: 1, _outputPath: †state.a}
- {_tool: work, x: 2, _outputPath: †state.b}
- {_tool: work, x: 3, _outputPath: †state.c}
- {_tool: work, x: †state.a, _outputPath: †state.d}
"""

SHAPES: dict[str, list[tuple[str, str]]] = {
    "a fan-out": [("pipeline", FAN)],
    "a fan-out over a pipeline": [("pipeline", TWICE), ("pipeline", CALLS)],
    "nested fan-outs": [("pipeline", INNER), ("pipeline", NESTED)],
    "branches": [("pipeline", BRANCHES)],
    "a map": [("graph", MAP)],
    "a plan": [("plan", PLAN)],
}


class Logged(Processes):
    """Processes that write the name of each chunk's function to a file."""

    log: Path

    def submit(self, run: Callable[..., Any], order: tuple[Any, ...], done: Callable[[Any], None]) -> Cancel:
        with self.log.open("a", encoding="utf-8") as file:
            file.write(f"{run.__name__}\n")
        return super().submit(run, order, done)


def main(folder: Path, shape: str, dies: int, after: int) -> None:
    current.settings = replace(current.settings, journal=str(folder / "runs.sqlite"))
    register(shape, str(folder / "died"), dies)
    ended = 0

    def listen(event: Event) -> None:
        nonlocal ended
        ended += type(event).__name__ == "StepFinished"
        if after and ended == after:
            os.kill(os.getpid(), signal.SIGKILL)

    workers, past_runs = Logged(2), agf.runs()
    workers.log = folder / "chunks"
    if past_runs:
        run = agf.resume(past_runs[0].run_id, on=workers, on_event=listen, raises=False)
    else:
        run = agf.run("main", {"xs": list(range(COUNT))}, on=workers, on_event=listen, raises=False)
    error = run.error.diagnostic.message if run.error is not None else None
    (folder / "end.json").write_text(json.dumps([run.status, run.output, error]), encoding="utf-8")


def register(shape: str, died: str, dies: int) -> None:
    """Define a shape and its tool. ``died``: the folder with a file for each call that has ended its process."""

    def work(x: int) -> Any:
        if dies and x % dies == 1:
            with suppress(FileExistsError):
                os.close(os.open(f"{died}/{x}", os.O_CREAT | os.O_EXCL))
                os.kill(os.getpid(), signal.SIGKILL)
        return x * 2

    agf.tool(work, name="work", where="worker")
    for language, text in SHAPES[shape]:
        agf.define(text, language)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
