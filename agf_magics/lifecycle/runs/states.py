"""The table of the states of a run: a graph's state after each round, the stores after each step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from .trace import Trace


class States(Trace):
    """The states of a run, the first one at its start; ``to_pandas()`` gives a DataFrame. Each has
    the names of the steps that ended (``after``), the ``seconds`` since the start, and the named
    values (``state``)."""

    columns = ("number", "after", "at", "state")
    """The names of the columns. The column ``at`` of a trace shows the ``seconds`` of its rows."""

    note = ""
    """The reason why the last states are missing; empty: none is missing."""

    of: ClassVar[Callable[[Any], States]]
    """Finds the states of a run. The function evaluates the definition again with the results of the
    run, which only a higher room can do, so ``agf_magics/__init__.py`` sets it."""
