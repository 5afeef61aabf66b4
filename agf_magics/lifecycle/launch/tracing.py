"""Reports runs as OpenTelemetry spans, by listening to their events.

Tracing is off unless a person turns it on, and the engine does not know of it. The parent of a span
follows from the path of its step, since a step may end on another thread than it began on. The
outermost span is a child of the span that is open where the run is started. OpenTelemetry's own
configuration (``OTEL_*``) decides where spans are sent.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from ...compat.imports import installed_only
from ...compat.installed import missing
from ...engine.runner import clock
from ...flow.progress import events as ev
from ...flow.progress.events import Event
from ...flow.step_path import StepPath, format_path
from ...flow.steps import Invoke
from ...journal.codec.encoding import preview
from ...journal.codec.json_texts import encode
from ...journal.records.records import around
from ...settings.settings import current
from ...text.diagnostics import AgfError, DefinitionError, Diagnostic
from ...values.value import Value
from ..runs.run import Run, state_of

CONVENTIONS = "0.1.0"
"""The version of the GenAI conventions whose names are in `NAMES` and `OPERATIONS`. An attribute of
the tracer."""

OPERATIONS = {
    "flow": "invoke_agent",
    "agent": "invoke_agent",
    "plan": "plan",
    "model": "chat",
    "tool": "execute_tool",
}
"""The operations by the kind of a call. A workflow is an ``invoke_agent`` in these conventions."""

NAMES = {
    "operation": "gen_ai.operation.name",
    "flow": "gen_ai.agent.name",
    "agent": "gen_ai.agent.name",
    "plan": "gen_ai.agent.name",
    "model": "gen_ai.request.model",
    "tool": "gen_ai.tool.name",
    "tool type": "gen_ai.tool.type",
    "provider": "gen_ai.provider.name",
    "input tokens": "gen_ai.usage.input_tokens",
    "output tokens": "gen_ai.usage.output_tokens",
    "model given": "gen_ai.input.messages",
    "model value": "gen_ai.output.messages",
    "tool given": "gen_ai.tool.call.arguments",
    "tool value": "gen_ai.tool.call.result",
}
"""The attributes of the conventions, by our words for what they tell. ``KIND given`` and
``KIND value`` are the content of a call."""

BEFORE = {"provider": "gen_ai.system", "flow": "gen_ai.workflow.name"}
"""Names of earlier conventions, written beside unless ``OTEL_SEMCONV_STABILITY_OPT_IN`` has
`LATEST`: most programs that show traces read them."""

LATEST = "gen_ai_latest_experimental"

PROVIDERS = {
    "google": "gcp.gemini",
    "google-gla": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai",
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "mistral": "mistral_ai",
    "grok": "x_ai",
    "moonshotai": "moonshot_ai",
}
"""The conventions' names of providers that have another name here."""

MOST_SPANS = 5_000
"""Spans of a run; more are counted in ``agf.spans_dropped``."""

LONGEST_CONTENT = 20_000
"""Characters of a prompt, an argument or a result."""


class Tracing(NamedTuple):
    """The choice of `trace_to`."""

    provider: Any
    content: bool


def trace_to(provider: Any = None, content: bool = False) -> None:
    """Report the runs of this process to OpenTelemetry as spans, from the next one on.

    Parameters:

    - ``provider``: a ``TracerProvider``. Default None: OpenTelemetry's global one, which other
      packages or ``OTEL_*`` variables set up. False turns tracing off.
    - ``content``: whether spans have prompts, replies, arguments and results, without secrets and
      shortened. Default False.

    Raises DefinitionError ``run.no-tracing`` if OpenTelemetry is not installed.
    """
    if provider is False:
        current.tracing = None
        return
    _opentelemetry()
    current.tracing = Tracing(provider, content)


def start_trace(run: Run) -> Callable[[Event], None] | None:
    """The listener that reports the spans of a run that is about to start, if it is traced; None:
    it is a dry run."""
    return None if run.dry else _Spans(run, current.tracing or Tracing(None, content=False))


def _opentelemetry() -> Any:
    """The package. Raises DefinitionError."""
    if missing(["opentelemetry.sdk.trace"]):  # without the SDK, spans go nowhere
        message = "tracing needs OpenTelemetry, which is not installed"
        hint = "pip install 'agf-magics[otel]'"
        raise DefinitionError(Diagnostic("run.no-tracing", message, hint=hint))
    with installed_only():
        from opentelemetry import trace
    return trace


