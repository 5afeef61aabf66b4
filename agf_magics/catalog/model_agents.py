"""`ModelAgent`, an agent that is a session with a model instead of a function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..flow.sessions.session import STEPS
from ..schemas.patterns import unusable
from ..text.diagnostics import DefinitionError
from ..text.suggestions import suggest
from ..values.value import Value
from .agents import USER
from .models.model import Model
from .tools.callables import check_name

SETTINGS = ("temperature", "top_p", "top_k", "max_output_tokens", "stop_sequences")
"""The settings of a model that a definition of an agent may have."""


@dataclass(frozen=True, slots=True, eq=False, repr=False, kw_only=True)
class ModelAgent:
    """An agent whose answers come from a model."""

    name: str
    model: Model | None = None
    """The model; None: the configured one."""
    instructions: str = ""
    description: str = ""
    tools: tuple[str, ...] | None = None
    """The tools that the agent may use; None: all registered tools."""
    default: bool = False
    """Whether the agent answers steps that name no identity."""
    gives: Mapping[str, Any] | None = None
    """The JSON Schema of the answer if the step has none; None: the answer is text."""
    steps: int = STEPS
    """The largest number of requests of a session."""
    settings: Mapping[str, Value] = field(default_factory=dict)
    read_answer: Callable[[Value], Value] | None = None
    """Converts an answer to its value, or raises StepError with the reason to ask again. None:
    ``gives`` decides."""

    def __post_init__(self) -> None:
        """Raise TypeError or ValueError for a wrong field, DefinitionError for a pattern in
        ``gives``."""
        check_name(self.name, "model_agent", "name")
        if self.name == USER:
            raise ValueError(
                f"{USER!r} is the person in the notebook, who may use all tools: choose another "
                f"name"
            )
        if unknown := [key for key in self.settings if key not in SETTINGS]:
            hint = suggest(unknown[0], SETTINGS, "settings")
            raise TypeError(f"model_agent has no parameter {unknown[0]!r}: {hint}")
        if type(self.steps) is not int or self.steps < 1:
            raise ValueError(f"max_steps must be a whole number, 1 or more, got {self.steps!r}")
        if not isinstance(self.instructions, str):
            raise TypeError(f"instructions must be text, got {self.instructions!r}")
        if refused := unusable(self.gives, f"model_agent {self.name!r}"):
            raise DefinitionError(*refused)

    def __repr__(self) -> str:
        return (
            f"<ModelAgent {self.name}: "
            f"{self.model.name if self.model is not None else 'the configured model'}>"
        )


ANYBODY = ModelAgent(name="model")
"""The agent that answers if a model is configured and no agent is registered."""
