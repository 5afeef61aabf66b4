"""Values as they are shown, in HTML and in text."""

from __future__ import annotations

import sys
from typing import Any

import pandas
import pytest

from agf_magics.pictures.values import value_html, value_text


class Opaque:
    def __repr__(self) -> str:
        raise AssertionError("an opaque value is not asked for anything")

    _repr_html_ = __str__ = __repr__


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (1, "1"),
        (0.5, "0.5"),
        (float("nan"), "nan"),
        ("as it is", "as it is"),
        ("two\nlines", "two\nlines"),
        ([], "[]"),
        ({}, "{}"),
        ({"a": "1", "b": 1}, 'a: "1"\nb: 1'),
        ([1, "x"], '- 1\n- "x"'),
        ({"a": {"b": [1]}}, "a: 1 field\n  b: 1 item\n    - 1"),
        ([{"n": 1, "s": "x"}, {"n": 2}], "n  s\n1  x\n2"),
        ({"-": 1}, "-: 1"),
        ({1: 2}, "{…}"),
        (Opaque(), "<tests.draw.test_values.Opaque>"),
        (object(), "<object>"),
        (10**5000, "a number of about 5,000 digits"),
        ("x" * 10_000_000, "x" * 4000 + "… 10 MB in all"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("user\u202etxt.exe", "user\\u202etxt.exe"),
        ("\ud800", "\\ud800"),
        (list(range(1000)), "\n".join(f"- {i}" for i in range(20)) + "\n… 980 more"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_value_as_text(value: Any, text: str) -> None:
    assert value_text(value) == text


def test_html_is_escaped() -> None:
    page = value_html({"<b>": "<script>", "t": [{"<i>": "<u>"}, {"<i>": 1}]})
    assert not any(raw in page for raw in ("<b>", "<script>", "<i>", "<u>"))


def test_containers_fold_and_the_outermost_is_open() -> None:
    page = value_html({"a": [1, 2], "b": {"c": 1}})
    assert page.startswith("<details open><summary>2 fields</summary>")
    assert "<details><summary>" in page


def test_a_list_of_flat_objects_is_a_table() -> None:
    page = value_html([{"name": f"p{i}", "n": i} for i in range(100)])
    assert page.count("<tr>") == 21
    assert "80 more rows" in page


def test_a_value_that_contains_itself_ends() -> None:
    value: list[Any] = [1]
    value.append(value)
    assert "… 2 items" in value_text(value)


def test_a_wide_and_deep_value_ends() -> None:
    value: Any = 1
    for _ in range(8):
        value = [value] * 50
    assert len(value_text(value)) < 20_000


def test_a_data_frame_shows_its_own_first_rows_without_styles() -> None:
    frame = pandas.DataFrame({"a": range(1000), "b": ["<b>\u202e"] * 1000})
    page = value_html({"frame": frame})
    assert "DataFrame · 1,000 rows × 2 columns" in page
    assert page.count("&lt;b&gt;\\u202e") == 10
    assert "<style" not in page
    assert value_text(frame).startswith("DataFrame · 1,000 rows × 2 columns\n")


def test_only_the_library_s_own_class_may_write_html() -> None:
    class DataFrame(pandas.DataFrame):
        def _repr_html_(self) -> str:
            return "<script>"

    Liar = type("DataFrame", (), {"__module__": "pandas", "_repr_html_": lambda self: "<script>"})
    assert "<script>" not in value_html(DataFrame({"a": [1]})) + value_html(Liar())


def test_a_frame_whose_cells_cannot_be_shown_is_named() -> None:
    frame = pandas.DataFrame({"a": [Opaque()]})
    assert value_text(frame) == "DataFrame · 1 row × 1 column"


def test_pandas_is_not_imported_to_show_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pandas")
    value_text(object())
    assert "pandas" not in sys.modules
