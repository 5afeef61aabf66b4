"""Peers that are measured in the same rounds as ours, where they are installed (the extra ``bench``)."""

from __future__ import annotations

import importlib.util
import types
from collections.abc import Callable
from typing import Any

HAMILTON = "Hamilton: a chain of functions"


def hamilton(steps: int) -> dict[str, Callable[[], Any]]:
    """A chain of plain functions in Hamilton; its driver is built before. Empty: it is not installed."""
    if importlib.util.find_spec("hamilton") is None:
        return {}
    from hamilton import driver
    from hamilton.ad_hoc_utils import create_temporary_module

    def add(n: int) -> int:
        return n + 1

    functions = [_named(add, i) for i in range(steps)]
    built = driver.Builder().with_modules(create_temporary_module(*functions, module_name="chain")).build()
    return {HAMILTON: lambda: built.execute([f"s{steps}"], inputs={"s0": 1})}


def _named(add: Callable[[int], int], i: int) -> types.FunctionType:
    """``add`` as a node ``s<i+1>`` that depends on ``s<i>``: Hamilton reads the names of functions and parameters."""
    code = add.__code__.replace(co_varnames=(f"s{i}",), co_name=f"s{i + 1}")
    made = types.FunctionType(code, {}, f"s{i + 1}")
    made.__annotations__ = {f"s{i}": int, "return": int}
    made.__module__ = __name__
    return made
