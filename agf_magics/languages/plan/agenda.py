"""A plan as it stands while it runs: who is ready, who never will be, and what each end adds to the log."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

from ...flow.frame import Frame, Node, Outcome, Ready, Skip
from ...flow.values import Value
from ...text.diagnostics import Diagnostic, StepError
from .calls import Call, Template, fill
from .ends import error_message, fault, results
from .log import Log
from .messages import Told, said
from .needs import Dependencies, Dependency, Turn, Verdict, dependencies_of, exists, verdict
from .order import Arrivals, Order
from .reference import Expression, Reference, references


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a document says, beside its calls' steps."""

    calls: tuple[Call, ...]
    needs: Dependencies
    """What its calls need of each other by the text alone, where there are no instances."""
    output: Template = None
    has_output: bool = False
    lazy: bool = False
    ordered: bool = False


class TurnOutcome(NamedTuple):
    """What became of a turn that gave no result."""

    status: str
    """``failed``, ``blocked``, ``cancelled``, ``upstream_failed``, ``branch_not_taken``, ``lazy``."""
    why: str = ""
    diagnostic: Diagnostic | None = None
    """What is told of it at the end; None: nothing."""
    error: StepError | None = None

    @property
    def reported(self) -> bool:
        """Whether it gets an Error message."""
        return self.status in ("failed", "blocked")


