"""A model for code that uses pydantic-ai itself, which answers from a recording."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ...compat.imports import installed_only
from ...journal.codec.json_texts import encode
from ...journal.records.failures import error_from
from ...pictures.difference import find_differences, shorten_pair
from ...text.diagnostics import Diagnostic, StepError
from ...values.value import Value
from .recording import RecordedCall, read_calls
from .replay import NEAREST_AMONG, NotReplayed


def replay_model(path: str | Path) -> Any:
    """A model for code that uses pydantic-ai itself: it answers from a recording, as in
    ``Agent(agf.replay_model("run.agf"))``. It streams what it answers, and asks nobody.

    A request is found by its conversation: instructions, prompts, the model's replies, the tools
    that it called, their arguments and results. Of equal requests the next one in the file is
    taken.

    ``path``: the file that `record` wrote. Required.

    Raises DefinitionError if the file is not a recording, and at a request that it does not have
    StepError ``replay.missing``, which names the nearest one.
    """
    with installed_only():
        from ...catalog.models.recorded import conversation_of, recorded_model
    path = Path(path)
    requests: dict[str, list[RecordedCall]] = {}
    _, recorded_calls = read_calls(path)
    for call in recorded_calls:
        if call.step_kind == "model" and not call.opaque:
            try:
                requests.setdefault(encode(conversation_of(call.arguments)), []).append(call)
            except (LookupError, TypeError, AttributeError):
                continue  # changed by hand into something that no request says

    def ask(conversation: list[Value]) -> Any:
        calls = requests.get(encode(conversation))
        if not calls:
            raise _no_request(path.name, conversation, requests)
        call = calls.pop(0)
        if call.error is not None:
            raise error_from(call.error, ())
        return call.value

    return recorded_model(path.name, ask)


def _no_request(
    name: str, conversation: list[Value], requests: Mapping[str, list[RecordedCall]]
) -> StepError:
    """The error for a request that is not in the file, with the nearest one that is."""
    message = f"{name} has no request of a model with these messages"
    hint = "record the run again"
    if encode(conversation) in requests:
        message = f"{name} has no more of these requests: each is answered as often as it was made"
        hint = "make a model for each run: agf.replay_model(…)"
    other_requests = map(json.loads, itertools.islice(requests, NEAREST_AMONG))
    pairs = [[*find_differences(other, conversation)] for other in other_requests]
    if nearest := min(pairs, key=len, default=[]):
        before, after = shorten_pair(*nearest[0][1:])
        hint = f"the nearest recorded request has {before}, this one {after}; {hint}"
    return NotReplayed(Diagnostic("replay.missing", message, hint=hint))
