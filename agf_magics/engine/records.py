"""A line of a run's journal: an outcome or a mark, where it belongs, and how a failure lies in it."""

from __future__ import annotations

import builtins
import contextlib
import json
import struct
import zlib
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from ..flow.values import Value
from ..text.diagnostics import AgfError, Diagnostic, StepError
from ..text.source import Source, Span
from . import events as ev
from .pickles import encode, unpack, weigh
from .troubles import Trouble

MOST_SAID = 10_000
"""Letters of an exception's arguments that are kept."""

SPLIT = "\x1f"
"""Between the attempts around a call."""

NUMBERS = struct.Struct("<qddq")

COLUMNS = "line, what, at, tries, kind, name, started, ended, given, whole, form, value, shown, error, sign, digest"


class Record(NamedTuple):
    """A line of the journal, as it lies there."""

    line: int
    """Its number in the file; the later, the larger."""
    what: str
    """finished, failed: what became of a call. Marks: begun (a call that has an effect), fired, answered, dropped,
    rescued, retried, ended, started, stored, taken (over from another run)."""
    at: ev.At
    tries: str = ""
    """Which attempts of what is around it, where they are not the first: ``["steps[0].do",3,2]`` for the second one of
    element 3."""
    kind: str = ""
    name: str = ""
    started: float | None = None
    """Seconds since 1970, as is ``ended``."""
    ended: float | None = None
    given: str | None = None
    """JSON of what it was given; secrets are `MASK`."""
    whole: bool = False
    """Whether ``given`` is all of it, not just something to show."""
    form: str | None = None
    value: str | bytes | None = None
    shown: str | None = None
    error: str | None = None
    sign: bytes | None = None
    digest: bytes | None = None
    """What call it was, for a later run that makes an equal one: see `reuse`."""
    unpickled: tuple[Value] | None = None
    """The value of a pickle, where it was read for a run that is taken up."""

    @property
    def value_shown(self) -> Value:
        """Its value to be shown; nothing is unpickled."""
        text = self.value if self.form == "json" else self.shown
        return json.loads(text) if text is not None else None

    @property
    def given_shown(self) -> Value:
        return json.loads(self.given) if self.given is not None else None


def again(tries: str, at: ev.At, attempt: int) -> str:
    """Which attempts a call of attempt number ``attempt`` of ``at`` belongs to."""
    return f"{tries}{SPLIT if tries else ''}{encode((*at, attempt))}"


def around(at: ev.At) -> Iterator[ev.At]:
    """``at`` and every moment that it may be within, the outermost first."""
    for place, bit in enumerate(at):
        if not isinstance(bit, str):
            continue
        until = next((i for i in range(place + 1, len(at)) if isinstance(at[i], str)), len(at))
        cuts = [i for i, letter in enumerate(bit) if letter in ".[" and i] + [len(bit)]
        for cut in cuts:
            for end in range(place + 1, until + 1):
                yield (*at[:place], bit[:cut], *at[place + 1 : end])


def is_within(inner: ev.At, outer: ev.At) -> bool:
    """Whether the moment ``inner`` is ``outer`` or one inside it.

    >>> is_within(("steps[0].do.do", 3, 1), ("steps[0].do", 3)), is_within(("steps[0].do", 4), ("steps[0].do", 3))
    (True, False)
    """
    place = max(i for i, bit in enumerate(outer) if isinstance(bit, str))
    step, index = outer[place], outer[place + 1 :]
    if inner[:place] != outer[:place] or len(inner) <= place:
        return False
    found = inner[place]
    assert isinstance(step, str)
    if not isinstance(found, str) or not found.startswith(step) or found[len(step) :][:1] not in ("", ".", "["):
        return False
    return inner[place + 1 : place + 1 + len(index)] == index


def read_records(store_rows: Iterable[tuple[Any, ...]]) -> Iterator[Record]:
    """The records of rows ``<COLUMNS>, crc``. Raises Trouble for a damaged one."""
    for row in store_rows:
        *parts, checked = row
        if row_crc(tuple(parts)) != checked:
            raise Trouble("journal.damaged", f"line {row[0]} is not what was written")
        line, what, at, tries, *rest = parts
        record = Record(line, what, tuple(json.loads(at)), tries, *rest)
        yield record._replace(whole=bool(record.whole))


def value_of(record: Record) -> Value:
    """What a call gave. Raises Unreadable."""
    if record.unpickled is not None:
        return record.unpickled[0]
    return unpack(record.form or "again", record.value)


def row_crc(row: tuple[Any, ...]) -> int:
    """What tells a damaged line from a whole one."""
    line, what, at, tries, kind, name, started, ended, given, whole, form, value, *rest = row
    found = zlib.crc32(NUMBERS.pack(line, started or 0.0, ended or 0.0, whole))
    told = f"{what}\0{at}\0{tries}\0{kind}\0{name}\0{given}\0{form}\0{rest!a}"
    found = zlib.crc32(told.encode("utf-8", "surrogatepass"), found)
    return zlib.crc32(value if type(value) is bytes else str(value).encode("utf-8", "surrogatepass"), found)


def error_json(error: BaseException) -> str:
    """A failure as JSON: what it says and where, not what it carries."""
    found: dict[str, Any] = {"at": getattr(error, "at", None), "said": []}
    if isinstance(error, AgfError):
        for one in error.diagnostics[:20]:
            span = (one.span.source.name, one.span.start, one.span.end) if one.span is not None else None
            found["said"].append([one.code, one.message, one.hint, span, one.severity])
    else:
        found["said"].append(["step.tool-failed", f"{type(error).__name__}: {error}", None, None, "error"])
    if error.__cause__ is not None:
        found["cause"] = _cause_json(error.__cause__)
    return encode(found)


def error_from(text: str, sources: Iterable[Source]) -> StepError:
    """The failure again; its places are those of ``sources``, its cause is one that looks like it."""
    found = json.loads(text)
    known = {source.name: source for source in sources}
    said = []
    for code, message, hint, place, severity in found["said"]:
        source = known.get(place[0]) if place else None
        span = Span(source, place[1], place[2]) if source is not None else None
        said.append(Diagnostic(code, message, span, hint, severity))
    error = StepError(*said)
    if found["at"] is not None:
        error.at = tuple(found["at"])
        error.where = ev.at_text(error.at)
    error.__cause__ = _cause(*found["cause"]) if "cause" in found else None
    return error


def _cause_json(cause: BaseException) -> list[Value]:
    """The class, what it says, and what it was made of where that is JSON and the class is Python's own."""
    try:
        text, made_of = str(cause), list(cause.args)
    except Exception:  # somebody's class
        text, made_of = "", []
    return [type(cause).__name__, text, made_of if 0 <= weigh(made_of) <= MOST_SAID else None]


def _cause(name: str, text: str, made_of: list[Value] | None) -> BaseException:
    """Like the exception that it was: its class by its name, without what else it carried."""
    known = getattr(builtins, name, None)
    if made_of is not None and isinstance(known, type) and issubclass(known, Exception):
        with contextlib.suppress(Exception):
            return known(*made_of)
    made: BaseException = type(name, (Exception,), {})(text)
    return made
