"""Reads the configuration of a policy: agents, mappings and conditions. All problems are reported
at once.

Values of a wrong shape are skipped, because the schema of the document reports them.
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
from .outcome import Choice, read_choice
from .path import PARENT, Path, Where, parse_path, source_problem
from .values import AgentInput, Interface


@dataclass(frozen=True, slots=True)
class Policy:
    """An execution policy that is being read."""

    id: Scalar
    config: Fields
    space: ActionSpace
    takes: Interface
    gives: Interface
    problems: Diagnostics
    taken: list[tuple[str, Taken]] = field(default_factory=list)
    """The fields that paths read of each alias's output."""
    refuses: list[Diagnostic] = field(default_factory=list)
    """Requirements of the definition that cannot be met: a run is refused."""

    def items(self, key: str) -> list[Fields]:
        listed = self.config.fields.get(key)
        return (
            [item for item in listed.items if isinstance(item, Fields)]
            if isinstance(listed, Items)
            else []
        )

    def number(self, key: str, otherwise: int) -> int:
        """A whole number; in JSON Schema 5.0 is one."""
        value = self.config.fields.get(key)
        number = value.value if isinstance(value, Scalar) else None
        return (
            int(number)
            if isinstance(number, (int, float)) and not isinstance(number, bool)
            else otherwise
        )

    def span(self, key: str) -> Span:
        return self.config.keys[key].span if key in self.config.keys else self.id.span

    def step(
        self, entry: Fields, id: str, where: Where, ran: Collection[str], target: Target | None
    ) -> Invoke | None:
        """The call of a PolicyStep or a route."""
        alias = entry.fields.get("agent")
        mapping = entry.fields.get("input_mapping")
        paths = self.paths(mapping, where, ran, id)
        return self.call(alias, id, paths, mapping, target) if isinstance(alias, Scalar) else None

    def call(
        self,
        alias: Scalar,
        id: str,
        paths: Mapping[str, Path],
        mapping: Node | None,
        target: Target | None,
    ) -> Invoke:
        agent = self.space.find(alias)
        delivery = None
        if isinstance(mapping, Fields):
            delivery = Delivery(
                f"agent {alias.text!r}",
                paths,
                {name: key.span for name, key in mapping.keys.items()},
            )
        return Invoke(
            id=id,
            word="agent",
            label=alias.text,
            span=alias.span,
            kind="agent",
            name=Name(alias.text, alias.span),
            args=AgentInput(delivery),
            file=agent.file,
            permit=agent.permit,
            keeps=True,
            wants=True,
            spawns=False,
            target=target,
        )

    def paths(
        self, mapping: Node | None, where: Where, ran: Collection[str], id: str
    ) -> dict[str, Path]:
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
                self.check_source(found[name], ran, (id, name))
        return found

    def check_source(
        self, path: Path, ran: Collection[str], into: tuple[str, str] | None = None
    ) -> None:
        """Check the source of a path (AGF-8, AGF-9) and its fields against the schema (AGF-10)."""
        problem = source_problem(path, self.aliases(), ran)
        if (
            problem is not None
            and problem.code == "policy.unknown-alias"
            and self.has_unread_step()
        ):
            return  # the step with the misspelt key is reported
        if problem is not None and self.id.text == "agf.loop" and path.source in self.aliases():
            # AMB-1: the seed's order of steps has no exception for a loop; suggest another way.
            hint = (
                "a round does not see the previous one; the fold of a pipeline passes a value "
                "from round to round"
            )
            problem = replace(problem, hint=hint)
        if problem is None and path.source == PARENT:
            problem = _lacking(self.takes.schema, path)
        elif problem is None and path.direction == "output":
            self.taken.append(
                (path.source, Taken("", f"{path.source}.output", _fields(path), into))
            )
        if problem is not None:
            self.problems.add(problem)

    def aliases(self) -> Collection[str]:
        """The local agents; without an action space those that a step names."""
        if self.space.declared:
            return self.space.agents
        return [
            alias
            for entry in (*self.items("steps"), *self.items("agents"))
            if (alias := alias_of(entry))
        ]

    def has_unread_step(self) -> bool:
        """Whether the steps declare the agents and one of them names none."""
        steps = (*self.items("steps"), *self.items("agents"))
        return not self.space.declared and any(alias_of(entry) is None for entry in steps)

    def condition(self, node: Node, ran: Collection[str]) -> Condition:
        found = condition(node, "condition", self.problems, (*self.aliases(), PARENT))
        for path in found.paths:
            self.check_source(path, ran)
        return found

    def output(self, default: Choice, aliases: Listed[str]) -> Choice:
        """``output_from``; a merge has one key for each alias (AGF-45, AGF-48)."""
        choice = read_choice(self.config.fields.get("output_from"), default, aliases, self.problems)
        if choice.kind == "merge":
            self.check_unique("merge has one key for each alias", "steps")
        return choice

    def check_unique(self, why: str, key: str) -> None:
        """Report each alias that is used more than once."""
        seen: Counter[str] = Counter()
        for entry in self.items(key):
            alias = entry.fields.get("agent")
            if not isinstance(alias, Scalar):
                continue
            seen[alias.text] += 1
            if seen[alias.text] == 2:
                hint = "declare a second alias with the same source"
                message = f"{alias.text!r} is used twice, but {why}"
                self.problems.error("policy.duplicate-alias", message, alias.span, hint)


def _fields(path: Path) -> tuple[tuple[str, Span], ...]:
    return tuple(
        (part.name, path.part_span(index)) for index, part in enumerate(path.parts) if index > 1
    )


def _lacking(schema: Mapping[str, Any] | None, path: Path) -> Diagnostic | None:
    """The finding that the interface lacks a field that a path reads (AGF-10)."""
    fields = _fields(path)
    if found := lacking(schema, [name for name, _ in fields]):
        name, span = fields[found[0]]
        message, hint = (
            f"interface.input has no field {name!r}",
            suggest(name, found[1], "its fields"),
        )
        return Diagnostic("flow.unknown-field-read", message, span, hint, "warning")
    return None


def alias_of(entry: Fields) -> str | None:
    alias = entry.fields.get("agent")
    return alias.text if isinstance(alias, Scalar) else None
