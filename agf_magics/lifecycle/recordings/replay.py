"""Replays the calls of a recording in a run: the same values, without the models and services.

A recorded call is found by its callee and its arguments, never by a digest of the function, so that
a tool may be edited. A table or another object in the arguments counts with a digest of its
content. Of equal calls, the one at the same path is taken, or else the next one in the file, so
that an edited definition still finds them. Everything besides calls really happens: expressions,
joins, limits, events.
"""

from __future__ import annotations

import itertools
import json
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from operator import itemgetter
from pathlib import Path
from typing import Literal

from ...catalog import MASK, Tool
from ...engine.recording import AskedCall, replaying
from ...engine.runner import CallSite
from ...flow.step_path import StepPath
from ...flow.steps import Invoke
from ...journal.calls.digest import CallDigest
from ...journal.calls.known_objects import KnownObjects
from ...journal.codec.encoding import DecodeError, to_show
from ...journal.codec.json_texts import encode
from ...journal.codec.parted import is_plain
from ...journal.codec.secret_search import Search
from ...journal.records.failures import error_json
from ...journal.records.recorded_outcomes import RecordedOutcome
from ...journal.records.records import around, decoded
from ...journal.secrets.masking import HELD_BACK, Secrets
from ...journal.secrets.placeholders import hide
from ...limits.budgets import LimitReached
from ...pictures.amounts import counted
from ...pictures.difference import find_differences, shorten_pair
from ...pictures.plain import line
from ...settings.settings import current
from ...text.diagnostics import DefinitionError, Diagnostic, StepError
from ...text.files import read_file
from ...values.value import Value
from ..runs.live import live
from ..runs.run import state_of
from .masked_calls import fits, has_placeholder, masked_line
from .recording import (
    COMPARED,
    IN_RESULT,
    WITHOUT_SECRET,
    Line,
    RecordedCall,
    Redact,
    asked_line,
    header,
    not_compared,
    outcome_line,
    read_calls,
    redact_line,
    write_lines,
)
from .stored_objects import (
    NotBeside,
    StoredObject,
    folder_of,
    keep_parts,
    store_object,
    value_of_object,
)

Missing = Literal["fail", "call", "record"]
MISSING = ("fail", "call", "record")
ONLY = (None, "models")
MATCH = (None, "model")

ASKS = ("agent", "model", "question")
"""The kinds of calls that ``only="models"`` takes from the file. Agents that are functions ask a
model, too."""

CALL_IT = 'in Python, missing="call" of agf.replay makes calls that are not recorded'

RECORD_IT = (
    "a run does not store what is quicker to make, or cannot be pickled; in Python, "
    'missing="record" of agf.replay makes the call, and stores its result if it can be pickled'
)

_MASK_IN_KEY = json.dumps(MASK)[1:-1]

NEAREST_AMONG = 200
"""Recorded calls among which the nearest one is looked for."""


def _check_choice(name: str, value: object, choices: Sequence[object]) -> None:
    if value not in choices:
        words = ", ".join(map(repr, choices))
        raise ValueError(f"{name} must be one of {words}, got {value!r}")


class NotReplayed(LimitReached):
    """A call is not in the file. As an exceeded limit, it is never dropped, retried or rescued: a
    test must not pass because of it."""

    ends_run = True
    """The error ends the whole run, even if rows of a table have separate limits."""


