"""Exports a run or a list of runs as JSON lines.

These files are written only when a person asks for them. Their names come from a definition, which
is untrusted. So they stay below the folder that the person chooses, as the files of the built-in
tools stay below the notebook's folder (decisions A16, D3).
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

from ...catalog.builtin.files import write_file
from ...flow.flow import Flow
from ...settings.folders import own_files
from ...text.diagnostics import Diagnostic, StepError
from ...text.length import can_write
from ...text.source import UNUSABLE, path_error_reason
from ...values.value import Value, is_json
from ..runs.run import Run
from .past_run import PastRun

MOST_EXPORTED = 100_000_000
"""Characters of an exported value, which may be much smaller in memory."""

UNWRITTEN = "a node before the end can make a text or JSON of it, without secrets"


def export(run: Run | PastRun, folder: str | Path) -> list[Path]:
    """Write the files that the graph of ``run`` names under ``exports``, and return their paths.

    A key without a value gives no file; an existing file is replaced. Raises StepError
    ``run.export`` if the graph has no exports, if the folder cannot be made, if a value has no
    text or has a secret, or if the journal has only a preview of it; ``tool.file-path`` and
    ``tool.file-write`` if a file cannot be written.

    Parameters:

    - ``run``: a `Run` or a `PastRun`, with any status. Required.
    - ``folder``: the folder for the files, relative to the current folder; it is made if it does
      not exist. Required.
    """
    flow: Flow = run.flow
    if not flow.declared.exports:
        message = f"{run.name!r} exports nothing"
        raise StepError(
            Diagnostic(
                "run.export", message, hint="exports: {KEY: {format: markdown, filename: KEY.md}}"
            )
        )
    root = Path(folder)
    try:
        root.mkdir(parents=True, exist_ok=True)
    except UNUSABLE as error:
        raise StepError(
            Diagnostic("run.export", f"cannot make the folder: {path_error_reason(error)}")
        ) from None
    real, written = Path(os.path.realpath(root)), list[Path]()
    stores: Mapping[str, Value] = run.stores
    previews = run.previews if isinstance(run, PastRun) else ()
    for file in flow.declared.exports:
        value = stores.get(file.name)
        if value is None:
            continue
        if file.name in previews:
            message = (
                f"the journal has only a preview of {file.name!r}: it is not JSON, or has a secret"
            )
            raise StepError(Diagnostic("run.export", message, file.span, UNWRITTEN))
        if is_json(value) and run.secrets.shown(value) != value:
            message = f"{file.name!r} is not written: it has a secret"
            raise StepError(Diagnostic("run.export", message, file.span, UNWRITTEN))
        text = format_export(value, file.format)
        if text is None:
            message = f"{file.name!r} has no text: it is a Python object"
            raise StepError(Diagnostic("run.export", message, file.span, UNWRITTEN))
        write_file(real, file.file, text, own_files())
        written.append(root / file.file)
    return written


def format_export(value: Value, format: str) -> str | None:
    """A value as the text of a file; None if it has none.

    >>> format_export(["a", 1], "markdown")
    '- a\\n- 1\\n'
    """
    if isinstance(value, str) and format != "json":
        return value if value.endswith("\n") else f"{value}\n"
    if not is_json(value) or not can_write(value, MOST_EXPORTED):
        return None
    if format == "markdown" and isinstance(value, list):
        return "".join(f"- {_one_line(item)}\n" for item in value)
    if format == "markdown" and isinstance(value, dict):
        return "".join(f"- **{name}**: {_one_line(inner)}\n" for name, inner in value.items())
    return json.dumps(value, ensure_ascii=False, indent=2) + "\n"


def _one_line(value: Value) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return " ".join(text.split())
