"""The arguments of a tool that is not Python, checked against the JSON Schema that it was offered with.

The schema is foreign: its patterns run in RE2 and its depth is bounded (`schemas.json_schema`), and
whoever makes a tool of it has refused what cannot be used.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from ...schemas.json_schema import Violation, judge
from ...schemas.keywords import unnamed
from ...schemas.violations import describe_all, leaves, missing
from ...text.diagnostics import Diagnostic
from ...text.suggestions import suggest
from ...values.value import Value, is_json


@dataclass(frozen=True, slots=True)
class Parameter:
    """An argument, with what the checks read of an `inspect.Parameter`; its name need not be
    Python's."""

    default: Any
    """`empty` if a call must give it."""
    empty: ClassVar[Any] = inspect.Parameter.empty


_SAYS_MORE = ("additionalProperties", "patternProperties", "anyOf", "oneOf", "allOf", "$ref", "if")
"""Keywords with which a schema may take arguments that its ``properties`` do not list."""


class Unfit(ValueError):
    """Arguments that do not conform to the schema."""

    def __init__(self, violations: list[Violation]) -> None:
        super().__init__(describe_all(violations))
        self.violations = violations


class SchemaArguments:
    """The arguments that a JSON Schema describes; `Arguments` are those of a Python function."""

    secret: frozenset[str] = frozenset()
    problems: tuple[str, ...] = ()
    refused: tuple[Diagnostic, ...] = ()
    are_current = True
    """A schema does not change; another one makes another tool."""
    function: Callable[..., Any] | None = None

    def __init__(
        self, schema: Mapping[str, Any], gives: Mapping[str, Any] | None, context: Collection[str]
    ) -> None:
        """``gives``: the JSON Schema of the result; None: it is not known. ``context``: the names
        under which its function gets a `ToolContext`."""
        self.schema = dict(schema)
        self.gives = dict(gives) if gives is not None else None
        self.context = tuple(context)
        fields = self._fields()
        required = self.schema.get("required", ())
        self.parameters = {
            name: Parameter(Parameter.empty if name in required else None) for name in fields
        }
        self.more = not fields or any(self.schema.get(word) for word in _SAYS_MORE)
        """Whether it takes other names too. JSON Schema does so by default; but a schema that only
        lists names means these, and a misspelled optional one would go unnoticed."""
        self._violations = judge(
            self.schema if self.more else {**self.schema, "additionalProperties": False}
        )

    @property
    def takes(self) -> str:
        """``name (text), limit (number, optional)``"""
        from .argument_errors import takes

        return takes(self.schema)

    @property
    def defaults(self) -> dict[str, Value]:
        """The JSON that its server says it uses for arguments that a call leaves out."""
        return {
            name: field["default"]
            for name, field in self._fields().items()
            if isinstance(field, Mapping) and is_json(field.get("default", ...))
        }

    def validate(self, arguments: dict[str, Value]) -> dict[str, Value]:
        """``arguments``, if they fit. Raises Unfit."""
        if violations := self._violations(arguments):
            raise Unfit(violations)
        return arguments

    def wrong_names(self, error: BaseException) -> frozenset[str]:
        """The arguments that ``error`` is about, which `validate` raised."""
        violations = error.violations if isinstance(error, Unfit) else []
        return frozenset(str(violation.path[0]) for violation in violations if violation.path)

    def explain(
        self, code: str, who: str, error: BaseException, arguments: Mapping[str, Value]
    ) -> Diagnostic:
        """Everything that is wrong with ``arguments``; ``error``: raised by `validate`."""
        violations = error.violations if isinstance(error, Unfit) else []
        unknown = [
            name
            for violation in violations
            if not violation.path and violation.keyword == "additionalProperties"
            for name in unnamed(violation.found, violation.rule)
        ]
        lacking = [
            name
            for violation in violations
            if not violation.path and violation.keyword == "required"
            for name in missing(violation)
        ]
        others = [
            leaf
            for violation in violations
            if violation.path or violation.keyword not in ("additionalProperties", "required")
            for leaf in leaves(violation)
        ]
        phrases = [f"has no argument {name!r}" for name in unknown]
        phrases += [f"needs {name!r}" for name in lacking]
        if others:
            phrases.append(f"refuses its arguments: {describe_all(others)}")
        hints = [suggest(name, self._fields()) for name in unknown]
        if unknown or lacking:
            hints.append(f"it takes {self.takes}")
        hint = " ".join(filter(None, hints)) or None
        return Diagnostic(code, f"{who} {'; '.join(phrases)}", hint=hint)

    def _fields(self) -> Mapping[str, Any]:
        fields = self.schema.get("properties")
        return fields if isinstance(fields, Mapping) else {}
