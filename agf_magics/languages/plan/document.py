"""Reads a plan's document by its table of keys. All problems are reported at once."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...flow.protocols import Name
from ...text.source import Span
from ...text.suggestions import suggest
from ...text.yaml.nodes import Fields, Items, Node, shown
from ...values.value import Value
from ..documents import is_nothing, text_at
from .call_reader import CallReader, written_kinds
from .calls import Call, Template
from .log.messages import kind_of, plain_message
from .log.reference import KINDS
from .lookalikes import Suspect
from .reader import Reader
from .takes import INSTANCE
from .words import PLAN

_FUNCTION = re.compile(r"([A-Za-z_]\w*)\(")
"""A call that is written as in Python."""


@dataclass(frozen=True, slots=True)
class Document:
    """The content of a document."""

    sign: str
    """The sign of references in messages about the document: the sign that its author uses."""
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
    """The tools of calls that a person must approve; with ``confirm: true`` those of all calls."""
    listed_to_confirm: frozenset[str] = frozenset()
    """The tools that ``confirm`` names, which nothing that a call runs may call. ``confirm: true``
    names none, because then a person approves everything that each call does."""
    suspects: tuple[Suspect, ...] = ()


class DocumentReader(Reader):
    """Reads one document."""

    def document(self, node: Fields) -> Document:
        """The readable parts of a document."""
        if "_tool" in node.fields and "calls" not in node.fields:
            slip = node.keys["_tool"]
            hint = "begin the call with a dash: - _tool: …"
            self.error(
                "plan.document-shape",
                "a plan must be a list of calls, not one call",
                slip.span,
                hint,
            )
            return Document(self.sign)
        fields = self.fields(PLAN, node, node.head)
        messages = self.messages(fields, node)
        kinds_of_messages = {kind for message in messages if (kind := kind_of(message))}
        self.kinds = KINDS | kinds_of_messages | written_kinds(node)
        self.tools.update(_declared_tools(messages))
        self.tools.update(fields.get("tools", {}))
        listed: Items | None = fields.get("calls")
        calls = self.calls(listed.items if listed is not None else ())
        in_calls = len(self.suspects)
        output = self.template(fields["output"]) if "output" in fields else None
        in_output = (suspect._replace(marked=True) for suspect in self.suspects[in_calls:])
        return Document(
            sign=self.sign,
            name=fields.get("name"),
            description=text_at(fields, "description"),
            context=text_at(fields, "context"),
            calls=calls,
            messages=messages,
            output=output,
            has_output="output" in fields,
            mode=fields.get("mode", "eager"),
            ordered=fields.get("ordered", False),
            confirm=self.confirm(fields.get("confirm"), calls, listed),
            listed_to_confirm=_tools_to_confirm(fields.get("confirm")),
            suspects=(*self.suspects[:in_calls], *in_output),
        )

    def messages(self, fields: Mapping[str, Any], node: Fields) -> tuple[Mapping[str, Value], ...]:
        """The first messages of the context."""
        kinds = (
            kind for kind in INSTANCE.keys if kind in fields and not is_nothing(node.fields[kind])
        )
        written = (plain_message(kind, fields[kind]) for kind in kinds)
        return (*written, *fields.get("messages", ()), *fields.get("instances", ()))

    def confirm(
        self, named: bool | Mapping[str, Span] | None, calls: tuple[Call, ...], listed: Items | None
    ) -> frozenset[str]:
        """The tools whose calls a person approves."""
        called = [call.tool.text for call in calls]
        if not isinstance(named, Mapping):
            return frozenset(called if named else ())
        complete = listed is not None and len(listed.items) == len(calls)  # all calls could be read
        # With a misspelt name, a call would be made that the person wants to approve first. A name
        # that resembles no call may be the name of a tool that a called flow calls.
        for name in named.keys() - set(called) if complete else ():
            if (hint := suggest(name, dict.fromkeys(called))) is not None:
                message = f"no call has the tool {name!r}: nobody is asked about it"
                self.warn("plan.confirms-nothing", message, named[name], hint)
        return frozenset(named)

    def calls(self, nodes: Sequence[Node]) -> tuple[Call, ...]:
        calls = [self.call(index, node) for index, node in enumerate(nodes)]
        return tuple(call for call in calls if call is not None)

    def call(self, index: int, node: Node) -> Call | None:
        """Call number ``index``; None, after an error, if it cannot be read."""
        if isinstance(node, Fields):
            return CallReader(self, index, node).call()
        hint = f"for example {{_tool: fetch, url: {self.sign}input.url}}"
        if function := _FUNCTION.match(node.text):
            hint = f"write {{_tool: {function[1]}, ARGUMENT: VALUE}}"
        self.error("plan.bad-call", f"a call must be a mapping, got {shown(node)}", node.span, hint)
        return None


def _declared_tools(messages: Iterable[Mapping[str, Value]]) -> dict[str, Any]:
    """The tools that tool messages declare. The last message with a name counts."""
    declared = dict[str, Any]()
    for message in messages:
        tools = message.get("tool")
        if message.get("type") == "tool" and isinstance(tools, dict):
            declared |= {name: tool for name, tool in tools.items() if isinstance(tool, dict)}
    return declared


def _tools_to_confirm(confirm: object) -> frozenset[str]:
    return frozenset(confirm) if isinstance(confirm, Mapping) else frozenset()
