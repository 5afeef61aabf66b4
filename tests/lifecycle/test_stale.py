"""The steps that are marked as stale are exactly those that ``--reuse`` runs again, in each language."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel

import agf_magics as agf
from agf_magics.catalog.builtin.install import install
from agf_magics.engine.host.background_calls import count_background_calls
from agf_magics.flow.steps import Invoke
from agf_magics.lifecycle.forecasts.stale import Stale
from notebooks.scripted_server import ScriptedServer, calls
from tests.engine.kept import journal_in, no_journal
from tests.slow import slow_but

TOOLS = ("t0", "t1", "t2", "t3", "t4", "t5")

PIPELINE = """\
pipeline: main
steps:
- tool: {name: t0, args: {x: !expr ctx.start}, output: a}
- parallel:
    branches:
      left: {tool: {name: t1, args: {x: !expr a}}}
      right: {call: {pipeline: inner, pass: [a]}}
    collect: {tool: {name: t2, args: {x: !expr "[left, right]"}}}
    output: both
- for_each:
    over: ctx.items
    on_error: continue
    do: {tool: {name: t3, args: {x: !expr item}}}
    collect: {transform: {value: pipe}}
    output: many
- tool: {name: t4, args: {x: !expr many}, output: d}
- fold:
    over: ctx.items
    init: "0"
    do: {tool: {name: t1, args: {x: !expr "[acc, item]"}}}
    output: folded
- agent: {prompt: "say {both} and LITERAL", output: said}
- tool: {name: t5, args: {x: LITERAL}}
"""
INNER = """\
pipeline: inner
steps:
- tool: {name: t4, args: {x: !expr ctx.a}, output: first}
- tool: {name: t5, args: {x: inner}, output: second}
- tool: {name: t3, args: {x: !expr "[first, second]"}}
"""
POLICY = """\
id: agf.sequential
config:
  steps:
  - {agent: a0, input_mapping: {x: parent.input.start}}
  - {agent: both, input_mapping: {x: a0.output.said, y: parent.input.start}}
  - {agent: a3, input_mapping: {x: both.output.a1.said, z: both.output.a2.said}}
  - {agent: each, input_mapping: {items: parent.input.items}}
  - {agent: a5, input_mapping: {x: parent.input.start}}
"""
BOTH = """\
id: agf.parallel
config:
  agents:
  - {agent: a1, input_mapping: {x: parent.input.x}}
  - {agent: a2, input_mapping: {x: parent.input.y}}
"""
EACH = """\
id: agf.batch
config: {agent: a4, input_mapping: {x: "parent.input.items.[]"}}
"""
PLAN = """\
name: main
state: {start: begin, word: LITERAL}
calls:
- {_tool: t0, x: †state.start, _outputPath: †state.a}
- {_tool: t1, x: †state.start, _outputPath: †state.b}
- {_tool: t2, x: †state.a, _outputPath: †state.c}
- {_tool: t3, x: †state.b, _outputPath: †state.d}
- {_tool: t4, x: †state.c, _outputPath: †state.e}
- {_tool: t5, x: LITERAL, _outputPath: †state.f}
"""
GRAPH = """\
state: {start: str, n: int, a: str, b: str, c: str, d: str, e: str}
variables: {n: 0}
nodes:
  zero: {type: tool_call, tool: t0, args: {x: "{state.start}"}, state_key: a}
  one: {type: tool_call, tool: t1, args: {x: "{state.a}"}, state_key: b}
  two: {type: tool_call, tool: t2, args: {x: "{state.start}"}, state_key: c}
  three: {type: tool_call, tool: t3, args: {x: "{state.c} {state.n}"}, state_key: d}
  count: {type: passthrough, output: {n: "{state.n + 1}"}}
  four: {type: tool_call, tool: t4, args: {x: "{state.b}"}, state_key: e}
  five: {type: tool_call, tool: t5, args: {x: LITERAL}, state_key: e}
