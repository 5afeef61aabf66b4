"""Tools whose fields have unusual names, and tools whose schema cannot be made."""

from __future__ import annotations

import dataclasses
import json
import keyword
from inspect import Parameter
from typing import Annotated, Any, Literal

import pytest
from pydantic import Field, WithJsonSchema
from pydantic_core import core_schema
from typing_extensions import TypedDict

import agf_magics as agf
from agf_magics.catalog.tools.annotations import INSIDE, MANY, ArgumentsModel, build, schema_of
from agf_magics.editor.complete import Surroundings, complete
from agf_magics.editor.word_help import describe
from agf_magics.notebook.display import registry_page
from agf_magics.schemas.json_schema import judge, schema_violations

WORDS = sorted(
    {
        *INSIDE,
        *MANY,
        *("type", "title", "$ref", "$defs", "$schema", "$id", "properties", "enum", "const", "anyOf", "allOf", "oneOf"),
        *("items", "required", "default", "description", "additionalProperties", "cls", "strict", "expected", "name"),
        *("members", "metadata", "ref", "schema_ref", "kind", "mode", "loc", "input", "function", "tags", "it"),
        *("model_config", "__notes__", "discriminator", "Arguments", "self", "cells and blanks", "ä"),
    }
)


def model(**annotations: Any) -> ArgumentsModel:
    kind = Parameter.KEYWORD_ONLY
    return build({name: Parameter(name, kind, annotation=it) for name, it in annotations.items()}, False, {}, ())


def takes(checked: ArgumentsModel, value: dict[str, Any]) -> bool:
    try:
        checked.validate(value)
    except ValueError:
        return False
    return True


def shapes(word: str) -> dict[str, tuple[Any, Any, Any]]:
    """Annotations with a field named ``word``, each with a value that conforms and a value that does not."""
    plain = TypedDict("plain", {word: int, "other": str})  # type: ignore[misc]
    deep = TypedDict("deep", {word: plain, "many": list[plain]})  # type: ignore[misc, valid-type]
    first = TypedDict("first", {word: Literal["a"], "x": int})  # type: ignore[misc]
    second = TypedDict("second", {word: Literal["b"], "y": int})  # type: ignore[misc]
    good, bad = {word: 1, "other": "s"}, {word: "1", "other": "s"}
    return {
        "a field": (plain, good, bad),
        "nested": (deep, {word: good, "many": [good]}, {word: good, "many": [bad]}),
        "of a mapping": (dict[str, plain], {word: good}, {word: {**good, word: True}}),  # type: ignore[valid-type]
        "optional": (plain | None, good, bad),
        "what tells two apart": (
            Annotated[first | second, Field(discriminator=word)],
            {word: "b", "y": 1},
            {word: "b", "y": True},
        ),
    }


@pytest.mark.parametrize("word", WORDS)
def test_a_field_may_have_any_name(word: str) -> None:
    for shape, (annotation, good, bad) in shapes(word).items():
        checked = model(value=annotation)
        assert (shape, checked.doubts) == (shape, ())
        assert (shape, takes(checked, {"value": good}), takes(checked, {"value": bad})) == (shape, True, False)
        schema = schema_of(annotation, {})
        assert schema is not None
        assert schema_violations(schema) == []
        assert (judge(schema)(good), bool(judge(schema)(bad))) == ([], True)


@pytest.mark.parametrize("word", [word for word in WORDS if word.isidentifier() and not keyword.iskeyword(word)])
def test_a_parameter_and_a_field_of_a_dataclass_may_have_any_name(word: str) -> None:
    checked = model(**{word: int})
    assert checked.doubts == ()
    assert (takes(checked, {word: 1}), takes(checked, {word: "1"})) == (True, False)
    checked = model(value=dataclasses.make_dataclass("Row", [(word, int)]))
    assert (takes(checked, {"value": {word: 1}}), takes(checked, {"value": {word: "1"}})) == (True, False)


FLOWS = {
    "pipeline": "{pipeline: q, steps: [{tool: {name: convert, args: {value: 1.5, type: kg}}}]}",
    "plan": "{calls: [{_tool: convert, value: 1.5, type: kg, _outputPath: $state.a}], output: $state.a}",
    "graph": "{state: {r: any}, nodes: {n: {type: tool, tool: convert, variables: {value: 1.5, type: kg}, "
    "state_key: r}}, edges: [{from: START, to: n}]}",
    "policy": "{id: agf.sequential, config: {steps: [{agent: convert}]}}",
}


def convert(value: float, type: str = "g") -> str:
    return f"{value} {type}"


@pytest.mark.parametrize("language", FLOWS)
def test_a_parameter_is_called_type_in_each_language(language: str) -> None:
    registry = agf.Registry()
    agf.tool(convert, registry=registry)
    agf.agent(convert, registry=registry)
    agf.define(FLOWS[language], language, name="q", registry=registry)
    run = agf.run("q", {"value": 1.5, "type": "kg"} if language == "policy" else None, registry=registry)
    assert "1.5 kg" in json.dumps(run.output)


