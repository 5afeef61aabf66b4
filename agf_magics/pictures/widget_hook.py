"""What makes an ipywidget of a run or a picture: set by the package, since only the notebook's
room knows widgets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar


class Widgets:
    """What makes an ipywidget of a run or of a picture: only the notebook's room knows widgets, and
    it is above theirs. The package sets it."""

    of: ClassVar[Callable[[Any], Any]]