class PlanScheduler:
    """One run of a plan (`flow.frame.Agenda`)."""

    def __init__(self, plan: Plan, log: Log) -> None:
        self.plan = plan
        self.needs = dependencies_of(plan.calls, log, plan.needs)
        self.turns, self.nodes, self.numbers = self.needs.turns, self.needs.nodes, self.needs.numbers
        self.awaited = self.needs.awaited.copy()
        """How many each need still waits for, by its slot."""
        self.pending = self.needs.pending.copy()
        """How many ends may still concern each turn."""
        self.given: dict[int, dict[str, Value]] = {}
        """What a turn that is ready is given, where that is known already."""
        self.fates: dict[int, TurnOutcome] = {}
        self.changed: dict[int, Call] = {}
        """Calls in whose place a person put other arguments, or a result: as they were made."""
        self.stored: set[int] = set()

    @cached_property
    def order(self) -> Arrivals | Order:
        return Order(self.turns, self.needs.ranks) if self.plan.ordered else Arrivals()

    def refusals(self) -> tuple[Diagnostic, ...]:
        """What forbids it to run in this context."""
        circle = self.needs.cycle
        return () if circle is None else (in_circle(self.needs, circle),)

    def feeds(self, node: Node) -> Sequence[Node]:
        """Those of whom no need waits any more for whom it has to."""
        concerned = self.needs.feeds[self.numbers[node]]
        return [self.nodes[reader] for slot, reader in concerned if not self.awaited[slot]]

    def ready(self, node: Node, frame: Frame, ended: Mapping[Node, Outcome]) -> Ready:
        number = self.numbers[node]
        if self.plan.lazy:
            return self.skip(number, TurnOutcome("lazy", "the plan is lazy: nothing is called"))
        turn, log = self.turns[number], frame["log"]
        if not self.pending[number]:  # nobody writes any more what it reads: if it can be filled it is ready
            try:
                self.given[number] = turn.call.filled(log, turn.instance)
                return "go"
            except StepError:
                pass  # who is missing, and what is there and cannot be read, is told apart below
        needs = self.needs.needs[number]

        def look(reference: Reference) -> Verdict:
            return self.look(number, reference, needs[reference], log)

        answer: Ready = "go"
        for one in turn.call.expressions:
            found = verdict(one, look)
            if found == "never":
                return self.skip(number, self.why(number, one, look))
            if found == "wait":
                answer = "wait"
        return answer

    def look(self, number: int, reference: Reference, need: Dependency, log: Log) -> Verdict:
        if self.awaited[need.slot]:
            return "wait"
        if exists(reference, log, self.turns[number].instance):
            return "go"
        coming = (writer for writer in need.others if writer not in self.stored)
        return "wait" if any(not self.needs.follows(writer, number) for writer in coming) else "never"

    def skip(self, number: int, fate: TurnOutcome) -> Skip:
        self.fates[number] = fate
        return Skip(fate.why)

    def why(self, number: int, expression: Expression, look: Callable[[Reference], Verdict]) -> TurnOutcome:
        """Why an expression is never found: nobody writes it, who should have failed, or another branch was taken."""
        missing = [ref for ref in references(expression) if look(ref) == "never"]
        span = missing[0].span if missing else None
        writers = [
            w for ref in missing for need in [self.needs.needs[number][ref]] for w in (*need.awaited, *need.others)
        ]
        fates = [self.fates[writer] for writer in writers if writer in self.fates]
        if not writers:
            message = f"unresolved reference: no message and no call gives {expression}"
            hint = "an earlier call writes it, input: or state: brings it, or a default does: || 10"
            return TurnOutcome("blocked", message, Diagnostic("plan.unresolved-reference", message, span, hint))
        spoilt = next((fate for fate in fates if fate.status != "branch_not_taken"), None)
        if spoilt is not None:
            return TurnOutcome("upstream_failed", f"upstream failed: {expression} was not written")
        return TurnOutcome("branch_not_taken", f"branch not taken: {expression} was not written")

    def enter(self, node: Node, frame: Frame) -> Frame:
        number = self.numbers[node]
        given = self.given.pop(number, None)
        return {**frame, "instance": self.turns[number].instance, "turn": number, "given": given}

    def take(self, number: int, said: Mapping[str, Value]) -> None:
        """What a person put in the place of a call."""
        call = self.turns[number].call
        self.changed[number] = replace(call, authored={**call.authored, **said})

    def call(self, number: int) -> Call:
        """A call as it was made."""
        return self.changed.get(number) or self.turns[number].call

    def come(self, node: Node) -> None:
        self.order.come(self.numbers[node])

    def next(self) -> Node | None:
        number = self.order.next()
        return None if number is None else self.nodes[number]

    def store(self, node: Node, frame: Frame, outcome: Outcome) -> Frame:
        number = self.numbers[node]
        turn = self.turns[number]
        self.stored.add(number)
        self.order.stored(number)
        for slot in self.needs.awaiting[number]:
            self.awaited[slot] -= 1
        for _, reader in self.needs.feeds[number]:
            self.pending[reader] -= 1
        try:
            return kept(frame, self.messages(number, turn, outcome))
        except StepError as error:  # what the tool returned cannot be kept
            self.fates[number] = _failed("failed", error)
            return frame

    def messages(self, number: int, turn: Turn, outcome: Outcome) -> Sequence[Told]:
        """What the end of a turn adds."""
        call = self.call(number)
        if outcome.status == "skipped":
            if number not in self.fates:  # nobody is left who could give it
                self.fates[number] = TurnOutcome("upstream_failed", "upstream failed: what it reads never came")
            return ()
        if outcome.error is not None and outcome.error.code in ("step.denied", "step.instead"):
            self.fates[number] = _failed("cancelled", outcome.error)
            return ()
        if outcome.error is not None:
            if len(call.alternatives) > 1:
                return results(call, turn.instance, call.alternatives[-1], fault(outcome.error))
            self.fates[number] = _failed("failed", outcome.error)
            return ()
        if outcome.status == "fired":
            return ()
        return results(call, turn.instance, None, outcome.value)

    def close(self, frame: Frame, ended: Mapping[Node, Outcome]) -> Frame:
        """The Error messages, together, and the plan's own output."""
        reported = [(number, fate) for number, fate in sorted(self.fates.items()) if fate.reported]
        told = [
            error_message(self.call(number), self.turns[number].instance, fate.diagnostic, fate.error)
            for number, fate in reported
        ]
        frame = kept(frame, [(message, said(message)) for message in told])
        failures = [fate for _, fate in sorted(self.fates.items()) if fate.status in ("failed", "blocked", "cancelled")]
        frame = {**frame, "failures": tuple(failures), "notes": ()}
        if not self.plan.has_output or self.plan.lazy:
            return frame
        try:
            output = fill(self.plan.output, frame["log"], None)
        except StepError as error:
            found = error.diagnostic
            note = Diagnostic(
                "plan.no-output", f"the plan has no output: {found.message}", found.span, found.hint, "warning"
            )
            return {**frame, "notes": (note,)}
        message = {"type": "data", "kind": "output", "data": output}
        return {**kept(frame, [(message, said(message))]), "output": output}


def _failed(status: str, error: StepError) -> TurnOutcome:
    return TurnOutcome(status, error.diagnostic.message, error.diagnostic, error)


def kept(frame: Frame, messages: Sequence[Told]) -> Frame:
    """The frame with ``messages`` at the end of its log; its named context is told at once, so that a run that is
    stopped has lost nothing."""
    if not messages:
        return frame
    log: Log = frame["log"].told(messages)
    context: Any = frame["context"]
    if context is not None:
        context.log = log
    return {**frame, "log": log}


def in_circle(needs: Dependencies, circle: Sequence[int]) -> Diagnostic:
    """What to say of calls that wait for each other."""
    named = [f"{needs.turns[number].call.tool} ({needs.turns[number].call.id})" for number in circle]
    spans = []
    for number, before in pairwise(circle):
        reads = (ref for ref, need in needs.needs[number].items() if before in need.awaited)
        spans.append((f"reads what {needs.turns[before].call.id} writes", next(reads).span))
    message = f"calls wait for each other: {' → '.join(named)}"
    hint = "let one of them read what is there before: state: {...} brings a first value"
    related = tuple((what, span) for what, span in spans[1:] if span is not None)
    return Diagnostic("plan.cycle", message, spans[0][1], hint, related=related)
