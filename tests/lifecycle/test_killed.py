"""Real processes are killed by SIGKILL during calls: the last resumed run has the same end as a run that was never
killed."""

from __future__ import annotations

import json
import signal
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.processes import script
from tests.slow import slow_but

SESSION = '''
import json, os, signal, sys, threading, time
from dataclasses import replace
from pathlib import Path
import agf_magics as agf
from agf_magics.settings.settings import current

scenario = json.loads(Path("scenario.json").read_text())
current.settings = replace(current.settings, journal=str(Path("runs.sqlite").absolute()))

def told(path, word):
    with open(path, "a") as file:
        file.write(word + "\\n")

dying = threading.Lock()  # of two calls side by side one dies: the other must not note that it did

def call(word):
    """Begins, is killed the first time where the scenario says so, and ends."""
    told("begun", word)
    once = Path("killed-" + "".join(c if c.isalnum() else "_" for c in word))
    with dying:
        if word in scenario["killed"] and not once.exists():
            once.touch()
            os.kill(os.getpid(), signal.SIGKILL)
    told("ended", word)
    return word

@agf.tool(where="loop")
async def note(word: str) -> str:
    return call(word)

@agf.tool
def slow(word: str) -> str:
    time.sleep(0.02)
    return call(word)

@agf.tool(where="loop")
async def grow(state: dict) -> dict:
    call("n%s" % state["n"])
    return {"n": state["n"] + 1}

@agf.agent(where="loop")
async def writer(topic: str) -> dict:
    return {"draft": call("about " + topic)}

@agf.agent(where="loop")
async def checker(draft: str) -> dict:
    return {"score": len(call(draft + "?"))}

for language, text in scenario["texts"]:
    agf.define(text, language)
known = agf.runs()
if known:
    run = agf.resume(known[0].run_id, raises=False)
else:
    run = agf.run("main", scenario["input"], raises=False)
error = run.error.diagnostic.message if run.error else None
Path("end.json").write_text(json.dumps([run.status, run.output, error]))
'''

LINEAR = """\
pipeline: main
steps:
- tool: {name: note, args: {word: a}, output: one}
- transform: {value: "one + '!'", output: two}
- tool: {name: slow, args: {word: !expr two}, output: three}
- fold: {items: [x, y], init: "three", do: {tool: {name: note, args: {word: !expr "acc + item"}}}, output: four}
"""
FANS = """\
pipeline: main
steps:
- for_each:
    items: [a, b, c]
    max_parallel: 2
    on_error: retry(1)
    do: {call: {pipeline: inner, pass: [item]}}
    collect: {tool: {name: note, args: {word: !expr "join(pipe, '')"}}}
    output: words
- parallel:
    branches:
      left: {tool: {name: slow, args: {word: left}}}
      right: {for_each: {items: [p, q], on_error: continue, do: {tool: {name: note, args: {word: !expr item}}},
                         collect: {transform: {value: pipe}}}}
    collect: {transform: {value: pipe}}
"""
INNER = """\
pipeline: inner
steps:
- tool: {name: note, args: {word: !expr "'in ' + ctx.item"}, output: a}
- tool: {name: slow, args: {word: !expr "a + '!'"}}
"""
PLAN = """\
name: main
calls:
- {_tool: note, word: a, _outputPath: †state.a}
- {_tool: slow, word: b, _outputPath: †state.b}
- {_tool: note, word: †state.a, _outputPath: †state.c}
- {_tool: note, word: †state.c || †state.b, _outputPath: †state.d}
"""
GRAPH = """\
name: main
tools:
  grow: {type: python, path: tools.py, function: grow}
  note: {type: python, path: tools.py, function: note}
state: {n: int}
nodes:
  grow: {type: python, tool: grow}
  bump: {type: passthrough, output: {m: "{state.n}"}}
edges:
  - {from: START, to: grow}
  - {from: grow, to: bump}
  - {from: bump, to: grow, condition: "n < 4"}
  - {from: bump, to: END, condition: else}
"""
POLICY = """\
schema_version: "1.0.0"
metadata: {id: main, name: T, version: "1.0.0", description: test}
interface: {input: {}, output: {}}
action_space:
  local_agents:
    - {alias: writer, source: ./writer.agf.yaml}
    - {alias: checker, source: ./checker.agf.yaml}
execution_policy:
  id: agf.loop
  config:
    steps:
      - {agent: writer, input_mapping: {topic: parent.input.topic}}
      - {agent: checker, input_mapping: {draft: writer.output.draft}}
    max_iterations: 3
    output_from: writer
"""

