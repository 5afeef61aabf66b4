"""The registered flows, tools and agents as one page."""

from __future__ import annotations

from ..catalog import Agent, ModelAgent, Registry
from ..pictures.listing import flows_html, flows_text, tools_html, tools_text
from ..pictures.plain import counted, line
from ..pictures.values import table_html, table_text
from .output import Bundle

_COLUMNS = ("name", "arguments", "description", "tools", "answers")


def flows(registry: Registry) -> Bundle:
    found = list(registry.flows.values())
    return {"text/html": flows_html(found), "text/plain": flows_text(found)}


def tools(registry: Registry, name: str | None = None) -> Bundle:
    """Tools and agents; ``name``: only the tool and the agent of this name."""
    found = [tool for tool in registry.tools.values() if name in (None, tool.name)]
    default = registry.default_agent
    agents = [agent for agent in registry.agents.values() if name in (None, agent.name)]
    rows = tuple(_agent(agent, agent is default) for agent in agents)
    html, text = [], []
    if found or not rows:
        html, text = [tools_html(found)], [tools_text(found)]
    if rows:
        html.append(table_html(_COLUMNS, rows, counted(len(rows), "agent")))
        text.append("\n".join(table_text(_COLUMNS, rows)))
    return {"text/html": "".join(html), "text/plain": "\n\n".join(text)}


def everything(registry: Registry) -> Bundle:
    above, below = flows(registry), tools(registry)
    return {
        "text/html": above["text/html"] + below["text/html"],
        "text/plain": f"{above['text/plain']}\n\n{below['text/plain']}",
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
        return f"prompt, for {agent.model.name if agent.model is not None else 'the configured model'}"
    return ", ".join(agent.takes.parameters)
