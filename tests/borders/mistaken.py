"""Replays mistakes of users, as cells, files and commands in order, and collects all messages about them.

To try a hint, the same is replayed with one of these parts changed.
"""

from __future__ import annotations

import contextlib
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import metadata
from pathlib import Path
from typing import Any, NamedTuple

from packaging.requirements import Requirement

import agf_magics as agf
from agf_magics.catalog import default
from agf_magics.lifecycle.definitions.checking import check_definition
from agf_magics.text.source import Source
from tests.borders.hint_texts import Piece, pieces
from tests.borders.pasting import closed, pasted, removed
from tests.doc_pages import ERRORS, RUN_ID, Block, Finding, Session, Shell, blocks, entries, session
from tests.notebook.test_mistakes import CONTINUATION, ROWS, TOOLS, unwrapped
from tests.processes import command_line

FINDING = re.compile(
    r"^(?:(?P<kind>[A-Z]\w*|[Ww]arning|[Nn]ote|agf-magics(?: \w+)?: error): )?[^\n]*\[(?P<code>[a-z0-9]+\.[a-z-]+)\]"
    r"(?P<rest>(?:\n +.*)*)",
    re.MULTILINE,
)
HINT = re.compile(r"^ *= (?P<hint>.*(?:\n {4}\S.*)*)", re.MULTILINE)
PLACE = re.compile(
    r"^ *--> (?P<name>.+), line (?P<line>\d+), column (?P<column>\d+)\n(?:.*\n)?.*?(?P<carets>\^+)?$", re.MULTILINE
)


class Said(NamedTuple):
    """A message as a user sees it: what it is, its hint, and the part and the place that it is about."""

    code: str
    hint: str
    message: str = ""
    severity: str = "error"
    part: int | None = None
    """The number of the part. None means that the message has no place in a part; ``start`` and ``end`` are 0 then."""
    start: int = 0
    end: int = 0

    @property
    def is_note(self) -> bool:
        return self.severity == "note"


class Case(NamedTuple):
    """A mistake of a page: the blocks that a user runs one after another, and what is reported."""

    title: str
    parts: tuple[Block, ...]
    first: int
    """The number of the first parts, which are right and only prepare the mistake."""
    shown: str
    """All messages, as a user sees them."""

    @property
    def hints(self) -> set[tuple[str, str]]:
        """The codes and hints of the messages."""
        return {
            (match["code"], hint["hint"])
            for match in FINDING.finditer(self.shown)
            for hint in HINT.finditer(match["rest"])
        } | {(match["kind"], match["message"]) for match in RAISED.finditer(self.shown) if "[" not in match["message"]}


RAISED = re.compile(
    r"^(?P<kind>(?!StepError|DefinitionError)[A-Z]\w+Error): (?P<message>(?!.*\[[a-z0-9]+\.[a-z-]+\]$).*)$",
    re.MULTILINE,
)
"""A mistake in a Python call whose message says what to write."""


def cases() -> Iterator[Case]:
    """The mistakes of the vectors and the examples of the error pages."""
    for row in ROWS:
        before = [
            Block("python", f"from agf_magics import agent, tool\n{TOOLS}", 0),
            *(Block("python", cell, 0) for cell in row.get("setup", ())),
        ]
        if "argv" in row:
            files = [Block("text", text, 0, "file", name) for name, text in row.get("files", {}).items()]
            parts = [*files, Block("command", shlex.join(["agf-magics", *row["argv"]]), 0)]
            yield Case(row["title"], tuple(parts), 0, unwrapped(row["says"]))
        else:
            parts = [*before, Block("python", row["cell"], 0)]
            yield Case(row["title"], tuple(parts), len(before), unwrapped(row["says"]))
    for page in sorted(ERRORS.glob("*.md")):
        for entry in entries(page.read_text("utf-8")):
            before = [block for block in blocks(entry.top) if block.language != "text"]
            parts = [block for block in blocks(entry.text) if block.language != "text" or block.aside == "file"]
            texts = [block.text for block in blocks(entry.text) if block.language == "text" and not block.aside]
            yield Case(entry.code, (*before, *parts), len(before), "\n".join(texts))


