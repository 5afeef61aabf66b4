"""Reads and writes the file of a recording: the calls of a run and their outcomes, as JSON lines.

A person may read the file, change it by hand and commit it beside a test. So it is text and
contains no folder, no host and no user. An object is stored as a pickle, which is read only by the
user who signed it, so that a stranger's file cannot run code. The file is read within limits, and
each problem names its line.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict

from ...catalog import MASK
from ...flow.step_path import StepPath
from ...journal.calls.started_call import ROW
from ...journal.codec.encoding import DecodeError
from ...journal.codec.identities import bare
from ...journal.codec.json_texts import encode
from ...journal.codec.parted import opaque_kind
from ...journal.codec.type_checks import checker
from ...journal.records.failures import error_from
from ...journal.records.fields import is_path
from ...journal.records.records import UNREADABLE, CallKey, Record
from ...journal.secrets.masking import HELD_BACK
from ...pictures.amounts import counted
from ...pictures.plain import line as shown_line
from ...text.diagnostics import DefinitionError, Diagnostic, refused
from ...text.files import open_file
from ...text.length import weigh
from ...text.replaced_file import replaced_file
from ...text.source import UNUSABLE, Source, path_error_reason
from ...values.value import Value, is_json
from ..past.named_run import find_ended
from ..past.past_run import PastRun, find_past_run
from ..run_internals import place_in_journal
from ..runs.live import live
from ..runs.run import Run
from .masked_calls import masked_line
from .stored_objects import StoredObject, fields_of_object, keep_parts, read_object, without_object

RECORDING_FORMAT = 1


MOST_LINE = 64_000_000
"""Bytes of one line."""


MOST_BYTES = 500_000_000
"""Bytes of a file: all of its values are in memory."""


EXCERPT = 500
"""Characters of a line that an error shows."""


COMPARED = (
    "pass the parts of an object as texts, numbers, lists, dates or tables; for large data of a "
    'quick call, in Python, missing="record" of agf.replay adds the call'
)
"""What a person may do about arguments that cannot be compared."""


OUTCOMES = ("finished", "failed", "answered")
"""The outcomes of a call, and the answer of a person."""


PACKAGES = ("agf-magics", "pydantic-ai-slim")
"""The packages whose versions are written, for a person who wonders why two recordings differ."""


IN_RESULT = "it has a secret, or cannot be searched for one"
"""`RecordedCall.opaque` of a result that is not stored because of a secret."""


WITHOUT_SECRET = (
    "let the tool return what later steps need without the secret; in Python, "
    'missing="call" of agf.replay makes the call'
)
"""The hint for a call whose result is not in a recording because of a secret."""


NOT_COMPARED = "not compared"
"""`RecordedCall.contents` of a call that no other call is equal to."""


Line = dict[str, Any]


Redact = Callable[[Line], Line]


class RecordedCall(NamedTuple):
    """A line of a recording."""

    outcome: str
    step_kind: str
    name: str
    arguments: Value
    at: StepPath
    value: Value = None
    error: str | None = None
    """The failure as JSON."""
    opaque: str = ""
    """The reason why the line has no result, if ``stored`` has none either; empty: the line has the
    result, or the error."""
    stored: StoredObject | None = None
    """The object that the call returned; None: its result is JSON, or was not stored."""
    contents: str | None = None
    """The digest of the arguments, if they are not JSON; `NOT_COMPARED` if they have none."""
    number: int = 0
    """The number of the line."""


def record(run: Run | PastRun | str, path: str | Path, *, redact: Redact | None = None) -> Path:
    """Write the calls of a run and their outcomes to a file that `replay` reads, and return its
    path. An existing file is replaced.

    The calls are those of the journal, without secrets; of a `Run` also
    without those that became known after a call was journaled. A table or another object is in the file
    too; its large buffers are in a folder beside it, ``run.agf.values``. Only the user who has
    recorded it can replay such a call.

    Parameters:

    - ``run``: a `Run` or a `PastRun` that has ended, or what names it. Required.
    - ``path``: the file, such as ``run.agf``. Required.
    - ``redact``: a function that gets each line as a dict before it is written, and returns the
      line to write. Give the same function to `replay`. Objects are then left out, since it cannot
      look into them. Default None: the lines are written as they are.

    Raises DefinitionError if the run is not in the journal, or if the file cannot be written.
    """
    ended = find_ended(run)
    past = ended if isinstance(ended, PastRun) else find_past_run(ended.run_id)
    target = Path(path)
    files = place_in_journal(past)[0].files
    run_here = ended if isinstance(ended, Run) else live.find(past.run_id)
    secrets = run_here.secrets if run_here is not None else None
    lines: Iterable[Line] = (masked_line(line, secrets) for line in _lines(past))
    if redact is not None:
        lines = (redact_line(without_object(line), redact) for line in lines)
    seen = list[str]()
    held = list[str]()
    lines = _noting(lines, seen, held)
    # Even if no line has an object, an earlier recording may have left some in the folder.
    write_lines(target, keep_parts(lines, target, files))
    if seen:
        warnings.warn(str(not_compared(target.name, seen)), stacklevel=2)
    if held:
        warnings.warn(str(held_back(target.name, held)), stacklevel=2)
    return target


def _noting(lines: Iterable[Line], seen: list[str], held: list[str]) -> Iterator[Line]:
    """Yield the lines, and add the callees of those that no call is equal to to ``seen``, and of
    those whose result has a secret to ``held``."""
    for line in lines:
        callee = f"{line.get('kind')} {line.get('name')}"
        if line.get("contents", "") is None:
            seen.append(callee)
        elif "opaque" in line and line.get("masked"):
            held.append(callee)
        yield line


def not_compared(recording: str, callees: Iterable[str]) -> Diagnostic:
    """The warning about calls that a replay never finds. ``callees``: the kind and the name of each
    of them."""
    calls, names = _shown_callees(callees)
    message = (
        f"a replay of {recording} never finds {calls}, whose arguments have no digest: {names}"
    )
    return Diagnostic("replay.missing", message, hint=COMPARED, severity="warning")


def held_back(recording: str, callees: Iterable[str]) -> Diagnostic:
    """The warning about calls whose results are not in the recording because of a secret."""
    calls, names = _shown_callees(callees)
    message = f"{recording} has no result of {calls}, {names}: {IN_RESULT}"
    return Diagnostic("replay.opaque", message, hint=WITHOUT_SECRET, severity="warning")


def _shown_callees(callees: Iterable[str]) -> tuple[str, str]:
    """How many calls, and of what: ``2 calls``, ``2 × tool fetch``."""
    counts = Counter(callees)
    names = (f"{count:,} × {shown_line(name, 60)}" for name, count in counts.most_common(5))
    return counted(counts.total(), "call"), ", ".join(names)


def redact_line(line: Line, redact: Redact | None) -> Line:
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
    """The lines of a run: the header, then its calls in the order of their ends."""
    texts = [text.source.text for text in past.order.flows if not text.made]
    yield header(past.name, past.language, texts, past.input)
    # A resumed run made some calls twice: the last outcome counts, as for the run itself.
    # The outcome of a row of a table follows from those of its calls.
    last = {
        _outcome_of(call): call.line
        for call in past.records()
        if call.what in OUTCOMES and call.kind != ROW
    }
    for call in past.records():
        if last.get(_outcome_of(call)) == call.line:
            yield _line(call, past)


def _outcome_of(call: Record) -> tuple[CallKey, bool]:
    """Identifies the call that a record is the outcome of. The question whether to make a call has
    the same path as the call, so it is told apart by the second part."""
    return call.key, call.what == "answered"


def _line(call: Record, past: PastRun) -> Line:
    """The line of a call: which one it is, its outcome, its object if it returned one, its path."""
    form, value = call.result.form, call.value_shown
    is_held = form == "again" and value in (MASK, HELD_BACK) and call.what != "answered"
    has_json = form == "json"
    if form == "parts" and (large := _large_json(call, past)) is not None:
        has_json, value = True, large
    outcome = outcome_line(call.error, has_json, is_held, value)
    line = asked_line(
        call.what, call.kind, call.name, call.arguments_shown, call.arguments.contents
    )
    # The preview of an object may be equal to another argument, which is JSON.
    if not call.arguments.is_compared:
        line["contents"] = None
    is_object = "opaque" in outcome and call.what != "answered"
    stored = fields_of_object(call, past.run_id) if is_object else {}
    return {**line, **outcome, **stored, "at": list(call.at)}


def _large_json(call: Record, past: PastRun) -> Value:
    """A result that is JSON and too large for a row, if the user has signed it; else None."""
    try:
        if opaque_kind(bare(call.result.parts or b"")):
            return None
        value = call.read_value(past.run_id, trust=False, files=place_in_journal(past)[0].files)
    except DecodeError:
        return None
    return value if is_json(value) else None


def asked_line(what: str, kind: str, name: str, given: Value, contents: str | None) -> Line:
    """The part of a line that says which call it is. ``contents``: the digest of arguments that are
    no JSON."""
    line = {"what": what, "kind": kind, "name": name, "given": given}
    return line if contents is None else {**line, "contents": contents}


def outcome_line(error: str | None, is_json: bool, is_held: bool, value: Value) -> Line:
    """The part of a line that says how a call ended. ``error``: its failure as JSON, without the
    names of files in the line; ``is_held``: whether the result is not stored because of a secret;
    ``value``: the result of the call, or its preview."""
    if error is not None:
        stored = json.loads(error)
        stored["at"] = None
        for problem in stored["said"]:
            problem[3] = None
        return {"error": stored}
    if is_held:
        # The mask of a secret text goes where the text went. Nothing may get it in place of more.
        return {"value" if value == MASK else "opaque": value, "masked": True}
    return {"value" if is_json else "opaque": value}


# --- the file ---


def write_lines(path: Path, lines: Iterable[Line]) -> None:
    """Replace the file at once: it is never half of a recording. Raises DefinitionError."""
    size = 0
    with replaced_file(path) as file:
        for line in lines:
            # Weighed before it is written, because a line may have one long text in many
            # places.
            weight = weigh(line)
            text = "" if weight > MOST_BYTES else json.dumps(line, ensure_ascii=False)
            size += max(len(text), weight if not text else 0)
            # A character may take four bytes: what is written can be read.
            if len(text) > MOST_LINE // 4 or size > MOST_BYTES // 4:
                raise refused(
                    "replay.file",
                    f"the recording is too large: a line may have {MOST_LINE // 4:,} "
                    f"characters, and all lines {MOST_BYTES // 4:,}",
                    "redact= can shorten the lines",
                )
            file.write(f"{text}\n")


def read_calls(path: Path) -> tuple[Line, list[RecordedCall]]:
    """The first line and the calls of a recording. Raises DefinitionError ``replay.file`` if the
    file cannot be read, and ``replay.format`` for an invalid line."""
    try:
        with open_file(path) as file:
            lines = _parse_lines(path, file)
            head = next(lines, None)
            if head is None:
                raise _wrong(path, 1, "", "it is empty")
            return _head(path, head[1]), [_call(path, *line) for line in lines]
    except UNUSABLE as error:
        raise _unreadable(path, error) from None


def _parse_lines(path: Path, file: Any) -> Iterator[tuple[int, Line]]:
    """The lines of a file with their numbers, within the limits. Raises DefinitionError."""
    size = 0
    for number in itertools.count(1):
        raw = file.readline(MOST_LINE + 1)
        size += len(raw)
        if len(raw) > MOST_LINE or size > MOST_BYTES:
            most, subject = (MOST_LINE, "a line") if len(raw) > MOST_LINE else (MOST_BYTES, "it")
            text = raw[:EXCERPT].decode(errors="replace")
            raise _wrong(path, number, text, f"{subject} has more than {most:,} bytes")
        if not raw:
            return
        yield number, _object(path, number, raw)


def _object(path: Path, number: int, raw: bytes) -> Line:
    # An editor may have put the mark of its encoding before the first line.
    text = raw.decode("utf-8-sig" if number == 1 else "utf-8", errors="replace")
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
    """The first line, if this version reads its format. Raises DefinitionError."""
    text, format = encode(line), line.get("agf")
    if type(format) is not int:
        raise _wrong(path, 1, text, "the first line of a recording has the key 'agf'")
    if format != RECORDING_FORMAT:
        hint = "install the version of agf-magics that wrote it, or record it again"
        message = f"it has the format {format}, and this version reads {RECORDING_FORMAT}"
        raise _wrong(path, 1, text, message, 0, hint)
    return line


class _CallLine(TypedDict):
    what: Annotated[str, OUTCOMES.__contains__]
    kind: str
    name: str
    given: object


_is_call_line = checker(_CallLine)


def _call(path: Path, number: int, line: Line) -> RecordedCall:
    """The call of a line, which a person may have written. Raises DefinitionError."""
    what, outcomes = line.get("what"), [key for key in ("value", "error", "opaque") if key in line]
    place = line.get("at", [""])  # without a path the call is found by its arguments only
    problem = ""
    if not _is_call_line(line):
        problem = f"a call has 'what' ({', '.join(OUTCOMES)}), 'kind', 'name' and 'given'"
    elif len(outcomes) != 1 or (what == "failed") != (outcomes == ["error"]):
        problem = "a call has a 'value', an 'opaque' value or, if it failed, an 'error'"
    elif not isinstance(place, list) or not is_path(tuple(place)):
        problem = "'at' must be a path: the id of a step, then ids and numbers"
    contents = NOT_COMPARED if line.get("contents", "") is None else line.get("contents")
    if contents is not None and (not isinstance(contents, str) or not contents):
        problem = problem or "'contents' must be the digest of the arguments"
    error = None
    if not problem and outcomes == ["error"]:
        try:
            error = encode(line["error"])
            error_from(error, ())
        except UNREADABLE:
            problem = "the 'error' is not one that this package writes"
    stored = None
    try:
        stored = read_object(line) if outcomes == ["opaque"] else None
    except ValueError:
        problem = problem or "what is 'stored' is not what this package writes"
    if problem:
        raise _wrong(path, number, encode(line), problem)
    why = IN_RESULT if line.get("masked") is True else "it is no JSON, and was not stored"
    opaque = why if outcomes == ["opaque"] else ""
    call_fields = (str(what), line["kind"], line["name"], line["given"])
    outcome = (line.get("value"), error, opaque, stored)
    return RecordedCall(*call_fields, tuple(place), *outcome, contents, number)


def _wrong(
    path: Path, number: int, text: str, why: str, at: int = 0, hint: str | None = None
) -> DefinitionError:
    excerpt = text.rstrip("\r\n")[:EXCERPT]
    at = min(at, max(len(excerpt) - 1, 0))
    span = Source(str(path), excerpt, number).span(at, at + 1 if at else len(excerpt))
    message = f"{path.name} cannot be replayed: {why}"
    hint = hint or "record it again: agf.record(run, …) or %runs RUN --record FILE"
    return DefinitionError(Diagnostic("replay.format", message, span, hint))


def _unreadable(path: Path, error: Exception) -> DefinitionError:
    message = f"the recording {path.name!r} cannot be read: {path_error_reason(error)}"
    hint = None
    if isinstance(error, FileNotFoundError):
        hint = "record it first: agf.record(run, …) or %runs RUN --record FILE"
    return refused("replay.file", message, hint)
