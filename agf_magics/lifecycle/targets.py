"""The files that are written at the end of a run: what is wrong with one is told before it begins."""

from __future__ import annotations

from pathlib import Path

from ..text.diagnostics import DefinitionError, Diagnostic
from ..text.source import unwritable_reason

TABLE = ("not a file of rows", (".csv", ".jsonl", ".parquet"))
FIGURES = ("no file for a report", (".html", ".json"))


def check_target(target: Path, kind: tuple[str, tuple[str, ...]]) -> None:
    """Raises DefinitionError if no file of this kind, `TABLE` or `FIGURES`, can be written there, as
    far as this is known before it is tried."""
    otherwise, endings = kind
    if target.suffix.lower() not in endings:
        message = f"{str(target)!r} is {otherwise}"
        hint = f"it ends in {', '.join(endings[:-1])} or {endings[-1]}"
        raise DefinitionError(Diagnostic("over.file", message, hint=hint))
    if (reason := unwritable_reason(target)) is not None:
        message = f"{str(target)!r} cannot be written: {reason}"
        raise DefinitionError(Diagnostic("over.file", message))
