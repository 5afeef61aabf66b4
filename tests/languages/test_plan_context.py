"""Plans and their contexts, in cases that vector rows of calls cannot describe."""

from __future__ import annotations

import asyncio
import json
import textwrap
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator

import agf_magics as agf
from agf_magics.flow.flow import outermost
from agf_magics.flow.progress.events import (
    BackgroundCallEnded,
    StepFailed,
    StepFinished,
    StepSkipped,
    StepStarted,
)
from agf_magics.languages.plan import Log
from agf_magics.languages.plan.log.reading import resolve
from tests.engine import kept
from tests.engine.virtual_time import run_virtual


@pytest.fixture
def registry() -> agf.Registry:
    registry = agf.Registry()

    def add(function: Any, name: str, **more: Any) -> None:
        agf.tool(function, name=name, registry=registry, **more)

    def boom() -> None:
        raise ValueError("boom")

    add(lambda: 1, "one")
    add(lambda n: n + 1, "inc")
    add(lambda v: v, "echo")
    add(boom, "boom")
    return registry


def plan(*calls: str, **keys: str) -> str:
    """The text of a plan."""
    head = "".join(f"{key}: {value}\n" for key, value in {"name": "p", **keys}.items())
    return head + "calls:\n" + "".join(f"- {{{call}}}\n" for call in calls)


def run(text: str, registry: agf.Registry, **more: Any) -> agf.Run:
    flow = agf.define(text, "plan", registry=registry)
    assert flow is not None
    return agf.run(flow, registry=registry, **more)


# --- the output of a plan ---


def test_the_output_is_read_when_no_call_runs_any_more(registry: agf.Registry) -> None:
    result = run(plan("_tool: one, _outputPath: †state.a", output="{a: †state.a, b: †state.b || 7}"), registry)
    assert result.output == {"a": 1, "b": 7}
    assert result.stores == {"state": {"a": 1}, "output": {"a": 1, "b": 7}}
    assert agf.context("p", registry=registry)[-1] == {"type": "data", "kind": "output", "data": {"a": 1, "b": 7}}


@pytest.mark.parametrize("kind", ["input", "state"])
def test_the_hint_for_a_kind_without_a_value_says_how_to_give_one(registry: agf.Registry, kind: str) -> None:
    result = run(plan(f"_tool: echo, v: †{kind}.y, _outputPath: †output.z"), registry, raises=False)
    assert result.error is not None
    hint = result.error.diagnostics[0].hint or ""
    assert "give it" in hint
    assert hint.endswith(f"or add a default: †{kind}.y || 10")


def test_changing_an_output_changes_no_history(registry: agf.Registry) -> None:
    result = run("{name: p, calls: [{_tool: echo, v: [1], _outputPath: †state.a}], output: †state}", registry)
    result.output["a"].append(2)
    result.stores["state"]["a"].append(3)
    assert agf.context("p", registry=registry).resolve("†state.a") == [1]


# --- failures ---


def test_a_failed_call_is_raised_at_the_end_and_everything_else_is_done_first(registry: agf.Registry) -> None:
    text = (
        "name: p\ncalls:\n- {_tool: boom, _outputPath: †state.a}\n- {_tool: inc, n: †state.a, _outputPath: †state.b}\n"
        "- {_tool: one, _outputPath: †state.c}\n- {_tool: inc, n: †state.c, _outputPath: †state.d}\noutput: †state.d\n"
    )
    events: list[Any] = []
    with pytest.raises(agf.StepError) as caught:
        run(text, registry, on_event=events.append)
    assert caught.value.code == "step.tool-failed"
    assert isinstance(caught.value.__cause__, ValueError)
    assert caught.value.partial["state"] == {"c": 1, "d": 2}
    assert caught.value.partial["output"] == 2
    (skipped,) = [event for event in events if isinstance(event, StepSkipped)]
    assert (skipped.at, skipped.why) == (("calls[1]",), "upstream failed: †state.a was not written")
    (error,) = [m["data"] for m in agf.context("p", registry=registry) if m.get("kind") == "error"]
    assert error == {
        "call": {"_tool": "boom", "_outputPath": "†state.a"},
        "error": {"code": "ValueError", "message": "boom"},
    }
    assert agf.run("p", registry=registry, raises=False).status == "error"


def test_a_hint_is_about_the_argument_that_does_not_fit(registry: agf.Registry) -> None:
    @agf.tool(registry=registry)
    def order(count: int, item: str) -> str:
        return item * count

    flow = agf.define("{name: p, calls: [{_tool: order, count: $input.n, item: n}]}", "plan", registry=registry)
    assert flow is not None
    failed = agf.run(flow, {"n": "x"}, registry=registry, raises=False)
    assert failed.error is not None
    assert (failed.error.code, failed.error.diagnostic.hint) == ("tool.arguments", None)


