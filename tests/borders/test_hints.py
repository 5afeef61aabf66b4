"""Hints can be pasted: in the mistakes of ``tests/vectors``, each text that a hint says to write is put in the place of
what it is about, and then the problem is gone and no new one has come (decision D182)."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

import agf_magics as agf
from agf_magics.catalog import default
from agf_magics.lifecycle.definitions.checking import check_definition
from agf_magics.text.source import Source
from agf_magics.text.yaml.nodes import Fields, Node, every_node, is_text
from tests.doc_pages import ERRORS, blocks, entries
from tests.languages.loading import nodes
from tests.notebook.conftest import Shell
from tests.notebook.test_mistakes import ROWS, TOOLS, VECTORS, unwrapped

MAGIC = re.compile(r"%%(pipeline|policy|plan|graph)(?: (?!-)(\S+))?([^\n]*)\n")
TEXT = re.compile(
    r"(?:^|; )(?:write:? (?!the |it |results )|did you mean )(?P<text>.+?)"
    r"(?=\?|; | \(for the text| to (?:compare|call|ask)\b|$)"
)
PLACEHOLDER = re.compile(
    r"…|\.\.\.|\bindent\b|\b[A-Z]{3,}\b(?!T?:)|"
    r"(?<![\w.])(?:list|condition|expression|separator|base|default|value|text)\b(?!\(|:)"
)
"""Words that stand for something in a form: such a text is no text to paste."""

UNREGISTERED = (
    "flow.unknown-flow",
    "flow.unknown-tool",
    "flow.unknown-agent",
    "flow.no-agent",
    "flow.unknown-field-given",
    "flow.missing-argument",
    "file.missing",
)
"""What is looked at only in a text without errors."""


class Cell(NamedTuple):
    language: str
    name: str | None
    text: str
    latent: tuple[str, ...]

    def findings(self, text: str) -> list[agf.Diagnostic]:
        """All that is said when the text is defined, without notes."""
        try:
            defined = check_definition(
                Source("cell", text),
                self.language,
                strict=False,
                registry=default(),
                latent=self.latent,
                name=self.name,
            )
        except agf.DefinitionError as error:
            return [found for found in error.diagnostics if found.severity != "note"]
        return [found for found in defined.findings if found.severity != "note"]


def cell_of(text: str) -> Cell | None:
    magic = MAGIC.match(text)
    latent = re.findall(r"--latent (\w+)", magic[0]) if magic else []
    return Cell(magic[1], magic[2], text[magic.end() :], tuple(latent)) if magic else None


def texts(hint: str | None) -> list[str]:
    """The texts of a hint that can be pasted."""
    found = [match["text"].strip() for match in TEXT.finditer(hint or "")]
    return [text for text in found if not PLACEHOLDER.search(text.replace("START", "").replace("END", ""))]


def pasted(text: str, start: int, end: int, piece: str) -> Iterator[str]:
    """``text`` with ``piece`` in the places that a reader would take."""
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
    if piece.endswith(":"):
        yield text[:start] + piece[:-1] + text[end:]
    for written in (text[start:end].strip("\"'"), text[start:end].strip("\"'{} ")):
        if written != text[start:end]:
            inside = text.index(written, start)
            yield text[:inside] + piece + text[inside + len(written) :]
    for node in mappings(text):
        if node.whole.start <= start and end <= node.whole.end:
            yield text[: node.whole.start] + piece + text[node.whole.end :]
            if key and key[1] in node.fields:
                yield text[: node.keys[key[1]].span.start] + piece + text[node.fields[key[1]].span.end :]
    for node in scalars(text):  # type: ignore[assignment]
        if node.span.start <= start and end <= node.span.end:
            whole = piece if piece.startswith(("!expr", '"')) else json.dumps(piece, ensure_ascii=False)
            yield text[: node.span.start] + whole + text[node.span.end :]
            yield text[: node.span.start] + piece + text[node.span.end :]


def mappings(text: str) -> list[Fields]:
    return [node for document in nodes(text)[0] for node in every_node(document) if isinstance(node, Fields)]


def scalars(text: str) -> list[Node]:
    return [node for document in nodes(text)[0] for node in every_node(document) if is_text(node)]


def is_cured(cell: Cell, text: str, found: agf.Diagnostic, before: Counter[str]) -> bool:
    after = cell.findings(text)
    codes = Counter(one.code for one in after)
    new = codes - before
    if any(found.severity == "error" for found in cell.findings(cell.text)):
        for code in UNREGISTERED:  # what the registry decides is looked at only in a text without errors
            del new[code]
    return codes[found.code] < before[found.code] and not new


def wrong(cell: Cell) -> list[str]:
    """The hints of a cell whose text does not cure, in any place that a reader would take."""
    failed = []
    findings = cell.findings(cell.text)
    before = Counter(found.code for found in findings)
    for found in findings:
        if found.span is None or found.span.source.name != "cell":
            continue
        for piece in texts(found.hint):
            places = pasted(cell.text, found.span.start, found.span.end, piece)
            if not any(is_cured(cell, text, found, before) for text in places):
                failed.append(f"{found.code}: {found.hint}")
    return failed


LEADS_ON = {
    # What is meant stands at another place than the caret.
    "a plain edge from a router": "the edge is below the node",
    "a router without conditional edges": "the edge is below the node",
    "tool without its underscore": "two keys are wrong",
    "nodes as a list": "the caret marks the first line of a list of several",
    "parallel as a list of steps": "the caret marks the first line of a list of several",
    # What was meant has errors of its own, or needs what only a person has.
    "a react policy without a model": "the model needs a key",
    "an execution policy in capitals": "an agf.react has a model",
    "until for exit_condition": "exit_condition reads an agent's field",
}
"""Mistakes whose hint is right, and is not the whole cure at the caret, with the reason."""


REGISTERS = re.compile(
    r"^(?:%%(?:pipeline|policy|plan|graph)\b(?!.*--run)|@(?:tool|agent)\b|from agf_magics)", re.MULTILINE
)
"""What stands in a block that only registers: others change settings, files or modules."""


def cells() -> Iterator[Any]:
    """The cells that define: those of the mistakes, and of the error pages with what stands before them."""
    for row in ROWS:
        if (cell := cell_of(row.get("cell", ""))) and row["title"] not in LEADS_ON:
            yield pytest.param((TOOLS, *row.get("setup", ())), cell, id=row["title"])
    for page in sorted(ERRORS.glob("*.md")):
        for entry in entries(page.read_text("utf-8")):
            before = [block.text for block in blocks(entry.top) if REGISTERS.search(block.text)]
            for block in blocks(entry.text):
                if (cell := cell_of(block.text)) and entry.code not in PAGES_LEAD_ON:
                    yield pytest.param(tuple(before), cell, id=f"{entry.code}-{len(before)}")
                if REGISTERS.search(block.text):
                    before.append(block.text)


PAGES_LEAD_ON = {
    "graph.router-edges": "the edge is below the node",
    "graph.subgraph-mapping": "two keys are missing",
    "graph.prompt-key": "a schema has fields",
    "graph.tool-kind": "a tool node has a state_key",
    "graph.tool-call-command": "a tool node has no args",
    "model.name": "the model needs a key",
    "model.address": "the address is a setting",
}
"""The same for the examples of error pages."""


@pytest.mark.parametrize(("before", "cell"), cells())
def test_a_text_that_a_hint_says_to_write_cures(before: tuple[str, ...], cell: Cell, shell: Shell) -> None:
    for setup in before:
        shell.run(setup)
    assert wrong(cell) == []


FINDING = re.compile(r"\[(?P<code>[a-z0-9]+\.[a-z-]+)\](?P<rest>(?:\n +.*)*)")
HINT = re.compile(r"^ *= (?P<hint>.*(?:\n {4}\S.*)*)", re.MULTILINE)
TABLE = json.loads((VECTORS / "hints_without_text.json").read_text("utf-8"))["rows"]


def hints() -> set[tuple[str, str]]:
    """The code and the hint of every message of the mistakes and of the error pages."""
    told = [unwrapped(row["says"]) for row in ROWS]
    for page in ERRORS.glob("*.md"):
        told += [block.text for block in blocks(page.read_text("utf-8")) if block.language == "text"]
    return {
        (found["code"], hint["hint"])
        for text in told
        for found in FINDING.finditer(text)
        for hint in HINT.finditer(found["rest"])
    }


def test_the_hints_without_a_text_to_paste_do_not_become_more() -> None:
    without = Counter(code for code, hint in hints() if not texts(hint))
    allowed = {row["code"]: row["hints"] for row in TABLE}
    assert {code: number for code, number in without.items() if number > allowed.get(code, 0)} == {}
    assert {code: number for code, number in allowed.items() if number > without[code]} == {}, "the table is too long"
