"""Gives the package access to the private parts of a run's handle.

A handle holds the linked flow, the place in the journal, the text and the input under private
names, so that they do not belong to the public API. Only this file uses these names.
"""

from __future__ import annotations

from typing import Protocol, TypeVar

from ..engine.ended_rows import EndedRows
from ..engine.linking.linked import Linked
from ..journal.database.store import Store
from ..text.source import Source
from ..values.value import Value

P_co = TypeVar("P_co", covariant=True)


class _Journaled(Protocol[P_co]):
    @property
    def _in_journal(self) -> P_co: ...


class _OfAFlow(Protocol):
    @property
    def _linked(self) -> Linked: ...


class _OfAText(Protocol):
    @property
    def _definition(self) -> tuple[str, Source]: ...


class _WithInput(Protocol):
    @property
    def _input_value(self) -> Value: ...


class _OfRows(Protocol):
    @property
    def _ended_rows(self) -> EndedRows | None: ...


P = TypeVar("P", tuple[Store, int], tuple[Store, int] | None)


def place_in_journal(run: _Journaled[P]) -> P:
    """The journal of a run and the number of the run there; None: the run is not journaled."""
    return run._in_journal


def linked_flow(run: _OfAFlow) -> Linked:
    """The flow of a run with the objects behind its names; of a run of the journal, without them."""
    return run._linked


def definition_of(run: _OfAText) -> tuple[str, Source]:
    """The language and the text of a run's definition."""
    return run._definition


def input_of(run: _WithInput) -> Value:
    """The input of a run, which may be a pickle that this user has signed. Raises DefinitionError if
    it cannot be read."""
    return run._input_value


def ended_rows(run: _OfRows) -> EndedRows | None:
    """How the rows of a run of this process ended; None: it is a run of the journal."""
    return run._ended_rows
