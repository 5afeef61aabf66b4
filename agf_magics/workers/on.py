"""What ``on=`` may be: any ``concurrent.futures.Executor``, or a `WorkerBackend`."""

from __future__ import annotations

from concurrent.futures import Executor

from ..text.diagnostics import DefinitionError, Diagnostic
from .backend import WorkerBackend
from .pool import Pool


def find_backend(on: object) -> WorkerBackend | None:
    """The backend that ``on`` means; None: this process. Raises DefinitionError."""
    if on is None or isinstance(on, WorkerBackend):
        return on
    if isinstance(on, Executor) or callable(getattr(on, "submit", None)):
        return Pool(on)  # type: ignore[arg-type]
    message = f"on must be an Executor or a WorkerBackend, got {type(on).__name__}"
    raise DefinitionError(
        Diagnostic("on.unknown", message, hint="for example concurrent.futures.ProcessPoolExecutor()")
    )