def test_all_failures_are_reported_together(registry: agf.Registry) -> None:
    text = (
        "name: p\ncalls:\n- {_tool: boom, _outputPath: †state.a}\n- {_tool: inc, n: †state.z, _outputPath: †state.b}\n"
    )
    with pytest.raises(agf.StepError) as caught:
        run(text, registry)
    assert [diagnostic.code for diagnostic in caught.value.diagnostics] == [
        "step.tool-failed",
        "plan.unresolved-reference",
    ]
    assert "†state.z" in str(caught.value)


def test_a_failure_of_ours_has_its_code(registry: agf.Registry) -> None:
    agf.tool(lambda: asyncio.sleep(9), name="slow", registry=registry, timeout=0.01)
    result = run(
        "{name: p, calls: [{_tool: slow, _outputPath: †state.a || †state.e}], output: †state.e.code}", registry
    )
    assert result.output == "step.timeout"


def run_raw(text: str, registry: agf.Registry, **more: Any) -> agf.Run:
    return run(text, registry, raises=False, **more)


def test_a_cycle_refuses_the_run_before_any_call(registry: agf.Registry) -> None:
    calls = "_tool: inc, n: †state.b, _outputPath: †state.a", "_tool: inc, n: †state.a, _outputPath: †state.b"
    text = plan(*calls, context="p")
    result = run_raw(text, registry)
    assert result.error.code == "plan.cycle"
    assert len(agf.context("p", registry=registry)) == 0
    agf.context("p", registry=registry).append({"type": "data", "kind": "state", "data": {"b": 0}})
    assert agf.run("p", registry=registry).stores["state"] == {"a": 1, "b": 2}


def test_a_branch_is_a_number_or_a_path() -> None:
    with pytest.raises(TypeError):
        agf.planning.branch(None, 1)  # type: ignore[arg-type]


# --- the parameters that a tool may have ---


def test_a_tool_that_asks_is_given_its_call_and_the_messages_of_its_scopes(registry: agf.Registry) -> None:
    questions: list[Any] = []

    def look(x: int, _call: Any, _tool: Any, _context: Any = None) -> int:
        questions.extend([_call, _tool, _context])
        return x

    agf.tool(look, registry=registry)
    run(
        "name: p\ntools: {look: {description: looks}}\nstate: {x: 1}\ninput: {y: 2}\ninstances: {①: {state: {z: 3}}}\n"
        "calls:\n- {_tool: look, x: †state.x, _scopes: [state], _outputPath: †state.r}\n",
        registry,
    )
    call, tool, context = questions
    assert call == {"_tool": "look", "x": "†state.x", "_scopes": ["state"], "_outputPath": "†state.r", "_instance": "①"}
    assert tool == {"look": {"description": "looks"}}
    assert context == [
        {"type": "data", "kind": "state", "data": {"x": 1}},
        {"type": "data", "kind": "state", "data": {"z": 3}},
    ]
    questions.clear()
    run("{name: q, calls: [{_tool: look, x: 1, _outputPath: †state.r}]}", registry)
    assert questions[2] == []


def test_wrong_arguments_of_a_tool_are_reported_before_anything_runs(registry: agf.Registry) -> None:
    with pytest.raises(agf.DefinitionError) as caught:
        run(
            "{name: p, calls: [{_tool: inc, m: 1, _outputPath: †state.r}, {_tool: nobody, _outputPath: †state.s}]}",
            registry,
        )
    assert {diagnostic.code for diagnostic in caught.value.diagnostics} == {
        "flow.unknown-argument", "flow.missing-argument", "flow.unknown-tool",
    }  # fmt: skip


def test_a_flow_of_any_language_is_called_with_a_log_of_its_own(registry: agf.Registry) -> None:
    agf.define("{pipeline: double, steps: [{transform: {value: ctx.n * 2, output: r}}]}", registry=registry)
    inner = plan("_tool: inc, n: †input.n, _outputPath: †state.r", name="inner", output="†state.r")
    agf.define(inner, "plan", registry=registry)
    result = run(
        plan("_delegate: double, n: 3, _outputPath: †state.a", "_tool: inner, n: †state.a, _outputPath: †state.b"),
        registry,
    )
    assert result.stores == {"state": {"a": 6, "b": 7}}
    assert len(agf.context("inner", registry=registry)) == 0


# --- latent, fired, lazy, approved ---


THOUGHT = "_tool: think, about: †input.x, _output: [1, 2], _outputPath: †state.t"


