"""The rows of calls: a call that starts, its digest, and the record of its outcome. And the results
of earlier runs: a call with the same definition, inputs and function is not made again.

Calls are compared by content, never by step id, because an edit of the definition changes the ids.
The n-th identical call gets the n-th earlier result. A call without a digest (an opaque argument, a
function that closes over a lock) is made.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

from ..catalog import Agent, Policy, Tool, Transform
from ..catalog.fingerprint import FunctionDigest, digest_function, digest_value
from ..engine.limits import Grant
from ..flow.steps import Invoke
from ..flow.values import WIDE, KnownValue, LargeValues, Value, isolate
from ..text.diagnostics import StepError
from .codec import (
    TEXT,
    DecodeError,
    EncodedValue,
    encode,
    json_text,
    preview,
    row_crc,
    sign,
    to_show,
    user_key,
)
from .records import CallKey, Record, error_json, value_of
from .secrets import NOTHING, Received, Secrets, hide
from .store import ADD

Cells = tuple[Any, ...]

Insert = tuple[str, Cells]
"""The statement that adds a record, and its cells."""

NO_VALUE = EncodedValue("json", None)

LARGE = 50_000
"""Characters of the JSON text from which on a part of the arguments is stored once for the run."""

IN_PIECES = 2
"""``whole`` of a record whose ``given`` is a JSON list of pieces: texts, and between them the digests
of large parts."""

CHANGED = "the call changed its arguments, which later steps share"

NO_KEY = "you have no key to sign it with"


class StartedCall(NamedTuple):
    """A call that has not ended."""

    key: CallKey
    kind: str
    name: str
    started: float
    given: str | None
    whole: int
    """0: ``given`` is a preview; 1: it is complete; `IN_PIECES`."""
    digest: bytes | None = None
    received: Received = NOTHING
    digest_again: Callable[[], bytes | None] | None = None
    """The digest with the arguments of now, if some are opaque: the callee may change these for all
    later steps."""

    @property
    def changed_arguments(self) -> bool:
        """Whether the callee changed an opaque argument: a step after it that gets a stored result
        needs this call."""
        return self.digest_again is not None and self.digest_again() != self.digest


class CallDigest:
    """The digests of a run's calls; the digest of each function is computed once."""

    def __init__(self, most: int | None = None) -> None:
        self.most = most
        """Bytes of the arguments: a call with larger ones has no digest."""
        self._called: dict[int, tuple[object, FunctionDigest | None]] = {}

    def of(
        self,
        step: Invoke,
        callee: object,
        given: Mapping[str, Value],
        text: str | None,
        tools: Mapping[str, Tool],
        grant: Grant,
        keyed: bool = False,
    ) -> bytes | None:
        """A digest of the call, or None if there is none.

        ``text``: its arguments as JSON, if they are complete. ``keyed``: the arguments contain a
        secret, which could be guessed from a plain digest: so the digest is made with the user's
        key."""
        what = self.called(callee)
        if what is None:
            return None
        if text is None:
            shown: dict[str, Value] = dict(given)
            # Its result depends on the tools that it may call, also on their code.
            if isinstance(callee, Agent) and "tools" in shown:
                offered = {
                    name: self.called(tool) for name, tool in tools.items() if grant.allows(name)
                }
                if None in offered.values():
                    return None
                shown["tools"] = offered
            held = digest_value(shown, self.most)
            if held is None:
                return None
        else:
            held = f"json {text}"
        identity = (_before_arguments(step, what) + held).encode()
        if not keyed:
            return hashlib.sha256(identity).digest()
        key = user_key()
        return sign(key, "call", identity) if key is not None else None

    def called(self, callee: object) -> str | None:
        """A digest of the callee. A request to a model has its own, which is not cached."""
        if not isinstance(callee, Tool | Agent | Transform | Policy):
            fingerprint = getattr(callee, "fingerprint", None)
            return fingerprint if isinstance(fingerprint, str) else None
        digest = self.function(callee)
        return digest.whole if digest is not None else None

    def function(self, callee: Tool | Agent | Transform | Policy) -> FunctionDigest | None:
        """The digest of the function of a callee; None if its calls are never reused."""
        if (isinstance(callee, Tool) and not callee.reuse) or (
            isinstance(callee, Policy) and "agents" in callee.takes
        ):
            return None
        # By identity, with the function itself kept: a new object at its address would get its
        # digest. Of the function, because a hundred agents may have the same one.
        function = callee.function
        if id(function) not in self._called:
            self._called[id(function)] = function, digest_function(function, self.most)
        return self._called[id(function)][1]


