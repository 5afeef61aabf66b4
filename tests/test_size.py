"""Tests of `tests.size`: which lines and decisions it counts. The size is a report (``make size``), and no number is a
goal."""

from __future__ import annotations

import pytest

from .size import Size, size_of


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
