"""A planner: what its model receives, what the model may reply, and the limits and the end of its ticks."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any, TypedDict

import pytest

import agf_magics as agf
from agf_magics.lifecycle.past.past_run import find_past_run
from notebooks.scripted_server import ScriptedServer
from tests.engine import kept
from tests.lifecycle.planning.scripted_planner import Planner, Turn, call, plan

PRICE = call("price", "†state.price", fruit="fig")
TOTAL = call("times", "†state.total", a="†state.price", b=2)
DONE = plan(output="†state.total")


@pytest.fixture
def calls_made() -> list[tuple[Any, ...]]:
    """The list of the calls that were made."""
    return []


@pytest.fixture
def registry(calls_made: list[tuple[Any, ...]]) -> agf.Registry:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def price(fruit: str) -> float:
        """The price of a kilo."""
        calls_made.append(("price", fruit))
        return {"pear": 2.5, "fig": 7.0}[fruit]

    @agf.tool(registry=registry)
    def times(a: float, b: float) -> float:
        """A product."""
        calls_made.append(("times", a, b))
        return a * b

    return registry


def run(planner: Planner, registry: agf.Registry, **options: Any) -> agf.planning.PlannerResult:
    return agf.planning.run_planner(planner.model, "What do two kilos of figs cost?", registry=registry, **options)


def refusal(planner: Planner, registry: agf.Registry, **options: Any) -> agf.AgfError:
    with pytest.raises(agf.AgfError) as caught:
        run(planner, registry, **options)
    return caught.value


# --- ticks ---


def test_a_model_is_asked_until_a_plan_with_an_output_has_run(registry: agf.Registry) -> None:
    planner = Planner(plan(PRICE), plan(TOTAL), DONE)
    planned = run(planner, registry)
    assert (planned.output, planned.error) == (14.0, None)
    assert [run.output for run in planned.runs] == [None, None, 14.0]
    assert [tick.status for tick in planned.asked] == ["ok"] * 3
    assert planned.usage.requests == 3
    assert planned.usage.tokens == sum(tick.usage.tokens for tick in planned.asked) > 0


def test_the_calls_of_a_plan_with_an_output_still_run(registry: agf.Registry) -> None:
    assert run(Planner(plan(PRICE, TOTAL, output="†state.total")), registry).output == 14.0


def test_a_model_sees_the_task_the_input_and_what_failed(registry: agf.Registry) -> None:
    planner = Planner(plan(call("price", "†state.price", fruit="†input.fruit")), plan(PRICE, output="†state.price"))
    planned = run(planner, registry, input={"fruit": "kiwi"})
    assert planned.output == 7.0
    assert [run.status for run in planned.runs] == ["error", "ok"]
    assert planner.prompts[0].startswith("Task: What do two kilos of figs cost?")
    assert '{"type": "data", "kind": "input", "data": {"fruit": "kiwi"}}' in planner.prompts[0]
    assert '"error": {"code": "KeyError"' in planner.prompts[1]


def test_the_failure_of_the_last_plan_is_raised(registry: agf.Registry) -> None:
    planner = Planner(plan(call("price", "†state.p", fruit="kiwi"), output="†state.p"))
    assert refusal(planner, registry, max_ticks=2).code == "step.tool-failed"
    assert len(planner.asked) == 2


def test_a_planner_continues_the_context_of_the_one_before(registry: agf.Registry, calls_made: list[Any]) -> None:
    run(Planner(plan(PRICE, output="†state.price")), registry, context="shop")
    later = Planner(plan(TOTAL, output="†state.total"))
    assert run(later, registry, context="shop").output == 14.0
    assert '"data": {"price": 7.0}' in later.prompts[0]
    assert [call_made[0] for call_made in calls_made] == ["price", "times"]


def test_a_model_that_plans_in_circles_ends_after_max_ticks(registry: agf.Registry) -> None:
    planned = run(Planner(plan(PRICE)), registry, max_ticks=3)
    (warning,) = (warning for warning in planned.runs[-1].warnings if warning.code == "run.max-ticks")
    assert (len(planned.runs), planned.output, planned.error) == (3, None, None)
    assert warning.hint == "the last two plans are equal: say in the task when it is done"


def test_a_flow_can_be_offered_like_a_tool(registry: agf.Registry) -> None:
    agf.define("pipeline: twice\nsteps:\n- transform: {value: ctx.n * 2}\n", registry=registry)
    planner = Planner(plan(call("twice", "†state.four", n=2), output="†state.four"))
    assert run(planner, registry, tools=["twice"]).output == 4


# --- what a model receives ---


def test_a_model_never_receives_the_fields_of_the_engine(registry: agf.Registry) -> None:
    """The fields ``_call``, ``_date`` and ``_outputMethod`` are removed from every message (ACT-6)."""
    text = """
    name: shop
    calls:
    - {_tool: price, fruit: fig, _outputPath: †state.prices, _outputMethod: push}
    - {_tool: price, fruit: kiwi, _outputPath: †state.prices, _outputMethod: push}
    - {_tool: price, fruit: pear, _outputPath: †state.pear, _instance: a}
    """
    agf.run(agf.load(text, "plan", registry=registry), registry=registry, raises=False)
    agf.context("shop", registry=registry).append(
        {"type": "data", "content": {"type": "data", "data": {"x": 1}, "_call": {}, "_date": "now"}}
    )
    log = [*agf.context("shop", registry=registry)]
    assert {key for message in log for key in message} >= {"_call", "_date", "_outputMethod", "_instance"}
    once = plan({**PRICE, "_instance": None}, {**TOTAL, "_instance": None}, output="†state.total")
    planner = Planner(plan(call("price", "†state.price")), plan(PRICE), plan({**PRICE, "_instance": "b"}), once)
    assert run(planner, registry, context="shop").output == 14.0
    assert len(planner.asked) == 4
    assert not [word for word in ("_call", "_date", "_outputMethod") if word in planner.received]
    assert '"_instance": "a"' in planner.received


def test_a_tool_is_offered_with_references_and_a_free_path(registry: agf.Registry) -> None:
    planner = Planner(plan(output=1))
    run(planner, registry)
    think, price, times = planner.schema["properties"]["calls"]["items"]["anyOf"]
    assert think["properties"]["_tool"] == {"const": "think"}
    assert price["properties"]["_outputPath"]["pattern"] == "^†"
    assert (price["required"], price["additionalProperties"]) == (["_tool", "fruit"], False)
    assert [alternative["type"] for alternative in times["properties"]["a"]["anyOf"]] == ["number", "string"]
    assert planner.schema["required"] == ["calls", "output"]


def test_definitions_with_one_name_of_two_tools_are_separate(registry: agf.Registry) -> None:
    agf.tool(_draw_with(int), name="a", registry=registry)
    agf.tool(_draw_with(str), name="b", registry=registry)
    planner = Planner(
        plan(call("a", "†state.a", at={"x": "one"})), plan(call("b", "†state.b", at={"x": "one"}), output=1)
    )
    run(planner, registry, tools=["a", "b"])
    assert "x" in planner.prompts[1]
    assert len(planner.asked) == 2


def _draw_with(kind: type) -> Any:
    class Point(TypedDict):
        x: kind  # type: ignore[valid-type]

    def draw(at: Any) -> str:
        """Draws."""
        return "drawn"

    draw.__annotations__["at"] = Point
    return draw


def test_only_the_named_tools_are_offered(registry: agf.Registry) -> None:
    planner = Planner(plan(TOTAL), plan(call("price", "†state.price", fruit="fig"), output="†state.price"))
    assert run(planner, registry, tools=["price"]).output == 7.0
    assert "no tool 'times' is offered" in planner.prompts[1]


# --- latent reasoning, output paths ---


def test_a_thought_without_a_path_leaves_no_trace(registry: agf.Registry) -> None:
    planner = Planner(plan(call("think", _output="first the price"), PRICE), plan(TOTAL, output="†state.total"))
    assert run(planner, registry).output == 14.0
    assert not any("first the price" in str(message) for message in agf.context("planner", registry=registry))


def test_a_thought_with_a_path_is_stored(registry: agf.Registry) -> None:
    planner = Planner(plan(call("guess", "†state.guess", _output="about ten"), output="†state.guess"))
    assert run(planner, registry, latent={"guess": "Guess the price."}).output == "about ten"
    assert planner.schema["properties"]["calls"]["items"]["anyOf"][0]["description"] == "Guess the price."


def test_a_prescribed_path_is_the_only_one(registry: agf.Registry) -> None:
    planner = Planner(plan(PRICE), plan(call("price", "†state.x", fruit="fig"), output="†state.x"))
    assert run(planner, registry, paths={"price": "†state.x"}).output == 7.0
    assert planner.schema["properties"]["calls"]["items"]["anyOf"][1]["properties"]["_outputPath"] == {
        "type": "string",
        "const": "†state.x",
    }
    assert "_outputPath" in planner.prompts[1]


# --- replies that are not plans ---


def test_a_reply_is_judged_by_the_schema_of_the_tool_that_it_names(registry: agf.Registry) -> None:
    planner = Planner(plan(call("price", "†state.price")), plan(PRICE, output="†state.price"))
    planned = run(planner, registry)
    assert planner.prompts[1] == (
        "Your answer cannot be used: calls[0] (price): 'fruit' is missing (its arguments are fruit). Answer again."
    )
    assert (len(planned.runs), planned.asked[0].usage.requests) == (1, 2)


def _deep(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


TWICE = (
    '{"calls": [{"_tool": "price", "fruit": "fig", "fruit": "pear", "_outputPath": "†state.p"}], "output": "†state.p"}'
)
CIRCLE = ("†state.a", "†state.b")
HOSTILE: list[tuple[str, Turn, str, str]] = [
    ("invents a tool", plan(call("prise", "†state.p")), "no tool 'prise' is offered", '"prise"'),
    ("invents a tool of other letters", plan(call("größe", "†state.p")), "no tool 'größe' is offered", '"größe"'),
    ("calls a flow behind the offer", plan({"_delegate": "price"}), "must be an object with '_tool'", "{"),
    ("renames a tool", plan({**PRICE, "_activity": "times"}), "has unknown fields: '_activity'", '"_activity"'),
    ("answers for a tool", plan({**PRICE, "_output": 0.01}), "(price): has unknown fields: '_output'", '"_output"'),
    ("writes into its input", plan(call("price", "†input.fruit", fruit="fig")), "†input.fruit cannot be written", ""),
    ("writes a failure", plan(call("price", "†error.x", fruit="fig")), "†error.x cannot be written", ""),
    ("writes nowhere", plan(call("price", "state.x", fruit="fig")), "_outputPath: ", '"state.x"'),
    ("writes to a half path", plan(call("price", "†state.", fruit="fig")), "[plan.bad-", ""),
    ("waits for itself", plan(*(call("times", to, a=of, b=1) for to, of in (CIRCLE, CIRCLE[::-1]))),
     "calls wait for each other", ""),
    ("plans text", "I would first ask for the price.", "the reply is not JSON", ""),
    ("plans a number", "7", "a reply must be an object, not a number", "7"),
    ("plans a list", "[]", "a reply must be an object, not a list", "[]"),
    ("plans nonsense", {"calls": 7, "output": None}, "a reply must have 'calls', a list", "7"),
    ("plans nothing", {"output": None}, "a reply must have 'calls', a list", ""),
    ("plans more", {"calls": [], "output": 1, "shell": "rm"}, "unknown key 'shell' of a reply", '"rm"'),
    ("plans calls of nothing", {"calls": [None], "output": None}, "calls[0] must be an object", "null"),
    ("plans 101 calls", plan(*[PRICE] * 101), "101 calls, and a plan has at most 100", "["),
    ("plans a novel", plan(call("price", "†state.p", fruit="f" * 300_000)), "a plan has at most 200,000", ""),
    ("plans depth", plan(call("price", "†state.p", fruit=_deep(150))), "", ""),
    ("gives an argument twice", TWICE, "an object in it has 'fruit' twice", ""),
    ("gives its calls twice", '{"calls": [], "output": 1, "calls": []}', "an object in it has 'calls' twice", ""),
    ("plans half", '{"calls": [{"_tool": "pri', "the reply is not JSON", ""),
]  # fmt: skip
"""For each case: its name, the reply of the model, the message, and the text under the caret."""


@pytest.mark.parametrize(("turn", "message", "caret"), [row[1:] for row in HOSTILE], ids=[row[0] for row in HOSTILE])
def test_a_hostile_model_is_asked_twice_more_and_then_refused(
    turn: Turn, message: str, caret: str, registry: agf.Registry, calls_made: list[Any], tmp_path: Path
) -> None:
    planner = Planner(turn)
    with kept.journal_in(tmp_path):
        planned = run(planner, registry, raises=False)
        assert planned.error.code == "planner.reply"
        assert message in str(planned.error)
        diagnostic = planned.error.diagnostic
        assert diagnostic.span.source.name == "tick 1"
        assert diagnostic.span.text.startswith(caret)
        assert (len(planner.asked), calls_made, planned.runs) == (3, [], ())
        assert message in planner.prompts[1] or "deep" in planner.prompts[1]
        journaled = find_past_run(planned.asked[0].run_id)
        assert (journaled.status, journaled.usage.requests) == ("error", 3)
        assert journaled.error.code == "planner.reply"


def test_all_reasons_go_back_at_once(registry: agf.Registry) -> None:
    planner = Planner(plan(call("price", "†state.a"), call("prise"), output=1), plan(PRICE, output=1))
    run(planner, registry)
    assert "calls[0] (price): 'fruit' is missing" in planner.prompts[1]
    assert "calls[1]: no tool 'prise' is offered (did you mean price?" in planner.prompts[1]


def test_an_output_must_conform_whether_it_is_a_value_or_a_reference(registry: agf.Registry) -> None:
    planner = Planner(
        plan(call("think", "†state.word", _output="ten"), output="ten"),
        plan(call("think", "†state.word", _output="ten"), output="†state.word"),
        plan(PRICE, output="†state.price"),
    )
    planned = run(planner, registry, gives={"type": "number"})
    assert (planned.output, len(planned.runs), len(planner.asked)) == (7.0, 2, 3)
    assert "output: needs a number" in planner.prompts[1]
    assert "the output does not conform to its schema" in planner.prompts[2]


# --- limits, confirmation ---


def test_an_output_that_nothing_wrote_is_not_the_end(registry: agf.Registry) -> None:
    planner = Planner(plan(PRICE, output="†state.cost"), plan(output="†state.price"))
    assert run(planner, registry).output == 7.0
    assert "the plan has no output" in planner.prompts[1]


def test_sessions_count_over_all_ticks(registry: agf.Registry) -> None:
    planner = Planner(plan(PRICE))
    assert refusal(planner, registry, limits=agf.Limits(spawns=2)).code == "limit.spawns"
    assert len(planner.asked) == 2


def test_tokens_count_over_all_ticks(registry: agf.Registry) -> None:
    first = run(Planner(plan(PRICE, output="†state.price")), registry).usage.tokens
    planner = Planner(plan(PRICE))
    error = refusal(planner, registry, context="other", limits=agf.Limits(max_tokens=first + 1))
    assert (error.code, len(planner.asked)) == ("limit.tokens", 2)


def test_the_timeout_is_of_all_ticks(registry: agf.Registry) -> None:
    @agf.tool(registry=registry)
    async def hang() -> None:
        """Never returns."""
        await asyncio.Event().wait()

    planner = Planner(plan(call("hang", "†state.x")))
    assert refusal(planner, registry, limits=agf.Limits(timeout=0.2)).code == "limit.timeout"
    assert len(planner.asked) == 1


def test_the_user_confirms_the_calls_of_the_named_tools(registry: agf.Registry, calls_made: list[Any]) -> None:
    questions: list[str] = []

    def ask(question: Any) -> bool:
        questions.append(question.text)
        return len(questions) > 1

    planner = Planner(plan(PRICE), plan(PRICE, TOTAL, output="†state.total"))
    assert run(planner, registry, confirm=["price"], ask=ask).output == 14.0
    assert questions == ['call price(fruit="fig")?'] * 2
    assert [call_made[0] for call_made in calls_made] == ["price", "times"]
    assert "'price' was not called: it was denied" in planner.prompts[1]


# --- secrets ---


@pytest.fixture
def login(registry: agf.Registry) -> list[str]:
    received: list[str] = []

    @agf.tool(registry=registry, secret=("token",))
    def login(token: str) -> str:
        """Logs in."""
        received.append(token)
        return f"welcome {token}"

    @agf.tool(registry=registry)
    def post(text: str) -> str:
        """Posts a text."""
        return text

    return received


def test_a_model_gets_a_placeholder_and_the_tool_the_secret(
    registry: agf.Registry, login: list[str], tmp_path: Path
) -> None:
    use = call("login", "†state.page", token="†input.token")
    planner = Planner(plan(use), plan(use), plan(output="done"))
    with kept.journal_in(tmp_path) as path:
        planned = run(planner, registry, input={"token": "hunter-2-hunter", "user": "ann"})
        kept.flush(path)
        stored = b"".join(file.read_bytes() for file in tmp_path.iterdir() if file.is_file())
    assert (planned.output, login) == ("done", ["hunter-2-hunter"] * 2)
    assert "hunter-2" not in planner.received
    assert '"data": {"token": "•••"}' in planner.prompts[0]
    assert '"data": {"user": "ann"}' in planner.prompts[2]
    assert b"hunter-2" not in stored
    assert "hunter-2" not in str([*agf.context("planner", registry=registry)])


@pytest.mark.parametrize(
    "leak", [plan(call("post", "†state.x", text="†input.token")), plan(call("post", "†state.x", text="†input")),
             plan(output={"all": "†input.token"}), plan(call("login", "†state.x", token="hunter-3-hunter"))]
)  # fmt: skip
def test_a_model_cannot_give_a_secret_away_nor_make_one_up(
    leak: Turn, registry: agf.Registry, login: list[str]
) -> None:
    planner = Planner(leak)
    error = refusal(planner, registry, input={"token": "hunter-2-hunter"})
    assert error.code == "planner.reply"
    assert "hunter-2" not in str(error) + planner.received
    assert login == []


# --- resuming ---


def test_a_resumed_planner_does_not_repeat_completed_ticks(
    registry: agf.Registry, calls_made: list[Any], tmp_path: Path
) -> None:
    with kept.journal_in(tmp_path):
        first = run(Planner(plan(PRICE), ConnectionError("no line")), registry, raises=False)
        assert first.error.code == "model.failed"
        registry.contexts.remove("planner")  # as in another kernel
        later = Planner(plan(TOTAL, output="†state.total"))
        planned = run(later, registry, resume=True)
    assert (planned.output, len(later.asked), len(planned.runs)) == (14.0, 1, 1)
    assert planned.asked[0].run_id == first.asked[1].run_id
    assert calls_made == [("price", "fig"), ("times", 7.0, 2)]


def test_a_flow_of_the_author_is_no_tick_whatever_its_name_is(
    registry: agf.Registry, calls_made: list[Any], tmp_path: Path
) -> None:
    with kept.journal_in(tmp_path):
        first = run(Planner(plan(PRICE), ConnectionError("no line")), registry, raises=False)
        assert first.error.code == "model.failed"
        for name in ("planner-7", "planner-8-ask"):
            agf.run(f"pipeline: {name}\nsteps: [{{transform: {{value: '1'}}}}]", registry=registry)
        later = Planner(plan(TOTAL, output="†state.total"))
        planned = run(later, registry, resume=True)
    assert (planned.output, len(later.asked), len(planned.runs)) == (14.0, 1, 1)


def test_the_ticks_before_an_interruption_count(registry: agf.Registry, tmp_path: Path) -> None:
    with kept.journal_in(tmp_path):
        first = run(Planner(plan(PRICE), ConnectionError("no line")), registry, raises=False)
        for limits, code in (({"spawns": 1}, "limit.spawns"), ({"max_tokens": first.usage.tokens}, "limit.tokens")):
            later = Planner(plan(TOTAL, output="†state.total"))
            assert refusal(later, registry, resume=True, limits=agf.Limits(**limits)).code == code


@pytest.mark.parametrize("same_kernel", [True, False])
def test_an_interrupted_plan_is_resumed_and_the_next_tick_follows(
    same_kernel: bool, registry: agf.Registry, calls_made: list[Any], tmp_path: Path
) -> None:
    presses = [True]

    @agf.tool(registry=registry)
    async def press(after: float) -> str:
        """The user presses ■ during the first call."""
        calls_made.append(("press",))
        if presses:
            presses.pop()
            signal.raise_signal(signal.SIGINT)
            await asyncio.Event().wait()
        return "pressed"

    with kept.journal_in(tmp_path):
        both = plan(PRICE, call("press", "†state.pressed", after="†state.price"))
        with pytest.raises(agf.RunInterrupted):
            run(Planner(both), registry, raises=False)
        if not same_kernel:
            registry.contexts.remove("planner")
        later = Planner(plan(output="†state.pressed"))
        planned = run(later, registry, resume=True)
    assert (planned.output, len(later.asked)) == ("pressed", 1)
    assert [call_made[0] for call_made in calls_made] == ["price", "press", "press"]


def test_an_interrupted_plan_of_a_function_is_resumed_as_its_run_says(registry: agf.Registry, tmp_path: Path) -> None:
    is_first = [True]

    @agf.tool(registry=registry)
    async def press() -> str:
        """The user presses ■ during the first call."""
        if is_first:
            is_first.pop()
            signal.raise_signal(signal.SIGINT)
            await asyncio.Event().wait()
        return "pressed"

    def planner(messages: list[Any]) -> Any:
        has_pressed = "pressed" in json.dumps(messages, default=str)
        return {"calls": [], "output": "over"} if has_pressed else [{"_tool": "press", "_outputPath": "†state.now"}]

    with kept.journal_in(tmp_path):
        with pytest.raises(agf.RunInterrupted) as caught:
            agf.planning.run_planner(planner, registry=registry)
        interrupted = caught.value.run
        assert interrupted.how_to_continue == f"%resume {interrupted.run_id}"
        assert agf.resume(interrupted.run_id, registry=registry).status == "ok"
        planned = agf.planning.run_planner(planner, registry=registry)
    assert (planned.output, len(planned.runs)) == ("over", 1)


def test_a_reply_that_has_not_run_yet_is_not_requested_again(
    registry: agf.Registry, calls_made: list[Any], tmp_path: Path
) -> None:
    with kept.journal_in(tmp_path):
        first = run(Planner(plan(PRICE, output="†state.price")), registry)
        agf.runs(first.asked[0].run_id)
        from agf_magics.lifecycle.past.past_runs import delete

        delete([first.runs[0].run_id])  # as if the kernel had died before the plan
        registry.contexts.remove("planner")
        later = Planner(DONE)
        planned = run(later, registry, resume=True)
    assert (planned.output, later.asked, len(calls_made)) == (7.0, [], 2)


def test_a_planner_that_has_used_all_its_ticks_says_so_when_it_is_resumed(
    registry: agf.Registry, tmp_path: Path
) -> None:
    with kept.journal_in(tmp_path):
        run(Planner(plan(PRICE), plan(TOTAL)), registry, max_ticks=2)
        problem = refusal(Planner(DONE), registry, resume=True, max_ticks=2)
    assert (problem.code, problem.diagnostic.hint) == ("run.max-ticks", "raise max_ticks")


def test_a_planner_without_a_past_cannot_be_resumed(registry: agf.Registry, tmp_path: Path) -> None:
    with kept.journal_in(tmp_path):
        assert refusal(Planner(DONE), registry, resume=True).code == "planner.resume"
        run(Planner(plan(PRICE)), registry, max_ticks=1)
        assert run(Planner(plan(TOTAL, output="†state.total")), registry, resume=True).output == 14.0
        registry.contexts.remove("planner")
        assert refusal(Planner(DONE), registry, resume=True).code == "planner.resume"


# --- mistakes of the user ---


def test_a_planner_without_tools_is_refused(registry: agf.Registry) -> None:
    assert refusal(Planner(DONE), agf.Registry()).code == "planner.no-tools"
    assert refusal(Planner(DONE), registry, tools=[]).code == "planner.no-tools"


def test_an_unknown_tool_is_refused_before_the_model_is_asked(registry: agf.Registry) -> None:
    planner = Planner(DONE)
    error = refusal(planner, registry, tools=["prise", "tmes", "times"])
    assert [(diagnostic.code, diagnostic.hint) for diagnostic in error.diagnostics] == [
        ("flow.unknown-tool", "did you mean price? tools are price, times"),
        ("flow.unknown-tool", "did you mean times? tools are price, times"),
    ]
    assert planner.asked == []


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[{"_tool": "price", "fruit": "fig", "fruit": "pear"}]', "has 'fruit' twice"),
        ("I would ask.", "is not JSON"),
        ("[" * 100_000, "is not JSON"),
    ],
)
def test_the_text_of_a_plan_that_a_function_returns_is_refused(
    text: str, why: str, registry: agf.Registry, calls_made: list[Any]
) -> None:
    with pytest.raises(agf.DefinitionError, match=why):
        agf.planning.run_planner(lambda messages: text, registry=registry)
    assert calls_made == []


def test_wrong_arguments_are_refused(registry: agf.Registry) -> None:
    with pytest.raises(TypeError, match="a model needs a task in words"):
        agf.planning.run_planner(Planner(DONE).model, registry=registry)
    with pytest.raises(TypeError, match="tools is for a model"):
        agf.planning.run_planner(lambda messages: [], tools=["price"], registry=registry)
    with pytest.raises(TypeError, match="resume is for a model"):
        agf.planning.run_planner(lambda messages: [], resume=True, registry=registry)
    with pytest.raises(agf.DefinitionError) as caught:
        run(Planner(DONE), registry, input=[1])
    assert caught.value.code == "run.input"


# --- a server ---


def test_a_server_with_the_openai_protocol_plans(registry: agf.Registry) -> None:
    replies = [json.dumps(plan(PRICE, TOTAL)), json.dumps(DONE)]
    with ScriptedServer(replies) as server:
        registry.choose("openai:scripted", server.url)
        planned = agf.planning.run_planner("openai:scripted", "What do two kilos of figs cost?", registry=registry)
    assert (planned.output, planned.usage.tokens, planned.cost) == (
        14.0,
        30,
        None,
    )  # there is no price for the user's own server
    assert set(planned.usage.by_model) == {"openai:scripted"}
    schema = server.requests[0]["response_format"]["json_schema"]["schema"]
    assert schema["properties"]["calls"]["items"]["anyOf"][0]["properties"]["_tool"] == {"const": "think"}
    assert not [word for word in ("_call", "_date", "_outputMethod") if word in json.dumps(server.requests)]
