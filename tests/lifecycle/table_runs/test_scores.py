"""Scores of rows, comparisons of two runs by their scores, and checks for CI."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import agf_magics as agf
from agf_magics.lifecycle.past.past_run import find_past_run
from agf_magics.lifecycle.table_runs.scores import interval
from agf_magics.settings.settings import current
from notebooks.scripted_server import ScriptedServer
from tests.processes import command_line

ROWS = [{"n": number, "kind": "even" if number % 2 == 0 else "odd"} for number in range(8)]


def right(output: Any, row: Any) -> bool:
    return bool(output["twice"] == 2 * row["n"])


def size(output: Any) -> float:
    return float(output["twice"])


def parity(output: Any, row: Any) -> str:
    return "even" if row["n"] in (0, 2, 4, 5) else "odd"


@pytest.fixture
def table(registry: agf.Registry) -> Any:
    return agf.run("doubled", over=agf.Over(table=ROWS, repeat=2), registry=registry).table


def test_a_score_that_is_a_mapping_for_some_rows_and_a_value_for_others_keeps_both(table: Any) -> None:
    def mixed(output: Any, row: Any) -> Any:
        return {"even": 1} if row["n"] % 2 == 0 else 2

    scores = agf.score_over(table, mixed)
    assert set(scores) == {"mixed", "mixed.even"}
    assert {row["mixed"] for row in table} == {2, None}


def test_numbers_have_a_mean_with_an_interval_and_labels_are_counted(table: Any) -> None:
    scores = agf.score_over(table, right, size, parity, against="kind", seed=1)
    assert scores["right"].mean == (1.0, 1.0, 1.0)
    assert (scores["right"].rows, scores["right"].missing) == (14, 2)  # row 3 failed, twice
    mean = scores["size"].mean
    assert mean.mean == pytest.approx(2 * (28 - 3) / 7)
    assert mean.low < mean.mean < mean.high
    assert scores["size"].median == 8
    assert scores["parity"].labels == {"even": 8, "odd": 6}
    assert scores["parity"].against == {("even", "even"): 6, ("even", "odd"): 2, ("odd", "even"): 2, ("odd", "odd"): 4}
    assert table[2]["right"] is True
    assert table[6]["right"] is None
    assert agf.score_over(table, size, seed=1)["size"].mean == mean


def test_the_interval_covers_rows_and_repetitions() -> None:
    wide = interval([[float(number)] for number in (0, 1, 0, 1, 1, 0, 1, 1)], seed=3)
    assert wide.mean == 0.625
    assert (wide.low, wide.high) == (0.25, 0.875)
    # Eight repetitions of one row prove nothing about other rows.
    once = interval([[1.0] * 8, [0.0] * 8], seed=3)
    assert (once.low, once.high) == (0.0, 1.0)


def test_a_score_that_fails_or_mixes_kinds_is_reported_with_its_row(table: Any) -> None:
    def odd(output: Any, row: Any) -> Any:
        if row["n"] == 1:
            raise KeyError("k")
        return "text" if row["n"] == 2 else {1, 2} if row["n"] == 4 else 1.5

    scores = agf.score_over(table, odd)
    assert [(row, why.code) for _, row, why in scores.faults][::2] == [
        (1, "score.failed"), (2, "score.mixed"), (4, "score.mixed"),
    ]  # fmt: skip
    assert scores["odd"].mean.mean == 1.5
    assert "odd, row 1: the score failed: KeyError: 'k'" in repr(scores)


def test_a_score_may_have_several_values(table: Any) -> None:
    scores = agf.score_over(
        table, lambda output, row: {"small": output["twice"] < 5, "digits": len(str(output["twice"]))}
    )
    assert list(scores) == ["<lambda>.small", "<lambda>.digits"]


def test_a_flow_can_judge(registry: agf.Registry, table: Any) -> None:
    text = "pipeline: judge\nsteps:\n- transform: {value: 'ctx.output.twice == ctx.n * 2 and ctx.row.n < 6'}\n"
    agf.define(text, registry=registry)
    mean = agf.score_over(table, "judge", registry=registry)["judge"].mean
    assert mean.mean == pytest.approx(5 / 7)


def test_a_wrong_score_is_refused_before_anything_runs(registry: agf.Registry, table: Any, calls: list[int]) -> None:
    calls.clear()
    for score in (7, "no_such_flow"):
        with pytest.raises(agf.DefinitionError):
            agf.check_over("doubled", ROWS, score=score, registry=registry)  # type: ignore[arg-type]
    with pytest.raises(agf.DefinitionError) as error:
        agf.check_over("doubled", ROWS, score=right, against="kin", registry=registry)
    assert error.value.code == "over.column"
    assert calls == []
    with pytest.raises(agf.DefinitionError) as error:
        agf.score_over(table, right, against="kin")
    assert error.value.code == "over.column"


def test_a_score_does_not_replace_a_column(registry: agf.Registry) -> None:
    def label(output: Any) -> str:
        return "b"

    table = agf.run("doubled", over=[{"n": 1, "label": "a"}], registry=registry).table
    agf.score_over(table, label)
    assert (table[0]["label"], table[0]["score.label"]) == ("a", "b")


def test_a_score_does_not_replace_a_column_that_only_a_later_row_has(registry: agf.Registry) -> None:
    agf.tool(lambda n: {"late": n} if n else {"first": n}, name="some", registry=registry)
    agf.define("pipeline: some\nsteps:\n- tool: {name: some, args: {n: !expr ctx.n}}", registry=registry)
    table = agf.run("some", over=[{"n": n // 1_001} for n in range(1_002)], registry=registry).table

    def late(output: Any) -> float:
        return 0.5

    agf.score_over(table, late, seed=1)
    assert (table[-1]["late"], table[-1]["output.late"]) == (0.5, 1)


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


ADDED: dict[str, tuple[Any, Any]] = {
    "an array": (np.arange(8), 2),
    "floats of an array": (np.arange(8) / 4, 0.5),
    "booleans of an array": (np.arange(8) == 2, True),
    "a series": (pd.Series(range(8)), 2),
    "dates": ([date(2026, 1, day + 1) for day in range(8)], "2026-01-03"),
    "times of an array": (np.arange(8).astype("datetime64[D]"), "1970-01-03"),
    "lists": ([[n, {"n": n}] for n in range(8)], [2, {"n": 2}]),
    "nothing": ([None] * 8, None),
}


@pytest.mark.parametrize("case", ADDED)
def test_an_added_column_is_the_same_in_the_journal(registry: agf.Registry, case: str) -> None:
    values, expected = ADDED[case]
    run = agf.run("doubled", over=ROWS, registry=registry)
    run.table.add_column("added", values)
    for table in (run.table, agf.runs(run.run_id).table, find_past_run(run.run_id).table):
        assert table[2]["added"] == expected


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, b"bytes", 1j, deep(20_000)], ids=["object", "set", "bytes", "complex", "deep"]
)
def test_a_column_that_the_journal_cannot_hold_is_not_added(registry: agf.Registry, value: Any) -> None:
    run = agf.run("doubled", over=ROWS, registry=registry)
    with pytest.raises(agf.DefinitionError, match="row 3 'added'") as error:
        run.table.add_column("added", [1, 1, 1, value, *[1] * 4])
    assert error.value.code == "over.cannot-hold"
    for table in (run.table, find_past_run(run.run_id).table):
        assert "added" not in table.columns


def test_a_table_that_is_saved_and_run_over_again_loses_no_column(registry: agf.Registry, folder: Path) -> None:
    table: Any = [{"n": 1, "twice": "of the input", "label": "a"}]
    columns: list[tuple[str, ...]] = []
    for generation in range(4):
        run = agf.run("doubled", over=table, registry=registry)
        run.table.label(0, f"label {generation}")
        columns.append(run.table.columns)
        table = str(run.table.save(f"{generation}.jsonl"))
    assert [len(names) for names in columns] == [12, 21, 30, 39]
    [row] = run.table
    assert row["n"] == 1
    assert row["twice"] == "of the input"
    assert [row["output." * depth + "twice"] for depth in (1, 2, 3, 4)] == [2] * 4
    assert [row["run." * depth + "label"] for depth in (0, 1, 2, 3, 4)] == ["a", *(f"label {n}" for n in range(4))]
    assert [row["run." * depth + "status"] for depth in (0, 1, 2, 3)] == ["ok"] * 4


@pytest.mark.parametrize("name", ["n", "status", "row"])
def test_a_column_of_the_table_is_not_hidden(table: Any, name: str) -> None:
    with pytest.raises(ValueError, match=f"the table has a column '{name}'"):
        table.add_column(name, [0] * len(table))


def test_no_score_takes_the_name_of_the_share_of_rows_that_did_not_fail(
    registry: agf.Registry, calls: list[int]
) -> None:
    def ok(output: Any) -> float:
        return 0.0

    with pytest.raises(agf.DefinitionError, match="two scores are called 'ok': one is the share of rows") as error:
        agf.check_over("doubled", ROWS, score=ok, registry=registry)
    assert (error.value.code, calls) == ("score.double", [])


def test_a_score_with_other_keys_than_names_loses_no_other_row(table: Any) -> None:
    def odd(output: Any, row: Any) -> Any:
        return {1: 2} if row["n"] == 0 else 1e308 if row["n"] == 1 else 1

    summary = agf.score_over(table, odd, seed=1)["odd"]
    assert (summary.rows, summary.missing, len(summary.faults)) == (10, 6, 4)


# --- comparisons ---


def edited(registry: agf.Registry) -> None:
    text = (
        "pipeline: doubled\nsteps:\n- tool: {name: double, args: {n: !expr ctx.n}, output: d}\n"
        "- transform: {value: '{twice: ctx.n > 5 and ctx.d + 1 or ctx.d}'}\n"
    )
    agf.define(text, registry=registry)


def test_two_runs_are_compared_row_by_row(registry: agf.Registry, folder: Path) -> None:
    first = agf.run("doubled", over=ROWS, registry=registry)
    edited(registry)
    other = agf.run("doubled", over=ROWS, registry=registry)
    for run in (first, other):
        agf.score_over(run, right, seed=1)
    compared: Any = agf.compare_over(first, other, seed=2)
    assert [row.key for row in compared.changed] == [6, 7]
    assert compared.scores["right"].mean == pytest.approx(-2 / 7)
    assert compared.matched == 8
    assert "+- transform" in compared.definitions
    assert compared.tools == []
    assert "2 rows changed" in repr(compared)
    assert "2 rows changed" in compared._repr_html_()
    page = agf.report(compared, folder / "both.html").read_text(encoding="utf-8")
    assert "2 rows changed" in page
    assert f"{first.run_id} compared with {other.run_id}" in page


def test_rows_of_other_tables_are_matched_by_a_column(registry: agf.Registry) -> None:
    first = agf.run("doubled", over=ROWS, registry=registry)
    other = agf.run("doubled", over=ROWS[::-1], registry=registry)
    with pytest.raises(agf.DefinitionError) as error:
        agf.compare_over(first, other)
    assert error.value.code == "over.other-table"
    compared: Any = agf.compare_over(first, other, key="n")
    assert compared.changed == []
    for key, code in (("kind", "over.double-key"), ("nn", "over.column")):
        with pytest.raises(agf.DefinitionError) as error:
            agf.compare_over(first, other, key=key)
        assert error.value.code == code


def test_the_scores_of_runs_of_the_journal_are_compared(registry: agf.Registry) -> None:
    runs = [agf.run("doubled", over=ROWS, registry=registry) for _ in range(2)]
    for run, factor in zip(runs, (1, 2), strict=True):

        def scaled(output: Any, factor: int = factor) -> float:
            return float(output["twice"] * factor)

        agf.score_over(run, scaled, seed=1)
        run.table.label(0, "good")
    past: Any = agf.compare_over(*(find_past_run(run.run_id) for run in runs), seed=2)
    assert past.scores == agf.compare_over(*runs, seed=2).scores  # type: ignore[union-attr]
    assert list(past.scores) == ["scaled"]
    assert f"scaled  {past.scores['scaled'].mean:.3g}"[:6] in repr(past)


def test_a_whole_number_as_a_key_is_the_same_with_a_point(registry: agf.Registry) -> None:
    first, other = (
        agf.run("doubled", over=[{"n": 1, "id": one}, {"n": 2, "id": two}], registry=registry)
        for one, two in ((1, 2.5), (1.0, 2.5))
    )
    assert agf.compare_over(first, other, key="id").matched == 2  # type: ignore[union-attr]


def test_runs_of_other_journals_and_of_none_are_compared_and_displayed(registry: agf.Registry, folder: Path) -> None:
    ours = agf.run("doubled", {"more": 1}, over=ROWS, registry=registry)
    agf.runs(ours.run_id).export(folder / "run.json")
    imported = agf.import_run(folder / "run.json")
    edited(registry)
    newer = agf.run("doubled", {"more": 2}, over=ROWS, registry=registry)
    shown = repr(agf.compare_over(imported, newer))
    assert "Inputs that differ" in shown
    assert "Definitions that differ" in shown
    before = current.settings
    current.settings = replace(before, journal="")
    unjournaled = agf.run("doubled", {"more": 2}, over=ROWS, registry=registry)
    current.settings = before
    for pair in ((newer, unjournaled), (unjournaled, imported), (unjournaled, unjournaled)):
        comparison: Any = agf.compare_over(*pair)
        assert comparison._repr_html_()
        assert [row.key for row in comparison.changed] == ([6, 7] if imported in pair else [])


# --- checks ---


@pytest.mark.parametrize(("value", "least"), [(0.7, 0.7), (0.1, 0.1), (-0.7, -0.7), (2 / 3, 2 / 3)])
def test_a_check_passes_at_the_exact_minimum(registry: agf.Registry, value: float, least: float) -> None:
    def fixed(output: Any) -> float:
        return value

    for count in (3, 6, 7):
        rows = [{"n": number + 10} for number in range(count)]
        assert agf.check_over("doubled", rows, score=fixed, at_least={"fixed": least}, registry=registry).passed
        with pytest.raises(agf.CheckFailed):
            agf.check_over("doubled", rows, score=fixed, at_least={"fixed": least + 1e-6}, registry=registry)


def test_a_check_passes_or_says_which_score_is_too_low(registry: agf.Registry, folder: Path) -> None:
    table = [row for row in ROWS if row["n"] != 3]
    report = agf.check_over("doubled", table, score=right, at_least={"right": 0.9}, registry=registry)
    assert report.passed
    assert report.figures == {"ok": 1.0, "right": 1.0}
    with pytest.raises(AssertionError, match=r"'right' is 0.875, and at least 0.9 is wanted") as error:
        agf.check_over("doubled", ROWS, score=[right], at_least={"right": 0.9}, registry=registry)
    failed = error.value.report  # type: ignore[attr-defined]
    assert failed.figures["right"] == 0.875  # the failed row counts as 0
    failed.save(folder / "report.html")
    failed.save(folder / "report.json")
    assert "✗ failed" in (folder / "report.html").read_text()
    stored = json.loads((folder / "report.json").read_text())
    assert stored["missed" if "missed" in stored else "passed"] is False
    assert [row["n"] for row in stored["low"]] == [3]


@pytest.mark.parametrize(
    ("score", "least", "low"),
    [(right, 0.8, [3]), (size, 5, [0, 1, 2, 3]), (size, 0, [3]), (parity, 0.1, [3, 5, 6])],
    ids=["boolean", "number", "0 is enough", "label"],
)
def test_a_report_lists_the_rows_that_failed_or_are_below_the_least_figure(
    registry: agf.Registry, score: Any, least: float, low: list[int]
) -> None:
    with pytest.raises(agf.CheckFailed) as error:
        agf.check_over(
            "doubled", ROWS, score=score, at_least={"ok": 1, score.__name__: least}, against="kind", registry=registry
        )
    listed: Any = error.value.report.as_json()["low"]
    assert [row["n"] for row in listed] == low


def test_a_check_of_an_unknown_score_is_an_error(registry: agf.Registry) -> None:
    with pytest.raises(agf.DefinitionError) as error:
        agf.check_over("doubled", ROWS, score=right, at_least={"rihgt": 0.9}, registry=registry)
    assert error.value.code == "score.unknown"


def test_a_data_set_of_pydantic_evals_is_read_and_the_export_has_its_report(
    registry: agf.Registry, folder: Path
) -> None:
    (folder / "set.yaml").write_text(
        "name: set\ncases:\n- {name: one, inputs: {n: 1}, expected_output: {twice: 2}}\n"
        "- {name: two, inputs: {n: 3}}\nevaluators: []\n"
    )
    run = agf.run("doubled", over=folder / "set.yaml", registry=registry)
    assert run.table[0]["expected_output"] == {"twice": 2}
    past = find_past_run(run.run_id)
    agf.score_over(past, right)
    exported = json.loads(past.export(folder / "run.json").read_text())
    assert exported["cases"][0]["output"] == {"twice": 2}
    assert exported["cases"][0]["assertions"]["right"]["value"] is True
    assert exported["failures"][0]["error_message"] == "tool 'double' failed: ValueError: no three"


def test_an_evaluator_of_pydantic_evals_is_a_score(registry: agf.Registry, folder: Path) -> None:
    evals = pytest.importorskip("pydantic_evals", reason="it needs a certain pydantic-ai")
    evaluators = pytest.importorskip("pydantic_evals.evaluators")
    rows = [
        {"name": "one", "n": 1, "expected_output": {"twice": 2}},
        {"name": "two", "n": 2, "expected_output": {"twice": 5}},
    ]
    run = agf.run("doubled", over=rows, registry=registry)
    scores = agf.score_over(run, evaluators.EqualsExpected(), seed=1)
    assert [summary.mean.mean for summary in scores.values()] == [0.5]
    dataset = evals.Dataset(name="set", cases=[evals.Case(name="one", inputs={"n": 1}, expected_output={"twice": 2})])
    dataset.to_file(folder / "set.yaml")
    assert agf.run("doubled", over=folder / "set.yaml", registry=registry).table[0]["twice"] == 2
    from pydantic_evals.reporting import EvaluationReportAdapter

    report = json.loads(find_past_run(run.run_id).export(folder / "run.json").read_text())
    cases = EvaluationReportAdapter.validate_python({"name": "run", **report}).cases
    assert [case.output for case in cases] == [{"twice": 2}, {"twice": 4}]


TOOLS = """
import agf_magics as agf

