"""A whole number with more digits than Python converts is printed as a text with all its digits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.processes import command_line

CASES = {
    # what the tool returns, and the output
    "10 ** 5000": "1" + "0" * 5000,
    "-(10 ** 5000)": "-1" + "0" * 5000,
    "[10 ** 5000]": ["1" + "0" * 5000],
    "{'a': 10 ** 5000}": {"a": "1" + "0" * 5000},
    "10 ** 4299": 10**4299,
}


@pytest.mark.parametrize("value", CASES)
def test_all_digits_are_printed(tmp_path: Path, value: str) -> None:
    Path(tmp_path, "tools.py").write_text(f"import agf_magics as agf\n@agf.tool\ndef t(): return {value}\n")
    Path(tmp_path, "p.yaml").write_text("{pipeline: p, steps: [{tool: {name: t}}]}")
    completed = command_line(tmp_path, "run", "p.yaml", "--tools", "tools.py", "--quiet")
    assert (completed.returncode, json.loads(completed.stdout)) == (0, CASES[value]), completed.stderr
