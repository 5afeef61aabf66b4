"""The journal rows of one run's calls: a call that starts, its outcome, and marks.

Arguments and results are made texts or signed pickles here, masked, and judged: what cannot be kept
says why. Large parts of arguments are stored once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from ...catalog import MASK, Agent, Tool
from ...flow.steps import Invoke
from ...limits.grants import Grant
from ...text.diagnostics import StepError
from ...values.large import LargeValues
from ...values.value import Value
from ..codec.encoding import PICKLED, EncodedValue, json_text, preview, to_show
from ..codec.fingerprints import (
    CONTENTS,
    NEVER,
    Checksums,
    Fingerprint,
    Print,
    fingerprint,
    is_same_print,
    print_of,
)
from ..codec.identities import Identities
from ..codec.json_texts import encode
from ..codec.pickles import is_data
from ..codec.same_values import essence
from ..codec.secret_search import HoldsSecret, Search, Searches
from ..codec.sharing import shared_kind
from ..codec.signatures import row_crc, sign, user_key
from ..codec.snapshots import Held, snapshot
from ..database.store import ADD
from ..records.failures import error_json
from ..records.records import WITH_DIGEST, CallKey
from ..secrets.masking import HELD, NOTHING, Received, Secrets, hide
from .argument_pieces import LARGE, ArgumentPieces
from .changed_objects import CALL, Watched
from .digest import CallDigest, DigestedCall, LateDigest
from .known_objects import KnownObjects, is_knowable
from .large_results import LargeResults, NotStored

Cells = tuple[Any, ...]

Insert = tuple[str, Cells]
"""The statement that adds a record, and its cells."""

NO_VALUE = EncodedValue("json", None)

CHANGED = "the call changed its arguments, which later steps share"

CHANGED_RESULT = "the call changed an object that an earlier call returned"

UNKNOWN = "nobody can tell whether it changed its argument of the type {}, which later steps share"

SHARED = "it shares an object of the type {} with the arguments, which later steps may change"

QUICKER_TO_MAKE = "it is quicker to make than to store"

MASKED = encode(MASK)
"""What is shown of a value that has a secret."""

LONGEST_JSON = 1 << 30
"""Characters of a value with a secret that is compared as JSON."""

ROW = "row"
"""The kind of the record of a row of a table."""

REPEATED = frozenset({"tool", "transform", ROW})
"""The kinds of calls that a resumed run makes again if that is quicker than storing what they return.
A reply of a model is always stored."""

NO_KEY = "you have no key to sign it with"


class StartedCall(NamedTuple):
    """A call that has not ended."""

    key: CallKey
    kind: str
    name: str
    started: float
    arguments: str | None
    """As JSON, without secrets."""
    whole: int
    """0: ``arguments`` is a preview; 1: it is complete; `IN_PIECES`."""
    digest: bytes | None = None
    contents: str | None = None
    """The digest of its arguments alone: see `DigestedCall`."""
    watched: Watched | None = None
    """The objects that its function names, which it may change."""
    received: Received = NOTHING
    objects: Fingerprint | None = None
    """The arguments that are no JSON: the callee may change these for all later steps."""
    is_effect: bool = False
    """Whether the call must not be repeated."""
    late: LateDigest | None = None
    """What its digest is made of when it has ended."""
    began: float = 0.0
    """When it started, by the monotonic clock."""
    is_apart: bool = False
    """Whether a worker makes it, which gets copies."""

    @property
    def arguments_stored(self) -> tuple[str | None, int]:
        """The arguments and their ``whole``, as the row has them."""
        if not self.whole and self.contents is not None:
            return f"{self.contents} {self.arguments}", WITH_DIGEST
        return self.arguments, int(self.whole)  # in a checksum, True is another value than 1

    @property
    def argument_objects(self) -> list[Any]:
        """The arguments that are no JSON, and the objects of this kind in them."""
        return self.objects.objects if self.objects is not None else []

    @property
    def checksums(self) -> Checksums:
        """Those of the moment in which it has ended."""
        return self.objects.checksums if self.objects is not None else Checksums()

    @property
    def why_again(self) -> str:
        """Why a resumed run has to make the call again: it changed an object that later steps
        share, or nobody can tell. Empty: it did not."""
        if self.objects is None:
            return ""
        if self.objects.differs():
            return CHANGED
        unknown = self.objects.unknown
        # What must not be repeated is better kept.
        return UNKNOWN.format(unknown) if unknown and not self.is_effect else ""


class Outcome(NamedTuple):
    """How a call has ended. A large value is stored after that: `CallRows.store`."""

    call: StartedCall
    value: Value
    packed: EncodedValue = NO_VALUE
    error: str | None = None
    """Its failure as JSON."""
    why: str = ""
    """Why a resumed run has to make the call again."""
    must_be_stored: bool = False
    """Whether the call must not be repeated, or costs money."""
    line: int | None = None
    """The number of its row; None: the next one."""
    ended: float | None = None
    """When it ended, in seconds since 1970; None: now."""

    @property
    def is_for_parts(self) -> bool:
        """Whether the value is to be stored as parts."""
        return self.packed.is_large and not self.why


class CallRows:
    """Makes the rows of one run."""

    def __init__(
        self,
        run_id: str,
        most: int,
        next_line: Callable[[], int],
        not_stored: Callable[[StartedCall, str | None], None],
        keep: Callable[[str, str], None],
    ) -> None:
        """``most``: bytes of one value, at most. ``not_stored``: called for a result that is not
        stored, and why. ``keep``: called for the digest and the text of a large part of arguments,
        before the row that needs it."""
        self.run_id, self.most = run_id, most
        self.secret = Secrets()
        self.objects = KnownObjects()
        self.results: LargeResults | None = None
        """What stores large results; None: these are not stored."""
        self.unstorable: dict[CallKey, str] = {}
        """Why the results of calls that must not be repeated could not be stored."""
        self.digests = CallDigest(most, self.objects.digest)
        self.identities = Identities()
        self.large = LargeValues()
        self.next_line = next_line
        self._not_stored = not_stored
        self._keep = keep
        self._kept: set[str] = set()
        self._searches = Searches()
        self._key: bytes | None = None

    def start(
        self,
        step: Invoke,
        callee: object,
        key: CallKey,
        arguments: Any,
        tools: Mapping[str, Tool] | None,
        grant: Grant,
    ) -> StartedCall:
        """A call that is about to be made: see `Journal.start_call`."""
        received, complete, masked = NOTHING, None, True
        # Nothing is masked: then large parts are stored once.
        is_plain = type(callee) is Agent or (type(callee) is Tool and not callee.secret)
        if tools is not None and is_plain and not self.secret.active:
            text, whole = self.arguments_text(arguments)
            # A key of the environment is in the arguments: then they are masked as all others.
            masked = self.secret.surrounds(text)
            complete = text if whole else None
        if masked:
            shown = arguments
            if isinstance(callee, Tool) and callee.secret:
                received = self.secret.receive(callee, arguments)
                # Hidden by name before anything is searched: a short secret cannot be found by its
                # value.
                shown = hide(arguments, callee.secret)
            text, whole, masked = self.secret.to_show(shown, self.most)
            # The outcome may contain the arguments, and so the secret in them.
            if masked:
                received = received._replace(any=True)
            # A call without a digest needs no second text of its arguments.
            if tools is not None and whole and not received.any:
                complete = self._complete(arguments)
        digested, objects = DigestedCall(), None
        # Without `tools` the call is a question or a mark, which no later run reuses.
        if tools is not None:
            if not whole:
                # Whether a call can be reused is decided by what it gets now.
                earlier = () if self.digests.is_eager else (self.objects.last_seen,)
                objects = fingerprint(arguments, *earlier)
            digested = self.digests.of(
                step, callee, arguments, complete, tools, grant, received.any
            )
        name = getattr(callee, "name", step.name.text)
        whole = 0 if received.any else int(whole)
        is_effect = isinstance(callee, Tool) and not callee.reuse
        digest, watched, late, contents = digested
        started = StartedCall(key, step.kind, name, time.time(), text, whole, digest, contents)
        started = started._replace(watched=watched, received=received, objects=objects)
        return started._replace(is_effect=is_effect, late=late, began=time.monotonic())

    def arguments_text(self, arguments: Any) -> tuple[str, int]:
        """Arguments as JSON and their ``whole``. Their large parts are kept once."""
        if not self.large.has_fresh:
            text, whole = to_show(arguments, self.most)
            if not whole or len(text) < LARGE:
                return text, int(whole)
        pieces = ArgumentPieces(self.most, self.large.fresh)
        whole = pieces.add(arguments)
        # The caller masks arguments that have a secret, which it finds in a whole text.
        if not whole or any(map(self.secret.surrounds, pieces.large.values())):
            text, whole = to_show(arguments, self.most)
            return text, int(whole)
        for digest, text in pieces.large.items():
            if digest not in self._kept:
                self._kept.add(digest)
                self._keep(digest, text)
        for value, digest, size in pieces.known:
            value.stored, value.size, value.text = digest, size, None
        return pieces.text, pieces.whole

    def stores(self, stores: Mapping[str, Value]) -> str:
        """The stores at the end of the run as JSON; a list of pieces, as arguments, if calls have
        got large ones. If some are no JSON, the first piece is the list of their names: these are
        previews. Nothing is kept here: who reads the run needs all that its end refers to."""
        large = {name: self.large.known(value) for name, value in stores.items()}
        kept = {name: known.stored for name, known in large.items() if known and known.stored}
        if not kept or self.secret.active:
            kept = {}
            whole = self.secret.to_show(stores, self.most)
            if whole.whole:
                return whole.text
        pieces = [""]
        before = "{"
        previews = list[str]()
        room = self.most
        for name, value in stores.items():
            pieces[-1] += f"{before}{encode(name)}:"
            before = ","
            if name in kept:
                pieces += kept[name], ""
                continue
            written = self.secret.to_show(value, room, is_named=False)
            if not written.whole:
                previews.append(name)
            room = max(0, room - len(written.text))
            pieces[-1] += written.text
        pieces[-1] += "}"
        return encode([previews, *pieces] if previews else pieces)

    def _complete(self, arguments: Any) -> str:
        """What `arguments_text` returns, for the digest of a call whose arguments may have to be
        masked: nothing is kept."""
        pieces = ArgumentPieces(self.most, lambda value: None)
        return pieces.text if pieces.add(arguments) else encode(arguments)

    def reused(self, call: StartedCall, value: Value) -> Insert:
        """The row of a call whose result in another run is reused."""
        self.not_made(call)
        packed = self.stored(value, self.secret.pack(value, self.most, call.received))
        if packed.form == "again":
            self._not_stored(call, packed.why)
        elif isinstance(packed.data, bytes) and not packed.is_json:
            # Another run has seen that nobody changed it.
            data = self.identities.named(value, packed.data) or packed.data
            packed = packed._replace(data=data)
        return self.outcome("finished", call, packed)

    def reused_later(self, call: StartedCall, data: bytes, shown: str | None) -> Insert:
        """The row of a call whose result in another run is reused, and not read yet."""
        self.not_made(call)
        return self.outcome("finished", call, EncodedValue("parts", data, shown))

    def not_made(self, call: StartedCall) -> None:
        """A call that was about to be made is not made."""
        if call.watched is not None:
            self.digests.objects.not_made(call.watched)

    def ended(
        self,
        call: StartedCall,
        value: Value,
        error: StepError | None = None,
        secret: bool = False,
    ) -> Insert:
        """The row of a call that has returned, or has failed, and whose value is stored here.
        ``secret``: the value is one."""
        outcome = self.judge(call, value, error, secret)
        return self.settle(self.store(outcome) if outcome.is_for_parts else outcome)

    def judge(
        self, call: StartedCall, value: Value, error: StepError | None, secret: bool = False
    ) -> Outcome:
        """The outcome of a call that has returned, or has failed."""
        was_late = call.late is not None
        call = self.with_digest(call) if error is None and self.has_late_digest(call) else call
        if call.watched is not None and (call.digest is not None or was_late):
            seen = self.digests.objects.after(call.watched)
            is_known = call.digest is not None and seen is not None
            digest = (call.digest or b"")[:CALL] + (seen or b"") if is_known else None
            call = call._replace(digest=digest)
        call = self._without_look(call) if call.is_apart else call
        if error is not None:
            return Outcome(call, None, error=error_json(error, self.secret))
        if secret:
            self.secret.returned(value)
        packed = self.secret.pack(value, self.most, call.received, secret)
        if packed.why == HELD and not secret:
            packed = packed._replace(data=self._keyed(call.key, value))
        # The steps after it share the object, and a stored result would not have changed it again.
        why = call.why_again
        argument_objects = call.argument_objects
        for each in argument_objects:
            assert call.objects is not None
            self.objects.note_seen(each, call.objects.after(each), call.objects.looked_at)
        if why == CHANGED:
            for each in argument_objects:
                self.identities.changed(each)
        must_be_stored = call.is_effect or call.kind not in REPEATED
        if packed.is_large and not (must_be_stored or self._pays(call, value, packed.size)):
            packed = packed._replace(is_large=False, why=QUICKER_TO_MAKE)
            # Pickling other objects may take longer than making them.
            if is_data(value) and not self.secret.active:
                now = self._look(call, value, call.checksums)
                packed = packed._replace(data=now.contents if now is not None else None)
        is_pickled = packed.form == "pickle" or (packed.is_large and not packed.is_json)
        if not why and argument_objects and is_pickled:
            kind = shared_kind(self.identities.new_in(value), argument_objects)
            why = SHARED.format(kind) if kind else ""
        outcome = Outcome(call, value, packed, None, why, must_be_stored)
        if call.objects is not None and not outcome.is_for_parts:
            call.objects.checksums.clear()
        return outcome

    def _without_look(self, call: StartedCall) -> StartedCall:
        """A call on a worker without its arguments, which it cannot have changed; with them if its
        digest has needed a look at them: somebody here may have changed them meanwhile."""
        if call.objects is None or call.objects.looked_at > NEVER:
            return call
        for each, before in call.objects.before:
            if self.objects.last_seen(each) is None:
                self.objects.note_seen(each, before)
        return call._replace(objects=None)

    def _pays(self, call: StartedCall, value: Value, size: int) -> bool:
        """Whether it is worth to store what a call returned: else it is quicker to make it again."""
        # A table is read from its rows, and reading makes no call.
        if call.kind == ROW or self.takes_long(call.began, size):
            return True
        now = call.objects.after(value) if call.objects is not None else None
        return not self.secret.active and self.objects.stored_data(value, now) is not None

    def takes_long(self, began: float, size: int) -> bool:
        """Whether what began at ``began`` has taken longer than so many bytes take to be stored."""
        return self.results is not None and time.monotonic() - began >= size / self.results.rate

    def has_late_digest(self, call: StartedCall) -> bool:
        """Whether the digest of a call that has ended is still to be made: the digests of its data are
        known, or it took longer than these take."""
        if call.late is None:
            return False
        is_known = all(map(self.objects.was_known, call.late.data.values()))
        return is_known or self.takes_long(call.began, call.late.size)

    def with_digest(self, call: StartedCall) -> StartedCall:
        """A call that has ended, with its digest. On any thread."""
        assert call.late is not None, "`has_late_digest` has said so"
        if call.objects is None:  # bytes, which nobody changes
            digested = self.digests.digest_late(call.late)
        else:
            digested = self.digests.digest_late(call.late, partial(self._after, call, call.objects))
        return call._replace(digest=digested.digest, contents=digested.contents, late=None)

    def _after(self, call: StartedCall, objects: Fingerprint, value: Value) -> Print | None:
        """The fingerprint of an argument after the call. A worker has a copy from its beginning: a
        look of another call since then is enough."""
        seen = self.objects.seen_since(value, call.began) if call.is_apart else None
        for each, before in objects.before if seen is not None else ():
            if each is value and before is not None and is_same_print(before, seen):
                return seen
        return objects.after(value)

    def held(self, outcome: Outcome) -> Held | None:
        """What is stored while the next steps go on; None: they have to wait. On any thread."""
        copy = None if outcome.must_be_stored else snapshot(outcome.value, outcome.packed.is_json)
        return self._hold(outcome, copy[0]) if copy is not None else None

    def store(self, outcome: Outcome, held: Held | None = None) -> Outcome:
        """The outcome with its large value stored. ``held``: default None: nobody changes it
        meanwhile. On any thread."""
        held = held or self._hold(outcome, outcome.value)
        stored = self.stored(outcome.value, outcome.packed, outcome.must_be_stored, held)
        if stored.why == HELD:
            stored = stored._replace(data=self._keyed(outcome.call.key, outcome.value, held))
        held.checksums.clear()
        return outcome._replace(packed=stored)

    def _hold(self, outcome: Outcome, copy: Value) -> Held:
        """What is stored of a result, with what is known of it now."""
        value, checksums = outcome.value, outcome.call.checksums
        is_looked_at = is_knowable(value) or not outcome.packed.is_json
        now = self._look(outcome.call, value, checksums) if is_looked_at else None
        return Held(copy, now, checksums)

    def _look(self, call: StartedCall, value: Value, checksums: Checksums) -> Print | None:
        """The fingerprint of what a call has returned: a call that gets it needs no look before."""
        now = call.objects.after(value) if call.objects is not None else None
        now = now or print_of(value, checksums)
        self.objects.note_seen(value, now)
        return now

    def stored(
        self,
        value: Value,
        packed: EncodedValue,
        fills: bool = False,
        held: Held | None = None,
    ) -> EncodedValue:
        """A large value with its parts stored; another one as it is. By default it must not fill the
        disk, and what is stored (``held``) is the value as it is now."""
        if not packed.is_large or self.results is None:
            return packed
        copy, now, checksums = held or Held(value, None, Checksums())
        # A secret that the run has received is searched each time.
        data = None if self.secret.active else self.objects.stored_data(value, now)
        try:
            if data is None:
                data = self.results.store(copy, self._search(), fills, checksums)
                self.objects.note_stored(value, data, now)
        except HoldsSecret:
            return EncodedValue("again", None, MASKED, HELD)
        except NotStored as error:
            why = self.secret.text(str(error))
            return packed._replace(is_large=False, why=why, is_refused=True)
        return packed._replace(form="parts", data=data, why=None, is_large=False)

    def _keyed(self, key: CallKey, value: Value, held: Held | None = None) -> bytes | None:
        """What tells whether a value that has a secret is another one when its call is made again; None:
        nothing does. ``held``: what is known of it.

        It is made with the user's key, of which a guess of the secret knows nothing, and of the place
        of the call: the same value elsewhere has other bytes."""
        self._key = self._key or user_key()
        if self._key is None:
            return None
        text = json_text(value, LONGEST_JSON)
        if text is not None:
            halves = [b"", essence(EncodedValue("json", text)).digest]
        else:
            now = held.now if held is not None and held.now is not None else print_of(value)
            contents = now.contents if now is not None else None
            if contents is None:
                return None
            halves = [contents[:CONTENTS], contents[CONTENTS:]]
        place = ("held", self.run_id, encode(key.at), key.tries)
        return b"".join(sign(self._key, *place, half)[:CONTENTS] for half in halves)

    def _search(self) -> Search:
        """A search for the secrets that are known now."""
        searched = self.secret.searched
        return self._searches.search(searched.raws, bool(searched.numbers))

    def settle(self, outcome: Outcome) -> Insert:
        """The row of a call, when its value is stored."""
        call, value, packed, error, why, _, line, ended = outcome
        if error is not None:
            return self.outcome("failed", call, NO_VALUE, error)
        is_object = packed.form in PICKLED and not packed.is_json
        if not why and is_object and isinstance(packed.data, bytes):
            data = self.identities.named(value, packed.data, call.argument_objects)
            why, packed = "" if data is not None else CHANGED_RESULT, packed._replace(data=data)
        if why:
            packed = EncodedValue("again", None, packed.shown or encode(preview(value)), why)
        if packed.is_refused and outcome.must_be_stored:
            self.unstorable[call.key] = packed.why or ""
        elif packed.form == "again" and packed.why != QUICKER_TO_MAKE:
            self._not_stored(call, packed.why)
        elif type(packed.data) is str and len(packed.data) >= LARGE and not self.secret.active:
            self.large.learn(value, packed.data)
        return self.outcome("finished", call, packed, ended=ended, line=line)

    def outcome(
        self,
        what: str,
        call: StartedCall,
        packed: EncodedValue = NO_VALUE,
        error: str | None = None,
        ended: float | None = None,
        line: int | None = None,
    ) -> Insert:
        """The row of a call in any case. ``packed``: its value as it is stored. ``error``: its
        failure as JSON. ``ended``: when it ended, in seconds since 1970; None: now. ``line``: the
        number of the row; None: the next one."""
        ended, signature = time.time() if ended is None else ended, None
        place, tries = encode(call.key.at), call.key.tries
        if packed.form in PICKLED and what != "answered":
            signature = self.sign(place, tries, packed.data or b"")
        # Who writes an answer, or that a call with an effect has ended, decides what is called.
        elif what == "answered" or call.is_effect:
            form, data = packed.form or "", packed.data or ""
            signature = self.sign(what, place, tries, call.digest or b"", form, data, error or "")
        # What has no signature would be believed by nobody: the call or the question is made again.
        if signature is None and (what == "answered" or packed.form in PICKLED):
            packed = EncodedValue("again", None, packed.shown, NO_KEY)
            self._not_stored(call, NO_KEY)
        return self.row(
            what,
            place,
            tries,
            call.kind,
            call.name,
            call.started,
            ended,
            *call.arguments_stored,
            packed.form,
            packed.data,
            packed.shown,
            error,
            signature,
            call.digest,
            line=line,
        )

    def row(self, *cells: Any, line: int | None = None) -> Insert:
        """A row. ``cells``: those of `COLUMNS` after the number; ``line``: the number; default None:
        the next one."""
        row = (self.next_line() if line is None else line, *cells)
        return ADD, (*row, row_crc(row))

    def mark(
        self,
        what: str,
        key: CallKey,
        name: str = "",
        shown: str | None = None,
        error: BaseException | None = None,
    ) -> Insert:
        return self.row(
            what,
            encode(key.at),
            key.tries,
            "",
            name,
            None,
            None,
            None,
            0,
            None,
            None,
            shown,
            error_json(error, self.secret) if error is not None else None,
            None,
            None,
        )

    def changes(self) -> Insert | None:
        """At the end of the run: the objects that its calls changed and no row tells; None: none."""
        entries = self.digests.objects.at_end()
        cells = ("changed", encode(["changed"]), "", "", "", *[None] * 3, 0, *[None] * 5)
        return self.row(*cells, bytes(CALL) + entries) if entries else None

    def sign(self, *parts: str | bytes) -> bytes | None:
        """The signature of parts of this run; None if the user has no key."""
        self._key = self._key or user_key()
        return sign(self._key, self.run_id, *parts) if self._key is not None else None
