"""Models: one request and one reply, for all providers; and their errors, with hints and without
keys (decision A3).

pydantic-ai does the requests and is imported with the first one, which takes seconds. Its Agent is
not used: it hides the tool calls, which are steps of a run. It finds the keys in the environment;
no value of ours has one.

The library's exceptions are recognised by their status and class name, so that the library is not
imported. They are never the cause of ours: they have the request, and the request has the key.
"""

from __future__ import annotations

import functools
import os
import re
import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from decimal import Decimal
from importlib.util import find_spec
from typing import Any, Protocol

from ..text.diagnostics import Diagnostic, StepError, suggest
from ..text.late_imports import installed_only
from .messages import Delta, Reply, Request, Tokens
from .tools import MASK

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
    if large := _too_large(error):
        hint = "no reply is so long: the address may be that of another kind of server"
        return fault("model.reply", f"{model} is not heard: {large}", hint)
    if type(error).__name__ == "BrokenOff":
        return _broken_off(error, model)
    kinds = {kind.__name__ for kind in type(error).__mro__}
    reason, status = _reason(error), getattr(error, "status_code", None)
    if "decode" in reason.lower():
        kinds.add("UnexpectedModelBehavior")
    own_server = own or model.startswith("ollama:")
    words = {
        "model": model,
        "at": f" at {where}" if where else "",
        "reason": reason,
        "key": _OWN_KEY if own_server else _keys(model),
        "server": _server(model),
        "rejected": _rejection_hint(kinds, reason),
    }
    for kind, statuses, code, message, hint in _FAULTS:
        if kind in kinds or status in statuses:
            again = code in ("model.rate-limit", "model.server")
            after = getattr(error, "retry_after", None) if again else None
            told = message.format_map(words), hint.format_map(words) or None
            return fault(code, *told, again=again, after=after)
    return fault("model.failed", f"the request to {model} failed: {type(error).__name__}: {reason}")


_TIME_LIMIT = "%config AgfMagics.model_timeout sets the time limit"

