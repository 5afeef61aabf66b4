"""The names that an expression may use, by where its step stands (decisions P1 and P19).

A step sees ``ctx`` and ``pipe``; the ``do`` of a fan-out or a fold also the names that one binds. What is nested in it
(a ``do``, a branch, a ``collect``) starts afresh: it does not see the ``item`` around it, and is told how to get it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from .r1 import Names

STORES = ("ctx",)
"""Where a frame keeps the named stores."""

_ROOTS: Mapping[str, tuple[str, ...]] = {"ctx": ("ctx",), "pipe": ("pipe",)}
_HAND_ON = (
    "a nested step does not see the {name!r} around it: use it in the step's own over, init, on, args or prompt, "
    'for instance over: "map({name}.parts, p -> {{part: p, whole: {name}}})", or nest a call with pass: [{name}]'
)


NOTHING: Mapping[str, str] = MappingProxyType({})


class Scope(NamedTuple):
    """What is visible at one place."""

    names: Names
    stores: frozenset[str]
    """The stores that some step of the pipeline writes and this place could see."""
    top: bool = False
    """Whether what a step here gives is the next step's pipe."""

    def inside(
        self,
        binds: tuple[str, ...],
        branches: Iterable[str] = (),
        stores: frozenset[str] = frozenset(),
        unseen: Mapping[str, str] = NOTHING,
    ) -> Scope:
        """The scope of a step nested in one that stands here. ``unseen``: names one might expect, with a hint each."""
        roots = {**{branch: ("pipe", branch) for branch in branches}, **_ROOTS, **{name: (name,) for name in binds}}
        around = {name: _HAND_ON.format(name=name) for name in ("item", "acc") if name in self.names.roots}
        told = {**unseen, **around, **self.names.hidden}
        hidden = {name: hint for name, hint in told.items() if name not in roots}
        # A union would be a copy of them all, for each nested step.
        return Scope(Names(roots, STORES, hidden), self.stores if stores <= self.stores else self.stores | stores)

    def path(self, name: str) -> tuple[str, ...]:
        """Where a bare name's value is."""
        return self.names.roots.get(name) or (*STORES, name)


def outermost(stores: frozenset[str]) -> Scope:
    """The scope of a pipeline's own steps."""
    return Scope(Names(_ROOTS, STORES, {}), stores, top=True)
