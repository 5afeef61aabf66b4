"""The names in the code of a function: globals, attributes and imports, and what it changes."""

from __future__ import annotations

import dis
import types
from collections.abc import Iterator
from importlib.util import resolve_name
from typing import NamedTuple

_LOOK_UPS = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "LOAD_DEREF"})
_WRITES = frozenset({"STORE_SUBSCR", "DELETE_SUBSCR", "STORE_SLICE", "STORE_ATTR", "DELETE_ATTR"})
_CHANGES = frozenset(
    {
        *("append", "appendleft", "extend", "extendleft", "insert", "add", "update", "setdefault"),
        *("pop", "popleft", "popitem", "remove", "discard", "clear", "subtract"),
        *("sort", "reverse", "rotate", "move_to_end"),
        *("difference_update", "intersection_update", "symmetric_difference_update"),
    }
)
"""Methods that change the containers of the standard library."""


class CodeNames(NamedTuple):
    """The names in a function and its inner functions."""

    read: dict[str, None]
    """The globals that it reads, in their order."""
    changed: set[str]
    """The globals and the names of its closure whose objects it changes."""
    imported: dict[str, None]
    """The modules that its body imports."""


def names_of(function: types.FunctionType) -> CodeNames:
    names = CodeNames({}, set(), {})
    for code in _codes_in(function.__code__):
        steps = list(dis.get_instructions(code))
        names.changed.update(_changed(steps))
        for at, step in enumerate(steps):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                names.read[step.argval] = None
            elif step.opname == "IMPORT_NAME":
                level = steps[at - 2].argval
                within = function.__globals__.get("__package__")
                module = resolve_name("." * level + step.argval, within) if level else step.argval
                names.imported[module] = None
    return names


def words_in(code: types.CodeType) -> frozenset[str]:
    """All names in a function: attributes too, and strings that ``getattr`` may use."""
    words = (word for inner in _codes_in(code) for word in (*inner.co_names, *inner.co_consts))
    return frozenset(word for word in words if isinstance(word, str))


def _codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes_in(constant)


def _changed(steps: list[dis.Instruction]) -> Iterator[str]:
    """The names whose objects these instructions change: `cache[key] = 1`, `seen.append(1)`,
    `global n; n += 1`. The text of a target begins with its name, so both have one place."""
    names: dict[tuple[int | None, int | None], str] = {}
    for step in steps:
        place = step.positions
        if place is None or place.col_offset is None or place.end_col_offset is None:
            continue  # `python -X no_debug_ranges`: then nothing counts as changed
        start = place.lineno, place.col_offset
        if step.opname == "STORE_GLOBAL":
            yield step.argval
        elif step.opname in _LOOK_UPS:
            # Code that was made from a tree may give one place to several names.
            if place.end_col_offset - place.col_offset == len(step.argval.encode()):
                names[start] = step.argval
        elif step.opname.startswith("CALL"):
            names.pop(start, None)  # `RULES.copy().pop()` changes the copy
        elif start in names and (
            step.opname in _WRITES
            or (step.opname in ("LOAD_ATTR", "LOAD_METHOD") and step.argval in _CHANGES)
        ):
            yield names[start]
