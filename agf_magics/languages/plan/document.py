"""The plan language as data: the one table for the loader, hints, completion, JSON Schema and the
docs.

Reads one call of a plan's document: the keys that begin with an underscore, and its
arguments.

Reads a plan's document by its table of keys. All problems are reported at once.

The text of a planner's cell: a plan without its calls, which a model writes, and the task."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from ...flow.json_schema import describe, judge
from ...flow.patterns import SYNTAX
from ...flow.step import Name
from ...flow.steps import Constant
from ...flow.values import Value
from ...text.diagnostics import (
    DefinitionError,
    Diagnostics,
    Source,
    Span,
    Text,
    misspelled_names,
    suggest,
)
from ...text.nodes import Fields, Items, Node, is_text, plain, shown
from ...text.yamlnodes import Bounds
from ..documents import (
    ANYTHING,
    FLAG,
    NAME,
    TEXT,
    Finding,
    Key,
    Takes,
    is_nothing,
    kind,
    kind_schema,
    mapping_of,
    one_document,
    reference,
    said,
)
from . import takes
from .calls import Background, Call, Output, Template
from .messages import Alternatives, kind_of, parse_output, plain_message
from .reference import KIND, canonical, sign_of
from .takes import INSTANCE, KINDS, Reader, Suspect

_CALL = "plan.bad-call"

PLAN: Final = kind(
    "a plan",
    "A plan.",
    Key(
        "name",
        NAME,
        "The name of the plan, under which it is registered and called.",
        code="plan.wrong-type",
    ),
    Key("description", TEXT, "What it does, for people and for agents that may call it."),
    Key(
        "context",
        NAME,
        "The named context that it continues. Without one, each run begins with an empty context.",
        code="plan.wrong-type",
    ),
    Key(
        "calls",
        takes.CALLS,
        "The calls. Each one runs as soon as the values that it reads exist.",
        True,
    ),
    Key("input", ANYTHING, "The value of `†input` before the first call."),
    Key("state", ANYTHING, "The value of `†state` before the first call."),
    Key("data", ANYTHING, "The value of `†data` before the first call."),
    Key("messages", takes.MESSAGES, "Messages of any kind, as a context contains them."),
    Key(
        "instances",
        takes.INSTANCES,
        "The own values of each instance. Every call runs once for each instance.",
    ),
    Key(
        "tools",
        takes.TOOLS,
        "Schemas of tools: the `_outputPath` that their calls must have. A tool in this list may "
        "be latent.",
    ),
    Key("output", takes.VALUE, "The output of the plan, read after the last call."),
    Key("mode", takes.MODE, "`lazy` checks and draws the plan, without calls."),
    Key(
        "ordered",
        FLAG,
        "Whether overlapping results are stored in the order of the list instead of the order in "
        "which calls end.",
    ),
    Key("confirm", takes.CONFIRM, "The calls that a person must approve before they are made."),
)
CALL: Final = kind(
    "a call",
    "A call; a key without an underscore is an argument: a value, with references anywhere in it.",
    Key("_tool", NAME, "The tool or the flow that is called.", code=_CALL),
    Key(
        "_outputPath",
        takes.PATH,
        "The destinations of the result. Without it the plan does not wait for the call.",
        code="plan.bad-output-path",
    ),
    Key(
        "_outputMethod",
        takes.METHOD,
        "How the result is combined with the existing value. Defaults to `set`.",
        code="plan.unknown-method",
    ),
    Key(
        "_instance",
        takes.INSTANCE_NAME,
        "The instance that the call reads and writes for. `null` makes the call once for all "
        "instances.",
        code="plan.instance",
    ),
    Key(
        "_scopes",
        takes.SCOPES,
        "The kinds of messages that the tool receives as `_context`.",
        code=_CALL,
    ),
    Key(
        "_activity",
        takes.ACTIVITY,
        "The registered tool that is called, if it has another name. Empty: the call is latent "
        "(never executed).",
        code=_CALL,
    ),
    Key(
        "_delegate",
        NAME,
        "The registered flow that is called, with the arguments as its input.",
        code=_CALL,
    ),
    Key("_output", ANYTHING, "The answer of a latent call."),
    Key("_reasoningForCall", takes.REASON, "The reason of the call, for people and models only."),
    prefix="_",
)

SCHEMA: Final[Mapping[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "A plan",
    "anyOf": [{"type": "array", "items": reference("call")}, reference("plan")],
    "$defs": {
        "call": {
            "anyOf": [{"required": ["_tool"]}, {"required": ["_delegate"]}],
            **kind_schema(CALL),
        },
        "instance": kind_schema(takes.INSTANCE),
        "plan": kind_schema(PLAN),
    },
}
"""JSON Schema of a plan's document."""


