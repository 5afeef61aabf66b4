"""Computes the digest of a call, from definition, inputs and function, by which a result is found
again.

Calls are compared by content, never by step id, because an edit of the definition changes the ids.
The n-th identical call gets the n-th earlier result. A call without a digest (with an opaque
argument, or a function that closes over a lock) is always made.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

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
from ...values.unread import Unread
from ...values.value import Value
from ..codec.fingerprints import ObjectFingerprint
from ..codec.parted import content_digest
from ..codec.pickles import bytes_of_data, is_data
from ..codec.signatures import sign, user_key
from .changed_objects import Objects, Watched, entries

NO_DIGEST = "its function or its arguments cannot be compared"


class LateDigest(NamedTuple):
    """The parts of the digest of a call with large data, which is computed only if the call took
    long."""

    before: str | None
    """The identity of the call without its arguments; None: the call has none, so only the digest of
    the arguments is computed."""
    digests: Mapping[str, str]
    """The digests of the small arguments, made before the call may change them."""
    data: Mapping[str, Value]
    """The large arguments, by name."""
    size: int
    """The bytes of the data."""
    is_keyed: bool
    """Whether the digest is made with the user's key, because the arguments contain a secret."""
    after: bytes
    """The entries of the objects that the functions name."""


class DigestedCall(NamedTuple):
    """The digest of a call, or its parts."""

    digest: bytes | None = None
    """The digest; None: the call has none, or `late` has its parts."""
    watched: Watched | None = None
    """The objects that the functions name, which the call may change; None: there are none."""
    late: LateDigest | None = None
    """The parts of a digest that is computed after the call; None: there is none."""
    contents: str | None = None
    """The digest of the arguments alone, by which a recording finds the call; None: the arguments
    are JSON, or cannot be compared."""


