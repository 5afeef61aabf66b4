"""Models: one request, one reply, whatever the provider. The only place that knows pydantic-ai, which is imported when
a model is first asked: that takes seconds.

Its direct request is used and not its Agent: a loop that hides the tool calls would hide what a run is made of. Keys
are the library's business: it finds them in the environment, and nothing of ours holds one (decision A3).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any, NamedTuple, Protocol

from ..flow.values import Value
from ..text.diagnostics import Diagnostic, StepError, suggest
from .model_faults import CHOOSE, INSTALL, KEYS, ModelFault, explained, fault

PROVIDERS = ("openai", "anthropic", "google", "ollama")
"""Those that the extra brings; the library knows more, each with an extra of its own."""

_GUESSED = {"gpt": "openai", "o1": "openai", "o3": "openai", "o4": "openai", "chatgpt": "openai", "claude": "anthropic",
            "gemini": "google"}  # fmt: skip
_PACKAGES = {"openai": "openai", "anthropic": "anthropic", "google": "google.genai", "ollama": "openai"}
_OLLAMA = "http://localhost:11434/v1"


class Offered(NamedTuple):
    """A tool as a model is told of it."""

    name: str
    description: str
    accepts: Mapping[str, Any]
    """JSON Schema of its arguments."""


class Request(NamedTuple):
    """What a model is asked."""

    messages: list[Value]
    """What was said so far, as flow/session.py has it."""
    instructions: str = ""
    tools: tuple[Offered, ...] = ()
    tool_choice: str = "auto"
    """``auto``, ``required``, ``none``."""
    schema: Mapping[str, Any] | None = None
    """JSON Schema of the answer; None: text."""
    settings: Mapping[str, Value] = {}
    """``temperature``, ``top_p``, ``top_k``, ``max_output_tokens``, ``stop_sequences``."""
    last: bool = False
    """Whether it must answer now, without tools."""


class Loop(Protocol):
    """An event loop: connections belong to the one they were opened on."""

    def is_closed(self) -> bool: ...


class Model:
    """A model by its name. It is not looked for before it is asked."""

    def __init__(self, name: str, base_url: str = "", *, made: Any = None) -> None:
        """``base_url``: that of an OpenAI-compatible server; ``made``: a model object of pydantic-ai."""
        self.name = name
        self._base_url = base_url
        self._given = made
        self._made: dict[Loop, Any] = {}
        """What talks to the provider, for each loop that it is asked on."""

    @property
    def address(self) -> str | None:
        """Its name, and where it is asked; None for a model object that somebody made."""
        return None if self._given is not None else f"{self.name} {self._base_url}"

    def ready(self, loop: Loop) -> bool:
        """Whether it can be asked at once on that loop."""
        there = self._given is not None or loop in self._made
        return there and "agf_magics.catalog.model_requests" in sys.modules

    def problem(self) -> Diagnostic | None:
        """Why it can surely not be asked, as far as that is known without asking anybody."""
        try:
            self._check()
        except ModelFault as found:
            return found.diagnostic
        return None

    def open(self, loop: Loop) -> Any:
        """Import the library and make what talks to the provider on that loop; slow, and for a thread that may wait.

        Sessions side by side open it at once, and must be given one and the same: the last to leave it closes its
        connections. Raises ModelFault.
        """
        from . import model_requests  # noqa: F401 - this is the slow part

        if self._given is not None:
            return self._given
        if loop not in self._made:
            self._check()
            made = self._make()
            for other in [known for known in list(self._made) if known.is_closed()]:
                self._made.pop(other, None)
            self._made.setdefault(loop, made)  # one step: of several threads the first one's counts
        return self._made[loop]

    async def ask(self, request: Request) -> dict[str, Value]:
        """The model's reply to one request, as flow/session.py has it. Raises ModelFault."""
        from .model_requests import asked, loop

        made = self.open(loop())
        try:
            async with made:
                return await asked(made, request)
        except StepError:
            raise
        except Exception as error:  # the library's, the provider's package's, or that of a model somebody wrote
            wrong = explained(error, self.name, _address(made) or self._base_url)
        raise wrong  # out here: the cause would hold the request, and that the key

    def _check(self) -> None:
        if self._given is not None or self._made:
            return
        provider, _ = _split(self.name, bool(self._base_url))
        package = _PACKAGES.get(provider, "pydantic_ai")
        if find_spec("pydantic_ai") is None or _absent(package):
            raise fault("model.not-installed", f"{self.name} needs {package}, which is not installed", INSTALL)
        named = KEYS.get(provider, ())
        if named and not self._base_url and not any(map(os.environ.get, (*named, "OPENAI_BASE_URL"))):
            hint = f"set {' or '.join(named)} in the environment (os.environ), not in a cell that is kept"
            raise fault("model.no-key", f"there is no key for {self.name}", hint)

    def _make(self) -> Any:
        provider, model = _split(self.name, bool(self._base_url))
        try:
            from .model_requests import made

            return made(provider, model, self._base_url or (_ollama() if provider == "ollama" else ""))
        except StepError:
            raise
        except ImportError as error:
            group = str(error).partition("[")[2].partition("]")[0] or provider
            found = fault(
                "model.not-installed",
                f"{self.name} needs a package that is not installed",
                INSTALL if provider in PROVIDERS else f'pip install "pydantic-ai-slim[{group}]"',
            )
        except ValueError:
            found = fault(
                "model.unknown-provider", f"no provider {provider!r}", suggest(provider, PROVIDERS, "providers")
            )
        except Exception as error:  # the library's UserError, which says what is missing
            found = fault("model.no-key", f"{self.name} cannot be asked: {str(error).split('. ')[0]}")
        raise found

    def __repr__(self) -> str:
        return f"<Model {self.name}>"