class _CallReader:
    """The reading of one call."""

    def __init__(self, reader: Reader, index: int, node: Fields) -> None:
        self.reader, self.index, self.node = reader, index, node
        self.error = reader.error

    def call(self) -> Call | None:
        node, reader = self.node, self.reader
        given = reader.fields(CALL, node, node.span)
        delegate: Name | None = given.get("_delegate")
        activity: str | None = given.get("_activity")
        tool: Name | None = given.get("_tool") or delegate
        if tool is None:
            self.no_tool()
            return None
        schema = reader.tools.get(tool.text)
        written: Node | None = given.get("_outputPath")
        path, alternatives = self.path(written, schema)
        authored = {key: reader.authored(value) for key, value in node.fields.items()}
        if path is not None:
            authored["_outputPath"] = path
        instance, shared = given.get("_instance", (None, False))
        for name in node.fields:
            if "_tool" not in node.inner(name).fields:
                continue
            message = f"{name!r} is passed as an object: a call in an argument is not made"
            hint = (
                f"make it one of calls:, with _outputPath: {reader.sign}state.x, and pass "
                f"{reader.sign}state.x here"
            )
            reader.warn("plan.literal-reference", message, node.keys[name].span, hint)
        return Call(
            index=self.index,
            id=f"calls[{self.index}]",
            tool=delegate or (Name(activity, node.fields["_activity"].span) if activity else tool),
            authored=authored,
            given=tuple(
                (name, node.keys[name].span, reader.template(value))
                for name, value in node.fields.items()
                if not name.startswith("_")
            ),
            output=Output(alternatives, given.get("_outputMethod"), written and written.span),
            instance=instance,
            shared=shared,
            latent=self.latent(given, tool, activity, schema),
            delegate=delegate is not None,
            background=Background(schema or {}, self.scopes(given)),
        )

    def no_tool(self) -> None:
        node = self.node
        unknown = [
            name for name in node.fields if name.startswith(CALL.prefix) and name not in CALL.keys
        ]
        if "_tool" not in node.fields and "_tool" not in misspelled_names(unknown, CALL.keys):
            slip = node.keys.get("tool")
            named = node.text_at("tool")
            hint = f"write _tool: {named}" if named else "add _tool: NAME"
            path = node.text_at("output")
            hint += f", _outputPath: {path}" if self.reader.begins(path) == "reference" else ""
            self.error(
                "plan.bad-call", "a call needs '_tool'", slip.span if slip else node.span, hint
            )

    def latent(
        self,
        given: Mapping[str, Any],
        tool: Name,
        activity: str | None,
        schema: Mapping[str, Value] | None,
    ) -> Constant | None:
        """The answer of the document, if the call is latent: never executed (decision C3)."""
        answer = self.node.keys.get("_output")
        declared = activity == "" or (activity is None and tool.text in self.reader.latent)
        if declared and answer is None:
            span = self.node.keys["_activity"].span if activity == "" else tool.span
            message = f"tool {tool.text!r} is latent (never executed): the call must give '_output'"
            self.error("plan.no-activity", message, span, "write its answer: _output: …")
        if declared or (answer is not None and schema is not None and activity is None):
            return Constant(self.node.span, given.get("_output"))
        if answer is not None:
            message = (
                f"'_output' is the answer of a latent tool, but {tool.text!r} is not "
                f"declared latent"
            )
            path = (
                f"to store the result of the tool, write _outputPath: {self.reader.sign}state.NAME"
            )
            self.error(
                "plan.no-activity",
                message,
                answer.span,
                f"{path}; to declare it: tools: {{{tool.text}: {{}}}}",
            )
        return None

    def scopes(self, given: Mapping[str, Any]) -> tuple[str, ...]:
        if "_scopes" in given and "_delegate" in self.node.fields:
            message = (
                "'_scopes' has no effect with '_delegate': the called plan has a log of its own"
            )
            hint = f"pass the values as arguments, for example state: {self.reader.sign}state"
            self.error("plan.bad-call", message, self.node.keys["_scopes"].span, hint)
        return given.get("_scopes") or ()

    def path(
        self, value: Node | None, schema: Mapping[str, Value] | None
    ) -> tuple[str | None, Alternatives]:
        """The output path with † for $, and its alternatives."""
        rule = _path_rule(schema)
        text: Text
        if value is None or is_nothing(value):
            if not isinstance(rule.get("const"), str):
                return None, ()
            text = _Prescribed(rule["const"], self.node.span)
        elif is_text(value) and not value.is_expr:
            text = value
        else:
            hint = f"for example {self.reader.sign}state.result"
            if isinstance(value, Items):
                hint = f"write _outputPath: {' && '.join(map(str, plain(value)))}"
            self.reader.wrong_type(value, CALL.keys["_outputPath"], hint)
            return None, ()
        try:
            alternatives = parse_output(text, self.reader.sign)
            path = canonical(text)
        except DefinitionError as error:
            self.reader.problems.extend(error.diagnostics)
            return None, ()
        if text is value:
            self.check_allowed(path, rule, value.span)
        return path, alternatives

    def check_allowed(self, path: str, rule: Mapping[str, Any], span: Span) -> None:
        """Check a path against its JSON Schema, which the tool's schema contains."""
        for violation in judge(rule)(path)[:1]:
            code, hint = "plan.forbidden-path", suggest(path, rule.get("enum", ()), "its paths")
            if "const" in rule:
                hint = f"write _outputPath: {rule['const']}"
            if violation.keyword == "unusable":  # the schema of a tool message
                code, hint = "plan.bad-pattern", SYNTAX
            self.error(code, f"the output path of this tool {describe(violation)}", span, hint)


