"""Writes the messages for the end of a call: a result, a failure, a call that could never run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from ....text.diagnostics import Diagnostic, StepError
from ....text.suggestions import suggest
from ....values.value import Value
from ..calls import Call
from ..log.destinations import Destination
from ..log.messages import METHODS, as_message, nest, plain_message
from ..log.returned import Branch

UNRESOLVED = "plan.unresolved-reference"
_LONGEST = 10_000
"""The most characters of an exception's text in a message."""


def results(
    call: Call, instance: str | None, chosen: Sequence[Destination] | None, value: Value
) -> Sequence[Mapping[str, Value]]:
    """The messages of a call's result. ``chosen``: its destinations; None: the value itself may
    select them.

    Raises StepError if the value selects an alternative that the call does not have, or has an
    unknown method.
    """
    if not call.output.alternatives:
        return ()
    if isinstance(value, Branch):
        chosen = _alternative(call, value)
        value = value.value
    elif chosen is None and (message := as_message(value, call.output.alternatives)) is not None:
        return [_message_of_tool(call, instance, message)]
    return [
        _message(call, instance, place.kind, nest(place.path, value), call.output.method)
        for place in chosen or call.output.alternatives[0]
    ]


def error_message(
    call: Call, instance: str | None, why: str, error: StepError | None
) -> dict[str, Value]:
    """The Error message of a call that failed, or could never run and has no ``error``."""
    never_ran: Value = {"code": UNRESOLVED.partition(".")[2], "message": why}
    reason = never_ran if error is None else fault(error)
    data = {"call": call.authored_for(instance), "error": reason}
    return {**plain_message("error", data, instance), "_date": _now()}


def fault(error: StepError) -> dict[str, Value]:
    """A failure as a value: the class of the user's exception, else our code, and the message."""
    kind = error.code if error.__cause__ is None else error.kind
    return {"code": kind, "message": error.text[:_LONGEST]}


def _now() -> str:
    """The time in UTC, as messages contain it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _message(
    call: Call, instance: str | None, kind: str, data: Value, method: Value
) -> dict[str, Value]:
    """A message that a call writes."""
    methods = {"_outputMethod": method} if method is not None else {}
    return {
        **plain_message(kind, data, instance),
        "_call": call.authored_for(instance),
        **methods,
        "_date": _now(),
    }


def _message_of_tool(
    call: Call, instance: str | None, message: Mapping[str, Value]
) -> dict[str, Value]:
    """A message that the tool returned, with the call's own instance."""
    kind = message.get("kind")
    method = message.get("_outputMethod", call.output.method)
    if kind is None:
        kinds = {destination.kind for destination in call.output.destinations}
        kind = kinds.pop() if len(kinds) == 1 else "data"
    if method is not None and method not in METHODS:
        hint = suggest(str(method), METHODS, "methods")
        text = f"{call.tool.text!r} returned a message with the unknown method {method!r}"
        raise StepError(Diagnostic("plan.unknown-method", text, call.tool.span, hint))
    own_fields = _message(call, instance, str(kind), message["data"], method)
    return {
        **{
            key: value
            for key, value in message.items()
            if key not in (*own_fields, "_instance", "kind")
        },
        **own_fields,
    }


def _alternative(call: Call, chosen: Branch) -> Sequence[Destination]:
    alternatives = call.output.alternatives
    names = [" && ".join(map(str, paths)) for paths in alternatives]
    ways: dict[int | str, Sequence[Destination]] = dict(enumerate(alternatives))
    ways.update(zip(names, alternatives, strict=True))
    which = chosen.which.replace("$", "†") if isinstance(chosen.which, str) else chosen.which
    if which in ways:
        return ways[which]
    hint = f"its alternatives are {', '.join(f'{i}: {name}' for i, name in enumerate(names))}"
    message = (
        f"{call.tool.text!r} selected branch {chosen.which!r}, which its output path does not have"
    )
    raise StepError(Diagnostic("plan.branch", message, call.output.span or call.tool.span, hint))
