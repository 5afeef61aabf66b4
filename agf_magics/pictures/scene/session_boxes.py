"""The boxes of the tools that a model may call in its session."""

from __future__ import annotations

from collections.abc import Sequence

from ...flow.session_tools import drawn_tools, tool_id
from ...flow.steps import Invoke
from ..amounts import counted
from ..plain import line
from .boxes import LONGEST, TOOLTIP
from .scene import Box


def tool_boxes(path: str, call: Invoke, names: Sequence[str] | None) -> tuple[Box, ...]:
    """A box for each tool of a session; of very many tools, one box for the last ones. ``path``: the
    path of ``call``, which calls them. ``names``: None if they are not known before the run."""
    if names is None:
        return (_tool(path, call, "tools", "any registered tool"),)
    drawn = drawn_tools(names)
    boxes = [_tool(tool_id(path, name), call, name, f"tool {name}") for name in drawn]
    if rest := names[len(drawn) :]:
        name = counted(len(rest), "more tool")
        boxes.append(_tool(tool_id(path, "…"), call, name, ", ".join(rest)))
    return tuple(boxes)


def _tool(id: str, call: Invoke, name: str, tooltip: str) -> Box:
    shown, about = line(name, 2 * LONGEST), line(tooltip, TOOLTIP)
    return Box(id=id, word=call.word, name=shown, many=True, tooltip=about, step=call)
