"""A call that has started and how it has ended, as its row needs it.

What a callee may do to objects is judged at the end of the call: see `StartedCall.why_again`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ...values.value import Value
from ..codec.encoding import EncodedValue
from ..codec.fingerprints import Checksums, Fingerprint
from ..records.records import WITH_DIGEST, CallKey
from ..secrets.masking import NOTHING, Received
from .changed_objects import Watched
from .digest import LateDigest

NO_VALUE = EncodedValue("json", None)

CHANGED = "the call changed its arguments, which later steps share"

UNKNOWN = "nobody can tell whether it changed its argument of the type {}, which later steps share"

ROW = "row"
"""The kind of the record of a row of a table."""


class StartedCall(NamedTuple):
    """A call that has not ended."""

    key: CallKey
    kind: str
    name: str
    started: float
    arguments: str | None
    """As JSON, without secrets."""
    whole: int
    """0: ``arguments`` is a preview; 1: it is complete; `IN_PIECES`."""
    digest: bytes | None = None
    contents: str | None = None
    """The digest of its arguments alone: see `DigestedCall`."""
    watched: Watched | None = None
    """The objects that its function names, which it may change."""
    received: Received = NOTHING
    objects: Fingerprint | None = None
    """The arguments that are no JSON: the callee may change these for all later steps."""
    is_effect: bool = False
    """Whether the call must not be repeated."""
    late: LateDigest | None = None
    """What its digest is made of when it has ended."""
    began: float = 0.0
    """When it started, by the monotonic clock."""
    is_apart: bool = False
    """Whether a worker makes it, which gets copies."""

    @property
    def arguments_stored(self) -> tuple[str | None, int]:
        """The arguments and their ``whole``, as the row has them."""
        if not self.whole and self.contents is not None:
            return f"{self.contents} {self.arguments}", WITH_DIGEST
        return self.arguments, int(self.whole)  # in a checksum, True is another value than 1

    @property
    def argument_objects(self) -> list[Any]:
        """The arguments that are no JSON, and the objects of this kind in them."""
        return self.objects.objects if self.objects is not None else []

    @property
    def checksums(self) -> Checksums:
        """Those of the moment in which it has ended."""
        return self.objects.checksums if self.objects is not None else Checksums()

    @property
    def why_again(self) -> str:
        """Why a resumed run has to make the call again: it changed an object that later steps
        share, or nobody can tell. Empty: it did not."""
        if self.objects is None:
            return ""
        if self.objects.differs():
            return CHANGED
        unknown = self.objects.unknown
        # What must not be repeated is better kept.
        return UNKNOWN.format(unknown) if unknown and not self.is_effect else ""


class Outcome(NamedTuple):
    """How a call has ended. A large value is stored after that: `CallRows.store`."""

    call: StartedCall
    value: Value
    packed: EncodedValue = NO_VALUE
    error: str | None = None
    """Its failure as JSON."""
    why: str = ""
    """Why a resumed run has to make the call again."""
    must_be_stored: bool = False
    """Whether the call must not be repeated, or costs money."""
    line: int | None = None
    """The number of its row; None: the next one."""
    ended: float | None = None
    """When it ended, in seconds since 1970; None: now."""

    @property
    def is_for_parts(self) -> bool:
        """Whether the value is to be stored as parts."""
        return self.packed.is_large and not self.why
