"""The setup of a worker process: a function of the person that each process calls once, before its
first chunk.

It is sent by value and runs on the worker, so it imports nothing of ours.
"""

from __future__ import annotations

import pickle
import sys
import threading
import traceback
import types
from typing import Any


def run_after_setup(*order: Any) -> Any:
    """``run`` with all of ``order`` but its last part, after the setup: ``setup`` in that part is
    the pickled function, empty if there is none, its digest, and ``run``. If the setup fails, in
    this chunk or in an earlier one: ``("setup", why, traceback)``."""
    pickled, digest, run = order[-1]["setup"]
    if not pickled:
        return run(*order[:-1])
    held: Any = sys.modules.setdefault("_agf_chunk", types.ModuleType("_agf_chunk"))
    with held.__dict__.setdefault("setup_lock", threading.Lock()):
        done: dict[str, tuple[str, str] | None] = held.__dict__.setdefault("setups", {})
        if digest not in done:
            done[digest] = None
            try:
                pickle.loads(pickled)()
            except BaseException as error:
                trace = error.__traceback__ and error.__traceback__.tb_next  # without this function
                lines = traceback.format_exception(type(error), error, trace)
                done[digest] = f"{type(error).__name__}: {error}"[:500], "".join(lines)[-20_000:]
        failed = done[digest]
    return ("setup", *failed) if failed is not None else run(*order[:-1])
