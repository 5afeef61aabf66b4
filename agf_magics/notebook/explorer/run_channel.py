"""The channel between one run and its explorer in the page: requests come in, changes go out.

An explorer shows all steps of a run, live or past, its picture, its timeline and each value. The
document has only the static page of the run, in an element with its own class, the mark. The page's
script finds the element by the mark and draws over it, so a saved notebook has no widget: without a
kernel, or where the script cannot find the element, the static page shows. The kernel sends a message
only if something has changed.
"""

from __future__ import annotations

import contextvars
import re
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from IPython import get_ipython

from ...catalog import default
from ...engine.run_options import RunOptions
from ...engine.runner import clock
from ...flow.question_text import question_digest
from ...journal.runs import had_effects
from ...languages.over import OVER
from ...lifecycle.past.past_runs import runs
from ...lifecycle.past.rerun import rerun_from
from ...lifecycle.past.resume import resume_run
from ...lifecycle.run_internals import linked_flow, place_in_journal
from ...lifecycle.runs.pending_questions import PendingQuestion
from ...lifecycle.runs.run import Run
from ...pictures.pages.updates import Update, Updates, describe_tree
from ...pictures.plain import line
from ...pictures.problems import format_exception
from ...pictures.row_words import old_results
from ...text.diagnostics import DefinitionError
from ..config import has_notices
from ..output.front_end import in_frames, page
from ..output.output import Bundle, accompany
from .edited_cells import refuse_edited, refuse_edited_functions
from .open_call import open_call
from .open_views import Answers, is_open, open_explorer
from .replies import MOST_WHY
from .request_types import AnyRun, Json, Refused, Requests

COUNTERS = 0.25
"""Seconds between two updates if only counters change: any update costs half a kilobyte, and the page
the time of a frame. The pause is twice as long for a long run."""

LONG = 10.0
"""Seconds after which a run is long."""

COMPLETE = 5.0
"""Seconds after which an update has all rows, if anything changed: so a page that missed a message is
right again."""


WRITTEN = 10.0
"""Seconds after which the static page of a live run is written into the output again, so that a notebook
that is saved has it. Each page stays in the history of a shared document, so a long run writes it less
often: a fifth of the run may be missing."""

NEWS = 10.0
"""Seconds after the end of a background run in which a page that first hears of the run tells it."""

LATE = 0.5
"""Seconds between two looks at the calls that an ended run has left running."""

MOST_ANSWER = 100_000
"""The most characters of an answer to a question."""


