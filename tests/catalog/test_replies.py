"""Tests of the reading of models' replies, and of replies that are no answer."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic_ai import messages as ai
from pydantic_ai.usage import RequestUsage

from agf_magics.catalog.models.http_answers import Heard
from agf_magics.catalog.models.messages import Offered, Request
from agf_magics.catalog.models.model_fault import ModelFault
from agf_magics.catalog.models.replies import MOST_TOKENS, Response, read_reply
from agf_magics.catalog.models.tool_names import ToolNames

ADD = Offered("add up", "", {"type": "object"})
NUMBER = {"type": "integer"}
OBJECT = {"type": "object"}


@dataclass(frozen=True)
class Sent:
    """A reply as its provider sent it."""

    parts: Any = "hi"
    """The parts of the reply; a text stands for one part with this text."""
    finish: Any = None
    """The reason of the end as pydantic-ai names it; None if it has none."""
    why: str | None = "stop"
    """The reason of the end as the provider names it; None if it sent none."""
    system: str = "openai"
    kind: str = "json"
    streamed: bool = False
    is_done: bool = False
    heard: str | None = None
    """The text of a reply of the Chat protocol in one piece; None for another kind of reply."""
    details: Any = ()
    usage: RequestUsage = field(default_factory=RequestUsage)
    request: Request = field(default_factory=lambda: Request(()))

    def read(self) -> Any:
        parts = [ai.TextPart(self.parts)] if isinstance(self.parts, str) else self.parts
        details = {**dict(self.details), **({"finish_reason": self.why} if self.why else {})}
        response = ai.ModelResponse(parts=parts, finish_reason=self.finish, provider_details=details, usage=self.usage)
        heard = Heard(self.kind, is_done=self.is_done, text=self.heard)
        model: Any = SimpleNamespace(system=self.system)
        names = ToolNames(self.request)
        names.offers_answer = self.request.schema is not None
        return read_reply(Response(response, model, "m", heard, self.streamed), self.request, names)


def call(name: str = "add_up", args: Any = None, id: str = "c") -> ai.ToolCallPart:
    return ai.ToolCallPart(name, args, id)


def offering(*, schema: Any = None, tools: tuple[Offered, ...] = (ADD,), messages: Any = ()) -> Request:
    return Request(messages, tools=tools, schema=schema)


def session(*ids: str) -> Request:
    calls = [{"id": id, "tool": "add up", "arguments": {}} for id in ids]
    return offering(messages=({"role": "user", "text": "a"}, {"role": "model", "text": "", "calls": calls}))


NO_TOKENS = {"input": 0, "output": 0}

READ: dict[str, tuple[Sent, dict[str, Any]]] = {
    "a text": (Sent(), {"text": "hi"}),
    "two texts": (Sent([ai.TextPart("a"), ai.TextPart("b")]), {"text": "ab"}),
    "reasoning in the text": (Sent("<think>so</think>\nhi"), {"text": "hi", "thinking": "so"}),
    "reasoning that the library took out": (Sent("hi", heard="<think>so</think>hi"), {"text": "hi", "thinking": "so"}),
    "a text as it was heard, without reasoning": (Sent("hi", heard="other"), {"text": "hi"}),
    "a cut text": (Sent(finish="length", why="length"), {"text": "hi", "cut": True}),
    "nothing": (Sent(""), {"text": "", "empty": "nothing"}),
    "blanks": (Sent(" \n"), {"text": " \n", "empty": "nothing"}),
    "reasoning only": (Sent("<think>so</think>"), {"text": "", "empty": "reasoning only", "thinking": "so"}),
    "nothing before its end": (
        Sent("", finish="length", why="length"),
        {
            "text": "",
            "cut": True,
            "empty": "nothing: it reached its maximum number of tokens before its answer",
        },
    ),
    "a model object has no reason": (Sent(why=None, kind=""), {"text": "hi"}),
    "another provider has none": (Sent(why=None, system="other"), {"text": "hi"}),
    "some leave it out in one piece": (Sent(why=None, system="server"), {"text": "hi"}),
    "nothing, without a reason": (Sent("", why=None), {"text": "", "empty": "nothing"}),
    "a stream without a reason, with its end mark": (
        Sent(why=None, system="server", kind="pieces", streamed=True, is_done=True),
        {"text": "hi", "unended": True},
    ),
    "a stream that is not ended, with its end mark": (
        Sent(why="incomplete", kind="pieces", streamed=True, is_done=True),
        {"text": "hi", "unended": True},
    ),
    "a stream of another provider": (Sent(why=None, system="other", kind="pieces", streamed=True), {"text": "hi"}),
    "a wrapped answer": (Sent('{"answer": ["é"]}', request=offering(schema=NUMBER)), {"text": '["é"]'}),
    "an answer with more": (
        Sent('{"answer": 1, "b": 2}', request=offering(schema=NUMBER)),
        {"text": '{"answer": 1, "b": 2}'},
    ),
    "an answer that is no JSON": (Sent("the answer is", request=offering(schema=NUMBER)), {"text": "the answer is"}),
    "an answer that is an object": (
        Sent('{"answer": 1}', request=offering(schema=OBJECT)),
        {"text": '{"answer": 1}'},
    ),
    "an answer that nobody asked for": (Sent('{"answer": 1}'), {"text": '{"answer": 1}'}),
}


@pytest.mark.parametrize("case", READ)
def test_a_reply_says(case: str) -> None:
    sent, expected = READ[case]
    assert sent.read() == {"calls": [], "usage": NO_TOKENS, **expected}


CALLS: list[tuple[Any, dict[str, Any]]] = [
    ('{"x": 1}', {"arguments": {"x": 1}}),
    ({"x": 1}, {"arguments": {"x": 1}}),
    (None, {"arguments": {}}),
    ("", {"arguments": {}}),
    ("null", {"arguments": {}}),
    ("[1]", {"arguments": "[1]", "fault": "are not a JSON object"}),
]


@pytest.mark.parametrize(("args", "expected"), CALLS, ids=repr)
def test_the_arguments_of_a_call(args: Any, expected: dict[str, Any]) -> None:
    reply = Sent([call(args=args)], request=offering()).read()
    assert reply["calls"] == [{"id": "c", "tool": "add up", **expected}]
    assert reply.keys() == {"text", "calls", "usage"}, "a call is an answer, and nothing of it is kept"


def test_arguments_that_are_no_json_say_where() -> None:
    (call_read,) = Sent([call(args='{"x": ')], request=offering()).read()["calls"]
    assert call_read["arguments"] == '{"x": '
    assert call_read["fault"].startswith("are not JSON: ")


def test_arguments_with_a_key_twice_are_refused_and_not_the_last_one_taken() -> None:
    (made,) = Sent([call(args='{"x": {"y": 1, "y": 2}}')], request=offering()).read()["calls"]
    assert made["arguments"] == '{"x": {"y": 1, "y": 2}}'
    assert made["fault"] == "are not JSON: an object in it has 'y' twice"


@pytest.mark.parametrize(
    ("schema", "args", "answer"),
    [
        (NUMBER, {"answer": 5}, {"answer": 5}),
        (OBJECT, {"answer": 5}, {"answer": {"answer": 5}}),
        (NUMBER, {"x": 5}, {"answer": {"x": 5}}),
        (NUMBER, "[5]", {}),
    ],
)
def test_the_answer_is_a_call_of_its_own(schema: Any, args: Any, answer: dict[str, Any]) -> None:
    reply = Sent([call("add_up"), call("final_answer", args, "d")], request=offering(schema=schema)).read()
    assert [call_read["tool"] for call_read in reply["calls"]] == ["add up", ""]
    assert {name: reply[name] for name in ("answer",) if name in reply} == answer


@pytest.mark.parametrize(
    ("sent", "before", "ids"),
    [
        (["a", "b"], [], ["a", "b"]),
        (["a", "a", "a"], [], ["a", "a-2", "a-3"]),
        (["a"], ["a", "a-2"], ["a-3"]),
        (["", ""], [], ["call-1", "call-2"]),
        (["", "x"], ["call-1"], ["call-2", "x"]),
    ],
)
def test_each_call_of_a_session_has_an_id_of_its_own(sent: list[str], before: list[str], ids: list[str]) -> None:
    reply = Sent([call(id=id) for id in sent], request=session(*before)).read()
    assert [call_read["id"] for call_read in reply["calls"]] == ids


WRITTEN: list[tuple[str, bool]] = [
    ('{"name": "add_up", "arguments": {}}', True),
    ('[{"name": "add_up", "parameters": {}}]', True),
    ('```json\n{"name": "add_up", "args": {}, "id": "1", "type": "function"}\n```', True),
    ('<tool_call>{"name": "add_up", "arguments": {}}</tool_call>', True),
    ('[TOOL_CALLS][{"name": "add_up", "arguments": {}}]', True),
    ("  <function=add_up>{}</function>", True),
    ("I call <function=add_up>", False),
    ("<function=other>", False),
    ('{"name": "add_up"}', False),
    ('{"name": "add_up", "arguments": {}, "args": {}}', False),
    ('{"name": "add_up", "arguments": {}, "more": 1}', False),
    ('{"name": 7, "arguments": {}}', False),
    ('{"name": "other", "arguments": {}}', False),
    ("[]", False),
    ("[1]", False),
    ("7", False),
]


@pytest.mark.parametrize(("text", "is_call"), WRITTEN)
def test_a_text_that_is_nothing_but_a_call_says_so(text: str, is_call: bool) -> None:
    assert Sent(text, request=offering()).read().get("written_call") == ("add up" if is_call else None)
    assert "written_call" not in Sent(text, request=offering(tools=())).read()
    assert "written_call" not in Sent(text, request=offering(schema=OBJECT)).read()


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (RequestUsage(input_tokens=3, output_tokens=2), {"input": 3, "output": 2}),
        (RequestUsage(input_tokens=-1, output_tokens=MOST_TOKENS), {"input": 0, "output": 0}),
        (RequestUsage(output_tokens=MOST_TOKENS - 1), {"input": 0, "output": MOST_TOKENS - 1}),
        (
            RequestUsage(input_tokens=9, cache_read_tokens=4, cache_write_tokens=5),
            {"input": 9, "output": 0, "cache_read": 4, "cache_write": 5},
        ),
    ],
)
def test_the_tokens_of_a_reply(usage: RequestUsage, expected: dict[str, int]) -> None:
    assert Sent(usage=usage).read()["usage"] == expected


@pytest.mark.parametrize(
    ("part", "is_kept"),
    [
        (ai.TextPart("a"), False),
        (ai.TextPart("a", id="1"), True),
        (ai.TextPart("a", provider_details={"b": 1}), True),
        (call(), False),
        (ai.ThinkingPart("so"), True),
    ],
)
def test_what_a_provider_wants_to_see_again_is_kept(part: Any, is_kept: bool) -> None:
    reply = Sent([ai.TextPart("hi"), part]).read()
    assert ("kept" in reply) == is_kept
    if is_kept:
        assert reply["kept"]["kind"] == "response"
        assert len(reply["kept"]["parts"]) == 2
        assert None not in reply["kept"].values()


REFUSED: dict[str, tuple[Sent, str, str]] = {
    "filtered": (
        Sent(finish="content_filter", why="odd"),
        *("model.filtered", "m gives no answer, by the rules of its provider: hi"),
    ),
    "filtered, by the word of a proxy": (
        Sent("", why="SAFETY", details={"block_reason_message": "no guns"}),
        *("model.filtered", "m gives no answer, by the rules of its provider: no guns"),
    ),
    "refused": (
        Sent(why="refusal", details={"refusal": "I will not", "block_reason_message": "x"}),
        *("model.filtered", "m gives no answer, by the rules of its provider: I will not"),
    ),
    "filtered without words": (
        Sent("", finish="content_filter", why=None, details={"block_reason": "spii"}),
        *("model.filtered", "m gives no answer, by the rules of its provider: spii"),
    ),
    "filtered without a word": (
        Sent("", finish="content_filter", why=None),
        *("model.filtered", "m gives no answer, by the rules of its provider: no reason"),
    ),
    "failed": (Sent("oops", finish="error"), "model.server", "m has an internal error: oops"),
    "failed, by its word": (Sent(" ", why="Failed"), "model.server", "m has an internal error: Failed"),
    "failed without words": (
        Sent("", finish="error", why=None),
        *("model.server", "m has an internal error: it does not say why"),
    ),
    "no reason": (Sent(why=None), "model.unended", "the reply of m ended without its end mark: it is not complete"),
    "not ended": (
        Sent(why="in_progress"),
        *("model.unended", "the reply of m ended without its end mark: it is not complete"),
    ),
    "a stream without a reason": (
        Sent(why=None, system="server", kind="pieces", streamed=True),
        *("model.unended", "the reply of m ended without its end mark: it is not complete"),
    ),
    "an empty stream": (
        Sent("", why=None, kind="pieces", streamed=True),
        *("model.unended", "the reply of m ended without its end mark: it is not complete"),
    ),
    "a call without a reason": (
        Sent([call()], why=None),
        *("model.unended", "the reply of m ended without its end mark: it is not complete"),
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_reply_is_no_answer(case: str) -> None:
    sent, code, message = REFUSED[case]
    with pytest.raises(ModelFault) as refused:
        sent.read()
    assert (refused.value.code, refused.value.diagnostic.message) == (code, message)
    assert refused.value.used == NO_TOKENS


OBJECT_OR_NULL = {"anyOf": [{"type": "object", "required": ["name"]}, {"type": "null"}]}

UNWRAPPED: list[tuple[Any, Any, Any]] = [
    (OBJECT_OR_NULL, {"answer": {"name": "fig"}}, {"name": "fig"}),
    (OBJECT_OR_NULL, {"answer": None}, None),
    (OBJECT_OR_NULL, {"name": "fig"}, {"name": "fig"}),
    (OBJECT_OR_NULL, {"answer": 1, "name": "fig"}, {"answer": 1, "name": "fig"}),
    (OBJECT_OR_NULL, {}, {}),
    (NUMBER, {"answer": 5}, 5),
    (NUMBER, {"result": 5}, {"result": 5}),
    ({}, {"answer": [1]}, [1]),
    (OBJECT, {"answer": 5}, {"answer": 5}),
]


@pytest.mark.parametrize(("schema", "arguments", "answer"), UNWRAPPED, ids=str)
def test_only_the_object_that_was_asked_for_is_taken_off_an_answer(schema: Any, arguments: Any, answer: Any) -> None:
    request = offering(schema=schema, tools=())
    reply = Sent([call("final_answer", arguments)], request=request).read()
    assert reply["answer"] == answer
    if arguments:
        written = Sent(json.dumps(arguments), request=request).read()
        assert json.loads(written["text"]) == answer
