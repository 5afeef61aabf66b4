"""Follows a path of fields into a shape, and reports a field that is unknown or may be absent."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from ..text.diagnostics import Diagnostic
from ..text.source import Span
from ..text.suggestions import suggest
from .shapes import Shape

_WORD = re.compile(r"[^\s.'\"]+")


class PathFault(NamedTuple):
    """A path leads to a field that does not exist or may be absent."""

    name: str
    after: int
    """The number of names after the field in the path."""
    within: Shape
    """The shape that lacks the field."""
    alone: str = ""
    """The text that reads the name directly, if it is visible by itself; empty: it is not."""

    def diagnostic(self, span: Span, certain: bool) -> Diagnostic:
        """The problem for this fault. ``span``: the place of the whole path. ``certain``: whether
        every evaluation reads the path."""
        words = list(_WORD.finditer(span.text))
        if len(words) > self.after:
            word = words[-1 - self.after]
            span = span.locate(word.start(), word.end())
        if self.name in self.within.optional:
            message = f"{self.name!r} may be absent"
            hint = "mark it required: true in its schema, or give a default"
            return Diagnostic("flow.maybe-absent", message, span, hint, "note")
        message = f"unknown field {self.name!r}"
        near = suggest(self.name, self.within.fields, "its fields")
        if self.alone:
            near = f"{self.name!r} is a name of its own here; write: {self.alone}"
        if "object" not in self.within.kinds:
            message = f"{self.within} has no field {self.name!r}"
        fails = certain and (self.within.closed or "object" not in self.within.kinds)
        return Diagnostic("flow.schema-field", message, span, near, "error" if fails else "warning")


ShapeAtPath = tuple[Shape | None, PathFault | None]
"""The shape at a path (None: unknown), and the fault of the path (None: it has none)."""


FindShape = Callable[[tuple[str, ...]], ShapeAtPath]
"""Returns the shape at a path of the frame, and the fault of the path."""


def descend(shape: Shape | None, path: tuple[str, ...]) -> ShapeAtPath:
    """The shape at ``path`` in a value of ``shape``, and the fault of the path."""
    fault: PathFault | None = None
    for index, name in enumerate(path):
        if shape is None or (len(shape.kinds) > 1 and "object" in shape.kinds):
            return None, fault
        after = len(path) - index - 1
        if "object" not in shape.kinds or (shape.declares and name not in shape.fields):
            return None, PathFault(name, after, shape)
        if name in shape.optional and fault is None:
            fault = PathFault(name, after, shape)
        shape = shape.fields.get(name)
    return shape, fault
