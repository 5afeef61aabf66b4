"""The context of a plan: a table of its values and messages, over which the page draws a slider.

As of a run, the document only has the table. The slider is the one of `State over time` in the
explorer of a run: its moments are the numbers of messages.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from itertools import islice
from typing import Any

from ..flow.values import Value
from ..languages.plan import Log
from ..languages.scan import MISSING as UNSET
from ..lifecycle.moments import MOST_DIFFERENCES
from ..pictures.difference import MISSING, find_differences
from ..pictures.plain import html, line
from ..pictures.value_json import value_json
from ..text.diagnostics import AgfError
from .explorer_calls import Refused, natural, reply_to
from .explorer_later import describe_difference, later_script
from .explorer_model import Model
from .explorer_session import Json
from .open_explorers import open_explorer
from .output import Bundle, in_frames, show
from .timeline import NO_MESSAGE, messages, references, state, writer
from .view import framed


def show_context(name: str, log: Log, watched: bool) -> None:
    """Show the context ``name``. ``watched``: whether a front end with scripts shows the output."""
    page = static(name, log)
    if watched and len(log) and not in_frames():
        with contextlib.suppress(Exception):  # the widgets of this environment do not work
            page = framed(page, open_explorer(lambda: ContextSlider(name, log)).mark)
    show(page)


def static(name: str, log: Log) -> Bundle:
    """The values of the context, and its messages folded."""
    title = f"context {line(name, 80)}"
    now, all_ = state(log), messages(log)
    folded = (
        f"<details><summary>{html(all_.title)}</summary>{all_.html}</details>" if len(log) else ""
    )
    page = f"<p><strong>{html(title)}</strong></p>{now.html}{folded}"
    return {"text/html": page, "text/plain": "\n\n".join([title, now.text, all_.text])}


class ContextSlider:
    """The kernel's end of the slider over one context. A log never changes, so neither does
    this."""

    has_ended, can_rerun = True, False

    def __init__(self, name: str, log: Log) -> None:
        self._name, self._log = name, log
        self.mark = f"agf-{secrets.token_hex(8)}"
        self.model = Model.of(self)

    def start(self) -> Json:
        return {"context": line(self._name, 80), "id": self.mark}

    def receive(self, message: dict[str, Any]) -> None:
        self.model.send({"mark": self.mark, **reply_to(message, self._answer)})

    def close(self, tell: bool = True) -> None:
        self.model.leave(self, tell)

    def _answer(self, name: str, given: dict[str, Any]) -> Json:
        match name:
            case "later":
                return {"code": later_script()}
            case "moments":
                return {"total": len(self._log) + 1, "note": ""}
            case "moment":
                return self._moment(natural(given.get("at")), natural(given.get("since")))
        raise Refused(f"unknown request {name!r}")

    def _moment(self, at: int, since: int) -> Json:
        """The values after ``at`` messages, and how they differ from those after ``since``
        messages."""
        if max(at, since) > len(self._log):
            raise Refused(f"the context has no moment {max(at, since) + 1}")
        now, then = (_values(self._log.until(count)) for count in (at, since))
        parts = list(islice(_differences(then, now), MOST_DIFFERENCES + 1))
        changed = {name for name, *_ in parts}
        return {
            "label": writer(self._log[at - 1]) if at else NO_MESSAGE,
            "took": "",
            "values": [
                [name, value_json(now[name]), name in changed]
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
    found: dict[str, Value] = {}
    for reference in references(log):
        try:
            value = log.read(reference)
        except AgfError as error:
            value = line(error.diagnostic.message, 120)
        if value is not UNSET:
            found[line(str(reference), 100)] = value
    return found
