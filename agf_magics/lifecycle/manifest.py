"""What the journal has of a run besides its calls: its manifest and the tree of its steps.

The manifest has everything that is needed to do the run, and is journaled before its first step:
the texts of the definitions, of the schemas they use and of all definitions they call. A resumed
run loads these texts, not the edited ones. Tools and agents are functions of the kernel and are
looked up again.

The tree is journaled at the end of the run: one row per step, also of steps whose results are not
journaled. When a process journals its first run, old runs are deleted.
"""

from __future__ import annotations

import base64
import json
import secrets as random
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cache, reduce
from graphlib import TopologicalSorter
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from math import isfinite
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict

from ..catalog import Agent, Policy, Registry, Tool, Transform
from ..engine.limits import Grant, Limits, rights
from ..engine.link import link
from ..engine.linked import Linked, asked_model, flows_of
from ..engine.runner import clock
from ..flow.events import Warned
from ..flow.progress import PRICE, Progress, Row, Usage
from ..flow.steps import Flow
from ..flow.values import Value
from ..flow.wiring import check
from ..journal import queries
from ..journal.codec import (
    DecodeError,
    SignatureError,
    checker,
    decode_value,
    encode,
    encode_value,
    is_signed,
    part_digest,
    preview,
    sign,
    user_key,
)
from ..journal.file import JournalError, not_journaled
from ..journal.queries import ENDED, RunHead, RunRow, keep_parts
from ..journal.recorder import Journal
from ..journal.records import Count, decoded
from ..journal.secrets import Secrets
from ..journal.store import ROOM, Store
from ..languages import LANGUAGES
from ..text.diagnostics import AgfError, DefinitionError, Diagnostic, Diagnostics, Source, StepError
from .define import file_opener, in_file, load, load_definition
from .run import Run
from .settings import current, this_notebook

FORMAT = 1

MAX_OPENED = 100_000
"""The number of definitions that a run may open, counted at each call."""


class Text(NamedTuple):
    """The text of a definition at the time of the run, and the definitions that it called."""

    name: str
    language: str
    source: Source
    file: str | None
    calls: Mapping[str, tuple[int, ...]]
    """By step id: the numbers of the definitions that the step may run."""
    made: bool
    """Whether a vendor's builder made the flow: it has no text."""
    chosen: tuple[str, ...] = ()
    """The options in effect: see `flow.steps.Dialect`."""
    latent: tuple[str, ...] = ()
    session: tuple[str, str] | None = None
    """The agent and the model of a session, which has no text either; None: it is not a session."""


class Manifest(NamedTuple):
    """A manifest that was read."""

    flows: tuple[Text, ...]
    """The first one is the flow of the run."""
    schemas: tuple[tuple[str, Source], ...]
    """The texts of schemas that are declared outside of the definitions, each with its language."""
    input: Value
    """The journaled input; only for display if ``unkept`` says that a part is missing."""
    unkept: str
    """Why the input is not complete; empty if it is."""
    secret: tuple[str, ...]
    """Input fields that are not journaled because a tool takes them as secret."""
    context: list[Any]
    """The messages of the named context before the run."""
    context_name: str
    """Empty: the run has no context."""
    limits: Limits
    grant: Grant
    version: str
    notebook: str
    """The path of the notebook that started the run; empty if unknown."""
    functions: Mapping[str, Mapping[str, str]]
    """By the name of a callee: the digests of the parts of its function."""


def write_manifest(run: Run, grant: Grant) -> str:
    """The manifest of ``run`` as JSON."""
    assert run.journal is not None, "a run without a journal has no manifest"
    flows = run._linked.reachable
    numbers = {id(each): number for number, each in enumerate(flows)}
    secret, public = frozenset[str](), run.input
    if isinstance(run.input, dict):
        names, holds = run.secrets.names, run.secrets.holds
        secret = frozenset(
            name for name, value in run.input.items() if name in names or holds(value, near=False)
        )
        public = {name: value for name, value in run.input.items() if name not in secret}
    context_name, context = _context(run, run.journal)
    manifest = {
        "format": FORMAT,
        "version": _version(),
        "python": sys.version.split()[0],
        "folder": str(Path.cwd()),
        "notebook": this_notebook(),
        "flows": [_text(each, numbers) for each in flows],
        "schemas": list(_schemas(flows)),
        "functions": _functions(run.journal, run._linked),
        "input": _packed(public, run.run_id, "input"),
        "secret": sorted(secret),
        "context": context,
        "context_name": context_name,
        "limits": asdict(run.limits),
        "identity": grant.identity,
        "tools": sorted(grant.tools) if grant.tools is not None else None,
    }
    return encode(manifest)