edges:
- {from: START, to: zero}
- {from: zero, to: one}
- {from: one, to: two}
- {from: two, to: three}
- {from: three, to: count}
- {from: count, to: three, condition: n < 2}
- {from: count, to: four, condition: else}
- {from: four, to: five}
- {from: five, to: END}
"""
TEXTS = {"pipeline": PIPELINE, "policy": POLICY, "plan": PLAN, "graph": GRAPH}
INPUT = {"start": "begin", "items": ["x", "y"]}


class World:
    """The functions, each with a version, and the definitions that call them."""

    def __init__(self, versions: Mapping[str, str] | None = None, *, constant: bool = False) -> None:
        """``constant``: whether all versions of a function have the same results."""
        self.registry = agf.Registry()
        for name in TOOLS:
            function = versioned(name, (versions or {}).get(name, ""), constant)
            agf.tool(function, registry=self.registry)
            agf.agent(agent_function(name, (versions or {}).get(name, ""), constant), registry=self.registry)

        def echo(prompt: str) -> str:
            return f"said {prompt}"

        agf.agent(echo, registry=self.registry, default=True)
        agf.define(INNER, registry=self.registry)
        agf.define(BOTH, "policy", name="both", registry=self.registry)
        agf.define(EACH, "policy", name="each", registry=self.registry)

    def define(self, language: str, text: str) -> None:
        agf.define(text, language, name="main", registry=self.registry)


def versioned(name: str, version: str, constant: bool) -> Any:
    def call(x: Any) -> str:
        return f"{name}{'' if constant else version}({x})" if version is not None else ""

    call.__name__ = call.__qualname__ = name
    return call


def agent_function(name: str, version: str, constant: bool) -> Any:
    """An agent of a policy, named `a0` for the function `t0`."""

    def call(x: Any, z: Any = None) -> dict[str, str]:
        return {"said": f"{name}{'' if constant else version}({x}, {z})"} if version is not None else {}

    call.__name__ = call.__qualname__ = name.replace("t", "a")
    return call


@pytest.fixture(autouse=True)
def _journal(tmp_path: Path) -> Iterator[None]:
    with journal_in(tmp_path):
        yield


@contextmanager
def fresh_journal() -> Iterator[None]:
    """A new journal for one example of a law."""
    with tempfile.TemporaryDirectory() as folder, journal_in(Path(folder)):
        yield


def run_again(run: agf.Run) -> set[str]:
    """The steps that made a call instead of reusing a result."""
    return {row.id for row in run.steps.values() if isinstance(row.step, Invoke) and row.started > row.earlier
            and not any(other.startswith(f"{row.id}/") for other in run.steps)}  # fmt: skip


def edited(text: str, edit: str) -> str:
    match edit:
        case "literal":
            return text.replace("LITERAL", "edited")
        case "removed":  # removes the last step
            return text[: text.rindex("\n- ")] + "\n" if "calls:" in text or "pipeline:" in text else text
        case "inserted":
            new = {
                "pipeline: main": ("steps:\n", "steps:\n- tool: {name: t0, args: {x: new}, output: fresh}\n"),
                "name: main": ("calls:\n", "calls:\n- {_tool: t0, x: new, _outputPath: †state.fresh}\n"),
            }
            for word, (old, more) in new.items():
                if word in text:
                    return text.replace(old, more, 1)
    return text


versions = st.dictionaries(st.sampled_from(TOOLS), st.sampled_from(["v2", "v3"]), max_size=3)
edits = st.lists(st.sampled_from(["literal", "removed", "inserted"]), max_size=2, unique=True)


@pytest.mark.parametrize("language", TEXTS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=12)
@given(versions=versions, edits=edits)
@example(versions={"t0": "v2"}, edits=[])
@example(versions={"t1": "v2"}, edits=[])
@example(versions={"t2": "v2"}, edits=[])
@example(versions={"t3": "v2"}, edits=["inserted"])
@example(versions={}, edits=["literal"])
def test_the_marked_steps_are_those_that_reuse_runs_again(
    language: str, versions: dict[str, str], edits: list[str]
) -> None:
    with fresh_journal():
        before, text = World(), TEXTS[language]
        before.define(language, text)
        first = agf.run("main", INPUT if language != "plan" else {}, registry=before.registry)
        now = World(versions)
        for edit in edits:
            text = edited(text, edit)
        now.define(language, text)
        marked = agf.stale(first.run_id, registry=now.registry)
        assert not marked.unknown, marked
        again = agf.run("main", first.input, registry=now.registry, reuse=True)
        assert set(marked.again) == run_again(again), marked


@pytest.mark.parametrize("language", slow_but(["graph"], TEXTS))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=6)
@given(versions=versions)
@example(versions={"t0": "v2", "t1": "v2"})
def test_if_the_edited_functions_have_the_same_results_only_their_calls_run_again(
    language: str, versions: dict[str, str]
) -> None:
    with fresh_journal():
        before, now = World(constant=True), World(versions, constant=True)
        before.define(language, TEXTS[language])
        now.define(language, TEXTS[language])
        first = agf.run("main", INPUT if language != "plan" else {}, registry=before.registry)
        marked = agf.stale(first.run_id, registry=now.registry)
        ran = run_again(agf.run("main", first.input, registry=now.registry, reuse=True))
        assert {row["step"] for row in marked if row["state"] == "again"} == ran <= set(marked.again)


CHOOSES = """\
pipeline: main
steps:
- tool: {name: t0, args: {x: !expr ctx.start}, output: a}
- match:
    on: "a == 't0v2(begin)'"
    cases:
      "True": {pipeline: inner, pass: [a]}
    default: {pipeline: other, pass: [a]}
- tool: {name: t1, args: {x: last}}
"""
OTHER = """\
pipeline: other
steps:
- for_each:
    items: [p, q]
    on_error: continue
    do: {for_each: {items: [1, 2], on_error: continue, do: {tool: {name: t2, args: {x: !expr item}}},
                    collect: {tool: {name: t5, args: {x: !expr pipe}}}}}
    collect: {transform: {value: pipe}}
"""
FORKS = """\
state: {start: str, a: str, b: str, c: str, items: list, all: list}
nodes:
  zero: {type: tool_call, tool: t0, args: {x: "{state.start}"}, state_key: a}
  left: {type: tool_call, tool: t1, args: {x: "{state.a}"}, state_key: b}
  right: {type: tool_call, tool: t2, args: {x: "{state.start}"}, state_key: c}
  each:
    type: map
    over: "{state.items}"
    as: word
    node: {type: tool_call, tool: t3, args: {x: "{state.word}"}}
    collect: all
  late: {type: tool_call, tool: t4, args: {x: "{state.b} {state.c}"}, state_key: a}
  never: {type: tool_call, tool: t5, args: {x: never}, state_key: a}
edges:
- {from: START, to: zero}
- {from: zero, to: left}
- {from: zero, to: right}
- {from: left, to: each}
- {from: each, to: late, condition: "b != 'nothing'"}
- {from: each, to: never, condition: else}
- {from: late, to: END}
"""
INSTANCES = """\
name: main
instances:
- {state: {n: one}}
- {state: {n: two}}
calls:
- {_tool: t0, x: †state.n, _outputPath: †state.a}
- {_tool: t1, x: †state.a, _outputPath: †state.b}
- {_tool: t2, x: "†state[*].b", _outputPath: †state.all, _instance: null}
- {_tool: t3, x: fixed, _outputPath: †state.c || †state.failed}
- {_tool: t4, x: †state.c, _outputPath: †state.d}
"""
LOOPS = """\
id: agf.loop
config:
  max_iterations: 2
  steps:
  - {agent: a0, input_mapping: {x: parent.input.start}}
  - {agent: routed, input_mapping: {x: a0.output.said}}
  - {agent: a4, input_mapping: {x: parent.input.start}}
