"""What all steps have: a name with a place, and the fields of a step. The kinds are in `steps`."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..text.diagnostics import StepError
from ..text.source import Span
from .data import data
from .frame import Target
from .values import Value


class Name(NamedTuple):
    """A name in a definition with its place."""

    text: str
    span: Span | None = None

    def __str__(self) -> str:
        return self.text


@data
class Step:
    """The fields of all steps."""

    id: str
    word: str
    """The language's noun for it: ``for_each``, ``transform``; shown in the picture and the
    progress tree."""
    label: str = ""
    """Distinguishes it from its siblings: a tool's name, the beginning of an expression."""
    title: str = ""
    """What the author calls it; empty: nothing."""
    span: Span | None = None
    """The place of the word, for errors about the whole step."""
    target: Target | None = None
    rescue: Callable[[StepError], Value] | None = None
    """Makes the value of a failed step from its error, and the run continues. None: the parent
    fails. Never used for a breached limit."""
