"""A resumed run has the same end as a run that was never interrupted, and makes no finished call twice."""

from __future__ import annotations

import asyncio
import copy
import threading
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy
import pandas
import polars
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agf_magics as agf
from agf_magics.engine.host.background_calls import count_background_calls
from agf_magics.lifecycle.past.calls_of_run import calls_of
from agf_magics.lifecycle.runs.live import live
from tests.engine import kept
from tests.engine.virtual_time import busy_listener, run_virtual

NAN = float("nan")

INPUTS: dict[str, tuple[Any, Any]] = {
    "a number": (1, 2),
    "nan": (NAN, 1.0),
    "nan in a list": ([1, NAN], [2, NAN]),
    "a missing value": (pandas.NA, pandas.NaT),
    "an array": (numpy.array([1, 2]), numpy.array([1, 3])),
    "an array in an object": ({"a": numpy.array([1, 2])}, {"a": numpy.array([1, 3])}),
    "a frame": (pandas.DataFrame({"a": [1, None]}), pandas.DataFrame({"a": [1, 2]})),
    "a frame of polars": (polars.DataFrame({"a": ["x", None]}), polars.DataFrame({"a": ["x", "y"]})),
}


@pytest.mark.parametrize("kind", INPUTS)
def test_the_whole_input_may_be_given_again_but_no_other_one(kind: str, tmp_path: Path) -> None:
    same, other = INPUTS[kind]
    registry = agf.Registry()
    outcomes: list[Any] = [ValueError("not yet"), "done"]

    @agf.tool(registry=registry, secret=["key"])
    def send(key: str, x: Any) -> str:
        outcome = outcomes.pop(0)
        if isinstance(outcome, ValueError):
            raise outcome
        return str(outcome)

    text = "{pipeline: p, steps: [{tool: {name: send, args: {key: !expr ctx.key, x: !expr ctx.x}}}]}"
    with kept.journal_in(tmp_path):
        run = agf.run(text, {"key": "hunter2-and-more", "x": same}, registry=registry, raises=False)
        with pytest.raises(agf.DefinitionError, match="'x' cannot be changed"):
            agf.resume(run.run_id, input={"key": "hunter2-and-more", "x": other}, registry=registry)
        again = {"key": "hunter2-and-more", "x": copy.deepcopy(same)}
        assert agf.resume(run.run_id, input=again, registry=registry).output == "done"


Calls = list[tuple[str, Any]]


def world(calls: Calls, texts: list[str]) -> agf.Registry:
    """Tools that record their arguments. ``flaky`` fails for words that begin with x, ``once`` at its first call with
    each word."""
    registry = agf.Registry()

    @agf.tool(registry=registry, where="loop")
    async def note(word: Any) -> Any:
        calls.append(("note", word))
        await asyncio.sleep(0)
        return [word]

    @agf.tool(registry=registry, where="loop")
    async def flaky(word: Any) -> Any:
        calls.append(("flaky", word))
        await asyncio.sleep(0)
        if str(word).startswith("x"):
            raise ValueError(f"no {word}")
        return word

    @agf.tool(registry=registry, where="loop")
    def double(word: Any) -> Any:
        calls.append(("double", word))
        return str(word) * 2

    @agf.agent(registry=registry)
    def carol(prompt: str) -> str:
        calls.append(("carol", prompt))
        return prompt.upper()

    for text in texts:
        agf.define(text, registry=registry)
    return registry


LINEAR = """\
pipeline: main
steps:
- tool: {name: note, args: {word: a}, output: one}
- transform: {value: "count(one) + 1", output: two}
- tool: {name: double, args: {word: !expr two}, output: three}
- agent: {prompt: "say {three}", output: four}
"""

