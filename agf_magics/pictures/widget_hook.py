"""A place for the function that makes an ipywidget of a run or a picture.

Only the room of the notebook knows widgets, and this room is below it: so the package sets the
function, and this room calls it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar


class Widgets:
    """The function, which the package sets."""

    of: ClassVar[Callable[[Any], Any]]
