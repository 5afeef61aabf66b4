"""The options of `agf.Workers` in each chunk of calls: a setup that runs once, and resources."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..text.diagnostics import DefinitionError, Diagnostic, StepError
from .backends.backend import Cancel, WorkerBackend, options_of
from .backends.chunk_size import AIM
from .backends.dispatcher import AHEAD
from .backends.requirements import Need, find_problems
from .chunk import run_after_setup
from .sending.functions import Program, loadable
from .sending.tracebacks import RemoteTraceback
from .sending.unsendable import unsendable_function

SEEN = 10.0
"""Seconds of work in flight on an adaptive cluster: with less work it would not start workers."""


class BackendWithOptions:
    """A backend that sends each chunk to ``backend``, with a setup and with the resources that each call
    needs."""

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
        self._setup = b"", ""
        """The pickled setup and its digest; empty: there is no setup."""
        if setup is not None:
            try:
                program = Program(setup)
            except Exception as error:
                raise DefinitionError(unsendable_function(setup, error).diagnostic) from None
            self._setup = program.pickled, program.digest

    def __getattr__(self, name: str) -> Any:
        """Take every other attribute from the inner backend."""
        return getattr(self.backend, name)

    @property
    def lanes(self) -> int:
        count: Callable[[Mapping[str, float]], int] | None = getattr(
            self.backend, "lanes_with", None
        )
        return count(self.resources) if count is not None and self.resources else self.backend.lanes

    def submit(
        self, run: Callable[..., Any], order: tuple[Any, ...], report: Callable[[Any], None]
    ) -> Cancel:
        # `run_after_setup` gets a second mapping of options after the chunk's own options.
        chunk_options = options_of(order)
        options = {
            "effect": chunk_options.get("effect", False),
            "timeout": chunk_options.get("timeout"),
            "resources": {**self.resources, **chunk_options.get("resources", {})},
            # The setup, its digest, and the function that then runs the chunk.
            "setup": (*self._setup, loadable(run)),
        }
        return self.backend.submit(
            run_after_setup, (*order, options), lambda outcome: report(_checked(outcome))
        )

    def find_problems(self, needs: Sequence[Need]) -> list[Diagnostic]:
        need_of_all = Need("", self.resources, False, None)
        return find_problems(self.backend, [need_of_all, *needs])


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
