"""Runs a whole pipeline that a vector row describes: its tools, its agent, its library and its input."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping
from typing import Any

import agf_magics as agf


class Tools:
    """The names that the tool sources of a row may use, and the calls of the tools.

    A source is a Python lambda over the dict of arguments. It may use ``json``, a dict ``state`` of the case,
    ``fail(msg)`` which raises, and the coroutines ``sleep(seconds, value)``, ``busy(seconds, value)`` (counts how many
    run at once) and ``sleep_fail(seconds, message)``.
    """

    def __init__(self) -> None:
        self.calls: list[list[Any]] = []
        """The name and the arguments of each call."""
        self.live = self.most = 0
        """The number of calls of ``busy`` that run now, and the largest number so far."""

    def names(self) -> dict[str, Any]:
        return {
            "json": json,
            "state": {},
            "fail": self.fail,
            "sleep": self.sleep,
            "busy": self.busy,
            "sleep_fail": self.sleep_fail,
        }

    def fail(self, message: str) -> None:
        raise RuntimeError(message)

    async def sleep(self, seconds: float, value: Any = None) -> Any:
        await asyncio.sleep(seconds)
        return value

    async def sleep_fail(self, seconds: float, message: str) -> None:
        await asyncio.sleep(seconds)
        raise RuntimeError(message)

    async def busy(self, seconds: float, value: Any = None) -> Any:
        self.live += 1
        self.most = max(self.most, self.live)
        await asyncio.sleep(seconds)
        self.live -= 1
        return value

    def function(self, name: str, source: str, names: Mapping[str, Any]) -> Callable[..., Any]:
        """The tool of a source, which records its calls."""
        answer = eval(source, dict(names))

        def call(**arguments: Any) -> Any:
            self.calls.append([name, arguments])
            return answer(arguments)

        return call


def registry_of(row: Mapping[str, Any], tools: Tools) -> agf.Registry:
    registry = agf.Registry()
    names = tools.names()
    for name, source in row.get("tools", {}).items():
        # The tools run on the loop, so the calls are in the order of the definition.
        agf.tool(tools.function(name, source, names), name=name, registry=registry, where="loop")
    if "agent" in row:
        answer = eval(row["agent"], dict(names))

        def respond(prompt: str) -> Any:
            return answer(prompt)

        agf.agent(respond, name="carol", registry=registry, where="loop")
    for text in row.get("library", []):
        agf.define(text, registry=registry)
    return registry


def limits_of(row: Mapping[str, Any]) -> agf.Limits:
    caps = row.get("caps", {})
    return agf.Limits(fan_out_depth=caps.get("depth", 5), spawns=caps.get("spawns", 100))