def _context(run: Run, journal: Journal) -> tuple[str, str]:
    """The name of a run's named context, and the digest that names its messages, without secrets,
    in the journal. Raises JournalError."""
    context = run.context
    if context is None:
        return "", ""
    texts = [encode(_packed(message, "", "message")) for message in run._log_to_keep() or ()]
    journal.part = keep_parts(journal.store, texts)
    return context.name, journal.part.hex()


def read_manifest(row: RunRow, trust: bool | None = None) -> Manifest:
    """``trust``: None unpickles nothing (for display), False only values that the user has signed,
    True everything.

    Raises DecodeError.
    """
    run_id = row.listed.run_id
    try:
        found = json.loads(row.work)
        if found["format"] != FORMAT:
            raise DecodeError(f"it was written by version {found['version']} of agf-magics")
        _require(checker(_Stored)(found))
        _check_calls([list(chain(*one["calls"].values())) for one in found["flows"]])
        sources: dict[tuple[str, str], Source] = {}

        def source(of: list[Any]) -> Source:
            name, body, first = of
            return sources.setdefault((name, body), Source(name, body, first))

        flows = tuple(
            Text(
                one["name"],
                one["language"],
                source(one["source"]),
                one["file"],
                {step: tuple(calls) for step, calls in one["calls"].items()},
                one["made"],
                tuple(one["chosen"]),
                tuple(one["latent"]),
                tuple(one["session"]) if one["session"] else None,
            )
            for one in found["flows"]
        )
        input, why = _unpacked(found["input"], run_id, "input", trust)
        if reduce(part_digest, row.parts, b"").hex() != found["context"]:
            raise DecodeError("the messages of its context are not in the journal")
        messages = [_unpacked(json.loads(part), "", "message", trust) for part in row.parts]
        tools = found["tools"]
        return Manifest(
            flows=flows,
            schemas=tuple((language, source(of)) for language, of in found["schemas"]),
            input=input,
            unkept=next(filter(None, (why, *(lost for _, lost in messages))), ""),
            secret=tuple(found["secret"]),
            context=[message for message, _ in messages],
            context_name=found["context_name"],
            limits=Limits(**found["limits"]),
            grant=Grant(found["identity"], frozenset(tools) if tools is not None else None),
            version=found["version"],
            notebook=found["notebook"],
            functions=found["functions"],
        )
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise DecodeError(f"its manifest is damaged: {error!r}") from None


_Place = tuple[str, str, Annotated[int, lambda line: 0 <= line < 1 << 31]]
"""Of a source: its name, its text, its first line."""


class _StoredText(TypedDict):
    name: str
    language: Annotated[str, lambda name: name in LANGUAGES]
    source: _Place
    file: str | None
    made: bool
    chosen: list[str]
    calls: dict[str, Annotated[list[int], bool]]
    latent: list[str]
    session: tuple[str, str] | None


class _Stored(TypedDict):
    version: str
    flows: Annotated[
        list[Annotated[_StoredText, lambda text: text["made"] or not text["session"]]],
        lambda flows: flows and not flows[0]["made"],
    ]
    schemas: list[tuple[Annotated[str, lambda name: name in LANGUAGES], _Place]]
    input: Annotated[
        dict[str, object],
        lambda packed: (
            "json" in packed
            or ("shown" in packed and isinstance(packed.get("why", packed.get("sign")), str))
        ),
    ]
    secret: list[str]
    context: str
    context_name: str
    limits: dict[str, object]
    identity: str
    tools: list[str] | None
    notebook: str
    functions: dict[str, dict[str, str]]


def _require(holds: object) -> None:
    if not holds:
        raise ValueError("it is none that this package writes")


def _check_calls(calls: list[list[int]]) -> None:
    """Require that definitions call each other without a cycle and open at most `MAX_OPENED` in
    total."""
    _require(all(0 <= inner < len(calls) for inner in chain(*calls)))
    order = TopologicalSorter(dict(enumerate(calls)))
    opened: dict[int, int] = {}
    for number in order.static_order():  # the called ones first; raises ValueError for a cycle
        opened[number] = 1 + sum(opened[inner] for inner in calls[number])
        _require(opened[number] <= MAX_OPENED)


def _text(linked: Linked, numbers: Mapping[int, int]) -> dict[str, Any]:
    flow = linked.flow
    calls = {
        step: [numbers[id(inner)] for inner in flows_of(callee)]
        for step, callee in linked.callees.items()
        if flows_of(callee)
    }
    return {
        "name": flow.name,
        "language": flow.language,
        "source": _source(flow.source),
        "file": flow.origin.file,
        "calls": calls,
        "made": flow.origin.is_built,
        "chosen": flow.dialect.options,
        "latent": flow.dialect.latent,
        "session": [linked.agent.name, asked_model(flow)] if linked.agent is not None else None,
    }


