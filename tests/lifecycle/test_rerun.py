"""A run is repeated from a step on: some calls are made again, and the other results are reused."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path

import pytest

import agf_magics as agf
from agf_magics.catalog import Registry
from agf_magics.lifecycle.past.past_runs import delete
from agf_magics.pictures.row_words import took
from tests.engine.kept import journal_in

Calls = list[str]

PIPELINE = """\
pipeline: main
steps:
- tool: {name: note, args: {word: a}, output: a}
- parallel:
    branches:
      left: {tool: {name: note, args: {word: left}}}
      right: {call: {pipeline: inner}}
    collect: {tool: {name: note, args: {word: collect}}}
    output: both
- for_each:
    items: [x, y]
    on_error: abort
    do: {tool: {name: note, args: {word: !expr item}}}
    collect: {transform: {value: pipe}}
- tool: {name: note, args: {word: !expr ctx.last}}
"""
INNER = """\
pipeline: inner
steps:
- tool: {name: note, args: {word: first}}
- tool: {name: note, args: {word: second}}
"""
PLAN = """\
name: main
calls:
- {_tool: note, word: a, _outputPath: †state.a}
- {_tool: note, word: b, _outputPath: †state.b}
- {_tool: note, word: †state.a, _outputPath: †state.c}
- {_tool: note, word: †state.c, _outputPath: †state.d}
"""
LISTED = """\
schema_version: "1.0.0"
metadata: {id: main, name: Main, version: "1.0.0", description: Counts a list.}
interface: {input: {type: array}, output: {}}
execution_policy: {id: agf.sequential, config: {steps: [{agent: count}]}}
"""
GRAPH = """\
state: {n: int, w: str}
nodes:
  one: {type: tool_call, tool: note, args: {word: one}, state_key: w}
  two: {type: tool_call, tool: note, args: {word: two}, state_key: w}
  count: {type: passthrough, output: {n: "{state.n + 1}"}}
  three: {type: tool_call, tool: note, args: {word: three}, state_key: w}
