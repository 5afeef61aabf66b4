"""The keys of a document as data, and the reader of mappings by this table, for every language.

A row of the table is a `Key`: its kind of value (`Takes`) has the phrase of messages, an example, a
JSON Schema and a reader. The loader, hints, completion, the JSON Schema for editors and the
reference use the same row. A reader returns its value, or None after it reported an error; all
errors are reported in one pass.
"""

from __future__ import annotations

import re
import shlex
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple

from ..flow.flow import Definition
from ..flow.protocols import Expr, Name
from ..text.diagnostics import Diagnostics
from ..text.names import same_name
from ..text.source import Source, Span, Text
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

Json = dict[str, Any]
Read = Callable[[Any, Node, "Key"], Any]
"""The reader of one kind of value: of a language's `Reader`, the node, and the key that has it."""


class Language(NamedTuple):
    """A language, for everything above."""

    name: str
    load: Callable[[Source, Diagnostics, Bounds], Definition]
    """Adds the errors of the text to the Diagnostics; never raises for them."""
    expressions: Mapping[str, Callable[[Text], Expr]]
    """Its expression languages by name: each parses a text and raises a DefinitionError if it is
    malformed."""
    schema: Mapping[str, Any] | None = None
    """The JSON Schema of a cell, for completion and help."""
    functions: Mapping[str, str] = {}
    """Of its expression language, each with its signature."""
    latent: Callable[[Source, Diagnostics, Bounds, Collection[str]], Definition] | None = None
    """`load` with the names of further latent tools; None if the language has none."""
    named: Callable[[Source, Diagnostics, Bounds, str], Definition] | None = None
    """`load` of a text that has no name and gets this one; None if `load` takes such a text."""
    with_name: Callable[[str, str], str] = lambda text, name: text
    """A text with the name that it lacks, as a file of the language needs it."""


class Takes(NamedTuple):
    """A kind of value."""

    says: str
    """Its words in a message: ``'name' must be a name``."""
    example: str
    """A value, as a hint shows it."""
    schema: Mapping[str, Any]
    """Its JSON Schema."""
    read: Read
    null: bool = False
    """Whether null is one of the values."""
    word: str = ""
    """Its name for completion."""


class Key(NamedTuple):
    """A key of a mapping."""

    name: str
    takes: Takes
    doc: str = ""
    required: bool = False
    null: bool = False
    """Whether null means the same as no key, which is not `required`."""
    explicit: bool = False
    """Whether only a written null does: with no value at all, the author most likely forgot it."""
    code: str = ""
    """The code of an error about the type of its value, if it is not the layer's ``wrong-type``."""
    binds: tuple[str, ...] = ()
    """For a nested step of a pipeline: the names that it sees in addition to ``ctx`` and
    ``pipe``."""

    @property
    def example(self) -> str:
        return f"{self.name}: {self.takes.example}"


class Kind(NamedTuple):
    """A mapping of a language: a node of one kind, an edge, a document."""

    name: str
    """Its words in a message: ``a step``."""
    doc: str
    keys: Mapping[str, Key]
    prefix: str = ""
    """Its keys begin with it, and every other key is allowed: the arguments of a call."""


def kind(name: str, doc: str, *keys: Key, prefix: str = "") -> Kind:
    return Kind(name, doc, {key.name: key for key in keys}, prefix)


ELSEWHERE: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ["if", "when", "condition", "unless", "only_if", "run_if", "skip_if", "if_else"],
        "condition",
    ),
    **dict.fromkeys(
        ["retry", "retries", "max_retries", "attempts", "max_attempts", "tries"], "retries"
    ),
    **dict.fromkeys(["wait", "delay", "retry_delay", "backoff", "sleep", "interval"], "wait"),
    **dict.fromkeys(
        [
            "depends_on",
            "dependson",
            "depends",
            "needs",
            "after",
            "before",
            "upstream",
            "wait_for",
            "waits_for",
            "trigger_rule",
            "requires",
            "parents",
        ],
        "order",
    ),
    **dict.fromkeys(
        ["loop", "for_each", "foreach", "for", "while", "repeat", "with_items", "matrix"], "loop"
    ),
    **dict.fromkeys(
        ["timeout", "timeout_minutes", "execution_timeout", "time_limit", "max_time"], "timeout"
    ),
    **dict.fromkeys(["id", "name", "key", "task_id", "step_id", "label"], "id"),
    **dict.fromkeys(
        ["next", "goto", "then", "edges", "transitions", "on_success", "downstream"], "next"
    ),
    **dict.fromkeys(
        ["conditional_edges", "branch", "conditions", "path_map", "switch"], "branches"
    ),
    **dict.fromkeys(
        ["entry", "entry_point", "start", "start_at", "set_entry_point", "initial_node"], "start"
    ),
    **dict.fromkeys(["end", "finish", "finish_point", "exit_point", "final"], "end"),
    **dict.fromkeys(
        ["args", "arguments", "parameters", "params", "kwargs", "with", "inputs"], "args"
    ),
    **dict.fromkeys(
        ["env", "environment", "secrets", "vars", "uses", "image", "runs_on", "jobs"], "environment"
    ),
}
"""Keys of other languages (GitHub Actions, Airflow, LangGraph, Step Functions), each with its
meaning; the `Reader.advice` of a language is by meanings."""


