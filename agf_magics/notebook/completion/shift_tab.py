"""Shift-Tab: the help of the word at the cursor, as an answer of the kernel."""

from __future__ import annotations

from contextlib import ExitStack
from logging import DEBUG
from typing import Any

from ...catalog import Registry
from ...editor.word_help import describe
from ...text.giving_up import note_given_up


def install_inspector(undo: ExitStack, shell: Any, registry: Registry) -> None:
    """Answer the kernel's inspect requests in our cells. All other requests, and requests for which our
    help fails, go to IPython."""
    kernel: Any = getattr(shell, "kernel", None)
    before = getattr(kernel, "do_inspect", None)
    if before is None:
        return

    def do_inspect(code: str, cursor_pos: int, *rest: Any, **named: Any) -> Any:
        try:
            text = describe(code, cursor_pos, registry)
        except Exception as error:  # help is never worth a failed request
            note_given_up(__name__, "Shift-Tab has no answer", error, DEBUG)
            text = None
        if text is None:
            return before(code, cursor_pos, *rest, **named)
        return {
            "status": "ok",
            "found": bool(text),
            "data": {"text/plain": text} if text else {},
            "metadata": {},
        }

    kernel.do_inspect = do_inspect
    undo.callback(setattr, kernel, "do_inspect", before)
