"""The scheduler of one run of a plan: it knows which turns are ready, and which never will be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

from ....flow.progress.question import Denied
from ....flow.protocols import Frame, Outcome, Ready, Skip
from ....text.diagnostics import Diagnostic, StepError
from ....values.value import Value
from ...descend import MISSING
from ..arguments import fill
from ..calls import Call, Template
from ..log.log import Log
from ..log.lookup import suggest_field
from ..log.messages import as_message, plain_message
from ..log.reference import Expression, Reference, as_written, references
from .dependencies import Dependencies, Turn, Verdict, dependencies_of, exists
from .end_messages import UNRESOLVED, error_message, fault, results
from .storing_order import StoringOrder


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The content of a document besides the steps of its calls."""

    calls: tuple[Call, ...]
    needs: Dependencies
    """The dependencies of its calls in a context without instances."""
    output: Template = None
    has_output: bool = False
    """Whether the document has the key ``output``, which may be null."""
    lazy: bool = False
    """Whether no call is made (``mode: lazy``)."""
    ordered: bool = False
    """Whether results are stored in the order of the list (`StoringOrder`)."""


class TurnOutcome(NamedTuple):
    """The outcome of a turn without a result."""

    status: str
    """``failed``, ``blocked``, ``cancelled``, ``upstream_failed``, ``branch_not_taken``,
    ``lazy``."""
    why: str = ""
    """The reason in words, as the skipped step and the Error message say it."""
    diagnostic: Diagnostic | None = None
    """The problem that is reported at the end of the run; None: nothing is reported."""
    error: StepError | None = None
    """The failure; None: the call was never made."""


