"""Opens a call of the journal: its arguments become a variable, and a new cell makes the call again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from ...catalog import Registry
from ...flow.step_path import format_path
from ...journal.records.records import Record
from ...lifecycle.input.fields import fields_of
from ...lifecycle.past.find_call import find_call
from ...lifecycle.past.past_run import find_past_run
from ...pictures.plain import line
from ...pictures.value_line import value_line
from ...text.diagnostics import DefinitionError
from ...values.tables.first_rows import frame_size
from ...values.value import Value

ARGUMENTS = "arguments"
"""The name of the variable, unless a person gives another one."""

MOST_PARTIAL = 5
"""The most arguments that are named because only their first rows are known."""


class Opened(NamedTuple):
    """A call that was opened."""

    name: str
    """The variable that has the arguments."""
    path: str
    """The place of the call in the run."""
    shown: str
    """The arguments as a short text."""
    code: str
    """The text of a cell that makes the call."""
    note: str
    """Why the arguments are incomplete; empty if they are complete."""


def open_call(
    shell: Any, registry: Registry, run_id: str, place: str, name: str = ARGUMENTS
) -> Opened:
    """Put the arguments of the call at ``place`` (see `find_call`) into the variable ``name``.
    Raises DefinitionError if there is no such call, or no such tool."""
    record = find_call(find_past_run(run_id).records(), place, "tool")
    # The name comes from the journal, which may be a stranger's: it is used only if it names a tool.
    if record.name not in registry.tools:
        raise DefinitionError(registry.tools.missing(record.name, None, "flow.unknown-tool"))
    arguments = record.arguments_shown
    note = "" if record.arguments.whole else _note(arguments)
    shell.user_ns[name] = arguments
    shown = value_line(arguments, 200)
    return Opened(
        name,
        line(format_path(record.at), 100),
        shown,
        _calling(record, name, shell.user_ns, registry),
        note,
    )


def _note(arguments: Value) -> str:
    """Why the variable has not all of the arguments."""
    note = "some of the arguments are only previews: a secret, or a value that is not JSON"
    frames = [key for key, value in fields_of(arguments).items() if frame_size(value) is not None]
    if frames:
        named = " and ".join(line(repr(key), 60) for key in frames[:MOST_PARTIAL])
        note += f"; of {named}, the variable has the first rows as a list"
    return note


def _calling(record: Record, name: str, names: Mapping[str, Any], registry: Registry) -> str:
    """A cell that makes a call with the arguments in the variable ``name``."""
    tool = registry.tools[record.name]
    # The tool's name is written only if the notebook has the tool's function under it.
    is_same = record.name.isidentifier() and names.get(record.name) is tool.function
    called = record.name if is_same else f"agf_magics.registry.tools[{record.name!r}].function"
    context = "".join(f", {parameter}=agf_magics.ToolContext()" for parameter in tool.context)
    lead = "" if is_same and not context else "import agf_magics\n\n"
    waits = "await " if tool.is_async else ""
    return f"{lead}{waits}{called}(**{name}{context})"
