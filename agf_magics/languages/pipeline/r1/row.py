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
"""A frame; inside lambdas a copy that also has the parameters, by level, and the
account of work (`account.py`)."""
Closure = Callable[[Env], Value]
"""A node's closure."""
Kind = Literal["any", "list", "text", "lambda", "path"]
"""The kinds of arguments. ``lambda``: is evaluated for each element of the list before it.
``path``: a text literal with the path of a field in the value before it."""


class Argument(NamedTuple):
    """An argument of a function."""

    written: str
    """The name of the argument in hints."""
    kind: Kind = "any"
    of: Literal["", "number", "text"] = ""
    """The kind of the elements of a list; empty: any."""
    optional: bool = False
    """Whether the argument may be left out; null then takes its place."""


LIST = Argument("list", "list")
EACH = Argument("x -> expression", "lambda")


@dataclass(frozen=True, slots=True, eq=False)
class Function:
    """One function: its name, its arguments, and all that is made of them."""

    name: str
    arguments: tuple[Argument, ...]
    returns: Callable[..., Shape | None]
    """Infers the shape of the value from the shapes of the arguments. The shape of a lambda is the
    shape of its body, the shape of a path is the shape of the field."""
    meaning: Callable[..., Callable[..., Value]]
    """Builds what computes the value. ``meaning(node, *arguments)`` returns a `Closure`; the
    arguments are closures that check their types. For a function with a lambda, ``meaning(level,
    body, truth)`` returns a function of frame and list; ``level`` is the parameter's key in the
    frame, ``body`` the closure of the lambda's body, ``truth`` the closure of the body's truth."""
    doc: str
    """The meaning of the value, in the words of the reference."""
    foreign: tuple[str, ...] = ()
    """The names that other languages have for it."""

    @property
    def form(self) -> str:
        """The form of a call: ``join(list, separator)``."""
        return self.form_of(self.arguments[0].written)

    def form_of(self, first: str) -> str:
        """The form of a call with ``first`` as the first argument."""
        return f"{self.name}({', '.join([first, *(argument.written for argument in self.arguments[1:])])})"

    @property
    def help(self) -> str:
        """The form of a call and its meaning, without markup."""
        return f"{self.form}: {self.doc.replace('`', '')}"

    @property
    def second(self) -> Kind | None:
        """The kind of its second argument, where a lambda or a path stands."""
        return self.arguments[1].kind if len(self.arguments) > 1 else None

    def needs(self, index: int) -> str:
        """The words of an error for the kind of the argument at ``index``."""
        argument = self.arguments[index]
        if index:
            return f"the {argument.written} of {self.name} is a {argument.kind}"
        return f"{self.name} needs a {argument.kind}"
