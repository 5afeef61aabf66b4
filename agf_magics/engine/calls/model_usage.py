"""Counts and limits the tokens and the cost of models' replies, and warns where they are
unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

from ...catalog import Model, Tokens
from ...flow.progress import events as ev
from ...flow.progress.usage import cost_of
from ...flow.step_path import StepPath
from ...flow.steps import Invoke
from ...limits.budgets import LimitReached
from ...text.diagnostics import Diagnostic
from ...values.value import Value
from ..runner import CallSite, Runner, clock
from .failures import with_place


def refuse_unpriced(site: CallSite[Invoke], model: Model) -> None:
    """Refuse a request whose price could not be counted (`limit.unknown-price`)."""
    limited = [meter.own_limits for meter in site.scope.meters if meter.own_limits.cost is not None]
    has_limit = site.run.budget.limits.max_cost or limited
    if has_limit and model.price({"input": 1, "output": 1}) is None:
        message = f"the price of {model.name} is not known, so max_cost cannot limit it"
        hint = (
            "limit its tokens instead (max_tokens), or use a model of a provider with a known price"
        )
        span = limited[0].span if limited else site.step.place
        refused = LimitReached(Diagnostic("limit.unknown-price", message, span, hint))
        refused.ends_run = bool(site.run.budget.limits.max_cost)
        raise refused


def emit_usage(run: Runner, path: StepPath, reply: Mapping[str, Value], model: str) -> None:
    """Emit the tokens and the cost of a reply."""
    usage = reply["usage"]
    tokens = usage.get("input", 0), usage.get("output", 0)
    run.emit(ev.TokensUsed(path, clock(), *tokens, model, cost_of(usage)))


def usage_of(use: ev.TokensUsed) -> dict[str, Value]:
    """The usage of a reply, from which `emit_usage` has made the event ``use``."""
    usage: dict[str, Value] = {"input": use.input, "output": use.output}
    return usage if use.cost is None else {**usage, "cost": f"{use.cost:f}"}


def count_reply(site: CallSite[Invoke], reply: Mapping[str, Value], name: str) -> None:
    """Count the tokens of a reply that this session has paid for; warn if they are unknown."""
    usage = reply["usage"]
    budget = site.run.budget
    tokens = usage.get("input", 0) + usage.get("output", 0)
    cost = cost_of(usage)
    limited = [
        meter.own_limits
        for meter in site.scope.meters
        if (meter.own_limits.tokens, meter.own_limits.cost) != (None, None)
    ]
    has_limit = limited or budget.limits.max_tokens or budget.limits.max_cost
    if has_limit and not tokens:
        message = (
            f"{name} does not report how many tokens it uses, so a limit of tokens or cost "
            f"has no effect"
        )
        span = limited[0].span if limited else site.step.span
        warning = Diagnostic("model.no-usage", message, span, severity="warning")
        site.run.warn_once(warning, warning)
    _charge(site, [(tokens, cost)])


def _charge(site: CallSite[Any], uses: Iterable[tuple[int, Decimal | None]]) -> None:
    """Count ``uses``, each the tokens of a reply and their cost (None: unknown), for the run and for
    every definition around. Raises LimitReached, that of the run before that of a definition."""
    reached: LimitReached | None = None
    # All counters first: what a definition refuses is paid for by the run, too.
    for tokens, cost in uses:
        for use in (site.run.budget.use, *(meter.use for meter in site.scope.meters)):
            try:
                use(tokens, cost)
            except LimitReached as error:
                reached = reached or error
    if reached is not None:
        # The budget does not know the step, so the error gets its place here.
        raise with_place(reached, site.step)


def warn_of_end(site: CallSite[Invoke], reply: Mapping[str, Value], name: str) -> None:
    """Warn of a reply that was cut off, that is a call as text, or that ended without a reason."""
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


def count_unusable(site: CallSite[Invoke], used: Tokens, name: str) -> None:
    """Count the tokens of an unusable reply of the model ``name``, which are paid for, and journal
    them: no record of a call has them. Raises LimitReached."""
    emit_usage(site.run, site.path, {"usage": used}, name)
    if site.run.journal is not None:
        site.run.journal.note_paid(site.key, name, used)
    _charge(site, [(used["input"] + used["output"], cost_of(used))])


def count_again(site: CallSite[Any], uses: Iterable[ev.TokensUsed]) -> None:
    """Count ``uses`` of models in earlier sessions of the run, which has paid for them: for its
    limits and its usage. Raises LimitReached."""
    paid = list(uses)
    for use in paid:
        site.run.emit(use._replace(when=clock()))
    _charge(site, [(use.input + use.output, use.cost) for use in paid])