class PlanScheduler:
    """One run of a plan (`flow.frame.Scheduler`)."""

    def __init__(self, plan: Plan, log: Log) -> None:
        self.plan = plan
        self.needs = dependencies_of(plan.calls, log, plan.needs)
        self.turns = self.needs.turns
        self.nodes = self.needs.nodes
        self.outcomes: dict[int, TurnOutcome] = {}
        """The turns that have ended without a result."""
        self.changed: dict[int, Call] = {}
        """Calls of which a person changed the arguments or gave the result."""
        self.stored: set[int] = set()
        """The turns that have ended and whose messages, if any, are in the log."""
        self.chose = {
            number
            for number, turn in enumerate(self.turns)
            if len(turn.call.output.alternatives) > 1
        }
        """The turns whose call has alternative destinations, one of which its result selects, and
        those that returned a message, which selects its own place."""

    @cached_property
    def order(self) -> StoringOrder:
        return StoringOrder(self.turns, self.needs.ranks) if self.plan.ordered else StoringOrder()

    def refusals(self) -> tuple[Diagnostic, ...]:
        """Errors that prevent a run in this context."""
        cycle = self.needs.cycle
        return () if cycle is None else (cycle_error(self.needs, cycle),)

    def successors(self, number: int) -> Sequence[int]:
        return [
            reader
            for reader, need in self.needs.feeds[number]
            if self.stored.issuperset(need.awaited)
        ]

    def ready(self, number: int, frame: Frame) -> Ready:
        if self.plan.lazy:
            why = "the plan has mode: lazy, which makes no calls"
            return self.skip(number, TurnOutcome("lazy", why))
        log = frame["log"]
        waits = list[Reference]()

        # Only the existence of values counts here, so the words "go" and "wait" stand for them.
        def look(reference: Reference, instance: str | None) -> Value:
            verdict = self.look(number, reference, log)
            if verdict == "wait":
                waits.append(reference)
            return MISSING if verdict == "never" else verdict

        for expression in self.turns[number].call.expressions:
            if expression.evaluate(look, None) is MISSING:
                return self.skip(number, self.why(number, expression, log))
        return "wait" if waits else "go"

    def look(self, number: int, reference: Reference, log: Log) -> Verdict:
        """Whether a reference of a turn has its value, waits for it, or never gets it."""
        need = self.needs.needs[number][reference]
        if not self.stored.issuperset(need.awaited):
            return "wait"
        if exists(reference, log, self.turns[number].instance):
            return "go"
        coming = (writer for writer in need.writers if writer not in self.stored)
        waits = any(not self.needs.follows(writer, number) for writer in coming)
        return "wait" if waits else "never"

    def skip(self, number: int, outcome: TurnOutcome) -> Skip:
        self.outcomes[number] = outcome
        return Skip(outcome.why)

    def why(self, number: int, expression: Expression, log: Log) -> TurnOutcome:
        """The reason why an expression has no value: no call writes it, a writer failed, or another
        branch was taken. A writer whose result lacks the read field does not count as a writer."""
        text = as_written(expression)
        missing = [ref for ref in references(expression) if self.look(number, ref, log) == "never"]
        needs = (self.needs.needs[number][ref] for ref in missing)
        writers = [writer for need in needs for writer in need.writers]
        ends = {self.outcomes[writer].status for writer in writers if writer in self.outcomes}
        if ends - {"branch_not_taken"}:
            return TurnOutcome("upstream_failed", f"upstream failed: {text} was not written")
        if ends or not self.chose.isdisjoint(writers):
            return TurnOutcome("branch_not_taken", f"branch not taken: {text} was not written")
        return self.blocked(number, text, missing[0], log)

    def blocked(self, number: int, text: str, missing: Reference, log: Log) -> TurnOutcome:
        """The outcome of a turn that reads ``text``, which nothing writes."""
        message = f"unresolved reference: no message and no call writes {text}"
        give = f"let an earlier call write it, give it in {missing.sign}input or state:"
        if missing.kind == "input":
            give = f"give it: --set {missing.path[0] if missing.path else 'NAME'}=…"
        hint = (
            suggest_field(missing, log, self.turns[number].instance)
            or f"{give}, or add a default: {text} || 10"
        )
        problem = Diagnostic(UNRESOLVED, message, missing.span, hint)
        return TurnOutcome("blocked", message, problem)

    def enter(self, number: int, frame: Frame) -> Frame:
        return {**frame, "instance": self.turns[number].instance, "turn": number}

    def take(self, number: int, answer: Mapping[str, Value]) -> None:
        """Record the arguments or the result that a person gave instead of a call."""
        call = self.turns[number].call
        self.changed[number] = replace(call, authored={**call.authored, **answer})

    def call(self, number: int) -> Call:
        """A call as it was made."""
        return self.changed.get(number) or self.turns[number].call

    def ended(self, number: int) -> None:
        self.order.ended(number)

    def next_to_store(self) -> int | None:
        return self.order.next_to_store()

    def store(self, number: int, frame: Frame, outcome: Outcome) -> Frame:
        turn = self.turns[number]
        self.stored.add(number)
        self.order.stored(number)
        try:
            return _extend_log(frame, self.messages(number, turn, outcome))
        except StepError as error:  # the value that the tool returned cannot be stored
            self.outcomes[number] = _failed_turn("failed", error)
            return frame

    def messages(self, number: int, turn: Turn, outcome: Outcome) -> Sequence[Mapping[str, Value]]:
        """The messages that the end of a turn adds."""
        call = self.call(number)
        if outcome.status == "skipped":
            # `skip` has set the outcome of most turns. A turn without one still waits when no other
            # turn runs, so nothing can write its value.
            why = "upstream failed: a value was not written"
            self.outcomes.setdefault(number, TurnOutcome("upstream_failed", why))
            return ()
        error = outcome.error
        alternatives = call.output.alternatives
        if error is None:
            if as_message(outcome.value, alternatives) is not None:
                self.chose.add(number)
            return results(call, turn.instance, None, outcome.value)
        if len(alternatives) > 1:
            return results(call, turn.instance, alternatives[-1], fault(error))
        status = "cancelled" if isinstance(error, Denied) else "failed"
        self.outcomes[number] = _failed_turn(status, error)
        return ()

    def close(self, frame: Frame) -> Frame:
        """The Error messages, together, and the plan's own output."""
        failures = [
            (number, outcome)
            for number, outcome in sorted(self.outcomes.items())
            if outcome.status in ("failed", "blocked", "cancelled")
        ]
        errors = [
            error_message(self.call(number), self.turns[number].instance, end.why, end.error)
            for number, end in failures
            if end.status != "cancelled"
        ]
        frame = {**_extend_log(frame, errors), "notes": ()}
        frame["failures"] = tuple(outcome for _, outcome in failures)
        if not self.plan.has_output or self.plan.lazy:
            return frame
        try:
            output = fill(self.plan.output, frame["log"], None)
        except StepError as error:
            problem = error.diagnostic
            message = f"the plan has no output: {problem.message}"
            note = Diagnostic("plan.no-output", message, problem.span, problem.hint, "warning")
            return {**frame, "notes": (note,)}
        return {**_extend_log(frame, [plain_message("output", output)]), "output": output}


def _failed_turn(status: str, error: StepError) -> TurnOutcome:
    """The outcome ``status`` of a turn that ended with ``error``."""
    return TurnOutcome(status, error.diagnostic.message, error.diagnostic, error)


def _extend_log(frame: Frame, messages: Sequence[Mapping[str, Value]]) -> Frame:
    """The frame with ``messages`` at the end of its log. The named context is updated at once, so a
    run that is stopped loses nothing."""
    if not messages:
        return frame
    log: Log = frame["log"].append(*messages)
    context: Any = frame["context"]
    if context is not None:
        context.log = log
    return {**frame, "log": log}


def cycle_error(needs: Dependencies, cycle: Sequence[int]) -> Diagnostic:
    """The problem that calls wait for each other."""
    names = [f"{needs.turns[number].call.tool} ({needs.turns[number].call.id})" for number in cycle]
    spans = []
    for number, before in pairwise(cycle):
        reads = (ref for ref, need in needs.needs[number].items() if before in need.awaited)
        spans.append((f"reads a value that {needs.turns[before].call.id} writes", next(reads).span))
    message = f"calls wait for each other: {' → '.join(names)}"
    hint = "give one of these values before the first call: state: {…}"
    related = tuple((text, span) for text, span in spans[1:] if span is not None)
    return Diagnostic("plan.cycle", message, spans[0][1], hint, related=related)