def test_a_tool_may_be_latent_by_a_message_or_by_an_option_of_the_definition(
    registry: agf.Registry, tmp_path: Path
) -> None:
    messages_text = "[{type: tool, tool: {think: {properties: {about: {type: string}}}}}]"
    assert run(plan(THOUGHT, messages=messages_text), registry, input={"x": 1}).stores["state"] == {"t": [1, 2]}
    text = plan(THOUGHT, "_tool: boom, _outputPath: †state.b", name="q")
    flow = agf.define(text, "plan", registry=registry, latent=["think"])
    assert flow is not None
    assert [step.word for step in outermost(flow)] == ["latent", "tool"]
    with kept.journal_in(tmp_path):
        failed = agf.run("q", {"x": 1}, registry=registry, raises=False)
        agf.tool(lambda: 3, name="boom", registry=registry)
        assert agf.resume(failed.run_id, registry=registry).stores["state"] == {"t": [1, 2], "b": 3}


def test_a_latent_tool_needs_its_answer_and_only_plans_have_any(registry: agf.Registry) -> None:
    for text, language, latent, code, marked in (
        ("- {_tool: think, _outputPath: †state.t}\n", "plan", ["think"], "plan.no-activity", "think"),
        ("- {_tool: thinks, _output: 1, _outputPath: †state.t}\n", "plan", ["think"], "plan.no-activity", "_output"),
        ("steps: []", "pipeline", ["think"], "define.latent", ""),
        ("- {_tool: a}", "plan", "think", "define.latent", ""),
        ("- {_tool: a}", "plan", [" "], "define.latent", ""),
    ):
        with pytest.raises(agf.DefinitionError) as caught:
            agf.load(text, language, registry=registry, latent=latent)
        diagnostic = caught.value.diagnostic
        assert (diagnostic.code, diagnostic.span.text if diagnostic.span else "") == (code, marked)


def test_a_background_call_is_not_waited_for_and_leaves_nothing(registry: agf.Registry) -> None:
    events: list[Any] = []

    async def slow(v: int) -> agf.planning.Message:
        await asyncio.sleep(60)
        return agf.planning.Message({"x": v}, kind="state")

    agf.tool(slow, registry=registry)
    text = plan("_tool: one, _outputPath: †state.a", "_tool: slow, v: †state.a")
    flow = agf.define(text, "plan", registry=registry)

    async def main() -> tuple[float, float]:
        run_of_plan = await agf.arun(flow, registry=registry, on_event=events.append)  # type: ignore[arg-type]
        assert run_of_plan.stores == {"state": {"a": 1}}
        time_of_end = asyncio.get_running_loop().time()
        await asyncio.sleep(100)
        return time_of_end, len(agf.context("p", registry=registry))

    time_of_end, messages = run_virtual(main())
    assert time_of_end < 60
    assert messages == 1


def test_a_lazy_plan_calls_nothing(registry: agf.Registry) -> None:
    events: list[Any] = []
    text = plan("_tool: boom, _outputPath: †state.a", mode="lazy", output="†state.a")
    result = run(text, registry, on_event=events.append)
    assert (result.status, result.output, result.calls) == ("ok", None, 0)
    (why,) = [event.why for event in events if isinstance(event, StepSkipped)]
    assert why == "the plan has mode: lazy, which makes no calls"


def test_a_call_that_the_user_refuses_is_not_made(registry: agf.Registry) -> None:
    questions: list[str] = []

    def ask(question: Any) -> bool:
        questions.append(question.text)
        return "one" not in question.text

    text = plan(
        "_tool: one, _outputPath: †state.a || †state.e",
        "_tool: echo, v: 2, _outputPath: †state.b",
        "_tool: inc, n: †state.a, _outputPath: †state.c",
        confirm="true",
    )
    result = run_raw(text, registry, ask=ask)
    assert sorted(questions) == ["call echo(v=2)?", "call one()?"]
    denied = {"code": "step.denied", "message": "'one' was not called: it was denied"}
    assert result.stores == {"state": {"b": 2, "e": denied}}
    questions.clear()
    run_raw(text.replace("confirm: true", "confirm: [echo]"), registry, ask=ask)
    assert questions == ["call echo(v=2)?"]


def test_the_user_may_replace_the_arguments_or_the_result_of_a_call(registry: agf.Registry) -> None:
    put: dict[str, Any] = {"echo": {"v": 20}, "boom": {"_output": 7}, "inc": {"n": 100}}
    offered: list[Any] = []

    def ask(question: Any) -> Any:
        offered.append((question.arguments, question.result))
        return put[question.text.split("(")[0].removeprefix("call ")]

    text = plan(
        "_tool: echo, v: 2, _outputPath: †state.a",
        "_tool: boom, _outputPath: †state.b",
        "_tool: inc, n: †state.a, _outputPath: †state.c",
        name="p",
        confirm="true",
    )
    result = run(text, registry, ask=ask)
    assert result.stores == {"state": {"a": 20, "b": 7, "c": 101}}
    assert offered == [({"v": 2}, "_output"), ({}, "_output"), ({"n": 20}, "_output")]
    calls = [message["_call"] for message in agf.context("p", registry=registry).log]
    assert sorted(({**call, "_outputPath": None} for call in calls), key=lambda call: str(call["_tool"])) == [
        {"_tool": "boom", "_output": 7, "_outputPath": None},  # echo and boom may end in any order
        {"_tool": "echo", "v": 20, "_outputPath": None},
        {"_tool": "inc", "n": 100, "_outputPath": None},
    ]


