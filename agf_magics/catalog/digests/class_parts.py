"""Adds classes to a digest: their attributes, properties, slots, dataclass fields and generic
types.
"""

from __future__ import annotations

import dataclasses
import types
from typing import Any

from .digest import Digest, NoDigest, add_generic, add_parts, is_constant
from .functions import add_installed
from .origins import is_found
from .places import Place, in_names

_OF_EVERY_CLASS = frozenset(
    {
        "__dict__",
        "__weakref__",
        "__module__",
        "__doc__",
        "__firstlineno__",
        "__static_attributes__",
        "__slotnames__",
        "__dataclass_params__",  # the generated methods are attributes of the class
    }
)


@add_parts.register(type)
def _add_class(kind: type, digest: Digest) -> None:
    if is_found(kind) and add_installed(digest, kind.__module__, kind.__qualname__):
        return
    if digest.is_state:
        digest.add_code(kind, f"{kind.__module__}.{kind.__qualname__}")
        return
    digest.add("class", kind.__qualname__)
    if type(kind) is not type:
        digest.add_value(type(kind))
    digest.add_all("bases", kind.__bases__)
    for name, value in sorted(vars(kind).items()):
        if name in _OF_EVERY_CLASS:
            continue
        digest.add("attribute", name)
        if digest.places is None or name.startswith("__") or not _is_data(value):
            digest.add_value(value)
            continue
        owner = f"{kind.__module__}.{kind.__qualname__}"
        look = in_names(vars(kind), name)
        place = Place(f"{kind.__name__}.{name}", f"{owner}.{name}", kind, name, look, counts=True)
        digest.add_place(place)


def _is_data(value: Any) -> bool:
    """Whether the class attribute ``value`` is data, which a run may change, and not code."""
    return is_constant(value) or type(value) in (list, dict, set, tuple, bytearray)


@add_parts.register(types.MemberDescriptorType)
def _add_slot(slot: types.MemberDescriptorType, digest: Digest) -> None:
    digest.add("slot", slot.__name__)


@add_parts.register(staticmethod)
@add_parts.register(classmethod)
@add_parts.register(property)
def _add_wrapped(wrapper: Any, digest: Digest) -> None:
    if type(wrapper) not in (property, staticmethod, classmethod):
        raise NoDigest
    parts = (
        (wrapper.fget, wrapper.fset, wrapper.fdel)
        if isinstance(wrapper, property)
        else (wrapper.__func__,)
    )
    digest.add_all(type(wrapper).__name__, parts)


add_parts.register(types.GenericAlias, add_generic)
add_parts.register(types.UnionType, add_generic)


_OF_A_FIELD = (
    *("name", "type", "default", "default_factory"),
    *("init", "repr", "hash", "compare", "kw_only"),
)


@add_parts.register
def _field(field: dataclasses.Field, digest: Digest) -> None:  # type: ignore[type-arg]  # a class is registered
    """Add the properties of a dataclass field, so that functions which name a dataclass can be
    compared."""
    parts = (getattr(field, name) for name in _OF_A_FIELD)
    missing = dataclasses.MISSING
    # In a list, so that a text "missing" is another part.
    digest.add_all("field", ("missing" if part is missing else [part] for part in parts))
    digest.add_value(dict(field.metadata))
