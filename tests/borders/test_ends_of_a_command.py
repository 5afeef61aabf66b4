"""How a command of the command line ends: its exit code, and its messages when its output cannot be written.

Each test starts a real process, because only a process has pipes, closed streams and full devices.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="a shell, FIFOs and /dev/full are POSIX")

FILES = {
    "one.yaml": "pipeline: one\nsteps:\n- transform: {value: '1'}\n",
    "long.yaml": "pipeline: long\nsteps:\n- tool: {name: many}\n",
    "warned.yaml": "pipeline: warned\nsteps:\n- transform: {value: 'null == false'}\n",
    "unknown.yaml": "pipeline: unknown\nsteps:\n- tool: {name: nothing}\n",
    "wrong.yaml": "pipeline: wrong\nsteps:\n- tol: {}\n",
    "shell.yaml": "pipeline: shell_step\nsteps:\n- shell: {command: [echo, hi]}\n",
    "upper.yaml": "pipeline: upper\nsteps:\n- call: {pipeline: same}\n",
    "a/same.yaml": "pipeline: same\nsteps:\n- transform: {value: '1'}\n",
    "b/same.yaml": "pipeline: same\nsteps:\n- transform: {value: '2'}\n",
    "t.csv": "x\n1\n",
    "tools.py": """
import sys
from agf_magics import tool

@tool
def many() -> list[int]:
    return list(range(50_000))

@tool
def odd(x: int) -> int:
    print("called", file=sys.stderr)
    if x % 2 == 0:
        raise ValueError("even")
    return x
""",
    "row.yaml": "pipeline: row\nsteps:\n- tool: {name: odd, args: {x: !expr ctx.x}}\n",
    "rows.csv": "x,right\n1,a\n2,b\n",
    "even.csv": "x,right\n2,a\n",
    "scores.py": "def good(o):\n    return 1\n\ndef label(o):\n    return 'a'\n\ndef fails(o):\n    1 / 0\n",
    "judge.yaml": "pipeline: judge\nsteps:\n- tool: {name: judged}\n",
    "pyproject.toml": "",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


def shell(folder: Path, line: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash in which ``agf`` is the command line. The exit code is that of the first command of a pipe."""
    agf = f'agf() {{ "{sys.executable}" -m agf_magics "$@"; }}; {line}; exit ${{PIPESTATUS[0]}}'
    return subprocess.run(
        ["bash", "-c", agf], cwd=folder, capture_output=True, text=True, timeout=120, check=False, env=os.environ
    )


LONG = "agf run long.yaml --tools tools.py"


@pytest.mark.parametrize(
    ("line", "status", "out"),
    [
        (f"{LONG} --quiet | head -1", 141, "[\n"),
        (f"{LONG} | head -1", 141, "[\n"),
        ("agf draw one.yaml | true", 141, ""),
        ("agf run --help | true", 141, ""),
        ("agf --version | true", 141, ""),
        ("agf check one.yaml | true", 141, ""),
        ("agf check wrong.yaml --format json | true", 141, ""),
        ("agf run one.yaml 2>&-", 0, "1\n"),
        ("agf run one.yaml --quiet 2>&-", 0, "1\n"),
        ("agf run wrong.yaml 2>&-", 1, ""),
        ("agf run one.yaml 2> >(true)", 0, "1\n"),
        ("agf run one.yaml --report r.html 2> >(true)", 0, "1\n"),
    ],
)
def test_a_closed_pipe_is_not_an_error(folder: Path, line: str, status: int, out: str) -> None:
    completed = shell(folder, line)
    assert "Traceback" not in completed.stderr
    assert (completed.returncode, completed.stdout) == (status, out)


@pytest.mark.parametrize("command", [f"{LONG} --quiet", "agf run one.yaml --quiet", "agf draw one.yaml", "agf --help"])
@pytest.mark.parametrize(
    ("to", "why"), [(">/dev/full", "No space left on device"), (">&-", "stdout is closed")], ids=["full", "closed"]
)
def test_an_output_that_cannot_be_written_is_reported(folder: Path, command: str, to: str, why: str) -> None:
    if to == ">/dev/full" and not Path("/dev/full").exists():
        pytest.skip("there is no full device")
    completed = shell(folder, f"{command} {to}")
    assert completed.stderr == f"agf-magics: error: the output cannot be written: {why}\n"
    assert completed.returncode == 1


