"""The limits that a person can set for a run, described in one table.

They apply to everything below the run; a definition cannot widen them.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, TypeVar

N = TypeVar("N", int, float)

SECONDS = "seconds"
DOLLARS = "US dollars"
RESUMED = "%resume --caps goes on with these settings"
"""The end of a hint about a limit: a resumed run has the limits that it was started with."""


class LimitRow(NamedTuple, Generic[N]):
    """The description of one limit. `Limits`, the settings, the options of magics and the docs use
    it."""

    name: str
    """The name of the limit's field in `Limits`."""
    default: N
    """0: no limit."""
    unit: str
    """``seconds``, ``US dollars``, or what is counted."""
    scope: str
    """The words for what is limited: ``for a whole run``."""
    setting: str
    """The name of the setting in ``%config AgfMagics``."""
    note: str = ""
    """One more sentence of the description, without its full stop; empty: none."""
    flag: str = ""
    """The option of a magic's line, which takes a number above 0; empty: there is no option."""
    effect: str = ""
    """The effect of ``flag``, for its help."""

    @property
    def sentence(self) -> str:
        """The description of the setting."""
        note = f" {self.note}." if self.note else ""
        return f"{self.unit[:1].upper()}{self.unit[1:]} {self.scope}; 0: no limit.{note}"

    @property
    def how_to_set(self) -> str:
        """The hint of an error about this limit of a run."""
        return f"{_where(self, 'a line')}; {RESUMED}"


def _where(row: LimitRow[Any], whose: str) -> str:
    """The places where a limit is set. ``whose``: what the option of a line limits."""
    where = f"%config AgfMagics.{row.setting} and, in Python, limits=Limits({row.name}=…)"
    if not row.flag:
        return f"{where} set the limit; 0 means none"
    # Only settings accept 0 for "no limit": on a magic's line it would read as "spend nothing".
    return f"{row.flag} sets the limit of {whose}; {where} set it, and there 0 means none"


def how_to_set_for_rows(row: LimitRow[Any], again: str) -> str:
    """The hint of an error about a limit that each row of a table has. ``again``: how the rows that
    failed run again; empty: nobody knows."""
    where = _where(row, "each row")
    return f"{where}; {again}" if again else where


FAN_OUT_DEPTH = LimitRow(
    "fan_out_depth",
    5,
    "the depth",
    "of nested fan-outs, through calls of any language",
    "max_pipeline_fan_out_depth",
    note="Fan-outs are for_each, agf.batch, map and instances",
)
SPAWNS = LimitRow(
    "spawns",
    100,
    "the number",
    "of agent steps and model sessions in a run",
    "max_pipeline_spawns",
    note="Retries count again",
)
TIMEOUT = LimitRow(
    "timeout",
    0.0,
    SECONDS,
    "for a whole run",
    "timeout",
    flag="--timeout",
    effect="cancel the run after this time",
)
STEP_TIMEOUT = LimitRow(
    "step_timeout",
    0.0,
    SECONDS,
    "for one call of a tool, an agent or a transform",
    "step_timeout",
    note="The timeout of a step or a tool counts too",
)
MODEL_TIMEOUT = LimitRow(
    "model_timeout", 300.0, SECONDS, "for one reply of a model", "model_timeout"
)
MAX_TOKENS = LimitRow(
    "max_tokens",
    0,
    "tokens",
    "of all models in a run, input and output together",
    "max_tokens",
    flag="--max-tokens",
    effect="end the run when its models have used more tokens",
)
MAX_COST = LimitRow(
    "max_cost",
    0.0,
    DOLLARS,
    "for all models in a run",
    "max_cost",
    note="With a limit, a model without a known price is not asked",
    flag="--max-cost",
    effect="end the run when its models have cost more; refuse models of unknown price",
)

LIMITS = (FAN_OUT_DEPTH, SPAWNS, TIMEOUT, STEP_TIMEOUT, MODEL_TIMEOUT, MAX_TOKENS, MAX_COST)
"""All limits. The options of magics, the check of `Limits` and `how_to_set` are built from this
table. `Limits` and `Settings` have a field for each limit."""


NOT_GIVEN: Any = ...
"""The value of a limit that a person does not set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The limits of one run. A limit that is not set here has the value of the settings. 0 means no
    limit, and so does None for a time."""

    fan_out_depth: int = NOT_GIVEN
    """The depth of nested fan-outs, through calls of any language."""
    spawns: int = NOT_GIVEN
    """The number of agent steps and model sessions; retries count again."""
    timeout: float | None = NOT_GIVEN
    """Seconds for the whole run."""
    model_timeout: float | None = NOT_GIVEN
    """Seconds for one reply of a model."""
    step_timeout: float | None = NOT_GIVEN
    """Seconds for one call of a tool, an agent or a transform."""
    max_tokens: int = NOT_GIVEN
    """Tokens of all models, input and output together."""
    max_cost: float = NOT_GIVEN
    """US dollars for all models."""
    given: frozenset[str] = field(init=False, repr=False, compare=False)
    """The names of the limits that are set. The others are defaults until `limits_of_run` replaces
    them."""

    def __post_init__(self) -> None:
        given = frozenset(row.name for row in LIMITS if getattr(self, row.name) is not NOT_GIVEN)
        object.__setattr__(self, "given", given)
        for row in LIMITS:
            limit = getattr(self, row.name) if row.name in given else row.default
            object.__setattr__(self, row.name, limit)
            is_time = row.unit == SECONDS
            types = (int,) if type(row.default) is int else (int, float)
            if limit is None and is_time:
                continue
            # `not >=` instead of `<` refuses NaN, too: NaN would be a limit that nothing reaches.
            if type(limit) not in types or not limit >= 0:
                takes = "a whole number" if types == (int,) else f"a number of {row.unit}"
                raise ValueError(f"{row.name} is {takes}, 0 or more, not {limit!r}")
            if is_time and not limit:
                object.__setattr__(self, row.name, None)  # no reader may take 0 for a time


def limit_values(limits: Limits) -> dict[str, float | None]:
    """The limits by name."""
    return {row.name: getattr(limits, row.name) for row in LIMITS}


def limits_of_run(given: Limits | None, defaults: Limits) -> Limits:
    """The limits of a run: ``defaults`` with the limits of ``given``, which a person sets for the
    run; None: none. ``defaults``: the limits of the settings, or those with which a resumed run
    began.

    >>> limits_of_run(Limits(timeout=60), Limits(timeout=5, spawns=3)).spawns
    3
    """
    if given is None:
        return defaults
    return replace(defaults, **{name: getattr(given, name) for name in given.given})
