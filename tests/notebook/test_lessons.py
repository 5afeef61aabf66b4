"""The exercises of the notebooks: their solutions are right, and the check of a wrong answer says what is wrong."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import pytest
from IPython.utils.capture import capture_output

import agf_magics as agf
from agf_magics.notebook.magics import exercises
from docs import lessons
from tests.doc_pages import Shell, new_shell, session
from tests.shells import only_shell

ROOT = Path(__file__).parents[2]
ANSWER = "%%pipeline\npipeline: {name}\nsteps:\n- {step}\n"


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with only_shell(new_shell) as shell:
        yield shell  # type: ignore[misc]


def texts_of(shell: Shell, cell: str) -> str:
    with capture_output() as captured:
        shell.run_cell(cell, store_history=True)
    texts = [output.data.get("text/plain", "") for output in captured.outputs]
    return "".join([captured.stdout, *texts])


@pytest.mark.parametrize("language", lessons.NOTEBOOKS)
def test_each_solution_is_right_and_before_it_something_is_wrong(language: str, shell: Shell, tmp_path: Path) -> None:
    with session(shell):
        shutil.copytree(ROOT / "notebooks", tmp_path, dirs_exist_ok=True)
        (tmp_path / "pyproject.toml").touch()
        with chdir(tmp_path):
            exercises = list(lessons.exercises(language))
            for exercise in exercises:
                for cell in exercise.before:
                    texts_of(shell, cell)
                check = f"%lesson {exercise.name} --check"
                assert re.match("✗ ", texts_of(shell, check)), exercise.name
                for cell in exercise.solution:
                    texts_of(shell, cell)
                assert texts_of(shell, check) == f"✓ {exercise.name}: right\n"
            assert len(exercises) > 7


def test_the_lessons_are_those_of_the_notebooks() -> None:
    assert lessons.FILE.read_text(encoding="utf-8") == lessons.text(), "python -m docs lessons writes them"
    assert lessons.FILE.stat().st_size < 200_000


@pytest.mark.parametrize(
    ("step", "wrong"),
    [
        ("transform: {value: '499'}", "✗ the output is 499, and must be 500\n"),
        ("transform: {value: '[500]'}", "✗ the output is [500], and must be 500\n"),
        ("tool: {name: file__read, args: {path: none.txt}}", "✗ sunbeam fails: "),
        ("match: {on: '1', cases: {'1': {pipeline: given}}}", "✗ sunbeam has no transform: the lesson is about it\n"),
    ],
)
def test_the_check_of_a_wrong_answer_says_what_is_wrong(step: str, wrong: str, shell: Shell) -> None:
    with session(shell):
        texts_of(shell, "earth = {'distance': 150}")
        texts_of(shell, ANSWER.format(name="given", step="transform: {value: '500'}"))
        texts_of(shell, ANSWER.format(name="sunbeam", step=step))
        assert texts_of(shell, "%lesson pipeline.1 --check").startswith(wrong)


def test_parts_of_an_answer_are_named_by_their_place(shell: Shell) -> None:
    with session(shell):
        texts_of(shell, "planets = []")
        step = """transform: {value: "{planet: 'Neptune', minutes: 241, extra: 1}"}"""
        texts_of(shell, ANSWER.format(name="plan_trip", step=step))
        assert texts_of(shell, "%lesson pipeline.14 --check").splitlines() == [
            "✗ the output at minutes is 241, and must be 241.6",
            "✗ the output at class is missing; it must be 'endless'",
            "✗ the output at extra is 1, and nothing must be there",
        ]


def test_a_lesson_is_shown_without_its_solution_and_all_are_listed(shell: Shell) -> None:
    with session(shell):
        text = texts_of(shell, "%lesson pipeline.1")
        assert "Light travels 300,000 km in a second." in text
        assert "sunbeam" not in text
        assert all(f"`{language}.1`" in texts_of(shell, "%lesson") for language in lessons.NOTEBOOKS)
        assert "In `pipeline-language.ipynb`" in texts_of(shell, "%lesson pipeline.8")
        assert "%r1 EXPRESSION" in texts_of(shell, "%lesson pipeline.8")


def test_every_lesson_that_the_teachers_notebook_lists_exists() -> None:
    cells = json.loads((ROOT / "notebooks" / "teaching.ipynb").read_text(encoding="utf-8"))["cells"]
    (text,) = ("".join(cell["source"]) for cell in cells if "## What each lesson tests" in "".join(cell["source"]))
    listed, heads = set(), [""] * 5
    for line in text.splitlines():
        parts = [part.strip() for part in line.strip("|").split("|")] if line.startswith("|") else []
        if parts and parts[0] in LANGUAGES:
            heads = parts
        elif len(parts) == len(heads):
            for column in (0, 3):
                for first, last in re.findall(r"(\d+)(?: to (\d+))?", parts[column]):
                    numbers = range(int(first), int(last or first) + 1)
                    listed |= {f"{LANGUAGES[heads[column]]}.{number}" for number in numbers}
    assert listed == set(exercises.lessons())


LANGUAGES = {"pipelines": "pipeline", "plans": "plan", "graphs": "graph", "policies": "policy"}

OWN = """\
%%writefile lessons.yaml
rivers.1:
  task: Write the pipeline `longest`.
  flow: longest
  options: --set names=[Nile,Po]
  uses: [transform]
  gives: Nile
