"""The graph language as data: the one table that loader, hints, completion and JSON Schema are made from.

A key that is not here does not exist anywhere (decision Y12); what a key takes is a word of `TAKES`, for which the
loader has a reader and the JSON Schema a shape.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

TAKES: Mapping[str, str] = {
    "name": "a name",
    "text": "a text",
    "anything": "any value",
    "flag": "true or false",
    "count": "a whole number, 1 or more",
    "seconds": "a number of seconds above 0",
    "number": "a number",
    "names": "a list of names",
    "values": "a mapping of names to values, each with {state.…} in it or not",
    "arguments": "a mapping of argument names to values, or one placeholder that gives it",
    "template": "a text, with {state.…} in it or not",
    "prompt": "a text, or a mapping with user and system",
    "over": "one placeholder, {state.name}, or a list",
    "share": "a count, or a share between 0.0 and 1.0",
    "overflow": "error or truncate",
    "on_error": "fail or skip",
    "retries": "fail, skip or retry",
    "routes": "a mapping of labels to nodes",
    "mapping": "a mapping of keys to keys, or auto",
    "mode": "invoke or direct",
    "node": "one node",
    "nodes": "a mapping of names to nodes",
    "edges": "a list of edges",
    "state": "a mapping of keys to types",
    "tools": "a mapping of names to tools",
    "config": "a mapping of limits",
    "defaults": "a mapping of defaults",
    "limits": "a mapping of nodes to counts",
    "exits": "a mapping of nodes to nodes",
    "command": "a text: a program and its arguments",
    "parse": "text, json or none",
    "tool_type": "python or shell",
    "edge_type": "conditional",
    "source": "a node, or START",
    "targets": "a node, END, or a list of nodes",
    "condition": "a condition, or else",
}
"""Every kind of value a key may take, as an error says it."""

EXAMPLES: Mapping[str, str] = {
    "name": "review",
    "text": "what it is for",
    "anything": "1",
    "flag": "true",
    "count": "4",
    "seconds": "30",
    "number": "0.5",
    "names": "[search, fetch]",
    "values": '{n: "{state.n + 1}"}',
    "arguments": '{path: "{state.path}"}',
    "template": '"{state.tool}"',
    "prompt": '"Summarize {state.text}"',
    "over": '"{state.rows}"',
    "share": "0.8",
    "overflow": "truncate",
    "on_error": "skip",
    "retries": "retry",
    "routes": "{good: publish, bad: revise}",
    "mapping": "{text: input_text}",
    "mode": "direct",
    "node": "{type: python, tool: score}",
    "nodes": '{bump: {type: passthrough, output: {n: "{state.n + 1}"}}}',
    "edges": "[{from: START, to: bump}, {from: bump, to: END}]",
    "state": "{n: int, log: {type: list, reducer: add}}",
    "tools": "{score: {type: python, path: tools.py, function: score}}",
    "config": "{recursion_limit: 100}",
    "defaults": "{on_error: skip}",
    "limits": "{revise: 3}",
    "exits": "{revise: publish}",
    "command": '"ls -l"',
    "parse": "json",
    "tool_type": "python",
    "edge_type": "conditional",
    "source": "START",
    "targets": "END",
    "condition": '"score < 0.8"',
}
"""One of each, as a hint shows it."""


class Key(NamedTuple):
    """A key of a mapping."""

    name: str
    takes: str
    doc: str
    required: bool = False


class Kind(NamedTuple):
    """A mapping of the language: a node of one kind, an edge, a document."""

    name: str
    doc: str
    keys: Mapping[str, Key]


def _kind(name: str, doc: str, *keys: Key) -> Kind:
    return Kind(name, doc, {key.name: key for key in keys})


_TYPE = Key("type", "name", "The node's kind; llm when it is left out.")
_STATE_KEY = Key("state_key", "name", "The key its result is written to; the node's name when it is left out.")
_VARIABLES = Key("variables", "values", "What it is given beside the state, or, for a prompt, instead of it.")
_TIMEOUT = Key("timeout", "seconds", "How long one call may take.")
_ON_ERROR = Key("on_error", "on_error", "fail (when left out) ends the run; skip notes the failure in errors.")
_RETRY = Key("on_error", "retries", "fail (when left out), skip, or retry: then max_retries more attempts.")
_RETRIES = Key("max_retries", "count", "More attempts with on_error: retry (3 when left out).")
_REQUIRES = Key("requires", "names", "Keys that must be in the state, else the node fails.")
_IDENTITY = Key("identity", "name", "The registered agent that answers; without it the default agent.")
_SCHEMA = Key("schema", "name", "The registered schema that the answer must conform to.")
_PROMPT = Key("prompt", "prompt", "What it is asked; {name} is a variable, {state.name} the state's.", True)
_MODEL = tuple(
    Key(name, takes, "Told as a warning: the agent that answers chooses its own model.")
    for name, takes in (
        ("provider", "text"),
        ("model", "text"),
        ("temperature", "number"),
        ("max_tokens", "count"),
        ("max_iterations", "count"),
    )
)
_SESSION = (_TYPE, _PROMPT, _VARIABLES, _STATE_KEY, _IDENTITY, _SCHEMA, _REQUIRES, _RETRY, _RETRIES, _TIMEOUT, *_MODEL)
_TOOL = Key("tool", "name", "The tool: a registered one, or one of the graph's own tools.", True)

NODES: Mapping[str, Kind] = {
    kind.name: kind
    for kind in (
        _kind(
            "passthrough",
            "Computes new values for keys of the state.",
            _TYPE,
            Key("output", "values", "The keys and their new values; all of them read the state before the node."),
        ),
        _kind(
            "map",
            "Runs a node once per item of a list, side by side.",
            _TYPE,
            Key("over", "over", "The list.", True),
            Key("as", "name", "The key under which the node finds its item.", True),
            Key("node", "node", "What runs once per item.", True),
            Key("collect", "name", "The key to which the results are appended, in the order of the items.", True),
            Key("max_items", "count", "How many items there may be (100, or config's max_map_items)."),
            Key("on_overflow", "overflow", "More items: error (when left out) fails, truncate takes the first ones."),
            Key("min_success", "share", "How many items, or which share of them, must succeed (1.0 when left out)."),
            Key("failures", "name", "The key to which failures are appended (collect's name and _failures)."),
            Key("flatten_output", "flag", "Whether a result that is one object under one name is taken out of it."),
        ),
        _kind(
            "tool",
            "Calls a tool with arguments of its own.",
            _TYPE,
            _TOOL,
            Key("variables", "values", "The tool's arguments."),
            _STATE_KEY,
            _ON_ERROR,
            _TIMEOUT,
        ),
        _kind(
            "tool_call",
            "Calls a tool whose name and arguments may come from the state; a failure is part of its result.",
            _TYPE,
            Key("tool", "template", "The tool's name, or a placeholder that gives it."),
            Key("tool_name", "template", "The same under its other name."),
            Key("args", "arguments", "The tool's arguments."),
            Key("state_key", "name", "The key its result is written to (result when left out)."),
            Key("on_error", "on_error", "skip (when left out) keeps a failure in the result; fail ends the run."),
            _TIMEOUT,
        ),
        _kind(
            "python",
            "Calls a function with the state; an object it returns is written key by key.",
            _TYPE,
            Key("tool", "name", "The function: a registered tool, or one of the graph's own tools."),
            Key("function", "name", "The same under its other name."),
            _VARIABLES,
            Key("state_key", "name", "The key for a result that is no object; the node's name when it is left out."),
            _RETRY,
            _RETRIES,
            _TIMEOUT,
        ),
        _kind("llm", "Asks an agent.", *_SESSION),
        _kind(
            "agent",
            "Asks an agent that may use tools.",
            *_SESSION,
            Key("tools", "names", "The tools it may use at most."),
        ),
        _kind(
            "router",
            "Asks an agent which way to go: edges of type conditional follow its answer.",
            *_SESSION,
            Key("routes", "routes", "Which answer leads to which node.", True),
            Key("route_field", "name", "The field of the answer that is the label, where the answer is an object."),
            Key("default_route", "name", "The node for every other answer; the first of routes when it is left out."),
        ),
        _kind(
            "subgraph",
            "Runs another graph, or any registered flow.",
            _TYPE,
            Key("graph", "name", "A registered flow, or a graph's file.", True),
            Key("mode", "mode", "direct: it has this graph's whole state and writes all of its own back to it."),
            Key("input_mapping", "mapping", "This graph's keys and what they are called in the other; auto: all."),
            Key("output_mapping", "mapping", "This graph's keys and what they are called in the other; auto: all."),
            _ON_ERROR,
        ),
        _kind(
            "interrupt",
            "Asks a person; where nobody is there the run waits.",
            _TYPE,
            Key("message", "template", "The question.", True),
            Key("choices", "names", "The answers to choose from."),
            Key("state_key", "name", "The key the question is written to (interrupt_message when left out)."),
            Key("resume_key", "name", "The key the answer is written to (user_input when left out)."),
        ),
    )
}

NOT_IN_A_MAP = ("map", "interrupt")
"""What a map cannot run once per item."""

EDGE = _kind(
    "edge",
    "A way from one node to the next.",
    Key("from", "source", "Where it comes from.", True),
    Key("to", "targets", "Where it leads to; several nodes run side by side.", True),
    Key("condition", "condition", "When it is taken: of a node's conditional edges the first that holds."),
    Key("type", "edge_type", "conditional: it leads to that one of its targets which the state's _route names."),
)

TOOL = _kind(
    "tool of the graph",
    "A function or a command that nodes call by name; a registered tool of that name goes before it.",
    Key("type", "tool_type", "python or shell; told from the other keys when it is left out."),
    Key("path", "text", "The Python file that has the function."),
    Key("module", "text", "The module that has the function."),
    Key("function", "name", "The function; the tool's name when it is left out."),
    Key("command", "command", "A program and its arguments, with {name} for a variable; no shell reads it."),
    Key("parse", "parse", "What a command's output is: text (when left out), json, or none."),
    Key("timeout", "seconds", "How long a command may take."),
    Key("description", "text", "What it does."),
)

STATE_KEY = _kind(
    "state key",
    "A key of the state.",
    Key("type", "name", "Its type; it is not enforced."),
    Key("reducer", "name", "How what is written is put together with what is there."),
    Key("description", "text", "What it is for."),
)

CONFIG = _kind(
    "config",
    "Limits of a run.",
    Key("recursion_limit", "count", "How many rounds there may be (50 when left out)."),
    Key("max_map_items", "count", "How many items a map may have (100 when left out)."),
    Key("max_concurrency", "count", "How many nodes or items run at once (8 when left out)."),
    Key("timeout", "seconds", "How long a run may take."),
    Key("max_tokens", "count", "How many tokens a run may use."),
)

DEFAULTS = _kind(
    "defaults",
    "What nodes that ask an agent do where they do not say.",
    Key("on_error", "retries", "Their on_error."),
    Key("on_overflow", "overflow", "A map's on_overflow."),
    Key("identity", "name", "Their identity."),
    *_MODEL,
)

GRAPH = _kind(
    "graph",
    "A graph.",
    Key("name", "name", "Its name, under which it is registered and called."),
    Key("version", "anything", "The version of its text; for readers."),
    Key("description", "text", "What it does, for people and for agents that may call it."),
    Key("state", "state", "The keys of its state, each with its type."),
    Key("variables", "values", "What keys hold before it begins, where its input does not say."),
    Key("tools", "tools", "Its own tools."),
    Key("defaults", "defaults", "What nodes do where they do not say."),
    Key("config", "config", "Limits of a run."),
    Key("nodes", "nodes", "What runs.", True),
    Key("edges", "edges", "In which order.", True),
    Key("loop_limits", "limits", "How often a node may run."),
    Key("loop_exits", "exits", "Where a node that reached its limit leads to; END when it is left out."),
    Key("checkpointer", "anything", "Nothing to set up: every run is kept and can be taken up again."),
)

TYPES: Mapping[str, object] = {
    "str": "", "string": "", "int": 0, "integer": 0, "float": 0.0, "bool": False, "boolean": False,
    "list": [], "dict": {}, "any": None,
}  # fmt: skip
"""The types of a state key, each with what a key that has a reducer begins as (any: nothing)."""

REDUCERS: Mapping[str, str] = {
    "add": "a list is appended, a number added, a text continued",
    "sorted_add": "a list is appended and sorted by _map_index",
    "last_value": "the last one stays",
}

BUILT_IN: Mapping[str, str] = {
    "messages": "a list with the reducer add",
    "errors": "a list with the reducer add: what nodes with on_error: skip failed with",
    "current_step": "the node that ran last",
    "_route": "the node that the last router chose",
    "_map_index": "in a map's node: the item's number, from 0",
}
"""Keys that are there without being declared."""
