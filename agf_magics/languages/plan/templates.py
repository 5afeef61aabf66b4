"""Reads the values of a plan's document: texts that begin like a reference are references, all
others are text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, ClassVar, Final, Literal, NamedTuple

from ...text.diagnostics import DefinitionError, Diagnostics
from ...text.source import Source, Span
from ...text.suggestions import join_hints
from ...text.yaml.nodes import Node, Scalar, read_scalars
from ...values.value import Value
from .. import documents
from ..documents import Key, Kind
from .log.reference import DAGGER, KIND, canonical, parse

KINDS: Final = frozenset({"state", "input", "data", "output", "error"})
"""The kinds that ``$`` may precede in addition to those of the document's own messages."""

_LONGEST = 200
"""The most characters of a text that may be a whole reference without its sign."""

_PATH = re.compile(r"(?<![\w.'\"†$-])([A-Za-z_][A-Za-z0-9_-]*)\.([^\s.|&()\[\]'\"†{}]+)")
_BEGINS = re.compile(r"[\s(]*([†$])([†$]?)([A-Za-z_][A-Za-z0-9_-]*)?")
_NAMES = rf"({KIND.pattern})\.([^\s.|&()\[\]'\"†{{}}]++)([^\s|&()'\"†{{}}]*+)"
_PART = re.compile(rf"(?:\{{\s*+[†$]?+|[†$]){_NAMES}(?>(?:\s*+\}}{{1,2}})?)")
_COMPUTES = re.compile(rf"(?<!\S){_NAMES}\s++(?:[-+*/%<>]|[=!<>]=)\s")
_UNKNOWN = re.compile(rf"\s*+\$({KIND.pattern})((?>(?:\.[^\s.|&()\[\]]++)*))\s*+(?=\Z|\[|\|\||&&)")
"""A whole reference, or the first one of a fallback."""
_FOREIGN = re.compile(r"\s*\$?\{\{[^{}]*\}\}\s*|\s*\$\{[^{}]*\}\s*")
"""A variable in the notation of GitHub Actions, of Jinja or of a shell."""
_PUNCTUATION = ".,;:!?"


class Suspect(NamedTuple):
    """A text that may be meant as a reference."""

    reference: str
    """As it should be written."""
    kind: str
    first: str
    """The first part of its path."""
    form: Literal["whole", "part", "computed", "kind"]
    """Whether the text is nothing else, contains other text, is an arithmetic expression, or begins
    with a sign and a kind that does not exist."""
    marked: bool
    """Whether it has braces or a sign, or is in the output: ``input.word`` may be the name of a
    file, and ``$HOME`` a text."""
    text: str
    span: Span


