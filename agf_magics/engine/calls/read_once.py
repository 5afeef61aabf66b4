"""Warns of a value that can be read only once and that a second call gets: a generator, a `map`, an
open file. The first call that gets it may have read it to its end, and the second one would work
with nothing."""

from __future__ import annotations

import io
from collections.abc import Iterable
from contextlib import suppress
from types import AsyncGeneratorType, GeneratorType
from typing import TYPE_CHECKING, Any

from ...flow.steps import Invoke
from ...text.diagnostics import Diagnostic
from ...text.length import ATOMS
from ...values.value import Value

if TYPE_CHECKING:
    from ..runner import CallSite

_EMPTY: tuple[Any, ...] = (
    [],
    (),
    {},
    {}.values(),
    {}.items(),
    set(),
    "",
    reversed([]),
    reversed({}),
)
_ITERATORS: tuple[type, ...] = (
    *(AsyncGeneratorType, GeneratorType, enumerate, filter, map, zip),
    *(type(iter(empty)) for empty in _EMPTY),
)
"""Iterators of Python. Others may be shared on purpose: `itertools.count`, a cursor, an object with
a place of its own."""
_CSV = frozenset({("_csv", "reader"), ("csv", "DictReader")})


def warn_of_read_once(site: CallSite[Invoke], name: str, arguments: Iterable[Value]) -> None:
    """Remember the values of a call that can be read only once, and warn of those that another call
    of the run got before. ``name``: the tool."""
    run = site.run
    for value in arguments:
        if type(value) in ATOMS or type(value) in (list, dict) or not _is_read_once(value):
            continue
        earlier = run.read_once.get(id(value))
        if earlier is None:
            # The value itself is kept, too: the id of one that is gone may be that of another.
            run.read_once[id(value)] = value, name
            continue
        _, first = earlier
        kind = type(value).__name__
        which = f"a {kind} that {first!r} got before"
        message = f"{name!r} gets {which}: what was read from it is gone"
        hint = f"let the step that returns it return list(…) of the {kind}"
        warning = Diagnostic("step.read-once", message, site.step.name.span, hint, "warning")
        run.warn_once(warning, ("read once", id(value)))


def _is_read_once(value: Value) -> bool:
    kind = type(value)
    if isinstance(value, io.IOBase):
        with suppress(ValueError):  # it is closed
            return value.readable() and not value.writable()
        return False
    return isinstance(value, _ITERATORS) or (kind.__module__, kind.__name__) in _CSV
