"""Advises about unknown keys of a graph and its parts: names the intended key, or what to write."""

from __future__ import annotations

from collections.abc import Mapping

SLIPS: Mapping[str, tuple[str, ...]] = {
    "state_schema": ("state",),
    "args": ("variables",),
    "arguments": ("variables", "args"),
    "input": ("variables", "args"),
    "inputs": ("variables", "args"),
    "output": ("state_key",),
    "output_key": ("state_key",),
    "result": ("state_key",),
    "items": ("over",),
    "question": ("message",),
    "when": ("condition",),
    "if": ("condition",),
    **dict.fromkeys(("update", "assign", "values"), ("output",)),
    "source": ("from",),
    "target": ("to",),
    "agent": ("identity",),
    **dict.fromkeys(
        ("name", "function", "call", "func", "uses", "action", "python_callable"),
        ("tool", "function"),
    ),
    **dict.fromkeys(("with", "params", "parameters", "kwargs"), ("variables", "args")),
    **dict.fromkeys(("retry", "retries"), ("max_retries",)),
    **dict.fromkeys(("list", "in", "for_each"), ("over",)),
    **dict.fromkeys(("item", "var"), ("as",)),
    **dict.fromkeys(("do", "body"), ("node",)),
    **dict.fromkeys(("options", "answers"), ("choices",)),
    **dict.fromkeys(("merge", "reduce"), ("reducer",)),
}
"""Words of other languages, each with the keys of a graph, a node or an edge that it may mean."""

REPEATED = "a tool is repeated where it is registered: @tool(retry=agf.Retry(2))"
ADVICE: Mapping[str, str] = {
    "retries": f"{REPEATED}; a model, an item of a map: on_error: retry, max_retries: 2",
    "next": "edges say what follows: edges: [{from: NODE, to: NEXT}]",
    "condition": "edges say what follows, with a condition: edges: [{from: NODE, to: NEXT, "
    "condition: VALUE}]",
    "branches": "an edge has its condition: edges: [{from: NODE, to: NEXT, condition: "
    "score > 0.8}, {from: NODE, to: OTHER, condition: else}]",
    "start": "an edge says where a run begins: edges: [{from: START, to: VALUE}]",
    "end": "an edge says where a run ends: edges: [{from: VALUE, to: END}]",
    "order": "an edge says what a node follows: edges: [{from: FIRST, to: NODE}]",
    "loop": "an edge back is a loop; a node for each item: {type: map, over: "
    '"{state.items}", as: item, node: {…}, collect: results}',
    "wait": "nodes are repeated at once: on_error: retry, max_retries: 3",
    "environment": "a value comes from the input: --set NAME=$name, read as {state.NAME}",
    **dict.fromkeys(
        ("default", "initial", "init"), "variables has the first values: variables: {n: 0}"
    ),
    **dict.fromkeys(("state", "args"), "state and variables stand at the top of the graph"),
}
"""The advice for keys of other programs to which no key of a graph corresponds, by the meaning of
the key in `foreign_keys.ELSEWHERE`, or by the key."""
