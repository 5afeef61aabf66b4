"""Turns the value of ``on=`` or ``--on`` into a worker backend.

A word (``processes``, ``dask``), the address of a scheduler, a Dask client, or any
``concurrent.futures.Executor`` becomes a `WorkerBackend`. An address comes only from the person:
the settings of a project cannot name one, and Dask's own configuration is not read.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, cast

from ..catalog.tools.tool import are_resources
from ..compat.browser import IN_BROWSER
from ..compat.installed import missing
from ..settings.worker_words import TAKES, WORDS, Word, read_word
from ..text.diagnostics import DefinitionError, Diagnostic
from ..text.shorten import shorten
from ..text.suggestions import suggest
from .backends.backend import WorkerBackend, nothing
from .backends.executor import ExecutorBackend
from .chunk_options import BackendWithOptions
from .started_backends import started

NEEDS = {"processes": ("cloudpickle",), "dask": ("distributed", "cloudpickle")}
"""The packages that a word needs. The extra of agf-magics with them has the name of the word."""


@dataclass(frozen=True, slots=True)
class Workers:
    """Workers with options, for ``on=``.

    - ``on``: a Dask client, any Executor, a word or an address, as in ``on=`` itself. Required.
    - ``setup``: a function without parameters that each worker process calls once, before its first
      calls. It is sent to the workers. Default None.
    - ``resources``: what each call needs of its worker, such as ``{"gpu": 1}``, in Dask's units.
      Default: nothing.
    - ``adaptive``: whether the cluster starts workers on demand: the run then sends ten seconds of
      work ahead, so that the cluster sees it. Default False.
    """

    on: Any
    setup: Callable[[], object] | None = None
    resources: Mapping[str, float] = field(default_factory=dict)
    adaptive: bool = False

    def __post_init__(self) -> None:
        """Raises TypeError for a setup that is not a function."""
        if self.setup is not None and not callable(self.setup):
            raise TypeError(
                f"setup must be a function without parameters, got {type(self.setup).__name__}"
            )


def find_backend(on: object, names: Mapping[str, object] | None = None) -> WorkerBackend | None:
    """The worker backend that ``on`` means; None if ``on`` means this process.

    ``names``: the variables that a text may name; None if a text can name no variable. Raises
    DefinitionError. Connecting to an address can take 5 seconds, so the caller must not be on an event
    loop.
    """
    if on is None or _is_backend(on):
        return cast("WorkerBackend | None", on)
    if isinstance(on, Workers):
        return _with_options(on, names)
    backend = _of_text(on, names) if isinstance(on, str) else _of_object(on)
    # If the look fails, the calls fail later with their own errors.
    with contextlib.suppress(OSError):
        getattr(backend, "look", nothing)()
    return backend


def _of_object(on: object) -> WorkerBackend:
    """The backend of a Dask client or an Executor. Raises DefinitionError."""
    if _is_client(on):
        from .backends.dask.start import connect_client

        return started.get(("client", id(on)), lambda: connect_client(on))
    if isinstance(on, Executor) or callable(getattr(on, "submit", None)):
        return ExecutorBackend(cast(Executor, on))
    hint = f"write {TAKES}, or give a Dask client or an Executor"
    message = (
        f"on must be a word, an address, a Dask client or an Executor, got {type(on).__name__}"
    )
    raise DefinitionError(Diagnostic("on.unknown", message, hint=hint))


def _of_text(text: str, names: Mapping[str, object] | None) -> WorkerBackend | None:
    """The backend of a word, an address, or a variable of ``names``. Raises DefinitionError."""
    # Words come before variables: a variable named `dask` must not change what --on dask means.
    word = read_word(text)
    if word is not None:
        return _of_word(word)
    name = text.removeprefix("$")
    if names is not None and name in names and name.isidentifier():
        return find_backend(names[name])
    raise _unknown(text, names)


def _unknown(text: str, names: Mapping[str, object] | None) -> DefinitionError:
    """The error for a text that is neither a word, an address nor a variable."""
    if not text:
        message = "on is empty"
    elif "://" in text:
        message = (
            f"the address of a scheduler must be tcp://HOST:PORT or tls://HOST:PORT, got "
            f"{shorten(text)!r}"
        )
    elif text.partition(":")[0] in WORDS:
        description = "workers" if text.startswith("dask") else "processes"
        message = f"the number of {description} must be 1 to 1024, got {shorten(text)!r}"
    else:
        description = (
            "neither a word, an address nor a variable"
            if names is not None
            else "neither a word nor an address"
        )
        message = f"{shorten(text)!r} is {description}"
    usable = [
        name for name, value in (names or {}).items() if not name.startswith("_") and can_run(value)
    ]
    hint = suggest(text, [*WORDS, *usable]) or f"write {TAKES}"
    return DefinitionError(Diagnostic("on.unknown", message, hint=hint))


def can_run(value: object) -> bool:
    """Whether ``value``, which is not a text, can be given as ``on``."""
    if isinstance(value, type | str):
        return False
    return _is_backend(value) or isinstance(value, Workers | Executor) or _is_client(value)


def _of_word(word: Word) -> WorkerBackend | None:
    """The backend of a word or an address; None: this process. Raises DefinitionError."""
    if word.kind == "here":
        return None
    _require("processes" if word.kind == "processes" else "dask")
    if word.kind == "processes":
        from .backends.processes import Processes

        return started.get((word.kind, word.number), lambda: Processes(word.number))
    from .backends.dask.start import connect_address, start_cluster

    if word.kind == "dask":
        return started.get((word.kind, word.number), lambda: start_cluster(word.number))
    return started.get((word.kind, word.address), lambda: connect_address(word.address))


def _require(word: str) -> None:
    """Raise DefinitionError if a package that ``word`` needs is not installed."""
    if IN_BROWSER:
        message = f"--on {word} needs other processes, and a browser has none"
        hint = "leave out --on: the calls are made one after another here"
        raise DefinitionError(Diagnostic("on.not-installed", message, hint=hint))
    if absent := missing(NEEDS[word]):
        message = f"--on {word} needs {' and '.join(absent)}, which is not installed"
        hint = f"pip install 'agf-magics[{word}]'"
        raise DefinitionError(Diagnostic("on.not-installed", message, hint=hint))


def _with_options(workers: Workers, names: Mapping[str, object] | None) -> WorkerBackend | None:
    backend = find_backend(workers.on, names)
    if backend is None:
        return None
    if not are_resources(workers.resources):
        message = (
            f"resources must be a mapping of names to numbers above 0, got {workers.resources!r}"
        )
        raise DefinitionError(Diagnostic("on.resources", message, hint="for example {'gpu': 1}"))
    options = BackendWithOptions(backend, workers.setup, workers.resources, workers.adaptive)
    return cast(WorkerBackend, options)


def _is_backend(value: object) -> bool:
    return all(
        hasattr(value, name) for name in ("submit", "lanes", "name", "identifies_lost_chunk")
    )


def _is_client(value: object) -> bool:
    """Whether ``value`` is a Dask client, without an import of distributed."""
    return any(
        kind.__name__ == "Client" and kind.__module__.partition(".")[0] == "distributed"
        for kind in type(value).__mro__
    )
