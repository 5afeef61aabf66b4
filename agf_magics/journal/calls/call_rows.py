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
    ObjectFingerprint,
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
from ..records.records import CallKey
from ..secrets.masking import HELD, NOTHING, Received, Secrets, hide
from .argument_pieces import LARGE, ArgumentPieces
from .changed_objects import CALL
from .digest import CallDigest, DigestedCall
from .known_objects import KnownObjects, is_knowable
from .large_results import LargeResults, NotStored
from .started_call import CHANGED, NO_VALUE, ROW, Outcome, StartedCall

Cells = tuple[Any, ...]

Insert = tuple[str, Cells]
"""The statement that adds a record, and its cells."""

CHANGED_RESULT = "the call changed an object that an earlier call returned"

SHARED = "it shares an object of the type {} with the arguments, which later steps may change"

QUICKER_TO_MAKE = "it is quicker to make than to store"

MASKED = encode(MASK)
"""What is shown of a value that has a secret."""

LONGEST_JSON = 1 << 30
"""Characters of a value with a secret that is compared as JSON."""

REPEATED = frozenset({"tool", "transform", ROW})
"""The kinds of calls that a resumed run makes again if that is quicker than storing what they return.
A reply of a model is always stored."""

NO_KEY = "you have no key to sign it with"