"""
ROUTED = """\
id: agf.conditional
config:
  routes:
  - {when: {args_match: {parent.input.x: {pattern: v2}}}, agent: a1, input_mapping: {x: parent.input.x}}
  default_agent: a2
"""
SHAPES = [("pipeline", CHOOSES), ("graph", FORKS), ("plan", INSTANCES), ("policy", LOOPS)]


@pytest.mark.parametrize(("language", "text"), slow_but([SHAPES[0]], SHAPES), ids=[language for language, _ in SHAPES])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=8)
@given(versions=versions, constant=st.booleans())
@example(versions={"t0": "v2"}, constant=False)
@example(versions={"t3": "v2"}, constant=False)
@example(versions={"t1": "v2", "t2": "v2"}, constant=True)
@example(versions={"t2": "v2"}, constant=False)
def test_choices_loops_maps_and_instances_are_never_marked_as_fresh_if_they_run_again(
    language: str, text: str, versions: dict[str, str], constant: bool
) -> None:
    with fresh_journal():
        before, now = World(constant=constant), World(versions, constant=constant)
        for world in (before, now):
            agf.define(OTHER, registry=world.registry)
            agf.define(ROUTED, "policy", name="routed", registry=world.registry)
            world.define(language, text)
        first = agf.run("main", INPUT if language != "plan" else {}, registry=before.registry)
        marked = agf.stale(first.run_id, registry=now.registry)
        ran = run_again(agf.run("main", first.input, registry=now.registry, reuse=True))
        certain = {row["step"] for row in marked if row["state"] == "again"}
        assert ran <= {*marked.again, *marked.unknown}, marked
        assert certain <= ran or not constant, marked
        if constant:
            assert certain == ran, marked
        if not versions:
            assert not marked.again, marked


UNNAMED = """\
state: {text: str, grade: float, tries: int, note: any}
variables: {tries: 0}
nodes:
  begin: {type: tool_call, tool: lower, args: {x: "{state.text}"}, state_key: note}
  judge: {type: python, tool: grade}
  extend: {type: python, tool: extend}
  count: {type: passthrough, output: {tries: "{state.tries + 1}"}}
  last: {type: tool_call, tool: lower, args: {x: "{state.text}"}, state_key: note}
edges:
- {from: START, to: begin}
- {from: begin, to: judge}
- {from: judge, to: extend, condition: grade < 0.9 and tries < 8}
- {from: judge, to: last, condition: else}
- {from: extend, to: count}
- {from: count, to: judge}
- {from: last, to: END}
"""


def unnamed(by: int = 90, more: str = "is ripe") -> agf.Registry:
    def grade(text: str, note: Any) -> dict[str, float]:
        return {"grade": min(len(text) / by, 1.0)}

    def extend(state: dict[str, Any]) -> dict[str, str]:
        return {"text": f"{state['text']} It {more}."}

    registry = tools(lower=lambda x: x.lower(), grade=grade, extend=extend)
    agf.define(UNNAMED, name="main", registry=registry)
    return registry


@pytest.mark.parametrize(("edit", "edited"), [({"by": 120}, "judge"), ({"more": "is fresh"}, "extend")])
def test_what_a_function_may_return_decides_and_is_read_as_a_named_key_is(edit: dict[str, Any], edited: str) -> None:
    first = agf.run("main", {"text": "Pears."}, registry=unnamed())
    now = unnamed(**edit)
    marked = agf.stale(first.run_id, registry=now)
    expected = dict.fromkeys(["nodes.judge", "nodes.extend", "nodes.last"], "depends")
    begun = {"nodes.begin": "reused", "nodes.count": "evaluated"}
    assert state_of(marked) == {**expected, **begun, f"nodes.{edited}": "again"}
    assert run_again(agf.run("main", first.input, registry=now, reuse=True)) <= set(marked.again)


def test_the_run_before_an_edit_and_a_run_with_its_results_is_still_edited_since() -> None:
    first = agf.run("main", {"text": "Pears."}, registry=unnamed())
    assert not agf.stale(first.run_id, registry=unnamed()).is_edited
    now = unnamed(120)
    later = agf.run("main", first.input, registry=now, reuse=True)
    marked = agf.stale(first.run_id, registry=now)
    assert (marked.is_edited, marked.again) == (True, ())
    assert marked.summary == "no step would run again: another run has the results of what was edited"
    after = agf.stale(later.run_id, registry=now)
    assert (after.is_edited, after.summary) == (False, "no step would run again")
    agf.define(UNNAMED.replace("tries < 8", "tries < 9"), name="main", registry=now)
    assert agf.stale(later.run_id, registry=now).is_edited


def tools(**functions: Any) -> agf.Registry:
    registry = agf.Registry()
    for name, function in functions.items():
        function.__name__ = function.__qualname__ = name
        agf.tool(function, registry=registry)
    return registry


TWO = """\
pipeline: two
steps:
- tool: {name: first, args: {n: !expr ctx.n}, output: a}
- tool: {name: second, args: {n: !expr a}, output: b}
"""


def state_of(marked: Stale) -> dict[str, str]:
    return {row["step"]: row["state"] for row in marked}


def test_nothing_is_called_and_no_run_is_added(tmp_path: Path) -> None:
    path = str(tmp_path / "calls")

    def first(n: int) -> int:
        with open(path, "a") as file:
            file.write("called\n")
        return n

    registry = tools(first=first, second=lambda n: n)
    agf.define(TWO, registry=registry)
    run = agf.run("two", {"n": 1}, registry=registry)
    agf.define(TWO.replace("ctx.n", "ctx.n + 1"), registry=registry)
    assert agf.stale(run, registry=registry).again == ("steps[0]", "steps[1]")
    assert Path(path).read_text() == "called\n"
    assert len(agf.runs()) == 1


def test_a_failed_run_runs_the_failed_step_and_those_after_it_again() -> None:
    def broken(n: int) -> int:
        raise ValueError("no")

    registry = tools(first=lambda n: n, second=broken)
    agf.define(TWO + "- tool: {name: first, args: {n: !expr b}}\n", registry=registry)
    run = agf.run("two", {"n": 1}, registry=registry, raises=False)
    marked = agf.stale(run, registry=registry)
    assert state_of(marked) == {"steps[0]": "reused", "steps[1]": "again", "steps[2]": "again"}
    assert marked[1]["why"] == "it failed"
    assert not marked.is_edited
    repaired = tools(first=lambda n: n, second=lambda n: n + 1)
    agf.define(TWO + "- tool: {name: first, args: {n: !expr b}}\n", registry=repaired)
    marked = agf.stale(run, registry=repaired)
    assert (marked.is_edited, marked[1]["why"]) == (True, "it failed, and was edited since then")


def test_a_call_that_failed_and_was_dropped_fails_again_so_the_steps_after_it_depend_on_it() -> None:
    def even(n: int) -> int:
        if n % 2:
            raise ValueError("odd")
        return n

    registry = tools(first=even, second=lambda n: sum(n))
    text = """\
