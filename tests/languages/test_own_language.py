"""Languages of other packages: the one of docs/howto/language.md exactly as the page has it, and broken ones."""

from __future__ import annotations

import re
from functools import reduce
from pathlib import Path

import pytest

from tests.processes import script

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/howto/language.md").read_text("utf-8")
BLOCKS = [(match[1], match[2]) for match in re.finditer(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)]
MODULE = next(text for kind, text in BLOCKS if kind == "python")


def installed(folder: Path, module: str, entry: str = "lines = lines_language:LINES") -> Path:
    """Write a folder with an installed package, as pip leaves it."""
    info = folder / "lines_language-1.0.dist-info"
    info.mkdir(parents=True)
    (folder / "lines_language.py").write_text(module, "utf-8")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lines-language\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[agf_magics.languages]\n{entry}\n")
    return folder


def output_of_cells(folder: Path, *cells: str) -> str:
    code = (
        "import sys\nfrom IPython.core.interactiveshell import InteractiveShell as Shell\n"
        f"sys.path.append({str(folder)!r})\nsys.path.insert(0, {str(ROOT)!r})\n"
        "for cell in ('%config InteractiveShell.xmode=\"Plain\"', '%load_ext agf_magics', "
        f"*{list(cells)!r}): Shell.instance(colors='nocolor').run_cell(cell)"
    )
    completed = script(code, folder.parent)
    assert completed.returncode == 0, completed.stderr
    return completed.stdout + completed.stderr


def test_the_language_of_the_page_does_what_the_page_shows(tmp_path: Path) -> None:
    uses = [(kind, text) for kind, text in BLOCKS if kind in ("python", "text")][2:6]
    assert [kind for kind, _ in uses] == ["python", "text", "python", "text"]
    output = output_of_cells(installed(tmp_path / "site", MODULE), *(text for kind, text in uses if kind == "python"))
    for _, text in uses[1::2]:
        assert text.strip() in output


def test_the_entry_point_of_the_page_is_the_one_that_is_read() -> None:
    (toml,) = [text for kind, text in BLOCKS if kind == "toml"]
    assert 'entry-points."agf_magics.languages"' in toml
    assert 'lines = "lines_language:LINES"' in toml


def changed(module: str, diff: str) -> str:
    """The module after the changes of one diff of the page."""
    lines = diff.splitlines(keepends=True)
    old, new = ("".join(line[1:] for line in lines if line[0] in signs) for signs in (" -", " +"))
    assert module.count(old) == 1
    return module.replace(old, new)


def test_the_solution_of_the_exercise_does_what_the_exercise_asks(tmp_path: Path) -> None:
    module = reduce(changed, (text for kind, text in BLOCKS if kind == "diff"), MODULE)
    definition = [text for kind, text in BLOCKS if kind == "text"][-1]
    tools = next(text for kind, text in BLOCKS if "def split_words" in text and kind == "python")
    output = output_of_cells(
        installed(tmp_path / "site", module),
        tools,
        f'print(agf.run(agf.load({definition!r}, "lines"), {{"text": "pears and figs"}}).stores)',
        'agf.load("lines report\\n-> tokens\\n", "lines")',
    )
    assert "'tokens': ['pears', 'and', 'figs'], 'count': 3}" in output
    assert "[lines.syntax]" in output


def test_a_definition_without_a_call_is_reported(tmp_path: Path) -> None:
    output = output_of_cells(
        installed(tmp_path / "site", MODULE), "import agf_magics as agf\nagf.load('lines report', 'lines')"
    )
    assert "[lines.no-call]" in output


def test_a_flow_of_the_language_is_drawn_run_by_a_pipeline_and_resumed(tmp_path: Path) -> None:
    output = output_of_cells(
        installed(tmp_path / "site", MODULE),
        "import agf_magics as agf\nworks = []\n@agf.tool\ndef half(n: int) -> int:\n    return n // 2",
        "@agf.tool\ndef fails(n: int) -> int:\n    assert works\n    return n",
        'flow = agf.define("lines small\\na <- half n=$n\\nb <- fails n=$a\\n", "lines")',
        "%config AgfMagics.journal = 'runs.sqlite'",
        'r = agf.run("small", {"n": 8}, raises=False)\nprint(r.status, r.stores)',
        "works.append(1)\nprint(agf.resume(r.run_id).output, agf.draw(flow).outline())",
        'print(agf.run("{pipeline: p, steps: [{call: {pipeline: small, pass: [n]}}]}", {"n": 4}).output)',
    )
    assert "error {'n': 8, 'a': 4}" in output
    assert "4 small" in output
    assert "\n2\n" in output


@pytest.mark.parametrize(
    ("module", "entry", "why"),
    [
        ("1/0", "lines = lines_language:LINES", "cannot be imported: ZeroDivisionError: division by zero"),
        ("raise SystemExit(3)", "lines = lines_language:LINES", "cannot be imported: SystemExit: 3"),
        ("LINES = 1", "lines = lines_language:LINES", "is not a Language with this name"),
        (MODULE, "others = lines_language:LINES", "is not a Language with this name"),
        ("", "lines = lines_language:LINES", "cannot be imported: AttributeError"),
    ],
)
def test_an_unusable_language_is_reported_with_its_package(module: str, entry: str, why: str, tmp_path: Path) -> None:
    name = entry.split(" ")[0]
    output = output_of_cells(
        installed(tmp_path / "site", module, entry), f"import agf_magics as agf\nagf.load('x', '{name}')"
    )
    assert "[define.language]" in output
    assert why in " ".join(output.split())
    assert "update the package lines-language, or remove it" in output
    assert "Traceback" not in output


def test_no_other_package_replaces_one_of_the_four(tmp_path: Path) -> None:
    site = installed(tmp_path / "site", "print('imported')", "plan = lines_language:LINES")
    assert "imported" not in output_of_cells(site, "import agf_magics as agf\nagf.load('[{_tool: a}]', 'plan')")


def test_the_error_of_an_unknown_language_names_the_nearest_one(tmp_path: Path) -> None:
    assert "did you mean policy?" in output_of_cells(tmp_path, "import agf_magics as agf\nagf.load('x', 'polcy')")
