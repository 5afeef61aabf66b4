"""`ModelFault`, the error for a failed request to a model, whose texts never have keys (decision
A3)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace

from ...text.diagnostics import Diagnostic, StepError
from ...text.raised import cause_of, context_of
from ..tools.tool import MASK
from .messages import Delta, Tokens

_SECRET = re.compile(
    r"\b(?:sk|pk|rk|key|gsk|xai)-[\w*.-]{6,}|\bAIza[\w-]{10,}|\bBearer\s+\S+|(?<=//)[^/\s@]+@"
)
"""A text that looks like a key, or the user and the password in an address."""
_PARAMETER = re.compile(
    r"([?&][\w.-]*(?:key|token|secret|password|sig|auth)[\w.-]*=)[^&\s#'\"]*[^&\s#'\":,;]",
    re.IGNORECASE,
)
"""A parameter of an address whose name says that it is a key."""

_VARIABLE = re.compile(r"(?:_KEY|_TOKEN|_SECRET|_PASSWORD)$")
"""The end of the name of a variable whose value is a secret."""


class ModelFault(StepError):
    """A failed request to a model."""

    again: bool = False
    """Whether the same request may succeed later."""
    after: float | None = None
    """The seconds that the provider asks to wait; None: it does not ask."""
    used: Tokens | None = None
    """The tokens of an unusable reply, which are paid for all the same; None: there was no
    reply."""
    parts: tuple[Delta, ...] = ()
    """The parts of an unusable reply, as a listener gets them."""


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


def mask_keys(failure: ModelFault, keys: Iterable[str]) -> ModelFault:
    """``failure`` with ``keys`` masked, which a server may send back."""
    (diagnostic,) = failure.diagnostics
    long = sorted((key for key in keys if len(key) >= 8), key=len, reverse=True)
    message, hint = diagnostic.message, diagnostic.hint
    for key in long:
        message, hint = message.replace(key, MASK), hint and hint.replace(key, MASK)
    if (message, hint) == (diagnostic.message, diagnostic.hint):
        return failure
    masked = ModelFault(replace(diagnostic, message=message, hint=hint))
    masked.again, masked.after, masked.used = failure.again, failure.after, failure.used
    masked.parts = failure.parts
    return masked


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error and its causes, down to the innermost. Of a group, the first error is followed."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        inner = error.exceptions[0] if isinstance(error, BaseExceptionGroup) else None
        error = inner or cause_of(error) or context_of(error)


def caused_by(error: BaseException, kind: str) -> BaseException | None:
    """The cause of ``error`` whose class has the name ``kind``; None: there is none."""
    return next((cause for cause in causes(error) if type(cause).__name__ == kind), None)


def without_keys(text: str) -> str:
    """``text`` without keys: neither secrets of the environment nor texts that look like a key."""
    secrets = {
        value for name, value in os.environ.items() if _VARIABLE.search(name) and len(value) >= 8
    }
    for word in sorted(secrets, key=len, reverse=True):
        text = text.replace(word, MASK)
    return _PARAMETER.sub(rf"\1{MASK}", _SECRET.sub(MASK, text))


def in_line(text: str) -> str:
    """``text``, the words of a provider, on one line of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= 300 else f"{line[:300]}…"