def _before_arguments(step: Invoke, what: str) -> str:
    """The part of a call's identity that does not depend on its arguments. ``what``: the digest of
    its callee."""
    gives = step.gives.text if step.gives is not None else ""
    if step.asking.schema is not None:
        gives += f"\0{json.dumps(step.asking.schema, sort_keys=True, default=str)}"
    return f"{step.kind}\0{what}\0{gives}\0"


class _Pieces:
    """Arguments as JSON, without the large ones among them, and the large values of a mapping."""

    def __init__(self, most: int, known: Callable[[Value], KnownValue | None]) -> None:
        """``most``: characters of all; ``known``: what a value is a copy of."""
        self.large: dict[str, str] = {}
        """The texts of the parts that are not known to be stored, by their digests."""
        self.known: list[tuple[KnownValue, str, int]] = []
        """Their values, digests and sizes."""
        self._most, self._find = most, known
        self._pieces = [""]
        """JSON, the digest of a large part, JSON, and so on."""

    @property
    def whole(self) -> int:
        return 1 if len(self._pieces) == 1 else IN_PIECES

    @property
    def text(self) -> str:
        return self._pieces[0] if len(self._pieces) == 1 else encode(self._pieces)

    def add(self, value: Value, levels: int = 2) -> bool:
        """Add ``value``, whose ``levels`` of mappings may have parts that are large. False: a part
        is no JSON, or all are too large."""
        known = self._find(value)
        if known is not None and known.stored:
            self._most -= known.size
            self._pieces += known.stored, ""
            return self._most >= 0
        if levels and type(value) is dict and len(value) <= WIDE:
            return self._add_each(value, levels - 1)
        text = known.text if known is not None else None
        text = text or json_text(value, self._most)
        if text is None or len(text) > self._most:
            return False
        self._most -= len(text)
        if len(text) < LARGE:
            self._pieces[-1] += text
            return True
        digest = hashlib.sha256(text.encode()).hexdigest()
        self.large[digest] = text
        if known is not None:
            self.known.append((known, digest, len(text)))
        self._pieces += digest, ""
        return True

    def _add_each(self, value: Mapping[str, Value], levels: int) -> bool:
        if not TEXT.issuperset(map(type, value)):
            return False
        before = "{"
        for name, part in value.items():
            self._pieces[-1] += f"{before}{encode(name)}:"
            before = ","
            if not self.add(part, levels):
                return False
        self._pieces[-1] += "}" if value else "{}"
        return True


