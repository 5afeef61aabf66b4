"""The options of one run as one frozen value, which the run, its engine and its manifest read."""

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
    """How a run is made and driven."""

    registry: Registry | None = None
    """The registry of its names; None: that of this process."""
    limits: Limits | None = None
    """The limits; None: those of the settings, for a resumed run the original ones."""
    on_event: Callable[[Event], None] | None = None
    stream: bool = False
    """Whether the text of models is reported while it arrives."""
    queue: bool = False
    """Whether the events wait for `Run.events`."""
    ask: Asker | None = None
    """Puts a question to a person; None: the notebook or the terminal asks."""
    dry: bool = False
    on: object = None
    """Where concurrent calls run: see `workers.on`; None: in this process."""
    reuse: bool | str = False
    """Whether to reuse earlier results: of the run with this id; True: of the latest runs of the
    flow."""
    background: bool = False
    """Whether no caller waits for the run. Otherwise the caller must `wait`: it runs the plain
    functions."""
    inline: bool = False
    """Whether the flow is not registered and must pass the static gate."""
    enter: Callable[[Any], None] | None = None
    """Called once with the run, on the thread that starts it and before its first step: it reserves
    the place of the output, which is in the cell that runs now."""
    shown_warnings: tuple[Diagnostic, ...] = ()
    """Warnings that the person has already seen; the run does not repeat them."""
    answer: Value = None
    """The answer to the question that a resumed run waits for; None: ask."""
    budget: Budget | None = None
    """The budget of earlier runs, which this run continues; None: its own."""
    secrets: tuple[Value, ...] = ()
    """Values that are secret from the start, whichever tool receives them."""
    plans: bool = False
    """Whether the run asks a model for a plan: its trace says so."""
    continuing: Callable[[str], str] | None = None
    """What a person writes to continue a run with this status; None: the run is resumed by its
    id."""
    note: str = ""
    """What a person must know about the run, as a part of its note."""
    input_warnings: tuple[Diagnostic, ...] = ()
    """Warnings about its input."""
    recording: Recording | None = None
    """The calls that the run replays; None: those of the `replay` around it."""
    notes: Callable[[], Iterable[Diagnostic]] = tuple
    """The warnings of the run at its end."""
    trust: bool = False
    """True if values that are not signed by the user are unpickled in a resumed run."""

    def __post_init__(self) -> None:
        if self.ask is not None and (why := _no_asker(self.ask)):
            hint = "write ask=lambda question: True, or a function that looks at question.text"
            raise TypeError(f"ask takes a function of the question{why}: {hint}")
        limits: object = self.limits
        if not isinstance(limits, Limits | None):
            pairs = limits.items() if isinstance(limits, Mapping) else ()
            write = ", ".join(f"{name}={limit!r}" for name, limit in pairs) or "timeout=…"
            raise TypeError(f"limits takes an agf.Limits: write limits=agf.Limits({write})")


def _no_asker(ask: object) -> str:
    """Why ``ask`` cannot be asked; empty: it can, as far as its parameters say."""
    if not callable(ask):
        return f", not {type_name(ask)}"
    with suppress(ValueError):  # a builtin without a signature
        try:
            inspect.signature(ask).bind(None)
        except TypeError:
            return ", its only argument"
    return ""


DEFAULTS = RunOptions()