FAN_OUT = """\
pipeline: main
steps:
- for_each:
    items: [a, xb, c, xd, e]
    max_parallel: 2
    on_error: continue
    do: {tool: {name: flaky, args: {word: !expr item}}}
    collect: {transform: {value: pipe}}
    output: words
- for_each:
    over: words
    max_parallel: 3
    on_error: retry(1)
    do:
      for_each:
        items: [1, 2]
        on_error: abort
        do: {tool: {name: note, args: {word: !expr pipe}}}
        collect: {tool: {name: double, args: {word: !expr "count(pipe)"}}}
    collect: {transform: {value: pipe}}
    output: lists
"""

BRANCHES = """\
pipeline: main
steps:
- parallel:
    on_error: continue
    branches:
      one: {tool: {name: note, args: {word: 1}}}
      two: {tool: {name: flaky, args: {word: x2}}}
      three:
        fold: {items: [a, b], init: "''", do: {tool: {name: double, args: {word: !expr "acc + item"}}}, output: folded}
    collect: {transform: {value: pipe}}
    output: both
- tool: {name: note, args: {word: !expr both}}
"""

FAILS = """\
pipeline: main
steps:
- tool: {name: note, args: {word: a}, output: one}
- for_each:
    items: [b, xc, d]
    max_parallel: 1
    on_error: retry(1)
    do: {tool: {name: flaky, args: {word: !expr item}}}
    collect: {transform: {value: pipe}}
"""

NESTED = """\
pipeline: main
steps:
- call: {pipeline: inner, pass: [], output: first}
- match:
    on: "count(first)"
    cases:
      "1": {pipeline: inner}
      "2": {pipeline: other}
    output: second
- for_each:
    items: [p, q]
    on_error: abort
    do: {call: {pipeline: other, pass: [item]}}
    collect: {transform: {value: pipe}}
"""
INNER = """\
pipeline: inner
steps:
- tool: {name: note, args: {word: in}, output: a}
- transform: {value: a}
"""
OTHER = """\
pipeline: other
steps:
- tool: {name: note, args: {word: !expr "get(ctx, 'item')"}, output: a}
- tool: {name: double, args: {word: !expr "get(ctx, 'item')"}, output: b}
"""

SCENARIOS = {
    "linear": [LINEAR],
    "fan-out": [FAN_OUT],
    "branches": [BRANCHES],
    "fails": [FAILS],
    "nested": [INNER, OTHER, NESTED],
}


def outcome_of(run: agf.Run) -> tuple[Any, ...]:
    """All parts of the outcome that must be the same."""
    error = (run.error.code, run.error.diagnostic.message, run.error.where) if run.error else None
    return run.status, run.output, dict(run.stores), error, run.sessions


def finished(path: Path) -> list[str]:
    return [path_text for kind, path_text, _ in kept.lines(path) if kind in ("finished", "failed")]


def check_every_cut(texts: list[str], folder: Path) -> None:
    """Check that the run has the same end after a cut at each line of its journal, and repeats no finished call."""
    calls: Calls = []
    registry = world(calls, texts)
    with kept.journal_in(folder / "whole") as whole:
        expected = outcome_of(agf.run("main", registry=registry, raises=False))
        count = len(kept.lines(whole))
        cuts = [(after, kept.cut(whole, after, folder / f"cut{after}")) for after in range(count + 1)]
    assert count > 1
    times_called = Counter(map(str, calls))
    for after, path in cuts:
        again: Calls = []
        with kept.journal_in(path.parent):
            before = len(finished(path))
            run = agf.resume("main", registry=world(again, texts), raises=False)
            assert outcome_of(run) == expected, f"after {after} lines"
            assert len(again) == len(calls) - before, f"after {after} lines: {again}"
            assert not Counter(map(str, again)) - times_called
            assert len(finished(path)) == len(calls)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_run_that_is_cut_after_any_line_has_the_same_end(name: str, tmp_path: Path) -> None:
    check_every_cut(SCENARIOS[name], tmp_path)


# --- any pipeline, cut anywhere ---


