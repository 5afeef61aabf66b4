"""The messages that the end of a call adds to the log: of a result, of a failure, of a call that
could never run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from time import time

from ...flow.values import Value
from ...text.diagnostics import Diagnostic, StepError, suggest
from .calls import Call
from .destinations import Destination
from .messages import METHODS, Branch, Entry, as_message, nested, one_writing, read_content

_LONGEST = 10_000
"""The most characters of an exception's text in a message."""


def results(
    call: Call, instance: str | None, chosen: Sequence[Destination] | None, value: Value
) -> Sequence[Entry]:
    """The messages of a call's result. ``chosen``: its destinations; None: the value itself may
    select them.

    Raises StepError if the value selects an alternative that the call does not have, or has an
    unknown method.
    """
    if not call.alternatives:
        return ()
    if isinstance(value, Branch):
        chosen, value = _alternative(call, value), value.value
    elif chosen is None and (message := as_message(value)) is not None:
        returned = _returned(call, instance, message)
        return [(returned, read_content(returned))]
    if (
        chosen is None
    ):  # `read_content` would find the first alternative: no need to read the message
        method = call.method
        return [
            (
                _message(call, instance, kind, nested(path, value), method),
                one_writing(kind, instance, path, method or "set", value),
            )
            for kind, path in call.alternatives[0]
        ]
    made = [
        _message(call, instance, one.kind, nested(one.path, value), call.method) for one in chosen
    ]
    return [(message, read_content(message)) for message in made]


def error_message(
    call: Call, instance: str | None, found: Diagnostic | None, error: StepError | None
) -> dict[str, Value]:
    """The Error message of a call that failed or could never run."""
    if error is not None:
        reason = fault(error)
    else:
        assert found is not None, "an Error message has a reason"
        reason = {"code": found.code.partition(".")[2], "message": found.message}
    data = {"call": call.authored_for(instance), "error": reason}
    return _message(call, instance, "error", data, None, by_call=False)


def fault(error: StepError) -> dict[str, Value]:
    """A failure as a value: the class of the user's exception, else our code, and the message."""
    cause = error.__cause__
    if cause is None:
        return {"code": error.code, "message": error.diagnostic.message}
    try:
        text = str(cause)
    except Exception:  # a user's class
        text = ""
    return {"code": type(cause).__name__, "message": text[:_LONGEST]}


def _now() -> str:
    """The time in UTC, as messages contain it."""
    return _formatted(int(time()))


@lru_cache(maxsize=1)
def _formatted(second: int) -> str:
    """Cached, because the messages of a second have the same text."""
    return datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _message(
    call: Call, instance: str | None, kind: str, data: Value, method: Value, by_call: bool = True
) -> dict[str, Value]:
    made: dict[str, Value] = {"type": "data"}
    if kind != "data":
        made["kind"] = kind
    if instance is not None:
        made["_instance"] = instance
    made["data"] = data
    if by_call:
        made["_call"] = call.authored_for(instance)
    if method is not None:
        made["_outputMethod"] = method
    made["_date"] = _now()
    return made


def _returned(call: Call, instance: str | None, message: Mapping[str, Value]) -> dict[str, Value]:
    """A message that the tool returned, with the call's own instance."""
    kind, method = message.get("kind"), message.get("_outputMethod", call.method)
    if kind is None:
        kinds = {one.kind for one in call.destinations}
        kind = kinds.pop() if len(kinds) == 1 else "data"
    if method is not None and method not in METHODS:
        hint = suggest(str(method), METHODS, "methods")
        text = f"{call.tool.text!r} returned a message with the unknown method {method!r}"
        raise StepError(Diagnostic("plan.unknown-method", text, call.tool.span, hint))
    made = _message(call, instance, str(kind), message["data"], method)
    return {
        **{key: value for key, value in message.items() if key not in (*made, "_instance", "kind")},
        **made,
    }


def _alternative(call: Call, chosen: Branch) -> Sequence[Destination]:
    names = [" && ".join(map(str, each)) for each in call.alternatives]
    which = chosen.which.replace("$", "†") if isinstance(chosen.which, str) else chosen.which
    if isinstance(which, int) and 0 <= which < len(names):
        return call.alternatives[which]
    if which in names:
        return call.alternatives[names.index(str(which))]
    hint = f"its alternatives are {', '.join(f'{i}: {name}' for i, name in enumerate(names))}"
    message = (
        f"{call.tool.text!r} selected branch {chosen.which!r}, which its output path does not have"
    )
    raise StepError(Diagnostic("plan.branch", message, call.path_span or call.tool.span, hint))
