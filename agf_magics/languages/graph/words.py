"""The graph language as data: the one table for the loader, hints, completion and JSON Schema.

A key that is not in the table does not exist (decision Y12). takes.py has the kinds of values that
keys may have.
"""

from __future__ import annotations

from collections.abc import Mapping

from .. import documents
from ..keys import Key, MappingSpec, mapping_spec
from . import takes

_TYPE = Key("type", documents.NAME, "The kind of the node; defaults to llm.")
_STATE_KEY = Key(
    "state_key",
    documents.NAME,
    "The key that its result is written to; defaults to the name of the node.",
)
_VARIABLES = Key(
    "variables",
    takes.VALUES,
    "Values that it gets in addition to the state; a prompt: instead of it.",
)
_TIMEOUT = Key("timeout", takes.SECONDS, "The longest time for one call.")
_ON_ERROR = Key(
    "on_error", takes.ON_ERROR, "fail (the default) ends the run; skip adds the failure to errors."
)
_RETRY = Key(
    "on_error",
    takes.ON_ERROR_RETRY,
    "fail (the default), skip, or retry: max_retries more attempts.",
)
_RETRIES = Key("max_retries", documents.COUNT, "More attempts with on_error: retry; defaults to 3.")
_REQUIRES = Key(
    "requires", takes.NAMES, "Keys that the state must have; without one of them the node fails."
)
_IDENTITY = Key(
    "identity", documents.NAME, "The registered agent that answers; defaults to the default agent."
)
_SCHEMA = Key("schema", documents.NAME, "The registered schema that the answer must conform to.")
_OUTPUT_SCHEMA = Key(
    "output_schema", takes.JSON_SCHEMA, "In place of schema: a JSON Schema of the answer."
)
_PROMPT = Key(
    "prompt",
    takes.PROMPT,
    "The prompt; {name} is a variable, {state.name} a key of the state.",
    required=True,
)
PROMPT_MODEL = (
    Key("provider", documents.TEXT, "The provider of model."),
    Key(
        "model",
        documents.TEXT,
        "The model that answers, unless a model is configured or the identity has its own.",
    ),
    Key(
        "temperature",
        takes.NUMBER,
        "The temperature of its requests; defaults to that of the provider.",
    ),
    Key("max_tokens", documents.COUNT, "The largest number of tokens of one reply."),
)
"""The keys of a model, which a node, a prompt, the defaults and a fallback may have."""
_MODEL = (
    *PROMPT_MODEL,
    Key("max_iterations", documents.COUNT, "The largest number of requests; defaults to 10."),
)
_SESSION = (
    _TYPE,
    _PROMPT,
    _VARIABLES,
    _STATE_KEY,
    _IDENTITY,
    _SCHEMA,
    _OUTPUT_SCHEMA,
    Key(
        "parse_json",
        documents.FLAG,
        "Whether JSON in the answer is read; a schema is then not used.",
    ),
    _REQUIRES,
    Key(
        "skip_if_exists",
        documents.FLAG,
        "Whether the node is skipped if its state_key has a value; defaults to false.",
    ),
    Key(
        "on_error",
        takes.ON_ERROR_ASKED,
        "fail (the default), skip, retry, or fallback: the model in fallback.",
    ),
    _RETRIES,
    Key(
        "fallback",
        takes.OTHER_MODEL,
        "The model that is asked once after a failure, with on_error: fallback.",
    ),
    _TIMEOUT,
    *_MODEL,
)
_TOOL = Key(
    "tool", documents.NAME, "The tool: a registered tool, or a tool of the graph.", required=True
)

