"""Runs a flow without calls: recorded outcomes replace all calls of user code and models.

The journal of such a run provides an outcome for each call and writes nothing. The host refuses a
call without an outcome, and all calls of a background flow, which has no journal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, NoReturn

from ...catalog.models.model import Model
from ...engine.host.apart import run_apart
from ...engine.host.host import Host, NoUser
from ...engine.linking.linked import Linked
from ...engine.run import run
from ...engine.run_options import RunOptions
from ...engine.runner import Shape
from ...engine.shapes.step_functions import SHAPES
from ...engine.threads.user_code import Result
from ...flow.progress import events as ev
from ...flow.progress.question import Question
from ...flow.protocols import FlowInput, Frame
from ...flow.step import Step
from ...flow.steps import Invoke
from ...journal.calls.reuse import ReusedResult
from ...journal.calls.started_call import StartedCall
from ...journal.records.recorded_outcomes import EarlierOutcomes
from ...journal.records.records import CallKey, Record
from ...journal.run_journal import Journal
from ...journal.secrets.masking import Secrets
from ...limits.grants import Grant, granted
from ...limits.limits import Limits
from ...text.diagnostics import Diagnostic, StepError
from ...values.sequences import source_of
from ...values.tables.data_frames import FrameRows
from ...values.tables.files import FileRows
from ...values.tables.tables import Picked
from ...values.value import Value

LONGEST_EVALUATION = 10.0
"""Seconds that an evaluation without calls may take."""

MOST_RECORDS = 200_000
"""Journaled calls that are read, of the newest runs first."""

MOST_CHARACTERS = 200_000_000
"""Characters of the values of these calls, all of which are in memory."""

PLAIN = frozenset({str, bytes, list, tuple, range})
"""The types of values that have no code of a user."""


def refuse_call(*_: object, **__: object) -> NoReturn:
    """Stands for a function that must not be called. No user sees the error that it raises."""
    message = "the result of this call is not known, and nothing is called here"
    raise StepError(Diagnostic("offline.call", message))


class OfflineHost(Host):
    """A host that calls nothing."""

    async def make_call(self, *_: Any, **__: Any) -> Result:
        refuse_call()

    async def call(
        self, place: Any, function: Any, arguments: Any, timeout: float | None = None
    ) -> Result:
        """Make one of the engine's own calls: to read an attachment or the elements of a sequence.
        The library of a model is not opened, because no recorded reply needs it."""
        # Opening a library takes seconds, and the replies are recorded.
        if isinstance(getattr(function, "__self__", None), Model):
            return True, None
        # Reading any other value runs code of its class.
        if not all(map(_is_plain, arguments.values())):
            refuse_call()
        try:
            return True, function(**arguments)
        except Exception as error:  # a file that is gone
            return False, error

    async def ask(self, question: Question, is_busy: bool = False) -> Result:
        return False, NoUser()


def _is_plain(value: Value) -> bool:
    source = source_of(value)
    if type(source) is Picked:  # `--limit`, `--sample` and `--repeat` pick rows of a table
        source = source.source
    return type(source) in PLAIN or isinstance(source, FrameRows | FileRows)


class OfflineJournal(Journal):
    """A journal that returns recorded outcomes and writes nothing."""

    def __init__(self, most: int, run_id: str, earlier: EarlierOutcomes | None = None) -> None:
        super().__init__(None, 0, run_id, most, earlier)
        self.close()

    async def start(self, emit: Callable[[ev.Event], None]) -> None:
        self.emit = emit

    def end(
        self, status: str, output: Value, stores: Mapping[str, Value], error: BaseException | None
    ) -> None:
        """Do nothing: the end of this evaluation is not the end of the recorded run."""

    def write_reused(self, call: StartedCall, result: ReusedResult) -> Value:
        return result.value

    async def fire_once(self, step: Invoke, callee: object, key: CallKey, given: Any) -> bool:
        return False


def run_offline(
    linked: Linked,
    flow_input: FlowInput,
    journal: OfflineJournal,
    *,
    emit: Callable[[ev.Event], None],
    limits: Limits,
    grant: Grant,
    secrets: Secrets | None = None,
    on_frame: Callable[[Frame], None] | None = None,
    shapes: Mapping[type[Step], Shape] = SHAPES,
) -> BaseException | None:
    """Run ``linked`` on a separate thread and loop, for at most `LONGEST_EVALUATION`, and return
    its error or None. The other parameters are those of `engine.run.run`."""
    # A definition may loop without a call: nothing else would end it here.
    seconds = min(LONGEST_EVALUATION, limits.timeout or LONGEST_EVALUATION)

    async def main() -> None:
        # The context variables of a new thread are empty, and without a grant every tool is
        # allowed.
        granted.set(grant)
        await run(
            linked,
            flow_input,
            RunOptions(limits=replace(limits, timeout=seconds)),
            host=OfflineHost(),
            emit=emit,
            journal=journal,
            secrets=secrets,
            on_frame=on_frame,
            shapes=shapes,
        )

    return run_apart(main)


class Bounded:
    """Passes records on, up to `MOST_RECORDS` records or values of `MOST_CHARACTERS` in total."""

    def __init__(self) -> None:
        # What may still be read.
        self._calls, self._characters = MOST_RECORDS, MOST_CHARACTERS
        self.note = ""
        """The reason why records are missing; empty: no record is missing."""

    def read(self, records: Iterable[Record]) -> Iterator[Record]:
        """``records``, up to the bound."""
        for record in records:
            texts = filter(None, (record.arguments.text, record.result.data, record.result.shown))
            self._calls -= 1
            self._characters -= sum(map(len, texts))
            if min(self._calls, self._characters) < 0:
                most = f"{MOST_RECORDS:,} calls, or {MOST_CHARACTERS:,} characters"
                self.note = f"only the first {most}, are read"
                return
            yield record
