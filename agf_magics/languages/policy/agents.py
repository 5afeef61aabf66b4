"""The action space: the local agents that a policy runs, the tools that its model may use, and what is not here.

Without an ``action_space`` the kernel's registered agents are the local agents, and a document may use no tool
(decisions B1, B1′).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from ...flow.declared import Uses
from ...flow.session import Offer
from ...flow.steps import Name
from ...text.diagnostics import Diagnostic, Diagnostics, suggest
from ...text.yamlnodes import Fields, Items, Scalar
from .outcome import STRATEGIES
from .path import PARENT, source_problem
from .safety import Permit, approval

LISTS = ("local_tools", "mcp_servers", "local_agents", "remote_agents")

_NEAR = {
    "local_tools": "{!r} is a tool: only an agf.react's model calls tools",
    "mcp_servers": "{!r} is an MCP server, not an agent",
    "remote_agents": "{!r} is a remote agent: a policy runs local agents",
}


class Delegate(NamedTuple):
    """A local agent."""

    alias: Name
    file: Name | None = None
    """What defines it, where nothing is registered under its alias."""
    permit: Permit | None = None


class ActionSpace:
    """What a definition may use."""

    def __init__(self, root: Fields, problems: Diagnostics) -> None:
        space = root.fields.get("action_space")
        self.problems = problems
        self.declared = isinstance(space, Fields)
        """Whether it says so itself."""
        self.lists: Mapping[str, dict[str, tuple[Scalar, Fields]]] = {
            name: dict(self._entries(space, name)) for name in LISTS
        }
        self.agents = {alias: self._agent(*entry) for alias, entry in self.lists["local_agents"].items()}
        self.tools = {alias: _tool(*entry) for alias, entry in self.lists["local_tools"].items()}
        self.permits = {
            alias: permit
            for alias, (_, fields) in self.lists["local_tools"].items()
            if (permit := approval(fields.fields.get("approval"), f"tool {alias!r}", "approval", problems)[0])
        }

    def _entries(self, space: object, name: str) -> Iterator[tuple[str, tuple[Scalar, Fields]]]:
        """The aliases of one list; one that is there twice is told (AGF-S1, AGF-48)."""
        listed = space.fields.get(name) if isinstance(space, Fields) else None
        seen: dict[str, Scalar] = {}
        for entry in listed.items if isinstance(listed, Items) else ():
            alias = entry.fields.get("alias") if isinstance(entry, Fields) else None
            if not isinstance(entry, Fields) or not isinstance(alias, Scalar):
                continue
            if alias.text in seen:
                message = f"{alias.text!r} is the alias of two {name}"
                first = (("first used here", seen[alias.text].span),)
                hint = "an alias means one thing; the same source may stand under two aliases"
                self.problems.add(Diagnostic("policy.duplicate-alias", message, alias.span, hint, related=first))
                continue
            seen[alias.text] = alias
            yield alias.text, (alias, entry)

    def _agent(self, alias: Scalar, entry: Fields) -> Delegate:
        if alias.text in STRATEGIES:
            message = f"{alias.text!r} is the word of a strategy: output_from: {alias.text} does not mean this agent"
            self.problems.warn("policy.reserved-alias", message, alias.span, "rename it; {agent: …} reaches it")
        elif alias.text == PARENT:
            message = "'parent' is always the agent around it: no path can read this one"
            self.problems.warn("policy.reserved-alias", message, alias.span, "rename it")
        permit, when = approval(entry.fields.get("approval"), f"agent {alias.text!r}", "condition", self.problems)
        for path in when.paths if when else ():
            if problem := source_problem(path, self.lists["local_agents"], ()):
                self.problems.add(problem)
        return Delegate(Name(alias.text, alias.span), self._file(alias, entry), permit)

    def _file(self, alias: Scalar, entry: Fields) -> Name | None:
        kind, source = entry.fields.get("source_type"), entry.fields.get("source")
        word = kind.text if isinstance(kind, Scalar) else "file"
        if word == "file" and isinstance(source, Scalar):
            return Name(source.text, source.span)
        if word != "kernel" and isinstance(kind, Scalar):
            message = f"an agent cannot be had from a source of type {word!r} here"
            hint = suggest(word, ("file", "kernel")) or f"register one called {alias.text!r}, or let source name a file"
            self.problems.warn("policy.source-type", message, kind.span, hint)
        return None

    def find(self, name: Scalar) -> Delegate:
        """The local agent that a step names; told where there is none (AGF-35)."""
        if name.text in self.agents:
            return self.agents[name.text]
        if self.declared:
            near = next((_NEAR[other].format(name.text) for other in _NEAR if name.text in self.lists[other]), None)
            if near is None and not self.agents:
                near = "declare it: action_space: {local_agents: [{alias: …, source: …}]}"
            hint = near or suggest(name.text, self.agents, "local agents")
            self.problems.error("policy.unknown-alias", f"no local agent is called {name.text!r}", name.span, hint)
        return Delegate(Name(name.text, name.span))

    def uses(self) -> tuple[Uses, ...]:
        """The tools that the definition may use, with all that it calls."""
        return tuple(Uses(offer.name.text, offer.registered) for offer in self.tools.values())

    def unused(self, wanted_by_model: bool) -> Iterator[Diagnostic]:
        """What a run would need and cannot have yet (decision B3): errors for what a model would be offered."""
        for name in ("mcp_servers", "remote_agents"):
            for alias, _ in self.lists[name].values():
                what = "MCP server" if name == "mcp_servers" else "remote agent"
                message = f"{what} {alias.text!r} cannot be reached: {name} are not supported yet"
                hint = "leave it out to run without"
                found = Diagnostic("policy.not-supported", message, alias.span, hint, "warning")
                yield replace(found, severity="error") if wanted_by_model else found


def _tool(alias: Scalar, entry: Fields) -> Offer:
    name, description = entry.fields.get("name"), entry.fields.get("description")
    return Offer(
        Name(alias.text, alias.span),
        name.text if isinstance(name, Scalar) and name.text else "",
        description.text if isinstance(description, Scalar) else "",
    )
