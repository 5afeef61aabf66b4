"""Reads the configuration of a policy: agents, mappings and conditions.

All problems are reported together. Values of a wrong type are skipped, because the schema of the
document reports them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from collections.abc import Sequence as Listed
from dataclasses import dataclass, field, replace
from typing import Any

from ...flow.protocols import Name, Target
from ...flow.step_options import Asking, Exchange, Lookup, ResultRead
from ...flow.steps import Invoke
from ...schemas.violations import lacking
from ...text.diagnostics import DefinitionError, Diagnostic, Diagnostics
from ...text.source import Span
from ...text.suggestions import suggest
from ...text.yaml.nodes import Fields, Items, Node, Scalar, is_text
from ..refused import with_refused_arguments
from .action_space import ActionSpace
from .frame import AgentInput
from .input_mapping import Delivery
from .interface import Interface
from .matchers import Condition, condition
from .output_from import Choice, read_choice, unknown_agent
from .path import PARENT, Path, Where, parse_path, source_problem

EARLIER: Mapping[str, str] = {
    # AMB-1: the seed's order of steps has no exception for a loop; suggest another way.
    "agf.loop": "a round does not see the previous one; the fold of a pipeline passes a value from "
    "round to round",
    "agf.parallel": "the agents of an agf.parallel run at once, so none reads another: write "
    "agf.sequential and steps:",
}
"""The hints for a path that reads the output of an agent that has not run, by policy."""


@dataclass(frozen=True, slots=True)
class Policy:
    """An execution policy that is being read."""

    id: Scalar
    config: Fields
    space: ActionSpace
    takes: Interface
    """``interface.input``."""
    gives: Interface
    """``interface.output``."""
    problems: Diagnostics
    result_reads: list[tuple[str, ResultRead]] = field(default_factory=list)
    """The fields that paths read of each alias's output."""
    refuses: list[Diagnostic] = field(default_factory=list)
    """Requirements of the definition that cannot be met: a run is refused."""
    aliases: Collection[str] = field(init=False)
    """The aliases of the local agents; without an action space, the aliases that steps name."""
    has_unread_step: bool = field(init=False)
    """Whether there is a step whose agent could not be read."""

    def __post_init__(self) -> None:
        named = list[str | None]()
        for node in map(self.config.fields.get, ("steps", "agents")):
            if node is not None:
                entries = node.items if isinstance(node, Items) else (node,)
                named += (
                    alias_of(entry) if isinstance(entry, Fields) else None for entry in entries
                )
        aliases = self.space.agents if self.space.declared else dict.fromkeys(filter(None, named))
        object.__setattr__(self, "aliases", aliases)
        object.__setattr__(self, "has_unread_step", None in named)

    def number(self, key: str, otherwise: int) -> int:
        """The whole number at a key; in JSON Schema 5.0 is a whole number."""
        number = self.config.value_at(key)
        return int(number) if type(number) in (int, float) else otherwise

    def span(self, key: str) -> Span:
        return self.config.keys[key].span if key in self.config.keys else self.id.span

    def step(
        self, entry: Fields, id: str, where: Where, ran: Collection[str], target: Target | None
    ) -> Invoke | None:
        """The call of a PolicyStep or a route; None: it names no agent. ``ran``: the agents that
        its paths may read."""
        alias = entry.scalar("agent")
        mapping = entry.fields.get("input_mapping")
        paths = self.paths(mapping, where, ran, id)
        if alias is None:
            return None
        return self.call(alias, id, paths, mapping, target, tuple(ran))

    def call(
        self,
        alias: Scalar,
        id: str,
        paths: Mapping[str, Path],
        mapping: Node | None,
        target: Target | None,
        ran: tuple[str, ...] = (),
    ) -> Invoke:
        """The call of an agent with the ``paths`` of its ``mapping``; without a mapping it gets the
        whole input of the parent."""
        agent = self.space.find(alias)
        delivery = None
        if isinstance(mapping, Fields):
            delivery = Delivery(
                f"agent {alias.text!r}",
                paths,
                {name: key.span for name, key in mapping.keys.items()},
            )
        call = Invoke(
            id=id,
            word="agent",
            label=alias.text,
            span=alias.span,
            kind="agent",
            name=Name(alias.text, alias.span),
            args=AgentInput(delivery, ran),
            lookup=Lookup(agent.file),
            permit=agent.permit,
            exchange=Exchange(keep_arguments=True, with_schema=True),
            asking=Asking(counts_as_session=False),
            target=target,
        )
        if mapping is None or (isinstance(mapping, Fields) and len(paths) == len(mapping.fields)):
            return call
        # A path that could not be read fills its field all the same.
        if not isinstance(mapping, Fields):
            return with_refused_arguments(call)
        names = tuple((name, key.span) for name, key in mapping.keys.items())
        return with_refused_arguments(call, names)

    def paths(
        self, mapping: Node | None, where: Where, ran: Collection[str], id: str
    ) -> dict[str, Path]:
        """The paths of a mapping, by the fields of the call ``id`` that they fill."""
        paths = {}
        for name, text in mapping.fields.items() if isinstance(mapping, Fields) else ():
            if not is_text(text) or text.is_expr:
                continue
            try:
                paths[name] = parse_path(text, where)
            except DefinitionError as error:
                self.problems.extend(error.diagnostics)
            else:
                self.check_source(paths[name], ran, (id, name))
        return paths

    def check_source(
        self, path: Path, ran: Collection[str], into: tuple[str, str] | None = None
    ) -> None:
        """Check the source of a path (AGF-8, AGF-9) and its fields against the schema (AGF-10)."""
        problem = source_problem(path, self.aliases, ran)
        if problem is None:
            if path.source == PARENT:
                self.problems.extend(_lacking(self.takes.schema, path))
            elif path.direction == "output":
                taken = ResultRead("", f"{path.source}.output", _fields(path), into)
                self.result_reads.append((path.source, taken))
        elif path.source in self.aliases:
            hint = EARLIER.get(self.id.text, problem.hint)
            self.problems.add(replace(problem, hint=hint))
        # Otherwise the step that could not be read is reported, not the path that reads its output.
        elif (
            problem.code != "policy.unknown-alias"
            or self.space.declared
            or not self.has_unread_step
        ):
            self.problems.add(problem)

    def condition(self, node: Node, ran: Collection[str]) -> Condition:
        parsed = condition(node, "condition", self.problems, (*self.aliases, PARENT))
        for path in parsed.paths:
            self.check_source(path, ran)
        return parsed

    def output(self, default: Choice, aliases: Listed[str]) -> Choice:
        """``output_from``; a merge has one key for each alias (AGF-45, AGF-48)."""
        choice = read_choice(self.config.fields.get("output_from"), default)
        if choice.kind == "agent" and aliases and not self.has_unread_step:
            self.problems.extend(unknown_agent(choice, aliases))
        if choice.kind == "merge":
            self.check_unique("merge has one key for each alias", "steps")
        return choice

    def check_unique(self, why: str, key: str) -> None:
        """Report each alias that is used more than once."""
        counts: Counter[str | None] = Counter()
        for alias in (entry.scalar("agent") for entry in self.config.entries(key)):
            counts[alias and alias.text] += 1
            if alias and counts[alias.text] == 2:
                hint = "declare a second alias with the same source"
                message = f"{alias.text!r} is used twice, but {why}"
                self.problems.error("policy.duplicate-alias", message, alias.span, hint)


def _fields(path: Path) -> tuple[tuple[str, Span], ...]:
    return tuple(
        (part.name, path.part_span(index)) for index, part in enumerate(path.parts) if index > 1
    )


def _lacking(schema: Mapping[str, Any] | None, path: Path) -> Iterator[Diagnostic]:
    """The problem that the interface lacks a field that a path reads (AGF-10)."""
    fields = _fields(path)
    if lack := lacking(schema, [name for name, _ in fields]):
        name, span = fields[lack[0]]
        message = f"interface.input has no field {name!r}"
        hint = suggest(name, lack[1], "its fields")
        yield Diagnostic("flow.unknown-field-read", message, span, hint, "warning")


def alias_of(entry: Fields) -> str | None:
    alias = entry.scalar("agent")
    return alias and alias.text
