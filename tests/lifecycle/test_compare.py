"""The comparison of two runs: which steps are the same after an edit, or in different flows."""

import pickle
from itertools import pairwise
from typing import Any

import pandas
import pyarrow
import pytest

import agf_magics as agf
from agf_magics.text.source import Source

pytestmark = pytest.mark.usefixtures("journaled")

TOOLS = ("load", "clean", "dedupe", "text", "since", "extra")
INNER = "pipeline: inner\nsteps:\n- tool: {name: load, args: {x: !expr ctx.x}, output: a}\n"
INPUT = {"start": "begin", "items": ["x", "y"]}


@pytest.fixture
def registry() -> agf.Registry:
    registry = agf.Registry()
    for name in TOOLS:

        def call(x: object, name: str = name) -> str:
            return f"{name}({x})"

        def agent(x: object, name: str = name) -> dict[str, str]:
            return {"said": f"{name}({x})"}

        call.__name__ = call.__qualname__ = name
        agent.__name__ = agent.__qualname__ = f"{name}_agent"
        agf.tool(call, registry=registry)
        agf.agent(agent, registry=registry)
    agf.define(INNER, registry=registry)
    return registry


def past_run(registry: agf.Registry, language: str, text: str, name: str = "main") -> agf.PastRun:
    agf.define(text, language, name=name, registry=registry)
    return agf.runs(agf.run(name, {} if language == "plan" else INPUT, registry=registry).run_id)


def tool(name: str, output: str, x: str = "k") -> str:
    return f"- tool: {{name: {name}, args: {{x: {x}}}, output: {output}}}\n"


def pipeline(*steps: str) -> str:
    return "pipeline: main\nsteps:\n" + "".join(steps)


def fan_out(name: str, output: str) -> str:
    return (
        "- for_each:\n    over: ctx.items\n    on_error: abort\n"
        f"    do: {{tool: {{name: {name}, args: {{x: !expr item}}}}}}\n"
        f"    collect: {{transform: {{value: pipe}}}}\n    output: {output}\n"
    )


def calling(pipeline: str) -> str:
    return f"- call: {{pipeline: {pipeline}, pass: {{x: ctx.start}}}}\n"


def policy(*agents: str) -> str:
    steps = "".join(f"  - {{agent: {name}_agent, input_mapping: {{x: parent.input.start}}}}\n" for name in agents)
    return f"id: agf.sequential\nconfig:\n  steps:\n{steps}"


def plan(*tools: str) -> str:
    return "name: main\nstate: {}\ncalls:\n" + "".join(
        f"- {{_tool: {name}, x: k, _outputPath: $state.{name}}}\n" for name in tools
    )


def graph(**nodes: str) -> str:
    lines = [
        f"  {node}: {{type: tool_call, tool: {name}, args: {{x: k}}, state_key: out}}\n" for node, name in nodes.items()
    ]
    names = ["START", *nodes, "END"]
    edges = [f"- {{from: {source}, to: {target}}}\n" for source, target in pairwise(names)]
    return f"state: {{start: str, items: list, out: str}}\nnodes:\n{''.join(lines)}edges:\n{''.join(edges)}"


LOAD, CLEAN, TEXT = tool("load", "raw"), tool("clean", "tidy"), tool("text", "said")
NEW = tool("dedupe", "fresh")
FIRST, SECOND = "only in the first", "only in the second"

