"""The names that a definition can mean: what is registered, what its own text declares, the paths that it reads.

A language is three tables here: whose name a key takes, where names are keys, and how its paths are written. The text
is read as it stands, by `cursor`: who names a thing need not have written it to its end.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ..catalog import Registry
from .cursor import ELEMENT, Cursor, Keys


class Context(NamedTuple):
    """What is known at the cursor."""

    spot: Cursor
    everywhere: tuple[Keys, ...]
    """Every mapping of the text."""
    text: str
    """The text, without what is being written."""
    inputs: tuple[str, ...]
    registry: Registry

    def keys_of(self, *path: str) -> list[str]:
        """The keys of the mappings that stand at the end of this path, wherever it begins."""
        return [key for found in self.everywhere if found.path[-len(path) :] == path for key in found.near]

    def said_of(self, key: str, *path: str) -> list[str]:
        """What is written behind ``key`` in the mappings at the end of this path."""
        return [
            found.near[key] for found in self.everywhere if found.path[-len(path) :] == path and found.near.get(key)
        ]


class Paths(NamedTuple):
    """How a language writes what it reads."""

    written: re.Pattern[str]
    """The path at the end of a text; its group ``path`` is what is completed, part by part."""
    known: Callable[[Context], Iterable[str]]
    where: Callable[[Cursor], bool]
    """Whether the value, or the key, at a spot is one, or has one in it."""


class Names(NamedTuple):
    """What of a language is somebody's name."""

    values: Mapping[str, tuple[str, ...]]
    """By the key: whose name its value is, in words of `SOURCES`."""
    keys: Mapping[str, tuple[str, ...]]
    """By the key: whose names the keys below it are."""
    paths: Paths
    alone: Mapping[str, tuple[str, ...]] = {}
    """By the key: words of the language that stand where a name may."""


def offered(names: Names, here: Context) -> dict[str, str]:
    """What may be named at the spot, each with what it is called in the popup."""
    spot = here.spot
    key = next((part for part in reversed(spot.path) if part != ELEMENT), "")
    table = names.keys if spot.part == "key" else names.values
    found = {name: what for what in table.get(key, ()) for name in SOURCES[what](here)}
    own = dict.fromkeys(names.alone.get(key, ()), "keyword") if spot.part == "value" else {}
    return found | own


def next_parts(paths: Paths, here: Context) -> tuple[str, list[str]] | None:
    """What of a path is being written, and what may stand there; None where no path is."""
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
    """Of the tool or the agent that the mapping around the spot, or the one around that, names."""
    tools, agents, flows = here.registry.tools, here.registry.agents, here.registry.flows
    whose: Mapping[str, Mapping[str, Any]] = {
        **dict.fromkeys(("_tool", "tool", "tool_name", "_delegate"), tools),
        "agent": agents,
    }
    named = ((near.get(key), known) for near in here.spot.around for key, known in whose.items())
    name, known = next(((name, known) for name, known in named if name), ("", tools))
    if name in known:
        return list((getattr(known[name], "accepts", None) or {}).get("properties", {}))
    return [ref.path[-1] for ref in flows[name].inputs] if name in flows else []


def _aliased(here: Context) -> Iterable[str]:
    """What an alias may be called to mean what is registered."""
    return here.registry.tools if "local_tools" in here.spot.path else [*here.registry.agents, *here.registry.flows]


def _agents(here: Context) -> Iterable[str]:
    return [*here.said_of("alias", "local_agents", ELEMENT), *here.registry.agents, *here.registry.flows]


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


# --- the languages ---------------------------------------------------------------------------------------------------


def _parent(here: Context) -> Iterable[str]:
    """``parent.input.topic``, ``writer.output``: what the interface and the line say, and what is read elsewhere."""
    fields = {*here.inputs, *here.keys_of("input", "properties")}
    aliases = {*here.said_of("alias", "local_agents", ELEMENT), *here.said_of("agent", "steps", ELEMENT)}
    yield from (f"parent.input.{name}" for name in fields)
    yield "parent.input."
    yield from (f"{alias}.{side}." for alias in aliases for side in ("output", "input"))
    yield from re.findall(r"(?<![\w.])[A-Za-z_]\w*\.(?:input|output)(?:\.\w+)+", here.text)


def _references(here: Context) -> Iterable[str]:
    """``input.path``, without the dagger."""
    yield from (f"input.{name}" for name in here.inputs)
    yield from (f"{kind}.{name}" for kind in ("input", "state", "data") for name in here.keys_of(kind))
    yield from ("input.", "state.", "data.")
    yield from (path.strip(".") for path in re.findall(r"[†$]([A-Za-z_][\w.-]*)", here.text))


def _state(here: Context) -> Iterable[str]:
    keys = {*here.keys_of("state"), *here.inputs}
    yield from (f"state.{name}" for name in keys)
    yield from re.findall(r"(?<![\w.])state(?:\.\w+)+", here.text)


def _conditions(here: Context) -> Iterable[str]:
    """In a condition a key of the state stands alone."""
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
                spot.path[-2:-1] == ("input_mapping",) if spot.part == "value" else spot.path[-1:] == ("args_match",)
            ),
        ),
    ),
    "plan": Names(
        values={"_tool": ("tool", "flow"), "_delegate": ("flow",), "_activity": ("tool",)},
        keys={"calls": ("argument",), "": ("argument",)},
        paths=Paths(re.compile(r"[†$](?P<path>[\w.-]*)$"), _references, lambda spot: spot.part == "value"),
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
            lambda spot: spot.part == "value" and (_in_condition(spot) or spot.text.count("{") > spot.text.count("}")),
        ),
    ),
}
"""By language."""
