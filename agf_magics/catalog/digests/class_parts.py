"""Adds classes to a digest: their attributes, properties, slots, dataclass fields and generic
types.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import sys
import types
from typing import Any, NamedTuple

from .digest import Digest, NoDigest, add_generic, add_parts, is_constant
from .functions import add_annotations, add_installed
from .models import add_decorators, is_generated
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


class _Pair(NamedTuple):
    first: int


_TUPLE_GETTER = type(vars(_Pair)["first"])
"""The type of the attributes of a named tuple."""

_MADE_BY_PYTHON = 1 << 9
"""The flag of a class that is not a constant of a C module. A constant one never changes."""


@add_parts.register(type)
def _add_class(kind: type, digest: Digest) -> None:
    is_installed = is_found(kind) or not kind.__flags__ & _MADE_BY_PYTHON  # as NoneType
    if is_installed and add_installed(digest, kind.__module__, kind.__qualname__):
        return
    if digest.is_state:
        digest.add_code(kind, f"{kind.__module__}.{kind.__qualname__}")
        return
    digest.add("class", kind.__qualname__)
    if type(kind) is not type:
        digest.add_value(type(kind))
    digest.add_all("bases", kind.__bases__)
    for name, value in sorted(vars(kind).items()):
        if name in _OF_EVERY_CLASS or is_generated(kind, name):
            continue
        digest.add("attribute", name)
        if name == "__annotations__":
            add_annotations(digest, value, vars(sys.modules.get(kind.__module__, types)))
        elif name == "_abc_impl":
            _check_registered(kind)
        elif digest.places is None or name.startswith("__") or not _is_data(value):
            digest.add_value(value)
        else:
            _add_data(digest, kind, name)
    add_decorators(kind, digest)


def _add_data(digest: Digest, kind: type, name: str) -> None:
    """Add an attribute that a run may change."""
    owner = f"{kind.__module__}.{kind.__qualname__}"
    look = in_names(vars(kind), name)
    place = Place(f"{kind.__name__}.{name}", f"{owner}.{name}", kind, name, look, counts=True)
    digest.add_place(place)


def _check_registered(kind: type) -> None:
    """Raise NoDigest if other classes are registered with an abstract class."""
    registered, *_ = abc._get_dump(kind)  # type: ignore[attr-defined]  # Python has no public one
    if registered:
        raise NoDigest(f"classes are registered with {kind.__name__}")


def _is_data(value: Any) -> bool:
    """Whether the class attribute ``value`` is data, which a run may change, and not code."""
    return is_constant(value) or type(value) in (list, dict, set, tuple, bytearray)


@add_parts.register(types.MemberDescriptorType)
def _add_slot(slot: types.MemberDescriptorType, digest: Digest) -> None:
    digest.add("slot", slot.__name__)


@add_parts.register(types.GetSetDescriptorType)
@add_parts.register(types.MethodDescriptorType)
@add_parts.register(types.WrapperDescriptorType)
def _add_method_of_c(method: Any, digest: Digest) -> None:
    """Add a method or an attribute of a class in C, as an enum of texts has them."""
    digest.add("descriptor", method.__name__)
    digest.add_value(method.__objclass__)


@add_parts.register(_TUPLE_GETTER)
def _add_getter(getter: Any, digest: Digest) -> None:
    """Add a field of a named tuple: its number and its docstring."""
    digest.add_all("getter", getter.__reduce__()[1])


@add_parts.register(functools.cached_property)
def _add_cached_property(wrapper: Any, digest: Digest) -> None:
    if type(wrapper) is not functools.cached_property:
        raise NoDigest
    digest.add_all("cached property", (wrapper.func, wrapper.attrname))


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


@add_parts.register(dataclasses.InitVar)
def _add_init_variable(variable: Any, digest: Digest) -> None:
    digest.add("init variable")
    digest.add_value(variable.type)


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
