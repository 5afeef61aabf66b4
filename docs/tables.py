"""The parts of the reference that the code itself tells: a page asks for one with ``<!-- generated: NAME -->``.

Keys come from the table the loader reads by, magics from the table their lines are read by, settings from their fields:
what the site says of them cannot differ from what they do.
"""

from __future__ import annotations

import argparse
import ast
import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping
from operator import attrgetter
from typing import Any, get_args

import agf_magics as agf
from agf_magics import __main__, settings
from agf_magics.flow.violations import KINDS
from agf_magics.languages.graph import words as graph_words
from agf_magics.languages.pipeline import words
from agf_magics.languages.pipeline.schema_documents import FIELD_KEYS
from agf_magics.languages.plan import words as plan_words
from agf_magics.languages.policy import SCHEMA
from agf_magics.notebook.commands import COMMANDS
from agf_magics.notebook.config import SHARED, AgfMagics
from agf_magics.notebook.options import Command
from agf_magics.progress import events

MARK = re.compile(r"^<!-- generated: ([\w-]+)(?: ([\w-]+))? -->$", re.MULTILINE)


def filled(page: str) -> str:
    """``page`` with everything it asks for in its place."""
    return MARK.sub(lambda asked: TABLES[asked[1]](*filter(None, [asked[2]])), page)


def _table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    head = list(head)
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _keys(kind: words.Kind) -> str:
    rows = [
        (f"`{key.name}`", "yes" if key.required else "no", _code(words.TAKES[key.takes]), _meaning(key))
        for key in kind.keys.values()
    ]
    return _table(("key", "required", "takes", "what it does"), rows)


def _meaning(key: words.Key) -> str:
    """What a key's documentation says, and the names that what stands there sees."""
    sees = f" It sees `{'`, `'.join(key.binds)}` beside `ctx` and `pipe`." if key.binds else ""
    return _code(key.doc) + sees


def _code(text: str) -> str:
    """Braces and the language's own words as code."""
    return re.sub(r"(\{[^}]*\}|!expr|\bctx\b|\bpipe\b|\bacc\b)", r"`\1`", text)


def step(kind: str) -> str:
    return _keys(words.STEPS[kind])


def document(kind: str) -> str:
    return _keys(words.DOCUMENTS[kind])


def target() -> str:
    return _keys(words.TARGET)


def field_types() -> str:
    rows = []
    for name, told in words.FIELD_TYPES.items():
        own = ", ".join(f"`{key}`{'' if needs == 'must' else ' (optional)'}" for key, needs in FIELD_KEYS[name].items())  # type: ignore[index]
        rows.append((f"`{name}`", told, own or "none"))
    return _table(("type", "what conforms", "its keys beside `type` and `required`"), rows)


def functions() -> str:
    return _table(("written", "gives"), ((f"`{form}`", FUNCTIONS_GIVE[name]) for name, form in words.FUNCTIONS.items()))


FUNCTIONS_GIVE: Mapping[str, str] = {
    "map": "the value of the lambda for each element, in order",
    "filter": "the elements for which the lambda is true",
    "all": "`true` if the lambda is true for every element; of an empty list `true`",
    "any": "`true` if the lambda is true for some element; of an empty list `false`",
    "find": "the first element for which the lambda is true, or `null`",
    "count": "how many elements there are",
    "sum": "the sum of a list of numbers; of an empty list `0`",
    "join": "one text of a list of texts, with the separator between them",
    "get": "what stands at the path, or the default (`null` when left out) where nothing stands; never an error",
}


def magics() -> str:
    return "\n\n".join(map(_magic, COMMANDS.values()))


