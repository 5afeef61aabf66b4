"""Whatever a listener raises, the run goes on with a warning."""

from __future__ import annotations

from typing import Any

import pytest

import agf_magics as agf

RAISED = {
    "an exception": lambda: ValueError("seen"),
    "the outcome of a test": lambda: pytest.fail.Exception("seen"),
    "an exit": lambda: SystemExit("seen"),
    "a class of its own": lambda: type("Own", (BaseException,), {})("seen"),
}


@pytest.mark.parametrize("how", RAISED)
def test_a_listener_that_raises_is_not_called_again(how: str) -> None:
    heard = list[Any]()

    def listen(event: Any) -> None:
        heard.append(event)
        raise RAISED[how]()

    run = agf.run("pipeline: p\nsteps:\n- transform: {value: '1'}\n", on_event=listen, raises=False)
    assert (run.status, run.output, len(heard)) == ("ok", 1, 1)
    assert [warning.code for warning in run.warnings] == ["run.listener"]
    assert "seen" in run.warnings[0].message
