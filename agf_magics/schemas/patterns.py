r"""Compiles and checks the regular expressions of definitions, tools' schemas and servers (decision
D5).

RE2 matches any pattern in linear time. Python's `re` backtracks and blocks the interpreter
meanwhile, so it never runs a supplied pattern. RE2 has no lookaround and no backreferences; a
pattern with them is refused when its definition is loaded. In RE2, ``\w``, ``\d`` and ``\b`` are
ASCII, as in JSON Schema, ``\pL`` is any letter, and ``$`` is the end of the text.

A browser has no RE2. There a supplied pattern is refused, and `re` matches the constant patterns of
our own schemas.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, lru_cache
from typing import Any, NamedTuple

from ..compat.browser import IN_BROWSER
from ..compat.imports import installed_only
from ..text.diagnostics import Diagnostic
from ..text.source import Span
from ..text.whole_text import whole_text
from ..text.yaml.nodes import Fields, Node, Scalar, node_at

LONGEST_PATTERN = 1_000
"""The largest number of characters of a pattern."""

MEMORY = 1 << 20
"""The largest number of bytes that RE2 may use for a pattern. A repeat such as ``(\\pL{100}){100}``
needs more and is refused."""

SYNTAX = (
    "check the text in a tool, or run this on a computer"
    if IN_BROWSER
    else "patterns are regular expressions in the syntax of RE2, without lookaround and "
    "backreferences"
)
"""The hint of each error about a pattern."""


class BadPattern(ValueError):
    """A pattern that cannot be used. ``start`` and ``end`` are the offsets of the wrong part."""

    def __init__(self, reason: str, start: int, end: int) -> None:
        super().__init__(reason)
        self.start = start
        self.end = end


@lru_cache(maxsize=128)
def searcher(pattern: str) -> Callable[[str], bool]:
    """A function that says whether ``pattern`` is found anywhere in a text. Raises BadPattern.

    >>> searcher("^(a+)+$")("a" * 1000 + "!")
    False
    """
    if len(pattern) > LONGEST_PATTERN:
        reason = f"the pattern has {len(pattern):,} characters; {LONGEST_PATTERN:,} are allowed"
        raise BadPattern(reason, LONGEST_PATTERN, len(pattern))
    try:
        with installed_only():
            import re2  # type: ignore[import-untyped]
    except ImportError as error:
        if pattern in our_patterns():
            return lambda text: our_patterns()[pattern].fullmatch(text) is not None
        reason = f"patterns need the package google-re2: {error}"
        if IN_BROWSER:
            reason = "patterns do not work in a browser, for which there is no google-re2"
        raise BadPattern(reason, 0, len(pattern)) from None
    try:
        compiled = re2.compile(pattern, _options(re2))
    except UnicodeEncodeError as error:
        raise BadPattern(
            "the pattern has half of a surrogate pair", error.start, error.end
        ) from None
    except re2.error as error:
        raise _bad_pattern(pattern, error) from None
    # RE2 would refuse a text with half of a surrogate pair.
    return lambda text: compiled.search(_encode(text)) is not None


@cache
def our_patterns() -> dict[str, re.Pattern[str]]:
    """The patterns of ``agf.schema.json``, for `re`. A test checks that their cost is linear. They
    have no ``$``, which in Python also matches before a final newline: `searcher` matches the whole
    text."""
    return {
        r"^[0-9]+\.[0-9]+\.[0-9]+$": re.compile(r"\A[0-9]+\.[0-9]+\.[0-9]+"),
        "^[a-zA-Z_][a-zA-Z0-9_]*$": re.compile(r"\A[a-zA-Z_][a-zA-Z0-9_]*"),
        "^[a-z0-9][a-z0-9_-]*$": re.compile(r"\A[a-z0-9][a-z0-9_-]*"),
        "^[a-z0-9][a-z0-9_.-]*$": re.compile(r"\A[a-z0-9][a-z0-9_.-]*"),
    }


def _options(re2: Any) -> Any:
    options = re2.Options()
    options.max_mem = MEMORY
    options.log_errors = False
    options.never_capture = True
    return options


def _encode(text: str) -> bytes:
    return whole_text(text).encode()


def _bad_pattern(pattern: str, error: Exception) -> BadPattern:
    """A BadPattern for RE2's ``error``, at the part of ``pattern`` that the error quotes."""
    raw = error.args[0] if error.args else ""
    message = raw.decode(errors="replace") if isinstance(raw, bytes) else str(raw)
    reason, _, part = message.partition(": ")
    start = pattern.find(part) if part else -1
    if start < 0:
        return BadPattern(reason, 0, len(pattern))
    if part == pattern:  # for an unclosed bracket RE2 quotes the whole pattern
        start = max(pattern.rfind("("), 0) if "missing )" in reason else 0
    return BadPattern(reason, start, start + len(part) if part != pattern else len(pattern))


