"""Where the comment of a line begins: outside of quotes, which an escaped quote does not end."""

from __future__ import annotations

import pytest

from agf_magics.commands.words import comment_at


@pytest.mark.parametrize(
    ("line", "comment"),
    [
        ("x # y", "# y"),
        ("x#y", ""),
        ('"a # b" # c', "# c"),
        (r'"a\" # b" # c', "# c"),
        (r'"a\\" # c', "# c"),
        (r'"a\\" + "b # c"', ""),
        (r"'a\\\' # b' # c", "# c"),
        (r"'a\\\\' + 'b # c' # d", "# d"),
    ],
)
def test_a_comment_begins_outside_of_quotes(line: str, comment: str) -> None:
    assert line[comment_at(line, 0) :] == comment
