"""The state of a run at each moment, computed from its journal, in each language, for live and past runs."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import agf_magics as agf
from agf_magics.catalog import default
from agf_magics.catalog.registry import Agents
from agf_magics.lifecycle.forecasts import moments, offline
from agf_magics.lifecycle.forecasts.moments import Moments, find_moments
from tests.lifecycle.test_stale import INPUT, TEXTS, World, tools

pytestmark = pytest.mark.usefixtures("journaled")


def all_states(all_moments: Moments) -> list[dict[str, Any]]:
    return [all_moments.state(number) for number in range(len(all_moments))]


@pytest.mark.parametrize("language", TEXTS)
def test_the_moments_of_a_live_and_of_its_past_run_are_the_same_and_lead_to_its_stores(language: str) -> None:
    world = World()
    world.define(language, TEXTS[language])
    run = agf.run("main", INPUT if language != "plan" else {}, registry=world.registry)
    live, past = find_moments(run), find_moments(agf.runs(run.run_id))
    assert live.note == past.note == ""
    assert all_states(live) == all_states(past)
    assert all_states(past)[-1] == dict(run.stores)
    assert past[0].label == "start"
    times = [past[number].seconds or 0.0 for number in range(len(past))]
    assert times == sorted(times)
    assert len(past) >= 6


def test_each_moment_of_a_pipeline_adds_what_its_step_stored() -> None:
    registry = tools(first=lambda n: n + 1, second=lambda n: n * 10)
    agf.define("pipeline: p\nsteps:\n- tool: {name: first, args: {n: !expr ctx.n}, output: a}\n"
               "- transform: {value: a + 1, output: b}\n- tool: {name: second, args: {n: !expr b}, output: a}",
               registry=registry)  # fmt: skip
    run_moments = find_moments(agf.run("p", {"n": 1}, registry=registry))
    assert all_states(run_moments) == [{"n": 1}, {"n": 1, "a": 2}, {"n": 1, "a": 2, "b": 3}, {"n": 1, "a": 30, "b": 3}]
    (part,), more = run_moments.differences(1, 3)[0][:1], run_moments.differences(1, 3)[1]
    assert (part.path, part.first, part.other, more) == ("a", 2, 30, False)
    assert run_moments.differences(2, 2) == ([], False)


LOOP = """\
state: {n: int, seen: list}
variables: {n: 0}
nodes:
  add: {type: passthrough, output: {n: "{state.n + 1}"}}
