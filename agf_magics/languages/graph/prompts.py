"""``schema:`` and ``output_schema:`` of a prompt: what the answer must conform to, as a JSON
Schema.

``prompt:`` of a node: a text, ``{system, user}``, or the name of a file of either (decisions
Y12, Y12′, A16).

A name such as ``review`` or ``loop/review`` leads to a file; `places` has the order in which
folders are searched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from ...flow.json_schema import describe_all, schema_violations
from ...flow.patterns import unusable_patterns
from ...flow.step import Name
from ...text.diagnostics import (
    UNUSABLE,
    Diagnostics,
    Source,
    Span,
    Text,
    path_error_reason,
    source_folder,
    suggest,
)
from ...text.nodes import Fields, Node, Scalar, is_text, plain, shorten, shown
from ...text.yamlnodes import documents
from ..documents import ANYTHING, NAME, TEXT, Key, Takes, kind, number_of
from .jinja import SYNTAX as jinja_SYNTAX
from .jinja import JinjaPrompt, read_jinja
from .reading import Prompt, Reader, Slot, read_text, split_slots
from .takes import NUMBER, PROMPT
from .words import PROMPT_FILE, PROMPT_MODEL

Json = dict[str, Any]

FIELD_TYPES: Mapping[str, Json] = {
    "str": {"type": "string"},
    "int": {"type": "integer"},
    "float": {"type": "number"},
    "bool": {"type": "boolean"},
    "list": {"type": "array"},
    "dict": {"type": "object"},
    "any": {},
    "Any": {},
    "string": {"type": "string"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
}
"""The types of a field; a list and a dict may name the type of their elements: ``list[str]``,
``dict[str, int]``."""

_CONSTRAINTS = {
    "ge": "minimum",
    "gt": "exclusiveMinimum",
    "le": "maximum",
    "lt": "exclusiveMaximum",
    "min_length": "minLength",
    "max_length": "maxLength",
    "pattern": "pattern",
}
"""The keyword of each constraint."""
_OF_LISTS = {"minLength": "minItems", "maxLength": "maxItems"}

_LENGTH = Takes("an integer", "3", {"type": "integer"}, number_of(int))
_CONSTRAINED = kind(
    "constraints",
    "What the value of a field must be.",
    *(Key(name, NUMBER) for name in ("ge", "gt", "le", "lt")),
    *(Key(name, _LENGTH) for name in ("min_length", "max_length")),
    Key("pattern", TEXT),
)
_FIELD = kind(
    "a field",
    "A field of an answer.",
    Key("type", NAME, required=True),
    Key("description", TEXT, null=True),
    Key("optional", ANYTHING),
    Key("default", ANYTHING),
    Key(
        "constraints",
        Takes("a mapping of constraints", "{ge: 0, le: 1}", {"type": "object"}, Reader.mapping),
    ),
)
_SCHEMA = kind(
    "schema",
    "The fields of an answer.",
    *(Key(name, ANYTHING) for name in ("name", "fields", "description")),
)


class _SchemaReader(Reader):
    """Reads a ``schema:``, all of whose errors have one code."""

    def __init__(self, problems: Diagnostics) -> None:
        super().__init__(problems)
        self.error = lambda code, *said: problems.error("graph.prompt-schema", *said)


_TYPE = re.compile(r"\s*(\w+)\s*(?:(\[)|(?=[\],]|$))")
_LONGEST = 200
_EXAMPLE = "schema: {name: Review, fields: {score: {type: int, description: From 1 to 5}}}"


def read_output_schema(reader: Reader, node: Node) -> Json | None:
    """``output_schema``: a JSON Schema. None after an error."""
    schema: Json = plain(node)
    if not isinstance(node, Fields):
        hint = (
            "output_schema: {type: object, properties: {score: {type: integer}}, required: [score]}"
        )
        reader.error(
            "graph.prompt-schema", f"expected a JSON Schema, got {shown(node)}", node.span, hint
        )
        return None
    if wrong := schema_violations(schema):
        message = f"this is not a JSON Schema: {describe_all(wrong)}"
        reader.error(
            "graph.prompt-schema",
            message,
            node.span,
            "output_schema: {type: object, properties: {…}}",
        )
        return None
    return schema if _check_patterns(reader, node, schema) else None


def read_schema(reader: Reader, node: Node) -> Json | None:
    """``schema: {name, fields}`` as a JSON Schema. None after an error."""
    fields = node.fields.get("fields") if isinstance(node, Fields) else None
    if not isinstance(node, Fields) or not isinstance(fields, Fields):
        place = fields.span if fields is not None else node.span
        reader.error(
            "graph.prompt-schema",
            "'schema' needs name and fields, a mapping of names",
            place,
            _EXAMPLE,
        )
        return None
    before, inner = reader.error_count, _SchemaReader(reader.problems)
    inner.fields(_SCHEMA, node, node.span)
    properties = {name: _field(inner, name, field) for name, field in fields.fields.items()}
    title = node.scalar("name")
    schema: Json = {
        "type": "object",
        **({"title": title.text} if title else {}),
        "properties": properties,
        "required": [name for name, field in fields.fields.items() if _is_required(field)],
    }
    for name, field in fields.fields.items():
        _check_patterns(reader, field, properties[name])
    return schema if reader.error_count == before else None


def _is_required(field: Node) -> bool:
    if not isinstance(field, Fields):
        return True
    return "default" not in field.fields and field.value_at("optional") is not True


def _field(reader: Reader, name: str, node: Node) -> Json:
    """A field: its type, or ``{type, description, optional, default, constraints}``."""
    given: dict[str, Any] = (
        reader.fields(_FIELD, node, node.span)
        if isinstance(node, Fields)
        else {"type": reader.name(node, Key(name, NAME))}
    )
    word: Name | None = given.get("type")
    if word is None:
        return {}
    made = read_type(word.text)
    if made is None:
        near = suggest(word.text.split("[")[0].strip(), FIELD_TYPES, "types")
        hint = near or "types are str, int, float, bool, Any, list, dict, list[T] and dict[str, T]"
        reader.error("graph.prompt-schema", f"unknown type {word.text[:80]!r}", word.span, hint)
        return {}
    constraints: Fields | None = given.get("constraints")
    if constraints is not None:
        for name, value in reader.fields(_CONSTRAINED, constraints, constraints.span).items():
            keyword = _CONSTRAINTS[name]
            keyword = _OF_LISTS.get(keyword, keyword) if made.get("type") == "array" else keyword
            made[keyword] = value.text if isinstance(value, Name) else value
    if given.get("description") is not None:
        made["description"] = given["description"].text
    if "default" in given:
        made["default"] = given["default"]
    if not _is_required(node) and isinstance(made.get("type"), str):
        made["type"] = [made["type"], "null"]  # models give null for an optional field
    return made


def read_type(text: str) -> Json | None:
    """``list[dict[str, int]]`` as a JSON Schema; None if it is not a type.

    >>> read_type("list[str]"), read_type("dict[str, Any]"), read_type("list[")
    ({'type': 'array', 'items': {'type': 'string'}}, {'type': 'object', 'additionalProperties': {}}, None)
    """
    if len(text) > _LONGEST:
        return None
    found, rest = _read_type(text)
    return found if not rest.strip() else None


def _read_type(text: str) -> tuple[Json | None, str]:
    """The type at the beginning of ``text``, and the rest. At most `_LONGEST` / 2 calls are
    open."""
    opened = _TYPE.match(text)
    if opened is None or opened[1] not in FIELD_TYPES:
        return None, text
    made, rest = dict(FIELD_TYPES[opened[1]]), text[opened.end() :]
    if opened[2] is None:
        return made, rest
    keys = {"list": 1, "List": 1, "dict": 2}.get(opened[1], 0)
    inner: Json | None = None
    for index in range(keys):
        inner, rest = _read_type(rest)
        rest = rest.lstrip()
        if inner is None or not rest.startswith("," if index + 1 < keys else "]"):
            return None, rest
        rest = rest[1:]
    if not keys or inner is None:
        return None, rest
    return {**made, "items" if keys == 1 else "additionalProperties": inner}, rest


def _check_patterns(reader: Reader, node: Node, schema: object) -> bool:
    problems = [*unusable_patterns("schema.pattern", node, schema)]
    reader.problems.extend(problems)
    return not problems


_NAME = re.compile(r"(?!state\.)[\w-][\w.-]*+(?>(?:/[\w-][\w.-]*+)*)")
_FILE = re.compile(r"[\w./-]+\.(?:yaml|yml|txt|md)")
_LARGEST = 1_000_000
MOST_FILES = 1_000
"""Files of a folder that are compared with a name that leads to none."""

Filled = Prompt | JinjaPrompt


class Folders(NamedTuple):
    """Where prompt files are searched: ``prompts_dir`` and ``prompts_relative`` of a graph."""

    prompts_dir: str | None = None
    relative: bool = False


class Prompts(NamedTuple):
    """What a node asks."""

    user: Filled
    system: Filled | None
    span: Span
    schema: Mapping[str, Any] | None = None
    """The JSON Schema of the answer."""
    model: Mapping[str, Any] = {}
    """``provider``, ``model``, ``temperature``, ``max_tokens``, as far as the prompt has them."""

    @property
    def slots(self) -> tuple[Slot, ...]:
        return (*(self.system.slots if self.system is not None else ()), *self.user.slots)


def read_prompt(reader: Reader, node: Node, folders: Folders, kind: str) -> Prompts | None:
    """The prompt of a node of that kind; None after an error."""
    if isinstance(node, Fields):
        return _from_fields(reader, node, kind)
    if not is_text(node):
        reader.wrong_type(node, Key("prompt", PROMPT))
        return None
    if not node.text.strip():
        reader.error(
            "graph.empty-prompt", "the prompt is empty", node.span, 'prompt: "Summarize {text}"'
        )
        return None
    if _NAME.fullmatch(node.text) or _FILE.fullmatch(node.text):
        found = _find(reader, node, folders)
        if isinstance(found, Path):
            return _from_file(reader, node, found, kind)
        if not found:
            return None
    text = read_part(reader, node, kind)
    return Prompts(text, None, node.span) if text is not None else None


def read_part(reader: Reader, text: Text, kind: str, in_file: bool = False) -> Filled | None:
    """A text of a prompt: a Jinja2 template as a whole, or a text with slots."""
    if jinja_SYNTAX.search(text.text) is None:
        return read_text(reader, text)._replace(joins=in_file)
    single = [part for part in split_slots(text.text, text) if isinstance(part, Slot)]
    if not single:
        return read_jinja(reader, text)
    by_slots = (
        kind == "agent" and "{%" not in text.text
    )  # as YAMLGraph reads the prompts of its agents
    if by_slots:
        message = (
            f"{single[0].text} is replaced, and doubled braces stay text: a prompt has one "
            f"of the two syntaxes"
        )
        hint = (
            f"write {single[0].text} for each variable, or {{{{ {single[0].text.strip('{} ')} }}}}"
        )
    else:
        message = f"{single[0].text} stays text: the prompt is a Jinja2 template"
        hint = f"write {{{{ {single[0].text.strip('{} ')} }}}}"
    reader.warn("graph.prompt-mixed", message, single[0].span, hint)
    if by_slots:
        return Prompt(split_slots(text.text, text), text.locate(0, len(text.text)), in_file)
    return read_jinja(reader, text)


def _from_fields(reader: Reader, node: Fields, kind: str, in_file: bool = False) -> Prompts | None:
    for name in node.fields.keys() - PROMPT_FILE.keys.keys():
        hint = suggest(name, PROMPT_FILE.keys, "keys of a prompt")
        reader.warn(
            "graph.prompt-key", f"{name!r} is not used in a prompt", node.keys[name].span, hint
        )
    before = reader.error_count
    texts: dict[str, Filled | None] = {}
    for name in ("system", "user"):
        text = node.fields.get(name)
        if is_text(text):
            texts[name] = read_part(reader, text, kind, in_file)
        elif text is not None or name == "user":
            span = text.span if text is not None else node.span
            hint = 'prompt: {user: "Summarize {text}"}'
            reader.error(
                "graph.prompt-shape", f"a prompt needs {name!r}, and it must be a text", span, hint
            )
    schema = _schema(reader, node)
    model = {
        key.name: key.takes.read(reader, node.fields[key.name], key)
        for key in PROMPT_MODEL
        if key.name in node.fields and not _is_block(reader, node.fields[key.name], key)
    }
    user = texts.get("user")
    if reader.error_count > before or user is None:
        return None
    return Prompts(user, texts.get("system"), node.span, schema, model)


def _is_block(reader: Reader, node: Node, key: Key) -> bool:
    """``model: {provider, name}``, which YAMLGraph's own examples have and YAMLGraph does not read
    (decision Y18)."""
    if key.name != "model" or not isinstance(node, Fields):
        return False
    wanted = {"provider": node.text_at("provider"), "model": node.text_at("name")}
    lines = [f"{key}: {text}" for key, text in wanted.items() if text]
    hint = f"write {', '.join(lines) or 'model: NAME'} as keys of the prompt to select one"
    reader.warn("graph.model-ignored", "'model' as a mapping selects no model", node.span, hint)
    return True


def _schema(reader: Reader, node: Fields) -> Mapping[str, Any] | None:
    held, written = node.fields.get("schema"), node.fields.get("output_schema")
    if held is not None and written is not None:
        hint = "keep one of them: schema lists fields, output_schema is a JSON Schema"
        message = "a prompt cannot have both schema and output_schema"
        reader.error("graph.prompt-schema", message, node.keys["output_schema"].span, hint)
        return None
    if written is not None:
        return read_output_schema(reader, written)
    return read_schema(reader, held) if held is not None else None


def places(name: str, own: Path, working: Path, folders: Folders) -> Iterator[Path]:
    """The files that ``name`` may lead to, in order: world.md § 7 has the rule, the fourth place is
    ours.

    ``own``: the folder of the graph; ``working``: the current folder.
    """
    if name.endswith(_ENDINGS):
        yield own / name
        yield from (
            folder / name for folder in _folders(own, working, folders) if _NAME.fullmatch(name)
        )
        return
    for folder in _folders(own, working, folders):
        yield from (folder / f"{name}.yaml", folder / f"{name}.yml")
    head, _, tail = name.rpartition("/")
    if head:
        yield from (
            working / head / "prompts" / f"{tail}.yaml",
            working / head / "prompts" / f"{tail}.yml",
        )


_ENDINGS = (".yaml", ".yml", ".txt", ".md")


def _folders(own: Path, working: Path, folders: Folders) -> Iterator[Path]:
    if folders.prompts_dir is not None:
        if folders.relative:
            yield own / folders.prompts_dir
        yield working / folders.prompts_dir
    if folders.relative:
        yield own
    yield working / "prompts"
    yield own / "prompts"


def _find(reader: Reader, node: Scalar, folders: Folders) -> Path | bool:
    """The file that the name leads to; True: the name is the prompt itself; False after an
    error."""
    working, own = Path.cwd().resolve(), source_folder(node.span.source.name)
    root = working if own.is_relative_to(working) else own
    tried, outside = dict[str, None](), False
    for path in places(node.text, own, working, folders):
        try:
            found = path.resolve()
            if not found.is_relative_to(root):
                outside = True
            elif found.is_file():
                return found
            else:
                tried[_shown(found, root)] = None
        except UNUSABLE as error:
            tried[f"{shorten(str(path))} ({path_error_reason(error)})"] = None
    if "/" not in node.text and not _FILE.fullmatch(node.text):
        near = _near(node.text, root, tried)
        hint = (
            f"{near}a prompt file is {' or '.join(list(tried)[:4:2])}; a prompt of several words "
            f"is text"
        )
        reader.warn(
            "graph.prompt-word",
            f"{shorten(node.text)!r} is sent as the prompt itself",
            node.span,
            hint,
        )
        return True
    if tried or not outside:
        message = f"cannot find the prompt file {shorten(node.text)!r}"
        hint = (
            f"{_near(node.text, root, tried)}searched: "
            f"{', '.join(one for one in tried if not one.endswith('.yml') or one.endswith(node.text))}"
        )
        hint += "" if node.text.endswith(_ENDINGS) else ", and the same with .yml"
    else:
        message, hint = (
            f"{shorten(node.text)!r} is outside the folder",
            "move the prompt file next to the graph",
        )
    reader.error("graph.prompt-file", message, node.span, hint)
    return False


def _near(name: str, root: Path, tried: Iterable[str]) -> str:
    """The prompt file that the name may mean, among those in the folders that were searched."""
    folders = dict.fromkeys((root / file).parent for file in tried)
    head, slash, _ = name.rpartition("/")
    names = {
        head + slash + (file.name if name.endswith(_ENDINGS) else file.stem)
        for folder in folders
        if folder.is_dir()
        for file in islice(folder.iterdir(), MOST_FILES)
        if file.suffix in _ENDINGS
    }
    near = suggest(name, sorted(names))
    return f"{near} " if near else ""


def _shown(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()


def _from_file(reader: Reader, node: Scalar, path: Path, kind: str) -> Prompts | None:
    working = Path.cwd().resolve()
    name = _shown(path, working) if path.is_relative_to(working) else node.text
    try:
        if path.stat().st_size > _LARGEST:
            raise ValueError(f"it has more than {_LARGEST:,} bytes")
        source = Source(name, path.read_bytes().decode("utf-8"))
    except UNUSABLE as error:
        message = f"cannot read {shorten(name)!r}: {path_error_reason(error)}"
        reader.error("graph.prompt-file", message, node.span, "a prompt file is a text in UTF-8")
        return None
    if path.suffix in (".txt", ".md"):
        text = read_part(reader, source.span(), kind, in_file=True)
        return Prompts(text, None, node.span) if text is not None else None
    found = Diagnostics()
    read = documents(source, found)
    if found.errors:
        reader.problems.extend(found)
        return None
    if len(read) == 1 and isinstance(read[0], Fields):
        prompts = _from_fields(reader, read[0], kind, in_file=True)
        return prompts._replace(span=node.span) if prompts else None
    what = shown(read[0]) if read else "an empty file"
    message = f"{name!r} must hold a mapping with user and system, got {what}"
    reader.error("graph.prompt-shape", message, node.span, "user: Summarize {text}")
    return None
