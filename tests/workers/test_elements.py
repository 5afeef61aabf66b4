"""Whole elements on workers: the law, and what happens when a worker is lost, damaged, heavy or too late.

The law: a run whose elements travel whole has the same output, stores, rows, failures, journal records (without numbers
and times) and events as the same run without workers.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import agf_magics as agf
from agf_magics.engine import host, runner
from agf_magics.flow import events as ev
from agf_magics.flow.progress import Progress
from agf_magics.flow.steps import Each, Failing, every
from agf_magics.pictures.counters import on_workers
from agf_magics.workers import element_chunk, elements, pickles, program
from agf_magics.workers.backend import ChunkSize, Lost
from agf_magics.workers.pickles import Shift
from tests.engine import kept
from tests.engine.pipeline_case import Tools, limits_of
from tests.engine.pipeline_case import registry_of as pipeline_registry
from tests.engine.policy_case import Agents
from tests.engine.virtual_time import VirtualLoop, run_virtual
from tests.languages.graph_case import registry_of as graph_registry
from tests.languages.test_plan_runs import Case
from tests.workers import laws
from tests.workers.in_process import InProcess

VECTORS = Path(__file__).parents[1] / "vectors"

OUTSIDE = ("meet(", "global ", "__defaults__", "next(", "pop(", "append(", "setdefault(", "busy(")
"""What the tools of a row keep outside of the run: workers have their own."""

OUTSIDE_OF_PIPELINES = (*OUTSIDE, "state[", "state.")
"""In a graph, ``state`` is an argument."""


FAN_OUTS = ("for_each", "type: map", "batch", '"type": "map"', "instances", "parallel")
"""Words of the definitions that have one. Every plan has one: its calls."""

TRAVEL = {"ex-195", "ex-196", "ex-208", "ex-226", "own-005", "map-parent-state", "map-branch-fails", "map-in-loop"}
"""Rows whose elements travel whole."""


def rows(language: str) -> Iterator[Any]:
    for row in json.loads((VECTORS / f"{language}_runs.json").read_text("utf-8"))["rows"]:
        if language != "plan" and not any(word in row["text"] for word in FAN_OUTS):
            continue
        sources = json.dumps([row.get("tools"), row.get("agents"), row.get("agent")])
        outside = OUTSIDE_OF_PIPELINES if language == "pipeline" else OUTSIDE
        if "model" not in row and not any(word in sources for word in outside):
            yield pytest.param(language, row, id=f"{language}: {row['id']}")


def registry_of(language: str, row: dict[str, Any]) -> agf.Registry:
    """The registry of a row, whose tools may run on threads and on workers."""
    match language:
        case "pipeline":
            registry = pipeline_registry(row, Tools())
        case "policy":
            registry = Agents(row).registry()
        case "graph":
            registry = graph_registry(row)
        case _:
            return Case(row).registry
    for shelf in (registry.tools, registry.transforms):
        for one in shelf.values():
            shelf.add(replace(one, where=None))
    return registry


class Compared:
    """A row, run once without and once with workers."""

    def __init__(self, language: str, row: dict[str, Any], folder: Path) -> None:
        self.language, self.row, self.folder = language, row, folder

    def run(self, backend: InProcess | None, listens: bool, name: str) -> tuple[Any, ...]:
        registry, row = registry_of(self.language, self.row), self.row
        text = Case(row).text if self.language == "plan" else row["text"]
        flow = agf.load(text, self.language, registry=registry)
        heard: list[Any] = []
        answers = iter(row.get("answers", ()))
        with kept.journal_in(self.folder / name) as path:
            run: agf.Run = run_virtual(
                agf.arun(
                    flow,
                    None if self.language == "plan" else row["input"],
                    registry=registry,
                    limits=limits_of(row) if self.language == "pipeline" else None,
                    raises=False,
                    ask=(lambda question: next(answers)) if "answers" in row else None,
                    on_event=heard.append if listens else None,
                    on=backend,
                )
            )
            return run, laws.rows(run), laws.failures(run), laws.records(path), laws.told(heard)


@pytest.fixture(autouse=True)
def steady(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Virtual time on the workers, too, and no turns of the wall clock."""
    monkeypatch.chdir(tmp_path)
    for module in (runner, host):
        monkeypatch.setattr(module, "TURN", float("inf"))
    monkeypatch.setattr(element_chunk, "new_event_loop", VirtualLoop)
    monkeypatch.setattr(program, "FEWEST", 0)  # elements without a call travel, too


