"""The command line: inputs of a run, resuming, and the check of many files for people and programs."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import agf_magics as agf
from agf_magics.__main__ import main
from agf_magics.command_line.runs import KEPT
from agf_magics.commands.command_line import RESUME_COMMAND
from tests.engine import kept
from tests.fans import fan_out
from tests.processes import command_line

GOOD = "pipeline: good\nsteps:\n- transform: {value: ctx.n}\n"
BAD = "pipeline: bad\nsteps:\n- transform: {value: len(ctx.n)}\n- tol: {name: x}\n"


@pytest.fixture(autouse=True)
def _place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    Path("pyproject.toml").touch()
    Path("good.yaml").write_text(GOOD)
    Path("bad.yaml").write_text(BAD)
    with kept.journal_in(tmp_path):
        yield
    for name in [*agf.registry.flows]:
        agf.registry.flows.remove(name)
    for name in ("weigh", "odd"):
        agf.registry.tools.remove(name)


@pytest.mark.parametrize(
    ("word", "output"),
    [
        ("n=[pear, 2]", ["pear", 2]),
        ("n='3'", "3"),
        ("n=$HOME", "$HOME"),
    ],
)
def test_set_reads_a_value_as_a_magic_does(word: str, output: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "good.yaml", "--set", word, "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out) == output


def test_set_updates_the_input_of_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    Path("pair.yaml").write_text("pipeline: pair\nsteps:\n- transform: {value: '[ctx.a, ctx.b]'}\n")
    Path("input.json").write_text('{"a": 1, "b": 2}')
    assert main(["run", "pair.yaml", "--input", "input.json", "--set", "b=3", "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out) == [1, 3]


def test_an_input_file_may_be_larger_than_a_definition(capsys: pytest.CaptureFixture[str]) -> None:
    Path("input.json").write_text(json.dumps({"n": list(range(200_000))}))
    assert main(["run", "good.yaml", "--input", "input.json", "--quiet"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 200_000


def test_a_failed_run_is_resumed(capsys: pytest.CaptureFixture[str]) -> None:
    Path("tools.py").write_text(
        "from pathlib import Path\nfrom agf_magics import tool\n@tool\ndef weigh(n: int) -> int:\n"
        "    Path('asked').open('a').write('x')\n    if n and not Path('works').exists():\n"
        "        raise ValueError('no')\n    return n\n"
    )
    Path("p.yaml").write_text(
        "pipeline: p\nsteps:\n- tool: {name: weigh, args: {n: 0}}\n- tool: {name: weigh, args: {n: !expr ctx.n}}\n"
    )
    assert main(["run", "p.yaml", "--tools", "tools.py", "--set", "n=5"]) == 1
    printed = capsys.readouterr().err
    (line,) = (line for line in printed.splitlines() if line.startswith("to resume it: agf-magics "))
    Path("works").touch()
    assert main([*shlex.split(line)[4:], "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out) == 5
    assert Path("asked").read_text() == "xxx"  # the first call is not repeated


SECRET = """\
from pathlib import Path
from agf_magics import tool
@tool(secret=("token",))
def weigh(token: str, n: int) -> str:
    if not Path("works").exists():
        raise ValueError("no")
    return f"{len(token)} {n}"
