"""A resumed run reads a stored value only when somebody needs it, and never passes on the stand-in."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import agf_magics as agf
from agf_magics.journal.database import value_files
from agf_magics.journal.database.store import Store
from agf_magics.values.unread import Unread
from tests.engine import kept

N = 1_500_000


@pytest.fixture(autouse=True)
def all_are_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pretend that every result took longer to make than to store, so that all are stored."""
    monkeypatch.setattr(value_files, "RATE", 1e18)


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    with kept.journal_in(tmp_path) as path:
        yield path


def frame_of(n: float) -> pd.DataFrame:
    return pd.DataFrame({"a": np.arange(N) + n})


class Session:
    """Tools that record their calls. `stop` fails at its first call."""

    def __init__(self) -> None:
        self.made, self.got = list[Any](), list[Any]()
        self.registry = registry = agf.Registry()
        calls, received, fails = self.made, self.got, [True]

        @agf.tool(registry=registry)
        def make(n: int) -> Any:
            calls.append(n)
            return frame_of(n)

        @agf.tool(registry=registry)
        def array(n: int) -> Any:
            calls.append(n)
            return np.arange(N) + n

        @agf.tool(registry=registry)
        def stop() -> str:
            if fails:
                fails.pop()
                raise LookupError("not yet")
            return "went on"

        @agf.tool(registry=registry)
        def take(given: Any) -> str:
            received.append(given)
            return type(given).__name__

        self.fails = fails

    def resumed(self, text: str, input: Any = None, damage: Callable[[], None] = lambda: None, **more: Any) -> Any:
        """Run a definition, which stops once, and resume it as if in another process."""
        flow = agf.define(text, name=more.pop("name", None), registry=self.registry)
        failed = agf.run(flow.name, input, registry=self.registry, raises=False, **more)
        assert getattr(failed.error, "code", "") == "step.tool-failed", failed.error
        Store.close_all()
        damage()
        self.made.clear()
        return agf.resume(failed.run_id, registry=self.registry, raises=False, **more)


TWO = """
pipeline: two
steps:
- tool: {name: make, args: {n: 1}, output: first}
- tool: {name: make, args: {n: 2}, output: second}
- tool: {name: stop}
- tool: {name: take, args: {given: !expr second}}
"""


def zero(path: Path, but: Any = None) -> None:
    """Overwrite the stored values with zeros, except the array ``but``."""
    for file in (path.parent / "values").iterdir():
        if but is None or file.read_bytes() != but.tobytes():
            file.write_bytes(bytes(file.stat().st_size))


def test_a_value_that_no_call_needs_is_not_read(path: Path) -> None:
    session = Session()
    run = session.resumed(TWO, damage=lambda: zero(path, frame_of(2)["a"].to_numpy()))
    assert (run.status, session.made, run.warnings) == ("ok", [], ())
    assert session.got[0].equals(frame_of(2))
    # Code that asks for the value gets an error. A page shows its preview instead.
    with pytest.raises(agf.StepError) as lost:
        run.stores["first"]
    assert lost.value.code == "journal.lost-value"
    assert run.warnings == (), "nothing is made again after the end"
    assert run.stores["second"] is session.got[0]
    assert "1,500,000 rows × 1 column" in run._repr_mimebundle_()["text/html"]


def test_the_bytes_that_are_read_are_those_of_the_value_that_is_needed(path: Path) -> None:
    counters = Path("/proc/self/io")
    if not counters.exists():
        pytest.skip("the system does not count bytes")

    def read() -> int:
        return int(counters.read_text().split()[1])

    session, before = Session(), [0]
    run = session.resumed(TWO, damage=lambda: before.__setitem__(0, read()))
    assert run.status == "ok"
    assert 8 * N < read() - before[0] < 1.5 * 8 * N


