"""A call that pickle makes on the other side, where our package may be missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Later:
    """An object that pickle reads as the result of ``make(*parts)``, without our package. ``make`` and the
    parts may themselves be `Later`. Calls that must each have their own value need an object each: pickle
    writes a shared object only once."""

    def __init__(self, make: Callable[..., Any], *parts: Any) -> None:
        self.make, self.parts = make, parts

    def __call__(self) -> None:
        """Never called: pickle wants the first part of a reduction to be callable."""

    def __reduce__(self) -> Any:
        return self.make, self.parts