class Reader(documents.Reader):
    """The state of one loading: its problems, and what the document declares."""

    layer = "plan"
    slips: ClassVar[Mapping[str, tuple[str, ...]]] = {
        **dict.fromkeys(("steps", "nodes", "tasks", "plan"), ("calls",)),
        **dict.fromkeys(
            ("_outputs", "_out", "_result", "_save", "_store", "_path", "_to"), ("_outputPath",)
        ),
    }
    advice: ClassVar[Mapping[str, str]] = {
        "id": "a call is known by its result: _outputPath: †state.x, which others read as †state.x",
        "order": "a call waits for the values that it reads: pass a result as an argument, "
        "†state.x",
        "condition": "a plan has no conditions and loops; a pipeline or a graph has: name it in "
        "_tool",
        "loop": "a plan has no conditions and loops; a pipeline or a graph has: name it in _tool",
        "retries": "a tool has it where it is registered: @tool(retry=agf.Retry(NUMBER))",
        "timeout": "a tool has it where it is registered: @tool(timeout=NUMBER)",
        "latent": "write --latent TOOL in the line of the cell, or declare it in tools:",
        "args": "the arguments are keys of the call itself: {_tool: measure, word: pear}",
        "confirm": "confirm: [TOOL] stands beside calls:",
        "environment": "a value comes from the input: --set NAME=$name, read as †input.NAME",
    }

    def __init__(self, problems: Diagnostics, sign: str, latent: Collection[str] = ()) -> None:
        super().__init__(problems)
        self.sign = sign
        """The sign of references in hints: the one that the document uses."""
        self.latent = frozenset(latent)
        """Tools that are declared latent outside of the document."""
        self.kinds: Collection[str] = KINDS
        self.tools: dict[str, Mapping[str, Value]] = {}
        self.suspects: list[Suspect] = []

    def missing(self, kind: Kind, key: Key, span: Span | None) -> None:
        hint = key.example.replace(DAGGER, self.sign)
        self.error("plan.missing-key", f"{kind.name} needs {key.name!r}", span, hint)

    def refuse_tag(self, node: Scalar, key: Key | None = None) -> None:
        hint = f"write the reference alone: {self.sign}state.x"
        self.error("plan.expr-tag", "a plan has no !expr", node.span, hint)

    def template(self, node: Node) -> Any:
        """A JSON value that may contain expressions."""
        return read_scalars(node, self.expression)

    def expression(self, node: Scalar) -> Any:
        """An expression, or any other scalar as its value."""
        if node.is_expr:
            self.refuse_tag(node)
            return None
        if type(node.value) is not str:
            return node.value
        begins = self.begins(node.text)
        if begins == "literal":
            double = DAGGER * 2 if DAGGER * 2 in node.text else "$$"
            return node.text.replace(double, double[0], 1)
        if begins == "text":
            self.suspects += _suspects(node, self.kinds, self.sign)
            return node.text
        try:
            return parse(node)
        except DefinitionError as error:
            self.problems.extend(
                replace(found, hint=_hint(found.hint, node.text)) for found in error.diagnostics
            )
            return None

    def begins(self, text: str) -> str:
        """Whether a text is a ``reference``, a ``literal`` that escapes one, or any other
        ``text``."""
        found = _BEGINS.match(text)
        if not found:
            return "text"
        sign, again, kind = found.groups()
        if sign == DAGGER:
            return "literal" if again == DAGGER else "reference"
        if kind not in self.kinds:
            return "text"
        return "literal" if again == "$" else "reference" if not again else "text"

    def authored(self, node: Node) -> Value:
        """A value as its author wrote it, with † for $."""
        return read_scalars(node, self._authored)

    def _authored(self, node: Scalar) -> Value:
        if type(node.value) is str and "$" in node.text and self.begins(node.text) == "reference":
            with suppress(DefinitionError):  # `template` reports it
                return canonical(node)
        return node.value


def _suspects(node: Scalar, kinds: Collection[str], sign: str) -> Iterator[Suspect]:
    """What in a text may be meant as a reference (decision P21)."""
    text = node.text
    if unknown := _UNKNOWN.match(text):
        kind, path = unknown.groups()
        span = node.locate(unknown.start(1) - 1, unknown.end(2))
        yield Suspect(f"{kind}{path}", kind, path, "kind", bool(path), text, span)
        return
    inner = text.strip()
    braces = inner.startswith(("{", "${")) and inner.endswith("}")
    inner = inner.strip("${} \t\n").lstrip(DAGGER) if braces else text
    found = _PATH.search(inner) if 2 < len(inner) <= _LONGEST else None
    if found is not None and found[1] in kinds and not inner[: found.start()].strip("( "):
        reference = _PATH.sub(rf"{re.escape(sign)}\g<0>".replace("\\$", "$"), inner)
        with suppress(DefinitionError):
            parse(Source("", reference).span())
            yield Suspect(reference, found[1], found[2], "whole", braces, text, node.span)
            return
    if found is not None and found[1] not in kinds and _FOREIGN.fullmatch(text):
        yield Suspect(inner, found[1], found[2], "kind", True, text, node.locate(0, len(text)))
        return
    computed = _COMPUTES.match(text)
    for part in (computed,) if computed else _PART.finditer(text):
        if part[1] in kinds:
            path, first = (part[2] + part[3]).rstrip(_PUNCTUATION), part[2].rstrip(_PUNCTUATION)
            span = node.locate(part.start(), part.end(3) if computed else part.end())
            form: Literal["part", "computed"] = "computed" if computed else "part"
            yield Suspect(f"{sign}{part[1]}.{path}", part[1], first, form, not computed, text, span)


def _hint(hint: str | None, text: str) -> str | None:
    """A hint, and for a sentence how to write text that begins with a sign."""
    if not re.search(r"\s", text.strip()) or re.search(r"[|&]|^\s*[†$]\S+\s+[-+*/%<>=!]", text):
        return hint
    start = text.strip()[:20]
    return join_hints(hint, f"double the sign of a text that begins with one: {start[:1]}{start}…")
