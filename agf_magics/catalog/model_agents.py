"""Agents that are a model: an identity like any other, answered by a session instead of a function."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..flow.patterns import unusable
from ..flow.session import STEPS
from ..flow.values import Value
from ..text.diagnostics import DefinitionError
from .agents import USER
from .callables import Names, checked_name, checked_names
from .models import Model, model_of
from .registry import Registry, into

SETTINGS = ("temperature", "top_p", "top_k", "max_output_tokens", "stop_sequences")


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class ModelAgent:
    """Whom a model speaks for."""

    name: str
    model: Model | None = None
    """None: the one that is configured."""
    instructions: str = ""
    description: str = ""
    tools: tuple[str, ...] | None = None
    """The tools it may use at most; None: every registered one."""
    default: bool = False
    """Whether it answers when no identity is named."""
    gives: Mapping[str, Any] | None = None
    """JSON Schema of its answer where the step that asks has none; None: text."""
    steps: int = STEPS
    settings: Mapping[str, Value] | None = None

    def __repr__(self) -> str:
        return f"<ModelAgent {self.name}: {self.model.name if self.model is not None else 'the configured model'}>"


ANYBODY = ModelAgent(name="model")
"""Who answers where a model is configured and no agent is registered."""


def model_agent(
    name: str,
    *,
    model: Any = None,
    instructions: str = "",
    tools: Names | None = None,
    default: bool = False,
    description: str = "",
    gives: Mapping[str, Any] | None = None,
    max_steps: int = STEPS,
    registry: Registry | None = None,
    **settings: Value,
) -> ModelAgent:
    """Register an agent that a language model answers for, and return it.

        agf.model_agent("reviewer", model="openai:gpt-4o", instructions="Be strict.", tools=["fetch"])

    Parameters:

    - ``name``: the name of the agent. Required.
    - ``model``: the name of a model, or a model object of pydantic-ai. Default None: the configured model.
    - ``instructions``: the system prompt. Default: empty.
    - ``tools``: the names of the tools that the agent may use and that the model is offered. Default None: all
      registered tools.
    - ``default``: whether the agent answers steps that name no identity. Default False.
    - ``description``: one line for pictures and lists. Default: the first line of the instructions.
    - ``gives``: the JSON Schema of the answer if the step has none. Raises DefinitionError ``schema.pattern`` for a
      pattern that RE2 does not support. Default None: text.
    - ``max_steps``: the largest number of requests per session, at least 1. Default 10.
    - ``registry``: the `Registry` to register in. Default None: the registry of this process.
    - ``settings``: keyword arguments ``temperature`` (0 to 2), ``top_p`` (0 to 1), ``top_k`` (a number of tokens),
      ``max_output_tokens`` and ``stop_sequences``. Default: those of the model.
    """
    _checked(name, instructions, max_steps, settings)
    made = ModelAgent(
        name=name,
        model=None if model is None else model_of(model),
        instructions=instructions,
        description=description or next(iter(instructions.strip().splitlines()), ""),
        tools=None if tools is None else checked_names(tools, "tools"),
        default=bool(default),
        gives=gives,
        steps=max_steps,
        settings=settings or None,
    )
    if refused := unusable(gives, f"model_agent {name!r}"):
        raise DefinitionError(*refused)
    into(registry).agents.add(made)
    return made


def _checked(name: object, instructions: object, max_steps: object, settings: Mapping[str, Value]) -> None:
    checked_name(name, "model_agent", "name")
    if name == USER:
        raise ValueError(f"{USER!r} is the person in the notebook, who may use every tool: take another name")
    if unknown := next((key for key in settings if key not in SETTINGS), None):
        raise TypeError(f"model_agent takes no {unknown!r}; settings are {', '.join(SETTINGS)}")
    if type(max_steps) is not int or max_steps < 1:
        raise ValueError(f"max_steps is a whole number, 1 or more, not {max_steps!r}")
    if not isinstance(instructions, str):
        raise TypeError(f"instructions are a text, not {instructions!r}")
