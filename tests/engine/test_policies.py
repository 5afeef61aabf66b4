"""Policies on the engine, in cases that vector rows cannot describe: failures, batches, agents, and definitions as
agents."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any, TypedDict

import pytest

import agf_magics as agf
from agf_magics.lifecycle.definitions.checking import check_definition
from agf_magics.text.source import Source
from tests.engine.policy_case import definition, echo, failure, registry_of, run, sequential
from tests.engine.virtual_time import run_virtual


class Draft(TypedDict):
    draft: str


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with chdir(tmp_path):
        yield tmp_path


# --- failures ---


def test_when_a_parallel_agent_fails_the_others_end_first() -> None:
    ended: list[str] = []

    async def slow(fields):  # type: ignore[no-untyped-def]
        await asyncio.sleep(1)
        ended.append("slow")
        return "done"

    def bad(fields):  # type: ignore[no-untyped-def]
        raise ValueError("no")

    text = "id: agf.parallel\nconfig: {agents: [{agent: bad}, {agent: slow}, {agent: worse}]}\n"
    error = failure(text, registry=registry_of(bad=bad, slow=slow, worse=bad))
    assert ended == ["slow"]
    assert [(d.code, d.span and d.span.text) for d in error.diagnostics] == [
        ("step.agent-failed", "bad"),
        ("step.agent-failed", "worse"),
    ]
    assert error.partial == {"slow": "done"}
    assert isinstance(error.__cause__, (ValueError, agf.StepError))


def test_a_batch_runs_every_item_and_names_those_that_failed() -> None:
    calls: list[int] = []

    def divide(fields):  # type: ignore[no-untyped-def]
        calls.append(fields["n"])
        return 10 // fields["n"]

    text = "id: agf.batch\nconfig: {agent: divide, input_mapping: {n: 'parent.input.rows.[]'}}\n"
    error = failure(text, {"rows": [5, 0, 2, 0]}, registry=registry_of(divide=divide))
    assert sorted(calls) == [0, 0, 2, 5]
    assert [d.message.split(":")[0] for d in error.diagnostics] == ["element 1", "element 3"]
    assert error.partial == {0: 2, 2: 5}
    assert error.where == "agent#1"


def test_a_failed_sequence_and_a_failed_round_keep_what_was_done() -> None:
    def bad(fields):  # type: ignore[no-untyped-def]
        raise ValueError("no")

    registry = registry_of(a=lambda fields: "one", bad=bad)
    assert failure(sequential("a", "bad"), registry=registry).partial == {"a": "one"}
    loop = "id: agf.loop\nconfig: {steps: [{agent: a}, {agent: bad}]}\n"
    error = failure(loop, registry=registry)
    assert (error.partial, error.where) == ({"a": "one"}, "steps[1]#0")


def test_a_failing_transform_fails_the_policy() -> None:
    registry = registry_of(a=echo)
    agf.transform(lambda outputs: 1 / 0, name="o.bad", registry=registry)
    text = "id: agf.sequential\nconfig: {steps: [{agent: a}], output_from: {custom_transform: o.bad}}\n"
    error = failure(text, registry=registry)
    assert (error.code, error.partial) == ("step.transform-failed", {"a": {}})


def test_a_transform_may_be_async_and_cannot_change_what_it_is_given() -> None:
    registry = registry_of(a=lambda fields: [1])

    @agf.transform("o.count", registry=registry)
    async def count(outputs: dict[str, list[int]]) -> int:
        await asyncio.sleep(1)
        outputs["a"].append(2)
        return len(outputs["a"])

    ended = run(
        "id: agf.parallel\nconfig: {agents: [{agent: a}], output_from: {custom_transform: o.count}}\n",
        registry=registry,
    )
    assert ended.output == 2
    assert ended.steps["agents"].value == 2
    assert dict(ended.stores) == {"a": [1]}


# --- batches ---


def test_a_batch_leaves_out_what_is_over_its_bound_and_says_so() -> None:
    text = "id: agf.batch\nconfig: {agent: a, input_mapping: {n: 'parent.input.rows.[]'}, max_batch_count: 2}\n"
    ended = run(text, {"rows": [1, 2, 3]}, registry=registry_of(a=lambda fields: fields["n"]))
    assert ended.output == [1, 2]
    assert [(d.code, d.span and d.span.text) for d in ended.warnings] == [("policy.batch-truncated", "max_batch_count")]
    exact = run(text, {"rows": [1, 2]}, registry=registry_of(a=lambda fields: fields["n"]))
    assert (exact.output, exact.warnings) == ([1, 2], ())
    assert run(text, {"rows": []}, registry=registry_of(a=echo)).output == []


def test_at_most_eight_items_of_a_batch_run_at_once() -> None:
    live = most = 0

    async def count(fields):  # type: ignore[no-untyped-def]
        nonlocal live, most
        live += 1
        most = max(most, live)
        await asyncio.sleep(1)
        live -= 1
        return fields["n"]

    text = "id: agf.batch\nconfig: {agent: a, input_mapping: {n: 'parent.input.rows.[]'}}\n"
    ended = run(text, {"rows": list(range(20))}, registry=registry_of(a=count))
    assert (ended.output, most) == (list(range(20)), 8)


# --- agents ---


def test_an_agent_may_ask_for_the_prompt_and_the_whole_input() -> None:
    inputs: list[Any] = []

    def answer(prompt, input, identity):  # type: ignore[no-untyped-def]
        inputs.append((prompt, input, identity))
        return "ok"

    registry = registry_of(a=answer)  # type: ignore[arg-type]
    run(sequential("a"), {"question": "why?"}, registry=registry)
    run(sequential("a"), {"n": 1, "m": 2}, registry=registry)
    run(sequential("a"), {"prompt": "say", "m": 2}, registry=registry)
    assert inputs == [
        ("why?", {"question": "why?"}, "a"),
        ('{"n":1,"m":2}', {"n": 1, "m": 2}, "a"),
        ("say", {"prompt": "say", "m": 2}, "a"),
    ]


def test_an_agent_named_user_is_not_the_user() -> None:
    with pytest.raises(agf.DefinitionError) as caught:
        run(sequential("user"), registry=registry_of(a=echo))
    assert caught.value.code == "flow.unknown-agent"


def test_a_dry_run_passes_on_what_the_definition_reads() -> None:
    def chosen(rows: list, kind: str):  # type: ignore[no-untyped-def]
        raise AssertionError("a dry run does not call this")

    def report(names: list, count: int, draft: Draft) -> str:
        raise AssertionError("a dry run does not call this")

    registry = agf.Registry()
    agf.agent(chosen, registry=registry)
    agf.agent(report, registry=registry)
    agf.agent(echo, name="inner", registry=registry)
    first = "{agent: chosen, input_mapping: {rows: parent.input.r, kind: parent.input.k}}"
    mapping = "{names: chosen.output.a.names, count: chosen.output.a.n, draft: chosen.output.draft}"
    when = "exit_condition: {args_match: {chosen.output.good: true}}"
    steps = f"[{first}, {{agent: report, input_mapping: {mapping}}}]"
    text = f"id: agf.loop\nconfig: {{steps: {steps}, max_iterations: 2, {when}, output_from: chosen}}\n"
    ended = run(text, {"r": [], "k": "x"}, registry=registry, dry=True)
    assert ended.output == {"a": {"names": ["text"], "n": 1}, "draft": {"draft": "text"}, "good": "text"}


# --- other definitions ---


def test_an_agents_source_is_another_definition_beside_the_one_that_names_it(folder: Path) -> None:
    inner = folder / "inner"
    inner.mkdir()
    (inner / "deep.agf.yaml").write_text(
        definition(sequential("leaf"), "{alias: leaf, source: x, source_type: kernel}", "deep")
    )
    (inner / "mid.agf.yaml").write_text(definition(sequential("deep"), "{alias: deep, source: deep.agf.yaml}", "mid"))
    (folder / "top.agf.yaml").write_text(
        definition(sequential("mid"), "{alias: mid, source: inner/mid.agf.yaml}", "top")
    )
    ended = run(Path("top.agf.yaml"), {"n": 1}, registry=registry_of(leaf=lambda fields: fields["n"] + 1))
    assert ended.output == 2
    assert "steps[0]/steps[0]/steps[0]" in ended.steps


def test_an_agent_may_be_a_pipeline_of_a_file(folder: Path) -> None:
    (folder / "p.yaml").write_text("pipeline: p\nsteps:\n- transform: {value: ctx.n + 1}\n")
    text = definition(sequential("p"), "{alias: p, source: p.yaml}")
    assert run(text, {"n": 1}, registry=agf.Registry()).output == 2


def test_definitions_that_run_each_other_are_refused_before_the_first_step(folder: Path) -> None:
    for caller, callee in (("a", "b"), ("b", "a")):
        (folder / f"{caller}.agf.yaml").write_text(
            definition(sequential(callee), f"{{alias: {callee}, source: {callee}.agf.yaml}}", caller)
        )
    with pytest.raises(agf.DefinitionError) as caught:
        run(Path("a.agf.yaml"), registry=agf.Registry())
    assert caught.value.code == "flow.call-cycle"


@pytest.mark.parametrize(("source", "code"), [("none.agf.yaml", "file.missing"), ("../x.agf.yaml", "file.outside")])
def test_a_missing_source_refuses_the_run(folder: Path, source: str, code: str) -> None:
    flow = agf.load(definition(sequential("a"), f"{{alias: a, source: {source}}}"), registry=agf.Registry())
    with pytest.raises(agf.DefinitionError) as caught:
        run_virtual(agf.arun(flow, {}, registry=agf.Registry()))
    assert caught.value.code == code


def test_a_registered_agent_goes_before_the_source_with_a_note(folder: Path) -> None:
    text, registry = definition(sequential("a"), "{alias: a, source: none.agf.yaml}"), registry_of(a=lambda fields: 1)
    ended = run(text, registry=registry)
    assert ended.output == 1
    assert not ended.warnings
    (note,) = check_definition(Source("test", text), "policy", strict=True, registry=registry).problems
    assert (note.code, note.severity, note.span and note.span.text) == (
        "flow.registered-instead", "note", "none.agf.yaml",
    )  # fmt: skip


def test_a_registered_policy_is_an_agent_of_another_with_its_interface_as_schema() -> None:
    registry = registry_of(leaf=lambda fields: {"out": fields["n"]})
    takes = (
        "interface: {input: {type: object, required: [n], properties: {n: {type: integer}}}, output: {type: object}}\n"
    )
    agf.define(
        definition(sequential("leaf"), "{alias: leaf, source: x, source_type: kernel}", "inner", takes),
        registry=registry,
    )
    steps = "[{agent: inner, input_mapping: {n: parent.input.m}}]"
    text = f"id: agf.sequential\nconfig: {{steps: {steps}}}\n"
    assert run(text, {"m": 1}, registry=registry).output == {"out": 1}
    assert failure(text, {"m": "1"}, registry=registry).code == "policy.type-mismatch"
    with pytest.raises(agf.DefinitionError, match=r"needs 'm', which the input lacks \[run\.missing-input\]"):
        run(text, {}, registry=registry)


def test_an_undeclared_field_of_an_output_is_read_with_a_warning() -> None:
    def writer(fields) -> Draft:  # type: ignore[no-untyped-def]
        return {"draft": "x", "extra": 1}  # type: ignore[typeddict-unknown-key]

    registry = agf.Registry()
    agf.agent(writer, registry=registry, where="loop")
    agf.agent(echo, name="echo", registry=registry, where="loop")
    second = "{agent: echo, input_mapping: {a: writer.output.draft, b: writer.output.extra}}"
    text = f"id: agf.sequential\nconfig: {{steps: [{{agent: writer}}, {second}]}}\n"
    ended = run(text, registry=registry)
    assert ended.output == {"a": "x", "b": 1}
    assert [(d.code, d.span and d.span.text) for d in ended.warnings] == [("flow.unknown-field-read", "extra")]


def test_a_pipeline_may_call_a_policy_and_name_one_as_identity() -> None:
    registry = registry_of(a=lambda fields: [fields])
    policy = "id: agf.sequential\nconfig: {steps: [{agent: a}]}\n"
    agf.define(policy, name="ask", registry=registry)
    call = "pipeline: p\nsteps:\n- call: {pipeline: ask, pass: [n]}\n"
    assert run(call, {"n": 1}, registry=registry).output == [{"n": 1}]
    agent = "pipeline: q\nsteps:\n- agent: {identity: ask, prompt: 'how {ctx.n}?'}\n"
    ended = run(agent, {"n": 1}, registry=registry)
    assert ended.status == "ok"
    assert len(ended.output) == 1


def test_input_and_output_are_checked_against_the_interface() -> None:
    agents = "{alias: a, source: x, source_type: kernel}"
    takes = "interface: {input: {type: object, required: [n]}, output: {type: string}}\n"
    text = definition(sequential("a"), agents, interface=takes)
    calls: list[Any] = []

    def note(fields):  # type: ignore[no-untyped-def]
        calls.append(fields)
        return fields["n"]

    registry = registry_of(a=note)
    error = failure(text, {"m": 1}, registry=registry)
    assert (error.code, calls) == ("policy.invalid-input", [])
    error = failure(text, {"n": 1}, registry=registry)
    assert (error.code, error.partial) == ("policy.invalid-output", {"a": 1})
    assert run(text, {"n": "x"}, registry=registry).output == "x"


ROUTES = """\
id: agf.conditional
config:
  routes:
  - {when: {args_match: {parent.input.n: 1}}, agent: a}
  - {when: {args_match: {parent.input.n: 1}}, agent: b}
  - {when: {args_match: {parent.input.n: 2}}, agent: b}
  default_agent: c
