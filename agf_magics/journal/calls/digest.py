"""The digest of a call: definition, inputs and function, by which a result is found again.

Calls are compared by content, never by step id, because an edit of the definition changes the ids.
The n-th identical call gets the n-th earlier result. A call without a digest (an opaque argument, a
function that closes over a lock) is made.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from ...catalog import Agent, Policy, Tool, Transform
from ...catalog.digests.functions import FunctionDigest, digest_function, digest_value
from ...flow.steps import Invoke
from ...limits.grants import Grant
from ...values.value import Value
from ..codec.signatures import sign, user_key


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
