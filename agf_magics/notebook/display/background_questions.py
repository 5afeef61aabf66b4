"""Questions of runs in a notebook: the explorer of the run has the buttons and the field.

Most runs are shown as an explorer already. For any other background run (``--quiet``, or started by
Python code) an explorer is opened in the cell that started the run, as long as questions are open. Where
no explorer receives a click while the cell runs, the cell asks at its prompt. The saved document has only
text.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import ClassVar

from ...compat.browser import IN_BROWSER
from ...engine.calls.answers import ANSWERS
from ...engine.host.host import NoUser
from ...flow.progress.question import Question
from ...lifecycle.input.prompt import ask_at_prompt, format_question
from ...lifecycle.runs.live import live
from ...lifecycle.runs.pending_questions import PendingQuestion
from ...lifecycle.runs.run import Run
from ...pictures.call_words import asker_words
from ...pictures.plain import html, line
from ...settings.settings import current
from ...text.giving_up import giving_up, note_given_up
from ...values.value import Value
from ..output.front_end import in_frames, page
from ..output.output import EMPTY, Bundle, OutputSlot
from .framed import framed
from .view import Explorer

WAITING = "waiting for an answer in the view of the run"
UNSEEN = (
    "waiting for an answer, and no view has opened here: answer with %answer {0} VALUE, "
    "or in Python with .answer(VALUE) of the run"
)
PATIENCE = 5.0
"""Seconds after which a view that has not reported cannot be opened here."""
SOON = 2.0
"""Seconds after which a kernel whose first view has not reported cannot hear a view in a running cell."""
KEEPS_UP = 0.2
"""Seconds between two updates of an explorer that is opened for questions."""
LONGEST_TYPED = 200
"""Characters of a typed answer in the document."""
NOT_ANSWERED = "not answered: the run has ended"


def asker(has_views: Callable[[], bool]) -> Callable[[Question], Awaitable[Value]]:
    """The function that asks the questions of background runs. ``has_views()``: whether a run that is
    shown is shown as an explorer."""

    async def ask_in_explorer(question: Question) -> Value:
        """Ask in the explorer of the run, and keep the question and its answer in the cell that
        started the run.

        A run that a cell awaits is on the kernel's own loop, and not every kernel receives a click
        meanwhile: such a run asks at the prompt. Raises NoUser if no explorer can show the question.
        """
        run = _run_of(question)
        on_main_thread = threading.current_thread() is threading.main_thread()
        # In a browser everything is on one thread, also a background run.
        if on_main_thread and (run is None or not run.background):
            return ask_at_prompt(question)
        if run is None:
            raise NoUser
        explorer = nullcontext() if has_views() and Explorer.shows(run) else _own_explorer(run)
        with _in_document(question, run) as shown, explorer:
            shown.slot.reserve(unanswered(shown.question, WAITING, run.run_id))
            if not (await shown.pending.is_answered_within(PATIENCE) or page.has_reported):
                how = UNSEEN.format(line(run.run_id, 90))
                shown.slot.put(unanswered(shown.question, how, run.run_id))
            return shown.take(await shown.pending.wait())

    return ask_in_explorer


def cell_asker(has_views: Callable[[], bool]) -> Callable[[Question], Value]:
    """The function that asks the questions of a run that a cell waits for. ``has_views()``: see
    `asker`."""

    def ask_in_cell(question: Question) -> Value:
        """Ask in the explorer of the run if the explorer receives a click now, else at the prompt: only
        in one of the two."""
        run = _run_of(question)
        is_shown = run is not None and has_views() and Explorer.shows(run) and not IN_BROWSER
        if run is None or not is_shown or not page.hears_soon(SOON, current.meanwhile):
            return ask_at_prompt(question)
        with _in_document(question, run) as shown:
            shown.slot.reserve(unanswered(shown.question, WAITING, run.run_id))
            return shown.take(shown.pending.wait_here(current.meanwhile))

    return ask_in_cell


class _ShownQuestion:
    """A question that an explorer asks, and its place in the document."""

    def __init__(self, question: Question, run: Run) -> None:
        self.slot = OutputSlot()
        self._secrets = run.secrets
        self.pending = PendingQuestion(question)
        self.answer = NOT_ANSWERED
        """The answer in the words of the saved document."""
        asking = list(run.progress.open_questions.items())
        path = next((path for path, other in asking if other is question), ())
        where = asker_words(run.progress.rows, path) or question.where
        self.question = question._replace(where=where)
        """The question, with the author's words for the step that asks."""

    def take(self, answer: Value) -> Value:
        """Return ``answer``, and remember it in the words of the document."""
        self.answer = self._secrets.text(describe_answer(self.pending.question, answer))
        return answer


