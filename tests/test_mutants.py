"""Tests of `tests.mutants`: its changes are valid programs, the same for the same seed, and are judged correctly."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.mutants import PACKAGE, ROOT, Copy, Mutant, draw, mutants_of, nearest_tests, read

FILE = "agf_magics/text/suggestions.py"


def test_each_change_is_another_program() -> None:
    files = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / PACKAGE / "flow").rglob("*.py"))
    mutants = [mutant for file in files for mutant in mutants_of(file, read(file))]
    assert len(mutants) > 500
    for mutant in mutants[::20]:
        assert ast.dump(ast.parse(mutant.apply(read(mutant.file)))) != ast.dump(ast.parse(read(mutant.file))), mutant


def test_a_seed_draws_the_same_mutants_everywhere_below_a_path() -> None:
    under = ["agf_magics/text/", "agf_magics/limits/"]
    first = draw(40, 1, under)
    assert first == draw(40, 1, under) != draw(40, 2, under)
    assert {mutant.file.split("/")[1] for mutant in first} == {"text", "limits"}


def test_the_nearest_tests_are_those_of_the_file_then_of_its_room() -> None:
    assert nearest_tests("agf_magics/values/large.py")[0] == "tests/values/test_large.py"
    assert nearest_tests(FILE)[0] == FILE, "it has examples"
    near = nearest_tests("agf_magics/workers/chunk.py")
    assert near[0] == "tests/workers/test_chunk.py"
    assert near.index("tests/workers/test_on.py") < near.index("tests/notebook/test_magics.py")


@pytest.mark.slow
def test_a_mutant_is_killed_by_what_fails_or_hangs_and_the_tree_stays_as_it_is(tmp_path: Path) -> None:
    before = (ROOT / FILE).read_bytes()
    tree = Copy(tmp_path, 0, [FILE, "--timeout=5"])
    (ratio,) = (
        mutant
        for mutant in mutants_of(FILE, read(FILE))
        if mutant.kind == "return None" and "nearest(word, names" in mutant.show(read(FILE))
    )
    examples = f"{FILE}::agf_magics.text.suggestions.suggest"
    same = _segment(ratio)
    for text, killer in {
        "return None": examples,
        "while True: pass": examples,  # it hangs
        "import os; os._exit(0)": examples,  # it ends the process
        same: None,
        f"{same}; yield": examples,  # the code is of another kind
    }.items():
        assert tree.judge(ratio._replace(text=text), 300).killer == killer, text
    line = read(FILE).splitlines().index("COMPARED = 40_000") + 1
    for text, killer in {"0": f"{FILE}::", "1 / 0": "an import", "40_000 + 1": "None"}.items():  # it runs at the import
        killed_by = str(tree.judge(Mutant(FILE, (line, 11), (line, 17), text, ""), 300).killer)
        assert killed_by.startswith(killer), text
    tree.close()
    assert (ROOT / FILE).read_bytes() == before == (tree.tree / FILE).read_bytes()


FOUR_TESTS = """
import subprocess, sys
from agf_magics.text.suggestions import suggest

WORDS = {"pear": "", "plum": ""}

def test_here():
    assert suggest("peer", WORDS, "fruits")

def test_in_a_process():
    there = f"from agf_magics.text.suggestions import suggest; suggest('peer', {WORDS!r}, 'fruits')"
    subprocess.run([sys.executable, "-c", there], check=True)

def test_in_a_fork():
    import os
    if (child := os.fork()) == 0:
        suggest("peer", WORDS, "fruits")
        os._exit(0)
    os.waitpid(child, 0)

def test_not_at_all():
    pass
"""
REACHING = f"""
from tests.mutants import Mutant, read, reaching_tests
line = read("{FILE}").splitlines().index("    near = _near(word, choices)") + 1
print(*reaching_tests(Mutant("{FILE}", (line, 0), (line, 0), "", "")))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python tells its lines from 3.12 on")
def test_the_map_has_what_a_test_reaches_itself_and_in_its_processes(tmp_path: Path) -> None:
    tree = Copy(tmp_path, 0).tree
    files = [tree / "tests" / name for name in ("test_one.py", "test_two.py")]
    for file in files:
        file.write_text(FOUR_TESTS, encoding="utf-8")
    subprocess.run([sys.executable, "-m", "tests.mutants", "map", "-q", *map(str, files)], cwd=tree, check=True)
    edited = tree / FILE
    edited.write_text(f"# An edit moves the lines.\n{edited.read_text(encoding='utf-8')}", encoding="utf-8")
    told = subprocess.run([sys.executable, "-c", REACHING], cwd=tree, check=True, capture_output=True, text=True)
    reaching = [name.partition("::")[2] for name in told.stdout.split()]
    assert sorted(reaching) == sorted(2 * ["test_here", "test_in_a_process", "test_in_a_fork"])


def _segment(mutant: Mutant) -> str:
    lines = read(mutant.file).splitlines()[mutant.begin[0] - 1 : mutant.end[0]]
    lines[-1] = lines[-1][: mutant.end[1]]
    lines[0] = lines[0][mutant.begin[1] :]
    return "\n".join(lines)
