"""Prompts: text in which ``{name}`` is a variable and ``{state.name}`` stands in the state; every other brace is text.

A prompt is a text, ``{system, user}``, or a file of either, beside the definition (decisions Y12, A16).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ...flow.values import Value
from ...text.diagnostics import Diagnostics
from ...text.nodes import shorten
from ...text.source import UNUSABLE, Source, Span, Text, beside, why
from ...text.yamlnodes import Fields, Node, Scalar, documents
from .lookup import MISSING, find, written
from .reading import Reader
from .value import CANNOT, failed
from .words import Key

_HOLE = re.compile(r"\{\s*([A-Za-z_]\w*(?:\.\w+)*)\s*\}")
_FILE = re.compile(r"[\w./-]+\.(?:yaml|yml|txt|md)")
_LARGEST = 1_000_000


class Hole(NamedTuple):
    """A brace with a path in it."""

    written: str
    names: tuple[str, ...]
    in_state: bool
    span: Span


class Prompt(NamedTuple):
    """What is asked, with its holes."""

    parts: tuple[str | Hole, ...]
    span: Span

    @property
    def holes(self) -> tuple[Hole, ...]:
        return tuple(part for part in self.parts if isinstance(part, Hole))

    def fill(self, state: Mapping[str, Value], variables: Mapping[str, Value]) -> str:
        """The text; a hole for which there is nothing stays as it is. Raises StepError for what cannot be written."""
        try:
            return "".join(part if isinstance(part, str) else _filled(part, state, variables) for part in self.parts)
        except CANNOT as error:
            raise failed("the text", self.span, error) from error


def _filled(hole: Hole, state: Mapping[str, Value], variables: Mapping[str, Value]) -> str:
    value = find(state if hole.in_state else variables, hole.names)
    return hole.written if value is MISSING or value is None else written(value)


def read_prompt(reader: Reader, node: Node, key: Key) -> Prompt | None:
    """A prompt as a node of the graph has it."""
    if isinstance(node, Scalar) and isinstance(node.value, str):
        if not node.text.strip():
            reader.wrong("empty-prompt", "the prompt is empty", node.span, "write what is asked")
            return None
        if _FILE.fullmatch(node.text):
            return _from_file(reader, node)
        if node.text.replace("_", "").replace("/", "").isalnum():
            hint = f"a prompt's file is named with its ending: {node.text}.yaml"
            reader.warn("prompt-word", f"the prompt is the one word {node.text!r}", node.span, hint)
        return Prompt(_parts(node), node.span)
    if isinstance(node, Fields):
        return _two(reader, node)
    reader.mistyped(node, key)
    return None


def _two(reader: Reader, node: Fields) -> Prompt | None:
    """``{system, user}``"""
    for name in node.fields.keys() - {"system", "user"}:
        hint = "a prompt has user and system; an answer's form is the node's schema"
        reader.warn("prompt-key", f"{name!r} of a prompt is not used", node.keys[name].span, hint)
    parts: list[str | Hole] = []
    for name in ("system", "user"):
        text = node.fields.get(name)
        if isinstance(text, Scalar) and isinstance(text.value, str):
            parts += ["\n\n"] if parts else []
            parts += _parts(text)
        elif text is not None or name == "user":
            span = text.span if text is not None else node.span
            reader.wrong("prompt-shape", f"{name!r} of a prompt is a text", span, "prompt: {user: What is asked}")
            return None
    return Prompt(tuple(parts), node.span)


def _parts(text: Scalar) -> tuple[str | Hole, ...]:
    return holes(text.text, text)


def holes(source: str, text: Text) -> tuple[str | Hole, ...]:
    """A text in parts."""
    parts, end = list[str | Hole](), 0
    for found in _HOLE.finditer(source):
        names = tuple(found[1].split("."))
        in_state = names[0] == "state" and len(names) > 1
        if between := source[end : found.start()]:
            parts.append(between)
        span = text.locate(found.start(1), found.end(1))
        parts.append(Hole(found[0], names[1:] if in_state else names, in_state, span))
        end = found.end()
    if rest := source[end:]:
        parts.append(rest)
    return tuple(parts)


def _from_file(reader: Reader, node: Scalar) -> Prompt | None:
    folder, own = Path.cwd().resolve(), beside(node.span.source.name)
    try:
        path = (own / node.text).resolve()
        if not path.is_relative_to(folder if own.is_relative_to(folder) else own):
            message = f"{shorten(node.text)!r} leaves the folder"
            reader.wrong("prompt-file", message, node.span, "a prompt stands beside its graph")
            return None
        if path.stat().st_size > _LARGEST:
            raise ValueError(f"it has more than {_LARGEST:,} bytes")
        source = Source(node.text, path.read_bytes().decode("utf-8"))
    except UNUSABLE as error:
        reader.wrong("prompt-file", f"{shorten(node.text)!r} cannot be read: {why(error)}", node.span)
        return None
    if path.suffix in (".txt", ".md"):
        return Prompt(holes(source.text, source.span()), node.span)
    return _from_yaml(reader, node, source)


def _from_yaml(reader: Reader, node: Scalar, source: Source) -> Prompt | None:
    found = Diagnostics()
    read = documents(source, found)
    if found.errors:
        reader.faults += 1
        reader.problems.extend(found)
        return None
    if len(read) == 1 and isinstance(read[0], Fields):
        prompt = _two(reader, read[0])
        return prompt._replace(span=node.span) if prompt else None
    reader.wrong("prompt-shape", f"{node.text!r} is no mapping with user and system", node.span)
    return None
