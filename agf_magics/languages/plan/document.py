"""Reads a plan's document by its table: every key with its own reader, everything wrong told at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

from ...flow.patterns import SYNTAX, fault_span, pattern_faults
from ...flow.steps import Name
from ...flow.values import Value
from ...text.diagnostics import DefinitionError, Diagnostics, hints, meant, suggest
from ...text.source import Source, Span
from ...text.yamlnodes import Fields, Items, Node, Scalar, plain, shown
from .calling import is_nothing, read_call
from .calls import Call, Template
from .messages import kind_of
from .names import instance_names
from .reference import DAGGER, KIND, canonical, parse
from .words import INSTANCE, PLAN

KINDS = frozenset({"state", "input", "data", "output", "error"})
"""Which kinds ``$`` may stand before, beside those that the document's own messages speak of."""

LONGEST = 200
"""Letters of a text that may be a reference without its †."""

_PATH = re.compile(r"(?<![\w.'\"†-])([A-Za-z_][A-Za-z0-9_-]*)\.[^\s.|&()\[\]'\"†]")
_BEGINS = re.compile(r"[\s(]*([†$])([†$]?)([A-Za-z_][A-Za-z0-9_-]*)?")


@dataclass(frozen=True, slots=True)
class Document:
    """What a document says."""

    name: Name | None = None
    description: str = ""
    context: str | None = None
    calls: tuple[Call, ...] = ()
    messages: tuple[Mapping[str, Value], ...] = ()
    """What the context begins with."""
    output: Template = None
    has_output: bool = False
    mode: str = "eager"
    ordered: bool = False
    confirm: Callable[[str], bool] = field(default=lambda tool: False)
    undaggered: tuple[tuple[str, Span], ...] = ()
    """Texts that would be references if they began with †, as they would be written, each with its place."""


