"""`StepPath`, the path of a step in a run, its text, and the test whether one is inside another."""

from __future__ import annotations

StepPath = tuple[str | int, ...]
"""A place in a run: for each open flow the id of the step, then the numbers of the elements and
iterations around it. ``("steps[1]", "steps[0].do", 3)`` is element 3 of the first step of the flow
that ``steps[1]`` calls."""


def format_path(at: StepPath) -> str:
    """The text of a path, for messages and views.

    >>> format_path(("steps[1]", "steps[0].do", 3))
    'steps[1]/steps[0].do#3'
    """
    text = ""
    for part in at:
        if isinstance(part, int):
            text += f"#{part}"
        elif text:
            text += f"/{part}"
        else:
            text = part
    return text


def seconds_between(start: float | None, end: float | None) -> float | None:
    """The seconds from ``start`` to ``end``; 0 if the clock was set back meanwhile; None if one of
    them is None."""
    return None if start is None or end is None else max(0.0, end - start)


def is_part(id: str, outer: str) -> bool:
    """Whether the step ``id`` is the step ``outer`` or inside it. The branch ``ab`` is not part of
    the branch ``a``."""
    return id == outer or id.startswith((f"{outer}.", f"{outer}["))


def is_within(inner: StepPath, outer: StepPath) -> bool:
    """Whether the path ``inner`` is ``outer`` or inside it. Both may be without numbers.

    >>> is_within(("steps[0].do.do", 3, 1), ("steps[0].do", 3)), is_within(("steps[0].do", 4), ("steps[0].do", 3))
    (True, False)
    """
    place = max(i for i, bit in enumerate(outer) if isinstance(bit, str))
    step, *index = outer[place:]
    if inner[:place] != outer[:place] or len(inner) == place:
        return False
    inside, *numbers = inner[place:]
    return numbers[: len(index)] == index and is_part(str(inside), str(step))