class CallDigest:
    """The digests of a run's calls; the digest of each function is computed once."""

    def __init__(
        self,
        most: int | None = None,
        digest_data: Callable[[Value, ObjectFingerprint | None], str | None] = lambda value, now: (
            content_digest(value)
        ),
    ) -> None:
        """``most``: the largest number of bytes of arguments with a digest; only data may be
        larger. ``digest_data``: digests large data, once for an object, with its fingerprint if
        known."""
        self.most = most
        self._digest_data = digest_data
        self.is_eager = False
        """Whether a call with large data is looked up before it is made."""
        self.objects = Objects()
        """The objects that the functions of the run name."""
        self._called: dict[int, tuple[object, FunctionDigest | None]] = {}
        """The functions and their digests, by the identity of the function."""

    def of(
        self,
        step: Invoke,
        callee: object,
        arguments: Mapping[str, Value],
        text: str | None,
        tools: Mapping[str, Tool],
        grant: Grant,
        keyed: bool = False,
        identity: str | None = None,
    ) -> DigestedCall:
        """The digest of the call, if it has one.

        ``text``: the complete arguments as JSON; None: they are not JSON. ``keyed``: whether the
        arguments contain a secret. It could be guessed from a plain digest, so the digest is made
        with the user's key. ``identity``: what stands for arguments that are not JSON, from the
        `DigestedCall.contents` of an equal call; default None: they are digested."""
        callee_digest = self.called(callee)
        functions = self._own_functions(callee)
        arguments_identity = f"json {text}" if text is not None else None
        late: LateDigest | None = None
        contents: str | None = None
        if text is None:
            named = _with_names(callee, arguments)
            late = self._late(named, keyed) if identity is None else None
            # The empty text, and the empty digest below, stand for what `digest_late` computes.
            arguments_identity = identity or ("" if late else digest_value(named, self.most))
            # A secret could be guessed from the digest.
            contents = None if keyed else arguments_identity or None
            # The result depends on the tools that the callee may call, and on their code.
            if callee_digest is not None and isinstance(callee, Agent) and "tools" in arguments:
                offered = offered_tools(callee, arguments, tools, grant)
                functions += map(self.function, offered.values())
                callee_digest = self._with_tools(callee_digest, offered)
        digest: bytes | None = None
        watched: Watched | None = None
        object_entries: bytes | None = None
        before = _before_arguments(step, callee_digest or "")
        if callee_digest is not None and arguments_identity is not None:
            digest = b"" if late is not None else _digest(before + arguments_identity, keyed)
        if digest is not None:
            watched, object_entries = self._watched(callee, functions)
        if late is None:
            return DigestedCall(_joined(digest, object_entries), watched, contents=contents)
        if object_entries is not None:
            late = late._replace(before=before, after=object_entries)
        if self.is_eager or late.size <= (self.most or 0):
            return self.digest_late(late)._replace(watched=watched)
        return DigestedCall(None, watched, late)

    def contents(self, callee: object, arguments: Mapping[str, Value]) -> str | None:
        """The digest of the arguments alone, for `DigestedCall.contents`."""
        named = _with_names(callee, arguments)
        late = self._late(named, False)
        if late is not None:
            return self.digest_late(late).contents
        return digest_value(named, self.most)

    def _with_tools(self, callee_digest: str, tools: Mapping[str, Tool]) -> str | None:
        """The digest of a callee and of the tools that it may call."""
        offered = {name: self.called(tool) for name, tool in tools.items()}
        is_known = None not in offered.values()
        return f"{callee_digest} {json.dumps(offered, sort_keys=True)}" if is_known else None

    def _watched(
        self, callee: object, functions: Iterable[FunctionDigest | None]
    ) -> tuple[Watched | None, bytes | None]:
        """The objects that the functions of a call name, and their entries."""
        name, is_async = getattr(callee, "name", ""), getattr(callee, "is_async", False)
        watched = self.objects.watch(filter(None, functions), name, is_async)
        return watched, entries(watched) if watched is not None else b""

    def _late(self, arguments: Mapping[str, Value], is_keyed: bool) -> LateDigest | None:
        """The parts of the digest of a call with data that is too large for `digest_value`; None:
        the call has no digest."""
        data = {name: value for name, value in arguments.items() if self._is_large(value)}
        digests = dict[str, str]()
        for name, value in arguments.items() if data else ():
            if name not in data:
                digest = digest_value(value, self.most)
                if digest is None:
                    return None
                digests[name] = digest
        size = sum(map(bytes_of_data, data.values()))
        return LateDigest(None, digests, data, size, is_keyed, b"") if data else None

    def _is_large(self, value: Value) -> bool:
        if type(value) is Unread:
            return True
        package = type(value).__module__.partition(".")[0]
        # `digest_value` knows no tables of these two, however small they are.
        is_large = package in ("polars", "pyarrow") or bytes_of_data(value) > (self.most or 0)
        return is_large and is_data(value)

    def digest_late(
        self,
        late: LateDigest,
        fingerprint_after: Callable[[Value], ObjectFingerprint | None] = lambda value: None,
    ) -> DigestedCall:
        """The digest of a call with large data that it has not changed. ``fingerprint_after``: returns the
        fingerprint of an argument after the call; default: unknown. Any thread may call this."""
        digests = dict(late.digests)
        for name, value in late.data.items():
            content = self._digest_data(value, fingerprint_after(value))
            if content is None:
                return DigestedCall()
            digests[name] = f"data {content}"
        arguments = f"data {json.dumps(digests, sort_keys=True)}"
        contents = hashlib.sha256(arguments.encode()).hexdigest()
        shown_contents = None if late.is_keyed else contents
        if late.before is None:
            return DigestedCall(contents=shown_contents)
        # From the contents, by which a forecast finds the call without its arguments.
        digest = _digest(f"{late.before}data {contents}", late.is_keyed)
        return DigestedCall(_joined(digest, late.after), contents=shown_contents)

    def why_none(
        self, callee: object, arguments: Mapping[str, Value], tools: Mapping[str, Tool]
    ) -> str:
        """The reason why a call has no digest: the function or the argument that cannot be
        compared."""
        for candidate in (callee, *tools.values()):
            if isinstance(candidate, FUNCTIONS) and self.called(candidate) is None:
                why = why_no_digest(candidate.function, self.most)
                reason = f": {why}" if why else ""
                subject = "its function" if candidate is callee else f"its tool {candidate.name!r}"
                return f"{subject} cannot be compared{reason}"
        for name, value in arguments.items():
            is_large = self._is_large(value)
            digest = self._digest_data(value, None) if is_large else self._digest_small(value)
            if digest is None:
                why = why_no_value_digest(value, self.most)
                reason = f": {why}" if why else ""
                return f"its argument {name!r} cannot be compared{reason}"
        for function in _functions_of_model(callee):
            if why := why_no_digest(function, self.most):
                return f"its model cannot be compared: {why}"
        return getattr(callee, "why_no_fingerprint", NO_DIGEST)

    def _digest_small(self, value: Value) -> str | None:
        return digest_value(value, self.most)

    def called(self, callee: object) -> str | None:
        """A digest of the callee. A request to a model brings its own digest, which is not
        cached."""
        if not isinstance(callee, FUNCTIONS):
            fingerprint = getattr(callee, "fingerprint", None)
            digests = [self._of_function(function) for function in _functions_of_model(callee)]
            if not isinstance(fingerprint, str) or None in digests:
                return None
            return " ".join((fingerprint, *(digest.code for digest in digests if digest)))
        if isinstance(callee, Tool) and callee.reuse and callee.digest is not None:
            return callee.digest
        digest = self.function(callee)
        return digest.code if digest is not None else None

    def function(self, callee: Tool | Agent | Transform | Policy) -> FunctionDigest | None:
        """The digest of the function of a callee; None if its calls are never reused, or if it has
        another digest."""
        if isinstance(callee, Tool) and (not callee.reuse or callee.digest is not None):
            return None
        if isinstance(callee, Policy) and "agents" in callee.takes:
            return None
        return self._of_function(callee.function)

    def _own_functions(self, callee: object) -> list[FunctionDigest | None]:
        """The digests of the function of a callee, or of the functions of a simulated model."""
        if isinstance(callee, FUNCTIONS):
            return [self.function(callee)]
        return list(map(self._of_function, _functions_of_model(callee)))

    def _of_function(self, function: Callable[..., Any]) -> FunctionDigest | None:
        # Cached by the identity of the function, because a hundred agents may share it. The
        # function is kept, so that no new object gets its identity.
        _, digest = self._called.get(id(function), (None, None))
        # A cell may redefine a helper while the run goes on.
        if id(function) not in self._called or (digest and digest.places.are_bound_again):
            digest = digest_function(function, self.most)
            self._called[id(function)] = function, digest
        return digest


