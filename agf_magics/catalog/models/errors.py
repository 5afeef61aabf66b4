"""Explains the errors of models in words, with a hint and without keys (decision A3).

The exceptions of pydantic-ai are recognised by their status and class name, so that the library is
not imported. They never become the cause of our errors, because they contain the request with the
key.
"""

from __future__ import annotations

from collections.abc import Collection

from ...text.raised import args_of, attribute, text_of
from .connections import answer_fault, connection_fault, server_hint
from .model_fault import ModelFault, caused_by, fault, in_line

INSTALL = {
    name: f'pip install "agf-magics[{extra}]"'
    for name, extra in {
        "openai": "openai",
        "ollama": "openai",
        "anthropic": "anthropic",
        "google": "google",
    }.items()
}
"""The command that installs the package of each provider."""
INSTALL_ALL = 'pip install "agf-magics[llm]"'
CHOOSE = '%config AgfMagics.model = "openai:…" chooses one'

_BUSY = frozenset({408, 409, 425, 429})


def explain_failure(error: Exception, model: str, where: str, is_own: bool = False) -> ModelFault:
    """Our error for the library's ``error`` of a request to ``model``. ``where``: the address of
    its server, or empty. ``is_own``: whether this is the user's own server, which gets no
    provider's key."""
    if unreadable := caused_by(error, "AnswerUnreadable"):
        hint = "is its address that of another kind of server?"
        return fault("model.reply", f"the answer of {model} cannot be read: {unreadable}", hint)
    if type(error).__name__ == "BrokenOff":
        return _broken_off(error, model)
    if caused_by(error, "AnswerUnended"):
        return breaks_off(model)
    if broken := caused_by(error, "AnswerBroken"):
        return _broken_off(broken, model)
    if failed := connection_fault(
        error, model, where, server_hint(model.partition(":")[0], where if is_own else "")
    ):
        return failed
    kinds = {kind.__name__ for kind in type(error).__mro__}
    reason = _reason(error)
    status = attribute(error, "status_code")
    if "decode" in reason.lower():
        kinds.add("UnexpectedModelBehavior")
    is_answered = status is not None or "UnexpectedModelBehavior" in kinds
    if is_answered and (answered := answer_fault(model, where, status)):
        return answered
    needs_no_key = is_own or model.startswith("ollama:")
    words = {
        "model": model,
        "at": f" at {where}" if where else "",
        "reason": reason,
        "key": _OWN_KEY if needs_no_key else _keys(model),
        "rejected": _rejection_hint(kinds, reason),
    }
    for kind, statuses, code, message, hint in _FAULTS:
        if kind in kinds or status in statuses:
            again = code in ("model.rate-limit", "model.server")
            after = attribute(error, "retry_after") if again else None
            text = message.format_map(words)
            return fault(code, text, hint.format_map(words) or None, again=again, after=after)
    return fault("model.failed", f"the request to {model} failed: {type(error).__name__}: {reason}")


_FILTERED = "{model} gives no answer, by the rules of its provider: {reason}"
_REPHRASE = "rephrase the prompt, or use another model"
_FAILED = "{model} has an internal error: {reason}"
_LATER = "try again later"
_TIME_LIMIT = "%config AgfMagics.model_timeout sets the time limit"

_FAULTS: tuple[tuple[str, Collection[int], str, str, str], ...] = (
    ("ContentFilterError", (), "model.filtered", _FILTERED, _REPHRASE),
    (
        "ModelAuthenticationError",
        (401, 403),
        "model.key-refused",
        "{model} does not accept the key: {reason}",
        "{key}",
    ),
    (
        "ModelQuotaExceededError",
        (402,),
        "model.quota",
        "{model} has no credit left: {reason}",
        "see the provider's billing page",
    ),
    (
        "ModelNotFoundError",
        (404,),
        "model.not-found",
        "{model} is not known{at}: {reason}",
        "use the provider's name of the model; the address of a server ends with its version, "
        "such as /v1",
    ),
    (
        "ModelRateLimitError",
        (429,),
        "model.rate-limit",
        "{model} receives too many requests: {reason}",
        "lower max_parallel, or try later",
    ),
    ("", (*_BUSY, *range(500, 1000)), "model.server", _FAILED, _LATER),
    ("ModelTimeoutError", (), "model.timeout", "{model} did not reply", _TIME_LIMIT),
    (
        "ModelRequestRejectedError",
        range(1000),
        "model.rejected",
        "{model} rejects the request: {reason}",
        "{rejected}",
    ),
    (
        "UnexpectedModelBehavior",
        (),
        "model.reply",
        "the answer of {model}{at} is not a model's reply: {reason}",
        "the address may be that of another kind of server, a proxy or a web page",
    ),
)
"""The causes of a failed request: the class of the library's error, the HTTP statuses, then the
code, the message and the hint of our error. The first fitting row counts; an empty class fits no
error."""


def _broken_off(error: BaseException, model: str) -> ModelFault:
    """The error for a reply that ended in the middle. Only the user may ask again, because the
    tokens are already paid for."""
    (inner,) = args_of(error)
    hint = (
        "the row of the step shows what arrived; run again, or %resume the run to repeat only "
        "this request"
    )
    return fault(
        "model.broken-off", f"the reply of {model} ended in the middle: {_reason(inner)}", hint
    )


def filter_fault(model: str, words: str) -> ModelFault:
    """The error for a reply that the provider or the model refused. ``words``: their reason."""
    return fault("model.filtered", _FILTERED.format(model=model, reason=in_line(words)), _REPHRASE)


def server_failed(model: str, words: str) -> ModelFault:
    """The error for a reply that reports a failure of the server."""
    message = _FAILED.format(model=model, reason=in_line(words))
    return fault("model.server", message, _LATER, again=True)


def breaks_off(model: str) -> ModelFault:
    """The error for a reply without the end mark of its protocol. Only the user may ask again,
    because the tokens are already paid for."""
    return fault(
        "model.unended",
        f"the reply of {model} ended without its end mark: it is not complete",
        "run again, or %resume the run to repeat only this request; a proxy with a short time "
        "limit is the usual cause",
    )


def timeout_fault(model: str, seconds: float | None) -> ModelFault:
    """The error for a model that did not reply in time."""
    within = f" within {seconds:g} s" if seconds else ""
    return fault("model.timeout", f"{model} did not reply{within}", _TIME_LIMIT)


def _reason(error: BaseException | str) -> str:
    """The provider's message in one line."""
    body = attribute(error, "body")
    inner = body.get("error", body) if isinstance(body, dict) else body
    message = inner.get("message") if isinstance(inner, dict) else inner
    status = attribute(error, "status_code")
    text = in_line(text_of(message or error).split("\n")[0]) or type(error).__name__
    return f"{status}, {text}" if status is not None and message else text


_OWN_KEY = (
    "this server needs a key: agf.registry.choose(MODEL) with a model object of "
    "pydantic-ai that has it"
)


def _keys(model: str) -> str:
    provider = model.partition(":")[0]
    names = (
        " or ".join(KEYS[provider]) if provider in KEYS else "the variable that its provider names"
    )
    return f"set {names} in the environment (os.environ), not in a saved cell, and run again"


def _rejection_hint(kinds: Collection[str], reason: str) -> str:
    if "ModelContextWindowExceededError" in kinds:
        return "the messages are too long: let tools return less, or use fewer steps"
    if "tool" in reason.lower():
        return "the server may need an option to allow tools (vLLM: --enable-auto-tool-choice)"
    return ""


KEYS = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
}
"""The environment variables of the keys."""
