"""Offers the launch of runs as tools of an agent: functions from JSON to JSON.

A run that fails, or that cannot start, does not raise: its error is in the answer. Only a call
inside a run (`refuse_inside`), a bug and a person's interrupt raise.

The tools are for an agent outside of a run, such as a user's own loop around a model, or a server.
A model makes mistakes and needs an error as an answer. No agent inside a run gets these tools
(decision A13): there a step uses `call`, and a tool uses `agf_magics.run`.
"""

from __future__ import annotations

import inspect
import keyword
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from ..catalog import USER, Registry, default
from ..engine.host.hold_interrupts import hold_interrupts
from ..engine.run_options import RunOptions
from ..engine.threads.rights import refuse_inside
from ..flow.flow import Flow
from ..languages.pipeline.grammar import grammar
from ..limits.grants import ANYTHING, OFFERED, Grant, granted
from ..pictures.plain import line
from ..schemas.python_types import type_of
from ..text.diagnostics import DefinitionError, StepError
from ..text.source import Source
from ..values.no_json import has_no_json
from ..values.times import iso_text
from ..values.value import Value, is_json, type_name
from .definitions.define import load
from .launch.driving import wait_for
from .launch.launch import start_run
from .past.final_values import final_values
from .past.past_run import PastRun
from .past.past_runs import runs
from .runs.run import Run, state_of

MOST_ABOUT = 300
"""Characters of the description of a parameter."""

Envelope = dict[str, Any]
"""``{"status": "ok" | "error" | "cancelled" | "started" | "waiting", "data": {...}}``"""


def run_pipeline(name: str, input: Mapping[str, Any] | None = None) -> Envelope:
    """Run a registered flow and wait for its end.

    Parameters:

    - ``name``: the name of a registered flow. Required.
    - ``input``: an object with the values that the first steps read. Default None: an empty object.
    """
    return _Launcher(default(), ANYTHING).registered(name, input)


def run_pipeline_async(name: str, input: Mapping[str, Any] | None = None) -> Envelope:
    """Start a registered flow in the background; run_result returns its result.

    Parameters:

    - ``name``: the name of a registered flow. Required.
    - ``input``: an object with the values that the first steps read. Default None: an empty object.
    """
    return _Launcher(default(), ANYTHING).registered(name, input, background=True)


def run_pipeline_inline(definition: str, input: Mapping[str, Any] | None = None) -> Envelope:
    """Run a pipeline that you write now, as YAML with the schemas it uses, and wait for its end.

    Parameters:

    - ``definition``: the YAML of the pipeline and its schemas. Required.
    - ``input``: an object with the values that the first steps read. Default None: an empty object.
    """
    return _Launcher(default(), ANYTHING).inline(definition, input)


def run_pipeline_inline_async(definition: str, input: Mapping[str, Any] | None = None) -> Envelope:
    """Start a pipeline that you write now in the background; run_result returns its result.

    Parameters:

    - ``definition``: the YAML of the pipeline and its schemas. Required.
    - ``input``: an object with the values that the first steps read. Default None: an empty object.
    """
    return _Launcher(default(), ANYTHING).inline(definition, input, background=True)


def run_result(run_id: str) -> Envelope:
    """Return the result of a run that was started, or the status "started" while it is running.

    ``run_id``: the id that the start returned. Required.
    """
    refuse_inside("run_result")
    if not isinstance(run_id, str):
        return _error("run_id is required: the id that the start returned")
    run: Run | PastRun | None = None
    with suppress(DefinitionError):
        run = runs(run_id)
    # A person may write the beginning of an id. An agent has the whole id, or has made it up.
    if run is None or run.run_id != run_id:
        return _error(f"there is no run {run_id!r}")
    return _state(run)


def launch_tools(
    *, identity: str = USER, registry: Registry | None = None
) -> dict[str, Callable[..., Envelope]]:
    """Return the functions that an agent outside a run can launch flows with, by name: the four
    launches, `run_result`, and ``pipeline__<name>`` for each registered flow.

    Each is a plain function with a signature and a description, as agent libraries expect.

    Parameters:

    - ``identity``: the registered agent that receives the functions. Its runs may use the tools
      that it may use; if it has a list of tools, only the launches on that list are returned.
      Default ``"user"``: no restriction.
    - ``registry``: the `Registry` to look names up in. Default None: the registry of this process.

    Raises DefinitionError if the agent is not registered.
    """
    registry = default(registry)
    launcher = _Launcher(registry, _grant(identity, registry))
    rules = f"\n{grammar()}"
    offered = {
        "run_pipeline": _alike(run_pipeline, launcher.registered),
        "run_pipeline_async": _alike(run_pipeline_async, launcher.registered, background=True),
        "run_pipeline_inline": _alike(run_pipeline_inline, launcher.inline, rules),
        "run_pipeline_inline_async": _alike(
            run_pipeline_inline_async, launcher.inline, rules, background=True
        ),
        "run_result": _alike(run_result, launcher.result),
    }
    for flow in registry.flows.values():
        offered[f"{OFFERED}{flow.name}"] = _as_tool(flow, launcher)
    may = launcher.grant.tools
    return {name: function for name, function in offered.items() if may is None or name in may}


