"""A model's session in a run: every request and every tool call is a step with the limits, order and errors of
steps."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import agf_magics as agf
from agf_magics.engine.linking.model_binding import model_binding
from agf_magics.engine.run_options import RunOptions
from agf_magics.flow.progress import events as ev
from agf_magics.flow.protocols import Name
from agf_magics.lifecycle.launch.driving import start_on_engine
from agf_magics.lifecycle.launch.launch import prepare_run
from agf_magics.lifecycle.past.past_run import find_past_run
from agf_magics.text.diagnostics import Diagnostics
from notebooks.scripted_server import Answer, Raw, ScriptedServer, calls, failing
from tests.engine import kept
from tests.engine.virtual_time import run_virtual

Turn = ModelResponse | BaseException
Asked = tuple[list[ModelMessage], AgentInfo]


def text(words: str) -> ModelResponse:
    return ModelResponse(parts=[TextPart(words)])


def call(*named_calls: tuple[str, Any]) -> ModelResponse:
    return ModelResponse(
        parts=[ToolCallPart(name, arguments, f"c{number}") for number, (name, arguments) in enumerate(named_calls)]
    )


class Script:
    """A model that gives its turns in order, repeats the last one, and records its requests."""

    def __init__(self, *turns: Turn) -> None:
        self.turns = turns
        self.asked: list[Asked] = []

    def model(self) -> FunctionModel:
        async def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            turn = self.turns[min(len(self.asked), len(self.turns) - 1)]
            self.asked.append((messages, info))
            if isinstance(turn, BaseException):
                raise turn
            return turn

        return FunctionModel(answer)

    @property
    def offered(self) -> list[list[str]]:
        return [[tool.name for tool in info.function_tools] for _, info in self.asked]

    def told(self, tool: str) -> list[str]:
        """The results of a tool in the last request."""
        parts = (part for message in self.asked[-1][0] for part in message.parts)
        return [str(part.content) for part in parts if isinstance(part, ToolReturnPart) and part.tool_name == tool]


@pytest.fixture
def registry() -> agf.Registry:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def add(x: int, y: int) -> int:
        """The sum."""
        return x + y

    @agf.tool(registry=registry)
    def fail() -> None:
        """Fails."""
        raise ValueError("no pears")

    return registry


ASK = """
pipeline: sum
steps:
- agent: {prompt: "What is 2 + 3?"}
"""

SUM = """
schema: Sum
fields:
  total: {type: number}
