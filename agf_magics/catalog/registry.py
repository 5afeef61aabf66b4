"""What this kernel offers: tools, agents, flows, schemas, each on a shelf of its own (decision A2: one namespace each).

A shelf is a dict that is changed in place by single operations and read by snapshots: both are one step for other
threads, so a cell may register while a run or a listing reads, and nothing is lost or torn.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, ValuesView
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ..text.diagnostics import Diagnostic, suggest
from ..text.source import Span
from .contexts import Context
from .models import model_of

if TYPE_CHECKING:
    from ..flow.schemas import Schema
    from ..flow.steps import Flow
    from .agents import Agent
    from .model_agents import ModelAgent
    from .models import Model
    from .policies import Policy
    from .tools import Tool
    from .transforms import Transform


class Named(Protocol):
    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Named)


class Shelf(Mapping[str, T]):
    """Things of one kind by name; iterated in the order of their names."""

    def __init__(self, word: str, how: str) -> None:
        """``word``: what one of them is called; ``how``: a hint for who finds none at all."""
        self._word = word
        self._how = how
        self._held: dict[str, T] = {}

    def add(self, thing: T) -> None:
        """Register it; what had its name before is replaced."""
        self._held[thing.name] = thing

    def remove(self, name: str) -> None:
        """Forget it; nothing happens where there is none."""
        self._held.pop(name, None)

    def __getitem__(self, name: str) -> T:
        return self._held[name]

    def __contains__(self, name: object) -> bool:
        return name in self._held

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(list(self._held)))  # noqa: C414 - the list is the snapshot

    def __len__(self) -> int:
        return len(self._held)

    def items(self) -> ItemsView[str, T]:
        """A snapshot, as is `values`."""
        return dict(sorted(list(self._held.items()), key=lambda pair: pair[0])).items()  # noqa: C414

    def values(self) -> ValuesView[T]:
        return dict(self.items()).values()

    def missing(self, name: str, span: Span | None, code: str) -> Diagnostic:
        """What to say when ``name`` is not here."""
        hint = suggest(name, self, f"{self._word}s") if len(self) else f"there is no {self._word} yet: {self._how}"
        return Diagnostic(code, f"no {self._word} {name!r}", span, hint)

    def __repr__(self) -> str:
        return f"<{self._word}s: {', '.join(self) or 'none'}>"


class Agents(Shelf["Agent | ModelAgent"]):
    """Who answers when no identity is named is `default`."""

    def __init__(self) -> None:
        super().__init__("agent", "@agent on a function registers one")
        self._chosen: str | None = None

    def add(self, thing: Agent | ModelAgent) -> None:
        super().add(thing)
        if thing.default:
            self._chosen = thing.name

    @property
    def default(self) -> Agent | ModelAgent | None:
        """The agent last registered with ``default=True``; where none says so, the one that was registered first."""
        chosen = self._held.get(self._chosen) if self._chosen is not None else None
        if chosen is not None and chosen.default:
            return chosen
        return next(iter(list(self._held.values())), None)


class Policies(Shelf["Policy"]):
    """Vendor policies by id."""

    def missing(self, name: str, span: Span | None, code: str) -> Diagnostic:
        """The error that names the policy this kernel does not have (AGF-57)."""
        hint = suggest(name, self, "registered policies") or f"there is none yet: {self._how}"
        return Diagnostic(code, f"execution policy {name!r} is not registered", span, hint)


class Definitions(Shelf[T]):
    """What cells and files define."""

    def __init__(self, word: str, how: str) -> None:
        super().__init__(word, how)
        self._origins: dict[str, str | None] = {}

    def define(self, thing: T, origin: str | None) -> str | None:
        """Register it, and give the note to show when another origin (a cell's id, a file) or another language had
        defined that name; defining it again from where it came is silent."""
        name = thing.name
        before, origin_before = self._held.get(name), self._origins.get(name)
        self.add(thing)
        self._origins[name] = origin
        if before is None:
            return None
        language, other = getattr(thing, "language", None), getattr(before, "language", None)
        if language != other:
            return f"{self._word} {name!r} replaces the {other} of that name"
        if origin != origin_before:
            return f"{self._word} {name!r} was defined by another cell or file; this definition replaces it"
        return None

    def remove(self, name: str) -> None:
        super().remove(name)
        self._origins.pop(name, None)


class Contexts(Shelf[Context]):
    """By name; one that is asked for is there."""

    def __init__(self) -> None:
        super().__init__("context", "a plan that runs has one")

    def named(self, name: str) -> Context:
        return self._held.setdefault(name, Context(name))

    def renew(self, name: str, log: Any = None) -> Context:
        """A new one in the place of what had its name; the old log stays whole for who has it."""
        before = self._held.get(name)
        if before is not None and before.holder:
            before.hold("")  # which says that it is in use
        new = self._held[name] = Context(name, log)
        return new


class Registry:
    """The tools, agents, flows, schemas, transforms, policies and contexts that a flow can name."""

    def __init__(self) -> None:
        self.tools: Shelf[Tool] = Shelf("tool", "@tool on a function registers one")
        self.agents = Agents()
        self.flows: Definitions[Flow] = Definitions("flow", "a cell that defines one registers it")
        self.schemas: Definitions[Schema] = Definitions("schema", "a schema: document registers one")
        self.transforms: Shelf[Transform] = Shelf("transform", "@transform on a function registers one")
        self.policies: Shelf[Policy] = Policies("policy", "@policy on a function registers one")
        self.contexts = Contexts()
        self.configured: Callable[[], tuple[Any, str]] = lambda: ("", "")
        """The model, and the server's address, that the settings say; the process's registry asks them."""
        self._chosen: tuple[Any, str] | None = None

    @property
    def default_agent(self) -> Agent | ModelAgent | None:
        """The agent that answers an agent step without an identity."""
        return self.agents.default

    def choose(self, model: Any = None, base_url: str = "") -> None:
        """Use one model wherever a definition names a model (decision B2), and for agent steps that no agent answers.

        Parameters:

        - ``model``: a name such as ``"openai:gpt-4o"``, or a model object of pydantic-ai. Default None: the model of
          the settings.
        - ``base_url``: the address of a server that uses the OpenAI protocol. Default: empty, the provider's own
          address.
        """
        if model is not None:
            model_of(model)  # a TypeError for what is none
        self._chosen = None if model is None and not base_url else (model or "", base_url)

    @property
    def model(self) -> Model | None:
        """The model that is used wherever a definition names one; None: the named model is used."""
        model, base_url = self._chosen or self.configured()
        return model_of(model, base_url or "") if model else None

    def with_tools(self, tools: Iterable[Tool]) -> Registry:
        """Return a copy with more tools; everything else is shared.

        ``tools``: the tools to add. Required.
        """
        found = copy.copy(self)
        found.tools = Shelf("tool", "@tool on a function registers one")
        for tool in (*self.tools.values(), *tools):
            found.tools.add(tool)
        return found

    def named(self, name: str) -> Model:
        """Return the model that a definition names.

        ``name``: the name of the model. Required.
        """
        return model_of(name, (self._chosen or self.configured())[1] or "")

    def __repr__(self) -> str:
        return f"Registry({self.tools!r}, {self.agents!r}, {self.flows!r}, {self.schemas!r})"


_DEFAULT = Registry()


def default() -> Registry:
    """The one registry of this kernel: what decorators register in unless they are given another."""
    return _DEFAULT


def into(registry: Registry | None) -> Registry:
    """Where a decorator registers."""
    return _DEFAULT if registry is None else registry
