"""Regular expressions from outside: which are refused, at which place, and what happens without RE2."""

from __future__ import annotations

import subprocess
import sys
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

import agf_magics as agf
from agf_magics.languages.policy.document import schema as policy_schema
from agf_magics.schemas.patterns import (
    LONGEST_PATTERN,
    BadPattern,
    our_patterns,
    pattern_faults,
    schema_patterns,
    searcher,
)


@pytest.mark.parametrize(
    ("pattern", "text", "is_found"),
    [("b+", "abbc", True), ("^b", "a\nb", False), ("b$", "b\n", False), ("é.\\pL", "xé☃ß", True), ("\\w", "é", False),
     ("a", "\ud800a", True), ("^.$", "\ud800", True), ("a\0b", "a\0b", True), ("(?i)É", "é", True), ("", "", True)],
)  # fmt: skip
def test_a_pattern_is_searched_for(pattern: str, text: str, is_found: bool) -> None:
    assert searcher(pattern)(text) is is_found


@pytest.mark.parametrize(
    ("pattern", "part"),
    [("a(b", "(b"), ("((a)b(c", "(c"), ("A[b", "[b"), ("é(?!b)", "(?!"), (r"(a)\1", r"\1"), ("x{1001}", "{1001}"),
     ("a**", "**"), ("\ud800x", "\ud800"), ("a" * (LONGEST_PATTERN + 1), "a"), (r"(\pL{10}){99}(\pL{10}){99}", None)],
)  # fmt: skip
def test_a_pattern_that_is_not_supported_is_refused_at_its_part(pattern: str, part: str | None) -> None:
    with pytest.raises(BadPattern) as raised:
        searcher(pattern)
    assert pattern[raised.value.start : raised.value.end] == (pattern if part is None else part)


def test_the_reason_why_a_pattern_is_refused_stands_in_the_error_alone(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(BadPattern):
        searcher("(?=quiet)")
    assert capfd.readouterr() == ("", "")


def test_every_pattern_of_a_schema_is_checked_and_no_data_is() -> None:
    bad = {"pattern": "("}
    schema: dict[str, Any] = {
        "properties": {"pattern": bad, "a": {"items": bad, "prefixItems": [bad]}, "const": {"not": bad}},
        "patternProperties": {"[": bad}, "anyOf": [True, bad], "$defs": {"x": {"if": bad, "then": bad, "else": bad}},
        "dependentSchemas": {"a": bad}, "propertyNames": bad, "additionalProperties": bad, "contains": bad,
        "const": bad, "enum": [bad], "default": bad, "examples": [bad],
    }  # fmt: skip
    paths = [".".join(map(str, fault.path)) for fault in pattern_faults(schema)]
    assert sorted(paths) == sorted([
        "properties.pattern.pattern", "properties.a.items.pattern", "properties.a.prefixItems.0.pattern",
        "properties.const.not.pattern", "patternProperties.[", "patternProperties.[.pattern", "anyOf.1.pattern",
        "$defs.x.if.pattern", "$defs.x.then.pattern", "$defs.x.else.pattern", "dependentSchemas.a.pattern",
        "propertyNames.pattern", "additionalProperties.pattern", "contains.pattern",
    ])  # fmt: skip


def test_a_models_schema_is_refused_when_it_is_registered() -> None:
    registry = agf.Registry()
    with pytest.raises(agf.DefinitionError, match="model_agent 'coder'") as raised:
        agf.model_agent("coder", gives={"items": {"pattern": "(?=a)"}}, registry=registry)
    assert raised.value.code == "schema.pattern"
    assert not registry.agents


class Code(BaseModel):
    model_config = ConfigDict(regex_engine="python-re")
    word: Annotated[str, Field(pattern="^(?!x)")]


def test_a_tools_annotation_is_refused_before_a_run() -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def check(code: Code) -> str:
        raise AssertionError("it is not called")

    flow = agf.load("pipeline: p\nsteps: [{tool: {name: check, args: {code: {word: x}}}}]\n", "pipeline")
    with pytest.raises(agf.AgfError) as raised:
        agf.run(flow, registry=registry)
    assert raised.value.code == "schema.pattern"
    assert raised.value.diagnostic.span.text == "check"


def test_without_re2_every_pattern_is_refused() -> None:
    code = """
import sys
sys.modules["re2"] = None
import agf_magics as agf
from agf_magics.schemas.json_schema import judge
text = "name: p\\ntools: {a: {_outputPath: {pattern: '^a'}}}\\ncalls: [{_tool: a, _output: 1, _outputPath: †state.a}]"
try:
    agf.load(text, "plan")
except agf.AgfError as error:
    print(error.code, "google-re2" in str(error))
print(judge({"pattern": "a"})("b")[0].keyword)
try:
    agf.load('schema_version: "1.0.0"\\nmetadata: {}', "policy")
except agf.AgfError as error:
    print(error.code)
"""
    completed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert completed.stdout.split() == ["plan.bad-pattern", "True", "unusable", "policy.schema"], completed.stderr


def test_a_browser_without_re2_checks_our_own_schema() -> None:
    """The patterns of the schema of policies are safe for `re`, and `re` and RE2 agree on them."""
    schema_patterns_now = {pattern for _, pattern in schema_patterns(policy_schema())}
    assert schema_patterns_now == set(our_patterns())
    for pattern, patterns_of_package in our_patterns().items():
        for text in ("", "a", "a_b", "A1", "1.2.3", "a.b", "a-b", "-a", "a\n", "1.2.3\n", "é", "a b"):
            assert (patterns_of_package.fullmatch(text) is not None) == searcher(pattern)(text), (pattern, text)
