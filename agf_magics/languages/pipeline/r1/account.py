"""Bounds the evaluation of R1: the size of a result, and the work in lambdas.

All lambdas inside one outermost function share an account, which is in the copy of the frame that
they see.
"""

from __future__ import annotations

from .failures import Failure
from .row import Env

LONGEST = 10_000_000
"""The largest length of a text or a list that ``+`` or ``join`` may make, and the largest number of
parts that ``==`` may compare."""
MOST_WORK = 10_000_000
"""The largest cost of one outermost function with a lambda: evaluated tokens, and parts of long
results inside its lambdas."""
SHORT = 256
"""Inside lambdas a text, a list or a comparison up to this size costs nothing extra."""

ACCOUNT = object()
"""The key of the account in a frame."""


def with_account(env: Env) -> Env:
    """A frame for a lambda: ``env`` itself if it has an account, or a copy with a new account."""
    return env if ACCOUNT in env else {**env, ACCOUNT: [MOST_WORK]}


def charge(size: int, offset: int, width: int, env: Env) -> None:
    """Refuse a result that is too large. Inside a lambda, charge a long result to the account."""
    if size > LONGEST:
        message = f"the result would have {size:,} parts; {LONGEST:,} are allowed"
        raise Failure("r1.too-large", message, offset, width)
    if size > SHORT and ACCOUNT in env:
        spend(size, offset, width, env)


def spend(work: int, offset: int, width: int, env: Env) -> None:
    """Charge ``work`` in a frame that has an account; refuse it if the account is empty."""
    account = env[ACCOUNT]
    account[0] -= work
    if account[0] < 0:
        message = f"an expression may do {MOST_WORK:,} evaluations, and this one needs more"
        hint = "filter the lists first, or compute it in a tool"
        raise Failure("r1.too-large", message, offset, width, hint)
