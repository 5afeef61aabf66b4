"""What a user may answer to an approval, wherever the answer comes from.

The same words have the same meaning everywhere. Nothing but the words of a denial denies, and a denied call fails
without a retry.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import pytest
from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import FunctionModel

import agf_magics as agf
from agf_magics.settings.settings import current
from tests.engine.kept import journal_in

YES = (True, "yes", "Yes", " y ", "true", "TRUE", numpy.bool_(True))
NO = (False, "no", "No", "n", "false", numpy.bool_(False))
NEITHER = ("perhaps", "", "0", 1, 0, None, 1.0, [], ["yes"], {}, b"yes", "yes please")  # type: ignore[var-annotated]

PLAN = "{confirm: true, calls: [{_tool: pay, amount: 5, _outputPath: $state.p}], output: $state.p}"
POLICY = """\
schema_version: "1.0.0"
metadata: {id: q, name: Q, version: "1.0.0", description: Pays.}
interface: {input: {}, output: {}}
action_space: {local_agents: [{alias: pay, source: x, source_type: kernel, approval: true}]}
execution_policy: {id: agf.sequential, config: {steps: [{agent: pay}]}}
"""
LANGUAGES = {"plan": (PLAN, None), "policy": (POLICY, {"amount": 5})}


class Shop:
    """Counts what was paid and asked."""

    def __init__(self) -> None:
        self.registry, self.paid, self.asked = agf.Registry(), list[int](), list[str]()

        def pay(amount: int) -> int:
            self.paid.append(amount)
            return amount

        agf.tool(pay, registry=self.registry)
        agf.agent(pay, registry=self.registry)

    def asks(self, answer: Any, asynchronous: bool = False) -> Callable[[Any], Any]:
        def ask(question: Any) -> Any:
            self.asked.append(question.text)
            return answer

        async def ask_later(question: Any) -> Any:
            return ask(question)

        return ask_later if asynchronous else ask

    def run(self, language: str, **options: Any) -> agf.Run:
        text, fields = LANGUAGES[language]
        agf.define(text, language, name="q", registry=self.registry)
        return agf.run("q", fields, registry=self.registry, raises=False, **options)


@pytest.fixture(params=["journal", "no journal"])
def _journal(request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if request.param == "journal":
        current.settings = replace(current.settings, journal=str(tmp_path / "journal.db"))


@pytest.mark.usefixtures("_journal")
@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("asynchronous", [False, True], ids=["def", "async def"])
def test_a_function_answers_with_the_words_of_a_user(language: str, asynchronous: bool) -> None:
    for answers, status, code, paid in (
        (YES, "ok", None, [5]),
        (NO, "error", "step.denied", []),
        (NEITHER, "error", "run.answer", []),
    ):
        for answer in answers:
            shop = Shop()
            run = shop.run(language, ask=shop.asks(answer, asynchronous))
            outcome = (answer, run.status, run.error and run.error.code, shop.paid, len(shop.asked))
            assert outcome == (answer, status, code, paid, 1)


@pytest.mark.parametrize("language", LANGUAGES)
def test_resume_takes_the_same_words(language: str, tmp_path: Path) -> None:
    current.settings = replace(current.settings, journal=str(tmp_path / "journal.db"))
    cases: list[tuple[Any, str]] = [
        *((answer, "ok") for answer in ("yes", "Y", True)),
        *((answer, "step.denied") for answer in ("no", False)),
        *((answer, "run.answer") for answer in ("perhaps", 1, [])),  # type: ignore[var-annotated]
    ]
    for answer, expected in cases:
        shop = Shop()
        denied = shop.run(language)
        assert denied.error.code == "step.denied"
        run = agf.resume(denied.run_id, answer=answer, registry=shop.registry, raises=False)
        assert (answer, run.error.code if run.error else run.status) == (answer, expected)
        if expected == "run.answer":  # the question is still open
            assert agf.resume(denied.run_id, answer="yes", registry=shop.registry).output == 5


ALTERNATIVE = (
    "{confirm: [pay], calls: [{_tool: pay, amount: 5, _outputPath: $state.sent || $state.no}, "
    "{_tool: tell, of: $state.no, _outputPath: $state.told}], output: $state.told}"
)


@pytest.mark.parametrize(("answer", "status"), [(False, "ok"), ("no", "ok"), ("perhaps", "error"), (None, "error")])
def test_a_denied_call_takes_the_alternative_of_its_path_and_a_wrong_answer_none(answer: Any, status: str) -> None:
    shop = Shop()
    agf.tool(lambda of: of, name="tell", registry=shop.registry)
    agf.define(ALTERNATIVE, "plan", name="q", registry=shop.registry)
    run = agf.run("q", registry=shop.registry, ask=shop.asks(answer), raises=False)
    assert run.status == status
    if status == "ok":
        assert run.output["code"] == "step.denied"
        assert run.output["message"].startswith("'pay' was not called: it was denied")
    else:
        assert run.error.code == "run.answer"
    assert shop.paid == []


def test_one_of_three_instances_is_denied_and_the_plan_goes_on() -> None:
    shop = Shop()
    text = (
        "{confirm: true, calls: [{_tool: pay, _instance: a, amount: 1, _outputPath: $state.sent || $state.no}, "
        "{_tool: pay, _instance: b, amount: 2, _outputPath: $state.sent || $state.no}], "
        "output: {sent: '$state[*].sent', no: '$state[*].no'}}"
    )
    agf.define(text, "plan", name="q", registry=shop.registry)
    run = agf.run("q", registry=shop.registry, ask=lambda question: "=1" in question.text, raises=False)
    assert run.status == "ok", run.error
    assert shop.paid == [1]
    assert "step.denied" in json.dumps(run.output)


RETRIED = """\
pipeline: q
steps:
- call: {pipeline: pays, on_error: %s}
- transform: {value: "'went on'"}
"""


@pytest.mark.usefixtures("_journal")
@pytest.mark.parametrize(("how", "status"), [("retry(3)", "error"), ("continue", "ok")])
def test_a_denial_is_never_repeated_and_may_be_passed_over(how: str, status: str) -> None:
    shop = Shop()
    agf.define(PLAN, "plan", name="pays", registry=shop.registry)
    agf.define(RETRIED % how, registry=shop.registry)
    run = agf.run("q", registry=shop.registry, ask=shop.asks("no"), raises=False)
    assert (run.status, len(shop.asked), shop.paid) == (status, 1, [])


@pytest.mark.usefixtures("_journal")
@pytest.mark.parametrize("how", ["retry(3)", "continue"])
def test_a_wrong_answer_is_neither_repeated_nor_passed_over(how: str) -> None:
    shop = Shop()
    agf.define(PLAN, "plan", name="pays", registry=shop.registry)
    agf.define(RETRIED % how, registry=shop.registry)
    run = agf.run("q", registry=shop.registry, ask=shop.asks("perhaps"), raises=False)
    assert (run.status, run.error.code, len(shop.asked)) == ("error", "run.answer", 1)


@pytest.mark.parametrize(
    "ask",
    ["yes", True, 5, {"a": 1}, lambda: True, lambda one, two: True],
    ids=["text", "bool", "number", "mapping", "no parameter", "two parameters"],
)
def test_what_cannot_be_asked_is_refused_before_the_run(ask: Any) -> None:
    shop = Shop()
    agf.define("{pipeline: q, steps: [{tool: {name: pay, args: {amount: 5}}}]}", registry=shop.registry)
    for way in (agf.run, agf.start):
        with pytest.raises(TypeError, match="ask takes a function of the question"):
            way("q", registry=shop.registry, ask=ask)
    assert shop.paid == []


# --- what a question shows ---

ASKS = """\
execution_policy: {id: agf.react, config: {instructions: Pay., provider: openai, model: m}}
action_space:
  local_tools:
  - {alias: send, approval: TOOL}
  local_agents:
  - {alias: clerk, source: clerk, source_type: kernel, approval: AGENT}
