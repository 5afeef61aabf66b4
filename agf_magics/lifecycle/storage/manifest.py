"""The manifest of a run: everything that is needed to do the run, journaled before its first step.

It has the texts of the definitions, of the schemas they use and of all definitions they call. A
resumed run loads these texts, not the edited ones. Tools and agents are functions of the kernel and
are looked up again.
"""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache, reduce
from graphlib import TopologicalSorter
from importlib.metadata import PackageNotFoundError, version
from itertools import chain
from typing import Annotated, Any, NamedTuple, TypedDict

from ...catalog import Agent, Policy, Tool, Transform
from ...engine.linking.linked import Linked, callees_of, flows_of
from ...flow.flow import Flow
from ...flow.session_tools import offered_tools
from ...flow.steps import Invoke, calls
from ...journal.calls.changed_objects import parts_of
from ...journal.calls.reuse import ReusedRuns
from ...journal.codec.encoding import DecodeError, EncodedValue, decode_value, encode_value
from ...journal.codec.json_texts import encode
from ...journal.codec.signatures import SignatureError, is_signed, sign, user_key
from ...journal.codec.type_checks import checker
from ...journal.manifest_parts import keep_parts, part_digest
from ...journal.records.records import decoded
from ...journal.run_journal import Journal
from ...journal.runs import RunRow
from ...languages import LANGUAGES
from ...limits.grants import Grant
from ...limits.limits import Limits, limit_values
from ...settings.folders import this_notebook
from ...settings.settings import current
from ...text.folder import notebook_folder
from ...text.source import Source
from ...values.value import Value
from ..runs.state import RunState

FORMAT = 1
"""The form of a manifest. One with another number is refused."""

MAX_OPENED = 100_000
"""The number of definitions that a run may open, counted at each call."""


class DefinitionText(NamedTuple):
    """The text of a definition at the time of the run, and the definitions that it called."""

    name: str
    language: str
    source: Source
    file: str | None
    """The file of the definition; None: it is not from a file."""
    calls: Mapping[str, tuple[int, ...]]
    """The numbers of the definitions that a step may run, by step id."""
    made: bool
    """Whether a vendor's builder made the flow: it has no text."""
    chosen: tuple[str, ...] = ()
    """The options in effect: see `flow.flow.Dialect`."""
    latent: tuple[str, ...] = ()
    session: tuple[str, str] | None = None
    """The agent and the model of a session, which has no text either; None: it is not a session."""
    offered: tuple[str, ...] = ()
    """The tools that a session offers its model."""


class Manifest(NamedTuple):
    """A manifest that was read."""

    flows: tuple[DefinitionText, ...]
    """The first one is the flow of the run."""
    schemas: tuple[tuple[str, Source], ...]
    """The texts of schemas that are declared outside of the definitions, each with its language."""
    input: Value
    """The journaled input; only for display if ``unkept`` says that a part is missing."""
    packed: EncodedValue
    """The input as it is journaled."""
    unkept: str
    """The reason why the journaled input is not complete; empty: it is complete."""
    secret: tuple[str, ...]
    """Input fields that are not journaled because a tool takes them as secret."""
    context: list[Any]
    """The messages of the named context before the run."""
    context_name: str
    """The name of the context; empty: the run has no context."""
    limits: Limits
    grant: Grant
    version: str
    notebook: str
    """The path of the notebook that started the run; empty if unknown."""
    functions: Mapping[str, Mapping[str, str]]
    """The digests of the parts of a callee's function, by its name."""
    note: str = ""
    """What a person must know about the start of the run: which run it repeats from which step, which
    rows of a table it has."""
    reused: ReusedRuns = ReusedRuns()


