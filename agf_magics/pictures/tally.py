"""`Tally`, the counts of the elements of a fan-out, in words and where there is little room."""

from __future__ import annotations

from typing import NamedTuple

from .theme import STATES


class Tally(NamedTuple):
    """The elements of a fan-out."""

    total: int
    ok: int
    failed: int
    running: int
    cancelled: int
    waiting: int = 0
    """Elements that wait for the answer of a person; they do not run."""

    @property
    def ended(self) -> int:
        """The number of elements with an outcome: a cancelled one has none."""
        return self.ok + self.failed

    def __str__(self) -> str:
        """
        >>> str(Tally(1000, 812, 3, 8, 0))
        '812 ok, 3 failed, 8 running of 1,000'
        """
        parts = [
            (self.ok, "ok"),
            (self.failed, "failed"),
            (self.running, "running"),
            (self.cancelled, "cancelled"),
        ]
        counts = ", ".join(f"{count:,} {word}" for count, word in parts if count or word == "ok")
        return f"{counts} of {self.total:,}"

    @property
    def brief(self) -> str:
        """The counts for little room: how many elements have ended, how many failed, how many run.

        >>> Tally(1000, 812, 3, 8, 0).brief
        '815/1,000 ✗3 ▶8'
        """
        return self.ended_of(f"/{self.total:,}")

    def ended_of(self, total: str = "") -> str:
        """`brief` with another text for the total: the total of a loop is not known.

        >>> Tally(0, 1, 0, 1, 0).ended_of()
        '1 ▶1'
        """
        parts = [(self.failed, "failed"), (self.running, "running"), (self.cancelled, "cancelled")]
        marked = (f" {STATES[name].mark}{count:,}" for count, name in parts if count)
        return f"{self.ended:,}{total}{''.join(marked)}"
