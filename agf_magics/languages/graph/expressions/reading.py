"""Reads the values of a graph, texts with placeholders included, and warns of text like
expressions.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NoReturn

from ....flow.expressions import Computed, Constant
from ....flow.protocols import Expr
from ....text.diagnostics import DefinitionError, Diagnostic, Diagnostics
from ....text.shorten import shorten
from ....text.source import Span, Text
from ....text.yaml.nodes import Fields, Node, Scalar, braced, every_node, is_text, plain
from ... import documents
from ...foreign_keys import ROOTS
from ...keys import Key, MappingSpec
from ...scan import Refusal, parse_at
from .key_advice import ADVICE, REPEATED, SLIPS
from .tokens import DOTTED, LETTER, LETTERS, Bare
from .values import Arithmetic, Expression, Placeholder, Sentence, Unfilled, atoms, parse_template

_BRACES = re.compile(r"\{\s*+([^{}]*+)\}")
_WORD = re.compile(rf"{LETTER}{LETTERS}*")
_FOREIGN = re.compile(rf"((?!state)(?:{'|'.join(ROOTS)}))\.({LETTER}{DOTTED}*+)\s*+")
"""The path in a placeholder of another language."""
_STATE_INSIDE = re.compile(rf"(?<!^)\bstate\.{LETTER}")
"""A path behind the begin of braces: ``{2 * state.n}``."""
_CHOICE = re.compile(r"\bif\b.*\belse\b")
_BARE_PATH = re.compile(rf"(?<![\w.$])\$?(state\.({LETTER}{LETTERS}*+)(?>(?:\.{LETTERS}++)*))")
_COMPUTED = re.compile(
    rf"(state\.)?({LETTER}{LETTERS}*+){DOTTED}*+\s*+(?:[-+*/%|(\[]|[:!][-+ <>=^,.0-9]*+[a-zA-Z%]\Z)"
)
"""A computation behind a path, or the format of an f-string: ``{score:.1f}``."""
_NAMES = re.compile(rf"{LETTER}{LETTERS}*+(?>(?:\.{LETTERS}++)*)")
_JINJA = re.compile(
    rf"\{{\{{-?\s*+({LETTER}{DOTTED}*+)[^{{}}]*+\}}\}}|\{{%[^%]*+%\}}|\{{#[^#]*+#\}}"
)

_SUM = re.compile(
    r"\s*\{\s*state\.[\w.]+\s*\}\s*(?:[+*]\s*(?:\{[^{}]*\}|[\w.]+)|[-/]\s*[0-9.]+)\s*"
)
"""A computation that is not inside the braces. ``{state.a}/{state.b}`` is a text, a path."""
_NO_BRACES = str.maketrans("", "", "{}")


ROOT = ("state",)
"""The place of the state in a frame."""


class NotBuilt(Exception):
    """A part of a graph has an error, which is reported."""


class Reader(documents.Reader):
    """One loading: reads values, reports errors and warnings."""

    layer = "graph"
    root = "state"
    slips = SLIPS
    advice = ADVICE

    def __init__(self, problems: Diagnostics) -> None:
        super().__init__(problems)
        self.refuses: list[Diagnostic] = []
        """Requirements that are not met: warnings of the definition, errors of a run (decision
        A5)."""
        self.warned: set[Span | None] = set()
        """The places of warnings that are given once, although several nodes have the value."""
        self.known_keys: set[str] = set()
        """The keys that expressions may name."""
        self.declared: frozenset[str] | None = None
        """The keys that ``state:`` declares; None: the graph has no ``state:``."""

        self.chain: tuple[str, ...] = ()
        """The nodes of the graph in order, for the hint about missing edges; empty: there are too
        many, or an odd name is among them."""

    def missing(self, spec: MappingSpec, key: Key, span: Span | None) -> None:
        if key.name == "edges" and self.chain:
            ends = zip(("START", *self.chain), (*self.chain, "END"), strict=True)
            edges = ", ".join(f"{{from: {start}, to: {end}}}" for start, end in ends)
            key = key._replace(takes=key.takes._replace(example=f"[{edges}]"))
        super().missing(spec, key, span)

    def wrong_type(self, node: Node, key: Key, hint: str | None = None) -> None:
        if braces := _braces_as_mapping(node):
            hint = f'put quotes around the braces: {key.name}: "{braces}"'
        elif key.name == "schema" and isinstance(node, Fields):
            hint = (
                "schema names a schema: document; write output_schema: {type: object, …} here, "
                "or schema: {name: …, fields: …} in a prompt file"
            )
        elif key.name == "on_error" and node.text in ("continue", "ignore"):
            hint = "write: skip"
        elif key.name == "on_error" and node.text.startswith("retry"):
            hint = REPEATED
        elif key.name == "node":
            hint = "write the node itself here, not the name of one: node: {type: …}"
        super().wrong_type(node, key, hint)

    def refuse(self, code: str, message: str, span: Span | None, hint: str | None) -> NoReturn:
        """Report an error without which the node, or the prompt, cannot be built."""
        self.error(code, message, span, hint)
        raise NotBuilt

    def refuse_tag(self, node: Scalar, key: Key | None = None) -> None:
        hint = 'write an expression in braces, in quotes: "{state.n + 1}"'
        self.error("graph.expr-tag", "a graph has no !expr", node.span, hint)

    def template(self, node: Scalar) -> Expression | Constant:
        """A text with its placeholders; after an error a Constant."""
        if node.is_expr:
            self.refuse_tag(node)
            return Constant(node.span, node.text)
        try:
            parsed = parse_at(node, parse_template)
        except DefinitionError as error:
            self.problems.extend(error.diagnostics)
            return Constant(node.span, node.text)
        if isinstance(parsed, Sentence):
            self.check_sentence(node, parsed)
        elif isinstance(parsed, Arithmetic):
            for atom in atoms(parsed.right):
                if isinstance(atom, Bare):
                    self.warn_unquoted(node, atom)
        return Expression(node, parsed, ROOT)

    def check_sentence(self, node: Scalar, sentence: Sentence) -> None:
        """Warn about the parts of a text that look like expressions and stay text."""
        for unfilled in sentence.unfilled:
            self.unfilled(node, unfilled)
        if _SUM.fullmatch(node.text) and (whole := _in_braces(node.text.translate(_NO_BRACES))):
            message = "this stays text: what is computed is inside the braces"
            self.warn("graph.text-arithmetic", message, node.span, f'write "{whole}"')
        match sentence.parts:
            case ("$", Placeholder(text=whole)) | ("$", Placeholder(text=whole), "") if (
                _WORD.findall(whole)[1] in self.known_keys
            ):
                message = f"the $ of {shorten(node.text)} stays in the text"
                hint = f'write "{whole}"; for an amount, "costs ${whole}" or "USD {whole}"'
                self.warn("graph.literal-braces", message, node.span, hint)
        begin = 0
        for part in sentence.parts:
            if isinstance(part, str):
                self.check_text(node, part, begin)
            begin += len(part if isinstance(part, str) else part.text)

    def warn_unquoted(self, node: Scalar, atom: Bare) -> None:
        """Warn about a word without quotes in an expression."""
        name = atom.text
        is_key = name.split(".")[0] in self.known_keys
        hint = f"write state.{name}" if is_key else f"quote it: '{shorten(name)}'"
        message = f"{shorten(name)!r} is text here, not a key"
        self.warn("graph.unquoted-text", message, node.locate(atom.start, atom.end), hint)

    def unfilled(self, node: Scalar, braces: Unfilled) -> None:
        place = node.locate(braces.start, braces.end)
        text = node.text[braces.start : braces.end]
        code = "graph.literal-braces" if braces.why == "doubled" else "graph.text-arithmetic"
        message, hint = _UNFILLED[braces.why]
        written = {"text": shorten(text), "fixed": f"{{{text.strip('{} ')}}}"}
        self.warn(code, message.format_map(written), place, hint.format_map(written))

    def check_text(self, text: Text, part: str, begin: int = 0, prompt: bool = False) -> None:
        """Warn about text that looks like an expression (decision P21). ``part`` begins at
        ``begin`` of ``text``."""

        def warn(code: str, message: str, match: re.Match[str], group: int, hint: str) -> None:
            self.warn(code, message, place_of(*match.span(group)), hint)

        def place_of(start: int, end: int) -> Span:
            if part[start - 1 : start] == "{" and part[end : end + 1] == "}":  # {{ ctx.n }}
                start, end = start - 1, end + 1
                start -= part[start - 1 : start] == "$"  # ${{ ctx.n }}
            return text.locate(begin + start, begin + end)

        for match in _BRACES.finditer(part):
            word = _WORD.match(match[1])
            computed = _STATE_INSIDE.search(match[1])
            if prompt:
                name = _COMPUTED.match(match[1])
                if computed or (name and (name[1] == "state." or name[2] in self.known_keys)):
                    hint = "compute it into a key in a node before this one, then write {key} here"
                    message = f"{shorten(match[0])} stays text: nothing is computed here"
                    warn("graph.literal-braces", message, match, 0, hint)
            elif computed or (word and word[0] in self.known_keys) or _FOREIGN.fullmatch(match[1]):
                meant = match[1].strip()
                if foreign := _FOREIGN.fullmatch(match[1]):
                    meant = meant if foreign[1] in self.known_keys else foreign[2]
                hint = AT_FIRST if computed else f"write {{state.{meant}}}"
                if _CHOICE.search(match[1]):
                    hint = "an expression has no if: write two edges with condition: and else"
                message = f"{shorten(match[0])} stays text: it does not begin with state."
                warn("graph.literal-braces", message, match, 0, hint)
        bare = _BRACES.sub(lambda match: " " * len(match[0]), part)
        for match in _BARE_PATH.finditer(bare):
            # Only a whole text that begins with the path may become one expression.
            whole = part.strip() if begin == 0 and len(part) == len(text.text) else ""
            starts = whole.startswith(match[0]) and not prompt
            expression = _in_braces(whole.lstrip("$")) if starts else None
            if match[2] not in self.known_keys and not (self.declared is None and expression):
                continue
            hint = f'write "{expression}"' if expression else f"write {{{match[1]}}}"
            message = f"{shorten(match[0])!r} is text here: it has no braces"
            warn("graph.literal-path", message, match, 0, hint)

    def check_jinja(self, text: Text, source: str) -> str:
        """Warn about Jinja2 in a question or a command, once; the text with blanks in its place."""
        if match := _JINJA.search(source):
            message = f"{shorten(match[0])!r} stays text: Jinja2 is only supported in a prompt"
            hint = "compute the text in a node before this one, and write {key}"
            if match[0].strip("{}- ") == match[1]:
                hint = f"write {{{match[1]}}}"
            self.warn("graph.jinja", message, text.locate(match.start(), match.end()), hint)
        return _JINJA.sub(lambda match: " " * len(match[0]), source)

    def value(self, node: Node) -> Expr:
        """Any value; a text with its placeholders."""
        if not is_text(node):
            for part in every_node(node):
                if _braces_as_mapping(part):
                    message = "braces without quotes are a YAML mapping"
                    hint = "put quotes around them"
                elif "{state." in part.text:
                    message = (
                        f"{shorten(part.text)} stays text: texts inside a list or a mapping are "
                        f"not filled"
                    )
                    hint = (
                        "compute it into a key of its own first; a text that is a value of its "
                        "own is filled"
                    )
                else:
                    continue
                self.warn("graph.literal-braces", message, part.span, hint)
            if _braces_as_mapping(node):  # told: it does not fit the tool either
                return Computed(node.span, lambda frame: plain(node))
            return Constant(node.span, plain(node))
        name = node.text.split(".")[0]
        if (
            not node.style
            and not node.tag
            and name in (self.declared or ())
            and _NAMES.fullmatch(node.text)
        ):
            hint = f'write "{{state.{node.text}}}" for the value of the key; quote it if it is text'
            self.warn(
                "graph.literal-path", f"{node.text!r} is text here, not the key", node.span, hint
            )
        return self.template(node)


_UNFILLED: Mapping[str, tuple[str, str]] = {
    "doubled": ("{text} stays text: its braces are doubled", "write {fixed}"),
    "open": ("this '{{' is not closed, so it stays text", "close it with }}"),
    "computed": (
        "this stays text: inside a text only a path is replaced",
        "compute it into a key of its own first, then write {{state.key}} here",
    ),
}
"""The warnings and their hints, by `Unfilled.why`."""

AT_FIRST = (
    "{state.n + 1}: it begins with a path, has one operator, and neither parentheses nor functions"
)
"""The hint for braces that hold something similar to an expression."""


def _in_braces(text: str) -> str | None:
    """The expression that ``text`` becomes in braces; None if it becomes none."""
    try:
        return None if isinstance(parse_template(f"{{{text}}}"), Sentence) else f"{{{text}}}"
    except Refusal:
        return None


def _braces_as_mapping(node: Node) -> str | None:
    """``{state.x}`` without quotes, which YAML reads as a mapping; None for anything else."""
    name = braced(node)
    return f"{{{name}}}" if name.startswith("state.") else None
