"""What the kernel has and a worker does not: a module (the failure ``step.worker-lacks``),
flows."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from ..catalog.origins import is_ours
from ..text.diagnostics import Diagnostic
from .sending import STAY


def lacking_module(function: str, where: str, error: ImportError) -> Diagnostic:
    """The failure of calls of ``function``, because an import of the module ``error.name`` failed
    on a worker.

    ``where``: the name of the backend."""
    message = f"{function!r} needs the module {error.name!r}, which a worker of {where} lacks"
    top = str(error.name).partition(".")[0]
    hint = f"install {top!r} on the workers"
    if is_here(error) and is_ours(top):
        hint = f"import {top!r} outside of the function: it is then sent with the function"
    return Diagnostic("step.worker-lacks", message, hint=f"{hint}; or {STAY}")


def is_worker() -> bool:
    """Whether this process makes calls for a kernel, and is none itself."""
    held = sys.modules.get("_agf_chunk")
    return held is not None and not hasattr(held, "kernel")


def is_here(error: BaseException) -> bool:
    """Whether ``error`` says that a module is missing which this process has."""
    top = str(getattr(error, "name", None)).partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or not top.isidentifier():
        return False
    try:
        return find_spec(top) is not None
    except (ImportError, ValueError):  # a module that was made by code
        return False
