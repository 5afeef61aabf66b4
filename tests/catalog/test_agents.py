"""Tests of agents: how their parameters are filled, and how a reply is read."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agf_magics.catalog import Agent, Registry, agent, check_reply
from agf_magics.schemas.schema import Field, Schema
from agf_magics.text.diagnostics import StepError

REVIEW = Schema("Review", {"passed": Field(kind="bool", required=True), "notes": Field(kind="string")})
GOOD = {"passed": True, "notes": "fine"}


@pytest.fixture
def registry() -> Registry:
    return Registry()


def agent_of(function: Any, **options: Any) -> Agent:
    registry = Registry()
    agent(function, registry=registry, name="reviewer", **options)
    return registry.agents["reviewer"]  # type: ignore[return-value]


def arguments_of(function: Any, input: Any = None, **options: Any) -> dict[str, Any]:
    return agent_of(function).arguments(prompt="ask", input=input, **options)


def refusal_of(function: Any, input: Any = None) -> Any:
    with pytest.raises(StepError) as caught:
        arguments_of(function, input)
    assert caught.value.code == "agent.arguments"
    return caught.value.diagnostic


def test_an_agent_stays_the_function_it_is(registry: Registry) -> None:
    def reviewer(prompt: str) -> str:
        """Reviews."""
        return prompt

    assert agent(reviewer, registry=registry) is reviewer
    assert agent(registry=registry, name="b", tools=["fetch"], timeout=3, where="loop")(reviewer) is reviewer
    first, second = registry.agents["reviewer"], registry.agents["b"]
    assert (first.description, first.tools, first.default, first.is_async) == ("Reviews.", None, False, False)  # type: ignore[union-attr]
    assert (second.tools, second.timeout, second.where) == (("fetch",), 3, "loop")  # type: ignore[union-attr]


def test_nobody_may_be_called_as_the_person_is(registry: Registry) -> None:
    def user(prompt: str) -> str: ...

    with pytest.raises(ValueError, match="'user' is the person in the notebook"):
        agent(user, registry=registry)
    assert agent(user, name="writer", registry=registry) is user


def test_tools_are_named(registry: Registry) -> None:
    def reviewer(prompt: str) -> str: ...

    with pytest.raises(TypeError, match="tools must be a list of names"):
        agent(reviewer, tools=[reviewer], registry=registry)  # type: ignore[list-item]
    assert agent_of(reviewer, tools="fetch").tools == ("fetch",)
    assert agent_of(reviewer, tools=[]).tools == ()


def test_default_is_a_switch(registry: Registry) -> None:
    with pytest.raises(TypeError, match="default must be True or False, got 'yes'"):
        agent(lambda prompt: prompt, name="a", default="yes", registry=registry)  # type: ignore[arg-type,call-overload]


def test_parameters_are_filled_by_name_from_what_the_caller_has() -> None:
    def all_of_it(identity, tools, schema, input, prompt): ...

    tools = {"fetch": print}
    assert arguments_of(all_of_it, {"doc": "d"}, schema={"type": "object"}, tools=tools, identity="user") == {
        "prompt": "ask",
        "input": {"doc": "d"},
        "schema": {"type": "object"},
        "tools": tools,
        "identity": "user",
    }


def test_any_other_parameter_is_a_field_of_the_input() -> None:
    def reviewer(prompt: str, doc: str, limit: int = 3): ...

    assert arguments_of(reviewer, {"doc": "d", "unasked": 1}) == {"prompt": "ask", "doc": "d"}
    assert arguments_of(reviewer, {"doc": "d", "limit": 5, "prompt": "not this"}) == {
        "prompt": "ask",
        "doc": "d",
        "limit": 5,
    }


def test_fields_become_what_their_annotations_say() -> None:
    @dataclass
    class Doc:
        text: str

    def reviewer(prompt: str, doc): ...

    reviewer.__annotations__["doc"] = Doc
    assert arguments_of(reviewer, {"doc": {"text": "t"}})["doc"] == Doc("t")
    assert "expects text for 'doc.text', got the number 1" in refusal_of(reviewer, {"doc": {"text": 1}}).message


def test_one_parameter_that_says_nothing_of_itself_gets_the_prompt_or_the_input() -> None:
    def reviewer(question): ...

    assert arguments_of(reviewer, {"question": "a field"}) == {"question": "ask"}
    assert arguments_of(reviewer, {"a": 1}, alone="input") == {"question": {"a": 1}}


def test_one_parameter_with_an_annotation_is_a_field() -> None:
    def reviewer(question: str): ...

    assert arguments_of(reviewer, {"question": "a field"}) == {"question": "a field"}


@pytest.mark.parametrize("name", ["prompt", "input", "schema", "tools", "identity"])
def test_one_parameter_with_a_known_name_gets_that(name: str) -> None:
    functions: dict[str, Any] = {
        "prompt": lambda prompt: 0,
        "input": lambda input: 0,
        "schema": lambda schema: 0,
        "tools": lambda tools: 0,
        "identity": lambda identity: 0,
    }
    values = {"prompt": "ask", "input": {"a": 1}, "schema": None, "tools": {}, "identity": "user"}
    assert arguments_of(functions[name], {"a": 1}) == {name: values[name]}


def test_no_parameter_gets_nothing_and_two_stars_get_the_other_fields() -> None:
    assert arguments_of(lambda: 0, {"a": 1}) == {}
    assert arguments_of(lambda prompt, **rest: 0, {"a": 1, "prompt": 2}) == {"prompt": "ask", "a": 1}


def test_what_the_caller_hands_over_is_not_held_to_annotations() -> None:
    def reviewer(prompt: str, schema: str, tools: list[str], identity: int): ...

    assert arguments_of(reviewer)["schema"] is None


def test_everything_that_is_missing_is_told_with_what_there_is() -> None:
    def reviewer(prompt: str, doc: str, limit: int): ...

    error = refusal_of(reviewer, {"docs": "d"})
    assert error.message == "agent 'reviewer' needs 'doc'; needs 'limit'"
    assert error.hint == (
        "did you mean docs? a parameter is prompt, input, schema, tools, identity or a field of the input; "
        "its input has docs"
    )
    assert str(refusal_of(reviewer, None).hint).endswith("its input has no fields")


def test_a_field_that_does_not_fit_is_told() -> None:
    def reviewer(prompt: str, limit: int): ...

    assert (
        refusal_of(reviewer, {"limit": "3"}).message
        == "agent 'reviewer' expects a whole number for 'limit', got text '3'"
    )


def test_without_a_schema_a_reply_stays_what_it_is() -> None:
    opaque = object()
    for value in ('{"a": 1}', "```json\n{}\n```", None, 3, opaque):
        assert check_reply(value, None, {}) is value


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(GOOD),
        "\n  " + json.dumps(GOOD) + "\n\n",
        "```json\n" + json.dumps(GOOD, indent=2) + "\n```",
        "```\n" + json.dumps(GOOD) + "\n```\n",
        "```JSON \r\n" + json.dumps(GOOD) + "\r\n```",
        "  ```json\n" + json.dumps(GOOD) + "\n  ```  ",
    ],
)
def test_under_a_schema_a_text_is_read_as_json_with_or_without_a_fence(text: str) -> None:
    assert check_reply(text, REVIEW, {}) == GOOD


def test_under_a_schema_a_json_value_is_taken_as_it_is() -> None:
    assert check_reply(GOOD, REVIEW, {}) == GOOD


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "expecting value at line 1, column 1"),
        ("looks fine", "expecting value at line 1, column 1"),
        ('{"passed": true} and more', "extra data at line 1, column 18"),
        ('Here:\n```json\n{"passed": true}\n```', "expecting value at line 1, column 1"),
        ('{"passed": true, "n": NaN}', "a number in it is not finite"),
        ('{"passed": true, "n": -Infinity}', "a number in it is not finite"),
        ('{"passed": true, "n": 1e999}', "a number in it is not finite"),
        ('{"passed": true, "n": ' + "9" * 5000 + "}", "a number in it is too long"),
        ("[" * 100_000, "it is nested too deep"),
        ("[" * 300 + "]" * 300, "it is nested too deep"),
    ],
)
def test_a_reply_that_is_not_json_fails_and_is_shown(text: str, why: str) -> None:
    with pytest.raises(StepError) as caught:
        check_reply(text, REVIEW, {})
    problem = caught.value.diagnostic
    assert (problem.code, problem.message) == ("agent.reply-not-json", f"the reply is not JSON: {why}")
    assert str(problem.hint).startswith("it was: " + (text.strip()[:20] or "empty text"))
    assert len(str(problem.hint)) < 400


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("{}", "passed: is required"),
        (
            '{"passed": "yes", "notes": 3}',
            "passed: needs true or false, not text 'yes'; notes: needs text, not the number 3",
        ),
        ("[]", "needs an object, not a list"),
        ("null", "needs an object, not null"),
        (None, "needs an object, not null"),
        (object(), "needs an object, not an opaque object"),
    ],
)
def test_a_reply_that_does_not_conform_fails_with_every_reason(value: Any, why: str) -> None:
    with pytest.raises(StepError) as caught:
        check_reply(value, REVIEW, {})
    problem = caught.value.diagnostic
    assert (problem.code, problem.message) == ("agent.reply-schema", f"the reply does not conform to 'Review': {why}")
    assert str(problem.hint).startswith("it was: ")


def test_a_reply_may_refer_to_other_schemas() -> None:
    outer = Schema("UserCallable", {"review": Field(kind="ref", schema="Review", required=True)})
    assert check_reply(json.dumps({"review": GOOD}), outer, {"Review": REVIEW}) == {"review": GOOD}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), json_values, max_size=4), st.sampled_from(["", "json", "JSON5"]), st.booleans())
def test_a_fence_changes_nothing(value: dict[str, Any], language: str, indented: bool) -> None:
    anything = Schema("Anything", {})
    text = json.dumps(value, indent=2 if indented else None)
    assert check_reply(text, anything, {}) == check_reply(f"```{language}\n{text}\n```", anything, {}) == value
