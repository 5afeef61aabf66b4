"""Reads one call of a plan's document: its arguments, and the keys that begin with an
underscore."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...flow.expressions import Constant
from ...flow.protocols import Name
from ...schemas.json_schema import judge
from ...schemas.patterns import SYNTAX
from ...schemas.violations import describe
from ...text.diagnostics import DefinitionError
from ...text.source import Span, Text
from ...text.suggestions import misspelled_names, suggest
from ...text.yaml.nodes import Fields, Items, Node, flow_text, is_text, plain
from ...values.value import Value
from ..documents import is_nothing
from ..foreign_keys import ELSEWHERE
from .calls import Argument, Call, CallContext, Output
from .log.destinations import Alternatives, parse_output
from .log.reference import KIND, canonical
from .reader import Reader
from .words import CALL


class CallReader:
    """The reading of one call."""

    def __init__(self, reader: Reader, index: int, node: Fields) -> None:
        self.reader = reader
        self.index = index
        self.node = node
        self.error = reader.error

    def call(self) -> Call | None:
        """The call; None, after an error, if it names no tool."""
        node = self.node
        reader = self.reader
        fields = reader.fields(CALL, node, node.span)
        delegate: Name | None = fields.get("_delegate")
        activity: str | None = fields.get("_activity")
        tool: Name | None = fields.get("_tool") or delegate or self.no_tool()
        if tool is None:
            return None
        schema = reader.tools.get(tool.text)
        written: Node | None = fields.get("_outputPath")
        path, alternatives = self.path(written, schema)
        # The keys as the author wrote them, for the log.
        authored = {key: reader.authored(value) for key, value in node.fields.items()}
        if path is not None:
            authored["_outputPath"] = path
        instance, shared = fields.get("_instance", (None, False))
        self.warn_of_inner_calls()
        return Call(
            index=self.index,
            id=f"calls[{self.index}]",
            tool=delegate or (Name(activity, node.fields["_activity"].span) if activity else tool),
            authored=authored,
            arguments=tuple(
                Argument(name, node.keys[name].span, reader.template(value), value.span)
                for name, value in node.fields.items()
                if not name.startswith("_")
            ),
            output=Output(alternatives, fields.get("_outputMethod"), written and written.span),
            instance=instance,
            shared=shared,
            latent=self.latent(fields, tool, activity, schema),
            delegate=delegate is not None,
            context=CallContext(schema or {}, self.scopes(fields)),
        )

    def warn_of_inner_calls(self) -> None:
        """Warn of an argument that looks like a call."""
        for name in self.node.fields:
            if "_tool" not in self.node.inner(name).fields:
                continue
            message = f"{name!r} is passed as an object: a call in an argument is not made"
            store = f"{self.reader.sign}state.x"
            hint = f"make it one of calls:, with _outputPath: {store}, and pass {store} here"
            self.reader.warn("plan.literal-reference", message, self.node.keys[name].span, hint)

    def no_tool(self) -> Name | None:
        """Report a call without a tool, unless the key is misspelt, which is reported. Returns the
        tool that another key names."""
        node = self.node
        unknown = [
            name for name in node.fields if name.startswith(CALL.prefix) and name not in CALL.keys
        ]
        if "_tool" in node.fields or "_tool" in misspelled_names(unknown, CALL.keys):
            return None
        has_wrapped = any(ELSEWHERE.get(name) == "args" for name in node.fields)
        named_by = _NAMING if has_wrapped else _NAMING[:-1]
        slip = next((key for key in named_by if is_text(node.fields.get(key))), "")
        named = node.text_at(slip)
        only = next(iter(node.fields), "")
        hint = f"write _tool: {named}" if named else "add _tool: NAME"
        if len(node.fields) == 1 and isinstance(node.fields[only], Fields):  # TOOL: {…}
            hint = f"write {self.meant_call(only, node.inner(only))}"
        place = node.keys.get(slip or "tool", node)
        self.error("plan.bad-call", "a call needs '_tool'", place.span, hint)
        if not named:
            return None
        # It is read as what it means, so that it hides nothing (decision D287).
        self.reader.understood()
        node.replace_by(node.renamed(slip, "_tool"))
        return Name(named, node.fields["_tool"].span)

    def meant_call(self, word: str, body: Fields) -> str:
        """The call that ``TOOL: {…}`` means, or the step of a pipeline, ``tool: {name: TOOL, …}``."""
        is_step = word == "tool" and body.text_at("name") != ""
        arguments = body.inner("args") if is_step else body
        keys = {"_tool": body.text_at("name") if is_step else word}
        keys |= {name: flow_text(value) for name, value in arguments.fields.items()}
        if is_step and body.text_at("output"):
            keys["_outputPath"] = f"{self.reader.sign}state.{body.text_at('output')}"
        return f"{{{', '.join(map('{0[0]}: {0[1]}'.format, keys.items()))}}}"

    def latent(
        self,
        fields: Mapping[str, Any],
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
        # A tool that the document describes (`schema`) may lack an activity: an answer makes it
        # latent.
        if declared or (answer is not None and schema is not None and activity is None):
            return Constant(self.node.span, fields.get("_output"))
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

    def scopes(self, fields: Mapping[str, Any]) -> tuple[str, ...]:
        """The scopes that the call names; an error beside ``_delegate``, where they have no effect."""
        if "_scopes" in fields and "_delegate" in self.node.fields:
            message = (
                "'_scopes' has no effect with '_delegate': the called plan has a log of its own"
            )
            hint = f"pass the values as arguments, for example state: {self.reader.sign}state"
            self.error("plan.bad-call", message, self.node.keys["_scopes"].span, hint)
        return fields.get("_scopes") or ()

    def path(
        self, value: Node | None, schema: Mapping[str, Value] | None
    ) -> tuple[str | None, Alternatives]:
        """The output path and its alternatives. A log always has †; the author may write $."""
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
        if text is value:  # prescribed paths need no check
            self.check_allowed(path, rule, value.span)
        return path, alternatives

    def check_allowed(self, path: str, rule: Mapping[str, Any], span: Span) -> None:
        """Check a path against its JSON Schema, which the tool's schema contains."""
        for violation in judge(rule)(path)[:1]:
            code = "plan.forbidden-path"
            hint = suggest(path, rule.get("enum", ()), "its paths")
            if "const" in rule:
                hint = f"write _outputPath: {rule['const']}"
            if violation.keyword == "unusable":
                # The pattern in the schema that the document gives cannot be used.
                code = "plan.bad-pattern"
                hint = SYNTAX
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


_NAMING = ("tool", "function", "action", "call", "uses", "name")
"""The keys with which other languages name what is called; the last one only beside a mapping of
arguments."""
_WRITTEN = re.compile(rf"[†$]({KIND.pattern})")


def written_kinds(document: Fields) -> frozenset[str]:
    """The kinds of messages in the output paths of the calls, before the calls are read."""
    paths = (call.text_at("_outputPath") for call in document.entries("calls"))
    return frozenset(kind for path in paths for kind in _WRITTEN.findall(path))
