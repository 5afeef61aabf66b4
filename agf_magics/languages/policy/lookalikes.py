"""Warns of text in a policy that looks like a path but is not replaced (decision P21)."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any

from ...text.diagnostics import Diagnostics
from ...text.yaml.nodes import Scalar
from ..foreign_keys import ROOTS
from .operators import COMPARED

_BRACES = re.compile(r"(?:\$(?=\{\{))?\{{1,3}\s*+([A-Za-z_][A-Za-z0-9_.]*+)\s*+\}{1,3}", re.ASCII)


def input_field(
    path: str, schema: Mapping[str, Any] | None, undeclared: bool = False
) -> str | None:
    """The field of the input that ``topic``, ``input.topic`` or ``parent.input.topic`` names; None:
    there is no such field. ``undeclared``: whether ``topic`` counts even if no fields are
    declared."""
    properties = (schema or {}).get("properties")
    fields = properties if isinstance(properties, Mapping) else None
    root, dot, field = path.removeprefix("parent.").partition(".")
    bare = field if dot and root in ROOTS else path.removeprefix("parent.")
    prefixed = bare != path
    is_field = (prefixed or undeclared) if fields is None else bare.partition(".")[0] in fields
    return bare if is_field and bare else None


def warn_of_braces(
    node: Scalar,
    field_of: Callable[[str], str | None],
    problems: Diagnostics,
    hint: str,
    filled: bool,
) -> None:
    """Warn of placeholders in a text that are not replaced. ``filled``: the text has ``{{name}}``
    placeholders, so only other forms are reported. ``hint`` has ``%s`` for the name of the
    field."""
    for match in _BRACES.finditer(node.text):
        # A name that the input has not may be meant as it stands: JSON, LaTeX, an example.
        field = field_of(match[1])
        if field is None or (
            filled and match[0].lstrip("$").startswith("{{") and field == match[1]
        ):
            continue
        span = node.locate(match.start(), match.end())
        problems.warn(
            "policy.literal-path", f"{match[0]!r} in this text is not replaced", span, hint % field
        )


def warn_of_path(node: Scalar, sources: Collection[str], problems: Diagnostics) -> None:
    """Warn of a matcher's constant that looks like a path."""
    inner = node.text.strip("${} ")
    source, _, rest = inner.partition(".")
    is_path = source in sources and re.match(r"(?:input|output)\.\w", rest, re.ASCII)
    is_placeholder = inner != node.text and source in ROOTS and _FIELD.fullmatch(rest)
    if isinstance(node.value, str) and (is_path or is_placeholder):
        message = f"{node.text!r} is compared as text: a matcher cannot read a path"
        hint = "compare with a constant, or let an agent compare both values and test its output"
        problems.warn("policy.literal-path", message, node.span, hint)
    for comparison in _COMPARED.finditer(node.text):
        message = f"{node.text!r} is compared as text: it is no comparison"
        hint = f"write {{{COMPARED[comparison[1]]}: {comparison[2]}}}"
        problems.warn("policy.literal-path", message, node.span, hint)


_FIELD = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*", re.ASCII)
_COMPARED = re.compile(rf"\A\s*({'|'.join(COMPARED)})\s*(-?[0-9.]+)\s*\Z")
