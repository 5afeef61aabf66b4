"""Converts the annotations of a function to a validator of its arguments and to JSON Schema.

Only this module imports pydantic, which takes 43 ms, so the module is imported with the first call.

Only scalars are strict (decision A9): "3" is not 3 and True is not 1, but a JSON object becomes the
dataclass, model or enum of the annotation, which pydantic's own strict mode refuses. So the scalars
in pydantic's schema are made strict. The fields of a pydantic model follow the model's own rules.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import operator
import sys
import typing
import warnings
from collections.abc import Callable, Collection, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import typing_extensions
from pydantic import ConfigDict, TypeAdapter
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import (
    PydanticCustomError,
    SchemaError,
    SchemaValidator,
    ValidationError,
    core_schema,
)

from ...schemas.json_schema import schema_violations
from ...schemas.violations import describe_all
from ...text.raised import RAISED, attribute, describe_exception, is_a, kind_of, text_of
from ...values.value import is_json, settle
from .callables import EXTRAS
from .mapping_keys import each_key_kept, keys_schema
from .numpy_types import numpy_json_type, numpy_schema

__all__ = ["ArgumentsModel", "ValidationError", "build", "schema_of"]

Schema = dict[str, Any]

CONFIG = ConfigDict(arbitrary_types_allowed=True, populate_by_name=True)
"""A parameter with an alias, ``Field(alias=…)``, has both names: a definition writes that of the
function, and a model is offered the alias."""

SCALARS = frozenset({"int", "float", "bool", "str"})
"""The kinds of core schemas that are made strict."""

CHOICES = frozenset({"literal", "enum"})
"""The kinds of core schemas whose values are compared as `_exact` does."""

TAKES_NO_BOOL = frozenset({"timedelta", "complex", "fraction"})
"""Other kinds of core schemas that would take True as 1."""

PLAIN_KEYS = ({"type": "str"}, {"type": "any"})
"""The core schemas of keys that stay as they are."""

OF_JSON = SCALARS | {
    *("any", "none", "literal", "list", "set", "dict", "tuple", "nullable", "union"),
    *("typed-dict", "typed-dict-field"),
}
"""The kinds of core schemas that check JSON without code of a user."""

INSIDE = (
    "schema",
    "items_schema",
    "keys_schema",
    "values_schema",
    "lax_schema",
    "strict_schema",
    "json_schema",
    "python_schema",
    "extras_schema",
)
"""The keys of a core schema that hold one schema, or a list of schemas (the elements of a
tuple)."""

MANY = ("fields", "choices", "definitions", "steps")
"""The keys of a core schema that hold several schemas: a list, or a mapping by names that the user
chooses. Such a name may be ``type`` or ``schema``, so these mappings are never taken for
schemas."""


WRITTEN = frozenset({"pydantic_js_extra", "pydantic_js_annotation_functions"})
"""The metadata of a core schema with the user's additions to the JSON Schema of an annotation."""

OF_A_CLASS = "pydantic_js_functions"
"""The metadata of a core schema with the functions, pydantic's or a user's, that write the JSON
Schema of a class."""


class ArgumentsModel(NamedTuple):
    """A model of the arguments of a function."""

    validate: Callable[[dict[str, Any]], dict[str, Any]]
    """Returns the checked arguments. Raises pydantic's ValidationError."""
    schema: Schema
    doubts: tuple[str, ...]
    """The annotations that cannot be used, with the reasons. Their arguments are not checked."""
    unresolved: bool
    """Whether an annotation has an undefined name: a later cell may define it."""
    as_is: Mapping[str, str]
    """The parameters that get an object unchanged, with the name of the class that it must have;
    empty: any class."""
    of_json: frozenset[str]
    """The parameters whose check runs no code of a user."""
    optional: frozenset[str]
    """The parameters that a call may leave out."""