@pytest.mark.parametrize("listens", [False, True], ids=["counted", "events"])
@pytest.mark.parametrize(("language", "row"), [*rows("pipeline"), *rows("policy"), *rows("plan"), *rows("graph")])
def test_the_law_for_every_vector(language: str, row: dict[str, Any], listens: bool, tmp_path: Path) -> None:
    for name, text in row.get("files", {}).items():
        Path(name).write_text(text, encoding="utf-8")
    compared, backend = Compared(language, row, tmp_path), InProcess()
    try:
        run, *wanted = compared.run(None, listens, "kernel")
    except agf.DefinitionError:
        return  # nothing was started
    found_run, *found = compared.run(backend, listens, "workers")
    assert laws.outcome(found_run) == laws.outcome(run)
    assert backend.numbers or row["id"] not in TRAVEL
    if stops_early(run):
        return
    for one, other in zip(found, wanted, strict=True):
        assert one == other


def test_the_vectors_are_there() -> None:
    found = {language: list(rows(language)) for language in ("pipeline", "policy", "plan", "graph")}
    assert all(len(one) > 8 for one in found.values())
    assert {one.values[1]["id"] for language in found.values() for one in language} >= TRAVEL


def stops_early(run: agf.Run) -> bool:
    """Whether a failure ended a fan-out, so that it depends on the moment which other elements ran."""
    return any(
        isinstance(step, Each)
        and step.failing.on_error == "abort"
        and any(row.failed for row in run.progress.rows.values())
        for linked in run._linked.reachable
        for step in every(linked.flow.body)
    )


# --- what the law does not say: chunks, losses, damage ---

FAN = """
pipeline: main
steps:
  - for_each:
      over: ctx.xs
      on_error: {on_error}
      {more}
      do: {{tool: {{name: work, args: {{x: !expr item}}}}}}
      collect: {{transform: {{value: pipe}}}}
"""


def double(x: int) -> int:
    if x < 0:
        raise ValueError(f"negative: {x}")
    return x * 2