class Reader(Session):
    """A reader who also calls the command line and makes mistakes in calls of Python."""

    def failed(self, error: BaseException, block: Block) -> None:
        diagnostics = (
            getattr(error, "diagnostics", None) or getattr(error, "diagnostic", None) or getattr(error, "run", None)
        )
        if diagnostics:
            super().failed(error, block)
        else:
            self.report("error of Python", agf.Diagnostic(type(error).__name__, str(error)))

    def command(self, block: Block) -> None:
        completed = command_line(Path.cwd(), *shlex.split(block.text)[1:])
        self.printed.append((completed.stdout + completed.stderr).replace(f"{Path.cwd()}/", ""))


def messages_of(case: Case, shell: Shell) -> list[Said]:
    """All messages about a case after its preparing parts, in a new folder."""
    messages: list[Said] = []
    with reading(shell) as reader:
        for number, block in enumerate(case.parts):
            new = messages_about(reader, block, case.parts[: number + 1])
            messages += new if number >= case.first else ()
    return messages


@contextlib.contextmanager
def reading(shell: Shell) -> Iterator[Reader]:
    with session(shell) as plain:
        yield Reader(plain.shell)


def messages_about(reader: Reader, block: Block, parts: Sequence[Block]) -> list[Said]:
    """All messages about the last of ``parts``."""
    if block.language == "command":
        reader.command(block)
    else:
        reader.read(block)
    findings, printed = reader.results()
    known_codes = {finding.diagnostic.code for finding in findings}
    for match in FINDING.finditer(CONTINUATION.sub(" ", printed)):
        kind = (match["kind"] or "").lower()
        if match["code"] not in known_codes and (kind in ("note", "warning") or block.language == "command"):
            severity: Any = kind if kind in ("note", "warning") else "error"
            findings.append(Finding("printed", agf.Diagnostic(match["code"], "", severity=severity), match[0]))
    return [_said(finding.diagnostic, finding.text, parts) for finding in findings]


def _said(diagnostic: agf.Diagnostic, text: str, parts: Sequence[Block]) -> Said:
    place: tuple[int, ...] = ()
    if diagnostic.span is not None:
        source = diagnostic.span.source.text.rstrip()
        for number in reversed(range(len(parts))):
            start = parts[number].text.find(source)
            if start >= 0 and source:
                place = (number, start + diagnostic.span.start, start + diagnostic.span.end)
                break
    else:
        place = _place(text, parts) or ()
    message = diagnostic.message or text.partition(" [")[0]
    hint = diagnostic.hint or "\n".join(match["hint"] for match in HINT.finditer(text))
    if "." not in diagnostic.code:
        hint = message
    return Said(diagnostic.code, hint, message, diagnostic.severity, *place)


def _place(text: str, parts: Sequence[Block]) -> tuple[int, int, int] | None:
    """The place of the carets of a printed message."""
    place = PLACE.search(text)
    if place is None:
        return None
    for number in reversed(range(len(parts))):
        if place["name"] == parts[number].name or parts[number].language != "text":
            lines = parts[number].text.split("\n")
            if int(place["line"]) > len(lines):
                continue
            start = sum(len(line) + 1 for line in lines[: int(place["line"]) - 1]) + int(place["column"]) - 1
            return number, start, start + len(place["carets"] or "^")
    return None


def codes(messages: Iterable[Said]) -> Counter[str]:
    return Counter(message.code for message in messages)