class Reader:
    """One loading."""

    def __init__(self, problems: Diagnostics, latent: Collection[str] = ()) -> None:
        self.problems = problems
        self.latent = frozenset(latent)
        """Tools that nobody does, said where the document was defined."""
        self.kinds = KINDS
        self.tools: dict[str, Mapping[str, Value]] = {}
        self.refused: set[str] = set()
        """Patterns of `tools` that are told to be unusable."""
        self.undaggered: list[tuple[str, Span]] = []

    def wrong(self, what: str, message: str, span: Span | None, hint: str | None = None) -> None:
        self.problems.error(f"plan.{what}", message, span, hint)

    def document(self, node: Fields) -> Document:
        """A mapping, as far as it can be read."""
        if "_tool" in node.fields and "calls" not in node.fields:
            self.wrong(
                "document-shape", "a plan is a list of calls, and this is one", node.keys["_tool"].span, "- _tool: …"
            )
            return Document()
        for name in node.fields.keys() - PLAN.keys():
            hint = suggest(name, PLAN, "the keys of a plan")
            self.wrong("unknown-key", f"a plan has no key {name!r}", node.keys[name].span, hint)
        fields = {name: value for name, value in node.fields.items() if not is_nothing(value)}
        messages = self.messages(fields)
        self.kinds = (
            KINDS | {kind for message in messages if (kind := kind_of(message))} | _written(fields.get("calls"))
        )
        for message in messages:  # a tool message declares tools, the last one of a name
            if message.get("type") == "tool" and isinstance(message.get("tool"), dict):
                self.tools.update({name: one for name, one in message["tool"].items() if isinstance(one, dict)})
        if "tools" in fields:
            self.tools.update(self.declared(fields["tools"]))
        context = self.name(fields, "context")
        calls = self.calls(node)
        found = Document(
            name=self.name(fields, "name"),
            description=self.text(fields, "description"),
            context=context.text if context else None,
            calls=calls,
            messages=messages,
            output=self.template(fields["output"]) if "output" in fields else None,
            has_output="output" in node.fields,
            mode=self.mode(fields),
            ordered=self.flag(fields, "ordered"),
            confirm=self.confirm(fields, calls),
        )
        return replace(found, undaggered=tuple(self.undaggered))

    # --- what the context begins with ---

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
                    self.wrong("wrong-type", f"a message is a mapping, not {shown(item)}", item.span)
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
        found: list[Mapping[str, Value]] = []
        for name, told in named:
            if not name.strip():
                self.wrong("instance", "an instance's name is blank", told.span, "①, ② or any text")
            if not isinstance(told, Fields):
                self.wrong(
                    "wrong-type",
                    f"an instance is told a mapping, not {shown(told)}",
                    told.span,
                    "{state: {text: Hello}}",
                )
                continue
            for kind, value in told.fields.items():
                if kind not in INSTANCE:
                    hint = suggest(kind, INSTANCE, "what an instance may be told")
                    self.wrong("unknown-key", f"an instance is not told {kind!r}", told.keys[kind].span, hint)
                else:
                    found.append(_plain_message(kind, plain(value), name))
        return found

    def declared(self, node: Node) -> dict[str, Mapping[str, Value]]:
        if not isinstance(node, Fields):
            self.mistyped("tools", node)
            return {}
        found = {}
        for name, schema in node.fields.items():
            if isinstance(schema, Fields):
                found[name] = plain(schema)
                self.patterns(schema)
            elif isinstance(schema, Scalar) and schema.value is None:
                found[name] = {}
            else:
                self.wrong("wrong-type", f"what is said of a tool is a mapping, not {shown(schema)}", schema.span)
        return found

    def patterns(self, node: Fields) -> None:
        """Refuse what a tool's schema searches for and RE2 cannot; its properties may stand in it directly."""
        whole = node
        if "properties" not in node.fields and node.keys:
            whole = Fields({"properties": node}, {"properties": next(iter(node.keys.values()))}, node.whole)
        for fault in pattern_faults(plain(whole)):
            self.refused.add(fault.pattern)
            self.wrong("bad-pattern", f"the pattern cannot be used: {fault.error}", fault_span(whole, fault), SYNTAX)

    # --- single values ---

    def mistyped(self, name: str, node: Node) -> None:
        self.wrong("wrong-type", f"{name!r} takes {PLAN[name].takes}, not {shown(node)}", node.span)

    def name(self, fields: Mapping[str, Node], key: str) -> Name | None:
        node = fields.get(key)
        if node is None:
            return None
        if not isinstance(node, Scalar) or type(node.value) is not str or not node.text.strip():
            self.mistyped(key, node)
            return None
        return Name(node.text, node.span)

    def text(self, fields: Mapping[str, Node], key: str) -> str:
        node = fields.get(key)
        if node is None:
            return ""
        if not isinstance(node, Scalar) or type(node.value) is not str:
            self.mistyped(key, node)
            return ""
        return node.text

    def flag(self, fields: Mapping[str, Node], key: str) -> bool:
        node = fields.get(key)
        if node is None:
            return False
        if not isinstance(node, Scalar) or type(node.value) is not bool:
            self.mistyped(key, node)
            return False
        return node.value

    def mode(self, fields: Mapping[str, Node]) -> str:
        node = fields.get("mode")
        if isinstance(node, Scalar) and node.text not in ("eager", "lazy"):
            self.wrong(
                "wrong-type",
                f"'mode' takes eager or lazy, not {shown(node)}",
                node.span,
                suggest(node.text, ("eager", "lazy")),
            )
        elif node is not None and not isinstance(node, Scalar):
            self.mistyped("mode", node)
        return node.text if isinstance(node, Scalar) else "eager"

    def confirm(self, fields: Mapping[str, Node], calls: tuple[Call, ...]) -> Callable[[str], bool]:
        node = fields.get("confirm")
        if isinstance(node, Items) and all(isinstance(n, Scalar) and type(n.value) is str for n in node.items):
            named = {str(n.value): n.span for n in node.items if isinstance(n, Scalar)}
            called, listed = [call.tool.text for call in calls], fields.get("calls")
            known = isinstance(listed, Items) and len(listed.items) == len(calls)  # else one that cannot be read has it
            # A slip here, and a call is made that should not have been.
            for name in named.keys() - set(called) if known else ():
                hint = suggest(name, dict.fromkeys(called), "the tools of calls")
                message = f"no call has the tool {name!r}: nobody is asked"
                self.problems.warn("plan.confirms-nothing", message, named[name], hint)
            return lambda tool: tool in named
        every = isinstance(node, Scalar) and node.value is True
        if node is not None and not (isinstance(node, Scalar) and type(node.value) is bool):
            self.mistyped("confirm", node)
        return lambda tool: every

    # --- values with references ---

    def template(self, node: Node) -> Template:
        """A value; a text that begins as a reference is one."""
        if isinstance(node, Items):
            return [self.template(item) for item in node.items]
        if isinstance(node, Fields):
            return {key: self.template(value) for key, value in node.fields.items()}
        if node.is_expr:
            self.wrong("expr-tag", "a plan has no !expr", node.span, f"a reference stands as it is: {DAGGER}state.x")
            return None
        if type(node.value) is not str:
            return node.value
        begins = self.begins(node.text)
        if begins == "literal":
            return (
                node.text.replace(DAGGER * 2, DAGGER, 1) if DAGGER * 2 in node.text else node.text.replace("$$", "$", 1)
            )
        if begins == "text":
            self.undaggered += [(meant, node.span) for meant in daggered(node.text, self.kinds)]
            return node.text
        try:
            return parse(node, self.kinds)
        except DefinitionError as error:
            self.problems.extend(replace(found, hint=_hint(found.hint, node.text)) for found in error.diagnostics)
            return None

    def begins(self, text: str) -> str:
        """Whether a text is a ``reference``, a ``literal`` that escapes one, or any other ``text``."""
        found = _BEGINS.match(text)
        if not found:
            return "text"
        sign, again, kind = found.groups()
        if sign == DAGGER:
            return "literal" if again == DAGGER else "reference"
        if kind not in self.kinds:
            return "text"
        return "literal" if again == "$" else "reference" if not again else "text"

    def kept(self, node: Node) -> Value:
        """A value as its author wrote it, with † for $."""
        if isinstance(node, Items):
            return [self.kept(item) for item in node.items]
        if isinstance(node, Fields):
            return {key: self.kept(value) for key, value in node.fields.items()}
        if type(node.value) is str and "$" in node.text and self.begins(node.text) == "reference":
            try:
                return canonical(node, self.kinds)
            except DefinitionError:
                return node.text  # it is told where it is read
        return node.value

    # --- calls ---

    def calls(self, node: Fields) -> tuple[Call, ...]:
        listed = node.fields.get("calls")
        if listed is None and "calls" in meant(node.fields.keys() - PLAN.keys(), PLAN):
            return ()  # told as a key that no plan has
        if listed is None:
            span = next(iter(node.keys.values())).span if node.keys else node.span
            self.wrong("missing-key", "a plan needs 'calls'", span, "calls: [{_tool: fetch, _outputPath: †state.page}]")
            return ()
        if not isinstance(listed, Items):
            self.mistyped("calls", listed)
            return ()
        found = [self.call(index, item) for index, item in enumerate(listed.items)]
        return tuple(call for call in found if call is not None)

    def call(self, index: int, node: Node) -> Call | None:
        if not isinstance(node, Fields):
            self.wrong(
                "bad-call", f"a call is a mapping, not {shown(node)}", node.span, "{_tool: fetch, url: †input.url}"
            )
            return None
        return read_call(self, index, node)