@contextmanager
def _in_document(question: Question, run: Run) -> Iterator[_ShownQuestion]:
    """In the block the question waits; afterwards the document has the question with its answer."""
    shown = _ShownQuestion(question, run)
    try:
        yield shown
    finally:
        shown.slot.end(frozen(shown.question, shown.answer))
        shown.pending.close()


def _run_of(question: Question) -> Run | None:
    """The live run that asks."""
    for run in live:
        if any(other is question for other in list(run.progress.open_questions.values())):
            return run
    return None


@contextmanager
def _own_explorer(run: Run) -> Iterator[None]:
    """In the block, ``run`` is shown by an explorer that is opened only for the run's questions."""
    try:
        own = _OwnExplorer.of(run)
    except Exception as error:  # the widgets of this environment do not work
        note_given_up(__name__, "no explorer could be opened for a question", error)
        raise NoUser from error
    try:
        yield
    finally:
        own.leave()


class _OwnExplorer:
    """The explorer of a run that is not shown otherwise, for all its open questions."""

    _open: ClassVar[dict[str, _OwnExplorer]] = {}
    _lock = threading.Lock()

    def __init__(self, run: Run) -> None:
        from ..explorer.run_channel import Channel

        self._run = run
        self._count = 0
        """The number of open questions."""
        self._channel = Channel(run, waits=False, show=lambda _: None)
        self._slot = OutputSlot()
        page: Bundle = framed(EMPTY, self._channel.mark)
        self._slot.reserve({**(self._channel.widget_view if in_frames() else {}), **page})
        self._is_closed = False
        if not IN_BROWSER:
            # In the context of the cell, so that what the thread sends belongs to the cell.
            follow = contextvars.copy_context().run
            threading.Thread(
                target=follow, args=(self._follow,), name="agf-asks", daemon=True
            ).start()

    def _follow(self) -> None:
        """Send what changes while a question is open: other steps go on, and may ask, too."""
        while not self._run.wait(KEEPS_UP).done:
            with self._lock, giving_up(__name__, "the explorer of a question was not updated"):
                if self._is_closed:
                    return
                self._channel.tick()

    @classmethod
    def of(cls, run: Run) -> _OwnExplorer:
        """The explorer of a run, opened or shared; it counts one question more."""
        with cls._lock:
            explorer = cls._open.get(run.run_id) or cls(run)
            cls._open[run.run_id] = explorer
            explorer._count += 1
            explorer._channel.tick()
            return explorer

    def leave(self) -> None:
        """One question less; the last one closes the explorer."""
        with self._lock, giving_up(__name__, "the explorer of a question was not closed"):
            self._count -= 1
            if self._count:
                return self._channel.tick()
            self._is_closed = True
            del self._open[self._run.run_id]
            self._slot.put(EMPTY)
            self._channel.close()


def describe_answer(question: Question, answer: Value) -> str:
    """An answer for the document, which must not have secrets: a typed text stands in quotes, unless
    its question is secret or it is one of the words that answer a question of yes and no."""
    if isinstance(answer, bool):
        return "yes" if answer else "no"
    if isinstance(answer, dict):
        return "changed"
    if isinstance(answer, str) and answer.strip().lower() in ANSWERS:
        return answer.strip()
    if question.choices:
        return str(answer)
    return "answered" if question.secret else f'"{line(str(answer), LONGEST_TYPED)}"'


def unanswered(question: Question, waiting: str, run_id: str) -> dict[str, str]:
    """A question that waits, marked so that an explorer of the run can hide this copy of it."""
    shown = frozen(question, waiting)
    attributes = f'class="agf-asked" data-run="{html(line(run_id, 90))}"'
    return {**shown, "text/html": f"<div {attributes}>{shown['text/html']}</div>"}


def frozen(question: Question, answer: str) -> dict[str, str]:
    """The question and its answer for the saved notebook."""
    shown = line(answer, 300)
    return {
        "text/html": f"{_page(question)}<div>→ <strong>{html(shown)}</strong></div>",
        "text/plain": f"? {format_question(question)}\n→ {shown}",
    }


def _page(question: Question) -> str:
    text = html(format_question(question._replace(choices=())))
    where = (
        f' <code style="opacity:0.75">{html(line(question.where, 100))}</code>'
        if question.where
        else ""
    )
    return (
        f'<div style="white-space:pre-wrap;line-height:1.4"><strong>?</strong> {text}{where}</div>'
    )