pipeline: evens
steps:
- for_each:
    over: ctx.items
    on_error: continue
    do: {tool: {name: first, args: {n: !expr item}}}
    collect: {transform: {value: pipe}}
    output: kept
- tool: {name: second, args: {n: !expr kept}}
"""
    agf.define(text, registry=registry)
    run = agf.run("evens", {"items": [1, 2, 3, 4]}, registry=registry)
    marked = agf.stale(run, registry=registry)
    states = {row["step"]: (row["state"], row["calls"], row["why"]) for row in marked if row["state"]}
    assert states == {
        "steps[0].do": ("again", 2, "it failed"),
        "steps[0].collect": ("evaluated", 0, "it reads first, which runs again"),
        "steps[1]": ("depends", 0, "it reads kept, which depends on first, which runs again"),
    }
    assert not marked.is_edited
    assert [row["step"] for row in marked if row["is_retry"]] == ["steps[0].do"]
    assert marked.summary == "2 steps would run again"  # no view has a row for the collect
    edited_since = tools(first=even, second=lambda n: sum(n) + 1)
    agf.define(text, registry=edited_since)
    later = agf.stale(run, registry=edited_since)
    assert [row["step"] for row in later if row["is_retry"]] == ["steps[0].do"]
    assert later.summary == ("2 steps would run again, 1 of them only to try a failure again")
    other = agf.stale(run, input={"items": [1, 2, 3, 4, 5]}, registry=registry)  # with an element that the run lacks
    assert state_of(other)["steps[1]"] == "again"


def test_a_failure_that_goes_to_the_second_place_of_a_plan_is_no_edit() -> None:
    def live(station: str) -> list[int]:
        if station == "summit":
            raise ConnectionError(f"{station} does not answer")
        return [len(station)]

    registry = tools(live=live, archive=lambda because: [1], mean=lambda readings: sum(readings))
    text = """\
