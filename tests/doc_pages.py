"""Runs the blocks of the pages of docs/ as a reader does: in order, in a real shell with the extension loaded.

How a block is read:

    python, ipython   a cell
    console           commands, each after "$ "
    text              the result of the blocks since the last text block: errors, if the first line ends with [code],
                      otherwise what was printed and displayed; "..." matches anything
    <!-- file: NAME -->     before a block: it is written to that file
    <!-- not run: WHY -->   before a block: it is skipped

All other blocks are ignored. A reader can paste the blocks of a page in order into a notebook that has only run
%load_ext agf_magics. An entry of the error reference needs only the cells at the top of its page. In a how-to page a
text block is the result of the previous block.

``python -m tests.doc_pages`` updates the messages of the examples in the error reference. Arguments (``policy plan``)
select pages.
"""

from __future__ import annotations

import html
import os
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

import agf_magics as agf
from agf_magics import CheckFailed
from agf_magics.catalog import default
from agf_magics.lifecycle.definitions.checking import check_definition
from agf_magics.text.source import Source
from tests.processes import command_line

BUILT_IN = ("file__read", "file__write", "shell", "sql")

DOCS = Path(__file__).parents[1] / "docs"
ERRORS = DOCS / "reference" / "errors"
HOWTO = DOCS / "howto"

FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ASIDE = re.compile(r"<!-- (file|not run): (.+) -->\n$")
RUN_ID = re.compile(r"\b(\w+)-\d+-[0-9a-f]{6}\b")
OUT = re.compile(r"^Out\[\d+\]: ", re.MULTILINE)
ENTRY = re.compile(r"^(?:\([a-z0-9.-]+\)=\n)?## (?P<code>[a-z0-9]+\.\S+)\n\n\*\*(?P<when>[^*]+)\.\*\* ", re.MULTILINE)
"""The heading of an entry of the error reference: the code, and when it is reported."""


class Block(NamedTuple):
    language: str
    text: str
    start: int
    """The position of its text in the page."""
    aside: str = ""
    """``file`` or ``not run``."""
    name: str = ""
    """The name of the file."""


class Finding(NamedTuple):
    """A diagnostic, when it was reported, and its text."""

    when: str
    diagnostic: agf.Diagnostic
    text: str


class Entry(NamedTuple):
    """The entry of a code in the error reference."""

    code: str
    whens: frozenset[str]
    """The moments at which the code is reported, in the words of the page."""
    text: str
    start: int
    """The position of the entry in its page."""
    top: str
    """What stands before the first entry of its page."""


def pages() -> list[Path]:
    return sorted(page for page in DOCS.rglob("*.md") if "notebooks" not in page.parts)


def blocks(text: str) -> Iterator[Block]:
    for match in FENCE.finditer(text):
        aside = ASIDE.search(text, 0, match.start())
        mark, name = aside.groups() if aside else ("", "")
        yield Block(match[1], match[2], match.start(2), mark, name)


def entries(page: str) -> list[Entry]:
    """The entries of a page of the error reference."""
    entries_found = list(ENTRY.finditer(page))
    ends = [entry.start() for entry in entries_found[1:]] + [len(page)] * bool(entries_found)
    return [
        Entry(
            match["code"],
            frozenset(match["when"].lower().split(", ")),
            page[match.start() : end],
            match.start(),
            page[: entries_found[0].start()],
        )
        for match, end in zip(entries_found, ends, strict=True)
    ]


WARNED = re.compile(
    r"^warning: (?P<text>[^\n]*\[(?P<code>(?:magic\.[a-z-]+|run\.(?:unused-input|not-awaited)))\](?:\n [^\n]*)*)",
    re.MULTILINE,
)
"""A warning about the line of a magic, which is printed before the magic runs."""
DEFINES = re.compile(r"%%(pipeline|policy|plan|graph)(?: (?!--)(\S+))?(?!.*--run)[^\n]*\n")
"""The first line of a cell that defines and does not run."""
REPLACED = re.compile(r"^note: ((schema|flow) '[^']+' was defined by another [^()]*) \(line \d+\)$", re.MULTILINE)

FOLDED = re.compile(r"<div>([^<]*)</div>")
"""One of several notes that are shown folded."""


