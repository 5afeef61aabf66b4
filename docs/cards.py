"""The cards: one printable page for each language, from the tables that its loader reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from agf_magics.commands.magics import COMMANDS
from agf_magics.languages.graph import words as graph_words
from agf_magics.languages.graph.takes import TYPES as STATE_TYPES
from agf_magics.languages.keys import MappingSpec
from agf_magics.languages.pipeline import words
from agf_magics.languages.pipeline.r1.functions import FUNCTIONS
from agf_magics.languages.pipeline.schema_documents import TYPES
from agf_magics.languages.plan import words as plan_words
from agf_magics.languages.policy import SCHEMA

from .markdown import table


def card(language: str) -> str:
    """Its parts, its keys, and the form of its cell."""
    (command,) = (each for each in COMMANDS.values() if each.name == f"%%{language}")
    options = " ".join(f"`{option.flag}`" for option in command.options)
    return f"{CARDS[language]()}\n\n**Options of `%%{language}`.** {options}"


def _kinds(name: str, kinds_of: Iterable[MappingSpec]) -> str:
    return table((name, "keys"), ((f"`{kind.name}`", _keys(kind)) for kind in kinds_of))


def _keys(kind: MappingSpec) -> str:
    return _marked(kind.keys, [key.name for key in kind.keys.values() if key.required or key.name == "_tool"])


def _marked(names: Iterable[str], required: Iterable[str]) -> str:
    """Required keys first; a key that may be left out has a question mark."""
    needed = [*required]
    return " ".join([*(f"`{name}`" for name in needed), *(f"`{name}`?" for name in names if name not in needed)])


def _pipeline() -> str:
    types = ", ".join(f"`{name}`" for name in TYPES)
    functions = " · ".join(f"`{function.form}`" for function in FUNCTIONS.values())
    documents = words.DOCUMENTS.values()
    return "\n\n".join(
        [_kinds("document", documents), _kinds("step", words.STEPS.values()), f"**Types of a schema.** {types}",
         f"**Functions.** {functions}"]
    )  # fmt: skip


def _policy() -> str:
    def fields(name: str) -> str:
        rule = SCHEMA if name == "document" else SCHEMA["$defs"][name]
        return _marked(rule["properties"], rule.get("required", ()))

    parts = ("document", "Interface", "ExecutionPolicy", "ActionSpace", "LocalTool", "LocalAgent")
    policies = [name for name in SCHEMA["$defs"] if name.endswith("Config") and name != "ApprovalConfig"]
    operators = ", ".join(f"`{name}`" for name in SCHEMA["$defs"]["Operators"]["properties"])
    rows = [(f"*{name}*", fields(name)) for name in parts if name == "document" or name in SCHEMA["$defs"]]
    configs = [(f"`agf.{name.removesuffix('Config').lower()}`", fields(name)) for name in policies]
    return "\n\n".join(
        [
            table(("part", "fields"), rows),
            table(("config of", "fields"), configs),
            f"**Operators of a condition.** {operators}",
        ]
    )


def _plan() -> str:
    return _kinds("part", (plan_words.PLAN, plan_words.CALL))


def _graph() -> str:
    reducers = ", ".join(f"`{name}`" for name in graph_words.REDUCERS)
    parts = (graph_words.GRAPH, graph_words.EDGE, graph_words.STATE_KEY, graph_words.CONFIG, graph_words.DEFAULTS)
    types = ", ".join(f"`{name}`" for name in STATE_TYPES)
    return "\n\n".join(
        [_kinds("part", parts), _kinds("node", graph_words.NODES.values()), f"**Types of the state.** {types}",
         f"**Reducers.** {reducers}"]
    )  # fmt: skip


CARDS: Mapping[str, Callable[[], str]] = {"pipeline": _pipeline, "policy": _policy, "plan": _plan, "graph": _graph}
