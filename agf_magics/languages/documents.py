"""Reads the mappings of a document by the tables of their keys, for every language.

The reader of a key returns its value, or None after reporting an error. One pass reports all
errors.
"""

from __future__ import annotations

import shlex
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple

from ..flow.protocols import Name
from ..text.diagnostics import Diagnostics
from ..text.names import same_name
from ..text.source import Source, Span
from ..text.suggestions import misspelled_names, suggest
from ..text.yaml.nodes import (
    Fields,
    Items,
    Node,
    Scalar,
    flow_text,
    is_expression,
    is_text,
    plain,
    shown,
)
from ..text.yaml.reader import Bounds, documents
from .foreign_keys import advice_on, reshape_hint
from .key_schemas import S_NAME, S_TEXT, Json
from .keys import Key, MappingSpec, Read, Takes


class Reader(ABC):
    """Reads the mappings of one document by their tables; ``problems`` gets their errors."""

    layer: ClassVar[str]
    """The part of an error's code before the dot."""
    root: ClassVar[str] = "\0"
    """The first part of the paths of expressions; a name that begins with it is a slip."""
    slips: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({})
    """Keys of other languages, each with the keys that it may mean here."""
    advice: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """The advice for keys of other languages that no key replaces, by the meaning of the key
    (`ELSEWHERE`) or the key."""

    def __init__(self, problems: Diagnostics) -> None:
        self.problems = problems
        self._before = problems.error_count
        self._slips = 0
        self.refused_keys: set[str] = set()
        """The keys whose values the text has, needs or may have, and that could not be read."""
        self.error = problems.error
        self.warn = problems.warn

    @property
    def error_count(self) -> int:
        """The number of errors since the reading began."""
        return self.problems.error_count - self._before

    @property
    def lost(self) -> int:
        """The number of errors since the reading began that make something unknown: all but those
        of keys that are read as what they mean."""
        return self.error_count - self._slips

    def understood(self) -> None:
        """The last error is about a key that is read as what it means: nothing is unknown."""
        self._slips += 1

    def fields(
        self, spec: MappingSpec, node: Fields, span: Span | None, into: dict[str, Any] | None = None
    ) -> Json:
        """The value of each key of ``node``; unknown, empty and missing keys are errors, a missing
        one at ``span``. An unknown key that is a slip is read as the key that it means, so that it
        hides nothing (decision D287).

        The values are added to ``into`` one by one, for readers that use the value of an earlier
        key.
        """
        values = {} if into is None else into
        self._gather(spec, node, span)
        meant = self.unknown(spec, node)
        # A key without a meaning may be any of those that are absent.
        understood = len(node.fields.keys() & spec.keys.keys()) + len(meant)
        is_stray = understood < sum(name.startswith(spec.prefix) for name in node.fields)
        self._slips += len(meant)
        # The one change of a parsed node: builders, `written` and hints look into it after this
        # reading, and must find the right key, too.
        for right, slip in meant.items():
            node.fields[right], node.keys[right] = node.fields[slip], node.keys[slip]
        for name, key in spec.keys.items():
            value = node.fields.get(name)
            if value is None:
                if key.required:
                    self.missing(spec, key, span)
                if key.required or is_stray:
                    self.refused_keys.add(name)
            elif value.value is None and not key.takes.null:
                if not key.null or (key.explicit and is_nothing(value)):
                    if name in meant:
                        self._slips -= 1
                    else:
                        self.empty(key, value, node.keys[name])
                    self.refused_keys.add(name)
            else:
                before = len(self.problems)
                values[name] = key.takes.read(self, value, key)
                if values[name] is None and not key.takes.null:
                    self.refused_keys.add(name)
                    if name in meant:  # it means something else
                        self.problems.take_back(before)
                        self._slips -= 1
        return values

    def _gather(self, spec: MappingSpec, node: Fields, span: Span | None) -> None:
        """Read the unknown mappings that are meant to stand in an absent key as if they did, and
        report them once."""
        for name, key in spec.keys.items() if node.fields.keys() - spec.keys.keys() else ():
            if not key.holds or name in node.fields:
                continue
            others = [other for other in spec.keys if other not in (name, *node.fields)]
            strays = [
                stray
                for stray, value in node.fields.items()
                if stray not in spec.keys
                and isinstance(value, Fields)
                and not self._meant([stray], others)
            ]
            # One key that resembles the absent one is a misspelling of it; branch_a and branch_b
            # are branches.
            if len(strays) > 1 or (strays and not self._meant(strays, [name])):
                node.replace_by(node.gathered(strays, name))
                hint = f"write: {spec.name}: {flow_text(node)}"
                message = f"{spec.name} needs {name!r}"
                self.error(f"{self.layer}.missing-key", message, span, hint)
                self.understood()

    def _meant(self, unknown: Sequence[str], absent: Sequence[str]) -> bool:
        """Whether one of the ``unknown`` keys means one of the ``absent`` ones."""
        return bool(misspelled_names(unknown, absent)) or any(
            right in absent for name in unknown for right in self.slips.get(name, ())
        )

    def unknown(self, spec: MappingSpec, node: Fields) -> dict[str, str]:
        """Report each key that ``spec`` does not have. Returns those that are slips, by the keys that
        they mean."""
        unknown = [
            name for name in node.keys if name not in spec.keys and name.startswith(spec.prefix)
        ]
        meant = dict[str, str]()
        absent = [name for name in spec.keys if name not in node.fields]
        for name in unknown:
            whole = name.partition(":")[0]  # a key without a blank before its value
            for right in (whole, *self.slips.get(name, ()), *misspelled_names([name], absent)):
                if right in absent:
                    meant.setdefault(right, name)
                    break
            self.error(
                f"{self.layer}.unknown-key",
                f"unknown key {name!r} in {spec.name}",
                node.keys[name].span,
                self.unknown_hint(spec, name, node.fields[name]),
            )
        return meant

    def unknown_hint(self, spec: MappingSpec, name: str, value: Node) -> str | None:
        """The advice what to write in place of the unknown key ``name`` with ``value``."""
        slip = next((meant for meant in self.slips.get(name, ()) if meant in spec.keys), None)
        if slip:
            return f"write {slip}:"
        key, colon, rest = name.partition(":")
        if colon and key in spec.keys:
            return f"write {key}: {rest.strip()}"  # also of a no-break space
        return advice_on(self.advice, name, value.text) or suggest(
            name, spec.keys, f"the keys of {spec.name}"
        )

    def missing(self, spec: MappingSpec, key: Key, span: Span | None) -> None:
        self.error(
            f"{self.layer}.missing-key", f"{spec.name} needs {key.name!r}", span, key.example
        )

    def empty(self, key: Key, value: Node, written: Scalar) -> None:
        """Report that the key ``written`` has no value, or null."""
        place = value.span if value.text else written.span
        message = f"{key.name!r} is empty: it must be {key.takes.says}"
        self.error(key.code or f"{self.layer}.wrong-type", message, place, key.example)

    def wrong_type(self, node: Node, key: Key, hint: str | None = None) -> None:
        """Report that ``node`` is not of the type that its key takes."""
        if is_expression(node):
            self.refuse_tag(node, key)
            return
        message = f"{key.name!r} must be {key.takes.says}, got {shown(node)}"
        hint = hint or reshape_hint(key.name, node, key.takes.schema.get("type")) or key.example
        self.error(key.code or f"{self.layer}.wrong-type", message, node.span, hint)

    @abstractmethod
    def refuse_tag(self, node: Scalar, key: Key) -> None:
        """Report the tag !expr at a place that does not allow it."""

    def text(self, node: Node, key: Key) -> Scalar | None:
        """``node`` if it is a text."""
        if is_text(node) and not node.is_expr:
            return node
        self.wrong_type(node, key, f'quote it: "{node.text}"' if node.text else None)
        return None

    def name(self, node: Node, key: Key) -> Name | None:
        """A text that names something."""
        text = self.text(node, key)
        if text is None:
            return None
        if not text.text.strip():
            code = key.code or f"{self.layer}.blank-name"
            self.error(code, f"{key.name!r} is blank", text.span, key.example)
            return None
        if text.text.startswith((f"{self.root}.", f"{{{self.root}.")):
            bare = text.text.strip("{} ").removeprefix(f"{self.root}.")
            message = f"{key.name!r} takes a name: this is one called {text.text!r}"
            self.warn(f"{self.layer}.literal-path", message, text.span, f"write {key.name}: {bare}")
        return Name(same_name(text.text), text.span)

    def mapping(self, node: Node, key: Key) -> Fields | None:
        """``node`` if it is a mapping."""
        if isinstance(node, Fields):
            return node
        self.wrong_type(node, key)
        return None

    def items(self, node: Node, key: Key) -> Items | None:
        """``node`` if it is a list."""
        if isinstance(node, Items):
            return node
        self.wrong_type(node, key)
        return None

    def written_entries(self, node: Node, key: Key) -> Iterator[tuple[Scalar, Node]]:
        """The keys of ``node`` as they are written, which may be labels that are compared with texts,
        and their values. An empty mapping is an error."""
        if not isinstance(node, Fields) or not node.fields:
            self.wrong_type(node, key)
            return iter(())
        return zip(node.keys.values(), node.fields.values(), strict=True)

    def each_item(self, node: Node, key: Key) -> tuple[Node, ...]:
        """The elements of ``node`` if it is a list."""
        listed = self.items(node, key)
        return listed.items if listed is not None else ()

    def names(self, node: Node, key: Key) -> Iterator[Name]:
        """The names in ``node`` if it is a list."""
        read = (self.name(item, key) for item in self.each_item(node, key))
        return (name for name in read if name is not None)

    def words(self, node: Scalar, hint: str | None = None) -> list[str] | None:
        """The words of a command. They are split once, here: no shell ever sees them (decision
        P8)."""
        try:
            words = shlex.split(node.text)
        except ValueError as error:
            message = f"the command cannot be split: {str(error).lower()}"
            self.error(f"{self.layer}.command", message, node.span, hint)
            return None
        if not words:
            self.error(f"{self.layer}.command", "the command is empty", node.span, hint)
        return words

    def read_values(self, node: Node, key: Key, takes: Takes) -> Iterator[tuple[Name, Any]]:
        """The keys of ``node`` as names, each with its value as ``takes`` reads it, if it is a mapping."""
        for name, value in self.named_entries(self.mapping(node, key)):
            read = takes.read(self, value, Key(name.text, takes))
            if read is not None:
                yield Name(name.text, name.span), read

    def named_entries(self, node: Fields | None) -> Iterator[tuple[Scalar, Node]]:
        """The keys of a mapping as names, which are normalized, and their values."""
        if node is not None:
            for key, value in node.fields.items():
                yield as_name(node.keys[key]), value


