"""Splits the cases of a test: `make test` tries some of them, and `make slow` the others."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def slow_but(fast: Collection[Any], cases: Iterable[Any]) -> list[Any]:
    """``cases`` for ``parametrize``; those that are not in ``fast`` get the marker ``slow``."""
    cases = list(cases)
    assert not [case for case in fast if case not in cases]
    return [case if case in fast else pytest.param(*_values(case), marks=pytest.mark.slow) for case in cases]


def _values(case: Any) -> tuple[Any, ...]:
    return case if isinstance(case, tuple) else (case,)
