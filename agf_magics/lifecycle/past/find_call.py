"""Finds the call that a person or the page names by its path, among the records of a run."""

from __future__ import annotations

from collections.abc import Iterable

from ...flow.progress.rows import key_of
from ...flow.step_path import format_path
from ...journal.records.records import Record
from ...text.diagnostics import refused


def find_call(records: Iterable[Record], place: str, kind: str = "") -> Record:
    """The last call of a run at the path ``place`` (``steps[0].do#3``) that returned. With
    ``kind``: the last call of this kind, a failed call before all others; ``place`` may then also
    be the path of a step without the numbers of elements. Raises DefinitionError."""

    def is_meant(call: Record) -> bool:
        if not kind:
            return call.what == "finished" and format_path(call.at) == place
        return call.kind == kind and place in (format_path(call.at), "/".join(key_of(call.at)))

    calls = filter(is_meant, records)
    last = max(calls, key=lambda call: (call.what == "failed", call.line), default=None)
    if last is None:
        message = f"there is no {kind} call {place!r} in this run".replace("  ", " ")
        raise refused("journal.unknown-call", message, "run.calls lists them")
    return last