edges:
- {from: START, to: one}
- {from: one, to: two}
- {from: two, to: count}
- {from: count, to: one, condition: n < 2}
- {from: count, to: three, condition: else}
- {from: three, to: END}
"""


class World:
    def __init__(self, folder: Path) -> None:
        self.file = folder / "calls"
        self.registry = Registry()
        path = str(self.file)  # a function that captures the registry would have no digest

        async def note(word: str) -> str:
            with open(path, "a") as file:
                file.write(f"{word}\n")
            return word.upper()

        agf.tool(note, registry=self.registry)
        agf.define(INNER, registry=self.registry)

    def again(self, run: agf.Run, step: str, **fields: str) -> Calls:
        """The calls that a run from ``step`` makes."""
        self.file.unlink()
        agf.rerun(run.run_id, step, input=fields, registry=self.registry)
        return sorted(self.calls)

    @property
    def calls(self) -> Calls:
        return self.file.read_text().split() if self.file.exists() else []


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    with journal_in(tmp_path):
        yield World(tmp_path)


AFTER = ["x", "y", "z"]


@pytest.mark.parametrize(
    ("step", "calls"),
    [
        ("steps[3]", ["z"]),
        ("steps[2]", AFTER),
        ("steps[2].do", AFTER),
        ("steps[1].branches.left", ["collect", "left", *AFTER]),
        ("steps[1].branches.right/steps[1]", ["collect", "second", *AFTER]),
        ("steps[1].branches.right", ["collect", "first", "second", *AFTER]),
        ("steps[1]", ["collect", "first", "left", "second", *AFTER]),
        ("steps[0]", ["a", "collect", "first", "left", "second", *AFTER]),
    ],
)
def test_a_pipeline_calls_the_step_and_what_comes_after_it_again(world: World, step: str, calls: Calls) -> None:
    agf.define(PIPELINE, registry=world.registry)
    run = agf.run("main", {"last": "z"}, registry=world.registry)
    assert world.again(run, step) == calls


def test_a_field_of_an_input_without_fields_is_refused(world: World) -> None:
    agf.agent(lambda input: len(input), name="count", registry=world.registry)
    agf.define(LISTED, "policy", registry=world.registry)
    run = agf.run("main", ["a", "b"], registry=world.registry)
    assert agf.rerun(run.run_id, "steps[0]", registry=world.registry).output == 2
    with pytest.raises(agf.DefinitionError, match="is a list: it has no field 'word'") as caught:
        agf.rerun(run.run_id, "steps[0]", input={"word": "z"}, registry=world.registry)
    assert caught.value.code == "journal.other-input"
    with pytest.raises(agf.DefinitionError, match="is a list: it has no field 'word'"):
        agf.stale(run, input={"word": "z"}, registry=world.registry)


@pytest.mark.parametrize(("number", "calls"), [(0, ["A", "A", "a"]), (1, ["b"]), (2, ["A", "A"]), (3, ["A"])])
def test_a_plan_follows_its_wires(world: World, number: int, calls: Calls) -> None:
    agf.define(PLAN, "plan", registry=world.registry)
    run = agf.run("main", registry=world.registry)
    step = list(run.steps)[number]
    assert world.again(run, step) == calls


@pytest.mark.parametrize(
    ("node", "calls"),
    [("one", ["one", "one", "three", "two", "two"]), ("two", ["one", "three", "two", "two"]), ("three", ["three"])],
)
def test_a_graph_follows_its_edges_and_reuses_the_visits_before_the_step(world: World, node: str, calls: Calls) -> None:
    agf.define(GRAPH, "graph", name="main", registry=world.registry)
    run = agf.run("main", {"n": 0}, registry=world.registry)
    step = next(row.id for row in run.steps.values() if row.id.endswith(node))
    assert world.again(run, step) == calls


def test_another_input_repeats_its_readers_even_before_the_step(world: World) -> None:
    agf.define("pipeline: main\nsteps:\n- tool: {name: note, args: {word: !expr ctx.one}}\n"
               "- tool: {name: note, args: {word: two}}\n- tool: {name: note, args: {word: three}}",
               registry=world.registry)  # fmt: skip
    run = agf.run("main", {"one": "1"}, registry=world.registry)
    assert world.again(run, "steps[2]", one="other") == ["other", "three"]


def test_the_edited_definition_runs_and_the_run_says_what_it_reused(world: World) -> None:
    agf.define(INNER.replace("inner", "main"), registry=world.registry)
    run = agf.run("main", registry=world.registry)
    agf.define(INNER.replace("inner", "main").replace("second", "edited"), registry=world.registry)
    world.file.unlink()
    again = agf.rerun(run.run_id, "steps[1]", registry=world.registry)
    assert world.calls == ["edited"]
    assert again.note.endswith(f" of {run.run_id}; 1 call reused")
    assert again.run_id != run.run_id
    assert agf.runs(run.run_id).output == "SECOND"


FAILING = """\
pipeline: main
steps:
- for_each:
    items: [one, two, three]
    on_error: continue
    do: {tool: {name: pick, args: {word: !expr item}, on_error: RETRY}}
    collect: {transform: {value: pipe}}
    output: kept
