"""Large arguments that calls share, for workers elsewhere: the bytes of each are sent once."""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...journal.codec.pickles import bytes_of_data
from .later import Later

SHARED_FROM = 1_000_000
"""Bytes from which on a shared argument is sent once: below, a task of its own costs more."""


class SentOnce:
    """A part of the order of a chunk, which other chunks have too."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.future: Any = None
        """Where it is on the cluster; the backend sets it, and has the bytes then."""

    def sent(self, send: Callable[[bytes], Any]) -> Any:
        if self.future is None:
            self.future, self.data = send(self.data), b""
        return self.future


class SharedValues:
    """The large arguments that several calls of a fan-out get, each as it was when it was first
    needed: its calls are concurrent."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, SentOnce]] = {}

    def packed(
        self,
        arguments: Sequence[Mapping[str, Any]],
        after: Mapping[str, Any],
        dump: Callable[[Any], bytes],
    ) -> tuple[bytes, list[SentOnce]]:
        """The arguments of calls as a pickle, and the shared ones that are not in it. ``after``: the
        arguments of the call after them."""
        shared: list[SentOnce] = []
        own = [dict(each) for each in arguments]
        for each, following in zip(own, [*arguments[1:], after], strict=True):
            for name, value in self._shared_in(each, following):
                one = self._once(value, dump)
                if one not in shared:
                    shared.append(one)
                each[name] = Later(_SHARED, shared.index(one))
        return dump(own), shared

    def _shared_in(
        self, arguments: Mapping[str, Any], following: Mapping[str, Any]
    ) -> Iterator[tuple[str, Any]]:
        for name, value in list(arguments.items()):
            is_shared = id(value) in self._known or following.get(name) is value
            if is_shared and (bytes_of_data(value) >= SHARED_FROM or _is_long(value)):
                yield name, value

    def _once(self, value: Any, dump: Callable[[Any], bytes]) -> SentOnce:
        if id(value) not in self._known:
            # With the value, whose id is then that of no other one.
            self._known[id(value)] = value, SentOnce(dump(value))
        return self._known[id(value)][1]

    def close(self) -> None:
        self._known.clear()


def _is_long(value: Any) -> bool:
    return type(value) is str and len(value) >= SHARED_FROM


_SHARED = Later(operator.attrgetter("shared"), Later(importlib.import_module, "_agf_chunk"))
"""On a worker `chunk._shared`: `chunk.run` puts it into the module ``_agf_chunk`` of the worker."""
