"""Reads one call of a plan's document: the keys that begin with an underscore, and its arguments."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ...flow.patterns import SYNTAX, BadPattern, searcher
from ...flow.steps import Name
from ...flow.values import Value
from ...text.diagnostics import DefinitionError, meant, suggest
from ...text.source import Span
from ...text.yamlnodes import Fields, Items, Node, Scalar, plain, shown
from .calls import Call
from .destinations import Alternatives, parse_output
from .messages import METHODS
from .reference import KIND, canonical
from .words import CALL

if TYPE_CHECKING:
    from .document import Reader


def read_call(reader: Reader, index: int, node: Fields) -> Call | None:
    """A call as far as it can be read; what is wrong is told to ``reader``."""
    return _Calling(reader, index, node).call()


def is_nothing(node: Node) -> bool:
    """Whether nothing stands there."""
    return isinstance(node, Scalar) and node.value is None and not node.text


class _Calling:
    """One call being read."""

    def __init__(self, reader: Reader, index: int, node: Fields) -> None:
        self.reader, self.index, self.node = reader, index, node
        self.place = node.span

    def wrong(self, what: str, message: str, span: Span | None, hint: str | None = None) -> None:
        self.reader.wrong(what, message, span, hint)

    def call(self) -> Call | None:
        node, reader = self.node, self.reader
        unknown = [name for name in node.fields if name.startswith("_") and name not in CALL]
        for name in unknown:
            hint = suggest(name, CALL, "the keys of a call")
            self.wrong("unknown-key", f"a call has no key {name!r}", node.keys[name].span, hint)
        delegate = self.named("_delegate")
        activity = self.activity()
        tool = self.named("_tool") or delegate
        if tool is None:
            if "_tool" not in node.fields and "_tool" not in meant(unknown, CALL):
                slip = node.keys.get("tool")
                hint = "what is not an argument begins with _: _tool: NAME" if slip else "_tool: NAME"
                self.wrong("bad-call", "a call names its tool", slip.span if slip else self.place, hint)
            return None
        schema = reader.tools.get(tool.text)
        path, alternatives = self.path(schema)
        authored = {key: reader.kept(value) for key, value in node.fields.items()}
        if path is not None:
            authored["_outputPath"] = path
        instance, shared = self.instance()
        answered = "_output" in node.fields
        latent = self.latent(tool, activity, schema)
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
            method=self.method(),
            instance=instance,
            shared=shared,
            scopes=self.scopes(),
            latent=latent,
            answer=plain(node.fields["_output"]) if answered else None,
            delegate=delegate is not None,
            schema=schema,
            span=tool.span,
            path_span=node.fields["_outputPath"].span if "_outputPath" in node.fields else None,
        )

    def latent(self, tool: Name, activity: str | None, schema: Mapping[str, Value] | None) -> bool:
        """Whether nobody does it: its answer stands in the call (decision C3: never without a word)."""
        answer = self.node.keys.get("_output")
        nobody = activity == "" or (activity is None and tool.text in self.reader.latent)
        if nobody and answer is None:
            span = self.node.keys["_activity"].span if activity == "" else tool.span
            self.wrong("no-activity", f"nobody does {tool.text!r}: a latent call needs its answer", span, "_output: …")
        if nobody or (answer is not None and schema is not None and activity is None):
            return True
        if answer is not None:
            hint = f"_outputPath says where a result goes; a latent tool is declared: tools: {{{tool.text}: {{}}}}"
            message = f"{tool.text!r} is no latent tool: its call has no '_output'"
            self.wrong("no-activity", message, answer.span, hint)
        return False

    def named(self, key: str) -> Name | None:
        value = self.node.fields.get(key)
        if value is None:
            return None
        if not isinstance(value, Scalar) or type(value.value) is not str or not value.text.strip():
            self.wrong("bad-call", f"{key!r} takes a name, not {shown(value)}", value.span)
            return None
        return Name(value.text, value.span)

    def activity(self) -> str | None:
        value = self.node.fields.get("_activity")
        if value is None:
            return None
        if not isinstance(value, Scalar) or type(value.value) is not str:
            self.wrong("bad-call", f"'_activity' takes a name, not {shown(value)}", value.span)
            return None
        return value.text

    def method(self) -> str | None:
        value = self.node.fields.get("_outputMethod")
        if value is None:
            return None
        if isinstance(value, Scalar) and value.text in METHODS:
            return value.text
        written = value.text if isinstance(value, Scalar) else shown(value)
        message = (
            f"there is no method {written!r}" if isinstance(value, Scalar) else f"a method is a text, not {written}"
        )
        self.wrong("unknown-method", message, value.span, suggest(written, METHODS, "methods"))
        return None

    def instance(self) -> tuple[str | None, bool]:
        value = self.node.fields.get("_instance")
        if value is None:
            return None, False
        if isinstance(value, Scalar) and value.value is None:
            return None, True
        if not isinstance(value, Scalar) or not value.text.strip() or value.text.strip() == "*":
            hint = "any text; null: the call is made once, for everybody"
            self.wrong("instance", f"'_instance' takes a name, not {shown(value)}", value.span, hint)
            return None, False
        return value.text, False

    def scopes(self) -> tuple[str, ...]:
        value = self.node.fields.get("_scopes")
        if value is None:
            return ()
        if not isinstance(value, Items):
            self.wrong(
                "bad-call", f"'_scopes' takes a list of kinds, not {shown(value)}", value.span, "_scopes: [state]"
            )
            return ()
        kinds = []
        for item in value.items:
            found = KIND.match(item.text.lstrip("†$")) if isinstance(item, Scalar) else None
            if found is None:
                self.wrong(
                    "bad-call",
                    f"a scope is a kind of messages, not {shown(item)}",
                    item.span,
                    "_scopes: [state, input]",
                )
            else:
                kinds.append(found[0])
        return tuple(kinds)

    def path(self, schema: Mapping[str, Value] | None) -> tuple[str | None, Alternatives]:
        """The output path as it is kept, and what it declares."""
        value = self.node.fields.get("_outputPath")
        rule = _path_rule(schema)
        if value is None or is_nothing(value):
            if isinstance(rule.get("const"), str):
                return self.prescribed(rule["const"])
            return None, ()
        if not isinstance(value, Scalar) or type(value.value) is not str:
            self.wrong(
                "bad-output-path", f"'_outputPath' takes a path, not {shown(value)}", value.span, "†state.result"
            )
            return None, ()
        try:
            alternatives = parse_output(value, self.reader.kinds)
            path = canonical(value, self.reader.kinds) if "$" in value.text else value.text
        except DefinitionError as error:
            self.reader.problems.extend(error.diagnostics)
            return None, ()
        self.allowed(path, rule, value.span)
        return path, alternatives

    def prescribed(self, path: str) -> tuple[str | None, Alternatives]:
        try:
            return path, parse_output(_Prescribed(path, self.place))
        except DefinitionError as error:
            self.reader.problems.extend(error.diagnostics)
            return None, ()

    def allowed(self, path: str, rule: Mapping[str, Any], span: Span) -> None:
        """What the tool's schema says of the path."""
        if "const" in rule and rule["const"] != path:
            self.wrong(
                "forbidden-path", f"this tool writes to {rule['const']} only", span, f"_outputPath: {rule['const']}"
            )
        if isinstance(rule.get("enum"), list) and path not in rule["enum"]:
            self.wrong(
                "forbidden-path", f"this tool does not write to {path}", span, suggest(path, rule["enum"], "its paths")
            )
        pattern = rule.get("pattern")
        if not isinstance(pattern, str):
            return
        try:
            allowed = searcher(pattern)(path)
        except BadPattern as error:
            if pattern not in self.reader.refused:  # else it is told where it stands
                message = f"the pattern {pattern[:80]!r} of this tool's paths cannot be used: {error}"
                self.wrong("bad-pattern", message, span, SYNTAX)
        else:
            if not allowed:
                self.wrong("forbidden-path", f"this tool's paths match {pattern!r}, and {path!r} does not", span)


@dataclass(frozen=True, slots=True)
class _Prescribed:
    """A path that the call itself does not write: wherever it is wrong, the call is shown."""

    text: str
    span: Span

    def locate(self, start: int, end: int) -> Span:
        return self.span


def _path_rule(schema: Mapping[str, Value] | None) -> Mapping[str, Any]:
    """What a tool's schema says of ``_outputPath``: among its properties, or directly."""
    properties = (schema or {}).get("properties", schema or {})
    rule = properties.get("_outputPath") if isinstance(properties, dict) else None
    return rule if isinstance(rule, dict) else {}
