"""Measures the size of the package as a report: ``python -m tests.size`` prints it.

A decision is a function, a branch, a loop, an assertion or a condition: something that a reader has to follow. The
number of decisions does not depend on the layout of lines, so packing lines saves nothing.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import Counter
from functools import cache
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parents[1] / "agf_magics"

ONE = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While),
    *(ast.ExceptHandler, ast.Assert, ast.match_case),
)
"""The nodes that count as one decision."""

LAYOUT = {tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER}


class Size(NamedTuple):
    """The size of one file, or of several."""

    files: int
    decisions: int
    code: int
    """The number of lines that are not blank, a comment or a docstring."""
    comments: int
    """The number of lines that are only a comment."""

    def __add__(self, other: object) -> Size:
        assert isinstance(other, Size)
        return Size(*map(sum, zip(self, other, strict=True)))

    def __str__(self) -> str:
        lines = f"{self.code:7,} code lines {self.comments:5,} comment lines"
        return f"{self.decisions:7,} decisions {lines} {self.files:4} files"


def size_of(text: str) -> Size:
    tree = ast.parse(text)
    comments, code = _lines(text)
    return Size(1, sum(map(_decisions, ast.walk(tree))), len(code - _docstrings(tree)), len(comments - code))


def _decisions(node: ast.AST) -> int:
    match node:
        case ast.BoolOp(values=values):
            return len(values) - 1
        case ast.comprehension(ifs=ifs):
            return 1 + len(ifs)
        case _:
            return int(isinstance(node, ONE))


def _docstrings(tree: ast.AST) -> set[int]:
    texts = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    )
    return {line for node in texts for line in range(node.lineno, (node.end_lineno or node.lineno) + 1)}


def _lines(text: str) -> tuple[set[int], set[int]]:
    """The numbers of the lines with comments, and of the lines with code."""
    comments, code = set[int](), set[int]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            comments.add(token.start[0])
        elif token.type not in LAYOUT:
            code.update(range(token.start[0], token.end[0] + 1))
    return comments, code


@cache
def sizes() -> dict[str, Size]:
    """The size of each file of the package, by its path."""
    paths = sorted(PACKAGE.rglob("*.py"))
    return {path.relative_to(PACKAGE).as_posix(): size_of(path.read_text("utf-8")) for path in paths}


def report() -> str:
    """The size of each room and of the package, as text."""
    rooms: dict[str, Size] = {}
    for path, size in sizes().items():
        room = path.partition("/")[0] if "/" in path else "."
        rooms[room] = rooms[room] + size if room in rooms else size
    order = Counter({room: size.decisions for room, size in rooms.items()}).most_common()
    total = Size(*map(sum, zip(*rooms.values(), strict=True)))
    return "\n".join([*(f"{rooms[room]}  {room}" for room, _ in order), f"{total}  agf_magics"])


if __name__ == "__main__":
    print(report())