class CallRows:
    """Makes the rows of one run."""

    def __init__(
        self,
        run_id: str,
        most: int,
        next_line: Callable[[], int],
        not_stored: Callable[[StartedCall, str | None], None],
        keep: Callable[[str, str], None],
    ) -> None:
        """``most``: bytes of one value, at most. ``not_stored``: called for a result that is not
        stored, and why. ``keep``: called for the digest and the text of a large part of arguments,
        before the row that needs it."""
        self.run_id, self.most = run_id, most
        self.secret = Secrets()
        self.digests = CallDigest(most)
        self.large = LargeValues()
        self._next_line, self._not_stored, self._keep = next_line, not_stored, keep
        self._kept: set[str] = set()
        self._key: bytes | None = None

    def start(
        self,
        step: Invoke,
        callee: object,
        key: CallKey,
        given: Any,
        tools: Mapping[str, Tool] | None,
        grant: Grant,
    ) -> StartedCall:
        """A call that is about to be made: see `Journal.start_call`."""
        received, complete, masked = NOTHING, None, True
        # Nothing is masked: then large parts are stored once.
        is_plain = type(callee) is Agent or (type(callee) is Tool and not callee.secret)
        if tools is not None and is_plain and not self.secret.active:
            text, whole = self.given(given)
            # A key of the environment is in the arguments: then they are masked as all others.
            masked = self.secret.surrounds(text)
            complete = text if whole else None
        if masked:
            shown = given
            if isinstance(callee, Tool) and callee.secret:
                received = self.secret.receive(callee, given)
                # Hidden by name before anything is searched: a short secret cannot be found by its
                # value.
                shown = hide(given, callee.secret)
            text, whole, masked = self.secret.to_show(shown, self.most)
            # The outcome may contain the arguments, and so the secret in them.
            if masked:
                received = received._replace(any=True)
            # A call without a digest needs no second text of its arguments.
            if tools is not None and whole and not received.any:
                complete = self._complete(given)
        is_opaque, digest, again = not whole, None, None
        # Without `tools` the call is a question or a mark, which no later run reuses.
        if tools is not None:
            keyed = received.any
            digest = self.digests.of(step, callee, given, complete, tools, grant, keyed)
            if digest is not None and is_opaque:
                # Lists and dicts are copies here: the tool may change its own.
                again = partial(
                    self.digests.of, step, callee, isolate(given), None, tools, grant, keyed
                )
        name = getattr(callee, "name", step.name.text)
        whole = 0 if received.any else int(whole)
        return StartedCall(key, step.kind, name, time.time(), text, whole, digest, received, again)

    def given(self, given: Any) -> tuple[str, int]:
        """Arguments as JSON and their ``whole``. Their large parts are kept once."""
        if not self.large.has_fresh:
            text, whole = to_show(given, self.most)
            if not whole or len(text) < LARGE:
                return text, int(whole)
        pieces = _Pieces(self.most, self.large.fresh)
        whole = pieces.add(given)
        # The caller masks arguments that have a secret, which it finds in a whole text.
        if not whole or any(map(self.secret.surrounds, pieces.large.values())):
            text, whole = to_show(given, self.most)
            return text, int(whole)
        for digest, text in pieces.large.items():
            if digest not in self._kept:
                self._kept.add(digest)
                self._keep(digest, text)
        for value, digest, size in pieces.known:
            value.stored, value.size, value.text = digest, size, None
        return pieces.text, pieces.whole

    def stores(self, stores: Mapping[str, Value]) -> str:
        """The stores at the end of the run as JSON; a list of pieces, as arguments, if calls have
        got large ones. Nothing is kept here: who reads the run needs all that its end refers to."""
        large = {name: self.large.known(value) for name, value in stores.items()}
        kept = {name: known.stored for name, known in large.items() if known and known.stored}
        if not kept or self.secret.active:
            return self.secret.to_show(stores, self.most).text
        pieces, before = [""], "{"
        for name, value in stores.items():
            pieces[-1] += f"{before}{encode(name)}:"
            before = ","
            if name in kept:
                pieces += kept[name], ""
            else:
                pieces[-1] += self.secret.to_show(value, self.most).text
        pieces[-1] += "}"
        return encode(pieces)

    def _complete(self, given: Any) -> str:
        """What `given` returns, for the digest of a call whose arguments may have to be masked:
        nothing is kept."""
        pieces = _Pieces(self.most, lambda value: None)
        return pieces.text if pieces.add(given) else encode(given)

    def reused(self, call: StartedCall, value: Value) -> Insert:
        """The row of a call whose result in another run is reused."""
        packed = self.secret.pack(value, self.most, call.received)
        if packed.form == "again":
            self._not_stored(call, packed.why)
        return self.outcome("finished", call, packed)

    def ended(
        self,
        call: StartedCall,
        value: Value,
        error: StepError | None = None,
        secret: bool = False,
    ) -> Insert:
        """The row of a call that has returned, or has failed. ``secret``: the value is one."""
        return self.outcome(*self.encoded(call, value, error, secret))

    def encoded(
        self, call: StartedCall, value: Value, error: StepError | None, secret: bool = False
    ) -> tuple[str, StartedCall, EncodedValue, str | None]:
        """The parameters of `outcome` for a call that has returned, or has failed."""
        if error is not None:
            return "failed", call, NO_VALUE, error_json(error, self.secret)
        if secret:
            self.secret.returned(value)
        packed = self.secret.pack(value, self.most, call.received, secret)
        # The steps after it share the object, and a stored result would not have changed it again.
        if call.changed_arguments:
            packed = EncodedValue("again", None, packed.shown or encode(preview(value)), CHANGED)
        if packed.form == "again":
            self._not_stored(call, packed.why)
        elif type(packed.data) is str and len(packed.data) >= LARGE and not self.secret.active:
            self.large.learn(value, packed.data)
        return "finished", call, packed, None

    def outcome(
        self,
        what: str,
        call: StartedCall,
        packed: EncodedValue = NO_VALUE,
        error: str | None = None,
        ended: float | None = None,
    ) -> Insert:
        """The row of a call in any case. ``packed``: its value as it is stored. ``error``: its
        failure as JSON. ``ended``: when it ended, in seconds since 1970; None: now."""
        ended, signature = time.time() if ended is None else ended, None
        place, tries = encode(call.key.at), call.key.tries
        if packed.form == "pickle":
            signature = self.sign(place, tries, packed.data or b"")
            # An unsigned pickle would be read by nobody: the call is made again instead.
            if signature is None:
                packed = EncodedValue("again", None, packed.shown, NO_KEY)
                self._not_stored(call, NO_KEY)
        whole = int(call.whole)  # in a checksum, True is another value than 1
        return self.row(
            what,
            place,
            tries,
            call.kind,
            call.name,
            call.started,
            ended,
            call.given,
            whole,
            packed.form,
            packed.data,
            packed.shown,
            error,
            signature,
            call.digest,
        )

    def row(self, *cells: Any) -> Insert:
        """A row with the next number. ``cells``: those of `COLUMNS` after the number."""
        row = (self._next_line(), *cells)
        return ADD, (*row, row_crc(row))

    def mark(
        self,
        what: str,
        key: CallKey,
        name: str = "",
        shown: str | None = None,
        error: BaseException | None = None,
    ) -> Insert:
        return self.row(
            what,
            encode(key.at),
            key.tries,
            "",
            name,
            None,
            None,
            None,
            0,
            None,
            None,
            shown,
            error_json(error, self.secret) if error is not None else None,
            None,
            None,
        )

    def sign(self, *parts: str | bytes) -> bytes | None:
        """The signature of parts of this run; None if the user has no key."""
        self._key = self._key or user_key()
        return sign(self._key, self.run_id, *parts) if self._key is not None else None


