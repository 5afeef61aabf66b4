"""Approvals in runs that last: an answer is kept and asked for only once, and a secret answer is never kept."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

import agf_magics as agf
from agf_magics.catalog import MASK
from agf_magics.flow.progress.events import QuestionAnswered
from tests.engine import kept

PLAN = """\
name: p
confirm: [pay]
calls:
- {_tool: pay, amount: 5, _outputPath: †state.paid}
- {_tool: flaky, of: †state.paid, _outputPath: †state.end}
output: †state.end
"""


class World:
    """A shop whose second call fails until it is repaired."""

    def __init__(self) -> None:
        self.registry, self.paid, self.asked, self.broken = agf.Registry(), list[int](), list[Any](), True

        @agf.tool(registry=self.registry, where="loop")
        def pay(amount: int) -> int:
            self.paid.append(amount)
            return amount

        @agf.tool(registry=self.registry, where="loop")
        def flaky(of: int) -> int:
            if self.broken:
                raise OSError("no line")
            return of

        agf.define(PLAN, "plan", registry=self.registry)

    def ask(self, answer: Any) -> Any:
        def ask(question: Any) -> Any:
            self.asked.append(question.text)
            return answer

        return ask


@pytest.mark.parametrize(("answer", "paid", "end"), [({"amount": 3}, [3], 3), ({"_output": 9}, [], 9), (True, [5], 5)])
def test_a_replaced_call_stays_replaced_when_the_run_is_resumed(
    tmp_path: Path, answer: Any, paid: list[int], end: int
) -> None:
    world = World()
    with kept.journal_in(tmp_path):
        failed = agf.run("p", registry=world.registry, ask=world.ask(answer), raises=False)
        assert failed.status == "error"
        world.broken = False
        run = agf.resume(failed.run_id, registry=world.registry)
    assert (run.output, world.paid, world.asked) == (end, paid, ["call pay(amount=5)?"])


@pytest.mark.parametrize(
    ("answer", "paid"), [("yes", [5]), (True, [5]), ("{amount: 3}", [3]), ({"amount": 4}, [4]), ("amount: 2", [2])]
)
def test_a_call_that_nobody_approved_is_resumed_with_an_answer(tmp_path: Path, answer: Any, paid: list[int]) -> None:
    world = World()
    world.broken = False
    with kept.journal_in(tmp_path):
        denied = agf.run("p", registry=world.registry, raises=False)
        assert denied.error.code == "step.denied"
        run = agf.resume(denied.run_id, registry=world.registry, answer=answer)
    assert (run.output, world.paid) == (paid[0], paid)


@pytest.mark.parametrize(
    ("answer", "code"),
    [("no", "step.denied"), ("perhaps", "run.answer"), (3, "run.answer"), ({"n": 1}, "step.instead")],
)
def test_an_unusable_answer_calls_nothing(tmp_path: Path, answer: Any, code: str) -> None:
    world = World()
    with kept.journal_in(tmp_path):
        denied = agf.run("p", registry=world.registry, raises=False)
        run = agf.resume(denied.run_id, registry=world.registry, answer=answer, raises=False)
    assert (run.error.code, world.paid) == (code, [])


def test_a_secret_answer_is_not_kept_and_is_asked_for_again(tmp_path: Path) -> None:
    registry, tokens, fails = agf.Registry(), list[str](), [True]

    @agf.tool(registry=registry, secret=["token"], where="loop")
    def use(token: str, then: str) -> str:
        tokens.append(token)
        if fails[0]:
            raise OSError("no line")
        return "used"

    graph = """\
name: main
state: {token: str, then: str, said: str}
nodes:
  ask: {type: interrupt, message: "Your token?", resume_key: token}
  when: {type: interrupt, message: "When?", resume_key: then}
  use: {type: tool, tool: use, variables: {token: "{state.token}", then: "{state.then}"}, state_key: said}
