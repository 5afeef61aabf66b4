"""Reads a plan's document by its table of keys. All problems are reported at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from ...flow.patterns import SYNTAX, fault_span, pattern_faults
from ...flow.steps import Name
from ...flow.values import Value
from ...text.diagnostics import misspelled_names, suggest
from ...text.yamlnodes import Fields, Items, Node, Scalar, plain, shown
from .calling import read_call
from .calls import Call, Template
from .messages import kind_of
from .reference import KIND
from .templates import KINDS, Reader, Suspect, is_nothing
from .words import INSTANCE, PLAN

_CIRCLED = [*range(0x2460, 0x2474), *range(0x3251, 0x3260), *range(0x32B1, 0x32C0)]
_NOT_CALLS = frozenset({"steps", "nodes", "tasks", "plan"})
"""Keys of other languages for the calls of a plan."""
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
            self.error("document-shape", "a plan must be a list of calls, not one call", slip.span, hint)
            return Document(self.sign)
        for name in node.fields.keys() - PLAN.keys():
            near = "did you mean calls?" if name in _NOT_CALLS else suggest(name, PLAN, "the keys of a plan")
            self.error("unknown-key", f"unknown key {name!r} of a plan", node.keys[name].span, near)
        fields = {name: value for name, value in node.fields.items() if not is_nothing(value)}
        messages = self.messages(fields)
        self.kinds = KINDS | {kind for one in messages if (kind := kind_of(one))} | _written(fields.get("calls"))
        for message in messages:  # a tool message declares tools; the last one of a name counts
            if message.get("type") == "tool" and isinstance(message.get("tool"), dict):
                self.tools.update({name: one for name, one in message["tool"].items() if isinstance(one, dict)})
        if "tools" in fields:
            self.tools.update(self.declared(fields["tools"]))
        context = self.key_name(fields, "context")
        calls = self.calls(node)
        description = self.scalar(fields, "description", str)
        return Document(
            sign=self.sign,
            name=self.key_name(fields, "name"),
            description=description.text if description else "",
            context=context.text if context else None,
            calls=calls,
            messages=messages,
            output=self.template(fields["output"]) if "output" in fields else None,
            has_output="output" in node.fields,
            mode=self.mode(fields),
            ordered=(ordered := self.scalar(fields, "ordered", bool)) is not None and ordered.value,
            confirm=self.confirm(fields, calls),
            suspects=tuple(self.suspects),
        )

    # --- the first messages of the context ---

    def messages(self, fields: Mapping[str, Node]) -> tuple[Mapping[str, Value], ...]:
        found: list[Mapping[str, Value]] = []
        for kind in INSTANCE:
            if kind in fields:
                found.append(_plain_message(kind, plain(fields[kind])))
        given = fields.get("messages")
        if isinstance(given, Items):
            for item in given.items:
                if isinstance(item, Fields):
                    found.append(plain(item))
                else:
                    self.error("wrong-type", f"a message must be a mapping, not {shown(item)}", item.span)
        elif given is not None:
            self.mistyped("messages", given)
        if "instances" in fields:
            found += self.instances(fields["instances"])
        return tuple(found)

    def instances(self, node: Node) -> list[Mapping[str, Value]]:
        if isinstance(node, Items):
            named = list(zip(instance_names(len(node.items)), node.items, strict=True))
        elif isinstance(node, Fields):
            named = list(node.fields.items())
        else:
            self.mistyped("instances", node)
            return []
        return [message for name, content in named for message in self.instance(name, content)]

    def instance(self, name: str, content: Node) -> Iterator[Mapping[str, Value]]:
        if not name.strip():
            self.error("instance", "the name of an instance cannot be blank", content.span, "①, ② or any text")
        if not isinstance(content, Fields):
            message = f"an instance must be a mapping, not {shown(content)}"
            self.error("wrong-type", message, content.span, "for example {state: {text: Hello}}")
            return
        for kind, value in content.fields.items():
            if kind in INSTANCE:
                yield _plain_message(kind, plain(value), name)
            else:
                hint = suggest(kind, INSTANCE, "the keys of an instance")
                self.error("unknown-key", f"unknown key {kind!r} of an instance", content.keys[kind].span, hint)

    def declared(self, node: Node) -> dict[str, Mapping[str, Value]]:
        if not isinstance(node, Fields):
            self.mistyped("tools", node)
            return {}
        found = {}
        for name, schema in node.fields.items():
            if isinstance(schema, Fields):
                found[name] = plain(schema)
                self.check_patterns(schema)
            elif isinstance(schema, Scalar) and schema.value is None:
                found[name] = {}
            else:
                message = f"the schema of a tool must be a mapping, not {shown(schema)}"
                self.error("wrong-type", message, schema.span, f"{name}: {{}} declares it without a schema")
        return found

    def check_patterns(self, node: Fields) -> None:
        """Report patterns in a tool's schema that RE2 does not support. The schema may be its properties alone."""
        whole = node
        if "properties" not in node.fields and node.keys:
            whole = Fields({"properties": node}, {"properties": next(iter(node.keys.values()))}, node.whole)
        for fault in pattern_faults(plain(whole)):
            self.bad_patterns.add(fault.pattern)
            self.error("bad-pattern", f"the pattern cannot be used: {fault.error}", fault_span(whole, fault), SYNTAX)

    # --- single values ---

    def mistyped(self, name: str, node: Node) -> None:
        self.error("wrong-type", f"{name!r} must be {PLAN[name].takes}, not {shown(node)}", node.span)

    def key_name(self, fields: Mapping[str, Node], key: str) -> Name | None:
        return self.name(fields.get(key), "wrong-type", f"{key!r} must be {PLAN[key].takes}")

    def scalar(self, fields: Mapping[str, Node], key: str, kind: type) -> Scalar | None:
        node = fields.get(key)
        if isinstance(node, Scalar) and type(node.value) is kind:
            return node
        if node is not None:
            self.mistyped(key, node)
        return None

    def mode(self, fields: Mapping[str, Node]) -> str:
        node = fields.get("mode")
        if node is None or (isinstance(node, Scalar) and node.text in ("eager", "lazy")):
            return node.text if isinstance(node, Scalar) else "eager"
        hint = suggest(node.text, ("eager", "lazy")) if isinstance(node, Scalar) else None
        self.error("wrong-type", f"'mode' must be eager or lazy, not {shown(node)}", node.span, hint)
        return "eager"

    def confirm(self, fields: Mapping[str, Node], calls: tuple[Call, ...]) -> Callable[[str], bool]:
        node = fields.get("confirm")
        if isinstance(node, Items) and all(isinstance(n, Scalar) and type(n.value) is str for n in node.items):
            named = {str(n.value): n.span for n in node.items if isinstance(n, Scalar)}
            called, listed = [call.tool.text for call in calls], fields.get("calls")
            complete = isinstance(listed, Items) and len(listed.items) == len(calls)  # all calls could be read
            # A misspelt name here makes a call that the person wants to approve first.
            for name in named.keys() - set(called) if complete else ():
                hint = suggest(name, dict.fromkeys(called), "the tools of calls")
                message = f"no call has the tool {name!r}: this entry has no effect"
                self.problems.warn("plan.confirms-nothing", message, named[name], hint)
            return lambda tool: tool in named
        every = isinstance(node, Scalar) and node.value is True
        if node is not None and not (isinstance(node, Scalar) and type(node.value) is bool):
            self.mistyped("confirm", node)
        return lambda tool: every

    # --- calls ---

    def calls(self, node: Fields) -> tuple[Call, ...]:
        listed = node.fields.get("calls")
        unknown = node.fields.keys() - PLAN.keys()
        if listed is None and ("calls" in misspelled_names(unknown, PLAN) or unknown & _NOT_CALLS):
            return ()  # reported as an unknown key
        if listed is None:
            span = next(iter(node.keys.values())).span if node.keys else node.span
            hint = f"add calls: [{{_tool: fetch, _outputPath: {self.sign}state.page}}]"
            self.error("missing-key", "a plan needs the key 'calls'", span, hint)
            return ()
        if not isinstance(listed, Items):
            self.mistyped("calls", listed)
            return ()
        found = [self.call(index, item) for index, item in enumerate(listed.items)]
        return tuple(call for call in found if call is not None)

    def call(self, index: int, node: Node) -> Call | None:
        if isinstance(node, Fields):
            return read_call(self, index, node)
        hint = f"for example {{_tool: fetch, url: {self.sign}input.url}}"
        if isinstance(node, Scalar) and (function := _FUNCTION.match(node.text)):
            hint = f"write {{_tool: {function[1]}, ARGUMENT: VALUE}}"
        self.error("bad-call", f"a call must be a mapping, not {shown(node)}", node.span, hint)
        return None


def instance_names(count: int) -> list[str]:
    """Names for ``count`` instances without names: ①, ② … ㊿, then i51, because a bare number is an index.

    >>> instance_names(52)[::17]
    ['①', '⑱', '㉟', 'i52']
    """
    return [chr(_CIRCLED[i]) if i < len(_CIRCLED) else f"i{i + 1}" for i in range(count)]


def _written(calls: Node | None) -> frozenset[str]:
    """The kinds in the output paths of calls that are not read yet."""
    nodes = [call for call in calls.items if isinstance(call, Fields)] if isinstance(calls, Items) else []
    paths = [path for call in nodes if isinstance(path := call.fields.get("_outputPath"), Scalar)]
    return frozenset(kind for path in paths for kind in _WRITTEN.findall(path.text))


def _plain_message(kind: str, data: Value, instance: str | None = None) -> Mapping[str, Value]:
    named = {"kind": kind} if kind != "data" else {}
    return {"type": "data", **named, **({"_instance": instance} if instance is not None else {}), "data": data}
