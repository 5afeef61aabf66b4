"""A missing package of an extra is reported before any part of it is used, whatever was imported before."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from types import ModuleType

import pytest

import agf_magics as agf
from agf_magics.__main__ import main
from agf_magics.compat.installed import missing

PROMPT = """\
name: example
state: {word: str, text: any}
nodes:
  a: {type: llm, prompt: "Describe {{ word }}", state_key: text}
edges: [{from: START, to: a}, {from: a, to: END}]
"""
QUERY = 'pipeline: example\nsteps:\n- tool: {name: sql, args: {query: "select 1 as n"}}'
FAN_OUT = """\
pipeline: example
steps:
- for_each:
    items: [1]
    on_error: abort
    do: {transform: {value: item}}
    collect: {transform: {value: pipe}}
"""

ASKS: dict[str, tuple[str, str, Callable[[], object]]] = {
    "lsp": ("agf_magics.editor.server", "pygls", lambda: main(["lsp"])),
    "graphs": ("jinja2.sandbox", "jinja2", lambda: agf.run(PROMPT, {"word": "pear"})),
    "sql": ("duckdb", "duckdb", lambda: agf.run(QUERY)),
    "sql, frames": ("pyarrow.compute", "pyarrow", lambda: agf.run(QUERY)),
    "otel": ("opentelemetry.sdk.trace.export", "opentelemetry.sdk.trace", agf.trace_to),
    "dask": ("distributed.client", "distributed", lambda: agf.run(FAN_OUT, on="dask")),
    "processes": ("cloudpickle", "cloudpickle", lambda: agf.run(FAN_OUT, on="processes")),
}
"""For each extra: the module that was imported before, the module that is removed, and the call that needs it."""


@pytest.mark.parametrize("extra", ASKS)
def test_a_missing_package_is_reported_though_parts_of_it_were_imported(
    extra: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before, taken, ask = ASKS[extra]
    importlib.import_module(before)
    monkeypatch.setitem(sys.modules, taken, None)
    try:
        ask()
        text = capsys.readouterr().err
    except agf.AgfError as error:
        text = str(error)
    assert f"agf-magics[{extra.partition(',')[0]}]" in text


def test_the_missing_packages_are_named_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "json", None)
    assert missing(["no_such_b", "sys", "json", "no_such_a"]) == ["no_such_b", "json", "no_such_a"]


def test_a_part_of_a_missing_package_is_missing() -> None:
    assert missing(["no_such_package.part"]) == ["no_such_package.part"]


def test_a_module_without_a_spec_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "written_by_hand", ModuleType("written_by_hand"))
    assert missing(["written_by_hand"]) == []
