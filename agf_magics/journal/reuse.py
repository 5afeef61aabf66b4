"""Results of an earlier run taken over: a call whose definition, inputs and function are the same is not made again.

By content, never by id: an edited definition has other ids, and what stands after the edit is still the same call. The
n-th equal call takes the n-th earlier outcome. What cannot be told (an opaque argument without a digest, a function
that closes over a lock) is called.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from ..catalog import Agent, Policy, Tool, Transform
from ..catalog.fingerprint import content, fingerprint
from ..flow.steps import Invoke
from ..flow.values import Value
from ..host.limits import Grant
from ..serialization.codec import DecodeError, sign, user_key
from .records import Record

ReadValue = Callable[[Record, str], Record]


class CallDigest:
    """The digests of a run's calls; what is called is looked into once."""

    def __init__(self) -> None:
        self._called: dict[int, tuple[object, str | None]] = {}

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
        """A digest of this very call, ``text`` being its arguments as JSON where that says all of them; None where
        there is no telling what it is. ``keyed``: its arguments hold a secret, which could be guessed from the digest:
        it is made with this user's key, and without one there is none."""
        what = self.called(callee)
        if what is None:
            return None
        if text is None:
            shown: dict[str, Value] = dict(given)
            if isinstance(callee, Agent) and "tools" in shown:  # it may call them: then what they do is what it does
                offered = {name: self.called(tool) for name, tool in tools.items() if grant.allows(name)}
                if None in offered.values():
                    return None
                shown["tools"] = offered
            held = content(shown)
            if held is None:
                return None
        else:
            held = f"json {text}"
        gives = step.gives.text if step.gives is not None else ""
        told = f"{step.kind}\0{what}\0{gives}\0{held}".encode()
        if not keyed:
            return hashlib.sha256(told).digest()
        key = user_key()
        return sign(key, "call", told) if key is not None else None

    def called(self, callee: object) -> str | None:
        """A digest of what is called; that of a request to a model is its own and is not looked for again."""
        known = self._called.get(id(callee))
        if known is not None:
            return known[1]
        found = _called(callee)
        if isinstance(callee, Tool | Agent | Transform | Policy):
            self._called[id(callee)] = callee, found
        return found


def _called(callee: object) -> str | None:
    match callee:
        case Tool(reuse=False):
            return None
        case Policy() if "agents" in callee.takes:
            return None
        case Tool() | Agent() | Transform() | Policy():
            return fingerprint(callee.function)
    found = getattr(callee, "fingerprint", None)
    return found if isinstance(found, str) else None


class Reuse:
    """The results of earlier runs, to be taken call by call."""

    def __init__(self, source: str, runs: Iterable[tuple[str, Iterable[Record]]], read: ReadValue) -> None:
        """``source``: what the run says of them; ``runs``: the id and the records of each run, the newest run first.
        The n-th result of a digest is that of the newest run that has so many. ``read``: given a record and its run's
        id, the record with its value; raises DecodeError if that cannot be used."""
        self.run_id = source
        self._read = read
        found: dict[bytes, list[tuple[Record, str]]] = {}
        for run_id, records in runs:
            count = dict[bytes, int]()
            for record in records:
                if record.what == "finished" and record.digest and record.form != "again":
                    count[record.digest] = number = count.get(record.digest, 0) + 1
                    results = found.setdefault(record.digest, [])
                    if number > len(results):
                        results.append((record, run_id))
        self._left = {digest: deque(results) for digest, results in found.items()}

    def take(self, digest: bytes | None) -> Record | None:
        """The next outcome of a call that is equal to this one."""
        left = self._left.get(digest or b"")
        while left:
            with suppress(DecodeError):
                return self._read(*left.popleft())
        return None
