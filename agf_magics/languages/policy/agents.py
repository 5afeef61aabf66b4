"""``output_from``: the agent whose output is the output of the policy.

A string is a strategy if it is the word of one, else an alias; the object form also reaches an
alias that is such a word. Every form is a step that reads the outputs of the agents, so pictures
show it.

Approvals, constraints, governance and memory. No safety field is ignored (AMB-35): one that this
runtime cannot implement refuses the run, with a warning when the definition is made.

The action space: the local agents that a policy runs and the tools that its model may use.

Without an ``action_space`` the registered agents are the local agents, and a document may use no
tool (decisions B1, B1′).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ...flow.session import Offer
from ...flow.step import Caps, Frame, Name, Permit, Ref, Step, Uses
from ...flow.steps import Compute, Computed, Invoke
from ...flow.values import Value, type_name
from ...text.diagnostics import Diagnostic, Diagnostics, Span, suggest
from ...text.nodes import NOTHING, Fields, Node, Scalar
from ..documents import MISSING, descend
from .matchers import Condition, Keys, condition, input_field, warn_of_braces
from .path import PARENT, source_problem
from .values import FIRST, RESULT, value_at

STRATEGIES = ("last", "merge", "first")
"""No alias should have one of these names."""


class Choice(NamedTuple):
    """The value of ``output_from``."""

    kind: str
    """A strategy, or ``agent``, or ``custom_transform``."""
    span: Span
    name: str = ""
    """Of the agent or the transform."""


def read_choice(
    node: Node | None, default: Choice, aliases: Sequence[str], problems: Diagnostics
) -> Choice:
    """Read the ``output_from`` of a policy whose steps have these aliases."""
    choice = _read(node) or default
    if choice.kind == "agent" and choice.name not in aliases:
        hint = suggest(
            choice.name,
            (*dict.fromkeys(aliases), *STRATEGIES),
            "the agents of steps and the strategies",
        )
        problems.error(
            "policy.output-from", f"no step runs the agent {choice.name!r}", choice.span, hint
        )
    return choice


def _read(node: Node | None) -> Choice | None:
    if node is not None and type(node.value) is str:
        return (
            Choice(node.text, node.span)
            if node.text in STRATEGIES
            else Choice("agent", node.span, node.text)
        )
    for word, value in node.fields.items() if isinstance(node, Fields) else ():
        if value.text and word in ("agent", "custom_transform"):
            return Choice(word, value.span, value.text)
        if word == "strategy" and value.text in STRATEGIES:
            return Choice(value.text, value.span)
    return None


def output_step(
    choice: Choice, aliases: Sequence[str], at: Callable[[str], tuple[str, ...]]
) -> Step:
    """The step that makes the output. ``at``: the place of an agent's output in the frame."""
    id, span = "output_from", choice.span
    places = {alias: at(alias) for alias in aliases}

    def read(*paths: tuple[str, ...], of: Callable[[Frame], Value]) -> Computed:
        return Computed(span, of, tuple(Ref(path, span) for path in paths))

    # By alias in the order of the definition (Merge 3), in whatever order the agents ended.
    merged = read(
        *places.values(),
        of=lambda frame: {alias: value_at(frame, path) for alias, path in places.items()},
    )
    if choice.kind == "custom_transform":
        merged.names = ()
        name = Name(choice.name, span)
        return Invoke(
            id=id,
            word=id,
            label=name.text,
            span=span,
            target=RESULT,
            kind="transform",
            name=name,
            args=merged,
        )
    value = merged
    if choice.kind == "first":
        value = read(*places.values(), of=lambda frame: frame[FIRST])
    elif choice.kind != "merge":
        place = at(choice.name if choice.kind == "agent" else aliases[-1])
        value = read(place, of=lambda frame: value_at(frame, place))
    return Compute(
        id=id, word=id, label=choice.name or choice.kind, span=span, target=RESULT, value=value
    )


_LONGEST = 500
"""The most characters of a call's arguments that a question shows."""

_PLACEHOLDER = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_.]*)\s*\}\}", re.ASCII)


def approval(
    node: Node | None, who: str, keys: Keys, problems: Diagnostics
) -> tuple[Permit | None, Condition | None]:
    """The approval that a call of ``who`` needs, and its condition.

    ``true`` and an object without a condition (AGF-D5) always need one; an object with a condition
    if that matches. The condition reads the arguments of a tool, or paths for an agent.
    """
    if node is None or (isinstance(node, Scalar) and node.value is not True):
        return None, None
    fields = node if isinstance(node, Fields) else NOTHING
    found = fields.fields.get("condition")
    when = condition(found, keys, problems) if found is not None else None
    text = fields.text_at("message_template")
    if template := fields.scalar("message_template"):
        warn_of_braces(template, _placeholder, problems, "write {{%s}}", filled=True)

    def ask(frame: Frame, given: Mapping[str, Value], shown: Mapping[str, Value]) -> str | None:
        # An agent's arguments are {"input": …, "alone": …}; the question shows the input.
        sees = shown["input"] if keys == "condition" and "alone" in shown else shown
        if (
            when is not None
            and when.evaluate(frame if keys == "condition" else dict(given)) is None
        ):
            return None
        asked = f"{who} with {_shown(sees)}"
        return f"{_filled(text, frame, sees)} ({asked})" if text else f"may {asked} run?"

    return Permit(ask), when


def _placeholder(path: str) -> str | None:
    return (
        path
        if path.startswith("tool_args.") or (path.startswith("parent.") and input_field(path, None))
        else None
    )


