"""A process is killed inside a tool with an effect: the call is not repeated unless the user allows it (decision
D7)."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from tests.processes import printed, script

CODE = """
import os, signal, sys, time
from pathlib import Path
import agf_magics as agf

def note(word):
    with open("effects.txt", "a") as file:
        file.write(word + "\\n")

def die(when):
    if os.environ.get("DIE") == when:
        os.kill(os.getpid(), signal.SIGKILL)

@agf.tool(reuse=False)
def pay(amount: int) -> str:
    die("before")
    note(f"pay {amount}")
    die("after")
    if os.environ.get("DIE") == "fails":
        raise ValueError("no money")
    return f"paid {amount}"

@agf.tool
def safe() -> str:
    note("safe")
    die("safe")
    return "safe"

def end(run):
    print(run.status, run.output, run.error.code if run.error else None)

PAY = "{tool: {name: pay, args: {amount: 5}, output: receipt}}"
"""

FIRST = """
agf.run("{pipeline: p, steps: [%s]}" % PAY, raises=False)
"""
RESUMED = """
def ask(question):
    print(question.text)
    return eval(sys.argv[1])
end(agf.resume(agf.runs()[0].run_id, raises=False, ask=ask))
"""
QUESTION = "'pay' was called with {\"amount\":5} and its outcome is unknown. Call it again?"


def killed(folder: Path, when: str, first: str = FIRST) -> None:
    (folder / "pyproject.toml").touch()
    ended = script(f"import os; os.environ['DIE'] = {when!r}\n{CODE}{first}", folder)
    assert ended.returncode == -signal.SIGKILL, ended.stderr


def effects(folder: Path) -> list[str]:
    written_file = folder / "effects.txt"
    return written_file.read_text().splitlines() if written_file.exists() else []


@pytest.mark.parametrize("when", ["before", "after"])
def test_without_a_user_the_call_is_not_repeated(when: str, tmp_path: Path) -> None:
    killed(tmp_path, when)
    effects_before = effects(tmp_path)
    for _ in range(2):  # the number of resumes makes no difference
        resumed = "made = agf.resume(agf.runs()[0].run_id, raises=False); end(made); print(made.error.diagnostic.hint)"
        assert printed(CODE + resumed, tmp_path) == [
            "waiting None step.unknown-outcome",
            "%resume RUN --answer yes calls it again; --answer '{result: …}' gives its result",
        ]
        assert effects(tmp_path) == effects_before


def test_the_user_may_allow_a_second_call(tmp_path: Path) -> None:
    killed(tmp_path, "after")
    assert printed(CODE + RESUMED, tmp_path, "True") == [QUESTION, "ok paid 5 None"]
    assert effects(tmp_path) == ["pay 5", "pay 5"]


def test_the_user_may_give_the_result_of_the_call(tmp_path: Path) -> None:
    killed(tmp_path, "after")
    assert printed(CODE + RESUMED, tmp_path, "{'result': 'paid by hand'}") == [QUESTION, "ok paid by hand None"]
    assert effects(tmp_path) == ["pay 5"]
    shown = "print(agf.runs()[0].status, agf.runs(agf.runs()[0].run_id).load('steps[0]'))"
    assert printed(CODE + shown, tmp_path) == ["ok paid by hand"]


def test_the_answer_is_shown(tmp_path: Path) -> None:
    killed(tmp_path, "after")
    resumed = """
def show(event):
    if type(event).__name__ == "QuestionAnswered":
        print(event.answer)
