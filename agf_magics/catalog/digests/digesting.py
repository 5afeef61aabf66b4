"""The digests of functions and of values, or why one has none.

A function that names objects that calls may change has a digest of its code and one of each object:
the objects can be looked at again later. The other files of this folder say which parts count.
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
from .places import MISSING, Place, Places

_encode = json.JSONEncoder(separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class FunctionDigest:
    """The digest of a function."""

    code: str
    """Of all that counts in any case: code, classes, modules, and values that cannot change."""
    states: Mapping[str, str]
    """Those of the objects that it names, by the keys of their places."""
    parts: Mapping[str, str] = field(compare=False)
    """The digests of its code and of what it names, by name: they tell what differs between two
    versions of it."""
    places: Places = field(compare=False)
    most: int | None = field(compare=False)

    def state(self, place: Place) -> str | None:
        """The digest of the object that is at ``place`` now; None if it has none."""
        try:
            return _state(place, self.places, self.most)
        except Exception:  # NoDigest, any error of a user's class
            return None


def digest_function(function: Callable[..., Any], most: int | None = None) -> FunctionDigest | None:
    """The digest of ``function``; None if it has none, or if an object that it names holds more
    than ``most`` bytes."""
    try:
        return _digest_function(function, most)
    except Exception:  # NoDigest, a nesting that is too deep, any error of a user's class
        return None


def why_no_digest(function: Callable[..., Any], most: int | None = None) -> str:
    """Which object of ``function`` cannot be compared; empty if it is not known."""
    return _why(lambda: _digest_function(function, most))


def why_no_value_digest(value: Any, most: int | None = None) -> str:
    """Which part of ``value`` cannot be compared; empty if it is not known."""
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
    else:  # an instance whose class can be called
        digest.add_place(Place("its object", "its object", function, "", lambda: function))
    states = _states(places, most)
    # Only now all names are known that the functions bind to another value.
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
    """The states of all objects, also of those that are found on the way, without those of
    ``before``."""
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
        return hashlib.sha256(text).hexdigest()
    digest = Digest(most, places, is_state=True)
    with digest.part(place.name):
        if value is not MISSING:
            digest.add_value(value)
    return digest.hash.hexdigest()


def digest_value(value: Any, most: int | None = None) -> str | None:
    """The digest of ``value``; None if it has none, or if it holds more than ``most`` bytes. Equal
    digests mean equal values."""
    if (text := _as_json(value)) is not None:  # nearly always
        return hashlib.sha256(text).hexdigest()
    digest = _digest(value, most)
    return digest.hash.hexdigest() if digest is not None else None


def _as_json(value: Any) -> bytes | None:
    with suppress(ValueError, RecursionError):  # a number of 5,000 digits
        if is_json(value) and can_write(value, MOST_JSON):
            return b"json " + _encode(value).encode()
    return None


def _digest(thing: Any, most: int | None = None) -> Digest | None:
    digest = Digest(most)
    try:
        digest.add_value(thing)
    except Exception:  # NoDigest, a nesting that is too deep, any error of a user's class
        return None
    return digest
