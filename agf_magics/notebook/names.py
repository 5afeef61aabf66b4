"""The keys and values that a place in a document may have, from the JSON Schema of its language.

The walk follows the path of the cursor down the schema and compares the keys that are already
written: ``type: map`` or ``id: agf.loop`` selects one of several shapes of a mapping. Nothing is
validated, so the document may be incomplete.

The names that a definition can use: registered names, names that its text declares, and the
paths that it reads.

Each language has three tables: the keys that take a name, the keys below which names are keys, and
the form of its paths. `cursor` reads the text, which may be incomplete.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..catalog import Registry
from ..flow.patterns import searcher
from ..flow.schemas import pointed
from .cursor import ELEMENT, Cursor, Keys

Schema = Mapping[str, Any]
Near = Mapping[str, str]
"""The keys of a mapping, with the values that are on one line."""

_MOST_SCHEMAS = 200
"""Schemas visited for one place: they may refer to each other in a cycle."""


def keys_at(root: Schema, spot: Cursor) -> dict[str, str]:
    """The keys that a mapping at ``spot`` may have, each with its description; empty if the schema
    has none."""
    found: dict[str, str] = {}
    for schema in _at(root, spot):
        for name, inner in schema.get("properties", {}).items():
            found[name] = found.get(name) or _description(root, inner)
    return found


def describe_value(root: Schema, spot: Cursor, value: str) -> str:
    """The description of the shape that ``value``, at ``spot``, selects: a kind of node, a policy;
    empty if none."""
    key = spot.path[-1] if spot.path else ""
    for schema in _at(root, spot, up=1):
        inner = schema.get("properties", {}).get(key)
        if isinstance(inner, Mapping) and inner.get("const") == value:
            return _description(root, schema)
        if value in _decides(schema, key):
            shape = schema.get("then", {})
            others = [_description(root, other) for other in shape.get("properties", {}).values()]
            return next(filter(None, [_description(root, shape), *others]), "")
    return ""


def _description(root: Schema, schema: Schema) -> str:
    """The description of a schema, else of that to which it refers."""
    if not isinstance(schema, Mapping):
        return ""
    said = schema.get("description") or _referred(root, schema.get("$ref")).get("description")
    return str(said or "")


def values_at(root: Schema, spot: Cursor) -> list[str]:
    """The literal values that ``spot`` may have."""
    found: dict[str, None] = {}
    for schema in _at(root, spot):
        listed = [*_literals(schema), *schema.get("examples", ())]
        listed += [True, False] if schema.get("type") == "boolean" else []
        found |= dict.fromkeys(_written(value) for value in listed)
    for schema in _at(root, spot, up=1):  # values that select a shape of the mapping
        found |= dict.fromkeys(_decides(schema, spot.path[-1] if spot.path else ""))
    return list(found)


def _at(root: Schema, spot: Cursor, up: int = 0) -> list[Schema]:
    """The schemas that apply to the value at ``spot``, or ``up`` levels above it."""
    path = spot.path[: len(spot.path) - up]
    mappings = list(reversed(spot.around))
    """The outermost first."""
    current: list[Schema] = [root]
    for place, part in enumerate((*path, None)):
        in_mapping = (spot.path[place] != ELEMENT) if place < len(spot.path) else spot.part == "key"
        near = mappings.pop(0) if in_mapping and mappings else {}
        current = list(_all(root, current, near))
        if part is not None:
            current = [inner for schema in current for inner in _under(schema, part)]
    return current


def _all(root: Schema, schemas: Sequence[Schema], near: Near) -> Iterator[Schema]:
    """Each schema with the schemas that it refers to and combines, if they fit the written keys."""
    queue, seen = list(schemas), 0
    while queue and seen < _MOST_SCHEMAS:
        schema = queue.pop(0)
        seen += 1
        if not isinstance(schema, Mapping):
            continue
        yield schema
        if "$ref" in schema:
            queue.append(_referred(root, schema["$ref"]))
        queue += schema.get("allOf", ())
        for several in ("anyOf", "oneOf"):
            queue += _likely(root, schema.get(several, ()), near)
        if "if" in schema:
            queue.append(schema.get("then" if _holds(schema["if"], near) else "else", {}))


def _referred(root: Schema, ref: object) -> Schema:
    to = pointed(root, str(ref or ""))
    return to if isinstance(to, Mapping) and ref else {}


def _likely(root: Schema, choices: Sequence[Schema], near: Near) -> list[Schema]:
    """The shapes that have most of the written keys and refuse none of the written values."""
    known: list[tuple[int, Schema]] = []
    for choice in choices:
        parts = list(_all(root, [choice], near))
        named = {name for part in parts for name in part.get("properties", ())}
        if all(_fits(part, near) for part in parts):
            known.append((len(named & near.keys()), choice))
    best = max((count for count, _ in known), default=0)
    return [choice for count, choice in known if count == best]


def _fits(schema: Schema, near: Near) -> bool:
    """Whether every written value equals the constant of this shape, if it has one."""
    for name, inner in schema.get("properties", {}).items():
        written = near.get(name)
        if (
            written
            and isinstance(inner, Mapping)
            and "const" in inner
            and written != _written(inner["const"])
        ):
            return False
    return True


def _holds(condition: Schema, near: Near) -> bool:
    """Whether the ``if`` of a schema is true of the written keys."""
    for name, inner in condition.get("properties", {}).items():
        written = near.get(name)
        if written is None:
            continue
        wanted = _literals(inner)
        if wanted and written not in map(_written, wanted):
            return False
        if "pattern" in inner and not searcher(inner["pattern"])(written):
            return False
    return all(name in near for name in condition.get("required", ()))


def _decides(schema: Schema, name: str) -> Iterator[str]:
    """The values of a key that select the shape of its mapping."""
    yield from map(_written, _literals(schema.get("if", {}).get("properties", {}).get(name, {})))


def _literals(schema: Schema) -> list[Any]:
    """The values of which a schema takes one."""
    return [*schema.get("enum", ()), *([schema["const"]] if "const" in schema else ())]


def _under(schema: Schema, part: str) -> Iterator[Any]:
    """What the schema says about the value of a key, or about an element: schemas, and other
    values, of which `_all` takes none."""
    named = schema.get("items") if part == ELEMENT else schema.get("properties", {}).get(part)
    if named is not None or part == ELEMENT:
        yield named
        return
    patterns = schema.get("patternProperties", {}).items()
    matching = [inner for pattern, inner in patterns if searcher(pattern)(part)]
    yield from matching or [schema.get("additionalProperties")]


def _written(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


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
        """The keys of all mappings whose path ends with ``path``."""
        return [
            key
            for found in self.everywhere
            if found.path[-len(path) :] == path
            for key in found.near
        ]

    def values_of(self, key: str, *path: str) -> list[str]:
        """The values of ``key`` in all mappings whose path ends with ``path``."""
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
