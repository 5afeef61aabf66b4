"""Reads YAML text into nodes, each with its place.

The nodes are built from the events of the C parser, without PyYAML's composer. This takes half the
time, checks the bounds while reading, and does not recurse in C, where 100,000 nested lists crash
the process. The schema is YAML 1.2's core schema (decision A7): ``on``, ``yes`` and dates are text,
keys are always text, nothing is constructed.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, NoReturn

from ..diagnostics import DefinitionError, Diagnostic, Diagnostics
from ..shorten import shorten
from ..source import Source, Span
from ..suggestions import suggest
from .nodes import EXPR, Fields, Items, Node, Scalar, shown
from .places import reread
from .plain_values import CONSTANTS, NotFinite, number

MOST_TAGS = 100
"""The largest number of ``%TAG`` directives in a text."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The size of the largest definition that is read (decision A7): characters, depth of nesting,
    aliases, nodes."""

    text: int = 1_000_000
    depth: int = 100
    aliases: int = 1_000
    nodes: int = 100_000


def documents(source: Source, problems: Diagnostics, bounds: Bounds = Bounds()) -> tuple[Node, ...]:
    """The documents of ``source`` that are not null; () for a syntax error or a text that exceeds
    ``bounds``.

    A mistake in the text never raises: all mistakes are added to ``problems``.
    """
    try:
        return _Reading(source, problems, bounds).documents()
    except DefinitionError as error:
        problems.extend(error.diagnostics)
    return ()


class _Open:
    """A list or mapping that is being read."""

    __slots__ = (
        "aliases",
        "anchor",
        "deepest",
        "fields",
        "items",
        "key",
        "keys",
        "room",
        "start",
        "tag",
    )

    def __init__(self, start: int, is_list: bool, depth: int) -> None:
        self.start = start
        self.deepest = depth
        """The depth of the deepest node in it so far."""
        self.tag: str | None = None
        self.anchor: str | None = None
        self.room = self.aliases = 0
        """If it has an anchor: the number of nodes that were still allowed when it began, and the
        number of aliases so far. At its end they tell how many are in it."""
        self.items: list[Node] | None = None
        if is_list:
            self.items = []
            return
        self.fields: dict[str, Node] = {}
        self.keys: dict[str, Scalar] = {}
        self.key: Scalar | None = None
        """The key that waits for its value; None: a key comes next."""


class _Anchor(NamedTuple):
    """A node with an anchor, for which an alias may stand."""

    node: Node
    nodes: int
    """The number of nodes in it, itself included."""
    aliases: int
    """The number of aliases that are expanded in it."""
    height: int
    """The number of levels below it."""


_PROPERTIES = re.compile(r"(?:[&!][^ \t\r\n]*(?:[ \t\r\n]+#[^\r\n]*)*[ \t\r\n]*)+")
_TAG = re.compile(r"![^\s,\[\]{}]*")
_UNREADABLE = re.compile(
    "[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
# libyaml does not read these as YAML 1.2 does: line ends of YAML 1.1 that are letters in 1.2, and
# JSON's escapes of characters beyond U+FFFF.
_FOREIGN = re.compile(
    r"[\x85\u2028\u2029]|\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|[^\x85\u2028\u2029])"
)


# These skip NamedTuple's own __new__, a function in Python that took an eighth of the loading time.
_new_span: Callable[[tuple[Source, int, int]], Span] = partial(tuple.__new__, Span)
_new_scalar: Callable[[tuple[Any, str, Span, str | None, str]], Scalar] = partial(
    tuple.__new__, Scalar
)
_new_fields: Callable[[tuple[dict[str, Node], dict[str, Scalar], Span]], Fields] = partial(
    tuple.__new__, Fields
)


def _tame(match: re.Match[str]) -> str:
    """A replacement of the same length for text that the C parser cannot read: for one letter or
    for two escapes. Any other escape stays; it matches so that its second sign begins no match."""
    return {1: "·", 12: r"\u005f\u005f"}.get(len(match[0]), match[0])


class _Reading:
    """The state of reading one source."""

    def __init__(self, source: Source, problems: Diagnostics, bounds: Bounds) -> None:
        self.source = source
        self.problems = problems
        self.bounds = bounds
        self.base = int(source.text.startswith("\ufeff"))
        """The number of characters before the parser's text: 1 for a byte order mark, else 0."""
        self.tamed = source.text
        """The text with the replacements of `_readable`."""
        self.open = [_Open(0, is_list=True, depth=0)]  # the list of the documents
        self.anchors: dict[str, _Anchor | None] = {}
        """The anchors of the document by name; None: the node is still being read."""
        self.room = bounds.nodes
        """The number of nodes that are still allowed. Each alias counts the nodes of its anchor
        again."""
        self.aliases = 0

    def documents(self) -> tuple[Node, ...]:
        """The documents of the source. Raises DefinitionError for a syntax error."""
        from . import mistakes, parser

        read: dict[type, Callable[[Any], None]] = {
            parser.ScalarEvent: self._scalar,
            parser.SequenceStartEvent: partial(self._begin, is_list=True),
            parser.SequenceEndEvent: self._end,
            parser.MappingStartEvent: partial(self._begin, is_list=False),
            parser.MappingEndEvent: self._end,
            parser.AliasEvent: self._alias,
        }
        text = self._readable()
        try:
            next_event = parser.Parser(text).get_event
            while type(event := next_event()) is not parser.StreamEndEvent:
                read.get(type(event), self._forget)(event)
        except parser.Misplaced as error:
            stop, since = (
                mark.index + self.base if mark else 0
                for mark in (error.problem_mark, error.context_mark)
            )
            if "nesting depth" in str(error.problem):  # PyYAML 6.0.4 has its own limit
                self._reach(self.bounds.depth + 1, stop, stop + 1)
            raise DefinitionError(
                mistakes.explain(self.source, str(error.problem), stop, str(error.context), since)
            ) from None
        # The parser in Python raises a ValueError for an escape beyond U+10FFFF.
        except (parser.Wrong, ValueError) as error:
            self._refuse("yaml.syntax", f"this is not valid YAML: {error}", 0, 0)
        return tuple(node for node in self.open[0].items or () if node.value is not None)

    def _readable(self) -> str:
        """The text with replacements for what the C parser cannot read. They have the same length,
        so that places remain right."""
        text = self.source.text
        if len(text) > self.bounds.text:
            message = (
                f"the text has {len(text):,} characters; at most {self.bounds.text:,} are allowed"
            )
            self._refuse("yaml.too-large", message, 0, 0)
        if text.count("%TAG") > MOST_TAGS:
            # The C parser compares each directive with all before it.
            tag = text.index("%TAG")
            message = f"the text has more than {MOST_TAGS} %TAG directives"
            self._refuse("yaml.tag", message, tag, tag + 4, "delete them: the only tag is !expr")
        if bad := _UNREADABLE.search(text, self.base):
            code = ord(bad[0])
            hint = f'delete it; between double quotes write "\\u{code:04x}"'
            if 0xD800 <= code < 0xE000:
                hint = "delete it: it is half a character"
            self._refuse(
                "yaml.character", f"character U+{code:04X} is not allowed", *bad.span(), hint
            )
        self.tamed = _FOREIGN.sub(_tame, text)
        return self.tamed[self.base :]

    def _forget(self, event: Any) -> None:
        """A document begins or ends: anchors do not reach into another document."""
        self.anchors.clear()

    def _scalar(self, event: Any) -> None:
        """Read a scalar. Most of the loading time is spent here, so a plain text takes the shortest
        way."""
        top = self.open[-1]
        text: str = event.value
        style: str = event.style or ""
        base = self.base
        span = _new_span((self.source, event.start_mark.index + base, event.end_mark.index + base))
        self._take(1, span.start, span.start + 1)
        is_key = top.items is None and top.key is None
        tag = None
        if event.tag is not None or event.anchor is not None:
            tag, span = self._properties(event.tag, span, "a key" if is_key else None)
        raw = span.text
        tamed = self.tamed[span.start : span.end]
        if raw != tamed:
            text = reread(raw, tamed, style, text)
        value: Any = text
        if not (style or tag or is_key):
            value = CONSTANTS[text] if text in CONSTANTS else self._number(text, span)
        node = _new_scalar((value, text, span, tag, style))
        if event.anchor is not None:
            self.anchors[event.anchor] = _Anchor(node, 1, 0, 0)
        if is_key:
            top.key = self._key(top, node)
        else:
            self._add(top, node)

    def _number(self, text: str, span: Span) -> Any:
        try:
            return number(text)
        except NotFinite:
            message = f"{shorten(text)!r} is not a finite number"
            self.problems.error("yaml.number", message, span, "quote it to make it a text")
            return text

    def _properties(
        self, tag: str | None, span: Span, where: str | None
    ) -> tuple[str | None, Span]:
        """The tag of a node, and its place without tag and anchor. ``where``: the words for a node
        that cannot have a tag; None: it can."""
        tag = tag and self._tag(tag, span, where)
        content = _PROPERTIES.match(self.tamed, span.start, span.end)
        begin = content.end() if content else span.start
        return tag, span._replace(start=begin) if begin < span.end else span

    def _tag(self, tag: str, span: Span, where: str | None) -> str | None:
        """``tag`` if the node may have it; else None, and an error is reported."""
        written = _TAG.search(self.tamed, span.start)
        place = Span(self.source, *written.span()) if written else span
        if tag != EXPR:
            only = "the only tag is !expr; quote a text that begins with '!'"
            hint = " ".join(filter(None, (suggest(place.text, [EXPR]), only)))
            self.problems.error("yaml.tag", f"unknown tag {place.text!r}", place, hint)
        elif where is None:
            return tag
        else:
            raw = self.source.text[place.end : span.end].strip()
            quote = "'" if '"' in raw else '"'
            hint = "an expression is one text" + (
                f"; quote it: !expr {quote}{raw}{quote}" if raw[:1] in "[{" else ""
            )
            hint = "a key is always text" if where == "a key" else hint
            self.problems.error("yaml.expr-tag", f"{where} cannot have the tag !expr", place, hint)
        return None

    def _begin(self, event: Any, is_list: bool) -> None:
        """A list or a mapping begins."""
        start = event.start_mark.index + self.base
        depth = len(self.open)
        self._reach(depth, start, start + 1)
        self._take(1, start, start + 1)
        opened = _Open(start, is_list, depth)
        opened.tag = event.tag
        if event.anchor is not None:
            # an alias to a node that is still open would contain itself
            self.anchors[event.anchor] = None
            opened.anchor = event.anchor
            opened.room = self.room
            opened.aliases = self.aliases
        self.open.append(opened)

    def _end(self, event: Any) -> None:
        """The innermost list or mapping ends: it becomes a node."""
        end = event.end_mark.index + self.base
        container = self.open.pop()
        parent = self.open[-1]
        whole = _new_span((self.source, container.start, end))
        if container.tag is not None or container.anchor is not None:
            where = "a mapping" if container.items is None else "a list"
            _, whole = self._properties(container.tag, whole, where)
        node = (
            _new_fields((container.fields, container.keys, whole))
            if container.items is None
            else Items(tuple(container.items), whole)
        )
        if container.deepest > parent.deepest:
            parent.deepest = container.deepest
        if container.anchor is not None:
            self.anchors[container.anchor] = _Anchor(
                node,
                container.room - self.room + 1,
                self.aliases - container.aliases,
                container.deepest - len(self.open) + 1,
            )
        self._add(parent, node)

    def _alias(self, event: Any) -> None:
        """Add the node of an alias's anchor, within the bounds of depth, nodes and aliases."""
        span = Span(
            self.source, event.start_mark.index + self.base, event.end_mark.index + self.base
        )
        if event.anchor not in self.anchors:
            hint = suggest(event.anchor, self.anchors) or "quote a text that begins with '*'"
            self._refuse(
                "yaml.unknown-alias",
                f"alias {span.text} has no anchor &{event.anchor}",
                span.start,
                span.end,
                hint,
            )
        anchor = self.anchors[event.anchor]
        if anchor is None:
            self._refuse(
                "yaml.self-alias",
                f"alias {span.text} is inside its own anchor",
                span.start,
                span.end,
            )
        self.aliases += anchor.aliases + 1
        if self.aliases > self.bounds.aliases:
            message = f"aliases are expanded more than {self.bounds.aliases:,} times"
            self._refuse("yaml.too-many-aliases", message, span.start, span.end)
        self._take(anchor.nodes, span.start, span.end)
        top = self.open[-1]
        top.deepest = max(top.deepest, len(self.open) - 1 + anchor.height)
        self._reach(top.deepest, span.start, span.end)
        self._add(top, anchor.node)

    def _add(self, top: _Open, node: Node) -> None:
        """Add ``node`` as the next element of a list, the next key of a mapping, or the value of
        its last key."""
        if top.items is not None:
            top.items.append(node)
        elif top.key is None:
            top.key = self._key(top, node)
        else:
            key = top.key
            top.key = None
            if key.value is not None and key.text not in top.fields:
                top.fields[key.text] = node
                top.keys[key.text] = key

    def _key(self, top: _Open, node: Node) -> Scalar:
        """``node`` as a key. The key's value is None if ``node`` cannot be a key."""
        if not isinstance(node, Scalar):
            hint = "quote a text that begins with '{' or '['"
            raw = node.span.text.strip("{} ")
            if self.source.text.startswith("{{", node.span.start - 1) and ":" not in raw:
                hint = f"write {shorten(raw)} without braces, or quote the text"
            self.problems.error(
                "yaml.key", f"a key must be text, not {shown(node)}", node.span, hint
            )
            return Scalar(None, "", node.span)
        name = node.text
        if name in top.fields:
            first = ("first used here", top.keys[name].span)
            message = f"duplicate key {shorten(name)!r}"
            hint = self._duplicate_hint(node.span)
            self.problems.add(
                Diagnostic("yaml.duplicate-key", message, node.span, hint, related=(first,))
            )
        elif name == "<<" and not node.style:
            message = "merging with '<<' is not supported; this is an ordinary key"
            hint = "write the keys out"
            self.problems.warn("yaml.merge-key", message, node.span, hint)
        # a key is always a text, also where an alias stands for a number
        return node._replace(value=name, tag=None)

    def _duplicate_hint(self, span: Span) -> str:
        """The hint for a key that a mapping has twice. In a list, the second one usually lacks its
        dash."""
        line = self.tamed[self.tamed.rfind("\n", 0, span.start) + 1 : span.start]
        in_list = len(self.open) > 2 and self.open[-2].items is not None
        return "delete one of them" + (
            ", or begin a list item with '- '" if in_list and not line.strip() else ""
        )

    def _reach(self, depth: int, start: int, end: int) -> None:
        """Refuse a node that nests deeper than the bound."""
        if depth > self.bounds.depth:
            message = f"lists and mappings nest deeper than {self.bounds.depth} levels"
            self._refuse("yaml.too-deep", message, start, end)

    def _take(self, nodes: int, start: int, end: int) -> None:
        """Count ``nodes`` more nodes, and refuse the text if it has too many."""
        self.room -= nodes
        if self.room < 0:
            message = f"the text has more than {self.bounds.nodes:,} values"
            self._refuse("yaml.too-many-nodes", message, start, end)

    def _refuse(
        self, code: str, message: str, start: int, end: int, hint: str | None = None
    ) -> NoReturn:
        raise DefinitionError(Diagnostic(code, message, Span(self.source, start, end), hint))
