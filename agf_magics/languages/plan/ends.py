"""What an end adds to the log: the messages of a result, of a failure, of a call that never came to run."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache

from ...flow.values import Value
from ...text.diagnostics import Diagnostic, StepError, suggest
from .calls import Call
from .destinations import Destination
from .messages import METHODS, Branch, Told, Writing, as_message, nested, said

LONGEST = 10_000
"""Letters of an exception's text that a message keeps."""


def results(call: Call, instance: str | None, chosen: Sequence[Destination] | None, value: Value) -> Sequence[Told]:
    """The messages for what a call gave; ``chosen``: where it goes, None where the value itself may say.

    Raises StepError for a choice that the call does not have, and for a message with an unknown method.
    """
    if not call.alternatives:
        return ()
    if isinstance(value, Branch):
        chosen, value = _alternative(call, value), value.value
    elif chosen is None and (message := as_message(value)) is not None:
        returned = _returned(call, instance, message)
        return [(returned, said(returned))]
    if chosen is None:
        # What such a message says needs no looking: the first alternative is the one that it is read by.
        method = call.method or "set"
        return [
            (
                _message(call, instance, kind, nested(path, value), call.method),
                (kind, instance, (Writing(path, method, value),)),
            )
            for kind, path in call.alternatives[0]
        ]
    made = [_message(call, instance, one.kind, nested(one.path, value), call.method) for one in chosen]
    return [(message, said(message)) for message in made]


def error_message(
    call: Call, instance: str | None, found: Diagnostic | None, error: StepError | None
) -> dict[str, Value]:
    """The Error message of a call that failed or could never run."""
    assert error is not None or found is not None, "an Error message says what was wrong"
    told = fault(error) if error is not None else {"code": found.code.partition(".")[2], "message": found.message}  # type: ignore[union-attr]
    owner = {"_instance": instance} if instance is not None else {}
    data = {"call": call.kept(instance), "error": told}
    return {"type": "data", "kind": "error", **owner, "data": data, "_date": now()}


def fault(error: StepError) -> dict[str, Value]:
    """A failure as a value: the class of what was raised, else the code of ours, and what it says."""
    cause = error.__cause__
    if cause is None:
        return {"code": error.code, "message": error.diagnostic.message}
    try:
        text = str(cause)
    except Exception:  # somebody's class
        text = ""
    return {"code": type(cause).__name__, "message": text[:LONGEST]}


def now() -> str:
    """UTC, as messages tell it."""
    return _at(int(time.time()))


@lru_cache(maxsize=1)
def _at(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _message(call: Call, instance: str | None, kind: str, data: Value, method: Value) -> dict[str, Value]:
    made: dict[str, Value] = {"type": "data"}
    if kind != "data":
        made["kind"] = kind
    if instance is not None:
        made["_instance"] = instance
    made["data"] = data
    made["_call"] = call.kept(instance)
    if method is not None:
        made["_outputMethod"] = method
    made["_date"] = now()
    return made


def _returned(call: Call, instance: str | None, message: Mapping[str, Value]) -> dict[str, Value]:
    """A message that the tool itself returned: as it is, but with nobody else's instance."""
    kind, method = message.get("kind"), message.get("_outputMethod", call.method)
    if kind is None:
        kinds = {one.kind for one in call.destinations}
        kind = kinds.pop() if len(kinds) == 1 else "data"
    if method is not None and method not in METHODS:
        hint = suggest(str(method), METHODS, "methods")
        told = f"{call.tool.text!r} returned a message with the method {method!r}"
        raise StepError(Diagnostic("plan.unknown-method", told, call.tool.span, hint))
    made = _message(call, instance, str(kind), message["data"], method)
    return {**{key: value for key, value in message.items() if key not in (*made, "_instance", "kind")}, **made}


def _alternative(call: Call, chosen: Branch) -> Sequence[Destination]:
    named = [" && ".join(map(str, each)) for each in call.alternatives]
    if isinstance(chosen.which, int) and 0 <= chosen.which < len(named):
        return call.alternatives[chosen.which]
    if chosen.which in named:
        return call.alternatives[named.index(str(chosen.which))]
    hint = f"its alternatives are {', '.join(f'{i}: {name}' for i, name in enumerate(named))}"
    message = f"{call.tool.text!r} chose branch {chosen.which!r}, which its output path does not have"
    raise StepError(Diagnostic("plan.branch", message, call.path_span or call.tool.span, hint))