def _filled(template: str, frame: Frame, given: Value) -> str:
    """Replace ``{{tool_args.amount}}``, an argument of the call, and ``{{parent.input.x}}``. The
    person sees other placeholders unchanged."""

    def fill(found: re.Match[str]) -> str:
        names, values = found[1].split("."), {"tool_args": given, **frame}
        value = descend(values, names if names[0] in values else ["tool_args", *names])
        if value is MISSING:
            return found[0]
        return value if isinstance(value, str) else _shown(value)

    return _PLACEHOLDER.sub(fill, template)


def _shown(value: Value) -> str:
    text = json.dumps(
        value, ensure_ascii=False, separators=(",", ":"), default=lambda one: f"<{type_name(one)}>"
    )
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}… ({len(text):,} characters)"


_CAPS = {
    ("budget", "max_token_usage"): "tokens",
    ("budget", "max_duration_seconds"): "seconds",
    ("limits", "max_llm_calls"): "model_calls",
    ("limits", "max_tool_calls"): "tool_calls",
    ("limits", "max_delegation_depth"): "depth",
}


def caps(root: Fields, problems: Diagnostics) -> Caps | None:
    """The limits of a run of the definition. An agent that it calls never gets more, whatever its
    own limits are."""
    constraints = root.inner("constraints")
    loose = constraints.scalar("tighten_only_invariant")
    if loose and loose.value is False:
        message = "tighten_only_invariant: false has no effect"
        problems.warn(
            "policy.only-tightened",
            message,
            loose.span,
            "an agent never gets more than the agent that calls it",
        )
    found = {
        name: int(most)  # 5.0 is a whole number in JSON Schema
        for (group, key), name in _CAPS.items()
        if type(most := constraints.inner(group).value_at(key)) in (int, float)
    }
    return Caps(**found, span=root.keys["constraints"].span) if found else None


def refused(root: Fields, problems: Diagnostics) -> tuple[Diagnostic, ...]:
    """Requirements of the definition that this runtime cannot meet."""
    found: list[Diagnostic] = []
    required = root.inner("memory").scalar("required")
    if required and required.value is True:
        message = "memory is required, but not supported"
        found.append(
            Diagnostic(
                "policy.memory", message, required.span, "required: false runs without memory"
            )
        )
    for policy in root.inner("constraints").entries("governance_policies"):
        ref = policy.scalar("policy_ref")
        if ref is None:
            continue
        if policy.value_at("required") is not False:
            message = (
                f"governance policy {ref.text!r} is required, but governance policies are "
                f"not supported"
            )
            hint = "required: false runs without it"
            found.append(Diagnostic("policy.governance", message, ref.span, hint))
        else:
            message = (
                f"governance policy {ref.text!r} is ignored: governance policies are not supported"
            )
            problems.warn("policy.governance", message, ref.span)
    return tuple(found)


LISTS = ("local_tools", "mcp_servers", "local_agents", "remote_agents")

_NEAR = {
    "local_tools": "{!r} is a tool: only the model of an agf.react calls tools",
    "mcp_servers": "{!r} is an MCP server, not an agent",
    "remote_agents": "{!r} is a remote agent: a policy runs only local agents",
}


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
        self.agents = {
            alias: self._agent(*entry) for alias, entry in self.lists["local_agents"].items()
        }
        self.tools = {alias: _tool(*entry) for alias, entry in self.lists["local_tools"].items()}
        self.permits = {
            alias: permit
            for alias, (_, fields) in self.lists["local_tools"].items()
            if (
                permit := approval(
                    fields.fields.get("approval"), f"tool {alias!r}", "approval", problems
                )[0]
            )
        }

    def _entries(self, space: Fields, name: str) -> Iterator[tuple[str, tuple[Scalar, Fields]]]:
        """The aliases of one list. A duplicate is reported (AGF-S1, AGF-48)."""
        seen: dict[str, Scalar] = {}
        for entry in space.entries(name):
            alias = entry.scalar("alias")
            if alias is None:
                continue
            if alias.text in seen:
                message = f"two {name} have the alias {alias.text!r}"
                first = (("first used here", seen[alias.text].span),)
                hint = "rename one; several aliases may have the same source"
                self.problems.add(
                    Diagnostic("policy.duplicate-alias", message, alias.span, hint, related=first)
                )
                continue
            seen[alias.text] = alias
            yield alias.text, (alias, entry)

    def _agent(self, alias: Scalar, entry: Fields) -> Delegate:
        if alias.text in STRATEGIES:
            message = (
                f"{alias.text!r} is a strategy: output_from: {alias.text} does not select "
                f"this agent"
            )
            self.problems.warn(
                "policy.reserved-alias",
                message,
                alias.span,
                "rename it, or write output_from: {agent: …}",
            )
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
        kind, source = entry.scalar("source_type"), entry.scalar("source")
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
        """The local agent that a step names (AGF-35)."""
        if name.text in self.agents:
            return self.agents[name.text]
        if self.declared:
            near = next(
                (
                    _NEAR[other].format(name.text)
                    for other in _NEAR
                    if name.text in self.lists[other]
                ),
                None,
            )
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
        """Errors for the entries that are not supported yet (decision B3)."""
        for name in ("mcp_servers", "remote_agents"):
            for alias, _ in self.lists[name].values():
                what = "MCP server" if name == "mcp_servers" else "remote agent"
                message = f"{what} {alias.text!r} cannot be reached: {name} are not supported yet"
                hint = "remove it to run without it"
                yield Diagnostic("policy.not-supported", message, alias.span, hint)


def _tool(alias: Scalar, entry: Fields) -> Offer:
    return Offer(Name(alias.text, alias.span), entry.text_at("name"), entry.text_at("description"))
