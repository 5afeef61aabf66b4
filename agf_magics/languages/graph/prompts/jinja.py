"""Checks the Jinja2 templates in prompts: texts with ``{{``, ``{%`` or ``{#`` (decision Y12).

jinja2 is an extra and is imported with the first template. Without it a graph can be defined, but
not run. This module only parses a template, to report errors in its text and to find the names that
it reads. A separate process (jinja_child.py) compiles and renders it, because even compiling
computes with its constants.
"""

from __future__ import annotations

import math
import re
from collections import ChainMap
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ....compat.installed import missing
from ....flow.null_warnings import warn_of_null
from ....text.diagnostics import Diagnostic, StepError
from ....text.length import TEXT
from ....text.source import Span, Text
from ....text.suggestions import join_hints, suggest
from ....values.no_json import has_no_json
from ....values.times import iso_text
from ....values.value import Value, is_json
from ..expressions.reading import Reader
from ..expressions.value_errors import describe
from ..expressions.written_text import check_length
from ..peer_key import LEAVE_OUT, PEER_KEY, peer_key
from .jinja_process import RENDERER, Killed, NoProcess
from .slots import Slot

if TYPE_CHECKING:
    from jinja2 import nodes

SYNTAX = re.compile(r"\{[{%#]")
"""What makes a prompt a template."""
INSTALL = 'pip install "agf-magics[graphs]"'
MOST_CHARACTERS = 200_000
"""Characters of a template."""
NEAR = 200
"""Characters before the last word in which the next one is searched; behind it ten times this."""
DEEPEST = 10
"""The keys of a path that are distinguished; what is read below them does not matter."""
_LINES = re.compile(r"\r\n|\r|\n")
_BRACES = "{{ name }} is a variable; {% raw %}{{ }}{% endraw %} writes the braces themselves"


class JinjaPrompt(NamedTuple):
    """A prompt that is a template."""

    text: Text
    slots: tuple[Slot, ...]
    span: Span

    def fill(self, state: Mapping[str, Value], variables: Mapping[str, Value]) -> str:
        """The rendered text. Raises StepError ``graph.template-failed``, ``graph.template-limit``,
        ``graph.template-value``, ``graph.template-process``."""
        values = self._values(state, variables)
        try:
            answer = RENDERER.render(self.text.text, values)
        except NoProcess as error:
            message = f"a template needs a process of its own, and none can be started: {error}"
            hint = "write the prompt with {name}, or prepare the text in a node before this one"
            raise StepError(
                Diagnostic("graph.template-process", message, self.span, hint)
            ) from error
        except Killed as error:
            raise self._too_much(str(error), self.span) from error
        if "text" in answer:
            return str(answer["text"])
        raise self._failure(answer, variables)

    def _values(
        self, state: Mapping[str, Value], variables: Mapping[str, Value]
    ) -> dict[str, Value]:
        """The values that the template reads, and no others: they go to its process as JSON."""
        values: dict[str, Value] = {"state": {}}
        for slot in self.slots:
            source, target = (state, values["state"]) if slot.in_state else (variables, values)
            for name in slot.names[:1] or source:  # without a name the template reads all of them
                if name in source and name not in target:
                    target[name] = self._check_value(name, source[name], slot.span)
        return values

    def _check_value(self, name: str, value: Value, span: Span) -> Value:
        met_missing: list[Value] = []
        try:
            check_length(value)
            sent = value if is_json(value) else _as_json(value, met_missing)
        except (ValueError, RecursionError):
            raise self._too_much(f"reads a value that is too large: {name!r}", span) from None
        except TypeError:
            raise self._no_json(name, value, span) from None
        if met_missing:
            warn_of_null(repr(name), value)
        return sent

    def _no_json(self, name: str, value: Value, span: Span) -> StepError:
        message = f"a template cannot read {name!r}: it is {describe(value)}"
        hint = "a template gets texts, numbers, lists and mappings; a node before it can make one"
        return StepError(Diagnostic("graph.template-value", message, span, hint))

    def _too_much(self, reason: str, span: Span) -> StepError:
        hint = "prepare the text in a node before this one"
        return StepError(Diagnostic("graph.template-limit", f"the template {reason}", span, hint))

    def _failure(self, answer: Mapping[str, Any], variables: Mapping[str, Value]) -> StepError:
        place = Lines(self.text).place(int(answer["line"]))
        if answer["why"] == "limit":
            return self._too_much(str(answer["failed"]), place)
        hint = None
        if answer["why"] == "undefined":
            names = (slot.names[0] for slot in self.slots if not slot.in_state)
            name = next((name for name in names if name not in variables), "")
            default = f"a value that may be missing: {{{{ {name or 'name'} | default('') }}}}"
            hint = join_hints(suggest(name, [*variables, "state"]), default)
        message = f"the template failed: {answer['failed']}"
        return StepError(Diagnostic("graph.template-failed", message, place, hint))


