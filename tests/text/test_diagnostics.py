"""Tests of printed errors: at most 78 columns, carets under the right characters, equal problems once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agf_magics.text.columns import WIDTH, cells, wrap
from agf_magics.text.diagnostics import DefinitionError, Diagnostic, Diagnostics, StepError, merge_equal
from agf_magics.text.excerpt import excerpt
from agf_magics.text.source import Source

LINES = st.text(st.sampled_from("ab cx:{}'\t日ｱé\u0301…\u200b"), max_size=300)


def text_above_carets(lines: list[str]) -> str:
    """The text above the carets."""
    _, excerpt_line, carets = lines
    before, size = carets.index("^"), carets.count("^")
    text, column = "", 0
    for character in excerpt_line:
        if before <= column < before + size:
            text += character
        column += cells(character)
    return text


@given(LINES, st.integers(0, 400), st.integers(0, 400))
def test_an_excerpt_fits_and_its_carets_are_under_the_characters(line: str, start: int, size: int) -> None:
    start = min(start, len(line))
    span = Source("In[3] %%pipeline", line).span(start, min(len(line), start + size))
    lines = excerpt(span)
    assert all(cells(text_line) <= WIDTH for text_line in lines)
    expected = "".join(c if c.isprintable() else " " for c in span.text if cells(c))
    above = "".join(c for c in text_above_carets(lines) if cells(c))
    if not expected:  # one caret shows the place
        assert lines[-1].count("^") == 1
    else:
        assert expected.startswith(above)
        assert above == expected or len(above) >= 20


@pytest.mark.parametrize(
    ("text", "columns"),
    [("abc", 3), ("漢字", 4), ("e\u0301", 1), ("नमस्ते", 4), ("ที่", 1), ("a\u20dd", 1)],
)
def test_a_mark_over_the_character_before_it_takes_no_column(text: str, columns: int) -> None:
    assert cells(text) == columns


@pytest.mark.parametrize("number", [1, 12_345, 1_234_567])
def test_an_excerpt_of_a_far_line_fits_too(number: int) -> None:
    assert max(map(len, excerpt(Source("f", "x" * 500, number).span(250, 260)))) <= WIDTH


LONG = "".join(f"{number:03} " for number in range(1_000))
"""A line of 4,000 characters."""

SHOWN: dict[str, tuple[str, int, int, str, str]] = {
    # what: the line, the first and the last marked character, the line as it is shown, the text above the carets
    "a short line": ("key: value", 5, 10, "key: value", "value"),
    "nothing marked": ("key: value", 5, 5, "key: value", "v"),
    "behind its end": ("key", 3, 3, "key", ""),
    "its beginning": (LONG, 0, 3, LONG[:69] + "…", "000"),
    "its middle": (LONG, 2_000, 2_003, "…" + LONG[1_946:2_015] + "…", "500"),
    "its end": (LONG, 3_996, 3_999, "…" + LONG[3_931:], "999"),
    "more than fits": (LONG, 2_000, 2_500, "…" + LONG[1_978:2_047] + "…", LONG[2_000:2_047]),
    "many wide characters": ("a: " + "日" * 100, 53, 90, "…" + "日" * 34 + "…", "日" * 23),
    "all of them wide": ("日" * 100, 0, 100, "日" * 34 + "…", "日" * 34),
    "wide characters behind": ("a" * 40 + "日" * 60, 38, 40, "a" * 40 + "日" * 14 + "…", "aa"),
    "wide characters": ("日" * 100, 50, 51, "…" + "日" * 34 + "…", "日"),
}


@pytest.mark.parametrize("case", SHOWN)
def test_of_a_long_line_the_part_around_the_mark_is_shown(case: str) -> None:
    line, start, end, expected, above = SHOWN[case]
    place, first, carets = excerpt(Source("f", f"a\n{line}").span(2 + start, 2 + end))
    assert (place, first) == (f"  --> f, line 2, column {start + 1}", f"   2 | {expected}")
    assert text_above_carets([place, first, carets]) == above


@given(st.text(st.sampled_from("abc -/[].,\n"), max_size=400))
def test_wrapping_splits_no_word_and_loses_nothing(text: str) -> None:
    lines = wrap(text).split("\n")
    assert "".join(lines).replace(" ", "") == text.replace("\n", "").replace(" ", "")
    assert {word for line in lines for word in line.split()} == set(text.split())
    assert all(len(line) <= WIDTH or len(line.split()) == 1 for line in lines)


def test_a_hint_is_wrapped_below_its_first_word() -> None:
    options = ", ".join(f"--option-{letter}" for letter in "abcdefgh")
    lines = wrap(f"  = did you mean --option-a? options are {options}")
    assert lines.split("\n") == [
        "  = did you mean --option-a? options are --option-a, --option-b, --option-c,",
        "    --option-d, --option-e, --option-f, --option-g, --option-h",
    ]


def test_the_line_of_a_place_is_not_wrapped() -> None:
    place = f"  --> {'folder with blanks/' * 8}p.yaml, line 1, column 1"
    assert wrap(place) == place


def findings() -> list[Diagnostic]:
    source = Source("In[3]", "toool: {}\ntoool: {}\nother: {}\n{toool: {}, toool: {}}\n")
    places = [(0, 5), (10, 15), (31, 36), (42, 47)]
    same = [Diagnostic("pipeline.kind", "unknown step 'toool'", source.span(*place), "write tool") for place in places]
    other = Diagnostic("pipeline.kind", "unknown step 'other'", source.span(20, 25), "write tool")
    return [*same[:2], other, *same[2:]]


def test_equal_findings_are_one_block_with_all_places() -> None:
    error = DefinitionError(*findings())
    assert len(error.diagnostics) == 5
    assert str(error).split("\n") == [
        "unknown step 'toool' [pipeline.kind]",
        "  --> In[3], line 1, column 1",
        "   1 | toool: {}",
        "     | ^^^^^",
        "  = write tool",
        "  = the same in lines 2 and 4",
        "unknown step 'other' [pipeline.kind]",
        "  --> In[3], line 3, column 1",
        "   3 | other: {}",
        "     | ^^^^^",
        "  = write tool",
    ]


def test_findings_with_another_severity_hint_or_source_are_not_equal() -> None:
    first_source, second_source = Source("a", "x"), Source("b", "x")
    rows = [
        Diagnostic("c.d", "m", first_source.span()),
        Diagnostic("c.d", "m", second_source.span()),
        Diagnostic("c.d", "m"),
    ]
    rows += [
        Diagnostic("c.d", "m", first_source.span(), "h"),
        Diagnostic("c.d", "m", first_source.span(), None, "warning"),
    ]
    assert merge_equal(rows) == rows


def test_a_hundred_thousand_equal_findings_are_printed_at_once() -> None:
    source = Source("f", "x" * 100_000)
    error = DefinitionError(*(Diagnostic("c.d", "m", source.span(offset, offset + 1)) for offset in range(100_000)))
    assert str(error).endswith("\n  = the same in 99,999 more places")


def test_a_megabyte_of_foreign_text_is_shortened() -> None:
    assert len(str(StepError(Diagnostic("c.d", "x" * 1_000_000)))) < 2_100


TEXT = Source("a text", "one two three")


def found(*severities: str) -> Diagnostics:
    """Problems with these severities, the last ones first in the text."""
    problems = Diagnostics()
    for number, severity in enumerate(severities):
        span = TEXT.span(9 - number, 10 - number)
        problems.add(Diagnostic(f"code.{number}", severity, span, severity=severity))  # type: ignore[arg-type]
    return problems


def codes_of(problems: Diagnostics) -> str:
    return "".join(problem.code[-1] for problem in problems)


def test_problems_come_in_the_order_of_the_text_and_each_once() -> None:
    problems = found("error", "note", "warning")
    problems.extend([*problems, Diagnostic("code.9", "it has no place")])
    assert codes_of(problems) == "2109"


@pytest.mark.parametrize(("kept", "left", "errors"), [(0, "", 0), (1, "0", 1), (2, "10", 1), (4, "3210", 2)])
def test_problems_that_are_taken_back_are_no_errors(kept: int, left: str, errors: int) -> None:
    problems = found("error", "warning", "note", "error")
    problems.take_back(kept)
    assert (codes_of(problems), problems.error_count, len(problems.errors)) == (left, errors, errors)


def test_problems_can_be_left_out_by_code_or_as_notes() -> None:
    problems = found("error", "note", "warning", "note")
    assert codes_of(problems.without("code.0", "code.3")) == "21"
    assert codes_of(problems.without_notes()) == "20"
    assert (codes_of(problems), len(problems)) == ("3210", 4), "these are others"
    assert (problems.without("code.0").error_count, problems.without("code.1").error_count) == (0, 1)


@pytest.mark.parametrize(
    ("severities", "refused", "strictly"),
    [
        ((), False, False),
        (("note",), False, False),
        (("note", "warning"), False, True),
        (("error",), True, True),
        (("warning", "error"), True, True),
    ],
)
def test_errors_are_refused_and_strictly_warnings_too(
    severities: tuple[str, ...], refused: bool, strictly: bool
) -> None:
    for strict, expected in ((False, refused), (True, strictly)):
        problems = found(*severities)
        if not expected:
            problems.refuse(strict)
            continue
        with pytest.raises(DefinitionError) as caught:
            problems.refuse(strict)
        assert caught.value.diagnostics == tuple(problems)
        worst = "error" if "error" in severities else "warning"
        assert caught.value.diagnostic.severity == worst
