"""A failed request to a model, as an error whose texts have no keys (decision A3)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from ...text.diagnostics import Diagnostic, StepError
from ...text.raised import cause_of, context_of
from ..tools.tool import MASK
from .messages import Tokens

_SECRET = re.compile(
    r"\b(?:sk|pk|rk|key|gsk|xai)-[\w*.-]{6,}|\bAIza[\w-]{10,}|\bBearer\s+\S+|(?<=//)[^/\s@]+@"
)
_PARAMETER = re.compile(
    r"([?&][\w.-]*(?:key|token|secret|password|sig|auth)[\w.-]*=)[^&\s#'\"]*[^&\s#'\":,;]",
    re.IGNORECASE,
)
"""A parameter of an address that is a key by its name."""

_VARIABLE = re.compile(r"(?:_KEY|_TOKEN|_SECRET|_PASSWORD)$")


class ModelFault(StepError):
    """A failed request to a model."""

    again: bool = False
    """Whether the same request may succeed later."""
    after: float | None = None
    """The delay that the provider asks for, in seconds."""
    used: Tokens | None = None
    """The tokens of a reply that is no answer: they are paid for."""


def fault(
    code: str,
    message: str,
    hint: str | None = None,
    *,
    again: bool = False,
    after: float | None = None,
) -> ModelFault:
    raised = ModelFault(Diagnostic(code, without_keys(message), hint=hint and without_keys(hint)))
    raised.again = again
    raised.after = after
    return raised


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and what caused it, down to the innermost; of a group the first of its errors."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        inner = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else None
        error = inner or cause_of(error) or context_of(error)


def caused_by(error: BaseException, kind: str) -> BaseException | None:
    """What caused ``error``, by the name of its class; None: nothing of that class."""
    return next((cause for cause in causes(error) if type(cause).__name__ == kind), None)


def without_keys(text: str) -> str:
    """``text`` without keys: secrets of the environment, and what looks like a key."""
    secrets = {
        value for name, value in os.environ.items() if _VARIABLE.search(name) and len(value) >= 8
    }
    for word in sorted(secrets, key=len, reverse=True):
        text = text.replace(word, MASK)
    return _PARAMETER.sub(rf"\1{MASK}", _SECRET.sub(MASK, text))


def in_line(text: str) -> str:
    """A provider's words in one line of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= 300 else f"{line[:300]}…"
