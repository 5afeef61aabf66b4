"""Whole plans: their calls, the order of the calls, and the context afterwards. The rows are the rules of the
language."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.flow.progress.events import StepFailed, StepFinished, StepSkipped, StepStarted
from agf_magics.languages.plan import Log, resolve
from tests.engine.virtual_time import run_virtual

VECTORS = Path(__file__).parents[1] / "vectors" / "plan_runs.json"
ROWS = json.loads(VECTORS.read_text("utf-8"))["rows"]


class Case:
    """A row with its tools, its run, and the events of the run."""

    def __init__(self, row: Mapping[str, Any]) -> None:
        self.row = row
        self.registry = agf.Registry()
        self.started = 0
        self.given: dict[str, Any] = {}
        self.told: list[Any] = []
        for name, source in row.get("tools", {}).items():
            agf.tool(self.tool(eval(source)), name=name, registry=self.registry)
        if row.get("context"):
            self.registry.contexts.named("p").log = Log(row["context"])
        document = {"name": "p", "context": "p", "calls": row["plan"], "ordered": row.get("ordered", False)}
        self.text = json.dumps(document | row.get("document", {}), ensure_ascii=False)

    def tool(self, answer: Callable[[dict[str, Any]], Any]) -> Callable[..., Any]:
        async def call(_call: Any = None, **given: Any) -> Any:
            number = self.started = self.started + 1
            index = next(i for i, planned in enumerate(self.row["plan"]) if {**_call, **planned} == _call)
            self.given[str(index)] = given
            await asyncio.sleep(100 - number if self.row.get("completes") == "last" else number)
            return answer(given)

        return call

    async def main(self) -> agf.Run:
        flow = agf.define(self.text, "plan", registry=self.registry)
        run = await agf.arun(flow, registry=self.registry, on_event=self.told.append, raises=False)
        await asyncio.sleep(1000)  # lets background calls end
        return run

    @property
    def log(self) -> Log:
        return self.registry.contexts["p"].log

    def name(self, path: tuple[Any, ...]) -> str:
        """The name of a moment of a call, as ``0@②`` for call 0."""
        index = path[0].removeprefix("calls[").removesuffix("]")
        return index if len(path) == 1 else f"{index}@{self.log.instances[path[1]]}"

    def moments(self, *kinds: type) -> dict[str, int]:
        return {
            self.name(event.at): number  # type: ignore[attr-defined]
            for number, event in enumerate(self.told)
            if isinstance(event, kinds) and event.at[0].startswith("calls[")  # type: ignore[attr-defined]
        }

    def statuses(self) -> tuple[dict[str, str], dict[str, str]]:
        status, why = {}, {}
        for event in self.told:
            if not isinstance(event, StepFinished | StepFailed | StepSkipped) or not event.at[0].startswith("calls["):  # type: ignore[union-attr]
                continue
            name = self.name(event.at)
            if isinstance(event, StepSkipped):
                why[name] = event.why.partition(":")[0]
                status[name] = "blocked" if why[name] == "unresolved reference" else "skipped"
            else:
                fired = "_outputPath" not in self.row["plan"][int(name.partition("@")[0])]
                status[name] = "failed" if isinstance(event, StepFailed) else "fired" if fired else "done"
        return status, why


def undated(message: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in message.items() if key != "_date"}


@pytest.mark.parametrize("row", ROWS, ids=[f"{row['id']}: {row['title']}" for row in ROWS])
def test_plans(row: dict[str, Any]) -> None:
    case = Case(row)
    try:
        run = run_virtual(case.main())
        error = run.error
    except agf.DefinitionError as refused:
        run, error = None, refused  # type: ignore[assignment]
    if "error" in row:
        assert (error.code, error.diagnostic.span.text) == (row["error"], row["at"])
        assert case.started == 0
        return
    assert run is not None, error
    assert run.output == row.get("output")
    if "warned" in row:
        assert [[warning.code, warning.hint] for warning in run.warnings] == row["warned"]
    log, before = case.log, row["context"]
    assert list(log)[: len(before)] == before
    assert {ref: resolve(log, ref) for ref in row.get("final", {})} == row.get("final", {})
    for instance, expected in row.get("final_instance", {}).items():
        assert {ref: resolve(log, ref, instance) for ref in expected} == expected
    for instance, refs in {None: row.get("absent", []), **row.get("absent_instance", {})}.items():
        for ref in refs:
            with pytest.raises(agf.StepError) as caught:
                resolve(log, ref, instance)
            assert caught.value.code == "plan.not-found"
    appended = list(log)[len(before) :]
    if "appended" in row:
        assert [undated(message) for message in appended] == row["appended"]
    assert all(message["_date"].endswith("Z") for message in appended)
    errors = [message["data"]["error"]["code"] for message in appended if message.get("kind") == "error"]
    assert errors == row.get("errors", [])
    assert (run.status, run.error is None) == (("error", False) if errors else ("ok", True))
    if run.error is not None:
        place = case.name(run.error.path) if run.error.path else None
        failed = [name for name, ended in case.statuses()[0].items() if ended == "failed"]
        assert place == (failed[0] if len(errors) == len(failed) == 1 else None), "several failures have no one place"
    status, why = case.statuses()
    assert row.get("status", {}).items() <= status.items()
    assert row.get("why", {}).items() <= why.items()
    assert row.get("kwargs", {}).items() <= case.given.items()
    assert len([warning for warning in run.warnings if warning.code == "run.fired-failed"]) == row.get("warnings", 0)
    starts, ends = case.moments(StepStarted), case.moments(StepFinished, StepFailed)
    assert starts.keys() == ends.keys()
    assert all(ends[first] < starts[then] for first, then in row.get("order", []))
    assert all(starts[a] < ends[b] and starts[b] < ends[a] for a, b in row.get("concurrent", []))
