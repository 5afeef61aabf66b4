"""Tests of `tests.mutants`: its changes are valid programs, the same for the same seed, and are judged correctly."""

from __future__ import annotations

import ast
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


def _segment(mutant: Mutant) -> str:
    lines = read(mutant.file).splitlines()[mutant.begin[0] - 1 : mutant.end[0]]
    lines[-1] = lines[-1][: mutant.end[1]]
    lines[0] = lines[0][mutant.begin[1] :]
    return "\n".join(lines)
