"""The registered flows, tools and agents as one page."""

from __future__ import annotations

from ..catalog import Agent, ModelAgent, Registry
from ..pictures.listing import list_flows, list_rows, list_tools
from ..pictures.plain import line
from .output import Bundle

_COLUMNS = ("name", "arguments", "description", "tools", "answers")


def flows(registry: Registry) -> Bundle:
    return list_flows(registry.flows.values())


def tools(registry: Registry, name: str | None = None) -> Bundle:
    """Tools and agents; ``name``: only the tool and the agent of this name."""
    found = [tool for tool in registry.tools.values() if name in (None, tool.name)]
    agents = [agent for agent in registry.agents.values() if name in (None, agent.name)]
    tables = [list_tools(found)] if found or not agents else []
    if agents:
        rows = [_agent(agent, agent is registry.default_agent) for agent in agents]
        tables.append(list_rows(_COLUMNS, rows, "agent", ""))
    return _joined(*tables)


def everything(registry: Registry) -> Bundle:
    return _joined(flows(registry), tools(registry))


def _joined(*tables: Bundle) -> Bundle:
    return {
        "text/html": "".join(one["text/html"] for one in tables),
        "text/plain": "\n\n".join(one["text/plain"] for one in tables),
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
