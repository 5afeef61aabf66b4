"""What went into a step and came out of it: in its panel for each kind of step, in this kernel and from the journal."""

from __future__ import annotations

from typing import Any

import pytest

import agf_magics as agf
from agf_magics.notebook.explorer.request_types import AnyRun
from agf_magics.notebook.explorer.requests import requests_of
from agf_magics.pictures.row_words import listed

pytestmark = pytest.mark.usefixtures("journaled")

SUB = "pipeline: sub\nsteps: [{tool: {name: half, args: {n: !expr ctx.n}, output: n}}]"
EACH = "[{for_each: {over: ctx.numbers, on_error: continue, do: %s, collect: {transform: {value: pipe}}}}]"
HALF = "{tool: {name: half, args: {n: !expr item}}}"
PARALLEL = """[{parallel: {on_error: continue, branches: {left: {tool: {name: half, args: {n: 2}, output: one}},
right: {tool: {name: half, args: {n: 7}}}}, collect: {transform: {value: left}}}}]"""
BATCH = "id: agf.batch\nconfig: {agent: halves, input_mapping: {n: 'parent.input.numbers.[]'}}"
MAP = """\
name: g
state: {numbers: list}
nodes:
  each: {type: map, over: "{state.numbers}", as: n, node: {type: python, tool: half_of}, collect: out, min_success: 1}
edges: [{from: START, to: each}, {from: each, to: END}]
"""
IN, OUT, CALLS, VALUES = "input", "output", "calls", "values"
"""What a panel has: the input, the output, a list of the calls, and the values that its expressions read."""

KINDS = {
    "a tool": ("[{tool: {name: half, args: {n: 2}}}]", {"steps[0]": {IN, OUT}}),
    "a transform": ("[{transform: {value: ctx.numbers}}]", {"steps[0]": {OUT, VALUES}}),
    "a fan-out of calls": (EACH % HALF, {"steps[0]": {IN, OUT, CALLS}, "steps[0].do": {CALLS}}),
    "a fan-out of flows": (EACH % "{call: {pipeline: sub, pass: {n: item}}}", {"steps[0]": {IN, OUT, CALLS}}),
    "a fan-out of expressions": (EACH % "{transform: {value: item}}", {"steps[0]": {IN, OUT, CALLS, VALUES}}),
    "a fold": (
        '[{fold: {over: ctx.numbers, init: "0", output: sum, do: {transform: {value: acc + item}}}}]',
        {"steps[0]": {IN, OUT, CALLS, VALUES}, "steps[0].do": {CALLS, VALUES}},
    ),
    "branches, which read what they need": (PARALLEL, {"steps[0]": {OUT, CALLS}, "steps[0].branches.left": {IN, OUT}}),
    "a match": (
        '[{match: {on: count(ctx.numbers), cases: {3: {pipeline: sub, pass: {n: "4"}}}}}]',
        {"steps[0]": {OUT, VALUES}},
    ),
    "a called flow": (
        '[{call: {pipeline: sub, pass: {n: "4"}}}]', {"steps[0]": {OUT, VALUES}, "steps[0]/steps[0]": {IN, OUT}}
    ),
    "a batch of a policy": (BATCH, {"batch": {IN, OUT, CALLS}}),
    "a map of a graph": (MAP, {"nodes.each": {IN, OUT, CALLS}}),
}  # fmt: skip


def run_of(text: str, numbers: Any) -> agf.Run:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    async def half(n: int) -> int:
        if n == 7:
            raise ValueError("seven")
        return n // 2

    @agf.agent(registry=registry)
    def halves(n: int) -> int:
        return n // 2

    @agf.tool(registry=registry)
    def half_of(state: dict[str, Any]) -> int:
        return int(state["n"]) // 2

    agf.define(SUB, registry=registry)
    text = f"pipeline: p\nsteps: {text}" if text.startswith("[") else text
    return agf.run(text, {"numbers": numbers}, registry=registry)


def panel(view: AnyRun, step: str) -> dict[str, Any]:
    facts: dict[str, Any] = requests_of(view)["step"]({"step": step})
    return facts


@pytest.mark.parametrize("kind", KINDS)
def test_a_panel_has_the_input_and_the_output_or_the_calls_that_have_them(kind: str) -> None:
    text, expected = KINDS[kind]
    run = run_of(text, [2, 4, 7])
    for view in (run, agf.runs(run.run_id)):
        assert expected.keys() <= {row.id for row in listed(view.progress)}
        for row in listed(view.progress):
            facts = panel(view, row.id)
            has = {part for part in (IN, OUT) if part in facts}
            has |= {CALLS} if facts["many"] else set()
            has |= {VALUES} if facts["evaluates"] else set()
            assert has, row.id
            assert has == expected.get(row.id, has), row.id