@st.composite
def steps(draw: st.DrawFn, depth: int = 2) -> str:
    """A random step in YAML, of any kind."""
    word = draw(st.sampled_from(["a", "xb", "c"]))
    kinds = ["tool", "flaky", "agent", "transform", *(["for_each", "parallel", "fold"] if depth else [])]
    inner = steps(depth - 1) if depth else st.nothing()
    on_error = draw(st.sampled_from(["abort", "continue", "retry(1)"]))
    match draw(st.sampled_from(kinds)):
        case "tool":
            return f"{{tool: {{name: note, args: {{word: {word}}}}}}}"
        case "flaky":
            return f"{{tool: {{name: flaky, args: {{word: {word}}}}}}}"
        case "agent":
            return f"{{agent: {{prompt: say {word}}}}}"
        case "transform":
            return f"{{transform: {{value: \"'{word}'\"}}}}"
        case "for_each":
            head = f"items: [p, q, r], max_parallel: {draw(st.integers(1, 3))}, on_error: {on_error}"
            return f"{{for_each: {{{head}, do: {draw(inner)}, collect: {draw(inner)}}}}}"
        case "parallel":
            branches = f"{{one: {draw(inner)}, two: {draw(inner)}}}"
            return f"{{parallel: {{on_error: {on_error}, branches: {branches}, collect: {draw(inner)}}}}}"
    return f"{{fold: {{items: [u, v], init: \"''\", do: {draw(inner)}, output: folded}}}}"


@settings(max_examples=20)
@given(parts=st.lists(steps(), min_size=1, max_size=3), where=st.floats(0, 1))
def test_any_pipeline_that_is_cut_anywhere_has_the_same_end(parts: list[str], where: float) -> None:
    texts = ["pipeline: main\nsteps:\n" + "".join(f"- {part}\n" for part in parts)]
    with TemporaryDirectory() as folder:
        calls: Calls = []
        with kept.journal_in(Path(folder) / "whole") as whole:
            expected = outcome_of(agf.run("main", registry=world(calls, texts), raises=False))
            path = kept.cut(whole, round(where * len(kept.lines(whole))), Path(folder) / "cut")
        again: Calls = []
        with kept.journal_in(path.parent):
            finished_paths = finished(path)
            end_of_resumed = outcome_of(agf.resume("main", registry=world(again, texts), raises=False))
            assert finished(path)[: len(finished_paths)] == finished_paths
    assert end_of_resumed[:3] == expected[:3]
    if expected[0] == "ok":  # otherwise other steps may or may not have begun before the failure
        assert len(again) >= len(calls) - len(finished_paths)
    if "xb" not in texts[0]:  # otherwise other steps may or may not have been stopped by the failure
        assert len(again) == len(calls) - len(finished_paths)


# --- which calls are repeated ---


def test_a_failed_run_makes_its_last_attempt_again_and_nothing_else(tmp_path: Path) -> None:
    calls: Calls = []
    with kept.journal_in(tmp_path):
        failed = agf.run("main", registry=world(calls, [FAILS]), raises=False)
        assert calls == [("note", "a"), ("flaky", "b"), ("flaky", "xc"), ("flaky", "xc")]
        calls.clear()
        mended = world(calls, [FAILS])

        @agf.tool(name="flaky", registry=mended, where="loop")
        def mended_flaky(word: str) -> str:
            calls.append(("flaky", word))
            return word

        run = agf.resume(failed.run_id, registry=mended)
    assert (run.status, run.output) == ("ok", ["b", "xc", "d"])
    assert calls == [("flaky", "xc"), ("flaky", "d")]


def test_a_dropped_element_stays_dropped_though_it_would_succeed_now(tmp_path: Path) -> None:
    text = FAN_OUT + "- tool: {name: gone, args: {}}\n"
    calls: Calls = []
    registry = world(calls, [])

    @agf.tool(registry=registry)
    def gone() -> None:
        raise LookupError("not there")

    agf.define(text, registry=registry)
    with kept.journal_in(tmp_path):
        failed = agf.run("main", registry=registry, raises=False)
        calls.clear()
        mended = world(calls, [])
        agf.tool(lambda: "here", name="gone", registry=mended)
        agf.tool(lambda word: word, name="flaky", registry=mended)
        run = agf.resume(failed.run_id, registry=mended)
    assert run.output == "here"
    assert run.stores["words"] == ["a", "c", "e"]
    assert calls == []