class Channel(Answers):
    """The messages between the kernel and the page about one run. The methods may be called on any
    thread."""

    def __init__(
        self,
        run: AnyRun,
        waits: bool,
        show: Callable[[Run], object],
        draw: bool = False,
        mark: str = "",
        alone: bool = False,
    ) -> None:
        """``waits``: whether a cell waits for the run. ``show``: called with a run that this explorer
        started, to put its static page into the output. ``draw``: whether the picture is shown first.
        ``mark``, ``alone``: see `Answers`."""
        self.run = run
        self._waits = waits
        self._show = show
        self._draw = draw
        self._lock = threading.RLock()
        self._updates = Updates(run.progress)
        self._seen = -1
        """`Progress.changes` up to which updates told all, also counters; -1: none was sent."""
        self._sent = 0
        """The number of the last update: a page that misses one asks for everything."""
        self._opened = self._completed = time.monotonic()
        """When the run was shown first, and when an update had all rows last."""
        self._counted = 0.0
        """When an update had the changes of counters last."""
        self._written = self._opened, -1
        """When the static page was written last, and `Progress.changes` of it."""
        self._asked = frozenset[str]()
        """The questions that the last update offered to answer."""
        self._head: Update = {}
        """The facts that the open pages know, by name: an update has only the facts that changed."""
        self._context = contextvars.copy_context()
        """The context of the cell: an output of another thread belongs to the cell by it."""
        super().__init__({}, {}, alone, mark)  # last: it sends `start` to the page

    def start(self) -> Json:
        """The tree and all rows."""
        with self._lock:
            progress = self.run.progress
            # Not by `_updates`, which remembers what the pages that are open already have.
            update = Updates(progress).complete(clock())
            return {
                "tree": describe_tree(progress),
                "update": {"n": self._sent, **self._described(update)},
                "hears": self.hears,
                "draw": self._draw,
                "id": line(self.run.run_id, 90),
                "notices": self._notices(),
            }

    def _notices(self) -> bool | str:
        """Whether the page tells the end and the questions of the run; ``news``: it has just ended."""
        if not getattr(self.run, "background", False) or not has_notices(get_ipython()):
            return False
        ended = self.run.progress.ended
        return "news" if ended is not None and clock() - ended < NEWS else True

    def tick(self) -> None:
        """Send the changes since the last update, and now and then write the static page again."""
        self._send_changes()
        self._write()

    def _write(self) -> None:
        when, seen = self._written
        now, changes = time.monotonic(), self.run.progress.changes
        pause = max(WRITTEN, (now - self._opened) / 5)
        # Not below the hands of a person who types an answer; and a frame would begin anew.
        if changes == seen or now - when < pause or self.run.progress.open_questions or in_frames():
            return
        self._written = now, changes
        # The end writes the last page itself.
        if isinstance(self.run, Run) and not self.has_ended:
            self._show(self.run)

    def _send_changes(self) -> None:
        with self._lock:
            changes = self.run.progress.changes
            is_other_question = self._answerable() != self._asked
            if changes == self._seen and not is_other_question:
                return
            now = time.monotonic()
            pause = COUNTERS if now - self._opened <= LONG else 2 * COUNTERS
            with_counters = now - self._counted >= pause
            # Without the counters the page lacks something, so the next tick must look again.
            if with_counters:
                self._seen = changes
                self._counted = now
            if now - self._completed >= COMPLETE or is_other_question:
                self._completed = now
                self._head = {}
                update: Update | None = self._updates.complete(clock())
            else:
                update = self._updates.changes(clock(), with_counters)
            if update is not None:
                self._send_update(update)

    def finish(self) -> None:
        """Send the end of the run. After it no cell waits, so every kernel receives requests."""
        with self._lock:
            self._waits = False
            self._head = {}
            self._send_update(self._updates.complete(clock()))
        if isinstance(self.run, Run) and self.run.progress.unstopped:
            run = self.run
            context = self._context.copy()
            threading.Thread(
                target=context.run, args=(self._tell_late_ends, run), name="agf-late", daemon=True
            ).start()

    def _tell_late_ends(self, run: Run) -> None:
        """Send which calls that were left running have ended, until all have."""
        while run.progress.unstopped and self.run is run:
            time.sleep(LATE)
            self._send_changes()
        if self.run is run:
            self._send_changes()
            self._show(run)

    @property
    def hears(self) -> bool:
        """Whether the kernel receives requests of the page now."""
        return not self._waits or page.hears_while_busy

    @property
    def can_rerun(self) -> bool:
        return "rerun" in self._actions()

    @property
    def has_ended(self) -> bool:
        return not isinstance(self.run, Run) or self.run.done

    @property
    def widget_view(self) -> Bundle:
        """The explorer as a widget, for front ends whose script cannot find an element of the
        document."""
        view = {"version_major": 2, "version_minor": 0, "model_id": self.model.model_id}
        return {"application/vnd.jupyter.widget-view+json": view}

    def _send_update(self, update: Update) -> None:
        self._sent += 1
        described = self._described(update)
        changed = {
            name: value for name, value in described.items() if self._head.get(name, ...) != value
        }
        # `...` equals no value: rows and edges are changes already, and are always sent.
        self._head = {**described, "rows": ..., "edges": ...}
        self.send({"type": "update", "n": self._sent, **changed})

    def _described(self, update: Update) -> Update:
        """An update with the buttons that work now, and with the reason why the run has failed."""
        self._asked = asked = self._answerable()
        # A run asks one question at a time, and the others wait for it.
        if asked:
            questions = [one for one in update["questions"] if one["mark"] in asked]
            update = {**update, "questions": questions}
        error = self.run.error if self.has_ended else None
        why = line(self.run.secrets.text(format_exception(error)), 200) if error is not None else ""
        return {**update, "can": self._actions(), "hears": self.hears, "why": why}

    def _answerable(self) -> frozenset[str]:
        """The marks of the questions that wait for an answer here."""
        questions = list(self.run.progress.open_questions.values())
        pending = (one for one in questions if PendingQuestion.of(one) is not None)
        return frozenset(map(question_digest, pending))

    def _answer_question(self, arguments: dict[str, Any]) -> None:
        """Answer an open question by a ``text`` or by the number of a ``choice``. Raises
        Refused."""
        where = arguments.get("where")
        text = arguments.get("text")
        choice = arguments.get("choice")
        # The mark must fit, too: the page may still show an earlier question of the same step.
        questions = (
            question
            for question in list(self.run.progress.open_questions.values())
            if line(question.where, 100) == where
            and question_digest(question) == arguments.get("mark")
        )
        question = next(questions, None)
        pending = PendingQuestion.of(question) if question is not None else None
        if question is None or pending is None:
            raise Refused("this question is not open here: answer it in the cell that asks")
        is_answered = isinstance(text, str) and pending.answer(text[:MOST_ANSWER])
        if not is_answered and not (type(choice) is int and pending.choose(choice)):
            raise Refused(f"this is not an answer to the question: {line(question.text, 200)}")

    def _actions(self) -> list[str]:
        """The buttons that do something now."""
        run = self.run
        if isinstance(run, Run) and not self.has_ended:
            moments = ["moments"] if run.journal is not None else []
            cancel = [] if run.progress.is_cancelling else ["cancel"]
            return [*cancel, "answer", *moments] if self.hears else []
        return [
            *(["resume"] if run.how_to_continue else []),
            *(["rerun", "moments"] if place_in_journal(run) is not None else []),
            *(["retry"] if self._can_retry else []),
            *(["edits"] if self._can_take_edits else []),
        ]

    @property
    def _can_take_edits(self) -> bool:
        """Whether results of edited functions were kept, and a new run repeats no effect."""
        place = place_in_journal(self.run)
        return (
            place is not None and bool(old_results(self.run.progress)) and not had_effects(*place)
        )

    @property
    def _can_retry(self) -> bool:
        """Whether calls failed that the run went on without, and every other call can be reused: a call
        with an effect has no result for another run, so it would be made a second time. The rows of a run
        over a table are retried by ``--retry-failed``, which knows their effects."""
        run = self.run
        place = place_in_journal(run)
        if place is None or run.how_to_continue or not run.progress.failed:
            return False
        return linked_flow(run).flow.language != OVER and not had_effects(*place)

    def requests(self) -> Requests:
        """The requests that the page may make: those of `requests_of`, which read, and requests that act
        on the run."""
        from .requests import requests_of

        run = self.run
        options = RunOptions(background=True, shown=True)
        cancel = {"cancel": lambda _: run.cancel("Cancel button")} if isinstance(run, Run) else {}

        def rerun(arguments: Json) -> None:
            refuse_edited(run, arguments.get("cells"), default())
            step = arguments.get("step")
            takes_edits = arguments.get("edits") is True and self._can_take_edits
            if step is None and not self._can_retry and not takes_edits:
                raise Refused("this run cannot be retried: it would make other calls again, too")
            first = None if step is None else str(step)
            note = f"{run.run_id} again, with the edits" if takes_edits else ""
            self.follow(lambda: rerun_from(run, first, options=replace(options, note=note)))

        def resume(arguments: Json) -> None:
            refuse_edited_functions(run, arguments.get("cells"), default())
            self.follow(lambda: resume_run(run.run_id, options=options))

        def opened(arguments: Json) -> Json:
            step = str(arguments.get("step"))
            return open_call(get_ipython(), default(), run.run_id, step)._asdict()

        return {
            **requests_of(run),
            **cancel,
            "start": lambda _: self.start(),
            "answer": self._answer_question,
            "resume": resume,
            "rerun": rerun,
            "open": opened,
        }

    def follow(self, start: Callable[[], Run]) -> None:
        """Start a run in the background and show it here. The person's variables that have the run shown
        before get the new run."""
        run = self._context.copy().run(start)
        names = getattr(get_ipython(), "user_ns", {})
        for name in [name for name, value in list(names.items()) if value is self.run]:
            if not name.startswith("_"):
                names[name] = run
        self._take(run)

    def note_opened(self, other: Answers) -> None:
        """A run that is resumed elsewhere goes on in this view, too."""
        if not isinstance(other, Channel) or not self.has_ended:
            return
        run = other.run
        if not isinstance(run, Run) or run is self.run or run.run_id != self.run.run_id:
            return
        # Only a resumed run is later: the first session of a run that another kernel has resumed may
        # still be in this process.
        if run.progress.goes_on is not None:
            self._take(run)

    def _take(self, run: Run) -> None:
        """Show another run from now on."""
        with self._lock:
            self.run = run
            self._updates = Updates(run.progress)
            self._seen = -1
            self._head = {}
            self._sent += 1
            self._opened = time.monotonic()
            self._written = self._opened, -1
            self.send({"type": "run", **self.start()})
        self.keep_up()

    def keep_up(self) -> None:
        """Send the changes of a live run until its end."""
        run = self.run
        if not isinstance(run, Run):
            return

        def close() -> None:
            self.finish()
            self._show(run)

        self._context.copy().run(accompany, run, 0.1, self.tick, close, "agf-explorer")


_MARK = re.compile("agf-[0-9a-f]{16}")
"""A mark as `new_mark` makes it: a saved page may come from anywhere."""


def open_run(run_id: str, mark: str = "") -> Channel:
    """Open the explorer of a run, live or of the journal. ``mark``: see `Channel`. Raises
    DefinitionError if there is no such run."""
    run = runs(run_id)
    channel = open_explorer(lambda: Channel(run, waits=False, show=lambda _: None, mark=mark))
    channel.keep_up()
    return channel


def open_again(run_id: str, mark: str) -> str:
    """Draw an explorer over the page of a run that an earlier kernel has left in the document, unless one
    does: a page may ask twice. Returns the reason if that is not possible, else an empty text."""
    if is_open(mark):
        return ""
    if not _MARK.fullmatch(mark):
        return "this page has no place for an explorer"
    try:
        open_run(run_id, mark)
    except DefinitionError as error:
        return line(error.diagnostic.message, MOST_WHY)
    return ""
