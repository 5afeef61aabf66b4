"""`FanOutParts`, the elements or branches of a fan-out, which decides what a failure means.

A failure means a retry, a dropped part or the end of the fan-out. task_fan_out.py runs the parts as
steps, worker_fan_out.py as calls on workers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

from ...flow.graph_steps import Walk
from ...flow.progress import events as ev
from ...flow.progress.question import Denied
from ...flow.step_path import StepPath
from ...flow.steps import Branches, Each
from ...journal.codec.encoding import preview
from ...journal.records.records import CallKey, tries_within
from ...text.diagnostics import Diagnostic, StepError
from ...values.value import Value
from ..runner import CallSite, Scope, clock
from .elements import Elements
from .start_order import StartOrder


class FanOutParts(ABC):
    """The base of the two ways to run the parts of a fan-out."""

    @abstractmethod
    async def run(self, order: StartOrder) -> dict[int, StepError]:
        """Run the parts in ``order``. Returns the failures that did not end the fan-out. Raises the
        failure that ended it."""

    def __init__(
        self,
        site: CallSite[Each] | CallSite[Branches] | CallSite[Walk],
        keep: Callable[[int, Value], None],
        path_of: Callable[[int], StepPath],
        items: Elements | None = None,
    ) -> None:
        """``keep(i, value)``: stores the value of part ``i``. ``path_of(i)``: returns the path of
        part ``i``. ``items``: the elements; None: the parts are branches."""
        self.site = site
        self.keep = keep
        self.path_of = path_of
        self.items = items
        self.failures: dict[int, StepError] = {}
        """The failures that did not end the fan-out, if the step reads them."""
        self.failure: BaseException | None = None
        """The failure that ends the fan-out; None: there is none."""
        self.dropped = 0
        """The number of dropped parts."""

    def try_again(self, i: int, attempt: int, error: StepError) -> bool:
        """Handle a failed attempt of part ``i``. Returns whether another attempt follows. Raises
        ``error`` if it ends the fan-out."""
        run = self.site.run
        path = self.path_of(i)
        if attempt <= self.site.step.failing.retries and not isinstance(error, Denied):
            run.emit(ev.StepRetried(path, clock(), error))
            run.mark("retried", self._attempt(i, attempt))
            if self.items is not None:
                self.items.forget_failed(i)
            return True
        self.give_up(i, error)
        return False

    def was_tried_again(self, i: int, attempt: int) -> bool:
        """Whether an earlier session of the run made another attempt after this one, or waited for
        it. The time of that pause has passed."""
        return ("retried", self._attempt(i, attempt)) in self.site.run.log.marks

    def _attempt(self, i: int, attempt: int) -> CallKey:
        """The name of an attempt in the journal."""
        path = self.path_of(i)
        return CallKey(path, retry_scope(self.site.scope, path, attempt).tries)

    def give_up(self, i: int, error: StepError) -> None:
        """Handle the failure of a part's last attempt. Raises ``error`` if it ends the fan-out."""
        step = self.site.step
        run = self.site.run
        tries = self.site.scope.tries
        on_error = step.failing.on_error
        # None if the element cannot be read, or if the parts are branches.
        value = self.items.shown(i) if self.items is not None else None
        element = preview(run.secrets.shown(value))
        if error.element is None:  # else it is that of a fan-out inside this one
            error.element = element
        if on_error == "abort":
            self.failure = self.failure or error
            raise error
        # Failures are kept for `gather`, for the error at the end of a fan-out that finishes, and for a
        # `join` that stores them.
        if step.gather is not None or on_error == "finish" or step.failing.keeps_failures:
            self.failures[i] = error
        if on_error == "continue":
            run.emit(ev.ElementDropped(self.path_of(i), clock(), error, element))
            run.mark("dropped", CallKey(self.path_of(i), tries), error)
            self.dropped += 1

    def warn_if_all_dropped(self, count: int) -> None:
        """Warn if all of ``count`` parts were dropped. The warning comes once for a step, which may
        be inside another fan-out."""
        step = self.site.step
        run = self.site.run
        if self.items is not None and count < len(self.items):  # other elements follow
            return
        # One call with on_error is a `Branches` with one branch: the headline of the run shows its
        # failure already.
        is_call = self.items is None and step.gather is not None
        if self.dropped == count > 0 and not is_call:
            parts = "elements" if self.items is not None else "branches"
            message = (
                f"{step.word or step.label}: all {parts} failed and were dropped ({self.dropped:,})"
            )
            warning = Diagnostic("run.all-dropped", message, step.span, severity="warning")
            run.warn_once(warning, (warning.code, step.span))


def retry_scope(scope: Scope, path: StepPath, attempt: int) -> Scope:
    """The scope of attempt number ``attempt`` of the part at the path ``path``."""
    if attempt == 1:
        return scope
    return scope._replace(tries=tries_within(scope.tries, path, attempt))