agf.resume(agf.runs()[0].run_id, raises=False, ask=lambda question: True, on_event=show)
"""
    assert printed(CODE + resumed, tmp_path) == ["True"]


@pytest.mark.parametrize("answer", ["False", "{'other': 1}", "{'result': 1, 'more': 2}", "'again'", "1/0"])
def test_another_answer_calls_nothing(answer: str, tmp_path: Path) -> None:
    killed(tmp_path, "after")
    # A text does not answer an approval (decision A18). A mapping does, but the outcome of the call stays unknown.
    ended = "error None run.answer" if answer == "'again'" else "waiting None step.unknown-outcome"
    assert printed(CODE + RESUMED, tmp_path, answer)[-1] == ended
    assert effects(tmp_path) == ["pay 5"]


@pytest.mark.parametrize(("answer", "output"), [("yes", "paid 5"), ("{result: paid by hand}", "paid by hand")])
def test_the_answer_may_be_an_option_of_the_resume(answer: str, output: str, tmp_path: Path) -> None:
    killed(tmp_path, "after")
    resumed = "end(agf.resume(agf.runs()[0].run_id, answer=sys.argv[1]))"
    assert printed(CODE + resumed, tmp_path, answer) == [f"ok {output} None"]


def test_the_user_is_asked_again_when_the_second_call_is_cut_as_well(tmp_path: Path) -> None:
    killed(tmp_path, "after")
    killed(tmp_path, "after", "agf.resume(agf.runs()[0].run_id, answer=True)")
    assert effects(tmp_path) == ["pay 5", "pay 5"]
    assert printed(CODE + RESUMED, tmp_path, "{'result': 2}") == [QUESTION, "ok 2 None"]


def test_a_call_that_failed_has_an_outcome_and_is_made_again_unasked(tmp_path: Path) -> None:
    printed(f"import os; os.environ['DIE'] = 'fails'\n{CODE}{FIRST}", tmp_path)
    assert printed(CODE + RESUMED, tmp_path, "1/0") == ["ok paid 5 None"]


def test_a_second_call_that_is_cut_after_one_that_failed_is_asked_for(tmp_path: Path) -> None:
    printed(f"import os; os.environ['DIE'] = 'fails'\n{CODE}{FIRST}", tmp_path)
    killed(tmp_path, "after", "agf.resume(agf.runs()[0].run_id)")
    assert printed(CODE + RESUMED, tmp_path, "{'result': 3}") == [QUESTION, "ok 3 None"]


@pytest.mark.parametrize("mode", ["continue", "retry(3)"])
def test_what_goes_on_after_a_failure_neither_drops_nor_repeats_it(mode: str, tmp_path: Path) -> None:
    fan = (
        (
            "agf.run({'pipeline': 0} and '''{pipeline: p, steps: [{for_each: {items: [1], on_error: MODE, "
            "do: {tool: {name: pay, args: {amount: 5}}}, collect: {transform: {value: pipe}}}}]}''', raises=False)"
        )
        .replace("MODE", mode)
        .replace("{'pipeline': 0} and ", "")
    )
    killed(tmp_path, "after", fan)
    assert printed(CODE + "end(agf.resume(agf.runs()[0].run_id, raises=False))", tmp_path) == [
        "waiting None step.unknown-outcome"
    ]
    assert effects(tmp_path) == ["pay 5"]


def test_a_call_that_was_cancelled_has_no_outcome(tmp_path: Path) -> None:
    code = """
import asyncio
@agf.tool(reuse=False)
async def slow() -> None:
    note("slow")
    await asyncio.sleep(3600)
end(agf.run("{pipeline: p, steps: [{tool: {name: slow}}]}", limits=agf.Limits(timeout=0.2), raises=False))
end(agf.resume(agf.runs()[0].run_id, raises=False))
"""
    assert printed(CODE + code, tmp_path) == ["error None limit.timeout", "waiting None step.unknown-outcome"]
    assert effects(tmp_path) == ["slow"]


def test_only_a_tool_with_an_effect_is_asked_for_and_has_a_line_of_its_own(tmp_path: Path) -> None:
    killed(tmp_path, "safe", 'agf.run("{pipeline: p, steps: [{tool: {name: safe}}]}")')
    assert printed(CODE + RESUMED, tmp_path, "1/0") == ["ok safe None"]
    assert effects(tmp_path) == ["safe", "safe"]
    lines = """
import sqlite3
print([row[0] for row in sqlite3.connect(".agf/runs.sqlite").execute("SELECT what FROM records ORDER BY line")])
"""
    assert printed(lines, tmp_path) == ["['finished']"]
