"""The memory of a value is digested once in a run, and again only after it has changed."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from agf_magics.journal.codec.fingerprints import Checksums
from agf_magics.journal.codec.part_digests import PartDigests
from agf_magics.journal.codec.parted import take_apart

N = 20_000


class Run:
    """A run that splits values into parts."""

    def __init__(self) -> None:
        self.digests = PartDigests()

    def take(self, value: Any, meanwhile: Callable[[], Any] = lambda: None) -> tuple[int, bool]:
        """Split a value. Returns the number of digested parts, and whether no part changed ``meanwhile``."""
        parts: list[Any] = []
        checksums = Checksums()
        parted = take_apart(
            value, lambda: pytest.fail("no large rest"), digest=lambda raw: self.digests.of(raw, checksums, parts)
        )
        meanwhile()
        is_sound = self.digests.learn(parts)
        if is_sound:
            assert all(stretch.digest == hashlib.sha256(stretch.view).hexdigest() for stretch in parted.stretches)
        return len(parts), is_sound


def frame() -> pd.DataFrame:
    return pd.DataFrame({name: np.arange(N) * 1.5 for name in "abc"})


def test_shared_memory_of_two_values_is_digested_once() -> None:
    run, table = Run(), frame()
    assert run.take(table) == (3, True)
    assert run.take(table) == (0, True)
    assert run.take(table.assign(d=np.arange(N) * 2.5)) == (1, True)
    assert run.take([table, table.copy(deep=False)]) == (0, True)
    assert run.take(table.copy()) == (3, True), "other memory"


@pytest.mark.parametrize("place", [0, 7, N - 1])
def test_memory_that_has_changed_is_digested_again(place: int) -> None:
    run, table = Run(), frame()
    run.take(table)
    table["b"].array[place] += 1e-9
    assert run.take(table) == (1, True)
    table["b"].array[place] -= 1e-9
    assert run.take(table)[1]


def test_the_digest_of_memory_that_changes_meanwhile_is_not_kept() -> None:
    run, array = Run(), np.arange(N) * 1.5

    def change() -> None:
        array[7] += 1e-9

    assert run.take(array, change) == (1, False)
    assert run.take(array) == (1, True)
    assert run.take(array) == (0, True)


def test_memory_that_now_belongs_to_another_value_is_digested() -> None:
    run = Run()
    for number in range(50):  # at the addresses of earlier arrays
        assert run.take(np.full(N, number, float)) == (1, True)
