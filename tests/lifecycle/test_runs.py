"""The list of runs, selected by flow, status and time, and the states of a run."""

from __future__ import annotations

import asyncio
import textwrap
from datetime import date, datetime, timedelta
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.flow.progress.run_line import STATUS_WORDS, STATUSES
from agf_magics.journal.runs import RunHead
from agf_magics.lifecycle.past.since import seconds_of
from agf_magics.pictures import theme

pytestmark = pytest.mark.usefixtures("journaled")

GRAPH = """\
name: counts
state: {n: int}
variables: {n: 0}
nodes:
  add: {type: passthrough, output: {n: "{state.n + 1}"}}
edges:
- {from: START, to: add}
- {from: add, to: add, condition: n < 3}
- {from: add, to: END, condition: else}
"""


def test_runs_are_selected_by_flow_status_and_time_and_are_a_table() -> None:
    pandas = pytest.importorskip("pandas")
    for name, value in (("good", "1"), ("bad", "1 / 0"), ("good", "2")):
        try:
            agf.run(f"{{pipeline: {name}, steps: [{{transform: {{value: '{value}'}}}}]}}", registry=agf.Registry())
        except agf.StepError:
            assert name == "bad"
    assert [run.name for run in agf.runs(flow="good")] == ["good", "good"]
    assert [run.name for run in agf.runs(status="error")] == ["bad"]
    assert agf.runs(status="failed") == agf.runs(status="error") == agf.runs(text="BAD zero") == agf.runs(text="failed")
    assert agf.runs(text="bad", status="ok") == agf.runs(text="good zero") == ()
    assert agf.runs(flow="good", status="error") == ()
    assert (
        len(agf.runs(since="1h")) == len(agf.runs(since=timedelta(hours=1))) == len(agf.runs(since=date.today())) == 3
    )
    assert agf.runs(since="3000-01-01") == ()
    (bad,) = agf.runs(status="error")
    assert repr(agf.runs(bad.run_id)) == f"<PastRun {bad.run_id} error>"
    frame = agf.runs(flow="good").to_pandas()
    assert isinstance(frame, pandas.DataFrame)
    assert list(frame["status"]) == ["ok", "ok"]
    assert frame["started"][0] >= frame["started"][1]


def test_runs_are_selected_by_the_words_that_views_show() -> None:
    shown = {theme.state(status).word for status in STATUSES}
    assert shown < set(STATUS_WORDS)  # "failed" too, which is the status error
    dropping = (
        "{for_each: {over: '[1, 0]', on_error: continue, do: {transform: {value: 1 / item}}, "
        "collect: {transform: {value: pipe}}}}"
    )
    agf.run(f"{{pipeline: drops, steps: [{dropping}]}}", registry=agf.Registry())
    agf.run("{pipeline: keeps, steps: [{transform: {value: '1'}}]}", registry=agf.Registry())
    assert [run.name for run in agf.runs(status="dropped")] == ["drops"]
    assert [run.name for run in agf.runs(status="ok")] == ["keeps", "drops"]


@pytest.mark.parametrize(
    ("filters", "code"),
    [
        ({"status": "broken"}, "journal.filter"),
        ({"since": "soon"}, "journal.filter"),
        ({"run_id": "p", "status": "ok"}, "journal.unknown-run"),
    ],
)
def test_the_error_of_a_wrong_filter_lists_the_choices(filters: dict[str, Any], code: str) -> None:
    with pytest.raises(agf.DefinitionError) as refused:
        agf.runs(**filters)
    assert refused.value.code == code
    assert refused.value.diagnostic.hint


@pytest.mark.parametrize(
    ("when", "seconds"),
    [
        ("2h", 7_200.0),
        (timedelta(minutes=5), 300.0),
        (datetime.fromtimestamp(999_990.0), 10.0),
        (datetime.fromtimestamp(999_000.0).isoformat(sep=" "), 1_000.0),
    ],
)
def test_a_time_may_be_a_duration_before_now(when: object, seconds: float) -> None:
    assert seconds_of(when, 1_000_000.0) == 1_000_000.0 - seconds