def _schemas(flows: list[Linked]) -> Iterator[list[Any]]:
    """The texts of the schemas that none of these definitions declares."""
    known = {each.flow.source for each in flows}
    for each in flows:
        for schema in each.schemas.values():
            if schema.span is not None and schema.span.source not in known:
                known.add(schema.span.source)
                yield ["pipeline", _source(schema.span.source)]


def _functions(journal: Journal, linked: Linked) -> dict[str, Mapping[str, str]]:
    """The digests of the parts of the functions that the steps call."""
    callees = {
        callee.name: callee
        for callee, _ in linked.every_callee
        if isinstance(callee, Tool | Agent | Transform | Policy)
    }
    digests = {name: journal.rows.digests.function(callee) for name, callee in callees.items()}
    return {name: digest.parts for name, digest in digests.items() if digest is not None}


def _source(source: Source) -> list[Any]:
    return [source.name, source.text, source.first_line]


def _packed(value: Value, run_id: str, what: str) -> dict[str, Any]:
    packed = encode_value(value, current.settings.journal_value)
    if packed.form == "json":
        return {"json": value}
    key = user_key()
    shown = decoded(packed.shown)
    if packed.form == "again" or key is None or not isinstance(packed.data, bytes):
        return {"shown": shown, "why": packed.why or "there is no key to sign it with"}
    data = base64.b64encode(packed.data).decode("ascii")
    return {"pickle": data, "shown": shown, "sign": sign(key, run_id, what, packed.data).hex()}


def _unpacked(
    found: Mapping[str, Any], run_id: str, what: str, trust: bool | None
) -> tuple[Value, str]:
    if "json" in found:
        return found["json"], ""
    if "pickle" not in found or trust is None:
        return found["shown"], found.get("why", "")
    data = base64.b64decode(found["pickle"])
    if not trust and not is_signed(user_key(), bytes.fromhex(found["sign"]), run_id, what, data):
        raise SignatureError(f"its {what} is not signed with your key")
    return decode_value("pickle", data), ""


@cache
def _version() -> str:
    try:
        return version("agf-magics")
    except PackageNotFoundError:
        return "?"


def link_as_it_was(order: Manifest, registry: Registry) -> tuple[Linked, Diagnostics]:
    """The flow of the run, linked with the definitions and schemas of its manifest and everything
    else of ``registry``; and the problems that were found. Raises DefinitionError."""
    then = registry.without("flows", "schemas")
    for language, source in order.schemas:
        for schema in _loaded(Text("", language, source, None, {}, False))[1].values():
            then.schemas.define(schema, None)
    main, flows = load_texts(order.flows)
    files: dict[Path, Flow] = {}
    for text, flow in zip(order.flows, flows, strict=True):
        if flow is not None and text.file is not None:
            files[Path(text.file)] = in_file(flow, text.file)
        elif flow is not None:
            then.flows.define(flow, None)
    return link(main, then, file_opener(lambda path: load(path, registry=then), files))


def load_texts(texts: Sequence[Text]) -> tuple[Flow, list[Flow | None]]:
    """The flow of the run and those of all definitions at the time of the run; None for one that a
    builder made. Raises DefinitionError."""
    flows = [None if text.made else _loaded(text)[0] for text in texts]
    if flows[0] is None:
        raise refused("journal.unreadable", "this run cannot be read: its text defines no flow")
    return flows[0], flows


def _loaded(text: Text) -> tuple[Flow | None, Mapping[str, Any]]:
    problems = Diagnostics()
    definition = load_definition(text.source, text.language, problems, text.latent)
    flow = definition.flow
    if flow is not None:
        for option in text.chosen:
            changed = flow.dialect.with_option(flow, option)
            if changed is None:
                message = f"this run cannot be read: a {text.language} has no option {option!r}"
                raise refused("journal.unreadable", message)
            flow = changed
        flow, findings = check(replace(flow, name=text.name))
        problems.extend(findings)
    problems.refuse()
    return replace(flow, warnings=tuple(problems)) if flow is not None else None, definition.schemas


def refused(code: str, message: str, hint: str | None = None) -> DefinitionError:
    return DefinitionError(Diagnostic(code, message, hint=hint))


def start_journal(run: Run, path: Path) -> None:
    """Journal ``run`` from before its first step on. A run that cannot be journaled has a warning
    and continues."""
    try:
        store = Store.at(path)
        _forget_old_runs(store)
        most = current.settings.journal_value
        watch(run, Journal(store, random.randbits(36) * ROOM, run.run_id, most))
        run.work = write_manifest(run, rights().grant)
    except JournalError as error:
        run.journal = None
        run.progress.apply(Warned(clock(), not_journaled(error)))


def watch(run: Run, journal: Journal) -> None:
    """Give a run its journal, which reads the state and the secrets of the run."""
    run.journal = journal
    journal.summary = lambda: snapshot_rows(run.progress, run.secrets)
    journal.used = lambda: _used(run.progress.usage)
    journal.rows.secret = run.secrets
    run._find_secrets()