edges: [{from: START, to: ask}, {from: ask, to: when}, {from: when, to: use}, {from: use, to: END}]
"""
    plan = "name: p\nconfirm: true\ncalls:\n- {_tool: use, token: †input.token, then: now, _outputPath: †state.said}\n"
    agf.define(graph, "graph", registry=registry)
    agf.define(plan, "plan", registry=registry)
    questions: list[str] = []

    def ask(question: Any) -> Any:
        questions.append(question.text)
        return (
            {"token": "t0ken-of-ann"} if question.approval else "later" if "When" in question.text else "t0ken-of-ann"
        )

    for name in ("main", "p"):
        with kept.journal_in(tmp_path / name) as path:
            fails[0] = True
            failed = agf.run(name, {"token": "t0ken-of-bob"} if name == "p" else None, registry=registry, ask=ask,
                             raises=False)  # fmt: skip
            disk = kept.on_disk(path)
            assert b"t0ken" not in disk
            fails[0] = False
            again = {"token": "t0ken-of-bob"} if name == "p" else None
            assert agf.resume(failed.run_id, registry=registry, input=again, ask=ask).status == "ok"
    assert tokens == ["t0ken-of-ann"] * 4
    question = 'call use(token="•••", then="now")?'
    assert questions == ["Your token?", "When?", "Your token?", question, question]


@pytest.mark.parametrize("then", ["t0ken-of-ann", ["with t0ken-of-ann"], {"of": "t0ken-of-ann"}], ids=str)
def test_a_secret_that_a_person_gives_is_masked_wherever_it_stands_in_the_answer(then: Any) -> None:
    registry, answers, events = agf.Registry(), list[Any](), list[agf.Event]()
    agf.tool(lambda token, then: answers.append(then), name="use", registry=registry, secret=["token"], where="loop")
    plan = "name: p\nconfirm: true\ncalls:\n- {_tool: use, token: †input.token, then: now, _outputPath: †state.said}\n"
    agf.define(plan, "plan", registry=registry)
    answer = {"token": "t0ken-of-ann", "then": then}
    agf.run("p", {"token": "t0ken-of-bob"}, registry=registry, ask=lambda question: answer, on_event=events.append)
    assert answers == [then]
    [answered] = [event for event in events if isinstance(event, QuestionAnswered)]
    assert "•••" in str(answered)
    assert "t0ken" not in str(events)


DOCUMENT = """\
schema_version: "1.0.0"
metadata: {{id: doc, name: Doc, version: "1.0.0", description: Pays}}
interface: {{input: {{}}, output: {{}}}}
execution_policy: {policy}
action_space:
  local_agents: [{{alias: {agent}, source: notebook, source_type: kernel}}]
  local_tools: [{{alias: pay, approval: true}}, {{alias: helper}}]
"""


def paying(policy: str, agent: str, first: ToolCallPart) -> tuple[agf.Run, list[int], list[str]]:
    """Run a document whose tool `pay` needs approval, and in which each agent and tool tries to pay. Returns the run,
    the payments, and the questions."""
    world = World()

    @agf.agent(registry=world.registry)
    def function(prompt: str, tools: dict[str, Any]) -> str:
        return str(tools["pay"](amount=1) if "pay" in tools else helper())

    @agf.tool(registry=world.registry)
    def helper() -> str:
        flow = "{pipeline: inner, steps: [{tool: {name: pay, args: {amount: 2}}}]}"
        inner = agf.run(flow, registry=world.registry, raises=False)
        return inner.error.code if inner.error else "paid"

    def reply(messages: list[Any], info: Any) -> ModelResponse:
        answered = len(messages) > 1
        return ModelResponse(parts=[TextPart("done") if answered else first])

    world.registry.choose(FunctionModel(reply))
    agf.model_agent("model", model=FunctionModel(reply), registry=world.registry)
    agf.define("{pipeline: flow, steps: [{tool: {name: pay, args: {amount: 3}}}]}", registry=world.registry)
    text = DOCUMENT.format(policy=policy, agent=agent)
    run = agf.run(text, {"prompt": "pay"}, registry=world.registry, ask=world.ask(False), raises=False)
    return run, world.paid, world.asked


PAY, HELP = ToolCallPart("pay", {"amount": 4}), ToolCallPart("helper", {})
REACT = "{id: agf.react, config: {instructions: Pay, model: m}}"


@pytest.mark.parametrize("agent", ["function", "model", "flow"])
@pytest.mark.parametrize("first", [PAY, HELP], ids=["itself", "a tool"])
def test_nothing_below_a_document_calls_its_tool_without_the_approval(agent: str, first: ToolCallPart) -> None:
    sequential = f"{{id: agf.sequential, config: {{steps: [{{agent: {agent}}}]}}}}"
    run, paid, questions = paying(sequential, agent, first)
    assert (paid, questions) == ([], [])
    assert "policy.approval" in [warning.code for warning in run.warnings]
    run, paid, questions = paying(REACT, agent, ToolCallPart(agent, {"prompt": "pay"}))
    assert (paid, questions) == ([], [])


@pytest.mark.parametrize(("first", "questions"), [(PAY, 1), (HELP, 0)], ids=["itself", "a tool"])
def test_the_model_of_a_document_asks_before_it_calls_the_tool(first: ToolCallPart, questions: int) -> None:
    run, paid, question_texts = paying(REACT, "function", first)
    assert (run.status, paid, len(question_texts)) == ("ok", [], questions)


def test_replaced_arguments_are_checked_like_those_of_a_call() -> None:
    received = list[Any]()
    registry = agf.Registry()

    @agf.tool(registry=registry, where="loop")
    def pay(amount: float, note: str = "none") -> float:
        received.append((amount, type(amount), note))
        return amount

    agf.define(PLAN.replace("flaky, of: †state.paid", "pay, amount: 1.5"), "plan", registry=registry)
    agf.run("p", registry=registry, ask=lambda question: {"amount": 3} if "=5" in question.text else True)
    assert received[0] == (3.0, float, "none")


def test_an_answer_that_no_question_takes_is_a_warning(tmp_path: Path) -> None:
    registry, fails = agf.Registry(), [True]

    @agf.tool(registry=registry)
    def send(text: str) -> str:
        if fails[0]:
            raise OSError("no line")
        return text

    agf.define("pipeline: p\nsteps:\n- tool: {name: send, args: {text: figs}}", registry=registry)
    with kept.journal_in(tmp_path):
        failed = agf.run("p", registry=registry, raises=False)
        fails[0] = False
        run = agf.resume(failed.run_id, registry=registry, answer="yes")
    assert (run.output, [warning.code for warning in run.warnings]) == ("figs", ["run.unused-answer"])


def test_a_failed_call_is_repeated_although_the_run_has_waited_since(tmp_path: Path) -> None:
    registry, fails = agf.Registry(), [True]

    @agf.tool(registry=registry, secret=["token"], where="loop")
    def use(token: str) -> str:
        if fails[0]:
            raise OSError("no line")
        return "used"

    graph = """\