instances: {valley: {input: {station: valley}}, summit: {input: {station: summit}}}
calls:
- {_tool: live, station: $input.station, _outputPath: $state.live || $state.trouble}
- {_tool: archive, because: $state.trouble, _outputPath: $state.archived}
- {_tool: mean, readings: $state.live || $state.archived, _outputPath: $state.mean}
"""
    agf.define(text, name="stations", registry=registry)
    marked = agf.stale(agf.run("stations", registry=registry), registry=registry)
    assert {row["step"]: row["why"] for row in marked if row["state"] == "again"} == {"calls[0]": "it failed"}
    assert set(state_of(marked).values()) == {"again", "depends"}
    assert not marked.is_edited


def test_the_reason_of_each_step_is_named() -> None:
    import threading

    def locked() -> Any:
        lock = threading.Lock()
        return lambda n: (lock, n)[1]

    registry = tools(first=lambda n: n, second=locked())
    agf.define(TWO, registry=registry)
    run = agf.run("two", {"n": 1}, registry=registry)
    assert agf.stale(run, registry=registry)[1]["why"] == "its function cannot be compared: lock (a lock of _thread)"
    assert agf.stale(run, input={"n": 2}, registry=registry)[0]["why"] == "its arguments differ"
    now = tools(first=lambda n: n + 1, second=lambda n: n)
    agf.define(TWO, registry=now)
    assert "was edited" in agf.stale(run, registry=now)[0]["why"]


def test_a_name_that_the_edited_code_reads_no_more_or_reads_now_was_not_edited() -> None:
    def reading(code: str) -> agf.Registry:
        names: dict[str, Any] = {"__name__": "__main__", "OLD": 1, "NEW": 2}
        exec(f"def scale(n): return {code}", names)
        return tools(first=names["scale"], second=lambda n: n)

    registry = reading("n * OLD")
    agf.define(TWO, registry=registry)
    run = agf.run("two", {"n": 1}, registry=registry)
    for code in ("n", "n * NEW", "n * OLD * NEW"):
        now = reading(code)
        agf.define(TWO, registry=now)
        assert agf.stale(run, registry=now)[0]["why"] == "the code of its function was edited", code


def test_the_reason_names_what_the_function_reads_that_was_edited() -> None:
    def scaled(by: int, more: int = 0) -> agf.Registry:
        names: dict[str, Any] = {"__name__": "__main__", "FACTOR": by, "RATES": {"eur": 1}}
        exec(f"def scale(n): return n * FACTOR + RATES['eur'] + {more}", names)
        return tools(first=names["scale"], second=lambda n: n)

    registry = scaled(2)
    agf.define(TWO, registry=registry)
    run = agf.run("two", {"n": 1}, registry=registry)
    for now, reason in (
        (scaled(3), "its function reads FACTOR, which changed"),
        (scaled(2, 1), "the code of its function was edited"),
        (scaled(3, 1), "the code of its function was edited, and so was FACTOR, which it reads"),
    ):
        agf.define(TWO, registry=now)
        assert agf.stale(run, registry=now)[0]["why"] == reason


READERS = """\
pipeline: readers
steps:
- tool: {name: first, args: {n: 2}, output: orders}
- transform: {value: "ORDERS", output: total}
- tool: {name: second, args: {n: !expr total}, output: report}
- transform: {value: "1", output: other}
"""
IN_LANGUAGES = {
    "pipeline": READERS.replace("ORDERS", "orders * 10"),
    "plan": (
        "name: readers\nstate: {n: 2}\ncalls:\n- {_tool: first, n: †state.n, _outputPath: †state.orders}\n"
        "- {_tool: second, n: †state.orders, _outputPath: †state.total}"
    ),
    "graph": (
        "state: {n: int, orders: int, total: str}\nvariables: {n: 2}\nnodes:\n"
        "  orders: {type: tool_call, tool: first, args: {n: '{state.n}'}, state_key: orders}\n"
        "  total: {type: passthrough, output: {total: 'is {state.orders}'}}\n"
        "edges:\n- {from: START, to: orders}\n- {from: orders, to: total}\n- {from: total, to: END}"
    ),
}


@pytest.mark.parametrize("language", IN_LANGUAGES)
def test_a_step_that_reads_an_edited_step_is_marked_with_the_reason(language: str) -> None:
    def both(more: int) -> agf.Registry:
        names: dict[str, Any] = {"__name__": "__main__"}
        exec(f"def first(n): return n + {more}", names)
        registry = tools(first=names["first"], second=lambda n: n)
        agf.define(IN_LANGUAGES[language], language, name="readers", registry=registry)
        return registry

    run = agf.run("readers", registry=both(1))
    marked = agf.stale(run, registry=both(2))
    reasons = [(row["state"], row["why"]) for row in marked if row["state"] and row["kind"] != "input"]
    how = "depends" if language == "plan" else "evaluated"
    assert reasons[:2] == [
        ("again", "the code of its function was edited"),
        (how, "it reads orders, which changed"),
    ]
    if language == "pipeline":
        assert reasons[2] == ("depends", "it reads total, which depends on orders, which changed")
        assert "2 steps would run again; 1 without calls may get other values" in marked.summary


AGENT_EDITS: dict[str, tuple[dict[str, Any], str]] = {
    "its tool": ({"add": 2}, "the code of its tool 'bump' was edited"),
    "what its tool reads": ({"by": 3}, "its tool 'bump' reads by, which changed"),
    "the agent": ({"twice": True}, "the code of its function was edited"),
    "both": ({"twice": True, "add": 2}, "the code of its function was edited; the code of its tool 'bump' was edited"),
}


@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.parametrize("edit", AGENT_EDITS)
def test_the_reason_names_the_tool_of_an_agent_that_was_edited(edit: str, is_named: bool) -> None:
    def registry(add: int = 1, by: int = 1, twice: bool = False) -> agf.Registry:
        registry = agf.Registry()
        bump = (lambda n: n + by + 1) if add == 1 else (lambda n: n + by + 2)
        asks = (lambda prompt, tools: tools["bump"](n=1)) if not twice else (lambda prompt, tools: tools["bump"](n=2))
        agf.tool(bump, name="bump", registry=registry)
        agf.agent(asks, name="asks", tools=["bump"] if is_named else None, registry=registry)
        agf.define("pipeline: p\nsteps:\n- agent: {identity: asks, prompt: x, output: a}\n", registry=registry)
        return registry

    run = agf.run("p", registry=registry())
    keywords, why = AGENT_EDITS[edit]
    (row,) = agf.stale(run, registry=registry(**keywords))
    assert (row["state"], row["why"]) == ("again", why)


def test_an_agent_that_is_offered_no_built_in_tool_can_be_reused_beside_them() -> None:
    registry = agf.Registry()
    agf.tool(lambda n: n + 1, name="bump", registry=registry)
    agf.agent(lambda prompt, tools: tools["bump"](n=1), name="asks", registry=registry)
    install(registry, folder=Path.cwd, allow_shell=lambda: False)
    assert "file__read" in registry.tools
    agf.define("pipeline: p\nsteps:\n- agent: {identity: asks, prompt: x, output: a}\n", registry=registry)
    run = agf.run("p", registry=registry)
    assert [(row["state"], row["why"]) for row in agf.stale(run, registry=registry)] == [("reused", "")]


def test_a_step_without_calls_that_was_edited_is_marked_and_what_reads_it() -> None:
    registry = tools(first=lambda n: n, second=lambda n: n)
    agf.define(READERS.replace("ORDERS", "orders * 10"), registry=registry)
    run = agf.run("readers", registry=registry)
    agf.define(READERS.replace("ORDERS", "orders  *  10"), registry=registry)
    assert not agf.stale(run, registry=registry).is_edited  # spaces make no difference
    agf.define(READERS.replace("ORDERS", "orders * 20"), registry=registry)
    marked = agf.stale(run, registry=registry)
    assert marked.is_edited
    assert {row["step"]: (row["state"], row["why"]) for row in marked if row["state"] not in ("", "reused")} == {
        "steps[1]": ("evaluated", "its expression was edited"),
        "steps[2]": ("again", "its arguments differ: it reads total, which changed"),
    }


EXPRESSIONS: list[tuple[str, str, bool]] = [
    (""" "join([pipe, pipe], '  ')" """, """ "join([pipe, pipe], ' ')" """, True),
    (""" 'join([pipe, pipe], ''  '')' """, """ 'join([pipe, pipe], '' '')' """, True),
    (""" 'join([pipe, pipe], "  ")' """, """ 'join([pipe, pipe], " ")' """, True),
    (""" "join([pipe,  pipe], '  ')" """, """ "join([pipe, pipe],  '  ')" """, False),
    (""" "pipe  +  'a'" """, """ "pipe + 'a'" """, False),
    (""" "pipe + 'a b'" """, """ "pipe + 'ab'" """, True),
]


@pytest.mark.parametrize(("before", "after", "is_edited"), EXPRESSIONS)
def test_spaces_of_an_expression_count_only_in_its_texts(before: str, after: str, is_edited: bool) -> None:
    registry = tools(first=lambda: "x")
    text = "{{pipeline: joins, steps: [{{tool: {{name: first}}}}, {{transform: {{value: {}}}}}]}}"
    agf.define(text.format(before), registry=registry)
    run = agf.run("joins", registry=registry)
    agf.define(text.format(after), registry=registry)
    marked = agf.stale(run, registry=registry)
    assert (marked.is_edited, marked[1]["state"]) == (is_edited, "evaluated" if is_edited else "")


def test_new_and_removed_steps_are_named_and_the_others_keep_their_rows() -> None:
    registry = tools(first=lambda n: n, second=lambda n: n)
    agf.define(TWO, registry=registry)
    run = agf.run("two", {"n": 1}, registry=registry)
    new = "steps:\n- transform: {value: '1', output: one}\n- tool: {name: first, args: {n: 5}}\n"
    agf.define(TWO.replace("steps:\n", new), registry=registry)
    marked = agf.stale(run, registry=registry)
    assert marked.new == ("steps[0]", "steps[1]")
    assert state_of(marked) == {"steps[0]": "", "steps[1]": "again", "steps[2]": "reused", "steps[3]": "reused"}
    assert {id: row["step"] for id, row in marked.rows_of_run.items()} == {
        "steps[0]": "steps[2]", "steps[1]": "steps[3]"}  # fmt: skip
    agf.define(TWO[: TWO.rindex("- ")], registry=registry)
    assert agf.stale(run, registry=registry).removed == ("steps[1]",)


CHOICE = """\
pipeline: choice
steps:
- tool: {name: first, args: {n: 1}, output: a}
- match:
    on: a
    cases:
      one: {pipeline: ones}
      two: {pipeline: twos}
