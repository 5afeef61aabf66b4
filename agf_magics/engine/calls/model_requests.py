"""Requests to models: counted, repeated while the provider is busy, and given up after a time."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from ...catalog import (
    Model,
    ModelFault,
    Offered,
    Reply,
    Request,
    Tokens,
    Tool,
    Where,
    timeout_fault,
)
from ...catalog.digests.digesting import digest_value
from ...flow.progress import events as ev
from ...flow.progress.rows import cost_of
from ...flow.step_path import StepPath
from ...flow.steps import Invoke
from ...journal.secrets.placeholders import replace_secrets
from ...limits.budgets import LimitReached
from ...limits.grants import Grant
from ...schemas.sample import sample
from ...text.diagnostics import Diagnostic, StepError
from ...values.value import Value, isolate
from ..linking.linked import ModelBinding
from ..linking.offered_tools import describe_tool
from ..runner import CallSite, Runner, clock
from .call import call
from .failures import with_place
from .reply_stream import ReplyStream

RETRIES = 3
"""The number of further requests if the provider is busy."""

LONGEST_WAIT = 60.0
"""Seconds before a repetition, at most; if the provider asks for more, the request fails."""


async def request(site: CallSite[Invoke], binding: ModelBinding) -> Value:
    run = site.run
    step = site.step
    scope = site.scope
    for meter in scope.meters:
        meter.model()
    config = step.asking.config
    arguments = step.args.build(site.frame)
    # Before the library is opened: a dry run imports no provider and needs no key.
    if run.options.dry:
        return dry_reply(config, binding.name)
    message = Request(
        messages=arguments["messages"],
        instructions=config.get("instructions", ""),
        tools=_tools(config, binding, scope.grant),
        tool_choice=config.get("tool_choice", "auto"),
        schema=config.get("schema"),
        settings=config.get("settings") or {},
        last=arguments["last"],
        files=run.models.files,
    )
    caller = _Caller(binding, message, run, site.at)
    arguments = {**arguments, **_beside(message)}
    recording, loop = run.options.recording, asyncio.get_running_loop()
    # A replayed request needs no library, no key and no price.
    if recording is not None and not recording.is_made(
        recording.ask(site, "model", caller, arguments)
    ):
        replayed: dict[str, Value] = await call(site, caller, "model", arguments)
        _count(site, replayed, binding.name)
        return replayed
    # On a thread: the import of the library takes seconds, which would block the loop.
    if not binding.model.ready(loop):
        ok, raised = await run.host.call("thread", binding.model.open, {"loop": loop})
        if not ok:
            raise with_place(raised, step) if isinstance(raised, StepError) else raised
    # Before the request: afterwards its price could not be counted, and so not limited.
    _refuse_unpriced(site, binding.model)
    reply: dict[str, Value] = await _request_reply(site, caller, arguments)
    # A reply that an earlier session of this run got has cost tokens; a reply of another run has
    # not.
    if not caller.replied and run.journal is not None and run.journal.is_own(site.key):
        _emit_usage(run, site.at, reply, binding.name)
    _count(site, reply, binding.name)
    return reply


async def _request_reply(
    site: CallSite[Invoke], caller: _Caller, arguments: dict[str, Value]
) -> dict[str, Value]:
    """The reply to a request that is made. The tokens of one that is no answer are counted, too."""
    try:
        reply: dict[str, Value] = await call(site, caller, "model", arguments)
    except StepError:
        if caller.unanswered is not None:
            _count_unanswered(site, caller.unanswered)
        raise
    return reply


def _beside(request: Request) -> dict[str, Value]:
    """What a request has beside its messages and settings of its own, short enough to be journaled
    with each of them: a recording finds it by this."""
    rest = (request.tools, request.tool_choice, request.schema)
    parts: dict[str, Value] = {
        "instructions": request.instructions,
        "settings": dict(request.settings),
        "tools": [tool.name for tool in request.tools],
    }
    if rest != ((), "auto", None):
        parts["interface"] = digest_value(isolate([list(map(list, rest[0])), *rest[1:]]))
    return {name: part for name, part in parts.items() if part}


@dataclass(slots=True, eq=False)
class _Caller:
    """A request as a UserCallable, on the loop."""

    binding: ModelBinding
    request: Request
    run: Runner
    at: StepPath
    replied: bool = False
    """Whether the model itself has replied, and not the journal."""
    unanswered: Tokens | None = None
    """The tokens of a reply that was no answer."""
    where: Where | None = "loop"
    timeout: float | None = None
    is_async: bool = True

    @property
    def name(self) -> str:
        return self.binding.name

    @property
    def fingerprint(self) -> str | None:
        """A digest of the model and the request; None for a model object, which cannot be
        compared."""
        who = self.binding.model.address
        rest: list[Value] = [
            # Without the messages, which are the arguments of the call and digested there; without
            # the bytes of files, whose digests are in the messages.
            *self.request._replace(messages=[], tools=(), files={}),
            *map(list, self.request.tools),
        ]
        return digest_value([who, *map(isolate, rest)]) if who is not None else None

    async def function(self, **arguments: Value) -> Value:
        def warn(fault: ModelFault, wait: float) -> None:
            message = f"{fault.diagnostic.message}; asked again after {wait:g} s"
            self.run.warn_once(Diagnostic("model.retried", message, severity="warning"), message)

        asking = ModelRequest(
            self.binding.model, self.request, self.run.budget.limits.model_timeout, warn
        )
        try:
            reply = await ask_model(asking, self._stream if self.run.stream else None)
        except ModelFault as error:
            if error.used is not None:
                self.unanswered = error.used
                _emit_usage(self.run, self.at, {"usage": error.used}, self.name)
            raise
        # Before the journal and the session get the reply, and not after it was streamed only.
        replace_secrets(reply, self.binding.tools, self.run.models.placeholders, self.run.secrets)
        self.replied = True
        _emit_usage(self.run, self.at, reply, self.name)
        return reply

    def _stream(self, attempt: int) -> ReplyStream:
        return ReplyStream(self.run, self.at, attempt, self.binding.tools)


class ModelRequest(NamedTuple):
    """A request to a model, and how it is made."""

    model: Model
    request: Request
    seconds: float | None
    """The limit of one attempt."""
    warn: Callable[[ModelFault, float], None]
    """Called before a repetition, with the reason and the seconds until then."""


async def ask_model(
    asking: ModelRequest, stream: Callable[[int], ReplyStream] | None = None
) -> Reply:
    """The model's reply. ``stream``: receives the reply while it arrives, by the number of the
    attempt; None: the run is not watched. Raises ModelFault."""
    model, request, seconds, warn = asking
    for attempt in itertools.count():
        try:
            # Around each attempt: the wait before a repetition is not the model's time.
            async with asyncio.timeout(seconds):
                if stream is None:
                    return await model.ask(request)
                with stream(attempt + 1) as listener:
                    return await model.ask(request, listener.hear)
        except ModelFault as error:
            fault = error
        except TimeoutError:
            fault = timeout_fault(model.name, seconds)
        # What the provider asks for wins over our own rhythm.
        wait = float(2**attempt) if fault.after is None else fault.after
        # Not longer than a person waits: the run then fails and can be resumed.
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
        # An agent or a flow is narrowed by its own grant when it is called.
        if not isinstance(callee, Tool) or grant.allows(callee.name, asks=True)
    )
    return tuple(
        Offered(*describe_tool(binding, name, config.get("descriptions") or {})) for name in names
    )


def _refuse_unpriced(site: CallSite[Invoke], model: Model) -> None:
    """Refuse a request whose price could not be counted (`limit.unknown-price`)."""
    caps = [meter.own_limits for meter in site.scope.meters if meter.own_limits.cost is not None]
    if (site.run.budget.limits.max_cost or caps) and model.price({"input": 1, "output": 1}) is None:
        message = f"the price of {model.name} is not known, so max_cost cannot limit it"
        hint = (
            "limit its tokens instead (max_tokens), or use a model of a provider with a known price"
        )
        span = caps[0].span if caps else site.step.place
        refused = LimitReached(Diagnostic("limit.unknown-price", message, span, hint))
        refused.ends_run = bool(site.run.budget.limits.max_cost)
        raise refused


def _emit_usage(run: Runner, at: StepPath, reply: Mapping[str, Value], model: str) -> None:
    usage = reply["usage"]
    run.emit(
        ev.TokensUsed(
            at, clock(), usage.get("input", 0), usage.get("output", 0), model, cost_of(usage)
        )
    )


def _count(site: CallSite[Invoke], reply: Mapping[str, Value], name: str) -> None:
    """Count the tokens of a reply; warn if they are unknown, and if the reply was cut off."""
    usage, budget = reply["usage"], site.run.budget
    tokens, cost = usage.get("input", 0) + usage.get("output", 0), cost_of(usage)
    limited = [
        meter.own_limits
        for meter in site.scope.meters
        if (meter.own_limits.tokens, meter.own_limits.cost) != (None, None)
    ]
    if not tokens and (limited or budget.limits.max_tokens or budget.limits.max_cost):
        message = (
            f"{name} does not report how many tokens it uses, so a limit of tokens or cost "
            f"has no effect"
        )
        span = limited[0].span if limited else site.step.span
        warning = Diagnostic("model.no-usage", message, span, severity="warning")
        site.run.warn_once(warning, warning)
    for meter in site.scope.meters:
        meter.use(tokens, cost)
    try:
        budget.use(tokens, cost)
    except LimitReached as error:
        # The budget knows no step, so its error has no place yet.
        raise with_place(error, site.step) from None
    if reply.get("cut"):
        message = f"the reply of {name} was cut off: it reached its maximum number of tokens"
        hint = "max_output_tokens sets the maximum"
        warning = Diagnostic("model.cut", message, site.step.span, hint, "warning")
        site.run.warn_once(warning, warning)
    if tool := reply.get("written_call"):
        message = f"the reply of {name} is a call of {tool!r} as text: the tool was not called"
        hint = "its server has to read calls of tools for this model, or use another model"
        warning = Diagnostic("model.call-as-text", message, site.step.span, hint, "warning")
        site.run.warn_once(warning, warning)

    if reply.get("unended"):
        message = f"the reply of {name} ended without the reason of its end (finish_reason)"
        hint = "compare it with the server's log; some servers never send the reason"
        warning = Diagnostic("model.unended", message, site.step.span, hint, "warning")
        site.run.warn_once(warning, warning)


def _count_unanswered(site: CallSite[Invoke], used: Tokens) -> None:
    """Count the tokens of a reply that is no answer. They are paid for; the error of the step is
    that of the reply, and a limit that they exceed refuses the next request."""
    tokens, cost = used["input"] + used["output"], cost_of(used)
    for use in (*(meter.use for meter in site.scope.meters), site.run.budget.use):
        with suppress(LimitReached):
            use(tokens, cost)


def dry_reply(config: Mapping[str, Value], name: str) -> Value:
    """A reply that ends the session."""
    usage = {"input": 0, "output": 0}
    if config.get("schema"):
        call = {"id": "", "tool": "", "arguments": {}}
        return {"text": "", "calls": [call], "answer": sample(config["schema"]), "usage": usage}
    return {"text": f"(a reply of {name})", "calls": [], "usage": usage}
