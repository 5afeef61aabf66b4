"""YAML whose every node and key has its place. The only module that knows yaml.

Built from the events of the C parser, not from its composer: half the time, no recursion in C (100,000 nested lists end
the process there), and the bounds are held while reading. What is read is YAML 1.2's core schema (decision A7): ``on``,
``yes`` and dates are text, keys are always text, nothing is constructed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, NoReturn

import yaml

from .diagnostics import DefinitionError, Diagnostic, Diagnostics, suggest
from .source import Source, Span
from .yamlerrors import explain
from .yamlplaces import letters, reread

try:
    from yaml.cyaml import CParser as _Parser  # type: ignore[attr-defined]
except ImportError:  # no C extension here: the same events, ten times slower

    class _Parser(yaml.reader.Reader, yaml.scanner.Scanner, yaml.parser.Parser):  # type: ignore[no-redef]
        def __init__(self, text: str) -> None:
            yaml.reader.Reader.__init__(self, text)
            yaml.scanner.Scanner.__init__(self)
            yaml.parser.Parser.__init__(self)


EXPR: Final = "!expr"
"""The only tag there is."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """What a definition may cost (decision A7)."""

    text: int = 1_000_000
    depth: int = 100
    aliases: int = 1_000
    nodes: int = 100_000


class Scalar(NamedTuple):
    """A text, a number, true, false or null. A NamedTuple: loading makes thousands. It is a `text.source.Text`."""

    value: Any
    """By YAML 1.2's core schema; of a key and of what is tagged always the text."""
    text: str
    """As it reads, quotes and escapes undone."""
    span: Span
    """Without tag and anchor, with quotes."""
    tag: str | None = None
    style: str = ""
    """Empty for plain, else the character it begins with."""

    @property
    def is_expr(self) -> bool:
        return self.tag == EXPR

    def locate(self, start: int, end: int) -> Span:
        """Where letters ``start`` to ``end`` of ``text`` stand in the source, whatever stands between them."""
        source, first, last = self.span
        raw = source.text[first:last]
        lead = 1 if self.style in ("'", '"') and self.style else 0
        if raw[lead : len(raw) - lead] == self.text:
            return Span(source, first + lead + start, first + lead + end)
        found = letters(raw, self.style, self.text)
        if found is None:
            return self.span
        size = len(found.text)
        begin = found.starts[start] if start < size else (found.ends[-1] if size else lead)
        return Span(source, first + begin, first + (found.ends[min(end, size) - 1] if end > start and size else begin))


@dataclass(frozen=True, slots=True, eq=False)
class Items:
    """A list."""

    items: tuple[Node, ...]
    span: Span
    """Its first line."""

    def __iter__(self) -> Iterator[Node]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True, slots=True, eq=False)
class Fields:
    """A mapping. Both dicts have the same keys in the order of the text."""

    fields: dict[str, Node]
    keys: dict[str, Scalar]
    """Each key with its place."""
    span: Span
    """Its first line."""


Node = Scalar | Items | Fields


def documents(source: Source, problems: Diagnostics, bounds: Bounds = Bounds()) -> tuple[Node, ...]:
    """Every document of ``source`` that is not null; () when its syntax is wrong or a bound is passed.

    Never raises for what stands in the text: everything is told in ``problems``.
    """
    try:
        return _Reading(source, problems, bounds).documents()
    except DefinitionError as error:
        problems.extend(error.diagnostics)
    return ()


def plain(node: Node) -> Any:
    """The JSON value."""
    if isinstance(node, Scalar):
        return node.value
    if isinstance(node, Items):
        return [plain(item) for item in node.items]
    return {key: plain(value) for key, value in node.fields.items()}


def shown(node: Node) -> str:
    """What an error calls it: ``text 'yes'``, ``the number 3``, ``a list``, ``null``."""
    if isinstance(node, Items):
        return "a list" if node.items else "an empty list"
    if isinstance(node, Fields):
        return "a mapping" if node.fields else "an empty mapping"
    if node.is_expr:
        return "an expression"
    if isinstance(node.value, str):
        return f"text {_short(node.text)!r}" if node.text else "empty text"
    if node.value is None:
        return "null" if node.text else "nothing"
    return _short(node.text) if isinstance(node.value, bool) else f"the number {_short(node.text)}"