edges:
- {from: START, to: add}
- {from: add, to: add, condition: n < 5}
- {from: add, to: END, condition: else}
"""


def test_a_graph_has_a_moment_for_each_round() -> None:
    registry = agf.Registry()
    agf.define(LOOP, "graph", name="g", registry=registry)
    run_moments = find_moments(agf.run("g", registry=registry))
    assert [state["n"] for state in all_states(run_moments)] == [0, 1, 2, 3, 4, 5]


def test_a_running_run_has_the_moments_so_far() -> None:
    gate, reached = threading.Event(), threading.Event()

    def wait(n: int) -> int:
        reached.set()
        gate.wait()
        return n

    registry = tools(first=lambda n: n, wait=wait)
    agf.define("pipeline: p\nsteps:\n- tool: {name: first, args: {n: 1}, output: a}\n"
               "- tool: {name: wait, args: {n: 2}, output: b}", registry=registry)  # fmt: skip
    run = agf.start("p", registry=registry)
    reached.wait()
    run_moments = find_moments(run)
    assert all_states(run_moments) == [{}, {"a": 1}]
    assert run_moments.note == "steps[1] still runs: the state after it is not known yet"
    gate.set()
    run.wait()
    assert all_states(find_moments(run))[-1] == {"a": 1, "b": 2}


def test_a_failed_run_has_the_moments_before_the_failure_and_names_it() -> None:
    def broken(n: int) -> int:
        raise ValueError("no figs")

    registry = tools(first=lambda n: n, broken=broken)
    agf.define("pipeline: p\nsteps:\n- tool: {name: first, args: {n: 1}, output: a}\n"
               "- tool: {name: broken, args: {n: 2}, output: b}", registry=registry)  # fmt: skip
    run = agf.run("p", registry=registry, raises=False)
    run_moments = find_moments(agf.runs(run.run_id))
    assert all_states(run_moments)[-1] == {"a": 1}
    assert "no figs" in run_moments.note


def test_dropped_elements_are_those_of_the_run() -> None:
    def picky(n: int) -> int:
        if n == 2:
            raise ValueError("two")
        return n

    registry = tools(picky=picky)
    agf.define("pipeline: p\nsteps:\n- for_each:\n    items: [1, 2, 3]\n    on_error: continue\n"
               "    do: {tool: {name: picky, args: {n: !expr item}}}\n    collect: {transform: {value: pipe}}\n"
               "    output: all", registry=registry)  # fmt: skip
    run = agf.run("p", registry=registry)
    assert all_states(find_moments(agf.runs(run.run_id)))[-1] == run.stores


def test_nothing_is_called(tmp_path: Path) -> None:
    path = str(tmp_path / "calls")

    def note(n: int) -> int:
        with open(path, "a") as file:
            file.write("called\n")
        return n

    registry = tools(note=note)
    agf.define("pipeline: p\nsteps:\n- tool: {name: note, args: {n: 1}, output: a}", registry=registry)
    run = agf.run("p", registry=registry)
    find_moments(run)
    find_moments(agf.runs(run.run_id))
    assert Path(path).read_text() == "called\n"


def test_moments_above_the_limit_are_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(moments, "MOST_MOMENTS", 3)
    registry = agf.Registry()
    agf.define(LOOP, "graph", name="g", registry=registry)
    all_moments = find_moments(agf.run("g", registry=registry))
    assert (len(all_moments), all_moments.note) == (3, "the first 3 moments")


def test_more_values_than_fit_into_the_memory_end_the_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offline, "MOST_CHARACTERS", 250)
    registry = tools(first=lambda n: "x" * 100)
    text = "".join(f"- tool: {{name: first, args: {{n: {n}}}, output: a{n}}}\n" for n in range(5))
    agf.define(f"pipeline: p\nsteps:\n{text}", registry=registry)
    run = agf.run("p", registry=registry)
    run_moments = find_moments(run)
    assert len(run_moments) == 3
    assert run_moments.note == (
        "the result of steps[2] is not in the journal: the state after it is not known; "
        "only the first 200,000 calls, or 250 characters, are read"
    )
    assert "only the first 200,000 calls, or 250 characters, are read" in agf.stale(run, registry=registry).summary


def test_secret_values_stay_hidden() -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry, secret=("token",))
    def ask(token: str) -> str:
        return f"hello {token}"

    agf.define("pipeline: p\nsteps:\n- tool: {name: ask, args: {token: !expr ctx.token}, output: a}", registry=registry)
    run = agf.run("p", {"token": "s3cret-value"}, registry=registry)
    for either_run in (run, agf.runs(run.run_id)):
        assert "s3cret-value" not in str(all_states(find_moments(either_run)))


def test_a_run_without_a_journal_is_refused() -> None:
    registry = tools(first=lambda n: n)
    agf.define("pipeline: p\nsteps:\n- tool: {name: first, args: {n: 1}}", registry=registry)
    run = agf.run("p", registry=registry, dry=True)
    with pytest.raises(agf.DefinitionError, match="is not journaled"):
        find_moments(run)


def test_a_plan_begins_with_its_earlier_context() -> None:
    registry = tools(first=lambda n: n)
    calls = "- {_tool: first, n: 1, _outputPath: †state.a, _outputMethod: push}"
    agf.define(f"name: p\ncontext: tally\ncalls:\n{calls}", "plan", registry=registry)
    agf.run("p", registry=registry)
    run = agf.run("p", registry=registry)
    agf.run("p", registry=registry)
    for either_run in (run, agf.runs(run.run_id)):
        assert [state.get("state", {}).get("a") for state in all_states(find_moments(either_run))] == [
            [1],
            [1, 1],
            [1, 1],
        ]


ANSWERED = {
    "by the chosen model": ("", ""),
    "by a model with a name": ("clerk", "identity: clerk, "),
    "beside a function": ("clerk", "identity: clerk, "),
    "by the first agent, beside a function": ("clerk", ""),
}


@pytest.mark.parametrize("who", ANSWERED)
@pytest.mark.parametrize("other", ["", "model", "clerk", "a default"])
def test_the_moments_of_a_run_with_a_model_are_known_without_the_model(
    who: str, other: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The registry of this process, with which a past run is evaluated, has no model, and may have other agents."""
    monkeypatch.setattr(default(), "agents", Agents())
    if other:
        agf.agent(lambda prompt: "no", name=other.replace(" ", "_"), default=other == "a default")
    registry = tools(price=lambda fruit: 7)
    name, identity = ANSWERED[who]

    def talk(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart("price", {"fruit": "fig"}, tool_call_id="c1")])
        return ModelResponse(parts=[TextPart("seven")])

    model = FunctionModel(talk, model_name="figs")
    if name:
        agf.model_agent(name, model=model, registry=registry)
    else:
        registry.choose(model)
    text = "pipeline: ask\nsteps:\n"
    text += f"- agent: {{prompt: 'What?', {identity}capabilities: {{tools: [price]}}, output: answer}}\n"
    states = [{}, {"answer": "seven"}]
    if "function" in who:
        agf.agent(lambda prompt: "ode", name="poet", registry=registry)
        text += "- agent: {prompt: 'Sing.', identity: poet, output: song}\n"
        states.append({"answer": "seven", "song": "ode"})
    run_moments = find_moments(agf.runs(agf.run(text, registry=registry).run_id))
    assert run_moments.note == ""
    assert all_states(run_moments) == states


class Table:
    """A value that is not JSON, of which the moments have a preview."""

    def __init__(self, rows: int) -> None:
        self.rows = rows


def at_least_two(table: Table) -> Table:
    if table.rows < 2:
        raise ValueError("one row")
    return table


