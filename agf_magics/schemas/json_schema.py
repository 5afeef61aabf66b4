"""Checks whether a value conforms to a JSON Schema.

The library jsonschema does the check. The module `keywords` replaces the keywords that would match
a supplied pattern with Python's `re`, or take quadratic time.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import cache, partial
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

from ..compat.imports import installed_only
from ..values.value import Value
from .keywords import Allowance, budget, keywords
from .schema import JSON_TYPES

if TYPE_CHECKING:
    from jsonschema import ValidationError


class Violation(NamedTuple):
    """One difference between a value and a JSON Schema."""

    path: tuple[str | int, ...]
    """The path in the value: ``("items", 0, "id")``."""
    keyword: str
    """The keyword that is violated: ``type``, ``required``, …; ``false`` for the schema ``false``;
    ``$ref`` for a reference that leads nowhere or never ends; ``unusable`` for a schema that cannot
    be applied."""
    wanted: Any
    """The value of the keyword in the schema."""
    found: Value
    """The part of the value at ``path``."""
    within: tuple[tuple[Violation, ...], ...] = ()
    """The violations of each alternative of an ``anyOf`` or ``oneOf``."""
    rule: Mapping[str, Any] = {}
    """The object of the schema that has the keyword."""


def judge(
    schema: Mapping[str, Any] | bool, root: Mapping[str, Any] | bool | None = None
) -> Callable[[Value], list[Violation]]:
    """A function that returns all differences between a value and ``schema``, and never raises.
    ``root``: the schema with the ``$defs`` to which ``schema`` refers; default: ``schema`` itself.

    >>> [(m.path, m.keyword) for m in judge({"items": {"type": "string"}})(["a", 3])]
    [((1,), 'type')]
    """
    rule = schema if isinstance(schema, Mapping) else {}
    whole = schema if root is None else root

    @cache
    def validator() -> Any:
        with installed_only():
            from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

        # The library's default registry would open a connection for a remote reference (decision
        # A20).
        return _validator()(whole, registry=REGISTRY).evolve(schema=schema)

    def violations(value: Value) -> list[Violation]:
        token = budget.set(Allowance(value))
        try:
            return sorted(
                map(_violation, validator().iter_errors(value)),
                key=lambda violation: [(type(part) is str, part) for part in violation.path],
            )
        except RecursionError:
            return [Violation((), "$ref", None, value, rule=rule)]
        # A foreign schema may have anything wrong: an unknown type, a text where a number belongs.
        except Exception as error:
            with installed_only():  # imported late, because it is slow
                from referencing.exceptions import Unresolvable

            if not isinstance(error, Unresolvable):
                return [Violation((), "unusable", _reason(error), value, rule=rule)]
            reference = f"#{error.ref}" if error.ref.startswith("/") else error.ref
            return [Violation((), "$ref", reference, value, rule=rule)]
        finally:
            budget.reset(token)

    return violations


def _reason(error: Exception) -> str:
    """The first line of an exception's text."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]


def schema_violations(schema: Mapping[str, Any]) -> list[Violation]:
    """The violations of JSON Schema's own rules in ``schema``; empty if it is a valid schema."""
    return judge(_validator().META_SCHEMA)(schema)


@cache
def _validator() -> Any:
    """The validator class of the library, with our types and keywords."""
    library = _library()
    draft = library.Draft202012Validator
    # With our types, a value that is not JSON has no type (decision A1).
    types = library.TypeChecker({name: partial(_is_type, of) for name, of in JSON_TYPES.items()})
    kind = library.validators.extend(
        draft, validators=keywords(draft.VALIDATORS), type_checker=types
    )
    descend = kind.descend
    evolve = kind.evolve

    def evolve_ours(validator: Any, **changes: Any) -> Any:
        # For a part with ``$schema`` the library would switch to its own class, without our
        # keywords.
        part = changes.get("schema")
        if isinstance(part, dict) and "$schema" in part:
            changes["schema"] = {word: rule for word, rule in part.items() if word != "$schema"}
        return evolve(validator, **changes)

    kind.evolve = evolve_ours

    # The library gives no path for the schema ``false``.
    kind.descend = lambda validator, instance, schema, *place, **places: descend(
        validator, instance, NEVER if schema is False else schema, *place, **places
    )
    return kind


def _library() -> Any:
    """The library jsonschema.

    In JupyterLab's environment the import takes a second, nine tenths of it for the grammar of the
    format ``iri``. Formats refuse no value here, so `is_valid_syntax` takes the place of the
    grammar and loads it at first use (decision D62).
    """

    def is_valid_syntax(term: str, text: str) -> bool:
        with suppress(ImportError):  # without the package, the library does not check this format
            import rfc3987_syntax  # type: ignore[import-untyped]

            return bool(rfc3987_syntax.is_valid_syntax(term, text))
        return True

    name = "rfc3987_syntax"
    with installed_only():
        is_late = {"jsonschema", name}.isdisjoint(sys.modules)
        if is_late:
            sys.modules[name] = ModuleType(name)
            sys.modules[name].__dict__["is_valid_syntax"] = is_valid_syntax
        try:
            import jsonschema
        finally:
            if is_late:
                del sys.modules[name]
    return jsonschema


def _is_type(has_type: Callable[[Value], bool], checker: object, value: Value) -> bool:
    return has_type(value)


def _violation(error: ValidationError) -> Violation:
    """An error of the library as a Violation."""
    alternatives: dict[Any, list[Violation]] = {}
    for inner in error.context or ():
        # The path begins with the index of the alternative. It is empty for a `$ref` to `false`.
        number = inner.schema_path[0] if inner.schema_path else None
        alternatives.setdefault(number, []).append(_violation(inner))
    rule = error.schema if isinstance(error.schema, Mapping) else {}
    within = tuple(map(tuple, alternatives.values()))
    keyword = "false" if error.validator is None or rule == NEVER else str(error.validator)
    return Violation(
        tuple(error.absolute_path), keyword, error.validator_value, error.instance, within, rule
    )


NEVER: Mapping[str, Any] = {"not": {}}
"""The schema `false` as an object."""
