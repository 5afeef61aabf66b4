"""Runs whose calls are taken from a recording: the same values, without the models and services.

A call is found by what it is and what it is given, never by a digest of its function, so a tool may
be edited. Of equal calls the one at the same path is taken, else the next one in the file: an
edited definition still finds them. What is not a call is real: expressions, joins, limits, events.

The file of a recording has the calls of a run and their outcomes, one JSON object in a line. It
is made to be read, changed by hand and committed beside a test. So it is text, it has
no folder, no host and no user in it, and no pickle: a file of a stranger cannot run code. It is
read with bounds, and each problem is told with its line.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

from ..catalog import MASK, Tool
from ..engine.limits import LimitReached
from ..engine.runner import AskedCall, CallSite
from ..engine.table_rows import ROW
from ..flow.events import StepPath
from ..flow.steps import Invoke
from ..flow.values import Value
from ..journal.codec import checker, decode, encode, weigh
from ..journal.records import (
    UNREADABLE,
    Record,
    RecordedOutcome,
    around,
    error_from,
    error_json,
    is_at,
)
from ..journal.secrets import HELD, hide
from ..pictures.difference import find_differences, shorten_pair
from ..pictures.plain import counted, line
from ..text.diagnostics import DefinitionError, Diagnostic, StepError
from ..text.late_imports import installed_only
from ..text.source import UNUSABLE, Source, path_error_reason
from .input import replaying
from .lookup import refused_running
from .manifest import refused
from .past_run import PastRun, find_past_run
from .run import Run, live
from .settings import current

RECORDING_FORMAT = 1

MOST_LINE = 64_000_000
"""Bytes of one line."""
MOST_BYTES = 500_000_000
"""Bytes of a file: all of its values are in memory."""
EXCERPT = 500
"""Characters of a line that an error shows."""

OUTCOMES = ("finished", "failed", "answered")
"""The outcomes of a call, and the answer of a person."""

PACKAGES = ("agf-magics", "pydantic-ai-slim")
"""Their versions are written for a person who wonders why two recordings differ."""

Line = dict[str, Any]
Redact = Callable[[Line], Line]


class Call(NamedTuple):
    """A line of a recording."""

    what: str
    kind: str
    name: str
    given: Value
    at: StepPath
    value: Value = None
    error: str | None = None
    """Its failure as JSON."""
    opaque: str = ""
    """Why the file has no result; empty: it has one."""


def record(run: Run | PastRun | str, path: str | Path, *, redact: Redact | None = None) -> Path:
    """Write the calls of a run and their outcomes to a file that `replay` reads, and return its
    path. An existing file is replaced.

    The calls are those of the journal, without secrets; a result that is not JSON is not in the
    file.

    Parameters:

    - ``run``: a `Run` or a `PastRun` that has ended, or its id. Required.
    - ``path``: the file, such as ``run.agf``. Required.
    - ``redact``: a function that gets each line as a dict before it is written, and returns the
      line to write. Give the same function to `replay`. Default None: the lines are written as
      they are.

    Raises DefinitionError if the run is not in the journal, or if the file cannot be written.
    """
    run_id = run if isinstance(run, str) else run.run_id
    found = live.find(run_id)
    if found is not None and not found.done:
        raise refused_running(run_id)
    past = run if isinstance(run, PastRun) else find_past_run(run_id)
    target = Path(path)
    write_lines(target, (redacted(line, redact) for line in _lines(past)))
    return target


def redacted(line: Line, redact: Redact | None) -> Line:
    """The line as the user's function wants it. Raises TypeError if that is no line."""
    if redact is None:
        return line
    changed = redact(dict(line))
    if not isinstance(changed, dict):
        raise TypeError(f"redact must return the line, a dict, got {type(changed).__name__}")
    return changed


def header(name: str, language: str, texts: Sequence[str], input: Value) -> Line:
    """The first line of a recording."""
    packages = {}
    for package in PACKAGES:
        with contextlib.suppress(PackageNotFoundError):
            packages[package] = version(package)
    head = {"agf": RECORDING_FORMAT, "name": name, "language": language}
    return {**head, "flows": list(texts), "input": input, "packages": packages}


