"""The gate (decision P11): the check of a definition that an agent launches as text.

The rows are the rule. ``alice`` launches each row. ``bob`` is registered, too, and so are the tools and flows that a
row names.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.engine.run_options import RunOptions
from agf_magics.lifecycle.agent_tools import launch_tools
from agf_magics.lifecycle.launch.launch import prepare_run
from agf_magics.lifecycle.runs.live import live
from agf_magics.limits.grants import Grant, granted

VECTORS = Path(__file__).parents[1] / "vectors" / "pipeline_gate.json"
ROWS = json.loads(VECTORS.read_text("utf-8"))["rows"]


class RowRegistry:
    """The registry of a row, and the calls of its tools."""

    def __init__(self, row: dict[str, Any]) -> None:
        self.registry = agf.Registry()
        self.called: list[str] = []
        for name in row.get("tools", ["echo"]):
            agf.tool(self._counted(name), name=name, registry=self.registry)
        for name in ("alice", "bob"):
            agf.agent(self._counted(name), name=name, registry=self.registry)
        for text in row.get("library", []):
            agf.define(text, registry=self.registry)

    def _counted(self, name: str) -> Any:
        def call(**given: Any) -> dict[str, bool]:
            self.called.append(name)
            return {"ok": True}

        return call

    def refused(self, text: str) -> tuple[agf.Diagnostic, ...]:
        """The errors of the check."""
        token = granted.set(Grant("alice"))
        try:
            prepare_run(agf.load(text, registry=self.registry), None, RunOptions(registry=self.registry, inline=True))
        except agf.DefinitionError as error:
            return error.diagnostics
        finally:
            granted.reset(token)
        return ()


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_the_gate_finds_the_errors_of_the_row_and_nothing_runs_then(row: dict[str, Any]) -> None:
    row_registry = RowRegistry(row)
    before = set(live)
    errors = [{"code": d.code, "at": d.span.text if d.span else None} for d in row_registry.refused(row["text"])]
    assert errors == row["errors"]
    answer = launch_tools(identity="alice", registry=row_registry.registry)["run_pipeline_inline"](row["text"])
    assert (answer["status"] == "ok") == (not row["errors"]), answer
    if row["errors"]:
        assert set(live) == before
        assert row_registry.called == []
        assert all(f"[{error['code']}]" in answer["data"]["error"] for error in row["errors"])
