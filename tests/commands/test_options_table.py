"""The magics and the command line have the same options: one table of their names and values."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path

from agf_magics.__main__ import ACTS as LINES
from agf_magics.commands import magics as commands
from agf_magics.commands.line import Command
from agf_magics.limits.limits import LIMITS, Limits
from agf_magics.settings.settings import Settings

ACTS = {
    "run": (commands.RUN_PIPELINE, commands.RUNS),
    "resume": (commands.RESUME, commands.RUN_PIPELINE, commands.RUNS),
    "mcp": (commands.RUN_PIPELINE, commands.RUNS),
    "check": (commands.PIPELINE,),
    "draw": (commands.DRAW,),
}
"""The magics that do the same as each command of the command line."""

ALONE = {
    "--tools": "a notebook registers tools in cells",
    "--define": "a notebook has %define",
    "--allow-import": "a notebook has %config",
    "--allow-shell": "a notebook has %config",
    "--trace": "a notebook has %config AgfMagics.tracing",
    "--fail-below": "Python has agf.check_over",
    "--figures": "Python has agf.check_over(...).save",
    "--format": "a notebook shows its findings",
    "--folder": "a notebook has %config AgfMagics.folder",
    "--mcp": "a notebook has %mcp connect NAME --from",
    "--allow-mcp": "a notebook has %mcp, whose line names the command",
    "--http": "Python has agf.mcp.serve(port=)",
    "--at-once": "Python has agf.mcp.serve(at_once=)",
    "--export": "the files of a graph; %runs RUN --export writes the run",
}
"""The options that only the command line has, with what a notebook has instead."""

VALUES = {"--input": "VAR"}
"""The metavars that differ, because a notebook names values by variables."""


def test_an_option_has_one_name_and_one_value() -> None:
    for name, (line, _) in LINES.items():
        magics = {option.flag: option.metavar for command in ACTS.get(name, ()) for option in command.options}
        for option in line.options:
            if option.flag in ALONE:
                continue
            assert option.flag in magics, f"agf-magics {name} has {option.flag}, and no magic has it"
            assert magics[option.flag] in (option.metavar, VALUES.get(option.flag)), f"agf-magics {name} {option.flag}"


def test_each_limit_with_an_option_has_it_wherever_a_run_starts() -> None:
    flags = {row.flag for row in LIMITS if row.flag}
    assert flags
    for command in (commands.RUN_PIPELINE, commands.PIPELINE, LINES["run"][0], LINES["resume"][0]):
        assert flags <= {option.flag for option in command.options}, command.name


def test_each_limit_is_a_field_of_limits_and_a_setting() -> None:
    assert {row.name for row in LIMITS} == {field.name for field in fields(Limits) if field.init}
    assert {row.setting for row in LIMITS} <= {field.name for field in fields(Settings)}


# --- the options that code reads ---

PACKAGE = Path(commands.__file__).parents[1]
FLAG = re.compile(r"--[a-z][a-z-]*")


def flags_in(code: ast.AST) -> set[str]:
    """The options that are written in code."""
    constants = (node.value for node in ast.walk(code) if isinstance(node, ast.Constant))
    return {value for value in constants if isinstance(value, str) and FLAG.fullmatch(value)}


def flags_of(line: Command) -> set[str]:
    return {option.flag for option in line.options}


def unknown_flags(tree: ast.AST) -> dict[str, set[str]]:
    """The options that the method of a magic reads and its command does not have, by the name of the command."""
    read = {
        decorator.args[0].attr: flags_in(function)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for decorator in function.decorator_list
        if isinstance(decorator, ast.Call)
        and isinstance(decorator.func, ast.Name)
        and decorator.func.id == "takes"
        and isinstance(decorator.args[0], ast.Attribute)
    }
    unknown = {name: flags - flags_of(getattr(commands, name)) for name, flags in read.items()}
    return {name: flags for name, flags in unknown.items() if flags}


def test_a_magic_reads_options_of_its_command() -> None:
    wrong = "@takes(magics.DRAW)\ndef draw(self, parsed):\n    return parsed.word('--save'), parsed.word('--zebra')\n"
    assert unknown_flags(ast.parse(wrong)) == {"DRAW": {"--zebra"}}
    for path in sorted((PACKAGE / "notebook" / "magics").glob("*.py")):
        assert unknown_flags(ast.parse(path.read_text("utf-8"))) == {}, path.name


def test_what_code_reads_is_an_option() -> None:
    paths = [*(PACKAGE / "notebook").rglob("*.py"), *(PACKAGE / "commands").rglob("*.py")]
    tables = {"magics.py", "options.py", "command_line.py", "line.py"}
    read = set[str]().union(
        *(flags_in(ast.parse(path.read_text("utf-8"))) for path in paths if path.name not in tables)
    )
    listed = set[str]().union(*map(flags_of, commands.COMMANDS.values()))
    assert read - listed.union(*(flags_of(line) for line, _ in LINES.values())) == set()