def test_a_graph_has_a_state_after_each_round_live_and_later() -> None:
    run = agf.run(GRAPH, registry=agf.Registry())
    for states in (run.states, agf.runs(run.run_id).states):
        assert [row["state"]["n"] for row in states] == [0, 1, 2, 3]
        assert [row["after"] for row in states] == ["start", "add", "add", "add"]
        assert states.note == ""
    assert "after" in repr(run.states)


def test_the_clock_of_a_run_stands_still_between_its_sessions() -> None:
    """The run began at 100, failed at 110, and was resumed at 500 and at 1,000."""
    head = RunHead(0, "r", "r", "pipeline", "ok", 100.0, 1003.0, "", ((110.0, 500.0), (520.0, 1000.0)))
    assert head.seconds == 10 + 20 + 3
    clock = {105.0: 5.0, 110.0: 10.0, 300.0: 10.0, 505.0: 15.0, 1001.0: 31.0, 90.0: 0.0}
    assert {moment: head.clock(moment) for moment in clock} == clock


RESUMED = """\
pipeline: resumed
steps:
- for_each:
    items: [a, b, c]
    on_error: continue
    do: {tool: {name: spell, args: {word: !expr item}}}
    collect: {transform: {value: pipe}}
    output: words
- tool: {name: publish, args: {words: !expr ctx.words}, output: address}
"""


def test_a_resumed_run_and_its_steps_took_the_same_in_all_views() -> None:
    registry, is_down = agf.Registry(), True

    @agf.tool(registry=registry)
    def spell(word: str) -> str:
        if word == "b":
            raise ValueError(word)
        return word.upper()

    @agf.tool(registry=registry)
    def publish(words: list[str]) -> str:
        if is_down:
            raise ConnectionError("503")
        return "here"

    agf.define(RESUMED, registry=registry)
    with pytest.raises(agf.StepError):
        agf.run("resumed", registry=registry)
    (failed,) = agf.runs()
    first = agf.runs(failed.run_id).progress
    is_down = False
    run = agf.resume(registry=registry)
    (listed,) = agf.runs()
    past = agf.runs(listed.run_id)
    assert listed.seconds == past.seconds == past.progress.seconds
    assert past.seconds < (past.ended - past.started).total_seconds()  # without the pause
    assert past.seconds >= failed.seconds
    # The first event of a session comes later than the end of its pause in the journal.
    assert run.progress.goes_on is not None
    assert run.progress.when == run.progress.goes_on - run.progress.ran
    assert run.seconds == pytest.approx(past.seconds, abs=0.1)
    for row in (row for row in first.rows.values() if row.finished and row.word != "transform"):
        live, from_journal = (progress.rows[row.key] for progress in (run.progress, past.progress))
        assert live.seconds == pytest.approx(from_journal.seconds)
        assert from_journal.seconds == row.seconds or row.word == "for_each"  # the step did not run again
        assert live.when - run.progress.when == pytest.approx(from_journal.when - past.progress.when)
    assert (listed.look, listed.dropped, run.progress.failed) == ("dropped", 1, 1)
    assert "! ok, 1 dropped" in repr(agf.runs())
    same = {row["step"]: row["seconds"] for row in past.compare(past)}
    assert same["steps[1]"] == pytest.approx(past.progress.rows["steps[1]",].seconds)


EVALUATED = """\
pipeline: evaluated
steps:
- tool: {name: rest, args: {}, output: first}
- transform: {value: "ctx.first", output: same}
- for_each:
    over: "[1, 2]"
    on_error: abort
    do: {tool: {name: rest, args: {}}}
    collect: {transform: {value: pipe}}
    output: rested
- parallel:
    branches:
      words: {transform: {value: "1"}}
      calls: {tool: {name: rest, args: {}}}
    collect: {transform: {value: pipe}}
    output: both
- transform: {value: "ctx.same", output: again}
- call: {pipeline: inner, pass: [], output: called}
- tool: {name: publish, args: {}, output: address}
- transform: {value: "ctx.address", output: last}
"""


