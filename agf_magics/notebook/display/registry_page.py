"""The registered flows, tools and agents as one page."""

from __future__ import annotations

from ...catalog import Agent, ModelAgent, Registry
from ...flow.flow import outermost
from ...pictures.amounts import counted
from ...pictures.plain import line
from ...pictures.text_tables import list_rows
from ..output.output import Bundle

_COLUMNS = ("name", "arguments", "description", "tools", "answers")
"""The columns of the table of agents."""


def flows(registry: Registry) -> Bundle:
    rows = [
        (
            line(flow.name, 60),
            flow.language,
            f"{len(outermost(flow)):,}",
            line(", ".join(dict.fromkeys(str(ref.path[-1]) for ref in flow.inputs)), 80),
            line(flow.declared.description, 100),
        )
        for flow in registry.flows.values()
    ]
    columns = ("name", "language", "steps", "inputs", "description")
    return list_rows(
        columns,
        rows,
        counted(len(rows), "flow"),
        "no flows are registered: define one with %%pipeline",
    )


def tools(registry: Registry, name: str | None = None) -> Bundle:
    """Tools and agents; ``name``: only the tool and the agent of this name."""
    rows = [
        (
            line(tool.name, 60),
            line(tool.takes, 100),
            line(tool.description, 100),
            tool.where or "",
            line(", ".join(sorted(tool.secret)), 60),
        )
        for tool in registry.tools.values()
        if name in (None, tool.name)
    ]
    agents = [
        _agent(agent, agent is registry.agents.default)
        for agent in registry.agents.values()
        if name in (None, agent.name)
    ]
    columns = ("name", "arguments", "description", "runs", "secret")
    none = "no tools are registered: put @tool above a function"
    tables = (
        [list_rows(columns, rows, counted(len(rows), "tool"), none)] if rows or not agents else []
    )
    return _joined(
        *tables,
        *([list_rows(_COLUMNS, agents, counted(len(agents), "agent"), "")] if agents else []),
    )


def everything(registry: Registry) -> Bundle:
    return _joined(flows(registry), tools(registry))


def _joined(*tables: Bundle) -> Bundle:
    return {
        "text/html": "".join(table["text/html"] for table in tables),
        "text/plain": "\n\n".join(table["text/plain"] for table in tables),
    }


def _agent(agent: Agent | ModelAgent, is_default: bool) -> tuple[str, ...]:
    tools = "all" if agent.tools is None else ", ".join(agent.tools) or "none"
    answers = "if no identity is named" if is_default else "by its name"
    return (
        line(agent.name, 60),
        line(_takes(agent), 100),
        line(agent.description, 100),
        line(tools, 80),
        answers,
    )


def _takes(agent: Agent | ModelAgent) -> str:
    if isinstance(agent, ModelAgent):
        return (
            f"prompt, for {agent.model.name if agent.model is not None else 'the configured model'}"
        )
    return ", ".join(agent.takes.parameters)
