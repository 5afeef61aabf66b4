"""Loading of pipeline documents: the flow of a text, or all its errors. The rows are the rules of the language."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.flow.expressions import Constant, NamedArguments
from agf_magics.flow.flow import Definition
from agf_magics.flow.protocols import Expr, FlowInput
from agf_magics.flow.step import Step
from agf_magics.flow.steps import WIDTH, Branches, Choose, Compute, Each, Fold, Invoke, every
from agf_magics.languages import LANGUAGES
from agf_magics.languages.keys import Takes
from agf_magics.languages.pipeline import document_schema, takes
from agf_magics.languages.pipeline.r1 import R1
from agf_magics.languages.pipeline.r1.functions import FUNCTIONS
from agf_magics.languages.pipeline.schema_documents import TYPES
from agf_magics.languages.pipeline.template import Template
from agf_magics.languages.pipeline.values import Command, Named, labels
from agf_magics.languages.pipeline.words import DOCUMENTS, FIELD_TYPES, STEPS
from agf_magics.text.yaml.nodes import plain
from tests.languages.loading import as_vectors, load, nodes

VECTORS = Path(__file__).parents[1] / "vectors" / "pipeline_documents.json"
ROWS = json.loads(VECTORS.read_text("utf-8"))["rows"]
SCHEMA = Path(__file__).parents[2] / "docs" / "pipeline.schema.json"


def flow_of(*steps: str) -> agf.Flow:
    """The flow of a pipeline with these steps."""
    definition, problems = load("pipeline", "pipeline: p\nsteps:\n" + "".join(f"  - {step}\n" for step in steps))
    assert definition.flow is not None, problems
    return definition.flow


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_documents(row: dict[str, Any]) -> None:
    definition, problems = load("pipeline", row["text"])
    as_row: dict[str, Any] = {"id": row["id"], "text": row["text"], **as_vectors(problems, "error", "warning")}
    if "errors" not in as_row:
        as_row["ok"] = normal(definition)
    assert as_row == row


def normal(definition: Definition) -> dict[str, Any]:
    """A definition as data, with the defaults filled in."""
    flow, result = definition.flow, dict[str, Any]()
    if flow is not None:
        steps = [step_of(step) for step in flow.body.steps]
        result = {"name": flow.name, "description": flow.declared.description, "steps": steps}
    if definition.schemas:
        result["schemas"] = list(definition.schemas)
    return result


def step_of(step: Step) -> dict[str, Any]:
    if isinstance(step, Branches) and step.word != "parallel":  # a call with an on_error
        (call,) = step.branches.values()
        return step_of(call) | {"on_error": policy_of(step)} | output_of(step)
    fields = {"kind": step.word, **SHAPES[type(step)](step), **output_of(step)}
    return fields | ({"title": step.title} if step.title else {})


def output_of(step: Step) -> dict[str, str]:
    stores = [ref.path[1] for ref in step.target.writes() if ref.path[0] == "ctx"] if step.target else []
    return {"output": stores[0]} if stores else {}


def invoke(step: Invoke) -> dict[str, Any]:
    assert isinstance(step.args, NamedArguments)
    arguments = {name.text: text_of(expr) for name, expr in step.args.values}
    if step.word == "call":
        return {"pipeline": step.name.text, "pass": arguments}
    fields: dict[str, Any] = dict(arguments) if step.word != "tool" else {"name": step.name.text, "args": arguments}
    if step.word == "agent":
        fields["identity"] = step.name.text
        fields |= {"model": step.asking.model} if step.asking.model else {}
        fields["tools"] = None if step.tools is None else [name.text for name in step.tools]
    if step.gives is not None:
        fields["schema"] = step.gives.text
    return fields


def text_of(expr: Expr) -> Any:
    match expr:
        case Constant():
            return expr.value
        case Command():
            return text_of(expr.expr)
        case Named():
            return {"$name": ".".join(expr.path)}
        case Template():
            return "".join(part if isinstance(part, str) else part.written for part in expr.parts)
        case R1():
            return {"$expr": expr.text}
    raise AssertionError(expr)


def source_of(over: Expr) -> Any:
    return "pipe" if isinstance(over, Named) else text_of(over)


def policy_of(step: Each | Branches) -> str:
    on_error, retries, wait, _ = step.failing
    pause = f", wait: {wait:g}s" if wait else ""
    again = f"retry({retries}{pause})" if retries else ""
    return (again and on_error == "continue" and f"{again}, then continue") or again or on_error


def choose(step: Choose) -> dict[str, Any]:
    cases = {label: step_of(case) for label, case in step.cases.items()}
    return {"on": text_of(step.pick), "cases": cases, "default": step_of(step.default) if step.default else None}


def each(step: Each) -> dict[str, Any]:
    steps = {"do": step_of(step.body), "collect": step_of(step.collect)}
    return {"over": source_of(step.over), "max_parallel": step.limit or WIDTH, "on_error": policy_of(step), **steps}


def fold(step: Fold) -> dict[str, Any]:
    fields = {"over": source_of(step.over), "init": text_of(step.init), "do": step_of(step.body)}
    return {**fields, "max_items": step.most}


def branches(step: Branches) -> dict[str, Any]:
    steps = {name: step_of(branch) for name, branch in step.branches.items()}
    return {"on_error": policy_of(step), "branches": steps, "collect": step_of(step.collect)}


SHAPES: dict[type[Step], Any] = {
    Invoke: invoke,
    Compute: lambda step: {"value": text_of(step.value)},
    Choose: choose,
    Each: each,
    Fold: fold,
    Branches: branches,
}


# --- the JSON Schema for editors ---

SHAPE = {
    *(
        f"pipeline.{problem}"
        for problem in ("unknown-key", "missing-key", "wrong-type", "step-shape", "step-kind", "blank-name")
    ),
    *(f"pipeline.{problem}" for problem in ("over-and-items", "on-error", "count", "not-supported", "document-kind")),
    *(
        f"schema.{problem}"
        for problem in ("unknown-key", "missing-key", "type-shape", "unknown-type", "fields", "values")
    ),
    "pipeline.document-shape",
}
"""The error codes that a JSON Schema can find as well as the loader."""


def test_the_json_schema_in_docs_is_the_one_the_tables_make() -> None:
    assert json.loads(SCHEMA.read_text("utf-8")) == document_schema()


def test_the_json_schema_and_the_loader_agree() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft202012Validator.check_schema(document_schema())
    accepts = jsonschema.Draft202012Validator(document_schema()).is_valid
    for row in ROWS:
        documents, problems = nodes(row["text"])
        if problems.errors:
            continue
        codes = {error["code"] for error in row.get("errors", ())}
        if not codes:
            assert all(accepts(plain(node)) for node in documents), row["id"]
        # For JSON Schema, 2.0 is an integer and no value is null.
        elif codes & SHAPE and row["id"] not in ("max-parallel-float", "over-without-a-value"):
            assert not all(accepts(plain(node)) for node in documents), row["id"]


def test_every_kind_of_value_has_a_phrase_an_example_and_a_json_schema() -> None:
    taken = [key.takes for kind in (*STEPS.values(), *DOCUMENTS.values(), takes.TARGET) for key in kind.keys.values()]
    rows = {name: row for name, row in vars(takes).items() if isinstance(row, Takes)}
    assert [name for name, row in rows.items() if not any(row is value for value in taken)] == []
    assert set(FIELD_TYPES) == set(TYPES)
    assert all(row.says and row.example and row.word for row in taken)
    assert set(LANGUAGES["pipeline"].functions) == set(FUNCTIONS)


# --- the labels of values ---

FRAME = {"ctx": {"doc": "d"}, "pipe": "before"}


def test_the_labels_of_values_that_are_not_json_name_their_type() -> None:
    assert labels(object()) == ("an opaque object",)
    assert labels([float("nan")]) == ("[nan]",)


# --- the arguments of a call ---


def args_of(step: str) -> Any:
    (invoke,) = flow_of(step).body.steps
    assert isinstance(invoke, Invoke)
    return invoke.args


def test_a_listed_name_that_is_missing_is_reported_at_its_place() -> None:
    with pytest.raises(agf.StepError) as raised:
        args_of("call: {pipeline: q, pass: [doc, zz]}").build(FRAME)
    diagnostic = raised.value.diagnostic
    assert (diagnostic.code, diagnostic.span and diagnostic.span.text, diagnostic.hint) == (
        "pipeline.pass",
        "zz",
        "the stores here are doc",
    )


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        ("'ls'", "text"),
        ("ctx", "an object"),
        ("[]", "[]"),
        ("['ls', 1]", "a list with a number"),
        ("['ls', null, 1]", "a list with null"),
    ],
)
def test_a_command_that_an_expression_gives_is_a_list_of_texts(value: str, kind: str) -> None:
    with pytest.raises(agf.StepError) as raised:
        args_of(f'shell: {{command: !expr "{value}"}}').build(FRAME)
    assert raised.value.code == "pipeline.command"
    assert raised.value.diagnostic.message == f"a command is a list of texts, not {kind}"
    assert args_of("shell: {command: !expr \"['ls', ctx.doc]\"}").build(FRAME) == {"command": ["ls", "d"]}


# --- a flow's beginning and end ---


def test_the_input_becomes_the_stores() -> None:
    flow, fields = flow_of("transform: {value: pipe}"), {"doc": "d"}
    frame = flow.start(FlowInput(fields, "caller's"))
    assert frame == {"ctx": {"doc": "d"}, "pipe": "caller's"}
    assert frame["ctx"] is not fields
    assert flow.start(FlowInput()) == {"ctx": {}, "pipe": None}
    assert flow.end(frame)[:2] == ("caller's", {"doc": "d"})


@pytest.mark.parametrize("odd_input", [[1], "text", {1: 2}])
def test_an_input_that_names_nothing_is_refused(odd_input: Any) -> None:
    with pytest.raises(agf.StepError) as raised:
        flow_of("transform: {value: pipe}").start(FlowInput(odd_input))
    assert raised.value.code == "pipeline.input"


# --- places ---


def test_the_id_of_a_step_is_its_place() -> None:
    flow = flow_of(
        "for_each: {on_error: abort, do: {call: {pipeline: q}}, collect: {transform: {value: pipe}}}",
        "parallel: {branches: {x.y: {transform: {value: '1'}}, b: {shell: {command: ls}}}, collect: {tool: {name: t}}}",
        "match: {on: pipe, cases: {'True': {pipeline: q}, 'not so': {pipeline: r}}, default: {pipeline: s}}",
    )
    assert [(step.id, step.word, step.label) for step in every(flow.body)] == [
        ("steps", "pipeline", "p"),
        ("steps[0]", "for_each", "pipe"),
        ("steps[0].do", "call", "q"),
        ("steps[0].collect", "transform", "pipe"),
        ("steps[1]", "parallel", "x.y, b"),
        ('steps[1].branches["x.y"]', "transform", "1"),
        ("steps[1].branches.b", "shell", "ls"),
        ("steps[1].collect", "tool", "t"),
        ("steps[2]", "match", "pipe"),
        ("steps[2].cases.True", "call", "q"),
        ('steps[2].cases["not so"]', "call", "r"),
        ("steps[2].default", "call", "s"),
    ]


def test_a_step_points_at_its_own_word() -> None:
    flow = flow_of("transform: {value: '1'}", "fold: {items: [], init: '0', do: {tool: {name: t}}, output: o}")
    assert [step.span and step.span.text for step in every(flow.body)] == ["p", "transform", "fold", "tool"]


def test_nothing_wrong_ever_hides_what_else_is_wrong() -> None:
    steps = [f"  - transform: {{value: 'ctx.a +', outputs: s{n}}}\n" for n in range(50)]
    _, problems = load("pipeline", "pipeline: p\nsteps:\n" + "".join(steps))
    assert [d.code for d in problems] == ["r1.syntax", "pipeline.unknown-key"] * 50
