"""Runs: here (`run`), awaited (`arun`), behind (`start`), and begun to be waited for (`begin`: the notebook's live view
needs the handle).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from ..catalog import Context, Registry, default
from ..definitions.define import all_findings, for_input, load
from ..definitions.define import linked as link_with_files
from ..engine.failures import describe_exception
from ..engine.gate import gate, kernel_bound
from ..engine.runner import clock
from ..flow.frame import FlowInput
from ..flow.steps import Flow
from ..flow.values import TooDeep, Value, settle, type_name
from ..host.host import Asker
from ..host.limits import Limits
from ..host.rights import rights
from ..progress.events import BackgroundCallEnded, Event, Warned
from ..progress.progress import Progress
from ..secrets.masking import Secrets
from ..settings import current
from ..text.diagnostics import DefinitionError, Diagnostic, suggest
from ..text.source import Span
from .persistence import keep
from .reuse import reuse_results
from .run import Live, Run, RunCancelled, driven, live
from .trace import Trace

ASKED = ("flow.no-agent", "model.none", "model.no-key", "model.not-installed")
"""What is wrong with who would be asked."""


def run(
    flow: Flow | str | Path,
    input: Value = None,
    *,
    registry: Registry | None = None,
    limits: Limits | None = None,
    on_event: Callable[[Event], None] | None = None,
    raises: bool = True,
    dry: bool = False,
    ask: Asker | None = None,
    reuse: bool | str = False,
) -> Run:
    """Run a flow, wait for its end and return the run.

    Parameters:

    - ``flow``: a `Flow`, the name of a registered flow, the `Path` of a file, or the text of a definition. Required.
    - ``input``: a mapping of names to values, the named context of the first step; a definition with an interface
      accepts any value that the interface allows. Default None: an empty mapping.
    - ``registry``: the `Registry` to look names up in. Default None: the registry of this process.
    - ``limits``: the `Limits` of this run. Default None: those of the settings.
    - ``on_event``: a function that is called with each event, on the engine's thread. If it raises, it is not called
      again and the run continues with a warning. Default None.
    - ``raises``: whether an error of the run is raised; otherwise it is in ``run.error``. Default True.
    - ``dry``: whether to run without calling tools and agents; sample values replace their results. Default False.
    - ``ask``: a function that puts a question to a person, ``ask(question) -> answer``; the answer to an approval is
      True or False. Default None: the notebook or the terminal asks.
    - ``reuse``: True reuses the results of identical calls of the last run of this flow, a run id those of that run.
      Default False.

    Raises DefinitionError before the first step if a name is unknown or a required input is missing, StepError if a
    step fails, and RunCancelled if the run is interrupted.
    """
    ended = driven(
        lambda: begin(flow, input, registry=registry, limits=limits, on_event=on_event, dry=dry, ask=ask, reuse=reuse)
    )
    return ended.result() if raises else ended


async def arun(
    flow: Flow | str | Path,
    input: Value = None,
    *,
    registry: Registry | None = None,
    limits: Limits | None = None,
    on_event: Callable[[Event], None] | None = None,
    raises: bool = True,
    dry: bool = False,
    ask: Asker | None = None,
    reuse: bool | str = False,
) -> Run:
    """Run a flow on the running event loop: ``await agf.arun(...)``. Plain functions run on worker threads.

    Parameters:

    - ``flow``: a `Flow`, the name of a registered flow, the `Path` of a file, or the text of a definition. Required.
    - ``input``: a mapping of names to values, the named context of the first step; a definition with an interface
      accepts any value that the interface allows. Default None: an empty mapping.
    - ``registry``: the `Registry` to look names up in. Default None: the registry of this process.
    - ``limits``: the `Limits` of this run. Default None: those of the settings.
    - ``on_event``: a function that is called with each event, on the loop's thread. If it raises, it is not called
      again and the run continues with a warning. Default None.
    - ``raises``: whether an error of the run is raised; otherwise it is in ``run.error``. Default True.
    - ``dry``: whether to run without calling tools and agents; sample values replace their results. Default False.
    - ``ask``: a function that puts a question to a person, ``ask(question) -> answer``; the answer to an approval is
      True or False. Default None: the notebook or the terminal asks.
    - ``reuse``: True reuses the results of identical calls of the last run of this flow, a run id those of that run.
      Default False.

    Raises the same errors as `run`.
    """
    made = prepare(flow, input, registry=registry, limits=limits, dry=dry, ask=ask, reuse=reuse)
    await made.here(emitter(made.progress, on_event, made.secrets))
    return made.result() if raises else made


def start(
    flow: Flow | str | Path,
    input: Value = None,
    *,
    registry: Registry | None = None,
    limits: Limits | None = None,
    on_event: Callable[[Event], None] | None = None,
    dry: bool = False,
    ask: Asker | None = None,
    reuse: bool | str = False,
) -> Run:
    """Start a run in the background and return it at once. The run has ``wait``, ``result`` and ``cancel`` and can be
    awaited.

    Plain functions run on threads of their own. An interrupt of the kernel does not reach the run.

    Parameters:

    - ``flow``: a `Flow`, the name of a registered flow, the `Path` of a file, or the text of a definition. Required.
    - ``input``: a mapping of names to values, the named context of the first step; a definition with an interface
      accepts any value that the interface allows. Default None: an empty mapping.
    - ``registry``: the `Registry` to look names up in. Default None: the registry of this process.
    - ``limits``: the `Limits` of this run. Default None: those of the settings.
    - ``on_event``: a function that is called with each event, on the engine's thread. If it raises, it is not called
      again and the run continues with a warning. Default None.
    - ``dry``: whether to run without calling tools and agents; sample values replace their results. Default False.
    - ``ask``: a function that puts a question to a person, ``ask(question) -> answer``; the answer to an approval is
      True or False. Default None: the notebook or the terminal asks.
    - ``reuse``: True reuses the results of identical calls of the last run of this flow, a run id those of that run.
      Default False.

    Raises DefinitionError as `run` does; no run is started then.
    """
    return begin(
        flow, input, registry=registry, limits=limits, on_event=on_event, dry=dry, ask=ask, reuse=reuse, behind=True
    )


def begin(
    flow: Flow | str | Path,
    input: Value = None,
    *,
    registry: Registry | None = None,
    limits: Limits | None = None,
    on_event: Callable[[Event], None] | None = None,
    dry: bool = False,
    ask: Asker | None = None,
    reuse: bool | str = False,
    enter: Callable[[], None] | None = None,
    behind: bool = False,
    inline: bool = False,
) -> Run:
    """Start a run and hand it back at once; unless it runs ``behind`` the caller must `wait`, because plain functions
    run on the waiting thread.

    ``enter`` is called first in every thread that works for the run (the notebook routes prints with it). ``inline``:
    nobody registered the flow, and who runs it may not have written it: it must pass the static gate.
    """
    made = prepare(
        flow, input, registry=registry, limits=limits, dry=dry, ask=ask, reuse=reuse, behind=behind, inline=inline
    )
    made.begin(emitter(made.progress, on_event, made.secrets), enter=enter, behind=behind)
    return made


def prepare(
    flow: Flow | str | Path,
    input: Value = None,
    *,
    registry: Registry | None = None,
    limits: Limits | None = None,
    dry: bool = False,
    ask: Asker | None = None,
    reuse: bool | str = False,
    behind: bool = False,
    inline: bool = False,
) -> Run:
    """A run that is linked and whose input is checked, not yet started. Raises DefinitionError with all that is
    wrong.
    """
    registry = registry or default()
    found_flow = find(flow, registry)
    linked, problems = link_with_files(found_flow, registry)
    if inline:
        problems = gate(found_flow, problems, rights().grant.identity)
    if behind:
        problems.extend(kernel_bound(linked))
    given = FlowInput(settled(input, found_flow), context=_context(found_flow, registry, dry))
    for missing in _missing(found_flow, given.input if isinstance(given.input, dict) else {}):
        problems.add(missing)
    for code in ASKED if dry else ():  # which asks nobody
        problems = problems.without(code)
    problems.refuse()
    found = for_input(found_flow.warnings, given.input if isinstance(given.input, dict) else {})
    warnings = all_findings(tuple(found), tuple(problems))
    made = Run(linked, given, limits or current.settings.limits, warnings, dry)
    made._asker = ask
    keep(made)
    if reuse:
        reuse_results(made, reuse)
    return made


def find(flow: Flow | str | Path, registry: Registry) -> Flow:
    """A flow by what a person gives: itself, its registered name, a file, a definition's text."""
    if isinstance(flow, Flow):
        return flow
    if isinstance(flow, str) and "\n" not in flow and ":" not in flow:
        if flow in registry.flows:
            return registry.flows[flow]
        hint = suggest(flow, registry.flows, "registered flows") or "define one first: %%pipeline"
        raise DefinitionError(Diagnostic("flow.unknown-flow", f"no flow {flow!r} is registered", hint=hint))
    return load(flow, registry=registry)


