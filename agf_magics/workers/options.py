"""A worker backend with the options of `on.Workers`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from ..catalog.tools import are_resources
from ..text.diagnostics import DefinitionError, Diagnostic, StepError
from .backend import AHEAD, Cancel, WorkerBackend
from .needs import Need, find_problems
from .remote_traceback import RemoteTraceback
from .sending import Program, loadable, unsendable_function
from .setup import run_after_setup
from .sizes import AIM
from .status import BackendStatus, WorkerStatus

SEEN = 10.0
"""Seconds of work in flight on an adaptive cluster: with less, it does not start workers."""


class WithOptions:
    """Sends each chunk to ``backend``, with a setup and with the resources that it needs."""

    def __init__(
        self,
        backend: WorkerBackend,
        setup: Callable[[], object] | None,
        resources: Mapping[str, float],
        adaptive: bool,
    ) -> None:
        """Raises DefinitionError ``step.unsendable`` if the setup cannot be sent."""
        self.backend = backend
        self.resources = dict(resources)
        self.ahead = math.ceil(SEEN / AIM) if adaptive else getattr(backend, "ahead", AHEAD)
        self._setup: tuple[bytes, str] | None = None
        if setup is not None:
            try:
                program = Program(setup)
            except Exception as error:
                raise DefinitionError(unsendable_function(setup, error).diagnostic) from None
            self._setup = program.pickled, program.digest

    def __getattr__(self, name: str) -> Any:
        """Everything else is the backend's own."""
        return getattr(self.backend, name)

    @property
    def lanes(self) -> int:
        count: Callable[[Mapping[str, float]], int] | None = getattr(
            self.backend, "lanes_with", None
        )
        return count(self.resources) if count is not None and self.resources else self.backend.lanes

    def submit(
        self, run: Callable[..., Any], order: tuple[Any, ...], done: Callable[[Any], None]
    ) -> Cancel:
        own = order[-1] if isinstance(order[-1], Mapping) else {}
        options = {
            "effect": own.get("effect", False),
            "timeout": own.get("timeout"),
            "resources": {**self.resources, **own.get("resources", {})},
            "setup": (*self._setup, loadable(run))
            if self._setup is not None
            else (b"", "", loadable(run)),
        }
        return self.backend.submit(
            run_after_setup, (*order, options), lambda outcome: done(_checked(outcome))
        )

    def find_problems(self, needs: Sequence[Need]) -> list[Diagnostic]:
        own = [Need("", self.resources, False, None)] if self.resources else []
        return find_problems(self.backend, [*own, *needs])


def _checked(outcome: Any) -> Any:
    """The outcome of a chunk, or the failure of the setup."""
    if type(outcome) is tuple and outcome[:1] == ("setup",):
        _, why, text = outcome
        hint = (
            "the workers that are there now do not call it again: %workers --restart starts "
            "new ones"
        )
        error = StepError(
            Diagnostic("step.setup-failed", f"the setup of a worker failed: {why}", hint=hint)
        )
        error.__cause__ = RemoteTraceback(text)
        return error
    return outcome


def with_options(
    backend: WorkerBackend,
    setup: Callable[[], object] | None,
    resources: Mapping[str, float],
    adaptive: bool,
) -> WorkerBackend:
    """``backend`` with the options of `on.Workers`. Raises DefinitionError."""
    if not are_resources(resources):
        message = f"resources must be a mapping of names to numbers above 0, got {resources!r}"
        raise DefinitionError(Diagnostic("on.resources", message, hint="for example {'gpu': 1}"))
    return cast(WorkerBackend, WithOptions(backend, setup, resources, adaptive))


def describe(backend: WorkerBackend) -> BackendStatus:
    """The state of a backend; of one that does not report it, its name and its lanes."""
    own: Callable[[], BackendStatus] | None = getattr(backend, "describe", None)
    if own is not None:
        return own()
    return BackendStatus(
        backend.name, backend.lanes, None, (WorkerStatus(backend.name, backend.lanes),)
    )
