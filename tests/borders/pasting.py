"""The places of a text where a reader would paste the words of a hint, or remove something."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from agf_magics.editor.pasting import pasted as edits
from agf_magics.text.yaml.nodes import Fields, Items, Node, every_node, is_text
from tests.languages.loading import nodes


def pasted(text: str, start: int, end: int, piece: str) -> Iterator[str]:
    """The texts with ``piece`` at the places where a reader would write it who sees a caret below
    ``text[start:end]``."""
    yield from (edit.applied(text) for edit in edits(text, start, end, piece))
    for written in _trees(text):
        yield from _in_code(text, written, piece)


def _in_code(text: str, tree: ast.AST, piece: str) -> Iterator[str]:
    """The texts with ``piece`` in place of a part of a Python statement. A message without a caret is about one of
    these parts."""
    lines = text.splitlines(keepends=True)
    offsets = [sum(len(line) for line in lines[:number]) for number in range(len(lines) + 1)]

    def at(line: int, column: int) -> int:
        return offsets[line - 1] + len(lines[line - 1].encode()[:column].decode())

    for node in ast.walk(tree):
        if not isinstance(node, ast.expr | ast.stmt | ast.keyword):
            continue
        start, end = at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
        yield text[:start] + piece + text[end:]
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield text[: start + 1] + piece + text[end - 1 :]
        if isinstance(node, ast.Attribute):
            yield text[: end - len(node.attr)] + piece + text[end:]
            yield text[: end - len(node.attr) - 1] + piece + text[end:]
        if isinstance(node, ast.Subscript):
            yield text[:start] + piece + text[end:]
        if isinstance(node, ast.Call):
            yield f"{text[: end - 1]}{', ' if node.args or node.keywords else ''}{piece}{text[end - 1 :]}"
        if isinstance(node, ast.FunctionDef):
            bracket = text.index(")", start)
            yield f"{text[: text.index('(', start) + 1]}{piece}{text[bracket:]}"


def _trees(text: str) -> list[ast.AST]:
    try:
        return [ast.parse(text)]
    except SyntaxError:  # a magic
        return []


def closed(text: str, sign: str) -> Iterator[str]:
    """The texts with a closing ``sign``: at the end of the text, of a line, or of a word."""
    yield text.rstrip() + sign + "\n"
    for end in re.finditer(r"[\"')\]}]*$|\b", text, re.MULTILINE):
        for place in {end.start(), end.end()}:
            yield text[:place] + sign + text[place:]


def removed(text: str, start: int, end: int, named: str) -> Iterator[str]:
    """The texts without the part under the caret, or without the option or the key that the hint names."""
    yield text[:start] + text[end:]
    for option in re.finditer(r" --?[\w-]+(?:[ =](?:'[^'\n]*'|\"[^\"\n]*\"|[^\s-][^\s]*))?", text):
        if (option.start() < end and start <= option.end()) or named in option[0]:
            yield text[: option.start()] + text[option.end() :]
            yield text.replace(option[0].split("=")[0].rpartition(" ")[0] or option[0], "", 1)
    for tree in _trees(text):
        for part in ast.walk(tree):
            for keyword in part.keywords if isinstance(part, ast.Call) else ():
                yield text.replace(f", {keyword.arg}={ast.get_source_segment(text, keyword.value)}", "")
    for node in _all_nodes(text):  # type: ignore[assignment]
        if isinstance(node, Fields):
            for name, key in node.keys.items():
                whole = (key.span.start, _whole(node.fields[name])[1])
                if (start < whole[1] and whole[0] < end) or name in named.split():
                    yield from _without(text, *whole)
        elif isinstance(node, Items):
            for item in node.items:
                first, last = _whole(item)
                if start < last and first < end:
                    yield from _without(text, first, last)
    if value := re.compile(r": *(?:\"[^\"\n]*\"|'[^'\n]*'|\[[^\]\n]*\]|\{[^}\n]*\}|[^,}\n]*)").match(text, end):
        yield from _without(text, start, value.end())  # also a key that its mapping has twice
    line = text.rfind("\n", 0, start) + 1
    yield text[:line] + text[(text + "\n").index("\n", start) + 1 :]
    for node in _all_nodes(text):  # type: ignore[assignment]
        first, last = _whole(node)  # type: ignore[arg-type]
        if is_text(node) and first <= start and end <= last:  # type: ignore[arg-type]  # parentheses
            yield text[:first] + text[first:last].replace("(", "").replace(")", "") + text[last:]


def _without(text: str, start: int, end: int) -> Iterator[str]:
    """The text without this part, and without the comma or the line that belongs to it."""
    if after := re.compile(r"\s*,\s*").match(text, end):
        yield text[:start] + text[after.end() :]
    if before := re.search(r",\s*$", text[:start]):
        yield text[: before.start()] + text[end:]
    if text[:start].rpartition("\n")[2].strip(" -") == "":
        yield text[: text.rfind("\n", 0, start) + 1] + text[(text + "\n").index("\n", end) + 1 :]
    yield text[:start] + text[end:]


def _whole(node: Node) -> tuple[int, int]:
    span = node.whole if isinstance(node, (Fields, Items)) else node.span
    return span.start, span.end


def _all_nodes(text: str) -> list[Node]:
    body = re.match(r"%%[^\n]*\n", text)
    if body:  # the header is not YAML, so a comment of the same length replaces it
        text = "#" * (body.end() - 1) + "\n" + text[body.end() :]
    return [node for document in nodes(text)[0] for node in every_node(document)]
