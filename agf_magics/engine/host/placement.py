"""Chooses where a call runs: on the loop, the waiting thread, another thread, or a worker."""

from __future__ import annotations

from typing import Any

from ...catalog import Tool
from ...catalog import Where as Place
from ...compat.browser import IN_BROWSER
from .host import Host


def runs_on_workers(callee: object) -> bool:
    """True if the run's workers make the concurrent calls of ``callee``.

    These are plain functions of tools without a ``where``, unless they have a secret (which must
    stay in the kernel) or are `Tool.kernel_only`, and all callees with ``where="worker"``.
    """
    wished = getattr(callee, "where", None)
    if wished is not None:
        return bool(wished == "worker")
    return type(callee) is Tool and not (callee.is_async or callee.secret or callee.kernel_only)


def has_effect(callee: object) -> bool:
    """Whether a call must not be repeated without a confirmation (``reuse=False``, decision D7)."""
    return isinstance(callee, Tool) and not callee.reuse


def choose_place(callee: Any, concurrent: bool, host: Host) -> Place:
    """The place where the call runs, by the table in docs/design.md, "Engine and host".
    ``concurrent``: whether other steps may run at the same time."""
    if IN_BROWSER:
        return "loop"
    if callee.where is not None and (callee.where != "worker" or host.queue is not None):
        return callee.where  # type: ignore[no-any-return]  # a Where
    if callee.is_async:
        return "loop"
    if concurrent and host.queue is not None and runs_on_workers(callee):
        return "worker"
    return "kernel" if host.waited and not concurrent else "thread"
