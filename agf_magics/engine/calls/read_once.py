"""Warns of a value that can be read only once and that a second call gets: a generator, a `map`, an
open file. The first call that gets it may have read it to its end, and the second one would work
with nothing."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from ...flow.steps import Invoke
from ...text.diagnostics import Diagnostic
from ...text.length import ATOMS
from ...values.value import Value

if TYPE_CHECKING:
    from ..runner import CallSite

FEW = 100
"""Parts of a list or a mapping up to which it is searched: it may be one that the author wrote."""

_CSV = frozenset({("_csv", "reader"), ("csv", "DictReader")})


def warn_of_read_once(site: CallSite[Invoke], name: str, arguments: Iterable[Value]) -> None:
    """Remember the values of a call that can be read only once, and warn of those that another call
    of the run got before. ``name``: the function. ``arguments``: as the step has them, because the
    check of an argument for a list reads it."""
    run = site.run
    for value in _parts(arguments):
        if not _is_read_once(value):
            continue
        earlier = run.read_once.get(id(value))
        if earlier is None:
            # The value itself is kept, too: the id of one that is gone may be that of another.
            run.read_once[id(value)] = value, name
            continue
        _, first = earlier
        kind = type(value).__name__
        message = f"{name!r} gets a {kind} that {first!r} got before: what was read from it is gone"
        hint = f"let the step that returns it return list(…) of the {kind}"
        warning = Diagnostic("step.read-once", message, site.step.name.span, hint, "warning")
        run.warn_once(warning, ("read once", id(value)))


def _parts(arguments: Iterable[Value]) -> Iterator[Value]:
    """The arguments that are no atoms, and those in short lists and mappings."""
    for value in arguments:
        kind = type(value)
        if kind in ATOMS:
            continue
        if kind is dict or kind is list:
            if len(value) <= FEW:
                inside = value.values() if kind is dict else value
                yield from (part for part in inside if type(part) not in ATOMS)
        else:
            yield value


def _is_read_once(value: Value) -> bool:
    """Whether ``value`` is an iterator of Python itself, an open file to read, or the rows of a CSV
    file. Others may be shared on purpose: `itertools.count`, a cursor, an object with a place of its
    own."""
    if isinstance(value, io.IOBase):
        with suppress(ValueError):  # it is closed
            return value.readable() and not value.writable()
        return False
    kind = type(value)
    is_iterator = hasattr(kind, "__next__") or hasattr(kind, "__anext__")
    origin = kind.__module__
    return is_iterator and (origin == "builtins" or (origin, kind.__name__) in _CSV)
