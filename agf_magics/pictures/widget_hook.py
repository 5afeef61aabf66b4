"""A place for the function that makes an ipywidget of a run or a picture.

Only the room ``notebook`` knows widgets, and this room must not import it: so the package sets the
function when it is imported, and this room calls it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar


class Widgets:
    """The function ``of``, which takes a run or a picture; the package sets it."""

    of: ClassVar[Callable[[Any], Any]]