- tool: {name: pick, args: {word: lost}, on_error: continue}
- tool: {name: note, args: {word: end}}
- tool: {name: note, args: {word: last}}
"""


@pytest.mark.parametrize("retry", ["raise", "retry(1)"])
@pytest.mark.parametrize(
    ("step", "edit", "calls"),
    [
        ("steps[3]", None, ["last"]),
        ("steps[2]", None, ["end", "last"]),
        ("steps[1]", None, ["end", "last", "lost"]),
        ("steps[0]", None, ["end", "last", "lost", "one", "three", "two"]),
        ("steps[3]", ("items: [one, two", "items: [one, lost"), ["last", "lost"]),
    ],
)
def test_a_failure_before_the_step_that_the_run_went_on_without_is_reused_as_a_failure(
    world: World, step: str, edit: tuple[str, str] | None, calls: Calls, retry: str
) -> None:
    path = str(world.file)

    async def pick(word: str) -> str:
        with open(path, "a") as file:
            file.write(f"{word}\n")
        if word in ("two", "lost"):
            raise ValueError(word)
        return word

    agf.tool(pick, registry=world.registry)
    text = FAILING.replace(", on_error: RETRY", "" if retry == "raise" else f", on_error: {retry}")
    agf.define(text, registry=world.registry)
    run = agf.run("main", registry=world.registry)
    assert run.progress.failed == 2
    if edit is not None:
        agf.define(text.replace(*edit), registry=world.registry)
    world.file.unlink()
    again = agf.rerun(run.run_id, step, registry=world.registry)
    assert sorted(set(world.calls)) == calls
    for view in (again, agf.runs(again.run_id)):
        assert view.progress.failed == 2
        assert str(view.progress.failures[-1].error).startswith("tool 'pick' failed: ValueError: lost")
    # A run that goes on and one that is repeated from there know the failures, too.
    world.file.unlink()
    agf.rerun(again.run_id, "steps[3]", registry=world.registry)
    assert world.calls == ["last"]


def test_a_failure_of_a_function_that_was_mended_is_not_reused(world: World) -> None:
    path = str(world.file)

    def picking(is_mended: bool) -> None:
        async def pick(word: str) -> str:
            with open(path, "a") as file:
                file.write(f"{word}\n")
            if word in ("two", "lost") and not is_mended:
                raise ValueError(word)
            return word

        agf.tool(pick, registry=world.registry)

    picking(False)
    agf.define(FAILING.replace(", on_error: RETRY", ""), registry=world.registry)
    run = agf.run("main", registry=world.registry)
    picking(True)
    assert world.again(run, "steps[3]") == ["last", "lost", "one", "three", "two"]


@pytest.mark.parametrize(
    ("step", "edited", "message"),
    [
        ("steps[7]", INNER, "has no step 'steps[7]'"),
        ("steps[1]", "pipeline: inner\nsteps: [{transform: {value: '1'}}]", "the definition of 'inner' has no step"),
    ],
)
def test_a_step_that_a_definition_lacks_is_named_and_nothing_runs(
    world: World, step: str, edited: str, message: str
) -> None:
    run = agf.run("inner", registry=world.registry)
    agf.define(edited, registry=world.registry)
    with pytest.raises(agf.DefinitionError) as refused:
        world.again(run, step)
    assert refused.value.code == "journal.unknown-step"
    assert message in str(refused.value)
    assert world.calls == []


def test_a_flow_that_is_no_longer_registered_is_named(world: World) -> None:
    run = agf.run("inner", registry=world.registry)
    with pytest.raises(agf.DefinitionError, match="no flow 'inner' is registered"):
        agf.rerun(run.run_id, "steps[1]", registry=Registry())


SECRET = "pipeline: main\nsteps:\n- transform: {value: '1'}\n- tool: {name: ask, args: {token: !expr ctx.token}}"


def test_a_live_run_still_has_its_secret_input_and_a_past_one_names_what_to_give_again(world: World) -> None:
    agf.tool(lambda token: len(token), name="ask", secret=("token",), registry=world.registry)
    agf.define(SECRET, registry=world.registry)
    live = agf.start("main", {"token": "s3cret-value"}, registry=world.registry)
    live.result()
    assert agf.rerun(live.run_id, "steps[1]", registry=world.registry).output == 12
    past = agf.run("main", {"token": "s3cret-value"}, registry=world.registry)
    with pytest.raises(agf.DefinitionError, match="secret and not in the journal"):
        agf.rerun(past.run_id, "steps[1]", registry=world.registry)
    fields = {"token": "other"}
    assert agf.rerun(past.run_id, "steps[1]", input=fields, registry=world.registry).output == 5


def test_an_input_that_is_not_in_the_journal_is_not_replaced_by_its_preview(world: World) -> None:
    agf.tool(lambda held: "fine", name="look", registry=world.registry)
    agf.define("pipeline: main\nsteps:\n- tool: {name: look, args: {held: !expr ctx.held}}", registry=world.registry)
    run = agf.run("main", {"held": (n for n in ())}, registry=world.registry)  # type: ignore[var-annotated]
    with pytest.raises(agf.DefinitionError, match="is not in the journal"):
        agf.rerun(run.run_id, "steps[0]", registry=world.registry)
    again = agf.rerun(run.run_id, "steps[0]", input={"held": 1}, registry=world.registry)
    assert (again.output, again.input) == ("fine", {"held": 1})


@pytest.mark.parametrize("given", [{1, 2}, b"12", Decimal("1.2"), date(2026, 1, 2), {1: 2}, [{"inner": {3}}]], ids=repr)
def test_an_input_that_is_no_json_is_given_again_as_it_was(world: World, given: object) -> None:
    agf.tool(lambda given: repr(given), name="look", registry=world.registry)
    agf.define("pipeline: main\nsteps:\n- transform: {value: '1'}\n"
               "- tool: {name: look, args: {given: !expr ctx.given}}", registry=world.registry)  # fmt: skip
    run = agf.run("main", {"given": given, "more": 1}, registry=world.registry)
    past = agf.runs(run.run_id)
    assert agf.rerun(past, "steps[1]", registry=world.registry).output == repr(given)
    assert agf.rerun(past, "steps[1]", input={"more": 2}, registry=world.registry).input == {"given": given, "more": 2}
    assert [row["state"] for row in agf.stale(past, registry=world.registry)] == ["", "reused"]


def test_a_run_that_was_deleted_is_not_run_again_from_a_step(tmp_path: Path) -> None:
    """Without its records, all calls would be made again."""
    registry = agf.Registry()
    agf.tool(lambda word: word, name="note", registry=registry)
    agf.define("{pipeline: one, steps: [{tool: {name: note, args: {word: a}}}]}", registry=registry)
    with journal_in(tmp_path):
        run = agf.run("one", registry=registry)
        assert delete([run.run_id]) == [run.run_id]
        with pytest.raises(agf.DefinitionError, match=r"journal\.unknown-run"):
            agf.rerun(run, "steps[0]", registry=registry)


TALLY = """
context: tally
calls:
- {_tool: twice, n: $state.n || 1, _outputPath: $state.n}
output: $state.n
"""


@pytest.fixture
def tally(tmp_path: Path) -> Iterator[agf.Registry]:
    registry = agf.Registry()
    agf.tool(lambda n: 2 * n, name="twice", registry=registry)
    agf.define(TALLY, "plan", name="count", registry=registry)
    with journal_in(tmp_path):
        yield registry


def test_a_plan_is_run_again_with_the_messages_that_it_had(tally: agf.Registry) -> None:
    first, second = (agf.run("count", registry=tally) for _ in range(2))
    assert (first.output, second.output) == (2, 4)
    again = agf.rerun(second.run_id, "calls[0]", registry=tally)
    assert (again.output, again.warnings) == (4, ())
    # The run replaces the one that it repeats, so the next one goes on from it.
    assert agf.run("count", registry=tally).output == 8
    old = agf.rerun(first.run_id, "calls[0]", registry=tally)
    assert (old.output, [warning.code for warning in old.warnings]) == (2, ["journal.context"])
    assert agf.run("count", registry=tally).output == 16


def test_a_refused_run_leaves_the_messages_as_they_are(tally: agf.Registry) -> None:
    run = agf.run("count", registry=tally)
    agf.define("context: tally\ncalls: []\n", "plan", name="count", registry=tally)
    with pytest.raises(agf.DefinitionError, match=r"journal\.unknown-step"):
        agf.rerun(run.run_id, "calls[0]", registry=tally)
    agf.define(TALLY, "plan", name="count", registry=tally)
    assert agf.run("count", registry=tally).output == 4


def test_a_step_whose_results_are_those_of_another_run_has_no_time(tmp_path: Path) -> None:
    registry, fails = agf.Registry(), [True]

    @agf.tool(registry=registry)
    def load(x: int) -> int:
        return x

    @agf.tool(registry=registry)
    def check(x: int) -> int:
        if fails:
            raise ValueError("no")
        return x

    text = """
pipeline: checked
steps:
- tool: {name: load, args: {x: 1}, output: a}
- for_each:
    items: [1, 2]
    on_error: abort
    do: {tool: {name: load, args: {x: !expr item}}}
    collect: {transform: {value: pipe}}
    output: b
- tool: {name: check, args: {x: !expr ctx.a}, output: c}
"""
    with journal_in(tmp_path):
        agf.define(text, registry=registry)
        failed = agf.run("checked", registry=registry, raises=False)
        fails.clear()
        again = agf.rerun(failed.run_id, "steps[2]", registry=registry)
        for view in (again, agf.runs(again.run_id)):
            rows = view.progress.rows
            times = {id: took(rows[(id,)]) for id in ("steps[0]", "steps[1]", "steps[2]")}
            assert (times["steps[0]"], times["steps[1]"], bool(times["steps[2]"])) == ("", "", True)
            assert [rows[(id,)].is_reused for id in times] == [True, True, False]
        # What a resumed run kept has the time in which this run made it.
        resumed = agf.resume(failed.run_id, registry=registry)
        assert took(resumed.progress.rows[("steps[0]",)])
