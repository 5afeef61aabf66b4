"""Questions to the user: typed in a cell and in a terminal, clicked beside a background run, and without a user."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from agf_magics.engine.calls.answers import parse_answer
from agf_magics.engine.host.host import NoUser
from agf_magics.flow.progress.question import Question
from agf_magics.lifecycle.input.prompt import TRIES, ask_at_prompt, format_question
from agf_magics.lifecycle.runs import pending_questions
from agf_magics.notebook.display.background_questions import describe_answer, frozen
from agf_magics.settings.settings import current
from tests.notebook.conftest import Cell, Kernel, Shell, code, started

COLOURS = Question("Which?", ("red", "green", "grey"))
SURE = Question("may it run?", approval=True)

GUARDED = """\
schema_version: "1.0.0"
metadata: {id: guarded, name: guarded, version: "1", description: asks first}
interface: {input: {type: object}, output: {}}
action_space:
  local_agents: [{alias: writer, source: writer.agf.yaml, approval: true}]
execution_policy:
  id: agf.sequential
  config: {steps: [{agent: writer, input_mapping: {topic: parent.input.topic}}]}
"""
WRITER = "from agf_magics import agent\n@agent\ndef writer(topic: str) -> str:\n    return 'on ' + topic\n"


def answers(*lines: str) -> Any:
    """An input function for a user who types these lines, and then ends the input."""
    lines_left = iter(lines)

    def read(prompt: str) -> str:
        try:
            return next(lines_left)
        except StopIteration:
            raise EOFError from None

    return read


def said_to(question: Question, *lines: str) -> tuple[Any, list[str]]:
    printed: list[str] = []
    return ask_at_prompt(question, say=printed.append, read=answers(*lines)), printed


# --- which answers are understood ---


@pytest.mark.parametrize(("text", "answer"), [("y", True), (" YES ", True), ("no", False), ("", None), ("maybe", None)])
def test_an_approval_is_yes_or_no_and_nothing_else(text: str, answer: bool | None) -> None:
    assert parse_answer(SURE, text) is answer


@pytest.mark.parametrize(
    ("text", "answer"),
    [("2", "green"), ("red", "red"), ("RE", "red"), ("gr", None), ("0", None), ("4", None), ("", None)],
)
def test_a_choice_is_its_text_its_number_or_a_beginning_of_its_own(text: str, answer: str | None) -> None:
    assert parse_answer(COLOURS, text) == answer


def test_a_choice_that_is_a_number_is_that_choice() -> None:
    assert parse_answer(Question("How many?", ("3", "1")), "1") == "1"


def test_an_answer_that_is_not_understood_is_asked_for_again() -> None:
    answer, printed = said_to(SURE, "perhaps", "y")
    assert answer is True
    assert printed == ["may it run?", "please answer yes or no:"]


@pytest.mark.parametrize("lines", [(), ("what?",) * TRIES], ids=["the end", "nonsense"])
def test_the_end_of_the_input_and_endless_nonsense_count_as_no_user(lines: Iterable[str]) -> None:
    with pytest.raises(NoUser):
        said_to(SURE, *lines)


def test_a_question_cannot_steer_the_terminal_or_grow_without_end() -> None:
    text = format_question(Question("\x1b[2Jdelete \u202eall" + "x" * 10_000, ("a\nb",)))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert len(text) < 5_000
    assert text.endswith("  1. a b")


PAY = Question("call pay(amount=5)?", approval=True, arguments={"amount": 5}, result="_output")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("yes", True),
        ("{amount: 3}", {"amount": 3}),
        ('{"_output": null}', {"_output": None}),
        ("amount: 3", {"amount": 3}),
        ("{amount", None),
        ("3", None),
        ("{}", None),
        ("", None),
    ],
)
def test_the_replacement_of_a_call_is_a_mapping(text: str, answer: Any) -> None:
    assert parse_answer(PAY, text) == answer
    assert text == "yes" or parse_answer(SURE, text) is None


def test_the_question_lists_the_possible_replacements_of_a_call(capsys: pytest.CaptureFixture[str]) -> None:
    prompts: list[str] = []

    def read(prompt: str) -> str:
        prompts.append(prompt)
        return "{amount: 3}"

    assert ask_at_prompt(PAY, read=read) == {"amount": 3}
    assert prompts == ["yes, no, {amount: …} as arguments or {_output: …} as result: "]


# --- in a cell ---


@pytest.fixture
def guarded(shell: Shell) -> Shell:
    shell.good(WRITER)
    shell.good(f"%%policy --quiet\n{GUARDED}")
    return shell


@pytest.mark.parametrize("answer", ["yes", "no"])
def test_a_cell_that_waits_asks_by_input(guarded: Shell, monkeypatch: pytest.MonkeyPatch, answer: str) -> None:
    monkeypatch.setattr("builtins.input", answers(answer))
    result = guarded.run("r = %run_pipeline guarded --set topic=pears")
    assert 'may writer with {"topic":"pears"} run?' in result.out.replace("'", "").replace("agent ", "")
    assert result.ok == (answer == "yes")
    if answer == "no":
        assert code(result) == "step.denied"
        assert "it was denied" in str(result.error)


def test_a_terminal_without_input_denies_an_approval(guarded: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("builtins.input", answers())
    result = guarded.run("%run_pipeline guarded --set topic=pears")
    assert code(result) == "step.denied"
    assert "there is no user to approve it" in str(result.error)


def test_after_unloading_there_is_no_user_to_ask(shell: Shell) -> None:
    assert current.ask is not None
    shell.good("%unload_ext agf_magics")
    assert current.ask is None


def test_a_kernel_asks_on_its_own_channel(headless: Kernel) -> None:
    headless.good(f"{WRITER}")
    headless.good(f"%%policy --quiet\n{GUARDED}")
    line = "run = %run_pipeline guarded --set topic=pears --quiet"
    cell = Cell(headless, headless.client.execute(line, allow_stdin=True))
    message = headless.client.get_stdin_msg(timeout=60)
    assert message["content"]["prompt"] == "yes or no: "
    headless.client.input("yes")
    assert cell.end().reply["status"] == "ok"
    assert "on pears" in str(headless.good("print(run.output)").printed)


def test_a_notebook_without_a_front_end_denies_and_says_so(headless: Kernel) -> None:
    headless.good(f"{WRITER}")
    headless.good(f"%%policy --quiet\n{GUARDED}")
    line = "%run_pipeline guarded --set topic=pears --quiet"
    reply = Cell(headless, headless.client.execute(line, allow_stdin=False)).end().reply
    assert reply["status"] == "error"
    assert "there is no user to approve it" in reply["evalue"]


# --- in the explorer of a run ---


def answered(question: Question, choose: Callable[[pending_questions.PendingQuestion], object]) -> Any:
    """Ask ``question``, and answer it from another thread. Returns the outcome."""

    async def wait() -> Any:
        pending = pending_questions.PendingQuestion(question)
        try:
            assert pending_questions.PendingQuestion.of(question) is pending
            await asyncio.to_thread(choose, pending)
            return await pending.wait()
        finally:
            pending.close()
            assert pending_questions.PendingQuestion.of(question) is None

    return asyncio.run(wait())


def test_only_the_first_answer_counts() -> None:
    assert answered(COLOURS, lambda pending: (pending.choose(1), pending.answer("red"), pending.give_up())) == "green"  # type: ignore[func-returns-value]


def test_an_answer_is_the_number_of_a_choice_or_a_typed_text() -> None:
    many = Question("Which?", tuple(f"n{i}" for i in range(40)))
    assert answered(many, lambda pending: pending.choose(39)) == "n39"
    assert answered(many, lambda pending: (pending.choose(40), pending.choose(-1), pending.choose(0))) == "n0"
    assert answered(SURE, lambda pending: pending.answer("no")) is False
    assert answered(PAY, lambda pending: (pending.answer("three"), pending.answer("{amount: 3}"))) == {"amount": 3}
    assert answered(Question("What?"), lambda pending: pending.answer("pears")) == "pears"


def test_a_question_that_no_page_shows_has_no_user() -> None:
    with pytest.raises(NoUser):
        answered(SURE, lambda pending: pending.give_up())


def test_the_document_keeps_choices_and_yes_and_no_and_a_typed_text_that_is_not_secret() -> None:
    answers_given = [
        (SURE, True),
        (SURE, False),
        (COLOURS, "red"),
        (PAY, {"amount": 3}),
        (Question("Key?", secret=True), "s3cret"),
        (Question("Which colour?"), "blue"),
        (Question("Go?"), "Yes "),
    ]
    assert [describe_answer(*answer) for answer in answers_given] == [
        "yes",
        "no",
        "red",
        "changed",
        "answered",
        '"blue"',
        "Yes",
    ]


GUARDED_RUN = "h = %run_pipeline_async guarded --set topic=pears"


@pytest.mark.parametrize("quiet", [False, True])
def test_a_background_run_asks_in_one_explorer_and_the_document_has_only_text(page_kernel: Kernel, quiet: bool) -> None:
    page_kernel.good(f"{WRITER}\n%config AgfMagics.progress_after = 0")
    page_kernel.good(f"%%policy --quiet\n{GUARDED}")
    cell = page_kernel.good(GUARDED_RUN + " --quiet" * quiet)
    messages: list[dict[str, Any]] = [*cell.messages, *page_kernel.strays]
    while not (waiting(messages) and asking(messages)):
        messages.append(page_kernel.next())
    ((comm, mark, _),) = started(messages)
    assert mark in str(contents_of(messages, "display_data"))
    mark_match = re.search(r"'mark': '([0-9a-f]{16})'", str(messages))
    assert mark_match is not None
    reply = {"where": "steps[0]", "mark": mark_match[1], "text": "yes"}
    content = {"mark": mark, "do": "answer", "id": 1, "with": reply}
    data = {"comm_id": comm, "data": {"method": "custom", "content": content}}
    page_kernel.client.shell_channel.send(page_kernel.client.session.msg("comm_msg", data))
    while not any("→ yes" in str(content) for content in contents_of(messages, "update_display_data")):
        messages.append(page_kernel.next())
    assert "on pears" in str(page_kernel.good("h.wait().output").of("execute_result"))
    messages += [*page_kernel.strays, *page_kernel.drain()]
    assert "application/vnd.jupyter.widget-view+json" not in str(
        contents_of(messages, "display_data", "update_display_data")
    )
    gone = [content["data"].get("content", {}).get("gone", []) for content in contents_of(messages, "comm_msg")]
    assert ([mark] in gone or bool(contents_of(messages, "comm_close"))) is quiet
    page_kernel.strays.clear()
    page_kernel.good("%config AgfMagics.progress_after = 0.3")


LETTERS = """\
from agf_magics import tool
@tool
def pay(amount: int) -> int:
    return amount