def test_a_step_without_calls_stands_between_its_neighbours_in_a_resumed_run() -> None:
    registry, is_down = agf.Registry(), True

    @agf.tool(registry=registry)
    def rest() -> int:
        return 1

    @agf.tool(registry=registry)
    def publish() -> str:
        if is_down:
            raise ConnectionError("503")
        return "here"

    agf.define("pipeline: inner\nsteps:\n- transform: {value: '1'}", registry=registry)
    agf.define(EVALUATED, registry=registry)
    with pytest.raises(agf.StepError):
        agf.run("evaluated", registry=registry)
    is_down = False
    run = agf.resume(registry=registry)
    (listed,) = agf.runs()
    for progress in (run.progress, agf.runs(listed.run_id).progress):
        first, same, *_, both, again, called, _, last = (progress.rows[f"steps[{place}]",] for place in range(8))
        in_branch = progress.rows["steps[3].branches.words",]
        assert same.when == pytest.approx(first.ended, rel=0, abs=1e-5)
        assert first.ended < in_branch.when <= both.ended
        assert again.when == pytest.approx(both.ended, rel=0, abs=1e-5)
        in_called = progress.rows["steps[5]", "steps[0]"]
        assert both.ended <= called.when <= in_called.when <= in_called.ended <= called.ended
        assert called.when == pytest.approx(both.ended, rel=0, abs=1e-5)
        assert again.ended < last.when <= last.ended <= progress.ended


def test_an_error_in_a_table_does_not_repeat_what_its_row_says() -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def fails() -> None:
        raise TimeoutError("30 s")

    for output, expected in (("", "TimeoutError: 30 s"), (", output: word", "tool 'fails' failed: TimeoutError: 30 s")):
        step = f"{{tool: {{name: fails, args: {{}}{output}}}}}"
        with pytest.raises(agf.StepError):
            agf.run(f"{{pipeline: bad, steps: [{step}]}}", registry=registry)
        run = agf.runs("bad")
        (call,) = repr(run.calls).split("\n")[1:]
        (traced,) = repr(run.trace).split("\n")[1:]
        assert call.endswith("  TimeoutError: 30 s")
        assert traced.endswith(f"  {expected}")
        assert run.trace[0]["error"] == run.calls[0]["error"] == "tool 'fails' failed: TimeoutError: 30 s"


def test_the_list_of_runs_has_the_errors() -> None:
    with pytest.raises(agf.StepError):
        agf.run("{pipeline: bad, steps: [{transform: {value: '1 / 0'}}]}", registry=agf.Registry())
    assert "divi" in repr(agf.runs()).lower()
    assert "error" in agf.runs()._repr_html_()


# --- counts ---

FAN_OUT = "{for_each: {items: [1, 2, 3], on_error: ON, do: DO, collect: {transform: {value: pipe}}}}"


def fan_out(do: str, on: str = "continue") -> str:
    return FAN_OUT.replace("ON", on).replace("DO", do)


TOOL, AGENT = "{tool: {name: ok}}", "{agent: {prompt: Hi, identity: asked}}"
FAILS, STOPS = "{tool: {name: fails}}", "{tool: {name: stops}}"

COUNTED = {
    "ok": ((TOOL, TOOL), False, "ok", 2, 0),
    "a failure": ((TOOL, AGENT, FAILS, TOOL), False, "error", 2, 1),
    "a cancellation": ((TOOL, AGENT, STOPS, TOOL), False, "cancelled", 2, 1),
    "elements that are dropped": ((fan_out(FAILS), fan_out(AGENT)), False, "ok", 3, 3),
    "retries": ((fan_out(FAILS, "retry(2)").replace("[1, 2, 3]", "[1]"),), False, "error", 3, 0),
    "rows": ((TOOL, AGENT), True, "ok", 4, 4),
    "rows that fail": ((TOOL, AGENT, FAILS, TOOL), True, "ok", 8, 4),
    "a row that ends the run": ((AGENT, STOPS), True, "cancelled", 1, 1),
}
"""Steps, whether they run over a table of four rows, and the status, the calls and the sessions of the run."""


@pytest.mark.parametrize("how", COUNTED)
def test_a_run_counts_its_calls_and_sessions_however_it_ends(how: str) -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def ok() -> int:
        return 1

    @agf.tool(registry=registry)
    def fails() -> None:
        raise ValueError("never")

    @agf.tool(registry=registry)
    async def stops() -> None:
        runs[0].cancel()
        await asyncio.Event().wait()

    @agf.agent(registry=registry)
    def asked(prompt: str) -> str:
        return prompt

    steps, is_over, status, calls, sessions = COUNTED[how]
    runs: list[agf.Run] = []
    rows = agf.Over(table=[{"n": n} for n in range(4)], width=1) if is_over else None
    text = f"{{pipeline: p, steps: [{', '.join(steps)}]}}"
    runs.append(agf.start(text, registry=registry, over=rows))
    run = runs[0].wait()
    assert (run.status, run.calls, run.sessions) == (status, calls, sessions)


