"""The context of a plan: a table of its values and messages, over which the page draws a slider.

The saved document has only the table. The slider is the one of `State over time` in the explorer of a
run; a moment of it is a number of messages. The rows of the table come from context_timeline.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from ...languages.descend import MISSING as UNSET
from ...languages.plan import Log
from ...lifecycle.forecasts.moments import MOST_DIFFERENCES
from ...pictures.difference import MISSING, find_differences
from ...pictures.pages.wire import StoreRow
from ...pictures.plain import details, html, line
from ...pictures.values import value_brief, value_json
from ...text.diagnostics import AgfError
from ...values.value import Value
from ..explorer.forecasts import describe_difference
from ..explorer.request_types import Json, Refused
from ..output.output import Bundle
from .context_timeline import MOST_ROWS, NO_MESSAGE, messages, references, state, writer


def static(name: str, log: Log) -> Bundle:
    """The values of the context, and its messages folded."""
    title = f"context {line(name, 80)}"
    values = state(log)
    written = messages(log)
    folded = details(html(written.title), written.html) if len(log) else ""
    page = f"<p><strong>{html(title)}</strong></p>{values.html}{folded}"
    return {"text/html": page, "text/plain": "\n\n".join([title, values.text, written.text])}


def moment_json(log: Log, moment: int, since: int) -> Json:
    """The values after ``moment`` messages, and how they differ from the values after ``since``
    messages."""
    if max(moment, since) > len(log):
        raise Refused(f"the context has no moment {max(moment, since) + 1}")
    values = _values(log.until(moment))
    before = _values(log.until(since))
    parts = list(islice(_differences(before, values), MOST_DIFFERENCES + 1))
    changed = {name for name, *_ in parts}
    return {
        "label": writer(log[moment - 1]) if moment else NO_MESSAGE,
        "took": "",
        "values": [
            StoreRow(name, value_json(values[name]), name in changed, value_brief(values[name]))
            for name in sorted(values, key=lambda name: name not in changed)
        ],
        "more": 0,
        "differs": [
            describe_difference(name + path, first, other)
            for name, path, first, other in parts[:MOST_DIFFERENCES]
        ],
        "isMore": len(parts) > MOST_DIFFERENCES,
    }


def _differences(
    before: dict[str, Value], after: dict[str, Value]
) -> Iterator[tuple[str, str, Any, Any]]:
    """The name, the path in the value, and both values of each part that differs."""
    for name in {**before, **after}:
        for part in find_differences(before.get(name, MISSING), after.get(name, MISSING)):
            yield name, *part


def _values(log: Log) -> dict[str, Value]:
    """The values of the last references, by the texts of the references. The message of an error stands
    for a value that cannot be read."""
    values: dict[str, Value] = {}
    for reference in references(log)[-MOST_ROWS:]:
        try:
            value = log.read(reference)
        except AgfError as error:
            value = line(error.diagnostic.message, 120)
        if value is not UNSET:
            values[line(str(reference), 100)] = value
    return values
