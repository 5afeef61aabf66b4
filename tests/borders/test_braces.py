"""``{x}`` in the line of a magic: a user of IPython means the variable, but it is a text or an object here (fault
N13)."""

from __future__ import annotations

import pytest

from tests.notebook.conftest import Shell

ECHO = "%%pipeline --quiet\npipeline: p\nsteps:\n- transform: {value: ctx.a}\n"


@pytest.mark.parametrize(
    ("value", "warned"),
    [
        ("{x}", "write --set a=$x for the variable"),
        ("/data/{x}.csv", "make the text in a cell"),
        ("'{x}'", ""),
        ('"{x}"', ""),
        ("{y}", ""),
        ("{x: 1}", ""),
        ("$x", ""),
        ("[x]", ""),
    ],
)
def test_braces_around_the_name_of_a_variable_are_reported(shell: Shell, value: str, warned: str) -> None:
    shell.good("x = 'pears'")
    shell.good(ECHO)
    written = f"'a={value}'" if " " in value else f"a={value}"
    result = shell.good(f"%run_pipeline p --set {written}")
    assert ("[magic.text]" in result.out) == bool(warned), result.out
    assert warned in result.out.replace("\n", " ").replace("    ", "")
