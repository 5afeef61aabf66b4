"""The parts of the reference that are made from the code.

A page marks the place of a part with ``<!-- generated: NAME -->`` and ``<!-- end of generated -->``. The text between
the two is committed, so that the Markdown in the repository is complete. ``python -m docs tables`` writes it, and a
test compares it with the code. Keys come from the table that the loader uses, magics from the table that the parser of
their lines uses, settings from their fields.
"""

from __future__ import annotations

import ast
import inspect
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import Any, get_args

import agf_magics as agf
from agf_magics import __main__
from agf_magics.commands.line import Command
from agf_magics.commands.magics import COMMANDS
from agf_magics.flow.progress import events
from agf_magics.languages.graph import words as graph_words
from agf_magics.languages.keys import Key, MappingSpec
from agf_magics.languages.pipeline import takes, words
from agf_magics.languages.pipeline.r1.functions import FUNCTIONS
from agf_magics.languages.pipeline.r1.row import Function
from agf_magics.languages.pipeline.schema_documents import TYPES
from agf_magics.languages.plan import words as plan_words
from agf_magics.notebook.config import SHARED, AgfMagics
from agf_magics.settings import settings
from tests import ways

from .cards import card
from .markdown import code as _code
from .markdown import table as _table
from .policy_tables import policy

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
END = "<!-- end of generated -->"
MARK = re.compile(
    r"^(?P<begin><!-- generated: (?P<table>[\w-]+)(?: (?P<argument>[\w-]+))? -->)$"
    rf"(?:(?:\n(?!<!-- generated).*)*?\n{END}$)?",
    re.MULTILINE,
)


def fill(page: str) -> str:
    """``page`` with its generated parts as the code gives them now."""

    def generated(part: re.Match[str]) -> str:
        table = TABLES[part["table"]](*filter(None, [part["argument"]]))
        return f"{part['begin']}\n\n{table}\n\n{END}"

    return MARK.sub(generated, page)


def _keys(kind: MappingSpec) -> str:
    rows = [
        (f"`{key.name}`", "yes" if key.required else "no", _code(key.takes.says), _meaning(key))
        for key in kind.keys.values()
    ]
    return _table(("key", "required", "type", "meaning"), rows)


def _meaning(key: Key) -> str:
    """The documentation of a key, and the names that its value can use."""
    sees = f" It sees `{'`, `'.join(key.binds)}` in addition to `ctx` and `pipe`." if key.binds else ""
    return _code(key.doc) + sees


def step(kind: str) -> str:
    return _keys(words.STEPS[kind])


def document(kind: str) -> str:
    return _keys(words.DOCUMENTS[kind])


def target() -> str:
    return _keys(takes.TARGET)


def field_types() -> str:
    rows = []
    for name, kind in TYPES.items():
        keys = [key for key in kind.keys.values() if key.name not in ("type", "required")]
        names = ", ".join(f"`{key.name}`{'' if key.required else ' (optional)'}" for key in keys)
        rows.append((f"`{name}`", kind.doc, names or "none"))
    return _table(("type", "what conforms", "its keys in addition to `type` and `required`"), rows)


def functions(rows: Mapping[str, Function] = FUNCTIONS) -> str:
    return _table(("function", "result"), ((f"`{row.form}`", row.doc) for row in rows.values()))


def magics() -> str:
    return "\n\n".join(map(_magic, COMMANDS.values()))


def _magic(command: Command) -> str:
    rows = [(f"`{o.metavar}`", _code(o.help) + _again(o.many)) for o in command.operands]
    rows += [(f"`{o.flag} {o.metavar}`".replace(" `", "`"), _code(o.help) + _again(o.many)) for o in command.options]
    rows.append(("`-h`, `--help`", "show this in the notebook"))
    return "\n\n".join(
        [
            f"## {command.name}",
            command.about,
            f"<!-- not run: its form -->\n```text\n{_wrapped(command.usage)}\n```",
            _table(("argument", "meaning"), rows),
            f"{EXAMPLE}\n```ipython\n{command.example}\n```",
        ]
    )


EXAMPLE = "<!-- not run: an example -->"


def _again(many: bool) -> str:
    return "; can be repeated" if many else ""


def _wrapped(usage: str, width: int = 88) -> str:
    """The form of a magic on lines of about this width, broken between its words."""
    first, *words = re.findall(r"\[[^\]]*\](?:\.\.\.)?|\S+", usage)
    lines = [first]
    for word in words:
        if len(lines[-1]) + len(word) > width:
            lines.append("   ")
        lines[-1] += f" {word}"
    return "\n".join(lines)


def shared_settings() -> str:
    defaults = settings.Settings()
    docs = {setting.name: setting.metadata["about"] for setting in fields(settings.Settings)}
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
    """The docstring of each field of a class."""
    tree = ast.parse(inspect.getsource(module))
    (definition,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    docs: dict[str, str] = {}
    for field, below in zip(definition.body, definition.body[1:], strict=False):
        is_text = isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name) and is_text:
            docs[field.target.id] = " ".join(str(below.value.value).split())  # type: ignore[attr-defined]
    return docs


