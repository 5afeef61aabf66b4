"""The rows of a run in the journal: outcomes of calls, and marks. Failures are stored as JSON.

A row is checked when it is read: its checksum, the types of its cells, its texts. `ReplayLog` is
what the earlier sessions of a run did, for its next session.
"""

from __future__ import annotations

import builtins
import contextlib
import hashlib
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

from ..flow import events as ev
from ..flow.events import is_within
from ..flow.values import Value
from ..text.diagnostics import AgfError, Diagnostic, Source, Span, StepError
from .codec import (
    SignatureError,
    checker,
    decode_value,
    encode,
    is_signed,
    row_crc,
    user_key,
    weigh,
)
from .file import JournalError
from .secrets import Secrets
from .store import ROOM

LONGEST_NAME = 200
"""Characters of the name of an exception's class."""

LONGEST_ARGUMENTS = 10_000
"""Characters of an exception's arguments that are stored."""

SPLIT = "\x1f"
"""The separator of the attempts around a call."""

FORMS: dict[Any, tuple[type, ...]] = {
    "json": (str, type(None)),
    "pickle": (bytes,),
    "again": (type(None),),
    None: (type(None),),
}
"""The types in which a value of each form is stored."""

UNREADABLE = (ValueError, TypeError, LookupError, AttributeError, OverflowError, RecursionError)
"""The exceptions of reading a value whose type is not the one that was written."""

LATEST = 32_503_680_000.0
"""The year 3000, in seconds since 1970."""

Moment = Annotated[float, lambda when: 0 < when < LATEST]
"""A time that this package may have written."""
Count = Annotated[int, lambda number: 0 <= number < 1 << 62]
Text = str | None
Raw = bytes | None
Identifier = Annotated[str, str.isidentifier]
"""Any one: a later version may add a mark, and a run of it can still be listed."""

COLUMNS = (
    "line, what, at, tries, kind, name, started, ended, given, whole, form, value, shown, "
    "error, sign, digest"
)


RECORDS = f"SELECT {COLUMNS}, crc FROM records"


class CallKey(NamedTuple):
    """The name of one execution of a step in the journal."""

    at: ev.StepPath
    tries: str = ""
    """The attempts around it that are not the first ones: ``["steps[0].do",3,2]`` for the second
    one of element 3."""


class RecordedArguments(NamedTuple):
    """The arguments of a call."""

    text: str | None = None
    """As JSON; secrets are `MASK`."""
    whole: int = 0
    """0: ``text`` is a preview; 1: it is complete; 2: it is a list of pieces, with digests of large
    parts between them."""
    large: Mapping[str, str] = {}
    """The large parts as JSON, by their digests, where a person may look at them."""


class StoredValue(NamedTuple):
    """The value of a call."""

    form: str | None = None
    """One of `FORMS`."""
    data: str | bytes | None = None
    shown: str | None = None
    """A preview as JSON, if the form is not JSON."""
    sign: bytes | None = None
    """The signature of a pickle."""
    unpickled: tuple[Value] | None = None
    """The value, once it was read for a resumed run."""

    @property
    def text(self) -> str | bytes | None:
        """What is shown of it, as JSON; nothing is unpickled."""
        return self.data if self.form == "json" else self.shown