import agf_magics as agf
calls = "[{_tool: pay, amount: 1, _outputPath: $state.a}, {_tool: pay, amount: 2, _outputPath: $state.b}]"
_ = agf.define("{confirm: true, calls: " + calls + "}", "plan", name="letters")
"""
"""A cell that defines a plan with two questions at once."""


def open_questions(run: str, number: int) -> str:
    """A cell that waits until this many questions are open, and prints their places."""
    return (
        f"import time\nwhile len({run}.progress.open_questions) < {number} and not {run}.done: time.sleep(0.01)\n"
        f"print(sorted(q.where for q in {run}.progress.open_questions.values()))"
    )


def test_a_question_that_no_view_shows_is_answered_by_a_call_or_a_magic_and_says_so(page_kernel: Kernel) -> None:
    """The environment looks like JupyterLab, but no page ever reports."""
    page_kernel.good(f"{WRITER}\nfrom agf_magics.notebook.display import background_questions as asks")
    page_kernel.good("asks.PATIENCE, asks.page.has_reported = 0.05, False")  # other tests have sent messages of a page
    page_kernel.good(f"%%policy --quiet\n{GUARDED}")
    for line in ("h.answer('yes')", "h.answer(True)", "h.answer('y', step='steps[0]')",
                 "%answer guarded yes", "%answer $(h.run_id) yes"):  # fmt: skip
        line = line.replace("$(h.run_id)", "{}")
        cell = page_kernel.good(GUARDED_RUN)
        messages: list[dict[str, Any]] = [*cell.messages, *page_kernel.strays]
        while "no view has opened here: answer with %answer guarded-" not in str(
            contents_of(messages, "update_display_data")
        ):
            messages.append(page_kernel.next())
        page_kernel.strays.clear()
        if "{}" in line:
            line = "get_ipython().run_line_magic('answer', f'{h.run_id[:-2]} yes')"
        page_kernel.good(line)
        assert "on pears" in str(page_kernel.good("h.wait().output").of("execute_result"))
        page_kernel.drain()
        page_kernel.strays.clear()


def test_an_answer_to_no_question_or_a_wrong_one_is_refused_and_the_question_stays(page_kernel: Kernel) -> None:
    page_kernel.good(f"{WRITER}")
    page_kernel.good(f"%%policy --quiet\n{GUARDED}")
    page_kernel.good(LETTERS)
    page_kernel.good(GUARDED_RUN)
    page_kernel.good(open_questions("h", 1))
    refused = (
        ("h.answer('perhaps')", "run.answer", "is not an answer to an approval"),
        ("h.answer(None)", "run.answer", "is not an answer to an approval"),
        ("h.answer({'amount': 3})", "run.answer", "is not an answer to an approval"),
        ("h.answer('yes', step='steps[7]')", "run.no-question", "waits for an answer at 'steps[0]', not at 'steps[7]'"),
        ("%answer guarded perhaps", "run.answer", "^^^^^^^"),
        ("%answer guarded", "magic.", "VALUE"),
        ("%answer nothing yes", "magic.unknown-run", "^^^^^^^"),
    )
    for line, code_, says in refused:
        result = page_kernel.run(line)
        assert result.reply["status"] == "error", line
        assert code_ in str(result.of("error")), line
        assert says in str(result.of("error")), (line, result.of("error"))
    page_kernel.good("h.answer('no')")
    assert "step.denied" in str(page_kernel.good("h.wait().error").of("execute_result", "display_data"))
    ended = page_kernel.run("h.answer('yes')")
    assert "asks nothing now: it has ended: error" in str(ended.of("error"))
    page_kernel.good("two = %run_pipeline_async letters")
    page_kernel.good(open_questions("two", 2))
    later = page_kernel.run("two.answer('yes', step='calls[1]')")  # the questions are asked one after the other
    assert "waits for an answer at 'calls[0]', not at 'calls[1]'" in str(later.of("error"))
    page_kernel.good("two.answer('yes', step='calls[0]')")
    page_kernel.good("while 'calls[0]' in str(two.progress.open_questions): time.sleep(0.01)")
    page_kernel.good("two.answer('yes')")
    assert "ok" in str(page_kernel.good("two.wait().status").of("execute_result"))
    page_kernel.drain()
    page_kernel.strays.clear()


def test_a_client_that_names_no_subshell_cancels_while_the_cell_runs(page_kernel: Kernel) -> None:
    """VS Code is such a client. The tool is a plain function, which ends within a minute only if it is cancelled."""
    page_kernel.good(
        "from agf_magics import tool\nimport time\n"
        "%config AgfMagics.progress_after = 0\n"
        "@tool(where='thread')\ndef nap() -> str:\n"
        "    until = time.monotonic() + 60\n    while time.monotonic() < until: time.sleep(0.05)\n    return 'slept'"
    )
    cell = page_kernel.begin("%%pipeline --run\npipeline: naps\nsteps:\n- tool: {name: nap}\n")
    messages: list[dict[str, Any]] = []
    while not started(messages):
        messages.append(page_kernel.next())
    ((comm, mark, _),) = started(messages)

    def send(**content: Any) -> None:
        data = {"comm_id": comm, "data": {"method": "custom", "content": content}}
        message = page_kernel.client.session.msg("comm_msg", data)
        assert "subshell_id" not in message["header"]
        page_kernel.client.shell_channel.send(message)

    send(do="runs")  # as each view does when it opens
    while "cancel" not in buttons_of(messages[-1], mark):
        messages.append(page_kernel.next())
    send(do="cancel", mark=mark, id=1)
    ended = cell.end()
    assert ended.reply["status"] == "error"
    assert "Cancel button" in str(ended.of("error"))
    page_kernel.drain()
    page_kernel.strays.clear()
    page_kernel.good("%config AgfMagics.progress_after = 0.3")


def buttons_of(message: dict[str, Any], mark: str) -> list[str]:
    """The buttons of a run that the kernel sends to a view at its request."""
    content = message["content"].get("data", {}).get("content", {})
    return content["runs"][mark]["update"]["can"] if content.get("type") == "runs" else []


def contents_of(messages: list[dict[str, Any]], *kinds: str) -> list[dict[str, Any]]:
    return [message["content"] for message in messages if message["msg_type"] in kinds]


def waiting(messages: list[dict[str, Any]]) -> bool:
    """Whether the document says that the question waits."""
    return any("waiting for an answer" in str(content) for content in contents_of(messages, "display_data"))


def asking(messages: list[dict[str, Any]]) -> bool:
    """Whether the page of the explorer has the question."""
    return any("'approval': True" in str(content) for content in contents_of(messages, "comm_open", "comm_msg"))


def test_a_question_is_escaped_and_what_stays_has_its_answer() -> None:
    page = frozen(Question("<script>x</script>", where="<b>"), "<i>yes")
    assert set(page) == {"text/html", "text/plain"}
    assert not [tag for tag in ("<script>", "<b>", "<i>") if tag in page["text/html"]]
    assert page["text/plain"].endswith("→ <i>yes")


# --- in a terminal ---


def command_line(folder: Path, answer: str) -> subprocess.CompletedProcess[str]:
    (folder / "tools.py").write_text(WRITER)
    (folder / "guarded.agf.yaml").write_text(GUARDED)
    (folder / "input.json").write_text(json.dumps({"topic": "pears"}))
    line = ["run", "guarded.agf.yaml", "--tools", "tools.py", "--input", "input.json"]
    root = str(Path(__file__).parents[2])
    return subprocess.run(
        [sys.executable, "-m", "agf_magics", *line], cwd=folder, input=answer, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": root}, check=False,
    )  # fmt: skip


def test_the_command_line_asks_on_stderr_and_takes_the_answer_from_its_input(tmp_path: Path) -> None:
    completed = command_line(tmp_path, "yes\n")
    assert json.loads(completed.stdout) == "on pears"
    assert "yes or no: " in completed.stderr


def test_the_command_line_without_an_answer_denies(tmp_path: Path) -> None:
    completed = command_line(tmp_path, "")
    assert completed.returncode == 1
    assert "there is no user to approve it" in completed.stderr
