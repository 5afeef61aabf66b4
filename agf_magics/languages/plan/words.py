"""The keys of the plan language, from its JSON Schema: the one table for the loader, hints, completion and the docs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final, NamedTuple


class Key(NamedTuple):
    """A key of a mapping."""

    takes: str
    doc: str


def _keys(name: str) -> Mapping[str, Key]:
    properties = SCHEMA["$defs"][name]["properties"]
    return {key: Key(rule["$comment"], rule["description"]) for key, rule in properties.items()}


SCHEMA: Final[Mapping[str, Any]] = json.loads(files(__package__).joinpath("plan.schema.json").read_text("utf-8"))
"""JSON Schema of a plan's document; ``$comment`` says in words what a key takes."""
PLAN: Final = _keys("plan")
CALL: Final = _keys("call")
"""The keys of a call that are not its arguments."""
INSTANCE: Final = ("input", "state", "data")
"""The keys of an instance."""
