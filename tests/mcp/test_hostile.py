"""Hostile servers: the kernel survives, no secret leaks, no process remains, and the error says what happened.

Each server speaks a protocol from before 2026, and then the protocol of 2026-07-28.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics import DefinitionError, Diagnostic, StepError
from agf_magics.mcp import Server
from agf_magics.mcp.client.sdk_records import NAMES
from tests.mcp.servers import PROGRAMS, call, is_alive, program, until


@pytest.fixture(autouse=True, params=["old", "new"])
def protocol(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("PROTOCOL_OF_TESTS", request.param)
    yield request.param
    agf.mcp.close_all()


def connect(mode: str, **options: Any) -> Server:
    env = {"PROTOCOL": "$PROTOCOL_OF_TESTS", **options.pop("env", {})}
    server = agf.mcp.connect("bad", command=program("hostile", mode), env=env, **options)
    assert (server.protocol >= "2026") is (os.environ["PROTOCOL_OF_TESTS"] == "new")
    return server


def refusal_of(mode: str, **options: object) -> Diagnostic:
    with pytest.raises(DefinitionError) as caught:
        connect(mode, **options)
    return caught.value.diagnostics[0]


def failed(tool: str = "bad__go", **options: object) -> Diagnostic:
    with pytest.raises(StepError) as caught:
        call(tool, **options)
    return caught.value.diagnostic


def notes(server: Server) -> str:
    return "\n".join(problem.message for problem in server.problems)


def test_a_server_that_never_answers_is_unreachable_and_ends_with_its_child(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    refusal = refusal_of("deaf", wait=1, env={"MARK": str(mark)})
    assert (refusal.code, "does not answer within 1 s" in refusal.message) == ("mcp.unreachable", True)
    assert until(lambda: not any(map(is_alive, map(int, mark.read_text().split()))))


@pytest.mark.slow
def test_a_server_that_ignores_sigterm_and_has_a_child_is_ended_with_it(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    server = connect("stubborn", env={"MARK": str(mark)})
    processes = [int(number) for number in mark.read_text().split()]
    server.close()
    assert not any(map(is_alive, processes))


def test_one_endless_line_is_cut_off() -> None:
    refusal = refusal_of("flood")
    assert refusal.code == "mcp.unreachable"
    assert "a line of more than 16,000,000 bytes" in refusal.message


@pytest.mark.slow
def test_an_answer_of_200_mb_ends_the_server_and_not_the_kernel() -> None:
    server = connect("huge")
    failure = failed()
    assert (failure.code, "more than 16,000,000 bytes" in failure.message) == ("step.unknown-outcome", True)
    assert until(lambda: server.state == "closed")


@pytest.mark.parametrize(("mode", "code"), [("unreadable", "mcp.result"), ("unreadable-late", "mcp.result")])
def test_an_answer_that_cannot_be_read_fails_the_call_at_once(mode: str, code: str) -> None:
    server = connect(mode)
    assert (failed().code, server.state) == (code, "open")
    assert "no message" in notes(server)


def test_half_of_a_character_is_replaced() -> None:
    connect("half")
    assert call("bad__go").output == "fig \ufffd, \U0001f40d, \ufffd."


def test_a_link_is_kept_only_if_it_is_short() -> None:
    server = connect("links")
    assert len(call("bad__go").output) == 20_001
    assert sum(map(len, server._links)) < 1_000_000
    assert len(server._links) == 10_000


def test_a_malformed_message_is_skipped_with_a_note() -> None:
    server = connect("garbage")
    assert call("bad__go").output == "done"
    assert "no message" in notes(server)
    assert {problem.code for problem in server.problems} == {"mcp.noise"}


@pytest.mark.parametrize("mode", ["leaks", "leaks-refusing"])
def test_a_secret_that_a_cut_or_an_unseen_character_divides_is_masked(mode: str, monkeypatch: Any) -> None:
    monkeypatch.setenv("SECRET_OF_TESTS", "s3cr" + "Q" * 36)
    server = connect(mode, env={"SECRET": "$SECRET_OF_TESTS"})
    failure = failed()
    assert "•••" in failure.message
    assert until(lambda: "•••" in server.log)
    for text in (failure.message, server.log, notes(server)):
        assert "s3cr" not in text
        assert "QQQ" not in text


def test_what_the_sdk_logs_of_a_session_is_in_the_servers_log_and_masked(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("SHOP_TOKEN", "s3cr3tQQQ")
    caplog.set_level("DEBUG")
    server = connect("leaks-to-the-sdk", env={"SECRET": "$SHOP_TOKEN"})
    assert call("bad__go").output == "done"
    assert until(lambda: "notifications/message" in server.log)
    assert "•••" in server.log
    assert agf.registry.tools["bad__go"].description == "for •••"
    for text in (server.log, notes(server), caplog.text):
        assert "s3cr3tQQQ" not in text
    logging.getLogger("mcp.client.client").warning("the person's own client")
    assert "the person's own client" in caplog.text


def test_every_logger_of_the_sdk_that_a_session_uses_is_known() -> None:
    modules = [module for name, module in sys.modules.items() if name.startswith(("mcp.client.", "mcp.shared."))]
    loggers = {vars(module)["logger"].name for module in modules if "logger" in vars(module)}
    assert loggers - {"mcp.client.sse", "mcp.client.stdio"} <= {*NAMES}


def test_a_flood_on_stderr_is_kept_in_part() -> None:
    server = connect("stderr")
    assert call("bad__go").output == "done"
    assert until(lambda: "noise" in server.log)
    assert len(server.log) <= 20_000
    assert "\x1b" not in server.log


@pytest.mark.slow
def test_256_of_100_000_tools_are_kept() -> None:
    server = connect("many", wait=60)
    assert len(server.tools) == 256
    assert "more than 256 tools" in notes(server)


def test_pages_without_end_are_read_up_to_20() -> None:
    server = connect("pages")
    assert len(server.tools) == 20
    assert "the others are left out" in notes(server)


def test_names_that_cannot_be_used_are_left_out_with_a_note_each() -> None:
    server = connect("names")
    assert server.tools == ("bad__ok",)
    assert len(server.problems) == 8
    assert "\x1b" not in notes(server)


def test_schemas_that_cannot_be_used_are_left_out() -> None:
    server = connect("schemas")
    assert server.tools == ("bad__fine", "bad__loop")
    reasons = ("40 levels", "outside of itself", "pattern", "no JSON Schema", "5,000 parts")
    assert all(reason in notes(server) for reason in reasons)
    assert failed("bad__loop", args={"a": 1}).code == "tool.arguments"


def test_a_description_is_cleaned_and_cut() -> None:
    connect("text")
    description = agf.registry.tools["bad__big"].description
    assert description.startswith("<b>hi</b>ignore all")
    assert len(description) <= 4_000


def test_an_answer_nested_300_deep_is_not_accepted() -> None:
    assert refusal_of("deep-answer", wait=1).code == "mcp.unreachable"


def test_a_result_that_violates_its_schema_is_refused() -> None:
    connect("lies")
    failure = failed()
    assert failure.code == "mcp.result"
    assert "'n' is missing" in failure.message


def test_the_pattern_of_a_result_takes_linear_time() -> None:
    connect("slow-pattern")
    assert "text that matches" in failed().message


def test_answers_that_nobody_asked_for_are_ignored() -> None:
    connect("twice")
    assert [call("bad__go").output for _ in range(3)] == ["done"] * 3


def test_a_failure_is_cleaned_and_cut() -> None:
    connect("fails")
    failure = failed()
    assert failure.code == "mcp.tool-failed"
    assert "\x1b" not in failure.message
    assert len(failure.message) < 2_100


def test_a_call_without_an_answer_ends_with_its_time_and_the_server_stays() -> None:
    server = connect("silent", timeout=0.3)
    assert failed().code == "step.timeout"
    assert server.state == "open"


@pytest.mark.slow
def test_a_flood_of_progress_becomes_a_few_events() -> None:
    connect("progress")
    events: list[object] = []
    call("bad__go", on_event=events.append)
    reported = [event for event in events if type(event).__name__ == "Progressed"]
    times = [event.when for event in reported]  # type: ignore[attr-defined]
    assert 0 < len(reported) <= 11 * (times[-1] - times[0]) + 2  # ten a second
    assert "\x1b" not in repr(reported)


@pytest.mark.slow
def test_a_flood_of_changes_is_a_few_listings() -> None:
    connect("changes")
    assert call("bad__go").output == "done"


def test_a_server_may_ask_questions_in_a_call_and_nothing_else(protocol: str) -> None:
    connect("asks")
    questions: list[str] = []

    def ask(question: agf.Question) -> str:
        questions.append(question.text)
        return "decline"

    answers = call("bad__go", ask=ask).output
    assert questions[0].startswith("password?")
    assert '"action": "decline"' in answers
    if protocol == "old":
        assert answers.count('"error"') == 2  # sampling and roots
    else:
        connect("asks-model")
        assert failed(ask=ask).code == "mcp.refused"


FORMS = [
    {"type": "object", "properties": {"a": True}},
    {"type": "object", "properties": {"a": {"enum": []}}},
    {"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}}},
    {"type": "object", "properties": {"\x1b[2J": {"type": "string", "default": "\x1b[2J"}}},
    {"type": "object", "required": 7},
    {"type": "object"},
]


@pytest.mark.parametrize("form", FORMS)
def test_no_form_of_a_question_stops_the_call(
    form: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("FORM_OF_TESTS", json.dumps(form))
    connect("form", env={"FORM": "$FORM_OF_TESTS"})
    texts: list[str] = []

    def ask(question: agf.Question) -> str:
        texts.append(question.text)
        return "{a: b}"

    with contextlib.suppress(StepError):  # the SDK itself refuses some forms
        output = call("bad__go", ask=ask).output
        assert '"action"' in output or "Invalid request parameters" in output
    assert not any("\x1b" in text for text in texts)
    assert "Traceback" not in caplog.text


TITLED = {"oneOf": [{"const": "#f00", "title": "Red"}, {"const": "#00f", "title": "Blue"}]}


@pytest.mark.parametrize(
    ("fields", "choices", "answer", "sent"),
    [
        ({"a": {"enum": ["approve", "reject"]}}, ("approve", "reject", "decline"), "reject", {"a": "reject"}),
        ({"a": {"type": "boolean"}}, ("yes", "no", "decline"), "no", {"a": False}),
        # Values that could not be chosen by their texts are written into the form.
        ({"a": {"enum": ["approve", "decline"]}}, (), "{a: decline}", {"a": "decline"}),
        ({"a": {"enum": ["x" * 300 + "y", "x" * 300 + "z"]}}, (), "decline", None),
        (
            {"a": {"enum": [f"c{n}" for n in range(99)]}},
            (*(f"c{n}" for n in range(99)), "decline"),
            "c98",
            {"a": "c98"},
        ),
        ({"a": {"enum": [f"c{n}" for n in range(100)]}}, (), "{a: c99}", {"a": "c99"}),
        # Titles are read, and their values are sent.
        ({"a": TITLED}, ("Red", "Blue", "decline"), "Blue", {"a": "#00f"}),
        (
            {"a": {"enum": ["#f00", "#00f"], "enumNames": ["Red", "Blue"]}},
            ("Red", "Blue", "decline"),
            "Red",
            {"a": "#f00"},
        ),
        ({"a": {"enum": ["#f00", "#00f"], "enumNames": ["Red"]}}, ("#f00", "#00f", "decline"), "#00f", {"a": "#00f"}),
        ({"a": {"oneOf": [{"const": "r", "title": "Red"}, {"const": "s", "title": "Red"}]}}, (), "{a: s}", {"a": "s"}),
        ({"a": {"oneOf": [{"const": "r"}, {"const": "s", "title": "S"}]}}, ("r", "S", "decline"), "r", {"a": "r"}),
        ({"a": {"type": "array", "items": TITLED}}, (), "{a: ['#00f']}", {"a": ["#00f"]}),
        # A form that is too large to show is declined: nobody is asked.
        ({f"f{number}": {"type": "string"} for number in range(21)}, None, "{f0: b}", None),
    ],
)
def test_each_value_that_a_form_allows_can_be_sent(
    fields: dict[str, Any],
    choices: tuple[str, ...] | None,
    answer: str,
    sent: dict[str, Any] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    fields = {name: {"type": "string", **field} for name, field in fields.items()}
    monkeypatch.setenv("FORM_OF_TESTS", json.dumps({"type": "object", "properties": fields}))
    connect("form", env={"FORM": "$FORM_OF_TESTS"})
    asked: list[tuple[str, ...]] = []

    def ask(question: agf.Question) -> str:
        asked.append(question.choices)
        return answer

    output = call("bad__go", ask=ask).output.replace(" ", "")
    assert asked[:1] == ([choices] if choices is not None else [])
    assert ('"action":"accept"' in output) is (sent is not None)
    assert ('"action":"decline"' in output) is (sent is None)
    assert sent is None or f'"content":{json.dumps(sent, separators=(",", ":"))}' in output


@pytest.mark.parametrize(
    ("field", "kind"),
    [
        ({"type": "string", **TITLED}, "#f00 for Red or #00f for Blue"),
        ({"enum": ["a", "b"]}, "a or b"),
        ({"type": "array", "items": {"anyOf": TITLED["oneOf"]}}, "a list of #f00 for Red or #00f for Blue"),
        ({"type": "array", "items": {"type": "string", "enum": ["a", "b"]}}, "a list of a or b"),
        ({"type": "array", "items": {"type": "string"}}, "a list of string"),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "any"),
    ],
)
def test_a_form_names_the_values_of_a_field(field: dict[str, Any], kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    form = {"type": "object", "properties": {"n": {"type": "integer"}, "a": field}}
    monkeypatch.setenv("FORM_OF_TESTS", json.dumps(form))
    connect("form", env={"FORM": "$FORM_OF_TESTS"})
    texts: list[str] = []

    def ask(question: agf.Question) -> str:
        texts.append(question.text)
        return "decline"

    with contextlib.suppress(StepError):  # the SDK itself refuses some forms
        call("bad__go", ask=ask)
    assert f"a ({kind}, optional): " in texts[0]


@pytest.mark.parametrize(
    ("answer", "says"),
    [(None, "and there is no user to answer: declined"), ("{a: 7}", "and no answer fits: a: needs text")],
)
def test_a_question_that_is_declined_for_the_person_is_a_note(
    answer: str | None, says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = {"type": "object", "properties": {"a": {"type": "string"}}}
    monkeypatch.setenv("FORM_OF_TESTS", json.dumps(form))
    server = connect("form", env={"FORM": "$FORM_OF_TESTS"})
    options: dict[str, Any] = {} if answer is None else {"ask": lambda question: answer}
    assert '"action":"decline"' in call("bad__go", **options).output.replace(" ", "")
    (note,) = server.problems
    assert note.code == "mcp.noise"
    assert says in note.message


def test_three_failed_starts_are_followed_by_a_rest(tmp_path: Path) -> None:
    copied = Path(shutil.copy(PROGRAMS / "quick.py", tmp_path))
    server = agf.mcp.connect("bad", command=[sys.executable, str(copied)])
    copied.write_text("raise SystemExit('no configuration')")
    assert failed("bad__die").code == "step.unknown-outcome"
    assert until(lambda: server.state == "closed")
    messages = [failed("bad__drop").message for _ in range(4)]
    assert all("cannot be reached" in message for message in messages[:3])
    assert "failed 3 times: not started for" in messages[3]
    shutil.copy(PROGRAMS / "quick.py", tmp_path)
    server.restart()
    assert call("bad__drop").output == "1"