CASES = {
    "equal": ("pipeline", pipeline(LOAD, CLEAN), pipeline(LOAD, CLEAN), {"raw": "", "tidy": ""}),
    "inserted": (
        *("pipeline", pipeline(LOAD, CLEAN, TEXT), pipeline(LOAD, NEW, CLEAN, TEXT)),
        {"raw": "", "tidy": "", "said": "", "fresh": SECOND},
    ),
    "inserted, and it writes what another step wrote": (
        *("pipeline", pipeline(LOAD, CLEAN), pipeline(LOAD, tool("clean", "cleaned"), tool("dedupe", "tidy"))),
        {"raw": "", "tidy → cleaned": "", "tidy": SECOND},
    ),
    "removed": (
        *("pipeline", pipeline(LOAD, NEW, CLEAN, TEXT), pipeline(LOAD, CLEAN, TEXT)),
        {"raw": "", "fresh": FIRST, "tidy": "", "said": ""},
    ),
    "moved": (
        *("pipeline", pipeline(LOAD, NEW, CLEAN, TEXT), pipeline(LOAD, CLEAN, TEXT, NEW)),
        {"raw": "", "tidy": "", "said": "", "fresh": ""},
    ),
    "turned round": (
        *("pipeline", pipeline(LOAD, NEW, CLEAN), pipeline(CLEAN, NEW, LOAD)),
        {"raw": "", "tidy": "", "fresh": ""},
    ),
    "renamed": (
        *("pipeline", pipeline(LOAD, CLEAN), pipeline(LOAD, tool("clean", "neat"))),
        {"raw": "", "tidy → neat": ""},
    ),
    "replaced": (
        *("pipeline", pipeline(LOAD, CLEAN, TEXT), pipeline(LOAD, NEW, TEXT)),
        {"raw": "", "tidy → fresh": "yes", "said": ""},
    ),
    "an argument is edited": (
        *("pipeline", pipeline(LOAD, CLEAN), pipeline(NEW, LOAD, tool("clean", "tidy", "v"))),
        {"raw": "", "tidy": "yes", "fresh": SECOND},
    ),
    "nested": (
        *("pipeline", pipeline(LOAD, calling("inner")), pipeline(LOAD, CLEAN, calling("inner"))),
        {"raw": "", "a": "", "tidy": SECOND},
    ),
    "fan-out": (
        *("pipeline", pipeline(LOAD, fan_out("clean", "all")), pipeline(NEW, LOAD, fan_out("clean", "all"))),
        {"raw": "", "clean": "", "fresh": SECOND},
    ),
    "fan-out that is replaced": (
        *("pipeline", pipeline(LOAD, fan_out("clean", "all")), pipeline(LOAD, fan_out("text", "all"))),
        {"raw": "", "clean → text": "yes"},
    ),
    "policy": (
        *("policy", policy("load", "clean"), policy("dedupe", "load", "clean")),
        {"load_agent": "", "clean_agent": "", "dedupe_agent": SECOND},
    ),
    "plan": (
        *("plan", plan("load", "clean"), plan("dedupe", "load", "clean")),
        {"load": "", "clean": "", "dedupe": SECOND},
    ),
    "graph": (
        *("graph", graph(one="load", two="clean"), graph(new="dedupe", one="load", due="clean")),
        {"one": "", "two → due": "", "new": SECOND},
    ),
}


@pytest.mark.parametrize(("language", "first", "other", "expected"), CASES.values(), ids=CASES)
def test_a_step_is_compared_with_itself_at_any_place(
    registry: agf.Registry, language: str, first: str, other: str, expected: dict[str, str]
) -> None:
    compared = past_run(registry, language, first).compare(past_run(registry, language, other))
    assert sorted((row["name"], row["differs"]) for row in compared) == sorted(expected.items())
    for row in compared:
        calls = row["calls"], row["calls of the other"]
        lacks = {FIRST: calls[1], SECOND: calls[0]}.get(row["differs"])
        assert (lacks == 0) if lacks is not None else calls[0] == calls[1] > 0
    steps = {row["value"].split("#")[0].split(" ")[0] for row in compared.values if row["value"].startswith("steps[")}
    assert steps <= {row["step"] for row in compared if row["differs"] == "yes"}


def test_different_flows_share_the_steps_that_are_the_same(registry: agf.Registry) -> None:
    first_run = past_run(registry, "pipeline", pipeline(LOAD, tool("clean", "enriched"), TEXT), "main")
    text = pipeline(LOAD, tool("since", "since"), TEXT).replace("main", "second")
    two = past_run(registry, "pipeline", text, "second")
    rows = {row["name"]: row["differs"] for row in first_run.compare(two)}
    assert rows == {"raw": "", "enriched": FIRST, "said": "", "since": SECOND}


def test_flows_of_different_languages_are_compared(registry: agf.Registry) -> None:
    compared = past_run(registry, "pipeline", pipeline(LOAD, CLEAN)).compare(
        past_run(registry, "plan", plan("load", "since"), "other")
    )
    assert {row["name"]: row["differs"] for row in compared}["since"] == SECOND


def test_a_value_that_differs_has_the_path_of_the_first_run(registry: agf.Registry) -> None:
    first_run = past_run(registry, "pipeline", pipeline(LOAD, CLEAN))
    compared = first_run.compare(past_run(registry, "pipeline", pipeline(NEW, LOAD, tool("clean", "tidy", "v"))))
    values = {row["value"]: (row["first"], row["other"]) for row in compared.values}
    assert values["steps[1] input.x"] == ("k", "v")
    assert values["steps[1] output"] == ("clean(k)", "clean(v)")


