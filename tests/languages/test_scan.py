"""The scanner that the small grammars share."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import agf_magics as agf
from agf_magics.languages.descend import MISSING, descend
from agf_magics.languages.scan import QUOTED, Refusal, Scanner, parse_at, read_number
from agf_magics.text.source import Source


def refuse_colon(text: str) -> str:
    scanner = Scanner(text)
    if scanner.peek() == ":":
        raise Refusal("test.colon", "expected a name, got ':'", scanner.at, scanner.at + 1, "write a name")
    return text[scanner.at :]


def test_a_refusal_points_at_its_place_in_the_document() -> None:
    text = Source("a.yaml", "key:  : x").span(4)
    with pytest.raises(agf.DefinitionError) as caught:
        parse_at(text, refuse_colon)
    diagnostic = caught.value.diagnostic
    assert (diagnostic.code, diagnostic.span and diagnostic.span.place, diagnostic.hint) == (
        "test.colon",
        (1, 7),
        "write a name",
    )
    assert parse_at(Source("", "\u00a0\t x").span(), refuse_colon) == "x"


def test_a_scanner_stops_at_its_end() -> None:
    scanner = Scanner("ab  }", 2, 4)
    assert (scanner.peek(), scanner.at) == ("", 4)


@pytest.mark.parametrize(("text", "end"), [(r"'it\'s' b", 7), (r'"a\\" b', 5), ('"open', None), ("'a\n'", 4)])
def test_a_backslash_escapes_in_a_quoted_text(text: str, end: int | None) -> None:
    match = QUOTED.match(text)
    assert (match and match.end()) == end


@pytest.mark.parametrize("text", ["1_000", ".5", "+5", "0x1", "١", "9" * 1_001, "-1e400", ""])
def test_only_a_finite_json_number_is_a_number(text: str) -> None:
    assert read_number(text) is None


def test_a_path_descends_through_objects_and_what_the_language_reads() -> None:
    root = {"a": SimpleNamespace(b={"c": 3})}
    assert descend(root, ("a", "b")) is MISSING
    assert descend(root, ("a", "b", "c"), lambda value, name: getattr(value, name, MISSING)) == 3
