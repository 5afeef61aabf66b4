"""What pickle makes on the other side, without our package: `Later`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class Later:
    """What pickle reads as ``make(*parts)``, without our package: the parts, and what makes them,
    may be `Later` too. One object for each call that must have a value of its own: pickle writes
    an object that calls share only once."""

    def __init__(self, make: Callable[..., Any], *parts: Any) -> None:
        self.make, self.parts = make, parts

    def __call__(self) -> None:
        """Pickle asks for something that can be called."""

    def __reduce__(self) -> Any:
        return self.make, self.parts