def test_differences_are_displayed_first(registry: agf.Registry) -> None:
    names = ["load", "clean", "dedupe"]
    before = past_run(registry, "pipeline", pipeline(*(tool(name, name) for name in names)))
    after = past_run(
        registry, "pipeline", pipeline(*(tool(name, name, "j" if name == "dedupe" else "k") for name in names))
    )
    comparison = before.compare(after)
    assert [row["name"] for row in comparison] == names  # the data is in the order of the flow
    head, *rows = repr(comparison).split("\n\n")[0].split("\n")[1:]
    assert head.split()[:2] == ["name", "differs"]
    assert [row.split()[0] for row in rows] == ["dedupe", "load", "clean"]


def test_the_page_lists_steps_in_the_order_of_the_flow_and_no_element_twice(registry: agf.Registry) -> None:
    from agf_magics.notebook.display.run_comparison import compare_runs

    text = pipeline(LOAD, fan_out("clean", "cleaned"), TEXT)
    edited = pipeline(LOAD, NEW, fan_out("dedupe", "cleaned"), tool("text", "said", "other"))
    first_run, second_run = past_run(registry, "pipeline", text), past_run(registry, "pipeline", edited)
    comparison = compare_runs({"runs": [first_run.run_id, second_run.run_id]})
    assert [row.name for row in comparison["steps"]] == ["raw", "fresh", "clean → dedupe", "said"]
    names = [row.name for row in comparison["values"]]
    assert not any("#" in name or "steps[" in name for name in names)
    assert "said input.x" in names


def test_the_page_names_a_value_that_repeats_another_and_marks_what_a_run_lacks(registry: agf.Registry) -> None:
    from agf_magics.notebook.display.run_comparison import compare_runs

    def listed(items: list[object]) -> dict[str, object]:
        return {"n": len(items), "all": list(items)}

    agf.tool(listed, registry=registry)
    text = """\
steps:
- transform: {value: ctx.items, output: loaded}
- tool: {name: listed, args: {items: !expr ctx.loaded}, output: result}
"""
    first_run, second_run = (
        past_run(registry, "pipeline", text),
        past_run(registry, "pipeline", text.replace("ctx.items", "'[1, 2, 3, 4]'")),
    )
    rows = compare_runs({"runs": [first_run.run_id, second_run.run_id]})["values"]
    values = {row.name: (row.first, row.other) for row in rows}
    assert list(values) == [
        "output.n (also stores.result, result output)",
        "output.all: 4 parts",
        "stores.loaded: 4 parts (also result input.items)",
    ]
    assert values["output.all: 4 parts"][0].split("\n")[-1] == "[3]: —"


TABLES = """\
pipeline: tables
steps:
- tool: {name: table, args: {n: !expr ctx.n}, output: orders}
- tool: {name: table, args: {n: 7}, output: fixed}
- transform: {value: ctx.orders, output: copied}
- tool: {name: numbers, args: {n: !expr ctx.n}, output: rows}
"""


def test_a_store_without_json_is_compared_by_the_call_that_wrote_it(registry: agf.Registry) -> None:
    from agf_magics.notebook.display.run_comparison import compare_runs

    def table(n: int) -> object:
        return pandas.DataFrame({"n": [n, n], "name": ["a", "b"]})

    def numbers(n: int) -> list[int]:
        return [n + add for add in range(30)]

    for function in (table, numbers):
        agf.tool(function, registry=registry)
    agf.define(TABLES, name="tables", registry=registry)
    first_run, second_run = (agf.runs(agf.run("tables", {"n": n}, registry=registry).run_id) for n in (1, 2))
    differs = {row["value"]: row["differs"] for row in first_run.compare(second_run).values}
    assert {name: word for name, word in differs.items() if name.startswith(("stores.orders", "stores.copied"))} == {
        # An expression wrote the copy, so only the rows that are shown are compared.
        **dict.fromkeys(("stores.copied[0].n", "stores.copied[1].n"), "yes"),
        **dict.fromkeys(("stores.orders[0].n", "stores.orders[1].n"), "yes"),
    }
    assert not any(name.startswith("stores.fixed") for name in differs)
    values = compare_runs({"runs": [first_run.run_id, second_run.run_id]})["values"]
    names = [row.name for row in values]
    (tables,) = (row.table for row in values if row.name == "stores.copied (also stores.orders, orders output)")
    assert tables == {
        "about": "2 × 2 · 2 of the 2 rows differ",
        "columns": [["n", ""], ["name", ""]],
        "rows": [
            {"sign": "", "number": 0, "cells": [["1", "2"], ["a"]]},
            {"sign": "", "number": 1, "cells": [["1", "2"], ["b"]]},
        ],
        "more": "",
    }
    assert not any("steps[" in name for name in names)
    again = agf.runs(agf.run("tables", {"n": 1}, registry=registry, reuse=True).run_id)
    assert {row["value"]: row["differs"] for row in first_run.compare(again).values} == {
        "stores.copied": "not compared"
    }


