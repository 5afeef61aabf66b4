"""Work on a thread and a loop of its own, apart from the caller."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from ...compat.browser import IN_BROWSER
from .page_loop import run_alone


def run_apart(main: Callable[[], Coroutine[Any, Any, object]]) -> BaseException | None:
    """Run ``main()`` to its end on a thread and a loop of its own, outside of the caller's context,
    and return what it raised. It must not call user code: nothing interrupts it."""
    raised: list[BaseException] = []

    def work() -> None:
        try:
            (run_alone if IN_BROWSER else asyncio.run)(main())
        except BaseException as error:
            raised.append(error)

    if IN_BROWSER:
        work()
    else:
        # An empty context: the caller may be a tool, whose grant and prints are not those of this
        # work.
        start = contextvars.Context().run
        thread = threading.Thread(target=start, args=(work,), name="agf-apart", daemon=True)
        thread.start()
        thread.join()
    return raised[0] if raised else None