def daggered(text: str, kinds: Collection[str]) -> Iterator[str]:
    """``state.n || 0`` as it would be with what it lacks, if it is a reference otherwise."""
    found = _PATH.search(text) if 2 < len(text) <= LONGEST else None
    if found is None or found[1] not in kinds or text[: found.start()].strip("( "):
        return
    meant = _PATH.sub(rf"{DAGGER}\g<0>", text)
    with suppress(DefinitionError):
        parse(Source("", meant).span(), kinds)
        yield meant


def _written(calls: Node | None) -> frozenset[str]:
    """The kinds that the calls write, as far as can be seen before they are read."""
    nodes = [call for call in calls.items if isinstance(call, Fields)] if isinstance(calls, Items) else []
    paths = [path for call in nodes if isinstance(path := call.fields.get("_outputPath"), Scalar)]
    return frozenset(kind for path in paths for kind in re.findall(rf"[†$]({KIND.pattern})", path.text))


def _plain_message(kind: str, data: Value, instance: str | None = None) -> Mapping[str, Value]:
    named = {"kind": kind} if kind != "data" else {}
    return {"type": "data", **named, **({"_instance": instance} if instance is not None else {}), "data": data}


def _hint(hint: str | None, text: str) -> str | None:
    """A hint, and for what looks like a sentence how a text begins with such a sign."""
    if not re.search(r"\s", text.strip()) or re.search("[|&]", text):
        return hint
    begun = text.strip()[:20]
    return hints(hint, f"a text that begins so is written with two: {begun[:1]}{begun}…")
