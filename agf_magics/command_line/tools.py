"""The modules and files of tools that a line names, which no definition can (decision A20)."""

from __future__ import annotations

import importlib
import runpy
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..commands.words import Token, line_error
from ..compat.imports import for_the_person
from ..text.raised import attribute, describe_exception, is_a, trace_of

PACKAGE = Path(__file__).parents[1]
"""The folder of this package: a frame whose file is in it is not a line of the user."""

_NAME_A_FILE = "name a file, as --tools tools.py, or a module, as --tools package.tools"


def import_tools(word: Token) -> Mapping[str, Any]:
    """Import the module or run the .py file that ``word`` names, and return its variables. Raises
    DefinitionError."""
    module = word.text
    if not module.endswith(".py") and not all(map(str.isidentifier, module.split("."))):
        description = "a folder" if Path(module).is_dir() else "neither a module nor a .py file"
        raise line_error("file", f"{module!r} is {description}: {_NAME_A_FILE}", word)
    try:
        if not module.endswith(".py"):
            sys.path.insert(0, "")  # the current folder: the module is the user's own
            with for_the_person():
                imported = importlib.import_module(module)
            if getattr(imported, "__file__", "") is not None:
                return vars(imported)
            why = f"{module!r} is a folder without an __init__.py: {_NAME_A_FILE}"
        elif Path(module).is_file():
            return runpy.run_path(module)
        else:
            why = f"there is no file {module!r}"
    # The user's code may raise anything.
    except Exception as error:
        why = _why_not_imported(module, error)
    raise line_error("file", why, word)


def _why_not_imported(module: str, error: Exception) -> str:
    """The user's line that failed while ``module`` was imported, and its error; or the words that there is
    no such module."""
    lacks = attribute(error, "name") if is_a(error, ModuleNotFoundError) else None
    if lacks is not None and f"{module}.".startswith(f"{lacks}."):
        return f"there is no module {module!r}"
    if is_a(error, SyntaxError) and (file := attribute(error, "filename")):
        # A file with wrong syntax has no frame in the traceback.
        return f"{file}, line {attribute(error, 'lineno')}: SyntaxError: {attribute(error, 'msg')}"
    frames = traceback.extract_tb(trace_of(error))
    user_frames = [frame for frame in frames if not Path(frame.filename).is_relative_to(PACKAGE)]
    return f"{user_frames[-1].filename}, line {user_frames[-1].lineno}: {describe_exception(error)}"
