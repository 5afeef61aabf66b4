"""Builds the answers of the server's tools about a run: envelopes of launch tools, texts of
errors."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...flow.progress.question import Question
from ...lifecycle.past.final_values import FinalValues, final_values
from ...lifecycle.past.past_run import PastRun
from ...lifecycle.runs.run import Run
from ...pictures.pages.parts import failures_text
from ...pictures.plain import plain
from ...text.diagnostics import AgfError, DefinitionError, Diagnostic, merge_equal, refused
from ...values.as_json import as_json
from ...values.value import Value
from .questions import described

Envelope = dict[str, Any]
"""``{"status": "ok" | "error" | "cancelled" | "started" | "waiting", "data": {...}}``"""

MOST_ERRORS = 20
"""Problems that the text of an error lists."""
MOST_MESSAGE = 4_000
"""Characters of the text of one problem."""

LARGEST = 7_900_000
"""Bytes of a result: a client reads a message of 16,000,000 bytes at most, and the message contains
the result twice, as a text and as structured content."""


def started(run_id: str) -> Envelope:
    return {"status": "started", "data": {"run_id": run_id}}


def failed(message: str) -> Envelope:
    return {"status": "error", "data": {"error": message}}


def asks(run_id: str, question: Question) -> Envelope:
    """The envelope of a run that waits for the answer to its question."""
    data = {"run_id": run_id, "question": described(question), "hint": HOW_TO_ANSWER}
    return {"status": "waiting", "data": data}


HOW_TO_ANSWER = "call run_answer with the run_id and the answer of the person, then run_result"


def ended(run: Run | PastRun) -> Envelope:
    """The envelope of a run that has ended, with its output or its error."""
    run_id = run.run_id
    if run.status == "ok":
        values = final_values(run)
        stores = {name: as_json(value) for name, value in values.stores.items()}
        data = {"run_id": run_id, "output": as_json(values.output), "named_stores": stores}
        if beside := said_beside(run, values):
            data["warnings"] = beside
        if (size := bytes_in_message(written(data))) > LARGEST:
            return failed(error_text(too_large(run_id, size)))
        return {"status": "ok", "data": data}
    status = run.status if run.status in ("cancelled", "waiting") else "error"
    why = error_text(run.error) if run.error is not None else "it has no result"
    data = {"run_id": run_id, "error": f"{run.name!r}: {why}"}
    if status == "waiting":
        data["hint"] = HOW_TO_ANSWER
    return {"status": status, "data": data}


def said_beside(run: Run | PastRun, values: FinalValues) -> str:
    """What a client must know of a run that is ok: names of its input that no step reads, which may be
    misspelt, elements that failed and were dropped, and values that are only previews; empty if there
    is nothing."""
    # A warning of the definition is about a text that the client may not know, and cannot change.
    warnings = run.warnings if isinstance(run, Run) else run.progress.warnings
    of_run = [warning for warning in warnings if warning.code.startswith("run.")][:MOST_ERRORS]
    lines = [f"warning: {diagnostic_text(warning)}" for warning in of_run]
    lines += [plain(text) for text in failures_text(run.progress)]
    return "\n".join([*lines, *filter(None, [plain(values.about_cut)])])


def error_text(error: BaseException) -> str:
    """An error for a client: its messages with codes and hints. Files and lines of the definition
    are left out, because the client may not know the definition."""
    if not isinstance(error, AgfError):
        return "the server has failed; its log says more"
    merged = merge_equal(error.diagnostics)
    more = len(merged) - MOST_ERRORS
    lines = [diagnostic_text(diagnostic) for diagnostic in merged[:MOST_ERRORS]]
    return "\n".join([*lines, *([f"… and {more:,} more"] if more > 0 else [])])


def diagnostic_text(diagnostic: Diagnostic) -> str:
    hint = f"\n  = {diagnostic.hint}" if diagnostic.hint else ""
    return plain(f"{diagnostic.message} [{diagnostic.code}]{hint}", MOST_MESSAGE)


def too_large(run_id: str, size: int) -> DefinitionError:
    """The error for an output that no client could read."""
    message = f"the output has {size:,} bytes in a message, and a client reads at most {LARGEST:,}"
    hint = (
        f"the run {run_id} is in the journal of the server's folder; return less, or write a file"
    )
    return refused("mcp.large-output", message, hint)


def bytes_in_message(text: str) -> int:
    """The bytes of a text as a part of a message: in UTF-8, with the escapes of JSON."""
    return len(json.dumps(text, ensure_ascii=False).encode("utf-8", "replace"))


def written(value: Value | Mapping[str, Value]) -> str:
    """A text as it is; any other value as JSON, with characters instead of escapes."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
