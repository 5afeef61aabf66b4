"""Compares two runs of the journal: their steps, the values that differ, and their definitions.

The memory is bounded: the comparison holds a hash of each call, and the values of only the first
calls that differ.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from itertools import islice, zip_longest
from typing import Any, NamedTuple

from ...flow.progress.rows import Key, Row, key_of
from ...flow.progress.usage import Usage, one_reply
from ...flow.progress.worked import union
from ...flow.step_path import StepPath, format_path
from ...flow.steps import Invoke
from ...journal.calls.changed_objects import NOTHING_CHANGED
from ...journal.codec.json_texts import encode
from ...journal.codec.same_values import Essence, Stored, essence, have_same, is_same
from ...journal.records.model_use import uses
from ...journal.records.records import Record, StoredValue
from ...pictures.amounts import counted
from ...pictures.difference import MISSING, text_difference
from ...values.value import Value
from ..input.fields import fields_of
from ..storage.edited_functions import edited_between
from ..storage.manifest import Manifest
from .align_steps import align
from .compared_values import Same, differing_values, one_difference
from .comparison_tables import FIRST, NOT_COMPARED, SECOND, Comparison, Differences

MOST_VALUES = 100
"""Rows of the table of values."""
MOST_CALLS = 20
"""Calls whose values are compared: the first ones that differ."""
LONGEST_COMPARED = 1_000_000
"""Characters of a call's value as JSON that is compared part by part. Of a larger value the
comparison only says that it differs."""


class ComparedRun(NamedTuple):
    """The data of a run for the comparison: values for views, and their stored forms."""

    run_id: str
    input: Value
    output: Value
    stores: Mapping[str, Value]
    order: Manifest
    records: Callable[[], Iterator[Record]]
    stored_output: Stored
    previews: Collection[str] = ()
    """The names of the stores of which there is a preview only."""
    rows: Sequence[Row] = ()
    """The steps, in the order of the definition."""
    clock: Callable[[float], float] = float
    """Converts a time to the seconds that the run had run."""
    flow: tuple[str, str] = ("", "")
    """The language and the name of what ran: another definition of the same flow is an edited
    one."""
    changed: frozenset[bytes] = NOTHING_CHANGED
    """The keys of the objects that its calls changed."""
    error: str = ""
    """The message of the error that ended it, or else its status; empty if it ended well."""


class _Call(NamedTuple):
    """The data of one call for the comparison."""

    output: int
    """The hash of how the call ended, with its stored result or the messages of its failure."""
    input: int
    """The hash of the stored arguments of the call."""
    times: tuple[tuple[float, float], ...]
    """The begin and the end of each attempt, in seconds of the run's clock."""
    label: str
    """The callee."""
    is_whole: tuple[bool, bool]
    """Whether the result and the input are stored, so that equal hashes mean equal values."""
    digest: bytes | None
    """The digest of the call with its input (see `CallDigest`)."""
    contents: str | None
    """The digest of an input that is not JSON; None: it has none."""

    def has_same_digest(self, other: _Call) -> bool:
        """Whether the digest of the input, or of the whole call, is that of ``other``."""
        pairs = ((self.digest, other.digest), (self.contents, other.contents))
        return any(mine is not None and mine == theirs for mine, theirs in pairs)


class _Step(NamedTuple):
    """A step of the two runs: its key in each; None: the run does not have it."""

    first: Key | None
    other: Key | None

    @property
    def id(self) -> str:
        """The step of the first run, if the run has it."""
        return "/".join(self.first or self.other or ())


Steps = Mapping[Key, _Step]
"""The steps of one run."""

_Place = tuple[_Step, tuple[int, ...]]
"""A call in both runs: its step, and the numbers of the elements and iterations around it."""

Calls = dict[_Place, _Call]
"""The calls of a step."""

Sames = dict[_Place, tuple[Same, Same]]
"""Whether the outputs and the inputs are the same, for each call that both runs have."""


class _Side(NamedTuple):
    """One of the two runs, with its steps as steps of both runs."""

    run: ComparedRun
    steps: Steps

    def step_of(self, at: StepPath) -> _Step:
        key = key_of(at)
        # A step without a row, such as one of a model's session, has the same key in both runs.
        return self.steps.get(key) or _Step(key, key)

    def place_of(self, at: StepPath) -> _Place:
        return self.step_of(at), tuple([bit for bit in at if isinstance(bit, int)])


def _sides(a: ComparedRun, b: ComparedRun) -> tuple[_Side, _Side]:
    aligned = align(a.rows, b.rows, a.flow == b.flow)
    other = {
        row.key: _Step(aligned[row.key].key if row.key in aligned else None, row.key)
        for row in b.rows
    }
    first = {row.key: _Step(row.key, None) for row in a.rows}
    first |= {step.first: step for step in other.values() if step.first is not None}
    return _Side(a, first), _Side(b, other)