def write_manifest(state: RunState, journal: Journal, grant: Grant) -> str:
    """The manifest of a run as JSON."""
    flows = state.linked.reachable
    numbers = {id(flow): number for number, flow in enumerate(flows)}
    secret, public = _without_secrets(state)
    context_name, context = _context(state, journal)
    manifest = {
        "format": FORMAT,
        "version": _version(),
        "python": sys.version.split()[0],
        "folder": str(notebook_folder.path),
        "notebook": this_notebook(),
        "flows": [_text(flow, numbers) for flow in flows],
        "schemas": list(_schemas(flows)),
        "functions": _functions(journal, state.linked),
        "input": _pack(public, state.run_id, "input"),
        "secret": sorted(secret),
        "context": context,
        "context_name": context_name,
        "limits": limit_values(state.limits),
        "identity": grant.identity,
        "tools": sorted(grant.tools) if grant.tools is not None else None,
        "barred": sorted(grant.barred | grant.only_if_asking),
        **({"note": state.options.note} if state.options.note else {}),
        **({"reused": list(map(list, state.reused))} if state.reused.run_ids else {}),
    }
    return encode(manifest)


def _without_secrets(state: RunState) -> tuple[frozenset[str], Value]:
    """The names of the input's fields with a secret, and the input without these fields."""
    input = state.flow_input.input
    if not isinstance(input, dict):
        return frozenset(), input
    names = state.secrets.names
    has_secret = state.secrets.has_secret
    secret = frozenset(
        name for name, value in input.items() if name in names or has_secret(value, near=False)
    )
    return secret, {name: value for name, value in input.items() if name not in secret}


def _context(state: RunState, journal: Journal) -> tuple[str, str]:
    """The name of a run's named context, and the digest that names its messages, without secrets,
    in the journal. Raises JournalError."""
    context = state.flow_input.context
    if context is None:
        return "", ""
    # Signed without the id of the run: runs on one context share its messages.
    texts = [encode(_pack(message, "", "message")) for message in state.log_to_keep() or ()]
    journal.part = keep_parts(journal.store, texts)
    return context.name, journal.part.hex()


def read_manifest(row: RunRow, trust: bool | None = None) -> Manifest:
    """The manifest of a run of the journal. ``trust``: None unpickles nothing (for display), False
    only values that the user has signed, True everything.

    Raises DecodeError.
    """
    try:
        return _manifest_of(row, trust)
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise DecodeError(f"its manifest is damaged: {error!r}") from None


def _manifest_of(row: RunRow, trust: bool | None) -> Manifest:
    """The manifest of a run. What is damaged raises any error: see `read_manifest`."""
    stored = _checked(json.loads(row.work))
    source = _shared_sources()
    input, input_unkept = _unpack(stored["input"], row.head.run_id, "input", trust)
    context, context_unkept = _context_of(row, stored["context"], trust)
    return Manifest(
        flows=tuple(_definition_text(flow, source) for flow in stored["flows"]),
        schemas=tuple((language, source(place)) for language, place in stored["schemas"]),
        input=input,
        packed=_as_stored(stored["input"]),
        unkept=input_unkept or context_unkept,
        secret=tuple(stored["secret"]),
        context=context,
        context_name=stored["context_name"],
        limits=Limits(**stored["limits"]),
        grant=_grant_of(stored),
        version=stored["version"],
        notebook=stored["notebook"],
        functions=stored["functions"],
        note=stored.get("note", ""),
        reused=ReusedRuns(*map(tuple, stored.get("reused", ()))),
    )


def _checked(stored: Any) -> Any:
    """The content of a manifest, if it has the form that this package writes: the journal may be a
    stranger's. Raises an error otherwise."""
    if stored["format"] != FORMAT:
        raise DecodeError(f"it was written by version {stored['version']} of agf-magics")
    _require(checker(_Stored)(stored))
    _check_calls([list(chain(*flow["calls"].values())) for flow in stored["flows"]])
    return stored


