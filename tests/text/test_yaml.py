"""Tests of the YAML reader: values, places and errors, by tests/vectors/yaml.json and by cases that no row can
express."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import yaml as pyyaml
from hypothesis import assume, given
from hypothesis import strategies as st

from agf_magics.text.diagnostics import Diagnostic, Diagnostics
from agf_magics.text.source import Source
from agf_magics.text.yaml.nodes import Fields, Items, Scalar, plain, shown
from agf_magics.text.yaml.reader import Bounds, documents

ROWS = json.loads((Path(__file__).parent.parent / "vectors" / "yaml.json").read_text("utf-8"))["rows"]
C_PARSER = pyyaml.__with_libyaml__


def read_yaml(text: str, /, **bounds: int) -> tuple[list[Any], list[Diagnostic]]:
    problems = Diagnostics()
    nodes = documents(Source("a text", text), problems, Bounds(**bounds))
    return [plain(node) for node in nodes], list(problems)


def marked_place(node: Diagnostic) -> str:
    return node.span.text


@pytest.mark.parametrize("row", ROWS, ids=[row["title"] for row in ROWS])
def test_a_text_reads_as_its_row_says(row: dict[str, Any]) -> None:
    if row.get("c_parser_only") and not C_PARSER:
        pytest.skip("the C parser is missing here")
    values, problems = read_yaml(row["text"], **row.get("bounds", {}))
    errors = [problem for problem in problems if problem.severity == "error"]
    assert [{"code": e.code, "at": marked_place(e)} for e in errors] == row.get("errors", [])
    warnings = [{"code": w.code, "at": marked_place(w)} for w in problems if w.severity == "warning"]
    assert warnings == row.get("warnings", [])
    if "values" in row:
        assert values == row["values"]
        assert json.dumps(values) == json.dumps(row["values"])  # 1 is not 1.0, and the order of keys counts
        return
    first = errors[0]
    assert first.span is not None
    if "says" in row:
        assert first.message == row["says"]
    if "hint" in row:
        assert first.hint == row["hint"]
    if "line" in row:
        assert first.span.place[0] == row["line"]
    if "related" in row:
        assert first.related[0][1].text == row["related"]
        assert first.related[0][1].start < first.span.start


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.text("ab \n'\"\\:#-é😀\u2028", max_size=30)
TREE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)


@given(TREE, st.booleans())
def test_json_reads_as_itself(value: Any, ascii_only: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii_only)
    values, problems = read_yaml(text)
    if not ascii_only and [problem.code for problem in problems] == ["yaml.character"]:
        return  # JSON allows them unescaped, YAML does not
    assert not problems
    assert values == ([] if value is None else [value])


STYLES = ("'", '"', "|", ">")


ENDS_OF_11 = "\x85\u2028\u2029"
"""Ends of lines to PyYAML, which prints YAML 1.1, and letters here."""


def same_in_both(value: Any) -> bool:
    text = json.dumps(value, ensure_ascii=False)
    return not any(end in text for end in ENDS_OF_11)


def print_yaml(value: Any, style: str, width: int, unicode: bool) -> str:
    """``value`` as PyYAML prints it, its texts in one style: unquoted it would think of YAML 1.1."""

    class Printer(pyyaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    Printer.add_representer(str, lambda printer, text: printer.represent_scalar("tag:yaml.org,2002:str", text, style))
    return pyyaml.dump(value, Dumper=Printer, width=width, allow_unicode=unicode)


@given(TREE.filter(same_in_both), st.sampled_from(STYLES), st.sampled_from([8, 80]), st.booleans())
def test_what_a_yaml_printer_writes_reads_as_itself(value: Any, style: str, width: int, unicode: bool) -> None:
    # PyYAML breaks a folded line that begins with a blank. Every reader, PyYAML too, keeps this break.
    assume(style != ">" or not re.search(r'(?:"|\\n) |\\t', json.dumps(value)))
    values, problems = read_yaml(print_yaml(value, style, width, unicode))
    assert not problems
    assert values == ([] if value is None else [value])


def every_scalar(node: Any) -> list[Scalar]:
    if isinstance(node, Scalar):
        return [node]
    if isinstance(node, Items):
        return [scalar for item in node.items for scalar in every_scalar(item)]
    return [*node.keys.values(), *(scalar for value in node.fields.values() for scalar in every_scalar(value))]


def written_for(letter: str, source: str) -> bool:
    """Whether ``source`` is a way to write ``letter``."""
    if source == letter or (letter in " \n" and source.strip(" \t\r\n") == ""):
        return True
    return source == "''" or source[:1] == "\\"


@given(st.lists(TEXT.filter(same_in_both), min_size=1, max_size=3), st.sampled_from(STYLES), st.sampled_from([8, 80]))
def test_every_letter_knows_where_it_stands(texts: list[str], style: str, width: int) -> None:
    text = print_yaml({"k": texts}, style, width, True)
    [node] = documents(Source("a text", text), Diagnostics())
    assert isinstance(node, Fields)
    items = node.fields["k"]
    assert isinstance(items, Items)
    for scalar, expected in zip(items.items, texts, strict=True):
        assert isinstance(scalar, Scalar)
        assert scalar.text == expected
        end = scalar.span.start
        for i, letter in enumerate(expected):
            span = scalar.locate(i, i + 1)
            assert written_for(letter, span.text)
            assert span.start >= end  # in order, none twice
            end = span.end
        assert end <= scalar.span.end
        if expected:
            whole = scalar.locate(0, len(expected))
            assert (whole.start, whole.end) == (scalar.locate(0, 1).start, end)


LOCATED = [
    ("a: one two", "two", "two"),
    ("a: one\n   two\n", "e t", "e\n   t"),
    ("a: 'it''s here'", "'", "''"),
    ("a: 'it''s here'", "here", "here"),
    ('a: "tab\\tand \\u00e9 x"', "é", "\\u00e9"),
    ('a: "tab\\tand \\u00e9 x"', "x", "x"),
    ('a: "one\n   two"', "two", "two"),
    ('a: "on\\\n   e two"', "two", "two"),
    ('a: "\\ud83d\\ude00 x"', "😀", "\\ud83d\\ude00"),
    ('a: "\\ud83d\\ude00 x"', "x", "x"),
    ("a: |\n  one\n  two\n", "two", "two"),
    ("a: |\r\n  one\r\n  two\r\n", "two", "two"),
    ("a: |2\n    one\n", "  one", "  one"),
    ("a: >\n  one\n  two\n", "e t", "e\n  t"),
    ("a: >\n  one\n\n  two\n", "\n", " "),  # some blank of the gap
    ("a: !expr 'x + y'", "y", "y"),
    ("a: &n !expr # why\n  x + y", "y", "y"),
    ("a: &n !expr # why\n  x + y", "x + y", "x + y"),
    ("\ufeffa: 😀 x", "x", "x"),
    ("a: 'p\u2028q'", "q", "q"),
]
"""A text, a part of its value, and the text at the place of this part."""


@pytest.mark.parametrize(("text", "part", "expected"), LOCATED)
def test_a_part_of_a_text_is_found_in_the_source(text: str, part: str, expected: str) -> None:
    [node] = documents(Source("a text", text), Diagnostics())
    assert isinstance(node, Fields)
    scalar = node.fields["a"]
    assert isinstance(scalar, Scalar)
    start = scalar.text.index(part)
    assert scalar.locate(start, start + len(part)).text == expected


@pytest.mark.parametrize("text", ["a: 'x'", "a: x", 'a: "x\\n"', "a: |\n  x\n", "a: !expr x", "a: ''", "a:"])
def test_the_end_of_a_text_has_a_place_too(text: str) -> None:
    [node] = documents(Source("a text", text), Diagnostics())
    assert isinstance(node, Fields)
    scalar = node.fields["a"]
    assert isinstance(scalar, Scalar)
    end = scalar.locate(len(scalar.text), len(scalar.text))
    assert end.start == end.end
    assert scalar.span.start <= end.start <= scalar.span.end
    if scalar.text:
        assert end.start == scalar.locate(len(scalar.text) - 1, len(scalar.text)).end


def test_an_expression_that_is_empty_is_its_tag() -> None:
    [node] = documents(Source("a text", "a: !expr"), Diagnostics())
    assert isinstance(node, Fields)
    scalar = node.fields["a"]
    assert isinstance(scalar, Scalar)
    assert (scalar.is_expr, scalar.text, scalar.locate(0, 0).text) == (True, "", "!expr")


@pytest.mark.parametrize("around", ["{}: 1", "'{}': 1", '{{"{}": 1}}', "a: 1\n{}: 1\n", '{{"a": 1, "{}": 1}}'])
def test_a_key_may_be_as_long_as_yaml_lets_it(around: str) -> None:
    key = "k" * 1020
    [value], problems = read_yaml(around.format(key))
    assert key in value
    assert not problems
    _, [problem] = read_yaml(around.format(key + "k" * 20))
    assert problem.message == "a key is longer than 1,024 characters"
    assert marked_place(problem).strip("'\"") == key + "k" * 20


def test_an_escape_beyond_all_characters_is_told() -> None:
    assert [problem.code for problem in read_yaml('a: "\\U00110000"')[1]] == ["yaml.syntax"]


SPANS = {
    "a: {b: 1, c: 2}  # d": "{b: 1, c: 2}",
    "a:\n  b: 1\n  c: 2\n": "b: 1",
    "a:\n  - b  # why\n  - c\n": "- b  # why",
    "a: [1,\n  2]\n": "[1,",
    "a: &x\n  - 1\n": "- 1",
    "a: &x [1]": "[1]",
    "a: !expr 'x y'": "'x y'",
    "a: &x 1": "1",
    "a: !expr": "!expr",
    "a:": "",
}


@pytest.mark.parametrize("text", SPANS)
def test_a_node_points_at_the_first_line_of_itself(text: str) -> None:
    [node] = documents(Source("a text", text), Diagnostics())
    assert isinstance(node, Fields)
    assert node.fields["a"].span.text == SPANS[text]
    assert node.keys["a"].span.text == "a"


SHOWN = {
    "yes": "text 'yes'", "''": "empty text", "3": "the number 3", "1e3": "the number 1e3", "True": "True",
    "null": "null", "": "nothing", "[]": "an empty list", "[1]": "a list", "{}": "an empty mapping",
    "{b: 1}": "a mapping", "!expr x": "an expression", "x" * 50: f"text '{'x' * 39}…'",
}  # fmt: skip


@pytest.mark.parametrize("text", SHOWN)
def test_an_error_names_a_node_in_few_words(text: str) -> None:
    [node] = documents(Source("a text", f"a: {text}"), Diagnostics())
    assert isinstance(node, Fields)
    assert shown(node.fields["a"]) == SHOWN[text]


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)
ENDLESS = {
    "10,000 nested lists": ("[" * 10_000, "yaml.too-deep"),
    "100,000 nested lists, which end the C composer's process": ("[" * 100_000, "yaml.too-deep"),
    "nested mappings": ("{a: " * 100_000, "yaml.too-deep"),
    "nested entries": ("- " * 100_000, "yaml.too-deep"),
    "nested keys": ("? " * 100_000, "yaml.too-deep"),
    "an alias bomb": (BOMB, "yaml.too-many-aliases"),
    "ten megabytes": ("a: b\n" * 2_000_000, "yaml.too-large"),
    "too many values": ("- a\n" * 200_000, "yaml.too-many-nodes"),
    "a number of a million digits": ("a: " + "9" * 900_000, "yaml.number"),
    "a long line of openings that never close": ("'" + "x" * 900_000, "yaml.syntax"),
}


@pytest.mark.parametrize("name", ENDLESS)
def test_no_text_can_exhaust_the_kernel(name: str) -> None:
    text, code = ENDLESS[name]
    problems: list[Diagnostic] = []
    # A thread's stack is a fraction of the main one's.
    reading = threading.Thread(target=lambda: problems.extend(read_yaml(text)[1]))
    reading.start()
    reading.join()
    assert [problem.code for problem in problems] == [code]
    assert len(str(problems[0])) < 1000


WRITTEN_OUT = {
    "a text": ("a: &a 1\nb: *a\nc: [*a]", 2, "a: 1\nb: 1\nc: [1]"),
    "a list": ("a: &a [1, [2]]\nb: *a", 1, "a: [1, [2]]\nb: [1, [2]]"),
    "a mapping": ("a: &a {x: {y: 1}}\nb: {c: *a}", 1, "a: {x: {y: 1}}\nb: {c: {x: {y: 1}}}"),
    "an alias in an alias": ("a: &a [1]\nb: &b [*a, *a]\nc: *b", 5, "a: [1]\nb: [[1], [1]]\nc: [[1], [1]]"),
    "an alias before the anchor": ("a: &a [1]\nb: *a\nc: &c [*a]\nd: *c", 4, "a: [1]\nb: [1]\nc: [[1]]\nd: [[1]]"),
    "a node before the anchor": ("[1, 2, 3, &a [4], *a, *a]", 2, "[1, 2, 3, [4], [4], [4]]"),
    "the same anchor again": ("[&a 1, *a, &a [2, 3], *a]", 2, "[1, 1, [2, 3], [2, 3]]"),
    "an alias as a key": ("{&a b: 1, c: [*a]}", 1, "{b: 1, c: [b]}"),
    "a deep alias": ("[&a [[[1]]], [[*a]]]", 1, "[[[[1]]], [[[[[1]]]]]]"),
    "an empty list": ("[&a [], [*a]]", 1, "[[], [[]]]"),
}


@pytest.mark.parametrize("case", WRITTEN_OUT)
def test_an_alias_is_as_large_as_what_it_stands_for(case: str) -> None:
    text, aliases, whole = WRITTEN_OUT[case]
    assert read_yaml(text) == read_yaml(whole)
    assert smallest(text, "aliases", "yaml.too-many-aliases") == aliases
    for bound, code in (("nodes", "yaml.too-many-nodes"), ("depth", "yaml.too-deep")):
        assert smallest(text, bound, code) == smallest(whole, bound, code)


def smallest(text: str, bound: str, code: str) -> int:
    """The smallest bound within which ``text`` is read; within each smaller one it is refused with ``code``."""
    for number in range(100):
        _, problems = read_yaml(text, **{bound: number})
        if not problems:
            return number
        assert [problem.code for problem in problems] == [code]
    raise AssertionError("it is always refused")


PIECES = [
    "a", "b c", "\n", "\n  ", " ", "\t", "'", "''", '"', "\\n", "\\\n", "\\u00e9", "\\ud83d\\ude00", "|", ">", "|2",
    ">-", "|+", "# c", "x: ", "- ", "é", "😀", "\r\n", "\r", "\x85", "\u2028", ", ", "[", "{", "]", "}", "!expr ",
    "&a ", "*a", ": ", "? ", "---\n", "...", "%", "@", "1.5", "a: |\n  ", "a: >\n  ", '- "', "- '",
]  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=16))
def test_no_text_makes_reading_raise_or_lose_a_place(pieces: list[str]) -> None:
    source, problems = Source("a text", "".join(pieces)), Diagnostics()
    nodes = documents(source, problems)
    for problem in problems:
        assert 0 <= problem.span.start <= problem.span.end <= len(source.text)
        str(problem)
    for scalar in [scalar for node in nodes for scalar in every_scalar(node)]:
        for i, letter in enumerate(scalar.text):
            assert written_for(letter, scalar.locate(i, i + 1).text)


@pytest.mark.slow
def test_the_parser_in_python_gives_the_same() -> None:
    if not C_PARSER:
        pytest.skip("the C parser is missing here: the other tests have shown it")
    program = "import sys; sys.modules['yaml._yaml'] = None; import pytest; sys.exit(pytest.main(sys.argv[1:]))"
    slow = "not exhaust and not printer and not json"
    command = [
        sys.executable,
        "-c",
        program,
        "-rs",
        "-p",
        "no:cacheprovider",
        "--hypothesis-seed=1",
        "-k",
        slow,
        __file__,
    ]
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    assert completed.returncode == 0, completed.stdout[-3000:]
    assert "the C parser is missing here" in completed.stdout  # as the skipped rows found
