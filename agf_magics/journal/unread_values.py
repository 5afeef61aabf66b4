"""`UnreadValues`, the opaque results of a resumed run that nobody has read from the journal yet.

A result that is a table or another opaque value may be large, so a resumed run does not read it
before a call or a person needs it. Until then an `Unread` stands for it. The journal gives each
opaque object a name (see `codec.identities`), so that two results that hold one object are one
object again after the resume.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable
from functools import partial

from ..values.unread import CannotRead, LostError, Unread
from ..values.value import Value
from .calls.call_rows import CallRows
from .calls.known_objects import digest_of_data
from .codec.encoding import DecodeError
from .codec.identities import Identities, bare
from .codec.parted import opaque_kind
from .records.recorded_outcomes import EarlierOutcomes, LateValue, LostValue
from .records.records import CallKey, decoded


class UnreadValues:
    """The opaque values of earlier sessions. A value with a name is one object, however many calls
    have returned it."""

    def __init__(
        self, log: EarlierOutcomes, rows: CallRows, lost: Callable[[CallKey, LostValue], None]
    ) -> None:
        """``lost``: is called for a value that cannot be read, if its call is made again."""
        self._log = log
        self._rows = rows
        self._note_lost = lost
        self._unread = weakref.WeakValueDictionary[bytes, Unread]()
        """The unread values by the names of their objects. The references are weak, because an
        `Unread` holds its value after reading, and the run must keep only the values in frames."""

    def __bool__(self) -> bool:
        return bool(self._unread)

    def has(self, key: CallKey) -> bool:
        """Whether this call returned a value that is still unread."""
        return self._log.late(key) is not None

    def take(self, key: CallKey) -> Unread | None:
        """Take the opaque value that this call returned as the call's outcome. None: the value is
        not opaque, so that expressions can look into it and must read it at once, or it is
        damaged."""
        late = self._log.late(key)
        try:
            kind = opaque_kind(bare(late.data)) if late is not None else ""
        except DecodeError:
            kind = ""
        if late is None or not kind:
            return None
        self._log.take(key, reads=False)
        return self.of(key, late)

    def of(self, key: CallKey, late: LateValue) -> Unread:
        """The opaque value of a call. The same name always gives the same object."""
        data = bare(late.data)
        name = self._rows.identities.name_of(late.data)
        unread = self._unread.get(name) if name else None
        if unread is None:
            find = partial(self._rows.identities.find, name)
            read = partial(self._read, key, late)
            kind, digest = opaque_kind(data), digest_of_data(data)
            unread = Unread(kind, decoded(late.shown), read, find, digest)
            self._unread[name or late.data] = unread
        return unread

    def reused(
        self, key: CallKey, late: LateValue, theirs: Identities | None
    ) -> tuple[Unread, bytes]:
        """The opaque value of a call of another run, and the data of its row in this run.
        ``theirs``: the objects of this run by their names in the other run.

        The value gets a new name in this run. Another result of the other run that holds the same
        object finds this value by its name there, so it is announced in ``theirs`` until it is
        read.
        """
        ours = self._rows.identities
        data = ours.fresh(bare(late.data))

        def read() -> Value:
            if theirs is not None:
                theirs.keep(late.data)
            return ours.restored(late.read(), data)

        unread = self.of(key, LateValue(data, read, late.shown))
        if theirs is not None:
            theirs.promise(late.data, unread, _value_of)
        return unread, data

    def end(self) -> None:
        """Note that the run has ended and repeats no call, although a context may still hold its
        values."""
        for unread in list(self._unread.values()):
            unread.make_again = None

    def _read(self, key: CallKey, late: LateValue) -> Value:
        try:
            value = late.read()
        except DecodeError as error:
            self._log.lose(key)
            lost = LostValue(str(error), late.data)
            raise CannotRead(str(error), partial(self._note_lost, key, lost)) from None
        self._rows.objects.note_stored(value, bare(late.data))
        return value


def _value_of(unread: Unread) -> Value:
    """The value of ``unread``; None: it is lost."""
    with contextlib.suppress(LostError):
        return unread.value
    return None