---
pipeline: sum
steps:
- agent: {prompt: "What is 2 + 3?", schema: Sum}
"""


def run(text: str, registry: agf.Registry, script: Script | None = None, **options: Any) -> agf.Run:
    if script is not None:
        registry.choose(script.model())
    return agf.run(text, registry=registry, **options)


def refusal(text: str, registry: agf.Registry, script: Script | None = None, **options: Any) -> agf.StepError:
    with pytest.raises(agf.StepError) as caught:
        run(text, registry, script, **options)
    return caught.value


# --- a session ---


def test_a_model_answers_where_no_agent_does(registry: agf.Registry) -> None:
    assert run(ASK, registry, Script(text("5"))).output == "5"


def test_a_registered_agent_answers_before_the_configured_model(registry: agf.Registry) -> None:
    @agf.agent(registry=registry)
    def clerk(prompt: str) -> str:
        return "six"

    script = Script(text("5"))
    assert run(ASK, registry, script).output == "six"
    assert script.asked == []


@pytest.mark.parametrize(("settings_of_agent", "codes"), [("other:model", ["model.configured"]), ("", [])])
def test_a_note_says_that_the_configured_model_answers_for_another(
    settings_of_agent: str, codes: list[str], registry: agf.Registry
) -> None:
    registry.choose(Script(text("5")).model())
    flow = agf.load(ASK, registry=registry)
    step = flow.body.steps[0]  # type: ignore[attr-defined]
    named = replace(step, name=Name(settings_of_agent))  # type: ignore[call-arg]
    problems = Diagnostics()
    model_binding(named, registry, problems)  # type: ignore[arg-type]
    assert [problem.code for problem in problems] == codes


def test_each_request_and_each_call_is_a_step(registry: agf.Registry) -> None:
    script = Script(call(("add", {"x": 2, "y": 3}), ("add", {"x": 1, "y": 1})), text("5"))
    events: list[ev.Event] = []
    ended = run(ASK, registry, script, on_event=events.append)
    assert ended.output == "5"
    assert (ended.calls, ended.sessions) == (2, 1)
    finished = {event.at: event.value for event in events if isinstance(event, ev.StepFinished)}
    assert finished[("steps[0]", "session.then.tools.call", 0, 0)] == 5
    assert finished[("steps[0]", "session.then.tools.call", 0, 1)] == 2
    assert finished[("steps[0]", "session.ask", 1)]["text"] == "5"
    assert script.told("add") == ["5", "2"]


def test_a_failed_call_is_reported_to_the_model_and_ends_nothing(registry: agf.Registry) -> None:
    script = Script(call(("fail", {}), ("nope", {}), ("add", {"x": "two"}), ("add", '{"x"')), text("sorry"))
    assert run(ASK, registry, script).output == "sorry"
    assert script.told("fail") == ["Error: tool 'fail' failed: ValueError: no pears"]
    assert script.told("nope")[0].startswith("Error: there is no tool 'nope' here")
    assert script.told("add")[0].startswith("Error: tool 'add' needs 'y'; expects a whole number for 'x'")
    assert script.told("add")[1].startswith("Error: the arguments for 'add' are not JSON")


def test_a_key_that_stands_twice_is_told_to_the_model(registry: agf.Registry) -> None:
    script = Script(call(("add", '{"x": 1, "y": 2, "y": 3}')), text("sorry"))
    assert run(ASK, registry, script).output == "sorry"
    (told,) = script.told("add")
    assert told == "Error: the arguments for 'add' are not JSON: an object in it has 'y' twice"


def test_calls_of_one_reply_run_concurrently(registry: agf.Registry) -> None:
    both = asyncio.Barrier(2)

    @agf.tool(registry=registry)
    async def meet() -> str:
        await both.wait()
        return "met"

    assert run(ASK, registry, Script(call(("meet", {}), ("meet", {})), text("ok"))).output == "ok"


def test_with_the_last_step_the_model_must_answer(registry: agf.Registry) -> None:
    script = Script(call(("add", {"x": 2, "y": 3})))
    agf.model_agent("clerk", model=script.model(), max_steps=3, registry=registry)
    error = refusal(ASK, registry)
    assert error.code == "model.max-steps"
    assert script.offered == [["add", "fail"], ["add", "fail"], []]


# --- structured answers ---


def test_an_answer_of_a_schema_may_be_text_in_a_fence(registry: agf.Registry) -> None:
    assert run(SUM, registry, Script(text('```json\n{"total": 5}\n```'))).output == {"total": 5}


def test_an_answer_of_a_schema_may_be_the_call_that_is_there_for_it(registry: agf.Registry) -> None:
    assert run(SUM, registry, Script(call(("final_answer", {"total": 5})))).output == {"total": 5}


def test_a_model_is_asked_with_all_fields_required(registry: agf.Registry) -> None:
    script = Script(call(("final_answer", {"total": 5})))
    run(SUM, registry, script)
    assert script.asked[0][1].output_tools[0].parameters_json_schema["required"] == ["total"]


def test_a_model_is_asked_again_twice_and_then_fails_with_what_it_said(registry: agf.Registry) -> None:
    script = Script(text("five"), text('{"total": "five"}'), text('{"total": null}'))
    error = refusal(SUM, registry, script)
    assert error.code == "agent.reply-schema"
    assert "total" in error.diagnostic.message
    assert 'it was: {"total": null}' in (error.diagnostic.hint or "")
    assert len(script.asked) == 3
    again = script.asked[-1][0][-1].parts[-1]
    assert "needs a number, not text 'five'" in str(again.content)  # type: ignore[union-attr]


def test_a_model_may_correct_its_answer(registry: agf.Registry) -> None:
    ended = run(SUM, registry, Script(text("five"), call(("final_answer", {"total": 5}))))
    assert ended.output == {"total": 5}
    assert ended.sessions == 1


def test_an_agent_says_what_it_gives(registry: agf.Registry) -> None:
    gives = {"type": "array", "items": {"type": "integer"}}
    agf.model_agent("clerk", model=Script(text("[1, 2]")).model(), gives=gives, registry=registry)
    assert run(ASK, registry).output == [1, 2]


# --- who may use what ---


def test_tools_are_offered_as_far_as_everybody_allows_them(registry: agf.Registry) -> None:
    script = Script(text("ok"))
    agf.model_agent("clerk", model=script.model(), tools=["add"], registry=registry)
    run("pipeline: p\nsteps:\n- agent: {prompt: a, capabilities: {tools: [add, fail]}}", registry)
    run("pipeline: p\nsteps:\n- agent: {prompt: a, identity: clerk, capabilities: {tools: [fail]}}", registry)
    assert script.offered == [["add"], []]


def test_an_agent_is_found_by_its_name_and_gets_its_instructions(registry: agf.Registry) -> None:
    script = Script(text("ok"))
    agf.model_agent("first", model=Script(text("no")).model(), registry=registry)
    agf.model_agent("clerk", model=script.model(), instructions=" Be  brief.\n", temperature=0.5, registry=registry)
    assert run("pipeline: p\nsteps:\n- agent: {prompt: a, identity: clerk}", registry).output == "ok"
    messages, info = script.asked[0]
    assert messages[0].parts[0].content == " Be  brief.\n"  # type: ignore[union-attr]
    assert (info.model_settings or {})["temperature"] == 0.5


def test_a_secret_that_a_model_says_is_not_shown_and_reaches_its_tool(registry: agf.Registry) -> None:
    received: list[str] = []

    @agf.tool(secret=["token"], registry=registry)
    def login(token: str) -> str:
        received.append(token)
        return "in"

    events: list[ev.Event] = []
    run(ASK, registry, Script(call(("login", {"token": "open-sesame"})), text("ok")), on_event=events.append)
    assert received == ["open-sesame"]
    assert "open-sesame" not in repr(events)


# --- limits ---


def test_a_session_counts_once_as_a_spawn(registry: agf.Registry) -> None:
    script = Script(call(("add", {"x": 2, "y": 3})), text("5"))
    assert run(ASK, registry, script, limits=agf.Limits(spawns=1)).sessions == 1
    two = ASK + '- agent: {prompt: "again"}\n'
    assert refusal(two, registry, Script(text("5")), limits=agf.Limits(spawns=1)).code == "limit.spawns"


def test_the_calls_of_a_reply_are_no_scope_of_a_fan_out(registry: agf.Registry) -> None:
    script = Script(call(("add", {"x": 2, "y": 3})), text("5"))
    nested = """
