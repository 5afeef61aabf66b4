"""The worker backends that this process has started, which the next run uses again.

They are closed when the process ends, when the extension is unloaded, and by `%workers --close`.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable, Iterator

from ..text.giving_up import giving_up
from .backends.backend import WorkerBackend, nothing


class StartedBackends:
    """The worker backends of this process, by the value of ``on`` for which they were started."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, object], WorkerBackend] = {}
        self._lock = threading.Lock()

    def get(self, key: tuple[str, object], make: Callable[[], WorkerBackend]) -> WorkerBackend:
        """The backend of ``key``. It is made if there is none, or if the existing one is closed."""
        with self._lock:
            backend = self._known.get(key)
            # A backend is closed by `%workers --close`, or because its cluster is gone.
            if backend is None or getattr(backend, "closed", False):
                if not self._known:
                    atexit.register(self.close)
                backend = self._known[key] = make()
            return backend

    def __iter__(self) -> Iterator[WorkerBackend]:
        return iter([each for each in self._known.values() if not getattr(each, "closed", False)])

    def close(self) -> None:
        """End the processes that were started here, and the connections. A client or an Executor of
        the person stays open."""
        with self._lock:
            known, self._known = list(self._known.values()), {}
        # The next backend registers `close` again: at the exit, the interpreter calls first the function
        # that was registered last.
        atexit.unregister(self.close)
        for backend in known:
            with giving_up(__name__, "workers could not be closed"):
                getattr(backend, "close", nothing)()


started = StartedBackends()
"""The started backends of this process."""
