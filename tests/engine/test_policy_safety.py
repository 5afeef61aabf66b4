"""Safety of policies on the engine: policies of vendors, approvals by the user, and limits in a definition."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import chdir
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.engine.host.host import NoUser
from agf_magics.flow.protocols import Name
from agf_magics.flow.steps import Invoke
from agf_magics.lifecycle.definitions.define import register
from tests.engine.policy_case import definition, echo, failure, recording_asker, registry_of, run, sequential
from tests.engine.virtual_time import run_virtual


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with chdir(tmp_path):
        yield tmp_path


# --- vendors ---


def test_a_vendors_policy_may_call_the_agents_of_the_definition() -> None:
    registry = registry_of(x=lambda fields: 1, y=lambda fields: 2, z=lambda fields: 1)

    @agf.policy("x-acme.vote", registry=registry)
    async def vote(config, input, agents):  # type: ignore[no-untyped-def]
        votes = [agents[name](input) for name in config["voters"]]
        return max(set(votes), key=votes.count)

    text = "id: x-acme.vote\nconfig: {voters: [x, y, z]}\n"
    ended = run(text, registry=registry)
    assert ended.output == 1


def test_the_steps_of_a_builder_are_those_of_the_policy() -> None:
    registry = registry_of(a=lambda fields: fields["n"] + 1)

    @agf.policy("x-acme.one", builder=True, registry=registry)
    def one(config):  # type: ignore[no-untyped-def]
        return Invoke(id="it", word="agent", kind="agent", name=Name(config["agent"]), args=Handed())

    class Handed:
        names = ()

        def build(self, frame: Any, wanted: Any = None) -> Any:
            return {"prompt": "", "input": frame["parent"]["input"], "alone": "input"}

        def reads(self) -> tuple[()]:
            return ()

    ended = run("id: x-acme.one\nconfig: {agent: a}\n", {"n": 1}, registry=registry)
    assert ended.output == 2
    assert "policy/it" in ended.steps


def test_a_policy_nobody_registered_is_named_before_the_run() -> None:
    registry = agf.Registry()
    agf.policy("x-acme.vote", registry=registry)(lambda config: 1)
    flow = agf.load("id: x-acme.vota\nconfig: {}\n", registry=registry)
    with pytest.raises(agf.DefinitionError) as caught:
        run_virtual(agf.arun(flow, {}, registry=registry))
    diagnostic = caught.value.diagnostic
    assert diagnostic.code == "flow.unknown-policy"
    assert "x-acme.vota" in diagnostic.message
    assert diagnostic.hint is not None
    assert "x-acme.vote" in diagnostic.hint


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


def test_wrong_parameters_of_a_policy_or_a_transform_are_reported_at_registration() -> None:
    with pytest.raises(ValueError, match="config, input, agents by name, not other"):
        agf.policy("x-acme.vote", registry=agf.Registry())(lambda config, other: 1)
    with pytest.raises(ValueError, match="config by name, not input"):
        agf.policy("x-acme.vote", builder=True, registry=agf.Registry())(lambda config, input: 1)
    with pytest.raises(ValueError, match="the parameters of this function are unknown"):
        agf.policy("x-acme.vote", registry=agf.Registry())(dict)
    with pytest.raises(ValueError, match="by name, not config"):
        agf.policy("x-acme.vote", registry=agf.Registry())(lambda config, /: 1)

    async def later(config: Any) -> None: ...

    with pytest.raises(ValueError, match="cannot be an async function"):
        agf.policy("x-acme.vote", builder=True, registry=agf.Registry())(later)
    with pytest.raises(TypeError, match="builder must be True or False"):
        agf.policy("x-acme.vote", builder="yes")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must take one value"):
        agf.transform(lambda a, b: 1, name="t", registry=agf.Registry())


# --- approvals ---


APPROVED = "{{alias: a, source: x, source_type: kernel, approval: {}}}"


@pytest.mark.parametrize("approval", ["true", "{}"])
def test_an_agent_runs_when_a_person_approves(approval: str) -> None:
    text = definition(sequential("a"), APPROVED.format(approval))
    questions, yes = recording_asker(True)
    assert run(text, {"n": 1}, registry=registry_of(a=echo), ask=yes).output == {"n": 1}
    assert questions == ["may agent 'a' with {\"n\":1} run?"]


def test_the_text_of_a_question_shows_the_first_600_characters_of_a_long_input_and_how_many_there_are() -> None:
    text = definition(sequential("a"), APPROVED.format("true"))
    for length, expected in ((592, f'{{"q":"{"x" * 592}"}}'), (599, f'{{"q":"{"x" * 599}… (601 characters)}}')):
        questions, yes = recording_asker(True)
        run(text, {"q": "x" * length}, registry=registry_of(a=echo), ask=yes)
        assert questions == [f"may agent 'a' with {expected} run?"]


@pytest.mark.parametrize("answer", [False, "no", NoUser])
def test_an_agent_that_nobody_approved_does_not_run(answer: Any) -> None:
    calls: list[Any] = []
    text = definition(sequential("a"), APPROVED.format("true"))
    error = failure(
        text, {"n": 1}, registry=registry_of(a=lambda fields: calls.append(fields)), ask=recording_asker(answer)[1]
    )
    assert (error.code, calls) == ("step.denied", [])
    assert (
        failure(text, {"n": 1}, registry=registry_of(a=echo)).code == "step.denied"
    )  # without a user the approval is denied


def test_an_approval_is_asked_for_under_its_condition_alone_and_in_its_words() -> None:
    when = "condition: {args_match: {parent.input.amount: {gt: 100}}}"
    template = "message_template: 'pay {{tool_args.amount}} to {{ parent.input.who }} {{nothing}}{{受益人}}?'"
    text = definition(sequential("a"), APPROVED.format(f"{{{when}, {template}}}"))
    questions, no = recording_asker(False)
    registry = registry_of(a=echo)
    assert run(text, {"amount": 100, "who": "ann"}, registry=registry, ask=no).status == "ok"
    assert questions == []
    asked = {"amount": 101, "who": "ann", "受益人": "安"}
    assert failure(text, asked, registry=registry, ask=no).code == "step.denied"
    assert questions == ['pay 101 to ann {{nothing}}"安"? (agent \'a\' with {"amount":101,"who":"ann","受益人":"安"})']
    assert failure(text, {"who": "ann"}, registry=registry, ask=no).code == "policy.unresolved-path"


@pytest.mark.parametrize(
    ("matchers", "amount", "asks"),
    [
        ("amount: {gt: 100}", 101, True),
        ("amount: {gt: 100}", 99, False),
        ("amount: {gt: 100}", "500", True),
        ("amount: {gt: 100}", None, True),
        ("amount: {gt: 100}", Decimal(500), True),
        ("amount: {gt: 100}", float("nan"), True),
        ("amount: {gt: 100, lt: 200}", ["500"], True),
        ("amount: {pattern: rm}", ["rm", "-rf"], True),
        ("amount: {pattern: rm}", "ls", False),
        ("amount: {in: [1, 2]}", Decimal(1), True),
        ("amount: {in: [1, 2]}", "1", False),
        ("amount: 5", Decimal(5), True),
        ("amount: {ne: 5}", Decimal(5), True),
        ("amount: {gt: 100}, parent.input.kind: pay", "500", True),
        ("amount: {gt: 100}, parent.input.kind: look", "500", False),
    ],
)
def test_an_approval_asks_in_doubt(matchers: str, amount: Any, asks: bool) -> None:
    condition = f"{{condition: {{args_match: {{parent.input.{matchers}}}}}}}"
    text = definition(sequential("a"), APPROVED.format(condition))
    questions, no = recording_asker(False)
    fields = {"amount": amount, "kind": "pay"}
    ended = agf.run(
        agf.load(text, "policy", registry=registry_of(a=echo)),
        fields,
        registry=registry_of(a=echo),
        ask=no,
        raises=False,
    )
    assert (bool(questions), ended.status) == ((True, "error") if asks else (False, "ok"))


def test_a_definition_that_is_an_agent_is_approved_like_any_other() -> None:
    registry = registry_of(leaf=echo)
    agf.define(definition(sequential("leaf"), "{alias: leaf, source: x, source_type: kernel}", "a"), registry=registry)
    text = definition(sequential("a"), APPROVED.format("true"))
    questions, yes = recording_asker(True)
    assert run_virtual(agf.arun(text, "all of it", registry=registry, ask=yes)).output == "all of it"
    assert questions == ["may agent 'a' with \"all of it\" run?"]


def test_a_vendors_policy_cannot_bypass_an_approval() -> None:
    registry = registry_of(a=echo)
    agf.policy("x-acme.one", registry=registry)(lambda input, agents: agents["a"](input))
    flow = agf.load(
        definition("execution_policy: {id: x-acme.one, config: {}}\n", APPROVED.format("true")), registry=registry
    )
    with pytest.raises(agf.DefinitionError) as caught:
        run_virtual(agf.arun(flow, {}, registry=registry, ask=recording_asker(True)[1]))
    assert caught.value.code == "policy.approval"


# --- limits of a definition ---


def test_a_definition_may_bound_its_own_time() -> None:
    async def slow(fields):  # type: ignore[no-untyped-def]
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
        assert run(text, registry=registry_of(a=lambda fields: 1)).output == 1
    else:
        assert failure(text, registry=registry_of(a=echo)).code == "limit.delegation-depth"


def test_the_limits_of_a_definition_hold_for_all_that_it_calls(folder: Path) -> None:
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
def test_an_impossible_limit_is_a_warning_when_defined_and_refuses_the_run(head: str, code: str) -> None:
    registry = registry_of(a=echo)
    text = definition(sequential("a"), "{alias: a, source: x, source_type: kernel}", more=head)
    defined = register(text, registry=registry)
    assert [(d.code, d.severity) for d in defined.problems] == [(code, "warning")]
    assert defined.flow is not None
    with pytest.raises(agf.DefinitionError) as caught:
        run_virtual(agf.arun(defined.flow, {}, registry=registry))
    assert caught.value.code == code
