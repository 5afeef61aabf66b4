"""Adds objects of Python's library that hold values: collections, namespaces, getters, slices, loggers.

A source of random numbers, an iterator and a lock have no digest: each use changes them, and what a
run changes does not count, so that an edit of a seed would not be seen.
"""

from __future__ import annotations

import collections
import logging
import operator
import string
import struct
import types
import weakref
from typing import Any

from .digest import Digest, NoDigest, add_parts
from .origins import is_ours


@add_parts.register(collections.deque)
@add_parts.register(collections.defaultdict)
@add_parts.register(collections.Counter)
@add_parts.register(collections.OrderedDict)
@add_parts.register(types.SimpleNamespace)
@add_parts.register(operator.itemgetter)
@add_parts.register(operator.attrgetter)
@add_parts.register(operator.methodcaller)
def _add_reduced(thing: Any, digest: Digest) -> None:
    """Add what Python needs to make an equal object: arguments, state, items."""
    if is_ours(type(thing).__module__):
        raise NoDigest  # a subclass may hold more
    function, arguments, state, items, pairs = (*thing.__reduce_ex__(2), None, None, None)[:5]
    digest.add_value(type(thing))
    digest.add_all("reduced", (function, arguments, state, list(items or ()), list(pairs or ())))
    digest.add_value(getattr(thing, "__dict__", None))


@add_parts.register
def _add_view(view: types.MappingProxyType, digest: Digest) -> None:  # type: ignore[type-arg]  # a class is registered
    digest.add("view")
    digest.add_value(view.copy())


@add_parts.register
def _add_weak_keys(cache: weakref.WeakKeyDictionary, digest: Digest) -> None:  # type: ignore[type-arg]  # a class is registered
    """Add the cache of a `functools.singledispatch`."""
    digest.add_value(type(cache))
    digest.add_value(list(cache.items()))


@add_parts.register
def _add_slice(part: slice, digest: Digest) -> None:
    digest.add_all("slice", (part.start, part.stop, part.step))


@add_parts.register
def _add_template(template: string.Template, digest: Digest) -> None:
    digest.add_value(type(template))
    digest.add_value(vars(template))


@add_parts.register
def _add_struct(layout: struct.Struct, digest: Digest) -> None:
    if type(layout) is not struct.Struct:
        raise NoDigest
    digest.add("struct", layout.format)


@add_parts.register
def _add_logger(logger: logging.Logger, digest: Digest) -> None:
    """Add a logger by its name. Its level and its handlers are settings of a library."""
    if logging.getLogger(logger.name) is not logger and logger is not logging.root:
        raise NoDigest
    digest.add("logger", logger.name)
    digest.add_value(type(logger))


@add_parts.register
def _add_adapter(adapter: logging.LoggerAdapter, digest: Digest) -> None:  # type: ignore[type-arg]  # a class is registered
    digest.add_value(type(adapter))
    digest.add_value(vars(adapter))
