"""What a worker of our own cluster does first: Dask imports this file in its process (``preload``),
sometimes twice.

An interrupt of the kernel goes to all processes of its group, so the worker leaves the group. If the
kernel is killed, Dask ends the worker from one of the worker's threads, which gets no turn while a call
holds the interpreter's lock. So Linux is asked to end the worker.
"""

from __future__ import annotations

import os
import signal
import sys

SET_DEATH_SIGNAL = 1
"""``PR_SET_PDEATHSIG`` of Linux: the signal that this process gets when the thread that started it
ends."""

if hasattr(os, "setsid") and os.getsid(0) != os.getpid():
    os.setsid()
if sys.platform == "linux":
    import ctypes

    ctypes.CDLL(None).prctl(SET_DEATH_SIGNAL, signal.SIGKILL)