class _Launcher:
    """The launches with the rights of one identity."""

    def __init__(self, registry: Registry, grant: Grant) -> None:
        self.registry = registry
        self.grant = grant
        self._started = set[str]()
        """The ids of the runs that were started here."""

    def registered(self, name: str, input: Value = None, *, background: bool = False) -> Envelope:
        refuse_inside("run_pipeline")
        if not isinstance(name, str) or not name.strip():
            return _error("name is required: the name of a registered pipeline")
        flows = self.registry.flows
        if name not in flows:
            return _error("\n".join(flows.missing(name, None, "flow.unknown-flow").lines()))
        return self._launch(lambda: flows[name], input, background, inline=False)

    def inline(self, definition: str, input: Value = None, *, background: bool = False) -> Envelope:
        refuse_inside("run_pipeline_inline")
        if not isinstance(definition, str) or not definition.strip():
            return _error("definition is required: a pipeline in YAML")
        source = Source("<definition>", definition)
        return self._launch(
            lambda: load(source, "pipeline", registry=self.registry), input, background, inline=True
        )

    def result(self, run_id: str) -> Envelope:
        """`run_result` of a run that was started here, or by this identity elsewhere."""
        refuse_inside("run_result")
        if not isinstance(run_id, str):
            return _error("run_id is required: the id that the start returned")
        if run_id not in self._started and not self._is_mine(run_id):
            return _error(f"there is no run {run_id!r}")
        return run_result(run_id)

    def _is_mine(self, run_id: str) -> bool:
        """Whether this identity may see a run."""
        if self.grant.identity == USER:  # the person, who may see all runs
            return True
        with suppress(DefinitionError):
            run = runs(run_id)
            grant = state_of(run).grant if isinstance(run, Run) else run.order.grant
            return grant.identity == self.grant.identity
        return False

    def _note(self, run: Run) -> Run:
        self._started.add(run.run_id)
        return run

    def _launch(
        self, find: Callable[[], Flow], input: Value, background: bool, inline: bool
    ) -> Envelope:
        """Start the flow that ``find`` returns, with the rights of this identity."""
        name = "this definition"
        before = granted.set(self.grant)
        try:
            options = RunOptions(registry=self.registry, background=background, inline=inline)
            flow = find()
            name = repr(flow.name)
            if background:
                return _start_envelope(self._note(start_run(flow, input, options)))
            with hold_interrupts() as deferred:
                return _state(wait_for(self._note(start_run(flow, input, options)), deferred))
        except DefinitionError as error:
            return _error(f"{name} cannot run: {error}")
        finally:
            granted.reset(before)


def _grant(identity: str, registry: Registry) -> Grant:
    if identity == USER:
        return ANYTHING
    if identity not in registry.agents:
        raise DefinitionError(registry.agents.missing(identity, None, "flow.unknown-agent"))
    return ANYTHING.narrow(registry.agents[identity].tools, identity=identity)


def _alike(
    function: Callable[..., Envelope],
    launch: Callable[..., Envelope],
    more: str = "",
    **fixed: bool,
) -> Callable[..., Envelope]:
    """``launch`` with the name, the signature and the description of ``function``, and ``more``."""

    def call(*positional: Any, **named: Any) -> Envelope:
        return launch(*positional, **named, **fixed)

    text = inspect.cleandoc(function.__doc__ or "") + more
    _describe(call, function.__name__, text, inspect.signature(function, eval_str=True))
    return call


def _describe(
    call: Callable[..., Envelope], name: str, text: str | None, signature: inspect.Signature
) -> None:
    """Give ``call`` the attributes that agent libraries read."""
    call.__signature__ = signature  # type: ignore[attr-defined]
    call.__annotations__ = {
        parameter.name: parameter.annotation for parameter in signature.parameters.values()
    }
    call.__annotations__["return"] = signature.return_annotation
    call.__name__ = call.__qualname__ = name
    call.__doc__ = text