@dataclass(frozen=True, slots=True)
class _Prescribed:
    """A path that the tool's schema gives; its errors point at the call."""

    text: str
    span: Span

    def locate(self, start: int, end: int) -> Span:
        return self.span


def _path_rule(schema: Mapping[str, Value] | None) -> Mapping[str, Any]:
    """The rules of a tool's schema for ``_outputPath``: among its properties, or at the top."""
    properties = (schema or {}).get("properties", schema or {})
    rule = properties.get("_outputPath") if isinstance(properties, dict) else None
    return rule if isinstance(rule, dict) else {}


_FUNCTION = re.compile(r"([A-Za-z_]\w*)\(")
_WRITTEN = re.compile(rf"[†$]({KIND.pattern})")


@dataclass(frozen=True, slots=True)
class Document:
    """The content of a document."""

    sign: str
    """The sign of references in messages about it."""
    name: Name | None = None
    description: str = ""
    context: str = ""
    calls: tuple[Call, ...] = ()
    messages: tuple[Mapping[str, Value], ...] = ()
    """The first messages of the context."""
    output: Template = None
    has_output: bool = False
    mode: str = "eager"
    ordered: bool = False
    confirm: frozenset[str] = frozenset()
    """The tools whose calls a person must approve."""
    suspects: tuple[Suspect, ...] = ()


class DocumentReader(Reader):
    """Reads one document."""

    def document(self, node: Fields) -> Document:
        """As much of a document as can be read."""
        if "_tool" in node.fields and "calls" not in node.fields:
            slip, hint = node.keys["_tool"], "begin the call with a dash: - _tool: …"
            self.error(
                "plan.document-shape",
                "a plan must be a list of calls, not one call",
                slip.span,
                hint,
            )
            return Document(self.sign)
        given = self.fields(PLAN, node, node.head)
        messages = self.messages(given, node)
        self.kinds = KINDS | {kind for one in messages if (kind := kind_of(one))} | _written(node)
        for message in messages:  # a tool message declares tools; the last one of a name counts
            if message.get("type") == "tool" and isinstance(message.get("tool"), dict):
                self.tools.update(
                    {name: one for name, one in message["tool"].items() if isinstance(one, dict)}
                )
        self.tools.update(given.get("tools", {}))
        listed: Items | None = given.get("calls")
        calls = self.calls(listed.items if listed is not None else ())
        in_calls = len(self.suspects)
        output = self.template(given["output"]) if "output" in given else None
        in_output = (one._replace(marked=True) for one in self.suspects[in_calls:])
        return Document(
            sign=self.sign,
            name=given.get("name"),
            description=said(given, "description"),
            context=said(given, "context"),
            calls=calls,
            messages=messages,
            output=output,
            has_output="output" in given,
            mode=given.get("mode", "eager"),
            ordered=given.get("ordered", False),
            confirm=self.confirm(given.get("confirm"), calls, listed),
            suspects=(*self.suspects[:in_calls], *in_output),
        )

    def messages(self, given: Mapping[str, Any], node: Fields) -> tuple[Mapping[str, Value], ...]:
        """The first messages of the context."""
        own = (
            kind for kind in INSTANCE.keys if kind in given and not is_nothing(node.fields[kind])
        )
        written = (plain_message(kind, given[kind]) for kind in own)
        return (*written, *given.get("messages", ()), *given.get("instances", ()))

    def confirm(
        self, named: bool | Mapping[str, Span] | None, calls: tuple[Call, ...], listed: Items | None
    ) -> frozenset[str]:
        """The tools whose calls a person approves."""
        called = [call.tool.text for call in calls]
        if not isinstance(named, Mapping):
            return frozenset(called if named else ())
        complete = listed is not None and len(listed.items) == len(calls)  # all calls could be read
        # A misspelt name here makes a call that the person wants to approve first.
        for name in named.keys() - set(called) if complete else ():
            hint = suggest(name, dict.fromkeys(called), "the tools of calls")
            message = f"no call has the tool {name!r}: this entry has no effect"
            self.warn("plan.confirms-nothing", message, named[name], hint)
        return frozenset(named)

    def calls(self, nodes: Sequence[Node]) -> tuple[Call, ...]:
        found = [self.call(index, node) for index, node in enumerate(nodes)]
        return tuple(call for call in found if call is not None)

    def call(self, index: int, node: Node) -> Call | None:
        if isinstance(node, Fields):
            return _CallReader(self, index, node).call()
        hint = f"for example {{_tool: fetch, url: {self.sign}input.url}}"
        if function := _FUNCTION.match(node.text):
            hint = f"write {{_tool: {function[1]}, ARGUMENT: VALUE}}"
        self.error("plan.bad-call", f"a call must be a mapping, got {shown(node)}", node.span, hint)
        return None