def test_a_message_of_a_changed_call_that_fails_has_the_changed_call(registry: agf.Registry) -> None:
    @agf.tool(registry=registry)
    def halve(n: int) -> int:
        if n % 2:
            raise ValueError(f"{n} is odd")
        return n // 2

    text = plan("_tool: halve, n: 2, _outputPath: †state.a", name="p", confirm="true")
    run_raw(text, registry, ask=lambda question: {"n": 3})
    [message] = agf.context("p", registry=registry).log
    assert message["data"]["call"]["n"] == 3
    assert message["data"]["error"]["message"] == "3 is odd"


@pytest.mark.parametrize(
    ("put", "hint"),
    [
        ({"w": 1}, "tool 'echo' has no argument 'w'"),
        ({"_outputPath": "†state.z"}, "tool 'echo' has no argument '_outputPath'"),
        ({"_output": 1, "v": 2}, "either other arguments or '_output': with a result there is no call"),
    ],
)
def test_a_wrong_replacement_is_asked_for_again_and_then_cancels_the_call(
    registry: agf.Registry, put: Any, hint: str
) -> None:
    @agf.tool(registry=registry)
    def echo(v: int) -> int:
        return v

    text = plan("_tool: echo, v: 2, _outputPath: †state.a || †state.e", confirm="true")
    answers, questions = [put, {"v": 3}], list[str]()

    def ask(question: Any) -> Any:
        questions.append(question.text)
        return answers.pop(0)

    assert run(text, registry, ask=ask).stores == {"state": {"a": 3}}
    assert questions[0] == "call echo(v=2)?"
    assert hint in questions[1]
    agf.context("p", registry=registry).clear()
    result = run_raw(text.replace(" || †state.e", ""), registry, ask=lambda question: put)
    assert (result.error.code, result.stores) == ("step.instead", {})
    assert hint in str(result.error)


def test_the_replacement_of_a_delegated_call_is_the_input_of_its_flow(registry: agf.Registry) -> None:
    agf.define("{name: inner, calls: [], output: †input.v}", "plan", registry=registry)
    text = plan("_delegate: inner, v: 2, _outputPath: †state.a", confirm="true")
    assert run(text, registry, ask=lambda question: {"v": 5}).stores == {"state": {"a": 5}}
    assert run(text, registry, ask=lambda question: {"_output": "x"}).stores == {"state": {"a": "x"}}
    refused = run_raw(text, registry, ask=lambda question: {"_tool": "x"}).error
    assert refused is not None
    assert "the call has no argument '_tool'" in str(refused)


def test_a_secret_that_the_user_puts_into_a_call_reaches_only_its_tool(registry: agf.Registry) -> None:
    received: list[str] = []

    @agf.tool(registry=registry, secret=["token"])
    def use(token: str) -> int:
        received.append(token)
        return len(token)

    text = plan("_tool: use, token: †input.token, _outputPath: †state.a", name="p", confirm="true")
    events: list[Any] = []
    put = {"token": "hidden-one"}
    result = run(text, registry, input={"token": "first-one"}, ask=lambda question: put, on_event=events.append)
    assert (received, result.stores["state"]) == (["hidden-one"], {"a": 10})
    assert "hidden-one" not in repr(events)
    assert "hidden-one" not in repr(list(agf.context("p", registry=registry).log))


def test_a_secret_input_does_not_stay_in_the_context(registry: agf.Registry, tmp_path: Path) -> None:
    received: list[str] = []

    @agf.tool(registry=registry, secret=["token"])
    def use(token: str, of: str) -> str:
        received.append(token)
        return of

    @agf.tool(registry=registry)
    def make() -> str:
        return "m4de-by-a-tool"

    text = plan(
        "_tool: make, _outputPath: †state.made",
        "_tool: use, token: †state.made, of: †input.of, _outputPath: †state.b",
        "_tool: use, token: †input.token, of: †input.of, _outputPath: †state.a",
    )
    with kept.journal_in(tmp_path) as path:
        for _ in range(2):
            run(text, registry, input={"token": "s3cret-t0ken", "of": "shown"})
        assert sorted(received) == ["m4de-by-a-tool"] * 2 + ["s3cret-t0ken"] * 2
        log_text = repr(list(agf.context("p", registry=registry).log))
        assert ("shown" in log_text, "s3cret" in log_text, "m4de" in log_text) == (True, False, False)
        disk = kept.on_disk(path)
        assert (b"s3cret-t0ken" in disk, b"m4de-by" in disk) == (False, False)
    again = run_raw(text, registry, input={"of": "shown"})
    assert again.error.code == "plan.unresolved-reference"


