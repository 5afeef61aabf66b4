"""`%resume` and `%runs` in a real shell, and a killed kernel that resumes its run after a restart."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from IPython.core.completer import provisionalcompleter

from agf_magics.catalog import Registry, default
from agf_magics.editor.complete import Surroundings, complete
from tests.notebook.conftest import Kernel, Shell, code

TOOLS = """\
from pathlib import Path

@tool
def grade(name: str) -> str:
    with Path('graded').open('a') as file:
        file.write(name + ' ')
    if name == 'plums' and not Path('teacher').exists():
        raise LookupError('no teacher')
    return name + ' <b>'
"""

GRADING = """\
%%pipeline
pipeline: grading
steps:
- for_each:
    over: ctx.names
    max_parallel: 1
    on_error: abort
    do: {tool: {name: grade, args: {name: !expr item}}}
    collect: {transform: {value: pipe}}
    output: grades
"""


@pytest.fixture
def failed(shell: Shell) -> Shell:
    """A shell in which a run has failed at its second element."""
    shell.good(TOOLS)
    shell.good(GRADING)
    assert not shell.run("%run_pipeline grading --set 'names=[pears, plums, figs]'").ok
    return shell


def test_a_run_is_resumed_where_it_stopped(failed: Shell) -> None:
    Path("teacher").touch()
    result = failed.good("%resume grading --out again")
    assert failed.names["again"].output == ["pears <b>", "plums <b>", "figs <b>"]
    assert Path("graded").read_text() == "pears plums plums figs "
    assert "1 completed call not repeated" in failed.names["again"].note
    assert result.value is None
    assert code(failed.run("%resume grading")) == "journal.finished"


def test_runs_are_listed_and_shown_step_by_step(failed: Shell) -> None:
    listed = failed.good("%runs").outputs[-1]
    assert "grading-" in listed["text/plain"]
    run = failed.good("%runs grading").value
    page = run._repr_mimebundle_()
    assert "no teacher" in page["text/plain"]
    assert "steps[0].do#1" in page["text/plain"]
    assert "pears <b>" not in page["text/html"]
    assert "pears &lt;b&gt;" in page["text/html"]


def test_two_runs_are_compared_and_one_is_written_to_a_file(failed: Shell) -> None:
    first = failed.good("import agf_magics; agf_magics.runs()[0]").value
    Path("teacher").touch()
    failed.good("%run_pipeline grading --set 'names=[pears, plums]' --out second")
    second = failed.names["second"].run_id
    (row,) = failed.good(f"%runs {first.run_id} --compare {second}").value
    assert (row["step"], row["calls"], row["calls of the other"], row["differs"]) == ("steps[0].do", 2, 2, "yes")
    failed.good(f"%runs {second} --export run.json")
    assert [call["output"] for call in json.loads(Path("run.json").read_text())["calls"]] == ["pears <b>", "plums <b>"]


def test_a_run_is_not_compared_with_itself(failed: Shell) -> None:
    (id,) = {run.run_id for run in failed.good("import agf_magics; agf_magics.runs()").value}
    for other in ("grading", id, id[:-3]):
        refused = failed.run(f"%runs grading --compare {other}")
        assert code(refused) == "magic.same-run"
        assert refused.error.diagnostic.span.text == other


def test_a_run_that_waits_or_was_interrupted_is_cancelled(shell: Shell) -> None:
    shell.good(
        "%%graph asks --quiet\nstate: {said: str}\nnodes: {ask: {type: interrupt, message: ok?, resume_key: said}}\n"
        "edges: [{from: START, to: ask}]"
    )
    shell.good("import agf_magics as agf\nrun = agf.run('asks', raises=False)")
    assert shell.names["run"].status == "waiting"
    run_id = shell.names["run"].run_id
    assert shell.good("%runs --cancel asks").out == f"{run_id} is cancelled\n"
    assert shell.good(f"agf.runs({run_id!r}).status").value == "cancelled"
    assert "has ended: cancelled" in str(shell.run("%runs --cancel asks").error)


def test_runs_are_deleted(failed: Shell) -> None:
    assert "deleted 0 runs" in failed.good("%runs --prune").out
    assert "deleted grading-" in failed.good("%runs --delete grading").out
    assert code(failed.run("%runs grading")) == "journal.unknown-run"
    assert code(failed.run("%resume")) == "journal.unknown-run"


def test_an_option_for_one_run_needs_a_run(failed: Shell) -> None:
    assert code(failed.run("%runs --export run.json")) == "magic.missing"
    assert code(failed.run("%runs --compare grading")) == "magic.missing"
    assert code(failed.run("%runs --report run.html")) == "magic.missing"
    assert code(failed.run("%runs --prune soon")) == "magic.days"


def test_without_a_journal_no_run_is_kept(shell: Shell) -> None:
    shell.good("%config AgfMagics.journal = None")
    shell.good(TOOLS)
    shell.good(GRADING)
    shell.good("%run_pipeline grading --set 'names=[pears]'")
    assert not Path(".agf").exists()
    assert code(shell.run("%resume grading")) == "journal.off"


def test_ids_of_kept_runs_are_completed(failed: Shell) -> None:
    completer: Any = failed.ip.Completer
    text = "%resume gra"
    with provisionalcompleter():
        assert any(completion.text.startswith("grading-") for completion in completer.completions(text, len(text)))


def test_the_newest_runs_are_completed_and_those_that_fit_come_first() -> None:
    runs = [(f"p-{n}", "p", "ok" if n % 2 else "error") for n in range(50)]
    surroundings = Surroundings(Registry(), {}, {}, lambda: runs)

    def offered(line: str) -> list[str]:
        offers = complete(line, 0, len(line), surroundings)
        return [choice.text for choice in offers.choices]

    assert offered("%runs p-") == [f"p-{n}" for n in range(20)]
    assert offered("%resume ") == [f"p-{n}" for n in range(0, 40, 2)]
    assert offered("%resume p-1")[:3] == ["p-10", "p-12", "p-14"]


@pytest.mark.kernel
def test_a_restarted_kernel_reports_the_killed_run_and_resumes_it(tmp_path: Path) -> None:
    tools = """\
