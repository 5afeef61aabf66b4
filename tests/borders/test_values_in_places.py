"""Odd values follow one rule in all places: dates and durations of numpy, NaT, NaN, infinity, half surrogate pairs, odd
keys.

The table has each value with its forms. Each test is a place.
"""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import agf_magics as agf
from agf_magics.journal.database.store import Store
from agf_magics.settings.settings import current
from notebooks.scripted_server import ScriptedServer

NO_TEXT = "no text"
NAN, NO_NUMBER = "not a number", "no number"


class Odd(NamedTuple):
    value: Any
    text: str
    """The text of the value in a prompt, from ``text()``, and for a model."""
    part: str
    """The text of the value inside a list."""
    nulls: bool = False
    """Whether a warning reports that null is written instead."""
    number: str = NO_NUMBER
    """The error of R1 and of a graph for arithmetic with the value; empty: the value is a number."""


VALUES = {
    "a time in ns": Odd(
        np.datetime64("2024-03-01T10:00", "ns"), "2024-03-01T10:00:00.000000000", '["2024-03-01T10:00:00.000000000"]'
    ),
    "a day": Odd(np.datetime64("2024-03-01"), "2024-03-01", '["2024-03-01"]'),
    "a month": Odd(np.datetime64("2024-03"), "2024-03", '["2024-03"]'),
    "a year that Python does not have": Odd(np.datetime64("12000-01-01"), "12000-01-01", '["12000-01-01"]'),
    "a duration in ns": Odd(np.timedelta64(90, "m").astype("timedelta64[ns]"), "PT1H30M", '["PT1H30M"]'),
    "a duration in minutes": Odd(np.timedelta64(90, "m"), "PT1H30M", '["PT1H30M"]'),
    "months": Odd(np.timedelta64(3, "M"), "P3M", '["P3M"]'),
    "NaT": Odd(np.datetime64("NaT"), "null", "[null]", True),
    "a duration that is NaT": Odd(np.timedelta64("NaT", "s"), "null", "[null]", True),
    "a time of Python": Odd(datetime.datetime(2024, 3, 1, 10), "2024-03-01T10:00:00", '["2024-03-01T10:00:00"]'),
    "NaN": Odd(math.nan, "null", "[null]", True, NAN),
    "infinity": Odd(math.inf, "null", "[null]", True, ""),
    "half of a character": Odd("a\udcff", "a\udcff", '["a\udcff"]'),
    "a set": Odd({1}, NO_TEXT, NO_TEXT),
    "number keys": Odd({1: "a"}, NO_TEXT, NO_TEXT),
}

