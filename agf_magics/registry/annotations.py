"""Annotations as a validator and as JSON Schema. The only module here that imports pydantic, and it is imported late:
that costs 43 ms, and a notebook that only defines things needs none of it.

Strict for scalars and for nothing else (decision A9): "3" is not 3 and True is not 1, but an object of JSON becomes the
dataclass, model or enum that is asked for, which pydantic's own strict mode refuses. So the schema pydantic makes is
taken and its scalars are made strict. A pydantic model's own fields follow the model's own rules: its author chose.
"""

from __future__ import annotations

import functools
import inspect
import operator
import sys
import typing
from collections.abc import Callable, Collection, Mapping
from types import SimpleNamespace
from typing import Any, NamedTuple

import typing_extensions
from pydantic import ConfigDict, TypeAdapter
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import PydanticCustomError, SchemaValidator, core_schema

from ..flow.values import is_json, settle

Schema = dict[str, Any]

CONFIG = ConfigDict(arbitrary_types_allowed=True)

SCALARS = frozenset({"int", "float", "bool", "str"})

CHOICES = frozenset({"literal", "enum"})

INSIDE = (
    "schema", "items_schema", "fields", "choices", "keys_schema", "values_schema", "definitions", "steps", "lax_schema",
    "strict_schema", "json_schema", "python_schema", "extras_schema",
)  # fmt: skip
"""Where a core schema keeps further schemas: one, a list, or a mapping of them."""


class Model(NamedTuple):
    """What a function takes."""

    validate: Callable[[dict[str, Any]], dict[str, Any]]
    schema: Schema
    doubts: tuple[str, ...]
    """Which annotations could not be used, and why; anything is accepted there."""
    unresolved: bool
    """Whether one of them names something that does not exist yet: a later cell may define it."""


def build(
    parameters: Mapping[str, inspect.Parameter], more: bool, names: Mapping[str, Any], secret: Collection[str]
) -> Model:
    """The model of ``parameters``. ``more``: other names are taken too; ``names``: what annotations speak of;
    ``secret``: parameters whose default is not told."""
    fields: dict[str, Any] = {}
    doubts: list[str] = []
    unresolved = False
    for name, parameter in parameters.items():
        wanted: Any = Any
        try:
            wanted = _usable(parameter.annotation, names)
        except Exception as error:  # an annotation is an expression of its author's, and so are the hooks it may have
            unresolved = unresolved or isinstance(error, NameError)
            doubts.append(f"the annotation of {name!r} cannot be used, so anything is accepted: {_first_line(error)}")
        if parameter.default is None and wanted is not Any:  # `limit: int = None` means that it may be None
            wanted = typing.Optional[wanted]  # noqa: UP045 - for any annotation, also those that know no |
        required = parameter.default is inspect.Parameter.empty
        fields[name] = typing_extensions.Required[wanted] if required else typing_extensions.NotRequired[wanted]
    adapter = TypeAdapter(_typed_dict("Arguments", fields, CONFIG))
    validator = SchemaValidator(_closed(_strict(adapter.core_schema), more))
    return Model(validator.validate_python, _told(adapter, parameters, more, secret), tuple(doubts), unresolved)


def schema_of(annotation: object, names: Mapping[str, Any]) -> Schema | None:
    """The JSON Schema of one annotation; None where it says nothing of JSON."""
    try:
        usable = _usable(annotation, names)
        schema = TypeAdapter(usable, config=_config(usable)).json_schema(schema_generator=_Plain)
    except Exception:  # as in `build`: an annotation of somebody's that cannot be told
        return None
    return schema if schema.keys() - {"title"} else None