class Hooks:
    """A class that makes its JSON Schema or its validator with code that fails."""

    @classmethod
    def __get_pydantic_core_schema__(cls, *_: Any) -> Any:
        return core_schema.any_schema()


class NoJson(Hooks):
    @classmethod
    def __get_pydantic_json_schema__(cls, *_: Any) -> Any:
        raise KeyError("no schema")


class NoCore:
    @classmethod
    def __get_pydantic_core_schema__(cls, *_: Any) -> Any:
        raise ZeroDivisionError("no validator")


class Exits:
    @classmethod
    def __get_pydantic_core_schema__(cls, *_: Any) -> Any:
        raise SystemExit(3)


class Odd(Exception):
    def __str__(self) -> str:
        raise ValueError("no text")

    def __getattr__(self, name: str) -> Any:
        raise LookupError(name)


class Misbehaves:
    @classmethod
    def __get_pydantic_core_schema__(cls, *_: Any) -> Any:
        raise Odd


class NoRepr:
    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def extra(schema: dict[str, Any]) -> None:
    raise RuntimeError("no extra")


endless: dict[str, Any] = {}
endless["properties"] = {"a": endless}
deep: Any = int
for _ in range(400):
    deep = list[deep]

BROKEN: dict[str, Any] = {
    "no JSON Schema": NoJson,
    "no validator": NoCore,
    "exits": Exits,
    "an exception that cannot be read": Misbehaves,
    "code that adds to the schema": Annotated[int, Field(json_schema_extra=extra)],
    "an object in the schema": Annotated[int, Field(json_schema_extra={"x": object()})],  # type: ignore[dict-item]
    "a set in the schema": Annotated[int, WithJsonSchema({"type": {1, 2}})],
    "a schema that is none": Annotated[int, WithJsonSchema({"type": 5, "enum": 7, "anyOf": 3})],
    "a list as schema": Annotated[int, WithJsonSchema([1])],  # type: ignore[arg-type]
    "a reference to nothing": Annotated[int, WithJsonSchema({"$ref": "#/$defs/Nope"})],
    "a reference that is a number": Annotated[int, WithJsonSchema({"$ref": 5})],
    "a schema inside itself": Annotated[int, WithJsonSchema(endless)],
    "too deep": deep,
    "a pattern that cannot be used": Annotated[str, Field(pattern="(?=a)b")],
    "a discriminator that nothing has": Annotated[int | str, Field(discriminator="kind")],
    "an expression that fails": "1/0",
    "no expression": "a b c",
    "a value": 5,
}

DEFAULTS: dict[str, Any] = {
    "of a pydantic field": Field(default=1, discriminator="kind"),
    "of a pydantic field without a text": Field(default=NoRepr()),
}


def broken(annotation: Any = None, default: Any = Parameter.empty) -> Any:
    """A function with this annotation or this default."""
    if default is Parameter.empty:

        def function(x: Any) -> int:
            return 1

    else:

        def function(x: Any = default) -> int:  # type: ignore[misc]
            return 1

    function.__annotations__["x"] = int if annotation is None else annotation
    return function


FUNCTIONS = {
    **{name: broken(annotation) for name, annotation in BROKEN.items()},
    **{f"a default {name}": broken(default=default) for name, default in DEFAULTS.items()},
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_tool_whose_schema_cannot_be_made_says_so_and_breaks_nothing_else(
    name: str, recwarn: pytest.WarningsRecorder
) -> None:
    pytest.importorskip("pydantic_ai")
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    def reply(_: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        offered = [tool.parameters_json_schema for tool in info.function_tools]
        assert schema_violations(json.loads(json.dumps(offered))[0]) == []
        return ModelResponse(parts=[TextPart("hello")])

    registry = agf.Registry()
    agf.tool(FUNCTIONS[name], name="broken", registry=registry)
    agf.tool(convert, registry=registry)
    agf.model_agent("helper", model=FunctionModel(reply), registry=registry)
    (doubt,) = registry.tools["broken"].warnings
    assert (doubt.code, doubt.severity) == ("tool.annotation", "warning")
    assert "'x' is not checked: " in doubt.message
    assert repr(registry.tools["broken"]).startswith("<Tool broken(x (anything")
    assert json.dumps(registry.tools["broken"].accepts)
    for text in (FLOWS["pipeline"], "{pipeline: q, steps: [{agent: {prompt: Hello, identity: helper}}]}"):
        assert agf.run(text, registry=registry).status == "ok"
    assert agf.run("{pipeline: q, steps: [{tool: {name: broken, args: {x: 1}}}]}", registry=registry).output == 1
    for page in (
        registry_page.tools(registry),
        registry_page.tools(registry, "broken"),
        registry_page.everything(registry),
    ):
        assert "x (anything" in page["text/plain"]
    cell = "%%pipeline p\nsteps:\n- tool: {name: brok"
    offer = complete(cell, 2, 19, Surroundings(registry, {}, {}))
    assert offer is not None
    assert [choice.text for choice in offer.choices] == ["broken"]
    assert "broken" in str(describe(f"{cell}en}}", len(cell), registry))
    assert [str(warning.message) for warning in recwarn if "pydantic" in str(warning.category)] == []