ReadValue = Callable[[Record, str], Record]


ReusedResult = tuple[Value, str | None]
"""A result, and its text if it is stored as JSON."""


_Stored = str | tuple[Record, str]
"""A JSON text; or any other result with the id of its run."""


def _is_reusable(record: Record) -> bool:
    return record.what == "finished" and record.result.form != "again" and bool(record.digest)


class Reuse:
    """The results of earlier runs, to be taken call by call."""

    def __init__(
        self,
        source: str,
        runs: Iterable[tuple[str, Iterable[Record]]],
        read: ReadValue,
    ) -> None:
        """``source``: what the run says of them; ``runs``: the id and the records of each run, the
        newest run first. The n-th result of a digest is that of the newest run that has so many.
        ``read``: given a record and its run's id, the record with its value; raises DecodeError if
        that cannot be used."""
        self.run_id = source
        self._read = read
        self._left: dict[bytes | None, list[_Stored]] = {}
        """Lists, although they are taken from the front: most digests have one result, and a deque
        would take ten times the memory."""
        for run_id, records in runs:
            self.add(run_id, self._missing(records))

    def count(self, digest: bytes | None) -> int:
        """How many results of this digest are known."""
        return len(self._left.get(digest, ()))

    def add(self, run_id: str, records: Iterable[Record]) -> None:
        """Add results of a run, of which each is the n-th of its digest in that run and no newer
        run has so many."""
        for record in filter(_is_reusable, records):
            form, data, *_ = record.result
            is_text = form == "json" and isinstance(data, str)
            stored: Any = data if is_text else (record, run_id)
            self._left.setdefault(record.digest, []).append(stored)

    def _missing(self, records: Iterable[Record]) -> Iterator[Record]:
        """The results in ``records`` that no newer run has."""
        numbers = Counter[bytes | None]()
        for record in filter(_is_reusable, records):
            numbers[record.digest] += 1
            if numbers[record.digest] > self.count(record.digest):
                yield record

    def take(self, digest: bytes | None) -> ReusedResult | None:
        """The next result of an identical call."""
        left = self._left.get(digest)
        while left:
            stored = left[0]
            del left[0]
            # What cannot be read is left out: the next one. `suppress` takes as long as reading.
            try:
                if isinstance(stored, str):
                    return json.loads(stored), stored
                return value_of(self._read(*stored)), None
            except (DecodeError, ValueError, RecursionError):
                continue
        return None
