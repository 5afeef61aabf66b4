"""The runs that `test_page.py` makes in Python without threads (page.py). The program prints a line of JSON for each
run."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

import agf_magics as agf
from agf_magics import tool


@tool
def measure(word: str) -> int:
    assert threading.current_thread() is threading.main_thread()
    return len(word)


@tool
async def ameasure(word: str) -> int:
    await asyncio.sleep(0.001)
    return len(word)


@tool
def fails(word: str) -> int:
    raise ValueError(f"bad {word}")


@tool
async def naps(seconds: float) -> str:
    await asyncio.sleep(seconds)
    return "slept"


@tool
def blocks(seconds: float) -> str:
    time.sleep(seconds)
    return "blocked"


@tool
def nested(word: str) -> int:
    return agf.run(ONE, {"w": word}).output


@tool
def coded(code: Annotated[str, Field(pattern="^[a-z]+$")]) -> str:
    return code


def call(name: str, arguments: str = "{word: !expr ctx.w}") -> str:
    return f"pipeline: {name}\nsteps:\n- tool: {{name: {name}, args: {arguments}, output: n}}\n"


def fan_out(name: str) -> str:
    return (
        f"pipeline: each_{name}\nsteps:\n- for_each:\n    over: ctx.ws\n    on_error: abort\n"
        f"    do: {{tool: {{name: {name}, "
        "args: {word: !expr item}}}\n    collect: {transform: {value: 'sum(pipe)'}}\n    output: n\n"
    )


ONE = call("measure")
GIVEN = {"w": "pear", "ws": ["a", "bb"], "n": 3}
LOOP = """\
state: {n: int}
nodes:
  tick: {type: passthrough, output: {n: "{state.n - 1}"}}
edges:
- {from: START, to: tick}
- {from: tick, to: tick, condition: n > 0}
- {from: tick, to: END, condition: else}
"""
POLICY = """\
schema_version: "1.0.0"
metadata: {id: press, name: Press, version: "1.0.0", description: a policy}
interface: {input: {}, output: {}}
action_space: {local_agents: [{alias: writer, source: ./writer.agf.yaml}]}
execution_policy: {id: agf.sequential, config: {steps: [{agent: writer, input_mapping: {topic: parent.input.topic}}]}}
"""
TEMPLATE = """\
state: {word: str, text: str}
nodes:
  say: {type: llm, prompt: "{% for letter in state.word %}{{ letter }}.{% endfor %}", state_key: text}
edges:
- {from: START, to: say}
- {from: say, to: END}
"""


@agf.agent
def writer(topic: str) -> dict[str, str]:
    return {"draft": f"about {topic}"}


@agf.agent(default=True)
def speaker(prompt: str) -> str:
    return prompt


def report(name: str, do: Callable[[], object]) -> None:
    try:
        answer: Any = do()
    except Exception as error:
        answer = f"{type(error).__name__}: {error}"
    print(json.dumps({name: answer}), flush=True)


def run_flow(flow: object, fields: Any = GIVEN, **options: Any) -> object:
    return agf.run(flow, fields, **options).output  # type: ignore[arg-type]


def cancelled() -> object:
    run = agf.start(call("naps", "{seconds: 30}"))
    run.cancel("me")
    return run.wait().status


def resumed() -> object:
    """Resume a failed run from its journal, then reuse the results of the resumed run in a new one."""
    Path("pyproject.toml").write_text("")
    flow = agf.define(f"{fan_out('measure')}- tool: {{name: sometimes, args: {{}}}}\n")
    calls: list[int] = []

    @tool
    def sometimes() -> int:
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("once")
        return 7

    with contextlib.suppress(agf.AgfError):
        agf.run(flow, GIVEN)
    again = agf.resume(agf.runs()[0].run_id)
    reused = agf.run(flow, GIVEN, reuse=agf.runs()[0].run_id)
    with sqlite3.connect(".agf/runs.sqlite") as journal:
        (count,) = journal.execute("select count(*) from runs").fetchone()
    return [again.output, again.note, reused.note.split(" from ")[0], len(calls), count]


def pictured() -> object:
    return agf.draw(ONE).outline().strip().splitlines()[0]


CASES: dict[str, Callable[[], object]] = {
    "a plain tool": lambda: run_flow(ONE),
    "an async tool": lambda: run_flow(call("ameasure")),
    "a fan-out of plain calls": lambda: run_flow(fan_out("measure")),
    "a fan-out of async calls": lambda: run_flow(fan_out("ameasure")),
    "a run in a tool": lambda: run_flow(call("nested")),
    "a failure": lambda: run_flow(call("fails")),
    "a graph with a loop": lambda: run_flow(LOOP, {"n": 3}),
    "an async tool that is late": lambda: run_flow(call("naps", "{seconds: 30}"), limits=agf.Limits(step_timeout=0.05)),
    "a plain tool that is late": lambda: run_flow(
        call("blocks", "{seconds: 0.1}"), limits=agf.Limits(step_timeout=0.05)
    ),
    "a run that is late": lambda: run_flow(call("naps", "{seconds: 30}"), limits=agf.Limits(timeout=0.05)),
    "a run in the background": cancelled,
    "a policy": lambda: run_flow(POLICY, {"topic": "tea"}),
    "a pattern": lambda: run_flow(call("coded", "{code: abc}")),
    "a template": lambda: run_flow(TEMPLATE, {"word": "abc"}),
    "a shell command": lambda: run_flow('pipeline: sh\nsteps:\n- shell: {command: "ls"}\n', None),
    "processes": lambda: run_flow(fan_out("measure"), on="processes"),
    "a journal": resumed,
    "stale steps": lambda: repr(agf.stale(agf.runs(agf.runs()[0].run_id))).splitlines()[0],
    "a picture": pictured,
}

if __name__ == "__main__":
    for name, do in CASES.items():
        report(name, do)
    sys.stdout.flush()
