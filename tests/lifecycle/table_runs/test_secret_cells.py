"""Secrets of a run over a table: a value for all rows or a column is nowhere in clear, and the rest is stored."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.lifecycle.past.past_run import find_past_run

FIRST, SECOND = "sk-very-secret-123456", "sk-other-secret-777777"

FLOWS = {
    "pipeline": """
        pipeline: sent
        steps:
        - tool: {name: send, args: {text: !expr ctx.text, key: !expr ctx.key}}
        """,
    "of a called flow": """
        pipeline: sent
        steps:
        - call: {pipeline: inner, pass: {words: ctx.text, secret: ctx.key}}
        """,
    "graph": """
        nodes:
          a: {type: tool_call, tool: send, args: {text: "{state.text}", key: "{state.key}"}, state_key: done}
        edges: [{from: START, to: a}, {from: a, to: END}]
        """,
}

INNER = "pipeline: inner\nsteps: [{tool: {name: send, args: {text: !expr ctx.words, key: !expr ctx.secret}}}]"

TEXTS = ("a first review", "a second one")


def _rows(*keys: str, name: str = "key") -> list[dict[str, str]]:
    return [{"text": text, **({name: key} if key else {})} for text, key in zip(TEXTS, keys, strict=True)]


GIVEN: dict[str, tuple[dict[str, str], list[dict[str, str]], dict[str, str]]] = {
    "for all rows": ({"key": FIRST}, _rows("", ""), {}),
    "in a column": ({}, _rows(FIRST, SECOND), {}),
    "in a column of another name": ({}, _rows(FIRST, SECOND, name="k"), {"key": "k"}),
    "as the default of a column": ({"key": SECOND}, _rows(FIRST, ""), {}),
}


@pytest.fixture
def sending(registry: agf.Registry) -> agf.Registry:
    @agf.tool(secret=["key"], registry=registry)
    def send(text: str, key: str) -> int:
        if text == TEXTS[1] and not Path("open").exists():
            raise ValueError(f"not with {key}")
        return len(text)

    agf.define(INNER, registry=registry)
    return registry


def _written(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != "given.csv")


def _as_file(rows: list[dict[str, str]]) -> str:
    names = list(rows[0])
    lines = [names, *([row.get(name, "") for name in names] for row in rows)]
    Path("given.csv").write_text("\n".join(map(",".join, lines)))
    return "given.csv"


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("flow", FLOWS)
def test_a_secret_is_nowhere_in_clear_and_the_rest_of_a_row_is(
    folder: Path, sending: agf.Registry, flow: str, given: str
) -> None:
    common, rows, renamed = GIVEN[given]
    language = flow if flow == "graph" else "pipeline"
    defined = agf.define(textwrap.dedent(FLOWS[flow]), language, name="sent", registry=sending)
    run = agf.run(defined, common, over=agf.Over(table=rows, map=renamed), registry=sending)
    past = find_past_run(run.run_id)
    past.export("run.json")
    agf.record(run, "run.jsonl")
    for saved in ("saved.csv", "saved.jsonl", "saved.parquet") if flow != "graph" else ():
        note = f"{saved}; secrets are ••• in the file" if given != "for all rows" else saved
        assert run.table.save_noted(saved) == note
    everything = _written(folder)
    assert [secret for secret in (FIRST, SECOND) if secret.encode() in everything] == []
    shown = list(past.table.shown_at([0, 1]))
    assert [row["text"] for row in shown] == [*TEXTS]
    # A node of a graph goes on with the error as its result.
    assert [row["status"] for row in shown] == (["ok", "ok"] if flow == "graph" else ["ok", "failed"])
    assert "•••" in repr(shown[1])
    if given == "for all rows":
        assert past.input == {"rows": rows}
    if given == "for all rows" and flow != "graph":
        assert past.table.to_pandas()["text"].tolist() == [*TEXTS]


@pytest.mark.parametrize("given", ["for all rows", "in a column", "in a column of another name"])
def test_so_does_a_table_in_a_file(folder: Path, sending: agf.Registry, given: str) -> None:
    common, rows, renamed = GIVEN[given]
    agf.define(textwrap.dedent(FLOWS["pipeline"]), registry=sending)
    run = agf.run("sent", common, over=agf.Over(table=_as_file(rows), map=renamed), registry=sending)
    everything = _written(folder)
    assert [secret for secret in (FIRST, SECOND) if secret.encode() in everything] == []
    assert [row["text"] for row in find_past_run(run.run_id).table.shown_at([0, 1])] == [*TEXTS]


@pytest.mark.parametrize(
    ("given", "missing"),
    [("for all rows", "key, which is secret"), ("in a column", "rows, which is secret")],
)
def test_a_resumed_run_asks_for_what_is_secret_only(
    sending: agf.Registry, given: str, missing: str, folder: Path
) -> None:
    handle: list[agf.Run] = []

    @agf.tool(registry=sending)
    def stop(text: str) -> str:
        if text == TEXTS[1] and not Path("open").exists():
            handle[0].cancel()
        return text

    text = "pipeline: stopped\nsteps:\n- tool: {name: stop, args: {text: !expr ctx.text}, output: t}"
    agf.define(text + textwrap.dedent(FLOWS["pipeline"]).partition("steps:")[2], registry=sending)
    common, rows, _ = GIVEN[given]
    handle.append(agf.start("stopped", common, over=agf.Over(table=rows, width=1), registry=sending))
    handle[0].wait()
    assert handle[0].status == "cancelled"
    with pytest.raises(agf.DefinitionError, match=missing):
        agf.resume(handle[0].run_id, registry=sending)
    Path("open").touch()
    again: dict[str, Any] = common or {"rows": rows}
    assert agf.resume(handle[0].run_id, input=again, registry=sending).table.counts == {"ok": 2}


def test_an_input_with_the_name_of_the_table_is_no_table(sending: agf.Registry) -> None:
    agf.define("pipeline: named\nsteps: [{transform: {value: '[ctx.rows, ctx.same, ctx.n]'}}]", registry=sending)
    run = agf.run("named", {"rows": "all", "same": "as before"}, over=[{"n": 1}, {"n": 2}], registry=sending)
    assert [row["output"] for row in run.table] == [["all", "as before", 1], ["all", "as before", 2]]
    assert run.input == {"table.rows": [{"n": 1}, {"n": 2}], "rows": "all", "same": "as before"}
