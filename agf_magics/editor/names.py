"""Finds the names that a definition can use: registered and declared names, and the paths that it
reads.

Each language has three tables: the keys that take a name, the keys below which names are keys, and
the form of its paths; the expressions of a pipeline are paths too. `cursor` reads the text, which
may be incomplete.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from ..catalog import Registry
from ..flow.flow import Flow
from ..languages.pipeline import FUNCTION_HELP, STEPS
from .cursor import ELEMENT, Cursor, Keys


class Context(NamedTuple):
    """The text and the registry at the cursor."""

    cursor: Cursor
    above: tuple[Keys, ...]
    """Every mapping before the cursor."""
    everywhere: tuple[Keys, ...]
    """Every mapping of the text."""
    text: str
    """The text without the word at the cursor."""
    inputs: tuple[str, ...]
    registry: Registry
    functions: tuple[str, ...] = ()
    """The functions of the language's expressions."""

    def keys_of(self, *path: str) -> list[str]:
        """The keys of all mappings whose path ends with ``path``."""
        return [
            key
            for mapping in self.everywhere
            if mapping.path[-len(path) :] == path
            for key in mapping.near
        ]

    def values_of(self, key: str, *path: str) -> list[str]:
        """The values of ``key`` in all mappings whose path ends with ``path``."""
        return [
            mapping.near[key]
            for mapping in self.everywhere
            if mapping.path[-len(path) :] == path and mapping.near.get(key)
        ]


class Paths(NamedTuple):
    """The notation of paths in a language."""

    written: re.Pattern[str]
    """Matches the path at the end of a text; the group ``path`` is completed part by part."""
    known: Callable[[Context, str], Iterable[str]]
    """The paths of the text; the second argument is the path before the part that is completed,
    with its dot."""
    where: Callable[[Cursor], bool]
    """Whether the value or the key at a place is a path or contains one."""


class Names(NamedTuple):
    """The names in a language."""

    values: Mapping[str, tuple[str, ...]]
    """The kinds of names that the value of a key may be, in words of `SOURCES`, by the key."""
    keys: Mapping[str, tuple[str, ...]]
    """The kinds of names that the keys below a key are, by the key."""
    paths: Paths
    alone: Mapping[str, tuple[str, ...]] = {}
    """The words of the language that a key accepts in place of a name, by the key."""
    functions: Iterable[str] = ()
    """The functions of its expressions."""


def offered(names: Names, context: Context) -> dict[str, str]:
    """The names that fit the place, each with its kind in the popup."""
    cursor = context.cursor
    is_key = cursor.part == "key"
    key = next((part for part in reversed(cursor.path) if is_key or part != ELEMENT), "")
    table = names.keys if is_key else names.values
    by_kind = {name: kind for kind in table.get(key, ()) for name in SOURCES[kind](context)}
    if is_key:
        return by_kind
    # The key above an argument of a tool tells the words that the argument accepts.
    owner = next((part for part in reversed(cursor.path[-2:]) if part in names.alone), "")
    return by_kind | dict.fromkeys(names.alone.get(owner, ()), "keyword")


def next_parts(
    written: re.Pattern[str], text: str, paths_below: Callable[[str], Iterable[str]]
) -> tuple[str, list[str]] | None:
    """The unfinished part of the path at the end of ``text``, and its completions; None if there
    are none. ``paths_below``: returns the paths that begin with a given path."""
    path = written.search(text)
    if path is None:
        return None
    base, dot, fragment = path["path"].rpartition(".")
    lead = base + dot
    parts = dict.fromkeys(
        path[len(lead) :].split(".")[0] for path in paths_below(lead) if path.startswith(lead)
    )
    fitting = [part for part in parts if part and part.startswith(fragment)]
    return (fragment, fitting) if fitting else None


def _tools(context: Context) -> Iterable[str]:
    return [*context.registry.tools, *context.keys_of("tools")]


def _arguments(context: Context) -> Iterable[str]:
    """The arguments of the tool, agent or flow that a mapping around the place names."""
    registry = context.registry
    around = context.cursor.around
    if context.cursor.path[-1:] == (ELEMENT,):  # an element is a call of its own
        around = around[:1]
    names = (near.get(key) for near in around for key in CALLS)
    name = next(filter(None, names), "")
    called: Any = {**registry.flows, **registry.agents, **registry.tools}.get(name)
    if isinstance(called, Flow):
        return [ref.path[-1] for ref in called.inputs]
    return list((getattr(called, "accepts", None) or {}).get("properties", {}))


CALLS = ("_tool", "tool", "tool_name", "_delegate", "agent", "name")
"""The keys whose value is the callee of a mapping."""