def test_the_definitions_are_those_of_the_journal_and_the_tools_are_current(tmp_path: Path) -> None:
    calls: Calls = []
    with kept.journal_in(tmp_path) as path:
        agf.run("main", registry=world(calls, SCENARIOS["nested"]), raises=False)
        cut = kept.cut(path, 2, tmp_path / "cut")
    calls.clear()
    with kept.journal_in(cut.parent):
        edited = world(calls, [text.replace("word: in", "word: edited") for text in SCENARIOS["nested"]])
        assert agf.resume("main", registry=edited, raises=False).status == "ok"
    assert calls
    assert ("note", "edited") not in calls


def test_a_run_without_its_tool_is_refused_and_can_be_resumed_later(tmp_path: Path) -> None:
    calls: Calls = []
    with kept.journal_in(tmp_path) as path:
        agf.run("main", registry=world(calls, [LINEAR]))
        cut = kept.cut(path, 1, tmp_path / "cut")
    with kept.journal_in(cut.parent):
        with pytest.raises(agf.DefinitionError) as caught:
            agf.resume("main", registry=agf.Registry())
        assert caught.value.code == "flow.unknown-tool"
        assert agf.runs().interrupted[0].name == "main"
        assert agf.resume("main", registry=world(calls, [LINEAR])).status == "ok"


def test_limits_continue_to_count(tmp_path: Path) -> None:
    text = "pipeline: main\nsteps:\n" + "- agent: {prompt: hi}\n" * 4
    calls: Calls = []
    with kept.journal_in(tmp_path) as path:
        agf.run("main", registry=world(calls, [text]), limits=agf.Limits(spawns=3), raises=False)
        cut = kept.cut(path, 2, tmp_path / "cut")
    with kept.journal_in(cut.parent):
        calls.clear()
        run = agf.resume("main", registry=world(calls, [text]), raises=False)
        assert run.error.code == "limit.spawns"
        assert len(calls) == 1
        calls.clear()
        assert agf.resume("main", registry=world(calls, [text]), limits=agf.Limits(spawns=4)).sessions == 4
        assert len(calls) == 1


ASKS = """\
name: main
state: {name: str, word: list, end: str}
nodes:
  ask: {type: interrupt, message: "Your name?", resume_key: name}
  hi: {type: tool, tool: note, variables: {word: "{state.name}"}, state_key: word}
  more: {type: interrupt, message: "And now?", resume_key: end}
edges:
  - {from: START, to: ask}
  - {from: ask, to: hi}
  - {from: hi, to: more}
  - {from: more, to: END}
"""


def test_a_question_is_asked_once_and_a_waiting_run_is_resumed_with_its_answer(tmp_path: Path) -> None:
    questions: list[str] = []

    def answer(question: Any) -> str:
        questions.append(question.text)
        if len(questions) > 1:
            raise EOFError
        return "Ada"

    calls: Calls = []
    registry = world(calls, [])
    agf.define(ASKS, "graph", registry=registry)
    with kept.journal_in(tmp_path):
        waiting = agf.run("main", registry=registry, ask=answer, raises=False)
        assert (waiting.status, questions) == ("waiting", ["Your name?", "And now?"])
        assert agf.runs().waiting[0].run_id == waiting.run_id
        for either_run in (waiting, agf.runs(waiting.run_id)):
            states = [row.state for row in either_run.progress.rows.values()]
            assert (states.count("waiting"), states.count("failed")) == (1, 0)
        run = agf.resume(waiting.run_id, registry=registry, answer="fine")
    assert (run.status, run.output["name"], run.output["end"]) == ("ok", "Ada", "fine")
    assert calls == [("note", "Ada")]


