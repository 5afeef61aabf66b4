"""The views that are open in the page. At most `MOST_OPEN` stay open; an older one becomes the static
page again. A view of a cell that ran again is in no document, so it makes room first.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from ...text.giving_up import giving_up
from ..output.place import Place
from .replies import reply_to
from .request_types import Json, Requests

if TYPE_CHECKING:
    from .widget_model import Model

MOST_OPEN = 10
"""The most views that stay open."""


class Answers:
    """The kernel's end of a view, for instance of a list of runs: what the view shows at first, and the
    answers to its requests, by their names. `run_channel.Channel` is the end of a run's view."""

    model: Model
    is_replaced = False
    """Whether the cell of the view ran again."""

    def __init__(
        self, begin: Json, requests: Requests, alone: bool = False, mark: str = ""
    ) -> None:
        """``alone``: see `Model.add`. ``mark``: the mark of the page over which the view draws; by default
        a new mark."""
        self._begin = begin
        self._requests = requests
        self.mark = mark or new_mark()
        """The class of the element over which the page draws."""
        self.place = Place.now()
        from .widget_model import Model

        Model.add(self, alone)

    @property
    def has_ended(self) -> bool:
        """Whether the content of the view no longer changes."""
        return True

    @property
    def can_rerun(self) -> bool:
        """Whether the page may compare the run with the present definitions and functions."""
        return False

    @property
    def is_list(self) -> bool:
        """Whether the view lists runs, which may go on while the view is open."""
        return "list" in self._begin

    def note_opened(self, other: Answers) -> None:
        """Note that another view is opened."""

    def start(self) -> Json:
        """Everything that a page needs to show the view."""
        return {"id": self.mark} | self._begin

    def requests(self) -> Requests:
        """The requests that the page may make now."""
        return self._requests

    def receive(self, message: Json) -> None:
        """Answer a request of the page."""
        self.send(reply_to(message, {"later": _later, **self.requests()}))

    def send(self, message: Json) -> None:
        """Send a message to the page."""
        self.model.send({"mark": self.mark, **message})

    def close(self, tell: bool = True) -> None:
        """Close the view. ``tell``: whether the page gets a message about it; False if another explorer
        is opened next, whose message says it, too."""
        self.model.leave(self, tell)


def _later(_: Json) -> Json:
    from .widget_model import later_script

    return {"code": later_script()}


def new_mark() -> str:
    """The class of an element over which an explorer will draw."""
    return f"agf-{secrets.token_hex(8)}"


E = TypeVar("E", bound=Answers)

_open: deque[Answers] = deque()
"""The open views, the oldest first."""


def open_explorer(make: Callable[[], E]) -> E:
    """Open the explorer that ``make`` returns. If too many are open, the oldest one is closed, if possible
    one of a run that has ended, and of these first one whose cell ran again."""
    while len(_open) >= MOST_OPEN:
        ended = [view for view in _open if view.has_ended]
        oldest = next((view for view in ended if view.is_replaced), next(iter(ended), _open[0]))
        _open.remove(oldest)
        oldest.close(tell=False)
    explorer = make()
    for view in list(_open):
        view.note_opened(explorer)
    _open.append(explorer)
    return explorer


def is_open(mark: str) -> bool:
    """Whether a view draws over the elements of the class ``mark``."""
    return any(view.mark == mark for view in list(_open))


def note_replaced(info: object) -> None:
    """Note which views are in no document any more, as their cell runs again. ``info`` is IPython's and
    not used."""
    now = Place.now() if _open else None
    for view in list(_open):
        view.is_replaced |= now is not None and now.replaces(view.place)


def tell_edited(result: object) -> None:
    """Tell open views that a cell ran: a run may differ from the present definitions, and a list from the
    present runs. ``result`` is IPython's and not used. A failure must not print into the cell."""
    with giving_up(__name__, "an open explorer was not told that a cell ran"):
        for model in {view.model for view in list(_open) if view.can_rerun or view.is_list}:
            model.send({"type": "edited"})


def close_explorers() -> None:
    """Close all explorers."""
    while _open:
        _open.popleft().close()


def close_explorer(mark: str) -> None:
    """Close the explorer that draws over the elements of the class ``mark``, if it is open."""
    for explorer in [view for view in _open if view.mark == mark]:
        _open.remove(explorer)
        explorer.close()
