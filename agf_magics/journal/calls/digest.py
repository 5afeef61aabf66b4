"""The digest of a call: definition, inputs and function, by which a result is found again.

Calls are compared by content, never by step id, because an edit of the definition changes the ids.
The n-th identical call gets the n-th earlier result. A call without a digest (an opaque argument, a
function that closes over a lock) is made.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ...catalog import Agent, Policy, Tool, Transform
from ...catalog.digests.digesting import (
    FunctionDigest,
    digest_function,
    digest_value,
    why_no_digest,
    why_no_value_digest,
)
from ...flow.steps import Invoke
from ...limits.grants import Grant
from ...values.value import Value
from ..codec.signatures import sign, user_key
from .changed_objects import Objects, Watched, entries

NO_DIGEST = "its function or its arguments cannot be compared"


class DigestedCall(NamedTuple):
    """The digest of a call that starts."""

    digest: bytes | None = None
    watched: Watched | None = None
    """The objects that its functions name, which it may change."""


class CallDigest:
    """The digests of a run's calls; the digest of each function is computed once."""

    def __init__(self, most: int | None = None) -> None:
        self.most = most
        """Bytes of the arguments: a call with larger ones has no digest."""
        self.objects = Objects()
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
    ) -> DigestedCall:
        """A digest of the call, if it has one.

        ``text``: its arguments as JSON, if they are complete. ``keyed``: the arguments contain a
        secret, which could be guessed from a plain digest: so the digest is made with the user's
        key."""
        what = self.called(callee)
        functions = [self.function(callee)] if isinstance(callee, FUNCTIONS) else []
        held = f"json {text}" if text is not None else None
        if text is None and what is not None:
            shown: dict[str, Value] = dict(given)
            # Its result depends on the tools that it may call, also on their code.
            if isinstance(callee, Agent) and "tools" in shown:
                allowed = {name: tool for name, tool in tools.items() if grant.allows(name)}
                shown["tools"] = offered = {n: self.called(tool) for n, tool in allowed.items()}
                functions += map(self.function, allowed.values())
                what = what if None not in offered.values() else None
            held = digest_value(shown, self.most)
        if what is None or held is None:
            return DigestedCall()
        identity = (_before_arguments(step, what) + held).encode()
        digest: bytes | None = hashlib.sha256(identity).digest()
        if keyed:
            key = user_key()
            digest = sign(key, "call", identity) if key is not None else None
        return self._watched(digest, callee, functions)

    def _watched(
        self, digest: bytes | None, callee: object, functions: Iterable[FunctionDigest | None]
    ) -> DigestedCall:
        """A call with the objects that its functions name."""
        if digest is None:
            return DigestedCall()
        name, is_async = getattr(callee, "name", ""), getattr(callee, "is_async", False)
        watched = self.objects.before(filter(None, functions), name, is_async)
        if watched is None:
            return DigestedCall(digest)
        more = entries(watched)
        return DigestedCall(digest + more if more is not None else None, watched)

    def why_none(
        self, callee: object, given: Mapping[str, Value], tools: Mapping[str, Tool]
    ) -> str:
        """Why a call has no digest: the function or the argument that cannot be compared."""
        for each in (callee, *tools.values()):
            if isinstance(each, FUNCTIONS) and self.called(each) is None:
                why = why_no_digest(each.function, self.most)
                who = "its function" if each is callee else f"its tool {each.name!r}"
                return f"{who} cannot be compared{why and f': {why}'}"
        for name, value in given.items():
            if digest_value(value, self.most) is None:
                why = why_no_value_digest(value, self.most)
                return f"its argument {name!r} cannot be compared{why and f': {why}'}"
        return NO_DIGEST

    def called(self, callee: object) -> str | None:
        """A digest of the callee. A request to a model has its own, which is not cached."""
        if not isinstance(callee, FUNCTIONS):
            fingerprint = getattr(callee, "fingerprint", None)
            return fingerprint if isinstance(fingerprint, str) else None
        if isinstance(callee, Tool) and callee.reuse and callee.digest is not None:
            return callee.digest
        digest = self.function(callee)
        return digest.code if digest is not None else None

    def function(self, callee: Tool | Agent | Transform | Policy) -> FunctionDigest | None:
        """The digest of the function of a callee; None if its calls are never reused, or by another
        digest than that of its code."""
        if (isinstance(callee, Tool) and (not callee.reuse or callee.digest is not None)) or (
            isinstance(callee, Policy) and "agents" in callee.takes
        ):
            return None
        # By identity, with the function itself kept: a new object at its address would get its
        # digest. Of the function, because a hundred agents may have the same one.
        function = callee.function
        _, digest = self._called.get(id(function), (None, None))
        # A cell may define a helper again while the run goes on.
        if id(function) not in self._called or (digest and digest.places.are_bound_again):
            digest = digest_function(function, self.most)
            self._called[id(function)] = function, digest
        return digest


FUNCTIONS = (Tool, Agent, Transform, Policy)
"""The callees that have a function of a user."""


def _before_arguments(step: Invoke, what: str) -> str:
    """The part of a call's identity that does not depend on its arguments. ``what``: the digest of
    its callee."""
    gives = step.gives.text if step.gives is not None else ""
    if step.asking.schema is not None:
        gives += f"\0{json.dumps(step.asking.schema, sort_keys=True, default=str)}"
    return f"{step.kind}\0{what}\0{gives}\0"
