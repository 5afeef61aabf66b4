"""A kernel that is restarted during a run leaves the run interrupted, and a run that the user cancels stays
cancelled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.notebook.conftest import PATIENCE, SETUP, Kernel, kernel_in

pytestmark = pytest.mark.kernel

LONG = """\
%%pipeline --run
pipeline: long
steps:
- tool: {name: say, args: {word: first}, output: one}
- tool: {name: WAITS, output: two}
"""

FINISHING = """
@tool
async def doze() -> str:
    return 'awake'

@tool
def sleep() -> str:
    return 'awake'
"""


@pytest.fixture
def own_kernel(tmp_path: Path) -> Iterator[Kernel]:
    """A kernel for one test, which may restart it."""
    kernel = kernel_in(tmp_path)
    yield kernel
    kernel.close(now=True)


@pytest.mark.slow
@pytest.mark.parametrize(("tool", "sign"), [("doze", "dozing"), ("sleep", "asleep")])
def test_a_restart_in_the_middle_of_a_run_leaves_it_interrupted(own_kernel: Kernel, tool: str, sign: str) -> None:
    own_kernel.begin(LONG.replace("WAITS", tool)).until("stream", sign)
    own_kernel.manager.restart_kernel()
    own_kernel.client.wait_for_ready(timeout=PATIENCE)
    loaded = own_kernel.good(SETUP)
    assert "long" in loaded.printed
    assert "%resume" in loaded.printed
    own_kernel.good("import agf_magics as agf\npast = agf.runs(agf.runs()[0].run_id).progress")
    late = own_kernel.good("print([row.id for row in past.rows.values() if (row.ended or 0) > past.ended])")
    assert late.printed == "[]\n", "a run ends after its steps"
    own_kernel.good(FINISHING)
    resumed = own_kernel.good("%resume")
    assert "saying" not in resumed.printed, "the call that ended is not made again"
    assert own_kernel.good("import agf_magics as agf; print(agf.runs()[0].status)"
                    ).printed == "ok\n"  # fmt: skip


def test_a_run_that_the_user_interrupts_stays_cancelled_after_a_restart(own_kernel: Kernel) -> None:
    cell = own_kernel.begin(LONG.replace("WAITS", "doze"))
    cell.until("stream", "dozing")
    own_kernel.interrupt()
    cell.end()
    own_kernel.good(
        "from agf_magics.lifecycle.runs import live; live.JUST_NOW = 0.0"
    )  # as if the user had waited longer
    own_kernel.manager.restart_kernel()
    own_kernel.client.wait_for_ready(timeout=PATIENCE)
    assert "%resume" not in own_kernel.good(SETUP).printed
    assert own_kernel.good("import agf_magics as agf; print(agf.runs()[0].status)").printed == "cancelled\n"
