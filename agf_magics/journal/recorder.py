"""What one run did, as it is kept: each call's outcome before the step that made it goes on; and taken up again.

Kept is what cannot be computed again: what user code returned or raised, what a person answered, what was started and
forgotten, and the order in which things that ran side by side ended. Expressions, choices and joins are computed again
when a run is taken up: they give the same, from the same outcomes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

from ..catalog import MASK, Tool
from ..flow.steps import Invoke
from ..flow.values import Value
from ..host.limits import ANYTHING, Grant
from ..progress import events as ev
from ..secrets.masking import NOTHING, Received, Secrets, hide
from ..serialization.codec import EncodedValue, encode, sign, user_key
from ..text.diagnostics import Diagnostic, StepError
from .errors import JournalError
from .file import checksum
from .records import Record, error_json, row_crc
from .replay import ReplayLog
from .reuse import CallDigest, Reuse
from .store import ADD, ROOM, Store

BEGIN = """INSERT INTO runs (num, run, name, language, started, status, owner, taken, lost, work, work_sign, head_crc,
state_crc, work_crc, end_crc) VALUES (?, ?, ?, ?, ?, 'running', ?, 0, 0, ?, ?, ?, ?, ?, ?)"""
END = """UPDATE runs SET form=?, output=?, shown=?, stores=?, error=?, sign=?, tree=?, end_crc=?,
status=?, ended=?, tokens=?, lost=?, state_crc=agf_checksum(num, owner, taken, ?, ?, ?, ?, ?) WHERE num=? AND owner=?"""
REOPEN = """UPDATE runs SET status='running', ended=NULL,
state_crc=agf_checksum(num, owner, taken, 'running', NULL, tokens, lost, end_crc)
WHERE num=? AND owner=? AND status='cancelled'"""


class StartedCall(NamedTuple):
    """A call that goes on: what is known of it before it ends."""

    at: ev.StepPath
    tries: str
    kind: str
    name: str
    started: float
    given: str | None
    whole: bool
    digest: bytes | None = None
    received: Received = NOTHING


class Journal:
    """The journal of one run. What is kept is kept in the order of the calls to it, so a mark is durable before
    anything that came after it."""

    def __init__(self, store: Store, num: int, run_id: str, most: int, earlier: ReplayLog | None = None) -> None:
        self.store = store
        self.num = num
        self.run_id = run_id
        self.most = most
        """Bytes a value may take."""
        self.digests = CallDigest(most)
        self.reuse: Reuse | None = None
        """What is taken over from another run; None: nothing."""
        self.earlier = earlier
        """What an earlier session of this run did; None: there was none."""
        self.broken: JournalError | None = None
        """Why nothing is kept any more."""
        self.emit: Callable[[ev.Event], None] = lambda event: None
        self._key: bytes | None = None
        self.secret = Secrets()
        self.summary: Callable[[], Any] = lambda: None
        """Gives what is to be kept of the tree at its end, as JSON."""
        self.tokens: Callable[[], int | None] = lambda: None
        """Gives what its models took by then; None: none was asked."""
        self._lost = 0
        """Calls that could not be written."""
        self._line = max(num, earlier.line if earlier is not None else 0)
        self._said: set[str] = set()
        self._ended = self._closed = self._open = False
        self._ends = threading.Lock()

    async def begin(self, emit: Callable[[ev.Event], None], name: str, language: str, work: str) -> None:
        """Keep the work order, before the first step; a run that is taken up has one."""
        self.emit = emit
        if self.earlier is not None:
            return
        num, own, started = self.num, self.store.owner.name, time.time()
        key = self._signing()
        signature = sign(key, self.run_id, "work", work) if key is not None else None
        end, work_crc = checksum(num, *[None] * 7), checksum(num, work, signature)
        head = checksum(num, self.run_id, name, language, started, work_crc)
        state = checksum(num, own, 0, "running", None, None, 0, end)
        what = (num, self.run_id, name, language, started, own, work, signature)
        await self._write(BEGIN, (*what, head, state, work_crc, end))

    def end(self, status: str, output: Value, stores: Mapping[str, Value], error: BaseException | None) -> None:
        """Keep how it ended; nobody waits for it. Tried where nothing could be kept, too: what was full may have room
        again, and a run without an end looks interrupted. Only the first end counts."""
        with self._ends:
            if self._ended:
                return
            self._ended = True
            if not self._open or status != "cancelled":
                self._end(status, output, stores, error)

    def leave_open(self) -> None:
        """The process is ending, and that has cancelled the run: then it has no end, and counts as interrupted."""
        with self._ends:
            self._open = True
            if self._ended:
                self.store.writer.later(REOPEN, (self.num, self.store.owner.name), self._break)

    def _end(self, status: str, output: Value, stores: Mapping[str, Value], error: BaseException | None) -> None:
        try:
            self.store.writer.check_place()
        except JournalError as trouble:
            self._break(trouble)
            self.tell()
        self.store.writer.later(END, self._ending(status, output, stores, error), self._not_ended)

    def close(self) -> None:
        """Write nothing more: a call was left running, and by its end somebody may have resumed the run."""
        self._closed = True

    # --- calls ---

    def recorded(self, at: ev.StepPath, tries: str) -> Record | None:
        """How this call ended, where it did in an earlier session."""
        return self.earlier.outcomes.pop((at, tries), None) if self.earlier is not None else None

    def start_call(
        self,
        step: Invoke,
        callee: object,
        at: ev.StepPath,
        tries: str,
        given: Any,
        tools: Mapping[str, Tool] | None = None,
        grant: Grant = ANYTHING,
    ) -> StartedCall:
        """A call that is about to be made; ``given`` is written down now, because user code may change it. ``tools``
        and ``grant``: what it may use, where a later run may take its outcome over."""
        shown, received = given, NOTHING
        if isinstance(callee, Tool) and callee.secret:
            received = self.secret.receive(callee, given)
            shown = hide(given, callee.secret)
        text, whole, masked = self.secret.to_show(shown, self.most)
        if masked:  # what it returns may hold what it was given
            received = received._replace(any=True)
        whole = whole and not received.any
        digest = None
        if tools is not None:
            held = text if whole else None
            digest = self.digests.of(step, callee, given, held, tools, grant, keyed=received.any)
        name = getattr(callee, "name", step.name.text)
        return StartedCall(at, tries, step.kind, name, time.time(), text, whole, digest, received)

    def returned(self, call: StartedCall, value: Value, secret: bool = False) -> Awaitable[None]:
        """Keep what a call gave, and go on when that is durable."""
        if secret:
            self.secret.returned(value)
        packed = self.secret.pack(value, self.most, call.received, secret)
        if packed.form == "again":
            self._unkept(call, packed)
        return self._keep("finished", call, packed, None)

    def raised(self, call: StartedCall, error: StepError) -> Awaitable[None]:
        """Keep that it failed."""
        return self._keep("failed", call, EncodedValue("json", None), error_json(error, self.secret))

    def has_said(self, at: ev.StepPath, tries: str) -> bool:
        """Whether what an earlier session has of this call is its own, and was not taken over from another run."""
        return self.earlier is not None and ("taken", at, tries) not in self.earlier.marks

    def answered(self, at: ev.StepPath, tries: str) -> Record | None:
        """What a person answered here, in an earlier session."""
        return self.earlier.answers.pop((at, tries), None) if self.earlier is not None else None

    def keep_answer(self, call: StartedCall, value: Value, secret: bool = False) -> Awaitable[None]:
        """Keep what a person answered: nobody is asked twice, but for what is ``secret``."""
        if secret:
            self.secret.returned(value)
        return self._keep("answered", call, self.secret.pack(value, self.most, call.received, secret), None)

    async def once(self, step: Invoke, callee: object, at: ev.StepPath, tries: str, given: Any) -> bool:
        """Whether a call that nobody waits for may be started: never twice. Durable before it starts."""
        if self.earlier is not None and ("fired", at, tries) in self.earlier.marks:
            return False
        await self._keep("fired", self.start_call(step, callee, at, tries, given), EncodedValue("json", None), None)
        return True

    def is_unknown(self, at: ev.StepPath, tries: str) -> bool:
        """Whether an earlier session began this call, which has an effect, and has no outcome of it."""
        return self.earlier is not None and (at, tries) in self.earlier.unknown

    async def begins(self, call: StartedCall) -> None:
        """Keep that a call that has an effect is about to be made, and go on when that is durable."""
        row = (self._next(), "begun", encode(call.at), call.tries, "", "", None, None, None, 0, *[None] * 6)
        await self._write(ADD, (*row, row_crc(row)))

    def mark(self, what: str, at: ev.StepPath, tries: str = "") -> None:
        """Keep that something happened; nobody waits for it."""
        if (
            self.broken is not None
            or self._closed
            or (self.earlier is not None and (what, at, tries) in self.earlier.marks)
        ):
            return
        row = (self._next(), what, encode(at), tries, "", "", None, None, None, 0, *[None] * 6)
        self.store.writer.later(ADD, (*row, row_crc(row)), self._break)

    async def _keep(self, what: str, call: StartedCall, packed: EncodedValue, error: str | None) -> None:
        ended = time.time()
        if packed.form == "pickle" and self._signing() is None:
            packed = EncodedValue("again", None, packed.shown, "this user has no key to sign it with")
            self._unkept(call, packed)

        at, value = encode(call.at), packed.data
        signature = self._signature(at, call.tries, value) if packed.form == "pickle" else None
        parts = (self._next(), what, at, call.tries, call.kind, call.name, call.started, ended, call.given,
                 int(call.whole), packed.form, value, packed.shown, error, signature, call.digest)  # fmt: skip
        if not await self._write(ADD, (*parts, row_crc(parts))):
            self._lost += 1

    def _next(self) -> int:
        """The number of the next line."""
        self._line += 1
        if self._line >= self.num + ROOM:
            self._break(JournalError("journal.full", f"{ROOM:,} lines of one run are kept, and no more can be"))
            self.tell()
        return self._line

    def _signing(self) -> bytes | None:
        self._key = self._key or user_key()
        return self._key

    def _signature(self, at: str, tries: str, data: str | bytes | None) -> bytes | None:
        assert self._key is not None
        assert data is not None
        return sign(self._key, self.run_id, at, tries, data)

    def _ending(
        self, status: str, output: Value, stores: Mapping[str, Value], error: BaseException | None
    ) -> tuple[Any, ...]:
        secret = self.secret
        secret.end()
        packed = secret.pack(output, self.most, Received(secret.active), secret.too_many)
        signature = None
        if packed.form == "pickle":
            key = self._signing()
            signature = sign(key, self.run_id, "output", "", packed.data or b"") if key is not None else None
        hides = stores if secret.too_many else secret.names
        kept = {name: MASK if name in hides else value for name, value in stores.items()}
        text = secret.to_show(kept, self.most).text
        told = error_json(error, secret) if error is not None else None
        tree = None if secret.too_many else encode(self.summary())  # then that of its calls is shown
        end = (packed.form, packed.data, packed.shown, text, told, signature, tree)
        end_crc = checksum(self.num, *end)
        state = (status, time.time(), self.tokens(), self._lost)
        return (*end, end_crc, *state, *state, end_crc, self.num, self.store.owner.name)

    # --- trouble ---

    async def _write(self, statement: str, row: Any) -> bool:
        """Whether it could be written."""
        if self.broken is not None or self._closed:
            return False
        try:
            await self.store.writer.write(statement, row)
        except JournalError as trouble:
            self._break(trouble)
            self.tell()
            return False
        return True

    def _not_ended(self, trouble: JournalError) -> None:
        self._break(trouble)
        self.store.unended[self.num] = self._lost

    def _break(self, trouble: JournalError) -> None:
        self.broken = self.broken or trouble

    def tell(self) -> None:
        """Say, once, that nothing is kept any more."""
        if self.broken is not None and self.broken.code not in self._said:
            self._said.add(self.broken.code)
            self.emit(ev.Warned(time.monotonic(), lost(self.broken)))

    def _unkept(self, call: StartedCall, packed: EncodedValue) -> None:
        id = next(str(bit) for bit in reversed(call.at) if isinstance(bit, str))
        if id not in self._said:
            self._said.add(id)
            message = f"what {call.name!r} gave in {id} is not kept: {packed.why}"
            hint = "a run that is taken up calls it again"
            self.emit(ev.Warned(time.monotonic(), Diagnostic("journal.unkept", message, None, hint, "warning")))


CURES = {
    "journal.full": "make room; until then this run cannot be taken up from here",
    "journal.unwritable": "%config AgfMagics.journal says where runs are kept; None: nowhere",
    "journal.foreign": "move it away, or say where runs are kept: %config AgfMagics.journal",
    "journal.replaced": "the next run uses the new file; what this process wrote before lies beside it",
    "journal.damaged": "move it away: the next run begins a new one",
    "journal.newer": "update agf-magics, or move the file away",
    "journal.older": "move it away, or read it with that version: the next run begins a new one",
}


def lost(trouble: JournalError) -> Diagnostic:
    """That a run goes on and is not kept."""
    return Diagnostic(trouble.code, f"this run is not kept: {trouble}", None, CURES[trouble.code], "warning")
