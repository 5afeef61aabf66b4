"""Collects the error codes in the source, each of which must have an entry in the error reference.

Most codes are literals. The others are composed in the few ways that this file lists; a test fails for any further way.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

PACKAGE = Path(__file__).parents[1] / "agf_magics"

LAYERS = (
    "yaml", "schema", "pipeline", "r1", "flow", "run", "step", "tool", "agent", "limit", "magic", "settings", "define",
    "evaluate", "file", "policy", "path", "plan", "reference", "graph", "value", "condition", "model", "journal",
    "gate", "planner", "on", "over", "score",
    "gate", "planner", "on", "replay", "mcp",
)  # fmt: skip
"""The part of a code before the dot."""

CODE = re.compile(rf"^(?:{'|'.join(LAYERS)})\.[a-z0-9-]+$")
WHAT = re.compile(r"^[a-z0-9]+(?:-[a-z0-9]+)*$")

LAYER_OF = {"notebook": "magic", "commands": "magic"}
"""Rooms whose functions in `REPORT` take a code without its layer."""

REPORT = ("wrong", "_wrong", "warn", "error", "_error", "line_error", "check_known", "_bad_setting")

COMPOSED: dict[str, tuple[str, ...]] = {
    "step.{kind}-failed": (
        "step.tool-failed",
        "step.agent-failed",
        "step.transform-failed",
        "step.policy-failed",
        "step.question-failed",
    ),
    "{self.layer}.unknown-key": ("graph.unknown-key", "pipeline.unknown-key", "plan.unknown-key", "schema.unknown-key"),
    "{self.layer}.missing-key": ("graph.missing-key", "pipeline.missing-key", "plan.missing-key", "schema.missing-key"),
    "{self.layer}.wrong-type": ("graph.wrong-type", "pipeline.wrong-type", "plan.wrong-type"),
    "{self.layer}.blank-name": ("graph.blank-name", "pipeline.blank-name"),
    "{self.layer}.literal-path": ("graph.literal-path",),
    "{self.layer}.command": ("graph.command", "pipeline.command"),
    "{reader.layer}.count": ("graph.count", "pipeline.count"),
    "magic.{what}": ("magic.days", "magic.dollars", "magic.seconds"),
    "magic.{name}": ("magic.unknown-setting", "magic.setting"),
    "score.{column}": (),  # a column of a table, not a code
}
"""The codes that are composed, and the codes that result (empty: see `LAYER_OF`)."""


def codes() -> dict[str, str]:
    """Each code, with the first file in which it occurs."""
    first_files: dict[str, str] = {}
    for name, tree in _modules():
        for code in _whole(tree):
            first_files.setdefault(code, name)
        if layer := LAYER_OF.get(name.partition("/")[0]):
            for bare_code in _without_layer(tree):
                first_files.setdefault(f"{layer}.{bare_code}", name)
    for composed_as, whole in COMPOSED.items():
        for code in whole:
            first_files.setdefault(code, composed_as)
    return dict(sorted(first_files.items()))


def composed() -> set[str]:
    """Every f-string that looks like a code."""
    shape = re.compile(
        rf"^(?:(?:(?:{'|'.join(LAYERS)})\.|\{{\w+\}}\.[a-z0-9]+-)[a-z0-9-]*\{{\w+\}}|\{{\w+\.layer\}}\.)[a-z0-9-]*$"
    )
    return {
        text
        for _, tree in _modules()
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr) and shape.match(text := ast.unparse(node)[2:-1])
    }


def _modules() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def _whole(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.match(node.value):
            yield node.value


def _without_layer(tree: ast.Module) -> Iterator[str]:
    """The first argument of each call of a function in `REPORT`; both, if it is a choice between two."""
    for node in ast.walk(tree):
        name = getattr(node.func, "attr", getattr(node.func, "id", "")) if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Call) and name in REPORT and node.args:
            for part in ast.walk(node.args[0]):
                if isinstance(part, ast.Constant) and isinstance(part.value, str) and WHAT.match(part.value):
                    yield part.value