"""


@pytest.mark.parametrize("named", ["id", "name"])
def test_a_run_is_resumed_with_the_input_that_the_journal_does_not_have(
    named: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("tools.py").write_text(SECRET)
    Path("p.yaml").write_text(
        "pipeline: p\nsteps:\n- tool: {name: weigh, args: {token: !expr ctx.token, n: !expr ctx.n}}\n"
    )
    options = ["--set", "token=abcdefgh"]
    assert main(["run", "p.yaml", "--tools", "tools.py", *options, "--set", "n=5"]) == 1
    run = agf.runs("p").run_id if named == "id" else "p"
    Path("works").touch()
    assert main(["resume", run, "--tools", "tools.py"]) == 1
    assert "journal.secret" in capsys.readouterr().err
    assert main(["resume", run, "--tools", "tools.py", *options, "--set", "n=6"]) == 1
    assert "'n' cannot be changed" in capsys.readouterr().err
    assert main(["resume", run, "--tools", "tools.py", *options, "--quiet"]) == 0
    assert json.loads(capsys.readouterr().out) == "8 5"


ODD = {
    "not finite": ("[float('inf'), float('nan')]", [None, None]),
    "keys that are no texts": ("{'a': {1: 2, '1': 3, (4, 5): 6}}", {"a": "{1: 2, '1': 3, (4, 5): 6}"}),
    "without a repr": ("type('Odd', (), {'__repr__': lambda self: 1 / 0})()", "⟨Odd⟩"),
    "more digits than Python writes": ("[10 ** 5000]", ["1" + "0" * 5000]),
}


@pytest.mark.parametrize("case", ODD)
def test_the_output_is_json_whatever_it_has(case: str, capsys: pytest.CaptureFixture[str]) -> None:
    value, expected = ODD[case]
    Path("tools.py").write_text(f"from agf_magics import tool\n@tool\ndef odd():\n    return {value}\n")
    Path("p.yaml").write_text("pipeline: p\nsteps:\n- tool: {name: odd}\n")
    Path("rows.jsonl").write_text("{}\n")
    run = ["run", "p.yaml", "--tools", "tools.py", "--quiet"]
    assert main(run) == 0
    assert json.loads(capsys.readouterr().out, parse_constant=pytest.fail) == expected
    code = main([*run, "--over", "rows.jsonl", "--save", "out.jsonl"])
    if case == "not finite":
        (row,) = Path("out.jsonl").read_text().splitlines()
        assert json.loads(row, parse_constant=pytest.fail)["row"] == 0
    else:  # a value that is not JSON is refused, with its place
        assert code == 1
        assert "over.cannot-hold" in capsys.readouterr().err
        assert not Path("out.jsonl").exists()


def test_a_recording_that_cannot_be_written_loses_no_output(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["run", "good.yaml", "--set", "n=5", "--record", "no/folder.agf"]) == 2
    printed = capsys.readouterr()
    assert (printed.out, "no folder 'no'" in printed.err) == ("", True)
    monkeypatch.setenv("AGF_MAGICS_JOURNAL", "off")
    assert main(["run", "good.yaml", "--set", "n=5", "--record", "there.agf", "--quiet"]) == 1
    printed = capsys.readouterr()
    assert json.loads(printed.out) is not None
    assert "[journal.off]" in printed.err


def test_the_hint_for_a_file_that_is_missing_has_no_values_of_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--tools", "tools.py", "--timeout", "5"]) == 2
    assert "write agf-magics run FILE;" in " ".join(capsys.readouterr().err.split())


KINDS = {
    "a dataclass": "@dataclasses.dataclass\nclass Thing:\n    n: int\n    then: Thing | None = None",
    "a model": "class Thing(pydantic.BaseModel):\n    n: int\n    then: Thing | None = None",
    "an enumeration": "class Thing(enum.Enum):\n    three = 3\n    n = property(lambda self: self.value)",
}
TOOLS = """\
from __future__ import annotations
import dataclasses, enum, pathlib, pydantic
from agf_magics import tool

{kind}

@tool
def make() -> Thing:
    print("made")
    return Thing(n=3) if Thing.__mro__[1] is not enum.Enum else Thing(3)

@tool
def use(thing: Thing) -> int:
    if pathlib.Path("fails").exists():
        raise ValueError("no")
    assert isinstance(thing, Thing)
    return thing.n