class Record(NamedTuple):
    line: int
    """Its number in the file, which grows."""
    what: str
    """The outcome of a call: finished or failed. Or a mark: begun (a call that has an effect),
    fired, answered, dropped, rescued, retried, ended, started, stored, sequence, taken (from
    another run)."""
    at: ev.StepPath
    tries: str = ""
    """As in `CallKey`."""
    kind: str = ""
    name: str = ""
    started: float | None = None
    """Seconds since 1970, as is ``ended``."""
    ended: float | None = None
    given: RecordedArguments = RecordedArguments()
    result: StoredValue = StoredValue()
    error: str | None = None
    digest: bytes | None = None
    """A digest of the call, for a later run that makes an identical one: see `CallDigest`."""

    @property
    def key(self) -> CallKey:
        return CallKey(self.at, self.tries)

    @property
    def seconds(self) -> float | None:
        return ev.seconds_between(self.started, self.ended)

    @property
    def message(self) -> str | None:
        return failure.diagnostic.message if (failure := self.failure) is not None else None

    @property
    def failure(self) -> StepError | None:
        return error_from(self.error, ()) if self.error is not None else None

    @property
    def value_shown(self) -> Value:
        """Its value for display. Raises JournalError."""
        return decoded(self.result.text)

    @property
    def given_shown(self) -> Value:
        """Its arguments for display. Raises JournalError."""
        text, whole, large = self.given
        if whole < 2:
            return decoded(text)
        pieces = decoded(text)
        pieces[1::2] = [large.get(digest, '"⟨a large value⟩"') for digest in pieces[1::2]]
        return decoded("".join(pieces))

    def read_value(self, run_id: str, trust: bool) -> Value:
        """Its value, which may be a pickle. Raises DecodeError, and SignatureError for the pickle
        of another user unless ``trust``."""
        form, data, _, signature, _ = self.result
        if form == "pickle" and not trust:
            signed = (run_id, encode(self.at), self.tries, data or b"")
            if not is_signed(user_key(), signature, *signed):
                raise SignatureError("it is not signed with your key")
        return decode_value(form or "again", data)


class SequenceRow(NamedTuple):
    """What identifies the sequence of a fan-out."""

    name: str
    """The name of its class."""
    length: int
    digest: str | None
    """None: its elements are not compared."""

    def differs(self, other: SequenceRow) -> bool:
        digests = (self.digest, other.digest)
        return self[:2] != other[:2] or (None not in digests and self.digest != other.digest)


def sequence_row(record: Record) -> SequenceRow:
    """Raises JournalError for a damaged one."""
    stored = decoded(record.result.shown)
    if not _is_sequence(stored):
        raise JournalError("journal.damaged", f"row {record.line} has changed since it was written")
    return SequenceRow(record.name, *stored)


_is_sequence = checker(tuple[int, Text])


def again(tries: str, at: ev.StepPath, attempt: int) -> str:
    """``tries`` for the calls in attempt number ``attempt`` of ``at``."""
    return f"{tries}{SPLIT if tries else ''}{encode((*at, attempt))}"


def around(at: ev.StepPath) -> Iterator[ev.StepPath]:
    """``at`` and every path that it may be within, the outermost first."""
    for place, bit in enumerate(at):
        if not isinstance(bit, str):
            continue
        until = next((i for i in range(place + 1, len(at)) if isinstance(at[i], str)), len(at))
        cuts = [i for i, letter in enumerate(bit) if letter in ".[" and i] + [len(bit)]
        for cut in cuts:
            for end in range(place + 1, until + 1):
                yield (*at[:place], bit[:cut], *at[place + 1 : end])


def check_tries(tries: str) -> None:
    for attempt_at in tries.split(SPLIT):
        *outer, attempt = json.loads(attempt_at)
        if not is_at(tuple(outer)) or type(attempt) is not int:
            raise ValueError


def is_stored(form: object, value: object) -> bool:
    """Whether a value may be stored so."""
    return form in FORMS and type(value) in FORMS[form]


def is_at(value: object) -> bool:
    """Whether it is a path: a step's id, then ids and numbers."""
    if not isinstance(value, tuple) or not value or not isinstance(value[0], str):
        return False
    return all(isinstance(bit, str) or (type(bit) is int and 0 <= bit < 1 << 62) for bit in value)


def decoded(text: str | bytes | None) -> Value:
    """The value of a stored JSON text; None for none. Raises JournalError."""
    try:
        return json.loads(text) if text is not None else None
    except (ValueError, TypeError, RecursionError):
        raise JournalError("journal.damaged", "a stored value is not JSON") from None


def value_of(record: Record) -> Value:
    form, data, _, _, unpickled = record.result
    return unpickled[0] if unpickled is not None else decode_value(form or "again", data)