def build(
    parameters: Mapping[str, inspect.Parameter],
    more: bool,
    names: dict[str, Any],
    secret: Collection[str],
) -> ArgumentsModel:
    """The model of ``parameters``. ``more``: whether the function accepts other names, too; the
    parameter `EXTRAS` has the annotation of their values, if there is one.
    ``names``: the globals for the annotations. ``secret``: the parameters whose defaults are not
    shown."""
    annotations = {name: _with_default(parameter) for name, parameter in parameters.items()}
    usable, errors = _usable(annotations, names)
    fields = {name: _field(p, usable.get(name, Any)) for name, p in parameters.items()}
    optional = frozenset(
        name
        for name, field in fields.items()
        if typing_extensions.get_origin(field) is typing_extensions.NotRequired
    )
    try:
        validator, schema, of_json = _compile(fields, more)
    except RAISED as error:  # the annotations can be used one by one, but not together
        errors = dict.fromkeys(parameters, error)
        validator, schema, of_json = _compile(
            dict.fromkeys(parameters, typing_extensions.NotRequired[Any]), more
        )
    for name, parameter in parameters.items():
        if parameter.default is not inspect.Parameter.empty and name not in {EXTRAS, *secret}:
            with contextlib.suppress(Exception):  # a default may be any object
                default = settle(parameter.default)
                schema["properties"][name].update({"default": default} if is_json(default) else {})
    for name in secret:
        _remove_defaults(schema, schema["properties"].get(name), set())
    message = "the annotation of {!r} cannot be used, so {!r} is not checked: {}"
    doubts = tuple(message.format(name, name, _why(error)) for name, error in errors.items())
    classes = {name: _class_as_is(usable.get(name, Any)) for name in parameters}
    as_is = {name: kind for name, kind in classes.items() if kind is not None}
    unresolved = any(map(_not_yet, errors.values()))
    return ArgumentsModel(
        validator.validate_python, schema, doubts, unresolved, as_is, of_json, optional
    )


def _field(parameter: inspect.Parameter, kind: Any) -> Any:
    """The field of ``parameter`` in a TypedDict. ``kind``: its annotation, resolved."""
    is_required = _is_required(parameter, kind)
    if parameter.default is None and kind is not Any:  # `limit: int = None` allows None
        kind = typing.Optional[kind]  # noqa: UP045 - works for annotations without |
    if is_required:
        return typing_extensions.Required[kind]
    return typing_extensions.NotRequired[kind]


def _remove_defaults(schema: Schema, part: Any, seen: set[str]) -> None:
    """Remove the defaults in a part of ``schema``, and in the definitions that it refers to. ``seen``:
    these definitions so far."""
    for inner in part if isinstance(part, list) else ():
        _remove_defaults(schema, inner, seen)
    if not isinstance(part, dict):
        return
    part.pop("default", None)
    # The names of fields are the user's own: one of them may be ``default`` or ``$ref``.
    for fields in (part.get("properties"), part.get("$defs")):
        for inner in fields.values() if isinstance(fields, dict) else ():
            _remove_defaults(schema, inner, seen)
    for word, inner in part.items():
        if word not in ("properties", "$defs", "enum", "const"):
            _remove_defaults(schema, inner, seen)
    reference = part.get("$ref")
    if isinstance(reference, str) and reference not in seen:
        seen.add(reference)
        _remove_defaults(schema, schema.get("$defs", {}).get(reference.rpartition("/")[2]), seen)


_DATA = frozenset({"numpy", "pandas", "polars", "pyarrow"})
"""Packages whose objects the check passes on as they are."""


def _class_as_is(annotation: object) -> str | None:
    """The name of the data class that an annotation requires; empty: any class; None: the check may
    convert the value."""
    if annotation is Any or annotation is object:
        return ""
    is_data = isinstance(annotation, type) and annotation.__module__.partition(".")[0] in _DATA
    return annotation.__name__ if is_data else None  # type: ignore[attr-defined]


def _with_default(parameter: inspect.Parameter) -> Any:
    """The annotation of a parameter. A default ``Field(…)`` of pydantic, as in MCP servers, is part
    of it."""
    if not isinstance(parameter.default, FieldInfo):
        return parameter.annotation
    bare = parameter.annotation is inspect.Parameter.empty
    return typing.Annotated[Any if bare else parameter.annotation, parameter.default]


def _is_required(parameter: inspect.Parameter, annotation: Any) -> bool:
    """Whether a call must give this argument. ``annotation``: that of the parameter, resolved."""
    default = parameter.default
    if isinstance(default, FieldInfo):
        return default.is_required()
    if any(
        isinstance(part, FieldInfo) and not part.is_required()
        for part in getattr(annotation, "__metadata__", ())
    ):
        return False  # ``x: Annotated[int, Field(default=7)]``
    # ``**options`` may be empty, and so may each of its names be absent.
    return default is inspect.Parameter.empty and parameter.kind is not parameter.VAR_KEYWORD


def schema_of(annotation: object, names: dict[str, Any]) -> Schema | None:
    """The JSON Schema of one annotation; None if the annotation does not describe JSON."""
    usable, errors = _usable({"it": annotation}, names)
    if errors:
        return None
    _, whole, _ = _compile(usable, more=False)
    schema = whole["properties"]["it"]
    if not schema.keys() - {"title"}:  # it has only the name of a class that is not JSON
        return None
    return {**schema, **({"$defs": whole["$defs"]} if "$defs" in whole else {})}