def _context(flow: Flow, registry: Registry, dry: bool) -> Context | None:
    """The named context of a plan; a dry run adds to one of its own that begins alike."""
    name = flow.extension.context if flow.extension is not None else None
    if name is None or not (name or flow.name):
        return None
    context = registry.contexts.named(name or flow.name)
    return Context(context.name, context.log) if dry else context


def settled(input: Value, flow: Flow) -> Value:
    """An input as a run of ``flow`` takes it, our own. Raises DefinitionError."""
    if input is None:
        return {}
    whole = not isinstance(input, Mapping) and flow.accepts is not None  # a definition with an interface says itself
    if not whole and (not isinstance(input, Mapping) or not all(isinstance(key, str) for key in input)):
        hint = "input is a mapping of names to values"
        raise DefinitionError(Diagnostic("run.input", f"the input is {type_name(input)}, not a mapping", hint=hint))
    try:
        return settle(input) if whole else {str(key): settle(value) for key, value in input.items()}
    except Exception as error:  # it contains itself, or somebody's class that cannot be looked into
        why = str(error) if isinstance(error, TooDeep) else describe_exception(error)
        raise DefinitionError(Diagnostic("run.input", f"the input cannot be used: {why}")) from None


def _missing(flow: Flow, given: Mapping[str, Value]) -> Sequence[Diagnostic]:
    told: dict[str, Diagnostic] = {}
    known = {found.span: found.hint for found in flow.warnings if found.span and found.hint}
    others = [ref.path[-1] for ref in flow.inputs if not ref.certain and ref.path[-1] not in given]
    for ref in flow.inputs:
        name = ref.path[-1]
        if ref.certain and name not in given and name not in told:
            # What was found at this very token when it was loaded knows better what was meant.
            near = (ref.span and known.get(ref.span)) or suggest(name, given) or _give(name, ref.span, others)
            told[name] = Diagnostic(
                "run.missing-input", f"{flow.name!r} reads {name!r}, which the input lacks", ref.span, near
            )
    return list(told.values())