def error_json(error: BaseException, secrets: Secrets) -> str:
    """A failure as JSON: its messages and its place."""
    diagnostics: Iterable[Diagnostic] = [
        Diagnostic("step.tool-failed", f"{type(error).__name__}: {error}")
    ]
    if isinstance(error, AgfError):
        diagnostics = error.diagnostics[:20]
    said = []
    for masked in map(secrets.diagnostic, diagnostics):
        span = masked.span
        place = (span.source.name, span.start, span.end) if span is not None else None
        said.append([masked.code, masked.message, masked.hint, place, masked.severity])
    at = error.path if isinstance(error, StepError) else None
    stored: dict[str, Any] = {"at": at, "said": said}
    # The whole chain is searched, because a traceback shows the whole chain.
    if error.__cause__ is not None and not secrets.raised(error.__cause__):
        stored["cause"] = _cause_json(error.__cause__)
    return encode(stored)


_Said = tuple[str, str, Text, tuple[str, int, int] | None, Literal["error", "warning", "note"]]
"""The code of a diagnostic, its message, hint, place and severity."""


class _Failure(TypedDict):
    at: Annotated[list[object], lambda at: is_at(tuple(at))] | None
    said: Annotated[list[_Said], bool]


class _AnyFailure(_Failure, total=False):
    cause: tuple[str, str, object]


_is_failure = checker(_AnyFailure)


def error_from(text: str, sources: Iterable[Source]) -> StepError:
    """The failure, with places in ``sources`` and a cause that resembles the original one.

    Raises ValueError or another of `UNREADABLE`.
    """
    stored = json.loads(text)
    if not _is_failure(stored):
        raise ValueError("a failure consists of errors, their places and a cause")
    by_name: dict[str | None, Source] = {source.name: source for source in sources}
    at = stored["at"]
    error = StepError(*(_diagnostic(by_name, *said) for said in stored["said"]))
    if at is not None:
        error.path = tuple(at)
        error.where = ev.format_path(error.path)
    error.__cause__ = _cause(*stored["cause"]) if "cause" in stored else None
    return error


def _diagnostic(
    sources: Mapping[str | None, Source],
    code: str,
    message: str,
    hint: str | None,
    place: tuple[str, int, int] | None,
    severity: Any,
) -> Diagnostic:
    name, start, end = place or (None, 0, 0)
    source, span = sources.get(name), None
    # The text may be another one now, and then a caret would point at anything.
    if source is not None and 0 <= start <= end <= len(source.text):
        span = Span(source, start, end)
    return Diagnostic(code, message, span, hint, severity)


def _cause_json(cause: BaseException) -> list[Value]:
    """The class, the text, and the arguments if they are JSON."""
    text, args = "", list[Value]()
    with contextlib.suppress(Exception):  # code of a user's class runs here
        text, args = str(cause), list(cause.args)
    return [type(cause).__name__, text, args if 0 <= weigh(args) <= LONGEST_ARGUMENTS else None]


def _cause(name: str, text: str, args: list[Value] | None) -> BaseException:
    """An exception of Python's class of that name, else of a new class with that name."""
    name = name if name.isidentifier() and len(name) <= LONGEST_NAME else "Exception"
    # Only classes of Python itself: importing a module by a stored name would run its code.
    kind = getattr(builtins, name, None)
    if isinstance(args, list) and isinstance(kind, type) and issubclass(kind, Exception):
        with contextlib.suppress(Exception):
            return kind(*args)
    # Its class may be gone, or take other arguments: a class with its name is shown as it was.
    cause: BaseException = type(name, (Exception,), {})(text)
    return cause


NO_LARGE: Mapping[str, str] = {}

Row = tuple[Any, ...]
"""The cells of `COLUMNS`, and their checksum."""


def read_records(rows: sqlite3.Cursor, is_shown: bool = True) -> Iterator[Record]:
    """The records of ``rows``. ``is_shown``: with the large parts of arguments, which only a person
    looks at. Raises JournalError for a damaged row."""
    row = None
    large: dict[str, str] = {}
    try:
        for row in rows:
            record = _read(row)
            text, whole, _ = record.given
            if whole == 2 and is_shown:
                # Of the last record alone: what calls share is read once, and a long run does not
                # fill the memory.
                num = record.line - record.line % ROOM
                large = large_parts(rows.connection, num, text, large)
                record = record._replace(given=RecordedArguments(text, whole, large))
            yield record
    except (*UNREADABLE, sqlite3.OperationalError) as error:
        raise _damage(row, error) from None


