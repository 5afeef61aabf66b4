"""Runs a coroutine on a separate thread with a separate loop."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from ...compat.browser import IN_BROWSER
from .page_loop import run_alone


def run_apart(main: Callable[[], Coroutine[Any, Any, object]]) -> BaseException | None:
    """Run ``main()`` to its end on a separate thread and loop, outside of the caller's context.
    Returns the exception that it raised, or None. It must not call user code, because nothing could
    interrupt it."""
    raised: list[BaseException] = []

    def work() -> None:
        try:
            (run_alone if IN_BROWSER else asyncio.run)(main())
        except BaseException as error:
            raised.append(error)

    if IN_BROWSER:
        work()
    else:
        # The context is empty: if the caller is a tool, its grant and prints must not apply here.
        start = contextvars.Context().run
        thread = threading.Thread(target=start, args=(work,), name="agf-apart", daemon=True)
        thread.start()
        thread.join()
    return raised[0] if raised else None
