"""Makes small values that conform to a JSON Schema, as results of tools and agents in a dry run."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any
from urllib.parse import unquote

from ..values.value import Value
from .json_schema import judge
from .keywords import exact
from .pattern_text import text_of_pattern


def sample(schema: Mapping[str, Any] | bool) -> Value:
    """A small value that conforms to ``schema``, optional properties included.

    >>> sample({"type": "object", "properties": {"passed": {"type": "boolean"}, "notes": {"type": "string"}}})
    {'passed': True, 'notes': 'text'}
    """
    return _Sampling(schema).value(schema, ())


class _Sampling:
    """Makes one sample of the schema ``root``."""

    def __init__(self, root: Mapping[str, Any] | bool) -> None:
        self.root = root

    def value(self, schema: Any, within: tuple[str, ...]) -> Value:
        """A value for ``schema``. ``within``: the refs that contain ``schema``, so that a recursion
        ends."""
        if schema is True:  # the same as {}
            return "text"
        if not isinstance(schema, Mapping):
            return None
        if "const" in schema:
            return schema["const"]
        if "default" in schema:
            return schema["default"]
        if any(word in schema for word in _CHECKED):
            return next(self.variants(schema, within))
        for word in ("enum", "examples"):
            if schema.get(word):
                return schema[word][0]
        if isinstance(schema.get("$ref"), str):
            ref = schema["$ref"]
            if ref in within:  # the value of a recursive schema ends here
                return None
            target = resolve_pointer(self.root, ref)
            if target is None:
                return None
            return self.value(_merged([target, _without(schema, "$ref")]), (*within, ref))
        for word in ("anyOf", "oneOf"):
            if schema.get(word):
                choice = self.choice(schema[word], within)
                if choice is None:
                    return None
                return self.value(_merged([_without(schema, word), choice]), within)
        if schema.get("allOf"):
            return self.value(_merged([*schema["allOf"], _without(schema, "allOf")]), within)
        return self.typed(schema, within)

    def variants(self, schema: Any, within: tuple[str, ...]) -> Iterator[Value]:
        """Different values for ``schema``; the plain sample if none conforms."""
        bare = schema
        if isinstance(schema, Mapping):
            bare = {word: value for word, value in schema.items() if word not in _CHECKED}
        plain = self.value(bare, within)
        differences = judge(schema, self.root)
        fitting = [value for value in _near(plain, schema) if not differences(value)]
        yield from fitting or [plain]

    def choice(self, choices: Any, within: tuple[str, ...]) -> Any:
        """The first alternative that is neither null nor one of ``within``; None: there is none."""
        for choice in choices:
            is_null = isinstance(choice, Mapping) and choice.get("type") == "null"
            if not is_null and not self.is_recursive(choice, within):
                return choice
        return None

    def typed(self, schema: Mapping[str, Any], within: tuple[str, ...]) -> Value:
        """A value of the type of ``schema``."""
        kind = schema.get("type")
        if isinstance(kind, list):
            kind = next((k for k in kind if k != "null"), "null")
        if kind is None:
            kind = "array" if "items" in schema else "string"
            if "properties" in schema:
                kind = "object"
        of_kind: Mapping[str, Callable[[], Value]] = {
            "object": lambda: self.object(schema, within),
            "array": lambda: self.array(schema, within),
            "string": lambda: _text(schema),
            "number": lambda: _number(schema, False),
            "integer": lambda: _number(schema, True),
            "boolean": lambda: True,
        }
        return of_kind[kind]() if kind in of_kind else None

    def object(self, schema: Mapping[str, Any], within: tuple[str, ...]) -> Value:
        """An object with all properties of ``schema`` that are required or not recursive."""
        required = schema.get("required", ())
        properties = schema.get("properties", {})
        values = {
            name: self.value(schema_of_field, within)
            for name, schema_of_field in properties.items()
            if name in required
            or not (schema_of_field is False or self.is_recursive(schema_of_field, within))
        }
        return {**values, **{name: "text" for name in required if name not in properties}}

    def array(self, schema: Mapping[str, Any], within: tuple[str, ...]) -> Value:
        """A list with one element, or with the smallest number that ``schema`` allows."""
        first = [self.value(item, within) for item in schema.get("prefixItems", ())]
        if "contains" in schema:
            first.append(self.value(schema["contains"], within))
        items = schema.get("items", {})
        least = int(schema.get("minItems", 0))  # 2.0 is a whole number, too
        may_have_one = schema.get("maxItems") != 0 and not self.is_recursive(items, within)
        if not first and not least and may_have_one:
            least = 1
        if schema.get("uniqueItems") is True and least - len(first) > 1:
            others = [value for value in self.variants(items, within) if value not in first]
            if len(others) >= least - len(first):
                return first + others[: least - len(first)]
        return first + [self.value(items, within) for _ in range(least - len(first))]

    def is_recursive(self, schema: Any, within: tuple[str, ...]) -> bool:
        """Whether ``schema`` refers to a schema that contains it."""
        return isinstance(schema, Mapping) and schema.get("$ref") in within


_CHECKED = ("not", "pattern")
"""The keywords for which values are tried."""
_MOST_TRIED = 20
"""The most values of a type that are tried."""


def _near(plain: Value, schema: Any) -> Iterator[Value]:
    """Values that may conform to ``schema``, no two of them equal in JSON, beginning with ``plain``."""
    rules = schema if isinstance(schema, Mapping) else {}
    yield plain
    if isinstance(rules.get("enum"), list):
        yield from (value for value in rules["enum"] if value != plain)
        return
    if isinstance(rules.get("pattern"), str):
        least = int(rules.get("minLength", 0))
        guesses = (text_of_pattern(rules["pattern"], more) for more in (0, 1, 3, least))
        yield from (guess for guess in dict.fromkeys(guesses) if guess not in (None, plain))
    if isinstance(plain, bool):
        yield not plain
    elif isinstance(plain, str):
        yield from (f"{plain[: -len(str(k)) or None]}{k}" for k in range(2, _MOST_TRIED))
        yield from (f"{plain} {k}" for k in range(2, _MOST_TRIED))
    elif isinstance(plain, int | float):
        step = rules.get("multipleOf") or 1
        yield from (plain + sign * k * step for k in range(1, _MOST_TRIED) for sign in (1, -1))
    elif isinstance(plain, dict):
        properties = rules.get("properties", {})
        for name, value in plain.items():
            others = islice(_near(value, properties.get(name)), 1, _MOST_TRIED)
            yield from ({**plain, name: other} for other in others)
    if "type" not in rules:
        yield from (1, True, None, [], {})


def resolve_pointer(root: Any, ref: str) -> Any:
    """The part of the schema ``root`` to which ``ref`` points, by its place (``#/$defs/a``), its
    ``$anchor`` (``#a``) or its ``$id``; None: there is none.

    >>> resolve_pointer({"$defs": {"a/b": {"type": "null"}}}, "#/$defs/a~1b")
    {'type': 'null'}
    >>> resolve_pointer({"prefixItems": [{"$anchor": "a"}]}, "#a")
    {'$anchor': 'a'}
    """
    address, _, place = ref.partition("#")
    target = _named_part(root, "$id", address) if address else root
    if place and not place.startswith("/"):
        return _named_part(target, "$anchor", unquote(place))
    for part in place.split("/")[1:]:
        name = unquote(part).replace("~1", "/").replace("~0", "~")
        if isinstance(target, list) and name.isdecimal() and int(name) < len(target):
            target = target[int(name)]
        else:
            target = target.get(name) if isinstance(target, Mapping) else None
    return target


def _named_part(schema: Any, keyword: str, name: str) -> Any:
    """The first part of ``schema`` whose ``keyword`` is ``name``; None: there is none."""
    parts = [schema]
    while parts:
        part = parts.pop()
        if isinstance(part, Mapping):
            if part.get(keyword) == name:
                return part
            parts += part.values()
        elif isinstance(part, list):
            parts += part
    return None


def _without(schema: Mapping[str, Any], word: str) -> dict[str, Any]:
    return {key: value for key, value in schema.items() if key != word}


_BOTH: Mapping[str, Callable[[Any, Any], Any]] = {
    "required": lambda first, other: [*dict.fromkeys((*first, *other))],
    "properties": lambda first, other: _each(first, other),
    "items": lambda first, other: {"allOf": [first, other]},
    "allOf": lambda first, other: [*first, *other],
    "type": lambda first, other: _common_types(first, other),
    **dict.fromkeys(("minimum", "exclusiveMinimum", "minLength", "minItems"), max),
    **dict.fromkeys(("maximum", "exclusiveMaximum", "maxLength", "maxItems"), min),
}
"""What satisfies two schemas with the same keyword; of other keywords the last one counts."""


def _merged(schemas: Sequence[Any]) -> Mapping[str, Any]:
    """One schema that stands for all of ``schemas``."""
    merged: dict[str, Any] = {}
    for schema in schemas:
        for word, value in schema.items() if isinstance(schema, Mapping) else ():
            if word not in merged:
                merged[word] = value
            elif word in ("$ref", "anyOf", "oneOf"):
                merged["allOf"] = [*merged.get("allOf", ()), {word: value}]
            else:
                merged[word] = _BOTH.get(word, lambda _, other: other)(merged[word], value)
    return merged


def _each(first: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    both = {name: {"allOf": [first[name], other[name]]} for name in first if name in other}
    return {**first, **other, **both}


def _common_types(first: Any, other: Any) -> Any:
    """The types that both allow, if there are any; an integer is a number."""
    lists = [[kinds] if isinstance(kinds, str) else list(kinds) for kinds in (first, other)]
    common = [kind for kind in lists[0] if kind in lists[1]]
    are_numbers = (
        not common and "integer" in lists[0] + lists[1] and "number" in lists[0] + lists[1]
    )
    return common or ("integer" if are_numbers else other)


FORMATS: Mapping[str, str] = {
    "date": "2024-01-31",
    "time": "12:30:00Z",
    "date-time": "2024-01-31T12:30:00Z",
    "duration": "PT1H",
    "email": "ada@example.org",
    "hostname": "example.org",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.org/",
    "uuid": "00000000-0000-4000-8000-000000000000",
}
"""A text of each format."""


def _text(schema: Mapping[str, Any]) -> str:
    text = FORMATS.get(schema.get("format", ""), "text")
    least = int(schema.get("minLength", 0))
    longer = text * (least // len(text) + 1)
    size = max(least, len(text))
    return longer[: min(size, int(schema.get("maxLength", size)))]


_BOUNDS: Mapping[str, Callable[[float, float], bool]] = {
    "multipleOf": lambda number, step: not exact(number) % exact(step),
    "minimum": operator.ge,
    "maximum": operator.le,
    "exclusiveMinimum": operator.gt,
    "exclusiveMaximum": operator.lt,
}
"""The tests of a number by these keywords, as ``test(number, bound)``."""


def _number(schema: Mapping[str, Any], whole: bool) -> int | float:
    """1 if it is within the bounds, else the first number next to a bound that satisfies all of
    them."""
    bounds = {word: schema[word] for word in _BOUNDS if schema.get(word) is not None}
    if bounds.get("multipleOf") == 0:
        del bounds["multipleOf"]
    step = bounds.get("multipleOf")
    above = bounds.get("exclusiveMinimum", 0)
    below = bounds.get("exclusiveMaximum", 0)
    near: list[int | float] = [1, *bounds.values(), 0]
    for bound in bounds.values():
        near += [math.floor(bound), math.floor(bound) + 1, math.ceil(bound) - 1]
    near.append((above + below) / 2)
    near += [step * math.ceil(bound / step) for bound in bounds.values()] if step else []

    def fits(number: int | float) -> bool:
        if whole and number % 1:
            return False
        return all(_BOUNDS[word](number, bound) for word, bound in bounds.items())

    return next(filter(fits, near), 1)
