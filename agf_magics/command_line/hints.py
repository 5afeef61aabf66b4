"""Hints of the command line: the option that may be missing, the words that a line may have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..text.diagnostics import Diagnostic
from ..text.suggestions import join_hints

OPTIONS = {
    "flow.unknown-tool": "--tools FILE.py imports a file: the functions with @tool in it are registered",
    "flow.unknown-agent": "--tools FILE.py imports a file: the functions with @agent in it are registered",
    "flow.no-agent": "--tools FILE.py imports a file: the functions with @agent in it are registered",
    "flow.unknown-flow": "--define FILE registers a definition that this one calls",
}
"""The option of the command line that may be missing, by the code of the error."""


def with_option(problem: Diagnostic) -> Diagnostic:
    """``problem`` with a hint at the option that may be missing."""
    option = OPTIONS.get(problem.code)
    return replace(problem, hint=join_hints(problem.hint, option)) if option else problem


def one_of(names: Iterable[str]) -> str:
    """Two or more names as a choice: ``run, resume or check``."""
    *first_names, last = names
    return f"{', '.join(first_names)} or {last}"