CALLS_WITH_TABLES: dict[str, tuple[str, dict[str, Any]]] = {
    "a call": ("tool: {name: size, args: {table: !expr table}, output: n}", {"n": 3}),
    "a call with a checked value": ("tool: {name: checked, args: {table: !expr table}, output: n}", {"n": 3}),
    "a call that failed and was dropped": (
        "for_each: {items: [1, 2], on_error: continue, do: {tool: {name: picky, args: {table: !expr table, n: !expr"
        " item}}}, collect: {transform: {value: pipe}}, output: n}",
        {"n": [1]},
    ),
    "a call whose check failed": (
        "for_each: {items: [1, two], on_error: continue, do: {tool: {name: picky, args: {table: !expr table, n: !expr"
        " item}}}, collect: {transform: {value: pipe}}, output: n}",
        {"n": [1]},
    ),
    "branches": (
        "parallel: {branches: {a: {tool: {name: size, args: {table: !expr table}}}, b: {tool: {name: size, args:"
        " {table: !expr table}}}}, collect: {transform: {value: pipe}}, output: n}",
        {"n": {"a": 3, "b": 3}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CALLS_WITH_TABLES)
@pytest.mark.parametrize("is_resumed", [False, True], ids=["fresh", "resumed"])
def test_a_call_that_got_a_value_of_which_there_is_a_preview_is_not_checked_again(case: str, is_resumed: bool) -> None:
    registry = agf.Registry()
    has_failed: list[bool] = []

    @agf.tool(registry=registry)
    def load() -> Table:
        return Table(3)

    @agf.tool(registry=registry)
    def size(table: Table) -> int:
        return table.rows

    @agf.tool(registry=registry)
    def checked(table: Annotated[Any, AfterValidator(at_least_two)]) -> int:
        return int(table.rows)

    @agf.tool(registry=registry)
    def picky(table: Table, n: int) -> int:
        if n == 2:
            raise ValueError("two")
        return n

    @agf.tool(registry=registry)
    def last(table: Table) -> str:
        if is_resumed and not has_failed:
            has_failed.append(True)
            raise ValueError("not yet")
        return "end"

    step, stores = CALLS_WITH_TABLES[case]
    text = f"pipeline: p\nsteps:\n- tool: {{name: load, output: table}}\n- {step}\n"
    text += "- tool: {name: last, args: {table: !expr table}, output: said}"
    run = agf.run(text, registry=registry, raises=not is_resumed)
    run = agf.resume(run.run_id, registry=registry) if is_resumed else run
    run_moments = find_moments(run)
    assert run_moments.note == ""
    assert all_states(run_moments)[-1] == {"table": "⟨Table⟩", **stores, "said": "end"}
    assert len(run_moments) == 4


def test_a_running_run_names_the_call_that_runs_even_if_it_got_a_value_without_json() -> None:
    gate, reached = threading.Event(), threading.Event()
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def load() -> Table:
        return Table(3)

    @agf.tool(registry=registry)
    def wait(table: Table) -> int:
        reached.set()
        gate.wait()
        return 1

    agf.define("pipeline: p\nsteps:\n- tool: {name: load, output: a}\n"
               "- tool: {name: wait, args: {table: !expr a}, output: b}", registry=registry)  # fmt: skip
    run = agf.start("p", registry=registry)
    reached.wait()
    note = find_moments(run).note
    gate.set()
    run.wait()
    assert note == "steps[1] still runs: the state after it is not known yet"


LOOKS = {
    "at its rows": "count(frame)",
    "at its rows inside of a mapping": "count(both.frame)",
    "at each row": "map(frame, row -> row)",
}


@pytest.mark.parametrize("case", LOOKS)
@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_an_expression_does_not_find_the_shown_rows_of_a_frame(case: str, library: str) -> None:
    frames = pytest.importorskip(library)
    registry = tools(frame=lambda: frames.DataFrame({"n": range(50)}), both=lambda: {"frame": frames.DataFrame()})
    run = agf.run(
        "pipeline: looks\nsteps:\n- tool: {name: frame, output: frame}\n- tool: {name: both, output: both}\n"
        f"- transform: {{value: frame, output: same}}\n- transform: {{value: '{LOOKS[case]}', output: found}}",
        registry=registry,
        raises=False,
    )
    assert isinstance(run.error, agf.StepError)
    for shown in (run, agf.runs(run.run_id)):
        states = shown.states
        assert [state["after"] for state in states] == ["start", "frame", "both", "same"]
        last = states[-1]["state"]
        assert last["frame"] is last["same"]
        assert (last["frame"][1], len(last["frame"])) == ({"n": 1}, 21)
        assert run.error.diagnostic.message in states.note


def test_the_parts_of_a_mapping_beside_a_frame_are_found() -> None:
    frames = pytest.importorskip("pandas")
    registry = tools(both=lambda: {"frame": frames.DataFrame({"n": range(50)}), "size": 50})
    run = agf.run(
        "pipeline: looks\nsteps:\n- tool: {name: both, output: both}\n- transform: {value: both.size + 1, output: n}",
        registry=registry,
    )
    assert run.states[-1]["state"]["n"] == 51
