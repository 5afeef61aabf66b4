"""All functions and magics name a run in the same ways: each kind of name in each place (decision RUN1)."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.lifecycle.past.past_run import find_past_run
from agf_magics.lifecycle.storage.run_names import NamedRun, identify
from agf_magics.settings.settings import current
from agf_magics.text.diagnostics import DefinitionError
from agf_magics.text.names import same_name
from tests.notebook.conftest import Shell, code

OPEN = [False]


@pytest.fixture
def door(shell: Shell) -> Shell:
    """Register a tool that fails while its door is closed."""
    OPEN[0] = False

    @agf.tool
    def gate(x: Any) -> Any:
        if not OPEN[0]:
            raise RuntimeError("closed")
        return x

    return shell


def flow(name: str) -> None:
    agf.define(f'{{"pipeline": "{name}", "steps": [{{"tool": {{"name": "gate", "args": {{"x": "{name}"}}}}}}]}}')


def failed(name: str) -> agf.Run:
    return agf.run(name, raises=False)


# --- which run a word names ---

NAMES = ["clean", "Bäume zählen", "a b", "数据", "हिन्दी", "a/b", "x,y=z", "sales: daily", "µ"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("times", [1, 2])
def test_the_name_of_a_flow_is_its_last_run(door: Shell, name: str, times: int) -> None:
    for variant in (name, f"{name}_all", f"{name}2"):
        flow(variant)
    runs = [failed(name).run_id for _ in range(times)]
    failed(f"{name}_all")
    failed(f"{name}2")
    OPEN[0] = True
    assert agf.runs(name).run_id == runs[-1]
    assert agf.rerun(name, "steps[0]").name == agf.runs(runs[-1]).name
    assert agf.resume(name).run_id == runs[-1]
    assert agf.runs(flow=name)[-1].run_id == runs[0]
    assert len(agf.runs(flow=name)) == times + 1  # plus the repeated run


@pytest.mark.parametrize(
    ("never", "ran"), [("a_b", "a b"), ("job", "job_night"), ("job", "job-1"), ("Bäume", "Bäume zählen")]
)
def test_a_flow_that_never_ran_has_no_run_whatever_begins_with_its_name(door: Shell, never: str, ran: str) -> None:
    flow(never)
    flow(ran)
    failed(ran)
    OPEN[0] = True
    for place in ("resume", "runs", "rerun", "report", "stale", "record"):
        with pytest.raises(DefinitionError) as caught:
            PYTHON[place](never)
        assert caught.value.code == "journal.unknown-run"
        assert "this flow has no run" in (caught.value.diagnostic.hint or "")
    assert agf.runs(ran).status == "error"


def test_a_resume_by_name_takes_the_last_run_that_can_be_resumed(door: Shell) -> None:
    flow("job")
    flow("job_night")
    before = failed("job")
    OPEN[0] = True
    agf.run("job")
    OPEN[0] = False
    failed("job_night")
    OPEN[0] = True
    assert agf.resume("job").run_id == before.run_id
    with pytest.raises(DefinitionError, match="no run of 'job' can be resumed: all ended well"):
        agf.resume("job")
    with pytest.raises(DefinitionError, match="no run of 'job' can be resumed: all ended well"):
        agf.resume("job")


def test_no_run_is_reported_as_ok_where_there_is_none(door: Shell) -> None:
    with pytest.raises(DefinitionError) as caught:
        agf.resume()
    assert "all ended well" not in str(caught.value)
    flow("job")
    OPEN[0] = True
    agf.run("job")
    with pytest.raises(DefinitionError, match="all ended well"):
        agf.resume()


@pytest.mark.parametrize("name", [*NAMES, "x" * 70, "-", "Ⅷ"])
def test_the_id_of_a_run_keeps_letters_of_all_scripts_and_is_one_word(door: Shell, name: str) -> None:
    flow(name)
    OPEN[0] = True
    run = agf.run(name)
    assert not re.search(r"[\s'\"\\$,/:=]", run.run_id)
    if name.isalpha():
        assert run.run_id.startswith(same_name(name)[:60])
    for word in (run.run_id, run.run_id[:-2], run):
        assert agf.runs(word).run_id == run.run_id  # type: ignore[arg-type]
    assert door.good(f"%runs {run.run_id if name != '-' else repr(name)}").value.run_id == run.run_id


ROWS = [
    ("clean-7-aaaaaa", "clean"),
    ("clean_all-6-bbbbbb", "clean_all"),
    ("clean-5-cccccc", "clean"),
    ("clean-7-aaaaaa-4-dddddd", "clean-7-aaaaaa"),
    ("a_b-3-eeeeee", "a b"),
    ("café-2-ffffff", "café"),
]
RUNS = [NamedRun(run_id, name, "ok", -float(number)) for number, (run_id, name) in enumerate(ROWS)]


@pytest.mark.parametrize(
    ("word", "meant"),
    [
        ("clean", 0),
        ("clean_all", 1),
        ("clean-7-aaaaaa", 0),  # an id goes before a flow with the same name
        ("clean-5", 2),
        ("clean-5-cccccc", 2),
        ("clean_a", 1),
        ("a b", 4),
        ("a_", 4),
        ("cafe\u0301", 5),
        ("cafe\u0301-2", 5),
        ("clean-", "3 runs have ids that begin with 'clean-'"),
        ("a_b", "this flow has no run"),
        ("claen", "did you mean clean?"),
        ("", "there is no run ''"),
    ],
)
def test_a_word_names_a_run(word: str, meant: int | str) -> None:
    if isinstance(meant, int):
        assert identify(word, RUNS, flows=["a_b"]) == RUNS[meant].run_id
        return
    with pytest.raises(DefinitionError) as caught:
        identify(word, RUNS, flows=["a_b"])
    assert meant in str(caught.value)


# --- each place ---


def _report(word: Any) -> str:
    return agf.report(word, "report.html").read_text()


PYTHON: dict[str, Callable[[Any], Any]] = {
    "runs": lambda word: agf.runs(word).run_id,
    "resume": lambda word: agf.resume(word).run_id,
    "rerun": lambda word: agf.rerun(word, "steps[0]").note,
    "stale": lambda word: agf.stale(word).summary,
    "report": _report,
    "record": lambda word: agf.record(word, "recorded.agf").read_text(),
    "reuse": lambda word: agf.run("job", reuse=word).note,
    "compare": lambda word: len(agf.runs("job").compare(word)),
}


@pytest.mark.parametrize("journal", ["", None])
@pytest.mark.parametrize("place", [place for place in PYTHON if place not in ("runs", "resume", "report", "compare")])
def test_a_run_without_a_journal_does_not_hide_the_one_that_has_one(
    door: Shell, place: str, journal: str | None
) -> None:
    """A dry run in the background, or a run in the background while the journal was switched off, is the last one."""
    OPEN[0] = True
    flow("job")
    earlier = agf.run("job")
    settings = current.settings
    try:
        current.settings = settings if journal == "" else replace(settings, journal=journal)
        later = agf.start("job", dry=journal == "").wait()
    finally:
        current.settings = settings
    assert later.journal is None
    assert agf.runs("job") is later, "it can still be looked at"
    assert find_past_run("job").run_id == earlier.run_id
    assert PYTHON[place]("job") == PYTHON[place](earlier.run_id)


MAGICS = [
    *("%runs {}", "%resume {}", "%rerun {} --from steps[0]", "%runs {} --report r.html", "%runs {} --export r.json"),
    *("%runs {} --record r.agf", "%runs {} --compare jo", "%step {} steps[0]", "%run_pipeline job --reuse {}"),
    "%runs --delete {}",
]


def forms(run: agf.Run) -> dict[str, str]:
    return {"id": run.run_id, "name": run.name, "beginning": run.run_id[:-3]}


@pytest.mark.parametrize("form", ["id", "name", "beginning", "run"])
@pytest.mark.parametrize("place", PYTHON)
def test_each_function_takes_each_name(door: Shell, place: str, form: str) -> None:
    for name in ("job", "job_night", "jo"):
        flow(name)
        failed(name)
    last = failed("job")
    if place in ("record", "reuse"):
        OPEN[0] = True
        last = agf.run("job")
    OPEN[0] = True
    PYTHON[place](last if form == "run" else forms(last)[form])


@pytest.mark.parametrize("form", ["id", "name", "beginning"])
@pytest.mark.parametrize("line", MAGICS)
def test_each_magic_takes_each_name(door: Shell, line: str, form: str) -> None:
    for name in ("job", "job_night", "jo"):
        flow(name)
        failed(name)
    last = failed("job")
    if "--record" in line:
        OPEN[0] = True
        last = agf.run("job")
    OPEN[0] = True
    result = door.run(line.replace("{}", forms(last)[form]))
    assert result.ok, result.error


@pytest.mark.parametrize("line", MAGICS)
def test_each_magic_refuses_a_flow_that_never_ran(door: Shell, line: str) -> None:
    for name in ("a b", "job"):
        flow(name)
        failed(name)
    flow("a_b")
    OPEN[0] = True
    assert code(door.run(line.replace("{}", "a_b"))) == "journal.unknown-run"
    assert agf.runs("a b").status == "error"


def test_the_name_of_a_flow_that_is_reused_is_never_the_new_run_itself(door: Shell) -> None:
    flow("job")
    OPEN[0] = True
    first = agf.run("job")
    assert agf.run("job", reuse="job").note == f"1 call reused from {first.run_id}"


def test_a_background_run_is_cancelled_by_the_name_of_its_flow(door: Shell) -> None:
    held, begun = threading.Event(), threading.Event()

    @agf.tool
    def hold() -> bool:
        begun.set()
        return held.wait(60)

    agf.define("{pipeline: held, steps: [{tool: {name: hold}}]}")
    flow("held_all")
    run = agf.start("held")
    assert begun.wait(60)
    assert code(door.run("%runs --cancel held_all")) == "magic.unknown-run"
    door.good("%runs --cancel held")
    held.set()
    assert run.wait().status == "cancelled"


def test_a_list_and_one_run_are_not_asked_for_together(door: Shell) -> None:
    with pytest.raises(DefinitionError, match="not both"):
        agf.runs("job", flow="job")
    assert agf.runs(flow="job") == ()


def test_without_a_journal_the_runs_of_this_process_have_the_same_names(door: Shell) -> None:
    door.good("%config AgfMagics.journal = ''")
    flow("job")
    OPEN[0] = True
    run = agf.start("job").wait()
    for word in ("job", run.run_id, run.run_id[:-2]):
        assert agf.runs(word) is run
    with pytest.raises(DefinitionError, match="there is no run 'x'"):
        agf.runs("x")


def test_a_flow_that_only_ran_over_rows_names_that_run(door: Shell) -> None:
    flow("job")
    rows = [{"x": 1}, {"x": 2}]
    run = agf.run("job", over=rows, raises=False)
    assert agf.runs("job").run_id == run.run_id
    OPEN[0] = True
    door.good("%run_pipeline job --retry-failed job --quiet --out again")
    assert len(door.names["again"].table) == 2
    assert agf.run("job").run_id == agf.runs("job").run_id  # a run of the flow itself takes precedence