name: main
state: {token: str, said: str}
nodes:
  ask: {type: interrupt, message: "Your token?", resume_key: token}
  use: {type: tool, tool: use, variables: {token: "{state.token}"}, state_key: said}
edges: [{from: START, to: ask}, {from: ask, to: use}, {from: use, to: END}]
"""
    agf.define(graph, "graph", registry=registry)
    with kept.journal_in(tmp_path):
        failed = agf.run("main", registry=registry, ask=lambda question: "t0ken-of-ann", raises=False)
        waiting = agf.resume(
            failed.run_id, registry=registry, raises=False
        )  # asks for the secret again, without a user
        assert (failed.status, waiting.status) == ("error", "waiting")
        fails[0] = False
        resumed = agf.resume(failed.run_id, registry=registry, ask=lambda question: "t0ken-of-ann", raises=False)
    assert (resumed.status, resumed.stores.get("said")) == ("ok", "used")


def _hundredfold(cents: int) -> int:
    return cents * 100


Hundredfold = Annotated[int, AfterValidator(_hundredfold)]


@pytest.mark.parametrize(
    ("answer", "received"),
    {
        "yes": (True, ("bob", 500, "pin-1")),
        "another": ({"to": "ann"}, ("ann", 500, "pin-1")),
        "the converted one": ({"cents": 7}, ("bob", 700, "pin-1")),
        "all as they were shown": ({"to": "bob", "cents": 500, "pin": MASK}, ("bob", 500, "pin-1")),
        "one of all": ({"to": "ann", "cents": 500, "pin": MASK}, ("ann", 500, "pin-1")),
        "the secret": ({"pin": "2"}, ("bob", 500, "pin-2")),
    }.values(),
)
def test_an_argument_is_converted_once(answer: Any, received: tuple[Any, ...]) -> None:
    """What the person does not change is what they saw: the code of the tool may change a value each time."""
    registry, calls = agf.Registry(), list[Any]()

    @agf.tool(registry=registry, secret="pin")
    def pay(to: str, cents: Hundredfold, pin: Annotated[str, AfterValidator(lambda text: f"pin-{text}")]) -> None:
        calls.append((to, cents, pin))

    text = "name: p\nconfirm: true\ncalls:\n- {_tool: pay, to: bob, cents: 5, pin: '1', _outputPath: †state.r}\n"
    agf.run(text, registry=registry, ask=lambda question: answer)
    assert calls == [received]
