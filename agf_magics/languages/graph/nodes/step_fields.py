"""Reads the fields that most kinds of nodes share: place, label, time limit, written key."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ....flow.protocols import Name
from ....text.shorten import shorten
from ...documents import name_at
from ..state import Write
from .builder_contract import FieldValues, NodeSite, WrittenKey
from .writes import write_key, write_object


def at(site: NodeSite) -> dict[str, Any]:
    """The fields of a step that tell its place."""
    return {"id": site.id, "word": site.kind, "span": site.span}


def common(site: NodeSite, fields: FieldValues, label: str) -> dict[str, Any]:
    """The fields that every call has."""
    return {**at(site), "label": shorten(label), "timeout": fields.get("timeout", site.timeout)}


def state_key(
    fields: FieldValues, site: NodeSite, how: Callable[[str], Write] = write_key
) -> tuple[Write, WrittenKey]:
    """The write of a node's ``state_key`` (default: the node's name), and the key that it writes.
    ``how``: makes the write for the name of a key."""
    key = name_at(fields, "state_key", Name(site.name, site.span))
    is_object = how is write_object  # the keys of its result are written, not this key
    written = WrittenKey(
        key.text,
        key.span,
        declares="state_key" in fields or is_object,
        option="state_key",
        sure=not is_object,
    )
    return how(key.text), written