"""


def test_the_cases_of_a_choice_that_may_change_are_marked_or_unknown() -> None:
    registry, now = (tools(first=first, second=lambda n: n) for first in (lambda n: "one", lambda n: "two"))
    for registry_now in (registry, now):
        agf.define("pipeline: ones\nsteps:\n- tool: {name: second, args: {n: 5}}", registry=registry_now)
        agf.define("pipeline: twos\nsteps:\n- tool: {name: first, args: {n: 6}}", registry=registry_now)
        agf.define(CHOICE, registry=registry_now)
    run = agf.run("choice", registry=registry)
    states = list(state_of(agf.stale(run, registry=now)).values())
    assert states == ["again", "", "", "depends", "", "unknown"]


def test_a_tool_with_an_effect_always_runs_again() -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry, reuse=False)
    def post(n: int) -> int:
        return n

    agf.define("pipeline: p\nsteps:\n- tool: {name: post, args: {n: 1}}", registry=registry)
    run = agf.run("p", registry=registry)
    assert agf.stale(run, registry=registry)[0]["why"] == "it has an effect (reuse=False)"


HANDED = """\
pipeline: handed
steps:
- tool: {name: first, args: {n: 1}}
- call: {pipeline: piped}
"""
ASKED = """\
pipeline: handed
steps:
- tool: {name: first, args: {n: 1}, output: a}
- agent: {prompt: "what is {a}?"}
"""


def test_a_called_flow_that_reads_the_pipe_depends_on_the_step_before_its_call() -> None:
    before, now = (tools(first=first, second=lambda n: n) for first in (lambda n: n, lambda n: int(n)))
    for registry in (before, now):
        agf.define("pipeline: piped\nsteps:\n- tool: {name: second, args: {n: !expr pipe}}", registry=registry)
        agf.define(HANDED, registry=registry)
    run = agf.run("handed", registry=before)
    assert state_of(agf.stale(run, registry=now)) == {
        "steps[0]": "again", "steps[1]": "", "steps[1]/steps[0]": "depends"}  # fmt: skip


def test_a_request_depends_on_the_step_whose_result_its_prompt_has(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer(lambda request: "one") as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "not-to-be-seen")
        before, now = (tools(first=first) for first in (lambda n: n, lambda n: int(n)))
        for registry in (before, now):
            registry.choose("openai-chat:gpt-4o")
            agf.define(ASKED, registry=registry)
        run = agf.run("handed", registry=before)
        states = state_of(agf.stale(run, registry=now))
        assert [step for step, state in states.items() if state == "depends"] == ["steps[1]/session.ask"]


ASKS = """\
pipeline: asks
steps:
- agent: {prompt: "What do figs cost?", output: answer}
- tool: {name: note, args: {text: !expr answer}}
"""


def asking(price: float, prefix: str = "") -> agf.Registry:
    registry = agf.Registry()

    @agf.tool(registry=registry, name="price")
    def cost(fruit: str) -> float:
        return price

    @agf.tool(registry=registry)
    def note(text: str) -> str:
        return prefix + text

    registry.choose("openai-chat:gpt-4o")
    agf.define(ASKS, registry=registry)
    return registry


@pytest.mark.parametrize(
    ("now", "edit", "again"),
    [
        ({"price": 7.0}, ("", ""), 0),
        ({"price": 8.0}, ("", ""), 3),  # runs the tool, the next request and the note
        ({"price": 7.0}, ("figs cost", "plums cost"), 3),
        ({"price": 7.0, "prefix": "> "}, ("", ""), 1),
    ],
)
def test_a_session_of_a_model_is_compared_request_by_request(
    monkeypatch: pytest.MonkeyPatch, now: dict[str, Any], edit: tuple[str, str], again: int
) -> None:
    def reply(request: dict[str, Any]) -> Any:
        question = next(message["content"] for message in request["messages"] if message["role"] == "user")
        results = [message["content"] for message in request["messages"] if message["role"] == "tool"]
        return f"{question} {results[-1]}" if results else calls(("price", {"fruit": question}))

    with ScriptedServer(reply) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "not-to-be-seen")
        run = agf.run("asks", registry=asking(7.0))
        registry = asking(**now)
        agf.define(ASKS.replace(*edit), registry=registry)
        requests_before = len(server.requests)
        marked = agf.stale(run.run_id, registry=registry)
        assert len(server.requests) == requests_before
        assert len(marked.again) == again, marked
        assert not marked.unknown
        assert set(marked.again) == run_again(agf.run("asks", registry=registry, reuse=True))


NODE = """\
name: asks
state: {answer: str}
nodes:
  NAME: {type: llm, prompt: "What do figs cost?", state_key: answer}