def large_parts(
    connection: sqlite3.Connection, num: int, given: Text, before: Mapping[str, str] = NO_LARGE
) -> dict[str, str]:
    """The large parts of arguments that are a list of pieces. ``before``: those that were just read.
    Raises ValueError if one is not in the file."""
    digests = json.loads(given or "")[1::2]
    return {digest: before.get(digest) or _large(connection, num, digest) for digest in digests}


def read_stores(connection: sqlite3.Connection, num: int, text: str | None) -> str | None:
    """The stores of a run as JSON, from what `CallRows.stores` returned. Raises JournalError."""
    if text is None or not text.startswith("["):
        return text
    try:
        pieces = json.loads(text)
        pieces[1::2] = [_large(connection, num, digest) for digest in pieces[1::2]]
        return "".join(pieces)
    except UNREADABLE:
        raise JournalError("journal.damaged", "a store of the run cannot be read") from None


def _large(connection: sqlite3.Connection, num: int, digest: str) -> str:
    """A large part of the arguments of a run as JSON. Raises ValueError unless it is what was
    written."""
    sql = "SELECT text FROM large WHERE num=? AND digest=?"
    (text,) = connection.execute(sql, (num, digest)).fetchone() or (None,)
    if type(text) is not str or hashlib.sha256(text.encode()).hexdigest() != digest:
        raise ValueError
    return text


def _damage(row: Row | None, error: Exception) -> Exception:
    """The error of reading ``row``."""
    if not isinstance(error, sqlite3.OperationalError):
        which = f"row {row[0]}" if row is not None else "a row"
        return JournalError("journal.damaged", f"{which} has changed since it was written")
    if hasattr(error, "sqlite_errorcode"):
        return error
    # Python's error, not SQLite's, although it has the same class.
    return JournalError("journal.damaged", "a text of a row is not UTF-8")


_is_row = checker(
    tuple[
        int,
        Identifier,
        str,
        str,
        str,
        str,
        Moment | None,
        Moment | None,
        Text,
        Annotated[int, lambda whole: 0 <= whole <= 2],
        Text,
        object,
        Text,
        Text,
        Raw,
        Raw,
    ]
)
"""The cells of `COLUMNS`."""


def _read(row: Row) -> Record:
    """One record. Raises ValueError or another of `UNREADABLE`."""
    parts = row[:-1]
    if row_crc(parts) != row[-1] or not _is_row(parts):
        raise ValueError
    line, what, place, tries, kind, name, started, ended, given, whole, *rest = parts
    form, value, shown, error, signature, digest = rest
    at = tuple(json.loads(place))
    # A failed call has an error, a dropped element too; nothing else has.
    has_error = what in ("failed", "dropped")
    if not is_at(at) or not is_stored(form, value) or has_error != (error is not None):
        raise ValueError
    if tries:
        check_tries(tries)
    if has_error:
        error_from(error, ())
    arguments, result = RecordedArguments(given, whole), StoredValue(form, value, shown, signature)
    when = (started, ended)
    return Record(line, what, at, tries, kind, name, *when, arguments, result, error, digest)


class RecordedOutcome(NamedTuple):
    """The outcome of a call in an earlier session."""

    value: Value
    error: str | None
    """Its failure as JSON."""


