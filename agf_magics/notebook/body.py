"""The completions at a place in the YAML of a cell: kinds, keys, names and paths, from the tables
of its language.

The text is incomplete, so it is not parsed: `cursor` finds the place, and `Words`, the table of the
loader, has the keys.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any, NamedTuple

from ..catalog import Registry
from ..languages.documents import Key, Kind, Words
from .cursor import ELEMENT, Cursor, Reading
from .names import Context, Names, keys_at, next_parts, offered, values_at


class Choice(NamedTuple):
    text: str
    type: str
    """Its kind in the popup: ``step``, ``key``, ``tool``, ``store`` ..."""
    doc: str = ""
    """What it is for, if its table says so."""


class Offer(NamedTuple):
    """The completions that replace ``fragment``, the text before the cursor."""

    fragment: str
    choices: tuple[Choice, ...] = ()


class Place(NamedTuple):
    """The meaning of a place: ``takes`` is the word of a `Takes`, or one of ours for a part of
    those."""

    takes: str
    kind: Kind | None = None
    """The mapping the last key belongs to."""
    key: str = ""
    binds: tuple[str, ...] = ()
    """The names of an expression in addition to ctx and pipe."""


Look = Callable[[str], Iterable[Choice]]
"""The names that can follow a dotted path, or start one if it is empty."""

NAMED_BY = {"name": "tool", "pipeline": "flow", "schema": "schema", "identity": "agent"}
"""The keys of a step whose value is a registered name."""

TYPE_KEYS = {
    "list": ("of",),
    "enum": ("values",),
    "object": ("fields",),
    "ref": ("schema",),
    "number": ("minimum", "maximum"),
}

INSIDE = {
    "steps": {ELEMENT: "step"},
    "tools": {"tools": "tool list"},
    "tool list": {ELEMENT: "tool"},
    "type": {"type": "type name", "of": "type", "fields": "fields", "schema": "schema"},
}
"""The meaning of a part of a path; of any other part, `ANYWHERE`."""

ANYWHERE = {
    "branches": "step",
    "cases": "target",
    "arguments": "argument",
    "fields": "type",
    "pass": "expression",
}


def complete_document(
    before: str, after: str, inputs: Iterable[str], words: Words, registry: Registry
) -> Offer:
    """``before`` and ``after``: the body around the cursor; ``inputs``: known names of its
    input."""
    reading = Reading(before)
    spot = reading.spot
    place = _place(spot, words)
    if place is None or spot.part == "comment":
        return Offer("")
    if spot.part == "key" and place.takes not in ("store", "tool"):
        return _matching(spot.text, _keys(place, spot, words, registry))
    look = Seen(before, after, reading, place, tuple(inputs), words, registry)
    match place.takes:
        case "expression":
            return expression(spot.text, look)
        case "template":
            opened = spot.text.rpartition("{")[2]
            is_open = "{" in spot.text and "}" not in opened
            return expression(opened, look, is_template=True) if is_open else Offer("")
        case "argument" | "command" if spot.tag == "!expr":
            return expression(spot.text, look)
        case "argument" | "command":
            return _matching(spot.tag + spot.text, [Choice("!expr ", "tag")])
        case "store":
            return _matching(spot.text, [*look.stores, *look.bound, Choice("pipe", "name")])
        case "on_error":
            return _matching(
                spot.text, [Choice(text, "policy") for text in ("abort", "continue", "retry(2)")]
            )
        case "type name":
            return _matching(spot.text, [Choice(name, "type") for name in words.field_types])
    what = (
        NAMED_BY.get(place.key) if place.kind and place.kind.name not in words.documents else None
    )
    return _matching(
        spot.text, look.registered({"tool": "tool", "schema": "schema"}.get(place.takes) or what)
    )


def complete_by_schema(
    before: str,
    after: str,
    inputs: Iterable[str],
    schema: Mapping[str, Any],
    names: Names,
    registry: Registry,
) -> Offer:
    """The same for a language with a JSON Schema and a table of names."""
    reading = Reading(before)
    spot = reading.spot
    if spot.part == "comment":
        return Offer("")
    text = before[: len(before) - len(spot.text)] + " " + after
    here = Context(spot, tuple(reading.everywhere(after)), text, tuple(inputs), registry)
    path = next_parts(names.paths, here)
    if path is not None and path[1]:
        return Offer(path[0], tuple(Choice(part, "path") for part in path[1]))
    named = [Choice(name, what) for name, what in offered(names, here).items()]
    if spot.part == "value":
        return _matching(
            spot.text, [*(Choice(value, "value") for value in values_at(schema, spot)), *named]
        )
    near = spot.around[0] if spot.around else {}
    keys = {name: Choice(f"{name}: ", "key", doc) for name, doc in keys_at(schema, spot).items()}
    keys = {**{choice.text: choice._replace(text=f"{choice.text}: ") for choice in named}, **keys}
    return _matching(spot.text, [choice for name, choice in keys.items() if name not in near])


def expression(text: str, look: Look, is_template: bool = False) -> Offer:
    """The completions at the end of the expression ``text``."""
    path = re.search(r"(?<![\w.])[\w.]*+$", text)
    assert path is not None, "it matches the empty text"
    base, _, fragment = path[0].rpartition(".")
    if _in_text(text) or (path[0] and path[0][0].isdigit()):
        return Offer("")
    found = list(look(base))
    if is_template:
        found = [choice for choice in found if choice.type not in ("function", "keyword")]
    elif not base:
        found += [Choice(name, "name") for name in re.findall(r"(?<!\w)(\w++)\s*+->", text)]
    return _matching(fragment, found)


class Seen:
    """The names that an expression at this place can read."""

    def __init__(
        self,
        before: str,
        after: str,
        reading: Reading,
        place: Place,
        inputs: tuple[str, ...],
        words: Words,
        registry: Registry,
    ) -> None:
        fragment = re.search(r"(?<!\w)\w*+$", before)
        self.text = before[: fragment.start() if fragment else None] + after
        self.inputs, self.words, self.registry = inputs, words, registry
        spot, above, everywhere = reading.spot, reading.above, reading.everywhere(after)
        self.bound = [Choice(name, "name") for name in place.binds]
        self.outputs = {
            m.near["output"]: m.near.get("schema", "") for m in above if m.near.get("output")
        }
        self.fields = {
            top.near["schema"]: list(inner.near)
            for inner, top in pairwise(everywhere)
            if inner.path == ("fields",) and not top.path and "schema" in top.near
        }
        # A for_each has a `collect` too, but no branches.
        parallel = spot.path[: _last(spot.path, "parallel") + 1]
        is_collect = parallel and spot.path[len(parallel) : len(parallel) + 1] == ("collect",)
        branches = [list(m.near) for m in above if is_collect and m.path == (*parallel, "branches")]
        self.bound += [Choice(name, "branch") for name in (branches[-1] if branches else ())]

    @property
    def stores(self) -> list[Choice]:
        return [Choice(name, "store") for name in self.outputs]

    def __call__(self, path: str) -> Iterable[Choice]:
        if not path:
            yield from (Choice("ctx", "name"), Choice("pipe", "name"), *self.bound, *self.stores)
            yield from (Choice(f"{name}(", "function") for name in self.words.functions)
            yield from (
                Choice(word, "keyword") for word in ("and", "or", "not", "true", "false", "null")
            )
            return
        if path == "ctx":
            yield from self.stores
            yield from (Choice(name, "input") for name in self.inputs)
        schema = self.outputs.get(path.removeprefix("ctx."))
        if schema:
            registered = self.registry.schemas.get(schema)
            names = self.fields.get(schema) or (list(registered.fields) if registered else [])
            yield from (Choice(name, "field") for name in names)
        for found in re.finditer(r"(?<![\w.])[\w.]++", self.text):
            if found[0].startswith(f"{path}.") and (
                name := found[0][len(path) + 1 :].partition(".")[0]
            ):
                yield Choice(name, "name")

    def registered(self, what: str | None) -> list[Choice]:
        shelves: Mapping[str, Iterable[str]] = {
            "tool": self.registry.tools,
            "flow": self.registry.flows,
            "agent": self.registry.agents,
            "schema": [*self.registry.schemas, *self.fields],
        }
        return [Choice(name, what) for name in shelves[what]] if what else []


def _place(spot: Cursor, words: Words) -> Place | None:
    """Follow the path from the document down; None if a part is unknown."""
    takes, key = "document", ""
    kind: Kind | None = None
    binds: tuple[str, ...] = ()
    for part in spot.path:
        if takes in ("document", "keys"):
            found = (
                _document(spot, words) if takes == "document" else kind.keys if kind else {}
            ).get(part)
            if found is None:
                return None
            kind = _owner(part, words) if takes == "document" else kind
            takes, key = found.takes.word, part
            binds = found.binds if takes == "step" else binds
        elif takes == "step":
            kind, takes = words.steps.get(part), "keys"
        elif takes == "pass" and part == ELEMENT:
            takes = "store"
        else:
            takes = INSIDE.get(takes, {}).get(part) or ANYWHERE.get(takes, "")
            binds = () if takes == "step" else binds
        if takes == "target":
            kind, takes = words.target, "keys"
        if not takes:
            return None
    return Place(takes, kind, key, binds)


def _keys(place: Place, spot: Cursor, words: Words, registry: Registry) -> list[Choice]:
    near = spot.around[0] if spot.around else {}
    match place.takes:
        case "document":
            names: Mapping[str, str] = {
                name: key.doc for name, key in _document(spot, words).items()
            }
        case "steps":
            return [Choice(f"- {kind.name}: ", "step", kind.doc) for kind in words.steps.values()]
        case "step":
            return (
                [Choice(f"{kind.name}: ", "step", kind.doc) for kind in words.steps.values()]
                if not near
                else []
            )
        case "keys":
            names = {name: key.doc for name, key in place.kind.keys.items()} if place.kind else {}
        case "arguments":
            # The name of the tool is in the mapping around the arguments.
            tool = registry.tools.get(
                next((outer["name"] for outer in spot.around if "name" in outer), "")
            )
            taken = tool.accepts.get("properties", {}) if tool else {}
            names = {name: str(schema.get("description", "")) for name, schema in taken.items()}
        case "tools":
            names = {"tools": ""}
        case "type":
            names = dict.fromkeys(
                ("type", "required", *TYPE_KEYS.get(near.get("type", ""), ())), ""
            )
        case _:
            names = {}
    return [Choice(f"{name}: ", "key", doc) for name, doc in names.items() if name not in near]


def _document(spot: Cursor, words: Words) -> dict[str, Key]:
    """The keys of a document: of its kind, or of all kinds if it is not known yet."""
    has = spot.around[-1] if spot.around else {}
    kinds = [kind for kind in words.documents.values() if any(key in kind.keys for key in has)]
    return {
        name: key for kind in kinds or words.documents.values() for name, key in kind.keys.items()
    }


def _owner(key: str, words: Words) -> Kind:
    return next(kind for kind in words.documents.values() if key in kind.keys)


def complete_blank_line(above: str, inner: Callable[[str], Offer]) -> Offer:
    """The completions on a blank line: also elements of a list, which begin with a dash. ``inner``:
    the completions after a text that replaces ``above``."""
    keys, spot = inner(above), Reading(f"{above}- ").spot
    if keys.fragment or spot.part != "key" or spot.path[-1:] != (ELEMENT,):
        return keys
    elements = [choice._replace(text=f"- {choice.text}") for choice in inner(f"{above}- ").choices]
    both = [*elements, *keys.choices] if above.strip() else [*keys.choices, *elements]
    return Offer("", tuple({choice.text: choice for choice in both}.values()))


def _matching(fragment: str, choices: Iterable[Choice]) -> Offer:
    known = {choice.text: choice for choice in reversed(list(choices))}
    return Offer(
        fragment, tuple(c for c in reversed(known.values()) if c.text.startswith(fragment))
    )


def _last(path: tuple[str, ...], part: str) -> int:
    """The index of the last ``part``; -1 if there is none."""
    return max((index for index, found in enumerate(path) if found == part), default=-1)


def _in_text(text: str) -> bool:
    """Whether ``text`` ends inside a string of the expression."""
    quote = ""
    for char in text:
        if char == quote:
            quote = ""
        elif not quote and char in "'\"":
            quote = char
    return bool(quote)