NODES: Mapping[str, MappingSpec] = {
    node.name: node
    for node in (
        mapping_spec(
            "passthrough",
            "Computes new values for keys of the state.",
            _TYPE,
            Key(
                "output",
                takes.VALUES,
                "The keys and their new values; expressions read the state before the node.",
            ),
            Key("set", takes.VALUES, "Another name for output."),
        ),
        mapping_spec(
            "map",
            "Runs a node once for each item of a list, in parallel.",
            _TYPE,
            Key("over", takes.OVER, "The list.", required=True),
            Key("as", documents.NAME, "The key that holds the item for the node.", required=True),
            Key("node", takes.NODE, "The node that runs for each item.", required=True),
            Key(
                "collect",
                documents.NAME,
                "The key that the results are appended to, in the order of the items.",
                required=True,
            ),
            Key(
                "max_items",
                documents.COUNT,
                "The largest number of items; defaults to config's max_map_items, else 100.",
            ),
            Key(
                "on_overflow",
                takes.OVERFLOW,
                "With more items: error (the default), or truncate to use the first ones.",
            ),
            Key(
                "min_success",
                takes.SHARE,
                "The count or the share of items that must succeed; defaults to 1.0.",
            ),
            Key(
                "failures",
                documents.NAME,
                "The key that failures are appended to; defaults to COLLECT_failures.",
            ),
            Key(
                "on_error",
                takes.ON_ERROR_RETRY,
                "fail (the default); skip accepts failures; retry repeats an item.",
            ),
            _RETRIES,
            Key(
                "flatten_output",
                documents.FLAG,
                "Not needed: a result has no wrapper of the map's own.",
            ),
            Key("timeout", takes.SECONDS, "The longest time for one item."),
        ),
        mapping_spec(
            "tool",
            "Calls a tool with the arguments in variables.",
            _TYPE,
            _TOOL,
            Key("variables", takes.VALUES, "The arguments of the tool."),
            _STATE_KEY,
            _ON_ERROR,
            _TIMEOUT,
        ),
        mapping_spec(
            "tool_call",
            "Calls a tool whose name and arguments may come from the state; a failure is part of "
            "its result.",
            _TYPE,
            Key("tool", takes.TEMPLATE, "The name of the tool, or a placeholder for it."),
            Key("tool_name", takes.TEMPLATE, "Another name for tool."),
            Key("args", takes.ARGUMENTS, "The arguments of the tool."),
            Key(
                "state_key",
                documents.NAME,
                "The key that its result is written to; defaults to result.",
            ),
            Key(
                "on_error",
                takes.ON_ERROR,
                "skip (the default) writes a failure into the result; fail ends the run.",
            ),
            _TIMEOUT,
        ),
        mapping_spec(
            "python",
            "Calls a function with the state; an object that it returns is written key by key.",
            _TYPE,
            Key("tool", documents.NAME, "The function: a registered tool, or a tool of the graph."),
            Key("function", documents.NAME, "Another name for tool."),
            _VARIABLES,
            Key(
                "state_key",
                documents.NAME,
                "The key for a result that is not an object; defaults to the node's name.",
            ),
            _REQUIRES,
            _RETRY,
            _RETRIES,
            _TIMEOUT,
        ),
        mapping_spec("llm", "Asks an agent.", *_SESSION),
        mapping_spec(
            "agent",
            "Asks an agent that may use tools.",
            *_SESSION,
            Key(
                "tools",
                takes.NAMES,
                "The only tools that it may use: registered tools and tools of the graph.",
            ),
            Key(
                "tool_results_key",
                documents.NAME,
                "The key that a list of the tool calls is written to.",
            ),
        ),
        mapping_spec(
            "router",
            "Asks an agent for the next node: edges of type conditional follow its answer.",
            *_SESSION,
            Key("routes", takes.ROUTES, "The node for each answer.", required=True),
            Key(
                "route_field",
                documents.NAME,
                "The field with the label, if the answer is an object; defaults to route, tone or "
                "intent.",
            ),
            Key(
                "default_route",
                documents.NAME,
                "The node for every other answer; defaults to the first node in routes.",
            ),
        ),
        mapping_spec(
            "subgraph",
            "Runs another graph, or any registered flow.",
            _TYPE,
            Key(
                "graph", documents.NAME, "A registered flow, or the file of a graph.", required=True
            ),
            Key(
                "mode", takes.MODE, "direct: it gets the whole state and writes all its keys back."
            ),
            Key(
                "input_mapping",
                takes.MAPPING,
                "Keys of this graph, each with its name in the other; auto: all.",
            ),
            Key(
                "output_mapping",
                takes.MAPPING,
                "Keys of this graph, each with its name in the other; auto: all.",
            ),
            Key(
                "interrupt_output_mapping",
                takes.NAME_PAIRS,
                "The same for the stores of a run that waits for an answer inside the other graph.",
            ),
            _ON_ERROR,
        ),
        mapping_spec(
            "interrupt",
            "Asks a person; without a person the run waits.",
            _TYPE,
            Key(
                "message",
                takes.MESSAGE,
                "The question; {name} and {state.name} are keys of the state.",
            ),
            Key(
                "prompt",
                takes.PROMPT,
                "In place of message: the prompt to which an agent answers with the question.",
            ),
            Key("variables", takes.VALUES, "Values for the prompt, instead of the state."),
            _IDENTITY,
            Key("choices", takes.NAMES, "The possible answers."),
            Key(
                "state_key",
                documents.NAME,
                "The key that the question is written to; defaults to interrupt_message.",
            ),
            Key(
                "resume_key",
                documents.NAME,
                "The key that the answer is written to; defaults to user_input.",
            ),
            Key(
                "idempotent",
                documents.FLAG,
                "Whether a question that state_key has already is asked again; defaults to false.",
            ),
        ),
    )
}
"""The kinds of node, each with its keys."""

