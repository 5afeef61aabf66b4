"""The languages of definitions, which turn text into flows.

A language imports ``text``, ``flow`` and the shared modules of this room: `keys`, the tables of
keys, `documents`, their reader, and `scan` for small grammars. The module `ours` lists the four
languages of this package. A language of an installed package is found by its entry point when its
name is used; `docs/howto/language.md` shows one. Its author imports the names in ``__all__``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

from ..compat.imports import installed_only
from ..flow.flow import Declarations, Definition, Dialect, Flow, Origin
from ..flow.protocols import FlowInput, FlowResult, Frame, Name, Outcome, Ref
from ..flow.steps import Compute, Invoke, Sequence
from ..text.diagnostics import DefinitionError, Diagnostic, Diagnostics, StepError
from ..text.source import Source, Span
from ..text.suggestions import suggest
from ..text.yaml.reader import Bounds
from ..values.value import Value
from .language import Language
from .ours import OURS

__all__ = [
    "Bounds",
    "Compute",
    "Declarations",
    "Definition",
    "Diagnostic",
    "Diagnostics",
    "Dialect",
    "Flow",
    "FlowInput",
    "FlowResult",
    "Frame",
    "Invoke",
    "Language",
    "Name",
    "Origin",
    "Outcome",
    "Ref",
    "Sequence",
    "Source",
    "Span",
    "StepError",
    "Value",
    "suggest",
]

GROUP = "agf_magics.languages"
"""The group of entry points: ``tally = "my_package:TALLY"``, a `Language` with that name."""


class Languages(Mapping[str, Language]):
    """The languages by name. Each is imported at its first use, because most notebooks use only
    one. The metadata of installed packages takes tens of milliseconds to read: they are read when a
    name is asked for that is none of the four (decision D44)."""

    def __init__(self) -> None:
        self._loaded: dict[str, Language] = {}

    def __getitem__(self, name: str) -> Language:
        if name not in self._loaded:
            # `over` is the internal language of runs over tables: it is loadable but not listed.
            self._loaded[name] = (
                import_module(f".{name}", __package__).LANGUAGE
                if name in (*OURS, "over")
                else _find_installed(name)
            )
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*OURS, *(name for name in self._loaded if name != "over"))))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        # Whether there is one, without importing it.
        return name in (*OURS, *self._loaded, "over") or _entry_point(str(name)) is not None


def _entry_point(name: str) -> Any:
    from importlib.metadata import entry_points

    return next(iter(entry_points(group=GROUP, name=name)), None)


def _find_installed(name: str) -> Language:
    """The language of an installed package. Raises KeyError if no package has it, DefinitionError
    if it cannot be used."""
    entry = _entry_point(name)
    if entry is None:
        raise KeyError(name)
    why = f"{entry.value} is not a Language with this name"
    try:
        with installed_only():
            language = entry.load()
    except (Exception, SystemExit) as error:  # whatever the module of another package raises
        why = f"{entry.value} cannot be imported: {type(error).__name__}: {error}"
        language = None
    if isinstance(language, Language) and language.name == name:
        return language
    message = f"the language {name!r} of an installed package cannot be used: {why}"
    hint = f"update the package {entry.dist.name}, or remove it" if entry.dist is not None else None
    raise DefinitionError(Diagnostic("define.language", message, hint=hint))


LANGUAGES = Languages()
"""The languages of this process by name."""