def api(group: str) -> str:
    return "\n\n".join(_entry(name) for name in API[group])


API: Mapping[str, tuple[str, ...]] = {
    "functions": ("define", "load", "run", "arun", "start", "evaluate", "draw", "export", "report", "trace_to"),
    "launches": (
        "agent_tools.launch_tools",
        "agent_tools.run_pipeline",
        "agent_tools.run_pipeline_async",
        "agent_tools.run_pipeline_inline",
        "agent_tools.run_pipeline_inline_async",
        "agent_tools.run_result",
    ),
    "history": ("resume", "rerun", "stale", "runs", "PastRun", "record", "replay", "replay_model", "import_run"),
    "over": ("Over", "score_over", "compare_over", "check_over", "CheckFailed"),
    "plans": (
        "context",
        "NamedContext",
        "planning.run_planner",
        "planning.PlannerResult",
        "planning.branch",
        "planning.Message",
    ),
    "mcp": ("mcp.connect", "mcp.close_all", "mcp.servers", "mcp.Server", "mcp.serve", "mcp.FlowsServed"),
    "decorators": ("tool", "agent", "model_agent", "transform", "policy"),
    "things": ("Flow", "Run", "Event", "Question", "Limits", "Retry", "ToolContext", "Workers", "Registry", "registry"),
    "errors": ("AgfError", "DefinitionError", "StepError", "RunCancelled", "RunInterrupted", "Diagnostic"),
}
"""The names of ``agf_magics.__all__`` and of its two modules, by the section of the reference that shows them."""


def _entry(name: str) -> str:
    thing = attrgetter(name)(agf)
    parts = [f"### {name}"]
    if inspect.isfunction(thing):
        parts.append(f"<!-- not run: a signature -->\n```python\n{name}{_signature(thing)}\n```")
    parts.append(_markdown(VALUES.get(name) or inspect.getdoc(thing) or ""))
    return "\n\n".join(parts)


VALUES: Mapping[str, str] = {
    "Event": "One of the [events](events.md) of a run: the type of what `on_event` receives.",
    "mcp.servers": "The connected servers: a mapping of names to `mcp.Server`, of this process.",
    "registry": "The `Registry` of this process, the default of each parameter `registry`.",
}
"""What is neither a class nor a function."""


