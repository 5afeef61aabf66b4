"""Makes the requests to models: counts them, repeats them while the provider is busy, gives up in
time."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

from ...catalog import (
    Model,
    ModelFault,
    Offered,
    Reply,
    Request,
    Tool,
    Where,
    timeout_fault,
)
from ...catalog.digests.digesting import digest_value
from ...flow.steps import Invoke
from ...journal.secrets.placeholders import replace_secrets
from ...limits.grants import Grant
from ...schemas.sample import sample
from ...text.diagnostics import Diagnostic, StepError
from ...values.value import Value, isolate
from ..late_values import when_read
from ..linking.linked import ModelBinding
from ..linking.offered_tools import describe_tool
from ..runner import CallSite
from .call import call
from .failures import with_place
from .model_usage import (
    count_again,
    count_reply,
    count_unusable,
    emit_usage,
    refuse_unpriced,
    warn_of_end,
)
from .reply_stream import ReplyStream

RETRIES = 3
"""The number of further requests if the provider is busy."""

LONGEST_WAIT = 60.0
"""The largest number of seconds before a repetition. If the provider asks for more, the request
fails."""


async def request(site: CallSite[Invoke], binding: ModelBinding) -> Value:
    """Ask the model of the step, count the tokens, and return the reply."""
    run = site.run
    step = site.step
    arguments = await when_read(partial(step.args.build, site.frame))
    # Counted after the arguments were built: what cannot be asked does not count, nor count twice.
    for meter in site.scope.meters:
        meter.model()
    # A dry run ends here: it imports no provider and needs no key.
    if run.options.dry:
        return dry_reply(step.asking.config, binding.name)
    # All replies of earlier sessions are paid for, also one that cannot be used or was not stored.
    count_again(site, run.log.take_paid(site.key))
    message = _build_request(site, binding, arguments)
    model_call = _ModelCall(binding, message, site)
    arguments = {**arguments, **_short_parts(message)}
    # A replayed request needs no library, no key and no price.
    if _is_replayed(site, model_call, arguments):
        replayed: dict[str, Value] = await call(site, model_call, "model", arguments)
        warn_of_end(site, replayed, binding.name)
        return replayed
    # The time of a request has that of its model's library, as the time of its step has.
    began = None if binding.model.ready(asyncio.get_running_loop()) else time.time()
    await _open_model(site, binding.model)
    # Checked before the request: a reply without a price could not be limited.
    refuse_unpriced(site, binding.model)
    reply: dict[str, Value] = await call(site, model_call, "model", arguments, began=began)
    # The reply of an earlier session is counted above. That of another run costs nothing here.
    if model_call.replied:
        count_reply(site, reply, binding.name)
    warn_of_end(site, reply, binding.name)
    return reply


def _is_replayed(
    site: CallSite[Invoke], model_call: _ModelCall, arguments: dict[str, Value]
) -> bool:
    """Whether the reply comes from a recording."""
    recording = site.run.options.recording
    if recording is None:
        return False
    return not recording.is_made(recording.ask(site, "model", model_call, arguments))


def _build_request(
    site: CallSite[Invoke], binding: ModelBinding, arguments: Mapping[str, Any]
) -> Request:
    """The request of the step: its messages are the arguments, the rest is its configuration."""
    config = site.step.asking.config
    return Request(
        messages=arguments["messages"],
        instructions=config.get("instructions", ""),
        tools=_tools(config, binding, site.scope.grant),
        tool_choice=config.get("tool_choice", "auto"),
        schema=config.get("schema"),
        settings=config.get("settings") or {},
        last=arguments["last"],
        files=site.run.models.files,
    )


async def _open_model(site: CallSite[Invoke], model: Model) -> None:
    """Open the library of the model for the running loop. Raises StepError."""
    loop = asyncio.get_running_loop()
    if model.ready(loop):
        return
    # Opened on a thread, because the import takes seconds and would block the loop.
    ok, raised = await site.run.host.call("thread", model.open, {"loop": loop})
    if not ok:
        raise with_place(raised, site.step) if isinstance(raised, StepError) else raised


def _short_parts(request: Request) -> dict[str, Value]:
    """The short part of a request besides its messages and settings. It is journaled with each
    request, so that a recording can be searched by it."""
    interface = (request.tools, request.tool_choice, request.schema)
    parts: dict[str, Value] = {
        "instructions": request.instructions,
        "settings": dict(request.settings),
        "tools": [tool.name for tool in request.tools],
    }
    if interface != ((), "auto", None):
        tools, *choice_and_schema = interface
        parts["interface"] = digest_value(isolate([list(map(list, tools)), *choice_and_schema]))
    return {name: part for name, part in parts.items() if part}


@dataclass(slots=True, eq=False)
class _ModelCall:
    """A request in the form of a `UserCallable`, which runs on the loop."""

    binding: ModelBinding
    request: Request
    site: CallSite[Invoke]
    replied: bool = False
    """Whether the model itself replied, not the journal."""
    where: Where | None = "loop"
    timeout: float | None = None
    """None: `ask_model` limits the time of each attempt."""
    is_async: bool = True

    @property
    def name(self) -> str:
        return self.binding.name

    @property
    def user_functions(self) -> tuple[Callable[..., Any], ...]:
        """The functions of a simulated model, on which the reply depends."""
        simulated = self.binding.model.simulated
        return simulated.functions if simulated is not None else ()

    @property
    def why_no_fingerprint(self) -> str:
        return f"its model cannot be compared: a {self.binding.model.kind}"

    @property
    def fingerprint(self) -> str | None:
        """A digest of the model and the request, without the functions of a simulated model; None
        for another model object, which cannot be compared."""
        model = self.binding.model
        simulated = model.simulated
        if model.address is None and simulated is None:
            return None
        parts: list[Value] = [
            model.address if simulated is None else simulated.settings,
            # The messages are the arguments of the call and digested there. The bytes of files are
            # left out, because their digests are in the messages.
            *map(isolate, self.request._replace(messages=[], tools=(), files={})),
            *map(isolate, map(list, self.request.tools)),
        ]
        return digest_value(parts)

    async def function(self, **arguments: Value) -> Value:
        """The reply of the model. The tokens of unusable replies are counted, too."""
        run = self.site.run

        def fail(fault: ModelFault) -> None:
            if fault.used is not None:
                count_unusable(self.site, fault.used, self.name)

        def warn(fault: ModelFault, wait: float) -> None:
            message = f"{fault.diagnostic.message}; asked again after {wait:g} s"
            run.warn_once(Diagnostic("model.retried", message, severity="warning"), message)

        seconds = run.budget.limits.model_timeout
        asking = ModelRequest(self.binding.model, self.request, seconds, fail, warn)
        reply = await ask_model(asking, self._stream, run.stream)
        # Masked before the journal and the session get the reply.
        replace_secrets(reply, self.binding.tools, run.models.placeholders, run.secrets)
        self.replied = True
        emit_usage(run, self.site.path, reply, self.name)
        return reply

    def _stream(self, attempt: int) -> ReplyStream:
        return ReplyStream(self.site.run, self.site.path, attempt, self.binding.tools)


class ModelRequest(NamedTuple):
    """A request to a model, with the terms of its attempts."""

    model: Model
    request: Request
    seconds: float | None
    """The time limit of one attempt; None: no limit."""
    fail: Callable[[ModelFault], None]
    """Called after each failed attempt. What it raises ends the request."""
    warn: Callable[[ModelFault, float], None]
    """Called before a repetition, with the reason and the seconds until then."""


async def ask_model(
    asking: ModelRequest, stream: Callable[[int], ReplyStream], is_watched: bool
) -> Reply:
    """The model's reply. ``stream``: returns the receiver of the arriving reply for the number of
    the attempt. ``is_watched``: whether the model is asked for a reply that arrives in pieces.
    Raises ModelFault, which has what arrived in the last attempt."""
    model, request, seconds, fail, warn = asking
    for attempt in itertools.count():
        listener = stream(attempt + 1)
        try:
            # The limit is for each attempt; the wait before a repetition is not the model's time.
            async with asyncio.timeout(seconds):
                with listener:
                    try:
                        return await model.ask(request, listener.hear if is_watched else None)
                    except ModelFault as error:
                        # Of a reply that nobody watches, the parts come with its error.
                        for part in () if is_watched else error.parts:
                            listener.hear(part)
                        raise
        except ModelFault as error:
            fault = error
        except TimeoutError:
            fault = timeout_fault(model.name, seconds)
        fault.arrived = dict(listener.arrived)
        fail(fault)
        # The provider's pause takes precedence over our own.
        wait = float(2**attempt) if fault.after is None else fault.after
        # A person would not wait longer: the run fails and can be resumed.
        if not fault.again or attempt == RETRIES or wait > LONGEST_WAIT:
            break
        warn(fault, wait)
        await asyncio.sleep(wait)
    raise fault


def _tools(config: Mapping[str, Value], binding: ModelBinding, grant: Grant) -> tuple[Offered, ...]:
    """The tools of the session that its invoker may use, without launches."""
    if config.get("tool_choice") == "none":
        return ()
    names = (
        name
        for name, callee in binding.tools.items()
        # The grant of an agent or a flow is narrowed when it is called.
        if not isinstance(callee, Tool) or grant.allows(callee.name, asks=True)
    )
    return tuple(
        Offered(*describe_tool(binding, name, config.get("descriptions") or {})) for name in names
    )


def dry_reply(config: Mapping[str, Value], name: str) -> Value:
    """A reply that ends the session."""
    usage = {"input": 0, "output": 0}
    if config.get("schema"):
        call = {"id": "", "tool": "", "arguments": {}}
        return {"text": "", "calls": [call], "answer": sample(config["schema"]), "usage": usage}
    return {"text": f"(a reply of {name})", "calls": [], "usage": usage}