class ArgumentTexts(NamedTuple):
    """The arguments of a call as texts."""

    shown: str
    """As JSON, without secrets."""
    whole: int
    """As `StartedCall.whole`."""
    complete: str | None
    """As JSON, complete, for the digest of the call; None: they are no JSON, or it has none."""
    received: Received = NOTHING


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
        self.run_id = run_id
        self.most = most
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
        texts = self._texts_of(callee, arguments, tools is not None)
        is_secret = texts.received.any
        objects: Fingerprint | None = None
        digested = DigestedCall()
        # Without `tools` the call is a question or a mark, which no later run reuses.
        if tools is not None:
            if not texts.whole:
                # Whether a call can be reused is decided by what it gets now.
                earlier = () if self.digests.is_eager else (self.objects.last_seen,)
                objects = fingerprint(arguments, *earlier)
            digested = self.digests.of(
                step, callee, arguments, texts.complete, tools, grant, is_secret
            )
        return StartedCall(
            key=key,
            kind=step.kind,
            name=getattr(callee, "name", step.name.text),
            started=time.time(),
            arguments=texts.shown,
            whole=0 if is_secret else texts.whole,
            digest=digested.digest,
            contents=digested.contents,
            watched=digested.watched,
            received=texts.received,
            objects=objects,
            is_effect=isinstance(callee, Tool) and not callee.reuse,
            late=digested.late,
            began=time.monotonic(),
        )

    def _texts_of(self, callee: object, arguments: Any, is_digested: bool) -> ArgumentTexts:
        """The arguments of a call as texts. ``is_digested``: whether the call may have a digest."""
        complete: str | None = None
        # Nothing is masked: then large parts are stored once.
        is_plain = type(callee) is Agent or (type(callee) is Tool and not callee.secret)
        if is_digested and is_plain and not self.secret.active:
            text, whole = self.arguments_text(arguments)
            complete = text if whole else None
            # Else a key of the environment is in the arguments: they are masked as all others.
            if not self.secret.surrounds(text):
                return ArgumentTexts(text, whole, complete)
        received = NOTHING
        shown = arguments
        if isinstance(callee, Tool) and callee.secret:
            received = self.secret.receive(callee, arguments)
            # Hidden by name before anything is searched: a short secret cannot be found by its
            # value.
            shown = hide(arguments, callee.secret)
        text, is_whole, is_masked = self.secret.to_show(shown, self.most)
        # The outcome may contain the arguments, and so the secret in them.
        if is_masked:
            received = received._replace(any=True)
        # A call without a digest needs no second text of its arguments.
        if is_digested and is_whole and not received.any:
            complete = self._complete(arguments)
        return ArgumentTexts(text, int(is_whole), complete, received)

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
        call = self._as_it_ended(call, has_returned=error is None)
        if error is not None:
            return Outcome(call, None, error=error_json(error, self.secret))
        if secret:
            self.secret.returned(value)
        packed = self.secret.pack(value, self.most, call.received, secret)
        if packed.why == HELD and not secret:
            packed = packed._replace(data=self._keyed(call.key, value))
        # The steps after it share the object, and a stored result would not have changed it again.
        why = call.why_again
        if call.objects is not None:
            self._note_arguments(call.objects, is_changed=why == CHANGED)
        must_be_stored = call.is_effect or call.kind not in REPEATED
        if packed.is_large and not (must_be_stored or self._pays(call, value, packed.size)):
            packed = self._left_to_repeat(call, value, packed)
        is_pickled = packed.form == "pickle" or (packed.is_large and not packed.is_json)
        if not why and call.argument_objects and is_pickled:
            kind = shared_kind(self.identities.new_in(value), call.argument_objects)
            why = SHARED.format(kind) if kind else ""
        outcome = Outcome(call, value, packed, None, why, must_be_stored)
        if call.objects is not None and not outcome.is_for_parts:
            call.objects.checksums.clear()
        return outcome

    def _as_it_ended(self, call: StartedCall, has_returned: bool) -> StartedCall:
        """A call that has ended: with its digest, and with what is known of its objects now."""
        was_late = call.late is not None
        if has_returned and self.has_late_digest(call):
            call = self.with_digest(call)
        if call.watched is not None and (call.digest is not None or was_late):
            seen = self.digests.objects.after(call.watched)
            digest: bytes | None = None
            if call.digest is not None and seen is not None:
                digest = call.digest[:CALL] + seen
            call = call._replace(digest=digest)
        return self._without_look(call) if call.is_apart else call

    def _note_arguments(self, objects: Fingerprint, is_changed: bool) -> None:
        """Note how the arguments of a call that are no JSON are after it."""
        for argument in objects.objects:
            self.objects.note_seen(argument, objects.after(argument), objects.looked_at)
            if is_changed:
                self.identities.changed(argument)

    def _left_to_repeat(
        self, call: StartedCall, value: Value, packed: EncodedValue
    ) -> EncodedValue:
        """A large value that is not stored, with its contents' digest if that is known at once."""
        packed = packed._replace(is_large=False, why=QUICKER_TO_MAKE)
        # Pickling other objects may take longer than making them.
        if not is_data(value) or self.secret.active:
            return packed
        now = self._look(call, value, call.checksums)
        return packed._replace(data=now.contents if now is not None else None)

    def _without_look(self, call: StartedCall) -> StartedCall:
        """A call on a worker without its arguments, which it cannot have changed; with them if its
        digest has needed a look at them: somebody here may have changed them meanwhile."""
        if call.objects is None or call.objects.looked_at > NEVER:
            return call
        for argument, before in call.objects.before:
            if self.objects.last_seen(argument) is None:
                self.objects.note_seen(argument, before)
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
        # Bytes, which nobody changes.
        if call.objects is None:
            digested = self.digests.digest_late(call.late)
        else:
            digested = self.digests.digest_late(call.late, partial(self._after, call, call.objects))
        return call._replace(digest=digested.digest, contents=digested.contents, late=None)

    def _after(
        self, call: StartedCall, objects: Fingerprint, value: Value
    ) -> ObjectFingerprint | None:
        """The fingerprint of an argument after the call. A worker has a copy from its beginning: a
        look of another call since then is enough."""
        seen = self.objects.seen_since(value, call.began) if call.is_apart else None
        for argument, before in objects.before if seen is not None else ():
            if argument is value and before is not None and is_same_print(before, seen):
                return seen
        return objects.after(value)

    def held(self, outcome: Outcome) -> Held | None:
        """What is stored while the next steps go on; None: they have to wait. On any thread."""
        if outcome.must_be_stored:
            return None
        copy = snapshot(outcome.value, outcome.packed.is_json)
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

    def _look(
        self, call: StartedCall, value: Value, checksums: Checksums
    ) -> ObjectFingerprint | None:
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
            now = (
                held.fingerprint
                if held is not None and held.fingerprint is not None
                else print_of(value)
            )
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
            packed = packed._replace(data=data)
            if data is None:
                why = CHANGED_RESULT
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
        ended = time.time() if ended is None else ended
        place = encode(call.key.at)
        tries = call.key.tries
        signature: bytes | None = None
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
