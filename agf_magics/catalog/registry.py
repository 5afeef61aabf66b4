"""The registry: the tools, agents, flows and so on of this kernel, each kind on a shelf of its own
(decision A2).

A shelf is a dict that is changed by single operations and read as a snapshot. Both are atomic for
other threads, so a cell may register while a run or a listing reads.

Three kinds of things are defined here, because nothing else needs a module for them:

- Named contexts: the messages of plans, which last across cells. The plan language defines the log.
- Transforms: Python functions that make one value of the outputs of a policy's agents (AGF's
  ``custom_transform``). A transform takes one value, whatever its parameter is called: a mapping of
  aliases to outputs, in the order of the definition.
- Vendor policies: your own execution policies, with an id ``x-<vendor>.<name>`` (AGF-75, decision
  B4). A policy is a function that returns the output, or a builder: a function that returns the
  `Step` to run. A builder is called when a definition is linked, so that its steps are drawn and
  journaled like all others.
"""

from __future__ import annotations

import copy
import inspect
import re
from collections.abc import Callable, ItemsView, Iterable, Iterator, Mapping, ValuesView
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from ..flow.schemas import Schema
from ..flow.steps import Flow
from ..text.diagnostics import DefinitionError, Diagnostic, Span, suggest
from .agents import Agent, ModelAgent
from .models import Model, model_of
from .tools import Tool, Where, checked_limits, description_of, is_async, name_of, signature_of


class Named(Protocol):
    @property
    def name(self) -> str: ...


T = TypeVar("T", bound=Named)


class Shelf(Mapping[str, T]):
    """Things of one kind by name, iterated in the order of names."""

    def __init__(self, word: str, how: str) -> None:
        """``word``: the word for one thing; ``how``: the hint for an empty shelf."""
        self._word = word
        self._how = how
        self._held: dict[str, T] = {}
        self.version = object()
        """Another object after each change."""

    def add(self, thing: T) -> None:
        """Register a thing, in place of the one that has its name."""
        self._held[thing.name] = thing
        self.version = object()

    def remove(self, name: str) -> None:
        """Remove a thing, if it is here."""
        self._held.pop(name, None)
        self.version = object()

    def __getitem__(self, name: str) -> T:
        return self._held[name]

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(list(self._held)))  # noqa: C414 - the list is the snapshot

    def __len__(self) -> int:
        return len(self._held)

    def items(self) -> ItemsView[str, T]:
        """A snapshot, like `values`."""
        return dict(sorted(self._held.copy().items(), key=lambda pair: pair[0])).items()

    def values(self) -> ValuesView[T]:
        return dict(self.items()).values()

    def missing(self, name: str, span: Span | None, code: str) -> Diagnostic:
        """The error for a ``name`` that is not here."""
        hint = (
            suggest(name, self, f"{self._word}s")
            if len(self)
            else f"no {self._word} is registered: {self._how}"
        )
        return Diagnostic(code, f"no {self._word} {name!r}", span, hint)

    def __repr__(self) -> str:
        return f"<{self._word}s: {', '.join(self) or 'none'}>"


class Definitions(Shelf[T]):
    """Things that cells and files define."""

    def __init__(self, word: str, how: str) -> None:
        super().__init__(word, how)
        self._origins: dict[str, str | None] = {}

    def define(self, thing: T, origin: str | None) -> str | None:
        """Register a thing. Return a note if another origin (a cell's id, a file) or another
        language has defined that name."""
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
            return (
                f"{self._word} {name!r} was defined by another cell or file; this definition "
                f"replaces it"
            )
        return None

    def remove(self, name: str) -> None:
        super().remove(name)
        self._origins.pop(name, None)


class Context:
    """A log with a name. One run at a time writes to it."""

    __slots__ = ("_free", "holder", "last", "log", "name")

    def __init__(self, name: str, log: Any = None) -> None:
        self.name = name
        self.log = log
        """None: no run has used it."""
        self.holder = ""
        """The run that uses it now; empty: none."""
        self.last = ""
        """The last run that used it."""
        self._free = [None]  # an atomic lock: `pop` succeeds for one thread

    def hold(self, run_id: str) -> None:
        """Lock it for a run. Raises DefinitionError if another run has it."""
        try:
            self._free.pop()
        except IndexError:
            message = f"another run uses the context {self.name!r}"
            hint = "%runs lists it: wait for it, cancel it, or give this plan its own context"
            raise DefinitionError(Diagnostic("run.context-busy", message, hint=hint)) from None
        self.holder = self.last = run_id

    def release(self, run_id: str) -> None:
        if self.holder == run_id:
            self.holder = ""
            self._free.append(None)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Transform:
    """A transform and its options. Called as ``function(value)``."""

    name: str
    function: Callable[[Any], Any]
    description: str = ""
    where: Where | None = None
    """None: decided from the flow."""
    timeout: float | None = None
    """Seconds."""
    is_async: bool = False


def make_transform(
    function: Callable[..., Any], name: str, where: Where | None, timeout: float | None
) -> Transform:
    checked_limits(where, timeout)
    signature = signature_of(function)
    try:
        if signature is not None:
            signature.bind(None)
    except TypeError:
        raise ValueError(
            f"transform {name!r} must take one value, the outputs by alias: def {name}(outputs), "
            f"not {signature}"
        ) from None
    return Transform(
        name=name,
        function=function,
        description=description_of(function),
        where=where,
        timeout=timeout,
        is_async=is_async(function),
    )