FLOWS = {
    "pipeline": "{pipeline: p, steps: [{tool: {name: give, output: v}}, {tool: {name: look, args: {x: !expr v}}}]}",
    "plan": '{"calls": [{"_tool": "give", "_outputPath": "†state.v"}, '
    '{"_tool": "look", "x": "†state.v", "_outputPath": "†output.x"}]}',
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    current.settings = replace(current.settings, journal=str(tmp_path / "runs.sqlite"))
    yield tmp_path
    Store.close_all()


def world(value: Any, got: list[Any] | None = None) -> agf.Registry:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def give() -> Any:
        return value

    @agf.tool(registry=registry)
    def look(x: Any) -> str:
        if got is not None:
            got.append(x)
        return type(x).__name__

    return registry


def is_same(first: Any, second: Any) -> bool:
    alike = first == second or (first != first and second != second)
    return type(first) is type(second) and bool(alike)


@pytest.mark.parametrize("name", VALUES)
@pytest.mark.parametrize("language", ["pipeline", "plan"])
def test_a_step_gets_the_value_of_a_step(language: str, name: str) -> None:
    value, got = VALUES[name].value, list[Any]()
    registry = world(value, got)
    name = "flow" if language == "plan" else None
    flow = agf.define(FLOWS[language], language=language, name=name, registry=registry)
    run = agf.run(flow, registry=registry)
    assert is_same(got[0], value)
    past = agf.runs(run.run_id)
    assert is_same(past.load(past.calls[0]["step"]), value)


@pytest.mark.parametrize("name", VALUES)
def test_a_node_of_a_graph_gets_the_value_of_a_node(name: str) -> None:
    value, got = VALUES[name].value, list[Any]()
    registry = world(value, got)
    text = (
        "{name: g, state: {v: any, r: any}, nodes: {a: {type: tool_call, tool: give, args: {}, state_key: v}, "
        "b: {type: tool_call, tool: look, args: {x: '{state.v.result}'}, state_key: r}}, "
        "edges: [{from: START, to: a}, {from: a, to: b}, {from: b, to: END}]}"
    )
    agf.run(agf.define(text, language="graph", registry=registry), registry=registry)
    assert is_same(got[0], value)


@pytest.mark.parametrize("name", VALUES)
def test_a_step_of_a_policy_gets_the_value_of_a_step(name: str) -> None:
    value, got = VALUES[name].value, list[Any]()
    registry = agf.Registry()

    @agf.agent(registry=registry)
    def giver(input: dict[str, Any]) -> Any:
        return {"v": value}

    @agf.agent(registry=registry)
    def looker(v: Any) -> Any:
        got.append(v)
        return {"ok": True}

    text = (
        "{id: agf.sequential, config: {steps: [{agent: giver}, {agent: looker, input_mapping: {v: giver.output.v}}]}}"
    )
    agf.run(agf.define(text, language="policy", name="two", registry=registry), {}, registry=registry)
    assert is_same(got[0], value)


@pytest.mark.parametrize("name", VALUES)
def test_an_element_of_a_fan_out_is_the_element(name: str) -> None:
    value, got = VALUES[name].value, list[Any]()
    registry = world([value], got)
    text = (
        "{pipeline: p, steps: [{tool: {name: give, output: v}}, {for_each: {over: v, on_error: abort, "
        "do: {tool: {name: look, args: {x: !expr item}}}, collect: {transform: {value: pipe}}}}]}"
    )
    agf.run(text, registry=registry)
    assert is_same(got[0], value)


def test_elements_of_an_array_of_times_are_times() -> None:
    got: list[Any] = []
    registry = world(np.array(["2024-03-01", "NaT"], dtype="datetime64[ns]"), got)
    text = (
        "{pipeline: p, steps: [{tool: {name: give, output: v}}, {for_each: {over: v, on_error: abort, max_parallel: 1, "
        "do: {tool: {name: look, args: {x: !expr item}}}, collect: {transform: {value: pipe}}}}]}"
    )
    agf.run(text, registry=registry)
    assert [str(value) for value in got] == ["2024-03-01T00:00:00.000000000", "NaT"]
    assert {type(value) for value in got} == {np.datetime64}


@pytest.mark.parametrize("name", VALUES)
def test_a_text_has_one_form_of_the_value(name: str) -> None:
    odd = VALUES[name]
    for value, text in ((odd.value, odd.text), ([odd.value], odd.part)):
        flow = "{pipeline: p, steps: [{transform: {value: text(ctx.v)}}]}"
        if text == NO_TEXT:
            with pytest.raises(agf.StepError, match="has no text form"):
                agf.run(flow, {"v": value})
            continue
        run = agf.run(flow, {"v": value})
        assert run.output == text
        assert [warning.code for warning in run.warnings] == ["step.written-null"] * odd.nulls


@pytest.mark.parametrize("name", VALUES)
def test_a_graph_writes_null_and_iso_dates(name: str) -> None:
    odd = VALUES[name]
    text = (
        "{name: g, state: {v: any, r: any}, nodes: {a: {type: passthrough, output: {r: 'at {state.v}'}}}, "
        "edges: [{from: START, to: a}, {from: a, to: END}]}"
    )
    run = agf.run(agf.define(text, language="graph", registry=agf.Registry()), {"v": odd.value})
    if isinstance(odd.value, np.generic) or odd.nulls:
        assert run.stores["r"] == f"at {odd.text}"
    assert [w.code for w in run.warnings if w.code.startswith("step")] == ["step.written-null"] * odd.nulls


TEMPLATES = {
    "at {{ v }}": "at {text}",
    "at {{ v | tojson }}": "at {json}",
    "at {{ state.v }}": "at {text}",
    "at {{ [v, v] | join(' ') }}": "at {text} {text}",
    "at {% for one in vs %}{{ one }}{% endfor %}": "at {text}",
    "at {{ vs | tojson }}": "at {part}",
    "at {{ inner.v }} {{ inner | tojson }}": 'at {text} {{"v": {json}}}',
    "at {{ '%s' | format(v) }}": "at {text}",
    "at {{ vs[0] ~ '' }}": "at {text}",
}


@pytest.mark.parametrize("template", TEMPLATES)
@pytest.mark.parametrize("name", VALUES)
def test_a_template_writes_the_one_form(name: str, template: str) -> None:
    odd = VALUES[name]
    registry = agf.Registry()

    @agf.agent(default=True, registry=registry)
    def echo(prompt: str) -> str:
        return prompt

    node = {"type": "llm", "prompt": template, "state_key": "r"}
    graph = {
        "name": "g",
        "state": {"v": "any", "vs": "list", "inner": "dict", "r": "str"},
        "nodes": {"a": node},
        "edges": [{"from": "START", "to": "a"}, {"from": "a", "to": "END"}],
    }
    flow = agf.define(json.dumps(graph), language="graph", registry=registry)
    state = {"v": odd.value, "vs": [odd.value], "inner": {"v": odd.value}}
    if odd.text == NO_TEXT:
        with pytest.raises(agf.StepError) as error:
            agf.run(flow, state, registry=registry)
        assert error.value.code == "graph.template-value"
        return
    run = agf.run(flow, state, registry=registry)
    text = odd.text
    expected = TEMPLATES[template].format(text=text, json="null" if odd.nulls else f'"{text}"', part=odd.part)
    assert run.stores["r"] == expected
    assert {w.code for w in run.warnings} == {"step.written-null"} & ({"step.written-null"} if odd.nulls else set())


def test_numbers_of_a_template_are_computed_with_and_written_as_null() -> None:
    registry = agf.Registry()

    @agf.agent(default=True, registry=registry)
    def echo(prompt: str) -> str:
        return prompt

    template = "{{ v + 1 }} {{ v > 5 }} {{ {'a': [v]} | tojson }} {{ v == v }}"
    text = (
        f'{{"name": "g", "state": {{"v": "any"}}, "nodes": {{"a": {{"type": "llm", "prompt": {json.dumps(template)}, '
        '"state_key": "r"}}, "edges": [{"from": "START", "to": "a"}, {"from": "a", "to": "END"}]}'
    )
    flow = agf.define(text, language="graph", registry=registry)
    written = [agf.run(flow, {"v": value}, registry=registry).stores["r"] for value in (math.inf, math.nan, 6.5)]
    assert written == [
        'null True {"a": [null]} True',
        'null False {"a": [null]} False',
        '7.5 True {"a": [6.5]} True',
    ]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ScriptedServer]:
    call = {"id": "1", "type": "function", "function": {"name": "give", "arguments": "{}"}}
    with ScriptedServer(
        lambda body: (
            "done"
            if any(m["role"] == "tool" for m in body["messages"]) or not body.get("tools")
            else {"role": "assistant", "content": None, "tool_calls": [call]}
        )
    ) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "not-to-be-seen")
        yield server


