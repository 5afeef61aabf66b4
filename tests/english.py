"""How often the prose of the project uses words that a reader of technical English stumbles over, per 10,000 words.

``python -m tests.english`` prints the rates of each area and of each file, the worst first; with paths it prints each
use with its line; with ``--lower`` it writes today's rates to ``english_maximum.json`` where they are lower than the
maximum there. Areas are the messages, the docstrings (with comments), the documentation pages and the notebooks.
"""

from __future__ import annotations

import ast
import io
import json
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from math import ceil
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
MAXIMUM = Path(__file__).with_name("english_maximum.json")
GOAL = 5
"""Uses of a pattern per 10,000 words that every area is to reach in the end."""

PATTERNS: Mapping[str, re.Pattern[str]] = {
    name: re.compile(pattern, re.IGNORECASE)
    for name, pattern in {
        "stands": r"\b(?:stands?|stood|standing)\b(?!-| alone)",
        "what is": r"\bwhat (?:is|was|are|were|has|had|can|cannot|must|may|does|did)\b(?! (?:it|this|that)\?)",
        "nobody": r"\b(?:nobody|whoever|somebody|anybody)\b",
        "told": r"\b(?:told|tells|said)\b",
        "kept": r"\bkept\b",
        "is no": r"(?<!\bthere )\b(?:is|are|was|were) no (?!longer\b|more\b)\w+",
        "take up": r"\b(?:take|takes|taken|took|taking) (?:(?:it|them|this|one|a run) )?(?:up|over)\b",
        "beside": r"\bbeside\b",
        "behind": r"\bbehind\b",
        "mend": r"\bmend(?:s|ed|ing)?\b",
        "begun": r"\bbegun\b",
        "go on": r"\b(?:go|goes|going|went|gone) on\b",
        "come to its end": r"\b(?:come|comes|came|coming) to (?:its|an|their|the) end\b",
    }.items()
}
"""One name and one pattern for each habit; an allowed use is an exception inside the pattern."""

WORD = re.compile(r"[A-Za-z][A-Za-z'’-]*")
FENCE = re.compile(r"^(?P<fence>```+|:::+).*?^(?P=fence)\s*$", re.MULTILINE | re.DOTALL)
GENERATED = re.compile(r"^<!-- generated: .*?^<!-- end of generated -->$", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"``[^`]+``|`[^`\n]+`|\]\([^)\s]*\)|<!--.*?-->|^\([\w.-]+\)=$", re.MULTILINE | re.DOTALL)
SENTENCE = 3
"""A string of code is prose from so many words on."""


class Prose(NamedTuple):
    """A piece of text and the line of its file that it begins on."""

    line: int
    text: str


class Use(NamedTuple):
    """One use of a pattern."""

    pattern: str
    line: int
    text: str


def uses(prose: Iterable[Prose]) -> Iterator[Use]:
    """Each use of a pattern, with its line."""
    for line, text in prose:
        for name, pattern in PATTERNS.items():
            for found in pattern.finditer(text):
                around = text[max(0, found.start() - 40) : found.end() + 40].replace("\n", " ")
                yield Use(name, line + text.count("\n", 0, found.start()), around)


def words(prose: Iterable[Prose]) -> int:
    return sum(len(WORD.findall(text)) for _, text in prose)


def rates(counts: Mapping[str, int], size: int) -> dict[str, float]:
    """Uses per 10,000 words, for every pattern.

    >>> rates({"kept": 3}, 20_000)["kept"]
    1.5
    """
    return {name: 10_000 * counts.get(name, 0) / max(1, size) for name in PATTERNS}


# --- what is prose in a file ---


def page(text: str) -> list[Prose]:
    """A Markdown page without code and without its generated parts (the code is their place); the lines remain."""
    for code in (GENERATED, FENCE, CODE):
        text = code.sub(lambda found: " x " + "\n" * found[0].count("\n"), text)
    return [Prose(1, text)]


def notebook(text: str) -> list[Prose]:
    """The Markdown cells; a line is counted within its cell."""
    cells = json.loads(text)["cells"]
    return [prose for cell in cells if cell["cell_type"] == "markdown" for prose in page("".join(cell["source"]))]


