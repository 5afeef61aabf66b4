"""Reads the action space: the local agents that a policy runs, and the tools that its model may
use.

Without an ``action_space`` the registered agents are the local agents, and a document may use no
tool (decision B1).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ...flow.protocols import Name
from ...flow.sessions.session import Offer
from ...flow.step_options import EVERY_TOOL, Permit, ServerUse, Uses
from ...text.diagnostics import Diagnostic, Diagnostics
from ...text.suggestions import suggest
from ...text.yaml.nodes import NOTHING, Fields, Items, Scalar
from .approval import approval
from .output_from import STRATEGIES
from .path import PARENT, source_problem

LISTS = ("local_tools", "mcp_servers", "local_agents", "remote_agents")
"""The lists of an action space; the entries of each have an ``alias``."""

_NEAR = {
    "local_tools": "{!r} is a tool: only the model of an agf.react calls tools",
    "mcp_servers": "{!r} is an MCP server, not an agent",
    "remote_agents": "{!r} is a remote agent: a policy runs only local agents",
}
"""The hints for an alias that is no local agent, by the list that has it."""


class Delegate(NamedTuple):
    """A local agent."""

    alias: Name
    file: Name | None = None
    """The file that defines it, if nothing is registered under its alias."""
    permit: Permit | None = None


class ActionSpace:
    """The agents and tools that a definition may use."""

    def __init__(self, root: Fields, problems: Diagnostics) -> None:
        space = root.inner("action_space")
        self.problems = problems
        self.declared = space is not NOTHING
        """Whether the definition has an action space."""
        self.lists: Mapping[str, dict[str, tuple[Scalar, Fields]]] = {
            name: dict(self._entries(space, name)) for name in LISTS
        }
        """The entries of each list by alias: the alias in the text, and the entry."""
        self.agents = {
            alias: self._agent(*entry) for alias, entry in self.lists["local_agents"].items()
        }
        self.tools = {alias: _tool(*entry) for alias, entry in self.lists["local_tools"].items()}
        self.servers = tuple(
            ServerUse(Name(alias.text, alias.span), entry.text_at("server_ref"))
            for alias, entry in self.lists["mcp_servers"].values()
        )
        self.permits: dict[str, Permit] = {}
        """The approvals of tools, by the alias of the tool."""
        for name, (_, entry) in self.lists["local_tools"].items():
            approval_node = entry.fields.get("approval")
            permit, _ = approval(approval_node, f"tool {name!r}", "approval", problems)
            if permit is not None:
                self.permits[name] = permit
        for alias, entry in self.lists["mcp_servers"].values():
            self._server(alias, entry)

    def _server(self, alias: Scalar, entry: Fields) -> None:
        """Add all tools of an MCP server, or the allowed ones, as ``ALIAS__TOOL``. The approval of
        a tool takes precedence over that of its server."""
        ref = entry.text_at("server_ref") or alias.text
        allowed = entry.fields.get("allowed_tools")
        items = allowed.items if isinstance(allowed, Items) else (NOTHING,)
        for item in items:
            name = item.scalar("name") if isinstance(item, Fields) else item
            tool = name.text if isinstance(name, Scalar) else EVERY_TOOL
            span = name.span if isinstance(name, Scalar) else alias.span
            offered = f"{alias.text}__{tool}"
            self.tools[offered] = Offer(Name(offered, span), f"{ref}__{tool}")
            own_approval = item.fields.get("approval") if isinstance(item, Fields) else None
            approval_node = (
                own_approval if own_approval is not None else entry.fields.get("approval")
            )
            permit, _ = approval(approval_node, f"tool {offered!r}", "approval", self.problems)
            if permit is not None:
                self.permits[offered] = permit

    def _entries(self, space: Fields, name: str) -> Iterator[tuple[str, tuple[Scalar, Fields]]]:
        """The aliases of one list. A duplicate is reported (AGF-S1, AGF-48)."""
        first_uses: dict[str, Scalar] = {}
        for entry in space.entries(name):
            alias = entry.scalar("alias")
            if alias is None:
                continue
            if alias.text in first_uses:
                message = f"two {name} have the alias {alias.text!r}"
                first = (("first used here", first_uses[alias.text].span),)
                hint = "rename one; several aliases may have the same source"
                self.problems.add(
                    Diagnostic("policy.duplicate-alias", message, alias.span, hint, related=first)
                )
                continue
            first_uses[alias.text] = alias
            yield alias.text, (alias, entry)

    def _agent(self, alias: Scalar, entry: Fields) -> Delegate:
        """The local agent of an entry."""
        if alias.text in STRATEGIES:
            message = (
                f"{alias.text!r} is a strategy: output_from: {alias.text} does not select "
                f"this agent"
            )
            hint = "rename it, or write output_from: {agent: …}"
            self.problems.warn("policy.reserved-alias", message, alias.span, hint)
        elif alias.text == PARENT:
            message = "'parent' is the enclosing agent: no path can read this agent"
            self.problems.warn("policy.reserved-alias", message, alias.span, "rename it")
        permit, when = approval(
            entry.fields.get("approval"), f"agent {alias.text!r}", "condition", self.problems
        )
        for path in when.paths if when else ():
            if problem := source_problem(path, self.lists["local_agents"], ()):
                self.problems.add(problem)
        return Delegate(Name(alias.text, alias.span), self._file(alias, entry), permit)

    def _file(self, alias: Scalar, entry: Fields) -> Name | None:
        """The file that an entry names; None: the entry means a registered agent."""
        kind = entry.scalar("source_type")
        source = entry.scalar("source")
        word = kind.text if kind else "file"
        if word == "file" and source:
            return Name(source.text, source.span)
        if word != "kernel" and kind:
            message = f"cannot load an agent from a source of type {word!r}"
            hint = (
                suggest(word, ("file", "kernel"))
                or f"register an agent {alias.text!r}, or let source name a file"
            )
            self.problems.warn("policy.source-type", message, kind.span, hint)
        return None

    def find(self, name: Scalar) -> Delegate:
        """The local agent that a step names (AGF-35). One that the action space lacks is reported,
        and has neither a file nor a permit."""
        if name.text in self.agents:
            return self.agents[name.text]
        if self.declared:
            near_words = (words for other, words in _NEAR.items() if name.text in self.lists[other])
            near = next((words.format(name.text) for words in near_words), None)
            if near is None and not self.agents:
                near = (
                    f"declare it: action_space: {{local_agents: [{{alias: {name.text}, source: "
                    f"{name.text}, source_type: kernel}}]}}, or source: FILE without source_type"
                )
            hint = near or suggest(name.text, self.agents, "local agents")
            self.problems.error(
                "policy.unknown-alias", f"there is no local agent {name.text!r}", name.span, hint
            )
        return Delegate(Name(name.text, name.span))

    def uses(self) -> tuple[Uses, ...]:
        """The tools that the definition and everything that it calls may use."""
        return tuple(
            Uses(offer.name.text, offer.registered, alias in self.permits)
            for alias, offer in self.tools.items()
        )

    def unreachable(self) -> Iterator[Diagnostic]:
        """Errors for the remote agents, which are not supported yet (decision B3)."""
        for alias, _ in self.lists["remote_agents"].values():
            message = (
                f"remote agent {alias.text!r} cannot be reached: remote_agents are not supported "
                f"yet"
            )
            hint = "remove it to run without it"
            yield Diagnostic("policy.not-supported", message, alias.span, hint)


def _tool(alias: Scalar, entry: Fields) -> Offer:
    return Offer(Name(alias.text, alias.span), entry.text_at("name"), entry.text_at("description"))
