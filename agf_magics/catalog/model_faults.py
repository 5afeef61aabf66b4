"""Errors of models, with hints and without keys (decision A3).

The library's exceptions are recognised by their status and class name, so that the library is not
imported. They are never the cause of ours: they have the request, and the request has the key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection

from ..text.diagnostics import Diagnostic, StepError

INSTALL = 'pip install "agf-magics[llm]"'
CHOOSE = '%config AgfMagics.model = "openai:…" chooses one'

_SECRET = re.compile(
    r"\b(?:sk|pk|rk|key|gsk|xai)-[\w*.-]{6,}|\bAIza[\w-]{10,}|\bBearer\s+\S+|(?<=//)[^/\s@]+@"
)
_VARIABLE = re.compile(r"(?:_KEY|_TOKEN|_SECRET|_PASSWORD)$")
_BUSY = frozenset({408, 409, 425, 429})


class ModelFault(StepError):
    """A failed request to a model."""

    again: bool = False
    """Whether the same request may succeed later."""
    after: float | None = None
    """The delay that the provider asks for, in seconds."""


def fault(
    code: str,
    message: str,
    hint: str | None = None,
    *,
    again: bool = False,
    after: float | None = None,
) -> ModelFault:
    made = ModelFault(Diagnostic(code, without_keys(message), hint=hint and without_keys(hint)))
    made.again, made.after = again, after
    return made


def explained(error: Exception, model: str, where: str, own: bool = False) -> ModelFault:
    """The library's ``error`` of a request to ``model``. ``where``: the address of its server, or
    empty. ``own``: whether this is a server of the user's, which gets no key of a provider."""
    if type(error).__name__ == "BrokenOff":
        return _broken_off(error, model)
    kinds = {kind.__name__ for kind in type(error).__mro__}
    status, at = getattr(error, "status_code", None), f" at {where}" if where else ""
    reason = _reason(error)
    if "ContentFilterError" in kinds:
        return fault(
            "model.filtered",
            f"{model} is blocked by its provider's filter: {reason}",
            "rephrase the prompt",
        )
    if "ModelAuthenticationError" in kinds or status in (401, 403):
        hint = _OWN_KEY if own or model.startswith("ollama:") else _keys(model)
        return fault("model.key-refused", f"{model} does not accept the key: {reason}", hint)
    if "ModelQuotaExceededError" in kinds or status == 402:
        return fault(
            "model.quota",
            f"{model} has no credit left: {reason}",
            "see the provider's billing page",
        )
    if "ModelNotFoundError" in kinds or status == 404:
        hint = (
            "use the provider's name of the model; the address of a server ends with its "
            "version, such as /v1"
        )
        return fault("model.not-found", f"{model} is not known{at}: {reason}", hint)
    after = getattr(error, "retry_after", None)
    if status == 429 or "ModelRateLimitError" in kinds:
        message, hint = (
            f"{model} receives too many requests: {reason}",
            "lower max_parallel, or try later",
        )
        return fault("model.rate-limit", message, hint, again=True, after=after)
    if status is not None and (status >= 500 or status in _BUSY):
        message = f"{model} has an internal error: {reason}"
        return fault("model.server", message, "try again later", again=True, after=after)
    if "ModelTimeoutError" in kinds:
        return timeout_fault(model, None)
    if "ModelConnectionError" in kinds:
        return fault(
            "model.no-server", f"there is no server for {model}{at}: {reason}", _server(model)
        )
    if status is not None or "ModelRequestRejectedError" in kinds:
        return fault(
            "model.rejected",
            f"{model} rejects the request: {reason}",
            _rejection_hint(kinds, reason),
        )
    if "UnexpectedModelBehavior" in kinds or "decode" in reason.lower():
        hint = "the address may be that of another kind of server, a proxy or a web page"
        return fault(
            "model.reply", f"the answer of {model}{at} is not a model's reply: {reason}", hint
        )
    return fault("model.failed", f"the request to {model} failed: {type(error).__name__}: {reason}")


def _broken_off(error: Exception, model: str) -> ModelFault:
    """A reply that ended in the middle. It is not asked for again without the user: its tokens are
    already paid."""
    inner: Exception = getattr(error, "error", error)
    hint = (
        "the row of the step shows what arrived; run again, or %resume the run to repeat only "
        "this request"
    )
    return fault(
        "model.broken-off", f"the reply of {model} ended in the middle: {_reason(inner)}", hint
    )


def timeout_fault(model: str, seconds: float | None) -> ModelFault:
    within = f" within {seconds:g} s" if seconds else ""
    hint = "%config AgfMagics.model_timeout sets the time limit"
    return fault("model.timeout", f"{model} did not reply{within}", hint)


def without_keys(text: str, known: Collection[str] = ()) -> str:
    """``text`` without keys: secrets of the environment, ``known`` ones, and what looks like a
    key."""
    secrets = {
        value for name, value in os.environ.items() if _VARIABLE.search(name) and len(value) >= 8
    }
    for word in sorted(secrets | set(known), key=len, reverse=True):
        text = text.replace(word, "•••")
    return _SECRET.sub("•••", text)


def _reason(error: Exception) -> str:
    """The provider's message in one line."""
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, dict) else body
    message = inner.get("message") if isinstance(inner, dict) else inner
    status = getattr(error, "status_code", None)
    text = " ".join(str(message or error).split("\n")[0].split()) or type(error).__name__
    text = text if len(text) <= 300 else f"{text[:300]}…"
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


def _server(model: str) -> str:
    if model.startswith("ollama:"):
        return "start it: ollama serve (OLLAMA_BASE_URL sets another address)"
    return "start the server, or set its address: %config AgfMagics.model_base_url = …"


def _rejection_hint(kinds: Collection[str], reason: str) -> str | None:
    if "ModelContextWindowExceededError" in kinds:
        return "the messages are too long: let tools return less, or use fewer steps"
    if "tool" in reason.lower():
        return "the server may need an option to allow tools (vLLM: --enable-auto-tool-choice)"
    return None


KEYS = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
}
"""The environment variables of the keys."""
