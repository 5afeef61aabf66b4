"""Determines the names that an expression may use in the place of its step (decisions P1 and P19).

A step sees ``ctx`` and ``pipe``. The ``do`` of a fan-out or a fold also sees the names that this
step binds, but steps nested in the ``do`` (a ``do``, a branch, a ``collect``) do not see the outer
``item``. The error tells how to pass it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from .r1.nodes import STORES, Names

ROOTS = {"ctx": "it is all stores", "pipe": "it is the result of the step before"}
"""The names that are visible everywhere, and what they mean."""
HANDED_ON = "pipe"
"""The name that a called pipeline sees without ``pass``, with the same value."""
BOUND_NAMES = ("item", "acc")
"""The names that a fan-out and a fold bind."""
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
    first: Mapping[str, int] = MappingProxyType({})
    """The number of the top step that first writes a store."""
    number: int = 0
    """The number of the top step in which this place is."""

    def inside(
        self,
        binds: tuple[str, ...],
        branches: Iterable[str] = (),
        stores: frozenset[str] = frozenset(),
        unseen: Mapping[str, str] = NOTHING,
    ) -> Scope:
        """The scope of a step nested in a step of this scope. ``unseen``: the names that an author
        may expect, each with a hint."""
        roots = {
            **{branch: ("pipe", branch) for branch in branches},
            **_ROOTS,
            **{name: (name,) for name in binds},
        }
        around = {
            name: _PASS_ON.format(name=name) for name in BOUND_NAMES if name in self.names.roots
        }
        hints = {**unseen, **around, **self.names.hidden}
        hidden = {name: hint for name, hint in hints.items() if name not in roots}
        # A union copies all stores, for each nested step, so it is avoided if it would add none.
        every = self.stores if stores <= self.stores else self.stores | stores
        return self._replace(names=Names(roots, STORES, hidden), stores=every, top=False)

    @property
    def branches(self) -> frozenset[str]:
        """The branches whose results are visible here."""
        return frozenset(name for name, path in self.names.roots.items() if path[1:] == (name,))

    def path(self, name: str) -> tuple[str, ...]:
        """The path of a bare name's value."""
        return self.names.roots.get(name) or (*STORES, name)

    def knows(self, name: str) -> bool:
        """Whether a name means something here, as far as the text decides."""
        return name in self.names.roots or name in self.stores or name in self.names.hidden

    def has(self, name: str) -> bool:
        """Whether an expression here can read a value of that name: the place binds it, or an
        earlier step writes it. The output of the step itself, or of its branches, does not
        count."""
        return name in self.names.roots or self.first.get(name, self.number) < self.number

    def had(self, name: str) -> bool:
        """Whether a step around this place can read the name, and a step here cannot."""
        return name in BOUND_NAMES and name in self.names.hidden


def outermost(first: Mapping[str, int]) -> Scope:
    """The scope of the steps at the top level of a pipeline. ``first``: the stores that they write,
    each with the number of the step."""
    return Scope(Names(_ROOTS, STORES, {}), frozenset(first), top=True, first=first)
