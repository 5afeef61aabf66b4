"""Laws of the conversation with a model, whatever the model replies; and how a result is shown to the model."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import agf_magics as agf
from agf_magics.flow.expressions import Computed
from agf_magics.flow.protocols import Name
from agf_magics.flow.sessions.session import (
    ASKED_AGAIN,
    LONGEST,
    Conversation,
    FailedCall,
    Session,
    format_for_model,
)
from agf_magics.text.source import Source

SPAN = Source("<text>", "model").span()

# "" is the call that carries the answer of the model.
names = st.sampled_from(["add", "fail", "nope", ""])
calls = st.lists(
    st.fixed_dictionaries({"id": st.uuids().map(str), "tool": names, "arguments": st.just({})}), max_size=3
).filter(lambda calls: sum(call["tool"] == "" for call in calls) <= 1)


@st.composite
def replies(draw: st.DrawFn) -> Any:
    reply_calls = draw(calls)
    reply: dict[str, Any] = {"text": draw(st.sampled_from(["good", "bad"])), "calls": reply_calls, "usage": {}}
    if any(call["tool"] == "" for call in reply_calls):
        if draw(st.booleans()):
            reply["answer"] = draw(st.sampled_from(["good", "bad"]))
        else:
            next(call for call in reply_calls if call["tool"] == "")["fault"] = "are no JSON object"
    return reply


def read_answer(answer: Any) -> Any:
    if answer != "good":
        raise agf.StepError(agf.Diagnostic("agent.reply-schema", "that is not good"))
    return answer


def session(steps: int) -> Session:
    def too_many_steps(steps: int) -> agf.Diagnostic:
        return agf.Diagnostic("test.over", f"{steps} steps")

    return Session(
        model=Name("m"),
        prompt=Computed(SPAN, lambda frame: "?"),
        read_answer=read_answer,
        steps=steps,
        too_many_steps=too_many_steps,
    )


def conversations(steps: int, replies_of_model: list[Any]) -> list[Conversation]:
    """The conversation after each reply, up to its end."""
    talk = session(steps)
    conversation = Conversation(({"role": "user", "text": "?"},))
    after_replies = []
    for reply in replies_of_model:
        conversation = conversation.replied(talk, reply)
        after_replies.append(conversation)
        if conversation.verdict == "answer":
            break
        if conversation.verdict == "tools":
            conversation = conversation.observed([FailedCall("x") for _ in conversation.calls])
        else:
            conversation = conversation.rejected()
    return after_replies


@given(st.integers(1, 6), st.lists(replies(), min_size=10, max_size=10))
def test_a_conversation_ends_within_its_steps_with_an_answer_or_a_reason(
    steps: int, replies_of_model: list[Any]
) -> None:
    after_replies = conversations(steps, replies_of_model)
    last = after_replies[-1]
    assert last.verdict == "answer"
    assert len(after_replies) == last.steps <= steps
    assert last.repeats <= ASKED_AGAIN
    assert (last.answer == "good") is (last.fault is None)


@given(st.integers(1, 6), st.lists(replies(), min_size=10, max_size=10))
def test_every_call_is_answered_once_before_the_next_reply(steps: int, replies_of_model: list[Any]) -> None:
    messages = conversations(steps, replies_of_model)[-1].messages
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            waiting.remove(message["id"])
        else:
            assert not waiting
        if message["role"] == "model":
            waiting = [call["id"] for call in message["calls"]]
    json.dumps(messages)


@given(st.integers(2, 6), st.integers(0, 5))
def test_only_the_last_request_tells_the_model_to_answer(steps: int, steps_done: int) -> None:
    conversation = session(steps)
    request = Conversation(({"role": "user", "text": "?"},), steps=min(steps_done, steps - 1)).request(conversation)
    assert request["last"] is (min(steps_done, steps - 1) == steps - 1)
    assert (len(request["messages"]) == 2) is request["last"]  # with ANSWER_NOW


class Odd:
    def __init__(self, text: Any) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


def test_a_result_is_shown_as_text_or_as_json() -> None:
    assert format_for_model("ü") == "ü"
    assert format_for_model({"a": [1, None]}) == '{"a":[1,null]}'
    assert format_for_model(Odd("a table")) == "a table"
    assert format_for_model([float("nan"), float("-inf")]) == "[null,null]"


def test_a_result_that_cannot_be_shown_says_so() -> None:
    assert format_for_model(10**5_000) == "(a number, which cannot be shown: ValueError)"
    assert format_for_model(Odd(3)) == "(an opaque Odd, which cannot be shown: TypeError)"


def test_a_long_result_is_cut_and_says_so() -> None:
    text = format_for_model("x" * (LONGEST + 1))
    assert text.endswith(f"(cut: it has {LONGEST + 1:,} characters)")
    assert len(text) < LONGEST + 100
