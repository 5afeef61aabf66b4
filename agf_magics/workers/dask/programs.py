"""Large functions, which are sent once to the cluster instead of with each chunk.

Such a function is the result of a task, because Dask repeats a task whose worker was lost.
Scattered data, and all chunks that need it, would be lost.
"""

from __future__ import annotations

from typing import Any

from ..sending import loadable
from . import tasks


def submit_program(client: Any, key: str, program: bytes) -> Any:
    """The future of a pickled function, for the chunks that depend on it. ``key``: the name of its
    task."""
    from dask import config

    with config.set(
        {"distributed.admin.large-graph-warning-threshold": "1 TB"}
    ):  # `on.heavy` has the warning
        return client.submit(loadable(tasks.hold_program), program, key=key, pure=False)
