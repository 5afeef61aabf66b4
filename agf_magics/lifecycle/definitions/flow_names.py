"""Finds the name of a defined flow: an argument, a word on the line of a cell, or a name in the
text."""

from __future__ import annotations

from ...flow.flow import Flow
from ...text.columns import safe
from ...text.diagnostics import DefinitionError, Diagnostic
from ...text.names import same_name
from ...text.shorten import shorten
from ...text.source import Source, Text

TEXT = "<text>"
"""The name of a text that comes from neither a cell nor a file, until its flow is known."""


def name_text(source: Source, flow: Flow) -> None:
    """Name a text after its flow: an error of a called flow must say which one it is in."""
    if source.name == TEXT:
        source.name = f"<text of {safe(shorten(' '.join(flow.name.split())))}>"


def refuse_two_names(on_line: Text, flow: Flow) -> None:
    """Refuse a name on the line of a cell that is not the one in its text (decision P28)."""
    if flow.name and same_name(flow.name) != same_name(on_line.text):
        message = f"the line names it {on_line.text!r}, and the text {flow.name!r}"
        place, named = on_line.locate(0, len(on_line.text)), flow.origin.span
        related = (("named here too", named),) if named is not None else ()
        hint = "remove one of them"
        raise DefinitionError(Diagnostic("define.two-names", message, place, hint, related=related))


def without_name(flow: Flow) -> Diagnostic:
    hint = f"write %%{flow.language} NAME; in Python: define(…, name='NAME')"
    return Diagnostic("define.no-name", f"this {flow.language} has no name", flow.origin.span, hint)


def check_flow_name(name: str | None) -> str | None:
    """The normalized name of a flow; None if ``name`` is None. Raises DefinitionError for a name
    that is no text or is blank."""
    if name is not None and not (isinstance(name, str) and name.strip()):
        raise DefinitionError(
            Diagnostic("define.no-name", f"the name of a flow must be text, not {name!r}")
        )
    return same_name(name) if name is not None else None
