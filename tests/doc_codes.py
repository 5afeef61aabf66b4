"""Every error code that occurs in the source, found by reading it: what the error reference must have an entry for.

Most codes stand there whole. The others are put together in a few places, each listed here; a place that is not listed
fails a test, so a code cannot hide.
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
    "gate",
)  # fmt: skip
"""What stands before the dot of a code."""

CODE = re.compile(rf"^(?:{'|'.join(LAYERS)})\.[a-z0-9-]+$")
WHAT = re.compile(r"^[a-z0-9]+(?:-[a-z0-9]+)*$")

SAID_BY = {
    "languages/pipeline/body.py": "pipeline",
    "languages/pipeline/calls.py": "pipeline",
    "languages/pipeline/load.py": "pipeline",
    "languages/pipeline/steps.py": "pipeline",
    "languages/pipeline/schema_documents.py": "schema",
    "definitions/files.py": "file",
    "languages/plan/calling.py": "plan",
    "languages/plan/document.py": "plan",
    "languages/plan/load.py": "plan",
    "notebook/background.py": "magic",
    "notebook/config.py": "magic",
    "notebook/contexts.py": "magic",
    "notebook/history.py": "magic",
    "notebook/magics.py": "magic",
    "notebook/given.py": "magic",
    "notebook/languages.py": "magic",
    "notebook/options.py": "magic",
}
"""Modules whose function ``wrong`` (``_wrong``, ``warn``) is given a code without its layer."""

COMPOSED = {
    ("engine/failures.py", "step.{what}-failed"): (
        "step.tool-failed",
        "step.agent-failed",
        "step.transform-failed",
        "step.policy-failed",
        "step.question-failed",
    ),
    ("definitions/files.py", "file.{what}"): (),
    ("languages/pipeline/body.py", "pipeline.{what}"): (),
    ("languages/plan/document.py", "plan.{what}"): (),
    ("languages/pipeline/schema_documents.py", "schema.{code}"): (),
    ("notebook/config.py", "magic.{what}"): (),
    ("notebook/options.py", "magic.{what}"): (),
}
"""Where a code is put together, and what it comes to (nothing: see `SAID_BY`)."""


def codes() -> dict[str, str]:
    """Each code, with the first file that has it."""
    found: dict[str, str] = {}
    for name, tree in _modules():
        for code in _whole(tree):
            found.setdefault(code, name)
        if name in SAID_BY:
            for what in _said(tree):
                found.setdefault(f"{SAID_BY[name]}.{what}", name)
    for (name, _), whole in COMPOSED.items():
        for code in whole:
            found.setdefault(code, name)
    return dict(sorted(found.items()))


def composed() -> set[tuple[str, str]]:
    """Every place where a text that looks like a code is put together."""
    shape = re.compile(rf"^(?:(?:{'|'.join(LAYERS)})\.|\{{\w+\}}\.[a-z0-9]+-)[a-z0-9-]*\{{\w+\}}[a-z0-9-]*$")
    return {
        (name, text)
        for name, tree in _modules()
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


def _said(tree: ast.Module) -> Iterator[str]:
    """The first argument of every call of ``wrong`` or ``error``; the name of one that is a choice has both."""
    for node in ast.walk(tree):
        name = getattr(node.func, "attr", getattr(node.func, "id", "")) if isinstance(node, ast.Call) else ""
        if isinstance(node, ast.Call) and name in ("wrong", "_wrong", "warn", "error", "line_error", "_bad_setting"):
            for part in ast.walk(node.args[0]):
                if isinstance(part, ast.Constant) and isinstance(part.value, str) and WHAT.match(part.value):
                    yield part.value