class _Plain(GenerateJsonSchema):
    """pydantic's generator without generated titles, which names classes that are not JSON."""

    ignored_warning_kinds: set[Any] = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012

    is_written = False
    """Whether a user's code wrote a part of the schema, which may be anything."""

    def generate(self, schema: Any, mode: Any = "validation") -> JsonSchemaValue:
        json_schema = super().generate(schema, mode)
        if not is_json(json_schema):
            raise TypeError("its JSON Schema has values that are not JSON")
        if self.is_written and (wrong := schema_violations(json_schema)):
            raise TypeError(f"its JSON Schema is none: {describe_all(wrong)}")
        return json_schema

    def generate_inner(self, schema: Any) -> JsonSchemaValue:
        hooks = schema.get("metadata", {})
        self.is_written = self.is_written or not hooks.keys().isdisjoint(WRITTEN)
        self.is_written = self.is_written or any(
            not hook.__module__.startswith("pydantic.") for hook in hooks.get(OF_A_CLASS, ())
        )
        return super().generate_inner(schema)

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def is_instance_schema(self, schema: core_schema.IsInstanceSchema) -> JsonSchemaValue:
        if (settled := numpy_json_type(schema["cls"])) is not None:
            return settled
        return {"title": getattr(schema["cls"], "__name__", str(schema["cls"]))}

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> JsonSchemaValue:
        return {}


def _usable(
    annotations: Mapping[str, object], names: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, BaseException]]:
    """The usable annotations, resolved, and the errors of the others."""
    # To resolve an annotation runs user code, which may raise anything.
    usable: dict[str, Any] = {}
    errors: dict[str, BaseException] = {}
    for name, annotation in annotations.items():
        try:
            usable[name] = (
                Any if annotation is inspect.Parameter.empty else _resolve(annotation, names)
            )
        except RAISED as error:
            errors[name] = error
    try:
        _compile(usable, more=False)
    except RAISED:  # look for the annotations that cause the error
        for name, annotation in list(usable.items()):
            try:
                _compile({name: annotation}, more=False)
            except RAISED as error:
                errors[name] = error
                del usable[name]
    return usable, errors


def _resolve(annotation: object, names: dict[str, Any]) -> Any:
    """The annotation with its names resolved; runs user code."""
    holder = SimpleNamespace(__annotations__={"it": annotation})
    return _modern(typing.get_type_hints(holder, names, include_extras=True)["it"])


def _compile(fields: dict[str, Any], more: bool) -> tuple[SchemaValidator, Schema, frozenset[str]]:
    """A validator of these arguments, their JSON Schema, and those that are checked without code of
    a user."""
    with warnings.catch_warnings():  # pydantic warns about `x: 5`
        warnings.simplefilter("error", UserWarning)
        adapter = TypeAdapter(_typed_dict("Arguments", fields, CONFIG))
    validator = SchemaValidator(_close(_strict(adapter.core_schema), more))
    schema = adapter.json_schema(schema_generator=_Plain)
    if "$ref" in schema:
        raise TypeError("Self has no meaning outside of a class")
    schema.pop("title", None)
    extras = schema.get("properties", {}).pop(EXTRAS, more)
    core: Any = adapter.core_schema
    of_json = {name for name, node in core.get("fields", {}).items() if _is_of_json(node)}
    return (
        validator,
        {"properties": {}, **schema, "additionalProperties": extras or more},
        frozenset(of_json),
    )


def _is_of_json(node: Any) -> bool:
    """Whether ``node`` and the core schemas inside are of the kinds `OF_JSON`."""
    if isinstance(node, (list, tuple)):
        return all(map(_is_of_json, node))
    if not isinstance(node, dict):  # it is the label of a choice
        return True
    inside = [node[key] for key in INSIDE if key in node]
    for key in MANY:
        parts = node.get(key, ())
        inside += parts.values() if isinstance(parts, dict) else parts
    return node["type"] in OF_JSON and all(map(_is_of_json, inside))


