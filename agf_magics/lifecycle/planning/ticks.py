"""Runs the ticks of a planner: requests and runs plan after plan, on one context and within one
budget.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial, reduce
from typing import Any, NamedTuple

from ...catalog import Registry
from ...engine.host.hold_interrupts import hold_interrupts
from ...engine.host.host import Asker
from ...engine.run_options import RunOptions
from ...engine.runner import clock
from ...flow.flow import Flow
from ...flow.progress.events import Event, Warned
from ...flow.progress.usage import Usage
from ...languages.plan import Log
from ...limits.budgets import Budget, LimitReached
from ...limits.limits import Limits
from ...schemas.json_schema import judge
from ...schemas.violations import describe_all
from ...text.diagnostics import AgfError, DefinitionError, Diagnostic, StepError
from ...values.value import Value
from ..launch.driving import wait_for
from ..launch.launch import start_run
from ..runs.run import Run, RunCancelled, state_of
from .contexts import context

Begin = Callable[[RunOptions], Run]
"""Starts a run and returns it at once."""


class PlannedTick(NamedTuple):
    """A plan to run."""

    flow: Flow
    has_output: bool
    gives: Mapping[str, Any] | None = None
    """The JSON Schema of the plan's output; None: any output."""

    def output_problem(self, output: Value) -> str | None:
        """The reasons why the output of the plan does not conform to ``gives``; None: it conforms.
        It is judged after the run, because a reference can have any value."""
        violations = judge(self.gives)(output) if self.gives is not None else []
        why = f"the output does not conform to its schema: {describe_all(violations)}"
        return why if violations else None


@dataclass(frozen=True, slots=True)
class PlannerResult:
    """The result of a planner: ``output`` is the output of its last plan, ``runs`` has the run of
    each plan, ``asked`` the run of each request to the model, ``usage`` the requests and tokens of
    all of them, ``cost`` their price in US dollars, and ``error`` the error that ended it, or
    None."""

    runs: tuple[Run, ...]
    """The run of each plan, in order."""
    asked: tuple[Run, ...]
    """The run of each request to the model, in order; of a function, none."""
    output: Value
    """The output of the last plan; None if no plan with an output has succeeded."""
    error: AgfError | None = None
    """The reason why the planner ended without an output."""

    @property
    def usage(self) -> Usage:
        """The use of models by all requests and plans."""
        return reduce(Usage.plus, (run.usage for run in (*self.asked, *self.runs)), Usage())

    @property
    def cost(self) -> Decimal | None:
        """The cost of the models in US dollars, estimated; None: a price is not known."""
        return self.usage.cost

    def __repr__(self) -> str:
        ticks = f"{len(self.runs)} plan{'s' * (len(self.runs) != 1)}"
        asked = (
            f", {self.usage.requests} requests, {self.usage.tokens:,} tokens" if self.asked else ""
        )
        how = f"error {self.error.code}" if self.error is not None else f"output {self.output!r}"
        return f"<PlannerResult {ticks}{asked}: {how}>"


def drive_run(begin: Begin, options: RunOptions, plan: Flow | None) -> Run:
    """Start a run and drive it to its end on this thread."""
    with hold_interrupts() as deferred:
        return wait_for(begin(options), deferred)


@dataclass(frozen=True, slots=True, kw_only=True)
class TickOptions:
    """The options of the ticks."""

    context: str
    """The name of the context."""
    max_ticks: int
    """The largest number of plans."""
    registry: Registry
    limits: Limits
    """The limits of all ticks together."""
    secret: Mapping[str, Value] = field(default_factory=dict)
    """The secret fields of the input: each plan gets them as its input, and no message has them."""
    on_event: Callable[[Event], None] | None = None
    ask: Asker | None = None
    on: object = None
    """The place where concurrent calls are made (see workers/on.py); None: as the settings say."""
    resume_with: str = "run_planner(…, resume=True)"
    """The words with which a person continues the planner; empty: only its runs are resumed."""
    execute: Callable[[Begin, RunOptions, Flow | None], Run] = drive_run
    """Starts a run and waits for its end. The third argument is the flow of a plan; None: the run
    is a request. The notebook passes a function that also shows the run."""


