"""A policy's configuration as it is read: its steps' agents, mappings and conditions, everything wrong told at once.

What has the wrong shape is the document's schema's to tell; a reader here passes over it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from collections.abc import Sequence as Listed
from dataclasses import dataclass, field, replace
from typing import Any

from ...flow.declared import Taken
from ...flow.frame import Target
from ...flow.schema_fields import lacking
from ...flow.steps import Invoke, Name
from ...text.diagnostics import DefinitionError, Diagnostic, Diagnostics, suggest
from ...text.source import Span
from ...text.yamlnodes import Fields, Items, Node, Scalar
from .agents import ActionSpace
from .delivery import Delivery
from .matchers import Condition, condition
from .outcome import Choice, chosen
from .path import PARENT, Path, Where, parse_path, source_problem
from .values import Handed, Interface


@dataclass(frozen=True, slots=True)
class Policy:
    """An execution policy being read."""

    id: Scalar
    config: Fields
    space: ActionSpace
    takes: Interface
    gives: Interface
    problems: Diagnostics
    taken: list[tuple[str, Taken]] = field(default_factory=list)
    """What is read of each alias's output."""
    refuses: list[Diagnostic] = field(default_factory=list)
    """What cannot be held, though the definition asks for it: a run is refused."""

    def items(self, key: str) -> list[Fields]:
        listed = self.config.fields.get(key)
        return [item for item in listed.items if isinstance(item, Fields)] if isinstance(listed, Items) else []

    def number(self, key: str, otherwise: int) -> int:
        """A whole number; JSON Schema lets 5.0 be one."""
        value = self.config.fields.get(key)
        told = value.value if isinstance(value, Scalar) else None
        return int(told) if isinstance(told, (int, float)) and not isinstance(told, bool) else otherwise

    def span(self, key: str) -> Span:
        return self.config.keys[key].span if key in self.config.keys else self.id.span

    def step(self, entry: Fields, id: str, where: Where, ran: Collection[str], target: Target | None) -> Invoke | None:
        """The call that a PolicyStep, a route or a batch is."""
        alias = entry.fields.get("agent")
        mapping = entry.fields.get("input_mapping")
        paths = self.paths(mapping, where, ran, id)
        if not isinstance(alias, Scalar):
            return None
        return self.call(alias, id, paths, mapping, target)

    def call(
        self, alias: Scalar, id: str, paths: Mapping[str, Path], mapping: Node | None, target: Target | None
    ) -> Invoke:
        agent = self.space.find(alias)
        delivery = None
        if isinstance(mapping, Fields):
            delivery = Delivery(f"agent {alias.text!r}", paths, {name: key.span for name, key in mapping.keys.items()})
        return Invoke(
            id=id,
            word="agent",
            label=alias.text,
            span=alias.span,
            kind="agent",
            name=Name(alias.text, alias.span),
            args=Handed(delivery),
            file=agent.file,
            permit=agent.permit,
            keeps=True,
            wants=True,
            spawns=False,
            target=target,
        )

    def paths(self, mapping: Node | None, where: Where, ran: Collection[str], id: str) -> dict[str, Path]:
        """The paths of a mapping, by the fields of the call ``id`` that they fill."""
        found = {}
        for name, text in mapping.fields.items() if isinstance(mapping, Fields) else ():
            if not isinstance(text, Scalar) or not isinstance(text.value, str):
                continue
            try:
                found[name] = parse_path(text, where)
            except DefinitionError as error:
                self.problems.extend(error.diagnostics)
            else:
                self.known(found[name], ran, (id, name))
        return found

    def known(self, path: Path, ran: Collection[str], into: tuple[str, str] | None = None) -> None:
        """Tell what is wrong with whom a path reads (AGF-8, AGF-9), and what its schema does not have (AGF-10)."""
        problem = source_problem(path, self.aliases(), ran)
        if problem is not None and problem.code == "policy.unknown-alias" and self.unread():
            return  # it may be what a step says with `agnt:`, which is told
        if problem is not None and self.id.text == "agf.loop" and path.source in self.aliases():
            # AMB-1: the seed's order of steps has no exception for a loop; say where feedback can be had.
            hint = "a round does not see the one before; a fold of a pipeline carries a value from round to round"
            problem = replace(problem, hint=hint)
        if problem is None and path.source == PARENT:
            problem = _lacking(self.takes.schema, path)
        elif problem is None and path.direction == "output":
            self.taken.append((path.source, Taken("", f"{path.source}.output", _fields(path), into)))
        if problem is not None:
            self.problems.add(problem)

    def aliases(self) -> Collection[str]:
        """The local agents there are; where the kernel's are, those that a step names."""
        if self.space.declared:
            return self.space.agents
        return [alias for entry in (*self.items("steps"), *self.items("agents")) if (alias := alias_of(entry))]

    def unread(self) -> bool:
        """Whether the steps say who there is, and one of them does not."""
        steps = (*self.items("steps"), *self.items("agents"))
        return not self.space.declared and any(alias_of(entry) is None for entry in steps)

    def condition(self, node: Node, ran: Collection[str]) -> Condition:
        found = condition(node, "condition", self.problems)
        for path in found.paths:
            self.known(path, ran)
        return found

    def output(self, default: Choice, aliases: Listed[str]) -> Choice:
        """``output_from``; a merge has one key for each alias (AGF-45, AGF-48)."""
        choice = chosen(self.config.fields.get("output_from"), default, aliases, self.problems)
        if choice.kind == "merge":
            self.once("merge has one key for each agent", "steps", choice.span)
        return choice

    def once(self, why: str, key: str, otherwise: Span) -> None:
        """Tell of every alias that stands a second time, once."""
        seen: Counter[str] = Counter()
        for entry in self.items(key):
            alias = entry.fields.get("agent")
            if not isinstance(alias, Scalar):
                continue
            seen[alias.text] += 1
            if seen[alias.text] == 2:
                hint = "declare a second alias with the same source"
                message = f"{alias.text!r} runs more than once, and {why}"
                self.problems.error("policy.duplicate-alias", message, alias.span, hint)


def _fields(path: Path) -> tuple[tuple[str, Span], ...]:
    return tuple((part.name, path.part_span(index)) for index, part in enumerate(path.parts) if index > 1)


def _lacking(schema: Mapping[str, Any] | None, path: Path) -> Diagnostic | None:
    """The finding that the interface does not have what a path reads of the input (AGF-10)."""
    fields = _fields(path)
    if found := lacking(schema, [name for name, _ in fields]):
        name, span = fields[found[0]]
        message, hint = f"interface.input has no field {name!r} there", suggest(name, found[1], "its fields")
        return Diagnostic("flow.unknown-field-read", message, span, hint, "warning")
    return None


def alias_of(entry: Fields) -> str | None:
    alias = entry.fields.get("agent")
    return alias.text if isinstance(alias, Scalar) else None
