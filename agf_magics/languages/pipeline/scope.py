"""The names that an expression may use, by the place of its step (decisions P1 and P19).

A step sees ``ctx`` and ``pipe``; the ``do`` of a fan-out or a fold also sees the names that it
binds. A step nested in that one (a ``do``, a branch, a ``collect``) does not see the ``item``
around it; the error says how to pass it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from .r1.nodes import STORES, Names

ROOTS = {"ctx": "it is all stores", "pipe": "it is the result of the step before"}
"""The names that are visible everywhere, and what they mean."""
_ROOTS: Mapping[str, tuple[str, ...]] = {name: (name,) for name in ROOTS}
_PASS_ON = (
    "a nested step does not see the {name!r} around it: use it in the step's own over, init, on, "
    "args or prompt, "
    'for instance over: "map({name}.parts, p -> {{part: p, whole: {name}}})", or nest a call with '
    "pass: [{name}]"
)


NOTHING: Mapping[str, str] = MappingProxyType({})


class Scope(NamedTuple):
    """The names that are visible at one place."""

    names: Names
    stores: frozenset[str]
    """The stores that some step of the pipeline writes and that may be visible here."""
    top: bool = False
    """Whether the result of a step here is the pipe of the next step."""

    def inside(
        self,
        binds: tuple[str, ...],
        branches: Iterable[str] = (),
        stores: frozenset[str] = frozenset(),
        unseen: Mapping[str, str] = NOTHING,
    ) -> Scope:
        """The scope of a step nested in one of this scope. ``unseen``: names one might expect, each
        with a hint."""
        roots = {
            **{branch: ("pipe", branch) for branch in branches},
            **_ROOTS,
            **{name: (name,) for name in binds},
        }
        around = {
            name: _PASS_ON.format(name=name) for name in ("item", "acc") if name in self.names.roots
        }
        hints = {**unseen, **around, **self.names.hidden}
        hidden = {name: hint for name, hint in hints.items() if name not in roots}
        # A union would copy all of them, for each nested step.
        return Scope(
            Names(roots, STORES, hidden),
            self.stores if stores <= self.stores else self.stores | stores,
        )

    def path(self, name: str) -> tuple[str, ...]:
        """The path of a bare name's value."""
        return self.names.roots.get(name) or (*STORES, name)

    def knows(self, name: str) -> bool:
        """Whether a name means something here, as far as the text decides."""
        return name in self.names.roots or name in self.stores or name in self.names.hidden


def outermost(stores: frozenset[str]) -> Scope:
    """The scope of the steps at the top level of a pipeline."""
    return Scope(Names(_ROOTS, STORES, {}), stores, top=True)
