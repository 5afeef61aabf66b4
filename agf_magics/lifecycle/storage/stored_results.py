"""Reads the stored result of a call, if the user has signed it or trusts it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...journal.codec.encoding import PICKLED, DecodeError
from ...journal.codec.identities import Identities
from ...journal.codec.signatures import SignatureError
from ...journal.database.value_files import ValueFiles
from ...journal.records.recorded_outcomes import LateValue
from ...journal.records.records import CallKey, Record, StoredValue
from ...values.value import Value


def unpickle(
    record: Record,
    run_id: str,
    trust: bool,
    files: ValueFiles | None,
    identities: Identities | None = None,
    learns: bool = True,
    is_late: bool = False,
) -> Record:
    """A record of a run with its value, whose parts are in ``files``. ``identities``: the objects
    that were read before. ``learns``: whether the objects of this value are added to them.
    ``is_late``: whether a value that is stored in parts is read only when its call comes. Raises
    DecodeError for a value that the user has not signed."""
    # This holds for every `trust`: an answer that is not believed is no error, because its question
    # is asked again.
    if record.what == "answered" and not record.is_believed(run_id):
        return record._replace(result=StoredValue("again"))
    data = record.result.data
    if data is None or record.result.form not in ("json", *PICKLED):
        return record

    def read() -> Value:
        value = record.read_value(run_id, trust, files)
        if identities is not None and isinstance(data, bytes):
            value = identities.restored(value, data, learns)
        return value

    try:
        if is_late and record.result.parts is not None:
            if not trust:
                record.check_signature(run_id)
            value: Value = LateValue(record.result.parts, read, record.result.shown)
        else:
            value = read()
        return record._replace(result=record.result._replace(unpickled=(value,)))
    except SignatureError:
        raise SignatureError(f"the result of {record.name!r} is not signed with your key") from None
    except DecodeError as error:
        raise DecodeError(f"the result of {record.name!r} cannot be read ({error})") from None


def without_foreign_outcomes(records: Iterable[Record], run_id: str) -> Iterator[Record]:
    """The records of a run. The end of a call with an effect counts as unknown if the run itself
    has not written it: a person is asked whether the call was made (decision D7)."""
    begun = set[CallKey]()
    for record in records:
        if record.what == "begun":
            begun.add(record.key)
        is_end = record.what in ("finished", "failed") and record.key in begun
        if is_end and not record.is_believed(run_id):
            result = StoredValue("again")
            record = record._replace(what="finished", result=result, error=None)
        yield record