def test_a_fan_out_has_its_sequence_and_what_was_collected() -> None:
    run = run_of(EACH % HALF, [2, 4, 7])
    for view in (run, agf.runs(run.run_id)):
        facts = panel(view, "steps[0]")
        for part, numbers in ((IN, "247"), (OUT, "12")):
            assert [shown["text"] for _, shown in facts[part]["parts"]] == list(numbers)


BRIEFS = {
    # a step of two branches, and how its result or its error begins
    "a result": ("{tool: {name: told, args: {what: short}}}", "→ a <b>text</b>"),
    "a part of a long result": ("{tool: {name: told, args: {what: long}}}", f"→ {'x' * 149}…"),
    "an object": ("{tool: {name: told, args: {what: object}}}", '→ city: "Ulm", days: [1, 2]'),
    "a masked secret": ("{tool: {name: told, args: {what: secret}}}", "→ the key is •••"),
    "an error": ("{tool: {name: told, args: {what: error}}}", "✗ ValueError: it is down: •••"),
    "a step that has not run": ("{tool: {name: told, args: {what: late}}}", None),
}
SECRET = "sk-0123456789abcdef"


@pytest.mark.parametrize("case", BRIEFS)
def test_a_tooltip_has_the_beginning_of_a_result_or_the_first_line_of_an_error(
    case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SOME_API_KEY", SECRET)
    registry = agf.Registry()
    results = {"short": "a <b>text</b>", "long": "x" * 10_000, "object": {"city": "Ulm", "days": [1, 2]}}

    @agf.tool(registry=registry)
    def told(what: str) -> Any:
        if what == "error":
            raise ValueError(f"it is down: {SECRET}\nand more")
        return f"the key is {SECRET}" if what == "secret" else results[what]

    step, brief = BRIEFS[case]
    failing = "- tool: {name: told, args: {what: error}}\n" if brief is None else ""
    run = agf.start(f"pipeline: p\nsteps:\n{failing}- {step[1:-1]}", registry=registry)
    run.wait()
    for view in (run, agf.runs(run.run_id)):
        assert panel(view, f"steps[{int(bool(failing))}]").get("brief") == brief


def test_a_preview_in_the_journal_says_what_it_lacks() -> None:
    run = run_of(EACH % HALF, list(range(10, 1_010)))
    facts = panel(agf.runs(run.run_id), "steps[0]")
    for part in (IN, OUT):
        assert facts[part]["title"] == "1,000 items"
        assert len(facts[part]["parts"]) + facts[part]["more"] == 1_000


def test_a_call_shows_what_each_argument_is_also_if_a_long_one_is_first() -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def use(text: str, items: list[int], deep: dict[str, Any], other: object) -> int:
        return len(items)

    @agf.tool(registry=registry)
    def other() -> object:
        return object()

    given = {"text": "line\n" * 900, "items": list(range(500)), "deep": {"a": {"b": [1, 2]}}}
    text = """\
pipeline: p
steps:
- tool: {name: other, output: o}
- tool: {name: use, args: {text: !expr ctx.text, items: !expr ctx.items, deep: !expr ctx.deep, other: !expr o}}
"""
    run = agf.run(text, given, registry=registry)
    for view in (run, agf.runs(run.run_id)):
        shown = dict(panel(view, "steps[1]")[IN]["parts"])
        assert shown["items"]["title"] == "500 items"
        assert shown["deep"]["title"] == "1 field"
        assert shown["text"]["text"].endswith('…"')
        assert shown["text"]["all"].startswith("line\nline\n")
        assert len(shown["text"]["all"]) > 1_500
        assert shown["other"]["text"].startswith("⟨")


def test_a_called_flow_has_the_names_that_it_got() -> None:
    run = run_of('[{call: {pipeline: sub, pass: {n: "4"}}}]', [2])
    for view in (run, agf.runs(run.run_id)):
        whole = requests_of(view)["evaluations"]({"step": "steps[0]"})["whole"]
        assert [(name, shown["text"]) for name, shown in whole] == [("n", "4")]


def test_a_fold_over_a_call_has_its_accumulator_and_its_elements() -> None:
    fold = '[{fold: {over: ctx.numbers, init: "0", output: sum, do: {call: {pipeline: sub, pass: {n: item}}}}}]'
    run = run_of(fold, [2, 4])
    for view in (run, agf.runs(run.run_id)):
        rows = requests_of(view)["evaluations"]({"step": "steps[0]"})["rows"]
        assert [[name for name, _ in row.given] for row in rows] == [["acc", "item"]] * 2