PROMPTED = "{pipeline: p, steps: [{agent: {prompt: 'at {ctx.v}', identity: asker}}]}"


def sent_text(odd: Odd) -> str:
    return odd.text.replace("\udcff", "�")


@pytest.mark.parametrize("name", VALUES)
def test_a_model_gets_the_one_form_in_its_prompt_and_as_the_result_of_its_tool(
    name: str, server: ScriptedServer
) -> None:
    odd = VALUES[name]
    registry = world(odd.value)
    registry.choose("openai-chat:gpt-4o")
    if odd.text == NO_TEXT:
        with pytest.raises(agf.StepError, match="has no text form"):
            agf.run("{pipeline: p, steps: [{agent: {prompt: 'at {ctx.v}'}}]}", {"v": odd.value}, registry=registry)
        return
    run = agf.run("{pipeline: p, steps: [{agent: {prompt: 'at {ctx.v}'}}]}", {"v": odd.value}, registry=registry)
    assert run.output == "done"
    messages = server.requests[-1]["messages"]
    assert messages[0]["content"] == f"at {sent_text(odd)}"
    assert [m["content"] for m in messages if m["role"] == "tool"] == [sent_text(odd)]
    warned = [w.message.split(" has ")[0] for w in run.warnings if w.code == "step.written-null"]
    assert warned == (["'ctx.v'", "the result of 'give'"] if odd.nulls else [])


@pytest.mark.parametrize(
    "expression", ["ctx.v + 1", "1 - ctx.v", "ctx.v * 2", "-ctx.v", "ctx.v < 1", "1 >= ctx.v", "sum([1, ctx.v])"]
)
@pytest.mark.parametrize("name", [name for name in VALUES if not isinstance(VALUES[name].value, str)])
def test_arithmetic_and_order_take_numbers_and_nothing_else(name: str, expression: str) -> None:
    odd = VALUES[name]
    flow = f"{{pipeline: p, steps: [{{transform: {{value: '{expression}'}}}}]}}"
    if not odd.number:
        assert agf.run(flow, {"v": odd.value}).status == "ok"
        return
    with pytest.raises(agf.StepError) as error:
        agf.run(flow, {"v": odd.value})
    assert error.value.code == ("r1.not-a-number" if odd.number == NAN else "r1.type")