import os, signal
from pathlib import Path
from agf_magics import tool

@tool
def grade(name: str) -> str:
    with Path('graded').open('a') as file:
        file.write(name + ' ')
    if name == 'plums' and not Path('once').exists():
        Path('once').touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return name
"""
    kernel = Kernel(tmp_path, {})
    try:
        kernel.good("%load_ext agf_magics")
        kernel.good(tools)
        kernel.good(GRADING)
        kernel.client.execute("%run_pipeline grading --set 'names=[pears, plums, figs]'")
        while kernel.manager.is_alive():
            kernel.drain()
        kernel.close()
        kernel = Kernel(tmp_path, {})
        assert "1 run did not finish: grading-" in kernel.good("%load_ext agf_magics").printed
        kernel.good(tools)  # runs the tools without the definition
        kernel.good("%resume --out run")
        assert kernel.good("print(run.status, run.output)").printed == "ok ['pears', 'plums', 'figs']\n"
        assert (tmp_path / "graded").read_text() == "pears plums plums figs "
    finally:
        kernel.close()


def under_the_caret(result: Any) -> str:
    return str(result.error.diagnostic.span.text)


@pytest.mark.parametrize(
    "line",
    [
        "%run_pipeline grading --reuse {}",
        "%run_pipeline_async grading --reuse {}",
        "%resume {}",
        "%runs {}",
        "%runs --delete {}",
        "%runs grading --compare {}",
    ],
)
def test_an_unknown_run_is_marked_and_the_nearest_is_named(failed: Shell, line: str) -> None:
    import agf_magics as agf

    run_id = agf.runs()[0].run_id
    wrong = f"x{run_id[1:]}"
    result = failed.run(line.format(wrong))
    assert code(result) in ("journal.unknown-run", "magic.unknown-run")
    assert under_the_caret(result) == wrong
    assert f"did you mean {run_id}?" in str(result.error)


def test_a_cell_whose_line_names_no_run_defines_nothing(failed: Shell) -> None:
    result = failed.run("%%pipeline --run --reuse nosuch\npipeline: fresh\nsteps:\n- transform: {value: '1'}\n")
    assert (code(result), under_the_caret(result)) == ("journal.unknown-run", "nosuch")
    assert code(failed.run("%flows fresh")) == "magic.unknown-flow"


TWO = """\
%%pipeline
pipeline: two
steps:
- tool: {name: grade, args: {name: !expr ctx.first}, output: a}
- tool: {name: grade, args: {name: plums}, output: b}
"""


def test_a_run_is_repeated_from_the_step_that_failed(shell: Shell) -> None:
    shell.good(TOOLS)
    shell.good(TWO)
    assert not shell.run("%run_pipeline two --set first=pears").ok
    Path("teacher").touch()
    result = shell.good("%rerun two --out again")
    assert Path("graded").read_text() == "pears plums plums "
    assert shell.names["again"].note.endswith("; 1 call reused")
    assert result.value is None
    shell.good(f"%rerun {shell.names['again'].run_id} --from steps[1] --set first=figs --quiet")
    assert Path("graded").read_text() == "pears plums plums figs plums "


def test_a_step_that_the_run_lacks_is_marked_in_the_line(shell: Shell) -> None:
    shell.good(TOOLS)
    shell.good(TWO)
    shell.run("%run_pipeline two --set first=pears")
    wrong = shell.run("%rerun two --from steps[9]")
    assert code(wrong) == "journal.unknown-step"
    assert "steps[9]\n" in str(wrong.error)
    assert code(shell.run("%rerun nothing --from steps[0]")) == "journal.unknown-run"
    Path("teacher").touch()
    shell.good("%rerun two --out again")
    assert code(shell.run(f"%rerun {shell.names['again'].run_id}")) == "journal.unknown-step"  # because no step failed


def test_the_steps_of_a_run_are_completed(shell: Shell) -> None:
    shell.good(TOOLS)
    shell.good(TWO)
    shell.run("%run_pipeline two --set first=pears")
    line = "%rerun two --from st"
    surroundings = Surroundings(default(), {}, {}, lambda: [("two-1-abc", "two", "error")])
    offers = complete(line, 0, len(line), surroundings)
    assert [choice.text for choice in offers.choices] == ["steps[0]", "steps[1]"]


def test_the_arguments_of_a_call_are_a_variable_and_the_next_cell_makes_the_call(failed: Shell) -> None:
    result = failed.good("%step grading steps[0].do")
    assert failed.names["arguments"] == {"name": "plums"}  # the failed call
    assert result.out.startswith("arguments has the arguments of steps[0].do#1: ")
    assert failed.ip.rl_next_input == "grade(**arguments)"
    failed.good("%step grading steps[0].do#0 --out first")
    assert failed.names["first"] == {"name": "pears"}
    assert failed.run(failed.ip.rl_next_input).value == "pears <b>"
    failed.good("del grade\n%step grading steps[0].do#0")
    assert failed.run(failed.ip.rl_next_input).value == "pears <b>"
    assert code(failed.run("%step grading steps[4]")) == "journal.unknown-call"


DAYS = """\
import datetime
@tool
def day() -> object:
    return datetime.date(2026, 11, 23)
@tool
def said(day: object) -> str:
    return str(day)
"""


def test_the_arguments_of_a_call_that_are_previews_are_said_to_be(shell: Shell) -> None:
    shell.good(DAYS)
    steps = "- tool: {name: day, output: d}\n- tool: {name: said, args: {day: !expr d}}\n"
    shell.good(f"%%pipeline --run\npipeline: days\nsteps:\n{steps}")
    told, *_ = shell.good("%step days steps[1]").out.splitlines()
    assert told.startswith("some of the arguments are only previews")