def test_a_run_that_has_ended_or_is_running_cannot_be_resumed(tmp_path: Path) -> None:
    calls: Calls = []
    registry = world(calls, [LINEAR])
    started, checked = threading.Event(), threading.Event()

    @agf.tool(name="double", registry=registry, where="thread")
    def held(word: Any) -> str:
        started.set()
        assert checked.wait(60)
        return "x"

    with kept.journal_in(tmp_path):
        run = agf.start("main", registry=registry)
        assert started.wait(60)
        with pytest.raises(agf.DefinitionError) as running:
            agf.resume(run.run_id, registry=registry)
        checked.set()
        run.result()
        with pytest.raises(agf.DefinitionError) as ended:
            agf.resume(run.run_id, registry=registry)
    assert (running.value.code, ended.value.code) == ("journal.running", "journal.finished")


def test_a_background_call_is_never_repeated(tmp_path: Path) -> None:
    text = "name: main\ncalls:\n- {_tool: note, word: fired}\n- {_tool: note, word: b, _outputPath: †state.b}\n"
    calls: Calls = []
    registry = world(calls, [])
    agf.define(text, "plan", registry=registry)
    with kept.journal_in(tmp_path) as path:
        assert agf.run("main", registry=registry).status == "ok"
        fired = next(i for i, line in enumerate(kept.lines(path), 1) if line[0] == "fired")
        cut = kept.cut(path, fired, tmp_path / "cut")
    with kept.journal_in(cut.parent):
        again: Calls = []
        assert agf.resume("main", registry=world(again, [])).status == "ok"
    assert ("note", "fired") not in again


@pytest.mark.parametrize("has_effect", [True, False])
@pytest.mark.parametrize(("outcome", "status"), [("finished", "ok"), ("failed", "failed"), (None, "fired")])
def test_a_background_call_is_one_call_whether_it_has_ended_or_not(
    outcome: str | None, status: str, has_effect: bool, tmp_path: Path
) -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry, reuse=not has_effect)
    async def note(word: str) -> str:
        if word == "fired" and outcome == "failed":
            raise ValueError("no paper")
        return word

    text = "name: main\ncalls:\n- {_tool: note, word: fired}\n- {_tool: note, word: b, _outputPath: †state.b}\n"
    agf.define(text, "plan", registry=registry)
    with kept.journal_in(tmp_path) as path:
        run = agf.run("main", registry=registry)
        while count_background_calls():  # its end is written by the loop of the engine
            pass
        assert run.calls == 2
        lines = kept.lines(path)
    if outcome is None:  # the process was killed before the call ended
        fired = next(i for i, line in enumerate(lines, 1) if line[0] == "fired")
        path = kept.cut(path, fired, tmp_path / "cut")
    with kept.journal_in(path.parent):
        past = agf.runs(run.run_id)
        calls = calls_of(past)
        assert calls is not None
        (row,) = (row for row in past.progress.rows.values() if row.id == "calls[0]")
        assert (calls.count(row).total, len(calls.page(row, 10))) == (1, 1)
        of_fired = [call for call in past.calls if "fired" in str(call["input"])]
    assert [(call["status"], call["attempt"]) for call in of_fired] == [(status, 1)]


def test_an_option_of_the_line_holds_for_the_resumed_run(tmp_path: Path) -> None:
    call = "- {{_tool: {}, word: {}, _outputPath: †state.{}}}\n"
    plan = f"name: both\ncalls:\n{call.format('double', 'a', 'x')}{call.format('flaky', 'x', 'y')}"
    with kept.journal_in(tmp_path):
        calls: Calls = []
        registry = world(calls, [plan])
        flow = registry.flows["both"]
        going = flow.dialect.with_option(flow, "--keep-going")
        assert agf.run(going, registry=registry).status == "ok"
        cut = kept.cut(tmp_path / "runs.sqlite", 1, tmp_path / "cut")
    with kept.journal_in(cut.parent):
        (run,) = agf.runs()
        assert agf.resume(run.run_id, registry=registry).status == "ok"


