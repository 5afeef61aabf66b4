"""Every vector of every language is cut after lines of its journal and resumed: the run has the same end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.engine import runner as perform
from agf_magics.engine.host import host
from tests.engine import kept
from tests.engine.pipeline_case import Tools, limits_of
from tests.engine.pipeline_case import registry_of as pipeline_registry
from tests.engine.policy_case import Agents
from tests.engine.virtual_time import run_virtual
from tests.languages.graph_case import registry_of as graph_registry
from tests.languages.loading import write_files
from tests.languages.test_plan_runs import Case, undated

VECTORS = Path(__file__).parents[1] / "vectors"
CUTS = 2
"""The largest number of places at which a journal is cut. `make laws` cuts after each line."""

OUTSIDE = ("state[", "state.", "meet(", "global ", "__defaults__", "next(", "pop(", "append(", "setdefault(")
"""Words of tools that keep a state outside of the run. In a new world this state is lost."""


def rows(language: str) -> Iterator[Any]:
    for row in json.loads((VECTORS / f"{language}_runs.json").read_text("utf-8"))["rows"]:
        sources = json.dumps([row.get("tools"), row.get("agents"), row.get("agent")])
        if "model" not in row and not any(word in sources for word in OUTSIDE) and not row.get("self_register"):
            yield pytest.param(language, row, id=f"{language}: {row['id']}")


class World:
    """Everything that a run of a row needs. It is made anew for every session, as in a new kernel."""

    def __init__(self, language: str, row: dict[str, Any]) -> None:
        self.language, self.row = language, row
        self.case = Case(row) if language == "plan" else None
        self.ask = None
        match language:
            case "pipeline":
                self.registry = pipeline_registry(row, Tools())
            case "policy":
                self.registry = Agents(row).registry()
            case "graph":
                self.registry = graph_registry(row)
                answers = iter(row.get("answers", ()))
                self.ask = (lambda question: next(answers)) if "answers" in row else None
            case _:
                self.registry = self.case.registry

    def run(self) -> agf.Run:
        text = self.case.text if self.case else self.row["text"]
        flow = agf.load(text, self.language, registry=self.registry)
        limits = limits_of(self.row) if self.language == "pipeline" else None
        fields = None if self.language == "plan" else self.row["input"]
        return self._virtual(agf.arun(flow, fields, registry=self.registry, limits=limits, raises=False, ask=self.ask))

    def take_up(self) -> agf.Run:
        """Resume the only run of the journal. The user who had answered is not asked again."""
        if self.case:
            self.case.registry.contexts.remove("p") if "p" in self.case.registry.contexts else None
        return self._virtual(kept.take_up(registry=self.registry, ask=self.ask))

    def _virtual(self, work: Any) -> agf.Run:
        async def main() -> agf.Run:
            run: agf.Run = await work
            await asyncio.sleep(1000)  # lets background calls end
            return run

        return run_virtual(main())

    def told(self, run: agf.Run) -> Any:
        error = (run.error.code, run.error.diagnostic.message, run.error.where) if run.error else None
        log = [undated(message) for message in self.case.log or ()] if self.case else None
        return run.status, repr(run.output), repr(dict(run.stores)) if not self.case else None, error, log


@pytest.mark.law
@pytest.mark.parametrize(("language", "row"), [*rows("pipeline"), *rows("policy"), *rows("plan"), *rows("graph")])
def test_a_vector_that_is_cut_anywhere_has_the_same_end(
    language: str, row: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, thorough: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    for module in (perform, host):  # turns by the clock would change the order
        monkeypatch.setattr(module, "TURN", float("inf"))
    write_files(row)
    with kept.journal_in(tmp_path / "whole") as whole:
        first = World(language, row)
        try:
            expected = first.told(first.run())
        except agf.DefinitionError:
            return  # nothing was started
        assert whole.exists()
        count = len(kept.lines(whole))
        parts = count if thorough else CUTS
        places = sorted({round(count * part / parts) for part in range(parts + 1)})
        cuts = [(after, kept.cut(whole, after, tmp_path / f"cut{after}")) for after in places]
    for after, path in cuts:
        with kept.journal_in(path.parent):
            world = World(language, row)
            lines_of_ends = sum(kind in ("finished", "failed", "answered", "fired") for kind, *_ in kept.lines(path))
            run = world.take_up()
            assert world.told(run) == expected, f"after {after} of {count} lines"
            assert sum(step.earlier for step in run.steps.values()) <= lines_of_ends


def test_the_vectors_are_there() -> None:
    assert all(len(list(rows(language))) > 10 for language in ("pipeline", "policy", "plan", "graph"))
