"""The input and the result of a node's builder: the node in the text, and its step with its writes.

The table in node_kinds.py has one builder for each kind of node. The node's `Write` turns the value
of the step into new values of keys, and state.py combines the values of one round.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from ....flow.protocols import Name
from ....flow.step import Step
from ....text.diagnostics import Diagnostic
from ....text.source import Span
from ....values.value import Value
from ..prompts.prompt_files import Folders
from ..state import Write
from .declared_tools import Tools

FieldValues = dict[str, Any]
"""The value of each key of a node, as its `Takes` reads it."""


class WrittenKey(NamedTuple):
    """A key that a node writes, as far as its text tells."""

    name: str
    span: Span | None
    declares: bool = True
    """Whether writing it declares it; a key of `output`, and a node's name in place of a key, does
    not."""
    type: str = "any"
    reducer: str | None = None
    """The reducer that the node gives the key, whatever ``state:`` declares; None: none."""
    option: str = ""
    """The option of the node that names the key; empty: no option names it."""
    sure: bool = True
    """Whether the node writes the key whenever it runs."""


class BuiltNode(NamedTuple):
    """A built node: its step and its writes."""

    step: Step
    write: Write
    keys: tuple[WrittenKey, ...] = ()
    collects: bool = False
    """Whether in a map `write` makes the collected value, not the step alone."""
    routes: tuple[Name, ...] = ()
    """The nodes that a router names."""
    answers: Mapping[str, str] = MappingProxyType({})
    """The answers of a router that lead to each node."""
    binds: tuple[str, ...] = ()
    """The names of the item inside a map."""
    writes_any: bool = False
    """Whether the node may write keys that its text does not name."""
    note: Callable[[Value], Diagnostic | None] | None = None
    """The warning about its value, if there is one."""


class NodeSite(NamedTuple):
    """A node that is being built."""

    name: str
    id: str
    """The id of its step; a builder that makes several steps gives them longer ids."""
    kind: str
    """Its kind, a key of `words.NODES`; `node_kinds.build` sets it before it calls a builder."""
    span: Span
    defaults: FieldValues
    """The values of ``defaults:``."""
    tools: Tools
    config: Mapping[str, Any]
    """The keys of ``config:``."""
    inside: bool = False
    """Whether the node is the inner node of a map."""
    folders: Folders = Folders()
    timeout: float | None = None
    """The longest time for one item of the map around the node, in seconds."""
