"""`PastRun`, a run of the journal, whose values are read on demand and never unpickled for
display."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from ...engine.linking.linked import Linked
from ...engine.linking.sessions import recorded_session
from ...flow.flow import Flow
from ...flow.progress.progress import Progress, count_use
from ...flow.progress.usage import Usage, one_reply
from ...flow.step_path import StepPath, format_path
from ...flow.steps import calls
from ...journal import runs
from ...journal.calls.started_call import ROW
from ...journal.codec.encoding import PICKLED, DecodeError
from ...journal.codec.json_texts import encode
from ...journal.codec.signatures import SignatureError, is_signed, user_key
from ...journal.database.errors import JournalError, as_definition_errors, unusable
from ...journal.database.store import Store
from ...journal.records.failures import error_from
from ...journal.records.model_use import uses
from ...journal.records.records import (
    UNREADABLE,
    CallKey,
    Record,
    StoredValue,
    decode_stored,
    decoded,
)
from ...journal.runs import RunRow
from ...journal.secrets.masking import Secrets
from ...journal.shared_runs import copied
from ...languages.over import OVER
from ...pictures.call_words import name_place
from ...settings.settings import current
from ...text.diagnostics import AgfError, DefinitionError, Diagnostic, StepError, refused
from ...text.replaced_file import replaced_file
from ...text.source import Source
from ...values.value import Value
from ..runs.run import BaseRun, NamedValues, Run, fails_again
from ..runs.trace import CallTable, Trace, trace_rows
from ..storage.lookup import find_run, journal
from ..storage.manifest import DefinitionText, Manifest, read_manifest
from ..storage.relink import load_texts
from ..storage.run_notes import describe_lost, describe_resumed
from ..storage.saved_progress import restore_calls, restore_evaluated, restore_rows
from ..storage.saved_turns import restore_turns
from .comparison import ComparedRun, compare
from .comparison_tables import Comparison
from .find_call import find_call

if TYPE_CHECKING:
    from ..table_runs.table import RowTable

T = TypeVar("T")


class PastRun(BaseRun):
    """A run in the journal. All attributes can be read at any time; they contain the journaled
    data: ``run_id``, ``flow``, ``status``, ``started``, ``ended``, ``seconds``, ``input``,
    ``output``, ``error``, ``warnings``, ``stores``, ``steps``, ``trace``, ``calls``, ``table``,
    ``usage``, ``cost``, ``progress`` and ``note``. ``load(step)`` reads the result of a call,
    ``compare(other)`` the differences, ``export(path)`` writes everything as JSON.
    """

    warnings: tuple[Diagnostic, ...] = ()
    """Always empty: the journal stores no warnings."""

    def __init__(self, store: Store, row: RunRow, imported: str = "") -> None:
        """``imported``: the name of the file that the run is from; empty: the run is in the
        journal."""
        self._store = store
        self._row = row
        self._imported = imported
        self.run_id = row.head.run_id
        self.name = row.head.name
        self.language = row.head.language
        self.status = row.head.status
        """``ok``, ``error``, ``cancelled``, ``waiting``, ``running`` or ``interrupted``."""
        self.secrets = Secrets()  # the journal stores none

    @property
    def _in_journal(self) -> tuple[Store, int]:
        """The journal of the run, and the number of the run there."""
        return self._store, self._row.head.num

    @property
    def _ended_rows(self) -> None:
        """Only the journal knows how the rows ended."""
        return None

    @property
    def started(self) -> datetime:
        return datetime.fromtimestamp(self._row.head.started)

    @property
    def ended(self) -> datetime | None:
        """The time of the end; None if the run has not ended."""
        ended = self._row.head.ended
        return datetime.fromtimestamp(ended) if ended is not None else None

    @property
    def seconds(self) -> float | None:
        """The seconds that the run took, without the pauses between its sessions; None: it has not
        ended."""
        return self._row.head.seconds

    def clock(self, at: float) -> float:
        """Return the seconds that the run had taken at a time, without its pauses. ``at``: the
        time, in seconds since 1970. Required."""
        return self._row.head.clock(at)

    @property
    def note(self) -> str:
        """The notes about the run: why it is incomplete and how to resume it, which run it repeats
        from which step, how often it was resumed, and what the journal lacks. Usually empty."""
        head = self._row.head
        resume = self.how_to_continue
        begun = ""
        with suppress(DefinitionError):  # the manifest is damaged
            begun = self.order.note
        if self._imported:
            parts = (f"from {self._imported}", begun, describe_lost(head.lost))
            return "; ".join(filter(None, parts))
        why = {
            "interrupted": "its process ended before it did",
            "waiting": "it waits for an answer",
            "running": "it runs in another process, and only what has ended is known",
        }.get(self.status)
        parts = (
            ": ".join(filter(None, (why, resume))) if why else resume and f"{resume} resumes it",
            begun,
            describe_resumed(head.times_resumed),
        )
        return "; ".join(filter(None, (*parts, describe_lost(head.lost))))

    @property
    def how_to_continue(self) -> str:
        """What to write to resume the run, ``%resume big-2``; empty if there is nothing to
        resume, or if it would fail in the same way."""
        if self._imported or (self.status == "error" and fails_again(self.error)):
            return ""
        return current.words.resume(self.run_id, self.status)

    @cached_property
    def order(self) -> Manifest:
        """The manifest of the run: the definitions, the input, the limits. Raises DefinitionError
        if the manifest is damaged."""
        try:
            return read_manifest(self._row)
        except DecodeError as error:
            raise refused("journal.unreadable", f"this run cannot be read: {error}") from None

    @property
    def input(self) -> Value:
        return self.order.input

    @property
    def output(self) -> Value:
        """The output; of one that is not JSON a preview, with a warning: `load` returns the value
        itself."""
        if not self.has_whole_output:
            message = (
                f"this is a preview of the output of {self.run_id}, which is not JSON: "
                f".load() returns the output"
            )
            warnings.warn(message, stacklevel=2)
        return self.shown_output

    @property
    def shown_output(self) -> Value:
        """The output for display, for which nothing is unpickled."""
        row = self._row
        return self._decode(row.output if row.form == "json" else row.shown)

    @property
    def stores(self) -> Mapping[str, Value]:
        stores = self._decode(self._row.stores) or {}
        return NamedValues(stores) if isinstance(stores, dict) else self._refuse_end()

    @property
    def has_whole_output(self) -> bool:
        """Whether `output` is the output itself, and not a preview of a value that is not JSON."""
        return self._row.form == "json" or self._row.shown is None

    @property
    def previews(self) -> tuple[str, ...]:
        """The names of the `stores` that are previews: of values that are not JSON, or that have a
        secret."""
        return self._row.previews

    @cached_property
    def error(self) -> StepError | None:
        if self._row.error is None:
            return None
        try:
            error = error_from(self._row.error, [text.source for text in self.order.flows])
        except UNREADABLE:
            self._refuse_end()
        if error.path_text:
            with suppress(AgfError):  # a definition that cannot be loaded has no names
                name_place(Progress(self.flow, self._linked.callees).rows, error)
        return error

    @cached_property
    def flow(self) -> Flow:
        """The definition at the time of the run. Raises DefinitionError if it can no longer be
        loaded."""
        return self._linked.flow

    @cached_property
    def progress(self) -> Progress:
        """The tree of steps with their states."""
        progress = Progress(self.flow, self._linked.callees)
        head = self._row.head
        everything = list(self.records())
        progress.status = self.status
        progress.error = self.error
        progress.stores = self.stores
        try:
            if (rows := self._decode(self._row.tree)) is not None:
                restore_rows(progress, rows)
            has_rows = rows is not None
            has_times = has_rows and head.ended is not None
            restore_calls(progress, everything, head.clock, has_rows, has_times)
            restore_turns(progress, everything)
            if rows is None:
                restore_evaluated(progress, self._linked)
            for reply in uses(everything):
                count_use(progress, reply)
        except UNREADABLE:
            self._refuse_end()
        # The run may have no end: then its last call or its last row tells when it stopped.
        ends = (
            *(head.clock(record.ended) for record in everything if record.ended is not None),
            *(row.ended or 0.0 for row in progress.rows.values()),
        )
        progress.pauses = head.pauses
        progress.when = 0.0
        progress.ended = max(0.0, *ends) if head.seconds is None else head.seconds
        return progress

    @cached_property
    def usage(self) -> Usage:
        """The use of models in this run, without results that were reused from another run."""
        used = Usage()
        for reply in uses(self.records()):
            used = used.plus(one_reply(reply.input, reply.output, reply.model, reply.cost))
        return used

    @property
    def trace(self) -> Trace:
        """A table with one row per step, in the order of the definition."""
        with as_definition_errors():
            return trace_rows(self.progress, self._in_journal, self.secrets.shown)

    @property
    def calls(self) -> CallTable:
        """A table with one row per journaled call, in the order of their ends."""
        return CallTable(_readable(_call_rows(self.records())))

    @cached_property
    def table(self) -> RowTable:
        """The result of a run over a table: each of its rows with its outcome. Raises DefinitionError
        for another run."""
        from ..table_runs.table import RowTable

        return RowTable(self)

    @cached_property
    def _input_value(self) -> Value:
        """The input, which may be a pickle that this user has signed. Raises DefinitionError."""
        try:
            order = read_manifest(self._row, trust=False)
        except DecodeError as error:
            raise refused("journal.unreadable", f"its input cannot be read: {error}") from None
        return None if order.unkept else order.input

    @property
    def _definition(self) -> tuple[str, Source]:
        return self.language, self.order.flows[0].source

    def records(self) -> Iterator[Record]:
        """The rows of the journal. Raises DefinitionError if they are damaged."""
        return _readable(runs.records(self._store, self._row.head.num))

    def load(self, at: str | None = None, trust: bool = False) -> Value:
        """Return the value of the call ``at`` (``steps[0].do#3``; default None: the output). A
        value other than JSON is unpickled, which can run code: without your signature only with
        ``trust`` (default False)."""
        row = self._row
        call = find_call(self.records(), at) if at is not None else None
        try:
            if call is not None:
                return call.read_value(self.run_id, trust, self._store.files)
            signed = (self.run_id, "output", "", row.output or "")
            if row.form in PICKLED and not trust and not is_signed(user_key(), row.sign, *signed):
                raise SignatureError
            return decode_stored(row.form, row.output, self._store.files)
        except DecodeError as error:
            name = at or "its output"
            raise refused("journal.unreadable", f"{name} cannot be read: {error}") from None

    def compare(self, other: PastRun | Run | str) -> Comparison:
        """Return how the run ``other`` (required: a run, or what names one) differs: a table with
        one row per step, with the attributes ``values`` (a table of the values that differ) and
        ``definitions`` (the difference of the texts).

        Raises DefinitionError if one of the runs is damaged, or is not in the journal."""
        other = other if isinstance(other, PastRun) else find_past_run(other)
        first, second = (
            ComparedRun(
                *(run.run_id, run.input, run.shown_output, run.stores, run.order, run.records),
                StoredValue(run._row.form or "again", run._row.output, run._row.shown),
                run._row.previews,
                tuple(run.progress.rows.values()),
                run.clock,
                (run.language, run.name),
                run._changed_objects(),
                "" if run.status == "ok" else _message(run.error) or run.status,
            )
            for run in (self, other)
        )
        return compare(first, second)

    def _changed_objects(self) -> frozenset[bytes]:
        with as_definition_errors(), self._store.reading() as connection:
            return runs.changed_objects(connection, self._row.head.num)

    def export(self, path: str | Path) -> Path:
        """Write the run to the file ``path`` (required) as JSON, opaque values as displayed, and
        return the path. `import_run` opens it elsewhere."""
        target = Path(path)
        with replaced_file(target) as file:
            head = {
                "run": self.run_id,
                "name": self.name,
                "language": self.language,
                "status": self.status,
                "started": self.started.isoformat(),
                "seconds": self.seconds,
                "input": self.input,
                "output": self.shown_output,
                "stores": self.stores,
                "usage": self.usage.as_json(),
                "error": str(self.error) if self.error else None,
                "definitions": [
                    {"name": text.name, "language": text.language, "text": text.source.text}
                    for text in self.order.flows
                ],
            }
            if self.language == OVER:
                head |= self.table.report_form()
            file.write(_strict(head)[:-1] + ',"calls":[')
            for number, call in enumerate(_readable(_call_rows(self.records()))):
                file.write((",\n" if number else "\n") + _strict(call))
            file.write('],"journal":')
            file.writelines(_readable(copied(self._store, self._row)))
            file.write("}\n")
        return target

    @cached_property
    def _linked(self) -> Linked:
        """The definitions of the run, linked only with each other: nothing of the kernel is
        used."""
        texts = self.order.flows
        _, flows = load_texts(texts)
        _add_sessions(flows, texts)
        linked = {n: Linked(flow, {}) for n, flow in enumerate(flows) if flow is not None}
        for number in linked:
            # A step that may run one of several definitions stands for the first of them.
            callees = {
                step: linked[first]
                for step, (first, *_) in texts[number].calls.items()
                if first in linked
            }
            linked[number].callees.update(callees)  # type: ignore[attr-defined]  # it was made here, as a dict
        return linked[0]

    def _decode(self, text: str | bytes | None) -> Any:
        try:
            return decoded(text)
        except JournalError:
            self._refuse_end()

    def _refuse_end(self) -> NoReturn:
        """Raise the error for damaged data from the end of the run: output, stores, tree, error."""
        raise unusable(
            JournalError("journal.damaged", f"the end of run {self.run_id!r} is damaged")
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from ...pictures.pages.past_page import past_html, past_text
        from ...pictures.plain import untypeset

        return {"text/html": untypeset(past_html(self)), "text/plain": past_text(self)}

    def __repr__(self) -> str:
        return f"<PastRun {self.run_id} {self.status}>"


def find_past_run(run: object) -> PastRun:
    """The run of the journal that ``run`` names (see `run_names`), or a run. Raises
    DefinitionError."""
    store = journal()
    with as_definition_errors():
        return PastRun(store, find_run(store, run))


def _add_sessions(flows: list[Flow | None], texts: Sequence[DefinitionText]) -> None:
    """Add the flows of model sessions, at the places of the steps that open them."""
    for number, text in enumerate(texts):
        flow = flows[number]
        for step in calls(flow.body) if flow is not None else ():
            for called in text.calls.get(step.id, ()):
                opened = texts[called]
                if opened.session is not None and step.place is not None:
                    flows[called] = recorded_session(
                        *opened.session, opened.offered, opened.language, step.place
                    )


def _readable(rows: Iterable[T]) -> Iterator[T]:
    """Rows of a journal. Raises a JournalError as a DefinitionError."""
    with as_definition_errors():
        yield from rows


def _call_rows(records: Iterable[Record]) -> Iterator[dict[str, Any]]:
    """The journaled calls as rows of a table, and the elements that were dropped for another reason
    than a failed call: a result that does not conform to its schema, an expression. A resumed run
    continues to count the attempts of a call. Fire-and-forget calls without an outcome are last."""
    attempts: Counter[StepPath] = Counter()
    failed = set[StepPath]()
    fired: dict[CallKey, Record] = {}
    for record in records:
        if record.what == "fired":
            fired[record.key] = record
            continue
        if record.what in ("finished", "failed"):
            fired.pop(record.key, None)
        if record.what == "failed":
            failed.update(record.at[:end] for end in range(1, len(record.at) + 1))
        if record.what == "dropped" and record.at not in failed:
            yield _call_row(record, 1)
        elif record.kind and record.kind != ROW:  # a row of a table is not a call
            attempts[record.at] += 1
            yield _call_row(record, attempts[record.at])
    for record in fired.values():
        yield _call_row(record, 1)


def _message(error: StepError | None) -> str:
    """The message of an error, without its place; empty: there is none."""
    return error.diagnostic.message if error is not None else ""


def _call_row(record: Record, attempt: int) -> dict[str, Any]:
    return {
        "step": format_path(record.at),
        "kind": record.kind,
        "label": record.name,
        "status": "ok" if record.what == "finished" else record.what,
        "attempt": attempt,
        "started": record.started,
        "seconds": record.seconds,
        "input": record.arguments_shown,
        "output": record.value_shown,
        "error": record.message,
    }


def _strict(value: Any) -> str:
    """JSON that every program can read: NaN and infinities are null (decision A1)."""
    plain = json.loads(encode(value), parse_constant=lambda name: None)
    return json.dumps(plain, ensure_ascii=False, allow_nan=False)