@pytest.mark.parametrize(
    ("edited", "expected"),
    [
        ("", []),
        ("def measure(n: int) -> int:\n    return n * factor + 1", ["the code of measure was edited"]),
        ("factor = 3", ["measure reads factor, which changed"]),
        (
            "factor = 4\ndef measure(n: int) -> int:\n    return n * factor - 1",
            ["the code of measure was edited, and so was factor, which it reads"],
        ),
    ],
)
def test_a_comparison_names_the_functions_that_were_edited(
    registry: agf.Registry, edited: str, expected: list[str]
) -> None:
    from agf_magics.notebook.display.run_comparison import compare_runs

    names: dict[str, Any] = {"__name__": "__main__"}
    exec("factor = 2\ndef measure(n: int) -> int:\n    return n * factor", names)
    agf.tool(names["measure"], registry=registry)
    agf.define("pipeline: m\nsteps:\n- tool: {name: measure, args: {n: 1}}", name="m", registry=registry)
    first = agf.runs(agf.run("m", registry=registry).run_id)
    exec(edited, names)
    agf.tool(names["measure"], registry=registry)
    second = agf.runs(agf.run("m", registry=registry).run_id)
    comparison = first.compare(second)
    assert list(comparison.edited) == expected
    assert repr(comparison).startswith("Between the runs: " if expected else first.run_id)
    assert compare_runs({"runs": [first.run_id, second.run_id]})["edited"] == "".join(expected)


def test_what_differs_comes_before_what_was_not_compared(registry: agf.Registry) -> None:
    @agf.tool(registry=registry)
    def share(n: int) -> dict[str, object]:
        return {"frame": pandas.DataFrame({"n": range(50)}), "part": n}

    text = (
        "pipeline: shares\nsteps:\n- tool: {name: share, args: {n: !expr ctx.n}, output: all}\n"
        "- transform: {value: all.frame, output: copied}\n- transform: {value: all.part, output: part}"
    )
    first, second = (agf.runs(agf.run(text, {"n": n}, registry=registry).run_id) for n in (1, 2))
    differs = [row["differs"] for row in first.compare(second).values]
    assert {"yes", "not compared"} == {*differs}
    assert differs == sorted(differs, reverse=True)


@pytest.mark.parametrize(
    ("differs", "first", "other", "texts"),
    [
        ("not compared", 0.1 + 0.2, 0.1 + 0.2, ["0.3", "0.3"]),
        ("not compared", [1 / 3], {"n": 1 / 3}, ["≈ 0.333333", "≈ 0.333333"]),
        ("yes", 0.1 + 0.2, 0.3, ["0.30000000000000004", "0.3"]),
        ("only in the first", 0.1 + 0.2, None, ["0.30000000000000004", ""]),
    ],
)
def test_only_a_number_that_differs_has_all_its_digits(
    differs: str, first: object, other: object, texts: list[str]
) -> None:
    from agf_magics.lifecycle.past.comparison_tables import Differences
    from agf_magics.notebook.display.run_comparison import _both_values

    row = {"value": "output", "differs": differs, "first": first, "other": other, "also": ""}
    for shown in (_both_values(row), Differences([row])._table()[1][0][2:]):
        assert [text.strip("[]{}- ").removeprefix("n: ") for text in shown] == texts


