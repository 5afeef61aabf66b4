"""Large arguments that calls share, for workers elsewhere: the bytes of each are sent once."""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...journal.codec.pickles import bytes_of_data
from .functions import Program
from .later import Later

SHARED_FROM = 1_000_000
"""Bytes from which on a shared argument is sent once: for a smaller one, the further task costs more."""


class SentOnce:
    """An argument in the order of a chunk that other chunks have, too."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.future: Any = None
        """The future of the argument on the cluster; None until the backend has sent the bytes."""

    def sent(self, send: Callable[[bytes], Any]) -> Any:
        """The future of the argument. ``send``: sends the bytes to the cluster."""
        if self.future is None:
            self.future, self.data = send(self.data), b""
        return self.future


class SharedValues:
    """The large arguments that several calls of a fan-out get. Each is sent as it was when it was first
    needed: the calls are concurrent, so none can rely on a later change."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, SentOnce]] = {}
        """The shared values, by their identity."""

    def packed(
        self,
        arguments: Sequence[Mapping[str, Any]],
        after: Mapping[str, Any],
        program: Program,
    ) -> tuple[bytes, list[int], list[SentOnce]]:
        """The arguments of calls as pickles, their sizes, and the shared arguments that are not in them.
        ``after``: the arguments of the next call, with which the last of these calls may share a value."""
        shared: list[SentOnce] = []
        call_arguments = [dict(keywords) for keywords in arguments]
        for keywords, following in zip(call_arguments, [*arguments[1:], after], strict=True):
            for name, value in self._shared_in(keywords, following):
                sent_once = self._once(value, program.dump)
                if sent_once not in shared:
                    shared.append(sent_once)
                keywords[name] = Later(_SHARED, shared.index(sent_once))
        return *program.dump_each(call_arguments), shared

    def _shared_in(
        self, arguments: Mapping[str, Any], following: Mapping[str, Any]
    ) -> Iterator[tuple[str, Any]]:
        """The large arguments of a call that another call, such as the ``following`` one, gets, too."""
        for name, value in list(arguments.items()):
            is_shared = id(value) in self._known or following.get(name) is value
            if is_shared and (bytes_of_data(value) >= SHARED_FROM or _is_long(value)):
                yield name, value

    def _once(self, value: Any, dump: Callable[[Any], bytes]) -> SentOnce:
        """The `SentOnce` of a shared value."""
        if id(value) not in self._known:
            # The value is kept, so that no other value can get its id.
            self._known[id(value)] = value, SentOnce(dump(value))
        return self._known[id(value)][1]

    def close(self) -> None:
        self._known.clear()


def _is_long(value: Any) -> bool:
    return type(value) is str and len(value) >= SHARED_FROM


_SHARED = Later(operator.attrgetter("shared"), Later(importlib.import_module, "_agf_chunk"))
"""On a worker, the function `chunk._shared`, which `chunk.run` puts into the worker's ``_agf_chunk``."""
