"""Completes the body of a cell at the cursor: kinds, keys, values, names and paths.

The text is incomplete, so it is not parsed. `cursor` finds the place in the document, the JSON
Schema of the language has the keys and values, and `names` finds the names of the text and the
notebook.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ..catalog import Registry
from ..languages.pipeline.r1.nodes import KEYWORDS
from .cursor import ELEMENT, Reading
from .names import Context, Names, Paths, next_parts, offered
from .schema_walk import keys_at, values_at

_LAST_WORD = re.compile(r"(?<![\w.-])[\w.-]++\Z")
"""Possessive, and only from the beginning of a word: a long word costs one look at each letter."""


class Choice(NamedTuple):
    text: str
    type: str
    """The kind in the popup: ``key``, ``tool``, ``path`` ..."""
    doc: str = ""
    """The purpose of the word, if its table tells it."""


class Offer(NamedTuple):
    """The completions that replace ``fragment``, the text before the cursor."""

    fragment: str
    choices: tuple[Choice, ...] = ()


def complete_body(
    before: str,
    after: str,
    inputs: Iterable[str],
    schema: Mapping[str, Any],
    names: Names,
    registry: Registry,
) -> Offer:
    """The completions at the cursor. ``before`` and ``after``: the body around it; ``inputs``:
    known names of its input."""
    reading = Reading(before)
    cursor = reading.cursor
    if cursor.part == "comment":
        return Offer("")
    text = f"{without_last_word(before)} {after}"
    above, everywhere = tuple(reading.above), tuple(reading.everywhere(after))
    context = Context(
        cursor, above, everywhere, text, tuple(inputs), registry, tuple(names.functions)
    )
    path = parts_of_path(names.paths, context)
    if path is not None:
        return path_offer(*path)
    choices = list[Choice]()
    if cursor.part == "key":
        keys = {name: Choice(f"{name}: ", kind) for name, kind in offered(names, context).items()}
        described = keys_at(schema, cursor).items()
        keys |= {name: Choice(f"{name}: ", "key", doc) for name, doc in described}
        choices += [choice for name, choice in keys.items() if name not in cursor.near]
    # Until it has a key, an element of a list may be a value, too.
    if cursor.part == "value" or (cursor.path[-1:] == (ELEMENT,) and not cursor.near):
        cursor = cursor._replace(part="value")
        choices += [Choice(value, "value") for value in values_at(schema, cursor)]
        values = offered(names, context._replace(cursor=cursor)).items()
        choices += [Choice(name, kind) for name, kind in values]
    return matching(cursor.tag + cursor.text, choices)


def without_last_word(text: str) -> str:
    """``text`` without the word at its end: it is being written, so it is not yet a name that
    another place may use.

    >>> without_last_word("tool: fetch, output: gram"), without_last_word("value: ctx.gr")
    ('tool: fetch, output: ', 'value: ')
    """
    return _LAST_WORD.sub("", text)


def parts_of_path(paths: Paths, context: Context) -> tuple[str, list[str]] | None:
    """The unfinished part of the path at the cursor and its completions; None if no path is there."""
    if not paths.where(context.cursor):
        return None
    return next_parts(paths.written, context.cursor.text, lambda lead: paths.known(context, lead))


def path_offer(fragment: str, parts: Iterable[str]) -> Offer:
    """The next parts of a path; the name of a function ends with its bracket."""
    return Offer(fragment, tuple(Choice(part, _kind_of_part(part)) for part in parts))


def _kind_of_part(part: str) -> str:
    if part in KEYWORDS:
        return "keyword"
    return "function" if part.endswith("(") else "path"


def complete_blank_line(above: str, inner: Callable[[str], Offer]) -> Offer:
    """The completions on a blank line: also elements of a list, which begin with a dash. ``inner``:
    the completions after a text that replaces ``above``."""
    keys = inner(above)
    cursor = Reading(f"{above}- ").cursor
    if keys.fragment or cursor.part != "key" or cursor.path[-1:] != (ELEMENT,):
        return keys
    offer = inner(f"{above}- ")
    # Values are left out: most of them belong to the key above, which accepts no list.
    keys_of_element = [choice for choice in offer.choices if choice.text.endswith(": ")]
    elements = [choice._replace(text=f"- {choice.text}") for choice in keys_of_element]
    choices = [*elements, *keys.choices] if above.strip() else [*keys.choices, *elements]
    return Offer("", tuple({choice.text: choice for choice in choices}.values()))


def matching(fragment: str, choices: Iterable[Choice]) -> Offer:
    """The choices that begin with ``fragment``, each once."""
    by_text: dict[str, Choice] = {}
    for choice in choices:
        if choice.text.startswith(fragment):
            by_text.setdefault(choice.text, choice)
    return Offer(fragment, tuple(by_text.values()))
