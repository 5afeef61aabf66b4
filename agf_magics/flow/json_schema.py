"""Whether a value conforms to the JSON Schema of a document or a function. `violations` describes
the differences.

The library jsonschema decides, with other keywords (`json_schema_keywords`) for those that would
run a supplied pattern with Python's `re`, or take quadratic time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ..text.late_imports import installed_only
from .conforms import JSON_TYPES, conforms, is_surely_a_schema
from .json_schema_keywords import Budget, TooCostly, budget
from .patterns import MANY, NAMED, ONE
from .values import Value

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
    """Of an ``anyOf`` or ``oneOf``: the violations of each alternative."""
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
    def fast() -> Callable[[Value], bool] | None:
        return conforms(schema, whole)

    @cache
    def validator() -> Any:
        with installed_only():
            from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

        # The library's own registry would open a connection for a remote reference (decision A20).
        made = _validator()(_placed(whole), registry=REGISTRY)
        return made if root is None else made.evolve(schema=_placed(schema))

    def found(value: Value) -> list[Violation]:
        token = budget.set(Budget(value))
        try:
            check = fast()
            if check is not None and check(value):
                return []
        except (TooCostly, RecursionError):
            pass  # the library has the words for it
        finally:
            budget.reset(token)
        return slow(value)

    def slow(value: Value) -> list[Violation]:
        with installed_only():
            from referencing.exceptions import Unresolvable

        token = budget.set(Budget(value))
        try:
            return sorted(
                map(_violation, validator().iter_errors(value)),
                key=lambda one: [*map(str, one.path)],
            )
        except Unresolvable as error:
            reference = f"#{error.ref}" if error.ref.startswith("/") else error.ref
            return [Violation((), "$ref", reference, value, rule=rule)]
        except RecursionError:
            return [Violation((), "$ref", None, value, rule=rule)]
        except (
            Exception
        ) as error:  # a foreign schema may have an unknown type, a number that is text, …
            return [Violation((), "unusable", _reason(error), value, rule=rule)]
        finally:
            budget.reset(token)

    return found


def _reason(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0][:200] if lines else type(error).__name__


def schema_violations(schema: Mapping[str, Any]) -> list[Violation]:
    """Why ``schema`` is not a valid JSON Schema."""
    if is_surely_a_schema(schema):
        return []
    return judge(_validator().META_SCHEMA)(schema)


@cache
def _validator() -> Any:
    with installed_only():
        from jsonschema import Draft202012Validator, TypeChecker
        from jsonschema.validators import extend

    from .json_schema_keywords import keywords

    types = TypeChecker({name: partial(_is_type, of) for name, of in JSON_TYPES.items()})
    return extend(
        Draft202012Validator,
        validators=keywords(Draft202012Validator.VALIDATORS),
        type_checker=types,
    )  # type: ignore[no-untyped-call]


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


def _placed(schema: Any) -> Any:
    """``schema`` with `NEVER` for each schema ``false``, for which the library gives no path."""
    if not isinstance(schema, Mapping):
        return dict(NEVER) if schema is False else schema
    made = dict(schema)
    for word, inner in schema.items():
        if word in ONE:
            # These keywords give a path for `false` themselves.
            own = word in (
                "additionalProperties",
                "items",
                "unevaluatedItems",
                "unevaluatedProperties",
            )
            made[word] = inner if own and inner is False else _placed(inner)
        elif word in MANY and isinstance(inner, list):
            made[word] = list(map(_placed, inner))
        elif word in NAMED and isinstance(inner, Mapping):
            made[word] = {name: _placed(part) for name, part in inner.items()}
    return made