@pytest.mark.parametrize(
    "message",
    [
        {"type": "data", "kind": "state", "data": {"token": "s3cret", "of": "shown"}},
        {"type": "state", "state": {"token": "s3cret", "of": "shown"}},
        {"type": "state", "token": "s3cret", "of": "shown"},
        {"role": "user", "content": {"type": "state", "token": "s3cret", "of": "shown"}},
    ],
)
def test_a_secret_does_not_stay_in_any_shape_of_a_message(registry: agf.Registry, message: dict[str, Any]) -> None:
    @agf.tool(registry=registry, secret=["token"])
    def use(token: str) -> int:
        return len(token)

    registry.contexts.named("p").log = Log([message])
    result = run(plan("_tool: use, token: †state.token, _outputPath: †state.a", context="p"), registry)
    log_text = repr(list(agf.context("p", registry=registry).log))
    assert (result.stores["state"]["a"], "s3cret" in log_text, "shown" in log_text) == (6, False, True)


# --- named contexts ---


COUNT = "{name: p, calls: [{_tool: inc, n: '†state.n || 0', _outputPath: †state.n}], output: †state.n}"


def test_a_run_begins_with_an_empty_context_unless_it_names_one(registry: agf.Registry) -> None:
    runs = [run(COUNT, registry) for _ in range(3)]
    assert [(one_run.output, one_run.note) for one_run in runs] == [(1, "")] * 3
    assert len(agf.context("p", registry=registry)) == 2  # the messages of the last run
    named = run(COUNT.replace("name: p", "name: q, context: p"), registry)
    assert (named.output, named.note) == (2, "reads 2 earlier messages of the context 'p'")


def test_a_call_that_now_fails_is_not_covered_by_the_result_of_an_earlier_run(registry: agf.Registry) -> None:
    answers = iter([1.3])
    agf.tool(lambda: next(answers), name="quote", registry=registry)
    text = plan("_tool: quote, _outputPath: †state.rate || †state.error", output="†state.rate || 1.1")
    assert [run(text, registry).output for _ in range(2)] == [1.3, 1.1]


def test_runs_of_one_plan_at_once_do_not_share_a_context(registry: agf.Registry) -> None:
    both = threading.Barrier(2, timeout=60)
    agf.tool(lambda: both.wait() >= 0, name="meet", registry=registry)
    flow = agf.define("{name: p, calls: [{_tool: meet, _outputPath: †state.a}]}", "plan", registry=registry)
    assert flow is not None
    first, second = (agf.start(flow, registry=registry) for _ in range(2))
    assert [handle.wait().stores for handle in (first, second)] == [{"state": {"a": True}}] * 2


def test_a_context_continues_from_run_to_run_and_can_be_begun_anew(registry: agf.Registry) -> None:
    text = "{name: p, context: p, calls: [{_tool: inc, n: '†state.n || 0', _outputPath: †state.n}], output: †state.n}"
    assert [run(text, registry).output for _ in range(3)] == [1, 2, 3]
    held = agf.context("p", registry=registry)
    assert held.resolve("†state.n", at=2) == 1
    assert held.sources("†state.n") == (4,)
    before = held.log
    held.clear()
    assert (len(held), len(before)) == (0, 6)
    assert run(text.replace("context: p", "context: shared"), registry).output == 1
    assert len(agf.context("shared", registry=registry)) == 2


@pytest.mark.parametrize("is_awaited", [False, True])
def test_two_runs_on_one_context_at_once_are_refused(is_awaited: bool, registry: agf.Registry) -> None:
    go, begun = threading.Event(), threading.Event()

    def hang() -> None:
        begun.set()
        assert go.wait(60)

    agf.tool(hang, registry=registry)
    flow = agf.define("{name: p, context: p, calls: [{_tool: hang, _outputPath: †state.a}]}", "plan", registry=registry)
    assert flow is not None

    def awaited() -> None:
        asyncio.run(agf.arun(flow, registry=registry))

    pool = ThreadPoolExecutor(1)
    wait = pool.submit(awaited).result if is_awaited else agf.start(flow, registry=registry).wait
    try:
        assert begun.wait(60)
        for refused in (
            lambda: agf.run(flow, registry=registry),
            awaited,
            agf.context("p", registry=registry).clear,
            lambda: agf.context("p", registry=registry).append({"type": "data", "data": 1}),
        ):
            with pytest.raises(agf.DefinitionError) as caught:
                refused()
            assert caught.value.code == "run.context-busy"
    finally:
        go.set()
        wait()
        pool.shutdown()
    assert [message["type"] for message in agf.context("p", registry=registry).log] == ["data"]
    agf.context("p", registry=registry).append({"type": "data", "data": 1})
    agf.run(flow, registry=registry)


