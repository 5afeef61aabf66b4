"""What a list of runs says of the starts of its runs: their inputs, as a text to search, and their notes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping

from ...journal.codec.encoding import preview
from ...journal.codec.searched_text import searched
from ...journal.database.errors import as_definition_errors
from ...journal.runs import MOST_INPUT, StartText, start_texts
from ..runs.run import Run, state_of
from ..storage.lookup import journal

MOST_KEPT = 20_000
"""The most runs whose texts are kept."""

_kept: dict[str, StartText] = {}
"""The texts by the ids of the runs. They do not change, and a page asks at each key."""


def start_texts_of(run_ids: Iterable[str]) -> Mapping[str, StartText]:
    """The texts of runs of the journal, by their ids, each read once. A damaged run has none. Raises
    DefinitionError."""
    unknown = [run_id for run_id in run_ids if run_id not in _kept]
    if not unknown:
        return _kept
    with as_definition_errors():
        read = start_texts(journal(), unknown)
    texts = {**_kept, **read}
    if len(texts) > MOST_KEPT:
        _kept.clear()
    _kept.update(read)
    return texts


def start_text_here(run: Run) -> StartText:
    """The texts of a run that is not in the journal, without its secrets."""
    shown = json.dumps(run.secrets.shown(preview(run.input)), ensure_ascii=False)
    return StartText(shown[:MOST_INPUT], state_of(run).options.note)


def is_in(word: str, input: str) -> bool:
    """Whether a word is in the text of an input. Quotes and spaces do not count: a list shows
    ``order: "A7"`` for ``{"order":"A7"}``.

    >>> is_in("order:", '{"order":"A7"}'), is_in('"a7"', '{"order":"A7"}'), is_in("b8", '{"order":"A7"}')
    (True, True, False)
    """
    return searched(word) in searched(input)