class Replay:
    """A recording that runs replay. `replay` makes one."""

    def __init__(
        self,
        path: Path,
        missing: Missing = "fail",
        only: str | None = None,
        match: str | None = None,
        redact: Redact | None = None,
        of_run: bool = False,
    ) -> None:
        """``of_run``: whether only one run replays the recording, and warns about unused calls."""
        _check_choice("missing", missing, MISSING)
        _check_choice("only", only, ONLY)
        _check_choice("match", match, MATCH)
        self.path = path
        self.name = path.name
        self.used = 0
        """The number of recorded calls that were taken."""
        self._missing = missing
        self._only = only
        self._match = match
        self._redact = redact
        self._of_run = of_run
        self._head: Line = {}
        calls: list[RecordedCall] = []
        if missing != "record" or path.exists():
            self._head, calls = read_calls(path)
        self._objects = KnownObjects()
        self._digests = CallDigest(current.settings.journal_value, self._objects.digest)
        self._unreadable = set[int]()
        """The numbers of lines that had no result to read. Their calls were made, and `write`
        leaves the lines out."""
        self._lines = [call.at for call in calls]  # in the order of the file
        self._calls: dict[str, dict[StepPath, list[RecordedCall]]] = {}
        """The calls that no run has taken, by their keys and their paths. The last one is the next
        one: a dict and a list are taken apart from their ends."""
        for call in reversed(calls):
            asks = call.outcome == "answered"
            key = self._key(call.step_kind, call.name, call.arguments, asks, call.contents)
            self._calls.setdefault(key, {}).setdefault(call.at, []).append(call)
        self._has_placeholders = any(
            has_placeholder(call.value) or (call.step_kind == "model" and call.opaque == IN_RESULT)
            for call in calls
        )
        """Whether a model has passed a secret to a tool. A replay never learns that secret."""
        self._keys = frozenset(self._calls)
        """The keys of all recorded calls, also of those that runs have taken."""
        self._not_compared: list[str] = []
        """The calls that were made and not recorded, because none would be found again."""
        self._made_lines: list[tuple[Line, Secrets]] = []
        """The lines of calls that were made, with ``missing="record"``, and the secrets of their
        runs."""

    @property
    def replays_tools(self) -> bool:
        return self._only is None

    @property
    def makes_no_call(self) -> bool:
        return self._missing == "fail" and self._only is None

    @property
    def unused(self) -> list[str]:
        """The kinds and names of the recorded calls that no run has taken, in their order."""
        calls = [
            call
            for calls_by_path in self._calls.values()
            for calls_of_path in calls_by_path.values()
            for call in calls_of_path
        ]
        return [f"{call.step_kind} {call.name}".strip() for call in reversed(calls)]

    def problems(self) -> Sequence[Diagnostic]:
        """The warnings about calls that were not used, and about calls that are never found."""
        unused = self.unused if self._only is None else []
        missed = [not_compared(self.name, self._not_compared)] if self._not_compared else []
        if not unused:
            return missed
        counts = Counter(unused).most_common(5)
        names = ", ".join(f"{count:,} × {line(name, 60)}" for name, count in counts)
        message = f"{counted(len(unused), 'call')} of {self.name} not made again: {names}"
        hint = "the definition or its input has changed: record it again if that is meant"
        return [Diagnostic("replay.unused", message, hint=hint, severity="warning"), *missed]

    def notes(self) -> Sequence[Diagnostic]:
        return self.problems() if self._of_run else ()

    def order(self, paths: Sequence[StepPath]) -> list[int]:
        # A policy may take the part that ended first. If some calls are really made, the file does
        # not tell which part that would be.
        if self._missing != "fail" or self._only is not None:
            return []
        ends = [self._ends.get(path, -1) for path in paths]
        return sorted((i for i, end in enumerate(ends) if end >= 0), key=lambda i: ends[i])

    @cached_property
    def _ends(self) -> dict[StepPath, int]:
        """The place among the calls of the last call at each path, or below it."""
        return {outer: number for number, path in enumerate(self._lines) for outer in around(path)}

    # --- calls ---

    def ask(self, site: CallSite[Invoke], kind: str, callee: object, arguments: Value) -> AskedCall:
        """A call in the form of the file, with its arguments masked as in a journal."""
        step = site.step
        hidden = callee.secret if isinstance(callee, Tool) else frozenset[str]()
        public = hide(arguments, hidden)
        most = current.settings.journal_value
        to_write = site.run.secrets.to_show(public, most)
        contents: str | None = None
        # Two tables may have the same preview, so their contents are compared by a digest. A text
        # with a masked secret needs no digest.
        if not to_write.is_whole and not to_show(public, most)[1]:
            contents = self._digests.contents(callee, public) or ""
        name = getattr(callee, "name", step.name.text)
        return AskedCall(kind, step.kind, name, to_write.text, contents, site)

    def is_made(self, asked: AskedCall) -> bool:
        """Whether a call is made although runs replay this recording."""
        is_missing = self._missing != "fail" and self._find_key(asked) is None
        return is_missing or not self._replays(asked.kind)

    def take(self, asked: AskedCall) -> RecordedOutcome | None:
        """The outcome of a call in the file; None if it is to be made. Raises NotReplayed."""
        if not self._replays(asked.kind):
            return None
        key = self._find_key(asked)
        call = self._take_call(key, asked.site.path) if key is not None else None
        if call is None:
            if self._missing == "fail":
                raise self.absent(asked)
            return None
        self.used += 1
        if not call.opaque:
            return RecordedOutcome(call.value, call.error)
        why: DecodeError | None = None
        if call.stored is not None:
            try:
                return RecordedOutcome(self._read(call.stored), None)
            except DecodeError as error:
                why = error
        if self._missing != "fail":
            self._unreadable.add(call.number)
            return None
        raise self._without_result(asked, call, why)

    def _find_key(self, asked: AskedCall) -> str | None:
        """The key of the recorded calls that a call is equal to, or that it fits where a model has
        passed a secret to a tool; None: there is none."""
        key, given = self._key_of(asked)
        if key in self._calls:
            return key
        if not self._has_placeholders or asked.contents is not None:
            return None
        begin = self._begin_of(asked)
        alike = (
            (other, next(iter(by_path.values()))[-1], asked.site.path in by_path)
            for other, by_path in reversed(self._calls.items())
            if other.startswith(begin) and _MASK_IN_KEY in other
        )
        fitting = (
            (is_here, other)
            for other, call, is_here in itertools.islice(alike, NEAREST_AMONG)
            if call.contents is None and fits(call.arguments, given)
        )
        return max(fitting, default=(False, None), key=itemgetter(0))[1]

    def _take_call(self, key: str, path: StepPath) -> RecordedCall:
        """Take the next recorded call with this key: a call at this path if there is one, else a
        call at another path. Each recorded call is taken once."""
        by_path = self._calls[key]
        if path not in by_path:
            path = next(reversed(by_path))
        call = by_path[path].pop()
        if not by_path[path]:
            del by_path[path]
        if not by_path:
            del self._calls[key]
        return call

    def _without_result(
        self, asked: AskedCall, call: RecordedCall, why: DecodeError | None
    ) -> NotReplayed:
        """The error of a call whose result is not in the file, or (``why``) cannot be read."""
        message = f"the result of {asked.kind} {asked.name!r} is not in {self.name}: {call.opaque}"
        hint = WITHOUT_SECRET if call.opaque == IN_RESULT else RECORD_IT
        if why is not None:
            message = (
                f"the result of {asked.kind} {asked.name!r} in {self.name} cannot be read: {why}"
            )
            hint = f"record the run again; {CALL_IT}"
        if isinstance(why, NotBeside):
            folder = folder_of(self.path).name
            hint = f"put the folder {folder} beside {self.name}, or record the run again; {CALL_IT}"
        return NotReplayed(Diagnostic("replay.opaque", message, asked.site.step.place, hint))

    def _read(self, stored: StoredObject) -> Value:
        """The object of a line. Raises DecodeError."""
        value = value_of_object(stored, self.path)
        # The digest is taken of the stored bytes: a pickle of what is read may have others.
        if stored.form == "parts" and is_plain(stored.data):
            self._objects.note_stored(value, stored.data)
        return value

    def keep(self, asked: AskedCall, value: Value, error: StepError | None = None) -> None:
        """Note the line of a call that was made, with ``missing="record"``."""
        if self._missing != "record" or not self._replays(asked.kind):
            return
        if asked.contents == "":
            self._not_compared.append(f"{asked.step_kind} {asked.name}")
            return
        run = asked.site.run
        is_secret = asked.site.gives_secret(value)
        packed = run.secrets.pack(value, current.settings.journal_value, secret=is_secret)
        is_json = packed.form == "json"
        shown = decoded(packed.data if is_json else packed.shown)
        outcome = outcome_line(
            error_json(error, run.secrets) if error is not None else None,
            is_json,
            not is_json and shown in (MASK, HELD_BACK),
            shown,
        )
        what = "finished" if error is None else "failed"
        if asked.kind == "question":
            what = "answered"
        if not self._head:
            flow = asked.site.scope.linked.flow
            self._head = header(flow.name, flow.language, [flow.source.text], {})
        arguments = json.loads(asked.arguments)
        words = asked_line(what, asked.step_kind, asked.name, arguments, asked.contents)
        stored = self._object(asked, value) if "opaque" in outcome else {}
        made_line = {**words, **outcome, **stored, "at": list(asked.site.path)}
        self._made_lines.append((made_line, run.secrets))

    def _object(self, asked: AskedCall, value: Value) -> Line:
        """The part of a line with the object that a call returned; empty: it cannot be stored. It is
        stored at once, before a step changes it."""
        secrets = asked.site.run.secrets
        if self._redact is not None or secrets.active or asked.kind == "question":
            return {}
        searched = secrets.searched
        search = Search(searched.raws, bool(searched.numbers))
        return store_object(value, self.path, search)

    def write(self) -> None:
        """Add the calls that were made to the file. Raises DefinitionError."""
        if not self._made_lines:
            return
        lines_made = [
            redact_line(masked_line(line, secrets), self._redact)
            for line, secrets in self._made_lines
        ]
        lines = [redact_line(self._head, self._redact)]
        if self.path.exists():
            # Only this ends a line: Python finds an end in texts of JSON too.
            texts = read_file(self.path).decode("utf-8-sig").split("\n")
            lines = [
                json.loads(text)
                for number, text in enumerate(texts, 1)
                if text and number not in self._unreadable
            ]
        write_lines(self.path, keep_parts([*lines, *lines_made], self.path, None))

    def _replays(self, kind: str) -> bool:
        """Whether calls of this kind are taken from the file."""
        return self._only is None or kind in ASKS

    def _key_of(self, asked: AskedCall) -> tuple[str, Value]:
        """The key of a call, and its arguments as they are compared."""
        arguments = json.loads(asked.arguments)
        words = asked_line("finished", asked.step_kind, asked.name, arguments, asked.contents)
        redacted = redact_line(words, self._redact)
        # A call with a digest must not match a line without a digest.
        contents = redacted.get("contents", "") if asked.contents is not None else None
        asks = asked.kind == "question"
        given = redacted.get("given")
        return self._key(asked.step_kind, asked.name, given, asks, contents), given

    def _key(
        self, kind: str, name: str, arguments: Value, asks: bool, contents: str | None = None
    ) -> str:
        # Another model may have been asked: only the messages to the model count.
        named = "" if kind == "model" and self._match is None else name
        # Not by the preview of arguments with a digest: another version writes another preview.
        which = contents or json.dumps(arguments, sort_keys=True) + " " * (contents is not None)
        return f"{'asks' if asks else ''} {kind} {encode(named)} {which}"

    def absent(self, asked: AskedCall) -> StepError:
        """The error for a call that is not in the file, with the nearest one that is."""
        arguments = json.loads(asked.arguments)
        nearest = self._nearest(asked, arguments)
        message = f"{self.name} has no call of {asked.kind} {asked.name!r} with these arguments"
        hint = f"record the run again; {CALL_IT}"
        if self._key_of(asked)[0] in self._keys:
            message = message.replace("has no call", "has no more calls")
            hint = f"a recorded call answers once; {hint}"
        elif asked.contents == "":
            hint = f"its arguments cannot be compared; {COMPARED}"
        elif nearest is not None and asked.contents is not None and nearest.arguments == arguments:
            hint = (
                "the nearest recorded call has another object in its arguments, or one that cannot "
                f"be compared; {hint}"
            )
        elif nearest is not None:
            whole = ("", nearest.arguments, arguments)
            path, its_part, our_part = next(find_differences(nearest.arguments, arguments), whole)
            its_text, our_text = shorten_pair(its_part, our_part)
            where = path.removeprefix(".") or "the arguments"
            hint = (
                f"the nearest recorded call has {where} = {its_text}, this one {our_text}; {hint}"
            )
        elif self._head.get("name") not in (None, asked.site.scope.linked.flow.name):
            hint = f"it was recorded by {line(str(self._head['name']), 60)!r}; {hint}"
        else:
            hint = f"it has {line(', '.join(dict.fromkeys(self.unused)), 200) or 'no call'}; {hint}"
        return NotReplayed(Diagnostic("replay.missing", message, asked.site.step.place, hint))

    def _begin_of(self, asked: AskedCall) -> str:
        """The begin of the keys of all calls of the same callee, which end with the arguments."""
        asks = asked.kind == "question"
        return self._key(asked.step_kind, asked.name, None, asks).removesuffix("null")

    def _nearest(self, asked: AskedCall, arguments: Value) -> RecordedCall | None:
        """The recorded call of the same callee whose arguments differ in the fewest parts."""
        begin = self._begin_of(asked)
        by_callee = (
            next(iter(by_path.values()))[-1]
            for key, by_path in reversed(self._calls.items())
            if key.startswith(begin)
        )
        calls = itertools.islice(by_callee, NEAREST_AMONG)
        # Of several calls the first one by path, because elements end in a different order each
        # time.
        return min(
            calls,
            key=lambda call: (
                len(list(find_differences(call.arguments, arguments))),
                encode(list(call.at)),
            ),
            default=None,
        )


