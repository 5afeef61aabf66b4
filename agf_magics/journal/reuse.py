"""Reuse of results of an earlier run: a call with the same definition, inputs and function is not
made again.

Calls are compared by content, never by step id, because an edit of the definition changes the ids.
The n-th identical call gets the n-th earlier result. A call without a digest (an opaque argument, a
function that closes over a lock) is made.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress

from ..catalog import Agent, Policy, Tool, Transform
from ..catalog.fingerprint import FunctionDigest, digest_function, digest_value
from ..engine.limits import Grant
from ..flow.steps import Invoke
from ..flow.values import Value
from .codec import DecodeError, decode, decode_value, sign, user_key
from .records import Record, value_of

ReadValue = Callable[[Record, str], Record]


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

    def of_json(self, step: Invoke, callee: object) -> Callable[[str], bytes] | None:
        """`of` for many calls of a callee without secrets: a function of the arguments as JSON,
        which are complete."""
        what = self.called(callee)
        if what is None:
            return None
        before = f"{_before_arguments(step, what)}json ".encode()
        return lambda text: hashlib.sha256(before + text.encode()).digest()

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


ReusedResult = tuple[Value, str | None]
"""A result, and its text if it is stored as JSON."""

_Stored = str | tuple[Record, str]
"""A JSON text; or any other result with the id of its run."""


def _result(record: Record, run_id: str) -> tuple[bytes | None, _Stored | None]:
    """The digest of a call and its result, if that can be reused."""
    if record.what != "finished" or record.form == "again":
        return None, None
    is_text = record.form == "json" and type(record.value) is str
    return record.digest, record.value if is_text else (record, run_id)  # type: ignore[return-value]  # it is a text


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
        self._left: dict[bytes, _Stored | deque[_Stored]] = {}
        """A deque only for a digest with several results: most have one, and a text is less than
        its record."""
        for run_id, records in runs:
            self.add(run_id, self._missing(records))

    def count(self, digest: bytes) -> int:
        """How many results of this digest are known."""
        stored = self._left.get(digest)
        return len(stored) if type(stored) is deque else int(stored is not None)

    def add(self, run_id: str, records: Iterable[Record]) -> None:
        """Add results of a run, of which each is the n-th of its digest in that run and no newer
        run has so many."""
        left = self._left
        for record in records:
            digest, stored = _result(record, run_id)
            if not digest or stored is None:
                continue
            earlier = left.get(digest)
            # Not `setdefault(…) is stored`: two equal texts may be one object.
            if earlier is None:
                left[digest] = stored
            elif type(earlier) is deque:
                earlier.append(stored)
            else:
                left[digest] = deque((earlier, stored))  # type: ignore[arg-type]

    def _missing(self, records: Iterable[Record]) -> Iterator[Record]:
        """The results in ``records`` that no newer run has."""
        numbers = Counter[bytes]()
        for record in records:
            digest, stored = _result(record, "")
            if digest and stored is not None:
                numbers[digest] += 1
                if numbers[digest] > self.count(digest):
                    yield record

    def take(self, digest: bytes | None) -> ReusedResult | None:
        """The next result of an identical call."""
        while (stored := self._next(digest or b"")) is not None:
            with suppress(DecodeError):
                if isinstance(stored, str):
                    return decode_value("json", stored), stored
                return value_of(self._read(*stored)), None
        return None

    def take_json(self, digest: bytes, most: int) -> tuple[Value, str] | None:
        """The next result of an identical call and its JSON text, of at most ``most`` characters.
        None: there is none, or it is stored otherwise and is left to `take`."""
        while True:
            left = self._left.get(digest)
            text = left[0] if type(left) is deque and left else left
            if type(text) is not str or len(text) > most:
                return None
            if text is left:
                del self._left[digest]
            else:
                left.popleft()  # type: ignore[union-attr]  # it is a deque
            # `suppress` takes as long as reading the value. What is not JSON is left out: the next
            # one.
            try:
                return decode(text), text
            except Exception:
                continue

    def _next(self, digest: bytes) -> _Stored | None:
        """Take the next result out."""
        left = self._left.get(digest)
        if type(left) is deque:
            return left.popleft() if left else None
        self._left.pop(digest, None)
        return left  # type: ignore[return-value]
