"""Hints for documents that follow other languages: with other keys, or lists in place of mappings."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from ..text.yaml.nodes import Fields, Node, flow_text

ELSEWHERE: Final[Mapping[str, str]] = {
    **dict.fromkeys(
        ["if", "when", "condition", "unless", "only_if", "run_if", "skip_if", "if_else"],
        "condition",
    ),
    **dict.fromkeys(
        ["retry", "retries", "max_retries", "attempts", "max_attempts", "tries"], "retries"
    ),
    **dict.fromkeys(["wait", "delay", "retry_delay", "backoff", "sleep", "interval"], "wait"),
    **dict.fromkeys(
        [
            "depends_on",
            "dependson",
            "depends",
            "needs",
            "after",
            "before",
            "upstream",
            "wait_for",
            "waits_for",
            "trigger_rule",
            "requires",
            "parents",
        ],
        "order",
    ),
    **dict.fromkeys(
        ["loop", "for_each", "foreach", "for", "while", "repeat", "with_items", "matrix"], "loop"
    ),
    **dict.fromkeys(
        ["timeout", "timeout_minutes", "execution_timeout", "time_limit", "max_time"], "timeout"
    ),
    **dict.fromkeys(["id", "name", "key", "task_id", "step_id", "label"], "id"),
    **dict.fromkeys(
        ["next", "goto", "then", "edges", "transitions", "on_success", "downstream"], "next"
    ),
    **dict.fromkeys(
        ["conditional_edges", "branch", "conditions", "path_map", "switch"], "branches"
    ),
    **dict.fromkeys(
        ["entry", "entry_point", "start", "start_at", "set_entry_point", "initial_node"], "start"
    ),
    **dict.fromkeys(["end", "finish", "finish_point", "exit_point", "final"], "end"),
    **dict.fromkeys(
        ["args", "arguments", "parameters", "params", "kwargs", "with", "inputs"], "args"
    ),
    **dict.fromkeys(
        ["env", "environment", "secrets", "vars", "uses", "image", "runs_on", "jobs"], "environment"
    ),
}
"""Keys of other languages (GitHub Actions, Airflow, LangGraph, Step Functions), each with its
meaning; the `Reader.advice` of a language is by meanings."""


def advice_on(advice: Mapping[str, str], name: str, value: str = "") -> str:
    """The text of ``advice`` for the key ``name``, by its meaning or by the name; empty: there is
    none. If possible, the author's ``value`` replaces NUMBER or VALUE in the text."""
    word = name.strip("_").lower().replace("-", "_")
    number = value if _NUMBER.fullmatch(value) else "3"
    text = advice.get(ELSEWHERE.get(word, word), "").replace("NUMBER", number)
    return text.replace("VALUE", value) if _IN_HINT.fullmatch(value) else text


ROOTS: Final = ("ctx", "state", "input", "inputs")
"""The first names of the paths in placeholders of our other languages and of their peers."""

_NUMBER: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_IN_HINT: Final = re.compile(r"[\w .<>=!+*/$†|&-]{1,80}")
"""A text without signs that mean something else in the mapping of a hint: ``{{ x }}`` would."""
_NAMING: Final = frozenset({"name", "id", "alias", "key"})
"""Keys that name an entry, in a language that lists what another one maps."""


def reshape_hint(name: str, node: Node, needed_type: object) -> str | None:
    """The hint for a list of named entries at the key ``name``, where JSON Schema wants the type
    object, and for a mapping of entries where it wants an array."""
    if needed_type == "array" and isinstance(node, Fields):
        entries = [flow_text(entry) for entry in node.fields.values() if isinstance(entry, Fields)]
        return f"write {name}: [{', '.join(entries or [flow_text(node)])}]"
    items = getattr(node, "items", ())
    pairs = [pair for item in items if isinstance(item, Fields) for pair in _entry_words(item)]
    return f"write {name}: {{{', '.join(pairs)}}}" if pairs and needed_type == "object" else None


def _entry_words(entry: Fields) -> Iterator[str]:
    """``name: value`` of an entry with a name; of one without, each key with its value."""
    rest = dict(entry.fields)
    for naming in sorted(_NAMING & rest.keys())[:1]:
        name = flow_text(rest.pop(naming))
        rest = {name: Fields(rest, entry.keys, entry.whole)}
    return map("{}: {}".format, rest, map(flow_text, rest.values()))
