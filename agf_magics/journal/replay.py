"""What the earlier sessions of a run did, for the one that takes it up again."""

from __future__ import annotations

import json
from collections.abc import Iterable

from ..progress import events as ev
from .records import SPLIT, Record, around, is_within


class ReplayLog:
    """What the earlier sessions of a run did: read once, taken out call by call."""

    def __init__(self, records: Iterable[Record], ended: bool) -> None:
        """``ended``: the run came to an end, and what made it fail is to be tried again."""
        self.line = 0
        self.outcomes: dict[tuple[ev.StepPath, str], Record] = {}
        self.answers: dict[tuple[ev.StepPath, str], Record] = {}
        self.marks: dict[tuple[str, ev.StepPath, str], int] = {}
        """Where in the journal each stands."""
        for record in records:
            self.line = max(self.line, record.line)
            if record.what in ("finished", "failed"):
                self.outcomes[record.at, record.tries] = record
            elif record.what == "answered":
                if record.form != "again":
                    self.answers[record.at, record.tries] = record
            else:
                self.marks[record.what, record.at, record.tries] = record.line
        self.outcomes = {key: one for key, one in self.outcomes.items() if not _again(one)}
        self.unknown = {
            (at, tries)
            for (what, at, tries), line in self.marks.items()
            if what == "begun" and ((at, tries) not in self.outcomes or self.outcomes[at, tries].line < line)
        }
        """Calls with an effect that were begun, and whose result is not known."""
        for key in self.unknown & self.outcomes.keys():  # that is how an attempt before ended
            del self.outcomes[key]
        if ended:
            handled = {at for what, at, _ in self.marks if what in ("dropped", "rescued")}
            retried = {(at, tries) for what, at, tries in self.marks if what == "retried"}
            for key, record in list(self.outcomes.items()):
                if record.what == "failed" and not _handled(record, handled, retried):
                    del self.outcomes[key]
        self.failures = [key for key, record in self.outcomes.items() if record.what == "failed"]

    def failed_elements(self, at: ev.StepPath) -> list[int]:
        """Those of the elements of ``at`` (the moment of a body, without its element's number) in which a call failed.

        They come first when the run is taken up: what made the others stop is known before any of them starts.
        """
        found: dict[int, None] = {}
        for inner, _ in self.failures:
            if is_within(inner, at) and len(inner) > len(at) and isinstance(inner[len(at)], int):
                found[int(inner[len(at)])] = None
        return list(found)

    def has_failed(self, at: ev.StepPath) -> bool:
        """Whether a call failed in what runs at ``at``."""
        return any(is_within(inner, at) for inner, _ in self.failures)

    def order(self, what: str, ats: Iterable[tuple[ev.StepPath, str]]) -> list[int]:
        """The numbers of those that have that mark, in the order in which they got it."""
        found = ((self.marks.get((what, at, tries)), i) for i, (at, tries) in enumerate(ats))
        return [i for seq, i in sorted((seq, i) for seq, i in found if seq is not None)]


def _again(record: Record) -> bool:
    return record.what == "finished" and record.form == "again"


def _handled(record: Record, handled: set[ev.StepPath], retried: set[tuple[ev.StepPath, str]]) -> bool:
    """Whether a failure was dropped, rescued or tried again: then it did not end the run."""
    tries = record.tries.split(SPLIT) if record.tries else []
    ats = [tuple(json.loads(one))[:-1] for one in tries]
    for outer in around(record.at):
        if outer in handled:
            return True
        inside = sum(at != outer and is_within(at, outer) for at in ats)  # the last ones
        if (outer, SPLIT.join(tries[: len(tries) - inside])) in retried:
            return True
    return False
