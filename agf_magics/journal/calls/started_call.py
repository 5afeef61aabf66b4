"""A call that has started, and its outcome, as the journal needs them.

`StartedCall.why_again` tells, when the call has ended, whether it changed an object of a later step.
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
    """The arguments as JSON, without secrets."""
    whole: int
    """0: ``arguments`` is a preview; 1: it is complete; `IN_PIECES`: it is a list of pieces."""
    digest: bytes | None = None
    """The digest by which a later run finds the result; None: the result is not reused, or the
    digest is still to be computed."""
    contents: str | None = None
    """The digest of its arguments alone, by which a recording finds the call; None: it has none."""
    watched: Watched | None = None
    """The objects that its function names, which it may change; None: there are none."""
    received: Received = NOTHING
    """Whether the call received secrets."""
    objects: Fingerprint | None = None
    """The arguments that are not JSON, which the callee may change for all later steps; None: all
    arguments are JSON."""
    is_effect: bool = False
    """Whether the call must not be repeated."""
    late: LateDigest | None = None
    """The parts of a digest that is computed after the end of the call; None: there is none."""
    began: float = 0.0
    """When it started, by the monotonic clock."""
    is_apart: bool = False
    """Whether a worker makes the call, with copies of the arguments."""

    @property
    def arguments_stored(self) -> tuple[str | None, int]:
        """The arguments and ``whole``, as the row has them."""
        if not self.whole and self.contents is not None:
            return f"{self.contents} {self.arguments}", WITH_DIGEST
        return self.arguments, int(self.whole)  # the checksum of True is not that of 1

    @property
    def argument_objects(self) -> list[Any]:
        """The arguments that are not JSON, and the objects in them that are not JSON."""
        return self.objects.objects if self.objects is not None else []

    @property
    def checksums(self) -> Checksums:
        """The checksums of the arguments' memory at the end of the call."""
        return self.objects.checksums if self.objects is not None else Checksums()

    @property
    def why_again(self) -> str:
        """The reason why a resumed run has to make the call again: it changed an object that later
        steps share, or may have changed one. Empty: there is none."""
        if self.objects is None:
            return ""
        if self.objects.differs():
            return CHANGED
        unknown = self.objects.unknown
        # The result of a call that must not be repeated is stored all the same.
        return UNKNOWN.format(unknown) if unknown and not self.is_effect else ""


class Outcome(NamedTuple):
    """The outcome of a call that has ended. `CallRows.store` stores its large value later."""

    call: StartedCall
    value: Value
    packed: EncodedValue = NO_VALUE
    """The value as it is stored."""
    error: str | None = None
    """The failure as JSON; None: the call did not fail."""
    why: str = ""
    """The reason why a resumed run has to make the call again; empty: there is none."""
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
