"""Reads a plan's document by its table of keys. All problems are reported at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...flow.steps import Name
from ...flow.values import Value
from ...text.diagnostics import suggest
from ...text.nodes import Fields, Items, Node, Scalar, shown
from ...text.source import Span
from ..documents import is_nothing
from .calling import read_call
from .calls import Call, Template
from .messages import kind_of
from .reference import KIND
from .takes import INSTANCE, plain_message
from .templates import KINDS, Reader, Suspect
from .words import PLAN

_FUNCTION = re.compile(r"([A-Za-z_]\w*)\(")
_WRITTEN = re.compile(rf"[†$]({KIND.pattern})")


@dataclass(frozen=True, slots=True)
class Document:
    """The content of a document."""

    sign: str
    """The sign of references in messages about it."""
    name: Name | None = None
    description: str = ""
    context: str | None = None
    calls: tuple[Call, ...] = ()
    messages: tuple[Mapping[str, Value], ...] = ()
    """The first messages of the context."""
    output: Template = None
    has_output: bool = False
    mode: str = "eager"
    ordered: bool = False
    confirm: Callable[[str], bool] = field(default=lambda tool: False)
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
        span = next(iter(node.keys.values())).span if node.keys else node.span
        given = self.fields(PLAN, node, span)
        messages = self.messages(given, node)
        self.kinds = (
            KINDS
            | {kind for one in messages if (kind := kind_of(one))}
            | _written(node.fields.get("calls"))
        )
        for message in messages:  # a tool message declares tools; the last one of a name counts
            if message.get("type") == "tool" and isinstance(message.get("tool"), dict):
                self.tools.update(
                    {name: one for name, one in message["tool"].items() if isinstance(one, dict)}
                )
        self.tools.update(given.get("tools") or {})
        listed: Items | None = given.get("calls")
        calls = self.calls(listed.items if listed is not None else ())
        in_calls = len(self.suspects)
        output = self.template(given["output"]) if "output" in given else None
        in_output = (one._replace(marked=True) for one in self.suspects[in_calls:])
        name, description, context = (given.get(key) for key in ("name", "description", "context"))
        return Document(
            sign=self.sign,
            name=name,
            description=description.text if description else "",
            context=context.text if context else None,
            calls=calls,
            messages=messages,
            output=output,
            has_output="output" in given,
            mode=given.get("mode") or "eager",
            ordered=given.get("ordered") or False,
            confirm=self.confirm(given.get("confirm"), calls, listed),
            suspects=(*self.suspects[:in_calls], *in_output),
        )

    def messages(self, given: Mapping[str, Any], node: Fields) -> tuple[Mapping[str, Value], ...]:
        """The first messages of the context."""
        own = (
            kind for kind in INSTANCE.keys if kind in given and not is_nothing(node.fields[kind])
        )
        written = (plain_message(kind, given[kind]) for kind in own)
        return (*written, *(given.get("messages") or ()), *(given.get("instances") or ()))

    def confirm(
        self, named: bool | Mapping[str, Span] | None, calls: tuple[Call, ...], listed: Items | None
    ) -> Callable[[str], bool]:
        """Whether a person approves the calls of a tool."""
        if not isinstance(named, Mapping):
            return lambda tool: named is True
        called = [call.tool.text for call in calls]
        complete = listed is not None and len(listed.items) == len(calls)  # all calls could be read
        # A misspelt name here makes a call that the person wants to approve first.
        for name in named.keys() - set(called) if complete else ():
            hint = suggest(name, dict.fromkeys(called), "the tools of calls")
            message = f"no call has the tool {name!r}: this entry has no effect"
            self.warn("plan.confirms-nothing", message, named[name], hint)
        return lambda tool: tool in named

    def calls(self, nodes: Sequence[Node]) -> tuple[Call, ...]:
        found = [self.call(index, node) for index, node in enumerate(nodes)]
        return tuple(call for call in found if call is not None)

    def call(self, index: int, node: Node) -> Call | None:
        if isinstance(node, Fields):
            return read_call(self, index, node)
        hint = f"for example {{_tool: fetch, url: {self.sign}input.url}}"
        if isinstance(node, Scalar) and (function := _FUNCTION.match(node.text)):
            hint = f"write {{_tool: {function[1]}, ARGUMENT: VALUE}}"
        self.error("plan.bad-call", f"a call must be a mapping, got {shown(node)}", node.span, hint)
        return None


def _written(calls: Node | None) -> frozenset[str]:
    """The kinds in the output paths of calls that are not read yet."""
    nodes = (
        [call for call in calls.items if isinstance(call, Fields)]
        if isinstance(calls, Items)
        else []
    )
    paths = [path for call in nodes if isinstance(path := call.fields.get("_outputPath"), Scalar)]
    return frozenset(kind for path in paths for kind in _WRITTEN.findall(path.text))
