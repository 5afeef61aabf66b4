"""Requests to models: counted, made again when the provider is busy, given up when nothing comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ..catalog import Model, ModelFault, Offered, Reply, Request, Tool, Where, timed_out
from ..catalog.fingerprint import content
from ..flow.frame import Frame
from ..flow.schemas import sample
from ..flow.steps import Invoke
from ..flow.values import Value, isolate
from ..host.calls import resolve
from ..host.limits import Grant
from ..progress import events as ev
from ..secrets.placeholders import replace_secrets
from ..text.diagnostics import Diagnostic, StepError
from .external import call_external, with_place
from .runner import Index, Runner, Scope, clock
from .sessions import ModelBinding, offered

RETRIES = 3
"""Times that a request is made again which a provider was too busy for."""

PATIENCE = 60.0
"""Seconds that are waited for a provider that asks for it; not more."""


async def request(run: Runner, step: Invoke, answerer: ModelBinding, frame: Frame, scope: Scope, index: Index) -> Value:
    """One request, one reply."""
    for meter in scope.meters:
        meter.model()
    config = step.config or {}
    given = step.args.build(frame)
    if run.dry:
        return _rehearsed(config, answerer.name)
    tools = _tools(config, answerer, scope.grant)
    asked = Request(
        messages=given["messages"],
        instructions=config.get("instructions", ""),
        tools=tools,
        tool_choice=config.get("tool_choice", "auto"),
        schema=config.get("schema"),
        settings=config.get("settings") or {},
        last=given["last"],
    )
    loop = asyncio.get_running_loop()
    if not answerer.model.ready(loop):  # the library takes seconds to import, and the loop must not stand still
        ok, raised = await run.host.call("worker", answerer.model.open, {"loop": loop})
        if not ok:
            raise with_place(raised, step, ()) if isinstance(raised, StepError) else raised
    at = (*scope.before, step.id, *index)
    caller = _Caller(answerer, asked, run, at)
    reply: dict[str, Value] = await resolve(call_external(run, caller, "model", step, given, scope, scope.grant, index))
    if not caller.heard and run.journal is not None and run.journal.has_said(at, scope.tries):
        _used(run, at, reply)
    _counted(run, reply, scope, step, answerer.name)
    return reply


@dataclass(frozen=True, slots=True, eq=False)
class _Caller:
    """A request as something that is called, on the loop."""

    answerer: ModelBinding
    asked: Request
    run: Runner
    at: ev.StepPath
    heard: list[bool] = field(default_factory=list)
    """Not empty when the model itself has replied, not an earlier session or another run."""
    where: Where | None = "loop"
    timeout: float | None = None
    is_async: bool = True

    @property
    def name(self) -> str:
        return self.answerer.name

    @property
    def fingerprint(self) -> str | None:
        """Who is asked, and how, as a digest; None for a model object, of which nobody knows what it is."""
        who = self.answerer.model.address
        rest: list[Value] = [*self.asked._replace(messages=[], tools=()), *map(list, self.asked.tools)]
        return content([who, *map(isolate, rest)]) if who is not None else None

    async def function(self, **given: Value) -> Value:
        seconds = self.run.budget.limits.model_timeout
        reply = await answered(self.answerer.model, self.asked, seconds, _teller(self.run))
        replace_secrets(reply, self.answerer.tools, self.run.models.placeholders, self.run.secrets)
        self.heard.append(True)
        _used(self.run, self.at, reply)
        return reply


async def answered(
    model: Model, asked: Request, seconds: float | None, tell: Callable[[ModelFault, float], None]
) -> Reply:
    """The model's reply; ``seconds``: how long one request may take. Raises ModelFault."""
    for tries in range(RETRIES + 1):
        try:
            async with asyncio.timeout(seconds):
                return await model.ask(asked)
        except ModelFault as error:
            found = error
        except TimeoutError:
            found = timed_out(model.name, seconds)
        wait = float(2**tries) if found.after is None else found.after
        if not found.again or tries == RETRIES or wait > PATIENCE:
            break
        tell(found, wait)
        await asyncio.sleep(wait)
    raise found


def _tools(config: Mapping[str, Value], answerer: ModelBinding, grant: Grant) -> tuple[Offered, ...]:
    """What the model is offered: what its session names, as far as whoever runs it may use it, and never a launch."""
    if config.get("tool_choice") == "none":
        return ()
    may = (name for name, callee in answerer.tools.items() if not isinstance(callee, Tool) or grant.allows(callee.name))
    return tuple(Offered(*offered(answerer, name, config.get("descriptions") or {})) for name in may)


def _used(run: Runner, at: ev.StepPath, reply: Mapping[str, Value]) -> None:
    """Tell what a reply of this run has taken; of one that was taken over the other run has paid."""
    usage = reply["usage"]
    run.emit(ev.TokensUsed(at, clock(), usage.get("input", 0), usage.get("output", 0)))


def _counted(run: Runner, reply: Mapping[str, Value], scope: Scope, step: Invoke, name: str) -> None:
    """What a reply has cost, and what is to be said of it."""
    tokens = sum(reply["usage"].values())
    for meter in scope.meters:
        if not tokens and meter.caps.tokens is not None:
            message = f"{name} does not say how many tokens it uses, so a limit of tokens cannot be held"
            _warn(run, Diagnostic("model.no-usage", message, meter.caps.span, severity="warning"))
        meter.use(tokens)
    if reply.get("cut"):
        message = f"the reply of {name} was cut off: it reached the most tokens it may give"
        hint = "max_output_tokens sets that"
        _warn(run, Diagnostic("model.cut", message, step.span, hint, "warning"))


def _teller(run: Runner) -> Callable[[ModelFault, float], None]:
    def tell(found: ModelFault, wait: float) -> None:
        message = f"{found.diagnostic.message}; asked again after {wait:g} s"
        _warn(run, Diagnostic("model.retried", message, severity="warning"))

    return tell


def _warn(run: Runner, found: Diagnostic) -> None:
    """Tell it, once in a run."""
    if found not in run.models.told:
        run.models.told.add(found)
        run.emit(ev.Warned(clock(), found))


def _rehearsed(config: Mapping[str, Value], name: str) -> Value:
    """A dry run's reply: an answer made from the schema."""
    usage = {"input": 0, "output": 0}
    if config.get("schema"):
        call = {"id": "", "tool": "", "arguments": {}}
        return {"text": "", "calls": [call], "answer": sample(config["schema"]), "usage": usage}
    return {"text": f"(a reply of {name})", "calls": [], "usage": usage}
