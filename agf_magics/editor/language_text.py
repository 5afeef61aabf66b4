"""Describes a language for an agent that writes definitions: its keys, its functions, an example.

The text is built from the JSON Schema and the tables of the language, so it is always true.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..catalog import Registry
from ..catalog.agents import Agent
from ..catalog.model_agents import ModelAgent
from ..catalog.tools.tool import Tool
from ..flow.flow import Flow
from ..languages import LANGUAGES
from ..pictures.plain import line

MOST_ABOUT = 400
"""Characters of the description of a key."""
MOST_NAMES = 200
"""Registered tools, agents and flows that are listed, of each kind."""

EXAMPLES: Mapping[str, str] = {
    "pipeline": """\
pipeline: large_numbers
description: The numbers above a limit, and their number.
steps:
- transform: {value: "filter(ctx.numbers, n -> n > ctx.limit)", output: large}
- transform: {value: "{numbers: pipe, count: count(pipe)}"}
""",
    "policy": """\
schema_version: "1.4.0"
metadata: {id: ask-twice, name: Ask twice, version: "1", description: A draft and its review.}
interface:
  input: {type: object, properties: {question: {type: string}}, required: [question]}
  output: {type: object}
execution_policy:
  id: agf.sequential
  config:
    steps:
    - agent: writer
    - agent: critic
""",
    "plan": """\
name: cost_of_figs
calls:
- {_tool: price, fruit: fig, _outputPath: †state.price}
- {_tool: times, a: †state.price, b: 2, _outputPath: †state.cost}
""",
    "graph": """\
name: greet
state: {name: str, greeting: str}
nodes:
  hello: {type: passthrough, output: {greeting: "Hello {state.name}"}}
edges:
- {from: START, to: hello}
- {from: hello, to: END}
""",
}
"""A complete definition in each language. Its tools and agents are not registered."""


def language_text(language: str) -> str:
    """The keys of every part of a definition, the functions of its expressions, and an example."""
    described = LANGUAGES[language]
    schema = described.schema or {}
    parts = [f"# {language}", *_parts(schema)]
    if described.functions:
        parts.append("## Functions of expressions")
        parts += [f"- {line(about, MOST_ABOUT)}" for about in described.functions.values()]
    if language in EXAMPLES:
        parts += ["## Example", f"```yaml\n{EXAMPLES[language]}```"]
    return "\n".join(parts) + "\n"


def registered_text(registry: Registry) -> str:
    """The tools, agents and flows that a definition can name."""
    kinds = (
        ("tools", registry.tools.items()),
        ("agents", registry.agents.items()),
        ("flows", registry.flows.items()),
    )
    parts = list[str]()
    for kind, entries in kinds:
        listed = [_named(name, entry) for name, entry in list(entries)[:MOST_NAMES]]
        parts += [f"## Registered {kind}", *(listed or [f"There are no {kind}."])]
    return "\n".join(parts) + "\n"


def _named(name: str, entry: Tool | Agent | ModelAgent | Flow) -> str:
    """A line about a callable: its input, if known, and its purpose."""
    accepts = None
    if isinstance(entry, Flow):
        accepts = ", ".join(dict.fromkeys(str(ref.path[-1]) for ref in entry.inputs))
        about = entry.declared.description
    else:
        about = entry.description
    if isinstance(entry, Tool):
        accepts = entry.takes
    call = line(name, 80)
    if accepts is not None:
        call += f"({line(accepts, MOST_ABOUT)})"
    return f"- `{call}`" + (f": {line(about, MOST_ABOUT)}" if about else "")


def _parts(schema: Mapping[str, Any]) -> Iterator[str]:
    """The parts of a document that the schema names, the whole document first."""
    defined = schema.get("$defs", {})
    if "properties" in schema:
        yield from _keys("The document", schema, defined)
    for name, part in defined.items():
        if "properties" in part:
            yield from _keys(name, part, defined)


def _keys(name: str, part: Mapping[str, Any], defined: Mapping[str, Any]) -> Iterator[str]:
    about = part.get("description")
    yield f"## {name}" + (f": {line(about, MOST_ABOUT)}" if about else "")
    required = part.get("required", ())
    for key, value in part["properties"].items():
        says = _about(value, defined)
        must = " (required)" if key in required else ""
        yield f"- `{key}`{must}" + (f": {line(says, MOST_ABOUT)}" if says else "")


def _about(value: Any, defined: Mapping[str, Any]) -> str:
    """The description of a key, or else of the part to which it refers."""
    if not isinstance(value, Mapping):
        return ""
    referred = defined.get(str(value.get("$ref", "")).rpartition("/")[2], {})
    return str(value.get("description") or referred.get("description", ""))