def compare(a: ComparedRun, b: ComparedRun) -> Comparison:
    """The differences between the runs ``a`` and ``b``. Raises DefinitionError if one of them is
    damaged."""
    sides = _sides(a, b)
    first, other = map(_by_step, sides)
    sames = _sames(sides, first, other)
    steps = _in_order_of_the_flow(sides, dict.fromkeys((*first, *other)))
    used = [_used(side) for side in sides]
    names = [{row.key: row.name for row in run.rows} for run in (a, b)]
    times = [{row.key: row.seconds for row in run.rows} for run in (a, b)]
    reused = [{row.key: row.earlier for row in run.rows} for run in (a, b)]
    comparison = Comparison(
        {
            **_row(step, _name(step, *names), first[step], other[step], sames),
            "seconds": _seconds(times[0], step.first, first[step]),
            "seconds of the other": _seconds(times[1], step.other, other[step]),
            "reused": reused[0].get(step.first or (), 0),
            "reused of the other": reused[1].get(step.other or (), 0),
            "cost": used[0][step].cost,
            "cost of the other": used[1][step].cost,
            "unpriced": used[0][step].unpriced,
            "unpriced of the other": used[1][step].unpriced,
        }
        for step in steps
    )
    comparison.uncalled = tuple(dict.fromkeys(_uncalled(sides, names)))
    comparison.runs = (a.run_id, b.run_id)
    functions = a.order.functions, b.order.functions
    comparison.edited = tuple(edited_between(*functions, a.changed | b.changed))
    rows = list(islice(_differences(sides, sames), MOST_VALUES + 1))
    comparison.tables = dict(filter(None, (row.pop("table", None) for row in rows)))
    comparison.is_cut = len(rows) > MOST_VALUES
    # What differs comes first: a value that was not compared tells the least.
    rows_in_order = sorted(rows[:MOST_VALUES], key=lambda row: row["differs"] == NOT_COMPARED)
    comparison.values = Differences(rows_in_order)
    texts, others = _texts(a.order), _texts(b.order)
    comparison.definitions = "".join(
        text_difference(title, texts.get(title), others.get(title))
        for title in dict.fromkeys((*texts, *others))
    )
    return comparison


def _in_order_of_the_flow(sides: tuple[_Side, _Side], steps: Iterable[_Step]) -> list[_Step]:
    """The steps in the order of the first definition; a step that only the other one has stands
    behind the step that it follows there."""
    first, other = sides
    places = {first.steps[row.key]: (place, 0) for place, row in enumerate(first.run.rows)}
    place, inserted = -1, 0
    for row in other.run.rows:
        step = other.steps[row.key]
        if step in places:
            place, inserted = places[step]
        else:
            inserted += 1
            places[step] = place, inserted
    unknown = len(places), 0
    return sorted(steps, key=lambda step: places.get(step, unknown))


def _uncalled(sides: tuple[_Side, _Side], names: Sequence[Mapping[Key, str]]) -> Iterator[str]:
    """The names of the steps that ran in one of the runs, make no call and have no step inside."""
    for step in dict.fromkeys(
        side.steps[row.key]
        for side in sides
        for row, below in zip_longest(side.run.rows, side.run.rows[1:])
        if row.is_listed and row.finished and not isinstance(row.step, Invoke)
        if below is None or below.depth <= row.depth
    ):
        yield _name(step, *names)


def _name(step: _Step, first: Mapping[Key, str], other: Mapping[Key, str]) -> str:
    """The name of the step in the runs that have it: ``clean``, or ``clean → tidy``."""
    return _both(first.get(step.first or (), ""), other.get(step.other or (), ""))


def _both(first: str, other: str) -> str:
    """The texts of two runs about the same thing, as one text; empty: both texts are empty."""
    return " → ".join(dict.fromkeys(filter(None, (first, other))))


def _row(step: _Step, name: str, first: Calls, other: Calls, sames: Sames) -> dict[str, Any]:
    labels = [next(iter(calls.values())).label if calls else "" for calls in (first, other)]
    pairs = [sames[place] for place in first.keys() & other.keys()]
    # How often the outputs are the same (True), differ (False), or cannot be compared (None).
    outputs = Counter(output for output, _ in pairs)
    only = ""
    if not other:
        only = FIRST
    elif not first:
        only = SECOND
    differs = "" if outputs[True] == len(first) == len(other) else "yes"
    if differs and outputs[True] + outputs[None] == len(first) == len(other):
        differs = NOT_COMPARED
    return {
        "step": step.id,
        "name": name or _both(*labels),
        "label": _both(*labels),
        "calls": len(first),
        "calls of the other": len(other),
        "same input": sum(same_input is True for _, same_input in pairs),
        "same output": outputs[True],
        "not compared": outputs[None],
        "differs": only or differs,
    }


