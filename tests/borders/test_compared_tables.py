"""Two runs over the same table with other differences are compared by the numbers of the rows (fault W7)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from tests.engine import kept

ROWS = [{"w": "a"}, {"w": "b"}, {"w": "c"}]


@pytest.fixture
def registry(tmp_path: Path) -> Any:
    registry = agf.Registry()
    text = "{pipeline: q, steps: [{transform: {value: \"get(ctx, 'style', '-') + ctx.w\"}}]}"
    agf.define(text, registry=registry)
    with kept.journal_in(tmp_path):
        yield registry


def over(registry: agf.Registry, rows: Any, table: Any = None) -> agf.Run:
    return agf.run("q", table, over=rows, registry=registry)


@pytest.mark.parametrize(
    ("first", "other", "named"),
    [
        ({"style": "short"}, {"style": "long"}, ["short", "long"]),
        (None, {"style": "long"}, ["long"]),
        ({"style": "short"}, {"style": "short"}, []),
    ],
)
def test_differences_besides_the_table_are_reported(
    registry: agf.Registry, first: Any, other: Any, named: Any, tmp_path: Path
) -> None:
    comparison = agf.compare_over(over(registry, ROWS, first), over(registry, ROWS, other))
    assert comparison.matched == 3  # type: ignore[union-attr]
    assert len(comparison.changed) == (3 if named else 0)  # type: ignore[union-attr]
    assert ("Inputs that differ" in repr(comparison)) == bool(named)
    assert [cell for _, *cells in comparison.inputs[1] for cell in cells if cell in named] == named  # type: ignore[union-attr]
    html = agf.report(comparison, tmp_path / "difference.html").read_text()  # type: ignore[arg-type]
    assert ("Inputs that differ" in html) == bool(named)


def test_another_table_is_still_refused(registry: agf.Registry) -> None:
    other_tables = [{"w": "x"}, {"w": "y"}, {"w": "z"}], [{"v": "a", "w": "q"}] * 3
    for rows in other_tables:
        with pytest.raises(agf.DefinitionError, match=r"over\.other-table"):
            agf.compare_over(over(registry, ROWS, {"style": "s"}), over(registry, rows, {"style": "s"}))


def test_a_column_with_another_name_is_a_column(registry: agf.Registry) -> None:
    renamed = [{"body": row["w"]} for row in ROWS]
    table = agf.Over(table=renamed, map={"w": "body"})
    runs = [over(registry, table, {"style": style}) for style in ("short", "long")]
    comparison = agf.compare_over(*runs)
    assert [name for name, *_ in comparison.inputs[1]] == ["style"]  # type: ignore[union-attr]
