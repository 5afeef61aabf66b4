"""What one line says about an exception: its class and text, the members of a group, and its cause."""

from __future__ import annotations

import pytest

from agf_magics.text.raised import describe_exception


def of(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


A, B, C, D = (ValueError(name) for name in "abcd")
LINES: dict[str, tuple[BaseException, str]] = {
    "a text": (ValueError("no"), "ValueError: no"),
    "no text": (ValueError(), "ValueError"),
    "a text as long as allowed": (ValueError("x" * 30), "ValueError: " + "x" * 30),
    "a longer text": (ValueError("x" * 31), "ValueError: " + "x" * 30 + "… (31 characters)"),
    "a cause": (of(ValueError("no"), KeyError("k")), "ValueError: no, from KeyError: 'k'"),
    "a cause without a text": (of(ValueError("no"), KeyError()), "ValueError: no"),
    "a cause that the text has": (of(ValueError("no: gone"), OSError("gone")), "ValueError: no: gone"),
    "a long cause": (
        of(ValueError("no"), OSError("x" * 16)), f"ValueError: no, from OSError: {'x' * 15}… (16 characters)",
    ),
    "a cause of many lines": (of(ValueError("no"), OSError("a\nb")), "ValueError: no"),
    "a group": (ExceptionGroup("of", [A, B]), "ExceptionGroup: of (2 sub-exceptions): ValueError: a; ValueError: b"),
    "a group in a group": (
        ExceptionGroup("of", [ExceptionGroup("in", [A, B]), C]),
        "ExceptionGroup: of (2 sub-exceptions): ValueError: a; ValueError: b; ValueError: c",
    ),
    "a group of more than three": (
        ExceptionGroup("of", [A, B, C, D]),
        "ExceptionGroup: of (4 sub-exceptions): ValueError: a; ValueError: b; ValueError: c"
    ),
    "more than three in groups": (
        ExceptionGroup("of", [ExceptionGroup("in", [A, B]), ExceptionGroup("in", [C, D])]),
        "ExceptionGroup: of (2 sub-exceptions): ValueError: a; ValueError: b; ValueError: c",
    ),
    "a long text in a group": (
        ExceptionGroup("of", [ValueError("x" * 16)]),
        f"ExceptionGroup: of (1 sub-exception): ValueError: {'x' * 15}… (16 characters)",
    ),
    "a group with a cause": (
        of(ExceptionGroup("of", [A]), KeyError("k")),
        "ExceptionGroup: of (1 sub-exception): ValueError: a, from KeyError: 'k'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", LINES)
def test_a_line_says_what_was_raised(case: str) -> None:
    error, line = LINES[case]
    assert describe_exception(error, longest=30) == line


def test_a_secret_is_hidden_in_the_text_the_members_and_the_cause() -> None:
    error = of(ExceptionGroup("s3cret", [ValueError("a s3cret")]), KeyError("s3cret too"))
    line = describe_exception(error, lambda text: text.replace("s3cret", "***"))
    assert line.count("***") == 3
    assert "s3cret" not in line
