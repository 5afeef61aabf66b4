"""Reads the files in which other programs list their MCP servers; an entry becomes a `Command` or an `Address`.

Claude and ``.mcp.json`` have ``{"mcpServers": {NAME: …}}``, VS Code has ``{"servers": {NAME: …}}``;
an entry is a command or an address. A person names the file and the entry: a file alone starts
nothing (decision D4).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...text.diagnostics import DefinitionError, Diagnostic, Diagnostics
from ...text.files import read_file
from ...text.source import UNUSABLE, Source, Span, path_error_reason
from ...text.suggestions import suggest
from ...text.yaml.nodes import Fields, Node, plain
from ...text.yaml.reader import documents
from .connecting import Address, Command
from .environment import NAMED_IN_FILE

LISTS = ("mcpServers", "servers")
"""The keys of the mapping of servers. The first of them that a file has counts."""
OTHERS = frozenset({"type", "disabled", "description", "alwaysAllow", "autoApprove", "timeout"})
"""Keys of other programs that do not say how a server is reached: they are ignored."""

_TEXT_OR_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"?|//.*|/\*(?s:.*?)(?:\*/|\Z)')
"""A text of JSON, in which // is no comment, or a comment."""


def read_entry(path: Path, name: str) -> Command | Address:
    """The target of the entry ``name`` of a file. Raises DefinitionError ``mcp.config``."""
    servers = _list(path)
    entry = servers.fields.get(name)
    if not isinstance(entry, Fields):
        near = suggest(name, servers.fields, "entries")
        raise _wrong(f"{path.name} has no MCP server {name!r}", servers.span, near)
    return _target(plain(entry), entry, name)


def read_entries(path: Path) -> dict[str, Command | Address]:
    """The targets of a file, without those that it disables. Raises DefinitionError ``mcp.config``."""
    entries = _list(path).fields
    return {name: read_entry(path, name) for name in entries if not _is_disabled(entries[name])}


def _is_disabled(entry: Node) -> bool:
    return isinstance(entry, Fields) and plain(entry).get("disabled") is True


def _list(path: Path) -> Fields:
    """The mapping in a file that has one entry for each server."""
    try:
        text = _TEXT_OR_COMMENT.sub(_without_comment, read_file(path).decode("utf-8"))
    except UNUSABLE as error:
        raise _wrong(f"{path.name} cannot be read: {path_error_reason(error)}", None) from None
    problems = Diagnostics()
    nodes = documents(Source(path.name, text), problems)
    root = nodes[0] if len(nodes) == 1 and not problems.errors else None
    if problems.errors:
        first = problems.errors[0]
        raise _wrong(f"{path.name} cannot be read: {first.message}", first.span, first.hint)
    if not isinstance(root, Fields):
        raise _wrong(f"{path.name} cannot be read: it is no object", None)
    lists = [root.fields[key] for key in LISTS if key in root.fields]
    servers = next((fields for fields in lists if isinstance(fields, Fields)), None)
    if servers is None:
        hint = 'it has {"mcpServers": {…}}, as other clients, or {"servers": {…}}, as VS Code'
        raise _wrong(f"{path.name} lists no MCP servers", root.span, hint)
    return servers


def _without_comment(match: re.Match[str]) -> str:
    """The text as it is; blanks for a comment, so that an error has its place."""
    return match[0] if match[0].startswith('"') else re.sub(r"\S", " ", match[0])


def _target(entry: Mapping[str, Any], node: Fields, name: str) -> Command | Address:
    """The target of an entry. ``node``: the same entry with the places in the file, for errors."""

    def texts(key: str) -> dict[str, str]:
        values = entry.get(key) or {}
        if not isinstance(values, Mapping):
            raise _wrong(f"{key} of {name!r} must be an object", node.fields[key].span)
        return {str(part): text_of(value, f"{part} of {key}") for part, value in values.items()}

    def text_of(value: Any, what: str) -> str:
        # A process and a header have texts only, written as JSON writes them.
        if isinstance(value, str):
            return value
        if isinstance(value, bool | int | float):
            return json.dumps(value)
        raise _wrong(f"{what} of {name!r} must be a text", node.span)

    for key, value in entry.items():
        if "${input:" in str(value) or "${workspaceFolder" in str(value):
            hint = "write $NAME for an environment variable"
            message = f"{key} of {name!r} has a variable that only VS Code fills"
            raise _wrong(message, node.fields[key].span, hint)
    for key in ("command", "args", "url"):
        # The words of a command and an address are shown, so they have no values of variables.
        if named := NAMED_IN_FILE.search(str(entry.get(key))):
            hint = "write its value; variables are filled in env and headers"
            message = f"{key} of {name!r} has the variable {named[0]}, which is not filled there"
            raise _wrong(message, node.fields[key].span, hint)
    if isinstance(entry.get("url"), str):
        return Address(entry["url"], texts("headers"))
    arguments = entry.get("args") or []
    if not isinstance(entry.get("command"), str):
        raise _wrong(f"{name!r} has neither a command nor a url", node.span)
    if not isinstance(arguments, list):
        raise _wrong(f"args of {name!r} must be a list", node.fields["args"].span)
    unknown = entry.keys() - {"command", "args", "env", *OTHERS}
    for key in unknown:
        message = f"{key!r} of {name!r} is not supported"
        raise _wrong(message, node.keys[key].span, "remove it, or write the command in the line")
    words = [text_of(argument, "an argument") for argument in arguments]
    return Command([entry["command"], *words], texts("env"))


def _wrong(message: str, span: Span | None, hint: str | None = None) -> DefinitionError:
    return DefinitionError(Diagnostic("mcp.config", message, span, hint))