class ReplayLog:
    """The records of earlier sessions: read once, taken out call by call.

    A run may have 100,000 of them, so a value is stored without its record: that is less to create,
    and nothing that Python's garbage collector visits again.
    """

    def __init__(self, records: Iterable[Record], ended: bool) -> None:
        """``records``: with their values, in order. ``ended``: the run ended, and the call that
        made it fail is made again."""
        self.line = 0
        self.values: dict[tuple[ev.StepPath, str], Value] = {}
        """The values of the calls that returned, by their `CallKey`."""
        self.failed: dict[CallKey, Record] = {}
        self.answers: dict[CallKey, Record] = {}
        self.marks: dict[tuple[str, CallKey], int] = {}
        """The row of each mark."""
        self.sequences: dict[CallKey, SequenceRow] = {}
        """The sequences of fan-outs."""
        self.unknown: set[CallKey] = set()
        """Calls with an effect that were started and have no outcome."""
        for record in records:
            self._add(record)
        # What the run has survived is replayed; the failure that ended it is tried again.
        if ended:
            handled = {key.at for what, key in self.marks if what in ("dropped", "rescued")}
            retried = {key for what, key in self.marks if what == "retried"}
            self.failed = {
                key: failure
                for key, failure in self.failed.items()
                if _is_handled(failure, handled, retried)
            }
        self.failures = [key.at for key in self.failed]

    def _add(self, record: Record) -> None:
        self.line, what, key = max(self.line, record.line), record.what, record.key
        if what == "answered":
            if record.result.form != "again":
                self.answers[key] = record
        elif what == "sequence":
            self.sequences[key] = sequence_row(record)
        elif what not in ("finished", "failed", "begun"):
            self.marks[what, key] = record.line
        else:
            # An outcome before it is that of an earlier attempt.
            self.failed.pop(key, None)
            self.values.pop(key, None)
            self.unknown.discard(key)
            if what == "failed":
                self.failed[key] = record
            elif what == "begun":
                self.marks[what, key] = record.line
                self.unknown.add(key)
            elif record.result.form != "again":
                self.values[key] = value_of(record)
            # It had an effect, and its result is not stored: only a person can decide.
            elif ("begun", key) in self.marks:
                self.unknown.add(key)

    def take(self, key: CallKey) -> RecordedOutcome | None:
        """The outcome of a call, once."""
        if key in self.values:
            return RecordedOutcome(self.values.pop(key), None)
        failed = self.failed.pop(key, None)
        return RecordedOutcome(None, failed.error) if failed is not None else None

    @cached_property
    def places(self) -> frozenset[ev.StepPath]:
        """The paths of the calls that have a record, and of all that they are within, when they are
        first needed."""
        keys = {key[0] for key in (*self.values, *self.failed, *self.answers)} | {
            key.at for _, key in self.marks
        }
        return frozenset(place for at in keys for place in around(at))

    def failed_elements(self, at: ev.StepPath) -> list[int]:
        """The elements of ``at`` (the path of a body, without the number) in which a call failed.

        A resumed run starts with them: so the failure that stopped the others is known before any
        of them starts.
        """
        numbers: dict[int, None] = {}
        for inner in self.failures:
            if is_within(inner, at) and len(inner) > len(at) and isinstance(inner[len(at)], int):
                numbers[int(inner[len(at)])] = None
        return list(numbers)

    def has_failed(self, at: ev.StepPath) -> bool:
        """Whether a call at or inside ``at`` failed."""
        return any(is_within(inner, at) for inner in self.failures)

    def order(self, what: str, keys: Iterable[CallKey]) -> list[int]:
        """The positions of the keys that have this mark, in the order of their marks."""
        lines = ((self.marks.get((what, key)), i) for i, key in enumerate(keys))
        return [i for line, i in sorted((line, i) for line, i in lines if line is not None)]


NO_RECORDS = ReplayLog((), ended=False)
"""What a first session finds; nothing is ever added to it."""


def _is_handled(record: Record, handled: set[ev.StepPath], retried: set[CallKey]) -> bool:
    """Whether a failure was dropped, rescued or retried, and so did not end the run."""
    tries = record.tries.split(SPLIT) if record.tries else []
    ats = [tuple(json.loads(attempt))[:-1] for attempt in tries]
    for outer in around(record.at):
        if outer in handled:
            return True
        inside = sum(at != outer and is_within(at, outer) for at in ats)  # the last ones
        if CallKey(outer, SPLIT.join(tries[: len(tries) - inside])) in retried:
            return True
    return False