pipeline: p
steps:
- for_each: {items: [1], on_error: abort, do: {agent: {prompt: a}}, collect: {transform: {value: pipe}}}
"""
    assert run(nested, registry, script, limits=agf.Limits(fan_out_depth=1)).output == ["5"]


POLICY = """
schema_version: "1.0.0"
metadata: {id: t, name: T, version: "1.0.0", description: test}
interface: {input: {}, output: {}}
constraints: %s
action_space:
  local_tools: [{alias: plus, name: add}]
execution_policy:
  id: agf.react
  config: {instructions: Add., model: "openai:gpt-4o"}
"""


def policy(constraints: str, registry: agf.Registry) -> agf.Flow:
    return agf.load(POLICY % constraints, "policy", registry=registry)


def test_an_alias_means_the_tool_of_its_name_and_a_run_says_which_model_answered(registry: agf.Registry) -> None:
    script = Script(call(("plus", {"x": 2, "y": 3})), text("5"))
    registry.choose(script.model())
    ended = agf.run(policy("{}", registry), {"q": "?"}, registry=registry)
    assert (ended.output, ended.calls, script.offered[0]) == ("5", 1, ["plus"])
    assert "'openai:gpt-4o'" in ended.note


def test_a_definitions_own_model_is_asked_where_none_is_configured(
    registry: agf.Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(agf.DefinitionError) as caught:
        agf.run(policy("{}", registry), {"q": "?"}, registry=registry)
    assert caught.value.code == "model.no-key"


def test_an_agent_of_a_policy_may_be_a_model(registry: agf.Registry) -> None:
    script = Script(text('{"n": 1}'))
    gives = {"type": "object", "properties": {"n": {"type": "integer"}}}
    agf.model_agent("first", model=script.model(), gives=gives, registry=registry)
    agf.model_agent("second", model=Script(text("ok")).model(), registry=registry)
    steps = "[{agent: first}, {agent: second, input_mapping: {n: first.output.n, q: first.input.q}}]"
    ended = agf.run(
        agf.load(f"id: agf.sequential\nconfig: {{steps: {steps}}}", "policy", registry=registry),
        {"q": "?"},
        registry=registry,
    )
    assert (ended.output, ended.sessions) == ("ok", 2)


# --- time ---

BUSY = ModelHTTPError(429, "m", {"error": {"message": "slow down"}})


async def silent(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
    await asyncio.sleep(10_000)
    raise AssertionError("nobody waits so long")


def in_virtual_time(registry: agf.Registry, script: Script | None = None, **options: Any) -> tuple[agf.Run, float]:
    """Run a session in virtual time. Returns the run and the seconds. ``script``: None for a model that never
    answers."""
    registry.choose(script.model() if script else FunctionModel(silent))

    async def main() -> tuple[agf.Run, float]:
        ended = await agf.arun(ASK, registry=registry, raises=False, **options)
        return ended, asyncio.get_running_loop().time()

    return run_virtual(main())


def test_a_provider_that_is_busy_is_asked_again_a_little_later(registry: agf.Registry) -> None:
    ended, took = in_virtual_time(registry, Script(BUSY, BUSY, text("5")))
    assert (ended.output, took) == ("5", pytest.approx(1 + 2, abs=0.1))
    assert [warning.code for warning in ended.warnings] == ["model.retried", "model.retried"]


def test_a_provider_that_stays_busy_is_given_up(registry: agf.Registry) -> None:
    script = Script(BUSY)
    ended, took = in_virtual_time(registry, script)
    assert (ended.error.code, len(script.asked)) == ("model.rate-limit", 4)
    assert took == pytest.approx(1 + 2 + 4, abs=0.1)


def test_a_provider_is_waited_for_as_long_as_it_asks(registry: agf.Registry) -> None:
    later = ModelHTTPError(429, "m", retry_after=30)
    assert in_virtual_time(registry, Script(later, text("5")))[1] == pytest.approx(30, abs=0.1)


def test_a_provider_that_asks_for_an_hour_is_not_waited_for(registry: agf.Registry) -> None:
    script = Script(ModelHTTPError(429, "m", retry_after=3600))
    ended, _ = in_virtual_time(registry, script)
    assert (ended.error.code, len(script.asked)) == ("model.rate-limit", 1)


def test_a_model_that_never_answers_is_given_up(registry: agf.Registry) -> None:
    ended, took = in_virtual_time(registry, limits=agf.Limits(model_timeout=100))
    assert ended.error.code == "model.timeout"
    assert took == pytest.approx(100, abs=0.1)


def test_a_step_that_a_model_answers_has_its_own_time_limit(registry: agf.Registry) -> None:
    registry.choose(FunctionModel(silent))
    flow = agf.load(ASK, registry=registry)
    (step,) = flow.body.steps
    hasty = replace(flow, body=replace(flow.body, steps=(replace(step, timeout=20.0),)))  # type: ignore[call-arg]
    ended = run_virtual(agf.arun(hasty, registry=registry, raises=False))
    assert (ended.error.code, ended.error.diagnostic.message) == ("step.timeout", "'agent' took longer than 20 s")


def test_a_run_is_cancelled_while_a_model_thinks(registry: agf.Registry) -> None:
    thinking = asyncio.Event()

    async def slow(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        thinking.set()
        await asyncio.sleep(10_000)
        raise AssertionError("it was cancelled")

    registry.choose(FunctionModel(slow))
    events: list[ev.Event] = []

    async def main() -> None:
        going = asyncio.create_task(agf.arun(ASK, registry=registry, on_event=events.append))
        await thinking.wait()
        going.cancel()
        await going

    with pytest.raises(asyncio.CancelledError):
        run_virtual(main())
    cancelled = [event.at for event in events if isinstance(event, ev.StepCancelled)]
    assert ("steps[0]", "session.ask", 0) in cancelled
    ended = events[-1]
    assert isinstance(ended, ev.RunEnded)
    assert ended.status == "cancelled"


# --- a real server ---


@contextmanager
def served(
    registry: agf.Registry, script: Sequence[Answer] | Callable[[dict[str, Any]], Answer]
) -> Iterator[ScriptedServer]:
    with ScriptedServer(script) as server:
        registry.choose("openai:scripted", server.url)
        yield server


def test_a_session_with_a_server(registry: agf.Registry) -> None:
    with served(registry, [calls(("add", {"x": 2, "y": 3})), '{"total": 5}']) as server:
        assert agf.run(SUM, registry=registry).output == {"total": 5}
    tool = server.requests[0]["tools"][0]["function"]
    assert (tool["name"], tool["description"]) == ("add", "The sum.")
    assert json.loads(server.requests[1]["messages"][-1]["content"]) == 5


def test_a_server_that_is_busy_once(registry: agf.Registry) -> None:
    with served(registry, [failing(429, "slow down", Retry_After="0"), failing(503, "so busy", Retry_After="0"), "5"]):
        assert agf.run(ASK, registry=registry).output == "5"


def test_a_connection_that_stalls_is_cut(registry: agf.Registry) -> None:
    with served(registry, [Raw(stalls=True)]), pytest.raises(agf.StepError) as caught:
        agf.run(ASK, registry=registry, limits=agf.Limits(model_timeout=0.2))
    assert caught.value.code == "model.timeout"


def test_a_run_is_cancelled_while_a_server_is_silent(registry: agf.Registry) -> None:
    going: list[agf.Run] = []

    def silent(body: dict[str, Any]) -> Answer:
        going[0].cancel()
        return Raw(stalls=True)

    agf.define(ASK, registry=registry)
    with served(registry, silent):
        going.append(prepare_run("sum", None, RunOptions(registry=registry)))
        start_on_engine(going[0])
        going[0].wait()
    assert going[0].status == "cancelled"
    assert going[0].steps["steps[0]/session.ask"].state == "cancelled"


def test_sessions_side_by_side_share_a_server(registry: agf.Registry) -> None:
    text = """
