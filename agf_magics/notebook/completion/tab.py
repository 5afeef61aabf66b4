"""The matcher that answers Tab in IPython. The completion imports the languages, so it is itself imported
at the first Tab."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from IPython.core.completer import CompletionContext, SimpleMatcherResult, context_matcher

if TYPE_CHECKING:
    from ...editor.complete import Surroundings
    from ..notebook import Notebook

Matcher = Callable[[CompletionContext], SimpleMatcherResult]


def matcher(surroundings: Callable[[], Surroundings]) -> Matcher:
    """The matcher for ``shell.Completer.custom_matchers``."""

    def agf_magics(context: CompletionContext) -> SimpleMatcherResult:
        from .matcher_result import matcher_result

        return matcher_result(context, surroundings())

    marked: Matcher = context_matcher(priority=200)(agf_magics)
    return marked


def known(notebook: Notebook, shell: Any) -> Surroundings:
    """What a completion may offer now: the names of the registry, of the notebook, of runs, lessons and
    servers."""
    from ...editor.complete import Surroundings
    from ..magics.exercises import lesson_names
    from ..magics.history import kept_ids
    from ..magics.mcp import server_names

    return Surroundings(
        notebook.registry, shell.user_ns, notebook.frame, kept_ids, lesson_names, server_names
    )
