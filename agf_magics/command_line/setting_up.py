"""Sets up the process for a command: the folder, the settings, tools, definitions and MCP servers."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..commands.line import ParsedLine
from ..commands.named_definitions import all_definitions
from ..commands.words import Token, line_error
from ..flow.progress.question import Question
from ..lifecycle.definitions.define import register
from ..lifecycle.definitions.file_sets import places
from ..lifecycle.input.prompt import ask_at_prompt
from ..settings import settings
from ..text.columns import wrap
from ..text.folder import notebook_folder
from ..text.source import UNUSABLE
from ..values.value import Value
from .streams import tell
from .tools import import_tools

SETTINGS = {"--allow-shell": "allow_shell", "--allow-import": "allow_import", "--trace": "tracing"}
"""The options that turn on a setting, with the name of the setting."""


def set_up(parsed: ParsedLine) -> None:
    """Set the folder and the settings of this process, import the tools, register the definitions, and
    connect the servers that the line names. Raises DefinitionError."""
    notebook_folder.change(_folder(parsed))
    turned_on: dict[str, Any] = {field: True for flag, field in SETTINGS.items() if flag in parsed}
    current = settings.current
    current.settings = replace(settings.read(notebook_folder.path), **turned_on)
    current.ask = _ask
    current.words = settings.COMMAND_LINE
    for word in parsed.words("--tools"):
        import_tools(word)
    for file in all_definitions(parsed.words("--define")):
        for note in register(file, origin=str(file.resolve())).replacements:
            tell(wrap(f"note: {note}"))
    for word in parsed.words("--mcp"):
        _connect(word, "--allow-mcp" in parsed)


def _folder(parsed: ParsedLine) -> Path:
    """The notebook's folder of a command: the folder of its file; for several files the folder that has all
    of them; without a file the current folder (decision A16)."""
    chosen = parsed.word("--folder")
    if chosen is not None:
        if not Path(chosen.text).is_dir():
            raise line_error("file", f"there is no folder {chosen.text!r}", chosen)
        return Path(chosen.text)
    paths = [path for word in parsed.words("FILE") for path in places(word.text)]
    try:
        folders = [str((path if path.is_dir() else path.parent).resolve()) for path in paths]
        return Path(os.path.commonpath(folders)) if folders else Path.cwd()
    # One of these errors says that the files are on two drives.
    except UNUSABLE:
        return Path.cwd()


def _connect(file: Token, is_allowed: bool) -> None:
    """Connect the MCP servers that a file lists. Raises DefinitionError."""
    from ..mcp.sdk import require_sdk

    require_sdk()
    from ..mcp.client.servers import connect_file

    for server in connect_file(Path(file.text), is_allowed):
        for problem in server.problems:
            tell(wrap(f"{problem.severity}: {problem}"))


def _ask(question: Question) -> Value:
    """Ask a question on stderr: only the output goes to stdout."""
    return ask_at_prompt(question, say=tell, read=_read)


def _read(prompt: str) -> str:
    print(prompt, end="", file=sys.stderr, flush=True)
    return input()
