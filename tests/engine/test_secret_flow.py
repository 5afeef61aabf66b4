"""Values that lead to a secret argument are never written to the disk, on whatever way, and no other value is left
out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.engine.linking.link import link
from agf_magics.journal.secrets.masking import MOST_SECRETS
from agf_magics.lifecycle.definitions.secret_sources import find_secret_sources
from agf_magics.lifecycle.runs.run import state_of
from tests.counting import work
from tests.engine import kept

SECRET = "hunter2-of-the-orchard"
COLLECT = "collect: {transform: {value: pipe}}"
WAYS: dict[str, tuple[str, Any]] = {
    "as it is": ("tool: {name: fetch, args: {token: !expr ctx.key}}", SECRET),
    "a field": ("tool: {name: fetch, args: {token: !expr ctx.key.of.it}}", {"of": {"it": SECRET}}),
    "an element": (f"for_each: {{over: ctx.key, on_error: abort, do: {{pipeline}}, {COLLECT}}}", [{"k": SECRET}]),
    "a fold": ('fold: {over: ctx.key, init: "\'\'", do: {pipeline}, output: z}', [{"k": SECRET}]),
    "another name": ("call: {pipeline: inner, pass: {other: ctx.key}}", SECRET),
    "a fold's beginning": (
        "fold: {over: '[1]', init: ctx.key, do: {tool: {name: fetch, args: {token: !expr acc}}}, output: z}", SECRET),
    "the pipe": ("transform: {value: ctx.key}\n- tool: {name: fetch, args: {token: !expr pipe}}", SECRET),
    "the pipe of a call": ("transform: {value: ctx.key}\n- call: {pipeline: piped}", SECRET),
    "what a call gives": (
        "call: {pipeline: gives, pass: {other: ctx.key}, output: z}\n"
        "- tool: {name: fetch, args: {token: !expr z}}", SECRET),
    "what a branch gives": (
        "parallel: {branches: {a: {transform: {value: ctx.key}}}, "
        "collect: {tool: {name: fetch, args: {token: !expr pipe.a}}}}", SECRET),
    "two calls": ("call: {pipeline: outer, pass: {third: ctx.key}}", SECRET),
    "a choice": ("match: {on: \"'a'\", cases: {a: {pipeline: inner, pass: {other: ctx.key}}}}", SECRET),
    "an expression": (
        'transform: {value: "{a: ctx.key}", output: made}\n- tool: {name: fetch, args: {token: !expr made.a}}', SECRET),
}  # fmt: skip


@pytest.mark.parametrize("way", WAYS)
def test_values_that_lead_to_a_secret_argument_are_not_stored(way: str, tmp_path: Path) -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry, secret=["token"])
    def fetch(token: str) -> str:
        return "fetched"

    agf.define(
        "pipeline: inner\nsteps:\n- tool: {name: fetch, args: {token: !expr ctx.other}, output: other_}",
        registry=registry,
    )
    agf.define("pipeline: outer\nsteps:\n- call: {pipeline: inner, pass: {other: ctx.third}}", registry=registry)
    agf.define("pipeline: gives\nsteps:\n- transform: {value: ctx.other}", registry=registry)
    agf.define("pipeline: piped\nsteps:\n- tool: {name: fetch, args: {token: !expr pipe}}", registry=registry)
    body, key = WAYS[way]
    body = body.replace("{pipeline}", "{tool: {name: fetch, args: {token: !expr item.k}}}")
    text = f"pipeline: main\nsteps:\n- transform: {{value: ctx.doc, output: doc_}}\n- {body}"
    with kept.journal_in(tmp_path) as path:
        events = list[str]()
        given = {"key": key, "doc": "pears and figs"}
        run = agf.run(text, given, registry=registry, on_event=lambda event: events.append(repr(event)))
        assert [event for event in events if SECRET in event] == []
        assert json.loads(state_of(run).journal.manifest)["secret"] == ["key"]
        past = agf.runs(run.run_id)
        assert past.stores["doc_"] == "pears and figs"
        past.export(tmp_path / "run.json")
        disk = kept.on_disk(path)
    assert b"pears and figs" in disk
    assert SECRET.encode() not in disk


NODES = {
    "an expression": (
        'a: {type: passthrough, output: {made: "{state.key}"}}\n'
        '  b: {type: tool_call, tool: fetch, args: {token: "{state.made}"}, state_key: done}', SECRET),
    "an element": (
        "a: {type: passthrough, output: {n: 1}}\n"
        '  b: {type: map, over: "{state.key}", as: word, collect: done, '
        'node: {type: tool_call, tool: fetch, args: {token: "{state.word}"}}}', [SECRET]),
    "a variable of a tool": (
        "a: {type: passthrough, output: {n: 1}}\n"
        '  b: {type: tool, tool: fetch, variables: {token: "{state.key}"}, state_key: done}', SECRET),
    "all arguments at once": (
        "a: {type: passthrough, output: {n: 1}}\n"
        '  b: {type: tool_call, tool: fetch, args: "{state.key}", state_key: done}', {"token": SECRET}),
}  # fmt: skip


@pytest.mark.parametrize("way", NODES)
def test_values_that_lead_to_a_secret_argument_of_a_node_are_not_stored(way: str, tmp_path: Path) -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry, secret=["token"])
    def fetch(token: str) -> str:
        return "fetched"

    nodes, key = NODES[way]
    text = f"nodes:\n  {nodes}\nedges:\n- {{from: START, to: a}}\n- {{from: a, to: b}}\n- {{from: b, to: END}}\n"
    agf.define(text, "graph", name="main", registry=registry)
    with kept.journal_in(tmp_path) as path:
        run = agf.run("main", {"key": key, "doc": "pears and figs"}, registry=registry)
        assert "key" in json.loads(state_of(run).journal.manifest)["secret"]
        disk = kept.on_disk(path)
    assert b"pears and figs" in disk
    assert SECRET.encode() not in disk


INPUT = {"key": SECRET, "doc": "pears and figs"}
WHOLE: dict[str, str] = {
    "all stores": "tool: {name: fetch, args: {token: !expr ctx}}",
    "a copy of all stores": "transform: {value: ctx, output: all}\n- tool: {name: fetch, args: {token: !expr all.key}}",
    "all stores, passed": "call: {pipeline: of_key, pass: {other: ctx}}",
    "all stores, by the pipe": "transform: {value: ctx}\n- call: {pipeline: piped}",
    "all stores, as an element": (
        f"for_each: {{over: '[ctx]', on_error: abort, do: {{tool: {{name: fetch, args: {{token: !expr item.key}}}}}}, "
        f"{COLLECT}}}"),
}  # fmt: skip


@pytest.mark.parametrize("way", WHOLE)
def test_of_a_whole_input_that_leads_to_a_secret_argument_no_field_is_stored(way: str, tmp_path: Path) -> None:
    registry = agf.Registry()
    agf.tool(lambda token: None, name="fetch", secret=["token"], registry=registry)
    for name, read in (("of_key", "ctx.other.key"), ("piped", "pipe.key")):
        steps = f"- tool: {{name: fetch, args: {{token: !expr {read}}}}}"
        agf.define(f"pipeline: {name}\nsteps:\n{steps}", registry=registry)
    with kept.journal_in(tmp_path) as path:
        run = agf.run(f"pipeline: main\nsteps:\n- {WHOLE[way]}", {**INPUT, "n": 3}, registry=registry)
        assert json.loads(state_of(run).journal.manifest)["secret"] == ["doc", "key", "n"]
        disk = kept.on_disk(path)
    assert SECRET.encode() not in disk


def test_a_whole_input_of_a_plan_that_leads_to_a_secret_argument_is_not_stored(tmp_path: Path) -> None:
    registry = agf.Registry()
    agf.tool(lambda token: None, name="fetch", secret=["token"], registry=registry)
    agf.define("- {_tool: fetch, token: †input, _outputPath: †data.x}", "plan", name="main", registry=registry)
    with kept.journal_in(tmp_path) as path:
        run = agf.run("main", INPUT, registry=registry)
        assert json.loads(state_of(run).journal.manifest)["secret"] == ["doc", "key"]
        disk = kept.on_disk(path)
    assert SECRET.encode() not in disk


NAMED: dict[str, tuple[str, str, list[str]]] = {
    "a key": ("{type: passthrough, output: {n: 1}}", "{type: python, tool: login}", ["token"]),
    "one of several": ("{type: passthrough, output: {n: 1}}", "{type: python, tool: two}", ["token"]),
    "beside a variable": (
        "{type: passthrough, output: {n: 1}}",
        '{type: python, tool: two, variables: {doc: "{state.doc}"}}', ["token"]),
    "a variable": (
        "{type: passthrough, output: {n: 1}}",
        '{type: python, tool: two, variables: {token: "{state.key}"}}', ["key"]),
    "any name": ("{type: passthrough, output: {n: 1}}", "{type: python, tool: any}", ["token"]),
    "the state": ("{type: passthrough, output: {n: 1}}", "{type: python, tool: state}", ["doc", "key", "token"]),
    "the state, as its only argument": (
        "{type: passthrough, output: {n: 1}}", "{type: python, tool: alone}", ["doc", "key", "token"]),
    "a written key": (
        '{type: passthrough, output: {alone: "{state.key}"}}', "{type: python, tool: alone}", ["key"]),
    "a returned key": ("{type: python, tool: mint}", "{type: python, tool: two}", ["token"]),
    "an element": (
        "{type: passthrough, output: {n: 1}}",
        '{type: map, over: "{state.key}", as: alone, collect: done, node: {type: python, tool: alone}}', ["key"]),
    "another graph": (
        "{type: passthrough, output: {n: 1}}", "{type: subgraph, graph: of_token, mode: direct}", ["token"]),
    "another graph, from another key": (
        '{type: passthrough, output: {alone: "{state.key}"}}',
        "{type: subgraph, graph: of_alone, mode: direct}", ["key"]),
    "a mapping": (
        "{type: passthrough, output: {n: 1}}",
        "{type: subgraph, graph: of_token, input_mapping: {key: token}, output_mapping: {n: b}}", ["key", "token"]),
}  # fmt: skip


@pytest.mark.parametrize("way", NAMED)
def test_what_fills_a_secret_argument_by_its_name_is_not_stored(way: str, tmp_path: Path) -> None:
    registry = agf.Registry()
    for name, function, secret in (
        ("login", lambda token: None, "token"),
        ("two", lambda token, doc: None, "token"),
        ("any", lambda doc, **rest: None, "token"),
        ("state", lambda state: None, "state"),
        ("alone", lambda alone: None, "alone"),
    ):
        agf.tool(function, name=name, secret=[secret], registry=registry)
    agf.tool(lambda: {"token": SECRET, "n": "seven"}, name="mint", registry=registry)
    edges = "edges:\n- {from: START, to: a}\n- {from: a, to: b}\n- {from: b, to: END}\n"
    for name, tool in (("of_token", "login"), ("of_alone", "alone")):
        text = f"nodes:\n  a: {{type: passthrough, output: {{n: 1}}}}\n  b: {{type: python, tool: {tool}}}\n{edges}"
        agf.define(text, "graph", name=name, registry=registry)
    first, second, fields = NAMED[way]
    agf.define(f"nodes:\n  a: {first}\n  b: {second}\n{edges}", "graph", name="main", registry=registry)
    values = {name: [SECRET] if "map" in second else SECRET for name in fields if name != "doc"}
    with kept.journal_in(tmp_path) as path:
        run = agf.run("main", {"key": "plums", "token": "grapes", "doc": "pears and figs"} | values, registry=registry)
        assert json.loads(state_of(run).journal.manifest)["secret"] == fields
        disk = kept.on_disk(path)
    assert ("doc" in fields) or b"pears and figs" in disk
    assert SECRET.encode() not in disk


GIVEN: dict[str, tuple[str, set[tuple[int, str]]]] = {
    "the next step reads it": (
        "- tool: {name: other}\n- tool: {name: mint}\n- tool: {name: fetch, args: {token: !expr pipe}}\n"
        "- tool: {name: other}", {(0, "steps[1]")}),
    "one branch": (
        "- parallel: {branches: {a: {tool: {name: mint}}, b: {tool: {name: other}}}, "
        "collect: {tool: {name: fetch, args: {token: !expr pipe.a}}}}", {(0, "steps[0].branches.a")}),
    "a called flow": (
        "- call: {pipeline: makes, output: made}\n- tool: {name: fetch, args: {token: !expr ctx.made}}",
        {(0, "steps[0]"), (1, "steps[1]")}),
}  # fmt: skip


@pytest.mark.parametrize("way", GIVEN)
def test_only_the_step_that_gives_a_secret_argument_is_not_stored(way: str) -> None:
    registry = agf.Registry()
    agf.tool(lambda token: None, name="fetch", secret=["token"], registry=registry)
    for name in ("mint", "other"):
        agf.tool(lambda: SECRET, name=name, registry=registry)
    agf.define("pipeline: makes\nsteps:\n- tool: {name: other}\n- tool: {name: mint}", registry=registry)
    text, steps = GIVEN[way]
    linked, _ = link(agf.load(f"pipeline: main\nsteps:\n{text}\n", registry=registry), registry)
    flows = linked.reachable
    assert find_secret_sources(linked).steps == {(id(flows[number].flow), step) for number, step in steps}


SHOWN = {
    "its call did not come": "- transform: {value: ctx.key / 0}\n- tool: {name: fetch, args: {token: !expr ctx.key}}\n",
    "its call came in an earlier session": (
        "- tool: {name: fetch, args: {token: !expr ctx.key}}\n- tool: {name: second}\n"),
    "by the pipe": "- tool: {name: fetch, args: {token: !expr pipe}}\n- tool: {name: second}\n",
}  # fmt: skip


@pytest.mark.parametrize("when", SHOWN)
def test_what_a_step_gives_to_a_secret_argument_is_not_shown_at_the_end_of_its_run(when: str, tmp_path: Path) -> None:
    registry = agf.Registry()
    agf.tool(lambda: SECRET, name="mint", registry=registry)
    agf.tool(lambda token: None, name="fetch", secret=["token"], registry=registry)
    agf.tool(lambda: 1 / 0, name="second", registry=registry)
    with kept.journal_in(tmp_path) as path:
        text = f"pipeline: main\nsteps:\n- tool: {{name: mint, output: key}}\n{SHOWN[when]}"
        run = agf.run(text, registry=registry, raises=False)
        again = agf.resume(run.run_id, registry=registry, raises=False)
        assert (run.status, again.status, again.stores["key"]) == ("error", "error", SECRET)
        disk = kept.on_disk(path)
    assert SECRET.encode() not in disk


def test_the_end_of_a_run_whose_steps_gave_many_secrets_shows_no_values(tmp_path: Path) -> None:
    registry = agf.Registry()
    agf.tool(lambda: [f"{SECRET}-{i}" for i in range(MOST_SECRETS + 1)], name="mint", registry=registry)
    agf.tool(lambda token: None, name="fetch", secret=["token"], registry=registry)
    with kept.journal_in(tmp_path) as path:
        text = f"pipeline: main\nsteps:\n- tool: {{name: mint, output: key}}\n{SHOWN['its call did not come']}"
        run = agf.run(text, registry=registry, raises=False)
        past = agf.runs(run.run_id)
        assert (past.status, past.steps["steps[0]"].state, len(past.stores)) == ("error", "ok", 1)
        disk = kept.on_disk(path)
    assert SECRET.encode() not in disk


@pytest.mark.parametrize("secret", [12345678, -12345678, "000000", 'with "quotes" and \\ backslashes', "tokens"])
def test_a_run_can_be_read_whatever_its_secrets_are(secret: Any, tmp_path: Path) -> None:
    registry = agf.Registry()
    agf.tool(lambda: secret, name="mint", registry=registry)
    agf.tool(lambda token: None, name="fetch", secret=["token"], registry=registry)
    agf.tool(lambda x: 1000000.5, name="uses", registry=registry)
    steps = (
        "- tool: {name: mint, output: key}\n- tool: {name: fetch, args: {token: !expr ctx.key}}\n"
        '- tool: {name: uses, args: {x: !expr "{a: ctx.key}"}, output: number}\n'
    )
    with kept.journal_in(tmp_path):
        run = agf.run(f"pipeline: main\nsteps:\n{steps}", registry=registry)
        past = agf.runs(run.run_id)
        assert past.stores == {"key": "•••", "number": 1000000.5}
        assert past.steps["steps[0]"].value == "•••"
        assert [row.value for row in past.steps.values()][2] == 1000000.5
        assert "tool mint" in past._repr_mimebundle_()["text/plain"]


def test_a_long_way_to_a_secret_argument_is_followed_in_steps_of_its_length() -> None:
    registry = agf.Registry()
    agf.tool(lambda token: None, name="fetch", secret=["token"], registry=registry)

    def cost(length: int) -> int:
        ways = "".join(f"- transform: {{value: ctx.s{i}, output: s{i + 1}}}\n" for i in range(length))
        ways += "- transform: {value: pipe}\n" * length
        text = f"pipeline: long\nsteps:\n{ways}- tool: {{name: fetch, args: {{token: !expr pipe}}}}\n"
        linked, _ = link(agf.load(text, registry=registry), registry)
        return work(lambda: find_secret_sources(linked))

    assert cost(400) < 12 * cost(40)