class Ticks:
    """The state of a planner."""

    def __init__(self, options: TickOptions) -> None:
        self.options = options
        self.runs: list[Run] = []
        self.asked: list[Run] = []
        self.error: AgfError | None = None
        self.output: Value = None
        self._budget = Budget(options.limits)
        self._started = time.monotonic()

    @property
    def result(self) -> PlannerResult:
        return PlannerResult(tuple(self.runs), tuple(self.asked), self.output, self.error)

    @property
    def log(self) -> Log:
        """The context."""
        return context(self.options.context, registry=self.options.registry).log

    def count(self, asks: bool, tokens: int, cost: str | None) -> None:
        """Count a run of an earlier session against the limits. ``asks``: whether it was a
        request."""
        self._budget.spawned += asks
        self._budget.tokens += tokens
        with suppress(ArithmeticError):  # the journal may be foreign
            self._budget.cost += Decimal(cost or 0)

    def append(self, *messages: Mapping[str, Value]) -> None:
        """Add messages to the context. Raises DefinitionError while a run is writing to it."""
        context = self.options.registry.contexts.named(self.options.context)
        context.hold("planner")
        try:
            context.log = self.log.append(*messages)
        finally:
            context.release("planner")

    @contextmanager
    def errors(self) -> Iterator[None]:
        """A block in which a StepError between two runs becomes the error of the ticks."""
        try:
            yield
        except StepError as error:
            self.error = error

    def repeat(self, plan_of: Callable[[int], PlannedTick | None], first: int = 1) -> None:
        """Run the plans of the ticks from number ``first`` on. ``plan_of`` returns None if there is
        no plan: the request has failed."""
        for number in range(first, self.options.max_ticks + 1):
            tick = plan_of(number)
            if tick is None or self.run_plan(number, tick):
                return
        self._warn()

    def run_plan(self, number: int, tick: PlannedTick) -> bool:
        """Run the plan of a tick, and return whether it was the last tick."""
        flow = replace(
            tick.flow,
            name=f"{self.options.context}-{number}",
            dialect=replace(tick.flow.dialect, context=self.options.context),
        )
        run = self.execute(
            partial(start_run, flow, dict(self.options.secret) or None), self.options.registry, flow
        )
        self.runs.append(run)
        return self.ends(run, tick)

    def ends(self, run: Run, tick: PlannedTick) -> bool:
        """Whether the planner ends with ``run``, the run of a plan."""
        self.error = run.error
        if run.error is None and state_of(run).cancel_reason is not None:
            message = f"planner {self.options.context!r} was cancelled"
            cancelled = self.error = RunCancelled(Diagnostic("run.cancelled", message))
            cancelled.run = run
        if self.error is not None:
            # The failure of a call is a message of the context, and the planner reacts to it; that
            # a person refused a call is not.
            problems = self.error.diagnostics
            self._tell(*(problem.message for problem in problems if problem.code == "step.denied"))
            # A run that was cancelled or waits ends the planner, and so does a limit of all ticks.
            return run.status != "error" or isinstance(self.error, LimitReached)
        if not tick.has_output:
            return False
        # An output that has no value is a warning of the run: to a planner it is a failure.
        missing = [note.message for note in run.warnings if note.code == "plan.no-output"]
        problem = missing[0] if missing else tick.output_problem(run.output)
        if problem is not None:
            self.error = StepError(
                Diagnostic(
                    "planner.reply",
                    problem,
                    None,
                    "raise max_ticks, or say in the task what the output is",
                )
            )
            self._tell(problem)
            return False
        self.output = run.output
        return True

    def _tell(self, *problems: str) -> None:
        """Add problems that are not the failure of a call to the context."""
        if problems:
            self.append(
                *(
                    {"type": "data", "kind": "error", "data": {"error": {"message": problem}}}
                    for problem in problems
                )
            )

    def execute(self, begin: Begin, registry: Registry, plan: Flow | None = None) -> Run:
        """Start a run, and wait for its end within the budget. ``plan``: the flow of a plan; None:
        the run is a request, or is resumed."""
        options = self.options
        limits = self._limits_left()
        # A failed plan is followed by another one; a failed request is not.
        unfinished = ("cancelled", "waiting", *(() if plan is not None else ("error",)))
        run_options = RunOptions(
            registry=registry,
            limits=limits,
            on_event=options.on_event,
            ask=options.ask,
            on=options.on,
            budget=self._budget,
            plans=plan is None,
            secrets=tuple(options.secret.values()),
            continuing=(
                (lambda status: options.resume_with if status in unfinished else "")
                if options.resume_with
                else None
            ),
        )
        run = options.execute(begin, run_options, plan)
        # `result` raises an error that is not a StepError, which `run.error` does not have.
        return run if run.error is not None else run.result()

    def _limits_left(self) -> Limits:
        """The limits with the time that is left. Raises StepError ``limit.timeout``."""
        limits = self.options.limits
        if limits.timeout is None:
            return limits
        seconds_left = limits.timeout - (time.monotonic() - self._started)
        if seconds_left <= 0:
            message = (
                f"planner {self.options.context!r} took longer than its timeout of "
                f"{limits.timeout:g} s"
            )
            raise StepError(
                Diagnostic(
                    "limit.timeout", message, hint="limits=Limits(timeout=…) sets it for all ticks"
                )
            )
        return replace(limits, timeout=seconds_left)

    def _warn(self) -> None:
        count = self.options.max_ticks
        message = f"none of the first {count} plans had an output"
        if not self.runs:  # a resumed planner that had used all its ticks
            raise DefinitionError(Diagnostic("run.max-ticks", message, hint="raise max_ticks"))
        texts = [run.flow.source.text for run in self.runs[-2:]]
        hint = "raise max_ticks"
        if len(texts) == 2 and texts[0] == texts[1]:
            hint = "the last two plans are equal: say in the task when it is done"
        self.runs[-1].progress.apply(
            Warned(clock(), Diagnostic("run.max-ticks", message, None, hint, "warning"))
        )