@agf.tool
def double(n: int) -> int:
    if n == 3:
        raise ValueError("no three")
    return 2 * n
"""


@pytest.fixture
def project(folder: Path) -> Path:
    (folder / "tools.py").write_text(TOOLS)
    (folder / "flow.yaml").write_text(
        "pipeline: doubled\nsteps:\n- tool: {name: double, args: {n: !expr ctx.n}, output: d}\n"
        "- transform: {value: '{twice: ctx.d}'}\n"
    )
    (folder / "scores.py").write_text("def right(output, row):\n    return output['twice'] == row['want']\n")
    (folder / "rows.csv").write_text("n,want\n1,2\n2,5\n3,6\n4,8\n")
    return folder


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ("--limit 2", 0),
        ("", 1),  # a row fails
        ("--score scores.py:right --fail-below 0.5 --figures report.html", 0),
        ("--score scores.py:right --fail-below 0.6 --figures report.json", 1),
        ("--score scores:right --fail-below 0.5", 0),  # a module
        ("--fail-below 0.75", 0),
        ("--score scores.py:rigth", 1),
        ("--map n=m", 2),  # a wrong word of the line
    ],
)
def test_the_command_line_runs_scores_and_decides(project: Path, options: str, code: int) -> None:
    words = ["run", "flow.yaml", "--tools", "tools.py", "--over", "rows.csv", "--save", "out.jsonl", *options.split()]
    ended = command_line(project, *words)
    assert ended.returncode == code, ended.stderr
    if "map" not in options and "rigth" not in options:
        printed = json.loads(ended.stdout)
        assert printed["ok"] == (2 if "limit" in options else 3)
        assert len((project / "out.jsonl").read_text().splitlines()) == printed["ok"] + printed.get("failed", 0)
    else:
        assert not (project / "out.jsonl").exists()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("--save out.xlsx", "'out.xlsx' is not a file of rows"),
        ("--save missing/out.csv", "there is no folder 'missing'"),
        ("--figures report.txt", "'report.txt' is no file for a report"),
        ("--report missing/run.html", "there is no folder 'missing'"),
    ],
)
def test_a_file_that_cannot_be_written_is_reported_before_the_first_row(project: Path, options: str, says: str) -> None:
    began = (
        "import agf_magics as agf\nfrom pathlib import Path\n\n@agf.tool\ndef double(n):\n    Path('began').touch()\n"
    )
    (project / "tools.py").write_text(began)
    words = ["run", "flow.yaml", "--tools", "tools.py", "--over", "rows.csv", *options.split()]
    ended = command_line(project, *words)
    assert ended.returncode != 0
    assert says in " ".join(ended.stderr.split())
    assert not (project / "began").exists()


def test_the_error_of_a_missing_score_names_the_functions_of_its_file(project: Path) -> None:
    words = ["run", "flow.yaml", "--tools", "tools.py", "--over", "rows.csv", "--score", "scores.py:rigth"]
    ended = command_line(project, *words)
    assert "scores.py has no 'rigth'\n    [score.kind]\n  = did you mean right?" in ended.stderr


JUDGE = """
import agf_magics as agf