TOGETHER = {
    "pipeline": "{pipeline: p, steps: [{parallel: {branches: {a: {tool: {name: note}}, b: {tool: {name: wrong}}}, "
    "collect: {transform: {value: pipe}}}}]}",
    "graph": "{name: p, state: {x: any, y: any}, nodes: {a: {type: tool, tool: note, state_key: x}, "
    "b: {type: tool, tool: wrong, state_key: y}}, "
    "edges: [{from: START, to: a}, {from: START, to: b}, {from: a, to: END}, {from: b, to: END}]}",
    "for_each": "{pipeline: p, steps: [{for_each: {items: [0, 1], max_parallel: 2, on_error: abort, "
    "do: {match: {on: item, cases: {0: {pipeline: notes}, 1: {pipeline: fails}}}}, "
    "collect: {transform: {value: pipe}}}}]}",
}


@pytest.mark.parametrize("busy", [False, True])
@pytest.mark.parametrize("shape", TOGETHER)
def test_an_earlier_failure_ends_the_others_before_they_are_called_again(
    shape: str, busy: bool, tmp_path: Path
) -> None:
    """The journal of the interrupted run has the failure but not the end. The resumed run makes no call."""
    called: list[str] = []

    def world() -> agf.Registry:
        registry = agf.Registry()

        async def note() -> str:
            called.append("note")
            await asyncio.sleep(10)
            return "noted"

        async def wrong() -> None:
            called.append("wrong")
            await asyncio.sleep(1)
            raise ValueError("no")

        agf.tool(note, registry=registry)
        agf.tool(wrong, registry=registry)
        for name, tool in (("notes", "note"), ("fails", "wrong")):
            agf.define(f"{{pipeline: {name}, steps: [{{tool: {{name: {tool}}}}}]}}", registry=registry)
        agf.define(TOGETHER[shape], "graph" if shape == "graph" else "pipeline", registry=registry)
        return registry

    with kept.journal_in(tmp_path / "whole") as whole:
        first = run_virtual(agf.arun("p", registry=world(), raises=False))
        failed = 1 + [kind for kind, *_ in kept.lines(whole)].index("failed")
        short = kept.cut(whole, failed, tmp_path / "cut")
    assert sorted(called) == ["note", "wrong"]
    with kept.journal_in(short.parent):
        again = run_virtual(kept.take_up(registry=world(), on_event=busy_listener if busy else None))
    assert sorted(called) == ["note", "wrong"]
    assert again.error.diagnostic.message == first.error.diagnostic.message


# --- which run is resumed, and how ---


WAITS = "name: asks\nstate: {a: any}\nnodes: {n: {type: interrupt, message: 'Your name?', state_key: a}}\n"
WAITS += "edges: [{from: START, to: n}]\n"


def test_without_an_id_only_a_run_of_this_notebook_is_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry = agf.Registry()
    with kept.journal_in(tmp_path):
        monkeypatch.setenv("JPY_SESSION_NAME", "/home/me/other.ipynb")
        other = agf.run(WAITS, registry=registry, raises=False)
        monkeypatch.setenv("JPY_SESSION_NAME", "/home/me/own.ipynb")
        with pytest.raises(agf.DefinitionError) as caught:
            agf.resume(answer="Ann", registry=registry)
        assert caught.value.code == "journal.unknown-run"
        assert caught.value.diagnostic.hint == f"of another notebook: %resume {other.run_id}"
        run = agf.run(WAITS, registry=registry, raises=False)
        monkeypatch.setenv("JPY_SESSION_NAME", "/home/me/other.ipynb")
        agf.run(WAITS, registry=registry, raises=False)
        monkeypatch.setenv("JPY_SESSION_NAME", "/home/me/own.ipynb")
        assert agf.resume(answer="Ann", registry=registry).run_id == run.run_id
        assert agf.resume(other.run_id, answer="Bob", registry=registry).status == "ok"


