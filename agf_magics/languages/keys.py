"""The keys of a document as data.

One table serves the loader, hints, completion, the JSON Schema for editors and the reference. A row
of the table is a `Key`. The kind of a key's value (`Takes`) has a phrase for messages, an example,
a JSON Schema and a reader. The keys of one mapping are a `MappingSpec`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ..text.yaml.nodes import Node

Read = Callable[[Any, Node, "Key"], Any]
"""Reads one kind of value. The arguments are the `Reader` of the language, the node of the value,
and the key that has the value."""


class Takes(NamedTuple):
    """A kind of value."""

    says: str
    """The phrase for messages: ``'name' must be a name``."""
    example: str
    """A value, as a hint shows it."""
    schema: Mapping[str, Any]
    """The JSON Schema of the value."""
    read: Read
    null: bool = False
    """Whether null is allowed."""
    word: str = ""
    """The name of the kind, for completion."""


class Key(NamedTuple):
    """A key of a mapping."""

    name: str
    takes: Takes
    doc: str = ""
    required: bool = False
    null: bool = False
    """Whether null counts as absent."""
    explicit: bool = False
    """Whether null counts as absent only if it is written: a bare ``key:`` is an error, since its
    author most likely forgot the value."""
    code: str = ""
    """The code of an error about the type of its value, if it is not the layer's ``wrong-type``."""
    holds: bool = False
    """Whether unknown mappings beside it are meant to stand in it, if it is absent: the cases of a
    match."""
    binds: tuple[str, ...] = ()
    """The names that a nested step of a pipeline sees besides ``ctx`` and ``pipe``."""

    @property
    def example(self) -> str:
        return f"{self.name}: {self.takes.example}"


class MappingSpec(NamedTuple):
    """A mapping of a language: a node of one kind, an edge, a document."""

    name: str
    """The phrase for messages: ``a step``."""
    doc: str
    keys: Mapping[str, Key]
    prefix: str = ""
    """The first letters of the mapping's own keys; every other key is an argument of a call. Empty:
    no key is an argument."""


def mapping_spec(name: str, doc: str, *keys: Key, prefix: str = "") -> MappingSpec:
    return MappingSpec(name, doc, {key.name: key for key in keys}, prefix)