"""
USES = "pipeline: q\nsteps:\n- tool: {name: make, output: t}\n- tool: {name: use, args: {thing: !expr ctx.t}}\n"


@pytest.mark.parametrize("case", KINDS)
def test_an_object_of_a_class_of_the_tools_is_there_after_a_resume(case: str, tmp_path: Path) -> None:
    Path("uses.yaml").write_text(USES)
    Path("tools.py").write_text(TOOLS.format(kind=KINDS[case]))
    Path("fails").touch()
    failed = command_line(tmp_path, "run", "uses.yaml", "--tools", "tools.py")
    Path("fails").unlink()
    *_, line = failed.stderr.splitlines()
    words = shlex.split(line.removeprefix("to resume it: agf-magics "))
    resumed = command_line(tmp_path, *words, "--quiet")
    assert (resumed.stdout, resumed.stderr) == ("3\n", "")


@pytest.mark.parametrize("word", ["rows.csv", "./rows.csv", "link.csv"])
def test_the_rows_are_never_written_over_the_table(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("rows.csv").write_text("n\n1\n")
    Path("link.csv").symlink_to("rows.csv")
    assert main(["run", "good.yaml", "--over", "rows.csv", "--save", word]) == 2
    printed = " ".join(capsys.readouterr().err.split())
    assert f"{str(Path(word))!r} cannot be written: the run reads its rows from it [file.not-written]" in printed
    assert main(["run", "good.yaml", "--over", "rows.csv", "--record", word]) == 2
    assert main(["run", "good.yaml", "--over", "rows.csv", "--save", "other.csv"]) == 0
    last = agf.runs()[0].run_id
    with pytest.raises(agf.DefinitionError, match="reads its rows from it"):
        agf.runs(last).table.save(word)
    assert Path("rows.csv").read_text() == "n\n1\n"


def test_the_line_that_resumes_a_run_has_only_options_of_that_command() -> None:
    assert {*KEPT} <= {option.flag for option in RESUME_COMMAND.options}


def test_the_line_that_resumes_a_run_has_the_options_of_its_files(tmp_path: Path) -> None:
    Path("fails.yaml").write_text("pipeline: fails\nsteps: [{tool: {name: fail, args: {n: !expr ctx.n}}}]\n")
    Path("other").mkdir()
    Path("other/tools.py").write_text(
        "from beside import WHY\nfrom agf_magics import tool\n@tool\ndef fail(n: int) -> int: raise ValueError(WHY)\n"
    )
    Path("other/beside.py").write_text("WHY = 'too few'\n")
    options = ["--tools", "other/tools.py", "--report", "a b.html", "--record", "r.json", "--quiet"]
    failed = command_line(tmp_path, "run", "fails.yaml", "--set", "n=1", *options)
    assert "ValueError: too few" in failed.stderr
    line = next(line for line in failed.stderr.splitlines() if line.startswith("to resume it: "))
    assert line.endswith("--tools other/tools.py --report 'a b.html' --record r.json")


def test_an_unknown_run_is_not_resumed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["resume", "nowhere"]) == 1
    assert "[journal." in capsys.readouterr().err


def test_check_takes_files_folders_and_patterns(capsys: pytest.CaptureFixture[str]) -> None:
    Path("flows/.hidden").mkdir(parents=True)
    Path("flows/a.yaml").write_text("pipeline: a\nsteps:\n- call: {pipeline: b}\n")
    Path("flows/b.json").write_text('{"pipeline": "b", "steps": [{"transform": {"value": "1"}}]}')
    Path("flows/docker-compose.yaml").write_text("services: {web: {image: x}}\n")
    Path("flows/.hidden/c.yaml").write_text(BAD)
    Path("more/in/it").mkdir(parents=True)
    for place in ("more/d.yaml", "more/in/it/e.yaml"):
        Path(place).write_text(f"pipeline: {Path(place).stem}\nsteps: [{{transform: {{value: '1'}}}}]")
    assert main(["check", "flows", "goo*.yaml"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "flows/a.yaml: ok", "flows/b.json: ok", "good.yaml: ok", "  input n",
    ]  # fmt: skip
    assert main(["check", "more/**/*.yaml"]) == 0
    assert capsys.readouterr().out.splitlines() == ["more/d.yaml: ok", "more/in/it/e.yaml: ok"]
    assert main(["check", "good.yaml", "bad.yaml"]) == 1
    printed = capsys.readouterr()
    assert printed.out.splitlines() == ["good.yaml: ok", "  input n", "bad.yaml: 2 errors"]
    assert "[r1.unknown-function]" in printed.err


@pytest.mark.parametrize(
    "line",
    [
        ["check", "nofile.yaml"],
        ["check", "good.yaml", "none*.yaml"],
        ["check", "empty"],
        ["run", "nofile.yaml"],
        ["draw", "nofile.yaml"],
        ["mcp", "nofile.yaml"],
        ["run", "good.yaml", "--define", "nofile.yaml"],
        ["run", "good.yaml", "--define", "empty"],
    ],
)
def test_a_word_that_names_no_file_is_told_at_its_place(line: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    Path("empty").mkdir()
    assert main(line) == 2
    printed = capsys.readouterr().err
    assert "[magic.file]" in printed
    assert "^" * (len(line[-1])) in printed


def test_check_for_a_program(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "bad.yaml", "good.yaml", "--format", "json"]) == 1
    first, *others = json.loads(capsys.readouterr().out)
    assert first == {
        "file": "bad.yaml", "line": 3, "column": 22, "severity": "error", "code": "r1.unknown-function",
        "message": "there is no function 'len'", "hint": "write: count(list)",
    }  # fmt: skip
    assert [(row["line"], row["severity"], row["code"]) for row in others] == [
        (4, "error", "pipeline.step-kind"), (4, "warning", "flow.unknown-tool"),
    ]  # fmt: skip


def test_check_for_a_pull_request(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "bad.yaml", "--format", "github"]) == 1
    assert capsys.readouterr().out.splitlines()[0] == (
        "::error file=bad.yaml,line=3,col=22,title=r1.unknown-function::there is no function 'len' (write: count(list))"
    )


def test_a_program_gets_the_path_of_a_file_from_the_current_folder(capsys: pytest.CaptureFixture[str]) -> None:
    Path("flows/team").mkdir(parents=True)
    Path("flows/team/bad.yaml").write_text(BAD)
    for path in ("flows", "flows/team", "flows/team/bad.yaml", str(Path("flows").resolve())):
        assert main(["check", path, "--format", "json"]) == 1
        assert {row["file"] for row in json.loads(capsys.readouterr().out)} == {"flows/team/bad.yaml"}
        assert main(["check", path, "--format", "github"]) == 1
        assert capsys.readouterr().out.startswith("::error file=flows/team/bad.yaml,")


def test_an_annotation_cannot_add_another_one(capsys: pytest.CaptureFixture[str]) -> None:
    Path("p.yaml").write_text('pipeline: p\nsteps:\n- tool: {name: "x\\n::error ::y, 100%"}\n')
    main(["check", "p.yaml", "--strict", "--format", "github"])
    lines = capsys.readouterr().out.splitlines()
    assert all(line.startswith(("::error file=p.yaml", "::warning file=p.yaml")) for line in lines)
    assert lines


SLOW = """\
from agf_magics import tool

