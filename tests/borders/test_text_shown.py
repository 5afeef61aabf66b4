"""A text is shown as text, never as mathematics or as commands of a terminal, and only real files are read as files."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.pictures.plain import UNTYPESET
from tests.engine import kept
from tests.processes import command_line

ROOT = Path(agf.__file__).parent
TEX = ("from $5 to $6", "$$x^2$$", r"\(a_b\)", r"\[c^d\]", r"\begin{equation}e\end{equation}", r"$\href{u}{t}$")

# --- mathematics (tests/browser/test_mathematics.py sees it in JupyterLab) ---


def texts_shown(tmp_path: Path) -> dict[str, Any]:
    """Everything that a cell can show, with texts that look like mathematics."""
    registry = agf.Registry()

    def quote(text: str) -> str:
        if text == "$5 to $6":
            raise ValueError(text)
        return text

    agf.tool(quote, registry=registry)
    flow = agf.define(
        "pipeline: prices\nsteps:\n- tool: {name: quote, args: {text: !expr ctx.text}, output: o}\n", registry=registry
    )
    with kept.journal_in(tmp_path):
        run = agf.run(flow, {"text": TEX[0]}, registry=registry)
        other = agf.run(flow, {"text": TEX[1]}, registry=registry)
        failed = agf.run(flow, {"text": "$5 to $6"}, registry=registry, raises=False)
        table = agf.run(flow, over=[{"text": text} for text in TEX], registry=registry).table
        past = agf.runs(run.run_id)
        objects = {
            "a run": run,
            "a failed run": failed,
            "a past run": past,
            "runs": agf.runs(),
            "steps": run.trace,
            "a comparison": past.compare(agf.runs(other.run_id)),
            "a picture": agf.draw(flow),
            "a table": table,
            "scores": table.scores,
            "stale steps": agf.stale(run, registry=registry),
        }
        return {name: html_of(value) for name, value in objects.items()}


def html_of(value: Any) -> str:
    bundle = getattr(value, "_repr_mimebundle_", None)
    return str(bundle()["text/html"] if bundle is not None else value._repr_html_())


def test_nothing_that_a_cell_shows_is_read_as_mathematics(tmp_path: Path) -> None:
    for name, page in texts_shown(tmp_path).items():
        assert page.startswith(UNTYPESET), name
        assert page.endswith("</div>"), name


def test_every_class_that_shows_html_says_so() -> None:
    """This includes classes that this file does not know."""
    missing = list[str]()
    for path in ROOT.rglob("*.py"):
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.FunctionDef) and node.name in ("_repr_html_", "_repr_mimebundle_"):
                body = ast.get_source_segment(text, node) or ""
                if "untypeset(" not in body and not body.endswith("..."):  # a protocol shows nothing itself
                    missing.append(f"{path.name}: {node.name}")
            called = getattr(node.func, "id", "") if isinstance(node, ast.Call) else ""
            if called in ("display", "publish_display_data") and path.name != "output.py":
                missing.append(f"{path.name}: {called}")
    assert missing == []


# --- a terminal ---

CONTROL = "\x1b[2J\x1b[1;1H\x07\x08\x9b2J\x7f\u202etxt.exe\u2066a\u2069\u200b\u2028\r\x00"
OBEYED = set(CONTROL) - set("[2J1;Htxt.exea\n")


def obeyed(folder: Path, *words: str) -> set[str]:
    completed = command_line(folder, *words)
    return OBEYED & set(completed.stdout + completed.stderr)


@pytest.mark.parametrize("format", ["text", "json", "github"])
@pytest.mark.parametrize(
    "document",
    [
        {"pipeline": "p", "steps": [{f"{CONTROL}x": {}}]},
        {"pipeline": f"p{CONTROL}", "steps": [{"transform": {"value": f"ctx.{CONTROL}"}}]},
        {"pipeline": "p", f"{CONTROL}": 1, "steps": []},
        {"pipeline": "p", "steps": [{"tool": {"name": CONTROL}}]},
    ],
    ids=["a step", "a name", "a key", "a tool"],
)
def test_a_terminal_obeys_no_character_of_a_definition(tmp_path: Path, format: str, document: Any) -> None:
    (tmp_path / "a.json").write_text(json.dumps(document))
    assert obeyed(tmp_path, "check", "a.json", "--format", format) == set()


def test_a_terminal_obeys_no_character_of_a_result(tmp_path: Path) -> None:
    (tmp_path / "b.json").write_text(json.dumps({"pipeline": "p", "steps": [{"transform": {"value": "ctx.a"}}]}))
    (tmp_path / "i.json").write_text(json.dumps({"a": {CONTROL: [CONTROL]}}))
    completed = command_line(tmp_path, "run", "b.json", "--input", "i.json", "--quiet")
    assert OBEYED & set(completed.stdout) == set()
    assert json.loads(completed.stdout) == {CONTROL: [CONTROL]}  # the printed JSON is unchanged


def test_a_terminal_obeys_no_character_of_a_failure_or_a_picture(tmp_path: Path) -> None:
    step = {"transform": {"value": f"1 + '{CONTROL}'", "output": "o"}}
    (tmp_path / "c.json").write_text(json.dumps({"pipeline": "p", "steps": [step]}))
    for words in (("run", "c.json"), ("draw", "c.json"), ("draw", "c.json", "--format", "dot")):
        assert obeyed(tmp_path, *words) == set(), words


# --- names that are not a file ---

READS = {
    "a table": "agf.run(P, over='{0}.csv', raises=False)",
    "lines": "agf.run(P, over='{0}.jsonl', raises=False)",
    "a Parquet file": "agf.run(P, over='{0}.parquet', raises=False)",
    "a data set": "agf.run(P, over='{0}.yaml', raises=False)",
    "a recording": "agf.replay('{0}.agf').__enter__()",
    "an own recording": "agf.replay('{0}.agf', missing='record').__enter__()",
    "a model's recording": "agf.replay_model('{0}.agf')",
    "a shared run": "agf.import_run('{0}.json')",
    "a definition": "agf.define(Path('{0}.yaml'))",
    "a loaded one": "agf.load(Path('{0}.json'))",
    "a prompt": "agf.run(agf.load('name: g\\nstate: {{a: str}}\\nnodes: {{n: {{type: llm, prompt: {0}.txt, "
    "state_key: o}}}}\\nedges: [{{from: START, to: n}}]', 'graph'), {{'a': 'x'}}, raises=False)",
    "a file tool": "agf.run('pipeline: p\\nsteps: [{{tool: {{name: file__read, args: {{path: {0}.txt}}}}}}]')",
}
ENDS = ("csv", "jsonl", "parquet", "yaml", "agf", "json", "txt")
KINDS = ["a pipe", "a device", "a folder"]


@pytest.mark.skipif(os.name != "posix", reason="Windows has no such files")
@pytest.mark.parametrize("kind", KINDS)
def test_a_name_that_is_not_a_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    """Reading a pipe would wait for ever, and a device has no end."""
    (tmp_path / "pyproject.toml").touch()
    for end in ENDS:
        path = tmp_path / f"x.{end}"
        if kind == "a pipe":
            os.mkfifo(path)
        elif kind == "a device":
            path.symlink_to("/dev/zero")
        else:
            path.mkdir()
    calls = "".join(f"    {name!r}: lambda: {code.format('x')},\n" for name, code in READS.items())
    program = (
        "import agf_magics as agf\nfrom pathlib import Path\n"
        "P = 'pipeline: p\\nsteps: [{transform: {value: \"1\"}}]'\n"
        f"for name, call in {{\n{calls}}}.items():\n"
        "    try:\n        call()\n        print(name, 'was read')\n"
        "    except (agf.DefinitionError, agf.StepError) as error:\n        assert error.diagnostic.code\n"
    )
    completed = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (completed.stdout, completed.stderr) == ("", "")


GONE = {
    "run": "agf.run(P, raises=False)",
    "a graph": "agf.load('name: g\\nstate: {a: str}\\nnodes: {n: {type: llm, prompt: x, state_key: o}}\\n"
    "edges: [{from: START, to: n}]', 'graph')",
    "runs": "agf.runs()",
    "resume": "agf.resume()",
    "a file tool": "agf.run('pipeline: p\\nsteps: [{tool: {name: file__read, args: {path: x.txt}}}]', raises=False)",
    "a table": "agf.run(P, over=[{'a': 1}], raises=False)",
    "a plan": "agf.run(agf.load('calls: [{_tool: file__read, path: a, _outputPath: $state.a}]', 'plan', name='p'), "
    "raises=False)",
}


@pytest.mark.skipif(os.name != "posix", reason="Windows keeps a folder that is in use")
def test_a_removed_folder_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    calls = "".join(f"    {name!r}: lambda: {code},\n" for name, code in GONE.items())
    program = (
        "import os, tempfile\nimport agf_magics as agf\n"
        "folder = tempfile.mkdtemp()\nos.chdir(folder)\nos.rmdir(folder)\n"
        "P = 'pipeline: p\\nsteps: [{transform: {value: \"1\"}}]'\n"
        f"for name, call in {{\n{calls}}}.items():\n"
        "    try:\n        call()\n        print(name, 'was done')\n"
        "    except agf.DefinitionError as error:\n"
        "        assert error.code == 'define.file' and 'chdir' in error.diagnostic.hint, str(error)\n"
    )
    completed = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert (completed.stdout, completed.stderr) == ("", "")


# --- names with a default over a table ---


@pytest.mark.parametrize(
    ("expression", "rows", "outcome"),
    [
        ("get(ctx, 'a', 1)", [{"b": 2}], [1]),
        ("get(ctx, 'a', 1) + ctx.b", [{"b": 2}], [3]),
        ("get(ctx, 'a', 1)", [{"a": 5}, {"b": 2}], [5, 1]),
        ("get(ctx, 'amount', 1)", [{"amuont": 2}], "warning"),
        ("get(ctx, 'a', 1) + ctx.c", [{"b": 2}], "error"),
        ("get(ctx, 'a', ctx.c)", [{"b": 2}], "error"),
        ("get(ctx, 'a', 1) + ctx.a", [{"b": 2}], "error"),
    ],
)
def test_a_name_with_a_default_needs_no_column(expression: str, rows: list[dict[str, int]], outcome: Any) -> None:
    flow = agf.load(f'pipeline: p\nsteps: [{{transform: {{value: "{expression}"}}}}]')
    with kept.no_journal():
        if outcome == "error":
            with pytest.raises(agf.DefinitionError) as raised:
                agf.run(flow, over=rows)
            assert raised.value.code == "over.column"
            return
        run = agf.run(flow, over=rows)
    codes = [warning.code for warning in run.warnings]
    assert codes == (["over.column"] if outcome == "warning" else [])
    if outcome != "warning":
        assert [row["output"] for row in run.table] == outcome