def _shared_sources() -> Callable[[list[Any]], Source]:
    """Makes the source of a place: the same object for all definitions of one text."""
    sources: dict[tuple[str, str], Source] = {}

    def source(place: list[Any]) -> Source:
        name, text, first_line = place
        return sources.setdefault((name, text), Source(name, text, first_line))

    return source


def _definition_text(
    stored: Mapping[str, Any], source: Callable[[list[Any]], Source]
) -> DefinitionText:
    """A definition from a `_StoredText`."""
    return DefinitionText(
        name=stored["name"],
        language=stored["language"],
        source=source(stored["source"]),
        file=stored["file"],
        calls={step: tuple(numbers) for step, numbers in stored["calls"].items()},
        made=stored["made"],
        chosen=tuple(stored["chosen"]),
        latent=tuple(stored["latent"]),
        session=tuple(stored["session"]) if stored["session"] else None,
        offered=tuple(stored.get("offered", ())),
    )


def _context_of(row: RunRow, digest: str, trust: bool | None) -> tuple[list[Any], str]:
    """The messages of a run's context, and why one of them is not complete. ``digest``: names
    them, as `_context` has written it."""
    if reduce(part_digest, row.parts, b"").hex() != digest:
        raise DecodeError("the messages of its context are not in the journal")
    unpacked = [_unpack(json.loads(part), "", "message", trust) for part in row.parts]
    unkept = next((why for _, why in unpacked if why), "")
    return [message for message, _ in unpacked], unkept


def _grant_of(stored: Mapping[str, Any]) -> Grant:
    tools = stored["tools"]
    allowed = frozenset(tools) if tools is not None else None
    return Grant(stored["identity"], allowed, barred=frozenset(stored["barred"]))


_Place = tuple[str, str, Annotated[int, lambda line: 0 <= line < 1 << 31]]
"""A source: its name, its text, the number of its first line."""


class _Offered(TypedDict, total=False):
    """The key that a `_StoredText` may lack."""

    offered: list[str]


class _StoredText(_Offered):
    """The form of a definition in a manifest. A step in ``calls`` has a definition."""

    name: str
    language: Annotated[str, lambda name: name in LANGUAGES]
    source: _Place
    file: str | None
    made: bool
    chosen: list[str]
    calls: dict[str, Annotated[list[int], bool]]
    latent: list[str]
    session: tuple[str, str] | None


class _Noted(TypedDict, total=False):
    """The keys that a manifest may lack."""

    note: str
    reused: tuple[list[str], list[str]]
    """The fields of `ReusedRuns`."""


class _Stored(_Noted):
    """The form of a manifest. A session is built (``made``), and the flow of the run is not. An
    input that is not JSON has a preview, and a signature or the reason why it is not stored."""

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
    barred: list[str]
    tools: list[str] | None
    notebook: str
    functions: dict[str, dict[str, str]]


def _require(holds: object) -> None:
    if not holds:
        raise ValueError("this package does not write such a manifest")


def _check_calls(calls: list[list[int]]) -> None:
    """Require that definitions call each other without a cycle and open at most `MAX_OPENED` in
    total."""
    _require(all(0 <= inner < len(calls) for inner in chain(*calls)))
    order = TopologicalSorter(dict(enumerate(calls)))
    opened: dict[int, int] = {}
    # Called definitions come before their callers. Raises ValueError for a cycle.
    for number in order.static_order():
        opened[number] = 1 + sum(opened[inner] for inner in calls[number])
        _require(opened[number] <= MAX_OPENED)


def _text(linked: Linked, numbers: Mapping[int, int]) -> dict[str, Any]:
    """A definition as a `_StoredText`. ``numbers``: the numbers of all definitions, by identity."""
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
        "offered": _offered(linked) if linked.agent is not None else [],
    }


def _offered(session: Linked) -> list[str]:
    """The names of the tools that a session offers its model."""
    choosing = (step for step in calls(session.flow.body) if step.pick is not None)
    offers = (offered_tools(step, session.callees.get(step.id)) or () for step in choosing)
    return [*chain.from_iterable(offers)]


