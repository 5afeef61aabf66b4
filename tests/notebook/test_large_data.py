"""A table that is larger than the memory of a kernel: only paths pass through the kernel (docs/howto/large-data.md)."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from tests.bench.large_data import measure, write

TABLE, PART = 64, 16
"""The size of the table in megabytes."""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak of the memory from /proc")
def test_a_table_in_files_never_passes_through_the_kernel(tmp_path: Path) -> None:
    write(tmp_path / "large.parquet", TABLE, PART)
    measured = measure(tmp_path, 2, "executor")
    assert measured["files"] == measured["parts"] == TABLE // PART
    rows = [pq.ParquetFile(path).metadata.num_rows for path in (tmp_path / "results").iterdir()]
    assert sum(rows) == pq.ParquetFile(tmp_path / "large.parquet").metadata.num_rows
    assert measured["after"] - measured["before"] < 2_000 * PART, "of a worker it is more than four parts"