class Fan:
    """A fan-out over a tool, and what it left behind."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def run(
        self, xs: list[Any], on: Any, function: Any = double, on_error: str = "continue", more: str = "", **options: Any
    ) -> agf.Run:
        registry = agf.Registry()
        agf.tool(function, name="work", registry=registry)
        flow = agf.load(FAN.format(on_error=on_error, more=more), registry=registry)
        with kept.journal_in(self.folder) as path:
            run = agf.run(flow, {"xs": xs}, registry=registry, on=on, raises=False, **options)
            self.calls = laws.calls(path)
        return run


@pytest.fixture
def fan(tmp_path: Path) -> Fan:
    return Fan(tmp_path)


def test_chunks_grow_and_each_element_travels_once(fan: Fan) -> None:
    backend = InProcess()
    run = fan.run(list(range(1_000)), backend)
    assert run.output == [2 * x for x in range(1_000)]
    assert sorted(i for numbers in backend.numbers for i in numbers) == list(range(1_000))
    sizes = [len(numbers) for numbers in backend.numbers]
    assert sizes[0] == 1
    assert max(sizes) > 50
    assert len(sizes) < 40
    assert len(fan.calls) == 1_000


def test_a_limit_of_the_author_bounds_the_chunks_in_flight(fan: Fan) -> None:
    backend, most = InProcess(lanes=4), 0

    def watch(numbers: list[int]) -> Lost | None:
        nonlocal most
        most = max(most, len(backend.numbers) - len(backend.answers))
        return None

    backend.fault = watch
    assert fan.run(list(range(50)), backend, more="max_parallel: 2").output == [2 * x for x in range(50)]
    assert backend.numbers
    assert most <= 2


def test_lost_elements_are_sent_again_alone_and_journaled_once(fan: Fan) -> None:
    backend, lost = InProcess(), list[list[int]]()

    def lose(numbers: list[int]) -> Lost | None:
        if len(numbers) > 3 and len(lost) < 2:
            lost.append(numbers)
            return Lost("process 7 ended with -9")
        return None

    backend.fault = lose
    run = fan.run(list(range(60)), backend)
    assert run.output == [2 * x for x in range(60)]
    assert len(lost) == 2
    again = [numbers for numbers in backend.numbers if set(numbers) & {i for chunk in lost for i in chunk}]
    assert all(len(numbers) == 1 for numbers in again[2:])
    assert len(fan.calls) == len({call.at for call in fan.calls}) == 60
    assert run.calls == 60


@pytest.mark.parametrize("names_one", [True, False], ids=["names the chunk", "breaks as a whole"])
def test_an_element_that_ends_its_worker_is_dropped_alone(fan: Fan, names_one: bool) -> None:
    backend = InProcess()
    backend.identifies_lost_chunk = names_one
    backend.fault = lambda numbers: Lost("process 7 ended with -9") if 23 in numbers else None
    run = fan.run(list(range(60)), backend)
    assert run.output == [2 * x for x in range(60) if x != 23]
    (failure,) = run.progress.failures
    assert failure.at == ("steps[0].do", 23)
    assert isinstance(failure.error, agf.StepError)
    assert failure.error.code == "step.worker-lost"
    assert sum(numbers == [23] for numbers in backend.numbers) <= 4
    assert len(fan.calls) == 59


def test_a_worker_backend_that_has_tried_again_itself_is_not_asked_again(fan: Fan) -> None:
    backend = InProcess()
    backend.fault = lambda numbers: Lost("killed", last=True) if 0 in numbers else None
    run = fan.run([1, 2, 3], backend)
    assert run.output == [4, 6]
    assert sum(0 in numbers for numbers in backend.numbers) == 1


def test_a_second_outcome_of_a_chunk_does_not_count(fan: Fan) -> None:
    backend = InProcess()

    def submit(run: Any, order: Any, done: Any) -> Any:
        return InProcess.submit(backend, run, order, lambda outcome: (done(outcome), done(outcome)))

    backend.submit = submit  # type: ignore[method-assign]
    run = fan.run(list(range(20)), backend)
    assert run.output == [2 * x for x in range(20)]
    assert run.calls == len(fan.calls) == 20


def other_answer(outcome: Any, **fields: Any) -> Any:
    """An outcome with another answer."""
    kind, data, *rest = outcome
    answer = element_chunk.Answer(*pickles.load_plain(data))
    return (kind, pickles.dump_plain(tuple(answer._replace(**fields))), *rest)


def other_element(outcome: Any, **fields: Any) -> Any:
    answer = element_chunk.Answer(*pickles.load_plain(outcome[1]))
    element = element_chunk.Element(*answer.elements[0])
    return other_answer(outcome, elements=[tuple(element._replace(**fields)), *answer.elements[1:]])


def changed_record(outcome: Any, place: int, value: Any) -> Any:
    """The only record of the first element, with another field."""
    answer = element_chunk.Answer(*pickles.load_plain(outcome[1]))
    (record,) = answer.elements[0][3]
    return other_element(outcome, records=[(*record[:place], value, *record[place + 1 :])])


DAMAGE: dict[str, Any] = {
    "no tuple": lambda outcome: 7,
    "nothing": lambda outcome: None,
    "another kind": lambda outcome: ("maybe", *outcome[1:]),
    "no bytes": lambda outcome: (outcome[0], "text", *outcome[2:]),
    "another pickle": lambda outcome: (outcome[0], pickles.dump_plain(7), *outcome[2:]),
    "seconds": lambda outcome: (*outcome[:2], "long", *outcome[3:]),
    "not a number": lambda outcome: (*outcome[:2], float("nan"), *outcome[3:]),
    "prints": lambda outcome: (*outcome[:3], [1, 2], outcome[4]),
    "no elements": lambda outcome: other_answer(outcome, elements=[]),
    "many elements": lambda outcome: other_answer(outcome, elements=[(True, 1, [], [])] * 2_000),
    "calls": lambda outcome: other_answer(outcome, calls=-3),
    "times": lambda outcome: other_answer(outcome, began=3.0, ended=1.0),
    "another row": lambda outcome: other_answer(outcome, counts={("steps[7]",): (1, 1)}),
    "negative counts": lambda outcome: other_answer(outcome, counts={("steps[0].do",): (1, 5)}),
    "counts": lambda outcome: other_answer(outcome, counts={("steps[0].do",): "many"}),
    "a list": lambda outcome: other_answer(outcome, elements=[[True, 1, [], []]]),
    "three parts": lambda outcome: other_answer(outcome, elements=[(True, 1, [])]),
    "no failure": lambda outcome: other_element(outcome, ok=False),
    "ok": lambda outcome: other_element(outcome, ok="yes"),
    "events": lambda outcome: other_element(outcome, events=()),
    "event": lambda outcome: other_element(outcome, events=[ev.RunEnded(1.0, "ok")]),
    "no event": lambda outcome: other_element(outcome, events=["event"]),
    "event elsewhere": lambda outcome: other_element(outcome, events=[ev.StepSkipped(("steps[0].do", 999), 1.0, "")]),
    "event of no step": lambda outcome: other_element(outcome, events=[ev.StepSkipped(("x", 0), 1.0, "")]),
    "no records": lambda outcome: other_element(outcome, records=None),
    "no record": lambda outcome: other_element(outcome, records=["record"]),
    "no path": lambda outcome: changed_record(outcome, 1, ["steps[0].do"]),
    "no arguments": lambda outcome: changed_record(outcome, 5, None),
    "a record's kind": lambda outcome: changed_record(outcome, 0, "fired"),
    "a record elsewhere": lambda outcome: changed_record(outcome, 1, ("steps[0].do", "steps[0].do")),
    "a record's path": lambda outcome: changed_record(outcome, 1, ("steps[0].do", -1)),
    "a record's attempts": lambda outcome: changed_record(outcome, 2, "{"),
    "a record's start": lambda outcome: changed_record(outcome, 3, "today"),
    "a record's end": lambda outcome: changed_record(outcome, 4, float("inf")),
    "a record's arguments": lambda outcome: changed_record(outcome, 5, "{"),
    "whole": lambda outcome: changed_record(outcome, 6, 1),
    "a record's form": lambda outcome: changed_record(outcome, 7, "html"),
    "a record's value": lambda outcome: changed_record(outcome, 8, "{"),
    "a record's type": lambda outcome: changed_record(outcome, 8, b"bytes"),
    "a large value": lambda outcome: changed_record(outcome, 8, json.dumps("x" * 20_000_000)),
    "a record's preview": lambda outcome: changed_record(outcome, 9, "{"),
    "a record's reason": lambda outcome: changed_record(outcome, 10, 3),
    "a record's failure": lambda outcome: changed_record(outcome, 11, "{}"),
    "a record's pickle": lambda outcome: changed_record(outcome, 12, "text"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_answer_fails_its_elements_and_leaves_the_journal_whole(fan: Fan, damage: str) -> None:
    backend, damaged = InProcess(), list[int]()

    def change(outcome: Any) -> Any:
        if len(backend.answers) == 3:
            damaged.extend(backend.numbers[-1])
            return DAMAGE[damage](outcome)
        return outcome

    backend.change = change
    run = fan.run(list(range(40)), backend)
    assert damaged
    assert run.output == [2 * x for x in range(40) if x not in damaged]
    assert {one.at[-1] for one in run.progress.failures} == set(damaged)
    assert {one.error.code for one in run.progress.failures if isinstance(one.error, agf.StepError)} == {
        "step.worker-answer"
    }
    assert sorted(call.at[-1] for call in fan.calls) == [i for i in range(40) if i not in damaged]
    assert run.steps["steps[0].do"].running == 0


def test_workers_that_cannot_run_the_program_get_calls(fan: Fan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(element_chunk, "version_of_workers", lambda: ("9.9", "3.99", 7))
    backend = InProcess()
    # A function of its own: a program that this process has read before is not read again.
    run = fan.run(list(range(40)), backend, lambda x: x + x)
    assert run.output == [2 * x for x in range(40)]
    assert len(backend.numbers) < len(backend.sent)
    assert run.calls == len(fan.calls) == 40


def unreadable(x: int) -> Any:
    return OnlyThere() if x == 3 else x


class OnlyThere:
    """A result of a library that only the workers have."""

    def __reduce__(self) -> Any:
        return __import__, ("a_module_that_the_kernel_lacks",)


def test_a_result_that_the_kernel_cannot_read_fails_its_element(fan: Fan) -> None:
    backend = InProcess()
    run = fan.run(list(range(20)), backend, unreadable)
    assert run.output == [x for x in range(20) if x != 3]
    (failure,) = run.progress.failures
    assert isinstance(failure.error, agf.StepError)
    assert failure.error.code == "step.unsent-result"
    assert backend.numbers


def large(x: int) -> str:
    return "y" * 20_000


def test_heavy_elements_are_sent_as_calls(fan: Fan) -> None:
    backend = InProcess()
    run = fan.run(list(range(40)), backend, large)
    assert run.output == [large(0)] * 40
    assert sum(map(len, backend.numbers)) <= 2 * backend.lanes
    assert run.calls == len(fan.calls) == 40


def test_a_heavy_function_is_sent_with_calls(fan: Fan) -> None:
    table, backend = bytes(2_000_000), InProcess()
    run = fan.run(list(range(9)), backend, lambda x: x + table[x])
    assert run.output == list(range(9))
    assert backend.numbers == []


def unsendable(x: int) -> Any:
    return threading.Lock() if x == 3 else x


def test_a_result_that_cannot_be_sent_fails_its_element(fan: Fan) -> None:
    run = fan.run(list(range(20)), InProcess(), unsendable)
    assert run.output == [x for x in range(20) if x != 3]
    (failure,) = run.progress.failures
    assert isinstance(failure.error, agf.StepError)
    assert failure.error.code == "step.unsent-result"
    assert run.steps["steps[0].do"].running == 0


@pytest.mark.parametrize("unsent", [{0}, {3}, {0, 1, 2, 3}], ids=["the first", "the last", "all"])
def test_elements_that_cannot_be_sent_fail_and_the_fan_out_ends(fan: Fan, unsent: set[int]) -> None:
    items = [threading.Lock() if x in unsent else x for x in range(4)]
    run = fan.run(items, InProcess(), lambda x: x)
    assert run.output == [x for x in range(4) if x not in unsent]
    assert {failure.error.code for failure in run.progress.failures} == {"step.unsendable"}
    assert len(run.progress.failures) == len(unsent)


def test_a_result_that_is_too_large_fails_its_element(fan: Fan, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elements, "RESULT", 10_000)
    backend = InProcess()
    run = fan.run(list(range(4)), backend, lambda x: "y" * (20_000 if x == 0 else 20))
    assert run.output == ["y" * 20] * 3
    (failure,) = run.progress.failures
    assert isinstance(failure.error, agf.StepError)
    assert failure.error.code == "step.unsent-result"
    assert "bytes, and at most 10,000 are sent" in str(failure.error)
    assert [0] in backend.numbers
    assert max(map(len, backend.answers)) < 10_000


def runs_a_loop(x: int) -> int:
    async def wait() -> int:
        await asyncio.sleep(0)
        return x

    return asyncio.run(wait())


def test_a_tool_may_run_an_event_loop(fan: Fan) -> None:
    backend = InProcess()
    assert fan.run([1, 2, 3], backend, runs_a_loop).output == [1, 2, 3]
    assert backend.numbers


def test_a_secret_that_the_run_gets_meanwhile_is_masked(fan: Fan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the kernel knows it: what workers answer from then on is not used."""
    backend, sites, real = InProcess(), [], elements.reason_to_stay

    def listen(site: Any, *more: Any) -> Any:
        sites.append(site)
        return real(site, *more)

    def change(outcome: Any) -> Any:
        if len(backend.answers) == 2:
            sites[0].run.secrets.learn("the-token-42")
        return outcome

    monkeypatch.setattr(elements, "reason_to_stay", listen)
    backend.change = change
    run = fan.run(list(range(30)), backend, lambda x: f"the-token-42 of {x}")
    assert run.output == [f"the-token-42 of {x}" for x in range(30)]
    assert sum(map(len, backend.numbers)) < 30
    shown = [call.value_shown for call in fan.calls]
    assert sum("the-token-42" in str(value) for value in shown) <= 1