agf.registry.choose("openai-chat:gpt-4o")
agf.define("pipeline: judge\\nsteps:\\n- agent: {prompt: 'Is {ctx.output.twice} right?'}\\n")
"""


@pytest.mark.parametrize(("options", "asked", "code"), [("", 20, 1), ("--yes", 30, 0)])
def test_a_judge_with_a_known_price_asks_after_twenty_rows_unless_the_line_says_yes(
    project: Path, options: str, asked: int, code: int
) -> None:
    (project / "tools.py").write_text(TOOLS.replace("n == 3", "n < 0") + JUDGE)
    (project / "rows.csv").write_text("\n".join(["n", *map(str, range(30))]))
    words = ["run", "flow.yaml", "--tools", "tools.py", "--over", "rows.csv", "--score", "judge", *options.split()]
    with ScriptedServer(lambda request: "yes") as server:
        ended = command_line(project, *words, OPENAI_BASE_URL=server.url, OPENAI_API_KEY="none")
        assert len(server.requests) == asked
    assert ended.returncode == code, ended.stderr
    assert ("[over.go-on]" in ended.stderr) == (not options)


def test_labels_and_scores_are_kept_with_the_run(table: Any) -> None:
    agf.score_over(table, size, seed=1)
    table.label(0, "good")
    table.label(-1, "<b>bad</b>")
    table.label(1, "gone")
    table.label(1, None)
    later = find_past_run(table.run.run_id).table
    assert later[0]["label"] == "good"
    assert later[-1]["label"] == "<b>bad</b>"
    assert later[1]["label"] is None
    assert "<b>bad" not in later._repr_html_()
    assert later[2]["size"] == 2.0
    assert table.to_pandas()["label"][0] == "good"
    with pytest.raises(IndexError, match="the table has no row 99: it has "):
        later.label(99, "none")
    later.label(4, "late")
    assert table.run.table[4]["label"] == "late"


def test_scores_are_counted_against_labels(table: Any) -> None:
    for place, text in enumerate(["even", "even", "odd", "even"]):
        table.label(place, text)
    scores = agf.score_over(table, parity, against="label")
    assert scores["parity"].agreement == 0.75
    assert sum(scores["parity"].against.values()) == 4
    assert "0.75 of 4" in str(scores)


def test_a_label_is_a_short_text_of_a_row_that_exists(table: Any) -> None:
    with pytest.raises(agf.DefinitionError, match=r"at most 200 characters"):
        table.label(0, "x" * 201)
    with pytest.raises(IndexError):
        table.label(16, "good")


def test_a_column_of_the_table_named_label_stays(registry: agf.Registry) -> None:
    rows = [{"n": number, "label": "mine"} for number in range(2)]
    table = agf.run("doubled", over=rows, registry=registry).table
    table.label(0, "good")
    assert table[0]["label"] == "mine"
    assert table[0]["run.label"] == "good"


def test_tools_that_were_edited_or_that_one_run_has_alone_are_named(registry: agf.Registry) -> None:
    for name in ("same", "more"):
        agf.tool(lambda n: n, name=name, registry=registry)
    text = "pipeline: p\nsteps:\n" + "- tool: {{name: {}, args: {{n: !expr ctx.n}}}}\n" * 3
    agf.define(text.format("same", "double", "same"), registry=registry)
    first = agf.run("p", over=ROWS, registry=registry)
    agf.tool(lambda n: n + n, name="double", registry=registry)
    agf.define(text.format("same", "double", "more"), registry=registry)
    compared: Any = agf.compare_over(first, agf.run("p", over=ROWS, registry=registry))
    assert compared.tools == ["double", "more"]
    assert "Tools that differ: double, more" in repr(compared)
