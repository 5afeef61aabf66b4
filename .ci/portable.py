"""The part of .ci/run that needs neither make, bash nor a browser, in the environment of this Python.

    python -m pip install --editable ".[test]"
    python .ci/portable.py

It runs the quickstart notebook with a real kernel and the tests. On Windows it runs the tests of the parts that are
independent of the system; the others use signals, file modes and POSIX shells. All stages run, and the exit status is 1
if one of them fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]

INDEPENDENT = (
    "tests/text",
    "tests/values",
    "tests/schemas",
    "tests/flow",
    "tests/languages",
    "tests/pictures",
    "tests/test_rooms.py",
    "agf_magics",
)


def main() -> int:
    tests = INDEPENDENT if sys.platform == "win32" else ()
    stages = {
        "demo": ("notebooks/execute.py", "--into", "build/demo", "notebooks/quickstart.ipynb"),
        "test": ("-m", "pytest", "--durations=10", *tests),
    }
    failed = []
    for name, command in stages.items():
        print(f"\n==== {name}: {' '.join(command)}", flush=True)
        done = subprocess.run(
            [sys.executable, *command], cwd=ROOT, env={**os.environ, "CI": "true"}, check=False
        )
        failed += [name] if done.returncode else []
    print(f"\nFAILED: {' '.join(failed)}" if failed else "\nall stages passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
