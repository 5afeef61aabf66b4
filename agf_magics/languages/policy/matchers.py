"""Evaluates conditions: groups of matchers, of which the first matching group counts.

All matchers of a group must match. A matcher does not convert values (AMB-30): a value of another
type does not match, except with ``ne`` and ``not_in``. All fields of a group must exist: AGF has no
``exists``, and an ignored absent field would hide a misspelt name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Literal, NamedTuple

from ...flow.comparison_warnings import OF_JSON, OF_NUMBERS, is_opaque, warn_of_comparison
from ...flow.protocols import Frame, Ref
from ...schemas.patterns import SYNTAX, BadPattern, searcher
from ...schemas.schema import same, shown_value
from ...text.diagnostics import DefinitionError, Diagnostic, Diagnostics, StepError
from ...text.shorten import shorten
from ...text.source import Span
from ...text.suggestions import suggest
from ...text.yaml.nodes import Fields, Items, Node, Scalar, plain
from ...values.value import Value
from .lookalikes import warn_of_path
from .operators import OPERATORS, Test, is_number, never
from .path import Path, parse_path

Keys = Literal["condition", "approval"]
"""The keys of a condition: paths, or the names of a call's arguments."""


class Argument(NamedTuple):
    """A key in the condition of a tool's approval: the name of an argument. Its frame has only the
    arguments of the call."""

    name: str
    span: Span

    def evaluate(self, frame: Frame) -> Value:
        if self.name not in frame:
            hint = suggest(self.name, frame, "its arguments") or "the call has no arguments"
            message = f"the call has no argument {self.name!r}"
            raise StepError(Diagnostic("policy.unresolved-path", message, self.span, hint))
        return frame[self.name]

    def reads(self) -> tuple[Ref, ...]:
        return (Ref((self.name,), self.span),)


class Matcher(NamedTuple):
    """One line of a group: a key and a test of its value."""

    key: Path | Argument
    test: Test
    text: str
    """The text in pictures: ``checker.output.score >= 0.8``."""
    needs: Literal["", "number", "text"] = ""
    """The only kind of value that can match; empty: any JSON."""

    def never_matches(self, value: Value) -> str:
        """The reason why a value of the kind of ``value`` never matches (AMB-30); empty: it may."""
        if self.needs == "number" and not is_number(value):
            return f"{self.text} needs a number, but the value is {shown_value(value)}"
        if self.needs == "text" and type(value) is not str:
            return f"{self.text} needs a text, but the value is {shown_value(value)}"
        if is_opaque(value):
            return f"{self.text} compares JSON, but the value is {shown_value(value)}"
        return ""


class Condition:
    """An Expr: ``evaluate`` returns the number of the first group that matches, from 1, or None."""

    __slots__ = ("groups", "span")

    def __init__(self, span: Span, groups: tuple[tuple[Matcher, ...], ...]) -> None:
        self.span = span
        self.groups = groups

    def evaluate(self, frame: Frame) -> Value:
        for number, group in enumerate(self.groups, 1):
            misses = _misses(group, frame)
            if not misses:
                return number
            # Only where nothing else fails: `{kind: order, total: {gt: 5}}` is right about a mail,
            # whatever its total is.
            if all(value is not None and matcher.never_matches(value) for matcher, value in misses):
                for matcher, value in misses:
                    hint = OF_NUMBERS if matcher.needs == "number" else OF_JSON
                    warn_of_comparison(matcher.never_matches(value), hint)
        return None

    @property
    def text(self) -> str:
        """The condition as a picture shows it."""
        groups = [
            " and ".join(matcher.text for matcher in group) or "always" for group in self.groups
        ]
        return " or ".join(groups)

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(m.key for group in self.groups for m in group if isinstance(m.key, Path))

    @property
    def arguments(self) -> tuple[Argument, ...]:
        return tuple(m.key for group in self.groups for m in group if isinstance(m.key, Argument))

    def reads(self) -> tuple[Ref, ...]:
        """The values that the condition reads. The first group is always read, so an absent field
        of it is an error."""
        return tuple(
            ref._replace(certain=number == 0)
            for number, group in enumerate(self.groups)
            for matcher in group
            for ref in matcher.key.reads()
        )

    def mismatch(self, frame: Frame) -> str | None:
        """The reason why a matcher can never match values like the current one."""
        for matcher in (matcher for group in self.groups for matcher in group):
            if reason := matcher.never_matches(matcher.key.evaluate(frame)):
                return reason
        return None

    def is_doubtful(self, frame: Frame) -> bool:
        """Whether a group fails only by values of a kind that can never match: whether they are what
        the condition is about, it cannot tell."""
        return any(
            all(matcher.never_matches(value) for matcher, value in misses)
            for group in self.groups
            if (misses := _misses(group, frame))
        )

    def __repr__(self) -> str:
        return f"Condition({self.text!r})"


