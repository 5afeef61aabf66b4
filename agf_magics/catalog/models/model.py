"""`Model`, a language model of any provider: one request, one reply.

pydantic-ai makes the requests. It is imported with the first request, which takes seconds. Its
Agent is not used, because it hides the tool calls, which are steps of a run. pydantic-ai takes the
keys from the environment, so no value of this package has a key (decision A3).
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from typing import Any, Protocol

from ...compat.imports import installed_only
from ...compat.installed import missing
from ...text.diagnostics import Diagnostic, StepError
from ...text.suggestions import suggest
from .connections import certificates_fault, environment_fault, server_of, socks_fault
from .errors import CHOOSE, INSTALL, INSTALL_ALL, KEYS, explain_failure
from .messages import Delta, Reply, Request, Tokens
from .model_fault import ModelFault, fault, mask_keys
from .simulated import Simulated, simulated

PROVIDERS = ("openai", "anthropic", "google", "ollama")
"""The providers of the extra ``llm``. pydantic-ai has more providers, each with its own extra."""

_GUESSED = {
    "gpt": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "chatgpt": "openai",
    "claude": "anthropic",
    "gemini": "google",
}
"""The provider of a model that is named without one, by the beginning of its name."""
_PACKAGES = {
    "openai": "openai",
    "anthropic": "anthropic",
    "google": "google.genai",
    "ollama": "openai",
}
"""The package that pydantic-ai needs for each provider."""
_OLLAMA = "http://localhost:11434/v1"
"""The address of Ollama, unless OLLAMA_BASE_URL sets another one."""


class Loop(Protocol):
    """An event loop. A connection belongs to the loop that opened it."""

    def is_closed(self) -> bool: ...


class Model:
    """A model with a name, which is checked when the model is asked."""

    def __init__(self, name: str, base_url: str = "", *, model: Any = None) -> None:
        """``base_url``: the address of an OpenAI-compatible server; ``model``: a model object of
        pydantic-ai."""
        self.name = name
        self._base_url = base_url
        self._users_model = model
        self._opened: dict[tuple[Loop, int], Any] = {}
        """The models of pydantic-ai by loop and environment. They hold the keys and the proxies."""
        self._kept: dict[tuple[Loop, int], Any] = {}
        """The open connections of these models, kept between requests: a TLS context takes 28
        ms."""
        self._streams: dict[int, bool] = {}
        """Whether the model always streams (True) or never (False), by the environment, which names
        the server. A model that does as it is asked is not in it."""

    @property
    def address(self) -> str | None:
        """The name and the server of the model; None for a model object that the user made."""
        if self._users_model is not None:
            return None
        server = self._base_url
        with suppress(ModelFault):
            server = server_of(_split(self.name, bool(server))[0], server)
        return f"{self.name} {server}"

    @property
    def simulated(self) -> Simulated | None:
        """What decides the replies of a simulated model; None: it is another model."""
        return simulated(self._users_model) if self._users_model is not None else None

    @property
    def kind(self) -> str:
        """The class of a model object that the user made, for a person."""
        kind = type(self._users_model)
        return f"{kind.__qualname__} of {kind.__module__}"

    def ready(self, loop: Loop) -> bool:
        """Whether the model can be asked on ``loop`` without an import."""
        is_opened = self._users_model is not None or (loop, _environment()) in self._opened
        return is_opened and "agf_magics.catalog.models.requests" in sys.modules

    def problem(self) -> Diagnostic | None:
        """The reason why the model cannot be asked, as far as it shows without a request."""
        try:
            self._check()
        except ModelFault as fault_of_model:
            return fault_of_model.diagnostic
        return None

    def open(self, loop: Loop) -> Any:
        """Import pydantic-ai and return its model for ``loop``, which is slow. All sessions on the
        loop share this model. Raises ModelFault."""
        with installed_only():
            from . import requests  # noqa: F401 - this is the slow part

        if self._users_model is not None:
            return self._users_model
        key = loop, _environment()
        if key not in self._opened:
            self._check()
            model = self._make()
            for closed_key in [opened for opened in list(self._opened) if opened[0].is_closed()]:
                self._opened.pop(closed_key, None)
                self._kept.pop(closed_key, None)
            self._opened.setdefault(key, model)  # atomic, so that the first thread wins
        return self._opened[key]

    async def _keep(self, model: Any, loop: Loop) -> None:
        """Keep the connections of ``model`` open until its loop ends (`asyncio.run`,
        ``%unload_ext``) and closes its generators. A user's model object may be used on any loop,
        and is closed with its last request."""
        from .requests import hold_open

        key = loop, _environment()
        if self._users_model is not None or key in self._kept:
            return
        self._kept[key] = connections = hold_open(model)
        await anext(connections)
        for old_key in [
            kept_key for kept_key in list(self._kept) if kept_key[0] is loop and kept_key != key
        ]:
            self._opened.pop(old_key, None)
            await self._kept.pop(old_key).aclose()  # running requests close it when they end

    async def ask(self, request: Request, listen: Callable[[Delta], None] | None = None) -> Reply:
        """The reply to one request. Raises ModelFault.

        ``listen``: gets each part of the reply when it arrives; None: the reply comes in one piece.
        """
        from .http_answers import listen_to
        from .requests import running_loop

        loop = running_loop()
        model = self.open(loop)
        try:
            await self._keep(model, loop)
            async with model:
                listen_to(model)
                reply = await self._reply(model, request, listen)
                self._add_cost(reply["usage"])
                return reply
        except ModelFault as error:
            if error.used is not None:
                self._add_cost(error.used)
            failure = error
        except StepError:
            raise
        except Exception as error:  # from pydantic-ai, the provider's package, or the user's model
            failure = explain_failure(
                error, self.name, _address(model) or self._base_url, bool(self._base_url)
            )
        # Raised outside of `except`, so that the request with the key is not its cause
        raise mask_keys(failure, _keys_of(model))

    def _add_cost(self, used: Tokens) -> None:
        """Add the price of a reply to its usage, if it is known."""
        cost = self.price(used)
        if cost is not None:
            used["cost"] = f"{cost:f}"

    def price(self, used: Tokens) -> Decimal | None:
        """The price of a reply in US dollars; None: unknown, for example because ``base_url`` names
        another server, or because the server sent no numbers of tokens. An address in the environment
        counts as the provider's own, since it is usually that of a gateway. The first call is slow
        unless the model was opened."""
        from .prices import price

        # A server that sends no numbers of tokens was paid all the same.
        if self._base_url or not (used["input"] or used["output"]):
            return None
        with suppress(ModelFault):
            provider, model = _split(self.name, False)
            # openai-chat and openai-responses are two protocols of the same provider.
            return price("openai" if provider.startswith("openai-") else provider, model, used)
        return None

    async def _reply(
        self, model: Any, request: Request, listen: Callable[[Delta], None] | None
    ) -> Reply:
        from .requests import request_stream, request_whole

        environment = _environment()
        asked = self._streams.get(environment, listen is not None)
        if asked:
            ignore: Callable[[Delta], None] = lambda delta: None  # noqa: E731
            answer = request_stream(model, request, self.name, listen or ignore)
        else:
            answer = request_whole(model, request, self.name)
        reply, has_streamed = await answer
        if has_streamed != asked:
            # Asked the other way, the model would be paid twice for each reply.
            self._streams[environment] = has_streamed
        return reply

    def _check(self) -> None:
        """Raise ModelFault if the model cannot be asked."""
        if self._users_model is not None:
            return
        provider, _ = _split(self.name, bool(self._base_url))
        package = _PACKAGES.get(provider, "pydantic_ai")
        if missing(("pydantic_ai", package)):
            raise fault(
                "model.not-installed",
                f"{self.name} needs {package}, which is not installed",
                INSTALL.get(provider, INSTALL_ALL),
            )
        if wrong := environment_fault(provider, self._base_url):
            raise wrong
        variables = KEYS.get(provider, ())
        # A server of one's own for the API of OpenAI needs no key.
        may_lack_key = ("OPENAI_BASE_URL",) if provider.startswith("openai") else ()
        has_key = any(map(os.environ.get, (*variables, *may_lack_key)))
        if variables and not self._base_url and not has_key:
            hint = (
                f"set {' or '.join(variables)} in the environment (os.environ), not in a saved cell"
            )
            raise fault("model.no-key", f"there is no key for {self.name}", hint)

    def _make(self) -> Any:
        """Create the model of pydantic-ai. Raises ModelFault."""
        provider, model = _split(self.name, bool(self._base_url))
        try:
            from .requests import library_model

            ollama = os.environ.get("OLLAMA_BASE_URL") or _OLLAMA if provider == "ollama" else ""
            return library_model(provider, model, self._base_url or ollama)
        except ImportError as error:
            group = str(error).partition("[")[2].partition("]")[0] or provider
            model_fault = socks_fault(self.name) or fault(
                "model.not-installed",
                f"{self.name} needs a package that is not installed",
                INSTALL.get(provider, INSTALL_ALL)
                if provider in PROVIDERS
                else f'pip install "pydantic-ai-slim[{group}]"',
            )
        except ValueError:
            model_fault = fault(
                "model.unknown-provider",
                f"no provider {provider!r}",
                suggest(provider, PROVIDERS, "providers"),
            )
        except Exception as error:
            is_key = type(error).__name__ == "UserError"  # the library's: it names the variable
            why = f"{self.name} cannot be asked: {str(error).split('. ')[0]}"
            model_fault = certificates_fault(error, self.name) or fault(
                "model.no-key" if is_key else "model.failed", why
            )
        raise model_fault

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
        return _shared_model(chosen, base_url if provider in ("openai", "openai-chat") else "")
    if not callable(getattr(chosen, "request", None)) or not hasattr(chosen, "model_name"):
        kind = type(chosen).__name__
        raise TypeError(
            f"model must be a name such as 'openai:gpt-4o', or a model of pydantic_ai, not {kind}"
        )
    model_name = str(chosen.model_name).strip(":")
    if not model_name.startswith(f"{chosen.system}:"):
        model_name = f"{chosen.system}:{model_name}"
    return Model(model_name, model=chosen)


@functools.lru_cache(maxsize=64)
def _shared_model(name: str, base_url: str) -> Model:
    """The model that all sessions share, together with its connections."""
    return Model(name, base_url)


def _environment() -> int:
    """A number that differs if a variable of the environment has changed."""
    return hash(frozenset(os.environ.items()))


def _split(name: str, served: bool) -> tuple[str, str]:
    """The provider, and the provider's name for the model. ``served``: whether a server's address
    is set, so that a name without a provider is one of OpenAI's protocol. Raises ModelFault."""
    provider, colon, model = name.partition(":")
    if not name.strip():
        raise fault("model.none", "no model is chosen", CHOOSE)
    if not colon:
        provider = next((p for start, p in _GUESSED.items() if name.startswith(start)), "")
        model = name
        if served:
            return "openai", model
        if not provider:
            raise fault(
                "model.no-provider",
                f"the provider of model {name!r} is unknown",
                f"write openai:{name} or ollama:{name}: its provider stands first; "
                f"providers are {', '.join(PROVIDERS)}",
            )
    if not provider or not model:
        hint = f"write {provider or 'openai'}:{model or 'MODEL'}"
        raise fault("model.name", f"{name!r} is not the name of a model", hint)
    return provider, model


def _address(model: Any) -> str:
    """The address of the server of a model of pydantic-ai; empty: unknown."""
    with suppress(Exception):  # a user's own model
        return str(model.base_url or "")
    return ""


def _keys_of(model: Any) -> set[str]:
    """The keys in a model of pydantic-ai, or in the models that it wraps. A user's own model object
    may have a key that is in no environment variable."""
    keys = set[str]()
    with suppress(Exception):  # a user's own model
        for inner in (model, getattr(model, "wrapped", None), *getattr(model, "models", ())):
            client = getattr(inner, "client", None)
            for holder in (client, getattr(client, "_api_client", None)):
                keys |= {str(getattr(holder, name, "")) for name in ("api_key", "auth_token")}
    return keys
