"""Checks a background run for functions that need a waiting thread, which it does not have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ...text.diagnostics import Diagnostic
from .linked import BoundPolicy, Linked


def kernel_bound(linked: Linked) -> Iterator[Diagnostic]:
    """The errors for functions that must run on the thread that waits for the run."""
    for callee, span in linked.every_callee:
        outer: Any = callee.policy if isinstance(callee, BoundPolicy) else callee
        if getattr(outer, "where", None) == "kernel":
            message = (
                f"{outer.name!r} needs the caller's thread (where='kernel'), which a "
                f"background run lacks"
            )
            hint = (
                "run it in the foreground (agf.run, %run_pipeline), or register it without "
                "where='kernel'"
            )
            yield Diagnostic("run.kernel-tool", message, span, hint)
