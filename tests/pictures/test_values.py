"""Values as pages show them, in HTML and in text."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import enum
import json
import sys
import types
from typing import Any

import numpy
import pandas
import polars
import pyarrow  # type: ignore[import-untyped]
import pydantic
import pytest

from agf_magics.journal.codec.encoding import preview
from agf_magics.pictures.text_tables import drop_empty_columns, list_rows, narrowed, table_html, table_text
from agf_magics.pictures.value_line import cell_text, value_line
from agf_magics.pictures.values import (
    MOST_COLUMNS,
    MOST_ITEMS,
    MOST_LEAVES,
    MOST_PICTURE,
    MOST_PICTURES,
    PNG,
    shown_html,
    value_among,
    value_brief,
    value_html,
    value_json,
    value_text,
)


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
        ("", '""'),
        (" \n", '" \\n"'),
        ([], "[]"),
        ({}, "{}"),
        ({"a": "1", "b": 1}, 'a: "1"\nb: 1'),
        ([1, "x"], '- 1\n- "x"'),
        ({"a": {"b": [1]}}, "a: 1 field\n  b: 1 item\n    - 1"),
        ([{"n": 1, "s": "x"}, {"n": 2}], "n  s\n1  x\n2"),
        ({"-": 1}, "-: 1"),
        ({1: 2}, "{…}"),
        (Opaque(), "<tests.pictures.test_values.Opaque>"),
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


def test_a_data_frame_is_a_table_of_its_first_rows() -> None:
    frame = pandas.DataFrame({"a": range(1000), "b": ["<b>\u202e"] * 1000})
    page = value_html({"frame": frame})
    assert "DataFrame · 1,000 rows × 2 columns" in page
    assert page.count("&lt;b&gt;\\u202e") == 20
    assert value_text(frame).startswith("DataFrame · 1,000 rows × 2 columns\n")
    assert value_text(polars.DataFrame({"a": [1, 2]})).startswith("DataFrame · 2 rows × 1 column\n")
    inside = value_text({"frame": frame}).splitlines()
    assert inside[0] == "frame: DataFrame · 1,000 rows × 2 columns"
    assert inside[1:] == [f"  {line}" for line in value_text(frame).splitlines()[1:]]


DAYS = pandas.date_range("2026-01-01", periods=30, name="day")
FRAMES = {
    "index": pandas.DataFrame({"n": range(30), "word": ["a"] * 30}, index=DAYS),
    "numbered": pandas.DataFrame({"n": [1, None], "ok": [True, False]}),
    "levels": pandas.DataFrame({"v": [0.5]}, index=pandas.MultiIndex.from_tuples([("a", 1)], names=["p", "q"])),
    "empty": pandas.DataFrame({"a": []}),
    "objects": pandas.DataFrame({"a": [Opaque(), 1]}),
    "series": pandas.Series([1, 2], index=["a", "b"]),
    "polars": polars.DataFrame({"n": [1, 2, None], "parts": [[1], [2, 3], []]}),
    "polars series": polars.Series("n", [1.5]),
    "arrow": pyarrow.table({"n": [1, 2], "word": ["a", "b"]}),
}


@pytest.mark.parametrize("name", FRAMES)
def test_a_frame_looks_the_same_as_input_and_as_output(name: str) -> None:
    """An input is the preview of the journal, an output the frame itself. Only its types are not in a preview."""
    frame = FRAMES[name]
    output, as_input = value_json(frame), value_json(preview(frame))
    types = output.pop("types", ())
    assert output == as_input
    assert len(types) == len(output.get("columns", ()))
    assert value_text({"f": frame}) == value_text({"f": preview(frame)})
    assert value_text(frame) == value_text(preview(frame))


@pytest.mark.parametrize(
    ("name", "looks", "types"),
    [
        ("index", ["index", "number", ""], ["datetime64", "int64", ""]),
        ("numbered", ["number", ""], ["float64", "bool"]),
        ("levels", ["index", "index number", "number"], ["", "int64", "float64"]),
        ("objects", [""], ["object"]),
        ("series", ["index", "number"], ["", "int64"]),
        ("polars", ["number", ""], ["Int64", "List(Int64)"]),
        ("polars series", ["number"], ["Float64"]),
        ("arrow", ["number", ""], ["int64", "string"]),
    ],
)
def test_a_column_has_the_look_of_its_values_and_says_its_type(name: str, looks: list[str], types: list[str]) -> None:
    shown = value_json(FRAMES[name])
    assert list(shown["looks"]) == looks
    assert all(told.startswith(kind) for told, kind in zip(shown["types"], types, strict=True)), shown["types"]
    page = shown_html(shown)
    assert page.count('<th scope="row"') == len(shown["rows"]) * sum("index" in look for look in looks)
    assert page.count("text-align:right") == (len(shown["rows"]) + 1) * sum("number" in look for look in looks)
    assert all(f'title="{kind}"' in page for kind in shown["types"])


def test_numbers_of_a_list_of_objects_stand_one_below_the_other() -> None:
    rows = [{"word": "fig", "kg": 1.5, "n": 3}, {"word": "pear", "kg": 20.25, "n": None}, {"word": "plum"}]
    assert value_text(rows).split("\n") == ["word     kg     n", "fig     1.5     3", "pear  20.25  null", "plum"]
    assert list(value_json(rows)["looks"]) == ["", "number", "number"]


@pytest.mark.parametrize(
    ("cell", "pieces"),
    [
        ("480 ms", ["480 ms"]),
        ("no such file: quarterly/results/of/the/region.csv", ["quarterly/", "results/of/", "the/region.", "csv"]),
        ("quarterly_results_of_the_region-4-e07900", ["quarterly_", "results_of_", "the_region-", "4-", "e07900"]),
        ("b" * 30, ["b" * 12, "b" * 12, "b" * 6]),
        ("a<b>&c" * 6, ["a&lt;b&gt;&amp;ca&lt;b&gt;&amp;c"] * 3),
        ("several words of a message that is long", ["several words of a message that is long"]),
    ],
)
def test_a_long_word_of_a_table_can_be_broken(cell: str, pieces: list[str]) -> None:
    """Else a path or an id makes a saved page wider than its place, which cuts it."""
    page = table_html(("what",), ((cell,),))
    assert "<wbr>".join(pieces) in page
    assert page.count("<wbr>") == len(pieces) - 1


def test_only_the_library_s_own_class_is_read() -> None:
    class DataFrame(pandas.DataFrame):
        def _repr_html_(self) -> str:
            return "<script>"

    Liar = type("DataFrame", (), {"__module__": "pandas", "_repr_html_": lambda self: "<script>"})
    assert "<script>" not in value_html(DataFrame({"a": [1]})) + value_html(Liar())


@pytest.mark.parametrize(
    ("rows", "columns", "more"),
    [(20, 9, ""), (21, 2, "1 more row"), (10, 15, "3 more columns"), (1000, 13, "984 more rows and 1 more column")],
)
@pytest.mark.parametrize("library", [pandas, polars])
def test_a_data_frame_says_what_it_leaves_out(library: Any, rows: int, columns: int, more: str) -> None:
    frame = library.DataFrame({f"c{number}": range(rows) for number in range(columns)})
    for is_whole in (False, True):  # on the page, and in a report
        page = shown_html(value_json(frame), is_whole=is_whole)
        assert page.endswith(f"… {more}</details>" if more else "</details>")
        assert page.count("more ") == more.count("more ")
    assert value_text(frame).split("\n")[-1].endswith(more)


def test_a_frame_does_not_ask_its_cells_for_anything() -> None:
    frame = pandas.DataFrame({"a": [Opaque()]})
    assert value_text(frame) == "DataFrame · 1 row × 1 column\na\n⟨Opaque⟩"


def test_pandas_is_not_imported_to_show_a_value(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "pandas")
    value_text(object())
    assert "pandas" not in sys.modules


class Side(enum.Enum):
    LEFT = 1


@dataclasses.dataclass
class Invoice:
    number: int
    due: datetime.date
    total: decimal.Decimal
    token: str = dataclasses.field(default="hidden", repr=False)


class Review(pydantic.BaseModel):
    passed: bool
    invoice: Any
    token: str = pydantic.Field(default="hidden", repr=False)


INVOICE = Invoice(7, datetime.date(2026, 1, 2), decimal.Decimal("1.50"))

REVIEW = Review(passed=True, invoice=[INVOICE])
REVIEW_TEXT = """\
passed: true
invoice: 1 item
  - Invoice · 3 fields
    number: 7
    due: 2026-01-02
    total: 1.50"""


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (datetime.datetime(2026, 1, 2, 3, 4), "2026-01-02 03:04:00"),
        (datetime.timedelta(hours=1), "1:00:00"),
        (decimal.Decimal("1.50"), "1.50"),
        (b"abc", "b'abc'"),
        (b"x" * 1000, f"b'{'x' * 60}'… 1,000 bytes"),
        (numpy.arange(6.0).reshape(2, 3), "ndarray · 2 × 3 · float64 · [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]"),
        (numpy.zeros(10**7, dtype="int8"), "ndarray · 10,000,000 · int8 · [0, 0, 0, 0, 0, 0, 0, 0, …]"),
        (numpy.array([Opaque()]), "ndarray · 1 · object"),
        (pandas.Timestamp("2026-01-02"), "2026-01-02 00:00:00"),
        (INVOICE, "number: 7\ndue: 2026-01-02\ntotal: 1.50"),
        (REVIEW, REVIEW_TEXT),
        ([{"day": datetime.date(2026, 1, 2)}, {"day": None}], "day\n2026-01-02\nnull"),
        (Side.LEFT, "<tests.pictures.test_values.Side>"),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_an_object_with_an_obvious_text_or_fields_is_shown_by_them(value: Any, text: str) -> None:
    assert value_text(value) == text


def test_a_class_that_only_looks_like_one_of_those_is_named_and_not_called() -> None:
    class Date(datetime.date):
        def __str__(self) -> str:
            raise AssertionError("code of a user")

    Liar = type("Figure", (Opaque,), {"__module__": "matplotlib.figure", "savefig": Opaque.__repr__})
    assert value_text(Date(2026, 1, 2)) == "<tests.pictures.test_values.test_a_class_that_only_looks_like_one_of_those_is_named_and_not_called.<locals>.Date>"  # fmt: skip  # noqa: E501
    assert value_html(Liar()) == '<code style="white-space:pre-wrap;overflow-wrap:break-word;word-break:normal">&lt;matplotlib.figure.Figure&gt;</code>'  # fmt: skip  # noqa: E501


def test_the_fields_of_an_object_are_masked() -> None:
    def mask(value: Any) -> Any:
        return {name: "•••" if name == "number" else field_value for name, field_value in value.items()}

    assert "7" not in value_text(INVOICE, mask)
    assert "<code" in value_html(INVOICE, mask)
    assert ">7<" not in value_html(INVOICE, mask)


def test_an_object_that_contains_itself_ends() -> None:
    review = Review(passed=True, invoice=None)
    review.invoice = [review]
    assert len(value_text(review)) < 2_000


class Library(types.ModuleType):
    """The classes of a library, as far as a page uses them."""


def _figure_of(library: types.ModuleType, png: bytes) -> Any:
    def savefig(self: Any, file: Any, format: str, dpi: float, bbox_inches: str) -> None:
        assert (format, dpi, bbox_inches) == ("png", 64.0, "tight")  # 10 inches are bounded to 640 pixels
        file.write(png)

    shape = {"__module__": "matplotlib.figure", "savefig": savefig, "get_size_inches": lambda self: (10.0, 4.0)}
    figure = type("Figure", (), shape)
    vars(library)["Figure"] = figure
    return figure()


def test_a_figure_is_a_picture_of_bounded_size(monkeypatch: pytest.MonkeyPatch) -> None:
    library = Library("matplotlib.figure")
    monkeypatch.setitem(sys.modules, "matplotlib.figure", library)
    small, large = _figure_of(library, b"\x89PNG"), _figure_of(library, b"x" * (MOST_PICTURE + 1))
    vars(library)["Figure"] = type(small)
    data = base64.b64encode(b"\x89PNG").decode()
    assert f'src="data:image/png;base64,{data}"' in value_html({"plot": small})
    assert value_text({"plot": small}) == "plot: <figure>"
    vars(library)["Figure"] = type(large)
    assert f"&lt;figure: {MOST_PICTURE + 1:,} bytes&gt;</code>" in value_html(large)


def test_a_real_figure_and_a_real_image_are_pictures() -> None:
    figures, images = pytest.importorskip("matplotlib.figure"), pytest.importorskip("PIL.Image")
    assert "data:image/png;base64,iVBOR" in value_html(figures.Figure())
    page = value_html({"image": images.new("CMYK", (3000, 20))})
    assert "data:image/png;base64,iVBOR" in page
    assert "image · 3,000 × 20 pixels · CMYK" in page


def test_the_preview_in_the_journal_has_the_same_texts_and_fields() -> None:
    value = {"invoice": INVOICE, "day": datetime.date(2026, 1, 2), "other": Opaque()}
    fields = {"number": 7, "due": "2026-01-02", "total": "1.50"}
    assert preview(value) == {"invoice": fields, "day": "2026-01-02", "other": "⟨Opaque⟩"}


CUT: list[tuple[Any, str]] = [
    (list(range(500)), "500 items"),
    ({"all": list(range(500)), "deep": {"a": [1]}}, "2 fields"),
    ({f"k{i}": i for i in range(300)}, "300 fields"),
    ([{"id": i, "name": "x"} for i in range(400)], "400 rows"),
    ([[i, [i]] for i in range(400)], "400 items"),
    (["a", "⟨3 more of 9⟩"], "2 items"),
    ([1], "1 item"),
]


@pytest.mark.parametrize(("value", "title"), CUT)
def test_a_preview_that_was_cut_has_the_count_of_the_value(value: Any, title: str) -> None:
    short = preview(value)
    assert value_json(short)["title"] == value_json(value)["title"] == title
    assert value_brief(short) == value_brief(value)
    assert len(json.dumps(short)) < 20_000


def test_each_field_of_a_preview_has_its_share() -> None:
    short = preview({"all": list(range(500)), "deep": {"a": {"b": [1]}}})
    assert short["deep"] == {"a": {"b": [1]}}
    assert short["all"][-1] == "⟨402 more of 500⟩"
    assert value_line(short, 900).endswith("… 402 more], deep: {a: {b: [1]}}")


def test_a_text_inside_of_a_value_is_a_line_and_has_all_of_it_within_bounds() -> None:
    texts = ["short", "two\nlines", "long " * 100]
    shown = value_json(texts)["parts"]
    assert [part["text"] for _, part in shown][:2] == ['"short"', '"two lines"']
    assert [part.get("all") for _, part in shown] == [None, *map(str, texts[1:])]
    many = value_json([["x" * 10_000] * 20] * 20)
    assert len(json.dumps(many)) < 200_000


# --- beside a name, in a cell, in a table ---


@pytest.mark.parametrize(
    ("value", "brief"),
    [
        ([1], "1 item"),
        ([], "[]"),
        ({}, "{}"),
        ({"a": 1, "b": 2}, "2 fields"),
        ([{"a": 1}, {"a": 2}], "2 rows"),
        ([{"a": 1}, {"a": [2]}], "2 items"),
        ("x" * 38, '"' + "x" * 38 + '"'),
        ("x" * 39, '"' + "x" * 38 + "…"),
        ("x" * 41, "41 characters"),
        ("a\nb", "3 characters"),
        (pandas.DataFrame({"a": [1, 2, 3]}), "3 rows"),
        (1.5, "1.5"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_a_value_beside_its_name(value: Any, brief: str) -> None:
    assert value_brief(value) == brief


@pytest.mark.parametrize(
    ("value", "options", "text"),
    [
        (None, {}, ""),
        ("a\nb", {}, "a b"),
        (0.5, {}, "0.5"),
        (0.5, {"is_time": True}, "500 ms"),
        ("x" * 61, {}, "x" * 59 + "…"),
        ("x" * 61, {"most": 61}, "x" * 61),
        ({"a": 1}, {}, "a: 1"),
        ([3, 0.1 + 0.2, "p, q", None, [], {}], {}, '[3, 0.3, "p, q", null, [], {}]'),
        ({"a": {"b": [1, {"c": "x"}]}}, {}, 'a: {b: [1, {c: "x"}]}'),
        ([[[[[[[[1]]]]]]]], {}, "[[[[[[[…]]]]]]]"),
        ({"a": {"b": {"c": {"d": {"e": 1}}}}}, {}, "a: {b: {c: {d: {e: 1}}}}"),
        ([0] * 1_000_000, {"most": 10}, "[0, 0, 0,…"),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_a_value_in_a_cell(value: Any, options: dict[str, Any], text: str) -> None:
    assert cell_text(value, **options) == text


def test_a_table_as_text_has_columns_of_cells_and_no_empty_one() -> None:
    columns, rows = ("name", "", "n"), (("日", "", "1"), ("long name", "", "1,000"))
    assert drop_empty_columns(columns, rows) == (("name", "n"), (("日", "1"), ("long name", "1,000")))
    assert table_text(("name", "n"), (("日", "1"), ("long name", ""))) == ["name       n", "日         1", "long name"]
    listed = list_rows(columns, rows, "all", "none")
    assert listed["text/plain"].splitlines() == ["name       n", "日         1", "long name  1,000"]
    assert listed["text/html"].count("<th ") == 2
    assert ">all</caption>" in listed["text/html"]
    assert list_rows(columns, (), "all", "<none>") == {"text/html": "<p>&lt;none&gt;</p>", "text/plain": "<none>"}


@pytest.mark.parametrize(
    ("cells", "left", "cut"),
    [
        (("run-1", "ok", "short", "In[4]"), ("run", "status", "input", "shown in"), False),
        (("run-1", "ok", "x" * 100, "In[4]"), ("run", "status", "input", "shown in"), True),
        (("r" * 60, "ok", "x" * 100, "In[4]"), ("run", "status"), False),
        (("r" * 50, "ok", "x" * 100, "y" * 50), ("run", "status", "input"), True),
        (("r" * 90, "ok", "x", "y"), ("run", "status"), False),  # what is never cut may be wider
    ],
)
def test_a_table_for_a_terminal_is_narrowed(cells: tuple[str, ...], left: tuple[str, ...], cut: bool) -> None:
    columns, rows = narrowed(("run", "status", "input", "shown in"), (cells,), ("input", "shown in"))
    assert columns == left
    assert max(map(len, table_text(columns, rows))) <= max(78, len(cells[0]) + 8)
    assert (rows[0][0], any(cell.endswith("…") for cell in rows[0])) == (cells[0], cut)


def test_a_short_cell_stays_on_one_line_and_a_column_without_a_name_has_no_header() -> None:
    page = table_html(("a", ""), (("x" * 16, "x" * 25), ("y", "2026-03-28 07:30:00")))
    assert page.count('white-space:nowrap">x') == page.count('white-space:nowrap">y') == 1
    assert '<span style="white-space:nowrap">2026-03-28</span> 07:30:00' in page
    assert page.count("min-width:7em") == 1
    assert (page.count("<th "), page.count("<td></td>")) == (1, 1)
    assert "caption" not in page


# --- parts that are left out ---


def depth_of(value_shown: Any) -> int:
    return 1 + max((depth_of(part) for _, part in value_shown.get("parts", ())), default=0)


def test_a_bounded_number_of_levels_leaves_rows_and_columns_is_shown() -> None:
    deep: Any = 1
    for _ in range(20):
        deep = [deep]
    assert depth_of(value_json(deep)) == 7
    assert value_text(deep).endswith("- … 1 item")
    wide = value_json([[[number] * MOST_ITEMS for number in range(MOST_ITEMS)] for _ in range(MOST_ITEMS)])
    leaves = str(wide).count("'text'") // 2
    assert MOST_LEAVES - 2 * MOST_ITEMS < leaves <= MOST_LEAVES
    row = {f"c{number}": number for number in range(MOST_COLUMNS + 2)}
    grid = value_json([row] * (MOST_ITEMS + 1))
    assert (len(grid["columns"]), len(grid["rows"]), grid["more"]) == (12, 20, "1 more row and 2 more columns")
    assert value_json([row] * MOST_ITEMS)["more"] == "2 more columns"
    assert shown_html(grid).endswith("… 1 more row and 2 more columns</details>")


@pytest.mark.parametrize(
    ("rows", "is_grid"),
    [
        ([{"a": 1}, {"a": 2}], True),
        ([{"a": 1}], False),
        ([{"a": 1}, {}], False),
        ([{"a": 1}, 2], False),
        ([{"a": 1}, {1: 2}], False),
        ([{"a": 1}, {"a": {}}], False),
        ([{"a": 1}, {"b": 2}], True),
        ([{"a": 1}, {"b": 2}, {"c": 3}], False),
        ([dict.fromkeys(map(str, range(40)), 1)] * 2, True),
        ([dict.fromkeys(map(str, range(41)), 1)] * 2, False),
    ],
    ids=lambda value: repr(value)[:30],
)
def test_flat_rows_with_mostly_the_same_names_are_a_table(rows: list[Any], is_grid: bool) -> None:
    assert (value_json(rows)["kind"] == "grid") == is_grid


def test_a_bounded_number_of_pictures_and_bytes_is_shown() -> None:
    small, large = PNG + b"x", PNG + b"x" * (MOST_PICTURE // 2)
    kinds = [part["kind"] for _, part in value_json([small] * (MOST_PICTURES + 2))["parts"]]
    assert kinds == ["png"] * MOST_PICTURES + ["text"] * 2
    kinds = [part["kind"] for _, part in value_json([large, large, small, b"no"])["parts"]]
    assert kinds == ["png", "text", "png", "text"]
    picture = value_json(small)
    assert picture == {"kind": "png", "title": "PNG", "data": base64.b64encode(small).decode()}
    assert value_json(small, draws=False) == {"kind": "text", "text": "<PNG>"}
    assert f'src="data:image/png;base64,{picture["data"]}"' in shown_html(picture)


def test_a_fold_is_open_if_it_is_the_outermost_or_the_only_part() -> None:
    assert value_html({"a": {"b": [1]}}).count("<details open>") == 3
    assert value_html({"a": [1], "b": [1]}).count("<details open>") == 1
    assert shown_html(value_json({"a": [1], "b": [1]}), is_whole=True).count("<details open>") == 3
    assert shown_html(value_json([1, 2])).count("<details>") == 1
    assert "… 3 more</li>" in value_html(list(range(MOST_ITEMS + 3)))


@pytest.mark.parametrize(("text", "is_block"), [("x" * 160, False), ("x" * 161, True), ("a\nb", True)])
def test_a_long_text_is_a_block(text: str, is_block: bool) -> None:
    assert value_json(text).get("block", False) == is_block
    assert ("<pre" in value_html(text)) == is_block


def lines(*numbers: int) -> str:
    return "\n".join(f"line {number:,} of a long text" for number in range(*numbers))


def test_a_long_text_is_open_up_to_a_whole_line_and_the_others_are_in_a_fold() -> None:
    page = value_html(lines(100))
    first, fold = page.split("<details>")
    begin = first.removesuffix(f"{lines(16)}</pre>")
    assert begin.startswith("<pre style=")
    assert fold == f"<summary>… and 84 more lines</summary>{begin}{lines(16, 100)}</pre></details>"
    assert "max-height" not in page


def test_few_more_lines_are_no_reason_for_a_fold() -> None:
    assert lines(20) in value_html(lines(20))
    assert "… and 5 more lines" in value_html(lines(21))


@pytest.mark.parametrize(
    "text", ["a\n" * 3000, "a\n" * 3000 + "b", "\n" * 4001 + "hello", "a\n" * 1999 + "\n" * 5, "\n" * 9000]
)
def test_the_lines_that_are_shown_and_the_others_are_all(text: str) -> None:
    shown = value_json(text)
    assert shown["text"]
    whole = text.rfind("\n", 0, 4_000)
    assert shown.get("more", 0) == len(text[whole + 1 :].splitlines()) > 0


def test_a_very_long_text_is_saved_in_whole_lines_and_the_others_are_counted() -> None:
    text = value_text(lines(1000)).split("\n")
    assert text[:-1] == lines(len(text) - 1).split("\n")
    assert text[-1] == f"… and {1000 - len(text) + 1} more lines"
    page = value_html(lines(1000))
    assert "… and 984 more lines</summary>" in page
    assert page.endswith(f"<em>… {1000 - len(text) + 1} more lines not saved here</em></details>")


NOISE, THIRD = 0.1 + 0.2, 1 / 3


@pytest.mark.parametrize(
    ("value", "among", "alone"),
    [
        (NOISE, "0.3", "0.30000000000000004"),
        (0.1 + 0.7, "0.8", "0.7999999999999999"),
        (-NOISE, "-0.3", "-0.30000000000000004"),
        (THIRD, "≈ 0.333333", "0.3333333333333333"),
        (2 / 3, "≈ 0.666667", "0.6666666666666666"),
        (1e-9 / 3, "≈ 3.33333e-10", "3.3333333333333337e-10"),
        (1234.5678901, "≈ 1234.57", "1234.5678901"),
        (123456789.123456789, "≈ 123456789.12", "123456789.12345679"),
        (1e20 / 3, "≈ 3.33333e+19", "3.333333333333333e+19"),
        (12345678.9, "12345678.9", "12345678.9"),  # short enough unchanged
        (1e15 + 2, "1000000000000002.0", "1000000000000002.0"),
        (2.0**53, "9007199254740992.0", "9007199254740992.0"),
        (-0.0, "-0.0", "-0.0"),
        (float("-inf"), "-inf", "-inf"),
        (float("nan"), "nan", "nan"),
        (5e-324, "5e-324", "5e-324"),
    ],
)
def test_a_number_among_others_is_rounded_and_one_alone_has_all_its_digits(
    value: float, among: str, alone: str
) -> None:
    assert (value_among(value), value_brief(value)) == (among, among)
    assert (value_text(value), value_text([value])) == (alone, f"- {among}")
    assert value_text([value, {"a": value}], is_exact=True) == f"- {alone}\n- 1 field\n  a: {alone}"
    assert value_text([{"a": value}] * 2).split("\n") == ["a".rjust(len(among)), among, among]
    (_, part), *_ = value_json([value])["parts"]
    assert part.get("whole", part["text"]) == alone
    assert value_html([value]).count(alone) == 1  # where the pointer is, or as it is


def test_a_text_with_digits_is_left_as_it_is() -> None:
    assert value_among(["0.30000000000000004"]) == '- "0.30000000000000004"'


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("⟨DataFrame 55 × 3⟩", "⟨DataFrame 55 × 3⟩"),
        ("⟨Table⟩", "⟨Table⟩"),
        ("⟨a⟩ and ⟨b⟩", '"⟨a⟩ and ⟨b⟩"'),
        ("⟨⟩", '"⟨⟩"'),
        ("⟨\n⟩", '"⟨ ⟩"'),
        ("fig", '"fig"'),
    ],
)
def test_the_preview_of_an_object_has_no_quotes(text: str, shown: str) -> None:
    assert value_text({"frame": text}) == f"frame: {shown}"


REPLY = (
    "## Order summary\n\nThe order holds **two items**:\n\n| item | price |\n|---|---|\n| lamp | 49 |\n" + "x " * 200
)


@pytest.mark.parametrize(
    "inside", [{"text": REPLY, "order": 10}, [REPLY, 1], {"of": {"text": REPLY}}], ids=["object", "list", "deeper"]
)
def test_a_reply_inside_a_value_is_markdown_and_another_long_text_has_all_of_it(inside: object) -> None:
    page = value_html(inside, replies=lambda text: text == REPLY)
    assert "<strong>two items</strong>" in page
    assert "<table" in page
    assert "**two" not in page
    plain_page = value_html(inside)
    assert "<strong>" not in plain_page
    assert plain_page.count("| lamp | 49 |") >= 1
    assert plain_page.count("x ") >= 200  # to its end, in a fold