def test_a_reused_table_is_the_same_although_a_second_pickle_has_other_bytes(registry: agf.Registry) -> None:
    @agf.tool(registry=registry)
    def table() -> object:
        frame = pandas.DataFrame({"n": range(1000), "name": ["a", "b"] * 500})
        sums = pyarrow.Table.from_pandas(frame).to_pandas().groupby("name").sum().reset_index()
        made = pyarrow.Table.from_pandas(sums, preserve_index=False)
        assert pickle.dumps(made, 5) != pickle.dumps(pickle.loads(pickle.dumps(made, 5)), 5)
        return made

    agf.define("pipeline: p\nsteps:\n- tool: {name: table, output: made}", name="p", registry=registry)
    first = agf.runs(agf.run("p", registry=registry).run_id)
    again = agf.runs(agf.run("p", registry=registry, reuse=True).run_id)
    compared = first.compare(again)
    assert [(row["differs"], row["reused of the other"]) for row in compared] == [("", 1)]
    # The output is a pickle of its own, whose bytes may say nothing.
    assert [(row["value"], row["differs"]) for row in compared.values] == [("output", "not compared")]


def test_a_comparison_says_what_was_reused_and_which_steps_have_no_call(registry: agf.Registry) -> None:
    same = "- transform: {value: ctx.raw, output: same}\n"
    steps = (LOAD, same, same, fan_out("clean", "all"), TEXT)
    first = past_run(registry, "pipeline", pipeline(*steps))
    again = agf.runs(agf.run("main", INPUT, registry=registry, reuse=first.run_id).run_id)
    compared = first.compare(again)
    assert [(row["name"], row["reused"], row["reused of the other"]) for row in compared] == [
        ("raw", 0, 1),
        ("clean", 0, 2),
        ("said", 0, 1),
    ]
    assert compared.uncalled == ("same",)
    assert first.compare(past_run(registry, "pipeline", pipeline(LOAD))).uncalled == ("same",)


def test_of_a_repeated_call_the_last_outcomes_are_compared(registry: agf.Registry) -> None:
    counts = iter((1, 1, 2))
    agf.tool(lambda: next(counts), name="count", registry=registry, reuse=False)

    @agf.tool(registry=registry)
    def check(count: int, least: int) -> int:
        if count < least:
            raise ValueError("too few")
        return 0

    agf.define("pipeline: counted\nsteps:\n- tool: {name: count, output: n}\n"
               "- tool: {name: check, args: {count: !expr ctx.n, least: !expr ctx.least}}\n",
               registry=registry)  # fmt: skip
    agf.define("pipeline: main\nsteps:\n- call: {pipeline: counted, pass: {least: ctx.least}, on_error: retry(1)}\n",
               registry=registry)  # fmt: skip
    first, other = (agf.runs(agf.run("main", {"least": least}, registry=registry).run_id) for least in (1, 2))
    for pair in ((first, other), (other, first)):
        rows = {row["label"]: row for row in pair[0].compare(pair[1])}
        assert (rows["count"]["same output"], rows["count"]["differs"]) == (0, "yes")


SAME_FAILURES = {
    "the same text in another cell": ("", "no figs", True),
    "the same call on another line": ("# a comment\n\n", "no figs", True),
    "another message": ("", "no dates", False),
    "no failure": ("", "", False),
}


@pytest.mark.parametrize("case", SAME_FAILURES)
def test_failures_are_the_same_if_their_codes_and_messages_are(case: str) -> None:
    above, message, is_same = SAME_FAILURES[case]

    def run_in_cell(cell: str, text: str, message: str) -> agf.PastRun:
        registry = agf.Registry()

        @agf.tool(registry=registry)
        def picky(x: object) -> object:
            if x == "y" and message:
                raise ValueError(message)
            return x

        agf.define(Source(cell, text), "pipeline", registry=registry)
        past: agf.PastRun = agf.runs(agf.run("main", INPUT, registry=registry).run_id)
        return past

    text = pipeline(fan_out("picky", "all").replace("abort", "continue"))
    first, other = run_in_cell("cell 1", text, "no figs"), run_in_cell("cell 2", above + text, message)
    comparison = first.compare(other)
    assert [row["same output"] for row in comparison] == [2 if is_same else 1]
    assert [row["differs"] for row in comparison] == ["" if is_same else "yes"]
    assert not is_same or not list(comparison.values)


def test_a_run_that_failed_has_an_error_and_no_output(registry: agf.Registry) -> None:
    agf.define("{pipeline: share, steps: [{transform: {value: '10 / order'}}]}", registry=registry)
    orders = (5, 0, 0)
    good, bad, again = (
        agf.runs(agf.run("share", {"order": order}, registry=registry, raises=False).run_id) for order in orders
    )
    differs = [(row["value"], row["differs"], row["first"], row["other"]) for row in good.compare(bad).values]
    assert ("output", "only in the first", 2, None) in differs
    assert ("error", "only in the second", None, "division by zero") in differs
    assert bad.compare(again).values == ()