_FAULTS: tuple[tuple[str, Collection[int], str, str, str], ...] = (
    (
        "ContentFilterError",
        (),
        "model.filtered",
        "{model} is blocked by its provider's filter: {reason}",
        "rephrase the prompt",
    ),
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
    (
        "",
        (*_BUSY, *range(500, 1000)),
        "model.server",
        "{model} has an internal error: {reason}",
        "try again later",
    ),
    ("ModelTimeoutError", (), "model.timeout", "{model} did not reply", _TIME_LIMIT),
    (
        "ModelConnectionError",
        (),
        "model.no-server",
        "there is no server for {model}{at}: {reason}",
        "{server}",
    ),
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
"""What a request failed for, by the class of the library's error or its HTTP status: the code, the
message and the hint. The first one counts."""


def _too_large(error: BaseException | None) -> str:
    """Why the answer behind ``error`` was not read to its end; empty if that is not the reason."""
    while error is not None and type(error).__name__ != "AnswerTooLarge":
        error = error.__cause__ or error.__context__
    return str(error or "")


def _broken_off(error: Exception, model: str) -> ModelFault:
    """A reply that ended in the middle. It is not asked for again without the user: its tokens are
    already paid."""
    (inner,) = error.args
    hint = (
        "the row of the step shows what arrived; run again, or %resume the run to repeat only "
        "this request"
    )
    return fault(
        "model.broken-off", f"the reply of {model} ended in the middle: {_reason(inner)}", hint
    )


def timeout_fault(model: str, seconds: float | None) -> ModelFault:
    within = f" within {seconds:g} s" if seconds else ""
    return fault("model.timeout", f"{model} did not reply{within}", _TIME_LIMIT)


def without_keys(text: str) -> str:
    """``text`` without keys: secrets of the environment, and what looks like a key."""
    secrets = {
        value for name, value in os.environ.items() if _VARIABLE.search(name) and len(value) >= 8
    }
    for word in sorted(secrets, key=len, reverse=True):
        text = text.replace(word, MASK)
    return _SECRET.sub(MASK, text)


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

PROVIDERS = ("openai", "anthropic", "google", "ollama")
"""The providers of the extra ``llm``; the library has more, each with its own extra."""

_GUESSED = {
    "gpt": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "chatgpt": "openai",
    "claude": "anthropic",
    "gemini": "google",
}
_PACKAGES = {
    "openai": "openai",
    "anthropic": "anthropic",
    "google": "google.genai",
    "ollama": "openai",
}
_OLLAMA = "http://localhost:11434/v1"


class Loop(Protocol):
    """An event loop: a connection belongs to the one that opened it."""

    def is_closed(self) -> bool: ...


class Model:
    """A model by its name, which is checked when the model is asked."""

    def __init__(self, name: str, base_url: str = "", *, made: Any = None) -> None:
        """``base_url``: the address of an OpenAI-compatible server; ``made``: a model object of
        pydantic-ai."""
        self.name = name
        self._base_url = base_url
        self._given = made
        self._made: dict[tuple[Loop, int], Any] = {}
        """pydantic-ai's model for each loop and environment, which has the keys and the proxies."""
        self._kept: dict[tuple[Loop, int], Any] = {}
        """What keeps the connections of such a model open between two requests: a TLS context takes
        28 ms."""
        self._streams = True
        """False: it replied to a request for a stream in one piece."""

    @property
    def address(self) -> str | None:
        """Its name and its server; None for a model object that the user made."""
        return None if self._given is not None else f"{self.name} {self._base_url}"

    def ready(self, loop: Loop) -> bool:
        """Whether it can be asked on that loop without an import."""
        return (
            self._given is not None or (loop, _environment()) in self._made
        ) and "agf_magics.catalog.model_requests" in sys.modules

    def problem(self) -> Diagnostic | None:
        """Why it cannot be asked, as far as that is known without a request."""
        try:
            self._check()
        except ModelFault as found:
            return found.diagnostic
        return None

    def open(self, loop: Loop) -> Any:
        """Import the library and return its model for that loop. This is slow.

        All sessions on that loop share one model. Raises ModelFault."""
        with installed_only():
            from . import model_requests  # noqa: F401 - this is the slow part

        if self._given is not None:
            return self._given
        key = loop, _environment()
        if key not in self._made:
            self._check()
            made = self._make()
            for other in [known for known in list(self._made) if known[0].is_closed()]:
                self._made.pop(other, None)
                self._kept.pop(other, None)
            self._made.setdefault(key, made)  # atomic: the first thread wins
        return self._made[key]

    async def _keep(self, made: Any, loop: Loop) -> None:
        """Keep the connections of ``made`` until its loop ends (`asyncio.run`, ``%unload_ext``): a
        loop closes its generators then. A model object of the user is used on any loop, and is
        closed with its last request."""
        from .model_requests import entered

        key = loop, _environment()
        if self._given is not None or key in self._kept:
            return
        self._kept[key] = kept = entered(made)
        await anext(kept)
        for other in [known for known in list(self._kept) if known[0] is loop and known != key]:
            self._made.pop(other, None)
            await self._kept.pop(other).aclose()  # requests that still run close it when they end

    async def ask(self, request: Request, listen: Callable[[Delta], None] | None = None) -> Reply:
        """The reply to one request. Raises ModelFault.

        ``listen``: gets each part of the reply when it arrives; None: the reply comes in one piece.
        """
        from .model_requests import bound_answers, running_loop

        loop = running_loop()
        made = self.open(loop)
        try:
            await self._keep(made, loop)
            async with made:
                bound_answers(made)
                reply = await self._reply(made, request, listen)
                cost = self.price(reply["usage"])
                if cost is not None:
                    reply["usage"]["cost"] = f"{cost:f}"
                return reply
        except StepError:
            raise
        except Exception as error:  # of the library, the provider's package, or the user's model
            failure = explained(
                error, self.name, _address(made) or self._base_url, bool(self._base_url)
            )
        raise failure  # not in the except: its cause would have the request with the key

    def price(self, used: Tokens) -> Decimal | None:
        """The price of a reply in US dollars; None: it is not known, for example because the server
        is not the provider's own. The first call is slow unless the model was opened."""
        from .model_requests import price

        if self._base_url:
            return None
        with suppress(ModelFault):
            provider, model = _split(self.name, False)
            # openai-chat and openai-responses are two ways to ask the same provider.
            return price("openai" if provider.startswith("openai-") else provider, model, used)
        return None

    async def _reply(
        self, made: Any, request: Request, listen: Callable[[Delta], None] | None
    ) -> Reply:
        from .model_requests import asked, streamed

        if listen is None or not self._streams:
            return await asked(made, request)
        reply = await streamed(made, request, listen)
        if reply is None:
            reply = await asked(made, request)
            self._streams = False
        return reply

    def _check(self) -> None:
        if self._given is not None:
            return
        provider, _ = _split(self.name, bool(self._base_url))
        package = _PACKAGES.get(provider, "pydantic_ai")
        if any(map(_absent, ("pydantic_ai", package))):
            raise fault(
                "model.not-installed",
                f"{self.name} needs {package}, which is not installed",
                INSTALL,
            )
        named = KEYS.get(provider, ())
        if (
            named
            and not self._base_url
            and not any(map(os.environ.get, (*named, "OPENAI_BASE_URL")))
        ):
            hint = f"set {' or '.join(named)} in the environment (os.environ), not in a saved cell"
            raise fault("model.no-key", f"there is no key for {self.name}", hint)

    def _make(self) -> Any:
        provider, model = _split(self.name, bool(self._base_url))
        try:
            from .model_requests import made

            ollama = os.environ.get("OLLAMA_BASE_URL") or _OLLAMA if provider == "ollama" else ""
            return made(provider, model, self._base_url or ollama)
        except ImportError as error:
            group = str(error).partition("[")[2].partition("]")[0] or provider
            found = fault(
                "model.not-installed",
                f"{self.name} needs a package that is not installed",
                INSTALL if provider in PROVIDERS else f'pip install "pydantic-ai-slim[{group}]"',
            )
        except ValueError:
            found = fault(
                "model.unknown-provider",
                f"no provider {provider!r}",
                suggest(provider, PROVIDERS, "providers"),
            )
        except Exception as error:  # the library's UserError
            found = fault(
                "model.no-key", f"{self.name} cannot be asked: {str(error).split('. ')[0]}"
            )
        raise found

    def __repr__(self) -> str:
        return f"<Model {self.name}>"


def model_of(chosen: Any, base_url: str = "") -> Model:
    """A model from its name (``"openai:gpt-4o"``) or from a model object of pydantic-ai.

    ``base_url``: the address of a server with the OpenAI protocol, used for the provider ``openai``
    and for names without a provider. It never receives the key of another provider.
    """
    if isinstance(chosen, Model):
        return chosen
    if isinstance(chosen, str):
        provider = chosen.partition(":")[0] if ":" in chosen else "openai"
        return _named(chosen, base_url if provider in ("openai", "openai-chat") else "")
    if not callable(getattr(chosen, "request", None)) or not hasattr(chosen, "model_name"):
        kind = type(chosen).__name__
        raise TypeError(
            f"model must be a name such as 'openai:gpt-4o', or a model of pydantic_ai, not {kind}"
        )
    own = str(chosen.model_name).strip(":")
    return Model(
        own if own.startswith(f"{chosen.system}:") else f"{chosen.system}:{own}", made=chosen
    )


@functools.lru_cache(maxsize=64)
def _named(name: str, base_url: str) -> Model:
    """One for all sessions, which share its connections."""
    return Model(name, base_url)


def _environment() -> int:
    return hash(frozenset(os.environ.items()))


def _split(name: str, served: bool) -> tuple[str, str]:
    """The provider and its own name for the model. Raises ModelFault."""
    provider, colon, model = name.partition(":")
    if not name.strip():
        raise fault("model.none", "no model is chosen", CHOOSE)
    if not colon:
        provider, model = (
            next((p for start, p in _GUESSED.items() if name.startswith(start)), ""),
            name,
        )
        if served:
            return "openai", model
        if not provider:
            raise fault(
                "model.no-provider",
                f"the provider of model {name!r} is unknown",
                f"write provider:model. {CHOOSE}",
            )
    if not provider or not model:
        hint = f"write provider:model; {suggest(provider, PROVIDERS, 'providers')}"
        raise fault("model.name", f"{name!r} is not the name of a model", hint)
    return provider, model


def _address(made: Any) -> str:
    with suppress(Exception):  # a user's own model
        return str(made.base_url or "")
    return ""


def _absent(package: str) -> bool:
    with suppress(ModuleNotFoundError):  # its parent package is missing
        return find_spec(package) is None
    return True