def _seconds(times: Mapping[Key, float | None], step: Key | None, calls: Calls) -> float:
    """The seconds in which a step ran, as its row shows them; for a step without a row, its calls."""
    seconds = times.get(step or ())
    if seconds is not None or not calls:
        return seconds or 0.0
    worked = union(time for call in calls.values() for time in call.times)
    return worked.seconds if worked is not None else 0.0


def _by_step(side: _Side) -> dict[_Step, Calls]:
    """The calls of a run by their steps; of a call with several attempts, the last outcome."""
    run, calls = side.run, defaultdict[_Step, Calls](dict)
    for record in _ended_calls(run):
        result, arguments = record.result, record.arguments
        output = record.what, _said(record) or (result.form, result.data, result.shown)
        whole = record.error is not None or result.form != "again", arguments.whole > 0
        begin = record.started or 0.0
        times: tuple[tuple[float, float], ...]
        times = ((run.clock(begin), run.clock(record.ended or begin)),)
        hashes = hash(output), hash(arguments.text)
        place = side.place_of(record.at)
        step = calls[place[0]]
        if place in step:  # an earlier attempt of the call
            times = step[place].times + times
        digests = record.digest, arguments.contents
        step[place] = _Call(*hashes, times, record.name, whole, *digests)
    return calls


def _said(record: Record) -> tuple[tuple[str, str], ...]:
    """The codes and messages of a failure, without its places, which another cell or an edit above
    changes; empty: the call did not fail."""
    failure = record.failure
    return tuple((said.code, said.message) for said in failure.diagnostics) if failure else ()


def _same_hashes(mine: int, theirs: int, are_whole: bool) -> bool | None:
    """Whether two values are the same, by their hashes; None: a value is not all there."""
    if mine != theirs:
        return False
    return True if are_whole else None


def _sames(
    sides: tuple[_Side, _Side], first: dict[_Step, Calls], other: dict[_Step, Calls]
) -> Sames:
    """Compares the values of calls of both runs. If the bytes of two values differ, the values are
    read again, because equal values may have different bytes."""
    sames: Sames = {}
    for step, calls in first.items():
        for place, call in calls.items():
            if (its := other[step].get(place)) is not None:
                wholes = zip(call.is_whole, its.is_whole, strict=True)
                hashes = ((call.output, its.output), (call.input, its.input))
                same_output, same_input = (
                    _same_hashes(mine, theirs, all(are_whole))
                    for are_whole, (mine, theirs) in zip(wholes, hashes, strict=True)
                )
                if call.has_same_digest(its):  # whatever their previews say
                    same_input = True
                sames[place] = same_output, same_input
    unequal = {place for place, both in sames.items() if False in both}
    if unequal:
        a, b = sides
        mine = {place: _essences(record) for place, record in _records_at(a, unequal)}
        its_own = {place: _essences(record) for place, record in _records_at(b, unequal)}
        for place, its_essences in its_own.items():
            pairs = zip(sames[place], mine[place], its_essences, strict=True)
            output_is_same, input_is_same = (
                have_same(first_essence, other_essence)
                if same is False and first_essence and other_essence
                else same
                for same, first_essence, other_essence in pairs
            )
            sames[place] = output_is_same, input_is_same
    return sames


def _records_at(side: _Side, places: Container[_Place]) -> Iterator[tuple[_Place, Record]]:
    """The last record of each of these calls."""
    for record in _ended_calls(side.run):
        place = side.place_of(record.at)
        if place in places:
            yield place, record


def _essences(record: Record) -> tuple[Essence | None, Essence | None]:
    """The essences of the result and of the input; None: the call failed."""
    arguments = record.arguments
    form = "json" if arguments.whole else "again"
    text = arguments.text if arguments.whole else None
    shown = None if arguments.whole else arguments.text
    return (
        essence(record.result) if record.error is None else None,
        essence(StoredValue(form, text, shown)),
    )


def _used(side: _Side) -> dict[_Step, Usage]:
    """What the models of each step used, with the replies whose price is unknown."""
    used = defaultdict[_Step, Usage](Usage)
    for reply in uses(side.run.records()):
        step = side.step_of(reply.at)
        used[step] = used[step].plus(one_reply(reply.input, reply.output, reply.model, reply.cost))
    return used


