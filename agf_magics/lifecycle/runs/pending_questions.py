"""The open questions of background runs, which a page or `Run.answer` answers."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from ...engine.calls.answers import parse_answer
from ...engine.host.host import NoUser
from ...flow.progress.question import Question
from ...values.value import Value


class PendingQuestion:
    """A question of a background run that waits for an answer of a page or of a call. Its methods may be called
    by any thread."""

    _open: ClassVar[list[PendingQuestion]] = []

    def __init__(self, question: Question, answer: asyncio.Future[Value]) -> None:
        self.question = question
        self._answer = answer
        self._loop = answer.get_loop()
        PendingQuestion._open.append(self)

    @classmethod
    def of(cls, question: Question) -> PendingQuestion | None:
        """The pending answer to this question; None if it does not wait, or waits in a cell."""
        return next((pending for pending in list(cls._open) if pending.question is question), None)

    async def wait(self) -> Value:
        """The answer. Raises NoUser after `give_up`."""
        return await self._answer

    async def is_answered_within(self, seconds: float) -> bool:
        """Whether it is answered within ``seconds``; it goes on to wait otherwise."""
        done, _ = await asyncio.wait({self._answer}, timeout=seconds)
        return bool(done)

    def take(self, answer: Value) -> None:
        """Answer with a value that fits the question: see `given_answer`."""
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
        """The first answer counts."""

        def set_once() -> None:
            if self._answer.done():
                return
            if isinstance(answer, NoUser):
                self._answer.set_exception(answer)
            else:
                self._answer.set_result(answer)

        self._loop.call_soon_threadsafe(set_once)

    def close(self) -> None:
        PendingQuestion._open.remove(self)
