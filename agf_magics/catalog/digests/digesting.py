"""Computes the digests of functions and values, and explains why an object has no digest.

The digest of a function has a digest of its code, and one for each named object that calls may
change, so that these objects can be compared again later. The other files of this folder define the
parts.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from ...text.length import can_write
from ...values.value import is_json
from .digest import CODE, MOST_JSON, Digest, NoDigest
from .functions import add_named_in_texts
from .places import MISSING, Place, Places

_encode = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class FunctionDigest:
    """The digest of a function."""

    code: str
    """The digest of everything that cannot change during a run: code, classes, modules,
    constants."""
    states: Mapping[str, str]
    """The digests of the named objects that calls may change, by the keys of their places."""
    parts: Mapping[str, str] = field(compare=False)
    """The digests of the code and of each named thing, by name, which tell the difference between
    two versions of the function."""
    places: Places = field(compare=False)
    most: int | None = field(compare=False)
    """The largest number of bytes of a named object; None: no limit."""

    def state(self, place: Place) -> str | None:
        """The digest of the object that is at ``place`` now; None if the object has no digest."""
        try:
            return _state(place, self.places, self.most)
        except Exception:  # NoDigest, or any error of a user's class
            return None


def digest_function(function: Callable[..., Any], most: int | None = None) -> FunctionDigest | None:
    """The digest of ``function``; None if it has no digest, or if an object that it names holds
    more than ``most`` bytes."""
    try:
        return _digest_function(function, most)
    except Exception:  # NoDigest, a nesting that is too deep, any error of a user's class
        return None


def why_no_digest(function: Callable[..., Any], most: int | None = None) -> str:
    """The object of ``function`` that cannot be compared, in words; empty if it is unknown."""
    return _why(lambda: _digest_function(function, most))


def why_no_value_digest(value: Any, most: int | None = None) -> str:
    """The part of ``value`` that cannot be compared, in words; empty if it is unknown."""
    return _why(lambda: Digest(most).add_value(value))


def _why(digest: Callable[[], object]) -> str:
    try:
        digest()
    except NoDigest as error:
        return str(error)
    except Exception:  # any error of a user's class
        return ""
    return ""


def _digest_function(function: Callable[..., Any], most: int | None) -> FunctionDigest:
    places = Places()
    digest = Digest(most, places)
    if isinstance(function, CODE):
        digest.add_value(function)
    else:  # an instance with `__call__`
        digest.add_place(Place("its object", "its object", function, "", lambda: function))
    states = _states(places, most)
    while add_named_in_texts(digest):  # a text, or a function, may name further ones
        states.update(_states(places, most, states))
    # Only now are all names known that the functions bind to another value.
    for place, value in places.constants:
        if place.slot in places.bound:
            places.add_object(place)
            continue
        places.bindings.append((place, value))
        with digest.part(place.name):
            digest.add("constant", place.key)
            digest.add_value(value)
    parts = dict(digest.digests_by_name)
    states.update(_states(places, most, states))
    for key, state in states.items():
        name = places.objects[key].name
        parts[name] = hashlib.sha256(f"{parts.get(name)} {state}".encode()).hexdigest()[:16]
    return FunctionDigest(digest.hash.hexdigest(), states, parts, places, most)


def _states(places: Places, most: int | None, before: Mapping[str, str] = {}) -> dict[str, str]:
    """The digests of all objects that calls may change, those that appear on the way included,
    except those in ``before``."""
    states = dict[str, str]()
    while len(states) + len(before) < len(places.objects):
        for key, place in list(places.objects.items()):
            if key not in states and key not in before:
                states[key] = _state(place, places, most)
    return states


def _state(place: Place, places: Places, most: int | None) -> str:
    """The digest of the object that is at ``place`` now. Raises NoDigest."""
    value = place.look()
    if value is not MISSING and (text := _as_json(value)) is not None:  # nearly always
        if most is not None and len(text) > most:
            raise NoDigest(f"more than {most:,} bytes")
        return hashlib.sha256(text + _sharing(value)).hexdigest()
    digest = Digest(most, places, is_state=True)
    with digest.part(place.name):
        if value is not MISSING:
            digest.add_value(value)
    return digest.hash.hexdigest()


def digest_value(value: Any, most: int | None = None) -> str | None:
    """The digest of ``value``; None if it has no digest or holds more than ``most`` bytes. Equal
    digests mean equal values."""
    if (text := _as_json(value)) is not None:  # nearly always
        return hashlib.sha256(text).hexdigest()
    digest = _digest(value, most)
    return digest.hash.hexdigest() if digest is not None else None


def _as_json(value: Any) -> bytes | None:
    with suppress(ValueError, RecursionError):  # Python writes no number of 5,000 digits
        if is_json(value) and can_write(value, MOST_JSON):
            return b"json " + _encode(value).encode()
    return None


def _sharing(value: Any) -> bytes:
    """The lists and dicts of JSON that are in several places, by their numbers; empty if each is in
    one place."""
    numbers: dict[int, int] = {}
    again = list[str]()
    waiting = [value]
    while waiting:
        part = waiting.pop()
        if type(part) in (list, dict):
            if id(part) in numbers:
                again.append(f" {numbers[id(part)]} {len(waiting)} {len(numbers)}")
                continue
            numbers[id(part)] = len(numbers)
            waiting += part if type(part) is list else part.values()
    return "".join(again).encode()


def _digest(thing: Any, most: int | None = None) -> Digest | None:
    digest = Digest(most)
    try:
        digest.add_value(thing)
    except Exception:  # NoDigest, a nesting that is too deep, any error of a user's class
        return None
    return digest
