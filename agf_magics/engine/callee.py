"""What the engine calls, as it sees it: the modules that call, journal and watch it share this protocol."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from ..catalog import Where


class UserCallable(Protocol):
    """A callee: a function of a user, or a model."""

    @property
    def name(self) -> str: ...
    @property
    def function(self) -> Callable[..., Any]: ...
    @property
    def where(self) -> Where | None: ...
    @property
    def timeout(self) -> float | None: ...
    @property
    def is_async(self) -> bool: ...