SCENARIOS: dict[str, tuple[list[tuple[str, str]], Any]] = {
    "steps and a fold": ([("pipeline", LINEAR)], None),
    "fan-outs and nested calls": ([("pipeline", INNER), ("pipeline", FANS)], None),
    "a plan": ([("plan", PLAN)], None),
    "a graph with a loop": ([("graph", GRAPH)], {"n": 1}),
    "a policy's loop": ([("policy", POLICY)], {"topic": "tea"}),
}


class Folder:
    """The folder in which the processes of one scenario run."""

    def __init__(self, path: Path, name: str, killed: list[str]) -> None:
        """``killed``: the calls that end their process the first time that they are made."""
        texts, fields = SCENARIOS[name]
        self.path = path
        path.mkdir()
        (path / "scenario.json").write_text(json.dumps({"texts": texts, "input": fields, "killed": killed}))

    def session(self) -> int:
        completed = script(SESSION, self.path)
        assert completed.returncode in (0, -signal.SIGKILL), completed.stderr
        return completed.returncode

    def words(self, name: str) -> list[str]:
        file = self.path / name
        return file.read_text().splitlines() if file.exists() else []

    def ended_calls(self) -> list[str]:
        """The place and the attempt of each call whose end is in the journal."""
        with closing(sqlite3.connect(self.path / "runs.sqlite")) as connection:
            rows = connection.execute("SELECT at, tries FROM records WHERE what='finished' ORDER BY line").fetchall()
        return [f"{path} {tries}" for path, tries in rows]

    @property
    def end(self) -> Any:
        return json.loads((self.path / "end.json").read_text())


SAMPLE = 5
"""`make test` kills one of this many calls."""


@pytest.mark.law
@pytest.mark.parametrize("name", slow_but(["fan-outs and nested calls"], SCENARIOS))
def test_a_run_whose_process_is_killed_in_a_call_has_the_same_end(name: str, tmp_path: Path, thorough: bool) -> None:
    spared = Folder(tmp_path / "spared", name, [])
    assert spared.session() == 0
    calls_made = Counter(spared.words("begun"))
    chosen = sorted(calls_made)[:: 1 if thorough else SAMPLE]
    killed = Folder(tmp_path / "killed", name, chosen)
    sessions, before = 0, list[str]()
    while killed.session() != 0:
        sessions += 1
        assert sessions <= len(chosen)
        assert killed.ended_calls()[: len(before)] == before  # no record is lost
        before = killed.ended_calls()
    assert sessions == len(chosen), "every chosen call was killed once"
    assert killed.end == spared.end
    assert killed.end[0] == "ok"
    assert set(killed.words("ended")) == set(calls_made)
    assert len(set(killed.ended_calls())) == len(killed.ended_calls()) == sum(calls_made.values()), (
        "no finished call is kept twice"
    )
    # A call is repeated after it was cut: once for its own death, and once for each death beside it.
    has_no_concurrent_calls = name in ("steps and a fold", "a graph with a loop", "a policy's loop")
    assert not has_no_concurrent_calls or Counter(killed.words("ended")) == calls_made
    assert not has_no_concurrent_calls or Counter(killed.words("begun")) == calls_made + Counter(chosen)