"""
SHOWN = "message_template: '{{parent.input.who}} asks for {{tool_args.amount}} {{tool_args.unit}}'"
QUESTIONS = {
    # the approval; what is called, with which arguments; the question, or none
    "a field of the input": (f"{{{SHOWN}}}", {"amount": 5, "unit": "EUR"}, "ann asks for 5 EUR"),
    "an argument that is left out": (f"{{{SHOWN}}}", {"amount": 5}, "ann asks for 5 USD"),
    "a condition that the default meets": ("{condition: {args_match: {unit: USD}}}", {"amount": 5}, '{"amount":5}'),
    "a condition that it does not meet": ("{condition: {args_match: {unit: EUR}}}", {"amount": 5}, None),
}
OF_AGENTS = {
    "always": ("true", 'may agent \'clerk\' with {"prompt":"x","amount":5,"unit":"USD"} run?'),
    "a field of the input": (f"{{{SHOWN}}}", "ann asks for 5 USD"),
    "a condition on the input": ("{condition: {args_match: {parent.input.who: ann}}}", "may agent 'clerk'"),
    "a condition that it does not meet": ("{condition: {args_match: {parent.input.who: bob}}}", None),
}


def asked_by_model(text: str, name: str, arguments: dict[str, Any]) -> tuple[list[str], list[Any], list[Any]]:
    """Run a flow whose model calls ``name``. Returns the questions, the calls that they are about, and the calls that
    were made."""
    registry, calls, questions, about = agf.Registry(), list[Any](), list[str](), list[Any]()

    @agf.tool(registry=registry)
    def send(amount: int, unit: str = "USD") -> str:
        calls.append((amount, unit))
        return "sent"

    @agf.agent(registry=registry)
    def clerk(prompt: str, amount: int, unit: str) -> str:
        calls.append((amount, unit))
        return "sent"

    def model(messages: list[Any], info: Any) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart(name, arguments)])
        return ModelResponse(parts=[TextPart(str(messages[-1].parts[0].content))])

    def ask(question: Any) -> bool:
        questions.append(question.text)
        about.append(question.arguments)
        return True

    registry.choose(FunctionModel(model))
    agf.define(text, "policy", name="p", registry=registry)
    run = agf.run("p", {"who": "ann"}, registry=registry, ask=ask)
    assert run.output == "sent", run.output
    return questions, about, calls


@pytest.mark.parametrize("kind", QUESTIONS)
def test_a_question_about_a_tool_of_a_model_knows_the_input_and_the_defaults(kind: str) -> None:
    approval, arguments, expected = QUESTIONS[kind]
    text = ASKS.replace("TOOL", approval).replace("AGENT", "false")
    questions, about, calls = asked_by_model(text, "send", arguments)  # type: ignore[arg-type]
    assert calls == [(5, arguments.get("unit", "USD"))]  # type: ignore[attr-defined]
    assert about == [arguments] * len(questions)
    assert [expected in question for question in questions] == ([True] if expected else []), questions


@pytest.mark.parametrize("kind", OF_AGENTS)
def test_a_question_about_an_agent_of_a_model_knows_the_input(kind: str) -> None:
    approval, expected = OF_AGENTS[kind]
    arguments = {"prompt": "x", "amount": 5, "unit": "USD"}
    text = ASKS.replace("TOOL", "false").replace("AGENT", approval)
    questions, about, calls = asked_by_model(text, "clerk", arguments)
    assert calls == [(5, "USD")]
    assert about == [arguments] * len(questions)
    assert [expected in question for question in questions] == ([True] if expected else []), questions


DELEGATED = "{confirm: true, calls: [{_tool: pays, amount: 500, _outputPath: $state.a}], output: $state.a}"
INNER = "{pipeline: pays, steps: [{tool: {name: pay, args: {amount: !expr ctx.amount}}}]}"


@pytest.mark.parametrize(
    ("answers", "paid"),
    [([{"ammount": 5}, {"amount": 5}], [5]), ([{"ammount": 5}, False], []), ([{"amount": 5}], [5])],
    ids=str,
)
def test_a_misspelt_argument_of_a_flow_is_asked_for_again(answers: list[Any], paid: list[int]) -> None:
    shop, answers_left = Shop(), list(answers)
    agf.define(INNER, registry=shop.registry)
    agf.define(DELEGATED, "plan", name="q", registry=shop.registry)
    questions: list[str] = []

    def ask(question: Any) -> Any:
        questions.append(question.text)
        return answers_left.pop(0)

    agf.run("q", registry=shop.registry, ask=ask, raises=False)
    assert (shop.paid, answers_left) == (paid, [])
    assert all("the call has no argument 'ammount'" in text for text in questions[1:]), questions


def test_an_unused_answer_is_reported_even_if_the_run_fails(tmp_path: Path) -> None:
    shop = Shop()

    @agf.tool(registry=shop.registry)
    async def decide(call: agf.ToolContext) -> str:
        return str(await call.ask("Sure?", choices=["a", "b"]))

    text = "{pipeline: q, steps: [{tool: {name: decide}}]}"
    with journal_in(tmp_path):
        run = agf.run(text, registry=shop.registry, ask=None, raises=False)
        again = agf.resume(run.run_id, answer="b", registry=shop.registry, raises=False)
    assert [warning.code for warning in again.warnings] == ["run.unused-answer"]


def test_a_run_takes_no_negative_time_if_the_clock_is_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shop, now = Shop(), time.time

    def set_back() -> int:
        monkeypatch.setattr(time, "time", lambda: now() - 3600)
        return 1

    agf.tool(set_back, registry=shop.registry)
    with journal_in(tmp_path):
        run = agf.run("{pipeline: q, steps: [{tool: {name: set_back}}]}", registry=shop.registry)
        assert agf.runs(run.run_id).seconds == 0
