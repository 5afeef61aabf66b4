"""Loading a graph takes time in proportion to its size: the time of the processor for a text and for one of eight times
its size. What is quadratic takes 64 times as long."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

import agf_magics as agf


def graph(node: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"state": {"r": "any"}, "nodes": {"a": node}, "edges": [{"from": "START", "to": "a"}], **more}


CONSTRUCTIONS: dict[str, Callable[[int], Any]] = {
    "slots": lambda n: graph({"prompt": "x " + " ".join(f"{{s{i}}}" for i in range(n))}),
    "slots of a template": lambda n: graph({"prompt": " ".join(f"{{{{ s{i} }}}}" for i in range(n))}),
    "keys of a template": lambda n: graph({"prompt": "{{ a" + ".b" * n + " }}"}),
    "slots of a command": lambda n: graph(
        {"type": "tool", "tool": "t"}, tools={"t": {"command": "echo " + " ".join(f"{{x{i}}}" for i in range(n))}}
    ),
    "placeholders": lambda n: graph(
        {"type": "passthrough", "output": {"r": "x " + " ".join(f"{{state.r{i}}}" for i in range(n))}}
    ),
    "unknown nodes": lambda n: {
        **graph({"prompt": "x y"}),
        "edges": [{"from": "START", "to": f"x{i}"} for i in range(n)],
    },
    "conditions": lambda n: {
        **graph({"prompt": "x y"}),
        "edges": [
            {"from": "START", "to": "a"},
            *({"from": "a", "to": "a", "condition": f"b{i} > 1"} for i in range(n)),
        ],
    },
}


@pytest.mark.parametrize("name", CONSTRUCTIONS)
def test_loading_a_graph_takes_linear_time(name: str) -> None:
    def seconds(size: int) -> float:
        text, best = json.dumps(CONSTRUCTIONS[name](size)), float("inf")
        for _ in range(2):
            began = time.process_time()
            with contextlib.suppress(agf.DefinitionError):
                agf.load(text, "graph", registry=agf.Registry())
            best = min(best, time.process_time() - began)
        return best

    pytest.importorskip("jinja2")
    seconds(100)  # what is imported and compiled once
    assert seconds(8_000) < 30 * max(seconds(1_000), 0.01)
