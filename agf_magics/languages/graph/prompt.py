"""Prompts: text in which ``{name}`` is a variable and ``{state.name}`` a key of the state; every other brace is text.

A prompt is a text, ``{system, user}``, or a file of either next to the definition (decisions Y12, A16).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ...flow.values import Value
from ...text.diagnostics import Diagnostic, Diagnostics, StepError, suggest
from ...text.nodes import shorten
from ...text.source import UNUSABLE, Source, Span, Text, path_error_reason, source_folder
from ...text.yamlnodes import Fields, Node, Scalar, documents
from ..documents import Key
from ..scan import MISSING
from .lookup import describe, find, format_value
from .reading import Reader
from .takes import PROMPT
from .value import CANNOT, value_failed

_SLOT = re.compile(r"(?<!\{)\{\s*([A-Za-z_]\w*(?:\.\w+)*)\s*\}(?!\})")
_FILE = re.compile(r"[\w./-]+\.(?:yaml|yml|txt|md)")
_FILE_WITHOUT_ENDING = re.compile(r"(?!state\.)[\w-]+(?:[/.][\w-]+)*")
_LARGEST = 1_000_000


class Slot(NamedTuple):
    """Braces with a path in them."""

    text: str
    names: tuple[str, ...]
    in_state: bool
    span: Span


class Prompt(NamedTuple):
    """A text with slots."""

    parts: tuple[str | Slot, ...]
    span: Span

    @property
    def slots(self) -> tuple[Slot, ...]:
        return tuple(part for part in self.parts if isinstance(part, Slot))

    def fill(self, state: Mapping[str, Value], variables: Mapping[str, Value], complete: bool = False) -> str:
        """The text. A slot without a value stays as it is, or, if the text must be ``complete``, is a StepError."""
        try:
            return "".join([part if isinstance(part, str) else _fill(part, state, variables, complete)
                            for part in self.parts])  # fmt: skip
        except CANNOT as error:
            raise value_failed("the text", self.span, error) from error


def _fill(slot: Slot, state: Mapping[str, Value], variables: Mapping[str, Value], complete: bool) -> str:
    value = find(state if slot.in_state else variables, slot.names)
    if value is not MISSING and value is not None:
        return format_value(value)
    if not complete:
        return slot.text
    raise no_value(slot.names, slot.span, state if slot.in_state or variables is state else variables, state)


def no_value(names: tuple[str, ...], span: Span, held: Mapping[str, Value], state: Mapping[str, Value]) -> StepError:
    """A placeholder in a text for a tool, a command or a person has no value (decision Y13)."""
    where = "keys of the state" if held is state else "variables"
    hint = suggest(names[0], held, where) or f"there are no {where}"
    if names[0] in held:
        hint = f"{names[0]!r} is {describe(held[names[0]])}"
    return StepError(Diagnostic("graph.no-value", f"{'.'.join(names)!r} has no value", span, hint))


def read_prompt(reader: Reader, node: Node) -> Prompt | None:
    """The prompt of a node."""
    if isinstance(node, Fields):
        return _from_fields(reader, node)
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        reader.wrong_type(node, Key("prompt", PROMPT))
        return None
    if not node.text.strip():
        reader.error("graph.empty-prompt", "the prompt is empty", node.span, 'prompt: "Summarize {text}"')
        return None
    if _FILE.fullmatch(node.text):
        return _from_file(reader, node)
    if _FILE_WITHOUT_ENDING.fullmatch(node.text):
        hint = f"a prompt file is named with its ending: {node.text}.yaml"
        reader.warn("graph.prompt-word", f"{shorten(node.text)!r} is sent as the prompt itself", node.span, hint)
    return read_text(reader, node)


def read_text(reader: Reader, text: Text) -> Prompt:
    """A text with slots; a warning for everything in it that only looks like one."""
    parts, at = split_slots(text.text, text), 0
    plain = reader.check_jinja(text, text.text)
    for part in parts:
        size = len(part if isinstance(part, str) else part.text)
        if isinstance(part, str):
            reader.check_text(text, plain[at : at + size], at, prompt=True)
        at += size
    return Prompt(parts, text.locate(0, len(text.text)))


def split_slots(source: str, text: Text) -> tuple[str | Slot, ...]:
    """The parts of a text."""
    parts, end = list[str | Slot](), 0
    for found in _SLOT.finditer(source):
        names = tuple(found[1].split("."))
        in_state = names[0] == "state" and len(names) > 1
        if between := source[end : found.start()]:
            parts.append(between)
        span = text.locate(found.start(1), found.end(1))
        parts.append(Slot(found[0], names[1:] if in_state else names, in_state, span))
        end = found.end()
    if rest := source[end:]:
        parts.append(rest)
    return tuple(parts)


def _from_fields(reader: Reader, node: Fields) -> Prompt | None:
    for name in node.fields.keys() - {"system", "user"}:
        hint = "a prompt has user and system; the schema of the answer is a key of the node"
        reader.warn("graph.prompt-key", f"{name!r} is not used in a prompt", node.keys[name].span, hint)
    parts: list[str | Slot] = []
    for name in ("system", "user"):
        text = node.fields.get(name)
        if isinstance(text, Scalar) and isinstance(text.value, str):
            parts += ["\n\n"] if parts else []
            parts += read_text(reader, text).parts
        elif text is not None or name == "user":
            span = text.span if text is not None else node.span
            hint = 'prompt: {user: "Summarize {text}"}'
            reader.error("graph.prompt-shape", f"a prompt needs {name!r}, and it must be a text", span, hint)
            return None
    return Prompt(tuple(parts), node.span)


def _from_file(reader: Reader, node: Scalar) -> Prompt | None:
    folder, own = Path.cwd().resolve(), source_folder(node.span.source.name)
    try:
        path = (own / node.text).resolve()
        if not path.is_relative_to(folder if own.is_relative_to(folder) else own):
            message, hint = f"{shorten(node.text)!r} is outside the folder", "move the prompt file next to the graph"
            reader.error("graph.prompt-file", message, node.span, hint)
            return None
        if path.stat().st_size > _LARGEST:
            raise ValueError(f"it has more than {_LARGEST:,} bytes")
        source = Source(node.text, path.read_bytes().decode("utf-8"))
    except UNUSABLE as error:
        hint = "the path is relative to the folder of the graph; a text that is not a path is the prompt itself"
        reader.error(
            "graph.prompt-file", f"cannot read {shorten(node.text)!r}: {path_error_reason(error)}", node.span, hint
        )
        return None
    if path.suffix in (".txt", ".md"):
        return read_text(reader, source.span())._replace(span=node.span)
    found = Diagnostics()
    read = documents(source, found)
    if found.errors:
        reader.problems.extend(found)
        return None
    if len(read) == 1 and isinstance(read[0], Fields):
        prompt = _from_fields(reader, read[0])
        return prompt._replace(span=node.span) if prompt else None
    reader.error("graph.prompt-shape", f"{node.text!r} must hold a mapping with user and system", node.span)
    return None
