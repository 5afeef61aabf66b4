"""`ServedRuns`, which starts, finds, answers and cancels the runs of a server, within a limit."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace

from ...catalog import Registry
from ...engine.run_options import RunOptions
from ...flow.flow import Flow
from ...lifecycle.launch.launch import start_run
from ...lifecycle.past.cancelled import cancel_past_run
from ...lifecycle.past.past_run import PastRun, find_past_run
from ...lifecycle.past.past_runs import runs
from ...lifecycle.past.resume import resume_run
from ...lifecycle.runs.run import Run, state_of
from ...limits.limits import Limits
from ...text.diagnostics import DefinitionError, Diagnostic, refused
from ...values.value import Value
from .envelopes import Envelope, asks, ended, started
from .served_run import ServedRun

MOST_RUNNING = 8
"""Runs of a server at the same time."""
BY_CLIENT = "a client of the MCP server cancelled it"
"""The reason of a cancellation, in the error of the run."""
MOST_WAITING = 100
"""Calls that wait until a run has ended; further calls are refused."""


class ServedRuns:
    """The runs of one server. All methods run on the loop of the server."""

    def __init__(
        self,
        flows: Iterable[Flow],
        registry: Registry,
        most: int = MOST_RUNNING,
        most_waiting: int = MOST_WAITING,
        limits: Limits | None = None,
    ) -> None:
        """``limits``: the limits of each run; None: the limits of the settings."""
        self.flows = {flow.name: flow for flow in flows}
        self._registry = registry
        self._limits = limits
        self._most = most
        self._most_waiting = most_waiting
        self._running: dict[str, ServedRun] = {}
        """The runs that have begun and not ended, by their ids."""
        self._starting = 0
        """The runs that are being started, and the calls whose turn has come."""
        self._waiting: list[asyncio.Future[None]] = []
        """The calls that wait for their turn, in the order in which they came."""

    async def start(self, name: str, input: Value) -> ServedRun:
        """Start a flow as soon as fewer than the most runs are running. Raises DefinitionError if
        too many calls wait, or if the flow cannot run with this input."""
        await self._turn()
        return await self._begin_new(name, input)

    async def launch(self, name: str, input: Value) -> ServedRun:
        """Start a flow now. Raises DefinitionError ``mcp.busy`` if too many runs are running."""
        self._need_room()
        return await self._begin_new(name, input)

    async def state(self, run_id: str) -> Envelope:
        """The state of a run. A run that the end of its process interrupted is resumed, because the
        caller wants its result."""
        if (served := self._running.get(run_id)) is not None:
            question = served.open_question.current
            return asks(run_id, question) if question is not None else started(run_id)
        run = await self.find_run(run_id)
        if run.status in ("pending", "running"):
            return started(run_id)
        if run.status == "interrupted":
            self._need_room()
            await self._begin(lambda options: resume_run(run_id, None, options))
            return started(run_id)
        return await asyncio.to_thread(ended, run)

    async def answer(self, run_id: str, answer: Value) -> Envelope:
        """Answer the question of a run. A run that waits in the journal is resumed with the
        answer."""
        served = self._running.get(run_id)
        if served is not None and served.open_question.current is not None:
            served.open_question.answer(answer)
            return started(run_id)
        run = await self.find_run(run_id)
        if isinstance(run, Run) and not run.done:  # from an earlier server of this process
            await asyncio.to_thread(run.answer, answer)
        elif run.status in ("waiting", "interrupted"):
            self._need_room()
            await self._begin(lambda options: resume_run(run_id, None, options), answer)
        else:
            message = f"run {run_id!r} asks nothing now"
            raise refused("run.no-question", message, "run_result tells its state")
        return started(run_id)

    async def cancel(self, run_id: str) -> Envelope:
        """Cancel a run and wait for its end. A run that waits in the journal, or was interrupted, ends
        there; a run that has ended stays as it is."""
        run = await self.find_run(run_id)
        if isinstance(run, Run) and not run.done:
            run.cancel(BY_CLIENT)
            await asyncio.to_thread(run.wait)
        elif isinstance(run, PastRun) and run.status in ("waiting", "interrupted"):
            run = await asyncio.to_thread(cancel_past_run, run_id, BY_CLIENT)
        elif run.status in ("pending", "running"):
            message = f"run {run_id!r} is running in another process"
            raise refused("journal.running", message, "cancel it there")
        return await asyncio.to_thread(ended, run)

    def served(self, run_id: str) -> ServedRun | None:
        """A run that is running here."""
        return self._running.get(run_id)

    async def settle(self, seconds: float) -> None:
        """Wait until the runs that were cancelled have ended, at most ``seconds``."""
        ends = [
            served.ended
            for served in self._running.values()
            if served.run is not None
            and served.ended is not None
            and state_of(served.run).cancel_reason
        ]
        if ends:
            await asyncio.wait(ends, timeout=seconds)

    # --- the limit of runs ---

    @property
    def _count(self) -> int:
        return len(self._running) + self._starting

    def _need_room(self) -> None:
        if self._count >= self._most:
            raise refused("mcp.busy", *self._busy("call run_result until one of them has ended"))

    def _busy(self, how: str) -> tuple[str, str]:
        return f"the server has {self._count} runs at once, which is its limit", how

    async def _turn(self) -> None:
        """Wait until there is room for one more run; first come, first served."""
        if self._count < self._most:
            return
        if len(self._waiting) >= self._most_waiting:
            raise refused("mcp.busy", *self._busy(f"{len(self._waiting)} calls wait: try later"))
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._starting -= 1
                self._call_next()
            raise
        finally:
            if turn in self._waiting:
                self._waiting.remove(turn)
        self._starting -= 1  # `_begin` counts it from here, without a turn of the loop in between

    def _call_next(self) -> None:
        """Let waiting calls begin, as many as there is room for."""
        while self._waiting and self._count < self._most:
            turn = self._waiting.pop(0)
            if not turn.done():
                self._starting += 1
                turn.set_result(None)

    # --- one run ---

    async def _begin_new(self, name: str, input: Value) -> ServedRun:
        flow = self.flows[name]
        return await self._begin(
            lambda options: start_run(flow, input, replace(options, limits=self._limits))
        )

    async def _begin(self, start: Callable[[RunOptions], Run], answer: Value = None) -> ServedRun:
        """Start a run. If the caller is cancelled meanwhile, the run counts until it has ended."""
        self._starting += 1
        starting = asyncio.ensure_future(self._started(start, answer))
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            starting.add_done_callback(_cancel_started)
            raise

    async def _started(self, start: Callable[[RunOptions], Run], answer: Value) -> ServedRun:
        """The run that ``start`` starts, watched from its first event to its end."""
        served = ServedRun()
        options = RunOptions(
            registry=self._registry,
            background=True,
            ask=served.open_question.ask,
            on_event=served.listen,
            answer=answer,
        )
        try:
            # On a thread: linking and the journal take time.
            run = await asyncio.to_thread(start, options)
            self._running[run.run_id] = served
            served.begin(run, lambda: self._over(run.run_id, served))
            return served
        finally:
            self._starting -= 1
            self._call_next()

    def _over(self, run_id: str, served: ServedRun) -> None:
        if self._running.get(run_id) is served:
            del self._running[run_id]
        self._call_next()

    async def find_run(self, run_id: str) -> Run | PastRun:
        """A run that this server has started, in this process or before. Raises DefinitionError
        ``journal.unknown-run`` for any other."""
        run: Run | PastRun | None = None
        with suppress(DefinitionError):
            run = await asyncio.to_thread(runs, run_id)
        # A person may write the beginning of an id. An agent has the whole id, or has made it up.
        if run is None or run.run_id != run_id or run.name not in self.flows:
            hint = "the id is in the result of run_pipeline_async"
            raise DefinitionError(
                Diagnostic("journal.unknown-run", f"there is no run {run_id!r}", hint=hint)
            )
        # The journal knows whether a run that has ended here was answered or cancelled since.
        if isinstance(run, Run) and run.journal is not None and run.status == "waiting":
            return await asyncio.to_thread(find_past_run, run_id)
        return run


def _cancel_started(starting: asyncio.Future[ServedRun]) -> None:
    """Cancel a run whose client has gone while it was started."""
    if not starting.cancelled() and starting.exception() is None:
        run = starting.result().run
        assert run is not None, "it was started"
        run.cancel("the client of the MCP server has gone")
