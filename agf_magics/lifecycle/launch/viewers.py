"""A run that a function of Python starts is shown where it was started, if somebody looks there.

A notebook decides that (`current.viewer`); without one a run is started and waited for. This is the one
place that knows of both.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from ...engine.host.hold_interrupts import hold_interrupts
from ...engine.run_options import RunOptions
from ...settings.settings import current
from ..runs.run import Run
from .driving import wait_for

Begin = Callable[[RunOptions], Run]
"""Starts a run with these options and returns it at once."""


class Viewer(Protocol):
    """Shows one run that is not started yet."""

    def watch(self, begin: Begin, options: RunOptions) -> Run:
        """Start the run, show it and wait for its end."""

    def follow(self, begin: Begin, options: RunOptions) -> Run:
        """Start the run in the background and show it until its end."""

    async def attend(self, run: Run, drive: Callable[[Run], Awaitable[None]]) -> None:
        """Await ``drive(run)``, which runs the run on this loop, and show the run meanwhile."""


def find_viewer(quiet: bool) -> Viewer | None:
    """Who shows the run that is started now; None: nobody, or it is ``quiet``."""
    viewer: Viewer | None = current.viewer() if current.viewer is not None and not quiet else None
    return viewer


def run_to_end(begin: Begin, options: RunOptions, quiet: bool) -> Run:
    """Start a run, wait for its end, and let the notebook show it unless it is ``quiet``."""
    viewer = find_viewer(quiet)
    if viewer is not None:
        return viewer.watch(begin, options)
    with hold_interrupts() as deferred:
        return wait_for(begin(options), deferred)
