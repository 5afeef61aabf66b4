"""Warns of text in a plan that looks like a reference but is text (decision P21)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Literal, NamedTuple

from ...text.diagnostics import DefinitionError
from ...text.source import Source, Span, Text
from ...text.suggestions import join_hints
from ...text.yaml.nodes import Scalar
from .log.reference import DAGGER, KIND, parse

_LONGEST = 200
"""The most characters of a text that may be a whole reference without its sign."""

_PATH = re.compile(r"(?<![\w.'\"†$-])([A-Za-z_][A-Za-z0-9_-]*)\.([^\s.|&()\[\]'\"†{}]+)")
"""A kind and the first part of a path, without a sign before them and not in quotes: ``state.user`` in
``state.user.name || 'nobody'``."""
_NAMES = rf"({KIND.pattern})\.([^\s.|&()\[\]'\"†{{}}]++)([^\s|&()'\"†{{}}]*+)"
"""A kind, the first part of its path and the rest: ``state``, ``user`` and ``.name``."""
_PART = re.compile(rf"(?:\{{\s*+[†$]?+|[†$]){_NAMES}(?>(?:\s*+\}}{{1,2}})?)")
"""A path with a sign or a brace before it: ``$state.user`` in ``for $state.user``, ``{state.user}``,
``{{ state.user }}`` without the first brace."""
_COMPUTES = re.compile(rf"{_NAMES}\s++(?:[-+*/%<>]|[=!<>]=)\s")
"""A path and an operator with space around it, at the beginning: ``state.n + 1``."""
_UNKNOWN = re.compile(rf"\s*+\$({KIND.pattern})((?>(?:\.[^\s.|&()\[\]]++)*))\s*+(?=\Z|\[|\|\||&&)")
"""The pattern of a whole reference, or of the first reference of a fallback: ``$result.x`` in
``$result.x || 0``."""
_FOREIGN = re.compile(r"\s*\$?\{\{[^{}]*\}\}\s*|\s*\$\{[^{}]*\}\s*")
"""A variable in the notation of GitHub Actions, of Jinja or of a shell: ``${{ env.KEY }}``,
``{{ user.name }}``, ``${HOME}``."""
_BRACED = re.compile(
    r"\s*+\$?\{{1,2}\s*+((?:[A-Za-z_][\w-]*+\.)?)([A-Za-z_][\w-]*+)\s*+\}{1,2}\s*+"
)
"""A placeholder of our other languages, or a name in braces: ``{ctx.text}``, ``{{ text }}``."""
_OPERATOR = re.compile(r"[|&]|^\s*[†$]\S+\s+[-+*/%<>=!]")
"""The pattern of an operator of references anywhere, or of a computation after a reference:
``$state.n + 1``."""
_PUNCTUATION = ".,;:!?"


class Suspect(NamedTuple):
    """A text that may be meant as a reference."""

    reference: str
    """The text to write instead."""
    kind: str
    """The kind that the reference would have."""
    first: str
    """The first part of the path."""
    form: Literal["whole", "part", "computed", "kind", "name"]
    """Whether the text is nothing else, contains other text, is an arithmetic expression, begins with a
    sign and a kind that does not exist, or is a name in braces without a kind of a plan."""
    marked: bool
    """Whether the text has braces or a sign, or is in the output. Otherwise ``input.word`` may be
    the name of a file, and ``$HOME`` a text."""
    text: str
    span: Span


def find_suspects(node: Scalar, kinds: Collection[str], sign: str) -> list[Suspect]:
    """The part of a text that may be meant as a reference (decision P21). ``kinds``: the existing
    kinds. ``sign``: the sign of the plan."""
    whole = _of_unknown_kind(node) or _without_sign(node, kinds, sign) or _foreign(node, kinds)
    if whole is not None:
        return [whole]
    if computed := _COMPUTES.match(node.text):
        return _parts(node, [computed], kinds, sign, "computed")
    return _parts(node, _PART.finditer(node.text), kinds, sign, "part")


def _of_unknown_kind(node: Text) -> Suspect | None:
    """A reference whose kind does not exist.

    >>> _of_unknown_kind(Source("", "$result.x || 0").span())
    Suspect(reference='result.x', kind='result', first='.x', form='kind', marked=True, \
text='$result.x || 0', span=<:0-9>)
    """
    match = _UNKNOWN.match(node.text)
    if match is None:
        return None
    kind, path = match.groups()
    span = node.locate(match.start(1) - 1, match.end(2))
    return Suspect(f"{kind}{path}", kind, path, "kind", bool(path), node.text, span)


def _without_sign(node: Scalar, kinds: Collection[str], sign: str) -> Suspect | None:
    """A text that is a whole reference as soon as it gets its signs.

    >>> text = "{state.user || input.user}"
    >>> _without_sign(Scalar(text, text, Source("", text).span()), ["state"], "$").reference
    '$state.user || $input.user'
    """
    inner = _without_braces(node.text)
    path = _first_path(inner)
    if path is None or path[1] not in kinds or inner[: path.start()].strip("( "):
        return None
    reference = _PATH.sub(lambda path: sign + path[0], inner)
    try:
        parse(Source("", reference).span())
    except DefinitionError:
        return None
    marked = inner != node.text
    return Suspect(reference, path[1], path[2], "whole", marked, node.text, node.span)


def _foreign(node: Text, kinds: Collection[str]) -> Suspect | None:
    """A variable in the notation of another language.

    >>> _foreign(Source("", "${{ env.KEY }}").span(), ["state"]).reference
    'env.KEY'
    """
    text = node.text
    inner = _without_braces(node.text)
    path = _first_path(inner)
    span = node.locate(0, len(text))
    braced = _BRACED.fullmatch(text) if len(text) <= _LONGEST else None
    if braced and braced[1].rstrip(".") not in kinds and not (path and _FOREIGN.fullmatch(text)):
        return Suspect(braced[2], "", braced[2], "name", marked=True, text=text, span=span)
    if path is None or path[1] in kinds or not _FOREIGN.fullmatch(text):
        return None
    return Suspect(inner, path[1], path[2], "kind", marked=True, text=text, span=span)


def _parts(
    node: Text,
    matches: Iterable[re.Match[str]],
    kinds: Collection[str],
    sign: str,
    form: Literal["part", "computed"],
) -> list[Suspect]:
    """The references inside other text, or the first reference of a computation.

    >>> def references(text, pattern, form):
    ...     node = Source("", text).span()
    ...     suspects = _parts(node, pattern.finditer(text), ["state"], "$", form)
    ...     return [(suspect.reference, suspect.span.text) for suspect in suspects]
    >>> references("from {state.city} to $state.goal.", _PART, "part")
    [('$state.city', '{state.city}'), ('$state.goal', '$state.goal.')]
    >>> references("state.n + 1", _COMPUTES, "computed")
    [('$state.n', 'state.n')]
    """
    suspects = []
    for match in matches:
        kind, first, rest = match.groups()
        if kind in kinds:
            path = (first + rest).rstrip(_PUNCTUATION)
            end = match.end(3) if form == "computed" else match.end()
            span = node.locate(match.start(), end)
            marked = form == "part"
            first = first.rstrip(_PUNCTUATION)
            suspects.append(
                Suspect(f"{sign}{kind}.{path}", kind, first, form, marked, node.text, span)
            )
    return suspects


def _without_braces(text: str) -> str:
    """The content of the text's braces, or the whole text if it is not in braces.

    >>> _without_braces("${{ env.KEY }}"), _without_braces("{†state.x}"), _without_braces("state.x ")
    ('env.KEY', 'state.x', 'state.x ')
    """
    stripped = text.strip()
    if stripped.startswith(("{", "${")) and stripped.endswith("}"):
        return stripped.strip("${} \t\n").lstrip(DAGGER)
    return text


def _first_path(text: str) -> re.Match[str] | None:
    return _PATH.search(text) if 2 < len(text) <= _LONGEST else None


def suspect_hint(hint: str | None, text: str) -> str | None:
    """A hint, and for a sentence how to write text that begins with a sign."""
    if not _is_sentence(text):
        return hint
    start = text.strip()[:20]
    return join_hints(hint, f"double the sign of a text that begins with one: {start[:1]}{start}…")


def _is_sentence(text: str) -> bool:
    """Whether a text has several words and no operator.

    >>> texts = "$state.x", "$state.x || 0", "$state.n + 1", "$state of the art"
    >>> [text for text in texts if _is_sentence(text)]
    ['$state of the art']
    """
    return len(text.split()) > 1 and not _OPERATOR.search(text)
