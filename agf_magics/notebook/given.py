"""What the words of a line stand for: objects of the notebook, YAML values, files. Nothing is ever pasted as text."""

from __future__ import annotations

import keyword
from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from ..lifecycle import past_runs as kept_runs
from ..text.diagnostics import DefinitionError, Diagnostic, Diagnostics, hints, suggest
from ..text.source import UNUSABLE, Source, why
from ..text.yamlnodes import Items, Scalar, documents, plain
from .options import ParsedLine, Token, wrong

T = TypeVar("T")

MOST_FILES = 1_000
"""Files of a folder that are looked through for one of nearly that name."""


def inputs(said: ParsedLine, names: Mapping[str, Any]) -> dict[str, Any]:
    """The input that ``--input`` and ``--set`` make, the latter on top."""
    whole = said.word("--input")
    found = dict(_mapping(whole, names)) if whole else {}
    for word in said.words("--set"):
        key, equals, _ = word.text.partition("=")
        if not equals or not key.isidentifier():
            wrong("set", f"--set takes key=value, not {word.text!r}", word.span,
                   "write --set doc=text, --set doc=$variable or --set 'tags=[a, b]'")  # fmt: skip
        found[key] = value(word.part(len(key) + 1, len(word.text)), names)
    return found


def misread(said: ParsedLine, names: Mapping[str, Any]) -> tuple[Diagnostic, ...]:
    """Texts that read as if a variable of that name had been meant."""
    found = []
    for word in said.words("--set"):
        key, _, text = word.text.partition("=")
        if text in names and not text.startswith("_") and value(word.part(len(key) + 1, len(word.text)), names) == text:
            meant, span = names[text], word.locate(len(key) + 1, len(word.text))
            says_so = span.source.text[span.start - 1 : span.start] in ("'", '"') or text in ("In", "Out")
            if not says_so and not callable(meant) and not isinstance(meant, ModuleType):
                message = f"{key} is the text {text!r}, and there is a variable of that name"
                hint = f"--set {key}=${text} passes the variable"
                found.append(Diagnostic("magic.text", message, span, hint, "warning"))
    return tuple(found)


def near_file(text: str) -> str:
    """What to say of a file that is not there."""
    path = Path(text)
    try:
        others = [str(path.with_name(one.name)) for one in islice(path.parent.iterdir(), MOST_FILES) if one.is_file()]
    except UNUSABLE:
        others = []
    near = suggest(text, others)
    return hints(near, "a path is relative to the notebook's folder") or ""


def value(word: Token, names: Mapping[str, Any]) -> Any:
    """``$name`` is the object of that name; brackets or quotes begin YAML; anything else is one YAML scalar."""
    text = word.text
    if text.startswith("$") and text[1:2].isidentifier():
        return lookup(word.part(1, len(text)), names)
    if not text:
        return ""  # whoever writes name='' means the empty text; YAML would say null
    problems = Diagnostics()
    lead = "- "  # an element of a list: a document that is null would be none
    nodes = documents(Source("", lead + text), problems)
    if text[:1] in ("{", "[", '"', "'"):
        for problem in problems.errors:
            start, end = (problem.span.start, problem.span.end) if problem.span else (0, len(text))
            span = word.locate(max(0, start - len(lead)), max(0, end - len(lead)))
            raise DefinitionError(Diagnostic(problem.code, problem.message, span, problem.hint))
        return plain(nodes[0])[0]
    if not problems.errors and len(nodes) == 1 and isinstance(nodes[0], Items) and len(nodes[0].items) == 1:
        node = nodes[0].items[0]
        # `a: b`, `# c` and `*d` are YAML too, but whoever writes them here means the text.
        if isinstance(node, Scalar) and node.text == text and node.tag is None:
            return node.value
    return text


def lookup(word: Token, names: Mapping[str, Any]) -> Any:
    """The notebook's object of that name."""
    name = word.text
    if not name.isidentifier():
        hint = "give the value a name of its own first; a text that begins with $ is quoted twice: '\"$a\"'"
        wrong("variable", f"only a name may follow $, not {name!r}", word.span, hint)
    if name not in names:
        yours = [known for known in names if not known.startswith("_")]
        wrong("unknown-variable", f"there is no variable {name!r} in the notebook", word.span,
               suggest(name, yours) or "run the cell that sets it first")  # fmt: skip
    return names[name]


def new_name(word: Token) -> str:
    """A name that a variable can have."""
    if not word.text.isidentifier() or keyword.iskeyword(word.text):
        wrong("name", f"{word.text!r} cannot be the name of a variable", word.span, "a name is letters, digits and _")
    return word.text


def seconds(word: Token) -> float:
    try:
        found = float(word.text)
    except ValueError:
        found = -1.0
    if not 0 < found < float("inf"):
        wrong("seconds", f"{word.text!r} is no time", word.span, "write seconds, as in 30 or 0.5")
    return found


def number(word: Token) -> float:
    """A number of days."""
    try:
        found = float(word.text)
    except ValueError:
        found = -1.0
    if not 0 <= found < float("inf"):
        wrong("days", f"{word.text!r} is no number of days", word.span, "write days, as in 30 or 0.5")
    return found


def count(word: Token) -> int:
    """A whole number, 0 or more."""
    if not (word.text.isascii() and word.text.isdigit() and len(word.text) < 10):
        wrong("count", f"{word.text!r} is no whole number", word.span, "write one, as in 0 or 12")
    return int(word.text)


def _mapping(word: Token, names: Mapping[str, Any]) -> Mapping[str, Any]:
    if word.text.endswith((".json", ".yaml", ".yml")):
        found = _file(word)
    else:
        found = lookup(word.part(1, len(word.text)) if word.text.startswith("$") else word, names)
    if not isinstance(found, Mapping) or not all(isinstance(key, str) for key in found):
        wrong("input", f"{word.text!r} is not a mapping with text keys but {type(found).__name__}", word.span,
               "--input names a dict; a single value is given by --set key=$name")  # fmt: skip
    return found


def _file(word: Token) -> Any:
    path = Path(word.text)
    try:
        text = path.read_text(encoding="utf-8")
    except UNUSABLE as error:
        wrong("file", f"{word.text!r} cannot be read: {why(error)}", word.span, near_file(word.text))
    problems = Diagnostics()
    nodes = documents(Source(str(path), text), problems)
    problems.refuse()
    return plain(nodes[0]) if nodes else None


def reused(said: ParsedLine) -> bool | str:
    """Whose results are taken over: those of the run that is named, True for the last one."""
    word = said.word("--reuse")
    if word is None or word.text == "--reuse":
        return word is not None
    return at(word, lambda: kept_runs.past(word.text).run_id)


def at(word: Token, made: Callable[[], T]) -> T:
    """What ``made`` gives; what it refuses is said of this word."""
    try:
        return made()
    except DefinitionError as error:
        first, *others = error.diagnostics
    raise DefinitionError(replace(first, span=first.span or word.span), *others)
