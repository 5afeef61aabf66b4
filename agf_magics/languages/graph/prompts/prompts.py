"""Reads ``prompt:`` of a node: a text, ``{system, user}``, or a file's name (decisions Y12, A16).

prompt_files.py finds the file for a name.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from ....text.diagnostics import Diagnostics
from ....text.files import read_file
from ....text.folder import notebook_folder
from ....text.shorten import shorten
from ....text.source import UNUSABLE, Source, Span, Text, path_error_reason
from ....text.suggestions import suggest
from ....text.yaml.nodes import Fields, Node, Scalar, is_text
from ....text.yaml.reader import documents
from ...keys import Key
from ..expressions.reading import NotBuilt, Reader
from ..takes import PROMPT
from ..words import PROMPT_FILE, PROMPT_MODEL
from .answer_schema import read_output_schema, read_schema
from .jinja import SYNTAX, JinjaPrompt, read_jinja
from .prompt_files import FILE, NAME, Folders, find_file, shown_path
from .slots import Prompt, Slot, read_text, split_slots

_LARGEST = 1_000_000
"""Bytes of a file of a prompt."""

Filled = Prompt | JinjaPrompt


class NodePrompt(NamedTuple):
    """The prompt of a node: one or two texts, with the settings for the answer and the model."""

    user: Filled
    system: Filled | None
    span: Span
    schema: Mapping[str, Any] | None = None
    """The JSON Schema of the answer."""
    model: Mapping[str, Any] = {}
    """``provider``, ``model``, ``temperature``, ``max_tokens``, as far as the prompt has them."""

    @property
    def slots(self) -> tuple[Slot, ...]:
        return (*(self.system.slots if self.system is not None else ()), *self.user.slots)


def read_prompt(reader: Reader, node: Node, folders: Folders, kind: str) -> NodePrompt:
    """The prompt of a node of that kind."""
    if isinstance(node, Fields):
        return _from_fields(reader, node, kind)
    if not is_text(node):
        reader.wrong_type(node, Key("prompt", PROMPT))
        raise NotBuilt
    if not node.text.strip():
        hint = 'prompt: "Summarize {text}"'
        reader.refuse("graph.empty-prompt", "the prompt is empty", node.span, hint)
    if NAME.fullmatch(node.text) or FILE.fullmatch(node.text):
        path = find_file(reader, node, folders)
        if path is not None:
            return _from_file(reader, node, path, kind)
    return NodePrompt(read_part(reader, node, kind), None, node.span)


def read_part(reader: Reader, text: Text, kind: str, in_file: bool = False) -> Filled:
    """A text of a prompt: a Jinja2 template as a whole, or a text with slots; after an error in a
    template the text with the slots of its single braces."""
    if SYNTAX.search(text.text) is None:
        return read_text(reader, text)._replace(joins=in_file)
    slotted = Prompt(split_slots(text.text, text), text.locate(0, len(text.text)), in_file)
    if slotted.slots:
        single = slotted.slots[0]
        doubled = f"{{{{ {single.text.strip('{} ')} }}}}"
        # YAMLGraph reads the prompts of its agents in this way.
        if kind == "agent" and "{%" not in text.text:
            message = (
                f"{single.text} is replaced, and doubled braces stay text: a prompt has one of the "
                f"two syntaxes"
            )
            hint = f"write {single.text} for each variable, or {doubled}"
            reader.warn("graph.prompt-mixed", message, single.span, hint)
            return slotted
        message = f"{single.text} stays text: the prompt is a Jinja2 template"
        reader.warn("graph.prompt-mixed", message, single.span, f"write {doubled}")
    return read_jinja(reader, text) or slotted


def _from_fields(
    reader: Reader, node: Fields, kind: str, named_by: Span | None = None
) -> NodePrompt:
    """The prompt of a mapping. ``named_by``: the place where the graph names the file of the
    mapping; None: the mapping is in the graph."""
    in_file = named_by is not None
    for name in sorted(node.fields.keys() - PROMPT_FILE.keys.keys()):
        hint = suggest(name, PROMPT_FILE.keys, "keys of a prompt")
        # The place in the file is left out, because the line may be a secret of another program's
        # file.
        span = named_by or node.keys[name].span
        reader.warn("graph.prompt-key", f"{name!r} is not used in a prompt", span, hint)
    texts: dict[str, Filled] = {}
    for name in ("system", "user"):
        text = node.fields.get(name)
        if is_text(text):
            texts[name] = read_part(reader, text, kind, in_file)
        elif text is not None or name == "user":
            span = text.span if text is not None else node.span
            hint = 'prompt: {user: "Summarize {text}"}'
            reader.error(
                "graph.prompt-shape", f"a prompt needs {name!r}, and it must be a text", span, hint
            )
    model = {}
    for key in PROMPT_MODEL:
        value = node.fields.get(key.name)
        if key.name == "model" and isinstance(value, Fields):
            _warn_of_block(reader, value)
        elif value is not None:
            model[key.name] = key.takes.read(reader, value, key)
    schema = _schema(reader, node)
    if "user" not in texts:
        raise NotBuilt
    return NodePrompt(texts["user"], texts.get("system"), node.span, schema, model)


def _warn_of_block(reader: Reader, node: Fields) -> None:
    """Warn of ``model: {provider, name}``, which YAMLGraph's own examples have and YAMLGraph does not
    read (decision Y18)."""
    provider = node.text_at("provider") or "NAME"
    name = node.text_at("name") or "NAME"
    hint = f"write provider: {provider}, model: {name} as keys of the prompt to select one"
    reader.warn("graph.model-ignored", "'model' as a mapping selects no model", node.span, hint)


def _schema(reader: Reader, node: Fields) -> Mapping[str, Any] | None:
    """The JSON Schema of the answer that a prompt asks for."""
    listed = node.fields.get("schema")
    written = node.fields.get("output_schema")
    if listed is not None and written is not None:
        hint = "keep one of them: schema lists fields, output_schema is a JSON Schema"
        message = "a prompt cannot have both schema and output_schema"
        reader.refuse("graph.prompt-schema", message, node.keys["output_schema"].span, hint)
    if written is not None:
        return read_output_schema(reader, written)
    return read_schema(reader, listed) if listed is not None else None


def _from_file(reader: Reader, node: Scalar, path: Path, kind: str) -> NodePrompt:
    working = notebook_folder.path.resolve()
    name = shown_path(path, working) if path.is_relative_to(working) else node.text
    try:
        if path.stat().st_size > _LARGEST:
            raise ValueError(f"it has more than {_LARGEST:,} bytes")
        source = Source(name, read_file(path).decode("utf-8"))
    except UNUSABLE as error:
        message = f"cannot read {shorten(name)!r}: {path_error_reason(error)}"
        reader.refuse("graph.prompt-file", message, node.span, "a prompt file is a text in UTF-8")
    if path.suffix in (".txt", ".md"):
        return NodePrompt(read_part(reader, source.span(), kind, in_file=True), None, node.span)
    # The file may be any file of the folder, so only an error about a prompt shows a line of it.
    problems = Diagnostics()
    nodes = documents(source, problems)
    whole = nodes[0] if len(nodes) == 1 else None
    if isinstance(whole, Fields) and {"user", "system"} & whole.fields.keys():
        reader.problems.extend(problems)
        if problems.error_count:
            raise NotBuilt
        return _from_fields(reader, whole, kind, node.span)._replace(span=node.span)
    message = f"{name!r} must hold a mapping with user and system"
    if problems.error_count:
        place = next(
            (problem.span.place[0] for problem in problems.errors if problem.span is not None), 1
        )
        message = f"{name!r} is no prompt: it cannot be read as YAML at line {place}"
    reader.refuse("graph.prompt-shape", message, node.span, "user: Summarize {text}")
