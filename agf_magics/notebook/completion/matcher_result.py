"""The completions of our cells as the result of a matcher of IPython.

It suppresses all other completions: in a YAML body an empty answer is better than Python's names.
"""

from __future__ import annotations

import re

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult

from ...editor.body import Choice
from ...editor.complete import Surroundings, complete
from ...pictures.plain import line as one_line

MOST_DOC = 64
"""Characters of the text about a choice."""


class Silence(list[SimpleCompletion]):
    """A list that is never empty by its length: after an empty one IPython asks its other
    matchers."""

    def __len__(self) -> int:
        return super().__len__() or 1


def matcher_result(context: CompletionContext, known: Surroundings) -> SimpleMatcherResult:
    """What IPython shows below the cursor, in our order."""
    found = complete(context.full_text, context.cursor_line, len(context.text_until_cursor), known)
    if found is None:
        return SimpleMatcherResult(completions=[], suppress=False)
    is_blank = not context.line_with_cursor.strip()
    choices = Silence(
        SimpleCompletion(text=one.text, type=_kind(one, is_blank)) for one in found.choices
    )
    return SimpleMatcherResult(
        completions=choices, suppress=True, matched_fragment=found.fragment, ordered=True
    )


def _kind(choice: Choice, is_blank: bool) -> str:
    """The kind of a choice, as the popup shows it; on a blank line, where a person looks around,
    with the first sentence about it."""
    first = (
        one_line(re.split(r"[.:;](?:\s|$)", choice.doc, maxsplit=1)[0], MOST_DOC)
        if is_blank
        else ""
    )
    return f"{choice.type} · {first}" if first else choice.type
