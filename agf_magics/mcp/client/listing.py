"""Reads the tools that a server lists: which of them can be used, and why the others cannot.

A listing is foreign data, so its length and the size of its schemas are bounded.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable
from typing import Any, NamedTuple

from ...schemas.json_schema import schema_violations
from ...schemas.patterns import pattern_faults
from ...text.diagnostics import Diagnostic
from .foreign_text import clean, first_line
from .output_schemas import output_schema

MOST_TOOLS = 256
"""Tools of a server that are read; the others are left out."""
MOST_PAGES = 20
"""Pages of a listing that are read."""
LONGEST_NAME = 64
"""Characters of a name on the registry."""
DEEPEST = 40
"""Levels of nesting in a schema."""
MOST_PARTS = 5_000
"""Values in a schema, at all levels together."""

_NAME = re.compile(r"[A-Za-z0-9_.\-]+")


class Listed(NamedTuple):
    """A tool of a server that can be used."""

    name: str
    """The name at the server."""
    registered: str
    """The name on the registry: ``SERVER__TOOL``."""
    description: str
    accepts: dict[str, Any]
    gives: dict[str, Any] | None
    is_read_only: bool
    """Whether the server calls the tool read-only, which is believed only of a trusted server."""
    is_ours: bool = False
    """Whether this is `READER`, the tool of this package that the server does not have."""

    @property
    def fingerprint(self) -> str:
        """A text that differs if the schemas or the description of the tool differ."""
        parts = [self.description, self.accepts, self.gives, self.is_read_only]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


READER = "read_resource"
"""The name of the tool that reads the resources to which results link."""


def reader_of_links(server: str) -> Listed:
    """The tool `READER`, which this package adds to the tools of a server that has resources."""
    uri = {"type": "string", "description": "The uri of a link in a result."}
    accepts = {
        "type": "object",
        "properties": {"uri": uri},
        "required": ["uri"],
        "additionalProperties": False,
    }
    about = "Read a resource that a result of this server links to."
    return Listed(READER, f"{server}__{READER}", about, accepts, None, False, True)


async def read_pages(list_page: Callable[[str | None], Any]) -> tuple[list[Any], bool]:
    """The tools that a server lists, page by page, and whether there are more."""
    cursor: str | None = None
    tools: list[Any] = []
    for _ in range(MOST_PAGES):
        page = await list_page(cursor)
        # One tool more than the most, to know that there are more.
        tools += page.tools[: MOST_TOOLS + 1 - len(tools)]
        cursor = page.next_cursor
        if cursor is None or len(tools) > MOST_TOOLS:
            break
    return tools[:MOST_TOOLS], cursor is not None or len(tools) > MOST_TOOLS


def usable_tools(
    server: str,
    tools: Iterable[Any],
    only: Collection[str] | None,
    is_taken: Callable[[str], bool],
    masked: Callable[[str], str],
) -> tuple[list[Listed], list[Diagnostic]]:
    """The tools that can be registered, and a note for each that is left out.

    ``only``: the names that the person wants; None: all. ``is_taken``: whether something else is
    registered under a name. ``masked``: hides secrets in a description.
    """
    usable: dict[str, Listed] = {}
    notes: list[Diagnostic] = []
    for tool in tools:
        if only is not None and tool.name not in only:
            continue
        registered = f"{server}__{tool.name}"
        why = _why_left_out(tool, registered, usable, is_taken)
        if why:
            clean_name = clean(tool.name, LONGEST_NAME)
            notes.append(left_out(f"MCP server {server!r}: tool {clean_name!r} is left out: {why}"))
            continue
        annotations = tool.annotations
        usable[tool.name] = Listed(
            tool.name,
            registered,
            first_line(tool.description or tool.title or "", masked),
            tool.input_schema,
            output_schema(tool),
            bool(annotations and annotations.read_only_hint),
        )
    return list(usable.values()), notes


def left_out(message: str) -> Diagnostic:
    return Diagnostic("mcp.tool-left-out", message, severity="note")


def _why_left_out(
    tool: Any, registered: str, usable: Collection[str], is_taken: Callable[[str], bool]
) -> str:
    """The reason why a tool cannot be registered; empty if it can."""
    if not _NAME.fullmatch(tool.name):
        return "a name has letters, digits, _, - and ."
    if len(registered) > LONGEST_NAME:
        return f"its name {registered[:80]!r} has more than {LONGEST_NAME} characters"
    if tool.name in usable:
        return "the server lists the name twice"
    if is_taken(registered):
        return f"another tool is registered as {registered!r}"
    for schema in (tool.input_schema, output_schema(tool)):
        if schema is not None and (why := unusable(schema)):
            return why
    return ""


def unusable(schema: dict[str, Any]) -> str:
    """The reason why a server's schema cannot be used; empty if it can."""
    waiting: list[tuple[Any, int]] = [(schema, 0)]
    parts = 0
    # A stack, because a hostile schema may nest deeper than Python's recursion limit.
    while waiting:
        part, depth = waiting.pop()
        parts += 1
        if depth > DEEPEST:
            return f"its schema has more than {DEEPEST} levels"
        if parts > MOST_PARTS:
            return f"its schema has more than {MOST_PARTS:,} parts"
        if isinstance(part, dict):
            reference = part.get("$ref")
            if isinstance(reference, str) and not reference.startswith("#"):
                return f"its schema refers to {clean(reference, 80)!r}, outside of itself"
            waiting += [(inner, depth + 1) for inner in part.values()]
        elif isinstance(part, list):
            waiting += [(inner, depth + 1) for inner in part]
    if fault := next(iter(pattern_faults(schema)), None):
        pattern = clean(fault.pattern, 80)
        return f"the pattern {pattern!r} of its schema cannot be used: {clean(str(fault.error))}"
    return "its schema is no JSON Schema" if schema_violations(schema) else ""
