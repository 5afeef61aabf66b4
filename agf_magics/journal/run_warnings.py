"""Warns a person while a run is journaled: of rows and values that are not stored, lost or
different.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from ..flow.progress import events as ev
from ..flow.step_path import format_path
from ..text.diagnostics import Diagnostic
from .calls.started_call import Outcome, StartedCall
from .codec.same_values import is_same
from .database.errors import JournalError, not_journaled
from .records.recorded_outcomes import EarlierOutcomes, LostValue
from .records.records import CallKey, StoredValue


class RunWarnings:
    """The warnings about the journal of one run."""

    def __init__(self, log: EarlierOutcomes, emit: Callable[[ev.Event], None]) -> None:
        """``log``: the outcomes of earlier sessions of the run."""
        self._log = log
        self._emit = emit
        self._before = dict(log.unstored)
        """The essences of values that are lost or were not stored, by the call."""
        self._told: set[str] = set()
        """The codes and steps of the warnings so far. Each pair is warned of once."""

    def not_journaled(self, error: JournalError) -> None:
        """Warn, once, that nothing is journaled any more."""
        if error.code not in self._told:
            self._told.add(error.code)
            self._warn(not_journaled(error))

    def not_stored(self, call: StartedCall, why: str | None) -> None:
        """Warn, once for each step, of a value that is not stored."""
        step = next(str(bit) for bit in reversed(call.key.at) if isinstance(bit, str))
        if step not in self._told:
            self._told.add(step)
            message = f"the result of {call.name!r} in {step} is not stored: {why}"
            hint = "a resumed run makes the call again"
            self._warn(Diagnostic("journal.unkept", message, None, hint, "warning"))

    def lost_value(self, key: CallKey, why: LostValue) -> None:
        """Warn of a value that cannot be read, so that its call is made again."""
        self._before[key] = StoredValue("parts", why.data)
        consequence = "a person is asked" if key in self._log.unknown else "its call is made again"
        message = (
            f"the stored result of {format_path(key.at)} cannot be read, so {consequence}: {why}"
        )
        self._warn(Diagnostic("journal.lost-value", message, severity="warning"))

    def compare(self, outcome: Outcome) -> None:
        """Warn if a repeated call, whose value was lost or not stored, returns a different
        value."""
        if not self._before:
            return
        key, packed = outcome.call.key, outcome.packed
        if outcome.error is None and packed.form == "again" and packed.data is None:
            return  # the value is unread or not stored
        before = self._before.pop(key, None)
        if outcome.error is None and before is not None and is_same(before, packed) is False:
            message = f"{format_path(key.at)} was called again and has returned another value"
            message += ": results that were made of the earlier one are kept"
            self._warn(Diagnostic("journal.not-the-same", message, severity="warning"))

    def _warn(self, problem: Diagnostic) -> None:
        self._emit(ev.Warned(time.monotonic(), problem))
