"""Provides a journal of its own for each test of runs over tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import agf_magics as agf
from agf_magics.journal.database.store import Store
from agf_magics.settings.settings import current

DOUBLED = """
pipeline: doubled
steps:
- tool: {name: double, args: {n: !expr ctx.n}, output: d}
- transform: {value: "{twice: ctx.d}"}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working folder, with a journal."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    current.settings = replace(current.settings, journal=str(tmp_path / "runs.sqlite"))
    yield tmp_path
    Store.close_all()


@pytest.fixture
def calls() -> list[int]:
    """The arguments of the calls of `double`."""
    return []


@pytest.fixture
def registry(calls: list[int]) -> agf.Registry:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def double(n: int) -> int:
        calls.append(n)
        if n == 3:
            raise ValueError("no three")
        return 2 * n

    agf.define(DOUBLED, registry=registry)
    return registry