def test_a_secret_of_the_environment_is_not_stored(fan: Fan, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither as an argument nor as a result, as without workers (decision D42)."""
    monkeypatch.setenv("SOME_TOKEN", "the-token-42")
    for on in (InProcess(), None):
        assert fan.run(["the-token-42", "other"], on, lambda x: f"{x}!").output == ["the-token-42!", "other!"]
        assert "the-token-42" not in str(fan.calls)
        assert "other!" in str(fan.calls)


# --- cancel, abort ---


def test_a_cancelled_run_cancels_its_chunks(fan: Fan) -> None:
    backend = InProcess(holds=True)
    registry = agf.Registry()
    agf.tool(double, name="work", registry=registry)
    run = agf.start(FAN.format(on_error="continue", more=""), {"xs": list(range(9))}, registry=registry, on=backend)
    assert backend.arrived.wait(10)
    run.cancel()
    run.wait(10)
    row = run.steps["steps[0].do"]
    assert run.status == "cancelled"
    assert row.cancelled == sum(map(len, backend.numbers))
    assert row.running == 0
    assert run.steps["steps[0]"].placed is None
    assert backend.held == []
    assert backend.cancelled == len(backend.numbers)


def test_after_a_failure_the_other_chunks_are_cancelled_and_not_journaled(fan: Fan) -> None:
    backend = InProcess()
    run = fan.run([1, -1, 3, 4, 5, 6, 7], backend, on_error="abort")
    assert run.error is not None
    assert "negative: -1" in str(run.error)
    assert {call.at[-1] for call in fan.calls} == {0, 1}
    row = run.steps["steps[0].do"]
    assert (row.finished, row.failed) == (1, 1)
    assert row.cancelled == sum(map(len, backend.numbers)) - 2


# --- events ---


def test_elements_on_workers_are_shown(fan: Fan) -> None:
    heard: list[Any] = []
    run = fan.run(list(range(30)), InProcess(), on_event=heard.append)
    found = [event for event in heard if isinstance(event, ev.Placed)]
    assert found[-1].elements == 0
    assert max(event.elements for event in found) > 1
    assert {(event.at, event.where) for event in found} == {(("steps[0]",), "this process")}
    assert run.steps["steps[0]"].placed is None


def test_a_row_without_an_element_is_not_pending_while_workers_have_some() -> None:
    flow = agf.load(FAN.format(on_error="continue", more=""))
    progress = Progress(flow)
    progress.apply(ev.StepStarted(("steps[0]",), 1.0))
    progress.apply(ev.FanOutStarted(("steps[0]",), 1.0, 90))
    each, body = progress.rows["steps[0]",], progress.rows["steps[0].do",]
    assert body.state == "pending"
    progress.apply(ev.Placed(("steps[0]",), 1.0, 40, "2 processes"))
    assert (each.state, body.state) == ("running", "running")
    assert on_workers(each) == "running 40 on 2 processes"
    progress.count({("steps[0].do",): (40, 40)}, 2.0, 3.0)
    progress.apply(ev.Placed(("steps[0]",), 1.0, 0, "2 processes"))
    assert (body.state, body.finished, body.seconds) == ("ok", 40, 1.0)


def test_the_times_of_a_worker_become_times_of_the_kernel() -> None:
    assert Shift.between(10.0, 12.0, 10.5, 11.5).by == 0  # one clock
    shift = Shift.between(10.0, 12.0, 510.5, 511.5)
    assert 10.0 <= shift.of(510.5) <= shift.of(511.5) <= 12.0
    assert shift.event(ev.StepSkipped(("a",), 511.0, "")).when == shift.of(511.0)


# --- resume ---


@pytest.mark.parametrize("after", [0, 3, 9, 17, 30])
def test_a_resumed_run_sends_only_elements_without_a_record(after: int, tmp_path: Path) -> None:
    registry = agf.Registry()
    agf.tool(double, name="work", registry=registry)
    xs = [-1 if x % 7 == 3 else x for x in range(30)]
    with kept.journal_in(tmp_path / "whole") as path:
        whole = agf.run(FAN.format(on_error="continue", more=""), {"xs": xs}, registry=registry, on=InProcess())
        cut = kept.cut(path, after, tmp_path / "cut")
    with kept.journal_in(cut.parent):
        known = {json.loads(at)[1] for _, at, _ in kept.lines(cut)}
        (one,) = agf.runs()
        backend = InProcess()
        run = agf.resume(one.run_id, registry=registry, on=backend)
        calls = laws.calls(cut)
    assert run.output == whole.output
    assert {i for numbers in backend.numbers for i in numbers} == set(range(30)) - known
    assert sorted(at[-1] for at in {call.at for call in calls}) == list(range(30))
    assert len({(call.at, call.tries) for call in calls}) == len(calls)


# --- the law, for more than the vectors ---


@pytest.mark.law
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    xs=st.lists(st.integers(-3, 30), max_size=40),
    on_error=st.sampled_from(["continue", "finish", "abort"]),
    sizes=st.lists(st.integers(1, 9), min_size=1, max_size=8),
    lanes=st.integers(1, 4),
    retries=st.integers(0, 2),
    listens=st.booleans(),
    data=st.data(),
)
def test_the_law_for_any_failures_and_chunks(
    xs: list[int], on_error: Any, sizes: list[int], lanes: int, retries: int, listens: bool, data: st.DataObject
) -> None:
    if on_error == "abort":  # with several failures it depends on the moment which is the first one
        xs = [abs(x) for x in xs]
        if xs and data.draw(st.booleans()):
            xs[data.draw(st.integers(0, len(xs) - 1))] = -1
    registry = agf.Registry()
    agf.tool(double, name="work", registry=registry)
    flow = agf.load(FAN.format(on_error="continue", more=""), registry=registry)
    (each,) = flow.body.steps
    assert isinstance(each, Each)
    steps = (replace(each, failing=Failing(on_error, retries)),)
    flow = replace(flow, body=replace(flow.body, steps=steps))
    backend = InProcess(lanes)

    def next_size(size: ChunkSize, remaining: int, lanes: int) -> int:
        return sizes[len(backend.numbers) % len(sizes)]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ChunkSize, "next", next_size)
        here, there = (judged(flow, registry, xs, on, listens) for on in (None, backend))
    assert bool(backend.numbers) == bool(xs)
    if on_error == "abort" and -1 in xs:
        assert here[0] == there[0]
    else:
        assert here == there


def judged(flow: agf.Flow, registry: agf.Registry, xs: list[int], on: Any, listens: bool) -> tuple[Any, ...]:
    heard: list[Any] = []
    listener = heard.append if listens else None
    with tempfile.TemporaryDirectory() as folder, kept.journal_in(Path(folder)) as path:
        run = agf.run(flow, {"xs": xs}, registry=registry, on=on, raises=False, on_event=listener)
        return laws.outcome(run), laws.rows(run), laws.failures(run), laws.records(path), laws.told(heard)
