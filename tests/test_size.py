"""The package stays below its budget; a change that needs more says so by raising a maximum here."""

from __future__ import annotations

import pytest

from .size import Size, report, size_of, sizes
from .ways import files, ways

MOST = Size(files=210, decisions=17963, code=52752, comments=0)
LONGEST = 500
"""Lines of a file: a file is one thought."""

MOST_FILES = {
    "a text to a flow": 17,
    "a run of one call": 22,
    "the same with the journal": 31,
    "Run from here": 37,
    "elements on workers, in the kernel": 36,
}
"""Files that a reader opens who follows one of the ways; docs/design.md lists them."""


def test_no_way_is_longer_than_it_was() -> None:
    found = ways()
    for name, way in found.items():
        print(f"{name}: {len(way)} functions, {len(files(way))} files")
    assert {name: len(files(way)) for name, way in found.items() if len(files(way)) > MOST_FILES[name]} == {}


def test_the_package_is_within_its_budget() -> None:
    print(report())
    files = sizes().values()
    assert len(files) <= MOST.files
    assert sum(size.decisions for size in files) <= MOST.decisions
    assert sum(size.code for size in files) <= MOST.code


def test_no_file_is_too_long() -> None:
    assert {path: size.code for path, size in sizes().items() if size.code > LONGEST} == {}


@pytest.mark.parametrize(
    ("text", "decisions", "code", "comments"),
    [
        ("x = 1\n", 0, 1, 0),
        ('"""A text.\n\nOf three lines."""\n# why\nx = 1  # what\n', 0, 1, 1),
        ("def f(a):\n    return a and b or c\n", 3, 2, 0),
        ("y = [a for a in b if a if c]\n", 3, 1, 0),
        ("match a:\n    case 1:\n        pass\n    case _:\n        pass\n", 2, 5, 0),
        ("try:\n    assert a\nexcept E:\n    x = 1 if a else 2\n", 3, 4, 0),
    ],
)
def test_what_is_counted(text: str, decisions: int, code: int, comments: int) -> None:
    assert size_of(text) == Size(1, decisions, code, comments)
