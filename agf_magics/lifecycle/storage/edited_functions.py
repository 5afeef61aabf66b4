"""Finds the tools and agents of an earlier run that were edited since it began, by the digests in
its manifest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

from ...catalog import Agent, Registry, Tool
from ...catalog.digests.digesting import digest_function
from ...journal.calls.changed_objects import edited_parts, parts_of
from ...settings.settings import current
from ...text.diagnostics import Diagnostic


def edited_functions(
    functions: Mapping[str, Mapping[str, str]], registry: Registry, changed: frozenset[bytes]
) -> Iterator[Tool | Agent]:
    """The tools and agents whose function, or what it reads, was certainly edited. ``functions``:
    the digests of the parts of their functions, by name. ``changed``: the keys of the objects that
    the calls of the run changed."""
    for name, before in functions.items():
        callee = registry.tools.get(name) or registry.agents.get(name)
        if not isinstance(callee, Tool | Agent):
            continue
        digest = digest_function(callee.function, current.settings.journal_value)
        if digest is not None and edited_parts(before, parts_of(digest, name), changed)[0]:
            yield callee


def mixed_versions(
    functions: Mapping[str, Mapping[str, str]],
    registry: Registry,
    changed: frozenset[bytes],
    kept: Iterable[str],
) -> Iterator[Diagnostic]:
    """Warnings about the edited tools and agents of which a resumed run keeps results. ``kept``:
    the name of the function of each result. The other parameters are those of `edited_functions`."""
    counts = Counter(kept)
    of_kept = {name: parts for name, parts in functions.items() if counts[name]}
    for callee in edited_functions(of_kept, registry, changed):
        kind = "tool" if isinstance(callee, Tool) else "agent"
        count = counts[callee.name]
        results = f"{count:,} of its results {'is' if count == 1 else 'are'} kept"
        message = f"{kind} {callee.name!r} was edited since the run began; {results}"
        hint = "a new run with --reuse (reuse=True) makes its calls again, and keeps the others"
        yield Diagnostic("run.edited-since", message, hint=hint, severity="warning")
