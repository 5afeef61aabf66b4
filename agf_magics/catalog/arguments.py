"""The arguments of a function: its signature, read when it is registered, and the model of its
annotations, built when it is first needed: a later cell may define the types, and pydantic is
imported only for calls.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

from ..flow.patterns import unusable
from ..flow.values import Value
from ..text.diagnostics import Diagnostic, suggest
from .callables import names_around, signature_of
from .faults import faults, takes

if TYPE_CHECKING:
    from .annotations import ArgumentsModel


def invalid_names(error: Exception) -> frozenset[str]:
    """The arguments that ``error`` is about, which `Arguments.validate` raised."""
    found = error.errors(include_url=False) if hasattr(error, "errors") else []
    return frozenset(str(e["loc"][0]) for e in found if e["loc"])


class Arguments:
    """``validate`` gives the checked arguments or raises pydantic's ValidationError, which
    `explain` makes readable."""

    __slots__ = (
        "_function",
        "_gives",
        "_model",
        "_refused",
        "_unchecked",
        "_what",
        "more",
        "parameters",
        "secret",
        "signature",
        "validate",
    )

    def __init__(
        self,
        function: Callable[..., Any],
        what: str,
        *,
        secret: Collection[str] = (),
        unchecked: Collection[str] = (),
    ) -> None:
        """``what``: the subject of errors, ``tool 'fetch'``; ``secret``: parameters whose values
        are never shown; ``unchecked``: parameters whose annotations are not checked."""
        self._function, self._what = function, what
        self._refused: tuple[Diagnostic, ...] = ()
        self._model: ArgumentsModel | None = None
        self._gives: tuple[dict[str, Any] | None] | None = None
        self.signature = signature_of(function)
        """None: unknown."""
        self.parameters: dict[str, inspect.Parameter] = {}
        self.more = self.signature is None
        """Whether it takes other names too."""
        starred = ""
        for name, parameter in self.signature.parameters.items() if self.signature else ():
            if parameter.kind is parameter.VAR_KEYWORD:
                self.more = True
            elif parameter.kind is parameter.VAR_POSITIONAL:
                starred = name
            else:
                self.parameters[name] = parameter
        if starred and not self.more:
            raise ValueError(
                f"{what} cannot have *{starred}: arguments are passed by name, so write "
                f"{starred}: list"
            )
        self._unchecked = frozenset(unchecked)
        self.secret = frozenset(secret)
        self.validate: Callable[[dict[str, Value]], dict[str, Value]] = self._first

    @property
    def schema(self) -> dict[str, Any]:
        """JSON Schema of the arguments."""
        return self._read().schema

    @property
    def problems(self) -> tuple[str, ...]:
        """Annotations that cannot be used; their arguments are not checked."""
        return self._read().doubts

    @property
    def refused(self) -> tuple[Diagnostic, ...]:
        """Patterns of the annotations that cannot be used, as errors (decision D5)."""
        self._read()
        return self._refused

    @property
    def takes(self) -> str:
        """``name (text), limit (number, optional)``"""
        return takes(self.schema)

    @property
    def gives(self) -> dict[str, Any] | None:
        """JSON Schema of the result; None if it has no annotation or is not JSON."""
        if self.signature is None or self.signature.return_annotation is inspect.Signature.empty:
            return None
        if self._gives is None:
            from .annotations import schema_of

            self._gives = (
                schema_of(self.signature.return_annotation, names_around(self._function)),
            )
        return self._gives[0]

    def explain(
        self, code: str, who: str, error: Exception, given: Mapping[str, Value]
    ) -> Diagnostic:
        """Everything that is wrong with ``given``; ``error``: raised by `validate`."""
        if not hasattr(error, "errors"):  # a validator in a user's class that raises anything else
            why = type(error).__name__ if self.secret else f"{type(error).__name__}: {error}"
            return Diagnostic(code, f"{who} cannot check its arguments: {why}")
        found = error.errors(include_url=False)
        hints = [
            suggest(e["loc"][0], self.parameters)
            for e in found
            if e["type"] == "extra_forbidden" and len(e["loc"]) == 1
        ]
        if any(e["type"] in ("extra_forbidden", "missing") for e in found):
            hints.append(f"it takes {self.takes}")
        hint = " ".join(dict.fromkeys(filter(None, hints))) or None
        return Diagnostic(code, f"{who} {'; '.join(faults(found, given, self.secret))}", hint=hint)

    def _first(self, given: dict[str, Value]) -> dict[str, Value]:
        self._read()
        return self.validate(given)

    def _read(self) -> ArgumentsModel:
        # Types of later cells are looked up again here, but not at every call.
        if self._model is None or self._model.unresolved:
            from .annotations import build

            checked = {
                n: p.replace(annotation=Any) if n in self._unchecked else p
                for n, p in self.parameters.items()
            }
            self._model = build(checked, self.more, names_around(self._function), self.secret)
            self.validate = self._model.validate
            self._refused = unusable(self._model.schema, self._what)
        return self._model
