"""The completions of our cells as the result of a matcher of IPython.

The result suppresses all other completions: in a YAML body no answer is better than Python's names.
"""

from __future__ import annotations

import re

from IPython.core.completer import CompletionContext, SimpleCompletion, SimpleMatcherResult

from ...editor.body import Choice
from ...editor.complete import Surroundings, complete
from ...pictures.plain import line as one_line

MOST_DOC = 64
"""The most characters of the text about a choice."""


class Silence(list[SimpleCompletion]):
    """A list whose length is never 0: after an empty list IPython asks its other matchers."""

    def __len__(self) -> int:
        return super().__len__() or 1


def matcher_result(context: CompletionContext, surroundings: Surroundings) -> SimpleMatcherResult:
    """The completions that IPython shows below the cursor, in our order."""
    offer = complete(
        context.full_text, context.cursor_line, len(context.text_until_cursor), surroundings
    )
    if offer is None:
        return SimpleMatcherResult(completions=[], suppress=False)
    is_blank = not context.line_with_cursor.strip()
    choices = Silence(
        SimpleCompletion(text=choice.text, type=_kind(choice, is_blank)) for choice in offer.choices
    )
    return SimpleMatcherResult(
        completions=choices, suppress=True, matched_fragment=offer.fragment, ordered=True
    )


def _kind(choice: Choice, is_blank: bool) -> str:
    """The kind of a choice, as the popup shows it. On a blank line, where a person looks around, the
    first sentence about the choice follows."""
    first = (
        one_line(re.split(r"[.:;](?:\s|$)", choice.doc, maxsplit=1)[0], MOST_DOC)
        if is_blank
        else ""
    )
    return f"{choice.type} · {first}" if first else choice.type