@pytest.mark.parametrize("expression", ["{state.v + 1}", "{state.v * 2}"])
@pytest.mark.parametrize("name", ["NaN", "infinity", "a day", "a duration in ns"])
def test_values_of_a_graph_take_numbers_and_nothing_else(name: str, expression: str) -> None:
    odd = VALUES[name]
    text = (
        f"{{name: g, state: {{v: any, r: any}}, nodes: {{a: {{type: passthrough, output: {{r: '{expression}'}}}}}}, "
        "edges: [{from: START, to: a}, {from: a, to: END}]}"
    )
    flow = agf.define(text, language="graph", registry=agf.Registry())
    if not odd.number:
        assert agf.run(flow, {"v": odd.value}).stores["r"] == math.inf
        return
    with pytest.raises(agf.StepError) as error:
        agf.run(flow, {"v": odd.value})
    assert error.value.code == "graph.value-failed"


CONDITION = """
name: g
state: {v: any, r: any}
nodes:
  start: {type: passthrough, output: {r: none}}
  low: {type: passthrough, output: {r: low}}
edges:
- {from: START, to: start}
- {from: start, to: low, condition: 'v < 5'}
- {from: start, to: END, condition: else}
- {from: low, to: END}
"""


def test_a_condition_of_a_graph_over_nan_is_an_error_and_over_infinity_none() -> None:
    flow = agf.define(CONDITION, language="graph", registry=agf.Registry())
    assert agf.run(flow, {"v": -math.inf}).stores["r"] == "low"
    assert agf.run(flow, {"v": math.inf}).stores["r"] == "none"
    with pytest.raises(agf.StepError, match="NaN"):
        agf.run(flow, {"v": math.nan})


RESUMED = "{pipeline: p, steps: [{tool: {name: give, output: v}}, {tool: {name: look, args: {x: !expr v}}}]}"


@pytest.mark.parametrize("name", VALUES)
def test_a_resumed_run_and_a_reused_result_have_the_value(name: str) -> None:
    value, got = VALUES[name].value, list[Any]()
    broken = world(value)

    def look(x: Any) -> str:
        raise LookupError("not yet")

    agf.tool(look, registry=broken)
    failed = agf.run(RESUMED, registry=broken, raises=False)
    assert failed.status == "error"
    run = agf.resume(failed.run_id, registry=world("another one", got))
    assert is_same(got[0], value)
    again: list[Any] = []
    assert agf.run(RESUMED, registry=world(value, again), reuse=run.run_id).status == "ok"
    assert not again or is_same(again[0], value)


def kind_of(x: Any) -> list[Any]:
    return [x]


@pytest.mark.parametrize("name", VALUES)
def test_a_worker_gets_the_value_and_returns_it(name: str) -> None:
    value, registry = VALUES[name].value, world([VALUES[name].value])
    agf.tool(kind_of, where="worker", registry=registry)
    text = (
        "{pipeline: p, steps: [{tool: {name: give, output: v}}, {for_each: {over: v, on_error: abort, "
        "do: {tool: {name: kind_of, args: {x: !expr item}}}, collect: {transform: {value: pipe}}}}]}"
    )
    with ProcessPoolExecutor(1) as pool:
        ((returned,),) = agf.run(text, registry=registry, on=pool).output
    assert is_same(returned, value)


@pytest.mark.parametrize("name", VALUES)
def test_two_runs_of_the_value_are_the_same_and_of_another_differ(name: str) -> None:
    value = VALUES[name].value
    flow = "{pipeline: p, steps: [{tool: {name: give}}]}"
    first_run, same_run, other_run = (
        agf.runs(agf.run(flow, registry=world(stored)).run_id) for stored in (value, value, {"other": [value]})
    )
    assert [row["same output"] for row in first_run.compare(same_run)] == [1]
    assert [row["same output"] for row in first_run.compare(other_run)] == [0]
    assert "The values are the same" in repr(first_run.compare(same_run))


ARGUMENTS = {
    "half of a character": ('{"x": "\\ud83d"}', '{"x":"�"}'),
    "NaN": ('{"x": NaN}', '{"INVALID_JSON":"{\\"x\\": NaN}"}'),
    "the text NaN": ('{"args": "NaN", "arguments": {"args": "NaN"}}', '{"args":"NaN","arguments":{"args":"NaN"}}'),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_of_a_model_go_back_as_json(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments, expected = ARGUMENTS[name]
    call = {"id": "1", "type": "function", "function": {"name": "look", "arguments": arguments}}
    with ScriptedServer([{"role": "assistant", "content": None, "tool_calls": [call]}, "done"]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "not-to-be-seen")
        registry = world(None)
        registry.choose("openai-chat:gpt-4o")
        run = agf.run("{pipeline: p, steps: [{agent: {prompt: Look}}]}", registry=registry)
        assert run.output == "done"
        (sent,) = [message for message in server.requests[-1]["messages"] if message.get("tool_calls")]
    assert sent["tool_calls"][0]["function"]["arguments"] == expected
