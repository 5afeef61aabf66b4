"""``%workers``: the workers that runs of this process use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from IPython.core.magic import line_magic, magics_class

from ...commands import magics
from ...commands.line import ParsedLine
from ...pictures.amounts import counted
from ...pictures.plain import html, line
from ...pictures.text_tables import list_rows
from ..output.output import Bundle, show
from .base import NotebookMagics, takes

if TYPE_CHECKING:
    from ...workers.backends.status import BackendStatus, WorkerStatus

COLUMNS = ("workers", "lanes", "working", "memory", "resources", "versions")
NONE = "this process has used no workers: run a flow with --on processes"


@magics_class
class WorkerMagics(NotebookMagics):
    """``%workers``."""

    @line_magic
    @takes(magics.WORKERS)
    def workers(self, parsed: ParsedLine) -> Any:
        from ...workers.backends.status import describe
        from ...workers.started_backends import started

        backends = list(started)
        if "--close" in parsed:
            started.close()
            print(f"closed {counted(len(backends), 'worker backend')}")
            return
        if "--restart" in parsed:
            for backend in backends:
                restart = getattr(backend, "restart", None)
                if restart is None:
                    print(f"{backend.name} cannot be restarted here")
                    continue
                print(f"restarted {backend.name}")
                restart()
            return
        show(list_workers([describe(backend) for backend in backends]))


def list_workers(statuses: Iterable[BackendStatus]) -> Bundle:
    """The workers as a table by MIME type, with links to their dashboards."""
    backends = list(statuses)
    rows = [row for backend in backends for row in _rows(backend)]
    bundle = list_rows(COLUMNS, rows, counted(len(backends), "worker backend"), NONE)
    for backend in backends:
        if is_page(backend.dashboard):
            link = html(backend.dashboard)
            bundle["text/html"] += (
                f'<p>{html(backend.name)}: <a href="{link}" target="_blank" '
                f'rel="noopener">dashboard</a></p>'
            )
            bundle["text/plain"] += f"\n{backend.name}: {backend.dashboard}"
    return bundle


def is_page(link: str) -> bool:
    """Whether ``link`` is a web address, or a path on the notebook's own server, as the proxy of
    JupyterHub has it. ``//host`` and ``/\\host`` would lead to another server."""
    return link.startswith(("http://", "https://")) or (
        link[:1] == "/" and link[1:2] not in ("/", "\\")
    )


def _rows(backend: BackendStatus) -> Iterable[tuple[str, ...]]:
    """The row of a backend, and a row for each of its workers."""
    working = ""
    if backend.starting:
        working = f"starting {counted(backend.starting, 'worker')}"
    elif backend.in_flight is not None:
        working = f"{counted(backend.in_flight, 'chunk')} in flight"
    yield (line(backend.name, 80), f"{backend.lanes:,}", working, "", "", "")
    for worker in backend.workers:
        if worker.name != backend.name:
            yield _row(worker)


def _row(worker: WorkerStatus) -> tuple[str, ...]:
    working = "" if worker.working is None else f"{worker.working:,}"
    memory = "" if worker.memory is None else _megabytes(worker.memory)
    if memory and worker.memory_limit:
        memory += f" of {_megabytes(worker.memory_limit)}"
    resources = ", ".join(f"{name} {amount:g}" for name, amount in worker.resources.items())
    versions = _versions(worker.versions)
    return (
        f"  {line(worker.name, 80)}",
        f"{worker.lanes:,}",
        working,
        memory,
        line(resources, 60),
        line(versions, 120),
    )


def _versions(versions: Mapping[str, str]) -> str:
    """The versions that differ from those of this process."""
    from ...workers.backends.dask.tasks import describe_process

    ours = describe_process()
    others = [
        f"{name} {version}"
        for name, version in versions.items()
        if version and version != ours.get(name)
    ]
    return ", ".join(others) or ("as here" if versions else "")


def _megabytes(size: int) -> str:
    return f"{size / 1e6:,.0f} MB"