def tried(message: Said, piece: Piece, parts: tuple[Block, ...]) -> Iterator[tuple[Block, ...]]:
    """The parts after the hint was followed, once for each place that a reader would choose."""
    if piece.do == "before":
        yield (*parts[:-1], Block("python", piece.text, 0), parts[-1])
        return
    texts = {part.text for part in parts}
    named = " ".join([piece.text, *NAMED.findall(message.message)])
    for number, start, end in places(message, parts):
        text = parts[number].text
        if piece.do == "remove":
            several = removed(text, start, end, named)
        elif piece.do == "close":
            several = closed(text, piece.text)
        else:
            several = pasted(text, start, end, piece.text)
        for changed in several:
            if changed not in texts:
                texts.add(changed)
                yield (*parts[:number], parts[number]._replace(text=changed), *parts[number + 1 :])
    for number, part in enumerate(parts):
        for name in NAMED.findall(message.message) if piece.do == "rename" else ():
            yield (*parts[:number], part._replace(text=part.text.replace(name, piece.text)), *parts[number + 1 :])


NAMED = re.compile(r"'([^']+)'")


def places(message: Said, parts: tuple[Block, ...]) -> Iterator[tuple[int, int, int]]:
    """Each part and place that a message is about: the places of the names in it, and of its caret."""
    for name in NAMED.findall(message.message):
        for number in reversed(range(len(parts))):
            for match in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", parts[number].text):
                yield number, match.start(), match.end()
    if message.part is not None:
        yield message.part, message.start, message.end
    yield len(parts) - 1, 0, len(parts[-1].text)


LATER = (
    "flow.unknown-flow",
    "flow.unknown-tool",
    "flow.unknown-agent",
    "flow.no-agent",
    "flow.unknown-field-given",
    "flow.missing-argument",
    "file.missing",
    "run.missing-input",
    "run.unused-input",
    "model.no-key",
    "model.no-server",
    "graph.undeclared-key",
    "magic.missing",
    "magic.unknown-flow",
)
"""The codes that are reported only for a definition without errors whose line has no error. (No server answers a
test.)"""


def is_cured(message: Said, piece: Piece, before: list[Said], after: list[Said]) -> bool:
    """Whether one fewer such mistake is left, and no new one."""
    old_codes, now = codes(before), codes(after)
    if piece.do in ("choose", "fill"):  # another value may need more changes, so only this mistake must be gone
        return not any(
            message_after.code == message.code and message_after.message == message.message for message_after in after
        )
    new_codes = codes(message_after for message_after in after if not message_after.is_note) - old_codes
    if message.code.startswith("yaml."):  # only correct YAML is checked by its language
        new_codes = Counter({code: number for code, number in new_codes.items() if code.startswith("yaml.")})
    if any(message_after.severity == "error" for message_after in before):
        for code in LATER:
            del new_codes[code]
    return not new_codes and now[message.code] < old_codes[message.code]


ELSEWHERE = ("before", "show", "install")
"""What a user does without a change of the text."""


class Tried(NamedTuple):
    seen: set[tuple[str, str]]
    """The codes and texts of the hints that were tried."""
    wrong: list[str]
    """The hints that cure in none of the places that a reader would choose."""


