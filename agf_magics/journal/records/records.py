"""`Record`, a row of a run in the journal: the outcome of a call, or a mark."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import NamedTuple

from ...catalog import MASK
from ...flow.step_path import StepPath, seconds_between
from ...text.diagnostics import StepError
from ...values.value import Value
from ..codec.encoding import PICKLED, DecodeError, decode_value
from ..codec.identities import bare
from ..codec.json_texts import encode
from ..codec.parted import put_together
from ..codec.signatures import SignatureError, is_signed, user_key
from ..codec.type_checks import checker
from ..database.errors import JournalError
from ..database.value_files import Part, PartError, ValueFiles
from .failures import error_from
from .fields import Text, is_path

SPLIT = "\x1f"
"""The separator of the attempts around a call."""


UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)
"""The exceptions that a value of an unexpected type may raise when it is read."""


COLUMNS = (
    "line, what, at, tries, kind, name, started, ended, given, whole, form, value, shown, "
    "error, sign, digest"
)
"""The columns of a record. ``given`` has the arguments; another name would be a new version of the
file."""


RECORDS = f"SELECT {COLUMNS}, crc FROM records"
"""The beginning of each query for records, which `read_records` reads."""


WITH_DIGEST = 3
"""The value of ``whole`` for a row with the digest of the arguments before their preview."""


class CallKey(NamedTuple):
    """The name of one execution of a step in the journal."""

    at: StepPath
    tries: str = ""
    """The repeated attempts around the execution: ``["steps[0].do",3,2]`` for the second attempt of
    element 3."""


class RecordedArguments(NamedTuple):
    """The arguments of a call."""

    text: str | None = None
    """The arguments as JSON, with `MASK` in place of secrets."""
    whole: int = 0
    """0: ``text`` is a preview; 1: it is complete; 2: it is a list of pieces, with digests of large
    parts between them."""
    large: Mapping[str, str] = {}
    """The large parts as JSON, by their digests, if the record was read for a view."""
    contents: str | None = None
    """The digest of the arguments behind the preview; None: there is none."""

    @property
    def is_compared(self) -> bool:
        """Whether another call can be found to have the same arguments: they are JSON, have a
        digest, or have a masked secret."""
        return (
            self.whole != 0 or self.contents is not None or encode(MASK)[1:-1] in (self.text or "")
        )

    @property
    def is_one_text(self) -> bool:
        """Whether ``text`` has all arguments, without pieces."""
        return self.whole == 1


class StoredValue(NamedTuple):
    """The value of a call."""

    form: str | None = None
    """The form in which it is stored, one of `FORMS`; None: the record has no value."""
    data: str | bytes | None = None
    """The value in this form; None: there is none. For the form ``again`` the bytes by which the
    value can be compared, or None."""
    shown: str | None = None
    """A preview as JSON, if the form is not JSON."""
    sign: bytes | None = None
    """The signature of a pickle, an answer or the outcome of a call with an effect; else None."""
    unpickled: tuple[Value] | None = None
    """The value in a tuple, after it was read for a resumed run; None before."""

    @property
    def parts(self) -> bytes | None:
        """The data, if the value is stored as parts; else None."""
        return self.data if self.form == "parts" and isinstance(self.data, bytes) else None

    @property
    def text(self) -> str | bytes | None:
        """The value or its preview as JSON. Nothing is unpickled."""
        return self.data if self.form == "json" else self.shown


class Record(NamedTuple):
    """A row of a run: the outcome of a call, or a mark."""

    line: int
    """The number of the row in the file, which grows."""
    what: str
    """The outcome of a call: finished or failed. Or a mark: begun (a call that has an effect),
    fired, asked, answered, dropped, rescued, retried, ended, stored, sequence, elements, used, paid,
    changed (objects, at the end of the run), taken (from another run)."""
    at: StepPath
    tries: str = ""
    """The repeated attempts around the call, as in `CallKey`."""
    kind: str = ""
    """The kind of the callee; empty for a mark, except ``fired`` and ``answered``."""
    name: str = ""
    """The name of the callee."""
    started: float | None = None
    """Seconds since 1970, as is ``ended``; both are None for a mark without a kind."""
    ended: float | None = None
    arguments: RecordedArguments = RecordedArguments()
    result: StoredValue = StoredValue()
    error: str | None = None
    """The failure as JSON; None: the call did not fail."""
    digest: bytes | None = None
    """The digest of the call, by which a later run finds the result (see `CallDigest`); None: it has
    none."""

    @property
    def key(self) -> CallKey:
        return CallKey(self.at, self.tries)

    @property
    def seconds(self) -> float | None:
        return seconds_between(self.started, self.ended)

    @property
    def message(self) -> str | None:
        """The message of its failure; None: it did not fail."""
        return failure.diagnostic.message if (failure := self.failure) is not None else None

    @property
    def failure(self) -> StepError | None:
        return error_from(self.error, ()) if self.error is not None else None

    @property
    def value_shown(self) -> Value:
        """Its value for display. Raises JournalError."""
        return decoded(self.result.text)

    @property
    def arguments_shown(self) -> Value:
        """Its arguments for display. Raises JournalError."""
        text, whole, large, _ = self.arguments
        if whole < 2:
            return decoded(text)
        pieces = decoded(text)
        pieces[1::2] = [large.get(digest, '"⟨a large value⟩"') for digest in pieces[1::2]]
        return decoded("".join(pieces))

    def is_believed(self, run_id: str) -> bool:
        """Whether this user has signed the record, if it is an answer or the outcome of a call with
        an effect. These decide what is called, and the journal may have been in other hands."""
        result = self.result
        if result.form in PICKLED and self.what != "answered":
            return True  # `read_value` checks its signature
        call = (self.what, encode(self.at), self.tries, self.digest or b"")
        outcome = (result.form or "", result.data or "", self.error or "")
        return is_signed(user_key(), result.sign, run_id, *call, *outcome)

    def check_signature(self, run_id: str) -> None:
        """Raise SignatureError if its value is the pickle of another user."""
        result = self.result
        if result.form in PICKLED and self.what != "answered":
            signed = (run_id, encode(self.at), self.tries, result.data or b"")
            if not is_signed(user_key(), result.sign, *signed):
                raise SignatureError("it is not signed with your key")

    def read_value(self, run_id: str, trust: bool, files: ValueFiles | None) -> Value:
        """Its value, which may be a pickle, with its parts in ``files``. Raises DecodeError, and
        SignatureError for the pickle of another user unless ``trust``."""
        if not trust:
            self.check_signature(run_id)
        return decode_stored(self.result.form, self.result.data, files)


def decode_stored(form: str | None, data: str | bytes | None, files: ValueFiles | None) -> Value:
    """A stored value. Raises DecodeError. The caller checks the signature first."""
    if form != "parts" or not isinstance(data, bytes):
        return decode_value(form or "again", data)
    if files is None:
        raise DecodeError("there is no folder of its parts")
    try:
        return put_together(bare(data), lambda digest, size: files.read(Part(digest, size)))
    except (PartError, MemoryError) as error:
        raise DecodeError(str(error) or "it does not fit into the memory") from None


class SequenceRow(NamedTuple):
    """The identity of the sequence of a fan-out."""

    name: str
    """The name of its class."""
    length: int
    digest: str | None
    """A digest of the elements; None: they are not compared."""

    def differs(self, other: SequenceRow) -> bool:
        """Whether ``other`` is certainly another sequence."""
        if (self.name, self.length) != (other.name, other.length):
            return True
        if self.digest is None or other.digest is None:
            return False
        return self.digest != other.digest


def sequence_row(record: Record) -> SequenceRow:
    """The sequence in ``record``. Raises JournalError if the record is damaged."""
    stored = decoded(record.result.shown)
    if not _is_sequence(stored):
        raise JournalError("journal.damaged", f"row {record.line} has changed since it was written")
    return SequenceRow(record.name, *stored)


_is_sequence = checker(tuple[int, Text])


def tries_within(tries: str, path: StepPath, attempt: int) -> str:
    """``tries`` extended for the calls in attempt number ``attempt`` of ``path``."""
    return f"{tries}{SPLIT if tries else ''}{encode((*path, attempt))}"


def around(path: StepPath) -> Iterator[StepPath]:
    """``path`` and every path that may be around it, outermost first.

    >>> for path in around(("steps[1]", "do.then", 3)):
    ...     print(path)
    ('steps',)
    ('steps[1]',)
    ('steps[1]', 'do')
    ('steps[1]', 'do', 3)
    ('steps[1]', 'do.then')
    ('steps[1]', 'do.then', 3)
    """
    for position, part in enumerate(path):
        if isinstance(part, str):
            numbers = tuple(takewhile(lambda part: isinstance(part, int), path[position + 1 :]))
            for step_id in _ids_around(part):
                for count in range(len(numbers) + 1):
                    yield (*path[:position], step_id, *numbers[:count])


def _ids_around(step_id: str) -> Iterator[str]:
    """``step_id`` and its beginnings that may be ids: ``steps``, ``steps[0]``, ``steps[0].do``."""
    for end, letter in enumerate(step_id):
        if letter in ".[" and end:
            yield step_id[:end]
    yield step_id


def check_tries(tries: str) -> None:
    """Raise ValueError unless ``tries`` has the form of `CallKey.tries`."""
    for attempt_at in tries.split(SPLIT):
        *outer, attempt = json.loads(attempt_at)
        if not is_path(tuple(outer)) or type(attempt) is not int:
            raise ValueError


def decoded(text: str | bytes | None) -> Value:
    """The value of a stored JSON text; None for a missing text. Raises JournalError."""
    try:
        return json.loads(text) if text is not None else None
    except (ValueError, TypeError, RecursionError):
        raise JournalError("journal.damaged", "a stored value is not JSON") from None


def value_of(record: Record) -> Value:
    """The value of a record: the one that was read for a resumed run, or else the value of its
    data. Raises DecodeError."""
    result = record.result
    if result.unpickled is not None:
        return result.unpickled[0]
    return decode_value(result.form or "again", result.data)
