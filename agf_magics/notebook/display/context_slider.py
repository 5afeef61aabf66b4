"""The context of a plan: a table of its values and messages, over which the page draws a slider.

As of a run, the document only has the table. The slider is the one of `State over time` in the
explorer of a run: its moments are the numbers of messages.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from ...languages.plan import Log
from ...languages.scan import MISSING as UNSET
from ...lifecycle.forecasts.moments import MOST_DIFFERENCES
from ...pictures.difference import MISSING, find_differences
from ...pictures.pages.wire import StoreRow
from ...pictures.plain import details, html, line
from ...pictures.values import value_json
from ...text.diagnostics import AgfError
from ...values.value import Value
from ..explorer.forecasts import describe_difference
from ..explorer.request_types import Json, Refused
from ..output.output import Bundle
from .context_timeline import NO_MESSAGE, messages, references, state, writer


def static(name: str, log: Log) -> Bundle:
    """The values of the context, and its messages folded."""
    title = f"context {line(name, 80)}"
    now, all_ = state(log), messages(log)
    folded = details(html(all_.title), all_.html) if len(log) else ""
    page = f"<p><strong>{html(title)}</strong></p>{now.html}{folded}"
    return {"text/html": page, "text/plain": "\n\n".join([title, now.text, all_.text])}


def moment_json(log: Log, at: int, since: int) -> Json:
    """The values after ``at`` messages, and how they differ from those after ``since``
    messages."""
    if max(at, since) > len(log):
        raise Refused(f"the context has no moment {max(at, since) + 1}")
    now, then = (_values(log.until(count)) for count in (at, since))
    parts = list(islice(_differences(then, now), MOST_DIFFERENCES + 1))
    changed = {name for name, *_ in parts}
    return {
        "label": writer(log[at - 1]) if at else NO_MESSAGE,
        "took": "",
        "values": [
            StoreRow(name, value_json(now[name]), is_new=name in changed)
            for name in sorted(now, key=lambda name: name not in changed)
        ],
        "more": 0,
        "differs": [
            describe_difference(name + path, *both)
            for name, path, *both in parts[:MOST_DIFFERENCES]
        ],
        "isMore": len(parts) > MOST_DIFFERENCES,
    }


def _differences(
    then: dict[str, Value], now: dict[str, Value]
) -> Iterator[tuple[str, str, Any, Any]]:
    """The name, the path in the value, and both values of each part that differs."""
    for name in {**then, **now}:
        for part in find_differences(then.get(name, MISSING), now.get(name, MISSING)):
            yield name, *part


def _values(log: Log) -> dict[str, Value]:
    """The values of the last references, by their texts; an error in place of a value that cannot
    be read."""
    values: dict[str, Value] = {}
    for reference in references(log):
        try:
            value = log.read(reference)
        except AgfError as error:
            value = line(error.diagnostic.message, 120)
        if value is not UNSET:
            values[line(str(reference), 100)] = value
    return values
