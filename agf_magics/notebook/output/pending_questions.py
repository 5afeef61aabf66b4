"""The open questions of background runs: answered in the explorer, and shown with their answer as text."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from ...engine.calls.answers import parse_answer
from ...engine.host.host import NoUser
from ...flow.progress.question import Question
from ...values.value import Value


class PendingQuestion:
    """A question of a background run that waits for an answer of a page. Its methods may be called
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

    def answer(self, text: str) -> bool:
        """Answer as if ``text`` were typed; False if it is not an answer to the question."""
        found = parse_answer(self.question, text)
        if found is not None:
            self._settle(found)
        return found is not None

    def choose(self, number: int) -> bool:
        """Answer with the choice of this number, which counts from 0; False if there is no such
        choice."""
        known = 0 <= number < len(self.question.choices)
        if known:
            self._settle(self.question.choices[number])
        return known

    def give_up(self) -> None:
        """End the question without an answer: no page shows it."""
        self._settle(NoUser())

    def _settle(self, found: Value | NoUser) -> None:
        """The first answer counts."""

        def set_once() -> None:
            if self._answer.done():
                return
            if isinstance(found, NoUser):
                self._answer.set_exception(found)
            else:
                self._answer.set_result(found)

        self._loop.call_soon_threadsafe(set_once)

    def close(self) -> None:
        PendingQuestion._open.remove(self)