class PatternFault(NamedTuple):
    """A pattern of a JSON Schema that cannot be used."""

    path: tuple[str | int, ...]
    """The path in the schema: ``("properties", "code", "pattern")``, ``("patternProperties",
    "^[a")``."""
    pattern: str
    error: BadPattern

    @property
    def is_key(self) -> bool:
        """Whether the pattern is a key of the schema (``patternProperties``), not a value."""
        return self.path[-1:] == (self.pattern,) and self.path[-2:-1] == ("patternProperties",)


# The keywords of JSON Schema that hold one schema, a list of schemas, or a mapping of schemas.
ONE = frozenset(
    {
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
MANY = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
NAMED = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties"})


def schema_patterns(schema: object) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Every pattern of a JSON Schema with its path, in the order of the schema."""
    for path, inner in subschemas(schema):
        if isinstance(pattern := inner.get("pattern"), str):
            yield (*path, "pattern"), pattern
        if isinstance(named := inner.get("patternProperties"), Mapping):
            yield from (
                ((*path, "patternProperties", key), key) for key in named if isinstance(key, str)
            )


def subschemas(schema: object) -> Iterator[tuple[tuple[str | int, ...], Mapping[str, Any]]]:
    """``schema`` and every object in it that is a schema, each with its path, in the order of the
    text."""
    waiting: list[tuple[tuple[str | int, ...], object]] = [((), schema)]
    # A stack instead of recursion, because a hostile schema may nest deeper than Python's stack.
    while waiting:
        path, inner = waiting.pop()
        if isinstance(inner, Mapping):
            yield path, inner
            waiting += reversed([*_below(path, inner)])


def _below(
    path: tuple[str | int, ...], schema: Mapping[Any, Any]
) -> Iterator[tuple[tuple[str | int, ...], object]]:
    for word, inner in schema.items():
        if word in ONE:
            yield (*path, word), inner
        elif word in MANY and isinstance(inner, list):
            yield from (((*path, word, index), part) for index, part in enumerate(inner))
        elif word in NAMED and isinstance(inner, Mapping):
            yield from (((*path, word, name), part) for name, part in inner.items())


def pattern_faults(schema: object) -> Iterator[PatternFault]:
    """The patterns of a JSON Schema that cannot be used, in the order of the schema."""
    for path, pattern in schema_patterns(schema):
        try:
            searcher(pattern)
        except BadPattern as error:
            yield PatternFault(path, pattern, error)


def fault_span(node: Node, fault: PatternFault) -> Span:
    """The place of the fault in the text of a schema. ``node``: the schema's YAML."""
    part, _ = node_at(node, fault.path[:-1] if fault.is_key else fault.path)
    if fault.is_key and isinstance(part, Fields):
        part = part.keys[fault.pattern]
    if isinstance(part, Scalar) and fault.error.start < fault.error.end <= len(part.text):
        return part.locate(fault.error.start, fault.error.end)
    return part.span


def unusable_patterns(code: str, node: Node, schema: object) -> Iterator[Diagnostic]:
    """An error with ``code`` for each unusable pattern of ``schema``. ``node``: the schema's
    YAML."""
    for fault in pattern_faults(schema):
        message = f"the pattern cannot be used: {fault.error}"
        yield Diagnostic(code, message, fault_span(node, fault), SYNTAX)


def unusable(schema: object, owner: str) -> tuple[Diagnostic, ...]:
    """The errors ``schema.pattern`` for a schema from Python. ``owner``: the words for the schema's
    owner, as ``tool 'fetch'``."""
    return tuple(
        Diagnostic(
            "schema.pattern",
            f"{owner}: the pattern {fault.pattern!r} cannot be used: {fault.error}",
            hint=SYNTAX,
        )
        for fault in pattern_faults(schema)
    )
