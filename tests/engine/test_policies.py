"""Policies on the engine: what a row cannot say. Files, approvals, limits, failures, vendors, other languages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from contextlib import chdir
from pathlib import Path
from typing import Any, TypedDict

import pytest

import agf_magics as agf
from agf_magics.engine.events import Question
from agf_magics.engine.host import Nobody
from agf_magics.flow.steps import Invoke, Name
from agf_magics.languages.policy.values import Whole
from agf_magics.text.source import Source
from tests.engine.policy_case import Script
from tests.engine.virtual_time import run_virtual

HEAD = """schema_version: "1.0.0"
metadata: {id: t, name: T, version: "1.0.0", description: a test}
"""
OPEN = "interface: {input: {}, output: {}}\n"

Agent = Callable[[Any], Any]


def sequential(*aliases: str) -> str:
    steps = ", ".join(f"{{agent: {alias}}}" for alias in aliases)
    return f"execution_policy: {{id: agf.sequential, config: {{steps: [{steps}]}}}}\n"


def registry_of(**agents: Agent) -> agf.Registry:
    registry = agf.Registry()
    for name, function in agents.items():
        agf.agent(function, name=name, registry=registry, where="loop")
    return registry


def run(text: str | Path, given: Mapping[str, Any] | None = None, *, registry: agf.Registry, **more: Any) -> agf.Run:
    flow = agf.load(text, registry=registry)
    made: agf.Run = run_virtual(agf.arun(flow, dict(given or {}), registry=registry, **more))
    return made


def failure(text: str | Path, given: Mapping[str, Any] | None = None, **more: Any) -> agf.StepError:
    with pytest.raises(agf.StepError) as caught:
        run(text, given, **more)
    return caught.value


def echo(given):  # type: ignore[no-untyped-def]
    return given


class Draft(TypedDict):
    draft: str


# --- what fails ---


def test_when_one_of_those_side_by_side_fails_the_others_come_to_their_end() -> None:
    ended: list[str] = []

    async def slow(given):  # type: ignore[no-untyped-def]
        await asyncio.sleep(1)
        ended.append("slow")
        return "done"

    def bad(given):  # type: ignore[no-untyped-def]
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

    def divide(given):  # type: ignore[no-untyped-def]
        calls.append(given["n"])
        return 10 // given["n"]

    text = "id: agf.batch\nconfig: {agent: divide, input_mapping: {n: 'parent.input.rows.[]'}}\n"
    error = failure(text, {"rows": [5, 0, 2, 0]}, registry=registry_of(divide=divide))
    assert sorted(calls) == [0, 0, 2, 5]
    assert [d.message.split(":")[0] for d in error.diagnostics] == ["element 1", "element 3"]
    assert error.partial == {0: 2, 2: 5}
    assert error.where == "agent#1"


def test_a_failed_sequence_and_a_failed_round_keep_what_was_done() -> None:
    def bad(given):  # type: ignore[no-untyped-def]
        raise ValueError("no")

    registry = registry_of(a=lambda given: "one", bad=bad)
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
    registry = registry_of(a=lambda given: [1])

    @agf.transform("o.count", registry=registry)
    async def count(outputs: dict[str, list[int]]) -> int:
        await asyncio.sleep(1)
        outputs["a"].append(2)
        return len(outputs["a"])

    made = run(
        "id: agf.parallel\nconfig: {agents: [{agent: a}], output_from: {custom_transform: o.count}}\n",
        registry=registry,
    )
    assert made.output == 2
    assert made.steps["agents"].value == 2
    assert dict(made.stores) == {"a": [1]}


def test_no_route_and_no_default_is_an_error() -> None:
    text = "id: agf.conditional\nconfig: {routes: [{when: {args_match: {parent.input.n: 1}}, agent: a}]}\n"
    error = failure(text, {"n": 2}, registry=registry_of(a=echo))
    assert (error.code, error.diagnostic.span and error.diagnostic.span.text) == ("policy.no-route", "routes")


# --- batches ---


def test_a_batch_leaves_out_what_is_over_its_bound_and_says_so() -> None:
    text = "id: agf.batch\nconfig: {agent: a, input_mapping: {n: 'parent.input.rows.[]'}, max_batch_count: 2}\n"
    made = run(text, {"rows": [1, 2, 3]}, registry=registry_of(a=lambda given: given["n"]))
    assert made.output == [1, 2]
    assert [(d.code, d.span and d.span.text) for d in made.warnings] == [("policy.batch-truncated", "max_batch_count")]
    exact = run(text, {"rows": [1, 2]}, registry=registry_of(a=lambda given: given["n"]))
    assert (exact.output, exact.warnings) == ([1, 2], ())
    assert run(text, {"rows": []}, registry=registry_of(a=echo)).output == []


def test_at_most_eight_items_of_a_batch_run_at_once() -> None:
    live = most = 0

    async def count(given):  # type: ignore[no-untyped-def]
        nonlocal live, most
        live += 1
        most = max(most, live)
        await asyncio.sleep(1)
        live -= 1
        return given["n"]

    text = "id: agf.batch\nconfig: {agent: a, input_mapping: {n: 'parent.input.rows.[]'}}\n"
    made = run(text, {"rows": list(range(20))}, registry=registry_of(a=count))
    assert (made.output, most) == (list(range(20)), 8)


# --- agents ---


def test_an_agent_is_given_its_fields_by_name_and_its_signature_is_its_schema() -> None:
    def greet(name: str, loud: bool = False) -> str:
        return name.upper() if loud else name

    registry = agf.Registry()
    agf.agent(greet, registry=registry)
    mapping = "{name: parent.input.n, loud: parent.input.l}"
    text = f"id: agf.sequential\nconfig: {{steps: [{{agent: greet, input_mapping: {mapping}}}]}}\n"
    assert run(text, {"n": "ann"}, registry=registry).output == "ann"
    assert run(text, {"n": "ann", "l": True}, registry=registry).output == "ANN"
    error = failure(text, {"n": 3}, registry=registry)
    assert error.code == "policy.type-mismatch"
    assert error.diagnostic.message == "'name' of agent 'greet' needs text, not the number 3"


def test_an_agent_may_ask_for_the_prompt_and_the_whole_input() -> None:
    seen: list[Any] = []

    def answer(prompt, input, identity):  # type: ignore[no-untyped-def]
        seen.append((prompt, input, identity))
        return "ok"

    registry = registry_of(a=answer)
    run(sequential("a"), {"question": "why?"}, registry=registry)
    run(sequential("a"), {"n": 1, "m": 2}, registry=registry)
    run(sequential("a"), {"prompt": "say", "m": 2}, registry=registry)
    assert seen == [
        ("why?", {"question": "why?"}, "a"),
        ('{"n":1,"m":2}', {"n": 1, "m": 2}, "a"),
        ("say", {"prompt": "say", "m": 2}, "a"),
    ]


def test_what_an_agent_does_to_its_input_nobody_else_sees() -> None:
    def spoil(given):  # type: ignore[no-untyped-def]
        given["rows"].append(9)
        return None

    first = "{agent: spoil, input_mapping: {rows: parent.input.rows}}"
    text = (
        f"id: agf.sequential\nconfig: {{steps: [{first}, {{agent: echo, input_mapping: {{r: spoil.input.rows}}}}]}}\n"
    )
    made = run(text, {"rows": [1]}, registry=registry_of(spoil=spoil, echo=echo))
    assert made.output == {"r": [1]}


def test_python_agents_of_a_policy_are_no_sessions() -> None:
    made = run(sequential("a", "a"), registry=registry_of(a=echo), limits=agf.Limits(spawns=1))
    assert made.sessions == 0


def test_an_agent_called_user_is_no_person() -> None:
    with pytest.raises(agf.DefinitionError) as caught:
        run(sequential("user"), registry=registry_of(a=echo))
    assert caught.value.code == "flow.unknown-agent"


def test_a_dry_run_hands_on_what_the_definition_reads() -> None:
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
    made = run(text, {"r": [], "k": "x"}, registry=registry, dry=True)
    assert made.output == {"a": {"names": ["text"], "n": 1}, "draft": {"draft": "text"}, "good": "text"}


# --- other definitions ---


@pytest.fixture
def folder(tmp_path: Path) -> Any:
    with chdir(tmp_path):
        yield tmp_path


def definition(policy: str, agents: str, name: str = "t", interface: str = OPEN, more: str = "") -> str:
    head = HEAD.replace("id: t", f"id: {name}")
    return f"{head}{interface}{more}action_space: {{local_agents: [{agents}]}}\n{policy}"


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
    made = run(Path("top.agf.yaml"), {"n": 1}, registry=registry_of(leaf=lambda given: given["n"] + 1))
    assert made.output == 2
    assert "steps[0]/steps[0]/steps[0]" in made.steps


def test_an_agent_may_be_a_pipeline_of_a_file(folder: Path) -> None:
    (folder / "p.yaml").write_text("pipeline: p\nsteps:\n- transform: {value: ctx.n + 1}\n")
    text = definition(sequential("p"), "{alias: p, source: p.yaml}")
    assert run(text, {"n": 1}, registry=agf.Registry()).output == 2


def test_definitions_that_run_each_other_are_refused_before_the_first_step(folder: Path) -> None:
    for one, other in (("a", "b"), ("b", "a")):
        (folder / f"{one}.agf.yaml").write_text(
            definition(sequential(other), f"{{alias: {other}, source: {other}.agf.yaml}}", one)
        )
    with pytest.raises(agf.DefinitionError) as caught:
        run(Path("a.agf.yaml"), registry=agf.Registry())
    assert caught.value.code == "flow.call-cycle"


@pytest.mark.parametrize(("source", "code"), [("none.agf.yaml", "file.missing"), ("../x.agf.yaml", "file.outside")])
def test_a_source_that_cannot_be_had_refuses_the_run(folder: Path, source: str, code: str) -> None:
    flow = agf.load(definition(sequential("a"), f"{{alias: a, source: {source}}}"), registry=agf.Registry())
    with pytest.raises(agf.DefinitionError) as caught:
        run_virtual(agf.arun(flow, {}, registry=agf.Registry()))
    assert caught.value.code == code


def test_a_registered_agent_is_taken_before_the_source_and_that_is_told(folder: Path) -> None:
    made = run(
        definition(sequential("a"), "{alias: a, source: none.agf.yaml}"), registry=registry_of(a=lambda given: 1)
    )
    assert made.output == 1
    assert [(d.code, d.span and d.span.text) for d in made.warnings] == [("flow.registered-instead", "none.agf.yaml")]


def test_a_registered_policy_is_an_agent_of_another_with_its_interface_as_schema() -> None:
    registry = registry_of(leaf=lambda given: {"out": given["n"]})
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
    assert failure(text, {}, registry=registry).code == "policy.missing-value"


def test_what_an_agent_does_not_say_it_gives_is_warned_about_and_read_all_the_same() -> None:
    def writer(given) -> Draft:  # type: ignore[no-untyped-def]
        return {"draft": "x", "extra": 1}  # type: ignore[typeddict-unknown-key]

    registry = agf.Registry()
    agf.agent(writer, registry=registry, where="loop")
    agf.agent(echo, name="echo", registry=registry, where="loop")
    second = "{agent: echo, input_mapping: {a: writer.output.draft, b: writer.output.extra}}"
    text = f"id: agf.sequential\nconfig: {{steps: [{{agent: writer}}, {second}]}}\n"
    made = run(text, registry=registry)
    assert made.output == {"a": "x", "b": 1}
    assert [(d.code, d.span and d.span.text) for d in made.warnings] == [("flow.unknown-field-read", "extra")]


def test_a_pipeline_may_call_a_policy_and_name_one_as_identity() -> None:
    registry = registry_of(a=lambda given: [given])
    policy = "id: agf.sequential\nconfig: {steps: [{agent: a}]}\n"
    from agf_magics.define import register

    register(policy, name="ask", registry=registry)
    call = "pipeline: p\nsteps:\n- call: {pipeline: ask, pass: [n]}\n"
    assert run(call, {"n": 1}, registry=registry).output == [{"n": 1}]
    agent = "pipeline: q\nsteps:\n- agent: {identity: ask, prompt: 'how {ctx.n}?'}\n"
    made = run(agent, {"n": 1}, registry=registry)
    assert made.status == "ok"
    assert len(made.output) == 1


def test_input_and_output_are_held_against_the_interface() -> None:
    agents = "{alias: a, source: x, source_type: kernel}"
    takes = "interface: {input: {type: object, required: [n]}, output: {type: string}}\n"
    text = definition(sequential("a"), agents, interface=takes)
    calls: list[Any] = []

    def note(given):  # type: ignore[no-untyped-def]
        calls.append(given)
        return given["n"]

    registry = registry_of(a=note)
    error = failure(text, {"m": 1}, registry=registry)
    assert (error.code, calls) == ("policy.invalid-input", [])
    error = failure(text, {"n": 1}, registry=registry)
    assert (error.code, error.partial) == ("policy.invalid-output", {"a": 1})
    assert run(text, {"n": "x"}, registry=registry).output == "x"


# --- vendors ---


def test_a_vendors_policy_may_call_the_agents_of_the_definition() -> None:
    registry = registry_of(x=lambda given: 1, y=lambda given: 2, z=lambda given: 1)

    @agf.policy("x-acme.vote", registry=registry)
    async def vote(config, input, agents):  # type: ignore[no-untyped-def]
        votes = [agents[name](input) for name in config["voters"]]
        return max(set(votes), key=votes.count)

    text = "id: x-acme.vote\nconfig: {voters: [x, y, z]}\n"
    made = run(text, registry=registry)
    assert made.output == 1


def test_a_builders_steps_are_the_policys() -> None:
    registry = registry_of(a=lambda given: given["n"] + 1)

    @agf.policy("x-acme.one", builder=True, registry=registry)
    def one(config):  # type: ignore[no-untyped-def]
        return Invoke(id="it", word="agent", kind="agent", name=Name(config["agent"]), args=Handed())

    class Handed:
        names = ()

        def build(self, frame: Any, wanted: Any = None) -> Any:
            return {"prompt": "", "input": Whole().build(frame), "alone": "input"}

        def reads(self) -> tuple[()]:
            return ()

    made = run("id: x-acme.one\nconfig: {agent: a}\n", {"n": 1}, registry=registry)
    assert made.output == 2
    assert "policy/it" in made.steps


def test_a_policy_nobody_registered_is_named_before_the_run() -> None:
    registry = agf.Registry()
    agf.policy("x-acme.vote", registry=registry)(lambda config: 1)
    flow = agf.load("id: x-acme.vota\nconfig: {}\n", registry=registry)
    with pytest.raises(agf.DefinitionError) as caught:
        run_virtual(agf.arun(flow, {}, registry=registry))
    found = caught.value.diagnostic
    assert found.code == "flow.unknown-policy"
    assert "x-acme.vota" in found.message
    assert found.hint is not None
    assert "x-acme.vote" in found.hint


def test_a_vendors_function_can_call_functions_alone_and_says_so_when_it_tries() -> None:
    registry = registry_of(a=echo)
    agf.define(definition(sequential("a"), "{alias: a, source: x, source_type: kernel}", "inner"), registry=registry)
    agf.policy("x-acme.one", registry=registry)(lambda config, input, agents: agents[config["agent"]](input))
    agents = "{alias: a, source: x, source_type: kernel}, {alias: inner, source: x, source_type: kernel}"
    text = definition("execution_policy: {id: x-acme.one, config: {agent: AGENT}}\n", agents)
    assert run(text.replace("AGENT", "a"), {"n": 1}, registry=registry).output == {"n": 1}
    assert failure(text.replace("AGENT", "inner"), registry=registry).code == "step.policy-agent"
    bounded = text.replace("AGENT", "a").replace(
        "action_space", "constraints: {limits: {max_delegation_depth: 0}}\naction_space"
    )
    assert failure(bounded, registry=registry).code == "limit.delegation-depth"


@pytest.mark.parametrize("name", ["vote", "agf.vote", "x-acme", "x-.vote", "x-acme.v t", "x-acme.vote\n"])
def test_a_vendors_id_has_its_form(name: str) -> None:
    with pytest.raises(ValueError, match="x-<vendor>"):
        agf.policy(name)


def test_what_a_policy_or_a_transform_cannot_take_is_told_when_it_is_registered() -> None:
    with pytest.raises(ValueError, match="config, input, agents by name, not other"):
        agf.policy("x-acme.vote", registry=agf.Registry())(lambda config, other: 1)
    with pytest.raises(ValueError, match="config by name, not input"):
        agf.policy("x-acme.vote", builder=True, registry=agf.Registry())(lambda config, input: 1)
    with pytest.raises(ValueError, match="nobody knows what this function takes"):
        agf.policy("x-acme.vote", registry=agf.Registry())(dict)
    with pytest.raises(ValueError, match="by name, not config"):
        agf.policy("x-acme.vote", registry=agf.Registry())(lambda config, /: 1)

    async def later(config: Any) -> None: ...

    with pytest.raises(ValueError, match="gives a Step at once"):
        agf.policy("x-acme.vote", builder=True, registry=agf.Registry())(later)
    with pytest.raises(TypeError, match="builder is True or False"):
        agf.policy("x-acme.vote", builder="yes")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="takes one value"):
        agf.transform(lambda a, b: 1, name="t", registry=agf.Registry())


# --- approvals ---


def asked(answers: Any) -> tuple[list[str], Callable[[Question], Any]]:
    questions: list[str] = []

    def ask(question: Question) -> Any:
        assert question.approval
        questions.append(question.text)
        if answers is Nobody:
            raise Nobody
        return answers

    return questions, ask


APPROVED = "{{alias: a, source: x, source_type: kernel, approval: {}}}"


@pytest.mark.parametrize("approval", ["true", "{}"])
def test_an_agent_runs_when_a_person_approves(approval: str) -> None:
    text = definition(sequential("a"), APPROVED.format(approval))
    questions, yes = asked(True)
    assert run(text, {"n": 1}, registry=registry_of(a=echo), ask=yes).output == {"n": 1}
    assert questions == ["may agent 'a' with {\"n\":1} run?"]


@pytest.mark.parametrize("answer", [False, "yes", 1, Nobody])
def test_an_agent_that_nobody_approved_does_not_run(answer: Any) -> None:
    calls: list[Any] = []
    text = definition(sequential("a"), APPROVED.format("true"))
    error = failure(text, {"n": 1}, registry=registry_of(a=lambda given: calls.append(given)), ask=asked(answer)[1])
    assert (error.code, calls) == ("step.denied", [])


def test_an_approval_is_asked_for_under_its_condition_alone_and_in_its_words() -> None:
    when = "condition: {args_match: {parent.input.amount: {gt: 100}}}"
    template = "message_template: 'pay {{tool_args.amount}} to {{ parent.input.who }} {{nothing}}?'"
    text = definition(sequential("a"), APPROVED.format(f"{{{when}, {template}}}"))
    questions, no = asked(False)
    registry = registry_of(a=echo)
    assert run(text, {"amount": 100, "who": "ann"}, registry=registry, ask=no).status == "ok"
    assert questions == []
    assert failure(text, {"amount": 101, "who": "ann"}, registry=registry, ask=no).code == "step.denied"
    assert questions == ['pay 101 to ann {{nothing}}? (agent \'a\' with {"amount":101,"who":"ann"})']
    assert failure(text, {"who": "ann"}, registry=registry, ask=no).code == "policy.unresolved-path"


def test_a_definition_that_is_an_agent_is_approved_like_any_other() -> None:
    registry = registry_of(leaf=echo)
    agf.define(definition(sequential("leaf"), "{alias: leaf, source: x, source_type: kernel}", "a"), registry=registry)
    text = definition(sequential("a"), APPROVED.format("true"))
    questions, yes = asked(True)
    assert run_virtual(agf.arun(text, "all of it", registry=registry, ask=yes)).output == "all of it"
    assert questions == ["may agent 'a' with \"all of it\" run?"]


def test_a_vendors_policy_cannot_pass_an_approval_by() -> None:
    registry = registry_of(a=echo)
    agf.policy("x-acme.one", registry=registry)(lambda input, agents: agents["a"](input))
    flow = agf.load(
        definition("execution_policy: {id: x-acme.one, config: {}}\n", APPROVED.format("true")), registry=registry
    )
    with pytest.raises(agf.DefinitionError) as caught:
        run_virtual(agf.arun(flow, {}, registry=registry, ask=asked(True)[1]))
    assert caught.value.code == "policy.approval"


# --- limits of a definition ---


def test_a_definition_may_bound_its_own_time() -> None:
    async def slow(given):  # type: ignore[no-untyped-def]
        await asyncio.sleep(10)

    text = definition(
        sequential("a"),
        "{alias: a, source: x, source_type: kernel}",
        more="constraints: {budget: {max_duration_seconds: 5}}\n",
    )
    error = failure(text, registry=registry_of(a=slow))
    assert (error.code, error.diagnostic.span and error.diagnostic.span.text) == ("limit.duration", "constraints")


@pytest.mark.parametrize(("depth", "fine"), [(0, False), (1, True)])
def test_a_definition_may_bound_how_deep_it_delegates(depth: int, fine: bool) -> None:
    limits = f"constraints: {{limits: {{max_delegation_depth: {depth}}}}}\n"
    text = definition(sequential("a"), "{alias: a, source: x, source_type: kernel}", more=limits)
    if fine:
        assert run(text, registry=registry_of(a=lambda given: 1)).output == 1
    else:
        assert failure(text, registry=registry_of(a=echo)).code == "limit.delegation-depth"


def test_what_a_definition_allows_itself_holds_for_all_that_it_calls(folder: Path) -> None:
    leaf = "{alias: leaf, source: x, source_type: kernel}"
    wide = "constraints: {limits: {max_delegation_depth: 9}}\n"
    (folder / "inner.agf.yaml").write_text(definition(sequential("leaf"), leaf, "inner", more=wide))
    inner = "{alias: inner, source: inner.agf.yaml}"
    limits = "constraints: {limits: {max_delegation_depth: 1}}\n"
    error = failure(definition(sequential("inner"), inner, more=limits), registry=registry_of(leaf=echo))
    assert error.code == "limit.delegation-depth"


@pytest.mark.parametrize(
    ("head", "code"),
    [
        ("memory: {required: true}\n", "policy.memory"),
        ("constraints: {governance_policies: [{policy_ref: acme.pii}]}\n", "policy.governance"),
    ],
)
def test_what_cannot_be_given_is_a_warning_when_defined_and_refuses_the_run(head: str, code: str) -> None:
    from agf_magics.define import register

    registry = registry_of(a=echo)
    text = definition(sequential("a"), "{alias: a, source: x, source_type: kernel}", more=head)
    defined = register(text, registry=registry)
    assert [(d.code, d.severity) for d in defined.findings] == [(code, "warning")]
    assert defined.flow is not None
    with pytest.raises(agf.DefinitionError) as caught:
        run_virtual(agf.arun(defined.flow, {}, registry=registry))
    assert caught.value.code == code


# --- models ---


def react(config: str = "", space: str = "{}", interface: str = OPEN, more: str = "") -> str:
    policy = f"execution_policy: {{id: agf.react, config: {{instructions: be brief, model: 'openai:m'{config}}}}}\n"
    return f"{HEAD}{interface}{more}action_space: {space}\n{policy}"


def scripted(*turns: Mapping[str, Any], **tools: Callable[..., Any]) -> tuple[agf.Registry, Script]:
    script, registry = Script(turns), agf.Registry()
    registry.choose(script.model())
    for name, function in tools.items():
        agf.tool(function, name=name, registry=registry, where="loop")
    return registry, script


def call(tool: str, **args: Any) -> dict[str, Any]:
    return {"tool": tool, "args": args}


def test_every_preference_reaches_the_model() -> None:
    registry, script = scripted({"output": "ok"})
    said = ", temperature: 0.5, top_p: 0.9, top_k: 7, max_output_tokens: 99, stop_sequences: [END]"
    run(
        react(f"{said}, user_prompt_template: 'say {{{{a.b}}}} and {{{{n}}}}'"),
        {"a": {"b": "hi"}, "n": 3},
        registry=registry,
    )
    settings = dict(script.asked[0].model_settings or {})
    wanted = {"temperature": 0.5, "top_p": 0.9, "max_tokens": 99, "stop_sequences": ["END"]}
    assert wanted.items() <= settings.items()
    assert script.prompts[0] == "say hi and 3"


def test_a_template_that_names_no_field_is_an_error_at_the_name() -> None:
    registry, script = scripted({"output": "ok"})
    error = failure(react(", user_prompt_template: 'say {{nam}}'"), {"name": "x"}, registry=registry)
    found = error.diagnostic
    assert (found.code, found.span and found.span.text, found.hint) == (
        "policy.unresolved-path",
        "nam",
        "did you mean name? its fields are name",
    )
    assert script.asked == []


@pytest.mark.parametrize(
    ("schema", "said", "output"),
    [
        ("{}", "plain", "plain"),
        ("{}", {"a": 1}, {"a": 1}),
        ("{}", "5", "5"),
        ("{type: string}", '{"a": 1}', '{"a": 1}'),
        ("{enum: ['1', '2']}", "1", "1"),
        ("{enum: [1, 2]}", "1", 1),
        ("{type: object, properties: {a: {type: string}}, required: [a]}", "plain", {"a": "plain"}),
        ("{type: object, properties: {a: {type: integer}}, required: [a]}", {"a": 1}, {"a": 1}),
    ],
)
def test_an_answer_is_what_the_interface_says(schema: str, said: Any, output: Any) -> None:
    registry, _ = scripted({"output": said})
    made = run(react(interface=f"interface: {{input: {{}}, output: {schema}}}\n"), registry=registry)
    assert made.output == output


def test_an_interface_may_take_a_text_and_give_one() -> None:
    registry, script = scripted({"output": "fine"})
    text = react(interface="interface: {input: {type: string}, output: {type: string}}\n")
    assert run_virtual(agf.arun(text, "how are you?", registry=registry)).output == "fine"
    assert script.prompts == ["how are you?"]
    with pytest.raises(agf.StepError) as caught:
        run_virtual(agf.arun(text, 3, registry=registry))
    assert caught.value.code == "policy.invalid-input"


def test_an_answer_that_does_not_conform_is_asked_for_again() -> None:
    interface = (
        "interface: {input: {}, output: {type: object, properties: {n: {type: integer}, m: {}}, required: [n]}}\n"
    )
    registry, script = scripted({"output": {"n": "x"}}, {"output": {"n": 1}})
    assert run(react(interface=interface), registry=registry).output == {"n": 1}
    assert len(script.asked) == 2
    registry, script = scripted({"output": {"n": "x"}})
    assert failure(react(interface=interface), registry=registry).code == "policy.invalid-output"
    assert len(script.asked) == 3


def test_a_model_is_told_of_a_tool_that_fails_or_is_not_there() -> None:
    registry, script = scripted({"tool_calls": [call("boom"), call("ghost")]}, {"output": "so"}, boom=lambda: 1 / 0)
    made = run(react(space="{local_tools: [{alias: boom}]}"), registry=registry)
    assert made.output == "so"
    assert [tool.name for tool in script.asked[0].function_tools] == ["boom"]
    assert "ZeroDivisionError" in script.heard[1]
    assert "ghost" in script.heard[1]


def test_an_alias_may_stand_for_a_tool_registered_under_another_name() -> None:
    registry, _ = scripted({"tool_calls": [call("plus", a=1, b=2)]}, {"output": "done"}, add=lambda a, b: a + b)
    made = run(react(space="{local_tools: [{alias: plus, name: add}]}"), registry=registry)
    assert made.output == "done"


def test_a_document_without_tools_offers_none() -> None:
    registry, script = scripted({"output": "ok"}, add=lambda a, b: a + b)
    run("id: agf.react\nconfig: {instructions: x, model: 'openai:m'}\n", registry=registry)
    assert script.asked[0].function_tools == []


def test_a_tool_that_needs_approval_is_asked_about_with_its_arguments() -> None:
    when = "{condition: {args_match: {amount: {gt: 10}}}, message_template: 'pay {{tool_args.amount}}?'}"
    space = f"{{local_tools: [{{alias: pay, approval: {when}}}]}}"
    paid: list[int] = []
    turns = ({"tool_calls": [call("pay", amount=5), call("pay", amount=50)]}, {"output": "ok"})
    registry, script = scripted(*turns, pay=lambda amount: paid.append(amount))
    questions, no = asked(False)
    assert run(react(space=space), registry=registry, ask=no).output == "ok"
    assert (paid, questions) == ([5], ["pay 50? (tool 'pay' with {\"amount\":50})"])
    assert "denied" in script.heard[1]


@pytest.mark.parametrize(
    ("limit", "code"), [("max_tool_calls: 1", "limit.tool-calls"), ("max_llm_calls: 1", "limit.model-calls")]
)
def test_a_definition_may_bound_its_calls(limit: str, code: str) -> None:
    turns = ({"tool_calls": [call("add", a=1, b=2)]}, {"tool_calls": [call("add", a=3, b=4)]}, {"output": "ok"})
    registry, _ = scripted(*turns, add=lambda a, b: a + b)
    text = react(space="{local_tools: [{alias: add}]}", more=f"constraints: {{limits: {{{limit}}}}}\n")
    assert failure(text, registry=registry).code == code


def test_a_budget_of_tokens_ends_a_session() -> None:
    registry, _ = scripted({"tool_calls": [call("add", a=1, b=2)]}, {"output": "ok"}, add=lambda a, b: a + b)
    text = react(space="{local_tools: [{alias: add}]}", more="constraints: {budget: {max_token_usage: 1}}\n")
    assert failure(text, registry=registry).code == "limit.tokens"


def test_agents_are_not_offered_to_a_model_and_that_is_told() -> None:
    flow = agf.load(Source("x", react(space="{local_agents: [{alias: a, source: a.yaml}]}")), registry=agf.Registry())
    assert [d.code for d in flow.warnings] == ["policy.not-offered"]
