"""The parts of a node's step that most kinds share: its place, its label and time limit, the key
that it writes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....flow.protocols import Name
from ....text.shorten import shorten
from ...documents import named
from ..state import Write
from .builder_contract import Given, Here, Written
from .writes import write_key, write_object


def at(here: Here) -> dict[str, Any]:
    return {"id": here.id, "word": here.kind, "span": here.span}


def common(here: Here, given: Given, label: str) -> dict[str, Any]:
    """The fields that every call has."""
    return {**at(here), "label": shorten(label), "timeout": given.get("timeout", here.timeout)}


def state_key(
    given: Given, here: Here, how: Callable[[str], Write] = write_key
) -> tuple[Write, Written]:
    key = named(given, "state_key", Name(here.name, here.span))
    is_object = how is write_object  # its keys are those of the state, not this one
    written = Written(
        key.text,
        key.span,
        declares="state_key" in given or is_object,
        option="state_key",
        sure=not is_object,
    )
    return how(key.text), written