rivers.2: {task: How long is the Nile?, gives: 6650}
"""


def test_a_teacher_gives_lessons_in_a_file(shell: Shell) -> None:
    with session(shell):
        texts_of(shell, OWN)
        assert "`rivers.2`" in texts_of(shell, "%lesson")
        assert "rivers.1" in list(exercises.lesson_names())
        assert texts_of(shell, "%lesson rivers.1 --check") == "✗ there is no pipeline 'longest' yet: write %%pipeline\n"
        texts_of(shell, ANSWER.format(name="longest", step="transform: {value: 'find(ctx.names, n -> true)'}"))
        assert texts_of(shell, "%lesson rivers.1 --check") == "✓ rivers.1: right\n"
        assert texts_of(shell, "%lesson rivers.2 --check") == "✗ no cell has shown a value yet\n"
        texts_of(shell, "6650")
        assert texts_of(shell, "%lesson rivers.2 --check") == "✓ rivers.2: right\n"


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        ("- a\n", ["lessons.yaml must be a mapping of lessons"]),
        (
            "- a\n---\nb: c\n",
            ["lessons.yaml must be a mapping of lessons", "lesson 'b' must be a mapping, got text 'c'"],
        ),
        ("a: b\n", ["lesson 'a' must be a mapping, got text 'b'"]),
        ("a: {task: 7, gives: 1, use: []}\n", ["'task' must be a text, got the number 7", "a lesson has no key 'use'"]),
        ("a: {}\n", ["lesson 'a' has no 'task'", "lesson 'a' has no 'gives'"]),
        ("a: {task: b, gives: 1, uses: fold}\n", ["'uses' must be a list of step kinds"]),
    ],
)
def test_all_mistakes_of_the_file_are_reported_and_its_names_are_not_completed(
    text: str, messages: list[str], shell: Shell
) -> None:
    with session(shell):
        Path("lessons.yaml").write_text(text)
        with pytest.raises(agf.DefinitionError) as raised:
            exercises.lessons()
        assert [diagnostic.message for diagnostic in raised.value.diagnostics] == messages
        assert {diagnostic.code for diagnostic in raised.value.diagnostics} == {"magic.lesson-file"}
        assert "pipeline.1" in list(exercises.lesson_names())


def test_the_input_of_a_check_is_that_of_the_notebook(shell: Shell) -> None:
    with session(shell):
        texts_of(shell, ANSWER.format(name="sunbeam", step="transform: {value: '500'}"))
        with capture_output() as captured:
            result = shell.run_cell("%lesson pipeline.1 --check")
        assert "magic.unknown-variable" in str(result.error_in_exec), captured.stdout
