"""`RunOptions`, the options of one run as a frozen value."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ..catalog import Registry
from ..flow.progress.events import Event
from ..limits.budgets import Budget
from ..limits.limits import Limits
from ..text.diagnostics import Diagnostic
from ..values.value import Value, type_name
from .host.host import Asker
from .recording import Recording


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of a run, which its handle, the engine and the manifest read."""

    registry: Registry | None = None
    """The registry of the names; None: the registry of this process."""
    limits: Limits | None = None
    """The limits; None: those of the settings, or for a resumed run its original limits."""
    on_event: Callable[[Event], None] | None = None
    """Is called with each event; None: nobody listens."""
    stream: bool = False
    """Whether the text of models is reported while it arrives."""
    shown: bool = False
    """Whether a page shows the run, which also gets the text of models while it arrives."""
    queue: bool = False
    """Whether the events wait for `Run.events`."""
    ask: Asker | None = None
    """Puts a question to a person; None: the notebook or the terminal asks."""
    dry: bool = False
    """Whether no call is made. The results are then made from schemas."""
    on: object = None
    """The workers for concurrent calls (see `workers.on`); None: this process."""
    reuse: bool | str = False
    """The run whose results are reused, by its id; True: the latest runs of the flow; False: no
    run."""
    background: bool = False
    """Whether no caller waits for the run. Otherwise the caller must `wait`: it runs the plain
    functions."""
    inline: bool = False
    """Whether the flow is not registered and must pass the static gate."""
    enter: Callable[[Any], None] | None = None
    """A function that is called once with the run, on the thread that starts it and before the
    first step, to reserve the output in the current cell."""
    shown_warnings: tuple[Diagnostic, ...] = ()
    """Warnings that the person has already seen; the run does not repeat them."""
    answer: Value = None
    """The answer to the question that a resumed run waits for; None: the person is asked."""
    budget: Budget | None = None
    """The budget of earlier runs, which this run continues; None: the run has its own budget."""
    secrets: tuple[Value, ...] = ()
    """Values that are secret from the start, whatever tool receives them."""
    plans: bool = False
    """Whether the run asks a model for a plan, which its trace mentions."""
    continuing: Callable[[str], str] | None = None
    """Returns the words to continue a run with the given status; None: the run is resumed by its
    id."""
    note: str = ""
    """A text for the person, which becomes a part of the run's note."""
    input_warnings: tuple[Diagnostic, ...] = ()
    """The warnings about the input."""
    recording: Recording | None = None
    """The recording that the run replays; None: the one of the `replay` block around it, if any."""
    notes: Callable[[], Iterable[Diagnostic]] = tuple
    """Returns the warnings for the end of the run."""
    trust: bool = False
    """True if values that are not signed by the user are unpickled in a resumed run."""

    def __post_init__(self) -> None:
        if self.ask is not None and (why := _no_asker(self.ask)):
            hint = "write ask=lambda question: True, or a function that looks at question.text"
            raise TypeError(f"ask takes a function of the question{why}: {hint}")
        check_limits(self.limits)


def check_limits(limits: object) -> None:
    """Raises TypeError, with what to write, for an object that is neither `Limits` nor None."""
    if not isinstance(limits, Limits | None):
        pairs = limits.items() if isinstance(limits, Mapping) else ()
        write = ", ".join(f"{name}={limit!r}" for name, limit in pairs) or "timeout=…"
        raise TypeError(f"limits takes an agf.Limits: write limits=agf.Limits({write})")


def _no_asker(ask: object) -> str:
    """The reason why ``ask`` cannot be called with a question; empty: it can, by its parameters."""
    if not callable(ask):
        return f", not {type_name(ask)}"
    with suppress(ValueError):  # a builtin without a signature
        try:
            inspect.signature(ask).bind(None)
        except TypeError:
            return ", its only argument"
    return ""


DEFAULTS = RunOptions()