@contextmanager
def replay(
    path: str | Path,
    *,
    missing: Missing = "fail",
    only: Literal["models"] | None = None,
    match: Literal["model"] | None = None,
    redact: Redact | None = None,
    strict: bool = False,
) -> Iterator[Replay]:
    """A context in which runs take the outcomes of their calls from a recording: no model is asked
    and no tool is called. The runs are not journaled. At its end, it waits for the runs that were
    started in the background in it.

    Parameters:

    - ``path``: the file that `record` wrote. Required.
    - ``missing``: what happens to a call that is not in the file. ``"fail"``: its step fails with
      ``replay.missing``; ``"call"``: it is made; ``"record"``: it is made, and added to the file at
      the end of the context, which may not exist before. Default ``"fail"``.
    - ``only``: ``"models"``: only models, agents and questions are replayed, and tools are called.
      Default None: all calls are replayed.
    - ``match``: ``"model"``: the name of the model counts, too. Default None: a request to another
      model with the same messages is the same.
    - ``redact``: the function that was given to `record`. Default None.
    - ``strict``: whether recorded calls that no run has made are an error instead of a warning of
      Python. Default False.

    Raises DefinitionError if the file is not a recording.
    """
    recording = Replay(Path(path), missing, only, match, redact)
    token = replaying.set(recording)
    try:
        yield recording
        for run in live.running:
            if run.background and state_of(run).options.recording is recording:
                run.wait()
    finally:
        replaying.reset(token)
        # Written even after a failure, because the calls that were made are paid for.
        recording.write()
    for problem in recording.problems():
        if strict:
            raise DefinitionError(problem)
        warnings.warn(str(problem), stacklevel=3)
