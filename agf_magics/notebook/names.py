"""The names that a definition can use: registered names, names that its text declares, and the
paths that it reads.

Each language has three tables: the keys that take a name, the keys below which names are keys, and
the form of its paths. `cursor` reads the text, which may be incomplete.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ..catalog import Registry
from .cursor import ELEMENT, Cursor, Keys


class Context(NamedTuple):
    """The text and the registry at the cursor."""

    spot: Cursor
    everywhere: tuple[Keys, ...]
    """Every mapping of the text."""
    text: str
    """The text without the word at the cursor."""
    inputs: tuple[str, ...]
    registry: Registry

    def keys_of(self, *path: str) -> list[str]:
        """The keys of all mappings registered path ends with ``path``."""
        return [
            key
            for found in self.everywhere
            if found.path[-len(path) :] == path
            for key in found.near
        ]

    def values_of(self, key: str, *path: str) -> list[str]:
        """The values of ``key`` in all mappings registered path ends with ``path``."""
        return [
            found.near[key]
            for found in self.everywhere
            if found.path[-len(path) :] == path and found.near.get(key)
        ]


class Paths(NamedTuple):
    """How a language writes its paths."""

    written: re.Pattern[str]
    """Matches the path at the end of a text; the group ``path`` is completed part by part."""
    known: Callable[[Context], Iterable[str]]
    where: Callable[[Cursor], bool]
    """Whether the value or the key at a place is a path or contains one."""


class Names(NamedTuple):
    """The names in a language."""

    values: Mapping[str, tuple[str, ...]]
    """For a key: the kinds of names that its value may be, in words of `SOURCES`."""
    keys: Mapping[str, tuple[str, ...]]
    """For a key: the kinds of names that the keys below it are."""
    paths: Paths
    alone: Mapping[str, tuple[str, ...]] = {}
    """For a key: words of the language that it takes instead of a name."""


def offered(names: Names, here: Context) -> dict[str, str]:
    """The names that fit the place, each with its kind in the popup."""
    spot = here.spot
    key = next((part for part in reversed(spot.path) if part != ELEMENT), "")
    table = names.keys if spot.part == "key" else names.values
    found = {name: what for what in table.get(key, ()) for name in SOURCES[what](here)}
    keywords = dict.fromkeys(names.alone.get(key, ()), "keyword") if spot.part == "value" else {}
    return found | keywords


def next_parts(paths: Paths, here: Context) -> tuple[str, list[str]] | None:
    """The unfinished part of a path and its completions; None if there is no path."""
    written = paths.written.search(here.spot.text) if paths.where(here.spot) else None
    if written is None:
        return None
    base, dot, fragment = written["path"].rpartition(".")
    lead = base + dot
    parts = {path[len(lead) :].split(".")[0] for path in paths.known(here) if path.startswith(lead)}
    return fragment, sorted(part for part in parts if part and part.startswith(fragment))


def _tools(here: Context) -> Iterable[str]:
    return [*here.registry.tools, *here.keys_of("tools")]


def _arguments(here: Context) -> Iterable[str]:
    """The arguments of the tool or agent that one of the mappings around the place names."""
    tools, agents, flows = here.registry.tools, here.registry.agents, here.registry.flows
    registered: Mapping[str, Mapping[str, Any]] = {
        **dict.fromkeys(("_tool", "tool", "tool_name", "_delegate"), tools),
        "agent": agents,
    }
    named = (
        (near.get(key), known) for near in here.spot.around for key, known in registered.items()
    )
    name, known = next(((name, known) for name, known in named if name), ("", tools))
    if name in known:
        return list((getattr(known[name], "accepts", None) or {}).get("properties", {}))
    return [ref.path[-1] for ref in flows[name].inputs] if name in flows else []


def _aliased(here: Context) -> Iterable[str]:
    """The registered names that an alias may have."""
    return (
        here.registry.tools
        if "local_tools" in here.spot.path
        else [*here.registry.agents, *here.registry.flows]
    )


def _agents(here: Context) -> Iterable[str]:
    return [
        *here.values_of("alias", "local_agents", ELEMENT),
        *here.registry.agents,
        *here.registry.flows,
    ]


SOURCES: Mapping[str, Callable[[Context], Iterable[str]]] = {
    "agent": _agents,
    "tool": _tools,
    "flow": lambda here: here.registry.flows,
    "transform": lambda here: here.registry.transforms,
    "policy": lambda here: here.registry.policies,
    "schema": lambda here: here.registry.schemas,
    "argument": _arguments,
    "alias": _aliased,
    "node": lambda here: here.keys_of("nodes"),
    "state": lambda here: here.keys_of("state"),
}


# --- the languages
# --------------------------------------------------------------------------------------------------


def _parent(here: Context) -> Iterable[str]:
    """``parent.input.topic``, ``writer.output``: from the interface, the line, and other paths in
    the text."""
    fields = {*here.inputs, *here.keys_of("input", "properties")}
    aliases = {
        *here.values_of("alias", "local_agents", ELEMENT),
        *here.values_of("agent", "steps", ELEMENT),
    }
    yield from (f"parent.input.{name}" for name in fields)
    yield "parent.input."
    yield from (f"{alias}.{side}." for alias in aliases for side in ("output", "input"))
    yield from re.findall(r"(?<![\w.])[A-Za-z_]\w*\.(?:input|output)(?:\.\w+)+", here.text)


def _references(here: Context) -> Iterable[str]:
    """``input.path``, without the dagger."""
    yield from (f"input.{name}" for name in here.inputs)
    yield from (
        f"{kind}.{name}" for kind in ("input", "state", "data") for name in here.keys_of(kind)
    )
    yield from ("input.", "state.", "data.")
    yield from (path.strip(".") for path in re.findall(r"[†$]([A-Za-z_][\w.-]*)", here.text))


def _state(here: Context) -> Iterable[str]:
    keys = {*here.keys_of("state"), *here.inputs}
    yield from (f"state.{name}" for name in keys)
    yield from re.findall(r"(?<![\w.])state(?:\.\w+)+", here.text)


def _conditions(here: Context) -> Iterable[str]:
    """A condition names a key of the state without ``state.``."""
    return [path.removeprefix("state.") for path in _state(here)]


def _in_condition(spot: Cursor) -> bool:
    return spot.part == "value" and spot.path[-1:] == ("condition",)


def _graph_paths(here: Context) -> Iterable[str]:
    return _conditions(here) if _in_condition(here.spot) else _state(here)


NAMES: Mapping[str, Names] = {
    "policy": Names(
        values={
            "agent": ("agent",),
            "default_agent": ("agent",),
            "output_from": ("agent",),
            "custom_transform": ("transform",),
            "id": ("policy",),
            "name": ("tool",),
            "alias": ("alias",),
        },
        keys={"input_mapping": ("argument",)},
        alone={"output_from": ("last", "merge", "first")},
        paths=Paths(
            re.compile(r"(?:^|[^\w.])(?P<path>[\w.]*+(?:\[\]\.\w*+)?)$"),
            _parent,
            lambda spot: (
                spot.path[-2:-1] == ("input_mapping",)
                if spot.part == "value"
                else spot.path[-1:] == ("args_match",)
            ),
        ),
    ),
    "plan": Names(
        values={"_tool": ("tool", "flow"), "_delegate": ("flow",), "_activity": ("tool",)},
        keys={"calls": ("argument",), "": ("argument",)},
        paths=Paths(
            re.compile(r"[†$](?P<path>[\w.-]*)$"), _references, lambda spot: spot.part == "value"
        ),
    ),
    "graph": Names(
        values={
            "tool": ("tool",),
            "tool_name": ("tool",),
            "function": ("tool",),
            "tools": ("tool",),
            "graph": ("flow",),
            "from": ("node",),
            "to": ("node",),
            "default_route": ("node",),
            "identity": ("agent",),
            "schema": ("schema",),
            "state_key": ("state",),
            "resume_key": ("state",),
            "collect": ("state",),
            "requires": ("state",),
        },
        keys={
            "output": ("state",),
            "variables": ("argument",),
            "args": ("argument",),
            "loop_limits": ("node",),
            "loop_exits": ("node",),
        },
        alone={"from": ("START",), "to": ("END",), "condition": ("else",)},
        paths=Paths(
            re.compile(r"(?:^|[-+*/\[{,: <>=])(?P<path>[A-Za-z_][\w.]*|)$"),
            _graph_paths,
            lambda spot: (
                spot.part == "value"
                and (_in_condition(spot) or spot.text.count("{") > spot.text.count("}"))
            ),
        ),
    ),
}
"""By language."""