def _short(text: str) -> str:
    return text if len(text) <= 40 else text[:39] + "…"


class _Open:
    """A list or mapping being read."""

    __slots__ = ("aliases", "anchor", "deepest", "fields", "items", "kept", "key", "keys", "nodes", "start")

    def __init__(self, start: int, anchor: str | None, is_list: bool, nodes: int, aliases: int, depth: int) -> None:
        self.start, self.anchor, self.nodes, self.aliases, self.deepest = start, anchor, nodes, aliases, depth
        self.items: list[Node] | None = [] if is_list else None
        self.fields: dict[str, Node] = {}
        self.keys: dict[str, Scalar] = {}
        self.key: Scalar | None = None
        self.kept = True
        """Whether the value of `key` is: not of a second one."""


class _Anchor(NamedTuple):
    node: Node
    nodes: int
    aliases: int
    height: int


_CONSTANTS: dict[str, Any] = {
    "": None, "~": None, "null": None, "Null": None, "NULL": None,
    "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False,
}  # fmt: skip
_INT = re.compile(r"[-+]?[0-9]+|0o[0-7]+|0x[0-9a-fA-F]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_PROPERTIES = re.compile(r"(?:[&!][^\s]*(?:\s+#.*)?\s*)+")
_UNREADABLE = re.compile("[^\t\n\r -~\x85\xa0-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]")
# Line ends of YAML 1.1 that are letters in 1.2, and JSON's way to escape what is beyond U+FFFF: libyaml knows neither.
_FOREIGN = re.compile(r"[\x85\u2028\u2029]|\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|.)", re.DOTALL)


class _Reading:
    """One reading of one source."""

    def __init__(self, source: Source, problems: Diagnostics, bounds: Bounds) -> None:
        self.source, self.problems, self.bounds = source, problems, bounds
        self.base = 1 if source.text.startswith("\ufeff") else 0
        self.tamed = source.text
        self.foreign: list[int] = []
        self.open: list[_Open] = []
        self.anchors: dict[str, _Anchor | None] = {}
        self.nodes = self.aliases = 0
        self.found: list[Node] = []

    def documents(self) -> tuple[Node, ...]:
        text = self._readable()
        try:
            self._read(_Parser(text).get_event)
        except yaml.MarkedYAMLError as error:
            mark, context = error.problem_mark or error.context_mark, error.context_mark
            place = mark.index + self.base if mark else 0
            raise DefinitionError(
                explain(
                    self.source,
                    error.problem or "",
                    place,
                    error.context or "",
                    context.index + self.base if context else place,
                )
            ) from None
        return tuple(node for node in self.found if not (isinstance(node, Scalar) and node.value is None))

    def _readable(self) -> str:
        """The text as the C parser can read it; of the same length, so that places stay."""
        text = self.source.text
        if len(text) > self.bounds.text:
            message = f"the text has {len(text):,} characters, {self.bounds.text:,} are allowed"
            self._refuse("yaml.too-large", message, 0, 0)
        bad = _UNREADABLE.search(text, self.base)
        if bad:
            code = ord(bad[0])
            escape = f"\\u{code:04x}" if code > 0xFF else f"\\x{code:02x}"
            hint = f'delete it; in a text between double quotes it is written "{escape}"'
            if 0xD800 <= code < 0xE000:
                hint = "delete it: it is half a character"
            self._refuse("yaml.character", f"a character that cannot be read, U+{code:04X}", *bad.span(), hint)
        self.tamed = text if _FOREIGN.search(text) is None else _FOREIGN.sub(self._tame, text)
        return self.tamed[self.base :]

    def _tame(self, match: re.Match[str]) -> str:
        foreign = match[0]
        if len(foreign) == 2:  # some other escape
            return foreign
        self.foreign.append(match.start())
        return "_" if len(foreign) == 1 else r"\u005f\u005f"

    def _read(self, next_event: Any) -> None:
        self.open = [_Open(0, None, True, 0, 0, 0)]
        events = yaml.events
        while True:
            event = next_event()
            kind = type(event)
            if kind is events.ScalarEvent:
                self._add(self._scalar(event), event.anchor)
            elif kind is events.MappingStartEvent or kind is events.SequenceStartEvent:
                self._begin(event, kind is events.SequenceStartEvent)
            elif kind is events.MappingEndEvent or kind is events.SequenceEndEvent:
                self._end(event.end_mark.index + self.base)
            elif kind is events.AliasEvent:
                self._alias(event)
            elif kind is events.DocumentEndEvent:
                self.anchors.clear()
            elif kind is events.StreamEndEvent:
                break
        self.found = self.open[0].items or []

    def _scalar(self, event: Any) -> Scalar:
        start, end = event.start_mark.index + self.base, event.end_mark.index + self.base
        text, style, tag, top = event.value, event.style or "", event.tag, self.open[-1]
        is_key = top.items is None and top.key is None
        if tag is not None or event.anchor is not None:
            if tag is not None:
                tag = self._tag(tag, start, end, "a key" if is_key else None)
            content = _PROPERTIES.match(self.tamed, start, end)
            if content and content.end() < end:
                start = content.end()
        if self.foreign and any(start <= place < end for place in self.foreign):
            text = reread(self.source.text[start:end], self.tamed[start:end], style, text) or text
        span = Span(self.source, start, end)
        self.nodes += 1
        if self.nodes > self.bounds.nodes:
            self._too_many(span)
        if style or tag is not None or is_key:
            return Scalar(text, text, span, tag, style)
        if text in _CONSTANTS:
            return Scalar(_CONSTANTS[text], text, span)
        return Scalar(self._number(text, span) if text[0] in "+-.0123456789" else text, text, span)

    def _number(self, text: str, span: Span) -> Any:
        """A number where the text is one, else the text."""
        value: Any = text
        try:
            if _INT.fullmatch(text):
                return int(text, {"0o": 8, "0x": 16}.get(text[:2], 10))
            if _FLOAT.fullmatch(text):
                value = float(text)
        except ValueError:  # Python refuses to read more than some thousand digits
            value = float("inf")
        if _NOT_FINITE.fullmatch(text) or value in (float("inf"), float("-inf")):
            message = f"{_short(text)!r} is not a finite number"
            self.problems.error("yaml.number", message, span, "quote it if it is meant as text")
            return text
        return value

    def _tag(self, tag: str, start: int, end: int, where: str | None) -> str | None:
        """The tag where it is allowed; None, and an error, where not."""
        written = re.compile(r"![^\s,\[\]{}]*").search(self.tamed, start)
        span = Span(self.source, *written.span()) if written else Span(self.source, start, end)
        if tag != EXPR:
            near = suggest(span.text, [EXPR]) or ""
            hint = f"{near} the only tag is !expr; quote a text that begins with '!'".strip()
            self.problems.error("yaml.tag", f"unknown tag {span.text!r}", span, hint)
            return None
        if where is not None:
            raw = self.source.text[span.end : end].strip()
            quote = "'" if '"' in raw else '"'
            hint = "an expression is one text" + (f"; quote it: !expr {quote}{raw}{quote}" if raw[:1] in "[{" else "")
            if where == "a key":
                hint = "a key is always text"
            self.problems.error("yaml.expr-tag", f"!expr cannot stand on {where}", span, hint)
            return None
        return tag

    def _begin(self, event: Any, is_list: bool) -> None:
        start, depth = event.start_mark.index + self.base, len(self.open)
        if depth > self.bounds.depth:
            message = f"lists and mappings nest deeper than {self.bounds.depth} levels"
            self._refuse("yaml.too-deep", message, start, start + 1)
        self.nodes += 1
        if event.tag is not None or event.anchor is not None:
            begin = start
            content = _PROPERTIES.match(self.tamed, start)
            start = content.end() if content else start
            if event.tag is not None:
                line = self._line_end(start, len(self.tamed))
                self._tag(event.tag, begin, line, "a list" if is_list else "a mapping")
        if event.anchor is not None:
            self.anchors[event.anchor] = None  # open: an alias to it would contain itself
        self.open.append(_Open(start, event.anchor, is_list, self.nodes, self.aliases, depth))

    def _end(self, end: int) -> None:
        done = self.open.pop()
        span = Span(self.source, done.start, self._line_end(done.start, end))
        node: Node = Fields(done.fields, done.keys, span) if done.items is None else Items(tuple(done.items), span)
        parent = self.open[-1]
        parent.deepest = max(parent.deepest, done.deepest)
        if done.anchor is not None:
            height = done.deepest - len(self.open) + 1
            self.anchors[done.anchor] = _Anchor(node, self.nodes - done.nodes + 1, self.aliases - done.aliases, height)
        self._add(node)

    def _line_end(self, start: int, end: int) -> int:
        """The end of what stands on the line of ``start``, at most ``end``."""
        stop = self.tamed.find("\n", start, end)
        line = self.tamed[start : end if stop < 0 else stop].rstrip()
        return start + len(line)

    def _alias(self, event: Any) -> None:
        span = Span(self.source, event.start_mark.index + self.base, event.end_mark.index + self.base)
        if event.anchor not in self.anchors:
            hint = suggest(event.anchor, self.anchors) or "quote a text that begins with '*'"
            self._refuse("yaml.unknown-alias", f"nothing is named &{event.anchor}", span.start, span.end, hint)
        anchor = self.anchors[event.anchor]
        if anchor is None:
            self._refuse("yaml.self-alias", f"{span.text} stands inside what it names", span.start, span.end)
        self.nodes += anchor.nodes
        self.aliases += anchor.aliases + 1
        if self.aliases > self.bounds.aliases:
            message = f"aliases are expanded more than {self.bounds.aliases:,} times"
            self._refuse("yaml.too-many-aliases", message, span.start, span.end)
        if self.nodes > self.bounds.nodes:
            self._too_many(span)
        top = self.open[-1]
        top.deepest = max(top.deepest, len(self.open) - 1 + anchor.height)
        if top.deepest > self.bounds.depth:
            message = f"lists and mappings nest deeper than {self.bounds.depth} levels"
            self._refuse("yaml.too-deep", message, span.start, span.end)
        self._add(anchor.node)

    def _add(self, node: Node, anchor: str | None = None) -> None:
        if anchor is not None:
            self.anchors[anchor] = _Anchor(node, 1, 0, 0)
        top = self.open[-1]
        if top.items is not None:
            top.items.append(node)
        elif top.key is None:
            top.key = self._key(top, node)
        else:
            name = top.key.text
            if top.kept:
                top.fields[name], top.keys[name] = node, top.key
            top.key, top.kept = None, True

    def _key(self, top: _Open, node: Node) -> Scalar:
        if not isinstance(node, Scalar):
            hint = "quote a text that begins with '{' or '['"
            self.problems.error("yaml.key", f"a key must be text, not {shown(node)}", node.span, hint)
            top.kept = False
            return Scalar(None, "", node.span)
        name = node.text
        if name in top.fields:
            first = ("first used here", top.keys[name].span)
            message = f"the key {_short(name)!r} stands here twice"
            self.problems.add(Diagnostic("yaml.duplicate-key", message, node.span, related=(first,)))
            top.kept = False
        elif name == "<<" and not node.style:
            message, hint = "'<<' merges nothing here, it is a key like any other", "write the keys out"
            self.problems.warn("yaml.merge-key", message, node.span, hint)
        return node if node.value is name and node.tag is None else node._replace(value=name, tag=None)

    def _too_many(self, span: Span) -> NoReturn:
        message = f"the text has more than {self.bounds.nodes:,} values"
        self._refuse("yaml.too-many-nodes", message, span.start, span.end)

    def _refuse(self, code: str, message: str, start: int, end: int, hint: str | None = None) -> NoReturn:
        raise DefinitionError(Diagnostic(code, message, Span(self.source, start, end), hint))