def _aliased(context: Context) -> Iterable[str]:
    """The registered names that an alias may have."""
    return (
        context.registry.tools
        if "local_tools" in context.cursor.path
        else [*context.registry.agents, *context.registry.flows]
    )


def _agents(context: Context) -> Iterable[str]:
    return [
        *context.values_of("alias", "local_agents", ELEMENT),
        *context.registry.agents,
        *context.registry.flows,
    ]


def _schemas(context: Context) -> Iterable[str]:
    """The names of schemas, except at the top of a document, where the name is a new one."""
    written = context.values_of("schema")
    return [*context.registry.schemas, *written] if len(context.cursor.path) > 1 else ()


def _stores(context: Context) -> dict[str, str]:
    """The stores that the steps above write, each with its schema. A step reads its own store only
    in the next round of a fold."""
    is_in_fold = ("fold", "do") in pairwise(context.cursor.path)
    own = () if is_in_fold else tuple(map(id, context.cursor.around))
    writing = (
        keys.near for keys in context.above if keys.near.get("output") and id(keys.near) not in own
    )
    return {near["output"]: near.get("schema", "") for near in writing}


def _bound(context: Context) -> list[str]:
    """The names that the step around the cursor binds, such as ``item``."""
    path = context.cursor.path
    steps = [path[:end] for end in range(2, len(path)) if _takes(path[:end]) in STEPS_BELOW]
    if not steps:
        return []
    *outer, key = steps[-1]
    branches: list[list[str]] = [[]]
    if steps[-1][-2:] == ("parallel", "collect"):
        written = (*outer, "branches")
        branches += [list(keys.near) for keys in context.above if keys.path == written]
    return [*STEP_KEYS[outer[-1], key].binds, *branches[-1]]


STEP_KEYS = {(kind.name, name): key for kind in STEPS.values() for name, key in kind.keys.items()}
"""The keys of a pipeline's steps, by the kind of the step and the name of the key."""

STEPS_BELOW = ("step", "branches")
"""The kinds of values of the keys that have steps below them."""


def _takes(path: tuple[str, ...]) -> str:
    """The kind of value of a step's key; empty if the path does not end with such a key."""
    kind, key = ("", "", *path)[-2:]
    return STEP_KEYS[kind, key].takes.word if (kind, key) in STEP_KEYS else ""


SOURCES: Mapping[str, Callable[[Context], Iterable[str]]] = {
    "agent": _agents,
    "identity": lambda context: context.registry.agents,
    "tool": _tools,
    "flow": lambda context: context.registry.flows,
    "pipeline": lambda context: context.registry.flows if len(context.cursor.path) > 1 else (),
    "store": lambda context: [*_stores(context), *_bound(context), "pipe"],
    "transform": lambda context: context.registry.transforms,
    "policy": lambda context: context.registry.policies,
    "schema": _schemas,
    "argument": _arguments,
    "alias": _aliased,
    "node": lambda context: context.keys_of("nodes"),
    "state": lambda context: context.keys_of("state"),
}
"""The function that gives the names of a kind, by the words in `Names.values` and `Names.keys`."""


# --- the languages
# --------------------------------------------------------------------------------------------------


def _read(context: Context, lead: str) -> Iterable[str]:
    """The names that an expression of a pipeline can read, and its functions. A template has only
    paths."""
    stores = _stores(context)
    if not _is_template(context.cursor) and _follows_a_value(context.cursor.text):
        yield from ("and", "or")
        return
    yield from ("ctx", "pipe", *_bound(context), *stores)
    if not _is_template(context.cursor):
        yield from (f"{name}(" for name in context.functions)
        yield from ("not", "true", "false", "null")
        yield from re.findall(r"(?<!\w)(\w++)\s*+->", context.cursor.text)
    yield from (f"ctx.{name}" for name in (*stores, *context.inputs))
    for store, schema in stores.items():
        yield from (
            f"{of}{store}.{name}" for of in ("", "ctx.") for name in _fields(context, schema)
        )
    if lead:  # a path with dots must begin with a readable name
        yield from re.findall(r"(?<![\w.])[\w.]++", context.text)


def _follows_a_value(expression: str) -> bool:
    """Whether a value ends before the last word of ``expression``, so that only an operator can
    follow. Elsewhere an operator is no choice: it would only repeat the begun word of a name.

    >>> _follows_a_value("count(orders) or"), _follows_a_value("count(or"), _follows_a_value("a or n")
    (True, False, False)
    """
    before = EXPRESSION.sub("", expression).rstrip()
    return re.search(r"[\w\])}'\"]\Z", before) is not None and not _OPERATOR_WORD.search(before)


_OPERATOR_WORD = re.compile(r"(?<![\w.])(?:and|or|not)\Z")