edges:
- {from: START, to: NAME}
- {from: NAME, to: END}
"""


def test_the_steps_of_a_session_have_no_expression_that_a_new_name_edits() -> None:
    registry = agf.Registry()
    registry.choose(FunctionModel(lambda messages, info: ModelResponse(parts=[TextPart("seven")])))
    agf.define(NODE.replace("NAME", "ask"), "graph", registry=registry)
    run = agf.run("asks", registry=registry)
    agf.define(NODE.replace("NAME", "price"), "graph", registry=registry)
    marked = agf.stale(run, registry=registry)
    assert {row["change"] for row in marked} == {""}
    assert "evaluated" not in state_of(marked).values()


SPOKEN = "pipeline: p\nsteps:\n" + "".join(
    f"- {step}\n"
    for step in (
        "tool: {name: first, args: {n: 1}, output: a}",
        'agent: {prompt: "say {a}", output: said}',
        'agent: {prompt: "sum {said}", output: summed}',
    )
)
MODEL = "a model"
ANSWERS: dict[str, Any] = {
    MODEL: FunctionModel(lambda messages, info: ModelResponse(parts=[TextPart("seven")])),
    "a function": lambda prompt: prompt,
    "one that cannot be called": lambda topic, size: topic,
}


def speaking(who: str) -> agf.Registry:
    registry = tools(first=lambda n: n)
    if who == MODEL:
        registry.choose(ANSWERS[who])
    else:
        agf.agent(ANSWERS[who], name="writer", registry=registry, default=True)
    agf.define(SPOKEN, registry=registry)
    return registry


@pytest.mark.parametrize(
    ("before", "now", "why", "summary"),
    [
        (MODEL, MODEL, {}, "no step would run again"),
        (MODEL, "a function", {1: "the run has no result of it", 2: "the run has no result of it"}, "2 steps would"),
        ("a function", MODEL, {1: "a model answers it now", 2: "a model answers it now"}, "2 steps would"),
        (
            MODEL,
            "one that cannot be called",
            {1: "it fails now: agent 'writer' needs 'topic'; needs 'size'"},
            "1 step would run again; 1 not known; the comparison ended early: agent 'writer' needs 'topic'",
        ),
    ],
)
def test_who_answers_a_step_is_no_other_definition(before: str, now: str, why: dict[int, str], summary: str) -> None:
    run = agf.run("p", registry=speaking(before))
    marked = agf.stale(run, registry=speaking(now))
    assert marked.summary.startswith(summary)
    assert (marked.new, marked.removed) == ((), ())
    again = {row["step"]: row["why"] for row in marked if row["state"] == "again"}
    assert again == {f"steps[{number}]": reason for number, reason in why.items()}
    assert marked.is_edited == (before != now)


def test_a_run_without_a_definition_is_refused() -> None:
    registry = tools(first=lambda n: n, second=lambda n: n)
    agf.define(TWO, registry=registry)
    run = agf.run("two", {"n": 1}, registry=registry)
    with pytest.raises(agf.DefinitionError, match="no flow 'two' is registered"):
        agf.stale(agf.runs(run.run_id), registry=agf.Registry())
    with pytest.raises(agf.DefinitionError, match="there is no run 'nope'"):
        agf.stale("nope", registry=registry)


def test_a_step_without_its_tool_is_refused_as_a_new_run_is() -> None:
    registry = tools(first=lambda n: n, second=lambda n: n)
    agf.define(TWO, registry=registry)
    run = agf.run("two", {"n": 1}, registry=registry)
    now = tools(first=lambda n: n)
    agf.define(TWO, registry=now)
    with pytest.raises(agf.DefinitionError, match="second"):
        agf.stale(run, registry=now)


def test_a_secret_input_must_be_given_again_for_a_past_run() -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry, secret=("token",))
    def ask(token: str) -> str:
        return "fine"

    agf.define("pipeline: p\nsteps:\n- tool: {name: ask, args: {token: !expr ctx.token}}", registry=registry)
    run = agf.run("p", {"token": "s3cret-value"}, registry=registry)
    assert agf.stale(run, registry=registry).again == ()
    with pytest.raises(agf.DefinitionError, match="secret and not in the journal"):
        agf.stale(agf.runs(run.run_id), registry=registry)
    past = agf.runs(run.run_id)
    assert agf.stale(past, input={"token": "s3cret-value"}, registry=registry).again == ()


class Point:
    def __init__(self, x: int) -> None:
        self.x = x


def test_a_value_whose_class_is_gone_makes_its_call_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = tools(first=lambda n: Point(n), second=lambda n: n.x)
    agf.define(TWO, registry=registry)
    run = agf.run("two", {"n": 1}, registry=registry)
    assert agf.stale(run, registry=registry).again == ()
    monkeypatch.delattr(f"{__name__}.Point")
    assert agf.stale(run, registry=registry).again == ("steps[0]", "steps[1]")


def test_stale_is_refused_without_a_journal(monkeypatch: pytest.MonkeyPatch) -> None:
    registry = tools(first=lambda n: n, second=lambda n: n)
    agf.define(TWO, registry=registry)
    run = agf.run("two", {"n": 1}, registry=registry)
    with no_journal(), pytest.raises(agf.DefinitionError, match="switched off"):
        agf.stale(run, registry=registry)


class Watched:
    """A sequence that runs the user's code when it is read."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __len__(self) -> int:
        with open(self.path, "a") as file:
            file.write("length\n")
        return 2

    def __getitem__(self, number: int) -> int:
        return number