def as_name(text: Scalar) -> Scalar:
    """A text that names something: those that look the same are the same (decision D150)."""
    return text if text.text.isascii() else text._replace(text=same_name(text.text))


class DocumentProblem(NamedTuple):
    """An error of a text: the code, the message, the hint."""

    code: str
    message: str
    hint: str


def one_document(
    source: Source,
    problems: Diagnostics,
    bounds: Bounds,
    none: DocumentProblem,
    two: DocumentProblem,
) -> Node | None:
    """The document of a text that must hold exactly one; None if ``problems`` got an error of YAML,
    or ``none`` for an empty text. Each further document gets the error ``two``."""
    before = problems.error_count
    nodes = documents(source, problems, bounds)
    if problems.error_count > before:
        return None
    if not nodes:
        problems.error(none.code, none.message, source.span(0, 0), none.hint)
        return None
    for other in nodes[1:]:
        problems.error(two.code, two.message, other.span, two.hint)
    return nodes[0]


def name_at(fields: Mapping[str, Any], key: str, otherwise: Name) -> Name:
    """The name that a mapping has at ``key``; ``otherwise``, if it has none."""
    return fields.get(key) or otherwise


def text_at(fields: Mapping[str, Any], key: str) -> str:
    """The text that a mapping says at ``key``; empty, if it says nothing."""
    return name_at(fields, key, Name("")).text


