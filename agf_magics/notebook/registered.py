"""What is registered, as one page: flows, tools, agents."""

from __future__ import annotations

from ..catalog import Agent, ModelAgent, Registry
from ..pictures.listing import flows_html, flows_text, tools_html, tools_text
from ..pictures.plain import counted, line
from ..pictures.values import table_html, table_text
from .output import Bundle

AGENT_COLUMNS = ("name", "arguments", "description", "tools", "answers")


def flows(registry: Registry) -> Bundle:
    found = list(registry.flows.values())
    return {"text/html": flows_html(found), "text/plain": flows_text(found)}


def tools(registry: Registry) -> Bundle:
    """Tools, and agents where there are any."""
    found = list(registry.tools.values())
    html, text = tools_html(found), tools_text(found)
    default = registry.default_agent
    rows = tuple(_agent(agent, agent is default) for agent in registry.agents.values())
    if rows:
        html += table_html(AGENT_COLUMNS, rows, counted(len(rows), "agent"))
        text = "\n".join([text, "", *table_text(AGENT_COLUMNS, rows)])
    return {"text/html": html, "text/plain": text}


def everything(registry: Registry) -> Bundle:
    above, below = flows(registry), tools(registry)
    return {
        "text/html": above["text/html"] + below["text/html"],
        "text/plain": f"{above['text/plain']}\n\n{below['text/plain']}",
    }


def _agent(agent: Agent | ModelAgent, is_default: bool) -> tuple[str, ...]:
    may = "all" if agent.tools is None else ", ".join(agent.tools) or "none"
    answers = "whenever no identity is named" if is_default else "by its name"
    return (
        line(agent.name, 60),
        line(_takes(agent), 100),
        line(agent.description, 100),
        line(may, 80),
        answers,
    )


def _takes(agent: Agent | ModelAgent) -> str:
    if isinstance(agent, ModelAgent):
        return f"prompt, for {agent.model.name if agent.model is not None else 'the configured model'}"
    return ", ".join(agent.takes.parameters)