def test_a_sequence_with_code_of_a_user_is_not_read_and_what_it_feeds_is_unknown(tmp_path: Path) -> None:
    path = tmp_path / "reads"
    registry = tools(first=lambda n: n)
    agf.define("pipeline: p\nsteps:\n- for_each: {over: ctx.found, on_error: abort, "
               "do: {tool: {name: first, args: {n: !expr item}}}, collect: {transform: {value: pipe}}}",
               registry=registry)  # fmt: skip
    run = agf.run("p", {"found": Watched(str(path))}, registry=registry)
    before = path.read_text()
    marked = agf.stale(run, registry=registry)
    assert path.read_text() == before
    assert marked.unknown == ("steps[0].do",)
    assert "the comparison ended early" in marked.summary


def test_a_flow_that_is_not_awaited_calls_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "calls")

    def note(word: str) -> str:
        with open(path, "a") as file:
            file.write(f"{word}\n")
        return word

    registry = agf.Registry()
    agf.tool(note, registry=registry)
    agf.define("pipeline: inner\nsteps:\n- for_each: {items: [a, b], on_error: continue, "
               "do: {tool: {name: note, args: {word: !expr item}}}, collect: {transform: {value: pipe}}}",
               registry=registry)  # fmt: skip
    agf.define("name: p\ncalls:\n- {_delegate: inner}", "plan", registry=registry)
    run = agf.run("p", registry=registry)
    while count_background_calls():
        pass
    calls_before = Path(path).read_text()
    agf.stale(run, registry=registry)
    assert Path(path).read_text() == calls_before


EDITS = {
    # a cell before and after its edit, and the reason of the step that calls `f`
    "a name in a condition": (
        "import pandas\nK = 1\ndef f(): return len(pandas.DataFrame({'n': [1, 2]}).query('n > @K'))",
        "K = 1", "K = 2", "its function reads K, which changed"),
    "a table in SQL": (
        "import duckdb, pandas\nt = pandas.DataFrame({'n': [1]})\ndef f(): return duckdb.sql('from t').fetchall()",
        "[1]", "[2]", "its function reads t, which changed"),
    "a flow that it runs": (
        "import agf_magics as agf\nK = 1\ndef f(): return agf.run('sub', {'n': 1}, registry=R).output",
        "K = 1", "K = 1", "its function cannot be compared: it runs a flow, which may be edited"),
}  # fmt: skip


@pytest.mark.parametrize("edit", EDITS)
def test_what_a_function_names_in_a_text_and_a_flow_that_it_runs_are_seen(edit: str) -> None:
    cell, before, after, why = EDITS[edit]
    text = "pipeline: p\nsteps:\n- tool: {name: f, output: n}\n"

    def registry(cell: str) -> agf.Registry:
        inner = agf.Registry()
        agf.define("pipeline: sub\nsteps:\n- transform: {value: ctx.n}", registry=inner)
        names: dict[str, Any] = {"__name__": "__main__", "R": inner}
        exec(cell, names)
        return tools(f=names["f"])

    first = agf.run(text, registry=registry(cell))
    edited = registry(cell.replace(before, after))
    agf.define(text, registry=edited)
    (row,) = agf.stale(first, registry=edited)
    assert (row["state"], row["why"]) == ("again", why)
    assert agf.run(text, registry=edited, reuse=True).steps["steps[0]"].earlier == 0