def condition(
    node: Node, keys: Keys, problems: Diagnostics, sources: Collection[str] = ()
) -> Condition:
    """Read a condition: one group or a list of groups. Errors are added to ``problems``; values of
    a wrong shape are skipped, because the schema of the document reports them. ``sources``: the
    names of agents that paths may read."""
    groups = node.items if isinstance(node, Items) else (node,)
    for constant in constants(groups):
        warn_of_path(constant, sources, problems)
    return Condition(
        node.span,
        tuple(_group(group, keys, problems) for group in groups if isinstance(group, Fields)),
    )


def constants(groups: Iterable[Node]) -> Iterator[Scalar]:
    """The values that matchers compare with directly."""
    for group in (group for group in groups if isinstance(group, Fields)):
        for value in group.inner("args_match").fields.values():
            inner = value.fields.values() if isinstance(value, Fields) else (value,)
            yield from (node for node in inner if isinstance(node, Scalar))


def _group(node: Fields, keys: Keys, problems: Diagnostics) -> tuple[Matcher, ...]:
    """The matchers of a group, without those that cannot be read."""
    lines = node.fields.get("args_match")
    if lines is None or (isinstance(lines, Fields) and not lines.fields):
        key = node.keys.get("args_match") or next(iter(node.keys.values()), None)
        hint = (
            "write {args_match: {PATH: VALUE}}, as in {args_match: {parent.input.kind: fruit}}; in "
            "the place of a value also {gt: 5}"
        )
        problems.warn(
            "policy.vacuous-condition",
            "this condition is always true",
            key.span if key else node.span,
            hint,
        )
    if not isinstance(lines, Fields):
        return ()
    matchers = []
    for name, value in lines.fields.items():
        matcher = _matcher(lines.keys[name], value, keys, problems)
        if matcher is not None:
            matchers.append(matcher)
    return tuple(matchers)


def _misses(group: tuple[Matcher, ...], frame: Frame) -> list[tuple[Matcher, Value]]:
    """The matchers of a group that do not match, with their values. All are read, also after a
    mismatch: an absent field is an error."""
    values = [(matcher, matcher.key.evaluate(frame)) for matcher in group]
    return [(matcher, value) for matcher, value in values if not matcher.test(value)]


def _matcher(name: Scalar, node: Node, keys: Keys, problems: Diagnostics) -> Matcher | None:
    """The matcher of one line: a constant, or operators with theirs; None, after an error."""
    key: Path | Argument
    try:
        key = Argument(name.text, name.span)
        if keys == "condition":
            key = parse_path(name, "condition")
    except DefinitionError as error:
        problems.extend(error.diagnostics)
        return None
    if isinstance(node, Scalar):
        expected = node.value
        return Matcher(
            key, lambda value: same(value, expected), f"{name.text} = {_value_words(node)}"
        )
    if not isinstance(node, Fields):
        return None
    if not node.fields:
        message = f"the matcher of {name.text} is empty and matches anything"
        hint = f"use {', '.join(OPERATORS)}"
        problems.warn("policy.vacuous-matcher", message, node.span, hint)
    tests = [_test(word, operand, problems) for word, operand in node.fields.items()]
    parts = [f"{_sign(word)} {_value_words(operand)}" for word, operand in node.fields.items()]
    text = f"{name.text} {' and '.join(parts)}" if parts else f"{name.text} exists"
    return Matcher(
        key,
        lambda value: all(test(value) for test in tests),
        text,
        _needs(node.fields),
    )


def _needs(words: Collection[str]) -> Literal["", "number", "text"]:
    """The only kind of value that operators can match."""
    if any(word in OPERATORS and OPERATORS[word].is_numeric for word in words):
        return "number"
    return "text" if "pattern" in words else ""


def _test(word: str, node: Node, problems: Diagnostics) -> Test:
    if word == "pattern" and isinstance(node, Scalar):
        return _pattern_test(node, problems)
    # The schema of the document reports an unknown operator and a constant of a wrong type.
    return OPERATORS[word].test(plain(node)) if word in OPERATORS else never


def _sign(word: str) -> str:
    return OPERATORS[word].sign if word in OPERATORS else word


def _pattern_test(node: Scalar, problems: Diagnostics) -> Test:
    """Search a regular expression anywhere in a text (AMB-19, decision D5)."""
    try:
        search = searcher(node.text)
    except BadPattern as error:
        span = node.locate(error.start, error.end) if error.start < error.end else node.span
        problems.error("policy.bad-pattern", f"the pattern cannot be used: {error}", span, SYNTAX)
        return never
    return lambda value: type(value) is str and search(value)


def _value_words(node: Node) -> str:
    if isinstance(node, Items):
        more = "…" if len(node.items) > 5 else ""
        return f"[{', '.join(map(_value_words, node.items[:5]))}{more}]"
    if not isinstance(node, Scalar):
        return "…"
    return f'"{shorten(node.text)}"' if node.style else shorten(node.text)