def _lines(past: PastRun) -> Iterator[Line]:
    texts = [text.source.text for text in past.order.flows if not text.made]
    yield header(past.name, past.language, texts, past.input)
    # A resumed run made some calls twice: the last outcome counts, as for the run itself.
    last = {call.key: call.line for call in past.records() if _is_call(call)}
    for call in past.records():
        if _is_call(call) and last[call.key] == call.line:
            yield _line(call)


def _is_call(record: Record) -> bool:
    # The outcome of a row follows from those of its calls.
    return record.what in OUTCOMES and record.kind != ROW


def _line(call: Record) -> Line:
    outcome: Line = {"value": call.value_shown}
    if call.error is not None:
        outcome = {"error": without_places(call.error)}
    elif call.form == "again" and call.value_shown == MASK and call.what != "answered":
        outcome["masked"] = True
    elif call.form != "json":
        outcome = {"opaque": call.value_shown}
    line = {"what": call.what, "kind": call.kind, "name": call.name, "given": call.given_shown}
    return {**line, **outcome, "at": list(call.at)}


def without_places(error: str) -> Value:
    """A failure without the names of files."""
    stored = json.loads(error)
    stored["at"] = None
    for said in stored["said"]:
        said[3] = None
    return stored


# --- the file ---


def write_lines(path: Path, lines: Iterable[Line]) -> None:
    """Replace the file at once: it is never half of a recording. Raises DefinitionError."""
    part, size = path.with_name(f"{path.name}.part"), 0
    try:
        with part.open("w", encoding="utf-8", errors="backslashreplace", newline="\n") as file:
            for line in lines:
                text = json.dumps(line, ensure_ascii=False)
                size += len(text)
                if len(text) > MOST_LINE // 4 or size > MOST_BYTES // 4:
                    raise refused(
                        "replay.file",
                        f"the recording is too large: a line may have {MOST_LINE // 4:,} "
                        f"characters, and all lines {MOST_BYTES // 4:,}",
                        "redact= can shorten the lines",
                    )
                file.write(f"{text}\n")
        os.replace(part, path)
    except OSError as error:
        raise _unusable(path, "written", error) from None
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def read_calls(path: Path) -> tuple[Line, list[Call]]:
    """The first line and the calls of a recording. Raises DefinitionError ``replay.file`` if it
    cannot be read, and ``replay.format`` for a line that is not one of a recording."""
    try:
        with path.open("rb") as file:
            lines = _parsed(path, file)
            head = next(lines, None)
            if head is None:
                raise _wrong(path, 1, "", "it is empty")
            return _head(path, head[1]), [_call(path, *line) for line in lines]
    except UNUSABLE as error:
        raise _unusable(path, "read", error) from None


def _parsed(path: Path, file: Any) -> Iterator[tuple[int, Line]]:
    size = 0
    for number in itertools.count(1):
        raw = file.readline(MOST_LINE + 1)
        size += len(raw)
        if len(raw) > MOST_LINE or size > MOST_BYTES:
            most, what = (MOST_LINE, "a line") if len(raw) > MOST_LINE else (MOST_BYTES, "it")
            text = raw[:EXCERPT].decode(errors="replace")
            raise _wrong(path, number, text, f"{what} has more than {most:,} bytes")
        if not raw:
            return
        yield number, _object(path, number, raw)


def _object(path: Path, number: int, raw: bytes) -> Line:
    text = raw.decode("utf-8", errors="replace")
    try:
        line = json.loads(text, object_pairs_hook=_unique)
        if weigh(line) < 0:
            raise RecursionError
    except json.JSONDecodeError as error:
        why = f"it is not JSON: {error.msg}"
        cut = None if raw.endswith(b"\n") else "the file is cut: copy or record it again"
        raise _wrong(path, number, text, why, error.pos, cut) from None
    except _Duplicate as error:
        raise _wrong(path, number, text, f"the key {str(error)!r} is there twice") from None
    except RecursionError:
        raise _wrong(path, number, text, "it is nested too deeply") from None
    except ValueError as error:  # a number of 5,000 digits
        raise _wrong(path, number, text, f"it is not JSON: {error}") from None
    if not isinstance(line, dict):
        raise _wrong(path, number, text, "a line must be an object")
    return line


