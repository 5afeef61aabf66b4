"""`Language`, the interface of a language for the other rooms: its name, its loader, its help."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

from ..flow.flow import Definition
from ..flow.protocols import Expr
from ..text.diagnostics import Diagnostics
from ..text.source import Source, Text
from ..text.yaml.reader import Bounds


class Language(NamedTuple):
    """A language, as the rooms above this one use it."""

    name: str
    load: Callable[[Source, Diagnostics, Bounds], Definition]
    """Loads a text. Errors of the text are added to the Diagnostics, and never raised."""
    expressions: Mapping[str, Callable[[Text], Expr]]
    """The parsers of the expression languages, by name. They raise DefinitionError for an invalid
    text."""
    schema: Mapping[str, Any] | None = None
    """The JSON Schema of a cell, for completion and help."""
    functions: Mapping[str, str] = {}
    """The functions of the expression language, each with its signature."""
    latent: Callable[[Source, Diagnostics, Bounds, Collection[str]], Definition] | None = None
    """`load` with the names of further latent tools; None if the language has none."""
    named: Callable[[Source, Diagnostics, Bounds, str], Definition] | None = None
    """`load` of a text that has no name and gets this one; None if `load` takes such a text."""
    with_name: Callable[[str, str], str] = lambda text, name: text
    """A text with the name that it lacks, as a file of the language needs it."""
