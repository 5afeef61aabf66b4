"""What the earlier sessions of a run did, for its next session."""

from __future__ import annotations

import json
from collections.abc import Iterable

from ..progress import events as ev
from .records import SPLIT, CallKey, Record, SequenceRow, around, is_within, sequence_row


class ReplayLog:
    """The records of earlier sessions: read once, taken out call by call."""

    def __init__(self, records: Iterable[Record], ended: bool) -> None:
        """``ended``: the run ended, and the call that made it fail is made again."""
        self.line = 0
        self.outcomes: dict[CallKey, Record] = {}
        self.answers: dict[CallKey, Record] = {}
        self.marks: dict[tuple[str, CallKey], int] = {}
        """The row of each mark."""
        self.sequences: dict[CallKey, SequenceRow] = {}
        """The sequences of fan-outs."""
        for record in records:
            self.line = max(self.line, record.line)
            if record.what in ("finished", "failed"):
                self.outcomes[record.key] = record
            elif record.what == "answered":
                if record.form != "again":
                    self.answers[record.key] = record
            elif record.what == "sequence":
                self.sequences[record.key] = sequence_row(record)
            else:
                self.marks[record.what, record.key] = record.line
        self.outcomes = {key: one for key, one in self.outcomes.items() if not _is_repeated(one)}
        self.unknown = {
            key
            for (what, key), line in self.marks.items()
            if what == "begun" and (key not in self.outcomes or self.outcomes[key].line < line)
        }
        """Calls with an effect that were started and have no outcome."""
        for key in self.unknown & self.outcomes.keys():  # the outcome of an attempt before
            del self.outcomes[key]
        if ended:
            handled = {key.at for what, key in self.marks if what in ("dropped", "rescued")}
            retried = {key for what, key in self.marks if what == "retried"}
            for key, record in list(self.outcomes.items()):
                if record.what == "failed" and not _is_handled(record, handled, retried):
                    del self.outcomes[key]
        self.failures = [key.at for key, record in self.outcomes.items() if record.what == "failed"]

    def failed_elements(self, at: ev.StepPath) -> list[int]:
        """The elements of ``at`` (the path of a body, without the number) in which a call failed.

        A resumed run starts with them: so the failure that stopped the others is known before any of them starts.
        """
        found: dict[int, None] = {}
        for inner in self.failures:
            if is_within(inner, at) and len(inner) > len(at) and isinstance(inner[len(at)], int):
                found[int(inner[len(at)])] = None
        return list(found)

    def has_failed(self, at: ev.StepPath) -> bool:
        """Whether a call at or inside ``at`` failed."""
        return any(is_within(inner, at) for inner in self.failures)

    def order(self, what: str, keys: Iterable[CallKey]) -> list[int]:
        """The positions of the keys that have this mark, in the order of their marks."""
        found = ((self.marks.get((what, key)), i) for i, key in enumerate(keys))
        return [i for line, i in sorted((line, i) for line, i in found if line is not None)]


def _is_repeated(record: Record) -> bool:
    return record.what == "finished" and record.form == "again"


def _is_handled(record: Record, handled: set[ev.StepPath], retried: set[CallKey]) -> bool:
    """Whether a failure was dropped, rescued or retried, and so did not end the run."""
    tries = record.tries.split(SPLIT) if record.tries else []
    ats = [tuple(json.loads(one))[:-1] for one in tries]
    for outer in around(record.at):
        if outer in handled:
            return True
        inside = sum(at != outer and is_within(at, outer) for at in ats)  # the last ones
        if CallKey(outer, SPLIT.join(tries[: len(tries) - inside])) in retried:
            return True
    return False
