"""The variables that a line can read, and the message about a variable that does not exist (fault N19)."""

from __future__ import annotations

import pytest

from tests.notebook.conftest import Shell, code

ECHO = "%%pipeline --quiet\npipeline: p\nsteps:\n- transform: {value: ctx.a}\n"


@pytest.mark.parametrize("word", ["--input nope", "--set a=$opne", "--set a=$getipython", "--set a=$exti"])
def test_a_name_that_ipython_put_there_is_not_meant(shell: Shell, word: str) -> None:
    shell.good(ECHO)
    result = shell.run(f"%run_pipeline p {word}")
    assert code(result) == "magic.unknown-variable"
    assert "did you mean" not in str(result.error)


def test_a_name_of_the_notebook_is(shell: Shell) -> None:
    shell.good(ECHO)
    shell.good("pears = 3")
    assert "did you mean pears?" in str(shell.run("%run_pipeline p --set a=$paers").error)


def test_an_output_and_an_own_name_in_the_place_of_one_of_ipython_are_read(shell: Shell) -> None:
    shell.good(ECHO)
    shell.good("_ = 7")
    assert shell.good("r = %run_pipeline p --set a=$_ --quiet\nr.output").value == 7
    shell.good("open = 5")
    assert shell.good("r = %run_pipeline p --set a=$open --quiet\nr.output").value == 5


CLOSURE = """\
def outer(x):
    def inner():
        {own}%run_pipeline p --set a=$x --quiet --out r
    inner()
outer(4)
"""


@pytest.mark.parametrize(
    "cell",
    [
        CLOSURE.format(own=""),
        "def outer(x):\n"
        "    get_ipython().run_cell_magic('pipeline', '--run --set a=$x', 'pipeline: q\\nsteps: []')\nouter(4)",
    ],
    ids=["closure", "cell magic"],
)
def test_in_a_function_the_hint_is_about_functions(shell: Shell, cell: str) -> None:
    shell.good(ECHO)
    result = shell.run(cell)
    assert code(result) == "magic.unknown-variable"
    assert "write x = x in the function" in str(result.error)
    assert "run the cell" not in str(result.error)


def test_the_hint_is_right(shell: Shell) -> None:
    shell.good(ECHO)
    own_lines = "y = x\n        ".replace("y", "z")
    shell.good(CLOSURE.format(own=own_lines).replace("$x", "$z"))
    assert shell.names["r"].output == 4


def test_in_a_cell_the_hint_is_about_cells(shell: Shell) -> None:
    shell.good(ECHO)
    assert "run the cell that sets it first" in str(shell.run("%run_pipeline p --set a=$zzz").error)