def _magic(command: Command) -> str:
    rows = [(f"`{o.metavar}`", _code(o.help) + _again(o.many)) for o in command.operands]
    rows += [(f"`{o.flag} {o.metavar}`".replace(" `", "`"), _code(o.help) + _again(o.many)) for o in command.options]
    rows.append(("`-h`, `--help`", "show this in the notebook"))
    plain = command.name.lstrip("%")
    return "\n\n".join(
        [
            f"(magic-{plain.replace('_', '-')})=\n## {command.name}",
            command.about,
            f"```text\n{_wrapped(command.usage)}\n```",
            _table(("written", "what it does"), rows),
            f"```{{code-block}} ipython\n{command.example}\n```",
        ]
    )


def _again(many: bool) -> str:
    return "; may be given more than once" if many else ""


def _wrapped(usage: str, width: int = 88) -> str:
    lines = [""]
    for word in re.findall(r"\[[^\]]*\](?:\.\.\.)?|\S+", usage):
        if lines[-1] and len(lines[-1]) + len(word) > width:
            lines.append("   ")
        lines[-1] += f" {word}" if lines[-1].strip() else (word if not lines[-1] else f" {word}")
    return "\n".join(lines)


def shared_settings() -> str:
    defaults = settings.Settings()
    docs = field_docs(settings, "Settings")
    rows = [(f"`{name}`", _in_project(name), f"`{getattr(defaults, name)!r}`", docs[name]) for name in SHARED]
    return _table(("`%config AgfMagics.…`", "in pyproject.toml", "default", "what it sets"), rows)


def _in_project(name: str) -> str:
    return "never" if name in settings.OPENING else f"`{name.replace('_', '-')}`"


def view_settings() -> str:
    traits = AgfMagics.class_traits(config=True)
    rows = [
        (f"`{name}`", f"`{trait.default_value!r}`", str(trait.help))
        for name, trait in traits.items()
        if name not in SHARED
    ]
    return _table(("`%config AgfMagics.…`", "default", "what it sets"), rows)


