"""The decorators `tool`, `agent`, `transform` and `policy`, and the function `model_agent`.

All of them register the thing that they make."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, overload

from ..flow.sessions.session import STEPS
from ..values.value import Value
from .agents import make_agent
from .model_agents import ModelAgent
from .models.model import model_of
from .policies import check_policy, make_policy
from .registry import Registry
from .registry import default as registry_or_default
from .tools.callables import F, Names, Where, as_names, name_of
from .tools.throttle import Retry, make_throttle
from .tools.tool import make_tool
from .transforms import make_transform


@overload
def tool(
    function: F,
    /,
    *,
    name: str | None = ...,
    registry: Registry | None = ...,
    timeout: float | None = ...,
    where: Where | None = ...,
    reuse: bool = ...,
    secret: Names = ...,
    group: str | None = ...,
    resources: Mapping[str, float] | None = ...,
    retry: Retry | None = ...,
    rate: str | None = ...,
    at_once: int | None = ...,
) -> F: ...
@overload
def tool(
    *,
    name: str | None = ...,
    registry: Registry | None = ...,
    timeout: float | None = ...,
    where: Where | None = ...,
    reuse: bool = ...,
    secret: Names = ...,
    group: str | None = ...,
    resources: Mapping[str, float] | None = ...,
    retry: Retry | None = ...,
    rate: str | None = ...,
    at_once: int | None = ...,
) -> Callable[[F], F]: ...
def tool(
    function: F | None = None,
    /,
    *,
    name: str | None = None,
    registry: Registry | None = None,
    timeout: float | None = None,
    where: Where | None = None,
    reuse: bool = True,
    secret: Names = (),
    group: str | None = None,
    resources: Mapping[str, float] | None = None,
    retry: Retry | None = None,
    rate: str | None = None,
    at_once: int | None = None,
) -> F | Callable[[F], F]:
    """Register a function as a tool and return it unchanged. A tool that has the same name is
    replaced.

        @tool
        def fetch(name: str) -> dict: ...

        @tool(timeout=30, secret=["token"])
        async def search(query: str, token: str) -> list[str]: ...

        tool(client.search)
        tool(functools.partial(fetch, limit=3), name="fetch_three")

    Parameters:

    - ``function``: the function. Default None: the call returns a decorator.
    - ``name``: the name of the tool. Default None: the name of the function.
    - ``registry``: the `Registry` to register in. Default None: the registry of this process.
    - ``timeout``: the longest time that one call may take, in seconds. Default None: the limits of
      the run decide.
    - ``where``: the place where the function runs: ``"loop"``, ``"kernel"``, ``"thread"`` or
      ``"worker"``. Default None: decided from the flow.
    - ``reuse``: whether ``--reuse`` may use an earlier result for an identical call. Use False if a
      call has an effect or depends on the time. Default True.
    - ``secret``: the names of arguments that are never shown or stored. Default: none.
    - ``group``: a prefix: ``group="a"`` registers ``a__b``. Default None: no prefix.
    - ``resources``: what a call needs of its worker, as a mapping of names to numbers: ``{"gpu":
      1}``. A run on a Dask cluster makes the call on a worker that has it. Default None: nothing.
    - ``retry``: how a failed call is repeated, an `agf.Retry`. Default None: it is not.
    - ``rate``: how many calls may start in a time, in all runs of this process: ``"20/s"``,
      ``"100/min"`` or ``"1000/h"``. Default None: any number.
    - ``at_once``: how many calls may run at the same time, in all runs of this process. Default
      None: any number.
    """

    def register(function: F) -> F:
        full_name = name_of(function, "tool", name, group)
        hidden = as_names(secret, "secret")
        tools = registry_or_default(registry).tools
        before = tools[full_name].throttle if full_name in tools else None
        throttle = make_throttle(retry, rate, at_once, before)
        tools.add(
            make_tool(function, full_name, where, timeout, reuse, hidden, resources, throttle)
        )
        return function

    return register if function is None else register(function)


@overload
def agent(
    function: F,
    /,
    *,
    name: str | None = ...,
    registry: Registry | None = ...,
    tools: Names | None = ...,
    default: bool = ...,
    timeout: float | None = ...,
    where: Where | None = ...,
) -> F: ...
@overload
def agent(
    *,
    name: str | None = ...,
    registry: Registry | None = ...,
    tools: Names | None = ...,
    default: bool = ...,
    timeout: float | None = ...,
    where: Where | None = ...,
) -> Callable[[F], F]: ...
def agent(
    function: F | None = None,
    /,
    *,
    name: str | None = None,
    registry: Registry | None = None,
    tools: Names | None = None,
    default: bool = False,
    timeout: float | None = None,
    where: Where | None = None,
) -> F | Callable[[F], F]:
    """Register a function as an agent and return it unchanged. An agent that has the same name is
    replaced.

        @agent
        def reviewer(prompt: str) -> str: ...

        @agent(tools=["fetch"], default=True)
        async def researcher(prompt, tools, schema): ...

    The function's parameters are filled by name: ``prompt``, ``input``, ``schema``, ``tools`` and
    ``identity``; any other parameter is a field of the input.

    Parameters:

    - ``function``: the function. Default None: the call returns a decorator.
    - ``name``: the name of the agent. Default None: the name of the function.
    - ``registry``: the `Registry` to register in. Default None: the registry of this process.
    - ``tools``: the names of the tools that the agent may use. Default None: all registered tools
      but the built-in ones.
    - ``default``: whether the agent answers steps that name no identity. Default False; if no agent
      is registered with True, the first one answers.
    - ``timeout``: the longest time that one call may take, in seconds. Default None: the limits of
      the run decide.
    - ``where``: the place where the function runs: ``"loop"``, ``"kernel"``, ``"thread"`` or
      ``"worker"``. Default None: decided from the flow.
    """

    def register(function: F) -> F:
        own_name = name_of(function, "agent", name)
        may_use = None if tools is None else as_names(tools, "tools")
        registry_or_default(registry).agents.add(
            make_agent(function, own_name, may_use, default, where, timeout)
        )
        return function

    return register if function is None else register(function)


@overload
def transform(
    function: F,
    /,
    *,
    name: str | None = ...,
    registry: Registry | None = ...,
    timeout: float | None = ...,
    where: Where | None = ...,
) -> F: ...
@overload
def transform(
    function: str | None = ...,
    /,
    *,
    name: str | None = ...,
    registry: Registry | None = ...,
    timeout: float | None = ...,
    where: Where | None = ...,
) -> Callable[[F], F]: ...
def transform(
    function: F | str | None = None,
    /,
    *,
    name: str | None = None,
    registry: Registry | None = None,
    timeout: float | None = None,
    where: Where | None = None,
) -> F | Callable[[F], F]:
    """Register a function as a transform and return it unchanged. A transform that has the same
    name is replaced.

        @transform("myorg.summarize")
        def summarize(outputs: dict) -> str: ...

    A transform receives one value: the outputs of a policy's agents by alias. ``output_from:
    {custom_transform: myorg.summarize}`` calls it.

    Parameters:

    - ``function``: the function, or the name of the transform. Default None: the call returns a
      decorator.
    - ``name``: the name of the transform. Default None: the name of the function.
    - ``registry``: the `Registry` to register in. Default None: the registry of this process.
    - ``timeout``: the longest time that one call may take, in seconds. Default None: the limits of
      the run decide.
    - ``where``: the place where the function runs: ``"loop"``, ``"kernel"``, ``"thread"`` or
      ``"worker"``. Default None: decided from the flow.
    """
    named = function if isinstance(function, str) else name

    def register(function: F) -> F:
        registry_or_default(registry).transforms.add(
            make_transform(function, name_of(function, "transform", named), where, timeout)
        )
        return function

    return register if function is None or isinstance(function, str) else register(function)


def policy(
    name: str,
    /,
    *,
    builder: bool = False,
    registry: Registry | None = None,
    timeout: float | None = None,
    where: Where | None = None,
) -> Callable[[F], F]:
    """Register a function as a vendor's execution policy. A policy that has the same id is
    replaced.

        @policy("x-acme.vote")
        def vote(config, input, agents): ...

        @policy("x-acme.twice", builder=True)
        def twice(config): ...  # returns a Step

    The function's parameters are filled by name: ``config`` (as in the definition), ``input``, and
    ``agents``, a mapping of aliases to functions that accept an input object.

    Parameters:

    - ``name``: the id of the policy, ``x-<vendor>.<name>``. Required.
    - ``builder``: whether the function returns the `Step` to run instead of the output. Default
      False.
    - ``registry``: the `Registry` to register in. Default None: the registry of this process.
    - ``timeout``: the longest time that one call may take, in seconds. Default None: the limits of
      the run decide.
    - ``where``: the place where the function runs: ``"loop"``, ``"kernel"``, ``"thread"`` or
      ``"worker"``. Default None: decided from the flow.
    """
    check_policy(name, builder)

    def register(function: F) -> F:
        registry_or_default(registry).policies.add(
            make_policy(function, name, builder, where, timeout)
        )
        return function

    return register


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
    - ``model``: the name of a model, or a model object of pydantic-ai. Default None: the configured
      model.
    - ``instructions``: the system prompt. Default: empty.
    - ``tools``: the names of the tools that the agent may use and that the model is offered; also
      of agents and flows, which it may then call like tools. Default None: all registered tools
      but the built-in ones.
    - ``default``: whether the agent answers steps that name no identity. Default False.
    - ``description``: one line for pictures and lists. Default: the first line of the instructions.
    - ``gives``: the JSON Schema of the answer if the step has none. Raises DefinitionError
      ``schema.pattern`` for a pattern that RE2 does not support. Default None: text.
    - ``max_steps``: the largest number of requests per session, at least 1. Default 10.
    - ``registry``: the `Registry` to register in. Default None: the registry of this process.
    - ``settings``: keyword arguments ``temperature`` (0 to 2), ``top_p`` (0 to 1), ``top_k`` (a
      number of tokens), ``max_output_tokens`` and ``stop_sequences``. Default: those of the model.
    """
    agent = ModelAgent(
        name=name,
        model=None if model is None else model_of(model),
        instructions=instructions,
        description=description or next(iter(str(instructions).strip().splitlines()), ""),
        tools=None if tools is None else as_names(tools, "tools"),
        default=bool(default),
        gives=gives,
        steps=max_steps,
        settings=settings,
    )
    registry_or_default(registry).agents.add(agent)
    return agent