IN_A_MAP = {name: NODES[name] for name in NODES if name not in ("map", "interrupt")}
"""The kinds of node that a map can run."""

EDGE = mapping_spec(
    "edge",
    "Leads from one node to the next.",
    Key("from", takes.SOURCE, "The node that it leaves.", required=True),
    Key(
        "to",
        takes.TARGETS,
        "The node that it leads to; several nodes run in parallel.",
        required=True,
    ),
    Key(
        "condition",
        takes.CONDITION,
        "When it is taken: of the edges of a node, the first true one.",
    ),
    Key("type", takes.EDGE_TYPE, "conditional: it leads to the target that the router has chosen."),
)

TOOL = mapping_spec(
    "tool of the graph",
    "A function or a command that nodes call by name; a registered tool with that name is used "
    "instead.",
    Key(
        "type",
        takes.TOOL_TYPE,
        "python or shell; defaults to the kind that the other keys belong to.",
    ),
    Key("path", documents.TEXT, "The Python file with the function."),
    Key("module", documents.TEXT, "The module with the function."),
    Key("function", documents.NAME, "The function; defaults to the name of the tool."),
    Key(
        "command",
        takes.COMMAND,
        "A program and its arguments, with {name} for a variable; no shell interprets it.",
    ),
    Key(
        "parse",
        takes.PARSE,
        "How the output of a command is read: text (the default), json, or none.",
    ),
    Key("timeout", takes.SECONDS, "The longest time for a command."),
    Key(
        "success_codes",
        takes.CODES,
        "The exit codes with which a command succeeds; defaults to [0].",
    ),
    Key("description", documents.TEXT, "A description, for agents that may use it."),
)

STATE_KEY = mapping_spec(
    "state key",
    "A key of the state.",
    Key("type", documents.NAME, "Its type; types are not enforced."),
    Key("reducer", documents.NAME, "How a new value is combined with the old one."),
    Key("description", documents.TEXT, "A description, for readers."),
)

CONFIG = mapping_spec(
    "config",
    "Limits of a run.",
    Key("recursion_limit", documents.COUNT, "The largest number of rounds; defaults to 50."),
    Key("max_map_items", documents.COUNT, "The largest number of items of a map; defaults to 100."),
    Key(
        "max_concurrency",
        documents.COUNT,
        "The number of nodes or items that run at the same time; defaults to 8.",
    ),
    Key("timeout", takes.SECONDS, "The longest time for a run."),
    Key("max_tokens", documents.COUNT, "The largest number of tokens for a run."),
    Key("max_cost", takes.DOLLARS, "The largest cost of the models of a run, in US dollars."),
)

