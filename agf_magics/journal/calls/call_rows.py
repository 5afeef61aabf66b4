"""The journal rows of one run's calls: a call that starts, its outcome, and marks.

`CallRows` encodes arguments and results as texts or signed pickles, masks secrets in them, and gives
the reason for what is not stored. Large parts of arguments are stored once for a run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from ...catalog import Agent, Tool
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
from ..codec.identities import Identities, bare
from ..codec.json_texts import encode
from ..codec.pickles import is_data
from ..codec.same_values import essence
from ..codec.secret_search import HoldsSecret, Search, Searches
from ..codec.sharing import shared_kind
from ..codec.signatures import row_crc, sign, user_key
from ..codec.snapshots import CopyToStore, snapshot
from ..database.store import ADD
from ..records.failures import error_json
from ..records.model_use import MODEL, has_usage
from ..records.records import CallKey
from ..secrets.masking import HAS_SECRET, HELD_BACK, NOTHING, Received, Secrets
from ..secrets.placeholders import hide
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
    """0: ``shown`` is a preview; 1: it is complete; `IN_PIECES`: it is a list of pieces."""
    complete: str | None
    """All arguments as JSON, for the digest of the call; None: they are not JSON, or the call has no
    digest."""
    received: Received = NOTHING
    """Whether the call received secrets."""


class CallRows:
    """Makes the rows of one run."""

    def __init__(
        self,
        run_id: str,
        most: int,
        next_line: Callable[[], int],
        not_stored: Callable[[StartedCall, str | None], None],
        keep: Callable[[str, str], None],
        note_paid: Callable[[CallKey, str, Mapping[str, Value]], None],
    ) -> None:
        """``most``: the largest number of bytes of one value. ``next_line``: returns the number of
        the next row. ``not_stored``: is called with a call whose result is not stored, and the
        reason. ``keep``: is called with the digest and the text of a large part of arguments, before
        the row that needs it is made. ``note_paid``: is called with the call, the name of the model
        and the usage of a reply whose row does not have it."""
        self.run_id = run_id
        self.most = most
        self.secret = Secrets()
        self.objects = KnownObjects()
        self.results: LargeResults | None = None
        """Stores the large results; None: they are not stored."""
        self.makes_again = False
        """Whether the value of a call was not stored, so that a resumed run makes the call again."""
        self.unstorable: dict[CallKey, str] = {}
        """The reasons why results of calls that must not be repeated could not be stored."""
        self.digests = CallDigest(most, self.objects.digest)
        self.identities = Identities()
        self.large = LargeValues()
        self.next_line = next_line
        self._not_stored = not_stored
        self._keep = keep
        self._note_paid = note_paid
        self._kept: set[str] = set()
        """The digests of the large parts for which `_keep` was called."""
        self._searches = Searches()
        self._key: bytes | None = None
        """The user's key; None: it was not read yet, or there is none."""

    def start(
        self,
        step: Invoke,
        callee: object,
        key: CallKey,
        arguments: Any,
        tools: Mapping[str, Tool] | None,
        grant: Grant,
    ) -> StartedCall:
        """The call that is about to be made, with its arguments as they are now. ``tools`` and
        ``grant``: what the callee may use; without ``tools`` the call has no digest."""
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
        # Large parts are stored once only where nothing has to be masked.
        is_plain = type(callee) is Agent or (type(callee) is Tool and not callee.secret)
        if is_digested and is_plain and not self.secret.active:
            text, whole = self.arguments_text(arguments)
            complete = text if whole else None
            # A text with a key of the environment is masked below, as all others.
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
        """Arguments as JSON, and the number that says how complete they are (as in `ArgumentTexts`).
        Their large parts are kept once."""
        if not self.large.has_fresh:
            text, whole = to_show(arguments, self.most)
            if not whole or len(text) < LARGE:
                return text, int(whole)
        pieces = ArgumentPieces(self.most, self.large.fresh)
        whole = pieces.add(arguments)
        # The caller finds a secret only in a whole text, and masks it there.
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
        """The stores at the end of the run as JSON. If calls got large ones as arguments, the result
        is a list of pieces: JSON texts, and between them the digests of large parts. If some stores
        are not JSON, they are previews, and the first piece is the list of their names. No new large
        part is kept: a reader of the run could miss a part that its end refers to."""
        large = {name: self.large.known(value) for name, value in stores.items()}
        digests = {
            name: large_value.stored
            for name, large_value in large.items()
            if large_value and large_value.stored
        }
        if not digests or self.secret.active:
            digests = {}
            as_one = self.secret.to_show(stores, self.most)
            if as_one.is_whole:
                return as_one.text
        pieces = [""]
        before = "{"
        previews = list[str]()
        room = self.most
        for name, value in stores.items():
            pieces[-1] += f"{before}{encode(name)}:"
            before = ","
            if name in digests:
                pieces += digests[name], ""
                continue
            written = self.secret.to_show(value, room, is_named=False)
            if not written.is_whole:
                previews.append(name)
            room = max(0, room - len(written.text))
            pieces[-1] += written.text
        pieces[-1] += "}"
        return encode([previews, *pieces] if previews else pieces)

    def _complete(self, arguments: Any) -> str:
        """The text that `arguments_text` returns, without keeping large parts: for the digest of a
        call whose arguments may have to be masked."""
        pieces = ArgumentPieces(self.most, lambda value: None)
        return pieces.text if pieces.add(arguments) else encode(arguments)

    def reused(self, call: StartedCall, value: Value, pickle: bytes | None = None) -> Insert:
        """The row of a call that reuses the result of a call in another run. ``pickle``: its pickle
        there; default None: it has none."""
        self.not_made(call)
        packed = self.stored(value, self.secret.pack(value, self.most, call.received))
        # A second pickle of a value may have other bytes, and would not count as the same value.
        if pickle is not None and packed.form == "pickle" and not self.secret.active:
            packed = packed._replace(data=bare(pickle))
        if packed.form == "again":
            self._not_stored(call, packed.why)
        elif isinstance(packed.data, bytes) and not packed.is_json:
            # The other run has checked that no call changed the object.
            data = self.identities.named(value, packed.data) or packed.data
            packed = packed._replace(data=data)
        return self.outcome("finished", call, packed)

    def reused_later(self, call: StartedCall, data: bytes, shown: str | None) -> Insert:
        """The row of a call that reuses a result of another run, which is not read yet."""
        self.not_made(call)
        return self.outcome("finished", call, EncodedValue("parts", data, shown))

    def reused_failure(self, call: StartedCall, error: str | None) -> Insert:
        """The row of a call that fails as a call in another run."""
        self.not_made(call)
        return self.outcome("failed", call, NO_VALUE, error)

    def not_made(self, call: StartedCall) -> None:
        """Note that a call that was about to be made is not made."""
        if call.watched is not None:
            self.digests.objects.stop_watching(call.watched)

    def ended(
        self,
        call: StartedCall,
        value: Value,
        error: StepError | None = None,
        secret: bool = False,
    ) -> Insert:
        """Store the value of a call that has returned or failed, and return its row. ``secret``:
        whether the value is a secret.

        `judge` decides how the value is stored, `store` stores a large one in its parts, which may
        take a while on another thread, and `settle` makes the row.
        """
        outcome = self.judge(call, value, error, secret)
        return self.settle(self.store(outcome) if outcome.is_for_parts else outcome)

    def judge(
        self, call: StartedCall, value: Value, error: StepError | None, secret: bool = False
    ) -> Outcome:
        """The outcome of a call that has returned or failed, and how it is to be stored."""
        call = self._as_it_ended(call, has_returned=error is None)
        if error is not None:
            return Outcome(call, None, error=error_json(error, self.secret))
        if secret:
            self.secret.returned(value)
        packed = self.secret.pack(value, self.most, call.received, secret)
        if packed.why == HAS_SECRET and not secret:
            packed = packed._replace(data=self._keyed(call.key, value))
        # One reason to make a call again is that it changed an argument: later steps share that
        # object, and a stored result would not change it again.
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
        """The call that has ended, with its digest and the current states of its objects."""
        was_late = call.late is not None
        if has_returned and self.has_late_digest(call):
            call = self.with_digest(call)
        if call.watched is not None and (call.digest is not None or was_late):
            entries = self.digests.objects.entries_after(call.watched)
            digest: bytes | None = None
            if call.digest is not None and entries is not None:
                digest = call.digest[:CALL] + entries
            call = call._replace(digest=digest)
        return self._without_look(call) if call.is_apart else call

    def _note_arguments(self, objects: Fingerprint, is_changed: bool) -> None:
        """Note the states that the arguments of a call that are not JSON have after it."""
        for argument in objects.objects:
            self.objects.note_seen(argument, objects.after(argument), objects.looked_at)
            if is_changed:
                self.identities.changed(argument)

    def _left_to_repeat(
        self, call: StartedCall, value: Value, packed: EncodedValue
    ) -> EncodedValue:
        """``packed`` for a large value that is not stored, because making it again is quicker; with
        the digest of its contents if that is quick, too."""
        packed = packed._replace(is_large=False, why=QUICKER_TO_MAKE)
        # Pickling other objects may take longer than making them.
        if not is_data(value) or self.secret.active:
            return packed
        fingerprint_now = self._look(call, value, call.checksums)
        return packed._replace(
            data=fingerprint_now.contents if fingerprint_now is not None else None
        )

    def _without_look(self, call: StartedCall) -> StartedCall:
        """A call on a worker without its arguments, which it cannot have changed. They stay if the
        digest of the call looked at them, because another call may have changed them meanwhile."""
        if call.objects is None or call.objects.looked_at > NEVER:
            return call
        for argument, before in call.objects.before:
            if self.objects.last_seen(argument) is None:
                self.objects.note_seen(argument, before)
        return call._replace(objects=None)

    def _pays(self, call: StartedCall, value: Value, size: int) -> bool:
        """Whether storing the result of a call is quicker than making the call again."""
        # The rows of a table are always stored, because the table is read from them.
        if call.kind == ROW or self.takes_long(call.began, size):
            return True
        fingerprint_now = call.objects.after(value) if call.objects is not None else None
        return (
            not self.secret.active and self.objects.stored_data(value, fingerprint_now) is not None
        )

    def takes_long(self, began: float, size: int) -> bool:
        """Whether the time since ``began`` is longer than storing ``size`` bytes would take."""
        if self.results is None:
            return False
        return time.monotonic() - began >= size / self.results.rate

    def has_late_digest(self, call: StartedCall) -> bool:
        """Whether the digest of a call that has ended is to be computed now: the digests of its data
        are known, or the call took longer than computing them."""
        if call.late is None:
            return False
        is_known = all(map(self.objects.was_known, call.late.data.values()))
        return is_known or self.takes_long(call.began, call.late.size)

    def with_digest(self, call: StartedCall) -> StartedCall:
        """A call that has ended, with its digest. Any thread may call this."""
        assert call.late is not None, "the caller has asked `has_late_digest`"
        # The data is bytes, which nobody can change.
        if call.objects is None:
            digested = self.digests.digest_late(call.late)
        else:
            digested = self.digests.digest_late(call.late, partial(self._after, call, call.objects))
        return call._replace(digest=digested.digest, contents=digested.contents, late=None)

    def _after(
        self, call: StartedCall, objects: Fingerprint, value: Value
    ) -> ObjectFingerprint | None:
        """The fingerprint of an argument after the call. A worker got a copy when the call began, so
        a fingerprint that another call has taken since then is enough."""
        seen = self.objects.seen_since(value, call.began) if call.is_apart else None
        for argument, before in objects.before if seen is not None else ():
            if argument is value and before is not None and is_same_print(before, seen):
                return seen
        return objects.after(value)

    def copy_to_store(self, outcome: Outcome) -> CopyToStore | None:
        """The copy of a result that is stored while the next steps go on; None: they have to wait.
        Any thread may call this."""
        if outcome.must_be_stored:
            return None
        copy = snapshot(outcome.value, outcome.packed.is_json)  # in a tuple
        return self._copy_with_fingerprint(outcome, copy[0]) if copy is not None else None

    def store(self, outcome: Outcome, to_store: CopyToStore | None = None) -> Outcome:
        """The outcome with its large value stored. ``to_store``: the copy that is stored; default
        None: the value itself, which nobody changes meanwhile. Any thread may call this."""
        to_store = to_store or self._copy_with_fingerprint(outcome, outcome.value)
        stored = self.stored(outcome.value, outcome.packed, outcome.must_be_stored, to_store)
        if stored.why == HAS_SECRET:
            stored = stored._replace(data=self._keyed(outcome.call.key, outcome.value, to_store))
        to_store.checksums.clear()
        return outcome._replace(packed=stored)

    def _copy_with_fingerprint(self, outcome: Outcome, copy: Value) -> CopyToStore:
        """``copy`` of a result, with the current fingerprint of the result."""
        value, checksums = outcome.value, outcome.call.checksums
        is_looked_at = is_knowable(value) or not outcome.packed.is_json
        seen = self._look(outcome.call, value, checksums) if is_looked_at else None
        return CopyToStore(copy, seen, checksums)

    def _look(
        self, call: StartedCall, value: Value, checksums: Checksums
    ) -> ObjectFingerprint | None:
        """Take and note the fingerprint of a result, so that a call that gets the result need not
        take it."""
        seen = call.objects.after(value) if call.objects is not None else None
        seen = seen or print_of(value, checksums)
        self.objects.note_seen(value, seen)
        return seen

    def stored(
        self,
        value: Value,
        packed: EncodedValue,
        fills: bool = False,
        to_store: CopyToStore | None = None,
    ) -> EncodedValue:
        """``packed`` after the parts of a large value are stored; unchanged for any other value.
        ``fills``: whether it may fill the disk; default False. ``to_store``: the copy that is stored;
        default None: the value as it is now."""
        if not packed.is_large or self.results is None:
            return packed
        value_to_write, seen, checksums = to_store or CopyToStore(value, None, Checksums())
        # Known data was searched for the secrets of its time only.
        data = None if self.secret.active else self.objects.stored_data(value, seen)
        try:
            if data is None:
                data = self.results.store(value_to_write, self._search(), fills, checksums)
                self.objects.note_stored(value, data, seen)
        except HoldsSecret:
            return EncodedValue("again", None, encode(HELD_BACK), HAS_SECRET)
        except NotStored as error:
            why = self.secret.text(str(error))
            return packed._replace(is_large=False, why=why, is_refused=True)
        return packed._replace(form="parts", data=data, why=None, is_large=False)

    def _keyed(
        self, key: CallKey, value: Value, to_store: CopyToStore | None = None
    ) -> bytes | None:
        """The signature of a value that contains a secret and is not stored: it shows whether the
        call, when it is made again, returns another value. None: the value has none. ``to_store``:
        the copy that was to be stored.

        It is made with the user's key, so that nobody can guess the secret from it, and contains the
        place of the call, so that equal values in two places cannot be recognised."""
        self._key = self._key or user_key()
        if self._key is None:
            return None
        text = json_text(value, LONGEST_JSON)
        if text is not None:
            halves = [b"", essence(EncodedValue("json", text)).digest]  # no sizes of arrays
        else:
            seen = to_store.fingerprint if to_store is not None else None
            seen = seen or print_of(value)
            contents = seen.contents if seen is not None else None
            if contents is None:
                return None
            halves = [contents[:CONTENTS], contents[CONTENTS:]]
        place = ("held", self.run_id, encode(key.at), key.tries)
        return b"".join(sign(self._key, *place, half)[:CONTENTS] for half in halves)

    def digests_of(self, body: CallKey, elements: Iterable[Value]) -> list[str | None]:
        """Digests of the elements of a fan-out, by which a resumed run sees which are the same; None:
        an element cannot be compared. They are made with the user's key, because nobody may guess a
        secret from them."""
        self._key = self._key or user_key()
        if self._key is None:
            return [None for _ in elements]
        place = ("element", self.run_id, encode(body.at), body.tries)
        texts = (json_text(element, LONGEST_JSON) for element in elements)
        return [
            sign(self._key, *place, text)[:CONTENTS].hex()[:16] if text is not None else None
            for text in texts
        ]

    def _search(self) -> Search:
        """A search for the secrets that are known now."""
        searched = self.secret.searched
        return self._searches.search(searched.raws, bool(searched.numbers))

    def settle(self, outcome: Outcome) -> Insert:
        """The row of a call that has ended, after its large value is stored."""
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
        self.makes_again |= packed.form == "again"
        if packed.is_refused and outcome.must_be_stored:
            self.unstorable[call.key] = packed.why or ""
        elif packed.form == "again" and packed.why != QUICKER_TO_MAKE:
            self._not_stored(call, packed.why)
        elif type(packed.data) is str and len(packed.data) >= LARGE and not self.secret.active:
            self.large.learn(value, packed.data)
        if call.kind == MODEL and not has_usage(packed.form):
            self._note_paid(call.key, call.name, value["usage"])
        return self.outcome("finished", call, packed, ended=ended, line=line)

    def outcome(
        self,
        mark: str,
        call: StartedCall,
        packed: EncodedValue = NO_VALUE,
        error: str | None = None,
        ended: float | None = None,
        line: int | None = None,
    ) -> Insert:
        """The row of a call that begins, ends or is answered. ``mark``: the kind of the row
        (`Record.what`). ``packed``: the value as it is stored. ``error``: the failure as JSON.
        ``ended``: when the call ended, in seconds since 1970; None: now. ``line``: the number of the
        row; None: the next one."""
        ended = time.time() if ended is None else ended
        place = encode(call.key.at)
        tries = call.key.tries
        signature: bytes | None = None
        if packed.form in PICKLED and mark != "answered":
            signature = self.sign(place, tries, packed.data or b"")
        # These rows decide which calls a resumed run makes, so nobody else may write them.
        elif mark == "answered" or call.is_effect:
            form, data = packed.form or "", packed.data or ""
            signature = self.sign(mark, place, tries, call.digest or b"", form, data, error or "")
        # No session would believe a row without a signature: the call or the question is made again.
        if signature is None and (mark == "answered" or packed.form in PICKLED):
            packed = EncodedValue("again", None, packed.shown, NO_KEY)
            self._not_stored(call, NO_KEY)
        return self.row(
            mark,
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
        """A row of the journal. ``cells``: the cells of `COLUMNS` after the number of the row.
        ``line``: that number; default None: the next one."""
        row = (self.next_line() if line is None else line, *cells)
        return ADD, (*row, row_crc(row))

    def mark(
        self,
        mark: str,
        key: CallKey,
        name: str = "",
        shown: str | None = None,
        error: BaseException | None = None,
    ) -> Insert:
        """The row of an event that is no call. ``mark``: its kind (`Record.what`)."""
        return self.row(
            mark,
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
        """The row, at the end of the run, of the objects that its calls changed and that no other row
        names; None: there are none. It belongs to no call, so zeros stand before the entries."""
        entries = self.digests.objects.at_end()
        cells = ("changed", encode(["changed"]), "", "", "", *[None] * 3, 0, *[None] * 5)
        return self.row(*cells, bytes(CALL) + entries) if entries else None

    def sign(self, *parts: str | bytes) -> bytes | None:
        """The signature of parts of this run; None if the user has no key."""
        self._key = self._key or user_key()
        return sign(self._key, self.run_id, *parts) if self._key is not None else None