LANGUAGES = {
    "plan": """
calls:
- {_tool: make, n: 1, _outputPath: $state.first}
- {_tool: make, n: 2, _outputPath: $state.second}
- {_tool: then, after: $state.second, _outputPath: $state.stopped}
- {_tool: take, given: $state.second, after: $state.stopped, _outputPath: $state.taken}
""",
    "graph": """
state: {first: any, second: any, stopped: any, taken: any}
nodes:
  a: {type: tool, tool: make, variables: {n: 1}, state_key: first}
  b: {type: tool, tool: make, variables: {n: 2}, state_key: second}
  c: {type: tool, tool: stop, variables: {}, state_key: stopped}
  d: {type: tool, tool: take, variables: {given: "{state.second}"}, state_key: taken}
edges: [{from: START, to: a}, {from: a, to: b}, {from: b, to: c}, {from: c, to: d}]
""",
    "policy": """
id: agf.sequential
config:
  steps:
  - {agent: one, input_mapping: {n: parent.input.n}}
  - {agent: two, input_mapping: {frame: one.output.first}}
""",
}
AGENTS = (
    """
pipeline: one
steps:
- tool: {name: make, args: {n: 1}, output: first}
- tool: {name: make, args: {n: 2}, output: second}
- transform: {value: "{'first': second, 'second': first}"}
""",
    """
pipeline: two
steps:
- tool: {name: stop}
- tool: {name: take, args: {given: !expr ctx.frame}}
- transform: {value: "{'taken': pipe, 'frame': ctx.frame}"}
""",
)


def run_in(language: str, damage: Callable[[], None]) -> tuple[Any, Session]:
    """The resumed run in a language. Its last call needs the second of two frames."""
    session = Session()

    @agf.tool(registry=session.registry)
    def then(after: Any) -> str:
        return str(session.registry.tools["stop"].function())

    @agf.tool(registry=session.registry)
    def take(given: Any, after: Any = "") -> str:
        session.got.append(given)
        return "DataFrame"

    for text in AGENTS:
        agf.define(text, registry=session.registry)
    return session.resumed(LANGUAGES[language], {"n": 1}, damage=damage, name="three"), session


@pytest.mark.parametrize("language", LANGUAGES)
def test_each_language_reads_what_its_calls_need(language: str, path: Path) -> None:
    run, session = run_in(language, lambda: zero(path, frame_of(2)["a"].to_numpy()))
    # The output of a graph is its whole state, so at the end it needs the first frame, too.
    again = [1] if language == "graph" else []
    assert (run.status, session.made, len(run.warnings)) == ("ok", again, len(again)), run.error
    assert len(session.got) == 1
    assert session.got[0].equals(frame_of(2))
    if language == "graph":
        assert run.output["first"].equals(frame_of(1))