def test_the_recording_is_written_even_if_nobody_reads_the_output(folder: Path) -> None:
    assert shell(folder, f"{LONG} --quiet --record calls.jsonl | head -1").returncode == 141
    assert "many" in (folder / "calls.jsonl").read_text()


FULL = "ln -s /dev/full full{}; agf run"
"""A line that begins with it has a file that cannot be written: it is known only when it is tried."""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no full device")
@pytest.mark.parametrize(
    ("line", "written"),
    [
        (FULL.format(".html") + " one.yaml --report full.html --record r.jsonl", ["r.jsonl"]),
        (FULL.format(".jsonl") + " one.yaml --record full.jsonl --report r.html", ["r.html"]),
        (
            FULL.format(".jsonl") + " row.yaml --tools tools.py --over t.csv --save full.jsonl --record r.jsonl",
            ["r.jsonl"],
        ),
        (FULL.format(".csv") + " row.yaml --tools tools.py --over t.csv --save full.csv --figures f.json", ["f.json"]),
        (
            FULL.format(".json") + " row.yaml --tools tools.py --over t.csv --save t.jsonl --figures full.json",
            ["t.jsonl"],
        ),
        ("agf run one.yaml --export new --record r.jsonl", ["r.jsonl"]),
        (
            FULL.format(".csv") + " row.yaml --tools tools.py --over t.csv --save full.csv --report r.html"
            " --score scores.py:label --fail-below 1",
            ["r.html"],
        ),
    ],
)
def test_a_file_that_cannot_be_written_loses_no_other_part(folder: Path, line: str, written: list[str]) -> None:
    completed = shell(folder, f"{line} --quiet")
    assert completed.returncode != 0
    assert completed.stdout
    for name in written:
        assert (folder / name).stat().st_size, name


def test_each_part_that_cannot_be_written_is_told(folder: Path) -> None:
    completed = shell(folder, "agf run one.yaml --quiet --export new > /dev/full")
    assert "exports nothing" in completed.stderr
    assert "the output cannot be written" in completed.stderr


ROWS = "agf run row.yaml --tools tools.py --quiet --over"


@pytest.mark.parametrize(
    ("line", "status"),
    [
        (f"{ROWS} rows.csv --fail-below 0.5", 0),
        (f"{ROWS} rows.csv --fail-below 0.6", 1),
        (f"{ROWS} even.csv --fail-below 0.1", 1),
        (f"{ROWS} even.csv --score scores.py:good --fail-below 0.1", 1),
        (f"{ROWS} rows.csv --score scores.py:good --fail-below 0.5", 0),
        (f"{ROWS} rows.csv --score scores.py:fails --fail-below 0.1", 1),
        (f"{ROWS} rows.csv --score scores.py:fails --score scores.py:good --fail-below 0.1", 1),
        (f"{ROWS} rows.csv --score scores.py:label --fail-below 0.1", 1),
        (f"{ROWS} rows.csv --score scores.py:label --score scores.py:good --fail-below 0.5", 0),
        (f"{ROWS} rows.csv --score scores.py:label --against right --fail-below 0.5", 0),
    ],
)
def test_a_figure_below_the_least_one_ends_with_1(folder: Path, line: str, status: int) -> None:
    completed = shell(folder, f"{line} --save saved.csv")
    assert completed.returncode == status, completed.stderr
    assert json.loads(completed.stdout)["figures"]
    assert (folder / "saved.csv").exists()


def test_a_wrong_column_of_labels_is_an_error_before_the_first_call(folder: Path) -> None:
    label = "--score scores.py:label --against"
    completed = shell(folder, f"{ROWS} rows.csv {label} wrong")
    assert completed.returncode == 2
    assert "the table has no column 'wrong'" in completed.stderr
    assert "called" not in completed.stderr


def test_the_rows_are_saved_if_a_judge_fails(folder: Path) -> None:
    completed = shell(folder, f"{ROWS} rows.csv --define judge.yaml --score judge --save saved.csv")
    assert completed.returncode == 1
    assert "judged" in completed.stderr
    assert "even" in (folder / "saved.csv").read_text()


