"""The open questions of runs that a page or `Run.answer` answers."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import ClassVar

from ...engine.calls.answers import parse_answer
from ...engine.host.host import NoUser
from ...flow.progress.question import Question
from ...values.value import Value


class PendingQuestion:
    """A question that waits, on a loop or on a thread, for an answer from a page or a call of
    `Run.answer`. Any thread may answer."""

    POLL = 0.05
    """Seconds between two looks of a thread that waits."""

    _open: ClassVar[list[PendingQuestion]] = []

    def __init__(self, question: Question) -> None:
        self.question = question
        self._answer = Future[Value]()
        self._on_loop: asyncio.Future[Value] | None = None
        PendingQuestion._open.append(self)

    @classmethod
    def of(cls, question: Question) -> PendingQuestion | None:
        """The pending question for ``question``; None if it is not open, or if a cell asks it."""
        return next((pending for pending in list(cls._open) if pending.question is question), None)

    async def wait(self) -> Value:
        """The answer. Raises NoUser after `give_up`."""
        return await asyncio.shield(self._awaited())

    def wait_here(self, meanwhile: Callable[[], object]) -> Value:
        """The answer, for a thread that does nothing else but ``meanwhile()``. Raises NoUser after
        `give_up`."""
        while True:
            with contextlib.suppress(TimeoutError):
                return self._answer.result(self.POLL)
            meanwhile()

    async def is_answered_within(self, seconds: float) -> bool:
        """Whether the question is answered within ``seconds``. If not, it stays open."""
        done, _ = await asyncio.wait({self._awaited()}, timeout=seconds)
        return bool(done)

    def _awaited(self) -> asyncio.Future[Value]:
        """The answer for the loop that waits for it."""
        self._on_loop = self._on_loop or asyncio.wrap_future(self._answer)
        return self._on_loop

    def take(self, answer: Value) -> None:
        """Answer with a value that fits the question: see `parse_answer_value`."""
        self._settle(answer)

    def answer(self, text: str) -> bool:
        """Answer as if ``text`` were typed; False if it is not an answer to the question."""
        parsed = parse_answer(self.question, text)
        if parsed is not None:
            self._settle(parsed)
        return parsed is not None

    def choose(self, number: int) -> bool:
        """Answer with the choice of this number, which counts from 0; False if there is no such
        choice."""
        is_choice = 0 <= number < len(self.question.choices)
        if is_choice:
            self._settle(self.question.choices[number])
        return is_choice

    def give_up(self) -> None:
        """End the question without an answer: no page shows it."""
        self._settle(NoUser())

    def _settle(self, answer: Value | NoUser) -> None:
        """Set the answer, if there is none yet: the first answer counts."""
        with contextlib.suppress(InvalidStateError):
            if isinstance(answer, NoUser):
                self._answer.set_exception(answer)
            else:
                self._answer.set_result(answer)

    def close(self) -> None:
        PendingQuestion._open.remove(self)
