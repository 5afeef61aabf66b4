"""The limits that a person sets for a run, and the shorter of two.

They apply to everything below the run; a definition cannot widen them.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one run; 0 means no limit."""

    fan_out_depth: int = 5
    """The depth of nested fan-outs (for_each, agf.batch, map, instances), through calls of any
    language."""
    spawns: int = 100
    """The number of agent steps of pipelines and sessions of models; retries count again."""
    timeout: float | None = None
    """Seconds for the whole run; None: no limit."""
    model_timeout: float | None = 300.0
    """Seconds for one reply of a model; None: no limit."""
    step_timeout: float | None = None
    """Seconds for one call of a tool, agent or transform, in addition to its own ``timeout``; None:
    no limit."""

    max_tokens: int = 0
    """Tokens of all models, input and output together."""
    max_cost: float = 0.0
    """US dollars for all models. A model without a known price is then not asked."""

    def __post_init__(self) -> None:
        cost = self.max_cost
        # `not >=` instead of `<`: NaN would pass, as a limit that nothing reaches.
        if type(cost) not in (int, float) or not cost >= 0:
            raise ValueError(f"max_cost is a number of US dollars, 0 or more, not {cost!r}")
        for name in ("fan_out_depth", "spawns", "max_tokens"):
            most = getattr(self, name)
            if type(most) is not int or most < 0:
                raise ValueError(f"{name} is a whole number, 0 or more, not {most!r}")
        for name in ("timeout", "step_timeout", "model_timeout"):
            seconds = getattr(self, name)
            if seconds is not None and (type(seconds) not in (int, float) or not seconds > 0):
                raise ValueError(f"{name} is a number of seconds above 0 or None, not {seconds!r}")


def shortest(*seconds: float | None) -> float | None:
    """The shortest of several time limits; None: there is none."""
    return min(filter(None, seconds), default=None)  # none is 0