@pytest.mark.parametrize("file", ["warned.yaml", "unknown.yaml"])
def test_strict_makes_a_warning_an_error(folder: Path, file: str) -> None:
    assert shell(folder, f"agf check {file}").returncode == 0
    refused = shell(folder, f"agf check {file} --strict")
    assert (refused.returncode, refused.stdout) == (1, f"{file}: 1 error\n")
    completed = shell(folder, f"agf check {file} one.yaml --strict --format json")
    assert (completed.returncode, [row["severity"] for row in json.loads(completed.stdout)]) == (1, ["error"])
    assert shell(folder, f"agf check {file} --strict --format github").stdout.startswith("::error ")
    assert shell(folder, "agf check one.yaml --strict").returncode == 0


def test_a_pipe_in_a_folder_is_no_definition(folder: Path) -> None:
    os.mkfifo(folder / "a/pipe.yaml")
    completed = shell(folder, "agf check a")
    assert (completed.returncode, completed.stdout) == (0, "a/same.yaml: ok\n")


NOTE = "flow 'same' was defined by another cell or file; this definition replaces it"


def test_two_files_with_one_name_are_reported(folder: Path) -> None:
    run = shell(folder, "agf run upper.yaml --define a/same.yaml --define b/same.yaml --quiet")
    assert run.stdout == "2\n"
    assert NOTE in " ".join(run.stderr.split())
    checked = shell(folder, "agf check a b --format json")
    assert [(row["file"], row["code"]) for row in json.loads(checked.stdout)] == [("b/same.yaml", "flow.replaced")]
    assert checked.returncode == 0


@pytest.mark.parametrize(
    "line",
    [
        "agf check a",
        "agf check a --define a",
        "agf check a/same.yaml a --define a/same.yaml",
        "agf run upper.yaml --define a --define a/same.yaml --quiet",
        "agf run a/same.yaml --define a --quiet",
    ],
)
def test_a_file_named_twice_is_one_file(folder: Path, line: str) -> None:
    completed = shell(folder, line)
    assert (completed.returncode, completed.stderr) == (0, "")


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("agf run shell.yaml --quiet", "--allow-shell"),
        ("agf run . --quiet", "--define FOLDER"),
        ("agf run one.yaml --quiet && agf run one.yaml --quiet && agf resume one", "agf.runs()"),
        ("agf run one.yaml --quiet && agf resume one-1", "agf.runs('one-1-"),
        ("agf resume nothing", ""),
    ],
)
def test_a_hint_names_what_the_command_line_has(folder: Path, line: str, hint: str) -> None:
    printed = " ".join(shell(folder, line).stderr.split())
    assert hint in printed
    assert "%" not in printed


@pytest.mark.parametrize("option", ["--fail-below 0.5", "--figures f.html", "--against x", "--limit 3"])
def test_an_option_for_rows_is_refused_without_a_table(folder: Path, option: str) -> None:
    completed = shell(folder, f"agf run one.yaml --quiet {option}")
    assert completed.returncode == 2
    assert f"{option.split()[0]} needs --over [magic.needs-over]" in completed.stderr
    assert shell(folder, "agf run one.yaml --over t.csv --quiet --fail-below 0.5").returncode == 0


@pytest.mark.parametrize(
    ("line", "encoding"),
    [
        *(("agf check . --format json", encoding) for encoding in ("utf-16", "utf-16-be", "utf-32")),
        ("agf check .", "utf-16-le"),
        ("agf check . --format github", "utf-16"),
    ],
)
def test_a_file_in_another_encoding_is_found_in_a_folder(folder: Path, line: str, encoding: str) -> None:
    (folder / "one.yaml").write_text(FILES["one.yaml"], encoding=encoding)
    completed = shell(folder, line)
    assert completed.returncode == 1
    printed = " ".join((completed.stdout + completed.stderr).split())
    # Without a byte order mark it is read as UTF-8, with characters that no file contains.
    assert "one.yaml cannot be read: it is not UTF-8" in printed or "U+0000" in printed


def test_a_file_in_another_encoding_is_reported_in_the_authors_words(folder: Path) -> None:
    (folder / "one.yaml").write_text(FILES["one.yaml"], encoding="utf-16")
    printed = " ".join(shell(folder, "agf check one.yaml").stderr.split())
    assert "one.yaml cannot be read: it is not UTF-8: save it in that encoding [define.file]" in printed
    (folder / "input.json").write_text('{"a": 1}', encoding="utf-16")
    assert (
        "'input.json' cannot be read: it is not UTF-8" in shell(folder, "agf run a/same.yaml --input input.json").stderr
    )
