"""Reads one call of a plan's document: the keys that begin with an underscore, and its
arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...flow.json_schema import judge
from ...flow.patterns import SYNTAX, pattern_faults
from ...flow.steps import Name
from ...flow.values import Value
from ...flow.violations import describe
from ...text.diagnostics import DefinitionError, misspelled_names, suggest
from ...text.nodes import Fields, Node, Scalar
from ...text.source import Span, Text
from ..documents import is_nothing
from .calls import Call
from .destinations import Alternatives, parse_output
from .reference import canonical
from .templates import Reader
from .words import CALL


def read_call(reader: Reader, index: int, node: Fields) -> Call | None:
    """Read a call. Problems are added to ``reader``."""
    return _CallReader(reader, index, node).call()


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
        path, alternatives = self.path(given.get("_outputPath"), schema)
        authored = {key: reader.authored(value) for key, value in node.fields.items()}
        if path is not None:
            authored["_outputPath"] = path
        instance, shared = given.get("_instance", (None, False))
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
            alternatives=alternatives,
            method=given.get("_outputMethod"),
            instance=instance,
            shared=shared,
            scopes=self.scopes(given),
            latent=self.latent(tool, activity, schema),
            answer=given.get("_output"),
            delegate=delegate is not None,
            schema=schema,
            span=tool.span,
            path_span=node.fields["_outputPath"].span if "_outputPath" in node.fields else None,
        )

    def no_tool(self) -> None:
        node = self.node
        unknown = [
            name for name in node.fields if name.startswith(CALL.prefix) and name not in CALL.keys
        ]
        if "_tool" not in node.fields and "_tool" not in misspelled_names(unknown, CALL.keys):
            slip = node.keys.get("tool")
            named = node.fields.get("tool")
            hint = (
                f"write _tool: {named.text}"
                if isinstance(named, Scalar) and named.text
                else "add _tool: NAME"
            )
            self.error(
                "plan.bad-call", "a call needs '_tool'", slip.span if slip else node.span, hint
            )

    def latent(self, tool: Name, activity: str | None, schema: Mapping[str, Value] | None) -> bool:
        """Whether the call is latent: never executed, with its answer in the document (decision
        C3)."""
        answer = self.node.keys.get("_output")
        declared = activity == "" or (activity is None and tool.text in self.reader.latent)
        if declared and answer is None:
            span = self.node.keys["_activity"].span if activity == "" else tool.span
            message = f"tool {tool.text!r} is latent (never executed): the call must give '_output'"
            self.error("plan.no-activity", message, span, "write its answer: _output: …")
        if declared or (answer is not None and schema is not None and activity is None):
            return True
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
        return False

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
        elif isinstance(value, Scalar) and type(value.value) is str and not value.is_expr:
            text = value
        else:
            self.reader.wrong_type(
                value, CALL.keys["_outputPath"], f"for example {self.reader.sign}state.result"
            )
            return None, ()
        try:
            alternatives = parse_output(text, self.reader.sign)
            path = canonical(text) if "$" in text.text else text.text
        except DefinitionError as error:
            self.reader.problems.extend(error.diagnostics)
            return None, ()
        if text is value:
            self.check_allowed(path, rule, value.span)
        return path, alternatives

    def check_allowed(self, path: str, rule: Mapping[str, Any], span: Span) -> None:
        """Check a path against its JSON Schema, which the tool's schema contains."""
        faults = list(pattern_faults(rule))
        for fault in faults:
            if fault.pattern not in self.reader.bad_patterns:  # else the document reader reports it
                message = (
                    f"the pattern {fault.pattern[:80]!r} for this tool's paths cannot be "
                    f"used: {fault.error}"
                )
                self.error("plan.bad-pattern", message, span, SYNTAX)
        allowed = rule.get("enum", ())
        hint = suggest(path, allowed, "its paths") or (
            f"write _outputPath: {rule['const']}" if "const" in rule else None
        )
        for violation in () if faults else judge(rule)(path):
            self.error(
                "plan.forbidden-path",
                f"the output path of this tool {describe(violation)}",
                span,
                hint,
            )
            return


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
