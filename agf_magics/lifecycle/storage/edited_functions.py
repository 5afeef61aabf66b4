"""Finds the tools and agents that were edited since an earlier run, by the digests in its
manifest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ...catalog import Agent, Registry, Tool
from ...catalog.digests.digesting import digest_function
from ...catalog.digests.functions import ITS_CODE
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
) -> Iterator[tuple[str, Diagnostic]]:
    """The names of the edited tools and agents of which a resumed run keeps results, each with a
    warning. ``kept``: the name of the function of each result. The other parameters are those of
    `edited_functions`."""
    counts = Counter(kept)
    of_kept = {name: parts for name, parts in functions.items() if counts[name]}
    for callee in edited_functions(of_kept, registry, changed):
        kind = "tool" if isinstance(callee, Tool) else "agent"
        count = counts[callee.name]
        results = f"{count:,} of its results {'is' if count == 1 else 'are'} kept"
        message = f"{kind} {callee.name!r} was edited since the run began; {results}"
        hint = "a new run with --reuse (reuse=True) makes its calls again, and keeps the others"
        warning = Diagnostic("run.edited-since", message, hint=hint, severity="warning")
        yield callee.name, warning


def edited_between(
    earlier: Mapping[str, Mapping[str, str]],
    later: Mapping[str, Mapping[str, str]],
    changed: frozenset[bytes],
) -> Iterator[str]:
    """The edits between two runs, as sentences, by the digests of the parts of their functions.
    ``changed``: the keys of the objects that calls of one of the runs changed."""
    for name, parts in earlier.items():
        if name in later:
            names, _ = edited_parts(parts, later[name], changed)
            yield from filter(None, [edited_words(names, name)])


def edited_words(names: Sequence[str], subject: str) -> str:
    """What was edited, as a sentence; empty: nothing. ``names``: of the parts of a function."""
    if not names:
        return ""
    read = [name for name in names if name != ITS_CODE]
    others = " and ".join(filter(None, (", ".join(read[:-1]), *read[-1:])))
    if not read:
        return f"the code of {subject} was edited"
    if len(read) == len(names):
        return f"{subject} reads {others}, which changed"
    return f"the code of {subject} was edited, and so was {others}, which it reads"