class _Duplicate(Exception):
    """A key of an object is there twice."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    whole = dict(pairs)
    if len(whole) < len(pairs):
        raise _Duplicate(Counter(key for key, _ in pairs).most_common(1)[0][0][:60])
    return whole


def _head(path: Path, line: Line) -> Line:
    text, found = encode(line), line.get("agf")
    if type(found) is not int:
        raise _wrong(path, 1, text, "the first line of a recording has the key 'agf'")
    if found != RECORDING_FORMAT:
        hint = "install the version of agf-magics that wrote it, or record it again"
        message = f"it has the format {found}, and this version reads {RECORDING_FORMAT}"
        raise _wrong(path, 1, text, message, 0, hint)
    return line


class _CallLine(TypedDict):
    what: Annotated[str, OUTCOMES.__contains__]
    kind: str
    name: str
    given: object


_is_call_line = checker(_CallLine)


def _call(path: Path, number: int, line: Line) -> Call:
    what, outcomes = line.get("what"), [key for key in ("value", "error", "opaque") if key in line]
    place = line.get("at", [""])
    problem = ""
    if not _is_call_line(line):
        problem = f"a call has 'what' ({', '.join(OUTCOMES)}), 'kind', 'name' and 'given'"
    elif len(outcomes) != 1 or (what == "failed") != (outcomes == ["error"]):
        problem = "a call has a 'value', an 'opaque' value or, if it failed, an 'error'"
    elif not isinstance(place, list) or not is_at(tuple(place)):
        problem = "'at' must be a path: the id of a step, then ids and numbers"
    error = None
    if not problem and outcomes == ["error"]:
        try:
            error = encode(line["error"])
            error_from(error, ())
        except UNREADABLE:
            problem = "the 'error' is not one that this package writes"
    if problem:
        raise _wrong(path, number, encode(line), problem)
    opaque = "its result is not JSON" if outcomes == ["opaque"] else ""
    asked = (str(what), line["kind"], line["name"], line["given"])
    return Call(*asked, tuple(place), line.get("value"), error, opaque)


def _wrong(
    path: Path, number: int, text: str, why: str, at: int = 0, hint: str | None = None
) -> DefinitionError:
    shown = text.rstrip("\r\n")[:EXCERPT]
    at = min(at, max(len(shown) - 1, 0))
    span = Source(str(path), shown, number).span(at, at + 1 if at else len(shown))
    message = f"{path.name} cannot be replayed: {why}"
    hint = hint or "record it again: agf.record(run, …) or %runs RUN --record FILE"
    return DefinitionError(Diagnostic("replay.format", message, span, hint))


def _unusable(path: Path, act: str, error: Exception) -> DefinitionError:
    message = f"the recording {path.name!r} cannot be {act}: {path_error_reason(error)}"
    hint = None
    if isinstance(error, FileNotFoundError) and act == "read":
        hint = "record it first: agf.record(run, …) or %runs RUN --record FILE"
    return refused("replay.file", message, hint)


def same(given: Value) -> str:
    """Arguments as a text that is equal for equal ones."""
    return json.dumps(given, sort_keys=True)


Missing = Literal["fail", "call", "record"]
MISSING = ("fail", "call", "record")
ONLY = (None, "models")
MATCH = (None, "model")

ASKS = ("agent", "model", "question")
"""What ``only="models"`` takes from the file: agents that are functions ask a model, too."""

CALL_IT = 'in Python, missing="call" of agf.replay makes calls that are not recorded'

NEAREST_AMONG = 200
"""Recorded calls among which the nearest one is looked for."""


class NotReplayed(LimitReached):
    """A call is not in the file. As an exceeded limit, it is never dropped, retried or rescued: a
    test must not pass because of it."""

    ends_run = True
    """Also where rows of a table have limits of their own."""


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
        """``of_run``: one run replays it, and warns about what it did not use."""
        for name, value, choices in (
            ("missing", missing, MISSING),
            ("only", only, ONLY),
            ("match", match, MATCH),
        ):
            if value not in choices:
                words = ", ".join(repr(choice) for choice in choices)
                raise ValueError(f"{name} must be one of {words}, got {value!r}")
        self.path, self.name = path, path.name
        self.used = 0
        """The number of recorded calls that were taken."""
        self._missing, self._only, self._match = missing, only, match
        self._redact, self._of_run = redact, of_run
        self._head: Line = {}
        calls: list[Call] = []
        if missing != "record" or path.exists():
            self._head, calls = read_calls(path)
        self._lines = [call.at for call in calls]
        self._calls: dict[str, dict[StepPath, list[Call]]] = {}
        """Those that are left, by their keys and their paths. The last one is the next one: a dict
        and a list are taken apart from their ends."""
        for call in reversed(calls):
            key = self._key(call.kind, call.name, call.given, call.what == "answered")
            self._calls.setdefault(key, {}).setdefault(call.at, []).append(call)
        self.made: list[Line] = []
        """The lines of calls that were made, with ``missing="record"``."""

    @property
    def replays_tools(self) -> bool:
        return self._only is None

    @property
    def unused(self) -> list[str]:
        """The kinds and names of the recorded calls that no run has taken, in their order."""
        left = [call for held in self._calls.values() for each in held.values() for call in each]
        return [f"{call.kind} {call.name}".strip() for call in reversed(left)]

    def problem(self) -> Diagnostic | None:
        """What a person is told about the calls that were not used."""
        unused = self.unused if self._only is None else []
        if not unused:
            return None
        counts = Counter(unused).most_common(5)
        named = ", ".join(f"{count:,} × {line(name, 60)}" for name, count in counts)
        message = f"{counted(len(unused), 'call')} of {self.name} not made again: {named}"
        hint = "the definition or its input has changed: record it again if that is meant"
        return Diagnostic("replay.unused", message, hint=hint, severity="warning")

    def notes(self) -> Sequence[Diagnostic]:
        problem = self.problem() if self._of_run else None
        return [problem] if problem is not None else []

    def order(self, paths: Sequence[StepPath]) -> list[int]:
        # A policy may take the part that ended first. With calls that are made nobody knows it.
        if self._missing != "fail" or self._only is not None:
            return []
        ends = [self._ends.get(path, -1) for path in paths]
        return sorted((i for i, end in enumerate(ends) if end >= 0), key=lambda i: ends[i])

    @cached_property
    def _ends(self) -> dict[StepPath, int]:
        """The last line of each path, and of all that it is within."""
        return {outer: number for number, at in enumerate(self._lines) for outer in around(at)}

    # --- calls ---

    def ask(self, site: CallSite[Invoke], what: str, callee: object, given: Value) -> AskedCall:
        step, secrets = site.step, site.run.secrets
        hidden = callee.secret if isinstance(callee, Tool) else frozenset[str]()
        shown = secrets.to_show(hide(given, hidden), current.settings.journal_value)
        name = getattr(callee, "name", step.name.text)
        return AskedCall(what, step.kind, name, shown.text, site)

    def is_made(self, asked: AskedCall) -> bool:
        left = self._missing != "fail" and self._key_of(asked) not in self._calls
        return left or not self._replays(asked.what)

    def take(self, asked: AskedCall) -> RecordedOutcome | None:
        if not self._replays(asked.what):
            return None
        key = self._key_of(asked)
        held, at = self._calls.get(key), asked.site.at
        if held is None and self._missing == "fail":
            raise self._absent(asked)
        if held is None:
            return None
        place = at if at in held else next(reversed(held))
        call = held[place].pop()
        if not held[place]:
            del held[place]
        if not held:
            del self._calls[key]
        self.used += 1
        if not call.opaque or self._missing != "fail":
            return RecordedOutcome(call.value, call.error) if not call.opaque else None
        message = f"the result of {asked.what} {asked.name!r} is not in {self.name}: {call.opaque}"
        hint = f"a result of lists, dicts and texts can be recorded; {CALL_IT}"
        raise NotReplayed(Diagnostic("replay.opaque", message, asked.site.step.place, hint))

    def keep(self, asked: AskedCall, value: Value, error: StepError | None = None) -> None:
        if self._missing != "record" or not self._replays(asked.what):
            return
        run = asked.site.run
        outcome: Line = {}
        packed = run.secrets.pack(
            value, current.settings.journal_value, secret=asked.site.is_secret
        )
        if error is not None:
            outcome["error"] = without_places(error_json(error, run.secrets))
        elif packed.form == "json":
            outcome["value"] = decode(packed.data or "null")
        elif asked.site.is_secret or packed.why == HELD:
            outcome |= {"value": MASK, "masked": True}
        else:
            outcome["opaque"] = decode(packed.shown or "null")
        what = "finished" if error is None else "failed"
        what = "answered" if asked.what == "question" else what
        if not self._head:
            flow = asked.site.scope.linked.flow
            self._head = header(flow.name, flow.language, [flow.source.text], {})
        words = {"kind": asked.kind, "name": asked.name, "given": decode(asked.given)}
        self.made.append({"what": what, **words, **outcome, "at": list(asked.site.at)})

    def write(self) -> None:
        """Add the calls that were made to the file. Raises DefinitionError."""
        if not self.made:
            return
        lines = [redacted(each, self._redact) for each in self.made]
        head = [redacted(self._head, self._redact)]
        if self.path.exists():
            text = self.path.read_text("utf-8")
            head = [json.loads(each) for each in text.splitlines()]
        write_lines(self.path, [*head, *lines])

    def _replays(self, what: str) -> bool:
        return self._only is None or what in ASKS

    def _key_of(self, asked: AskedCall) -> str:
        given = decode(asked.given)
        if self._redact is not None:
            words = {"what": "finished", "kind": asked.kind, "name": asked.name, "given": given}
            given = redacted(words, self._redact).get("given")
        return self._key(asked.kind, asked.name, given, asked.what == "question")

    def _key(self, kind: str, name: str, given: Value, asks: bool) -> str:
        # The model may be another one: what counts is what it was asked.
        named = "" if kind == "model" and self._match is None else name
        return f"{'asks' if asks else ''} {kind} {encode(named)} {same(given)}"

    def _absent(self, asked: AskedCall) -> StepError:
        asks, given = asked.what == "question", decode(asked.given)
        begin = self._key(asked.kind, asked.name, None, asks).removesuffix("null")
        near: list[tuple[int, Call]] = []
        for key, held in reversed(self._calls.items()):
            if key.startswith(begin) and len(near) < NEAREST_AMONG:
                call = next(iter(held.values()))[-1]
                near.append((len(list(find_differences(call.given, given))), call))
        message = f"{self.name} has no call of {asked.what} {asked.name!r} with these arguments"
        hint = f"record the run again; {CALL_IT}"
        if near:
            _, call = min(near, key=lambda each: each[0])
            path, then, now = next(find_differences(call.given, given), ("", call.given, given))
            before, after = shorten_pair(then, now)
            where = path.removeprefix(".") or "the arguments"
            hint = f"the nearest recorded call has {where} = {before}, this one {after}; {hint}"
        elif self._head.get("name") not in (None, asked.site.scope.linked.flow.name):
            hint = f"it was recorded by {line(str(self._head['name']), 60)!r}; {hint}"
        else:
            hint = f"it has {line(', '.join(dict.fromkeys(self.unused)), 200) or 'no call'}; {hint}"
        return NotReplayed(Diagnostic("replay.missing", message, asked.site.step.place, hint))


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
    and no tool is called. The runs are not journaled.

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
    finally:
        replaying.reset(token)
        # Also after a failure: the calls that were made are paid for.
        recording.write()
    problem = recording.problem()
    if problem is not None and strict:
        raise DefinitionError(problem)
    if problem is not None:
        warnings.warn(str(problem), stacklevel=3)


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
        from ..catalog.model_requests import recorded_model, said_in
    path = Path(path)
    left: dict[str, list[Call]] = {}
    for call in read_calls(path)[1]:
        if call.kind == "model" and not call.opaque:
            try:
                left.setdefault(encode(said_in(call.given)), []).append(call)
            except (LookupError, TypeError, AttributeError):
                continue  # changed by hand into something that no request says

    def ask(said: list[Value]) -> Any:
        held = left.get(encode(said))
        if not held:
            raise _no_request(path.name, said, left)
        call = held.pop(0)
        if call.error is not None:
            raise error_from(call.error, ())
        return call.value

    return recorded_model(path.name, ask)


def _no_request(name: str, said: list[Value], left: Mapping[str, list[Call]]) -> StepError:
    message, hint = f"{name} has no request of a model with these messages", "record the run again"
    if encode(said) in left:
        message = f"{name} has no more of these requests: each is answered as often as it was made"
        hint = "make a model for each run: agf.replay_model(…)"
    others = [decode(each) for each in itertools.islice(left, NEAREST_AMONG)]
    pairs = [[*find_differences(other, said)] for other in others]
    if nearest := min(pairs, key=len, default=[]):
        before, after = shorten_pair(*nearest[0][1:])
        hint = f"the nearest recorded request has {before}, this one {after}; {hint}"
    return NotReplayed(Diagnostic("replay.missing", message, hint=hint))
