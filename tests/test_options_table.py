"""The magics and the command line use the same name, and the same value, for the same thing: one table."""

from __future__ import annotations

import argparse

from agf_magics.__main__ import _parser
from agf_magics.notebook import commands

ACTS = {
    "run": (commands.RUN_PIPELINE, commands.RUNS),
    "resume": (commands.RESUME, commands.RUN_PIPELINE, commands.RUNS),
    "check": (commands.PIPELINE,),
    "draw": (commands.DRAW,),
}
"""By the command of the command line: the magics that do the same."""

ALONE = {
    "--help": "argparse's own",
    "--tools": "a notebook registers tools in cells",
    "--define": "a notebook has %define",
    "--allow-import": "a notebook has %config",
    "--allow-shell": "a notebook has %config",
    "--format": "a notebook shows its findings",
    "--trace": "a notebook has %config AgfMagics.tracing",
    "--export": "the files of a graph; %runs RUN --export writes the run",
}
"""The options that only the command line has, and what a notebook has instead."""

VALUES = {"NAME=VALUE": "KEY=VALUE", "FILE.json": "VAR"}
"""What differs in how a value is named: a notebook has variables."""


def test_an_option_has_one_name_and_one_value() -> None:
    (acts,) = (action for action in _parser()._actions if isinstance(action, argparse._SubParsersAction))
    for name, parser in acts.choices.items():
        magics = {option.flag: option.metavar for command in ACTS[name] for option in command.options}
        for action in parser._actions:
            for flag in action.option_strings:
                if not flag.startswith("--") or flag in ALONE:
                    continue
                assert flag in magics, f"agf-magics {name} has {flag}, and no magic has it"
                metavar = str(action.metavar or "")
                assert VALUES.get(metavar, metavar) == magics[flag], f"agf-magics {name} {flag}"
