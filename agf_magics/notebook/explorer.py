"""The explorer of a run, live or past, with all its steps, its picture, its timeline and each
value.

The document only ever has the static page of the run, in an element of a class of its own. The
page's script finds that element and draws over it, so a saved notebook has no widget: without a
kernel, or where the script cannot find the element, the static page shows. The kernel sends a
message only if something has changed.
"""

from __future__ import annotations

import contextvars
import secrets
import threading
import time
from collections.abc import Callable
from typing import Any

from IPython import get_ipython

from ..catalog import default
from ..engine.runner import clock
from ..lifecycle.options import RunOptions
from ..lifecycle.past_run import PastRun
from ..lifecycle.rerun import rerun_from
from ..lifecycle.resume import resume_run
from ..lifecycle.run import Run
from ..pictures.plain import line
from ..pictures.updates import Update, Updates, describe_tree
from .ask import PendingQuestion
from .config import has_notices
from .explorer_calls import AnyRun, Refused, reply_to
from .explorer_model import Model
from .explorer_requests import REQUESTS, answer_request
from .opening import open_call
from .output import Bundle

COMPLETE = 5.0
"""Seconds after which an update has all rows, if anything changed: a page that missed a message is
then right again."""

COUNTERS = 0.25
"""Seconds between two updates if only counters change: an update costs half a kilobyte, whatever is
in it."""

MOST_ANSWER = 100_000
"""Characters of an answer."""


class Channel:
    """The messages between the kernel and the page about one run. Its methods may be called by any
    thread."""

    def __init__(
        self, run: AnyRun, hears: bool, show: Callable[[Run], object], draw: bool = False
    ) -> None:
        """``hears``: whether the kernel receives requests while a cell waits. ``show``: puts the
        static page of a run that this explorer started into the output. ``draw``: whether the
        picture is shown first."""
        self.run, self.hears, self._show, self._draw = run, hears, show, draw
        self._lock = threading.RLock()
        self._updates = Updates(run.progress)
        self._seen = -1
        self._sent = 0
        """The number of the last update: a page that misses one asks for everything."""
        self._completed = time.monotonic()
        self._counted = 0.0
        self._head: Update = {}
        """What the pages know of the run itself: an update has only what changed."""
        self._context = contextvars.copy_context()
        self.mark = f"agf-{secrets.token_hex(8)}"
        """The class of the element over which the page draws."""
        self.model = Model.of(self)

    def start(self) -> dict[str, Any]:
        """The tree and all rows."""
        with self._lock:
            progress = self.run.progress
            update = Updates(progress).complete(
                clock()
            )  # ours knows what the pages that are open have
            return {
                "tree": describe_tree(progress),
                "update": {"n": self._sent, **self._described(update)},
                "hears": self.hears,
                "draw": self._draw,
                "id": line(self.run.run_id, 90),
                "notices": getattr(self.run, "background", False) and has_notices(get_ipython()),
            }

    def tick(self) -> None:
        """Send the changes since the last update."""
        with self._lock:
            changes = self.run.progress.changes
            if changes == self._seen:
                return
            now = time.monotonic()
            counters = now - self._counted >= COUNTERS
            if counters:
                self._seen, self._counted = changes, now
            if now - self._completed >= COMPLETE:
                self._completed, self._head = now, {}
                update: Update | None = self._updates.complete(clock())
            else:
                update = self._updates.changes(clock(), counters)
            if update is not None:
                self._send_update(update)

    def finish(self) -> None:
        """Send the end: after it every kernel receives requests."""
        with self._lock:
            self.hears, self._head = True, {}
            self._send_update(self._updates.complete(clock()))

    @property
    def can_rerun(self) -> bool:
        """Whether the page may compare the run with the definitions and functions of now."""
        return "rerun" in self._actions()

    @property
    def has_ended(self) -> bool:
        return not isinstance(self.run, Run) or self.run.done

    def close(self, tell: bool = True) -> None:
        """See `OpenExplorer`."""
        self.model.leave(self, tell)

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
        self._head = {**described, "rows": ..., "edges": ...}
        self._send({"type": "update", "n": self._sent, **changed})

    def _described(self, update: Update) -> Update:
        return {**update, "can": self._actions(), "hears": self.hears}

    def _answer_question(self, given: dict[str, Any]) -> None:
        """Answer an open question by a ``text`` or by the number of a ``choice``. Raises
        Refused."""
        where, text, choice = given.get("where"), given.get("text"), given.get("choice")
        asked = [
            one for one in list(self.run.progress.asked.values()) if line(one.where, 100) == where
        ]
        pending = PendingQuestion.of(asked[0]) if asked else None
        if pending is None:
            raise Refused("this question is not open here: answer it in the cell that asks")
        is_text = isinstance(text, str) and pending.answer(text[:MOST_ANSWER])
        if not is_text and not (type(choice) is int and pending.choose(choice)):
            raise Refused(f"this is not an answer to the question: {line(asked[0].text, 200)}")

    def _actions(self) -> list[str]:
        """The buttons that do something now."""
        run = self.run
        if isinstance(run, Run) and not self.has_ended:
            answers = ["answer"] if run.background else []
            return (
                ["cancel", *answers, *(["moments"] if run.journal is not None else [])]
                if self.hears
                else []
            )
        is_journaled = isinstance(run, PastRun) or run.journal is not None
        return [
            *(["resume"] if run.how_to_continue else []),
            *(["rerun", "moments"] if is_journaled else []),
        ]

    def _send(self, message: dict[str, Any]) -> None:
        self.model.send({"mark": self.mark, **message})

    def receive(self, message: dict[str, Any]) -> None:
        """Answer a request of the page."""
        self._send(reply_to(message, self._answer))

    def _answer(self, name: str, given: dict[str, Any]) -> Any:
        if name in REQUESTS:
            return answer_request(self.run, name, given)
        match name:
            case "start":
                return self.start()
            case "cancel" if isinstance(self.run, Run):
                self.run.cancel("Cancel button")
            case "answer":
                self._answer_question(given)
            case "resume":
                self.follow(
                    lambda: resume_run(
                        self.run.run_id, options=RunOptions(background=True, stream=True)
                    )
                )
            case "rerun":
                step = str(given.get("step"))
                self.follow(
                    lambda: rerun_from(
                        self.run.run_id, step, options=RunOptions(background=True, stream=True)
                    )
                )
            case "open":
                return open_call(
                    get_ipython(), default(), self.run.run_id, str(given.get("step"))
                )._asdict()
            case _:
                raise Refused(f"unknown request {name!r}")
        return None

    def follow(self, start: Callable[[], Run]) -> None:
        """Start a run in the background and show it here."""
        run = self._context.copy().run(start)
        with self._lock:
            self.run, self._updates, self._seen, self._head = run, Updates(run.progress), -1, {}
            self._sent += 1
            self._send({"type": "run", **self.start()})
        context = self._context.copy()
        threading.Thread(
            target=context.run, args=(self._watch, run), name="agf-explorer", daemon=True
        ).start()

    def _watch(self, run: Run) -> None:
        while not run.wait(0.1).done:
            self.tick()
        self.finish()
        self._show(run)
