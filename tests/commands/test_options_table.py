"""The magics and the command line have the same options: one table of their names and values."""

from __future__ import annotations

from dataclasses import fields

from agf_magics.__main__ import ACTS as LINES
from agf_magics.commands import magics as commands
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
