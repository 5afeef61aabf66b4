"""The pages of docs/ as a reader would use them: their blocks, in order, in a real shell with the extension loaded.

How a block is read:

    yaml              a definition, as from a file pipeline.yaml; one that begins with "- " is a pipeline's steps
    yaml policy       the same of another language, as from a file policy.yaml
    python, ipython   a cell
    console           commands, each behind "$ "
    text              what the blocks since the last text block told: an error, when its first line ends with [code],
                      else what was printed and shown; "..." stands for anything
    <!-- file: NAME -->     above a block: it is written to that file
    <!-- not run: WHY -->   above a block: it is left alone

Any other block is only read. ``python -m tests.doc_pages`` writes what the examples of the error reference tell, with
names only those pages (``policy plan``).
"""

from __future__ import annotations

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

from agf_magics.catalog import default
from agf_magics.definitions.define import register
from agf_magics.lifecycle.run import Run
from agf_magics.text.diagnostics import AgfError, DefinitionError, Diagnostic, StepError
from agf_magics.text.source import Source

BUILT_IN = ("file__read", "file__write", "shell")

DOCS = Path(__file__).parents[1] / "docs"
ERRORS = DOCS / "reference" / "errors"

FENCE = re.compile(r"^```([^\n`]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ASIDE = re.compile(r"<!-- (file|not run): (.+) -->\n$")
CODE = re.compile(r" \[([a-z0-9]+\.[a-z0-9-]+)\]$")
OUT = re.compile(r"^Out\[\d+\]: ", re.MULTILINE)
ENTRY = re.compile(r"^\((?P<label>[a-z0-9.-]+)\)=\n## (?P<code>\S+)\n\n\*\*(?P<when>[^*]+)\.\*\* ", re.MULTILINE)
"""An entry of the error reference: its label, its code, when it is told."""


class Block(NamedTuple):
    language: str
    text: str
    start: int
    """Of its text in the page."""
    aside: str = ""
    """``file`` or ``not run``."""
    name: str = ""
    """Of the file."""


RUN_ID = re.compile(r"(?<=%resume )(\S+)-\d+-[0-9a-f]{6}\b")
"""The id of a run in the hint of a message: another one each time."""


class Told(NamedTuple):
    """A finding, when it was told, and its words."""

    when: str
    diagnostic: Diagnostic
    text: str


class Entry(NamedTuple):
    code: str
    label: str
    whens: frozenset[str]
    text: str
    start: int


def pages() -> list[Path]:
    return sorted(page for page in DOCS.rglob("*.md") if "notebooks" not in page.parts)


def blocks(text: str) -> Iterator[Block]:
    for found in FENCE.finditer(text):
        aside = ASIDE.search(text, 0, found.start())
        what, name = aside.groups() if aside else ("", "")
        yield Block(found[1], found[2], found.start(2), what, name)


def entries(page: str) -> list[Entry]:
    """What a page of the error reference has entries for."""
    found = list(ENTRY.finditer(page))
    ends = [entry.start() for entry in found[1:]] + [len(page)]
    return [
        Entry(
            one["code"], one["label"], frozenset(one["when"].lower().split(", ")), page[one.start() : end], one.start()
        )
        for one, end in zip(found, ends, strict=False)
    ]


WARNED = re.compile(r"^warning: (?P<text>[^\n]*\[(?P<code>magic\.[a-z-]+)\](?:\n [^\n]*)*)", re.MULTILINE)
"""What a magic prints of its line before it does what it says."""


class Session:
    """A reader with a shell."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell
        self.told: list[Told] = []
        self.said: list[str] = []

    def read(self, block: Block) -> None:
        """Do what a block says."""
        if block.aside == "file":
            path = Path(block.name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif block.aside != "not run":
            READ.get(block.language.split(" ")[0], Session.only_read)(self, block)

    def only_read(self, block: Block) -> None:
        pass

    def definition(self, block: Block) -> None:
        _, _, language = block.language.partition(" ")
        source = Source(f"{language or 'pipeline'}.yaml", block.text)
        if block.text.startswith("- ") and not language:  # its first step is on line 1, as the reader sees it
            source = Source(source.name, f"pipeline: example\nsteps:\n{block.text}", first_line=-1)
        try:
            found = register(source, language or "pipeline", origin=f"block {block.start}").findings
        except DefinitionError as error:
            found = error.diagnostics
        for diagnostic in found:
            self.tell(f"{diagnostic.severity} when defined", diagnostic)

    def cell(self, block: Block) -> None:
        with capture_output() as captured:
            done = self.shell.run_cell(block.text, store_history=True)
        self.said.append(OUT.sub("", captured.stdout))
        self.said += [output.data.get("text/plain", "") for output in captured.outputs]
        for found in WARNED.finditer(captured.stdout):
            self.told.append(Told("warning of the line", Diagnostic(found["code"], ""), found["text"]))
        error = done.error_in_exec or done.error_before_exec
        if error is not None:
            self.failed(error, block)
        for run in (value for value in [done.result, *self.shell.user_ns.values()] if isinstance(value, Run)):
            for diagnostic in run.progress.warnings:
                self.tell("warning while running", diagnostic)

    def failed(self, error: BaseException, block: Block) -> None:
        found = getattr(error, "diagnostics", None) or [getattr(error, "diagnostic", None)]
        if found == [None]:
            raise AssertionError(f"{block.text}\nraised {error!r}") from error
        when = "error when defined"
        if found[0].code.startswith("settings."):
            when = "error when read"
        elif isinstance(error, StepError):
            when = "error while running"
        elif not isinstance(error, AgfError) or found[0].code.startswith("magic."):
            when = "error of the line"
        elif re.search(r"\bruns\b", block.text):
            when = "error when read"
        elif re.search(r"\brun(_pipeline\w*)?\b|--run\b|\bresume\b|\bstart\(", block.text):
            when = "error before a run"
        for diagnostic in found:
            self.tell(when, diagnostic)

    def tell(self, when: str, diagnostic: Diagnostic) -> None:
        text = RUN_ID.sub(r"\1-1-4f3a9c", str(diagnostic).replace(f"{Path.cwd()}{os.sep}", ""))
        self.told.append(Told(when, diagnostic, text))

    def commands(self, block: Block) -> None:
        for line in block.text.splitlines():
            if line.startswith("$ "):
                words = shlex.split(line[2:])
                if words[0] in ("agf-magics", "python"):
                    words[:1] = [sys.executable, *(["-m", "agf_magics"] if words[0] == "agf-magics" else [])]
                done = subprocess.run(words, capture_output=True, text=True, check=False)
                assert done.returncode == 0, done.stderr
                self.said.append(done.stdout)

    def answer(self) -> tuple[list[Told], str]:
        """What was told and said since this was asked last."""
        told, said = self.told, "\n".join(self.said)
        self.told, self.said = [], []
        return told, said


READ: dict[str, Any] = {
    "yaml": Session.definition,
    "python": Session.cell,
    "ipython": Session.cell,
    "console": Session.commands,
}


def new_shell() -> InteractiveShell:
    """A shell that keeps no history on disk and reads nobody's profile."""
    config = Config({"HistoryManager": {"enabled": False}, "InteractiveShell": {"ipython_dir": tempfile.gettempdir()}})
    return InteractiveShell.instance(colors="nocolor", config=config)


@contextmanager
def session(shell: InteractiveShell) -> Iterator[Session]:
    """A reader who begins: an empty folder, nothing registered but what is built in, the prelude of the docs run."""
    registry = default()
    before = dict(shell.user_ns)
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        Path("pyproject.toml").touch()  # a project of its own, whatever lies above
        for shelf in (
            registry.tools, registry.agents, registry.flows, registry.schemas, registry.transforms, registry.policies,
            registry.contexts,
        ):  # fmt: skip
            for name in list(shelf):
                if name not in BUILT_IN:
                    shelf.remove(name)
        registry.choose(None)
        shell.execution_count = 1
        shell.extension_manager.load_extension("agf_magics")
        try:
            shell.run_cell("import agf_magics as agf\nfrom agf_magics import agent, tool", silent=True)
            yield Session(shell)
        finally:
            shell.extension_manager.unload_extension("agf_magics")
            for name in shell.user_ns.keys() - before.keys():
                del shell.user_ns[name]


def prelude() -> list[Block]:
    """What every example of the error reference assumes: the blocks of its first page."""
    return list(blocks((ERRORS / "index.md").read_text(encoding="utf-8")))


def example(entry: Entry, shell: InteractiveShell) -> Iterator[tuple[Block, list[Told]]]:
    """Each text block of an entry with what was told above it."""
    with session(shell) as reader:
        for block in prelude():
            reader.read(block)
        reader.answer()
        for block in blocks(entry.text):
            if block.language == "text":
                yield block, [told for told in reader.answer()[0] if told.diagnostic.code == entry.code]
            else:
                reader.read(block)


def main() -> None:
    shell = new_shell()
    for path in sorted(ERRORS.glob("*.md")):
        if sys.argv[1:] and path.stem not in sys.argv[1:]:
            continue
        page = path.read_text(encoding="utf-8")
        for entry in reversed(entries(page)):
            found = list(example(entry, shell))
            for block, told in reversed(found):
                start = entry.start + block.start
                text = f"{told[0].text}\n" if told else f"NOTHING [{entry.code}]\n"
                page = page[:start] + text + page[start + len(block.text) :]
                if not told:
                    print(f"{path.name}: the example of {entry.code} does not tell it", file=sys.stderr)
        path.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
