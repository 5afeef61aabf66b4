"""The objects that a tool of a plan may return in place of a value.

These are a message with its own kind and method, or a value for one alternative of the call's
output path.
"""

from __future__ import annotations

from dataclasses import dataclass

from ....values.unread import ReadAtOnce
from ....values.value import Value


@dataclass(frozen=True, slots=True)
class Message(ReadAtOnce):
    """A message that a tool returns in place of a value."""

    data: Value
    """The value. Required."""
    kind: str | None = None
    """The kind of the message; None: the kind that the call's output path declares."""
    method: str | None = None
    """``set``, ``merge``, ``assign``, ``push``, ``concat``; None: the method of the call."""

    @property
    def content(self) -> dict[str, Value]:
        kind = {"kind": self.kind} if self.kind is not None else {}
        method = {"_outputMethod": self.method} if self.method is not None else {}
        return {"type": "data", **kind, "data": self.data, **method}


@dataclass(frozen=True, slots=True)
class Branch(ReadAtOnce):
    """A value for one alternative of a call's output path (see `branch`)."""

    which: int | str
    value: Value


def branch(which: int | str, value: Value) -> Branch:
    """Return a value that a tool returns to select an alternative of its ``_outputPath``.

    Parameters:

    - ``which``: the number of the alternative, counted from 0, or its text. Required.
    - ``value``: the value to write there. Required.

    >>> branch("†state.error", {"code": "closed"})
    Branch(which='†state.error', value={'code': 'closed'})
    """
    if isinstance(which, bool) or not isinstance(which, int | str):
        raise TypeError(f"an alternative is a number or a path, not {which!r}")
    return Branch(which, value)
