"""`Registry`, the tools, agents, flows and other things that flows can name (decision A2)."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any

from ..flow.flow import Flow
from ..schemas.schema import Schema
from ..text.diagnostics import Diagnostic
from ..text.names import same_name
from ..text.source import Span
from ..text.suggestions import suggest
from .agents import Agent
from .contexts import Context
from .model_agents import ModelAgent
from .models.model import Model, model_of
from .policies import Policy
from .shelf import Definitions, Functions, Shelf
from .tools.tool import Tool
from .transforms import Transform


class Agents(Functions[Agent | ModelAgent]):
    """Agents by name. `default` answers steps that name no identity."""

    def __init__(self) -> None:
        super().__init__("agent", "write @agent above its def")
        self._chosen = ""
        """The key of the last agent that was added with ``default=True``; empty: none was. An agent
        that has replaced it under this name may be no default."""

    def add(self, thing: Agent | ModelAgent) -> None:
        if thing.default:
            self._chosen = same_name(thing.name)
        super().add(thing)

    @property
    def default(self) -> Agent | ModelAgent | None:
        """The last agent registered with ``default=True``, or else the first registered agent."""
        self._renew(list(self._things))
        chosen = self._things.get(self._chosen)
        if chosen is not None and chosen.default:
            return chosen
        return next(iter(list(self._things.values())), None)


class Policies(Shelf[Policy]):
    """Vendor policies by id."""

    def missing(self, name: str, span: Span | None, code: str) -> Diagnostic:
        """The error that names the missing policy (AGF-57)."""
        hint = suggest(name, self, "registered policies") or f"no policy is registered: {self._how}"
        return Diagnostic(code, f"execution policy {name!r} is not registered", span, hint)


class Contexts(Shelf[Context]):
    """Contexts by name. A missing context is created."""

    def __init__(self) -> None:
        super().__init__("context", "run a plan")

    def named(self, name: str) -> Context:
        return self._things.setdefault(same_name(name), Context(name))

    def renew(self, name: str, log: Any = None) -> Context:
        """Replace a context by a new one; the old log is not changed."""
        before = self._things.get(same_name(name))
        if before is not None and before.holder:
            before.hold("")  # raises if a run uses it
        new = self._things[same_name(name)] = Context(name, log)
        return new


class Registry:
    """The tools, agents, flows, schemas, transforms, policies and contexts that a flow can name."""

    def __init__(self) -> None:
        self.tools: Shelf[Tool] = Functions("tool", "write @tool above its def")
        self.agents = Agents()
        self.flows: Definitions[Flow] = Definitions("flow", "define one in a cell")
        self.schemas: Definitions[Schema] = Definitions("schema", "write a schema: document")
        self.transforms: Shelf[Transform] = Shelf("transform", "write @transform above its def")
        self.policies: Shelf[Policy] = Policies("policy", "write @policy(…) above its def")
        self.contexts = Contexts()
        self.configured: Callable[[], tuple[Any, str]] = lambda: ("", "")
        """Returns the model and the server's address from the settings, for the registry of the
        process."""
        self._chosen: tuple[Any, str] | None = None
        """The model and the server's address that `choose` has set; None: the settings decide."""

    def choose(self, model: Any = None, base_url: str = "") -> None:
        """Use one model wherever a definition names a model (decision B2), and for agent steps that
        no agent answers.

        Parameters:

        - ``model``: a name such as ``"openai:gpt-4o"``, or a model object of pydantic-ai. Default
          None: the model of the settings.
        - ``base_url``: the address of a server that uses the OpenAI protocol. Default: empty, the
          provider's own address.
        """
        if model is not None:
            model_of(model)  # raises TypeError
        self._chosen = None if model is None and not base_url else (model or "", base_url)

    @property
    def has_chosen(self) -> bool:
        """Whether `choose` names a model, which wins over the settings."""
        return self._chosen is not None

    @property
    def model(self) -> Model | None:
        """The model that is used wherever a definition names one; None: the named model is used."""
        model, base_url = self._chosen or self.configured()
        return model_of(model, base_url or "") if model else None

    @property
    def version(self) -> tuple[object, ...]:
        """A value that changes when anything that a flow can name changes; a chosen model does not
        count."""
        return (
            self.tools.version,
            self.agents.version,
            self.flows.version,
            self.schemas.version,
            self.transforms.version,
            self.policies.version,
        )

    @property
    def offered(self) -> dict[str, Tool]:
        """The tools that a model may use if no list names them: those that the user registered."""
        return {name: tool for name, tool in self.tools.items() if not tool.listed_only}

    def copy(self) -> Registry:
        """Return a registry with the same things, for a test that replaces some of them: what is
        registered there is not here. Its contexts of plans, which runs change, begin empty."""
        other = self.without("contexts")
        for name, shelf in vars(self).items():
            if isinstance(shelf, Shelf) and shelf is not self.contexts:
                setattr(other, name, shelf.copy())
        return other

    def with_tools(self, tools: Iterable[Tool]) -> Registry:
        """Return a copy with more tools; everything else is shared.

        ``tools``: the tools to add. Required.
        """
        more = self.without("tools")
        for tool in (*self.tools.values(), *tools):
            more.tools.add(tool)
        return more

    def without(self, *shelves: str) -> Registry:
        """Return a copy with nothing on these shelves; everything else is shared.

        ``shelves``: the names of the shelves, such as ``"tools"``. Required.
        """
        other = copy.copy(self)
        empty = Registry()
        for shelf in shelves:
            setattr(other, shelf, getattr(empty, shelf))
        return other

    def named(self, name: str) -> Model:
        """Return the model that a definition names.

        ``name``: the name of the model. Required.
        """
        return model_of(name, (self._chosen or self.configured())[1] or "")

    def __repr__(self) -> str:
        return f"Registry({self.tools!r}, {self.agents!r}, {self.flows!r}, {self.schemas!r})"


_DEFAULT = Registry()


def default(registry: Registry | None = None) -> Registry:
    """``registry``, or the registry of this kernel if it is None. Raises TypeError for another
    object, whose attributes would fail somewhere inside."""
    if not isinstance(registry, Registry | None):
        raise TypeError(f"registry takes an agf.Registry, not {type(registry).__name__}")
    return _DEFAULT if registry is None else registry