STARS: dict[object, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def _signature(function: Callable[..., Any]) -> str:
    """The signature of a function, a parameter a line."""
    signature = inspect.signature(function)
    texts = list[str]()
    for parameter in signature.parameters.values():
        kind = parameter.kind
        if kind is parameter.KEYWORD_ONLY and not any(text.startswith("*") for text in texts):
            texts.append("*")
        stars = STARS.get(kind, "")
        default = "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        texts.append(f"{stars}{parameter.name}: {parameter.annotation}{default}")
        if kind is parameter.POSITIONAL_ONLY:
            texts.append("/")
    lines = "".join(f"\n    {text}," for text in texts)
    return f"({lines}\n) -> {signature.return_annotation}"


def _markdown(docstring: str) -> str:
    """A docstring as Markdown: names have one backtick instead of two, and decisions are not cited."""
    text = re.sub(r"``(.+?)``", r"`\1`", docstring)
    return re.sub(r" \(decisions? [A-Z]\d+(?:, [A-Z]\d+)*\)", "", text)


EVENTS: Mapping[str, str] = {
    "RunStarted": "The first event.",
    "StepStarted": "An attempt started; `attempt` counts from 1.",
    "StepFinished": "The attempt ended with this value.",
    "StepFailed": "The attempt failed.",
    "StepCancelled": "The attempt was cancelled.",
    "FanOutStarted": "A `for_each`, `fold`, `parallel` or `map` starts; `width` is its number of items or branches, "
    "and `over` the sequence of the items.",
    "QuestionAnswered": "A question has its answer, from a person or from `ask=`.",
    "Warned": "The run has a warning.",
    "CancelAsked": "The run is being cancelled, by `cancel()`, *Cancel* or ■: its calls have two seconds to stop.",
    "RunEnded": "The last event; `status` is `ok`, `error`, `cancelled` or `waiting`.",
}
"""The events whose class has no docstring."""


def event_list() -> str:
    rows = []
    for kind in get_args(events.Event):
        text = EVENTS.get(kind.__name__) or _markdown(" ".join((kind.__doc__ or "").split()))
        rows.append((f"`{kind.__name__}`", ", ".join(f"`{name}`" for name in kind._fields), text))
    return _table(("event", "fields", "when"), rows)


GRAPH_KINDS: Mapping[str, MappingSpec] = {
    kind.name.replace(" ", "_"): kind
    for kind in (
        *graph_words.NODES.values(), graph_words.GRAPH, graph_words.EDGE, graph_words.TOOL, graph_words.STATE_KEY,
        graph_words.CONFIG, graph_words.DEFAULTS, graph_words.PROMPT_FILE, graph_words.FALLBACK, graph_words.EXPORT,
    )
}  # fmt: skip


def graph(name: str) -> str:
    """The keys of a graph's node, of an edge, of the graph itself."""
    rows = [
        (f"`{key.name}`", "yes" if key.required else "no", _code(key.takes.says), _code(key.doc))
        for key in GRAPH_KINDS[name].keys.values()
    ]
    return _table(("key", "required", "type", "meaning"), rows)


def graph_names(kind: str) -> str:
    """The reducers, or the built-in keys of the state."""
    names: Mapping[str, str] = {"reducers": graph_words.REDUCERS, "built-in": graph_words.BUILT_IN}[kind]
    return _table(("name", "meaning"), ((f"`{name}`", _code(text)) for name, text in names.items()))


def command_line() -> str:
    parts = []
    for name, (command, _) in __main__.ACTS.items():
        rows = [(f"`{o.metavar}{' …' * o.many}`", o.help) for o in command.operands]
        rows += [(f"`{o.shown}`", f"{o.help}{_again(o.many)}") for o in command.options]
        table = f"\n\n{_table(('argument', 'meaning'), rows)}" if rows else ""
        parts.append(f"## agf-magics {name}\n\n{command.about}{table}")
    return "\n\n".join(parts)


def plan_keys(which: str) -> str:
    keys = {"document": plan_words.PLAN, "call": plan_words.CALL}[which].keys
    required = {"document": ("calls",), "call": ("_tool",)}[which]
    rows = ((f"`{name}`", "yes" if name in required else "no", key.takes.says, key.doc) for name, key in keys.items())
    return _table(("key", "required", "type", "meaning"), rows)


METHODS = {
    "set": "The result replaces the existing value.",
    "merge": "Objects are merged deeply: the newer value wins, lists are replaced as a whole, null overwrites.",
    "assign": "The fields of the result replace the fields of the same names.",
    "push": "The result is appended to a list as one element.",
    "concat": "A list is appended to a list, or a text to a text.",
}
"""By `_outputMethod`."""


def plan_methods() -> str:
    return _table(("`_outputMethod`", "effect on the result"),
                  ((f"`{name}`", text) for name, text in METHODS.items()))  # fmt: skip


def way_list() -> str:
    """The files of the ways of `tests.ways`, by room; their order depends on when threads run."""
    rows = []
    for name, way in ways.ways().items():
        rooms: dict[str, list[str]] = {}
        for path in sorted(ways.files(way)):
            room, _, file = path.removesuffix(".py").rpartition("/")
            rooms.setdefault(room, []).append(file)
        places = "; ".join(f"**{room or 'agf_magics'}** {', '.join(files)}" for room, files in rooms.items())
        rows.append((name, str(len(ways.files(way))), places))
    return _table(("way", "files", "where"), rows)


EXTRAS: Mapping[str, tuple[str, str]] = {
    "diagrams": (
        "pictures as `.png` and `.pdf` files",
        "pictures are shown, and saved as `.svg`, `.html`, `.dot` and `.mmd`",
    ),
    "openai": ("OpenAI's models as agents, and servers with its protocol; prices", "agents are Python functions"),
    "anthropic": ("Anthropic's models as agents; prices", "the same"),
    "google": ("Google's models as agents; prices", "the same"),
    "llm": ("the models of all three", "the same"),
    "graphs": ("Jinja2 prompts in graphs", "a graph with such a prompt is refused with `graph.jinja-not-installed`"),
    "processes": ("`--on processes`, and any Python value in the journal", "concurrent calls run on threads"),
    "dask": ("`--on dask`: concurrent calls on a cluster", "the same"),
    "otel": ("runs as OpenTelemetry traces", "`trace_to` needs the SDK"),
    "lsp": ("the [language server](editors.md) for editors", "`agf-magics lsp` is refused with `define.not-installed`"),
    "mcp": ("MCP: servers' tools in flows, flows as tools", "what needs it is refused with `mcp.not-installed`"),
    "sql": ("SQL over tables, in DuckDB", "the message has the line that installs it"),
    "lab": ("JupyterLab, Notebook and the kernel", "install them yourself, or use those that you have"),
    "test": ("all above, and what `make test` needs", "for contributors"),
    "docs": ("what `make docs` needs", "for contributors"),
    "bench": ("what `make bench` compares with", "for contributors"),
    "browser": ("what `make browser` needs", "for contributors"),
    "lite": ("what `make lite` needs", "for contributors"),
    "release": ("what a release needs", "for contributors"),
}
"""Each extra: what it is for, and what holds without it. The packages come from pyproject.toml."""


def extras() -> str:
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    rows = []
    for name, requirements in project["optional-dependencies"].items():
        packages = [f"`{re.split('[<>=;]', requirement)[0]}`" for requirement in requirements]
        shown = ", ".join(packages[:4]) + (f" and {len(packages) - 4} more" if len(packages) > 4 else "")
        purpose, without = EXTRAS[name]
        rows.append((f"`{name}`", purpose, shown, without))
    return _table(("extra", "what you get", "packages", "without it"), rows)


TABLES: Mapping[str, Callable[..., str]] = {
    "card": card,
    "extras": extras,
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
    "ways": way_list,
}