def _modern(annotation: Any) -> Any:
    """Replace `typing.TypedDict`, which pydantic refuses before Python 3.12."""
    if sys.version_info >= (3, 12):
        return annotation
    if typing.is_typeddict(annotation) and type(annotation).__module__ == "typing":
        hints = typing.get_type_hints(annotation, include_extras=True)
        modern = _typed_dict(annotation.__name__, {key: _modern(hints[key]) for key in hints})
        # Ask the class for the required keys, because ``total=False`` may hold for some keys only.
        modern.__required_keys__ = annotation.__required_keys__
        return modern
    arguments = typing.get_args(annotation)
    fresh = tuple(map(_modern, arguments))
    if all(map(operator.is_, fresh, arguments)):
        return annotation
    if isinstance(annotation, type(int | None)):
        return functools.reduce(operator.or_, fresh)
    return (
        annotation.copy_with(fresh)
        if hasattr(annotation, "copy_with")
        else typing.get_origin(annotation)[fresh]
    )


def _typed_dict(name: str, fields: dict[str, Any], config: ConfigDict | None = None) -> Any:
    make: Any = typing_extensions.TypedDict
    typed_dict = make(name, fields)
    if config:
        typed_dict.__pydantic_config__ = config
    return typed_dict


def _strict(node: Any) -> Any:
    """A copy of the core schema ``node`` with strict scalars."""
    if isinstance(node, (list, tuple)):
        return type(node)(_strict(n) for n in node)
    if not isinstance(node, dict):  # it is the label of a choice
        return node
    kind = node["type"]
    if kind == "model" or (kind == "dataclass" and hasattr(node["cls"], "__pydantic_validator__")):
        return node
    if kind in SCALARS:
        return {"strict": True, **node}
    # For an Iterable, pydantic would pass an iterator that can be read only once.
    if kind == "generator":
        node = {"type": "list", "items_schema": node.get("items_schema", core_schema.any_schema())}
    if kind in CHOICES:
        return _exact(node)
    if (settled := numpy_schema(node)) is not None:
        return settled
    if kind in TAKES_NO_BOOL:
        return core_schema.no_info_before_validator_function(_no_bool, node)
    # A plain text is its own key: two are never the same.
    has_read_keys = node.get("keys_schema", {"type": "str"}) not in PLAIN_KEYS
    if has_read_keys:
        node = {**node, "keys_schema": keys_schema(node["keys_schema"])}
    inner = {key: _strict(node[key]) for key in INSIDE if key in node}
    node = {**node, **inner, **{key: _each_strict(node[key]) for key in MANY if key in node}}
    return each_key_kept(node) if has_read_keys else node


def _each_strict(parts: Any) -> Any:
    if isinstance(parts, dict):
        return {name: _strict(part) for name, part in parts.items()}
    return _strict(parts)


def _exact(node: Any) -> Any:
    """The schema of a choice that distinguishes True from 1 and 1 from "1", unlike pydantic's."""
    choices = node.get("expected") or node.get("members") or ()
    values = [(choice, getattr(choice, "value", choice)) for choice in choices]
    # With the type of its values, the class would be given a number for a text.
    node = {key: part for key, part in node.items() if key != "sub_type"}

    def distinguished(value: Any) -> Any:
        if type(value) not in (bool, int, float):
            return value
        equal = [(c, v) for c, v in values if isinstance(v, int | float) and v == value]
        exact = [c for c, v in equal if isinstance(v, bool) is isinstance(value, bool)]
        if equal and not exact:
            expected = " or ".join(repr(v) for _, v in values)
            raise PydanticCustomError(
                "literal_error", "Input should be {expected}", {"expected": expected}
            )
        return exact[0] if exact else value

    return core_schema.no_info_before_validator_function(distinguished, node)


def _no_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise PydanticCustomError("type", "Input should be no boolean")
    return value


def _close(node: Any, more: bool) -> Any:
    """Forbid other names in the outermost typed dict. A config would also apply to inner dicts."""
    if node["type"] == "definitions":
        return {**node, "schema": _close(node["schema"], more)}
    fields = dict(node["fields"])
    extras = fields.pop(EXTRAS, None)
    closed = {**node, "fields": fields, "extra_behavior": "allow" if more else "forbid"}
    return {**closed, "extras_schema": extras["schema"]} if more and extras is not None else closed


def _why(error: BaseException) -> str:
    """The reason why an annotation cannot be used, in one line."""
    if _not_yet(error) and not is_a(error, NameError):
        return "it uses a name that is not defined"
    if is_a(error, KeyError):  # the text of a KeyError is a key, not a sentence
        return describe_exception(error)
    lines = text_of(error).strip().splitlines() or [kind_of(error)]
    line = lines[-1].strip() if is_a(error, SchemaError) else lines[0]
    return line.partition(", Pydantic will")[0]


def _not_yet(error: BaseException) -> bool:
    """Whether the error is about a name that a later cell may define."""
    return is_a(error, NameError) or attribute(error, "code") == "class-not-fully-defined"