class _Spans:
    """The spans of one run. Called with one event at a time, on any thread."""

    def __init__(self, run: Run, chosen: Tracing) -> None:
        from opentelemetry import context

        self._run = run
        self._content = chosen.content
        self._trace = _opentelemetry()
        provider = chosen.provider or self._trace.get_tracer_provider()
        attributes = {"agf.gen_ai_conventions": CONVENTIONS}
        self._tracer = provider.get_tracer("agf_magics", attributes=attributes)
        opted = os.environ.get("OTEL_SEMCONV_STABILITY_OPT_IN", "").split(",")
        self._before = {} if LATEST in map(str.strip, opted) else BEFORE
        self._outside = context.get_current()
        """The context of the spans that are open here."""
        self._zero = time.time() - clock()
        """Seconds since 1970 at the zero of the clock of the events."""
        self._open: dict[StepPath, Any] = {}
        """The spans of the steps that have begun and not ended."""
        self._started = self._dropped = 0
        self._root: Any = None
        """The span of the run; None before its begin."""

    def __call__(self, event: Event) -> None:
        match event:
            case ev.RunStarted(name, when):
                self._start_run(name, when)
            case ev.StepStarted(path, when, attempt):
                self._start(path, when, attempt)
            case ev.CallStarted(path, _, kind, name, arguments):
                self._name(self._open.get(path), kind, name, arguments)
            case ev.TokensUsed(path, _, input, output):
                self._set(path, {NAMES["input tokens"]: input, NAMES["output tokens"]: output})
            case ev.StepReplayed(path, _, source):
                self._set(path, {"agf.kept_from": source})
            case ev.StepFinished(path, when, value):
                self._end(path, when, value=value)
            case ev.StepFailed(path, when, error):
                self._end(path, when, error)
            case ev.StepCancelled(path, when) | ev.StepAbandoned(path, when):
                self._end(path, when, status="cancelled")
            case ev.RunEnded(when, status, failure):
                self._end_run(when, status, failure)

    def _start_run(self, name: str, when: float) -> None:
        kind = "plan" if state_of(self._run).options.plans else "flow"
        self._root = self._span(f"{OPERATIONS[kind]} {name}", self._outside, when)
        self._name(self._root, kind, name)
        self._root.set_attribute("agf.run", self._run.run_id)

    def _start(self, path: StepPath, when: float, attempt: int) -> None:
        """Begin the span of a step, below the span of the step around it."""
        row = self._run.progress.row(path)
        if row.key not in self._run.progress.rows:  # a step without a row for a person
            return
        if self._started >= MOST_SPANS:
            self._dropped += 1
            return
        self._started += 1
        parent = self._trace.set_span_in_context(self._above(path), self._outside)
        kind = row.step.kind if isinstance(row.step, Invoke) else ""
        span = self._span(f"{row.word} {row.id}", parent, when, is_client=kind == "model")
        span.set_attributes({"agf.step": format_path(path)})
        if attempt > 1:
            span.set_attributes({"agf.attempt": attempt})
        self._open[path] = span
        if isinstance(row.step, Invoke) and row.step.pick is None:
            self._name(span, kind, row.step.name.text)

    def _above(self, path: StepPath) -> Any:
        """The innermost open span around a path."""
        outer = [outer_path for outer_path in around(path) if outer_path in self._open]
        return self._open[outer[-1]] if outer else self._root

    def _span(self, name: str, parent: Any, when: float, is_client: bool = False) -> Any:
        kind = self._trace.SpanKind.CLIENT if is_client else self._trace.SpanKind.INTERNAL
        return self._tracer.start_span(name, parent, kind, start_time=self._time(when))

    def _name(
        self, span: Any, kind: str, name: str, arguments: Mapping[str, Value] | None = None
    ) -> None:
        """Name a span by its operation, if OpenTelemetry's conventions have that operation."""
        if span is None or kind not in OPERATIONS:
            return
        provider, _, model = name.partition(":") if kind == "model" else ("", "", name)
        facts = {
            "operation": OPERATIONS[kind],
            kind: model or name,
            "provider": PROVIDERS.get(provider, provider) if model else "",
            "tool type": "function" if kind == "tool" else "",
        }
        span.update_name(f"{OPERATIONS[kind]} {model or name}".rstrip())
        span.set_attributes({NAMES[fact]: value for fact, value in facts.items() if value})
        span.set_attributes(
            {old: facts[fact] for fact, old in self._before.items() if fact in facts}
        )
        if arguments is not None:
            self._add_content(span, f"{kind} given", arguments)

    def _add_content(self, span: Any, fact: str, value: Value) -> None:
        """Add a prompt, a reply, arguments or a result, if a person wants them in spans."""
        if self._content and fact in NAMES:
            # Masked again: the preview writes out the fields of an object.
            mask = self._run.secrets.shown
            text = encode(mask(preview(mask(value))))
            span.set_attribute(NAMES[fact], text[:LONGEST_CONTENT])

    def _set(self, path: StepPath, attributes: Mapping[str, Value]) -> None:
        if span := self._open.get(path):
            span.set_attributes(attributes)

    def _end(
        self,
        path: StepPath,
        when: float,
        error: BaseException | None = None,
        status: str = "",
        value: Value = None,
    ) -> None:
        span = self._open.pop(path, None)
        if span is None:
            return
        row = self._run.progress.row(path)
        if error is None and not status and isinstance(row.step, Invoke):
            self._add_content(span, f"{row.step.kind} value", value)
        self._close(span, when, error, status)

    def _end_run(self, when: float, status: str, error: BaseException | None) -> None:
        if self._root is None:  # the run was cancelled before it started
            return
        for path in list(self._open):
            self._end(path, when, status=status)
        if self._dropped:
            self._root.set_attribute("agf.spans_dropped", self._dropped)
        self._close(self._root, when, error, status)

    def _close(self, span: Any, when: float, error: BaseException | None, status: str) -> None:
        if status:
            span.set_attribute("agf.status", status)
        if error is not None:
            kind = error.code if isinstance(error, AgfError) else type(error).__name__
            span.set_attribute("error.type", kind)
            span.set_status(self._trace.Status(self._trace.StatusCode.ERROR))
        span.end(self._time(when))

    def _time(self, when: float) -> int:
        return int((when + self._zero) * 1e9)
