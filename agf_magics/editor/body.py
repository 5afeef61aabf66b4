"""The completions at a place in the body of a cell: kinds, keys, values, names and paths.

The text is incomplete, so it is not parsed: `cursor` finds the place, the JSON Schema of the
language has the keys and the values, and `names` what the text and the notebook name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ..catalog import Registry
from .cursor import ELEMENT, Reading
from .names import Context, Names, Paths, next_parts, offered
from .schema_walk import keys_at, values_at

_LAST_WORD = re.compile(r"(?<![\w.-])[\w.-]++\Z")
"""Possessive, and only from the beginning of a word: a long word costs one look at each letter."""


class Choice(NamedTuple):
    text: str
    type: str
    """Its kind in the popup: ``key``, ``tool``, ``path`` ..."""
    doc: str = ""
    """What it is for, if its table says so."""


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
    """``before`` and ``after``: the body around the cursor; ``inputs``: known names of its
    input."""
    reading = Reading(before)
    spot = reading.spot
    if spot.part == "comment":
        return Offer("")
    text = f"{without_last_word(before)} {after}"
    above, everywhere = tuple(reading.above), tuple(reading.everywhere(after))
    here = Context(spot, above, everywhere, text, tuple(inputs), registry, tuple(names.functions))
    path = parts_of_path(names.paths, here)
    if path is not None:
        return path_offer(*path)
    choices = list[Choice]()
    if spot.part == "key":
        named = {name: Choice(f"{name}: ", what) for name, what in offered(names, here).items()}
        keys = keys_at(schema, spot).items()
        named |= {name: Choice(f"{name}: ", "key", doc) for name, doc in keys}
        choices += [choice for name, choice in named.items() if name not in spot.near]
    # Until it has a key, an element of a list may be a value, too.
    if spot.part == "value" or (spot.path[-1:] == (ELEMENT,) and not spot.near):
        spot = spot._replace(part="value")
        choices += [Choice(value, "value") for value in values_at(schema, spot)]
        values = offered(names, here._replace(spot=spot)).items()
        choices += [Choice(name, what) for name, what in values]
    return matching(spot.tag + spot.text, choices)


def without_last_word(text: str) -> str:
    """``text`` without the word at its end: it is being written, so it is not yet a name that
    another place may use.

    >>> without_last_word("tool: fetch, output: gram"), without_last_word("value: ctx.gr")
    ('tool: fetch, output: ', 'value: ')
    """
    return _LAST_WORD.sub("", text)


def parts_of_path(paths: Paths, here: Context) -> tuple[str, list[str]] | None:
    """The unfinished part of the path at the cursor and its completions; None if no path is there."""
    if not paths.where(here.spot):
        return None
    return next_parts(paths.written, here.spot.text, lambda lead: paths.known(here, lead))


def path_offer(fragment: str, parts: Iterable[str]) -> Offer:
    """The next parts of a path; the name of a function ends with its bracket."""
    kinds = {True: "function", False: "path"}
    return Offer(fragment, tuple(Choice(part, kinds[part.endswith("(")]) for part in parts))


def complete_blank_line(above: str, inner: Callable[[str], Offer]) -> Offer:
    """The completions on a blank line: also elements of a list, which begin with a dash. ``inner``:
    the completions after a text that replaces ``above``."""
    keys, spot = inner(above), Reading(f"{above}- ").spot
    if keys.fragment or spot.part != "key" or spot.path[-1:] != (ELEMENT,):
        return keys
    offer = inner(f"{above}- ")
    # Not the values: most of them are of the key above, which takes no list.
    keys_of_element = [choice for choice in offer.choices if choice.text.endswith(": ")]
    elements = [choice._replace(text=f"- {choice.text}") for choice in keys_of_element]
    both = [*elements, *keys.choices] if above.strip() else [*keys.choices, *elements]
    return Offer("", tuple({choice.text: choice for choice in both}.values()))


def matching(fragment: str, choices: Iterable[Choice]) -> Offer:
    """The choices that begin with ``fragment``, each once."""
    by_text: dict[str, Choice] = {}
    for choice in choices:
        if choice.text.startswith(fragment):
            by_text.setdefault(choice.text, choice)
    return Offer(fragment, tuple(by_text.values()))
