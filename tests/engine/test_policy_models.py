"""agf.react on the engine: what its model receives, and what becomes of the model's answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.text.source import Source
from tests.engine import kept
from tests.engine.policy_case import HEAD, OPEN, Script, failure, recording_asker, run
from tests.engine.virtual_time import run_virtual

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
    preferences = ", temperature: 0.5, top_p: 0.9, top_k: 7, max_output_tokens: 99, stop_sequences: [END]"
    run(
        react(f"{preferences}, user_prompt_template: 'say {{{{a.b}}}} and {{{{n}}}}'"),
        {"a": {"b": "hi"}, "n": 3},
        registry=registry,
    )
    settings = dict(script.asked[0].model_settings or {})
    expected = {"temperature": 0.5, "top_p": 0.9, "max_tokens": 99, "stop_sequences": ["END"]}
    assert expected.items() <= settings.items()
    assert script.prompts[0] == "say hi and 3"


def test_a_template_that_names_no_field_is_an_error_at_the_name() -> None:
    registry, script = scripted({"output": "ok"})
    error = failure(react(", user_prompt_template: 'say {{nam}}'"), {"name": "x"}, registry=registry)
    diagnostic = error.diagnostic
    assert (diagnostic.code, diagnostic.span and diagnostic.span.text, diagnostic.hint) == (
        "policy.unresolved-path",
        "nam",
        "did you mean name?",
    )
    assert script.asked == []


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


def test_a_tool_that_needs_approval_is_asked_about_with_its_arguments() -> None:
    when = "{condition: {args_match: {amount: {gt: 10}}}, message_template: 'pay {{tool_args.amount}}?'}"
    space = f"{{local_tools: [{{alias: pay, approval: {when}}}]}}"
    paid: list[int] = []
    turns = ({"tool_calls": [call("pay", amount=5), call("pay", amount=50)]}, {"output": "ok"})
    registry, script = scripted(*turns, pay=lambda amount: paid.append(amount))
    questions, no = recording_asker(False)
    assert run(react(space=space), registry=registry, ask=no).output == "ok"
    assert (paid, questions) == ([5], ["pay 50? (tool 'pay' with {\"amount\":50})"])
    assert "'pay' was not called: it was denied" in script.heard[1]


def test_a_condition_on_a_secret_sees_the_real_one_and_shows_none(tmp_path: Path) -> None:
    when = "{condition: {args_match: {token: {pattern: '^root-'}}}, message_template: 'as {{tool_args.token}}?'}"
    space = f"{{local_tools: [{{alias: login, approval: {when}}}]}}"
    used: list[str] = []
    turns = ({"tool_calls": [call("login", token="user-of-ann"), call("login", token="root-of-bob")]}, {"output": "ok"})
    registry, _ = scripted(*turns)
    agf.tool(lambda token: used.append(token), name="login", registry=registry, secret=["token"])
    questions, yes = recording_asker(True)
    events: list[Any] = []
    with kept.journal_in(tmp_path) as path:
        run(react(space=space), registry=registry, ask=yes, on_event=events.append)
        disk = kept.on_disk(path)
    assert set(used) == {"user-of-ann", "root-of-bob"}
    assert questions == ['as •••? (tool \'login\' with {"token":"•••"})']
    assert "root-of-bob" not in repr(events)
    assert b"root-of-bob" not in disk


def test_the_registered_agents_of_the_action_space_are_offered_to_the_model() -> None:
    registry, script = scripted({"tool_calls": [call("critic", prompt="a poem")]}, {"output": "ok"})

    @agf.agent(registry=registry)
    def critic(prompt: str, tools: Any) -> str:
        """Reviews a text."""
        return f"{prompt}: fine, with {sorted(tools)}"

    agf.tool(lambda a: a, name="add", registry=registry)
    space = "{local_agents: [{alias: critic, source: notebook, source_type: kernel}]}"
    ended = run(react(space=space), registry=registry)
    assert ended.output == "ok"
    assert [tool.name for tool in script.asked[0].function_tools] == ["critic"]
    assert "a poem: fine, with []" in script.heard[1]


def test_the_approval_of_an_agent_is_asked_before_a_model_calls_it() -> None:
    registry, script = scripted({"tool_calls": [call("critic", prompt="a poem")]}, {"output": "ok"})
    agf.agent(lambda prompt: "fine", name="critic", registry=registry)
    space = "{local_agents: [{alias: critic, source: notebook, source_type: kernel, approval: {mode: always}}]}"
    questions: list[str] = []
    run(react(space=space), registry=registry, ask=lambda question: questions.append(question.text) or False)  # type: ignore[func-returns-value]
    assert len(questions) == 1
    assert "fine" not in script.heard[1]


def test_agents_in_files_are_not_offered_to_a_model_with_a_note() -> None:
    flow = agf.load(Source("x", react(space="{local_agents: [{alias: a, source: a.yaml}]}")), registry=agf.Registry())
    assert [d.code for d in flow.warnings] == ["policy.not-offered"]
