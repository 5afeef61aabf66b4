"""A worker backend with the options of `on.Workers`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..text.diagnostics import DefinitionError, Diagnostic
from .backend import AHEAD, Cancel, WorkerBackend
from .needs import Need, find_problems
from .sending import Program, unsendable_function
from .sizes import AIM
from .status import BackendStatus, WorkerStatus

SEEN = 10.0
"""Seconds of work in flight on an adaptive cluster: with less, it does not start workers."""


class WithOptions:
    """Sends each chunk to ``backend``, with a setup and with the resources that it needs."""

    def __init__(
        self, backend: WorkerBackend, setup: Callable[[], object] | None, resources: Mapping[str, float], adaptive: bool
    ) -> None:
        """Raises DefinitionError ``step.unsendable`` if the setup cannot be sent."""
        self.backend = backend
        self.resources = dict(resources)
        self.identifies_lost_chunk = backend.identifies_lost_chunk
        self.kills = getattr(backend, "kills", False)
        self.ahead = math.ceil(SEEN / AIM) if adaptive else getattr(backend, "ahead", AHEAD)
        self._added: dict[str, Any] = {"resources": self.resources} if resources else {}
        if setup is not None:
            try:
                program = Program(setup)
            except Exception as error:
                raise DefinitionError(unsendable_function(setup, error).diagnostic) from None
            self._added["setup"] = (program.pickled, program.digest)

    @property
    def name(self) -> str:
        return self.backend.name

    @property
    def lanes(self) -> int:
        count: Callable[[Mapping[str, float]], int] | None = getattr(self.backend, "lanes_with", None)
        return count(self.resources) if count is not None and self.resources else self.backend.lanes

    def submit(self, run: Callable[..., Any], order: tuple[Any, ...], done: Callable[[Any], None]) -> Cancel:
        options = order[-1]
        resources = {**self.resources, **options.get("resources", {})}
        added = {**self._added, "resources": resources} if resources else self._added
        return self.backend.submit(run, (*order[:-1], {**options, **added}), done)

    def find_problems(self, needs: Sequence[Need]) -> list[Diagnostic]:
        own = [Need("on=", self.resources, False, None)] if self.resources else []
        return find_problems(self.backend, [*own, *needs])

    def describe(self) -> BackendStatus:
        return describe(self.backend)


def with_options(
    backend: WorkerBackend, setup: Callable[[], object] | None, resources: Mapping[str, float], adaptive: bool
) -> WorkerBackend:
    """``backend`` with the options of `on.Workers`. Raises DefinitionError."""
    wrong = [name for name, amount in resources.items() if not isinstance(amount, int | float) or not amount > 0]
    if wrong:
        message = f"resources must be a mapping of names to numbers above 0, got {resources!r}"
        raise DefinitionError(Diagnostic("on.resources", message, hint="for example {'gpu': 1}"))
    return WithOptions(backend, setup, resources, adaptive)


def describe(backend: WorkerBackend) -> BackendStatus:
    """The state of a backend; of one that does not report it, its name and its lanes."""
    own: Callable[[], BackendStatus] | None = getattr(backend, "describe", None)
    if own is not None:
        return own()
    return BackendStatus(backend.name, backend.lanes, None, (WorkerStatus(backend.name, backend.lanes),))
