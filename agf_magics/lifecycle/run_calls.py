"""The journaled calls of one run, live or past, step by step: what a view reads on demand."""

from __future__ import annotations

from collections.abc import Sequence

from ..engine.linked import Linked
from ..flow.steps import Each, Flow, Fold, Repeat, Step, Walk, children
from ..journal import calls as queries
from ..journal.calls import CallCount, CallSpan, Element
from ..journal.records import Record
from ..journal.store import Store
from ..progress.progress import Row
from .lookup import as_definition_errors
from .past_run import PastRun
from .run import Run


class RunCalls:
    """The calls of a run in the journal. All methods raise DefinitionError if the journal cannot be
    read."""

    def __init__(self, store: Store, num: int) -> None:
        self._store, self._num = store, num

    def count(self, row: Row, index: Sequence[int] = ()) -> CallCount:
        with as_definition_errors():
            return queries.count_calls(self._store, self._num, row.key, index)

    def page(
        self,
        row: Row,
        limit: int,
        offset: int = 0,
        *,
        failed: bool = False,
        failed_first: bool = False,
        index: Sequence[int] = (),
    ) -> list[Record]:
        """See `read_calls`."""
        with as_definition_errors():
            return queries.read_calls(
                self._store,
                self._num,
                row.key,
                limit=limit,
                offset=offset,
                failed=failed,
                failed_first=failed_first,
                index=index,
            )

    def attempts(self, row: Row, limit: int) -> list[Record]:
        """The last calls that a step itself made outside of fan-outs and loops."""
        with as_definition_errors():
            return queries.read_own_calls(self._store, self._num, row.key, limit)

    def number_attempts(self, calls: Sequence[Record]) -> list[int]:
        """Which attempt of its path each of these calls is, counted over all sessions of the
        run."""
        with as_definition_errors():
            return queries.number_attempts(self._store, self._num, calls)

    def call(self, number: int) -> Record | None:
        """The call with this number, as `number` gives it."""
        with as_definition_errors():
            return queries.read_call(self._store, self._num, self._num + number)

    def number(self, record: Record) -> int:
        """The number of a call in its run. Its line in the journal is too large for a page, which
        has floats."""
        return record.line - self._num

    def spans(self, row: Row, limit: int) -> list[CallSpan]:
        with as_definition_errors():
            return queries.read_spans(self._store, self._num, row.key, limit)

    def elements(self, row: Row, flow: Flow) -> list[Element]:
        """The elements of a fan-out, the iterations of a loop, or the sessions of a model (one
        outside of all loops); none for other steps. ``flow``: the flow that has the step."""
        if not isinstance(row.step, Each | Fold | Repeat):
            return []
        own = not (isinstance(row.step, Repeat) and row.step.session)
        with as_definition_errors():
            return queries.group_calls(
                self._store, self._num, row.key, (loops_around(flow.body, row.step) or 0) + own
            )


def calls_of(run: Run | PastRun) -> RunCalls | None:
    """The calls of a run; None if it is not journaled."""
    if isinstance(run, PastRun):
        return RunCalls(*run.place)
    return RunCalls(run.journal.store, run.journal.num) if run.journal is not None else None


def loops_around(outer: Step, step: Step) -> int | None:
    """How many fan-outs and loops in ``outer`` contain ``step``; None if it is not in ``outer``."""
    if outer is step:
        return 0
    for child in children(outer):
        found = loops_around(child, step)
        if found is not None:
            repeats = isinstance(outer, Fold | Repeat | Walk) or (
                isinstance(outer, Each) and child is outer.body
            )
            return found + repeats
    return None


def linked_flow(run: Run | PastRun) -> Linked:
    """The flow of a run and the flows that it calls. Raises DefinitionError if those of a past run
    cannot be loaded."""
    return run._linked
