"""The errors of calls whose worker was lost, or whose worker lacks a module."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from typing import TypeGuard

from ...catalog.digests.origins import is_ours
from ...compat.imports import for_the_person
from ...text.diagnostics import Diagnostic
from ...text.raised import attribute, is_a, text_of
from .unsendable import STAY


def lacking_module(function: str, where: str, error: ImportError) -> Diagnostic:
    """The failure of calls of ``function``, because an import of the module ``error.name`` failed
    on a worker.

    ``where``: the name of the backend."""
    message = f"{function!r} needs the module {error.name!r}, which a worker of {where} lacks"
    top = str(error.name).partition(".")[0]
    hint = f"install {top!r} on the workers"
    # A module of the notebook is sent along if the function uses it as a global variable.
    if has_module_here(error) and is_ours(top):
        hint = f"import {top!r} outside of the function: it is then sent with the function"
    return Diagnostic("step.worker-lacks", message, hint=f"{hint}; or {STAY}")


def is_worker() -> bool:
    """Whether this process makes calls for a kernel and is no kernel itself."""
    state = sys.modules.get("_agf_chunk")
    return state is not None and not hasattr(state, "kernel")


def has_module_here(error: BaseException | None) -> TypeGuard[ModuleNotFoundError]:
    """Whether ``error`` is about a missing module that this process has."""
    top = text_of(attribute(error, "name")).partition(".")[0]
    if not is_a(error, ModuleNotFoundError) or not top.isidentifier():
        return False
    try:
        with for_the_person():
            return find_spec(top) is not None
    except (ImportError, ValueError):
        # A module that was made by code and has no place.
        return False


LOST_HINT = (
    "does it end its process? If memory is short: give each call less data, or start "
    "workers with more memory"
)
NO_SIGN = "its worker gave no sign of life and was ended"
GONE_HINT = (
    "%resume continues a run that has failed, on new processes; workers of a cluster must "
    "be started first"
)


def worker_lost(name: str, kind: str, losses: Sequence[str], gone: bool = False) -> Diagnostic:
    """The failure of a call of ``name`` whose workers were lost. ``losses``: how each worker was lost.
    ``gone``: whether there are no workers any more."""
    if gone:
        return Diagnostic(
            "step.worker-lost", f"no worker can run {name!r}: {losses[-1]}", hint=GONE_HINT
        )
    times = {1: "once", 2: "twice"}.get(len(losses), f"{len(losses)} times")
    why = "; ".join(dict.fromkeys(losses[-3:]))
    message = f"the worker of {name!r} ended before the {kind} did, {times}: {why}"
    return Diagnostic("step.worker-lost", message, hint=LOST_HINT)