def test_a_dry_run_adds_nothing_to_the_context(registry: agf.Registry) -> None:
    flow = agf.define("{name: p, calls: [{_tool: one, _outputPath: †state.a}]}", "plan", registry=registry)
    assert flow is not None
    agf.run(flow, registry=registry, dry=True)
    assert len(agf.context("p", registry=registry)) == 0


def test_a_plan_without_a_name_runs_on_a_context_of_its_own(registry: agf.Registry) -> None:
    flow = agf.load("[{_tool: one, _outputPath: †state.a}]", "plan", registry=registry)
    assert agf.run(flow, registry=registry).stores == {"state": {"a": 1}}
    assert list(registry.contexts) == []
    with pytest.raises(agf.DefinitionError) as caught:
        agf.define("[{_tool: one, _outputPath: †state.a}]", "plan", registry=registry)
    assert caught.value.code == "define.no-name"


def test_a_stopped_run_keeps_its_results(registry: agf.Registry) -> None:
    async def main() -> agf.Run:
        text = plan("_tool: one, _outputPath: †state.a", "_tool: wait, v: †state.a, _outputPath: †state.b")
        flow = agf.define(text, "plan", registry=registry)
        return await agf.arun(flow, registry=registry, raises=False)  # type: ignore[arg-type]

    async def wait(v: int) -> None:
        running[0].cancel()
        await asyncio.sleep(60)

    running: list[Any] = []
    agf.tool(wait, registry=registry)

    async def outer() -> None:
        running.append(asyncio.create_task(main()))
        with pytest.raises(asyncio.CancelledError):
            await running[0]

    run_virtual(outer())
    assert agf.context("p", registry=registry).resolve("†state") == {"a": 1}
    agf.context("p", registry=registry).clear()


