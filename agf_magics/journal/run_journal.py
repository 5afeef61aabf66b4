"""The journal of one run: the outcome of each call is durable before the step that made it
continues.

The journal has everything that cannot be computed again: what user code returned or raised, the
answers of persons, fire-and-forget calls, and the order in which concurrent parts ended. A resumed
run computes expressions, choices and joins again, with the same results from the same outcomes.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from ..catalog import MASK, Tool
from ..flow.progress import events as ev
from ..flow.steps import Invoke
from ..limits.grants import ANYTHING, Grant
from ..text.diagnostics import StepError
from ..values.unread import Unread
from ..values.value import Value
from .calls.call_rows import CallRows
from .calls.earlier_effects import EarlierEffects
from .calls.large_results import LargeResults
from .calls.reuse import Reuse, ReusedResult
from .calls.started_call import Outcome, StartedCall
from .codec.encoding import PICKLED, EncodedValue
from .codec.identities import bare
from .codec.json_texts import encode
from .codec.signatures import checksum
from .database.errors import JournalError
from .database.ordered_rows import OrderedRows
from .database.store import ADD_LARGE, END_RUN, REOPEN_RUN, ROOM, START_RUN, Store
from .database.writer import Writer
from .records.failures import error_json
from .records.recorded_outcomes import (
    NO_RECORDS,
    EarlierOutcomes,
    LateValue,
    LostValue,
    RecordedOutcome,
)
from .records.records import CallKey, Record, SequenceRow
from .run_warnings import RunWarnings
from .secrets.masking import Received
from .storing import Storing
from .unread_values import UnreadValues

LONGEST_ANSWER = 100_000_000
"""Bytes of an answer of a person, which is a row."""


T = TypeVar("T")


class Journal:
    """The journal of one run. Rows are written in the order of the calls to it, so a mark is
    durable before anything that comes after it."""

    effects: EarlierEffects | None = None
    """The calls with an effect that another run made for the rows that this run retries; None: it
    retries none."""

    def __init__(
        self,
        store: Store | None,
        num: int,
        run_id: str,
        most: int,
        earlier: EarlierOutcomes | None = None,
    ) -> None:
        """``store``: the file; None: the journal writes nothing (`OfflineJournal`). ``num``: the
        number of the run in the file. ``most``: the largest number of bytes of one value.
        ``earlier``: the outcomes of earlier sessions; default None: this is the first session."""
        # A journal without a store calls no method that uses it.
        self.store: Store = store.used_by(self) if store is not None else store  # type: ignore[assignment]
        self.num = num
        self.run_id = run_id
        self.most = most
        self.is_resumed = earlier is not None
        self.log = NO_RECORDS if earlier is None else earlier
        """The outcomes of earlier sessions of this run; empty for the first session."""
        if store is not None and not self.is_resumed:
            store.beginning.add(num)
        self.emit: Callable[[ev.Event], None] = lambda event: None
        self.warnings = RunWarnings(self.log, lambda event: self.emit(event))
        self.rows = self._make_rows(stores_large=store is not None and store.files is not None)
        self.out = OrderedRows(self.store.writer if store is not None else None)  # type: ignore[arg-type]
        """Takes the rows, in order."""
        self.manifest = ""
        """The manifest, which says what was run, as JSON."""
        self.heading: tuple[str, str] = ("", "")
        """The name and the language of the flow."""
        self.part: bytes | None = None
        """The digest of the last part that the manifest names; None: it names none. The journal keeps
        the part as long as the run."""
        self.reuse: Reuse | None = None
        """The results of another run; None: the run reuses none."""
        self.broken: JournalError | None = None
        """The error after which nothing is journaled; None: there was none."""
        self.summary: Callable[[], Any] = lambda: None
        """Returns the tree of the run at its end, as JSON."""
        self.used: Callable[[], tuple[int | None, str | None, int]] = lambda: (None, None, 0)
        """Returns the tokens that the models of the run used (None: it used no model), their cost
        (None: it is not known), and the number of dropped elements."""
        self.running: dict[CallKey, StartedCall] = {}
        """The calls that the loop of the run waits for, for views that show their arguments."""
        # Threads add to it, which is one step for a set.
        self._effects_inside = set[CallKey]()
        """The calls whose functions have called a tool with an effect."""
        self._lost = 0
        """The number of calls whose rows could not be written."""
        self._began = time.monotonic()
        # The lines go on after those of earlier sessions, because their order is that of the events.
        self._lines = self._lines_from(max(num, self.log.line) + 1)
        self._output: EncodedValue | None = None
        """The output of the run as it is stored; None: it is packed when the run ends."""
        self.unread = UnreadValues(self.log, self.rows, self.warnings.lost_value)
        """The values of earlier sessions that nobody has needed yet."""
        self.storing = Storing(self.rows, self.out, self._is_for_parts, self._write_stored)
        self._has_row = self.is_resumed
        """Whether the row of the run was handed to the writer."""
        self._run_ended = False
        """Whether `end` was called."""
        self._closed = False
        """Whether `close` was called."""
        self._left_open = False
        """Whether `leave_open` was called: the end of the process ended the run."""
        self._fired = False
        """Whether calls that the run does not wait for may still write."""
        self._end_lock = threading.Lock()
        """Held while the end of the run, or the exit of the process, is noted."""

    def _lines_from(self, start: int) -> Iterator[int]:
        """The numbers of rows from ``start`` on. Calls that an earlier session does not wait for may
        still write: then both sessions take their numbers from one iterator."""
        for other in self.store.users() if self.store is not None else ():
            if not isinstance(other, Journal) or other is self or other.num != self.num:
                continue
            if other.may_write and next(other._lines) >= start:
                return other._lines
        return itertools.count(start)

    def _make_rows(self, stores_large: bool) -> CallRows:
        """Create the object that makes the rows. ``stores_large``: whether large results are
        stored."""
        rows = CallRows(
            self.run_id,
            self.most,
            self.next_line,
            self.warnings.not_stored,
            self._keep_large,
            self.note_paid,
        )
        if stores_large:
            rows.results = LargeResults(self.store, self.num, rows.objects)
        if self.log.identities is not None:
            rows.identities = self.log.identities
        return rows

    async def start(self, emit: Callable[[ev.Event], None]) -> None:
        """Write the row of the run, with its manifest, before the first step. A resumed run has that
        row."""
        self.emit = emit
        if self._has_row:
            return
        self._has_row = True
        # Awaited: a call whose run is not in the file could never be resumed.
        await self.durable(self._write(START_RUN, self._start_row()), lost=0)
        if self.broken is None:
            self.store.beginning.discard(self.num)

    def end(
        self, status: str, output: Value, stores: Mapping[str, Value], error: BaseException | None
    ) -> None:
        """Write the end of the run, without waiting. Only the first end counts. It is written even if
        earlier rows could not be: a full disk may have room again, and a run without an end counts as
        interrupted."""
        with self._end_lock:
            if self._run_ended:
                return
            self._run_ended = True
            # A kernel that restarts cancels its runs, but the person has not cancelled them.
            if not self._left_open or status != "cancelled":
                self._write_end(status, output, stores, error)

    def leave_open(self) -> None:
        """Note that the process ends while the run goes on. A run that is cancelled for that reason
        counts as interrupted, as if it had no end."""
        with self._end_lock:
            self._left_open = True
            if self._run_ended:
                # The end was faster than the exit of the process: take it back.
                self.store.writer.later(
                    REOPEN_RUN, [(self.num, self.store.owner.name)], self._break
                )

    def _write_end(
        self, status: str, output: Value, stores: Mapping[str, Value], error: BaseException | None
    ) -> None:
        if self.out.is_holding:
            why = f"{self.store.path}: the run ended before its results were stored"
            self.out.fail(JournalError("journal.unwritable", why))
        # Checked although a row follows: a run whose file is gone must say so at its end.
        try:
            self.store.writer.check_place()
        except JournalError as broken:
            self._break(broken)
        self.warn_broken()
        if not self._has_row:  # it was cancelled before its first step
            self._has_row = True
            self._later(START_RUN, self._start_row(), self._break)
        if (changes := self.rows.changes()) is not None:
            self._later(*changes, self._break)
        row = self._end_row(status, output, stores, error)
        self.store.writer.later(END_RUN, [row], self._end_failed)

    def close(self) -> None:
        """Write nothing from now on, although a call is still running: the run may be resumed before
        that call ends."""
        self._closed = True

    @property
    def may_write(self) -> bool:
        """Whether rows may come: the run has not ended, or has calls that it does not wait for."""
        return not self._run_ended or self._fired

    @property
    def is_open(self) -> bool:
        return self.broken is None and not self._closed

    # --- calls ---

    def take_recorded(self, key: CallKey, reads: bool = True) -> RecordedOutcome | None:
        """Take the outcome of a call in an earlier session, which is possible once. ``reads``: whether
        its value is needed; default True."""
        try:
            outcome = self.log.take(key, reads)
        except LostValue as lost:
            self.warnings.lost_value(key, lost)
            return None
        if outcome is not None and outcome.data is not None:
            self.rows.objects.note_stored(outcome.value, bare(outcome.data))
        return outcome

    def skips_check(self, key: CallKey, arguments: Value) -> bool:
        """Whether the ``arguments`` of a call were checked in the recorded run, so that they are not
        checked again; False for every call that may be made."""
        return False

    def start_call(
        self,
        step: Invoke,
        callee: object,
        key: CallKey,
        arguments: Any,
        tools: Mapping[str, Tool] | None = None,
        grant: Grant = ANYTHING,
    ) -> StartedCall:
        """A call that is about to be made, encoded now: user code may change its ``arguments``.
        ``tools`` and ``grant``: what the callee may use, if a later run may reuse the outcome."""
        self.rows.digests.is_eager |= self.reuse is not None
        return self.rows.start(step, callee, key, arguments, tools, grant)

    def write_outcome(
        self,
        call: StartedCall,
        value: Value,
        error: StepError | None = None,
        secret: bool = False,
        alone: bool = False,
    ) -> asyncio.Future[None] | None:
        """Write the value of a call, or its failure; `durable` waits for the result. ``secret``:
        whether the value is a secret. ``alone``: whether no other call of the run can end at the same
        time, so that the row does not wait for other rows; default False for both."""
        if call.key in self._effects_inside:
            call = call._replace(is_effect=True)
        has_objects = call.objects is not None or call.late is not None
        if self.out.is_holding and has_objects:
            return self.storing.in_turn(self._write_in_turn(call, value, error, secret, alone))
        # A run that reuses results needs the digest of each result at once.
        goes_on = alone and self.reuse is None
        if error is None and self.is_open and self.rows.has_late_digest(call):
            return self.storing.in_turn(self.storing.digest_and_store(call, value, secret, goes_on))
        outcome = self.rows.judge(call, value, error, secret)
        self.warnings.compare(outcome)
        if self._is_for_parts(outcome):
            return self.storing.in_turn(self.storing.store(outcome, goes_on))
        row = self.rows.settle(outcome)
        may_be_lost = error is None and not outcome.must_be_stored
        if may_be_lost and self.out.has_room and self.is_open:
            return self.out.go_on(row, self.lose)
        return self._write(*row, alone)

    async def _write_in_turn(
        self, call: StartedCall, value: Value, error: StepError | None, secret: bool, alone: bool
    ) -> None:
        """Write an outcome after the value that is being stored. If the call got that value as an
        argument, its digest is known by then."""
        began = time.monotonic()
        await self.storing.before()
        call = call._replace(began=call.began + time.monotonic() - began)
        if self.may_write:
            await self.durable(self.write_outcome(call, value, error, secret, alone))

    async def _write_stored(self, outcome: Outcome, out: OrderedRows | Writer) -> bool:
        """Write the row of a large value. Returns whether it is durable."""
        self.warnings.compare(outcome)
        # After the end of the run another session may have resumed it, and then owns the rows.
        writes = self.may_write and self.is_open
        await self.durable(out.write(*self.rows.settle(outcome)) if writes else None)
        return writes and self.is_open

    def _is_for_parts(self, outcome: Outcome) -> bool:
        """Whether a value is to be stored as parts."""
        is_large = outcome.is_for_parts and self.rows.results is not None
        return is_large and self.is_open and self.may_write

    async def before_end(self, output: Value) -> None:
        """Wait until everything is recorded, and store the output of the run, so that `end` need not
        wait."""
        await self.storing.all()
        await self.storing.before()
        if output is not None and self.is_open:
            packed = self._pack_output(output)
            if packed.is_large:
                packed = await asyncio.to_thread(self.rows.stored, output, packed)
            self._output = packed

    def find_reused(
        self, step: Invoke, callee: object, call: StartedCall, reads: bool = True
    ) -> ReusedResult | None:
        """The result of an identical call in another run; None: there is none, and the call must be
        made. ``reads``: whether a large result is read now; default True; False: later, if
        possible."""
        if call.is_effect and self.effects is not None:
            return self.effects.take(call)
        if self.reuse is None:
            return None
        cannot_store = self.rows.results is None or not self.is_open
        # A run with a secret argument searches each stored value again, and so has to read it.
        reads = reads or self.rows.secret.active or cannot_store
        return self.reuse.take(call.digest, call.argument_objects, reads)

    def write_reused(self, call: StartedCall, result: ReusedResult) -> Value:
        """Write, without waiting, that a call takes its result from another run, and return the
        value. Nobody has to wait for the row: nothing has happened that a crash could lose, and the
        row is durable before all later rows."""
        value = result.value
        call = call._replace(digest=result.digest)
        if call.is_effect:  # without its start, a resumed run would not believe the result
            self._later(*self.rows.mark("begun", call.key), self.lose)
        if type(value) is LateValue:
            return self._write_reused_later(call, value)
        if result.data is not None and self.rows.results is not None and self.is_open:
            self.rows.results.adopt(value, bare(result.data))
        self._later(*self.rows.reused(call, value, result.pickle), self.lose)
        if not self.is_open:
            self._lost += 1
            self.warn_broken()
        return value

    def write_reused_failure(self, call: StartedCall, result: ReusedResult) -> None:
        """Write, without waiting, that a call takes its failure from another run."""
        call = call._replace(digest=result.digest)
        self._later(*self.rows.reused_failure(call, result.error), self.lose)

    def _write_reused_later(self, call: StartedCall, late: LateValue) -> Unread:
        """`write_reused` for a value that is read when somebody needs it."""
        assert self.reuse is not None, "the result comes from it"
        assert self.rows.results is not None, "`find_reused` reads the value if nothing stores it"
        unread, data = self.unread.reused(call.key, late, self.reuse.identities)
        # If this cannot be noted, the parts may be deleted with the other run. Then the call is made
        # again.
        self.rows.results.need(bare(data))
        self._later(*self.rows.reused_later(call, data, late.shown), self.lose)
        return unread

    async def write_outcomes(
        self, calls: Iterable[tuple[StartedCall, Value, StepError | None, bool]]
    ) -> None:
        """Write the outcomes of several calls, and wait until all are durable. ``calls``: each call
        with its value, its failure, and whether the value is a secret."""
        outcomes = [self.rows.judge(*call) for call in calls]
        rows = [self.rows.settle(await self.storing.stored(outcome)) for outcome in outcomes]
        written = self.out.write_all(rows, self.lose) if self.is_open else None
        # `lose` counts all rows that cannot be written, except the last row, to which `written`
        # belongs.
        await self.durable(written, lost=1 if written is not None else len(rows))
        self.warn_broken()

    def note_asked(self, key: CallKey, question: str) -> None:
        """Write, without waiting, that a person is asked, so that a later session knows the open
        question."""
        self._later(*self.rows.mark("asked", key, shown=encode(question)), self._break)

    def take_answer(self, key: CallKey, question: bytes | None = None) -> Record | None:
        """Take the answer that a person gave in an earlier session, which is possible once; None:
        there is none. ``question``: the digest of the current question, to which the answer must
        belong; default None: any."""
        records = self.log.answers.get(key, [])
        fits = (record for record in records if question in (None, record.digest))
        record = next(fits, None)
        if record is not None:
            records.remove(record)
            if not records:
                del self.log.answers[key]
        return record

    async def write_answer(self, call: StartedCall, value: Value, secret: bool = False) -> None:
        """Write the answer of a person, so that the question is not asked again. A ``secret`` answer
        is not stored."""
        if secret:
            self.rows.secret.returned(value)
        # Even an answer that is longer than other values may be is stored.
        packed = self.rows.secret.pack(value, LONGEST_ANSWER, call.received, secret)
        await self.durable(self._write(*self.rows.outcome("answered", call, packed)))

    async def fire_once(self, step: Invoke, callee: object, key: CallKey, arguments: Any) -> bool:
        """Write that a fire-and-forget call starts, and wait until that is durable. Returns False, and
        writes nothing, if an earlier session has started the call. Raises as `start_effect`."""
        if ("fired", key) in self.log.marks:
            return False
        # Set before the row is written: the call may write its outcome after the end of the run.
        self._fired = True
        await self.durable(
            self._write(*self.rows.outcome("fired", self.start_call(step, callee, key, arguments)))
        )
        self._check_written()
        return True

    async def start_effect(self, call: StartedCall) -> None:
        """Write that a call with an effect is about to be made, and wait until that is durable.

        Raises JournalError if it cannot be written: then the call must not be made, because a resumed
        run would make it again without a question."""
        await self.durable(self._write(*self.rows.mark("begun", call.key)), lost=0)
        self._check_written()
        if not call.is_effect:
            self._effects_inside.add(call.key)

    def start_effect_inside(self, key: CallKey) -> None:
        """Write that the function of a call is about to call a tool with an effect, and wait on its
        thread until that is durable. Raises as `start_effect`."""
        if key in self._effects_inside:
            return
        if self.is_open:
            # Before rows that are held, because nobody can wait for them here.
            statement, row = self.rows.mark("begun", key)
            self.store.writer.later(statement, (row,), self._break)
            self.store.flush()
        self._check_written()
        self._effects_inside.add(key)

    def had_effect(self, key: CallKey) -> bool:
        """Whether the function of a call has called a tool with an effect."""
        return key in self._effects_inside

    def _check_written(self) -> None:
        if (why := self.why_unwritten) is not None:
            raise why

    @property
    def why_unwritten(self) -> JournalError | None:
        """The error because of which a resumed run would not know what happens from now on; None:
        everything is written, or the file does not have this run, so that nobody can resume it."""
        is_broken = self.broken is not None and self.num not in self.store.beginning
        return self.broken if is_broken else None

    def mark(self, mark: str, key: CallKey, error: BaseException | None = None) -> None:
        """Write an event that is no call, without waiting, and the ``error`` that caused it. A mark
        decides what later calls get, so it is durable before their rows. ``mark``: its kind, as
        listed in `recorded_outcomes`."""
        if self.is_open and (mark, key) not in self.log.marks:
            self.out.before_next(*self.rows.mark(mark, key, error=error), self._break)

    def write_row(
        self,
        call: StartedCall,
        value: Value,
        error: StepError | None = None,
        secret: bool = False,
    ) -> None:
        """Write the outcome of a row of a table, without waiting: a row whose record is lost is
        computed again from the records of its calls."""
        self._later(*self.rows.ended(call, value, error, secret), self._break)

    def note_use(self, key: CallKey, tokens: int, cost: str | None) -> None:
        """Write, without waiting, what the models of a row of a table have used. ``cost``: US
        dollars; None: unknown."""
        self._later(*self.rows.mark("used", key, shown=encode([tokens, cost])), self._break)

    def note_taken(self, key: CallKey) -> None:
        """Write, without waiting, that the next reply of a request is that of another run, which has
        paid for it."""
        if self.is_open:
            self.out.before_next(*self.rows.mark("taken", key), self._break)

    def note_paid(self, key: CallKey, model: str, usage: Mapping[str, Any]) -> None:
        """Write, without waiting, the ``usage`` of a reply of ``model`` that no other record has,
        for the usage of the run and the limits of a later session."""
        self._later(*self.rows.mark("paid", key, model, encode({"usage": usage})), self._break)

    def compare_sequence(self, key: CallKey, sequence: SequenceRow) -> SequenceRow | None:
        """Write, without waiting, which sequence a fan-out has. Returns the row of an earlier session
        if that had a different sequence, else None."""
        earlier = self.log.sequences.get(key)
        if earlier is not None:
            return earlier if earlier.differs(sequence) else None
        self._later(
            *self.rows.mark("sequence", key, sequence.name, encode(sequence[1:])), self._break
        )
        return None

    def compare_elements(self, body: CallKey, elements: Sequence[Value], in_order: bool) -> None:
        """Note the elements of a list that may be another one in a resumed run, and forget the
        outcomes of those that are others than in an earlier session. ``body`` and ``in_order``: as
        in `EarlierOutcomes.compare_elements`."""
        if not self.rows.makes_again and not self.log.makes_again and body not in self.log.elements:
            return
        digests = self.rows.digests_of(body, elements)
        is_known = self.is_resumed and self.log.compare_elements(body, digests, in_order)
        if not is_known:
            self._later(
                *self.rows.mark("elements", body, shown=encode([in_order, digests])), self._break
            )

    def next_line(self) -> int:
        """The number of the next row. Any thread may call this."""
        line = next(self._lines)
        if line >= self.num + ROOM:
            self._break(JournalError("journal.full", f"a run can have at most {ROOM:,} rows"))
        return line

    def _start_row(self) -> tuple[Any, ...]:
        """The parameters of `START_RUN`."""
        num = self.num
        name, language = self.heading
        owner = self.store.owner.name
        started = time.time()
        work = self.manifest
        signature = self.rows.sign("work", work)
        work_crc = checksum(num, work, signature)
        head_crc = checksum(num, self.run_id, name, language, started, work_crc)
        # The columns that `_end_row` fills are empty, but have a checksum.
        form = output = shown = stores = error = sign = tree = None
        end_crc = checksum(num, form, output, shown, stores, error, sign, tree)
        # The columns of the state that `START_RUN` fills.
        pauses = "[]"
        status = "running"
        dropped = lost = 0
        ended = tokens = cost = None
        state_crc = checksum(
            num, owner, pauses, status, ended, tokens, cost, dropped, lost, end_crc
        )
        head = (num, self.run_id, name, language, started, owner, work, signature)
        return (*head, head_crc, state_crc, work_crc, end_crc, self.part)

    def _end_row(
        self, status: str, output: Value, stores: Mapping[str, Value], error: BaseException | None
    ) -> tuple[Any, ...]:
        """The parameters of `END_RUN`."""
        secret = self.rows.secret
        packed = (output is not None and self._output) or self._pack_output(output)
        is_pickle = packed.form in PICKLED
        signature = self.rows.sign("output", "", packed.data or b"") if is_pickle else None
        # The stores that feed a secret argument are masked even if no call has received the secret.
        hides = stores if secret.too_many else secret.names
        shown_stores = {name: MASK if name in hides else value for name, value in stores.items()}
        # A text with digests of large parts needs rows that may not have been written.
        may_refer = self.broken is None
        text = (
            self.rows.stores(shown_stores)
            if may_refer
            else secret.to_show(shown_stores, self.most).text
        )
        failure = error_json(error, secret) if error is not None else None
        # A view of a run without a tree shows the tree of its calls.
        tree = None if secret.too_many else encode(self.summary())
        end = (
            packed.form,
            packed.data,
            packed.shown,
            text,
            failure,
            signature,
            tree,
        )
        end_crc = checksum(self.num, *end)
        # The state (status, end, tokens, cost, dropped, lost) is needed twice: for the columns and for
        # their checksum.
        state = (status, time.time(), *self.used(), self._lost)
        where = (self.num, self.store.owner.name)
        return (*end, end_crc, *state, *state, end_crc, *where)

    def _pack_output(self, output: Value) -> EncodedValue:
        """The output as it is stored. Its ``is_large`` is True if its parts are still to be stored."""
        secret = self.rows.secret
        # From here on, a value that feeds a secret argument is masked even if no call has received
        # it.
        secret.end()
        packed = secret.pack(output, self.most, Received(secret.active), secret.too_many)
        return packed._replace(
            is_large=packed.is_large and self.rows.takes_long(self._began, packed.size)
        )

    # --- failures ---

    def _keep_large(self, digest: str, text: str) -> None:
        """Write a large part of arguments, before the row that refers to it."""
        self._later(ADD_LARGE, (self.num, digest, text), self._break)

    def _later(self, statement: str, row: Any, failed: Callable[[JournalError], None]) -> None:
        """Write a row without waiting, unless nothing is journaled any more."""
        if self.is_open:
            self.out.later(statement, row, failed)

    def _write(self, statement: str, row: Any, alone: bool = False) -> asyncio.Future[None] | None:
        """Hand a row over, and return the future that ends when it is durable; None: nothing is
        journaled any more."""
        return self.out.write(statement, row, alone) if self.is_open else None

    async def durable(
        self,
        written: asyncio.Future[None] | None,
        value: T = None,  # type: ignore[assignment]
        lost: int = 1,
    ) -> T:
        """Wait until a row is durable or cannot be written, and return ``value``. ``written``: the
        future of the row; None: it is not written. ``lost``: the number of calls that are lost if the
        row is not written; default 1."""
        if written is None:
            self._lost += lost
            self.warn_broken()
            return value
        try:
            await written
        except JournalError as error:
            self.lose(error, lost)
            self.warn_broken()
        return value

    def lose(self, error: JournalError, count: int = 1) -> None:
        """Note that the rows of ``count`` calls cannot be written."""
        self._lost += count
        self._break(error)

    def _end_failed(self, error: JournalError) -> None:
        """Note that the end of the run cannot be written."""
        self._break(error)
        # The row of the run says `running`, and its process lives, so the store must remember that
        # the run has ended.
        self.store.unended[self.num] = self._lost
        self.warn_broken()

    def _break(self, error: JournalError) -> None:
        """Journal nothing from now on, because of ``error``; the first error is kept."""
        self.broken = self.broken or error

    def warn_broken(self) -> None:
        """Warn, once, that nothing is journaled any more."""
        if self.broken is not None:
            self.warnings.not_journaled(self.broken)