@tool
def weigh(fruit: str) -> int:
    with open("go") as queue:  # the test lets each call go on
        return len(queue.read())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="a terminal of its own is POSIX")
def test_a_terminal_has_one_line_with_the_progress_of_the_run() -> None:
    Path("fan.yaml").write_text(fan_out("weigh", argument="fruit", limit=1, on_error="continue", name="fan"))
    Path("tools.py").write_text(SLOW)
    os.mkfifo("go")
    our_end, their_end = os.openpty()
    command = [
        sys.executable,
        "-m",
        "agf_magics",
        "run",
        "fan.yaml",
        "--tools",
        "tools.py",
        "--set",
        "xs=[a, b, c]",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=their_end) as process:
        os.close(their_end)
        printed = ""
        for count in range(3):
            while f"{count} of 3 elements" not in printed:
                printed += os.read(our_end, 1000).decode(errors="replace")
            Path("go").write_text("x" * count)
        output, _ = process.communicate(timeout=60)
        with contextlib.suppress(OSError):  # the other end of the terminal is closed
            while more := os.read(our_end, 1000):
                printed += more.decode(errors="replace")
    os.close(our_end)
    assert json.loads(output) == [0, 1, 2]
    assert "\r\x1b[2K▱▱▱▱▱▱▱▱▱▱ fan · ▶ running · 0 of 1 step · 0 of 3 elements" in printed
    assert "▰▰▰▰▰▰▱▱▱▱ fan" in printed
    assert printed.rindex("\r\x1b[2K") < printed.index("✓ ok")  # the line is erased before the end is written