def _give(name: str, span: Span | None, others: Sequence[str]) -> str:
    bare = f" A text has quotes of its own: \"'{name}'\"." if span is not None and span.text == name else ""
    also = f" It may also read {', '.join(others)}." if others else ""
    return f"give it: --set {name}=… (in Python: input={{{name!r}: …}}).{bare}{also}"


def emitter(
    progress: Progress, listener: Callable[[Event], None] | None, secrets: Secrets | None = None
) -> Callable[[Event], None]:
    """Fold each event and tell the listener, without secrets; one that raises is dropped with a warning and the run
    goes on."""
    if listener is None:
        return progress.apply
    told: list[Callable[[Event], None]] = [listener]

    def emit(event: Event) -> None:
        if progress.ended is not None and type(event) is not BackgroundCallEnded:  # RunEnded is the last of all others
            return
        progress.apply(event)
        for tell in told:
            try:
                tell(secrets.event(event) if secrets is not None and secrets.active else event)
            except Exception as error:
                told.clear()
                message = f"on_event raised {describe_exception(error)}; it is not called again"
                progress.apply(Warned(clock(), Diagnostic("run.listener", message, severity="warning")))

    return emit


__all__ = [
    "Live",
    "Run",
    "RunCancelled",
    "Trace",
    "arun",
    "begin",
    "find",
    "live",
    "prepare",
    "run",
    "start",
]
