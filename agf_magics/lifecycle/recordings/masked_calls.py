"""Finds the recorded call of which a run makes one that differs only where a secret was masked.

A model may pass a secret to a tool. The run that is recorded knows it from then on, and masks it.
A replay never learns it, because the recorded reply has a placeholder in its place: so a mask in a
recorded text stands for any text.
"""

from __future__ import annotations

from typing import Any

from ...catalog import MASK
from ...journal.secrets.masking import HELD_BACK, Secrets
from ...journal.secrets.placeholders import is_placeholder
from ...values.value import Value


def fits(recorded: Value, made: Value) -> bool:
    """Whether ``made`` is equal to ``recorded``, with any text in place of each mask."""
    waiting = [(recorded, made)]
    while waiting:
        ours, theirs = waiting.pop()
        if ours == MASK:
            continue
        if type(ours) is not type(theirs):
            return False
        if isinstance(ours, dict):
            if ours.keys() != theirs.keys():
                return False
            waiting += [(part, theirs[name]) for name, part in ours.items()]
        elif isinstance(ours, list):
            if len(ours) != len(theirs):
                return False
            waiting += zip(ours, theirs, strict=True)
        elif not (_text_fits(ours, theirs) if isinstance(ours, str) else ours == theirs):
            return False
    return True


def _text_fits(recorded: str, made: str) -> bool:
    """The same for a text. In linear time: each part is looked for once, from the left."""
    first, *parts = recorded.split(MASK)
    if not parts:
        return recorded == made
    last = parts.pop()
    if len(made) < len(first) + len(last) or not made.startswith(first) or not made.endswith(last):
        return False
    at, end = len(first), len(made) - len(last)
    for part in parts:
        at = made.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True


def has_placeholder(reply: Value) -> bool:
    """Whether a model's recorded reply calls a tool with a secret."""
    calls = reply.get("calls") if isinstance(reply, dict) else None
    return any(
        isinstance(argument, str) and is_placeholder(argument)
        for call in (calls if isinstance(calls, list) else ())
        if isinstance(call, dict) and isinstance(call.get("arguments"), dict)
        for argument in call["arguments"].values()
    )


def masked_line(line: dict[str, Any], secrets: Secrets | None) -> dict[str, Any]:
    """A line of a recording without the secrets that became known after its call. ``secrets``:
    those of the run; None: they are not known any more."""
    if secrets is None or not secrets.active:
        return line
    masked = dict(line)
    for key in ("input", "given", "error"):
        if key in line:
            value = line[key]
            is_named = isinstance(value, dict)
            masked[key] = secrets.shown_values(value) if is_named else secrets.shown(value)
    is_value = "value" in line and not line.get("masked")
    if is_value and secrets.has_secret(line["value"], near=False):
        del masked["value"]
        masked |= {"opaque": HELD_BACK, "masked": True}
    return masked
