"""`Storing`, which stores the large values of a run while their step waits, or in the background.

A value that cannot change any more is stored in the background, one value at a time, so that memory
is bounded. Later rows are held until its row is durable. The next step can change any other value,
so the current step waits until that is stored.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from ..text.raised import describe_exception
from ..values.value import Value
from .calls.call_rows import CallRows
from .calls.started_call import Outcome, StartedCall
from .codec.snapshots import CopyToStore
from .database.errors import JournalError
from .database.ordered_rows import OrderedRows
from .database.writer import Writer


class Storing:
    """Stores the large values of one run. Its methods run on the loop of the run."""

    def __init__(
        self,
        rows: CallRows,
        out: OrderedRows,
        is_for_parts: Callable[[Outcome], bool],
        write: Callable[[Outcome, OrderedRows | Writer], Awaitable[bool]],
    ) -> None:
        """``is_for_parts``: whether a value must be stored now. ``write``: writes the row of an
        outcome (by `OrderedRows` after the held rows, by the `Writer` before them), and returns
        whether it is durable."""
        self._rows = rows
        self._out = out
        self._is_for_parts = is_for_parts
        self._write = write
        self._tasks: set[asyncio.Future[None]] = set()
        """The work for which steps wait."""
        self._behind: asyncio.Future[None] | None = None
        """The background work; None: there is none."""

    def in_turn(self, storing: Coroutine[Any, Any, None]) -> asyncio.Future[None]:
        """Run ``storing``, the work on a large value for which a call waits. If the call is
        cancelled meanwhile, its result counts all the same."""
        task = asyncio.ensure_future(storing)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return asyncio.shield(task)

    async def store(self, outcome: Outcome, goes_on: bool) -> None:
        """Store a large value, and write its row. ``goes_on``: whether the step may go on after the
        snapshot, if the value cannot change."""
        snapshot_of_value: CopyToStore | None = None
        if goes_on and self._is_for_parts(outcome):
            snapshot_of_value = await asyncio.to_thread(self._rows.copy_to_store, outcome)
        await self.before()
        if snapshot_of_value is not None and self._is_for_parts(outcome):
            self._out.hold()
            # The number is taken now, so that the rows that are made meanwhile have larger ones.
            outcome = outcome._replace(line=self._rows.next_line(), ended=time.time())
            self._behind = asyncio.ensure_future(self._store_behind(outcome, snapshot_of_value))
        else:
            await self._write(await self.stored(outcome), self._out)

    async def digest_and_store(
        self, call: StartedCall, value: Value, secret: bool, goes_on: bool
    ) -> None:
        """Compute the digest of a call with large arguments, store its result if that is large, and
        write its row."""
        call = await asyncio.to_thread(self._rows.with_digest, call)
        await self.store(self._rows.judge(call, value, None, secret), goes_on)

    async def stored(self, outcome: Outcome) -> Outcome:
        """The outcome with its large value stored, while the loop goes on."""
        if not self._is_for_parts(outcome):
            return outcome
        return await asyncio.to_thread(self._rows.store, outcome)

    async def _store_behind(self, outcome: Outcome, snapshot_of_value: CopyToStore) -> None:
        """Store a value in the background, and write its row and then the held rows."""
        is_durable = False
        why = "an earlier result could not be written"
        try:
            outcome = await asyncio.to_thread(self._rows.store, outcome, snapshot_of_value)
            is_durable = await self._write(outcome, self._out.writer)
        except BaseException as error:
            why = describe_exception(error)
            raise
        finally:
            if is_durable:
                self._out.release()
            else:
                self._out.fail(JournalError("journal.unwritable", why))

    async def before(self) -> None:
        """Wait until no value is being stored in the background. Raises the errors of that work."""
        while self._behind is not None:
            behind = self._behind
            await asyncio.shield(behind)
            if self._behind is behind:
                self._behind = None

    async def all(self) -> None:
        """Wait until nothing is being stored."""
        while running := self._running():
            await asyncio.wait(running)

    def _running(self) -> set[asyncio.Future[None]]:
        tasks = (*self._tasks, self._behind)
        return {task for task in tasks if task is not None and not task.done()}
