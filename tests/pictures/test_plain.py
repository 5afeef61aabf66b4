"""Text that is safe to show, as text and as HTML: bounded, in one direction, and without control characters."""

from __future__ import annotations

import pytest

from agf_magics.pictures.plain import UNTYPESET, details, html, line, not_saved, padded, plain, untypeset

PLAIN: list[tuple[str, str]] = [
    ("a\n\tb", "a\n\tb"),
    ("é日😀", "é日😀"),
    ("\x00\x1b[2J\x7f", "\\x00\\x1b[2J\\x7f"),
    ("a\rb", "a\\x0db"),
    ("\x85\xad", "\\x85\\xad"),
    ("\u200b\u202e\ufeff", "\\u200b\\u202e\\ufeff"),
    ("\ud800", "\\ud800"),
    ("\U000e0041", "\\U000e0041"),
    ("e" + "\u0301" * 4 + "x", "e" + "\u0301" * 4 + "x"),
    ("e" + "\u0301" * 8 + "x", "e" + "\u0301" * 4 + "x"),
    ("x" * 10, "x" * 10),
    ("x" * 11, "x" * 10 + "… 11 characters in all"),
    ("é" * 2_000_000, "é" * 10 + "… 2 MB in all"),
]


@pytest.mark.parametrize(("text", "expected"), PLAIN, ids=lambda value: ascii(value[:20]))
def test_a_text_is_shown(text: str, expected: str) -> None:
    assert plain(text, 10) == expected


LINES: list[tuple[str, str]] = [
    ("a\n  b\tc", "a b c"),
    (" a ", "a"),
    ("x" * 10, "x" * 10),
    ("x" * 11, "x" * 9 + "…"),
    ("x" * 8 + " yz", "x" * 8 + "…"),
    ("a" + " " * 38 + "b", "a b"),
    ("a" + " " * 40 + "b", "a…"),
    ("a\u202eb", "a\\u202eb"),
]


@pytest.mark.parametrize(("text", "expected"), LINES, ids=lambda value: ascii(value[:20]))
def test_a_text_on_one_line(text: str, expected: str) -> None:
    assert line(text, 10) == expected


def test_a_text_is_escaped_in_html() -> None:
    assert html("<a b=\"c\" d='e'>&") == "&lt;a b=&quot;c&quot; d=&#x27;e&#x27;&gt;&amp;"


def test_a_page_is_text_once() -> None:
    page = f"{UNTYPESET}<p>$5</p></div>"
    assert untypeset("<p>$5</p>") == page
    assert untypeset(page) == page
    assert untypeset("") == ""


def test_a_fold_is_closed_by_default() -> None:
    assert details("a", "<p>b</p>") == "<details><summary>a</summary><p>b</p></details>"
    assert details("a", "b", is_open=True) == "<details open><summary>a</summary>b</details>"


@pytest.mark.parametrize(("text", "width", "expected"), [("ab", 4, "ab  "), ("日", 4, "日  "), ("abcde", 4, "abcde")])
def test_a_text_is_filled_to_its_cells(text: str, width: int, expected: str) -> None:
    assert padded(text, width) == expected


def test_an_unsaved_part_is_named_with_its_size_and_its_place() -> None:
    assert not_saved("the <table>", 1_234_567, "run.table[0]") == (
        "<p><em>not saved here, 1,235 kB: the <table> (<code>run.table[0]</code>)</em></p>"
    )
