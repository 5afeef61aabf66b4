"""A run without calls: the engine evaluates a flow, and recorded outcomes replace all calls of user
code and models.

By the engine's own rules it answers what a new run would do (lifecycle/stale.py) and what a run had
at each moment (lifecycle/moments.py). The journal of such a run gives an outcome for each call and
writes nothing. The host refuses a call without an outcome, and all calls of a flow that is not
awaited, which has no journal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, NoReturn

from ..catalog.models import Model
from ..flow.frame import FlowInput
from ..flow.sequences import source_of
from ..flow.steps import Invoke
from ..flow.values import Value
from ..host.calls import Result
from ..host.host import Host, NoUser
from ..host.limits import ANYTHING, Grant, Limits, granted
from ..host.loop import run_apart
from ..journal.call_rows import StartedCall
from ..journal.recorder import Journal
from ..journal.records import CallKey
from ..journal.replay import ReplayLog
from ..journal.reuse import ReusedResult
from ..progress import events as ev
from ..progress.progress import Progress
from ..secrets.masking import Secrets
from ..text.diagnostics import Diagnostic, StepError
from .linked import Linked
from .run import run
from .runner import Runner

PLAIN = frozenset({str, bytes, list, tuple, range})
"""The types of values that have no code of a user."""

REFUSED = "offline.call"
"""The code of the refusal of a call. No user sees it."""


def refuse_call(*_: object, **__: object) -> NoReturn:
    raise StepError(
        Diagnostic(REFUSED, "the result of this call is not known, and nothing is called here")
    )


class OfflineHost(Host):
    """A host that calls nothing."""

    async def make_call(
        self, place: Any, function: Any, given: Any, timeout: float | None = None, terms: Any = None
    ) -> Result:
        refuse_call()

    async def call(
        self, place: Any, function: Any, given: Any, timeout: float | None = None
    ) -> Result:
        """What the engine itself does on a thread: it opens the library of a model, which no
        recorded reply needs; it reads an attachment, or the elements of a sequence. Values with
        code of a user are not read."""
        if isinstance(getattr(function, "__self__", None), Model):
            return True, None
        if not all(type(source_of(value)) in PLAIN for value in given.values()):
            refuse_call()
        try:
            return True, function(**given)
        except Exception as error:  # a file that is gone
            return False, error

    async def ask(self, question: ev.Question) -> Result:
        return False, NoUser()

    def admit(self) -> None:
        refuse_call()


class OfflineJournal(Journal):
    """Gives recorded outcomes and writes nothing. `take` decides about each call."""

    def __init__(self, most: int, run_id: str, earlier: ReplayLog | None = None) -> None:
        super().__init__(None, 0, run_id, most, earlier)  # type: ignore[arg-type]  # it is closed: nothing uses the store
        self.close()

    async def start(
        self, emit: Callable[[ev.Event], None], name: str, language: str, work: str
    ) -> None:
        self.emit = emit

    def end(
        self, status: str, output: Value, stores: Mapping[str, Value], error: BaseException | None
    ) -> None:
        """Nothing is written."""

    def mark(self, what: str, key: CallKey) -> None:
        """Nothing is written."""

    def reused(self, call: StartedCall, result: ReusedResult) -> Value:
        return result[0]

    async def fire_once(self, step: Invoke, callee: object, key: CallKey, given: Any) -> bool:
        return False

    async def keep_answer(self, call: StartedCall, value: Value, secret: bool = False) -> None:
        """Nothing is written."""


def run_offline(
    linked: Linked,
    given: FlowInput,
    journal: OfflineJournal,
    *,
    emit: Callable[[ev.Event], None],
    limits: Limits,
    secrets: Secrets,
    seconds: float,
    grant: Grant = ANYTHING,
    progress: Progress | None = None,
    make: type[Runner] = Runner,
) -> BaseException | None:
    """Run ``linked`` on a thread and a loop of its own, at most ``seconds``, and return its error,
    if it has one. The other parameters are those of `run`."""
    bounded = replace(limits, timeout=min(seconds, limits.timeout or seconds))

    async def main() -> None:
        granted.set(grant)
        await run(
            linked,
            given,
            host=OfflineHost(),
            emit=emit,
            limits=bounded,
            journal=journal,
            secrets=secrets,
            progress=progress,
            make=make,
        )

    return run_apart(main)