def test_a_context_is_saved_and_loaded_except_values_that_are_not_json(registry: agf.Registry, tmp_path: Path) -> None:
    table, marks = object(), {"$opaque": 1, "$$opaque": {"type": "x"}}
    agf.tool(lambda: {"table": table, "n": 1.5, "marks": marks, "nan": float("nan")}, name="make", registry=registry)
    run("{name: p, calls: [{_tool: make, _outputPath: †state.made}]}", registry)
    held = agf.context("p", registry=registry)
    assert held.resolve("†state.made.table") is table
    held.save(tmp_path / "p.jsonl")
    assert [json.loads(line)["type"] for line in (tmp_path / "p.jsonl").read_text("utf-8").splitlines()] == ["data"]
    again = agf.context("again", registry=registry)
    again.load(tmp_path / "p.jsonl")
    assert again.resolve("†state.made.n") == 1.5
    assert again.resolve("†state.made.marks") == marks
    for reference in ("†state.made.table", "†state.made.nan", "†state"):
        with pytest.raises(agf.StepError) as caught:
            again.resolve(reference)
        assert caught.value.code == "plan.lost"
    again.save(tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_text("utf-8") == (tmp_path / "p.jsonl").read_text("utf-8")


@pytest.mark.parametrize(
    "line", ["{", "[1]", "7", "[" * 5000, '{"a": ' + '{"a": ' * 500 + "1" + "}" * 501, '{"$opaque": {"type": "x"}}']
)
def test_a_file_that_is_no_context_is_refused_at_its_line(line: str, registry: agf.Registry, tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"type": "data", "data": 1}\n' + line, "utf-8")
    with pytest.raises(agf.DefinitionError) as caught:
        agf.context("p", registry=registry).load(tmp_path / "p.jsonl")
    span = caught.value.diagnostic.span
    assert (caught.value.code, span and span.place[0]) == ("plan.lines", 2)


# --- ticks ---


def test_a_planner_is_asked_until_its_plan_has_an_output(registry: agf.Registry) -> None:
    lengths: list[int] = []

    def planner(messages: Any) -> Any:
        lengths.append(len(messages))
        calls = [{"_tool": "inc", "n": "†state.n || †input.n", "_outputPath": "†state.n"}]
        return calls if len(lengths) < 3 else {"calls": calls, "output": "†state.n", "meta": {}}

    planned = agf.planning.run_planner(planner, input={"n": 1}, context="t", registry=registry)
    assert [run.output for run in planned.runs] == [None, None, 4]
    assert (planned.output, planned.asked, lengths) == (4, (), [1, 2, 3])


def test_a_planner_sees_what_failed_and_may_do_better(registry: agf.Registry) -> None:
    def planner(messages: Any) -> Any:
        if any(message.get("kind") == "error" for message in messages):
            return json.dumps({"calls": [{"_tool": "one", "_outputPath": "†state.a"}], "output": "†state.a"})
        return [{"_tool": "boom", "_outputPath": "†state.a"}]

    planned = agf.planning.run_planner(planner, max_ticks=2, registry=registry)
    assert [run.status for run in planned.runs] == ["error", "ok"]


def test_a_planner_without_an_answer_is_not_asked_for_ever(registry: agf.Registry) -> None:
    runs = agf.planning.run_planner(lambda messages: [], max_ticks=2, registry=registry).runs
    assert [warning.code for warning in runs[-1].warnings if warning.code.startswith("run.max")] == ["run.max-ticks"]
    assert len(runs) == 2
    with pytest.raises(ValueError, match="max_ticks"):
        agf.planning.run_planner(lambda messages: [], max_ticks=0, registry=registry)


@pytest.mark.parametrize("message", [None, 3, "text", {"output": 1}, [{"_tool": object()}]])
def test_a_reply_that_is_not_a_plan_is_reported(message: Any, registry: agf.Registry) -> None:
    with pytest.raises(agf.DefinitionError) as caught:
        agf.planning.run_planner(lambda messages: message, registry=registry)
    assert caught.value.code == "run.planner"


# --- every call has one end ---


def test_every_call_that_starts_ends_once(registry: agf.Registry) -> None:
    events: list[Any] = []
    calls = [
        {"_tool": ("boom" if i % 7 == 3 else "echo"), **({} if i % 7 == 3 else {"v": f"†state.x{i // 2} || 0"}),
         "_outputPath": f"†state.x{i + 1}"}
        for i in range(60)
    ]  # fmt: skip
    result = run_raw(json.dumps({"name": "p", "calls": calls}), registry, on_event=events.append)
    ends = [e.at for e in events if isinstance(e, StepFinished | StepFailed | StepSkipped) and e.at[0] != "calls"]
    assert sorted(ends) == sorted((f"calls[{i}]",) for i in range(60))
    assert result.status == "error"
    assert not [event for event in events if isinstance(event, BackgroundCallEnded)]


def test_plain_functions_of_one_plan_run_at_once(registry: agf.Registry) -> None:
    together = threading.Barrier(3)
    agf.tool(lambda: together.wait(60) >= 0, name="meet", registry=registry)
    text = plan(*(f"_tool: meet, _outputPath: †state.x{i}" for i in range(3)))
    assert run(text, registry).stores == {"state": {"x0": True, "x1": True, "x2": True}}


def test_a_background_flow_is_not_waited_for_and_its_failure_is_a_warning(registry: agf.Registry) -> None:
    ended, events = list[str](), list[Any]()

    async def slow(v: int) -> int:
        await asyncio.sleep(60)
        ended.append(f"slow {v}")
        return v

    async def late() -> None:
        await asyncio.sleep(30)
        raise ValueError("too late")

    agf.tool(slow, registry=registry)
    agf.tool(late, registry=registry)
    inner = plan("_tool: slow, v: †input.v, _outputPath: †state.a", "_tool: late, _outputPath: †state.b", name="inner")
    agf.define(inner, "plan", registry=registry)
    outer = plan("_tool: one, _outputPath: †state.a", "_delegate: inner, v: †state.a")
    flow = agf.define(outer, "plan", registry=registry)

    async def main() -> tuple[agf.Run, list[str]]:
        run_of_plan = await agf.arun(flow, registry=registry, on_event=events.append)  # type: ignore[arg-type]
        before = list(ended)
        await asyncio.sleep(100)
        return run_of_plan, before

    run_of_plan, before = run_virtual(main())
    assert (run_of_plan.status, before, ended) == ("ok", [], ["slow 1"])
    assert [type(event).__name__ for event in events][-2:] == ["RunEnded", "BackgroundCallEnded"]
    assert [warning.code for warning in run_of_plan.warnings if warning.code.startswith("run.fired")] == [
        "run.fired-failed"
    ]


@pytest.mark.parametrize("listens", [False, True])
def test_the_steps_of_a_background_flow_are_not_part_of_the_run(listens: bool, registry: agf.Registry) -> None:
    ended, events = asyncio.Event(), list[Any]()

    async def wait(v: int) -> int:
        await ended.wait()
        return v

    agf.tool(wait, registry=registry)
    agf.tool(lambda: ended.set(), name="end", where="loop", registry=registry)
    text = """
    pipeline: inner
    steps:
    - for_each:
        over: ctx.words
        on_error: continue
        do: {tool: {name: boom}}
        collect: {transform: {value: pipe}}
        output: values
    - tool: {name: end}
    """
    agf.define(textwrap.dedent(text), registry=registry)
    outer = plan("_tool: inner, words: [1, 2]", "_tool: wait, v: 1, _outputPath: †state.a")

    async def main() -> agf.Run:
        return await agf.arun(outer, registry=registry, on_event=events.append if listens else None)

    result = run_virtual(main())
    inner = [row for key, row in result.progress.rows.items() if len(key) > 1]
    assert inner
    assert not [row for row in inner if row.started or row.finished]
    assert (result.status, result.steps["calls[0]"].state, result.progress.failed) == ("ok", "ok", 0)
    assert not [event for event in events if len(getattr(event, "at", ())) > 1]


PLACES = st.sampled_from(["†state.a", "†state.b", "†state.b.c", "†state", "†data.d"])
SOME_CALLS = st.lists(
    st.fixed_dictionaries(
        {
            "_tool": st.sampled_from(["echo", "echo", "fail"]),
            "v": st.one_of(PLACES, PLACES.map(lambda ref: f"{ref} || 0")),
        },
        optional={
            "_outputPath": st.one_of(PLACES, PLACES.map(lambda ref: f"{ref} || †data.error")),
            "_outputMethod": st.sampled_from(["set", "merge", "push"]),
            "_instance": st.sampled_from(["①", None]),
        },
    ),
    max_size=6,
)


@given(SOME_CALLS, st.booleans(), st.booleans())
def test_every_call_of_any_plan_ends_once(calls: list[dict[str, Any]], ordered: bool, begun: bool) -> None:
    registry = agf.Registry()

    async def echo(v: Any) -> Any:
        await asyncio.sleep(1)
        return v

    async def fail(v: Any) -> None:
        await asyncio.sleep(2)
        raise ValueError("no")

    agf.tool(echo, registry=registry)
    agf.tool(fail, registry=registry)
    state = {"state": {"a": 1}} if begun else {}
    flow = agf.define(json.dumps({"name": "p", "calls": calls, "ordered": ordered, **state}), "plan", registry=registry)
    events: list[Any] = []
    result = run_virtual(agf.arun(flow, registry=registry, on_event=events.append, raises=False))  # type: ignore[arg-type]
    if result.error is not None and result.error.code == "plan.cycle":
        assert not [event for event in events if isinstance(event, StepStarted)]
        return
    ends = [e.at for e in events if isinstance(e, StepFinished | StepFailed | StepSkipped) and e.at[0] != "calls"]
    assert sorted(ends) == sorted((f"calls[{i}]",) for i in range(len(calls)))


def test_the_messages_of_a_run_can_be_written_as_json() -> None:
    registry = agf.Registry()
    flow = agf.define("name: p\nstate: {b: [1]}\ncalls: []\n", "plan", registry=registry)
    assert json.loads(json.dumps(agf.run(flow, registry=registry).stores)) == {"state": {"b": [1]}}


DECOMPOSED = "u\N{COMBINING DIAERESIS}"


@pytest.mark.parametrize(
    "message",
    [
        {"type": "data", "data": {DECOMPOSED: 4}},
        {"type": "data", "data": {DECOMPOSED: 4, "b": 1}, "_call": {"_tool": "t", "_outputPath": "†data.ü"}},
    ],
    ids=["a message", "the result of a call"],
)
@pytest.mark.parametrize("name", ["ü", DECOMPOSED])
def test_a_name_is_found_in_each_spelling(message: Any, name: str) -> None:
    assert resolve([message], f"†data.{name}") == 4
    later = {"type": "data", "data": {"ü": 5}, "_call": {"_tool": "t", "_outputPath": "†data.ü"}}
    assert resolve([message, later], f"†data.{name}") == 5
    assert resolve([later, message], f"†data.{name}") == 4
    assert resolve([{"type": "data", "data": {"b": 1}}, message], "†data.b") == 1


def test_a_text_that_a_tool_refuses_needs_no_object_in_the_context(registry: agf.Registry) -> None:
    def odd(n: Annotated[str, AfterValidator(lambda text: text.index("z"))]) -> int:
        return 1

    agf.tool(odd, registry=registry)
    messages: list[dict[str, Any]] = [{"type": "data", "data": 5}, {"type": "state", "state": {"name": 1}}]
    registry.contexts.named("p").log = Log(messages)
    ended = run(plan("_tool: odd, n: name", context="p"), registry, raises=False)
    assert ended.error is not None
    assert ended.error.diagnostic.hint == "write $state.name: this is the text 'name'"
