"""Steps as other programs write them, read as the steps that they mean.

GitHub Actions, Airflow and n8n put the name of a step, what it calls and its arguments beside each
other: ``{name: fetch it, uses: fetch, with: {url: x}}``. Here a step is one key, its kind.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from ...text.yaml.nodes import Fields, Node, Scalar, flow_text, is_text
from ..foreign_keys import ELSEWHERE
from ..keys import MappingSpec

_CALLED = ("uses", "action", "function", "python_callable", "callable")
"""Keys that name what a step calls."""
_COMMANDS = ("run", "script", "cmd", "command", "bash")
"""Keys that hold the command of a step."""
_WRAPPED = ("op_kwargs", "options")
"""More keys for the arguments of a call than those with the meaning ``args`` of `ELSEWHERE`."""


class ForeignStep(NamedTuple):
    """The step that another way of writing means."""

    kind: Scalar
    """The kind of the step, at the key that says it."""
    body: Fields
    """Its keys."""
    hint: str
    """What to write."""
    unread: tuple[Scalar, ...]
    """The keys that no step has."""


def foreign_step(node: Fields, kinds: Mapping[str, MappingSpec]) -> ForeignStep | None:
    """The step that ``node`` means, which has no kind with its keys; None: that is not clear."""
    word, kind, first = _kind(node, kinds)
    if not kind:
        return None
    keys_of_kind = kinds[kind].keys
    fields = dict[str, Node]()
    keys = dict[str, Scalar]()
    unread = list[Scalar]()
    title = ""
    for name, value in node.fields.items():
        right = first if name == word else name
        if name not in keys_of_kind and (ELSEWHERE.get(name) == "args" or name in _WRAPPED):
            right = "args"
        if name == "title" or (first and name != word and ELSEWHERE.get(name) == "id"):
            title = title or flow_text(value)
        elif right in keys_of_kind and right not in fields:
            fields[right], keys[right] = value, node.keys[name]
        elif right:
            unread.append(node.keys[name])
    body = Fields(fields, keys, node.whole)
    step = f"{kind}: {flow_text(body)}"
    hint = f"write: {{title: {title}, {step}}}" if title else f"write: {step}"
    return ForeignStep(node.keys[word]._replace(text=kind), body, hint, tuple(unread))


def _kind(node: Fields, kinds: Mapping[str, MappingSpec]) -> tuple[str, str, str]:
    """The key that says the kind of a step, the kind, and the key of the kind that its value means;
    empty texts: there is none."""
    named = [word for word in node.fields if word in kinds]
    if not named and (word := _first_text(node, ("type", "kind"))):
        return (word, node.text_at(word), "") if node.text_at(word) in kinds else ("", "", "")
    if not named and (word := _first_text(node, _CALLED)):
        return word, "tool", "name"
    if not named and (word := _first_text(node, _COMMANDS)):
        return (word, "shell", "command") if "\n" not in node.text_at(word) else ("", "", "")
    kind = named[0] if len(named) == 1 and is_text(node.fields[named[0]]) else ""
    first = next(iter(kinds[kind].keys.values())) if kind else None
    if first is None or not first.required or (kind == "tool" and _CALL.search(node.text_at(kind))):
        return "", "", ""
    # {tool: fetch, args: {…}}, {agent: critic, prompt: …}
    is_identity = first.name in node.fields and "identity" in kinds[kind].keys
    return kind, kind, "identity" if is_identity else first.name


_CALL = re.compile(r"[()]")
"""A sign of a call as in Python, whose hint is another one."""


def _first_text(node: Fields, words: tuple[str, ...]) -> str:
    """The first of ``words`` that has a text; empty: none has."""
    return next((word for word in words if is_text(node.fields.get(word))), "")
