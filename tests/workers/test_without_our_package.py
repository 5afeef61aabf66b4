"""What runs on a worker needs only Python and cloudpickle there, since a worker may lack this package."""

from __future__ import annotations

import ast
import importlib
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agf_magics.workers import chunk
from agf_magics.workers.backends.dask import tasks
from agf_magics.workers.sending.functions import BY_VALUE, loadable

SENT = (chunk.run, tasks.run_task, tasks.process_token, tasks.running_tasks, tasks.describe_process)
"""The functions that workers are sent."""

WORKER = """
import pickle, sys

class NoPackage:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "agf_magics":
            raise ImportError(f"{name} is not installed")

sys.meta_path.insert(0, NoPackage())
function = pickle.loads(sys.stdin.buffer.read())
print(function.__name__)
"""


@pytest.mark.parametrize("function", SENT, ids=lambda function: function.__qualname__)
def test_a_function_is_read_where_our_package_is_missing(function: Callable[..., Any]) -> None:
    data = pickle.dumps(loadable(function), 5)
    read = subprocess.run([sys.executable, "-c", WORKER], input=data, capture_output=True, timeout=60, check=False)
    assert (read.returncode, read.stderr) == (0, b"")
    assert read.stdout.decode().strip() == function.__name__


def test_each_function_is_of_a_module_that_is_sent_by_value() -> None:
    assert {function.__module__ for function in SENT} == BY_VALUE


@pytest.mark.parametrize("name", sorted(BY_VALUE))
def test_such_a_module_imports_nothing_of_ours(name: str) -> None:
    file = importlib.import_module(name).__file__
    assert file is not None
    for node in ast.walk(ast.parse(Path(file).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            assert not [alias.name for alias in node.names if alias.name.startswith("agf_magics")]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level
            assert not (node.module or "").startswith("agf_magics")