def _as_json(value: Value, met_missing: list[Value]) -> Value:
    """``value`` for a template: dates and durations as texts, NaT as NaN, which with the infinities
    is a number for it and null in its text (decision A1). Raises TypeError for another opaque
    value."""
    if type(value) is list:
        return [_as_json(part, met_missing) for part in value]
    if type(value) is dict and TEXT.issuperset(map(type, value)):
        return {key: _as_json(part, met_missing) for key, part in value.items()}
    if has_no_json(value):
        met_missing.append(value)
        return value if type(value) is float else math.nan
    if is_json(value):
        return value
    if (text := iso_text(value)) is not None:
        return text
    raise TypeError(describe(value))


def read_jinja(reader: Reader, text: Text) -> JinjaPrompt | None:
    """The template of ``text``; None after an error."""
    span = text.locate(0, len(text.text))
    if missing(["jinja2"]):
        message = "this prompt needs jinja2, which is not installed"
        reader.refuses.append(Diagnostic("graph.jinja-not-installed", message, span, INSTALL))
        return JinjaPrompt(text, (), span)
    from jinja2 import Environment, TemplateSyntaxError

    if len(text.text) > MOST_CHARACTERS:
        message = f"the template has more than {MOST_CHARACTERS:,} characters"
        reader.error("graph.template", message, span, "prepare the text in a node before this one")
        return None
    before = reader.error_count
    line = 1
    try:
        slots = tuple(_Template(reader, text).slots(Environment().parse(text.text)))
        return JinjaPrompt(text, slots, span) if reader.error_count == before else None
    except TemplateSyntaxError as error:
        sentence = error.message or ""
        message = f"{sentence[:1].lower()}{sentence[1:]}".rstrip(".")
        line = error.lineno
    except RecursionError:
        message = "the template is nested too deep"
    except ValueError as error:  # a number that is too long
        message = f"the template cannot be read: {error}"
    reader.error("graph.template", message, Lines(text).place(line), _BRACES)
    return None


_Known: TypeAlias = ChainMap[str, None]
"""The names that have a value of the template in a block: its own, and those of the blocks around
it."""


