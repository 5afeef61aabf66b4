"""`OpenQuestion`, a question of a served run that waits for a client's answer, up to a time
limit."""

from __future__ import annotations

from collections.abc import Callable

from ...engine.host.host import NoUser
from ...flow.progress.question import Question
from ...lifecycle.runs.answering import fitting_answer
from ...lifecycle.runs.pending_questions import PendingQuestion
from ...text.diagnostics import DefinitionError
from ...values.value import Value

PATIENCE = 600.0
"""Seconds in which an open question can be answered. Then an approval is denied, and any other question
ends the run as ``waiting``: the run takes no memory, and goes on when the question is answered."""

TRIES = 5
"""Wrong answers after which a question is given up: a program may answer for ever."""


class OpenQuestion:
    """Puts the questions of one run to a client. `ask` runs on the engine's loop; the client
    answers on that of the server."""

    def __init__(self, tell: Callable[[], None], patience: float = PATIENCE) -> None:
        """``tell``: called when a question is open; never blocks. ``patience``: in seconds."""
        self._tell = tell
        self._patience = patience
        self.complaint = ""
        """The reason why the last answer does not fit; empty before the first answer."""
        self._tries = 0
        self._pending: PendingQuestion | None = None

    @property
    def current(self) -> Question | None:
        """The open question."""
        pending = self._pending
        return pending.question if pending is not None else None

    def answer(self, answer: Value) -> None:
        """Answer the open question; do nothing if no question is open any more. Raises
        DefinitionError if the answer does not fit."""
        if (pending := self._pending) is not None:
            fitting = fitting_answer(pending.question, answer)
            self._pending = None  # at once, because the engine takes the answer later
            pending.take(fitting)

    def try_answer(self, answer: Value) -> None:
        """Answer the open question for a client that may try again: a wrong answer leaves the
        question open, with a complaint; after `TRIES` wrong answers the question is given up."""
        try:
            self.answer(answer)
        except DefinitionError as error:
            self._tries += 1
            self.complaint = error.diagnostic.message
            if self._tries == TRIES:
                self.give_up()

    def give_up(self) -> None:
        """End the open question without an answer."""
        if (pending := self._pending) is not None:
            self._pending = None
            pending.give_up()

    async def ask(self, question: Question) -> Value:
        """The answer. Raises NoUser if nobody gives one."""
        pending = PendingQuestion(question)
        self._pending = pending
        self.complaint = ""
        self._tries = 0
        try:
            self._tell()
            if not await pending.is_answered_within(self._patience):
                raise NoUser("nobody has answered")
            return await pending.wait()
        finally:
            self._pending = None
            pending.close()