def _ended_calls(run: ComparedRun) -> Iterator[Record]:
    return (rec for rec in run.records() if rec.kind and rec.what in ("finished", "failed"))


# --- values ---


def _differences(sides: tuple[_Side, _Side], sames: Sames) -> Iterator[dict[str, Any]]:
    a, b = (side.run for side in sides)
    yield from differing_values("input", a.input, b.input, is_same(a.order.packed, b.order.packed))
    # A run that did not end well has no output, which is not the output null.
    mine, its = (MISSING if run.error else run.output for run in (a, b))
    yield from differing_values("output", mine, its, is_same(a.stored_output, b.stored_output))
    mine, its = (run.error or MISSING for run in (a, b))
    yield from differing_values("error", mine, its, mine == its)
    yield from _stores(sides, sames)
    changed = {place: both for place, both in sames.items() if both != (True, True)}
    shown = dict(islice(changed.items(), MOST_CALLS))
    # The values are read again: those of all calls may be more than the memory holds.
    before, after = (dict(_small_records(side, shown)) for side in sides)
    for place, both in shown.items():
        yield from _call_parts(both, (before[place], after[place]))
    if len(changed) > MOST_CALLS:
        yield one_difference(counted(len(changed) - MOST_CALLS, "more call"), "…", "…")


def _stores(sides: tuple[_Side, _Side], sames: Sames) -> Iterator[dict[str, Any]]:
    """The stores that differ or cannot be compared, except those that differ because of the
    input."""
    a, b = (side.run for side in sides)
    skipped = _unwritten(a) & _unwritten(b)
    previews = {*a.previews, *b.previews}
    first, other = (
        {name: value for name, value in run.stores.items() if name not in skipped | previews}
        for run in (a, b)
    )
    # Not known to be the same: only parts that differ are listed, and never the stores as a whole.
    yield from differing_values("stores", first, other, is_same=False)
    for name in sorted(previews - skipped):
        mine, its = (run.stores.get(name, MISSING) for run in (a, b))
        yield from differing_values(f"stores.{name}", mine, its, _same_results(name, sides, sames))


def _same_results(store: str, sides: tuple[_Side, _Side], sames: Sames) -> Same:
    """Whether the calls that wrote a store had the same result, which tells whether the store is the
    same; None: no call wrote it, or it is not known which one."""
    writers = {
        side.steps[row.key]
        for side in sides
        for row in side.run.rows
        if len(row.key) == 1 and row.finished and row.step.target is not None
        if any(ref.path[1:] == (store,) for ref in row.step.target.writes())
    }
    places = [(step, ()) for step in writers]
    return sames[places[0]][0] if len(places) == 1 and places[0] in sames else None


def _unwritten(run: ComparedRun) -> set[str]:
    """The stores that still have the value of the input, as far as it is known."""
    input = fields_of(run.input)
    names = [name for name in run.stores if name in input]
    return {name for name in names if encode(run.stores[name]) == encode(input[name])}


def _small_records(side: _Side, places: Container[_Place]) -> Iterator[tuple[_Place, Record]]:
    """The records of these calls, without their large values."""
    for place, record in _records_at(side, places) if places else ():
        arguments = record.arguments._replace(text=_small(record.arguments.text))
        data, shown = _small(record.result.data), _small(record.result.shown)
        result = record.result._replace(data=data, shown=shown)
        yield place, record._replace(arguments=arguments, result=result, digest=None)


def _small(text: Any) -> Any:
    """The text, or in place of a large one a JSON text that tells its size."""
    if text is None or len(text) <= LONGEST_COMPARED:
        return text
    return encode(f"{len(text):,} characters of JSON")


def _call_parts(
    sames: tuple[Same, Same], records: tuple[Record, Record]
) -> Iterator[dict[str, Any]]:
    a, b = records
    path = format_path(a.at)
    same_output, same_input = sames
    yield from differing_values(f"{path} input", a.arguments_shown, b.arguments_shown, same_input)
    if same_output is not True and (a.error or b.error):
        yield one_difference(f"{path} output", *(rec.message or "it succeeded" for rec in records))
    else:
        yield from differing_values(f"{path} output", a.value_shown, b.value_shown, same_output)


def _texts(order: Manifest) -> dict[str, str]:
    """The texts of a run, each once, by language and name; and of the schemas that none of them
    declares."""
    texts: dict[str, str] = {}
    for text in order.flows:
        if not text.made:
            texts.setdefault(f"{text.language} {text.name}", text.source.text)
    for number, (language, source) in enumerate(order.schemas, 1):
        texts.setdefault(f"{language} schema {number}", source.text)
    return texts