def _written(document: Fields) -> frozenset[str]:
    """The kinds in the output paths of calls that are not read yet."""
    paths = (call.text_at("_outputPath") for call in document.entries("calls"))
    return frozenset(kind for path in paths for kind in _WRITTEN.findall(path))


OF_THE_MODEL: Final = ("calls", "output")
"""The keys of a plan that the model writes."""


def _input(reader: Reader, node: Node, key: Key) -> Mapping[str, Value]:
    return {
        name.text: ANYTHING.read(reader, value, key)
        for name, value in reader.entries(reader.mapping(node, key))
    }


INPUT: Final = Takes("a mapping of names to values", "{fruit: fig}", mapping_of({}), _input)
TASK: Final = NAME._replace(says="a text", example="What do two kilos of figs cost?")
HEADER: Final = kind(
    "a planner",
    "A planner: a task and the first values of its context.",
    Key("task", TASK, "The task in words.", True, code="plan.wrong-type"),
    *(
        key._replace(takes=INPUT) if name == "input" else key
        for name, key in PLAN.keys.items()
        if name not in (*OF_THE_MODEL, "mode", "ordered")
    ),
)
HEADER_SCHEMA: Final[Mapping[str, Any]] = {**kind_schema(HEADER), "$defs": SCHEMA["$defs"]}
"""JSON Schema of a header."""


_NO_HEADER = Finding(
    "plan.document-shape",
    "the cell of a planner must be a mapping with 'task'",
    HEADER.keys["task"].example,
)
_TWO_HEADERS = Finding(
    "plan.two-plans", "one planner per cell", "define the other one in its own cell"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """What a person writes for a planner."""

    task: str
    name: str
    context: str
    messages: tuple[Mapping[str, Value], ...]
    """The first messages of the context, without the input."""
    input: Mapping[str, Value]
    tools: Mapping[str, Mapping[str, Value]]
    """The declared tools: latent ones, and prescribed output paths."""
    confirm: bool | tuple[str, ...]


class HeaderReader(DocumentReader):
    """Reads a header."""

    advice: ClassVar[Mapping[str, str]] = {
        **DocumentReader.advice,
        **dict.fromkeys(
            OF_THE_MODEL, "the model writes it: remove it, or define the plan without --planner"
        ),
    }

    def header(self, node: Fields) -> Header:
        """As much of a header as can be read."""
        given = self.fields(HEADER, node, node.head)
        values = given.pop("input", {})  # which may have secrets: no message has them
        confirm = given.get("confirm")
        return Header(
            task=said(given, "task"),
            name=said(given, "name"),
            context=said(given, "context"),
            messages=self.messages(given, node),
            input=values,
            tools=given.get("tools", {}),
            confirm=tuple(confirm) if isinstance(confirm, Mapping) else confirm is True,
        )


def load_header(source: Source, problems: Diagnostics, bounds: Bounds) -> Header | None:
    """The header in a text. Errors are added to ``problems``; None if there is one."""
    before = problems.error_count
    first = one_document(source, problems, bounds, _NO_HEADER, _TWO_HEADERS)
    if first is None:
        return None
    if not isinstance(first, Fields):
        problems.error(_NO_HEADER.code, _NO_HEADER.message, first.span, _NO_HEADER.hint)
        return None
    reader = HeaderReader(problems, sign_of(source.text))
    header = reader.header(first)
    return header if problems.error_count == before else None
