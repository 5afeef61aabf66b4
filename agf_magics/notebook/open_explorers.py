"""The explorers that are open: the last ones. An older one becomes the static page again."""

from __future__ import annotations

import contextlib
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from .explorer_model import Model

MOST_OPEN = 10


class OpenExplorer(Protocol):
    """An explorer of a run, or of a context."""

    model: Model

    @property
    def has_ended(self) -> bool:
        """Whether what it shows no longer changes."""
        ...

    @property
    def can_rerun(self) -> bool:
        """Whether the page may compare it with the definitions and functions of now."""
        ...

    def close(self, tell: bool = True) -> None:
        """``tell``: whether the page gets a message; False if another explorer is opened next,
        whose message has it."""
        ...


E = TypeVar("E", bound=OpenExplorer)

_open: deque[OpenExplorer] = deque()


def open_explorer(make: Callable[[], E]) -> E:
    """Open the explorer that ``make`` returns. Of too many the oldest one is closed, if possible of
    a run that has ended."""
    while len(_open) >= MOST_OPEN:
        oldest = next((one for one in _open if one.has_ended), _open[0])
        _open.remove(oldest)
        oldest.close(tell=False)
    made = make()
    _open.append(made)
    return made


def tell_edited() -> None:
    """A cell ran, and runs may differ from the definitions of now. A failure must not print into
    the cell."""
    with contextlib.suppress(Exception):
        for model in {one.model for one in list(_open) if one.can_rerun}:
            model.send({"type": "edited"})


def close_explorers() -> None:
    """Close all explorers."""
    while _open:
        _open.popleft().close()