pipeline: p
steps:
- for_each:
    items: [a, b, c, d]
    on_error: abort
    do: {agent: {prompt: "{item}"}}
    collect: {transform: {value: pipe}}
"""
    with served(registry, lambda body: str(body["messages"][-1]["content"]).upper()):
        assert agf.run(text, registry=registry).output == ["A", "B", "C", "D"]


def test_a_key_is_sent_to_its_provider_and_shown_and_kept_nowhere(
    registry: agf.Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[ev.Event] = []
    answers = [calls(("add", {"x": 2, "y": 3})), failing(401, "this key is wrong: not-to-be-seen")]
    with ScriptedServer(answers) as server, kept.journal_in(tmp_path) as path:  # type: ignore[arg-type]
        monkeypatch.setenv("OPENAI_API_KEY", "not-to-be-seen")
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        registry.choose("openai-chat:m")
        ended = agf.run(ASK, registry=registry, on_event=events.append, raises=False)
        kept.flush(path)
        stored = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert server.headers[0]["authorization"] == "Bearer not-to-be-seen"
    assert ended.error.code == "model.key-refused"
    assert "not-to-be-seen" not in f"{events}{ended.error}{vars(ended.error)}{ended!r}{registry.model!r}"
    assert b"key is wrong" in stored
    assert b"not-to-be-seen" not in stored


# --- before a run, and without one ---


def test_a_missing_agent_is_reported_before_a_run(registry: agf.Registry) -> None:
    with pytest.raises(agf.DefinitionError) as caught:
        agf.run(ASK, registry=registry)
    assert caught.value.code == "flow.no-agent"
    assert "AgfMagics.model" in (caught.value.diagnostic.hint or "")


def test_a_dry_run_asks_no_model(registry: agf.Registry) -> None:
    script = Script(text("5"))
    ended = run(SUM, registry, script, dry=True)
    assert set(ended.output) == {"total"}
    assert (ended.sessions, script.asked) == (1, [])


def test_a_wrong_model_agent_is_refused(registry: agf.Registry) -> None:
    with pytest.raises(TypeError, match="temprature"):
        agf.model_agent("clerk", temprature=1, registry=registry)
    with pytest.raises(ValueError, match="max_steps"):
        agf.model_agent("clerk", max_steps=0, registry=registry)
    with pytest.raises(ValueError, match="user"):
        agf.model_agent("user", registry=registry)


# --- resumed sessions ---


def test_a_resumed_session_continues_where_it_broke_off(registry: agf.Registry, tmp_path: Path) -> None:
    script = Script(call(("add", {"x": 2, "y": 3})), ModelHTTPError(400, "m"), text("5"))
    registry.choose(script.model())
    with kept.journal_in(tmp_path):
        broken = agf.run(ASK, registry=registry, raises=False)
        assert broken.error.code == "model.rejected"
        resumed = agf.resume(broken.run_id, registry=registry)
    assert (resumed.output, len(script.asked)) == ("5", 3)
    assert script.told("add") == ["5"]


def test_an_equal_request_is_not_made_again_where_results_are_reused(registry: agf.Registry, tmp_path: Path) -> None:
    agf.define(ASK, registry=registry)
    with kept.journal_in(tmp_path), served(registry, ["5", "6"]) as server:
        agf.run("sum", registry=registry)
        assert agf.run("sum", registry=registry, reuse=True).output == "5"
        assert len(server.requests) == 1
        registry.choose("openai:another", server.url)
        assert agf.run("sum", registry=registry, reuse=True).output == "6"


def used(run: Any) -> tuple[int, bool]:
    """The number of requests, and whether their tokens add up."""
    requests, input, output = run.usage[:3]
    return requests, run.usage.tokens == input + output > 0


def test_the_usage_of_models_is_shown_and_kept_and_added_up_in_a_resumed_run(
    registry: agf.Registry, tmp_path: Path
) -> None:
    script = Script(call(("add", {"x": 2, "y": 3})), ModelHTTPError(400, "m"), text("5"))
    registry.choose(script.model())
    with kept.journal_in(tmp_path):
        broken = agf.run(ASK, registry=registry, raises=False)
        assert (used(broken), used(find_past_run(broken.run_id))) == ((1, True), (1, True))
        assert [run.tokens for run in agf.runs()] == [broken.usage.tokens]
        resumed = agf.resume(broken.run_id, registry=registry)
        first = broken.usage
        assert used(resumed) == (2, True)
        assert (resumed.usage.input > first.input, resumed.usage.output > first.output) == (True, True)
        assert find_past_run(resumed.run_id).usage == resumed.usage
        assert [run.tokens for run in agf.runs()] == [resumed.usage.tokens]
        expected = f"{resumed.usage.tokens:,} tokens in 2 requests"
        for run_seen in (resumed, find_past_run(resumed.run_id)):
            bundle = run_seen._repr_mimebundle_()
            assert expected in bundle["text/html"]
            assert expected in bundle["text/plain"]
        assert f" {resumed.usage.tokens:,} " in repr(agf.runs())


def test_reused_results_count_for_the_run_that_paid_for_them(registry: agf.Registry, tmp_path: Path) -> None:
    agf.define(ASK + "- tool: {name: fail}\n", registry=registry)
    with kept.journal_in(tmp_path), served(registry, ["5"]) as server:
        first = agf.run("sum", registry=registry, raises=False)
        again = agf.run("sum", registry=registry, reuse=True, raises=False)
        agf.tool(lambda: 1, name="fail", registry=registry)
        taken_up = agf.resume(again.run_id, registry=registry)
        assert len(server.requests) == 1
        assert [used(run_seen) for run_seen in (first, find_past_run(first.run_id))] == [(1, True)] * 2
        for run_seen in (again, taken_up, find_past_run(again.run_id)):
            assert run_seen.usage[:3] == (0, 0, 0)
            assert "token" not in run_seen._repr_mimebundle_()["text/plain"]


def test_a_secret_that_was_not_kept_is_asked_of_the_model_again(registry: agf.Registry, tmp_path: Path) -> None:
    received: list[str] = []

    @agf.tool(secret=["token"], registry=registry)
    def login(token: str) -> str:
        received.append(token)
        return "in"

    ask = call(("login", {"token": "open-sesame"}))
    registry.choose(Script(ask, text("ok")).model())
    with kept.journal_in(tmp_path) as path:
        run_id = agf.run(ASK, registry=registry).run_id
        begun = kept.cut(path, 1, tmp_path / "cut")  # keeps only the first reply
        assert not [row for row in rows(path) if "open-sesame" in row]
    received.clear()
    script = Script(ask, text("ok"))
    registry.choose(script.model())
    with kept.journal_in(begun.parent):
        assert agf.resume(run_id, registry=registry).output == "ok"
    assert received == ["open-sesame"]
    assert script.told("login") == [
        "Error: tool 'login' needs 'token' again: it is a secret, and secrets are not stored",
        "in",
    ]


def rows(path: Path) -> list[str]:
    kept.flush(path)
    with closing(sqlite3.connect(path)) as connection:
        return [str(row) for row in connection.execute("SELECT given, value, shown, error FROM records")]


def test_a_reply_that_does_not_conform_to_the_agent_is_refused_at_its_name(registry: agf.Registry) -> None:
    gives = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    agf.model_agent("clerk", model=Script(text('{"n": "no number"}')).model(), gives=gives, registry=registry)
    document = "pipeline: p\nsteps:\n- agent: {prompt: how many?, identity: clerk}\n"
    error = agf.run(document, registry=registry, raises=False).error
    span = error.diagnostic.span
    assert (error.code, span.source.text[span.start : span.end]) == ("agent.reply-schema", "clerk")
