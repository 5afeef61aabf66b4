"""Whether a value conforms to a JSON Schema.

The library jsonschema decides, with other keywords (`keywords`) for those that would run a supplied
pattern with Python's `re`, or take quadratic time.
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
    """The place in the value: ``("items", 0, "id")``."""
    keyword: str
    """``type``, ``required``, …; ``false`` for the schema ``false``; ``$ref`` for a reference to
    nothing or an endless one, ``unusable`` for a schema that cannot be applied."""
    wanted: Any
    """The keyword's value."""
    found: Value
    within: tuple[tuple[Violation, ...], ...] = ()
    """The violations of each alternative of an ``anyOf`` or ``oneOf``."""
    rule: Mapping[str, Any] = {}
    """The object of the schema that has the keyword."""


def judge(
    schema: Mapping[str, Any] | bool, root: Mapping[str, Any] | bool | None = None
) -> Callable[[Value], list[Violation]]:
    """A function that returns all differences between a value and ``schema``. It never raises.

    ``root`` is the schema with the ``$defs`` of ``schema``; defaults to ``schema`` itself.

    >>> [(m.path, m.keyword) for m in judge({"items": {"type": "string"}})(["a", 3])]
    [((1,), 'type')]
    """
    rule = schema if isinstance(schema, Mapping) else {}
    whole = schema if root is None else root

    @cache
    def validator() -> Any:
        with installed_only():
            from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

        # The library's own registry would open a connection for a remote reference (decision A20).
        return _validator()(whole, registry=REGISTRY).evolve(schema=schema)

    def violations(value: Value) -> list[Violation]:
        token = budget.set(Allowance(value))
        try:
            return sorted(
                map(_violation, validator().iter_errors(value)),
                key=lambda violation: [*map(str, violation.path)],
            )
        except RecursionError:
            return [Violation((), "$ref", None, value, rule=rule)]
        # A foreign schema may have an unknown type, a number that is text, …
        except Exception as error:
            with installed_only():  # not at the top: every value would wait for this import
                from referencing.exceptions import Unresolvable

            if not isinstance(error, Unresolvable):
                return [Violation((), "unusable", _reason(error), value, rule=rule)]
            reference = f"#{error.ref}" if error.ref.startswith("/") else error.ref
            return [Violation((), "$ref", reference, value, rule=rule)]
        finally:
            budget.reset(token)

    return violations


def _reason(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]


def schema_violations(schema: Mapping[str, Any]) -> list[Violation]:
    """Why ``schema`` is not a valid JSON Schema."""
    return judge(_validator().META_SCHEMA)(schema)


@cache
def _validator() -> Any:
    library = _library()
    draft = library.Draft202012Validator
    # Ours: a value that is not JSON has no type (decision A1).
    types = library.TypeChecker({name: partial(_is_type, of) for name, of in JSON_TYPES.items()})
    kind = library.validators.extend(
        draft, validators=keywords(draft.VALIDATORS), type_checker=types
    )
    descend = kind.descend
    evolve = kind.evolve

    def evolve_ours(validator: Any, **changes: Any) -> Any:
        # For a part with ``$schema`` the library takes its own class, whose patterns have no bound.
        part = changes.get("schema")
        if isinstance(part, dict) and "$schema" in part:
            changes["schema"] = {word: rule for word, rule in part.items() if word != "$schema"}
        return evolve(validator, **changes)

    kind.evolve = evolve_ours

    # For the schema ``false`` the library gives no path.
    kind.descend = lambda validator, instance, schema, *place, **places: descend(
        validator, instance, NEVER if schema is False else schema, *place, **places
    )
    return kind


def _library() -> Any:
    """The library jsonschema.

    In JupyterLab's environment its import takes a second, of which nine tenths go into the grammar
    of the format ``iri``. Formats do not refuse a value here, so `is_valid_syntax` stands in
    for the grammar, and loads it at first use (decision D62).
    """

    def is_valid_syntax(term: str, text: str) -> bool:
        with suppress(ImportError):  # the library does not check this format then
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


def _is_type(of: Callable[[Value], bool], checker: object, value: Value) -> bool:
    return of(value)


def _violation(error: ValidationError) -> Violation:
    ways: dict[Any, list[Violation]] = {}
    for inner in error.context or ():
        # The path begins with the number of the alternative; it is empty for a `$ref` to `false`.
        ways.setdefault(inner.schema_path[0] if inner.schema_path else None, []).append(
            _violation(inner)
        )
    rule = error.schema if isinstance(error.schema, Mapping) else {}
    within = tuple(map(tuple, ways.values()))
    keyword = "false" if error.validator is None or rule == NEVER else str(error.validator)
    return Violation(
        tuple(error.absolute_path), keyword, error.validator_value, error.instance, within, rule
    )


NEVER: Mapping[str, Any] = {"not": {}}
"""The schema `false` as an object."""
