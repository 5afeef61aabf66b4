"""What went wrong with a model, in words that say what to do; no key is ever part of them (decision A3).

The library's exceptions are told by what they carry (a status, a class's name), so that nothing here imports it. They
are never the cause of ours: an exception of a provider's holds the request, and the request holds the key.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection

from ..text.diagnostics import Diagnostic, StepError

INSTALL = 'pip install "agf-magics[llm]"'
CHOOSE = '%config AgfMagics.model = "openai:…" chooses one'

_SECRET = re.compile(r"\b(?:sk|pk|rk|key|gsk|xai)-[\w*.-]{6,}|\bAIza[\w-]{10,}|\bBearer\s+\S+|(?<=//)[^/\s@]+@")
_VARIABLE = re.compile(r"(?:_KEY|_TOKEN|_SECRET|_PASSWORD)$")
_BUSY = frozenset({408, 409, 425, 429})


class ModelFault(StepError):
    """A request to a model that came to nothing."""

    again: bool = False
    """Whether the same request may well be answered a little later."""
    after: float | None = None
    """Seconds that the provider asks to wait before."""


def fault(
    code: str, message: str, hint: str | None = None, *, again: bool = False, after: float | None = None
) -> ModelFault:
    made = ModelFault(Diagnostic(code, without_keys(message), hint=hint and without_keys(hint)))
    made.again, made.after = again, after
    return made


def explained(error: Exception, model: str, where: str) -> ModelFault:
    """``error``, which the library raised for a request to ``model``; ``where``: its server's address, if known."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    status, at = getattr(error, "status_code", None), f" at {where}" if where else ""
    told = _told(error)
    if "ContentFilterError" in kinds:
        return fault("model.filtered", f"{model} may not answer, says its provider: {told}", "say it in another way")
    if "ModelAuthenticationError" in kinds or status in (401, 403):
        return fault("model.key-refused", f"{model} refuses the key: {told}", _keys(model))
    if "ModelQuotaExceededError" in kinds or status == 402:
        return fault("model.quota", f"{model} has no credit left: {told}", "its provider's page on billing says more")
    if "ModelNotFoundError" in kinds or status == 404:
        hint = (
            "the name after the colon is the provider's own; the address of a server ends with its version, as in /v1"
        )
        return fault("model.not-found", f"{model} is not known{at}: {told}", hint)
    after = getattr(error, "retry_after", None)
    if status == 429 or "ModelRateLimitError" in kinds:
        message, hint = f"{model} is asked too often: {told}", "ask less at once (max_parallel), or later"
        return fault("model.rate-limit", message, hint, again=True, after=after)
    if status is not None and (status >= 500 or status in _BUSY):
        message = f"{model} has trouble of its own: {told}"
        return fault("model.server", message, "ask again later", again=True, after=after)
    if "ModelTimeoutError" in kinds:
        return timed_out(model, None)
    if "ModelConnectionError" in kinds:
        return fault("model.no-server", f"nobody answers for {model}{at}: {told}", _server(model))
    if status is not None or "ModelRequestRejectedError" in kinds:
        return fault("model.rejected", f"{model} does not take the request: {told}", _taken(kinds, told))
    if "UnexpectedModelBehavior" in kinds or "decode" in told.lower():
        hint = "a server of another kind, a proxy or a page for people may be answering: look at its address"
        return fault("model.reply", f"what {model} answers{at} is no reply of a model: {told}", hint)
    return fault("model.failed", f"{model} could not be asked: {type(error).__name__}: {told}")


def timed_out(model: str, seconds: float | None) -> ModelFault:
    within = f" within {seconds:g} s" if seconds else ""
    return fault(
        "model.timeout", f"{model} did not answer{within}", "%config AgfMagics.model_timeout sets how long it may take"
    )


def without_keys(text: str, known: Collection[str] = ()) -> str:
    """``text`` without what is, or looks like, a key: the values of the environment's secrets, and ``known`` ones."""
    secrets = {value for name, value in os.environ.items() if _VARIABLE.search(name) and len(value) >= 8}
    for word in sorted(secrets | set(known), key=len, reverse=True):
        text = text.replace(word, "•••")
    return _SECRET.sub("•••", text)


def _told(error: Exception) -> str:
    """What the provider says, in a line."""
    body = getattr(error, "body", None)
    inner = body.get("error", body) if isinstance(body, dict) else body
    message = inner.get("message") if isinstance(inner, dict) else inner
    status = getattr(error, "status_code", None)
    text = " ".join(str(message or error).split("\n")[0].split()) or type(error).__name__
    text = text if len(text) <= 300 else f"{text[:300]}…"
    return f"{status}, {text}" if status is not None and message else text


def _keys(model: str) -> str:
    provider = model.partition(":")[0]
    names = " or ".join(KEYS[provider]) if provider in KEYS else "the variable that its provider names"
    return f"set {names} in the environment (os.environ), not in a cell that is kept, and run again"


def _server(model: str) -> str:
    if model.startswith("ollama:"):
        return "start it: ollama serve (OLLAMA_BASE_URL says where, if it is elsewhere)"
    return "is the server started, and its address right? %config AgfMagics.model_base_url sets it"


def _taken(kinds: Collection[str], told: str) -> str | None:
    if "ModelContextWindowExceededError" in kinds:
        return "what was said so far is too long for it: let tools give less, or take fewer steps"
    if "tool" in told.lower():
        return "the server may need to be told that its model may use tools (vLLM: --enable-auto-tool-choice)"
    return None


KEYS = {
    "openai": ("OPENAI_API_KEY",),
    "anthropic": ("ANTHROPIC_API_KEY",),
    "google": ("GOOGLE_API_KEY", "GEMINI_API_KEY"),
}
"""Where the library looks for the keys of the providers that the extra brings."""
