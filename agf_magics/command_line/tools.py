"""The modules and files of tools that a line names, which no definition can (decision A20)."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import CodeType
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
            # As Python does for a script: its neighbours are the user's own modules.
            sys.path.insert(0, str(Path(module).resolve().parent))
            with for_the_person():
                return _run_file(Path(module))
        else:
            why = f"there is no file {module!r}"
    # The user's code may raise anything. A SystemExit would end the command as if it had done its work.
    except (Exception, SystemExit) as error:
        why = _why_not_imported(module, error)
    raise line_error("file", why, word)


def _run_file(file: Path) -> Mapping[str, Any]:
    """Run a file as a module that another process finds by the same name, so that a journal can store
    an object of its classes."""
    name = f"{file.stem} file"  # a blank: no import of another module can mean it
    loader = _Compiling(name, str(file))
    spec = spec_from_file_location(name, file, loader=loader)
    assert spec is not None  # it has a loader
    module = sys.modules[name] = module_from_spec(spec)
    loader.exec_module(module)
    return vars(module)


class _Compiling(SourceFileLoader):
    """Compiles the file each time: Python takes a stored compilation for a file that was edited within
    the same second."""

    def get_code(self, fullname: str) -> CodeType:
        return self.source_to_code(self.get_data(self.path), self.path)


def _why_not_imported(module: str, error: BaseException) -> str:
    """The user's line that failed while ``module`` was imported, and its error; or the words that there is
    no such module."""
    lacks = attribute(error, "name") if is_a(error, ModuleNotFoundError) else None
    if lacks is not None and f"{module}.".startswith(f"{lacks}."):
        return f"there is no module {module!r}"
    if is_a(error, SyntaxError) and (file := attribute(error, "filename")):
        # A file with wrong syntax has no frame in the traceback.
        return f"{file}, line {attribute(error, 'lineno')}: SyntaxError: {attribute(error, 'msg')}"
    frames = traceback.extract_tb(trace_of(error))
    user_frames = [
        frame
        for frame in frames
        if not Path(frame.filename).is_relative_to(PACKAGE) and not frame.filename.startswith("<")
    ]
    if not user_frames:
        return f"{module}: {describe_exception(error)}"
    return f"{user_frames[-1].filename}, line {user_frames[-1].lineno}: {describe_exception(error)}"
