"""Translates the names of tools to names that providers accept, and back."""

from __future__ import annotations

import re

from .messages import NAMELESS, Request

_REFUSED = re.compile(r"[^a-zA-Z0-9_-]")
"""A character that no sent name has. A sent name has at most 64 characters."""


class ToolNames:
    """The names of the tools of a request."""

    def __init__(self, request: Request) -> None:
        self.sent_names: dict[str, str] = {}
        """The names that are sent, by ours; `ours` is the reverse."""
        for tool in request.tools:
            self.sent_names[tool.name] = self._free(_accepted(tool.name))
        self.ours = {sent: name for name, sent in self.sent_names.items()}
        self.answer = self._free("final_answer")
        """The name that is sent for the structured answer."""
        self.offers_answer = False
        """Whether the structured answer is offered as a call."""

    def _free(self, name: str) -> str:
        taken = set(self.sent_names.values())
        return next(
            free
            for free in (name, *(f"{name[:60]}_{i}" for i in range(2, len(taken) + 3)))
            if free not in taken
        )

    def described(self, name: str, description: str) -> str:
        """The description of a tool, after its own name if the name that is sent lacks letters of it:
        a prompt may use that."""
        is_told = name.isascii()
        return description if is_told else ": ".join(filter(None, (name, description)))

    def tool_of(self, sent: str | None) -> str:
        """Our name of a tool; empty for the structured answer, `NAMELESS` if the model sent none."""
        if not sent or not sent.strip():
            return NAMELESS
        if self.offers_answer and sent == self.answer:
            return ""
        return self.ours.get(sent, sent)

    def of(self, name: str) -> str:
        """The name that is sent for our ``name``, even if the request does not offer that tool."""
        return self.sent_names.get(name, _accepted(name))


def _accepted(name: str) -> str:
    """``name`` as all providers accept it; ``tool`` for one of which no letter is left, such as 获取."""
    sent = _REFUSED.sub("_", name)[:64]
    return (sent if sent.strip("_-") or name.isascii() else "tool") or "_"