@pytest.mark.parametrize("value", [9007199254740993, 10**30, True, "text", 1.5])
def test_tables_of_steps_and_calls_keep_a_value_beside_a_missing_one(value: object) -> None:
    pytest.importorskip("pandas")
    registry = agf.Registry()
    agf.tool(lambda given: given, name="give", registry=registry)
    agf.define("pipeline: given\nsteps:\n- tool: {name: give, args: {given: !expr ctx.given}}\n"
               "- tool: {name: give, args: {given: null}}", registry=registry)  # fmt: skip
    run = agf.run("given", {"given": value}, registry=registry)
    for table in (run.trace, agf.runs(run.run_id).trace, agf.runs(run.run_id).calls):
        outputs = table.to_pandas()["output"]
        assert (outputs[0], isinstance(outputs[0], float)) == (value, isinstance(value, float))
        assert outputs.isna().tolist() == [False, True]


def test_a_run_that_is_cancelled_before_its_first_step_is_in_the_journal() -> None:
    registry = agf.Registry()
    agf.define("pipeline: short\nsteps: [{transform: {value: ctx.n}}]", registry=registry)
    early = agf.start("short", {"n": 1}, registry=registry)
    early.cancel()
    early.wait()
    assert early.status == "cancelled"
    later = agf.run("short", {"n": 2}, registry=registry)
    assert [(run.run_id, run.status) for run in agf.runs(flow="short")] == [
        (later.run_id, "ok"),
        (early.run_id, "cancelled"),
    ]
    assert agf.runs("short").run_id == later.run_id
    assert agf.resume(early, registry=registry).output == 1


def test_all_steps_of_a_run_that_ended_well_have_ended() -> None:
    """A secret that cannot be searched for: the tree of the run is not stored."""
    registry = agf.Registry()
    agf.tool(lambda pin: "open", name="unlock", secret=["pin"], registry=registry)
    text = """
        pipeline: opened
        steps:
        - transform: {value: "1"}
        - for_each:
            over: "[1, 2]"
            on_error: abort
            do: {tool: {name: unlock, args: {pin: !expr ctx.pin}}}
            collect: {transform: {value: pipe}}
        - transform: {value: "'last'"}
        """
    run = agf.run(textwrap.dedent(text), {"pin": "42"}, registry=registry)
    past = agf.runs(run.run_id)
    assert (past.status, {row["status"] for row in past.trace}) == ("ok", {"ok"})


def test_a_list_without_runs_says_how_many_there_are_else() -> None:
    registry = agf.Registry()
    assert "starts one" in repr(agf.runs())
    flow = agf.define("pipeline: one\nsteps: [{transform: {value: '1'}}]", registry=registry)
    agf.run(flow, registry=registry)
    for runs in (agf.runs(status="waiting"), agf.runs(flow="other"), agf.runs().waiting):
        assert (len(runs), repr(runs)) == (0, "none of 1 run fits: agf.runs() has all")
    assert len(agf.runs(flow=flow)) == 1


@pytest.mark.parametrize("name", ["flow", "text"])
def test_a_filter_that_is_no_text_is_refused(name: str) -> None:
    with pytest.raises(agf.DefinitionError, match=f"{name} is a text, not a number"):
        agf.runs(**{name: 5})  # type: ignore[arg-type]  # wrong on purpose


def test_an_error_of_a_file_names_the_file_that_was_written() -> None:
    run = agf.run("pipeline: one\nsteps: [{transform: {value: '1'}}]", registry=agf.Registry())
    for write, name in (
        (agf.runs(run.run_id).export, "missing/run.json"),
        (lambda path: agf.report(run, path), "missing/run.html"),
        (agf.context("saved").save, "missing/saved.jsonl"),
    ):
        with pytest.raises(agf.DefinitionError) as caught:
            write(name)
        assert caught.value.code == "file.not-written"
        assert repr(name) in caught.value.diagnostic.message