def _fields(context: Context, schema: str) -> Iterable[str]:
    """The fields of the schema with this name, in the text or else in the registry."""
    # Inner mappings come first, so ``fields`` stands just before its schema.
    for inner, top in pairwise(context.everywhere):
        if inner.path == ("fields",) and not top.path and top.near.get("schema") == schema:
            return inner.near
    registered = context.registry.schemas.get(schema)
    return registered.fields if registered else ()


def _is_template(cursor: Cursor) -> bool:
    return _takes(cursor.path) == "template"


def _is_read(cursor: Cursor) -> bool:
    """Whether an expression is at this place, or the braces of a template."""
    if _is_template(cursor):
        return cursor.text.count("{") > cursor.text.count("}")
    is_passed = cursor.path[-2:-1] == ("pass",) and cursor.path[-1] != ELEMENT
    is_read = cursor.tag == "!expr" or is_passed or cursor.path[-2:] == ("attach", ELEMENT)
    is_read = is_read or _takes(cursor.path) == "expression"
    return cursor.part == "value" and is_read and not is_in_text(cursor.text)


def is_in_text(expression: str) -> bool:
    """Whether ``expression`` ends inside a quoted text."""
    return re.search("['\"]", re.sub(r"'[^']*'|\"[^\"]*\"", "", expression)) is not None


EXPRESSION = re.compile(r"(?<![\w.])(?P<path>(?:[^\W\d][\w.]*)?)\Z")
"""The path at the end of an expression of a pipeline."""


def _parent(context: Context) -> Iterable[str]:
    """The paths of a policy, as ``parent.input.topic`` and ``writer.output``, from the interface,
    the line and other paths in the text."""
    fields = {*context.inputs, *context.keys_of("input", "properties")}
    aliases = {
        *context.values_of("alias", "local_agents", ELEMENT),
        *context.values_of("agent", "steps", ELEMENT),
    }
    yield from (f"parent.input.{name}" for name in fields)
    yield "parent.input."
    yield from (f"{alias}.{side}." for alias in aliases for side in ("output", "input"))
    yield from re.findall(r"(?<![\w.])[A-Za-z_]\w*\.(?:input|output)(?:\.\w+)+", context.text)


def _references(context: Context) -> Iterable[str]:
    """The paths of references, without the dagger: ``input.path``."""
    yield from (f"input.{name}" for name in context.inputs)
    yield from (
        f"{kind}.{name}" for kind in ("input", "state", "data") for name in context.keys_of(kind)
    )
    yield from ("input.", "state.", "data.")
    yield from (path.strip(".") for path in re.findall(r"[†$]([A-Za-z_][\w.-]*)", context.text))


def _state(context: Context) -> Iterable[str]:
    keys = {*context.keys_of("state"), *context.inputs}
    yield from (f"state.{name}" for name in keys)
    yield from re.findall(r"(?<![\w.])state(?:\.\w+)+", context.text)


def _in_condition(cursor: Cursor) -> bool:
    return cursor.part == "value" and cursor.path[-1:] == ("condition",)


def _graph_paths(context: Context) -> Iterable[str]:
    """The paths in a graph. In a condition, keys of the state have no ``state.`` before them."""
    lead = "state." if _in_condition(context.cursor) else ""
    return [path.removeprefix(lead) for path in _state(context)]


NAMES: Mapping[str, Names] = {
    "pipeline": Names(
        values={
            "name": ("tool",),
            "tools": ("tool",),
            "identity": ("identity",),
            "pipeline": ("pipeline",),
            "schema": ("schema",),
            "pass": ("store",),
        },
        keys={"args": ("argument",)},
        alone={"args": ("!expr ",), "command": ("!expr ",)},
        paths=Paths(EXPRESSION, _read, _is_read),
        functions=FUNCTION_HELP,
    ),
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
            lambda context, lead: sorted(_parent(context)),
            lambda cursor: (
                cursor.path[-2:-1] == ("input_mapping",)
                if cursor.part == "value"
                else cursor.path[-1:] == ("args_match",)
            ),
        ),
    ),
    "plan": Names(
        values={"_tool": ("tool", "flow"), "_delegate": ("flow",), "_activity": ("tool",)},
        keys={ELEMENT: ("argument",)},
        paths=Paths(
            re.compile(r"[†$](?P<path>[\w.-]*)$"),
            lambda context, lead: sorted(_references(context)),
            lambda cursor: cursor.part == "value",
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
            "identity": ("identity",),
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
            lambda context, lead: sorted(_graph_paths(context)),
            lambda cursor: (
                cursor.part == "value"
                and (_in_condition(cursor) or cursor.text.count("{") > cursor.text.count("}"))
            ),
        ),
    ),
}
"""The tables of names, by language."""
