"""Groups texts that may use each other's names: the cells of a notebook, or the files of a folder.

A text is read once for each change. It is linked again only if a text that it names has changed, so
that a change in a notebook of many cells costs one cell. A change of Python links all texts again.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from ..catalog import Registry, install
from ..languages.ours import recognized_language
from ..settings.settings import current
from ..text.diagnostics import AgfError
from .problems import PlacedProblem, ReadText, places_of, read_cell, read_file_text
from .python_cells import is_file, is_python, tree_of
from .python_scan import Registered, scan_program

LONGEST_FILE = 300_000
"""Characters of a file that is checked while it is written."""

ONLY_A_KERNEL_KNOWS = (
    "flow.unknown-tool",
    "flow.unknown-agent",
    "flow.unknown-capability",
    "flow.no-agent",
    "flow.unknown-flow",
    "flow.unknown-transform",
    "flow.unknown-policy",
    "flow.unknown-schema",
    "model.no-key",
    "model.none",
)
"""The codes of problems that go if the running program registers something, or chooses a model."""

_REGISTERS = re.compile(
    r"^[ \t]*+(?:\w++[ \t]*+=[ \t]*+)?%(?:mcp[ \t]++connect\b|config[ \t]++AgfMagics\.model)", re.M
)
"""A line of a magic that registers tools or chooses a model when it runs, which a scan cannot
see."""


class Target(NamedTuple):
    """The place in a text where a name is defined, in characters."""

    uri: str
    start: int
    end: int


@dataclass(slots=True)
class WrittenFile:
    """A cell or a file with the text in the editor."""

    uri: str
    text: str
    is_cell: bool = False
    language: str = ""
    """The language as the editor names it; empty: the name of the file tells it."""
    is_open: bool = False
    """Whether the text is open in the editor. Only then are its problems reported."""
    read: ReadText | None = None
    """The definition in the text that was read last; None: Python, foreign, too long, unread."""
    problems: list[PlacedProblem] | None = None
    """The problems of the text; None: the text must be linked again."""
    repairs: dict[PlacedProblem, Any] = field(default_factory=dict)
    """The repairs that `repairs` found, by the problem."""
    is_read: bool = False
    """Whether `read` and `tree` belong to the present text."""
    tree: ast.Module | None = None
    """The statements of Python; if the text is invalid at the moment, the last valid statements."""

    @property
    def is_python(self) -> bool:
        if self.is_cell:
            return is_python(self.text)
        return self.language == "python" or self.uri.endswith(".py")

    @property
    def name(self) -> str:
        """The name of a flow that the text does not name, from its file."""
        return self.uri.replace("\\", "/").rpartition("/")[2].split(".")[0]


class TextGroup:
    """One notebook or one folder, with a registry of its own."""

    def __init__(self) -> None:
        self.files: dict[str, WrittenFile] = {}
        """The texts in the order in which they register, as in the notebook."""
        self.registry = Registry()
        self.targets: dict[tuple[str, str], Target] = {}
        """The places where names are defined, by kind and name."""
        self.is_complete = True
        """Whether the scan knows every name that the texts register."""
        self._offers: dict[str, object] = {}
        """The flow or the schema of each name that the texts defined at the last check."""
        self._python: list[ast.Module] | None = None
        """The trees of the last scan; None: all Python texts must be scanned."""

    def put(
        self,
        uri: str,
        text: str,
        *,
        is_cell: bool = False,
        is_open: bool = True,
        language: str = "",
    ) -> None:
        """Take the text of a cell or a file, in place of an older one."""
        file = self.files.get(uri)
        if file is None:
            self.files[uri] = WrittenFile(uri, text, is_cell, language, is_open)
        elif file.text != text:
            file.text = text
            file.is_read = False
            file.is_open = is_open
        else:
            file.is_open = is_open

    def take_from_disk(self, uri: str, text: str | None) -> None:
        """Take the text that another program wrote into a file that is not open; None: the file was
        removed, or does not use this package."""
        file = self.files.get(uri)
        if file is not None and file.is_open:
            return
        if text is not None:
            self.put(uri, text, is_open=False)
        elif file is not None:
            del self.files[uri]

    def arrange(self, uris: Iterable[str]) -> None:
        """Put the cells into the order of the notebook, after all files; forget other cells."""
        files = {uri: file for uri, file in self.files.items() if not file.is_cell}
        cells = {uri: self.files[uri] for uri in uris if uri in self.files}
        if [*self.files] != [*files, *cells]:
            self.files = files | cells
            self._python = None  # a later definition takes precedence

    def check(self) -> list[WrittenFile]:
        """Read what changed, and return the open texts that were linked again."""
        changed = [file for file in self.files.values() if not file.is_read]
        for file in changed:
            self._read(file)
        names = self._register()
        stale = [
            file
            for file in self.files.values()
            if file.is_open and (file.problems is None or names is None or _has_any(file, names))
        ]
        for file in stale:
            file.problems = self._problems(file)
            file.repairs = {}
        return stale

    def _read(self, file: WrittenFile) -> None:
        """Read a text, as far as this needs no registry."""
        file.is_read = True
        file.read = None
        file.problems = None
        if file.is_python:
            tree = tree_of(file.text) if len(file.text) <= LONGEST_FILE else None
            file.tree = tree or file.tree
            return
        file.tree = None
        if file.is_cell:
            file.read = read_cell(file.text)
        elif len(file.text) <= LONGEST_FILE:
            language = recognized_language(file.text.removeprefix("\ufeff"))
            file.read = read_file_text(file.text, language, file.name) if language else None

    def _register(self) -> set[str] | None:
        """Register the definitions of all texts, and return the names whose meaning has changed;
        None: any name may have changed."""
        python = [file.tree for file in self.files.values() if file.tree is not None]
        is_same_python = _are_same(python, self._python)
        if is_same_python:
            self.registry = self.registry.without("flows", "schemas")
            self.targets = {
                (kind, name): target
                for (kind, name), target in self.targets.items()
                if kind != "flow"
            }
        else:
            self._python = python
            self.registry = new_registry()
            self.targets = {}
            self._scan()
        offers = dict[str, object]()
        for file in self.files.values():
            for name, defined in self._define(file):
                offers[name] = defined
        before = self._offers
        self._offers = offers
        if not is_same_python:
            return None
        return {
            name
            for name in before.keys() | offers.keys()
            if before.get(name) is not offers.get(name)
        }

    def _scan(self) -> None:
        """Register the tools and agents of the Python texts."""
        python = [file for file in self.files.values() if file.tree is not None]
        self.is_complete = not any(_REGISTERS.search(file.text) for file in python if file.is_cell)
        # The cells of a notebook are one program: the import is in the first one.
        cells = [file for file in python if file.is_cell and not is_file(file.text)]
        for program in [*([file] for file in python if file not in cells), cells]:
            trees = [file.tree for file in program if file.tree is not None]
            for registered in scan_program(trees, self.registry):
                name = registered.name
                self.is_complete &= name is not None
                if name is not None:
                    kind = "agent" if registered.kind == "model_agent" else registered.kind
                    self.targets[kind, name] = _target(program[registered.part], registered)

    def _define(self, file: WrittenFile) -> Iterator[tuple[str, object]]:
        """Register the schemas and the flow of a text; gives the name and the value of each."""
        read = file.read
        if read is None or read.is_run or read.written.is_refused:
            return
        for schema in read.written.schemas.values():
            self.registry.schemas.define(schema, file.uri)
            yield schema.name, schema
        flow = read.written.flow
        if flow is None or not (flow.name or read.name):
            return
        if not flow.name:
            flow = replace(flow, name=read.name or "")
        with suppress(AgfError):
            self.registry.flows.define(flow, file.uri)
        span = flow.origin.span
        start, end = (span.start, span.end) if span and span.source is read.sources[0] else (0, 0)
        self.targets["flow", flow.name] = Target(
            file.uri, start + read.definition_start, end + read.definition_start
        )
        yield flow.name, read.written.flow

    def _problems(self, file: WrittenFile) -> list[PlacedProblem]:
        if file.read is None:
            return []
        return places_of(file.read, self.registry)

    def is_certain(self, problem: PlacedProblem) -> bool:
        """Whether a kernel would report the problem, too. It might not if the running program
        registers things that the scan cannot see, and the code is in `ONLY_A_KERNEL_KNOWS`."""
        return self.is_complete or problem.diagnostic.code not in ONLY_A_KERNEL_KNOWS


def _has_any(file: WrittenFile, names: set[str]) -> bool:
    """Whether a text may use one of ``names``. Whole words are compared, because a flow may be
    called ``p``."""
    return any(_has_word(file.text, name) for name in names)


def _has_word(text: str, word: str) -> bool:
    start = text.find(word)
    while start >= 0:
        end = start + len(word)
        sides = (text[start - 1 : start], text[end : end + 1])
        if not any(side.isalnum() or side == "_" for side in sides):
            return True
        start = text.find(word, end + 1)
    return False


def _target(file: WrittenFile, registered: Registered) -> Target:
    """The place of a name in the text that registers it."""
    lines = file.text.split("\n")
    if registered.line >= len(lines):  # the tree belongs to an older text
        return Target(file.uri, 0, 0)
    start = sum(len(line) + 1 for line in lines[: registered.line])
    before = lines[registered.line].encode("utf-8", "surrogatepass")[: registered.column]
    start += len(before.decode("utf-8", "ignore"))
    return Target(file.uri, start, start + registered.width)


def _are_same(some: Sequence[object], others: Sequence[object] | None) -> bool:
    """Whether these are the same objects."""
    return others is not None and [*map(id, some)] == [*map(id, others)]


def new_registry() -> Registry:
    """A registry with the built-in things of each kernel, none of which can be called."""
    registry = Registry()
    install(registry, folder=Path, allow_shell=lambda: False)
    registry.configured = lambda: (current.settings.model, current.settings.model_base_url)
    return registry