class _Plain(GenerateJsonSchema):
    """Without made-up titles, and with the class's name where JSON Schema has no word for it."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def is_instance_schema(self, schema: core_schema.IsInstanceSchema) -> JsonSchemaValue:
        return {"title": getattr(schema["cls"], "__name__", str(schema["cls"]))}

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> JsonSchemaValue:
        return {}


def _usable(annotation: object, names: Mapping[str, Any]) -> Any:
    """The annotation with its names looked up, tried out."""
    if annotation is inspect.Parameter.empty:
        return Any
    holder = SimpleNamespace(__annotations__={"it": annotation})
    found = _modern(typing.get_type_hints(holder, dict(names), include_extras=True)["it"])
    TypeAdapter(found, config=_config(found))
    return found


def _config(annotation: Any) -> ConfigDict | None:
    """pydantic takes no config beside a type that brings its own."""
    own = typing_extensions.is_typeddict(annotation) or hasattr(annotation, "__pydantic_config__")
    own = own or hasattr(annotation, "__dataclass_fields__") or hasattr(annotation, "model_config")
    return None if own else CONFIG


def _modern(annotation: Any) -> Any:
    """pydantic refuses `typing.TypedDict` before Python 3.12, where it does not tell which of its keys are required."""
    if sys.version_info >= (3, 12):
        return annotation
    if typing.is_typeddict(annotation) and type(annotation).__module__ == "typing":
        hints = typing.get_type_hints(annotation, include_extras=True)
        fields = {}
        for key, hint in hints.items():
            required = key in annotation.__required_keys__
            bare = (
                typing.get_args(hint)[0] if typing.get_origin(hint) in (typing.Required, typing.NotRequired) else hint
            )
            fields[key] = (typing.Required if required else typing.NotRequired)[_modern(bare)]
        return _typed_dict(annotation.__name__, fields)
    arguments = typing.get_args(annotation)
    if not any(typing.is_typeddict(a) or typing.get_args(a) for a in arguments):
        return annotation
    fresh = tuple(_modern(a) for a in arguments)
    if fresh == arguments:
        return annotation
    if isinstance(annotation, type(int | None)):
        return functools.reduce(operator.or_, fresh)
    return annotation.copy_with(fresh) if hasattr(annotation, "copy_with") else typing.get_origin(annotation)[fresh]


def _typed_dict(name: str, fields: dict[str, Any], config: ConfigDict | None = None) -> Any:
    make: Any = typing_extensions.TypedDict
    made = make(name, fields)
    if config:
        made.__pydantic_config__ = config
    return made


def _strict(node: Any) -> Any:
    """A copy of a core schema whose scalars are strict."""
    if isinstance(node, (list, tuple)):
        return type(node)(_strict(n) for n in node)
    if not isinstance(node, dict):
        return node
    kind = node.get("type")
    if kind == "model" or (kind == "dataclass" and hasattr(node["cls"], "__pydantic_validator__")):
        return node
    if kind in SCALARS:
        return {"strict": True, **node}
    if kind in CHOICES:
        return _exact(node)
    if not isinstance(kind, str):  # a mapping of fields or of choices
        return {key: _strict(inner) for key, inner in node.items()}
    return {**node, **{key: _strict(node[key]) for key in INSIDE if key in node}}


def _exact(node: Any) -> Any:
    """A choice for which True is not 1: pydantic compares by Python's equality."""
    choices = [getattr(c, "value", c) for c in node.get("expected") or node.get("members") or ()]

    def told_apart(value: Any) -> Any:
        equal = [c for c in choices if c == value] if type(value) in (bool, int) else []
        if equal and not any(isinstance(c, bool) is isinstance(value, bool) for c in equal):
            expected = " or ".join(map(repr, choices))
            raise PydanticCustomError("literal_error", "Input should be {expected}", {"expected": expected})
        return value

    return core_schema.no_info_before_validator_function(told_apart, node)


def _closed(node: Any, more: bool) -> Any:
    """The outermost typed dict, refusing other names; not by config, which the dicts inside would take over."""
    if node["type"] == "definitions":
        return {**node, "schema": _closed(node["schema"], more)}
    return {**node, "extra_behavior": "allow" if more else "forbid"}


def _told(
    adapter: TypeAdapter[Any], parameters: Mapping[str, inspect.Parameter], more: bool, secret: Collection[str]
) -> Schema:
    schema = adapter.json_schema(schema_generator=_Plain)
    for name, told in schema.get("properties", {}).items():
        default = parameters[name].default
        if default is not inspect.Parameter.empty and name not in secret and is_json(plain := settle(default)):
            told["default"] = plain
    schema.pop("title", None)
    return {**schema, "additionalProperties": more}


def _first_line(error: BaseException) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