class Reader(ABC):
    """Reads the mappings of one document by their tables; ``problems`` gets their errors."""

    layer: ClassVar[str]
    """The part of an error's code before the dot."""
    root: ClassVar[str] = "\0"
    """What a path of an expression begins with, where a name with it is a mistake."""
    slips: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({})
    """Keys of other languages, each with the keys that it may mean here."""
    advice: ClassVar[Mapping[str, str]] = MappingProxyType({})
    """What to write for what no key here replaces, by the meaning of the key (`ELSEWHERE`) or the
    key itself."""

    def __init__(self, problems: Diagnostics) -> None:
        self.problems = problems
        self._before = problems.error_count
        self.error = problems.error
        self.warn = problems.warn

    @property
    def error_count(self) -> int:
        """The number of errors since the reading began."""
        return self.problems.error_count - self._before

    def fields(
        self, kind: Kind, node: Fields, span: Span | None, into: dict[str, Any] | None = None
    ) -> Json:
        """The value of each key of ``node``; unknown, empty and missing keys are errors, a missing
        one at ``span``.

        The values are added to ``into`` one by one, for readers that use the value of an earlier
        key.
        """
        values = {} if into is None else into
        written = node.fields
        slips = self.unknown(kind, node)
        for name, key in kind.keys.items():
            value = written.get(name)
            if value is None:
                if key.required and name not in slips:
                    self.missing(kind, key, span)
            elif value.value is None and not key.takes.null:
                if not key.null or (key.explicit and is_nothing(value)):
                    self.empty(key, value, node.keys[name])
            else:
                values[name] = key.takes.read(self, value, key)
        return values

    def unknown(self, kind: Kind, node: Fields) -> frozenset[str]:
        """Report each key that ``kind`` does not have. The keys that were probably meant are not
        missing too."""
        unknown = [
            name for name in node.keys if name not in kind.keys and name.startswith(kind.prefix)
        ]
        for name in unknown:
            self.error(
                f"{self.layer}.unknown-key",
                f"unknown key {name!r} in {kind.name}",
                node.keys[name].span,
                self.unknown_hint(kind, name, node.fields[name]),
            )
        meant = (key for name in unknown for key in self.slips.get(name, ()))
        return frozenset((*misspelled_names(unknown, kind.keys), *meant))

    def unknown_hint(self, kind: Kind, name: str, value: Node) -> str | None:
        """What to write instead of the unknown key ``name``, which has ``value``."""
        slip = next((meant for meant in self.slips.get(name, ()) if meant in kind.keys), None)
        if slip:
            return f"write {slip}:"
        key, colon, rest = name.partition(":")
        if colon and key in kind.keys:
            return f"write {key}: {rest}"
        return advice_on(self.advice, name, value.text) or suggest(
            name, kind.keys, f"the keys of {kind.name}"
        )

    def missing(self, kind: Kind, key: Key, span: Span | None) -> None:
        self.error(
            f"{self.layer}.missing-key", f"{kind.name} needs {key.name!r}", span, key.example
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

    def filled(self, node: Node, key: Key) -> Iterator[tuple[Scalar, Node]]:
        """The keys and values of ``node`` if it is a mapping that has some."""
        if not isinstance(node, Fields) or not node.fields:
            self.wrong_type(node, key)
            return iter(())
        # As they are written: they may be labels, which are compared with texts.
        return zip(node.keys.values(), node.fields.values(), strict=True)

    def elements(self, node: Node, key: Key) -> tuple[Node, ...]:
        """The elements of ``node`` if it is a list."""
        listed = self.items(node, key)
        return listed.items if listed is not None else ()

    def names(self, node: Node, key: Key) -> Iterator[Name]:
        """The names in ``node`` if it is a list."""
        read = (self.name(item, key) for item in self.elements(node, key))
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

    def read_entries(self, node: Node, key: Key, takes: Takes) -> Iterator[tuple[Name, Any]]:
        """The keys of ``node`` if it is a mapping, each with its value, which ``takes`` reads."""
        for name, value in self.entries(self.mapping(node, key)):
            read = takes.read(self, value, Key(name.text, takes))
            if read is not None:
                yield Name(name.text, name.span), read

    def entries(self, node: Fields | None) -> Iterator[tuple[Scalar, Node]]:
        """The keys and values of a mapping of names to what they mean."""
        if node is not None:
            for key, value in node.fields.items():
                yield as_name(node.keys[key]), value


def as_name(text: Scalar) -> Scalar:
    """A text that names something: those that look the same are the same (decision D150)."""
    return text if text.text.isascii() else text._replace(text=same_name(text.text))


def advice_on(advice: Mapping[str, str], name: str, value: str = "") -> str:
    """What ``advice`` says on the key ``name``, by its meaning or by itself; empty: nothing. The
    author's ``value`` takes the place of NUMBER or VALUE in it where it can stand there."""
    word = name.strip("_").lower().replace("-", "_")
    number = value if _NUMBER.fullmatch(value) else "3"
    text = advice.get(ELSEWHERE.get(word, word), "").replace("NUMBER", number)
    return text.replace("VALUE", value) if _IN_HINT.fullmatch(value) else text


_NUMBER: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_IN_HINT: Final = re.compile(r"[\w .<>=!+*/$†|&-]{1,80}")
"""A text without signs that mean something else in the mapping of a hint: ``{{ x }}`` would."""


_NAMING: Final = frozenset({"name", "id", "alias", "key"})
"""Keys that name an entry, in a language that lists what another one maps."""


def reshape_hint(name: str, node: Node, wanted: object) -> str | None:
    """The hint for a list of named entries at the key ``name``, where JSON Schema wants the type
    object, and for a mapping of entries where it wants an array."""
    if wanted == "array" and isinstance(node, Fields):
        entries = [flow_text(entry) for entry in node.fields.values() if isinstance(entry, Fields)]
        return f"write {name}: [{', '.join(entries or [flow_text(node)])}]"
    items = getattr(node, "items", ())
    pairs = [pair for item in items if isinstance(item, Fields) for pair in _entry_words(item)]
    return f"write {name}: {{{', '.join(pairs)}}}" if pairs and wanted == "object" else None


def _entry_words(entry: Fields) -> Iterator[str]:
    """``name: value`` of an entry with a name; of one without, each key with its value."""
    rest = dict(entry.fields)
    for naming in sorted(_NAMING & rest.keys())[:1]:
        name = flow_text(rest.pop(naming))
        rest = {name: Fields(rest, entry.keys, entry.whole)}
    return map("{}: {}".format, rest, map(flow_text, rest.values()))


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
    """The reader of a number of one of ``types``, not below ``least``."""

    def read(reader: Reader, node: Node, key: Key) -> Any:
        if type(node.value) not in types:
            reader.wrong_type(node, key)
            return None
        if least is not None and not node.value >= least:
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


S_TEXT: Final[Json] = {"type": "string"}
S_NAME: Final[Json] = {"type": "string", "pattern": r"\S"}
S_NAMES: Final[Json] = {"type": "array", "items": S_NAME}

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


def mapping_of(values: Mapping[str, Any]) -> Json:
    """The JSON Schema of a mapping with any keys."""
    return {"type": "object", "additionalProperties": values}


def reference(name: str) -> Json:
    return {"$ref": f"#/$defs/{name}"}


def kind_schema(kind: Kind) -> Json:
    """The JSON Schema of a mapping."""
    required = [key.name for key in kind.keys.values() if key.required]
    return {
        "description": kind.doc,
        "type": "object",
        "properties": {key.name: _key_schema(key) for key in kind.keys.values()},
        **({"patternProperties": {f"^[^{kind.prefix}]": {}}} if kind.prefix else {}),
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def _key_schema(key: Key) -> Json:
    shape = key.takes.schema
    if key.null:
        shape = {"anyOf": [shape, {"type": "null"}]}
    return {**shape, "description": f"{key.doc} Takes {key.takes.says}.".strip()}