def model_of(chosen: Any, base_url: str = "") -> Model:
    """A model from its name (``"openai:gpt-4o"``) or from a model object of pydantic-ai's.

    ``base_url``: where names of the provider ``openai``, and names without a provider, are asked: any server that
    speaks its protocol. It is never sent a key of another's.
    """
    if isinstance(chosen, Model):
        return chosen
    if isinstance(chosen, str):
        provider = chosen.partition(":")[0] if ":" in chosen else "openai"
        return Model(chosen, base_url if provider in ("openai", "openai-chat") else "")
    if not callable(getattr(chosen, "request", None)) or not hasattr(chosen, "model_name"):
        raise TypeError(
            f"a model is a name like 'openai:gpt-4o' or a model of pydantic_ai, not {type(chosen).__name__}"
        )
    own = str(chosen.model_name).strip(":")
    return Model(own if own.startswith(f"{chosen.system}:") else f"{chosen.system}:{own}", made=chosen)


def _split(name: str, served: bool) -> tuple[str, str]:
    """The provider and its own name for the model. Raises ModelFault."""
    provider, colon, model = name.partition(":")
    if not name.strip():
        raise fault("model.none", "no model is chosen", CHOOSE)
    if not colon:
        provider, model = next((p for start, p in _GUESSED.items() if name.startswith(start)), ""), name
        if served:
            return "openai", model
        if not provider:
            raise fault("model.no-provider", f"nobody knows whose model {name!r} is", f"say provider:model. {CHOOSE}")
    if not provider or not model:
        hint = f"a model is named provider:model; {suggest(provider, PROVIDERS, 'providers')}"
        raise fault("model.name", f"{name!r} names no model", hint)
    return provider, model


def _address(made: Any) -> str:
    try:
        return str(made.base_url or "")
    except Exception:  # a model of somebody's own has none
        return ""


def _absent(package: str) -> bool:
    try:
        return find_spec(package) is None
    except ModuleNotFoundError:  # what it is a part of
        return True


def _ollama() -> str:
    return os.environ.get("OLLAMA_BASE_URL") or _OLLAMA