class Session:
    """A simulated reader with a shell, who runs blocks."""

    def __init__(self, shell: Shell) -> None:
        self.shell = shell
        self.told: list[Finding] = []
        self.printed: list[str] = []
        self.told_of_servers: list[agf.Diagnostic] = []

    def read(self, block: Block) -> None:
        """Do what the block says."""
        if block.aside == "file":
            path = Path(block.name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif block.aside != "not run":
            READ.get(block.language.split(" ")[0], Session.ignore)(self, block)

    def ignore(self, block: Block) -> None:
        pass

    def cell(self, block: Block) -> None:
        problems = self.problems(block.text)
        self.shell.cell = f"cell-{block.start}"
        with capture_output() as captured:
            result = self.shell.run_cell(block.text, store_history=True)
        self.printed.append(OUT.sub("", captured.stdout))
        self.printed += [output.data.get("text/plain", "") for output in captured.outputs]
        for warning in WARNED.finditer(captured.stdout):
            self.told.append(Finding("warning of the line", agf.Diagnostic(warning["code"], ""), warning["text"]))
        error = result.error_in_exec or result.error_before_exec
        if error is not None:
            self.failed(error, block)
        else:
            for diagnostic in problems:
                self.report(f"{diagnostic.severity} when defined", diagnostic)
        folded = [note for output in captured.outputs for note in FOLDED.findall(output.data.get("text/html", ""))]
        notes = "\n".join([captured.stdout, *(f"note: {html.unescape(note)}" for note in folded)])
        for note in REPLACED.finditer(notes):
            replaced = agf.Diagnostic(f"{note[2]}.replaced", " ".join(note[1].split()), severity="note")
            self.report("note when defined", replaced)
        for diagnostic in self.server_problems():
            self.report(f"{diagnostic.severity} when connected", diagnostic)
        for run in (value for value in [result.result, *self.shell.user_ns.values()] if isinstance(value, agf.Run)):
            for diagnostic in run.progress.warnings:
                self.report("warning while running", diagnostic)

    def server_problems(self) -> list[agf.Diagnostic]:
        """The problems of the connected MCP servers that this method has not returned before."""
        module = sys.modules.get("agf_magics.mcp.client.servers")
        problems = [problem for server in module.servers.values() for problem in server.problems] if module else []
        fresh = [problem for problem in problems if problem not in self.told_of_servers]
        self.told_of_servers += fresh
        return fresh

    def problems(self, text: str) -> tuple[agf.Diagnostic, ...]:
        """The problems that loading the definition of a cell reports. The output of the cell shows notes without their
        codes."""
        header = DEFINES.match(text)
        if header is None:
            return ()
        source = Source(f"In[{self.shell.execution_count}] %%{header[1]}", text[header.end() :], first_line=2)
        latent = re.findall(r"--latent (\w+)", header[0])
        try:
            return check_definition(
                source, header[1], strict=False, registry=default(), latent=latent, name=header[2]
            ).problems
        except agf.DefinitionError:  # the cell fails, too
            return ()

    def failed(self, error: BaseException, block: Block) -> None:
        if isinstance(error, KeyboardInterrupt):  # of a run, whose error has the message
            error = getattr(error, "run").error  # noqa: B009
        diagnostics = getattr(error, "diagnostics", None) or [getattr(error, "diagnostic", None)]
        if diagnostics == [None]:
            raise AssertionError(f"{block.text}\nraised {error!r}") from error
        # The first that holds: something that is read (settings, a recording, the rows of a table) cannot be used …
        when = "error when defined"
        if diagnostics[0].code.startswith(
            ("settings.", "replay.", "over.not-stored", "over.cannot-hold")
        ) and not isinstance(error, agf.StepError):
            when = "error when read"
        # … a server cannot be connected …
        elif diagnostics[0].code.startswith("mcp.") and not isinstance(error, agf.StepError):
            when = "error when connected"
        # … a step or a check of a run has failed …
        elif isinstance(error, (agf.StepError, CheckFailed)):
            when = "error while running"
        # … the line is wrong, before it does anything …
        elif not isinstance(error, agf.AgfError) or diagnostics[0].code.startswith(("magic.", "file.not-written")):
            when = "error of the line"
        # … the cell reads past runs …
        elif re.search(r"\bruns\b", block.text):
            when = "error when read"
        # … the cell starts a run; else it only defines.
        elif re.search(r"\brun(_pipeline\w*)?\b|--run\b|\bresume\b|\bstart\(", block.text):
            when = "error before a run"
        for diagnostic in diagnostics:
            self.report(when, diagnostic)

    def report(self, when: str, diagnostic: agf.Diagnostic) -> None:
        text = RUN_ID.sub(r"\1-1-4f2a1b", str(diagnostic).replace(f"{Path.cwd()}{os.sep}", ""))
        self.told.append(Finding(when, diagnostic, text))

    def commands(self, block: Block) -> None:
        for line in block.text.splitlines():
            if line.startswith("$ "):
                name, *words = shlex.split(line[2:])
                if name == "agf-magics":
                    completed = command_line(Path.cwd(), *words)
                else:
                    program = sys.executable if name == "python" else name
                    completed = subprocess.run([program, *words], capture_output=True, text=True, check=False)
                assert completed.returncode == 0, completed.stderr
                self.printed.append(completed.stdout)

    def results(self) -> tuple[list[Finding], str]:
        """The findings and the printed text since the last call."""
        findings, printed = self.told, "\n".join(self.printed)
        self.told, self.printed = [], []
        return findings, printed


READ: dict[str, Any] = {
    "python": Session.cell,
    "ipython": Session.cell,
    "console": Session.commands,
}
PASTED = frozenset({"python", "ipython", "console", "text"})
"""The kinds of blocks in a how-to page. A block that is a file or is not run may be of any other kind."""


class Shell(InteractiveShell):
    """A shell that knows, like a kernel's, which cell of the notebook it runs."""

    cell = ""

    def get_parent(self) -> dict[str, Any]:
        return {"metadata": {"cellId": self.cell}}


def new_shell() -> Shell:
    """A shell without a history on disk and without a profile."""
    config = Config({"HistoryManager": {"enabled": False}, "InteractiveShell": {"ipython_dir": tempfile.gettempdir()}})
    return Shell.instance(colors="nocolor", config=config)


@contextmanager
def session(shell: Shell) -> Iterator[Session]:
    """A new reader: an empty folder, only the built-in tools, and the extension loaded."""
    with tempfile.TemporaryDirectory() as folder, session_in(shell, Path(folder)) as reader:
        yield reader


@contextmanager
def session_in(shell: Shell, folder: Path) -> Iterator[Session]:
    """A new reader in a folder that another session may have used: a new kernel with old files and an old journal."""
    registry = default()
    before, environment = dict(shell.user_ns), dict(os.environ)
    with chdir(folder):
        Path("pyproject.toml").touch()  # makes the folder a project, whatever the folders above contain
        for shelf in (
            registry.tools, registry.agents, registry.flows, registry.schemas, registry.transforms, registry.policies,
            registry.contexts,
        ):  # fmt: skip
            for name in list(shelf):
                if name not in BUILT_IN:
                    shelf.remove(name)
        registry.choose(None)
        shell.execution_count = 1
        shell.user_ns["_oh"].clear()  # the shell is shared, and its cell numbers begin again
        shell.extension_manager.load_extension("agf_magics")
        try:
            yield Session(shell)
        finally:
            shell.extension_manager.unload_extension("agf_magics")
            os.environ.clear()
            os.environ.update(environment)
            for name in shell.user_ns.keys() - before.keys():
                del shell.user_ns[name]
            shell.user_ns.update(before)  # _ and __ are the results of the last cells


def example(entry: Entry, shell: Shell) -> Iterator[tuple[Block, list[Finding]]]:
    """Each text block of an entry, with everything that the blocks before it reported."""
    with session(shell) as reader:
        for block in blocks(entry.top):
            reader.read(block)
        reader.results()
        for block in blocks(entry.text):
            if block.language == "text":
                yield block, reader.results()[0]
            else:
                reader.read(block)


def messages(findings: list[Finding]) -> str:
    """The text block of an example. Each message occurs once, although a warning often becomes the error of a later
    block."""
    return "\n\n".join(dict.fromkeys(finding.text for finding in findings)) + "\n"


def main(names: list[str]) -> None:
    shell = new_shell()
    for path in sorted(ERRORS.glob("*.md")):
        if names and path.stem not in names:
            continue
        page = path.read_text(encoding="utf-8")
        for entry in reversed(entries(page)):
            try:
                blocks_of_entry = list(example(entry, shell))
            except AssertionError as error:
                print(f"{path.name}: the example of {entry.code} does not run: {error}", file=sys.stderr)
                continue
            for block, findings in reversed(blocks_of_entry):
                start = entry.start + block.start
                page = page[:start] + messages(findings) + page[start + len(block.text) :]
                if entry.code not in {finding.diagnostic.code for finding in findings}:
                    print(f"{path.name}: the example of {entry.code} does not report it", file=sys.stderr)
        path.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
