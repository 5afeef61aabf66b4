"""The places of a text where a reader would paste what a hint says, or take something out."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator

from agf_magics.text.yaml.nodes import Fields, Items, Node, every_node, is_text
from tests.languages.loading import nodes


def pasted(text: str, start: int, end: int, piece: str) -> Iterator[str]:
    """A text with ``piece`` where a reader would write it who sees a caret below ``text[start:end]``."""
    yield from _in_a_document(text, start, end, piece)
    if piece.startswith("--"):
        yield from _in_a_line(text, start, end, piece)
    for written in _trees(text):
        yield from _in_code(text, written, piece)


def _in_a_document(text: str, start: int, end: int, piece: str) -> Iterator[str]:
    key = re.match(r"([\w.]+): ", piece)
    line = text.rfind("\n", 0, start) + 1
    before = text[line:start]
    if key and (at := before.rfind(f"{key[1]}:")) >= 0:
        yield text[: line + at] + piece + text[end:]
    if key and text[end : end + 1] == ":":  # the caret is under a key
        rest = re.compile(r": *(?:\"[^\"\n]*\"|'[^'\n]*'|\[[^\]\n]*\]|[^,}\n]*)").match(text, end)
        yield text[:start] + piece + text[rest.end() if rest else end :]
    yield text[:start] + piece + text[end:]
    if piece.startswith("- "):
        yield f"{text[:start]}{{{piece[2:]}}}{text[end:]}"
    if key and (other := re.search(r"[\w.]+:\s*$", text[:start])):  # the caret is under the value of a key
        yield text[: other.start()] + piece + text[end:]
    if key:  # a key that is missing
        yield f"{text[:start]}{piece}, {text[start:]}"
        yield f"{text[:line]}{' ' * (len(before) - len(before.lstrip()))}{piece}\n{text[line:]}"
        yield f"{text[:end]}, {piece}{text[end:]}"
        if brace := re.compile(r": *\{").match(text, end):
            yield f"{text[: brace.end()]}{piece}, {text[brace.end() :]}"
        yield f"{text.rstrip()}\n{piece}\n"
    if piece.endswith(":"):
        yield text[:start] + piece[:-1] + text[end:]
    for written in (text[start:end].strip("\"'"), text[start:end].strip("\"'{} ")):
        if written != text[start:end]:
            inside = text.index(written, start)
            yield text[:inside] + piece + text[inside + len(written) :]
    if len(piece) > 2 and piece[0] in "\"'" and piece[0] == piece[-1]:  # a text that needs quotes
        for bare in re.finditer(re.escape(piece.strip("\"'")), text):
            if bare.start() <= end and start <= bare.end():
                yield text[: bare.start()] + piece + text[bare.end() :]
    for node in _all_nodes(text):
        if isinstance(node, Fields) and node.whole.start <= start and end <= node.whole.end:
            yield text[: node.whole.start] + piece + text[node.whole.end :]
            if key and key[1] in node.fields:
                yield text[: node.keys[key[1]].span.start] + piece + text[_whole(node.fields[key[1]])[1] :]
        elif isinstance(node, Items) and node.whole.start <= start and end <= node.whole.end:
            yield text[: node.whole.start] + piece + text[node.whole.end :]
            yield f"{text[: node.whole.start + 1]}{piece}, {text[node.whole.start + 1 :]}"
        elif is_text(node) and node.span.start <= start and end <= node.span.end:
            whole = piece if piece.startswith(("!expr", '"')) else json.dumps(piece, ensure_ascii=False)
            yield text[: node.span.start] + whole + text[node.span.end :]
            yield text[: node.span.start] + piece + text[node.span.end :]
    for word in re.finditer(r"\w+", text[start:end]):  # of a path
        yield text[: start + word.start()] + piece + text[start + word.end() :]
    if piece.startswith("{") and (braces := re.search(r"\{$", text[:start])):
        yield text[: braces.start()] + piece + text[text.find("}", end) + 1 :]
    if key:
        yield from _in_a_mapping(text, piece)


def _in_a_mapping(text: str, piece: str) -> Iterator[str]:
    """A key that a mapping lacks: the innermost ones first."""
    for node in sorted(_all_nodes(text), key=lambda node: -_whole(node)[0]):
        if isinstance(node, Fields) and node.fields:
            first = node.whole.start
            if text[first] == "{":
                yield f"{text[: first + 1]}{piece}, {text[first + 1 :]}"
            else:
                blanks = " " * (first - text.rfind("\n", 0, first) - 1)
                yield f"{text[:first]}{piece}\n{blanks}{text[first:]}"


def _in_a_line(text: str, start: int, end: int, piece: str) -> Iterator[str]:
    """An option of a magic or a command: for the word under the caret, for its option, at the end of the line."""
    first = text.find("\n") if text.startswith("%%") else -1
    if first >= 0:  # the line of a cell
        yield f"{text[:first]} {piece}{text[first:]}"
    stop = (text + "\n").index("\n", start)
    yield f"{text[:stop]} {piece}{text[stop:]}"
    for option in re.finditer(r"--[\w-]+", text[:end]):
        yield text[: option.start()] + piece + text[end:]
        yield text[: option.start()] + piece + text[stop:]
    yield text[:start] + piece + text[stop:]


def _in_code(text: str, tree: ast.AST, piece: str) -> Iterator[str]:
    """For each part of a statement of Python: what has no caret is about one of them."""
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
    """A text with a sign that closes what is open: at the end of it, of a line, or of a word."""
    yield text.rstrip() + sign + "\n"
    for end in re.finditer(r"[\"')\]}]*$|\b", text, re.MULTILINE):
        for at in {end.start(), end.end()}:
            yield text[:at] + sign + text[at:]


def removed(text: str, start: int, end: int, named: str) -> Iterator[str]:
    """A text without what is under the caret, or without the option or the key that the hint names."""
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
        yield from _without(text, start, value.end())  # a key, also of a mapping that has it twice
    line = text.rfind("\n", 0, start) + 1
    yield text[:line] + text[(text + "\n").index("\n", start) + 1 :]
    for node in _all_nodes(text):  # type: ignore[assignment]
        first, last = _whole(node)  # type: ignore[arg-type]
        if is_text(node) and first <= start and end <= last:  # type: ignore[arg-type]  # parentheses
            yield text[:first] + text[first:last].replace("(", "").replace(")", "") + text[last:]


def _without(text: str, start: int, end: int) -> Iterator[str]:
    """With the comma or the line that belongs to it."""
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
    if body:  # the header is no YAML: a comment of its length stands for it
        text = "#" * (body.end() - 1) + "\n" + text[body.end() :]
    return [node for document in nodes(text)[0] for node in every_node(document)]