def _schemas(flows: list[Linked]) -> Iterator[list[Any]]:
    """The texts of the schemas that none of these definitions declares."""
    sources = {linked.flow.source for linked in flows}
    for linked in flows:
        for schema in linked.schemas.values():
            if schema.span is not None and schema.span.source not in sources:
                sources.add(schema.span.source)
                yield ["pipeline", _source(schema.span.source)]


def _functions(journal: Journal, linked: Linked) -> dict[str, Mapping[str, str]]:
    """The digests of the parts of the functions that the steps call, and of the tools that an agent
    may call, on which its result depends, too."""
    callees: dict[str, Tool | Agent | Transform | Policy] = {
        callee.name: callee
        for callee, _ in linked.every_callee
        if isinstance(callee, Tool | Agent | Transform | Policy)
    }
    steps = ((flow, step) for flow in linked.reachable for step in calls(flow.flow.body))
    for flow, step in steps:
        for agent in callees_of(flow.callees.get(step.id)):
            if isinstance(agent, Agent) and "tools" in agent.takes.parameters:
                callees = {**_tools_of(agent, step, flow), **callees}
    digests = {name: journal.rows.digests.function(callee) for name, callee in callees.items()}
    return {name: parts_of(digest, name) for name, digest in digests.items() if digest is not None}


def _tools_of(agent: Agent, step: Invoke, flow: Linked) -> dict[str, Tool]:
    """The tools that an agent or its step names; if neither names one, all but the built-in ones."""
    named = {*(agent.tools or ()), *(name.text for name in step.tools or ())}
    tools = flow.tools_of(step)
    return {
        name: tool
        for name, tool in tools.items()
        if name in named or not (named or tool.listed_only)
    }


def _source(source: Source) -> list[Any]:
    return [source.name, source.text, source.first_line]


def _pack(value: Value, run_id: str, kind: str) -> dict[str, Any]:
    """A value as the manifest has it: as JSON, else as a signed pickle with a preview, else as the
    preview with the reason. ``kind``: input or message."""
    packed = encode_value(value, current.settings.journal_value)
    if packed.form == "json":
        return {"json": value}
    key = user_key()
    preview = decoded(packed.shown)
    if packed.form == "again" or key is None or not isinstance(packed.data, bytes):
        return {"shown": preview, "why": packed.why or "there is no key to sign it with"}
    data = base64.b64encode(packed.data).decode("ascii")
    return {"pickle": data, "shown": preview, "sign": sign(key, run_id, kind, packed.data).hex()}


def _unpack(
    stored: Mapping[str, Any], run_id: str, kind: str, trust: bool | None
) -> tuple[Value, str]:
    """The value that `_pack` has stored, or its preview with the reason. Raises SignatureError."""
    if "json" in stored:
        return stored["json"], ""
    if "pickle" not in stored or trust is None:
        return stored["shown"], stored.get("why", "")
    data = base64.b64decode(stored["pickle"])
    if not trust and not is_signed(user_key(), bytes.fromhex(stored["sign"]), run_id, kind, data):
        raise SignatureError(f"its {kind} is not signed with your key")
    return decode_value("pickle", data), ""


def _as_stored(stored: Mapping[str, Any]) -> EncodedValue:
    if "json" in stored:
        return EncodedValue("json", encode(stored["json"]))
    preview = encode(stored["shown"])
    if "pickle" in stored:
        return EncodedValue("pickle", base64.b64decode(stored["pickle"]), preview)
    return EncodedValue("again", None, preview)


@cache
def _version() -> str:
    try:
        return version("agf-magics")
    except PackageNotFoundError:
        return "?"


def asked_model(flow: Flow) -> str:
    """The name of the model that a session asks; empty for the configured one."""
    return next((step.name.text for step in calls(flow.body) if step.kind == "model"), "")
