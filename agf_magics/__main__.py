"""The command line: ``python -m agf_magics run|resume|check|draw|mcp|lsp|quickstart``.

It has the core of the notebook without IPython. `ACTS` has the function of each command; those that
run and check are in `command_line`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import agf_magics as agf

from .catalog import default
from .command_line.check import check
from .command_line.hints import one_of, with_option
from .command_line.runs import INTERRUPTED, resume, run
from .command_line.setting_up import set_up
from .command_line.streams import (
    NoOutput,
    end_without_output,
    output_kept,
    save_file,
    say,
    tell,
    write,
)
from .commands.command_line import (
    CHECK_COMMAND,
    DRAW_COMMAND,
    LSP_COMMAND,
    MCP_COMMAND,
    QUICKSTART_COMMAND,
    RESUME_COMMAND,
    RUN_COMMAND,
)
from .commands.line import ParsedLine, as_typed, read_words
from .commands.named_definitions import one_file
from .commands.quickstart import quickstart
from .commands.words import Token, line_error
from .compat.imports import installed_only
from .compat.installed import missing
from .compat.protocol_streams import claim
from .settings import settings
from .text.columns import wrap
from .text.diagnostics import AgfError, DefinitionError, refused
from .text.hint_words import IN_A_TERMINAL, hint_words
from .text.replaced_file import replaced_file
from .text.source import Source
from .text.suggestions import suggest

# `python -m` puts the working folder before everything else, and that may hold a stranger's modules. What
# a command imports from here on does not come from there. What the package itself needs is imported by now:
# `python -P -m agf_magics`, and the command `agf-magics`, do not look into the working folder at all.
if __name__ == "__main__":
    sys.path[:] = [
        part for part in sys.path if part and os.path.realpath(part) != os.path.realpath(".")
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Return 0: success; 1: a wrong definition or a failed run, printed on stderr; 2: a wrong
    command line; 130: interrupted; 141: nobody reads the output."""
    # It is closed: `print` would write messages to stdout.
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    hint_words.rows = IN_A_TERMINAL
    source, words = as_typed("agf-magics", sys.argv[1:] if argv is None else argv)
    try:
        return _act(source, words)
    except (AgfError, NoOutput) as error:
        return _tell_error(error, source)
    except ExceptionGroup as group:
        # The output is least: whoever does not read it may still want the files.
        return min([_tell_error(error, source) for error in group.exceptions])
    except KeyboardInterrupt:
        return INTERRUPTED


def _tell_error(error: Exception, source: Source) -> int:
    """Print an error of the line ``source``, or of what the line did. Returns the exit code."""
    if isinstance(error, NoOutput):
        return end_without_output(error)
    if not isinstance(error, DefinitionError):
        tell(wrap(f"{type(error).__name__}: {error}"))
        return 1
    place = error.diagnostic.span
    is_typed = place is not None and place.source is source
    head = "agf-magics: error" if is_typed else "DefinitionError"
    problems = DefinitionError(*map(with_option, error.diagnostics))
    tell(wrap(f"{head}: {problems}"))
    return 2 if is_typed else 1


def _act(source: Source, words: Sequence[Token]) -> int:
    """Do what the line says."""
    if not words:
        message = f"agf-magics needs a command: {one_of(ACTS)}"
        raise line_error("missing", message, source.span(), "agf-magics --help says what they do")
    name = words[0].text
    if name in ("-h", "--help"):
        about = "\n\n".join(command.help for command, _ in ACTS.values())
        say(f"Run, resume, check or draw definitions; --version says which version.\n\n{about}")
        return 0
    if name == "--version":
        write(f"agf-magics {agf.__version__}")
        return 0
    if name not in ACTS:
        message = f"unexpected word {name!r}: agf-magics takes {one_of(ACTS)}"
        raise line_error("extra-word", message, words[0], suggest(name, ACTS, "commands"))
    command, act = ACTS[name]
    parsed = read_words(command, source, words[1:])
    if parsed is None:
        say(command.help)
        return 0
    # Before a file of tools is imported, which may print.
    if name in PROTOCOLS:
        claim()
    with output_kept() if name in PRINTERS else nullcontext():
        set_up(parsed)
        return act(parsed)


def _draw(parsed: ParsedLine) -> int:
    picture = agf.draw(one_file(parsed.words("FILE")[0]))
    target = parsed.word("--save")
    if target is None:
        say(picture.to_dot(), "xmlcharrefreplace")  # Graphviz reads references of HTML
    else:
        save_file(target, picture.save)
    return 0


def _mcp(parsed: ParsedLine) -> int:
    from .mcp.server.command import serve_command

    # Nobody is at the terminal: a client asks its person.
    current = settings.current
    current.ask = None
    current.words = settings.MCP_CLIENT
    return serve_command(parsed, default(), lambda text: tell(wrap(text)))


def _lsp(parsed: ParsedLine) -> int:
    if missing(["pygls"]):
        message = "the language server needs pygls, which is not installed"
        raise refused("define.not-installed", message, "pip install 'agf-magics[lsp]'")
    with installed_only():
        from .editor.server import serve
    return serve()


def _quickstart(parsed: ParsedLine) -> int:
    """Write the notebook, but never over another file: a person may have worked in it."""
    target = Path("quickstart.ipynb")
    text = quickstart()
    if target.is_file() and not _has_text(target, text):
        message = f"{str(target)!r} is already in this folder and differs from the one to write"
        hint = "rename it, or use another folder"
        raise line_error("file", message, parsed.source.span(), hint)
    with replaced_file(target) as file:
        file.write(text)
    say(f"wrote {target}")
    say(f"open it with: jupyter lab {target} (pip install jupyterlab), or as any notebook")
    return 0


def _has_text(path: Path, text: str) -> bool:
    try:
        return path.read_bytes() == text.encode()
    except OSError:  # a file that nobody can read is not the one to write
        return False


ACTS = {
    "run": (RUN_COMMAND, run),
    "resume": (RESUME_COMMAND, resume),
    "check": (CHECK_COMMAND, check),
    "draw": (DRAW_COMMAND, _draw),
    "mcp": (MCP_COMMAND, _mcp),
    "lsp": (LSP_COMMAND, _lsp),
    "quickstart": (QUICKSTART_COMMAND, _quickstart),
}
"""The commands, by the first word of the line."""

PROTOCOLS = ("mcp",)
"""The commands that speak a protocol over stdin and stdout and run code of the person."""

PRINTERS = ("run", "resume", "check", "draw")
"""The commands that run code of the person and print on stdout what a program may read."""


if __name__ == "__main__":
    sys.exit(main())
