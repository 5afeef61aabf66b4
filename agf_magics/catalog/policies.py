"""Vendor policies: execution policies of your own, under an id ``x-<vendor>.<name>`` (AGF-75, decision B4).

One is a function that gives the output, or a builder: a function that gives the `Step` to run, called when a definition
is linked, so that its steps are drawn and told of like any other.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .callables import F, Where, checked_limits, description_of, is_async, name_of, signature_of
from .registry import Registry, into

ID = re.compile(r"x-[A-Za-z0-9_-]+\.[A-Za-z0-9_.-]+", re.ASCII)

TAKES = {False: ("config", "input", "agents"), True: ("config",)}
"""What a policy may ask for, by whether it is a builder; a parameter is filled by its name."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Policy:
    """A function with what is said of it. Called with keyword arguments, those of `takes`."""

    name: str
    """Its id."""
    function: Callable[..., Any]
    takes: tuple[str, ...]
    """Which of ``config``, ``input`` and ``agents`` it asks for."""
    builder: bool = False
    """Whether it gives the Step to run."""
    description: str = ""
    where: Where | None = None
    """None: decided from the flow."""
    timeout: float | None = None
    """Seconds."""
    is_async: bool = False


def policy(
    name: str,
    /,
    *,
    builder: bool = False,
    registry: Registry | None = None,
    timeout: float | None = None,
    where: Where | None = None,
) -> Callable[[F], F]:
    """Register a function as a vendor's execution policy. A policy that has the same id is replaced.

        @policy("x-acme.vote")
        def vote(config, input, agents): ...

        @policy("x-acme.twice", builder=True)
        def twice(config): ...  # returns a Step

    The function's parameters are filled by name: ``config`` (as in the definition), ``input``, and ``agents``, a
    mapping of aliases to functions that accept an input object.

    Parameters:

    - ``name``: the id of the policy, ``x-<vendor>.<name>``. Required.
    - ``builder``: whether the function returns the `Step` to run instead of the output. Default False.
    - ``registry``: the `Registry` to register in. Default None: the registry of this process.
    - ``timeout``: the longest time that one call may take, in seconds. Default None: the limits of the run decide.
    - ``where``: the place where the function runs: ``"loop"``, ``"kernel"`` or ``"worker"``. Default None: decided from
      the flow.
    """
    if not isinstance(name, str) or not ID.fullmatch(name):
        raise ValueError(f"a policy's id is x-<vendor>.<name>, as in 'x-acme.vote', not {name!r}")
    if not isinstance(builder, bool):
        raise TypeError(f"builder is True or False, not {builder!r}")

    def register(function: F) -> F:
        into(registry).policies.add(_make(function, name, builder, timeout, where))
        return function

    return register


def _make(function: Callable[..., Any], name: str, builder: bool, timeout: float | None, where: Where | None) -> Policy:
    checked_limits(where, timeout)
    if builder and is_async(function):
        raise ValueError(f"policy {name!r} is a builder: it gives a Step at once, so it is no async function")
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
        raise ValueError(f"policy {name!r}: nobody knows what this function takes; wrap it in one with parameters")
    parameters = signature.parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return offered
    empty = inspect.Parameter.empty
    strange = [
        p.name for p in parameters if p.name not in offered and p.default is empty and p.kind is not p.VAR_POSITIONAL
    ]
    unnamed = [p.name for p in parameters if p.kind is p.POSITIONAL_ONLY]
    if strange or unnamed:
        raise ValueError(f"policy {name!r} takes {', '.join(offered)} by name, not {', '.join(strange or unnamed)}")
    return tuple(p.name for p in parameters if p.name in offered)