def _as_tool(flow: Flow, launcher: _Launcher) -> Callable[..., Envelope]:
    """A registered flow as a function of its inputs, with the types of its interface."""
    accepts = flow.declared.accepts or {}
    # The names of the inputs, each with whether it is required. The certain reads come last: one of
    # them is enough.
    fields = {ref.path[-1]: ref.certain for ref in sorted(flow.inputs, key=lambda ref: ref.certain)}
    if flow.declared.accepts is not None:
        required = accepts.get("required", ())
        fields = {name: name in required for name in accepts.get("properties", {})}
    has_parameters = bool(fields) and all(
        name.isidentifier() and not keyword.iskeyword(name) for name in fields
    )

    def call(**arguments: Any) -> Envelope:
        # Agent libraries pass the defaults too: None of an optional field means that it is left
        # out.
        passed = {
            name: value
            for name, value in arguments.items()
            if value is not None or fields.get(name)
        }
        return launcher.registered(flow.name, passed if has_parameters else arguments.get("input"))

    properties: Mapping[str, Any] = {}
    if has_parameters:
        properties = accepts.get("properties", {})
        parameters = [
            _parameter(name, properties.get(name), accepts, fields[name])
            for name in sorted(fields, key=lambda name: not fields[name])
        ]
    else:
        kind = inspect.Parameter.KEYWORD_ONLY
        mapping = Mapping[str, Any] | None
        parameters = [inspect.Parameter("input", kind, default=None, annotation=mapping)]
    text = (
        flow.declared.description
        or f"Run the registered {flow.language} {flow.name!r} and wait for its end."
    )
    signature = inspect.Signature(parameters, return_annotation=Envelope)
    _describe(call, f"{OFFERED}{flow.name}", text + _args_text(properties), signature)
    return call


def _args_text(properties: Mapping[str, Any]) -> str:
    """The part of a docstring that describes the arguments; empty if none has a description."""
    about = {
        name: line(str(schema["description"]), MOST_ABOUT)
        for name, schema in properties.items()
        if isinstance(schema, Mapping) and "description" in schema
    }
    if not about:
        return ""
    return "\n\nArgs:\n" + "\n".join(f"    {name}: {text}" for name, text in about.items())


def _parameter(
    name: str, schema: Any, root: Mapping[str, Any], required: bool
) -> inspect.Parameter:
    """A keyword parameter with the type of ``schema``, whose references are resolved in
    ``root``."""
    kind = inspect.Parameter.KEYWORD_ONLY
    annotation = type_of(schema, root)
    if required:
        return inspect.Parameter(name, kind, annotation=annotation)
    default = schema.get("default") if isinstance(schema, Mapping) else None
    annotation = annotation if annotation is Any else annotation | None
    return inspect.Parameter(name, kind, default=default, annotation=annotation)


def _state(run: Run | PastRun) -> Envelope:
    """The state of a run, and its results once it has ended."""
    if run.status in ("pending", "running"):
        return _start_envelope(run)
    if isinstance(run, Run):
        with suppress(StepError):
            run.result()  # raises a bug, which is no failure of a step
    if run.status == "ok":
        values = final_values(run)
        data = {
            "run_id": run.run_id,
            "output": _plain(values.output),
            "named_stores": _plain(dict(values.stores)),
        }
        if values.cut:
            data["warnings"] = values.about_cut
        return {"status": "ok", "data": data}
    status = run.status if run.status in ("cancelled", "waiting") else "error"
    error = f"{run.name!r}: {run.error or run.note}"
    return {"status": status, "data": {"error": error, "run_id": run.run_id}}


def _start_envelope(run: Run | PastRun) -> Envelope:
    return {"status": "started", "data": {"run_id": run.run_id}}


def _error(message: str) -> Envelope:
    return {"status": "error", "data": {"error": message}}


def _plain(value: Value) -> Value:
    """``value`` as JSON: NaN and infinities as null, dates and durations as text in ISO 8601 (decision
    A1). Any other opaque value becomes the name of its type."""
    if is_json(value):
        return value
    if type(value) is dict and len(set(map(str, value))) == len(value):  # else keys as 1 and "1"
        return {str(key): _plain(inner) for key, inner in value.items()}
    if type(value) is list:
        return [_plain(inner) for inner in value]
    if has_no_json(value):
        return None
    text = iso_text(value)
    return text if text is not None else f"<{type_name(value)}>"


__all__ = [
    "Envelope",
    "launch_tools",
    "run_pipeline",
    "run_pipeline_async",
    "run_pipeline_inline",
    "run_pipeline_inline_async",
    "run_result",
]