PRINTS = """\
import os, subprocess, sys
print("of the import")
from agf_magics import tool

@tool
def weigh(n: int) -> int:
    print("of the tool")
    os.write(1, b"of the descriptor\\n")
    subprocess.run([sys.executable, "-c", "print('of a process')"], check=True)
    return n
"""
PRINTED = ["of the import", "of the tool", "of the descriptor", "of a process"]


@pytest.mark.parametrize(
    ("words", "output", "printed"),
    [
        (["run", "weighs.yaml", "--set", "n=5", "--quiet"], 5, PRINTED),
        (["run", "weighs.yaml", "--set", "n=5"], 5, PRINTED),
        (["check", "weighs.yaml", "--format", "json"], [], PRINTED[:1]),
    ],
)
def test_what_code_of_the_person_prints_is_no_output(words: list[str], output: object, printed: list[str]) -> None:
    Path("tools.py").write_text(PRINTS)
    Path("weighs.yaml").write_text("pipeline: weighs\nsteps:\n- tool: {name: weigh, args: {n: !expr ctx.n}}\n")
    command = [sys.executable, "-m", "agf_magics", *words, "--tools", "tools.py"]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert json.loads(completed.stdout) == output
    assert [line for line in completed.stderr.splitlines() if line.startswith("of ")] == printed


def test_in_one_process_prints_are_no_output_either(capsys: pytest.CaptureFixture[str]) -> None:
    Path("tools.py").write_text("print('of the import')\n")
    assert main(["run", "good.yaml", "--set", "n=5", "--tools", "tools.py", "--quiet"]) == 0
    told = capsys.readouterr()
    assert (json.loads(told.out), "of the import" in told.err) == (5, True)


SPANS = """\
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor

def named(span):
    return f"span {span.name}\\n"

trace.set_tracer_provider(TracerProvider())
trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(ConsoleSpanExporter(formatter=named)))
"""


@pytest.mark.parametrize(
    ("words", "variable", "spans"),
    [
        (["--trace"], "", ["span transform steps[0]", "span invoke_agent good"]),
        ([], "1", ["span transform steps[0]", "span invoke_agent good"]),
        (["--trace"], "0", ["span transform steps[0]", "span invoke_agent good"]),
        ([], "0", []),
        ([], "", []),
    ],
)
def test_a_run_is_traced_by_the_option_or_the_variable(words: list[str], variable: str, spans: list[str]) -> None:
    Path("tools.py").write_text(SPANS)
    command = [sys.executable, "-m", "agf_magics", "run", "good.yaml", "--tools", "tools.py", "--set", "n=1", *words]
    settings = {"AGF_MAGICS_TRACING": variable} if variable else {}
    completed = subprocess.run(
        command, env={**os.environ, **settings}, capture_output=True, text=True, timeout=60, check=True
    )
    assert [line for line in completed.stderr.splitlines() if line.startswith("span ")] == spans


def test_the_quickstart_is_written_once_and_never_over_the_work_of_the_user(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["quickstart"]) == main(["quickstart"]) == 0
    assert "jupyter lab quickstart.ipynb" in capsys.readouterr().out
    notebook = json.loads(Path("quickstart.ipynb").read_text("utf-8"))
    assert not [cell for cell in notebook["cells"] if cell.get("outputs")]
    text = "".join(line for cell in notebook["cells"] if cell["cell_type"] == "markdown" for line in cell["source"])
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert len(links) > 3
    assert [link for link in links if not link.startswith("https://")] == []
    Path("quickstart.ipynb").write_text("{}")
    capsys.readouterr()
    assert main(["quickstart"]) == 2
    assert "differs from the one to write [magic.file]" in " ".join(capsys.readouterr().err.split())
    assert Path("quickstart.ipynb").read_text() == "{}"


def test_the_version_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"agf-magics {agf.__version__}\n"


def test_a_syntax_error_in_the_tools_is_reported_with_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    Path("odd.py").write_text("x = 1\ndef f(:\n")
    assert main(["run", "good.yaml", "--tools", "odd.py", "--set", "n=1"]) == 2
    printed = " ".join(capsys.readouterr().err.split())
    assert "odd.py, line 2: SyntaxError: " in printed
    assert "runpy" not in printed