def test_a_name_resumes_its_last_run_that_can_be_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    registry, broken = agf.Registry(), [True]
    agf.tool(lambda: 1 // (not broken), name="breaks", registry=registry)
    agf.define("pipeline: f\nsteps: [{tool: {name: breaks}}]", registry=registry)
    monkeypatch.setenv("JPY_SESSION_NAME", "/home/me/own.ipynb")
    with kept.journal_in(tmp_path):
        first, second = (agf.run("f", registry=registry, raises=False) for _ in range(2))
        broken.clear()
        ended = agf.run("f", registry=registry)
        assert agf.resume("f", registry=registry).run_id == second.run_id
        assert agf.resume(registry=registry).run_id == first.run_id
        for word in ("f", None):
            with pytest.raises(agf.DefinitionError) as caught:
                agf.resume(word, registry=registry)
            assert caught.value.code == "journal.unknown-run"
        assert ended.run_id != second.run_id


def test_a_run_that_can_be_resumed_says_how(tmp_path: Path) -> None:
    registry = world([], [LINEAR])
    with kept.journal_in(tmp_path):
        waiting = agf.run(WAITS, registry=registry, raises=False)
        agf.tool(lambda: 1 // 0, name="breaks", registry=registry)
        failed = agf.run("pipeline: f\nsteps: [{tool: {name: breaks}}]", registry=registry, raises=False)
        again = agf.run("pipeline: f\nsteps: [{transform: {value: '1 / 0'}}]", registry=registry, raises=False)
        ended = agf.run("main", registry=registry)
        for run, words in (
            (waiting, f"%resume {waiting.run_id} --answer …"),
            (failed, f"%resume {failed.run_id}"),
            (again, ""),
            (ended, ""),
        ):
            assert run.how_to_continue == words
            assert agf.runs(run.run_id).how_to_continue == words
            assert words in agf.runs(run.run_id).note
    assert agf.run("pipeline: f\nsteps: [{transform: {value: '1 / 0'}}]", raises=False).how_to_continue == ""


RESCUED = """\
name: main
state: {out: str, end: str}
tools: {}
nodes:
  a: {type: tool, tool: breaks, state_key: out, on_error: skip}
  b: {type: tool, tool: later, state_key: end}
edges:
- {from: START, to: a}
- {from: a, to: b}
- {from: b, to: END}
"""


def test_a_failure_that_a_step_rescued_is_not_tried_again(tmp_path: Path) -> None:
    calls, works = Counter[str](), [False]
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def breaks() -> str:
        calls["breaks"] += 1
        raise OSError("always")

    @agf.tool(registry=registry)
    def later() -> str:
        calls["later"] += 1
        if not works[0]:
            raise OSError("not yet")
        return "done"

    agf.define(RESCUED, "graph", registry=registry)
    with kept.journal_in(tmp_path):
        failed = agf.run("main", registry=registry, raises=False)
        assert failed.status == "error"
        works[0] = True
        assert agf.resume(failed.run_id, registry=registry).status == "ok"
    assert calls == {"breaks": 1, "later": 2}


def test_a_run_that_the_exit_of_its_process_cut_off_ends_after_its_steps(tmp_path: Path) -> None:
    """The end of the run was removed, and no record has the end of the stopped call."""
    registry, started = agf.Registry(), threading.Event()

    @agf.tool(registry=registry)
    async def doze() -> None:
        started.set()
        await asyncio.sleep(60)

    with kept.journal_in(tmp_path) as path:
        run = agf.start("{pipeline: naps, steps: [{tool: {name: doze}}]}", registry=registry)
        assert started.wait(30)
        run.cancel("the kernel is restarted")
        run.wait()
        run.journal.leave_open()
        kept.flush(path)
        live.forget()
        past = agf.runs(run.run_id)
        assert past.ended is None
        ends = [row.ended for row in past.progress.rows.values() if row.ended is not None]
        assert ends
        assert max(ends) <= past.progress.ended
