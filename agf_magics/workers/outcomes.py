"""Reads the outcome of a chunk that is back: the result of each call, or the failure of the chunk."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..engine.threads.user_code import LeftRunning, Result
from ..text.diagnostics import Diagnostic, StepError
from ..text.raised import describe_exception
from . import chunk
from .sending.functions import other_python
from .sending.losses import has_module_here, lacking_module
from .sending.tracebacks import raised_there
from .sending.unsendable import STAY

_FILE = f"write a file and return its path, or keep the tool here: {STAY}"


class OutcomeReader(NamedTuple):
    """Makes the results and failures of the calls of one function."""

    name: str
    """The name of the function in messages."""
    where: str
    """The name of the backend."""

    def result(self, mark: str, value: Any, worker: str) -> Result:
        """The result of a call that has started, by the mark that `chunk.run` gave it."""
        match mark:
            case chunk.VALUE:
                return True, value
            case chunk.RAISED:
                error = raised_there(*value)
                if has_module_here(error):
                    failure = StepError(lacking_module(self.name, self.where, error))
                    failure.__cause__ = error
                    return False, failure
                return False, error
            case chunk.UNREAD:
                return False, self.unread(raised_there(*value))
            case chunk.LATE:
                return False, LeftRunning(value, f"left running: {self.name} on {worker}")
        message = f"the result of {self.name!r} cannot be sent to the kernel: {value}"
        return False, StepError(Diagnostic("step.unsent-result", message, hint=_FILE))

    def unpacking_failed(self, error: BaseException) -> StepError:
        """The failure of a call whose result this process cannot read."""
        message = f"the kernel cannot read the result of {self.name!r}: {describe_exception(error)}"
        return StepError(Diagnostic("step.unsent-result", message, hint=_FILE))

    def unread(self, error: BaseException) -> StepError:
        """The failure of calls whose function or arguments a worker could not read."""
        if isinstance(error, ImportError) and error.name:
            return StepError(lacking_module(self.name, self.where, error))
        message = (
            f"a worker of {self.where} cannot read {self.name!r} or its arguments: "
            f"{type(error).__name__}: {error}"
        )
        return StepError(Diagnostic("step.unsendable", message, hint=STAY))

    def failure(self, error: BaseException) -> StepError:
        """The failure of the calls of a chunk, if the backend failed with ``error``."""
        if isinstance(error, StepError):
            return error
        if isinstance(error, ImportError) and error.name:
            return self.unread(error)
        if python := other_python(error):
            message = f"a worker of {self.where} cannot read {self.name!r}: {python}"
            hint = "start the workers with the Python of the kernel"
            return StepError(Diagnostic("step.unsendable", message, hint=hint))
        message = f"{self.where} could not run {self.name!r}: {type(error).__name__}: {error}"
        return StepError(Diagnostic("step.worker-lost", message, hint=STAY))