class _Template:
    """Walks over the nodes of a template."""

    def __init__(self, reader: Reader, text: Text) -> None:
        from jinja2.defaults import DEFAULT_NAMESPACE

        self.reader, self.lines = reader, Lines(text)
        self.functions = DEFAULT_NAMESPACE.keys()
        """The functions of Jinja2. Where one is not called, its name is that of a variable."""
        self.stored = set(self.functions)
        """The names that have a value without a variable, somewhere in the template."""

    def slots(self, tree: nodes.Template) -> Iterator[Slot]:
        """The variables and the keys of the state that it reads, in the order of the text."""
        # A list: `stored` is complete only after the whole walk.
        for names, line, certain in [*self.reads(tree)]:
            in_state = names[0] == "state"
            place = self.lines.place(line, names[-1])
            rest = names[1:] if in_state else names[:1]
            certain = certain and names[0] not in self.stored
            yield Slot(f"{{{{ {'.'.join(names)} }}}}", rest, in_state, place, certain)

    def reads(self, tree: nodes.Template) -> Iterator[tuple[tuple[str, ...], int, bool]]:
        """Each name that the template reads and does not surely set before, with the keys below the
        name that it reads, the line, and whether the template fails without a value."""
        from jinja2 import nodes

        # A node, the keys that are read of its value (b and c for the node a of ``a.b.c``), whether
        # it is certain, and the names that are known.
        queue: list[tuple[nodes.Node, tuple[str, ...], bool, _Known]]
        queue = [(tree, (), True, ChainMap())]
        while queue:
            node, after, certain, known = queue.pop()
            self.check(node)
            inner: tuple[str, ...] = ()
            match node:
                case nodes.Name(ctx="load"):
                    if node.name == "self":
                        hint = "self is the template; write state.self for the key of the state"
                        self.refuse(node, "a template cannot read 'self'", node.name, hint)
                    if node.name not in known:
                        yield (node.name, *after), node.lineno, certain
                case nodes.Name() | nodes.Macro():
                    known[node.name] = None
                case nodes.Assign() | nodes.AssignBlock():
                    names = (node.target, *node.target.find_all(nodes.Name))
                    self.stored |= {name.name for name in names if isinstance(name, nodes.Name)}
                case nodes.Getattr():
                    inner = (node.attr, *after)[:DEEPEST]
                case nodes.If() | nodes.CondExpr() | nodes.Test():
                    certain = False
                case nodes.Filter() if node.name in ("default", "d"):
                    certain = False
            parts = self.parts(node, known)
            queue += [(part, inner, certain, names) for part, names in reversed([*parts])]

    def parts(self, node: nodes.Node, known: _Known) -> Iterator[tuple[nodes.Node, _Known]]:
        """The parts of a node in the order in which they are evaluated, each with the names that
        are known there. A name that is set in a block is not known after it."""
        from jinja2 import nodes

        match node:
            case nodes.For():
                within = known.new_child({"loop": None})
                test = filter(None, (node.test,))
                yield from _in(known, node.iter)
                yield from _in(within, node.target, *test, *node.body)
                yield from _in(known.new_child(), *node.else_)
            case nodes.If():
                yield from _in(known, node.test)
                for branch in (node.body, node.elif_, node.else_):
                    yield from _in(known.new_child(), *branch)
            case nodes.With():
                yield from _in(known, *node.values)
                yield from _in(known.new_child(), *node.targets, *node.body)
            case nodes.Macro():
                within = known.new_child(dict.fromkeys(("caller", "varargs", "kwargs")))
                yield from _in(within, *node.args, *node.defaults, *node.body)
            case nodes.CallBlock():
                yield from _in(known, node.call)
                yield from _in(known.new_child(), *node.args, *node.defaults, *node.body)
            case nodes.Assign():
                yield from _in(known, node.node, node.target)
            case nodes.AssignBlock():
                yield from _in(known.new_child(), *filter(None, (node.filter,)), *node.body)
                yield from _in(known, node.target)
            case nodes.Call():
                yield from _in(known, *self.parts_of_call(node))
            case nodes.FilterBlock() | nodes.Scope():
                yield from _in(known.new_child(), *node.iter_child_nodes())
            case _:
                yield from _in(known, *node.iter_child_nodes())

    def parts_of_call(self, call: nodes.Call) -> Iterator[nodes.Node]:
        """What is read of the callee, and the arguments. A function and a block are not read, and
        the name of a method is no key of the value."""
        from jinja2 import nodes

        functions = {*self.functions, "super"}
        callee, *arguments = call.iter_child_nodes()
        if isinstance(callee, nodes.Getattr):
            self.check(callee)
            callee = callee.node
            functions = {"self"}
        if not (isinstance(callee, nodes.Name) and callee.name in functions):
            yield callee
        yield from arguments

    def check(self, node: nodes.Node) -> None:
        """Report what no template can do."""
        from jinja2 import nodes
        from jinja2.filters import FILTERS
        from jinja2.tests import TESTS

        match node:
            case nodes.Filter() if node.name not in FILTERS:
                hint = suggest(node.name, FILTERS, "filters")
                self.refuse(node, f"unknown filter {node.name!r}", node.name, hint)
            case nodes.Test() if node.name not in TESTS:
                hint = suggest(node.name, list(filter(str.isidentifier, TESTS)), "tests")
                self.refuse(node, f"unknown test {node.name!r}", node.name, hint)
            case nodes.Getattr() if node.attr.startswith("_"):
                hint = "keys of mappings that begin with _ are read as name['_key']"
                if PEER_KEY.fullmatch(node.attr):
                    hint = LEAVE_OUT
                self.refuse(node, f"a template cannot read {node.attr!r}", node.attr, hint)
            case nodes.Getitem(arg=nodes.Const(value=str(key))) if PEER_KEY.fullmatch(key):
                place = self.lines.place(node.lineno, key)
                self.reader.warn("graph.peer-key", peer_key(key), place, LEAVE_OUT)
            case nodes.Include() | nodes.Import() | nodes.FromImport() | nodes.Extends():
                self.refuse(node, "a prompt has no other files to read", "", "write the text here")

    def refuse(self, node: nodes.Node, message: str, word: str, hint: str | None) -> None:
        place = self.lines.place(node.lineno, word)
        self.reader.error("graph.template", message, place, hint)


def _in(known: _Known, *parts: nodes.Node) -> Iterator[tuple[nodes.Node, _Known]]:
    return ((part, known) for part in parts)


class Lines:
    """The lines of a template, to show a place in it: jinja2 knows the line alone."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self.whole = text.text
        self.starts = [0, *(end.end() for end in _LINES.finditer(self.whole)), len(self.whole)]
        self.reached: dict[int, int] = {}
        """The end of the last word, in each line."""

    def place(self, line: int, word: str = "") -> Span:
        """The place of ``word``, else of the line. Words are searched near the last one, because a
        line may have thousands."""
        index = min(max(line, 1), len(self.starts) - 1) - 1
        start = self.starts[index]
        end = self.starts[index + 1]
        reached = self.reached.get(index, start)
        window = max(start, reached - NEAR), min(end, reached + 10 * NEAR)
        found_at = self.whole.find(word, *window) if word else -1
        if found_at >= 0:
            self.reached[index] = found_at + len(word)
            return self.text.locate(found_at, found_at + len(word))
        content = self.whole[start:end]
        lead = len(content) - len(content.lstrip())
        return self.text.locate(start + lead, start + max(lead, len(content.rstrip())))
