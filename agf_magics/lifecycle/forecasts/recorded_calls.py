"""Matches recorded calls with the calls of an edited flow, to forecast which calls would run
again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from ...catalog import Agent, Policy, Tool, Transform
from ...engine.calls import dry_run
from ...engine.calls.model_requests import dry_reply
from ...engine.linking.linked import Linked, Person, flow_at
from ...flow.progress.rows import Key, key_of
from ...flow.step_path import StepPath
from ...flow.steps import Invoke
from ...journal.calls.changed_objects import NOTHING_CHANGED, edited_parts, is_same_call, parts_of
from ...journal.calls.digest import offered_tools
from ...journal.calls.reuse import ReadValue, Reuse, ReusedResult
from ...journal.calls.started_call import StartedCall
from ...journal.codec.encoding import DecodeError
from ...journal.codec.json_texts import encode
from ...journal.records.failures import error_from
from ...journal.records.records import (
    CallKey,
    Record,
    RecordedArguments,
    StoredValue,
    around,
    value_of,
)
from ...limits.grants import ANYTHING, Grant
from ...values.value import Value
from ..storage.edited_functions import edited_words
from .offline import OfflineJournal, refuse_call

OTHER_ARGUMENTS = "its arguments differ"

MOST_TEXT = 20_000
"""Characters of the arguments of a call that are remembered to say why it differs."""


class Miss(NamedTuple):
    """The reason why a call is made again."""

    why: str
    shows_edit: bool = False
    """Whether the call would be reused if nothing had been edited since the run."""
    is_retry: bool = False
    """Whether the call is made again only because it failed, not because of an edit."""


class Forecast(OfflineJournal):
    """Returns for each call the result that ``--reuse`` would take, and counts the calls without a
    result."""

    def __init__(
        self, most: int, run_id: str, linked: Linked, results: Reuse, recorded: RecordedCalls
    ) -> None:
        super().__init__(most, run_id)
        self.rows.digests.is_eager = True
        self.keeps_failures = False
        """Whether a failure that the run went on without is taken as its results are."""
        self.linked = linked
        self._results = results
        self._recorded = recorded
        self.made_again, self.reused_calls = Counter[Key](), Counter[Key]()
        self.misses: dict[Key, Miss] = {}
        """The reason why a step is made again, from its first call that is not a retry."""
        self.shows_edit = False
        """Whether a call is made again because of an edit."""
        self._asked: dict[CallKey, None] = {}
        """The questions that were answered, in order, without the approvals of calls."""
        self._why_none = ""
        """The reason why the last call without a digest has none."""
        self._offered: Mapping[str, Tool] = {}
        """The tools that the last call may use."""

    def start_call(
        self,
        step: Invoke,
        callee: object,
        key: CallKey,
        arguments: Any,
        tools: Mapping[str, Tool] | None = None,
        grant: Grant = ANYTHING,
    ) -> StartedCall:
        call = super().start_call(step, callee, key, arguments, tools, grant)
        self._offered = offered_tools(callee, arguments, tools or {}, grant)
        if call.digest is None:
            self._why_none = self.rows.digests.why_none(callee, arguments, self._offered)
        return call

    def take_answer(self, key: CallKey, question: bytes | None = None) -> Record | None:
        """Return the answer of the run. A new run would ask the person again."""
        self._asked[key] = None
        answer = self._recorded.answer(key.at)
        return answer or Record(0, "answered", key.at, result=StoredValue("json", encode(True)))

    async def fire_once(self, step: Invoke, callee: object, key: CallKey, arguments: Any) -> bool:
        """Count a fire-and-forget call. Returns False, so that it is not made."""
        self.find_reused(step, callee, self.start_call(step, callee, key, arguments, {}))
        return False

    def find_reused(
        self, step: Invoke, callee: object, call: StartedCall, reads: bool = True
    ) -> ReusedResult:
        """The result of an identical call; else the call is made again, and gets a result for the
        steps after it. Raises the failure that it gets."""
        self._asked.pop(call.key, None)  # an approval does not count, but its call does
        key = key_of(call.key.at)
        result = self._results.take(call.digest, call.argument_objects)
        if result is not None:
            self.reused_calls[key] += 1
            return result
        has_other = call.digest is not None and self._results.count(call.digest) > 0
        miss = self._recorded.why(
            callee, call, self._name_edited_parts(callee), self._why_none, has_other
        )
        record = self._recorded.result(call)
        if self.keeps_failures and miss.is_retry and record is not None and record.error:
            self.reused_calls[key] += 1
            raise error_from(record.error, ())
        self.made_again[key] += 1
        if self.misses.setdefault(key, miss).is_retry:
            self.misses[key] = miss
        self.shows_edit |= miss.shows_edit
        if record is None:
            self._recorded.is_complete = False
            return ReusedResult(self._sample(step, callee, key), None)
        if record.error is not None:
            raise error_from(record.error, ())
        return ReusedResult(value_of(record), None)

    def _name_edited_parts(self, callee: object) -> str:
        """The edit because of which a call with the same arguments has another digest now."""
        if not isinstance(callee, Tool | Agent | Transform | Policy):
            return "its model was edited"
        names, left_out = self._edited_parts(callee)
        edits = [edited_words(names, "its function")]
        for name, tool in self._offered.items():
            edits.append(edited_words(self._edited_parts(tool)[0], f"its tool {name!r}"))
        edited = "; ".join(filter(None, edits))
        if not edited:
            edited = f"its schema{' or one of its tools' if self._offered else ''} was edited"
        if left_out:
            edited += f" (not compared: {', '.join(left_out)}, which calls of the run changed)"
        return edited

    def _edited_parts(
        self, callee: Tool | Agent | Transform | Policy
    ) -> tuple[list[str], list[str]]:
        """The names of the parts of a function that were edited, and of those that are left out, as
        far as the run has them."""
        before = self._recorded.functions.get(callee.name)
        digest = self.rows.digests.function(callee)
        if before is None or digest is None:
            return [], []
        return edited_parts(before, parts_of(digest, callee.name), self._recorded.changed)

    def _sample(self, step: Invoke, callee: object, key: Key) -> Value:
        """A value of the type of the result, for a call without a result."""
        linked = flow_at(self.linked, key[:-1])
        if isinstance(callee, Tool | Agent) and linked is not None:
            return dry_run.result(step, callee, linked)
        if hasattr(callee, "request"):
            return dry_reply(step.asking.config, getattr(callee, "name", ""))
        refuse_call()

    def count_questions(self) -> None:
        """Count the questions that a new run would put to a person again."""
        for path, _ in self._asked:
            key = key_of(path)
            linked = flow_at(self.linked, key[:-1])
            if linked is not None and isinstance(linked.callees.get(key[-1]), Person):
                self.made_again[key] += 1
                self.misses.setdefault(key, Miss("a person is asked again"))


class RecordedCalls:
    """The recorded calls of the compared run. They provide, for a call that would be made again, a
    value that the steps after it can read, and the reason why it is not reused."""

    def __init__(
        self,
        run_id: str,
        functions: Mapping[str, Mapping[str, str]],
        records: Iterable[Record],
        read: ReadValue,
        is_complete: bool,
        changed: frozenset[bytes] = NOTHING_CHANGED,
    ) -> None:
        """``functions``: by the name of a callee, the digests of the parts of its function.
        ``changed``: the keys of the objects that the calls of the run changed.
        ``is_complete``: whether the run made all of its calls, so that a call without a result
        shows an edit."""
        self._run_id = run_id
        self._read = read
        # The forecast sets it to False when a call gets a sample value: arguments that differ from
        # then on show no edit.
        self.is_complete = is_complete
        self.changed = changed
        self._is_ok = is_complete  # then each failure was handled; a plan handles it elsewhere
        self.functions = functions
        self._by_arguments: dict[tuple[str, str], Record] = {}
        self._by_path: dict[tuple[StepPath, str], Record] = {}
        self._by_name: dict[str, Record] = {}
        self._failed: dict[StepPath, Record] = {}
        self._handled: set[StepPath] = set()
        """Elements and branches that were dropped, and steps whose failure led elsewhere."""
        self._answers: dict[StepPath, Record] = {}
        self._arguments: dict[tuple[StepPath, str], RecordedArguments] = {}
        for record in records:
            if record.what in ("finished", "failed"):
                self._arguments[record.at, record.name] = record.arguments
            match record.what:
                case "answered":
                    self._answers[record.at] = record
                case "failed":
                    self._failed[record.at] = record
                case "dropped" | "rescued":
                    self._handled.add(record.at)
                case "finished" if record.result.form != "again":
                    self._failed.pop(record.at, None)
                    self._by_path[record.at, record.name] = record
                    self._by_name[record.name] = record
                    arguments = record.arguments.text
                    if arguments is not None and len(arguments) <= MOST_TEXT:
                        self._by_arguments[record.name, arguments] = record

    def result(self, call: StartedCall) -> Record | None:
        """The outcome of a call with the same arguments, else at the same path, else of the same
        function. If the run went on after a failure of this call, it is that failure, so that the
        element is dropped again."""
        failed = self._failed.get(call.key.at)
        is_same = failed is not None and (failed.name, failed.arguments.text) == (
            call.name,
            call.arguments,
        )
        if is_same and (self._is_ok or not self._handled.isdisjoint(around(call.key.at))):
            return failed
        candidates = (
            self._by_arguments.get((call.name, call.arguments or "")),
            self._by_path.get((call.key.at, call.name)),
            self._by_name.get(call.name),
        )
        return next(filter(None, map(self._readable, candidates)), None)

    def arguments(self, path: StepPath, name: str) -> RecordedArguments | None:
        """The arguments that the call of ``name`` at this path got; None: it was not made."""
        return self._arguments.get((path, name))

    def result_at(self, path: StepPath, name: str) -> Record | None:
        """The stored result of the call of ``name`` at this path."""
        return self._by_path.get((path, name))

    def answer(self, path: StepPath) -> Record | None:
        return self._readable(self._answers.get(path))

    def _readable(self, record: Record | None) -> Record | None:
        with suppress(DecodeError):
            return self._read(record, self._run_id) if record is not None else None
        return None

    def why(
        self, callee: object, call: StartedCall, edited: str, why_none: str, has_other: bool
    ) -> Miss:
        """The reason why a call is not reused, as far as the run shows it. ``edited``: the reason
        if only its digest differs. ``why_none``: the reason if it has no digest. ``has_other``:
        whether results remain whose objects are not objects of this run."""
        if isinstance(callee, Tool) and not callee.reuse:
            return Miss("it has an effect (reuse=False)")
        if call.digest is None:
            return Miss(why_none)
        same = self._by_arguments.get((call.name, call.arguments or ""))
        if same is not None and same.digest is not None:
            if not is_same_call(same.digest, call.digest, self.changed):
                return Miss(edited, shows_edit=True)
            if has_other:
                return Miss("its result has an object of a step that runs again")
            return Miss("the run made this call fewer times", self.is_complete)
        if (failed := self._failed.get(call.key.at)) is not None:
            is_edited = (
                failed.arguments.text == call.arguments
                and failed.digest is not None
                and not is_same_call(failed.digest, call.digest, self.changed)
            )
            is_retry = failed.arguments.text == call.arguments and not is_edited
            return Miss(
                f"it failed{', and was edited since then' * is_edited}", is_edited, is_retry
            )
        is_called = call.name in self._by_name
        why = OTHER_ARGUMENTS if is_called else "the run has no result of it"
        return Miss(why, self.is_complete)