def field_docs(module: Any, name: str) -> dict[str, str]:
    """The text below each field of a class."""
    tree = ast.parse(inspect.getsource(module))
    (found,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    docs: dict[str, str] = {}
    for field, below in zip(found.body, found.body[1:], strict=False):
        is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and is_text:
            docs[field.target.id] = " ".join(str(below.value.value).split())  # type: ignore[attr-defined]
    return docs


def api(group: str) -> str:
    return "\n\n".join(_entry(name) for name in API[group])


API: Mapping[str, tuple[str, ...]] = {
    "functions": ("define", "load", "run", "arun", "start", "evaluate", "draw"),
    "launches": (
        "agent_tools.launch_tools",
        "agent_tools.run_pipeline",
        "agent_tools.run_pipeline_async",
        "agent_tools.run_pipeline_inline",
        "agent_tools.run_pipeline_inline_async",
        "agent_tools.run_result",
    ),
    "history": ("resume", "runs", "PastRun"),
    "plans": ("context", "NamedContext", "planning.run_planner", "planning.branch", "planning.Message"),
    "decorators": ("tool", "agent", "model_agent", "transform", "policy"),
    "things": ("Flow", "Run", "Event", "Question", "Limits", "Registry", "registry"),
    "errors": ("AgfError", "DefinitionError", "StepError", "RunCancelled", "Diagnostic"),
}
"""Every name of ``agf_magics.__all__``, and of its two modules, where the reference shows it."""


def _entry(name: str) -> str:
    thing = attrgetter(name)(agf)
    parts = [f"(api-{name.lower()}-{'class' if inspect.isclass(thing) else 'name'})=\n### {name}"]
    if inspect.isfunction(thing):
        parts.append(f"```{{code-block}} python\n{name}{_signature(thing)}\n```")
    told = inspect.getdoc(thing) if inspect.isclass(thing) or inspect.isfunction(thing) else REGISTRY
    parts.append(_markdown(told or ""))
    return "\n\n".join(parts)


REGISTRY = "The `Registry` of this process, the default of every parameter `registry`."


def _signature(function: Callable[..., Any]) -> str:
    signature = inspect.signature(function)
    given = []
    for one in signature.parameters.values():
        if one.kind is one.KEYWORD_ONLY and "*" not in given:
            given.append("*")
        default = "" if one.default is one.empty else f" = {one.default!r}"
        given.append(f"{one.name}: {one.annotation}{default}")
        if one.kind is one.POSITIONAL_ONLY:
            given.append("/")
    lines = "".join(f"\n    {one}," for one in given)
    return f"({lines}\n) -> {signature.return_annotation}"


def _markdown(docstring: str) -> str:
    """A docstring is nearly Markdown: names stand in two backticks, indented code in none."""
    text = re.sub(r"``(.+?)``", r"`\1`", docstring)
    return re.sub(r" \(decisions? [A-Z]\d+(?:, [A-Z]\d+)*\)", "", text)


EVENTS: Mapping[str, str] = {
    "RunStarted": "The first event.",
    "StepStarted": "An attempt begins; `attempt` counts from 1.",
    "StepFinished": "It gave its value.",
    "StepFailed": "It failed.",
    "StepCancelled": "It was stopped.",
    "FannedOut": "A `for_each`, `fold` or `parallel` knows how many it will run.",
    "Warned": "Something is worth a warning.",
    "RunEnded": "The last event; `status` is `ok`, `error` or `cancelled`.",
}
"""What those events are whose name says it all to a reader of the code."""


def event_list() -> str:
    rows = []
    for kind in get_args(events.Event):
        told = " ".join((kind.__doc__ or "").split())
        said = EVENTS.get(kind.__name__) or _markdown(told)
        rows.append((f"`{kind.__name__}`", ", ".join(f"`{name}`" for name in kind._fields), said))
    return _table(("event", "fields", "when"), rows)


def policy(name: str) -> str:
    """The fields of a part of an Agent Format document, from the schema that a document is held against."""
    rule = _policy_rule(name)
    required = rule.get("required", ())
    rows = [
        (f"`{key}`", "yes" if key in required else "no", _policy_takes(field), _policy_meaning(field))
        for key, field in rule["properties"].items()
    ]
    return _table(("field", "required", "takes", "what it is"), rows)


def _policy_rule(name: str) -> Mapping[str, Any]:
    rules: Mapping[str, Any] = SCHEMA["$defs"]
    return SCHEMA if name == "document" else rules[name]


def _policy_takes(field: Mapping[str, Any]) -> str:
    """In one cell what a field takes: ``a whole number, at least 1; 10 when left out``."""
    if "$ref" in field:
        name = field["$ref"].rpartition("/")[2]
        takes = POLICY_FORMS.get(name) or f"*{name}*, below"
    elif "enum" in field:
        takes = "one of " + ", ".join(f"`{value}`" for value in field["enum"])
    elif field["type"] == "array":
        takes = f"a list: each {_policy_takes(field['items'])}"
    elif "additionalProperties" in field:
        takes = "a mapping of texts"
    else:
        takes = KINDS[field["type"]].replace("an object", "a mapping")
    bounds = [f"at {word} {field[key]}" for key, word in (("minimum", "least"), ("maximum", "most")) if key in field]
    bounds += ["not empty"] if field.get("minItems") or field.get("minLength") else []
    takes += f" of {field['$comment']}" if "$comment" in field else ""
    default = f"; `{json.dumps(field['default']).strip(chr(34))}` when left out" if "default" in field else ""
    return ", ".join([takes, *bounds]) + default


POLICY_FORMS: Mapping[str, str] = {
    "Alias": "a name: letters a to z, digits and `_`, no digit first",
    "SchemaRef": "a JSON Schema",
    "InputMapping": "a mapping of names to [paths](paths.md)",
    "Condition": "a [condition](paths.md)",
    "Literal": "a text, a number, true or false",
    "OutputFrom": "an alias, `last`, `merge`, `first`, or a *Selection*, below",
    "Approval": "true, false, or an *ApprovalConfig*, below",
    "McpToolRef": "a name, or an *McpTool*, below",
    "SkillRef": "a name, or a *Skill*, below",
}
"""What cannot be told in a table of its own."""


def _policy_meaning(field: Mapping[str, Any]) -> str:
    behind = _policy_rule(field["$ref"].rpartition("/")[2]) if "$ref" in field else {}
    told: str = field.get("description") or behind["description"]
    return re.sub(r"(\{\{[^}]*\}\}|\.\[\]|agf\.\*|x-VENDOR\.NAME)", r"`\1`", told)


GRAPH_KINDS: Mapping[str, graph_words.Kind] = {
    kind.name.replace(" ", "_"): kind
    for kind in (
        *graph_words.NODES.values(), graph_words.GRAPH, graph_words.EDGE, graph_words.TOOL, graph_words.STATE_KEY,
        graph_words.CONFIG, graph_words.DEFAULTS,
    )
}  # fmt: skip


def graph(name: str) -> str:
    """The keys of a graph's node, of an edge, of the graph itself."""
    rows = [
        (f"`{key.name}`", "yes" if key.required else "no", _code(graph_words.TAKES[key.takes]), _code(key.doc))
        for key in GRAPH_KINDS[name].keys.values()
    ]
    return _table(("key", "required", "takes", "what it does"), rows)


def graph_names(what: str) -> str:
    """Names of graphs that have a line each."""
    told: Mapping[str, str] = {"reducers": graph_words.REDUCERS, "built-in": graph_words.BUILT_IN}[what]
    return _table(("name", "meaning"), ((f"`{name}`", _code(text)) for name, text in told.items()))


def command_line() -> str:
    (acts,) = (action for action in __main__._parser()._actions if isinstance(action, argparse._SubParsersAction))
    parts = []
    for name, act in acts.choices.items():
        about = str(act.description)
        rows = [_argument(action) for action in act._actions if not isinstance(action, argparse._HelpAction)]
        table = _table(("written", "what it does"), rows)
        parts.append(f"## agf-magics {name}\n\n{about[:1].upper()}{about[1:]}.\n\n{table}")
    return "\n\n".join(parts)


def _argument(action: argparse.Action) -> tuple[str, str]:
    written = action.option_strings[0] if action.option_strings else "FILE"
    value = f" {action.metavar}" if action.metavar and action.option_strings else ""
    return f"`{written}{value}`", f"{action.help}{_again(isinstance(action, argparse._AppendAction))}"


def plan_keys(which: str) -> str:
    keys = {"document": plan_words.PLAN, "call": plan_words.CALL}[which]
    required = {"document": ("calls",), "call": ("_tool",)}[which]
    rows = ((f"`{name}`", "yes" if name in required else "no", key.takes, key.doc) for name, key in keys.items())
    return _table(("key", "required", "takes", "what it does"), rows)


METHODS = {
    "set": "The result replaces the existing value.",
    "merge": "Objects are merged deeply: the newer value wins, lists are replaced as a whole, null overwrites.",
    "assign": "The fields of the result replace the fields of the same names.",
    "push": "The result is appended to a list as one element.",
    "concat": "A list is appended to a list, or a text to a text.",
}
"""By `_outputMethod`."""


def plan_methods() -> str:
    return _table(("`_outputMethod`", "what becomes of the result"),
                  ((f"`{name}`", told) for name, told in METHODS.items()))  # fmt: skip


TABLES: Mapping[str, Callable[..., str]] = {
    "plan": plan_keys,
    "plan-methods": plan_methods,
    "step": step,
    "document": document,
    "target": target,
    "field-types": field_types,
    "functions": functions,
    "magics": magics,
    "shared-settings": shared_settings,
    "view-settings": view_settings,
    "api": api,
    "policy": policy,
    "graph": graph,
    "graph-names": graph_names,
    "events": event_list,
    "command-line": command_line,
}
