"""The lines of magics: the vectors, and laws that hold for every line."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agf_magics.commands.line import read
from agf_magics.commands.magics import COMMANDS
from agf_magics.commands.values import amount, inputs, new_name
from agf_magics.commands.words import split
from agf_magics.text.diagnostics import DefinitionError
from agf_magics.text.source import Source
from tests.notebook.conftest import TOOLS, Shell, code

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "magic_lines.json").read_text())


def options_of(row: dict[str, Any]) -> Any:
    options = read(COMMANDS[row["magic"].lstrip("%")], row["line"], "In[3]")
    if options is None:
        return "help"
    return options, inputs(options, VECTORS["names"])


@pytest.mark.parametrize("row", VECTORS["rows"], ids=lambda row: row["title"])
def test_magic_lines(row: dict[str, Any]) -> None:
    if "error" in row:
        with pytest.raises(DefinitionError) as caught:
            options_of(row)
        wrong = caught.value.diagnostic
        assert wrong.code == row["error"]
        assert wrong.span.source.name.startswith("In[3] %")
        assert wrong.span.text.strip() == row.get("at", wrong.span.text.strip())
        assert row.get("hint", "") in (wrong.hint or "")
    elif row.get("help"):
        assert options_of(row) == "help"
    else:
        options, values_made = options_of(row)
        if "given" in row:
            assert {name: [word.text for word in words] for name, words in options.tokens.items()} == row["given"]
        if "input" in row:
            assert values_made == row["input"]


def test_a_variable_is_passed_as_the_same_object() -> None:
    value = object()
    options = read(COMMANDS["run_pipeline"], "p --set it=$thing")
    assert options is not None
    assert inputs(options, {"thing": value})["it"] is value


def test_an_input_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "params.yaml"
    path.write_text("words: [pear, fig]\non: yes\n")
    options = read(COMMANDS["run_pipeline"], f"p --input '{path}'")
    assert options is not None
    assert inputs(options, {}) == {"words": ["pear", "fig"], "on": "yes"}


def test_an_input_file_that_is_wrong_is_shown_where_it_is(tmp_path: Path) -> None:
    path = tmp_path / "params.json"
    path.write_text('{"a": 1,\n "a": 2}')
    options = read(COMMANDS["run_pipeline"], f"p --input '{path}'")
    assert options is not None
    with pytest.raises(DefinitionError, match=r"params\.json, line 2"):
        inputs(options, {})


@pytest.mark.parametrize("text", ["0", "-1", "soon", "nan", "inf"])
def test_a_time_is_a_positive_number_of_seconds(text: str) -> None:
    line = read(COMMANDS["run_pipeline"], f"flow --timeout {text}")
    assert line is not None
    with pytest.raises(DefinitionError, match=r"magic\.seconds"):
        amount(line, "--timeout", None)


@pytest.mark.parametrize("text", ["a.b", "class", "1st", "a-b"])
def test_a_new_variable_needs_a_name_it_can_have(text: str) -> None:
    with pytest.raises(DefinitionError, match=r"magic\.name"):
        new_name(split(Source("", text))[0])


def test_a_backslash_is_part_of_a_path_where_paths_have_them() -> None:
    assert [word.text for word in split(Source("", r"a\b 'c\d' \x"), escapes=False)] == [r"a\b", r"c\d", r"\x"]
    for line in ("C:\\data\\;", "'C:\\data\\';", "C:\\data\\", "C:\\data\\ ;"):
        assert [word.text for word in split(Source("", line), escapes=False)] == ["C:\\data\\"]


def in_a_shell(line: str) -> str:
    """The line as a shell needs it, where a backslash before a letter is lost."""
    written, quote = "", ""
    place = 0
    while place < len(line):
        char, after = line[place], line[place + 1 : place + 2]
        if char == "\\" and quote != "'":
            keeps = not quote and after and after in "ab=$"
            written, place = written + (char * 2 if keeps else char) + after, place + 2
            continue
        quote = ("" if char == quote else char) if char in "'\"" and quote in ("", char) else quote
        written, place = written + char, place + 1
    return written


@given(st.text(alphabet="ab \t'\"\\=$", max_size=12))
def test_words_are_those_of_a_posix_shell_except_a_backslash_before_a_letter(line: str) -> None:
    try:
        expected = shlex.split(in_a_shell(line), posix=True)
    except ValueError:
        with pytest.raises(DefinitionError, match=r"magic\.quote"):
            split(Source("", line), escapes=True)
    else:
        assert [word.text for word in split(Source("", line), escapes=True)] == expected


@given(st.text(alphabet="ab \t'\"\\=$", max_size=12))
def test_every_character_of_a_word_knows_its_place(line: str) -> None:
    try:
        words = split(Source("", line), escapes=True)
    except DefinitionError:
        return
    for word in words:
        assert "".join(line[place] for place in word.at[:-1]) == word.text
        assert word.locate(0, len(word.text)).end == word.span.end


@pytest.mark.parametrize("command", COMMANDS.values(), ids=lambda command: command.name)
def test_help_names_every_option_and_shows_an_example(command: Any) -> None:
    text = " ".join(command.help.split())
    for part in (*command.operands, *command.options):
        assert part.help in text
    assert f"    {command.example.splitlines()[0]}" in command.help
    assert command.name in command.example


def test_a_text_that_is_the_name_of_a_variable_is_reported(shell: Shell) -> None:
    shell.good("pears, In_ = [1], 2\ndef figs(): ...")
    shell.good("%%pipeline --quiet\npipeline: p\nsteps:\n- transform: {value: ctx.x}\n")
    printed = " ".join(shell.good("%run_pipeline p --set x=pears").out.split())
    assert "warning: 'x' gets the text 'pears', not the variable pears [magic.text]" in printed
    assert "write --set x=$pears for the variable" in printed
    assert "^^^^^" in printed
    for line in ("x=$pears", "x=figs", "x=plums", "x='\"pears\"'", "x='pears'", "x=In", "x=2", "x=pears --quiet"):
        assert "magic.text" not in shell.good(f"%run_pipeline p --set {line}").out


def test_a_file_with_a_similar_name_is_suggested(shell: Shell) -> None:
    Path("flows.yaml").write_text("{}")
    for line in ("%define flow.yaml", "%run_pipeline p --input flow.yaml", "%context p --load flow.yaml"):
        shell.run("%%pipeline --quiet\npipeline: p\nsteps:\n- transform: {value: '1'}\n")
        result = shell.run(line)
        assert code(result) == "magic.file"
        assert "did you mean flows.yaml?" in str(result.error)
        assert "Errno" not in str(result.error)


DROPS = """\
%%pipeline drops --quiet
pipeline: drops
steps:
- for_each:
    over: ctx.words
    on_error: continue
    do: {tool: {name: measure, args: {word: !expr item}}}
    collect: {transform: {value: pipe}}
    output: lengths