def docstrings(text: str) -> list[Prose]:
    """The strings that are statements of their own, and the comments."""
    found = [
        Prose(node.lineno, CODE.sub(" x ", node.value.value))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            found.append(Prose(token.start[0], CODE.sub(" x ", token.string)))
    return found


def messages(text: str) -> list[Prose]:
    """The other strings of some words: errors, hints, help. A value in an f-string counts as one word."""
    tree = ast.parse(text)
    aside = {id(part) for node in ast.walk(tree) for part in _parts(node)}
    found = []
    for node in ast.walk(tree):
        if id(node) in aside or not isinstance(node, ast.Constant | ast.JoinedStr):
            continue
        shown = _text(node)
        if len(WORD.findall(shown)) >= SENTENCE:
            found.append(Prose(node.lineno, CODE.sub(" x ", shown)))
    return found


def _parts(node: ast.AST) -> Iterator[ast.AST]:
    """The strings that are no message of their own: docstrings, and the parts of an f-string."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        yield node.value
    if isinstance(node, ast.JoinedStr):
        yield from (part for part in node.values if isinstance(part, ast.Constant))
        yield from (spec for part in node.values if isinstance(part, ast.FormattedValue) and (spec := part.format_spec))


def _text(node: ast.Constant | ast.JoinedStr) -> str:
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    return "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in node.values)


# --- the areas ---


def areas() -> dict[str, dict[str, list[Prose]]]:
    """The prose of each file, by area."""
    code = sorted((ROOT / "agf_magics").rglob("*.py"))
    pages = [*ROOT.glob("*.md"), *(path for path in (ROOT / "docs").rglob("*.md") if "notebooks" not in path.parts)]
    readers = {
        "messages": (messages, code),
        "docstrings": (docstrings, code),
        "docs": (page, sorted(pages)),
        "notebooks": (notebook, sorted((ROOT / "notebooks").glob("*.ipynb"))),
    }
    return {
        area: {path.relative_to(ROOT).as_posix(): read(path.read_text(encoding="utf-8")) for path in paths}
        for area, (read, paths) in readers.items()
    }


def measured(files: Mapping[str, list[Prose]]) -> dict[str, float]:
    """The rates of an area."""
    prose = [piece for pieces in files.values() for piece in pieces]
    return rates(Counter(use.pattern for use in uses(prose)), words(prose))


def lower(
    maximum: Mapping[str, Mapping[str, int]], now: Mapping[str, Mapping[str, float]]
) -> dict[str, dict[str, int]]:
    """The maximum of each area and pattern, lowered to today's rate (rounded up) but not below the goal.

    >>> lower({"docs": {"kept": 9}}, {"docs": {"kept": 7.1, "beside": 0.5}})
    {'docs': {'kept': 8, 'beside': 5}}
    """
    return {
        area: {
            name: max(GOAL, min(ceil(rate), maximum.get(area, {}).get(name, ceil(rate))))
            for name, rate in found.items()
        }
        for area, found in now.items()
    }


def main(arguments: list[str]) -> None:
    found = areas()
    if paths := [one for one in arguments if not one.startswith("-")]:
        for path in paths:
            name = Path(path).resolve().relative_to(ROOT).as_posix()
            for area, files in found.items():
                for use in sorted(uses(files.get(name, [])), key=lambda use: use.line):
                    print(f"{name}:{use.line}: {use.pattern} ({area}): …{use.text}…")
        return
    now = {area: measured(files) for area, files in found.items()}
    if "--lower" in arguments:
        old = json.loads(MAXIMUM.read_text(encoding="utf-8")) if MAXIMUM.exists() else {}
        MAXIMUM.write_text(json.dumps(lower(old, now), indent=1) + "\n", encoding="utf-8")
    for area, files in found.items():
        print(f"\n{area}: {sum(now[area].values()):.1f} per 10,000 words")
        print("  " + ", ".join(f"{name} {rate:.1f}" for name, rate in now[area].items() if rate))
        counted = {name: Counter(use.pattern for use in uses(pieces)) for name, pieces in files.items()}
        for name, counts in sorted(counted.items(), key=lambda item: -item[1].total()):
            if counts:
                print(f"{counts.total():5}  {name}  ({', '.join(f'{k} {v}' for k, v in counts.most_common())})")


if __name__ == "__main__":
    main(sys.argv[1:])