"""
BATCH = "id: agf.batch\nconfig: {agent: b, input_mapping: {x: 'parent.input.xs.[]'}}\n"


@pytest.mark.parametrize(
    ("text", "fields", "stores"),
    [
        (ROUTES, {"n": 1}, {"a": "a"}),
        (ROUTES, {"n": 2}, {"b": "b"}),
        (ROUTES, {"n": 3}, {"c": "c"}),
        (BATCH, {"xs": [1, 2]}, {"b": ["b", "b"]}),
        (BATCH, {"xs": []}, {"b": []}),
    ],
)
def test_the_output_of_a_routed_or_batched_agent_is_stored_under_its_alias(
    text: str, fields: Any, stores: dict[str, Any]
) -> None:
    registry = agf.Registry()
    for name in "abc":
        agf.agent(functools.partial(lambda name, input: name, name), name=name, registry=registry)
    run = agf.run(text, fields, registry=registry)
    assert run.stores == stores
    assert run.output == next(iter(stores.values()))


def test_a_field_that_its_agent_does_not_take_is_warned_about_and_left_out() -> None:
    def writer(topic: str, tone: str = "dry", **rest: str) -> str:
        return f"{topic}, {tone}"

    def editor(prompt: str, draft: str, tone: str = "dry") -> str:
        return f"{draft}, {tone}"

    registry = agf.Registry()
    agf.agent(writer, registry=registry, where="loop")
    agf.agent(editor, registry=registry, where="loop")
    first = "{agent: writer, input_mapping: {topic: parent.input.t, anything: parent.input.t}}"
    second = "{agent: editor, input_mapping: {prompt: parent.input.t, draft: parent.input.t, tnoe: parent.input.t}}"
    ended = run(f"id: agf.sequential\nconfig: {{steps: [{first}, {second}]}}\n", {"t": "x"}, registry=registry)
    assert ended.output == "x, dry"
    assert [(d.code, d.span and d.span.text) for d in ended.warnings] == [("flow.unknown-field-given", "tnoe")]


def test_a_misspelt_required_field_is_reported_at_its_name() -> None:
    def writer(size: int, topic: str) -> str:
        return topic

    registry = agf.Registry()
    agf.agent(writer, registry=registry, where="loop")
    step = "{agent: writer, input_mapping: {size: parent.input.n, topik: parent.input.t}}"
    error = failure(f"id: agf.sequential\nconfig: {{steps: [{step}]}}\n", {"t": "x", "n": 1}, registry=registry)
    assert (error.code, error.diagnostic.span and error.diagnostic.span.text) == ("policy.missing-value", "topik")
    assert error.diagnostic.hint == "did you mean topic instead of topik?"


@pytest.mark.parametrize(("more", "warned"), [("", True), (", additionalProperties: {}", False)])
def test_an_agent_with_keyword_arguments_gets_every_field_without_a_warning(more: str, warned: bool) -> None:
    registry = agf.Registry()
    agf.agent(lambda q: q, name="echo", registry=registry, where="loop")
    head = 'schema_version: "1.0.0"\nmetadata: {id: sub, name: sub, version: "1.0.0", description: d}\n'
    takes = f"interface: {{input: {{type: object, properties: {{q: {{type: string}}}}{more}}}, output: {{}}}}\n"
    step = "{agent: echo, input_mapping: {q: parent.input.q}}"
    body = f"execution_policy: {{id: agf.sequential, config: {{steps: [{step}]}}}}\n"
    agf.define(head + takes + body, "policy", registry=registry)
    step = "{agent: sub, input_mapping: {q: parent.input.q, more: parent.input.q}}"
    ended = run(f"id: agf.sequential\nconfig: {{steps: [{step}]}}\n", {"q": "x"}, registry=registry)
    assert ("flow.unknown-field-given" in [d.code for d in ended.warnings]) is warned


def test_a_field_that_an_agent_takes_is_not_taken_for_a_misspelling() -> None:
    def writer(topics: str, topic: str) -> str:
        return topic

    registry = agf.Registry()
    agf.agent(writer, registry=registry, where="loop")
    step = "{agent: writer, input_mapping: {topics: parent.input.t}}"
    error = failure(f"id: agf.sequential\nconfig: {{steps: [{step}]}}\n", {"t": "x"}, registry=registry)
    assert (error.code, error.diagnostic.hint) == ("policy.missing-value", "add topic: PATH to the input_mapping")