ID = re.compile(r"x-[A-Za-z0-9_-]+\.[A-Za-z0-9_.-]+", re.ASCII)

TAKES = {False: ("config", "input", "agents"), True: ("config",)}
"""The parameters that a policy, and a builder (True), may have; they are filled by name."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Policy:
    """A vendor policy and its options. Called with the keyword arguments in `takes`."""

    name: str
    """Its id."""
    function: Callable[..., Any]
    takes: tuple[str, ...]
    """Its parameters, of ``config``, ``input`` and ``agents``."""
    builder: bool = False
    """Whether it returns the Step to run."""
    description: str = ""
    where: Where | None = None
    """None: decided from the flow."""
    timeout: float | None = None
    """Seconds."""
    is_async: bool = False


def check_policy(name: object, builder: object) -> None:
    """Raise ValueError for an id that is not a vendor's, TypeError for a wrong ``builder``."""
    if not isinstance(name, str) or not ID.fullmatch(name):
        raise ValueError(
            f"the id of a policy must be x-<vendor>.<name>, such as 'x-acme.vote', not {name!r}"
        )
    if not isinstance(builder, bool):
        raise TypeError(f"builder must be True or False, got {builder!r}")


def make_policy(
    function: Callable[..., Any],
    name: str,
    builder: bool,
    where: Where | None,
    timeout: float | None,
) -> Policy:
    checked_limits(where, timeout)
    if builder and is_async(function):
        raise ValueError(
            f"policy {name!r} is a builder, which returns a Step: it cannot be an async function"
        )
    return Policy(
        name=name_of(function, "policy", name),
        function=function,
        takes=_asked(function, name, TAKES[builder]),
        builder=builder,
        description=description_of(function),
        where=where,
        timeout=timeout,
        is_async=is_async(function),
    )


def _asked(function: Callable[..., Any], name: str, offered: tuple[str, ...]) -> tuple[str, ...]:
    signature = signature_of(function)
    if signature is None:
        raise ValueError(
            f"policy {name!r}: the parameters of this function are unknown; wrap it in a function "
            f"with parameters"
        )
    parameters = signature.parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return offered
    empty = inspect.Parameter.empty
    required = [p for p in parameters if p.default is empty and p.kind is not p.VAR_POSITIONAL]
    misplaced = [p.name for p in required if p.name not in offered]
    misplaced = misplaced or [p.name for p in parameters if p.kind is p.POSITIONAL_ONLY]
    if misplaced:
        raise ValueError(
            f"policy {name!r} takes {', '.join(offered)} by name, not {', '.join(misplaced)}"
        )
    return tuple(p.name for p in parameters if p.name in offered)


class Agents(Shelf[Agent | ModelAgent]):
    """Agents by name. `default` answers steps that name no identity."""

    def __init__(self) -> None:
        super().__init__("agent", "write @agent above its def")
        self._chosen = ""

    def add(self, thing: Agent | ModelAgent) -> None:
        if thing.default:
            self._chosen = thing.name
        super().add(thing)

    @property
    def default(self) -> Agent | ModelAgent | None:
        """The last one registered with ``default=True``, else the first one registered."""
        chosen = self._held.get(self._chosen)
        if chosen is not None and chosen.default:
            return chosen
        return next(iter(list(self._held.values())), None)


class Policies(Shelf[Policy]):
    """Vendor policies by id."""

    def missing(self, name: str, span: Span | None, code: str) -> Diagnostic:
        """The error that names the missing policy (AGF-57)."""
        hint = suggest(name, self, "registered policies") or f"no policy is registered: {self._how}"
        return Diagnostic(code, f"execution policy {name!r} is not registered", span, hint)


class Contexts(Shelf[Context]):
    """Contexts by name; a missing one is made."""

    def __init__(self) -> None:
        super().__init__("context", "run a plan")

    def named(self, name: str) -> Context:
        return self._held.setdefault(name, Context(name))

    def renew(self, name: str, log: Any = None) -> Context:
        """Replace a context by a new one; the old log is not changed."""
        before = self._held.get(name)
        if before is not None and before.holder:
            before.hold("")  # raises: a run uses it
        new = self._held[name] = Context(name, log)
        return new


class Registry:
    """The tools, agents, flows, schemas, transforms, policies and contexts that a flow can name."""

    def __init__(self) -> None:
        self.tools: Shelf[Tool] = Shelf("tool", "write @tool above its def")
        self.agents = Agents()
        self.flows: Definitions[Flow] = Definitions("flow", "define one in a cell")
        self.schemas: Definitions[Schema] = Definitions("schema", "write a schema: document")
        self.transforms: Shelf[Transform] = Shelf("transform", "write @transform above its def")
        self.policies: Shelf[Policy] = Policies("policy", "write @policy(…) above its def")
        self.contexts = Contexts()
        self.configured: Callable[[], tuple[Any, str]] = lambda: ("", "")
        """Returns the model and the server's address of the settings, for the process's
        registry."""
        self._chosen: tuple[Any, str] | None = None

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
    def model(self) -> Model | None:
        """The model that is used wherever a definition names one; None: the named model is used."""
        model, base_url = self._chosen or self.configured()
        return model_of(model, base_url or "") if model else None

    @property
    def version(self) -> tuple[object, ...]:
        """Another value after each change of what a flow can name, but not of the chosen model."""
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
        other, empty = copy.copy(self), Registry()
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
    """``registry``, or if none is given that of this kernel."""
    return _DEFAULT if registry is None else registry
