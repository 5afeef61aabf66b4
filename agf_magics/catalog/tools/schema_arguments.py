"""Checks the arguments of a tool without a Python signature against the tool's JSON Schema.

The schema is foreign: its patterns run in RE2 and its depth is bounded (`schemas.json_schema`).
Unusable schemas are refused when the tool is made.
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
    """An argument with the attributes that the checks read of an `inspect.Parameter`. Its name need
    not be a Python identifier."""

    default: Any
    """The default; `empty` if a call must pass the argument."""
    empty: ClassVar[Any] = inspect.Parameter.empty


_SAYS_MORE = (
    *("additionalProperties", "unevaluatedProperties", "patternProperties", "propertyNames"),
    *("anyOf", "oneOf", "allOf", "$ref", "$dynamicRef"),
    *("if", "dependentSchemas", "dependentRequired", "dependencies"),
)
"""Keywords with which a schema may accept arguments that ``properties`` does not list."""


class Unfit(ValueError):
    """The arguments do not conform to the schema."""

    def __init__(self, violations: list[Violation]) -> None:
        super().__init__(describe_all(violations))
        self.violations = violations


class SchemaArguments:
    """The arguments that a JSON Schema describes. `Arguments` does the same for a Python
    function."""

    secret: frozenset[str] = frozenset()
    problems: tuple[str, ...] = ()
    refused: tuple[Diagnostic, ...] = ()
    optional: Collection[str] = ()
    """Empty: what a schema does not require has a default in ``parameters``."""
    are_current = True
    """Always True, because the schema of a tool never changes."""
    function: Callable[..., Any] | None = None
    """None: there is no Python function, so `secret`, `problems` and `refused` are empty, too."""

    def __init__(
        self, schema: Mapping[str, Any], gives: Mapping[str, Any] | None, context: Collection[str]
    ) -> None:
        """``gives``: the JSON Schema of the result; None: unknown. ``context``: the names of the
        parameters that get a `ToolContext`."""
        self.schema = dict(schema)
        self.gives = dict(gives) if gives is not None else None
        self.context = tuple(context)
        fields = self._fields()
        required = self.schema.get("required", ())
        self.parameters = {
            name: Parameter(Parameter.empty if name in required else None) for name in fields
        }
        self.more = not fields or any(
            self.schema.get(word, False) is not False for word in _SAYS_MORE
        )
        """Whether other names are accepted, too. By default JSON Schema accepts them, but a schema
        that only lists names means these, and a misspelled optional name would go unnoticed."""
        self._violations = judge(
            self.schema if self.more else {**self.schema, "additionalProperties": False}
        )

    @property
    def takes(self) -> str:
        """The arguments in one line: ``name (text), limit (number, optional)``."""
        from .argument_errors import takes

        return takes(self.schema)

    @property
    def defaults(self) -> dict[str, Value]:
        """The defaults of the arguments, as the schema tells them."""
        return {
            name: field["default"]
            for name, field in self._fields().items()
            if isinstance(field, Mapping) and is_json(field.get("default", ...))
        }

    def validate(self, arguments: dict[str, Value]) -> dict[str, Value]:
        """``arguments``, if they conform. Raises Unfit."""
        if violations := self._violations(arguments):
            raise Unfit(violations)
        return arguments

    def validate_changed(
        self, arguments: dict[str, Value], changes: Mapping[str, Value]
    ) -> dict[str, Value]:
        """``arguments`` with ``changes``, if they conform. Raises Unfit."""
        return self.validate({**arguments, **changes})

    def wrong_names(self, error: BaseException) -> frozenset[str]:
        """The names of the arguments in ``error``, which `validate` raised."""
        violations = error.violations if isinstance(error, Unfit) else []
        return frozenset(str(violation.path[0]) for violation in violations if violation.path)

    def refused_literal(self, code: str, who: str, name: str, value: Value) -> Diagnostic | None:
        """What is wrong with ``value`` as the argument ``name``; None: nothing."""
        arguments = {name: value}
        wrong = [fault for fault in self._violations(arguments) if fault.path[:1] == (name,)]
        return self.explain(code, who, Unfit(wrong), arguments) if wrong else None

    def explain(
        self, code: str, who: str, error: BaseException, arguments: Mapping[str, Value]
    ) -> Diagnostic:
        """The diagnostic with all mistakes in ``arguments``. ``error``: raised by `validate`."""
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
