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
        self._backends: dict[tuple[str, object], WorkerBackend] = {}
        self._lock = threading.Lock()

    def get(self, key: tuple[str, object], make: Callable[[], WorkerBackend]) -> WorkerBackend:
        """The backend of ``key``. It is made if there is none, or if the existing one is closed."""
        with self._lock:
            backend = self._backends.get(key)
            # A backend is closed by `%workers --close`, or because its cluster is gone.
            if backend is None or getattr(backend, "closed", False):
                if not self._backends:
                    atexit.register(self.close)
                backend = self._backends[key] = make()
            return backend

    def __iter__(self) -> Iterator[WorkerBackend]:
        return iter(
            [
                backend
                for backend in self._backends.values()
                if not getattr(backend, "closed", False)
            ]
        )

    def close(self) -> None:
        """End the processes that were started here, and the connections. A client or an Executor of
        the person stays open."""
        with self._lock:
            backends, self._backends = list(self._backends.values()), {}
        # The next backend registers `close` again: at the exit, the interpreter calls first the function
        # that was registered last.
        atexit.unregister(self.close)
        for backend in backends:
            with giving_up(__name__, "workers could not be closed"):
                getattr(backend, "close", nothing)()


started = StartedBackends()
"""The started backends of this process."""
