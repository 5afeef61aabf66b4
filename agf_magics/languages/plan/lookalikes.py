"""Text in a plan that looks like a reference and is none: what to write instead (decision P21)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from contextlib import suppress
from typing import Literal, NamedTuple

from ...text.diagnostics import DefinitionError
from ...text.source import Source, Span
from ...text.suggestions import join_hints
from ...text.yaml.nodes import Scalar
from .log.reference import DAGGER, KIND, parse

_LONGEST = 200
"""The most characters of a text that may be a whole reference without its sign."""

_PATH = re.compile(r"(?<![\w.'\"†$-])([A-Za-z_][A-Za-z0-9_-]*)\.([^\s.|&()\[\]'\"†{}]+)")
_NAMES = rf"({KIND.pattern})\.([^\s.|&()\[\]'\"†{{}}]++)([^\s|&()'\"†{{}}]*+)"
_PART = re.compile(rf"(?:\{{\s*+[†$]?+|[†$]){_NAMES}(?>(?:\s*+\}}{{1,2}})?)")
_COMPUTES = re.compile(rf"(?<!\S){_NAMES}\s++(?:[-+*/%<>]|[=!<>]=)\s")
_UNKNOWN = re.compile(rf"\s*+\$({KIND.pattern})((?>(?:\.[^\s.|&()\[\]]++)*))\s*+(?=\Z|\[|\|\||&&)")
"""A whole reference, or the first one of a fallback."""
_FOREIGN = re.compile(r"\s*\$?\{\{[^{}]*\}\}\s*|\s*\$\{[^{}]*\}\s*")
"""A variable in the notation of GitHub Actions, of Jinja or of a shell."""
_PUNCTUATION = ".,;:!?"


class Suspect(NamedTuple):
    """A text that may be meant as a reference."""

    reference: str
    """As it should be written."""
    kind: str
    first: str
    """The first part of its path."""
    form: Literal["whole", "part", "computed", "kind"]
    """Whether the text is nothing else, contains other text, is an arithmetic expression, or begins
    with a sign and a kind that does not exist."""
    marked: bool
    """Whether it has braces or a sign, or is in the output: ``input.word`` may be the name of a
    file, and ``$HOME`` a text."""
    text: str
    span: Span


def find_suspects(node: Scalar, kinds: Collection[str], sign: str) -> Iterator[Suspect]:
    """What in a text may be meant as a reference (decision P21)."""
    text = node.text
    if unknown := _UNKNOWN.match(text):
        kind, path = unknown.groups()
        span = node.locate(unknown.start(1) - 1, unknown.end(2))
        yield Suspect(f"{kind}{path}", kind, path, "kind", bool(path), text, span)
        return
    inner = text.strip()
    braces = inner.startswith(("{", "${")) and inner.endswith("}")
    inner = inner.strip("${} \t\n").lstrip(DAGGER) if braces else text
    match = _PATH.search(inner) if 2 < len(inner) <= _LONGEST else None
    if match is not None and match[1] in kinds and not inner[: match.start()].strip("( "):
        reference = _PATH.sub(rf"{re.escape(sign)}\g<0>".replace("\\$", "$"), inner)
        with suppress(DefinitionError):
            parse(Source("", reference).span())
            yield Suspect(reference, match[1], match[2], "whole", braces, text, node.span)
            return
    if match is not None and match[1] not in kinds and _FOREIGN.fullmatch(text):
        yield Suspect(
            inner,
            match[1],
            match[2],
            "kind",
            marked=True,
            text=text,
            span=node.locate(0, len(text)),
        )
        return
    computed = _COMPUTES.match(text)
    for part in (computed,) if computed else _PART.finditer(text):
        if part[1] in kinds:
            path, first = (part[2] + part[3]).rstrip(_PUNCTUATION), part[2].rstrip(_PUNCTUATION)
            span = node.locate(part.start(), part.end(3) if computed else part.end())
            form: Literal["part", "computed"] = "computed" if computed else "part"
            yield Suspect(f"{sign}{part[1]}.{path}", part[1], first, form, not computed, text, span)


def suspect_hint(hint: str | None, text: str) -> str | None:
    """A hint, and for a sentence how to write text that begins with a sign."""
    if not re.search(r"\s", text.strip()) or re.search(r"[|&]|^\s*[†$]\S+\s+[-+*/%<>=!]", text):
        return hint
    start = text.strip()[:20]
    return join_hints(hint, f"double the sign of a text that begins with one: {start[:1]}{start}…")
