"""`Policy`, a vendor's execution policy: a registered function that decides which agent runs next.

The id of a policy is ``x-<vendor>.<name>`` (AGF-75, decision B4). Its function returns the output.
The function of a builder returns the `Step` to run: it is called when a definition is linked, so
that its steps are drawn and journaled like all others.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .tools.callables import Where, check_limits, description_of, is_async, name_of, signature_of

ID = re.compile(r"x-[A-Za-z0-9_-]+\.[A-Za-z0-9_.-]+", re.ASCII)
"""The pattern of an id."""

TAKES = {False: ("config", "input", "agents"), True: ("config",)}
"""The parameters that a policy, and a builder (True), may have; they are filled by name."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Policy:
    """A vendor policy and its options. The function is called with the keyword arguments in
    ``takes``."""

    name: str
    """The id."""
    function: Callable[..., Any]
    takes: tuple[str, ...]
    """The parameters of the function, of ``config``, ``input`` and ``agents``."""
    builder: bool = False
    """Whether the function returns the Step to run."""
    description: str = ""
    where: Where | None = None
    """The place of its calls; None: decided from the flow."""
    timeout: float | None = None
    """The longest time of a call, in seconds; None: only the step and the run limit it."""
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
    check_limits(where, timeout)
    if builder and is_async(function):
        raise ValueError(
            f"policy {name!r} is a builder, which returns a Step: it cannot be an async function"
        )
    return Policy(
        name=name_of(function, "policy", name),
        function=function,
        takes=_accepted_parameters(function, name, TAKES[builder]),
        builder=builder,
        description=description_of(function),
        where=where,
        timeout=timeout,
        is_async=is_async(function),
    )


def _accepted_parameters(
    function: Callable[..., Any], name: str, offered: tuple[str, ...]
) -> tuple[str, ...]:
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