def _used(usage: Usage) -> tuple[int | None, str | None]:
    """The tokens and the cost as the journal lists them."""
    cost = f"{usage.cost:f}" if usage.cost is not None else ""
    tokens = usage.tokens if usage.requests else None
    return tokens, cost if PRICE.fullmatch(cost) else None


def _forget_old_runs(store: Store) -> None:
    """Delete the runs that are too old, once in a process. Raises JournalError."""
    if store.path in _pruned:
        return
    _pruned.add(store.path)
    days, size = current.settings.journal_days, current.settings.journal_size
    since = time.time() - days * DAY if days else 0.0
    if queries.has_older(store, since) or 0 < size < queries.size(store.path):
        # Thousands of runs take seconds: the run that happens to be first does not wait.
        store.in_background(lambda: forget_old(store, days, size, automatic=True))


_pruned: set[Path] = set()
"""Journals whose old runs were deleted: once in a process."""


DAY = 86_400.0


NEWEST_KEPT = 10
"""Runs that are never deleted because of their age alone, unless the user asks for it."""


def forget_old(store: Store, days: float, size: int, *, automatic: bool = False) -> int:
    """Delete runs that ended or were interrupted more than ``days`` ago, and then the oldest ones
    until the journal takes at most ``size`` bytes; 0: no limit. Running and waiting runs stay.

    ``automatic``: nobody asked. Then interrupted runs stay, and a run is old if it ended ``days``
    before each of the last `NEWEST_KEPT` runs: so a clock that is days ahead deletes nothing.

    Returns the number of deleted runs. Raises JournalError.
    """
    statuses = ENDED if automatic else (*ENDED, "interrupted")
    runs = queries.list_runs(store)
    now = time.time()
    if automatic:
        now = min(now, runs[NEWEST_KEPT - 1].started) if len(runs) >= NEWEST_KEPT else 0.0
    ended = [run for run in runs if run.status in statuses]
    old = _old(store, ended, now - days * DAY if days else 0.0, size)
    return queries.forget(store, old)


def _old(store: Store, runs: Sequence[RunHead], since: float, size: int) -> list[RunHead]:
    old = [run for run in runs if (run.ended or run.started) < since]
    if size and queries.size(store.path) > size:
        sizes = queries.sizes(store)
        left = sum(sizes.values()) - sum(sizes.get(run.num, 0) for run in old)
        for run in reversed(runs):
            if left <= size:
                break
            if run not in old:
                old.append(run)
                left -= sizes.get(run.num, 0)
    return old


COUNTS = (
    "started",
    "finished",
    "failed",
    "cancelled",
    "left",
    "skipped",
    "dropped",
    "retried",
    "earlier",
)


OTHERS = ("excused", "fatal", "asks", "width", "why", "when", "ended")
_counts_of, _others_of = attrgetter(*COUNTS), attrgetter(*OTHERS)


_Time = int | Annotated[float, isfinite] | None


_is_row = checker(
    tuple[
        list[str],
        Annotated[list[Count], lambda counts: len(counts) == len(COUNTS)],
        tuple[bool, bool, bool, Count | None, str | None, _Time, _Time],
        object,
        tuple[str, str] | None,
    ]
)
"""A row: its key, the values of `COUNTS`, those of `OTHERS`, its value, the code and the message of
its error."""


def snapshot_rows(progress: Progress, secrets: Secrets) -> list[Any]:
    """The state of each row, as JSON."""
    return [
        [list(key), *_row(row, secrets)]
        for key, row in progress.rows.items()
        if row.started or row.skipped
    ]


def restore_rows(progress: Progress, rows: list[Any]) -> None:
    """Restore ``progress`` from `snapshot_rows`. Raises ValueError for damaged rows."""
    for stored in rows:
        if not _is_row(stored):
            raise ValueError("a row of the tree is damaged")
        key, counts, others, value, error = stored
        row = progress.rows.get(tuple(key))
        if row is None:
            continue
        for name, number in zip(COUNTS, counts, strict=True):
            setattr(row, name, number)
        for name, other in zip(OTHERS, others, strict=True):
            setattr(row, name, other)
        row.value = value
        row.error = StepError(Diagnostic(*error)) if error is not None else None


def _row(row: Row, secrets: Secrets) -> list[Any]:
    described = None
    if isinstance(row.error, AgfError):
        described = [row.error.code, secrets.text(row.error.diagnostic.message)]
    elif row.error is not None:
        described = ["step.tool-failed", type(row.error).__name__]
    return [
        _counts_of(row),
        _others_of(row),
        secrets.shown(preview(secrets.shown(row.value), 3, [40])),
        described,
    ]