def is_nothing(node: Node) -> bool:
    """Whether a key has no value, not even null."""
    return node.value is None and not node.text


def read_text(reader: Reader, node: Node, key: Key) -> Name | None:
    """A text with its place, which may be blank."""
    text = reader.text(node, key)
    return None if text is None else Name(text.text, text.span)


def read_node(reader: Reader, node: Node, key: Key) -> Node:
    """The node itself, for a key whose value is read later."""
    return node


def number_of(*types: type, least: float | None = None) -> Read:
    """The reader of a number of one of ``types``, of at least ``least``."""

    def read(reader: Reader, node: Node, key: Key) -> Any:
        if type(node.value) not in types:
            reader.wrong_type(node, key)
            return None
        if least is not None and not node.value >= least:  # not `<`: NaN is refused, too
            message = f"{key.name!r} must be {key.takes.says}, got {node.text}"
            reader.error(f"{reader.layer}.count", message, node.span, key.example)
            return None
        return node.value

    return read


def choice(says: str, *words: str) -> Takes:
    """One of some words; the last one is the example."""

    def read(reader: Reader, node: Node, key: Key) -> str | None:
        if node.text in words:
            return node.text
        reader.wrong_type(node, key, suggest(node.text, words))
        return None

    return Takes(says, words[-1], {"enum": list(words)} if words[1:] else {"const": words[0]}, read)


NAME: Final = Takes("a name", "review", S_NAME, Reader.name, word="name")
TEXT: Final = Takes("a text", "what it is for", S_TEXT, read_text, word="text")
ANYTHING: Final = Takes("any value", "1", {}, lambda reader, node, key: plain(node), null=True)
FLAG: Final = Takes("true or false", "true", {"type": "boolean"}, number_of(bool))
COUNT: Final = Takes(
    "an integer, at least 1",
    "4",
    {"type": "integer", "minimum": 1},
    number_of(int, least=1),
    word="count",
)