def offered_tools(
    callee: object, arguments: Mapping[str, Value], tools: Mapping[str, Tool], grant: Grant
) -> dict[str, Tool]:
    """The tools whose functions an agent gets in its ``arguments``. A built-in tool that nobody named
    is none of them, and does not decide whether its call can be compared."""
    names = arguments.get("tools") if isinstance(callee, Agent) else None
    if not isinstance(names, Mapping):
        return {}
    return {name: tools[name] for name in names if name in tools and grant.allows(name)}


def _functions_of_model(callee: object) -> tuple[Callable[..., Any], ...]:
    """The functions that reply in place of the model of a request."""
    functions: tuple[Callable[..., Any], ...] = getattr(callee, "user_functions", ())
    return functions


FUNCTIONS = (Tool, Agent, Transform, Policy)
"""The classes of callees with a user's function."""


def _with_names(callee: object, arguments: Mapping[str, Value]) -> dict[str, Value]:
    """The arguments with names in place of the functions that a run offers to an agent or a policy,
    which are new objects for each call."""
    named = dict(arguments)
    for offered in ("tools", "agents") if isinstance(callee, Agent | Policy) else ():
        if isinstance(named.get(offered), dict):
            named[offered] = sorted(named[offered])
    return named


def _digest(identity: str, is_keyed: bool) -> bytes | None:
    """The digest of ``identity``. ``is_keyed``: whether it is made with the user's key; None if
    there is no key."""
    if not is_keyed:
        return hashlib.sha256(identity.encode()).digest()
    key = user_key()
    return sign(key, "call", identity.encode()) if key is not None else None


def _joined(digest: bytes | None, entries: bytes | None) -> bytes | None:
    """A digest with the entries of the objects that the call may change; None if one is missing."""
    return digest + entries if digest is not None and entries is not None else None


def _before_arguments(step: Invoke, callee_digest: str) -> str:
    """The part of a call's identity that does not depend on its arguments. ``callee_digest``: the digest of
    its callee."""
    gives = step.gives.text if step.gives is not None else ""
    if step.asking.schema is not None:
        gives += f"\0{json.dumps(step.asking.schema, sort_keys=True, default=str)}"
    return f"{step.kind}\0{callee_digest}\0{gives}\0"
