"""Mistakes of a user who resumes a run: another input, a wrong id, or no id."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.engine.host.host import Host
from agf_magics.lifecycle.past.past_run import find_past_run
from tests.engine import kept
from tests.engine.jobs import start

SALE = "pipeline: sale\nsteps:\n- tool: {name: sell, args: {pears: !expr ctx.pears}, output: sold}\n"


@pytest.fixture
def registry(tmp_path: Path) -> Iterator[agf.Registry]:
    registry = agf.Registry()
    closed = [True]

    @agf.tool(registry=registry)
    def sell(pears: Any) -> Any:
        if closed:  # at the first call only
            closed.clear()
            raise LookupError("closed")
        return pears

    agf.define(SALE, registry=registry)
    with kept.journal_in(tmp_path):
        yield registry


@pytest.mark.parametrize("other", [{"pears": 5}, {"plums": 1}, {"pears": 3, "plums": 1}])
def test_another_input_is_refused_and_the_run_can_still_be_resumed(
    registry: agf.Registry, other: dict[str, Any]
) -> None:
    failed = agf.run("sale", {"pears": 3}, registry=registry, raises=False)
    with pytest.raises(agf.DefinitionError) as caught:
        agf.resume(failed.run_id, registry=registry, input=other)
    assert caught.value.code == "journal.other-input"
    assert agf.resume(failed.run_id, registry=registry, input={"pears": 3}).output == 3


def test_an_input_that_is_no_mapping_is_refused(registry: agf.Registry) -> None:
    failed = agf.run("sale", {"pears": 3}, registry=registry, raises=False)
    with pytest.raises(agf.DefinitionError) as caught:
        agf.resume(failed.run_id, registry=registry, input=[3])  # type: ignore[arg-type]
    assert caught.value.code == "run.input"


@pytest.mark.parametrize("named", [5, b"sale", agf.registry])
def test_a_wrong_id_names_no_run(registry: agf.Registry, named: Any) -> None:
    for ask in (agf.resume, agf.runs):
        with pytest.raises(agf.DefinitionError) as caught:
            ask(named)
        assert caught.value.code == "journal.unknown-run"


def test_an_ambiguous_beginning_of_an_id_is_reported_with_the_ids(registry: agf.Registry) -> None:
    ids = [agf.run("sale", {"pears": 3}, registry=registry, raises=False).run_id for _ in range(2)]
    with pytest.raises(agf.DefinitionError, match="2 runs have ids that begin with 'sale-'") as caught:
        find_past_run("sale-")
    assert all(id in (caught.value.diagnostic.hint or "") for id in ids)


def test_a_run_that_has_just_begun_is_running(registry: agf.Registry) -> None:
    blocked, free = threading.Event(), threading.Event()

    async def blocker(host: Host) -> None:
        blocked.set()
        assert free.wait(60)

    job = start(blocker)  # blocks the loop, so that nothing of the run is written
    assert blocked.wait(60)
    going = agf.start("sale", {"pears": 3}, registry=registry)
    for named in (going.run_id, "sale"):
        with pytest.raises(agf.DefinitionError) as caught:
            agf.resume(named, registry=registry)
        assert caught.value.code == "journal.running"
    free.set()
    job.wait()
    assert going.wait().status == "error"


ASKS = """\
name: asks
state: {said: str}
nodes:
  ask: {type: interrupt, message: "Which?", choices: [red, green], resume_key: said}
edges: [{from: START, to: ask}, {from: ask, to: END}]
"""


@pytest.mark.parametrize(("answer", "message"), [("green", "green"), ("2", "green"), (2, "green"), ("RED", "red")])
def test_a_choice_is_passed_as_it_is_typed(registry: agf.Registry, answer: Any, message: str) -> None:
    agf.define(ASKS, "graph", registry=registry)
    agf.start("asks", registry=registry).wait()
    assert agf.resume("asks", registry=registry, answer=answer).output["said"] == message


@pytest.mark.parametrize("answer", ["blue", 3, True, ["red"]])
def test_an_answer_that_is_not_a_choice_is_refused_and_asked_again(registry: agf.Registry, answer: Any) -> None:
    agf.define(ASKS, "graph", registry=registry)
    agf.start("asks", registry=registry).wait()
    refused = agf.resume("asks", registry=registry, answer=answer, raises=False)
    assert (refused.error.code, refused.output) == ("run.answer", None)
    assert agf.resume("asks", registry=registry, answer="red").output["said"] == "red"


def test_the_parameter_of_an_asker_may_have_any_name(registry: agf.Registry) -> None:
    agf.define(ASKS, "graph", registry=registry)
    assert agf.run("asks", registry=registry, ask=lambda q: q.choices[1]).output["said"] == "green"

    async def later(put: Any) -> str:
        return str(put.choices[0])

    assert agf.run("asks", registry=registry, ask=later).output["said"] == "red"