DAMAGE: dict[str, Callable[[Path], object]] = {
    "deleted": Path.unlink,
    "cut": lambda file: os.truncate(file, 100),
    "zeroed": lambda file: file.write_bytes(bytes(file.stat().st_size)),
    "replaced by a link": lambda file: file.symlink_to(file.rename(file.with_name("moved"))),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_damaged_value_is_made_again_in_each_language(language: str, damage: str, path: Path) -> None:
    needed = frame_of(2)["a"].to_numpy().tobytes()

    def do() -> None:
        (file,) = (value_file for value_file in (path.parent / "values").iterdir() if value_file.read_bytes() == needed)
        DAMAGE[damage](file)

    run, session = run_in(language, do)
    assert (run.status, session.made) == ("ok", [2]), run.error
    assert [warning.code for warning in run.warnings] == ["journal.lost-value"]
    assert session.got[0].equals(frame_of(2))


LOOKS = {
    "an attribute": ("{n: '{state.made.size}'}", {"n": N}),
    "a text": ("{n: 'it has {state.made.shape}'}", {"n": f"it has ({N}, 1)"}),
    "a sum": ("{n: '{state.made + 1}'}", "graph.value-failed"),
    "a list": ("{n: '{state.list + state.made}'}", {"n": [frame_of(1)]}),
}


@pytest.mark.parametrize("damaged", [False, True])
@pytest.mark.parametrize("look", [*LOOKS, "a condition", "a map", "a prompt"])
def test_code_that_looks_into_a_value_reads_it_or_repeats_its_call(look: str, damaged: bool, path: Path) -> None:
    """The places of a graph are a node, an edge, the list of a map, and a text for a model."""
    session, questions = Session(), list[str]()
    if look == "a map":
        agf.tool(lambda n: np.zeros((3, N // 2)) + n, name="make", registry=session.registry)

    @agf.agent(name="default", registry=session.registry)
    def answer(prompt: str) -> str:
        questions.append(prompt)
        return "well"

    condition = f"made.size == {N}" if look == "a condition" else "made != null"
    inner = "{type: tool, tool: take, variables: {given: '{state.row}'}}"
    node = {
        "a map": f"{{type: map, over: '{{state.made}}', as: row, node: {inner}, collect: n}}",
        "a prompt": "{type: llm, prompt: 'It has {state.made.shape}', state_key: n}",
    }.get(look, f"{{type: passthrough, output: {LOOKS.get(look, ['{n: 1}'])[0]}}}")
    text = f"""
state: {{made: any, n: any, list: list}}
nodes:
  a: {{type: tool, tool: make, variables: {{n: 1}}, state_key: made}}
  b: {{type: tool, tool: stop, variables: {{}}, state_key: stopped}}
  c: {node}
edges:
- {{from: START, to: a}}
- {{from: a, to: b}}
- {{from: b, to: c, condition: {condition}}}
- {{from: b, to: END, condition: else}}
"""
    run = session.resumed(text, {"list": []}, damage=lambda: zero(path) if damaged else None, name="looks")
    if look == "a sum":
        assert run.error.code == "graph.value-failed"
        assert "an opaque DataFrame" in run.error.diagnostic.message
    elif look == "a map":
        assert [element["value"] for element in run.output["n"]] == ["ndarray"] * 3, run.error
    elif look == "a prompt":
        assert (questions, run.output["n"]) == ([f"It has ({N}, 1)"], "well"), run.error
    elif look == "a list":
        assert run.output["n"][0] is run.output["made"], run.error
    else:
        expected = LOOKS.get(look, (None, {"n": 1}))[1]
        assert {"n": run.output["n"]} == expected, run.error
    assert [warning.code for warning in run.warnings] == (["journal.lost-value"] if damaged else [])
    if look != "a map":
        assert session.made == ([1] if damaged else []), "one call for all that need it"


def test_an_agent_whose_input_is_lost_is_one_session(path: Path) -> None:
    session = Session()
    agf.agent(lambda prompt: "well", name="default", registry=session.registry)
    text = """
state: {made: any, n: any}
nodes:
  a: {type: tool, tool: make, variables: {n: 1}, state_key: made}
  b: {type: tool, tool: stop, variables: {}, state_key: stopped}
  c: {type: llm, prompt: "It has {state.made.shape}", state_key: n}
edges: [{from: START, to: a}, {from: a, to: b}, {from: b, to: c}]
"""
    run = session.resumed(text, damage=lambda: zero(path), name="one", limits=agf.Limits(spawns=1))
    assert (run.status, session.made, run.output["n"]) == ("ok", [1], "well"), run.error


def test_a_context_gives_values_to_whoever_asks_and_is_saved_without_reading(path: Path, tmp_path: Path) -> None:
    session = Session()
    text = """
context: mine
calls:
- {_tool: make, n: 1, _outputPath: $state.first}
- {_tool: make, n: 2, _outputPath: $state.second}
- {_tool: stop, _outputPath: $state.stopped}
"""
    run = session.resumed(text, name="plan", damage=lambda: zero(path, frame_of(2)["a"].to_numpy()))
    assert (run.status, session.made, run.warnings) == ("ok", [], ())
    context = agf.context("mine", registry=session.registry)
    context.save(tmp_path / "saved.jsonl")
    saved = (tmp_path / "saved.jsonl").read_text()
    assert "DataFrame" in saved
    assert Unread.__name__ not in saved
    second = context.resolve("$state.second")
    assert second.equals(frame_of(2))
    assert context[context.sources("$state.second")[-1]]["data"]["second"] is second
    with pytest.raises(agf.StepError) as lost:
        context.resolve("$state.first")
    assert lost.value.code == "journal.lost-value"
    # A later run cannot repeat the call of a run that has ended.
    agf.define(
        "context: mine\ncalls:\n- {_tool: take, given: $state.first, _outputPath: $state.x}",
        name="next",
        registry=session.registry,
    )
    after = agf.run("next", registry=session.registry, raises=False)
    assert (after.status, getattr(after.error, "code", ""), session.made) == ("error", "journal.lost-value", [])


EVERY = """
pipeline: every
steps:
- tool: {name: make, args: {n: 1}, output: frame}
- for_each:
    over: ctx.numbers
    on_error: abort
    do: {tool: {name: array, args: {n: !expr item}}}
    collect: {transform: {value: pipe}}
    output: arrays
- tool: {name: make, args: {n: 1}, output: again}
- tool: {name: stop}
- transform: {value: "{'frame': frame, 'arrays': arrays, 'same': frame == frame, 'other': frame == again}"}
"""


@pytest.mark.parametrize("on", ["here", "processes:2"])
def test_each_public_access_gives_the_value_itself(on: str, path: Path) -> None:
    session = Session()
    run = session.resumed(EVERY, {"numbers": [2, 3]}, on=on)
    assert (run.status, session.made) == ("ok", [])
    assert (run.output["same"], run.output["other"]) == (True, False)
    doors = {
        "output": run.output["frame"],
        "a store": run.stores["frame"],
        "get": run.stores.get("frame"),
        "items": dict(run.stores.items())["frame"],
        "values": next(value for value in run.stores.values() if not isinstance(value, list)),
        "a copy": dict(run.stores)["frame"],
        "two stars": {**run.stores}["frame"],
        "copy": copy.copy(run.stores)["frame"],
        "pop": run.stores.pop("frame"),  # type: ignore[attr-defined]
        "setdefault": run.stores.setdefault("frame"),  # type: ignore[attr-defined]
        "a step": run.steps["steps[0]"].value,
    }
    assert {name: type(value) for name, value in doors.items()} == dict.fromkeys(doors, pd.DataFrame)
    assert len(set(map(id, doors.values()))) == 1, "a resumed run has one object"
    assert pickle.loads(pickle.dumps(run.stores["arrays"]))[1][0] == 3
    for arrays in (run.output["arrays"], run.stores["arrays"], run.steps["steps[1]"].value):
        assert [int(array[0]) for array in arrays] == [2, 3]
    loaded = agf.runs(run.run_id).load()
    assert loaded["frame"].equals(frame_of(1))


INSIDE: dict[str, tuple[str, Any]] = {
    "an argument": ("- tool: {name: take, args: {given: !expr made}}", "DataFrame"),
    "inside an argument": ("- tool: {name: kinds, args: {given: !expr \"{'in': [made]}\"}}", ["DataFrame"]),
    "a fold": ("- fold: {over: 'made', init: '0', do: {transform: {value: acc + 1}}, output: n}", 3),
    "elements": (
        """
- for_each:
    over: made
    on_error: abort
    do: {tool: {name: take, args: {given: !expr item}}}
    collect: {transform: {value: pipe}}""",
        ["ndarray"] * 3,
    ),
    "a fan-out": (
        """
- for_each:
    over: ctx.numbers
    on_error: abort
    do: {tool: {name: take, args: {given: !expr made}}}
    collect: {transform: {value: pipe}}""",
        ["DataFrame"] * 2,
    ),
    "a pipeline": ("- call: {pipeline: inner, pass: {given: made}}", "DataFrame"),
    "a graph that looks inside": ("- call: {pipeline: looks, pass: {given: made}}", {"n": N, "given": "x"}),
}

INNER = """
pipeline: inner
steps:
- tool: {name: take, args: {given: !expr ctx.given}}
"""

GRAPH = """
name: looks
state: {given: any, n: int}
nodes:
  look: {type: passthrough, output: {n: "{state.given.size}", given: x}}
edges:
- {from: START, to: look}
- {from: look, to: END}
"""


@pytest.mark.parametrize("damaged", [False, True])
@pytest.mark.parametrize("place", INSIDE)
def test_each_place_that_needs_a_value_reads_it_or_makes_its_call_again(place: str, damaged: bool, path: Path) -> None:
    steps, expected = INSIDE[place]
    session = Session()
    agf.define(INNER, registry=session.registry)
    agf.define(GRAPH, registry=session.registry)
    rows = "fold" in place or "elements" in place
    if rows:
        agf.tool(lambda n: np.zeros((3, N // 2)) + n, name="make", registry=session.registry)

    @agf.tool(registry=session.registry)
    def kinds(given: Any) -> list[str]:
        return [type(part).__name__ for part in given["in"]]

    text = "pipeline: p\nsteps:\n- tool: {name: make, args: {n: 1}, output: made}\n- tool: {name: stop}\n" + steps
    run = session.resumed(text, {"numbers": [1, 2]}, damage=lambda: zero(path) if damaged else None)
    assert (run.status, run.output) == ("ok", expected), run.error
    again = ["journal.lost-value"] if damaged else []
    assert [warning.code for warning in run.warnings] == again
    if not rows:
        assert session.made == ([1] if again else []), "one call for all that need it"


ALONE = "- tool: {name: read, args: {n: 1}, output: x}"
MANY = """
- for_each:
    over: ctx.numbers
    on_error: continue
    do: {tool: {name: read, args: {n: !expr item}}}
    collect: {transform: {value: pipe}}
"""


@pytest.mark.parametrize(("step", "status", "reads"), [(ALONE, "error", [1]), (MANY, "ok", [1, 2])])
def test_a_lost_value_of_another_run_is_a_failure_of_the_asking_tool(
    step: str, status: str, reads: list[int], path: Path
) -> None:
    session = Session()
    other = session.resumed(TWO)
    zero(path, frame_of(2)["a"].to_numpy())
    questions = []

    @agf.tool(registry=session.registry, reuse=False, where="loop")
    def read(n: int) -> str:
        questions.append(n)
        return type(other.stores["first"]).__name__

    agf.define(f"pipeline: asks\nsteps:\n{step}", registry=session.registry)
    run = agf.run("asks", {"numbers": [1, 2]}, registry=session.registry, raises=False, limits=agf.Limits(timeout=60))
    assert (run.status, questions, session.made) == (status, reads, []), run.error
    errors = [run.error] if run.error is not None else [failure.error for failure in run.progress.failures]
    assert {getattr(error, "code", "") for error in errors} == {"journal.lost-value"}


REFUSED = {
    "- agent: {prompt: 'of {ctx.made}'}": "'ctx.made' has an opaque DataFrame in it, which has no text form",
    "- transform: {value: made - 1}": "'-' needs two numbers, not an opaque DataFrame and a number",
    "- transform: {value: made.a}": "'made' is an opaque DataFrame, not an object: it has no 'a'",
}


@pytest.mark.parametrize("step", REFUSED)
def test_expressions_refuse_a_value_without_reading_it(step: str, path: Path) -> None:
    session = Session()
    agf.agent(lambda input: "", name="default", registry=session.registry)
    text = f"pipeline: p\nsteps:\n- tool: {{name: make, args: {{n: 1}}, output: made}}\n- tool: {{name: stop}}\n{step}"
    run = session.resumed(text, damage=lambda: zero(path))
    assert run.error.diagnostic.message == REFUSED[step]
    assert run.warnings == ()


def test_a_listener_gets_the_values_themselves(path: Path) -> None:
    session, events = Session(), list[Any]()
    run = session.resumed(TWO, on_event=events.append)
    finished = [event.value for event in events if type(event).__name__ == "StepFinished"]
    assert [type(value) for value in finished] == [*4 * [pd.DataFrame], str, str], "of both sessions"
    assert events[-1].stores["first"] is run.stores["first"]


def test_no_stand_in_reaches_a_page_or_a_file(path: Path, tmp_path: Path) -> None:
    session = Session()
    run = session.resumed(TWO, damage=lambda: zero(path, frame_of(2)["a"].to_numpy()))
    texts = [str(run._repr_mimebundle_()), repr(run), str(run.steps), str(agf.runs(run.run_id).calls)]
    texts.append(agf.runs(run.run_id).export(tmp_path / "run.json").read_text())
    for text in texts:
        assert Unread.__name__ not in text


CHAIN = """
pipeline: chain
steps:
- tool: {name: make, args: {n: 1}, output: a}
- tool: {name: add, args: {frame: !expr a, n: 1}, output: b}
- tool: {name: add, args: {frame: !expr b, n: 2}, output: c}
- tool: {name: add, args: {frame: !expr c, n: 3}, output: d}
- tool: {name: total, args: {frame: !expr d}, output: sum}
"""


class Chain:
    """Five calls, each of which gets what the previous one has returned."""

    def __init__(self, text: str = CHAIN) -> None:
        self.made = list[Any]()
        self.registry = registry = agf.Registry()
        calls = self.made

        @agf.tool(registry=registry)
        def make(n: int) -> pd.DataFrame:
            calls.append("make")
            return frame_of(n)

        @agf.tool(registry=registry)
        def add(frame: pd.DataFrame, n: int) -> pd.DataFrame:
            calls.append(n)
            return pd.DataFrame({"a": frame["a"] + n})

        @agf.tool(registry=registry)
        def total(frame: pd.DataFrame) -> float:
            calls.append("total")
            return float(frame["a"].sum())

        @agf.tool(registry=registry)
        def largest(frame: Any) -> float:
            calls.append("largest")
            return float(frame["a"].max())

        agf.define(text, registry=registry)

    def run(self, **more: Any) -> Any:
        Store.close_all()
        self.made.clear()
        return agf.run("chain", registry=self.registry, raises=False, **more)


def test_a_run_that_reuses_all_reads_nothing(path: Path) -> None:
    chain = Chain()
    first = chain.run()
    assert (first.status, len(chain.made)) == ("ok", 5)
    zero(path)
    again = chain.run(reuse=True)
    assert (again.status, again.output, chain.made, again.warnings) == ("ok", first.output, [], ())


@pytest.mark.parametrize("damage", ["", *DAMAGE])
def test_a_run_that_reuses_reads_what_an_edited_step_needs(damage: str, path: Path) -> None:
    chain = Chain()
    assert chain.run().status == "ok"
    needed = frame_of(7)["a"].to_numpy().tobytes()
    (file,) = (value_file for value_file in (path.parent / "values").iterdir() if value_file.read_bytes() == needed)
    if damage:
        DAMAGE[damage](file)
    else:
        zero(path, frame_of(7)["a"].to_numpy())
    agf.define(CHAIN.replace("name: total", "name: largest"), registry=chain.registry)
    again = chain.run(reuse=True)
    assert (again.status, again.output) == ("ok", N + 6), again.error
    assert chain.made == ([3, "largest"] if damage else ["largest"])
    assert [warning.code for warning in again.warnings] == (["journal.lost-value"] if damage else [])
    # The new run has rows and values of its own, so a later run can reuse it in its turn.
    assert agf.runs(again.run_id).load("steps[3]").equals(frame_of(7))
    chain.made.clear()
    assert (chain.run(reuse=again.run_id).output, chain.made) == (N + 6, [])


EQUAL = """
pipeline: chain
steps:
- tool: {name: make, args: {n: 1}, output: a}
- tool: {name: stop}
- %s
"""


@pytest.mark.parametrize("last", ["tool: {name: kind, args: {frame: !expr a}}", "transform: {value: a}"])
def test_a_lost_result_whose_call_has_another_lost_one_is_made(last: str, path: Path) -> None:
    """The run and its resumption have stored the same result, each separately, and both are lost."""
    chain, fails = Chain(), [True]
    agf.tool(lambda: 1 // (0 if fails else 1), name="stop", registry=chain.registry)
    agf.tool(lambda frame: type(frame).__name__, name="kind", registry=chain.registry)
    agf.define(EQUAL % last, registry=chain.registry)
    failed = chain.run()
    fails.clear()
    zero(path)
    Store.close_all()
    assert agf.resume(failed.run_id, registry=chain.registry).status == "ok"
    zero(path)
    agf.tool(lambda frame: "a " + type(frame).__name__, name="kind", registry=chain.registry)
    again = chain.run(reuse=True)
    assert (again.status, chain.made) == ("ok", ["make"]), again.error
    assert again.output == "a DataFrame" if "tool" in last else again.output.equals(frame_of(1))


CHANGED = """
pipeline: chain
steps:
- tool: {name: make, args: {n: 1}, output: a}
- tool: {name: add, args: {frame: %s, n: 1}, output: b}
- tool: {name: stop}
- tool: {name: change, args: {frame: !expr a}}
- tool: {name: total, args: {frame: !expr b}}
"""


@pytest.mark.parametrize("changes", [True, False])
def test_a_lost_value_is_not_made_of_what_was_changed_since(changes: bool, path: Path) -> None:
    chain, fails = Chain(), [True]
    agf.tool(lambda: 1 // (0 if fails else 1), name="stop", registry=chain.registry)

    @agf.tool(registry=chain.registry)
    def change(frame: pd.DataFrame) -> str:
        chain.made.append("change")
        if changes:
            frame.loc[:, "a"] = 100.0
        return "done"

    agf.define(CHANGED % "!expr a", registry=chain.registry)
    failed = chain.run()
    fails.clear()
    kept.flush(path)
    Store.close_all()
    chain.made.clear()
    zero(path, frame_of(1)["a"].to_numpy())
    resumed: Any = agf.resume(failed.run_id, registry=chain.registry, raises=False)
    if changes:
        assert (resumed.status, chain.made) == ("error", ["change"])
        assert (resumed.error.code, resumed.error.where) == ("journal.lost-value", "steps[4]")
        assert "run it without --reuse" in str(resumed.error)
        assert "journal.lost-value" not in [warning.code for warning in resumed.warnings], "it is not made again"
    else:
        expected = float(frame_of(2)["a"].sum())
        assert (resumed.output, chain.made) == (expected, ["change", 1, "total"]), resumed.error
        (warning,) = resumed.warnings
        assert "steps[1] cannot be read, so its call is made again: " in warning.message
    # This follows the hint.
    again = chain.run()
    assert again.output == float(frame_of(2)["a"].sum()), again.error


ELEMENTS = """
pipeline: chain
steps:
- tool: {name: flaky, args: {n: 1}, output: a}
- tool: {name: stop}
- for_each:
    items: [1, 2, 3]
    max_parallel: %d
    on_error: continue
    do: {tool: {name: add, args: {frame: !expr a, n: !expr item}}}
    collect: {transform: {value: count(pipe)}}
"""


@pytest.mark.parametrize("parallel", [1, 3])
def test_a_call_that_fails_when_it_is_made_again_is_no_failure_of_elements(parallel: int, path: Path) -> None:
    chain, fails, down = Chain(), [True], list[int]()
    agf.tool(lambda: 1 // (0 if fails else 1), name="stop", registry=chain.registry)

    @agf.tool(registry=chain.registry)
    def flaky(n: int) -> pd.DataFrame:
        chain.made.append("flaky")
        if down:
            raise ConnectionError("the service is down")
        return frame_of(n)

    agf.define(ELEMENTS % parallel, registry=chain.registry)
    failed = chain.run()
    fails.clear()
    zero(path)
    down.append(1)
    Store.close_all()
    chain.made.clear()
    resumed: Any = agf.resume(failed.run_id, registry=chain.registry, raises=False)
    assert (resumed.status, chain.made) == ("error", ["flaky"]), "once, and nothing is dropped"
    assert "the service is down" in str(resumed.error)
    down.clear()
    Store.close_all()
    chain.made.clear()
    again: Any = agf.resume(failed.run_id, registry=chain.registry, raises=False)
    assert (again.output, sorted(map(str, chain.made))) == (3, ["1", "2", "3", "flaky"]), again.error


def test_a_run_that_reuses_keeps_what_its_frames_have_and_no_more(path: Path) -> None:
    chain, alive = Chain(), [0]
    references = list[weakref.ref[Any]]()
    agf.define(
        """
pipeline: one
steps:
- tool: {name: make, args: {n: !expr ctx.n}, output: a}
- tool: {name: total, args: {frame: !expr a}}
""",
        registry=chain.registry,
    )
    agf.define(
        """
pipeline: chain
steps:
- for_each:
    items: [1, 2, 3, 4, 5, 6]
    max_parallel: 1
    on_error: abort
    do: {call: {pipeline: one, pass: {n: item}}}
    collect: {transform: {value: count(pipe)}}
""",
        registry=chain.registry,
    )
    assert chain.run().output == 6

    @agf.tool(registry=chain.registry)
    def total(frame: pd.DataFrame) -> float:
        references.append(weakref.ref(frame))
        gc.collect()
        alive.append(sum(reference() is not None for reference in references))
        return 1.0

    assert chain.run(reuse=True).output == 6
    assert (chain.made, len(references)) == ([], 6)
    assert max(alive) <= 2, "the frame of the element before may still be there"


def test_a_run_that_reused_and_failed_is_resumed(path: Path) -> None:
    chain, fails = Chain(), [True]

    @agf.tool(registry=chain.registry)
    def last(frame: Any) -> int:
        if fails:
            fails.pop()
            raise LookupError("not yet")
        return len(frame)

    assert chain.run().status == "ok"
    more = "- tool: {name: last, args: {frame: !expr d}}\n"
    agf.define(CHAIN + more, registry=chain.registry)
    failed = chain.run(reuse=True)
    assert (failed.status, chain.made) == ("error", [])
    Store.close_all()
    resumed = agf.resume(failed.run_id, registry=chain.registry)
    assert (resumed.output, chain.made, resumed.warnings) == (N, [], ())


SHARED = """
pipeline: chain
steps:
- tool: {name: make, args: {n: 1}, output: a}
- tool: {name: same, args: {frame: !expr a}, output: b}
- tool: {name: same, args: {frame: !expr b}, output: c}
- tool: {name: are_one, args: {one: !expr a, two: !expr b, three: !expr c}}
"""


def test_one_object_stays_one_object_in_a_run_that_reuses(path: Path) -> None:
    chain = Chain()
    calls = chain.made

    @agf.tool(registry=chain.registry)
    def same(frame: Any) -> Any:
        calls.append("same")
        return frame

    agf.tool(lambda one, two, three: [one is two, two is three], name="are_one", registry=chain.registry)
    agf.define(SHARED, registry=chain.registry)
    assert chain.run().output == [True, True]
    agf.tool(lambda one, two, three: ["again", one is two, two is three], name="are_one", registry=chain.registry)
    again = chain.run(reuse=True)
    assert (again.output, calls) == (["again", True, True], []), again.error
    resumed = agf.runs(again.run_id)
    assert resumed.load("steps[2]").equals(frame_of(1))


def test_reused_values_stay_when_the_other_run_is_deleted_meanwhile(path: Path) -> None:
    chain = Chain()
    first = chain.run()
    other = """
import sys
from dataclasses import replace
from agf_magics.lifecycle.past import past_runs
from agf_magics.settings import settings
settings.current.settings = replace(settings.current.settings, journal=sys.argv[1])
past_runs.delete([sys.argv[2]])
"""

    @agf.tool(registry=chain.registry, reuse=False)
    def delete() -> int:
        kept.flush(path)
        return subprocess.run([sys.executable, "-c", other, str(path), first.run_id], check=True).returncode

    more = "- tool: {name: delete, args: {}}\n- tool: {name: largest, args: {frame: !expr d}}\n"
    agf.define(CHAIN + more, registry=chain.registry)
    again = chain.run(reuse=True)
    assert (again.status, again.output, chain.made, again.warnings) == ("ok", N + 6, ["largest"], ()), again.error
    assert first.run_id not in [run.run_id for run in agf.runs()]


class Model:
    """A class of the user's, which may be gone when its object is read."""

    def __init__(self) -> None:
        self.weights = np.arange(N)


def test_a_class_that_is_gone_makes_the_call_again_in_a_run_that_reuses(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chain = Chain("pipeline: chain\nsteps:\n- tool: {name: fit, args: {}, output: model}")
    calls = chain.made

    @agf.tool(registry=chain.registry)
    def fit() -> Any:
        calls.append("fit")
        return sys.modules[__name__].Model()

    agf.tool(lambda model: type(model).__name__, name="name_of", registry=chain.registry)
    assert chain.run().status == "ok"
    new = type("Model", (), {"__init__": lambda self: None, "__module__": __name__, "__slots__": ("other",)})
    monkeypatch.setattr(sys.modules[__name__], "Model", new)
    more = "- tool: {name: name_of, args: {model: !expr model}}"
    agf.define(
        f"pipeline: chain\nsteps:\n- tool: {{name: fit, args: {{}}, output: model}}\n{more}", registry=chain.registry
    )
    again = chain.run(reuse=True)
    assert (again.status, again.output, calls) == ("ok", "Model", ["fit"]), again.error
    assert "journal.lost-value" in [warning.code for warning in again.warnings]