_FOLDERS = (
    Key(
        "prompts_dir",
        documents.TEXT,
        "The folder of the prompt files, relative to the notebook's folder.",
    ),
    Key(
        "prompts_relative",
        documents.FLAG,
        "Whether prompt files are searched relative to the graph's file first.",
    ),
)

DEFAULTS = mapping_spec(
    "defaults",
    "Defaults for nodes that ask an agent.",
    Key("on_error", takes.ON_ERROR_RETRY, "Their on_error."),
    Key("on_overflow", takes.OVERFLOW, "A map's on_overflow."),
    Key("identity", documents.NAME, "Their identity."),
    *_FOLDERS,
    *_MODEL,
)

FALLBACK = mapping_spec("fallback", "The model that is asked after a failure.", *PROMPT_MODEL)

EXPORT = mapping_spec(
    "export",
    "A file that is written when a run is exported.",
    Key("format", takes.EXPORT_FORMAT, "json (the default), markdown or text."),
    Key(
        "filename",
        documents.TEXT,
        "The file, relative to the folder of the export; defaults to the name of the key.",
    ),
)

PROMPT_FILE = mapping_spec(
    "prompt",
    "A prompt with its parts, in a node or in a file.",
    Key(
        "user",
        documents.TEXT,
        "The prompt: a text with {name}, or a Jinja2 template.",
        required=True,
    ),
    Key("system", documents.TEXT, "The system prompt: a message of its own."),
    Key("schema", takes.FIELDS, "The fields of the answer: name and fields."),
    Key("output_schema", takes.JSON_SCHEMA, "In place of schema: a JSON Schema of the answer."),
    *PROMPT_MODEL,
    Key("name", documents.ANYTHING, "A name, for readers."),
    Key("description", documents.ANYTHING, "A description, for readers."),
    Key("version", documents.ANYTHING, "A version, for readers."),
    Key("metadata", documents.ANYTHING, "Anything, for readers."),
)

GRAPH = mapping_spec(
    "graph",
    "A graph.",
    Key("name", documents.NAME, "The name that it is registered and called by."),
    Key("version", documents.ANYTHING, "The version of the text, for readers."),
    Key(
        "description", documents.TEXT, "A description, for people and for agents that may call it."
    ),
    Key("state", takes.STATE, "The keys of the state, each with its type."),
    Key("variables", takes.VARIABLES, "The values of keys before the run, if the input has none."),
    Key("tools", takes.TOOLS, "The tools of the graph."),
    Key("defaults", takes.NODE_DEFAULTS, "Defaults for nodes."),
    Key("config", takes.LIMITS, "Limits of a run."),
    Key("nodes", takes.ALL_NODES, "The nodes.", required=True),
    Key("edges", takes.EDGES, "The edges between the nodes.", required=True),
    Key("loop_limits", takes.LOOP_LIMITS, "How many times a node may run."),
    Key(
        "loop_exits",
        takes.LOOP_EXITS,
        "The next node after a node that reached its limit; defaults to END.",
    ),
    *_FOLDERS,
    Key("exports", takes.EXPORTS, "The files that an export of a run writes, by key of the state."),
    Key("checkpointer", documents.ANYTHING, "Not used: every run is journaled and can be resumed."),
)

REDUCERS: Mapping[str, str] = {
    "add": "appends to a list or a text, adds to a number",
    "sorted_add": "appends to a list and sorts it by _map_index",
    "last_value": "keeps the last value",
}
"""The reducers that a state key may name, each with the words that say what it does."""

BUILT_IN: Mapping[str, str] = {
    "messages": "a list with the reducer add",
    "errors": "a list with the reducer add: the failures of nodes with on_error: skip",
    "current_step": "the node that ran last",
    "_loop_counts": "how often each node has run; only where an expression reads it",
    "_route": "the node that the last router chose",
    "_map_index": "in the node of a map: the number of the item, from 0",
}
"""Keys that need not be declared."""
