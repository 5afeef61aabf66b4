"""A whole policy as a vector row: its agents, its tools, its transforms, its run."""

from __future__ import annotations

import asyncio
import copy
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import agf_magics as agf

TYPES = {"string": str, "integer": int, "number": float, "boolean": bool, "array": list, "object": dict}


class Agents:
    """What a row's sources may use, and what they were called with.

    A source is a Python lambda over the input object. It may use the coroutines ``sleep(seconds, value)``, in virtual
    time, and ``meet(value)``, which returns when every agent of the row is in it: agents that do not overlap never
    come back from it.
    """

    def __init__(self, row: Mapping[str, Any]) -> None:
        self.row = row
        self.calls: list[list[Any]] = []
        self._barrier: asyncio.Barrier | None = None

    async def sleep(self, seconds: float, value: Any) -> Any:
        await asyncio.sleep(seconds)
        return value

    async def meet(self, value: Any) -> Any:
        if self._barrier is None:
            self._barrier = asyncio.Barrier(len(self.row["agents"]))
        await self._barrier.wait()
        return value

    def function(self, name: str, source: str) -> Callable[..., Any]:
        answer = eval(source, {"sleep": self.sleep, "meet": self.meet})

        def call(given):  # type: ignore[no-untyped-def]  # without an annotation it gets the whole input
            self.calls.append([name, copy.deepcopy(given)])
            return answer(given)

        def by_field(**given: Any) -> Any:
            return call(given)

        schema = self.row.get("schemas", {}).get(name)
        if schema is None:
            return call
        by_field.__signature__ = inspect.Signature(_parameters(schema))  # type: ignore[attr-defined]
        return by_field

    def registry(self) -> agf.Registry:
        registry = agf.Registry()
        for name, source in self.row.get("agents", {}).items():
            # On the loop: the order of calls is then the order of the definition.
            agf.agent(self.function(name, source), name=name, registry=registry, where="loop")
        for name, source in self.row.get("tools", {}).items():
            agf.tool(_tool(eval(source)), name=name, registry=registry, where="loop")
        for name, source in self.row.get("transforms", {}).items():
            agf.transform(eval(source), name=name, registry=registry, where="loop")
        return registry


def _parameters(schema: Mapping[str, Any]) -> list[inspect.Parameter]:
    """A signature that says what a JSON Schema says."""
    kind, required = inspect.Parameter.KEYWORD_ONLY, schema.get("required", [])
    return [
        inspect.Parameter(
            name,
            kind,
            annotation=TYPES[told["type"]],
            default=told.get("default", inspect.Parameter.empty if name in required else None),
        )
        for name, told in schema["properties"].items()
    ]


def _tool(answer: Callable[[Any], Any]) -> Callable[..., Any]:
    def call(**given: Any) -> Any:
        return answer(given)

    return call
