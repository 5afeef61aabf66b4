"""Handles the key that YAMLGraph puts around each result of a map.

Our maps do not write this key, but graphs, prompts and functions that come from YAMLGraph may read
it (decision Y16).
"""

from __future__ import annotations

import re
from collections.abc import Collection

from ...text.diagnostics import Diagnostic

PEER_KEY = re.compile(r"_map_\w+_sub")
"""The key: ``_map_NODE_sub`` for the map NODE."""

LEAVE_OUT = "leave it out: a map collects the results themselves"


def peer_key(key: str) -> str:
    """The warning about a read of that key."""
    return f"no map writes {key!r}, the key of YAMLGraph around a result"


def peer_key_in_code(words: Collection[str]) -> Diagnostic | None:
    """The warning about a function whose code has these names; None: the function does not read the
    key."""
    peer = next(filter(PEER_KEY.fullmatch, sorted(words)), None)
    if peer is None:
        return None
    message = f"the function looks for {peer!r}, the key of YAMLGraph around a result of a map"
    hint = "a map collects the results themselves: read item['title'], not item['_map_…']['title']"
    return Diagnostic("graph.peer-key", message, None, hint, "warning")
