"""The description of an R1 function as one row: its syntax, its arguments, its result, its meaning.

The parser, the check of types before a run, the evaluation, the hints, completion, Shift-Tab and
the reference read the row, so a new function is one row of `functions.FUNCTIONS`. The node of a
parsed call has the row of its function, so that only the parser looks names up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from ....schemas.shapes import Shape
from ....values.value import Value

Env = dict[Any, Value]
"""A frame; inside lambdas a copy that also has the parameters, by level, and the account."""
Closure = Callable[[Env], Value]
"""A node's closure."""
Kind = Literal["any", "list", "text", "lambda", "path"]
"""What an argument may be. ``lambda``: it is evaluated for each element of the list before it;
``path``: a text literal, the path of a field of the value before it."""


class Argument(NamedTuple):
    """An argument of a function."""

    written: str
    """Its name, as a hint writes it."""
    kind: Kind = "any"
    of: Literal["", "number", "text"] = ""
    """The kind of the elements of a list; empty: any."""
    optional: bool = False
    """Whether it may be left out; null stands for it."""


LIST = Argument("list", "list")
EACH = Argument("x -> expression", "lambda")


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """One function: its name, its arguments, and all that is made of them."""

    name: str
    arguments: tuple[Argument, ...]
    returns: Callable[..., Shape | None]
    """The shape of its value, of the shapes of its arguments. The shape of a lambda is that of its
    body, the shape of a path that of the field."""
    meaning: Callable[..., Callable[..., Value]]
    """Its closure, of its node and the closures of its arguments, which check their types. With a
    lambda: what a frame and a list become, of the level of its parameter, the closure of its body,
    and that of the body's truth."""
    doc: str
    """What its value is, as the reference says it."""
    foreign: tuple[str, ...] = ()
    """The names that other languages have for it."""

    @property
    def form(self) -> str:
        """How it is written: ``join(list, separator)``."""
        return self.form_of(self.arguments[0].written)

    def form_of(self, first: str) -> str:
        """How it is written with ``first`` as its first argument."""
        return f"{self.name}({', '.join([first, *(argument.written for argument in self.arguments[1:])])})"

    @property
    def help(self) -> str:
        """Its form and its meaning, without marks."""
        return f"{self.form}: {self.doc.replace('`', '')}"

    @property
    def second(self) -> Kind | None:
        """The kind of its second argument, where a lambda or a path stands."""
        return self.arguments[1].kind if len(self.arguments) > 1 else None

    def needs(self, index: int) -> str:
        """What an error says that the argument at ``index`` must be."""
        argument = self.arguments[index]
        if index:
            return f"the {argument.written} of {self.name} is a {argument.kind}"
        return f"{self.name} needs a {argument.kind}"