def tried_in(case: Case, shell: Shell) -> Tried:
    """Try all hints of a case: hints about definitions by a new definition, the others by a replay of all parts."""
    messages: list[Said] = []
    seen: set[tuple[str, str]] = set()
    failed: list[str] = []
    elsewhere: dict[tuple[str, str], list[str]] = {}
    """The mistakes that no change of the cell cures."""
    with reading(shell) as reader:
        for number, block in enumerate(case.parts):
            cell = cell_of(block.text)
            if cell and number >= case.first:
                before = cell.said(cell.text)
                for message in before:
                    reachable = [piece for piece in pieces(message.hint) if piece.do not in ELSEWHERE]
                    if (message.code, message.hint) not in seen and reachable:
                        failures = wrong(message, reachable, (block._replace(text=cell.text),), before, cell.again)
                        if failures:
                            elsewhere[message.code, message.hint] = failures
                        else:
                            seen.add((message.code, message.hint))
            new = messages_about(reader, block, case.parts[: number + 1])
            messages += new if number >= case.first else ()
            for message in new if number >= case.first else ():
                failed += [
                    f"{message.code}: {piece.text}" for piece in pieces(message.hint) if not is_right(piece, reader)
                ]

    def again(parts: tuple[Block, ...]) -> list[Said]:
        return messages_of(case._replace(parts=parts, first=len(parts) - len(case.parts) + case.first), shell)

    for message in messages:
        if (message.code, message.hint) not in seen:
            seen.add((message.code, message.hint))
            elsewhere.pop((message.code, message.hint), None)
            reachable = [piece for piece in pieces(message.hint) if piece.do not in ("show", "install")]
            failed += wrong(message, reachable, case.parts, messages, again)
    failed += [failure for failures in elsewhere.values() for failure in failures]
    seen.update(elsewhere)
    return Tried({(code, RUN_ID.sub(r"\1-1-4f2a1b", hint)) for code, hint in seen}, failed)


def is_right(piece: Piece, reader: Reader) -> bool:
    """Whether a line that shows something works, and whether a package to install exists."""
    if piece.do == "show":
        reader.read(Block("python", piece.text, 0))
        return not any(finding.when.startswith("error") for finding in reader.results()[0])
    if piece.do == "install":
        requirement = Requirement(piece.text.removeprefix("pip install ").strip("\"'"))
        return requirement.extras <= set(metadata(requirement.name).get_all("Provides-Extra") or ())
    return True


def wrong(
    message: Said,
    said_to: list[Piece],
    parts: tuple[Block, ...],
    before: list[Said],
    again: Callable[[tuple[Block, ...]], list[Said]],
) -> list[str]:
    """The texts of a hint that do not cure. ``again`` replays the case with changed parts."""
    failed = []
    for piece in said_to:
        several = [piece._replace(text=choice) for choice in piece.choices] if piece.do == "choose" else [piece]
        if len(parts) > 1:  # a replay is slow, so only the first and the last choice are tried
            several = list(dict.fromkeys([several[0], several[-1]]))
        for other_message in several:
            if not any(
                is_cured(message, other_message, before, again(changed))
                for changed in tried(message, other_message, parts)
            ):
                failed.append(f"{message.code}: {message.hint} | {other_message.do}: {other_message.text}")
    return failed


class Cell(NamedTuple):
    """A cell that defines something."""

    language: str
    name: str | None
    """The name in the line of its magic; None if the line has none."""
    text: str
    latent: tuple[str, ...]
    """The names of the tools that the cell declares as latent."""

    def again(self, parts: tuple[Block, ...]) -> list[Said]:
        """The messages about the cell with a changed text."""
        return self.said(parts[0].text)

    def said(self, text: str) -> list[Said]:
        """The messages about a definition of this text."""
        try:
            diagnostics: Iterable[agf.Diagnostic] = check_definition(
                Source("cell", text),
                self.language,
                strict=False,
                registry=default(),
                latent=self.latent,
                name=self.name,
            ).problems
        except agf.DefinitionError as error:
            diagnostics = error.diagnostics
        return [
            Said(
                diagnostic.code,
                diagnostic.hint or "",
                diagnostic.message,
                diagnostic.severity,
                *(
                    (0, diagnostic.span.start, diagnostic.span.end)
                    if diagnostic.span and diagnostic.span.source.name == "cell"
                    else ()
                ),
            )
            for diagnostic in diagnostics
        ]


MAGIC = re.compile(r"%%(pipeline|policy|plan|graph)(?: (?!-)(\S+))?([^\n]*)\n")


def cell_of(text: str) -> Cell | None:
    magic = MAGIC.match(text)
    if magic is None or "--planner" in magic[3]:  # the cell of a planner is not a plan
        return None
    return Cell(magic[1], magic[2], text[magic.end() :], tuple(re.findall(r"--latent (\w+)", magic[0])))