"""


@pytest.mark.parametrize("options", ["", "--quiet", "--out r", "--quiet --out r"])
def test_calls_that_failed_and_were_dropped_are_told_once_with_any_output(shell: Shell, options: str) -> None:
    shell.good(TOOLS)
    shell.good(DROPS)
    cell = shell.good(f"run = %run_pipeline drops --set words=[1,2] {options}")
    told = cell.out + "".join(output["text/plain"] for output in cell.outputs)
    assert told.count("[run.all-dropped]") == (0 if options == "--quiet" else 1), told


ROWS_THAT_FAIL = "%%pipeline --quiet\npipeline: halves\nsteps:\n- transform: {value: 6 / ctx.x}"


@pytest.mark.parametrize(
    ("numbers", "told"), [("[1, 0, 2]", "1 of 3 rows failed\n"), ("[1, 2]", ""), ("[0]", "1 of 1 row failed\n")]
)
def test_rows_that_failed_are_told_also_without_progress(shell: Shell, numbers: str, told: str) -> None:
    shell.good(ROWS_THAT_FAIL)
    shell.good(f"table = [{{'x': x}} for x in {numbers}]")
    out = shell.good("%run_pipeline halves --over $table --quiet --out r").out
    assert out.endswith(told)
    assert ("failed" in out) is bool(told)


@pytest.mark.parametrize(("score", "is_compared"), [("output > 2", False), ("'big' if output > 2 else 'small'", True)])
def test_right_labels_that_no_score_is_compared_with_are_told(shell: Shell, score: str, is_compared: bool) -> None:
    shell.good(ROWS_THAT_FAIL)
    shell.good("table = [{'x': 1, 'size': 'big'}, {'x': 3, 'size': 'small'}]")
    shell.good(f"def good(output):\n    return {score}")
    shown = shell.good("%run_pipeline halves --over $table --score good --against size --out r").outputs[-1]
    assert ("'size' is compared with no score: a label is a text" in shown["text/plain"]) is not is_compared
