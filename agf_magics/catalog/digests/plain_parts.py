"""Adds lists, dicts, sets, bytes that may change and members of enums to a digest."""

from __future__ import annotations

import enum
from typing import Any

from .digest import Digest, NoDigest, add_parts
from .digesting import digest_value
from .origins import has_plain_state, is_ours

_OF_EVERY_MEMBER = frozenset({"_name_", "__objclass__", "_sort_order_"})


@add_parts.register(list)
@add_parts.register(tuple)
def _add_list(things: Any, digest: Digest) -> None:
    kind = type(things)
    if kind not in (list, tuple):
        if not is_ours(kind.__module__) or not issubclass(kind, tuple) or not has_plain_state(kind):
            raise NoDigest
        digest.add_value(kind)  # a named tuple
        digest.add_value(getattr(things, "__dict__", None))
    digest.add_all(kind.__name__, tuple.__iter__(things) if isinstance(things, tuple) else things)


@add_parts.register
def _add_dict(things: dict, digest: Digest) -> None:  # type: ignore[type-arg]  # a class is registered
    if type(things) is not dict:
        raise NoDigest
    digest.add("dict", str(len(things)))
    for key, value in things.items():  # in order, because a function may depend on it
        digest.add_value(key)
        digest.add_value(value)


@add_parts.register(set)
@add_parts.register(frozenset)
def _add_set(things: Any, digest: Digest) -> None:
    digests = [digest_value(thing) for thing in things]
    if type(things) not in (set, frozenset) or None in digests:
        raise NoDigest
    digest.add_all(type(things).__name__, sorted(map(str, digests)))


@add_parts.register
def _add_bytes(data: bytearray, digest: Digest) -> None:
    if type(data) is not bytearray:
        raise NoDigest
    digest.add("bytearray", bytes(data))


@add_parts.register
def _add_member(member: enum.Enum, digest: Digest) -> None:
    digest.add_value(type(member))
    digest.add("member", str(member._name_))
    digest.add_value(
        {name: value for name, value in vars(member).items() if name not in _OF_EVERY_MEMBER}
    )
