"""A forecast: a run without calls. Each call gets the result that ``--reuse`` would take; the
others are counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from ..catalog import Agent, Policy, Tool, Transform
from ..engine import call as dry_run
from ..engine.limits import ANYTHING, Grant
from ..engine.linked import Linked, Person
from ..engine.requests import dry_reply
from ..engine.run import OfflineJournal, refuse_call
from ..flow.events import StepPath
from ..flow.progress import Key
from ..flow.steps import Invoke
from ..flow.values import Value
from ..journal.call_rows import StartedCall
from ..journal.codec import DecodeError, encode
from ..journal.queries import records
from ..journal.records import CallKey, Record, around, error_from, value_of
from ..journal.reuse import ReadValue, Reuse, ReusedResult
from ..journal.store import Store
from .lookup import latest_runs
from .run import Run

LONGEST_EVALUATION = 10.0
"""Seconds that an evaluation without calls may take."""

MOST_RECORDS = 200_000
"""Journaled calls that are read, of the newest runs first."""

MOST_CHARACTERS = 200_000_000
"""Characters of their values: all of them are in memory."""

MOST_TEXT = 20_000
"""Characters of the arguments of a call that are remembered to say why it differs."""


class Miss(NamedTuple):
    """Why a call is made again."""

    why: str
    shows_edit: bool = False
    """Whether it would be reused if nothing had been edited since the run."""


class Forecast(OfflineJournal):
    """Gives each call the result that ``--reuse`` would take, and counts the calls without one."""

    def __init__(
        self, most: int, run_id: str, linked: Linked, reuse: Reuse, known: KnownResults
    ) -> None:
        super().__init__(most, run_id)
        self.linked, self.known = linked, known
        self.made, self.taken = Counter[Key](), Counter[Key]()
        self.misses: dict[Key, Miss] = {}
        """Why the first call of a step is made again."""
        self.shows_edit = False
        """Whether a call is made again because of an edit."""
        self.asked: dict[CallKey, None] = {}
        self.reuse = _Taking(self, reuse)
        self._call: tuple[Invoke, object, StartedCall] | None = None

    def start_call(
        self,
        step: Invoke,
        callee: object,
        key: CallKey,
        given: Any,
        tools: Mapping[str, Tool] | None = None,
        grant: Grant = ANYTHING,
    ) -> StartedCall:
        call = super().start_call(step, callee, key, given, tools, grant)
        self.asked.pop(key, None)  # it was an approval: the call counts
        self._call = step, callee, call
        return call

    def answered(self, key: CallKey) -> Record | None:
        """A person is asked again; here the answer is that of the run."""
        self.asked[key] = None
        return self.known.answer(key.at) or _record(key.at, True)

    async def fire_once(self, step: Invoke, callee: object, key: CallKey, given: Any) -> bool:
        call = self.start_call(step, callee, key, given, {})
        if self.reuse is not None:
            self.reuse.take(call.digest)
        return False

    def miss(self) -> Record:
        """The call that was just started is made again: count it, and give a result for the steps
        after it."""
        assert self._call is not None, "a result is looked up after the start of its call"
        step, callee, call = self._call
        key = key_of(call.key.at)
        self.made[key] += 1
        missed = self.known.why(callee, call, self._edited(callee))
        self.misses.setdefault(key, missed)
        self.shows_edit |= missed.shows_edit
        found = self.known.result(call)
        if found is None:
            self.known.is_complete = False
            return _record(call.key.at, self._sample(step, callee, call.key.at))
        return found

    def _edited(self, callee: object) -> str:
        """What was edited if a call with the same arguments has another digest now."""
        if isinstance(callee, Tool | Agent | Transform | Policy):
            before, digest = self.known.functions.get(callee.name), self.digests.function(callee)
            if before is None or digest is None:
                return "its function, its model or its schema was edited"
            now = digest.parts
            names = [name for name in {**before, **now} if before.get(name) != now.get(name)]
            if names:
                return f"its function was edited: {', '.join(names)}"
        return "its model or its schema was edited"

    def hit(self) -> None:
        assert self._call is not None, "a result is looked up after the start of its call"
        self.taken[key_of(self._call[2].key.at)] += 1

    def _sample(self, step: Invoke, callee: object, at: StepPath) -> Value:
        """A value of the type of the result, for a call without a result."""
        if isinstance(callee, Tool | Agent):
            return dry_run.result(step, callee, linked_at(self.linked, key_of(at)[:-1]))
        if hasattr(callee, "request"):
            return dry_reply(step.asking.config, getattr(callee, "name", ""))
        refuse_call()

    def count_questions(self) -> None:
        """The persons whom a new run asks."""
        for at, _ in self.asked:
            key = key_of(at)
            linked = linked_at(self.linked, key[:-1])
            if isinstance(linked.callees.get(key[-1]), Person):
                self.made[key] += 1
                self.misses.setdefault(key, Miss("a person is asked again"))


class _Taking(Reuse):
    """The results of earlier runs for a `Forecast`: `take` always gives one."""

    def __init__(self, forecast: Forecast, reuse: Reuse) -> None:
        self.run_id, self._forecast, self._reuse = reuse.run_id, forecast, reuse

    def take(self, digest: bytes | None) -> ReusedResult | None:
        found = self._reuse.take(digest)
        if found is None:
            missed = self._forecast.miss()
            if missed.error is not None:
                raise error_from(missed.error, ())
            return value_of(missed), None
        self._forecast.hit()
        return found

    def take_json(self, digest: bytes, most: int) -> tuple[Value, str] | None:
        return None


class KnownResults:
    """The results of the run: for a call that is made again, a value of the kind that the steps
    after it expect."""

    def __init__(
        self,
        run_id: str,
        functions: Mapping[str, Mapping[str, str]],
        found: Iterator[Record],
        read: ReadValue,
        is_complete: bool,
    ) -> None:
        """``functions``: by the name of a callee, the digests of the parts of its function.
        ``is_complete``: whether the run made all of its calls, so that a call without a result
        shows an edit."""
        self._run_id, self._read, self.is_complete = run_id, read, is_complete
        self.functions = functions
        self._by_arguments: dict[tuple[str, str], Record] = {}
        self._by_path: dict[StepPath, Record] = {}
        self._by_name: dict[str, Record] = {}
        self._failed: dict[StepPath, Record] = {}
        self._handled: set[StepPath] = set()
        """Elements and branches that were dropped, and steps whose failure led elsewhere."""
        self._answers: dict[StepPath, Record] = {}
        for record in found:
            if record.what == "answered":
                self._answers[record.at] = record
            elif record.what == "failed":
                self._failed[record.at] = record
            elif record.what in ("dropped", "rescued"):
                self._handled.add(record.at)
            elif record.what == "finished" and record.form != "again":
                self._failed.pop(record.at, None)
                self._by_path[record.at] = self._by_name[record.name] = record
                if record.given is not None and len(record.given) <= MOST_TEXT:
                    self._by_arguments[record.name, record.given] = record

    def result(self, call: StartedCall) -> Record | None:
        """Of a call with the same arguments, else at the same place, else of the same function. It
        is the failure of the same call if the run went on after it: so its element is dropped here
        too."""
        failed = self._failed.get(call.key.at)
        is_same = failed is not None and (failed.name, failed.given) == (call.name, call.given)
        if is_same and not self._handled.isdisjoint(around(call.key.at)):
            return failed
        by_path = self._by_path.get(call.key.at)
        candidates = (
            self._by_arguments.get((call.name, call.given or "")),
            by_path if by_path is not None and by_path.name == call.name else None,
            self._by_name.get(call.name),
        )
        for record in filter(None, candidates):
            with suppress(DecodeError):
                return self._read(record, self._run_id)
        return None

    def answer(self, at: StepPath) -> Record | None:
        record = self._answers.get(at)
        with suppress(DecodeError):
            return self._read(record, self._run_id) if record is not None else None
        return None

    def why(self, callee: object, call: StartedCall, edited: str) -> Miss:
        """Why a call is not reused, as far as the run shows it. ``edited``: the reason if only its
        digest differs."""
        if isinstance(callee, Tool) and not callee.reuse:
            return Miss("it has an effect (reuse=False)")
        if call.digest is None:
            return Miss("its function or its arguments cannot be compared")
        same = self._by_arguments.get((call.name, call.given or ""))
        if same is not None and same.digest is not None:
            if same.digest != call.digest:
                return Miss(edited, True)
            return Miss("the run made this call fewer times", self.is_complete)
        if (failed := self._failed.get(call.key.at)) is not None:
            is_edited = failed.given == call.given and failed.digest not in (None, call.digest)
            return (
                Miss("it failed, and was edited since then", True)
                if is_edited
                else Miss("it failed")
            )
        why = (
            "its arguments differ" if call.name in self._by_name else "the run has no result of it"
        )
        return Miss(why, self.is_complete)


class Bounded:
    """Records, as long as they are not more than `MOST_RECORDS` with values of `MOST_CHARACTERS` in
    total."""

    def __init__(self) -> None:
        self._calls, self._characters = MOST_RECORDS, MOST_CHARACTERS
        self.note = ""
        """Why records are missing; empty if none are."""

    def read(self, found: Iterable[Record]) -> Iterator[Record]:
        """``found``, up to the bound."""
        for record in found:
            self._calls -= 1
            self._characters -= sum(
                len(text) for text in (record.given, record.value, record.shown) if text
            )
            if min(self._calls, self._characters) < 0:
                self.note = (
                    f"only the first {MOST_RECORDS:,} calls, or {MOST_CHARACTERS:,} "
                    f"characters, are read"
                )
                return
            yield record


def read_last_runs(
    store: Store, run: Run, bounded: Bounded
) -> Iterator[tuple[str, Iterator[Record]]]:
    """The ids and the records of the last runs of the flow of ``run``, as ``--reuse`` reads
    them."""
    for head in latest_runs(store, run):
        if not bounded.note:
            yield head.run_id, bounded.read(records(store, head.num))


def key_of(at: StepPath) -> Key:
    """The key of the row of a path."""
    return tuple(bit for bit in at if isinstance(bit, str))


def linked_at(linked: Linked, key: Key) -> Linked:
    """The flow that the calls ``key`` lead to."""
    found: object = linked
    for id in key:
        callee = found.callees.get(id) if isinstance(found, Linked) else None
        found = (
            next(
                (one for one in getattr(callee, "callees", {}).values() if isinstance(one, Linked)),
                callee,
            )
            if not isinstance(callee, Linked)
            else callee
        )
    assert isinstance(found, Linked), "a row is of a linked flow"
    return found


def _record(at: StepPath, value: Value) -> Record:
    return Record(0, "finished", at, form="json", value=encode(value), unpickled=(value,))
