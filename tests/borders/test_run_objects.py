"""Messages for a run object that is used in a wrong way, and names that IPython had first."""

from __future__ import annotations

import asyncio
import copy
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import agf_magics as agf
from tests.engine import kept
from tests.notebook.conftest import Kernel, headless, kernel, kernels, page_kernel  # noqa: F401

ONE = "{pipeline: p, steps: [{transform: {value: '1', output: y}}]}"

WRONG: dict[str, tuple[Callable[[Any], object], type[Exception], str]] = {
    "brackets": (lambda run: run["y"], TypeError, "write run.stores['y']"),
    "attribute": (lambda run: run.y, AttributeError, "write run.stores['y']"),
    "a field in brackets": (lambda run: run["output"], TypeError, "write run.output"),
    "misspelt": (lambda run: run.outptu, AttributeError, "output"),
    "pickle": (pickle.dumps, TypeError, "%runs "),
    "deepcopy": (copy.deepcopy, TypeError, "run.output and run.stores are its values"),
    "copy of a list": (lambda run: copy.deepcopy([run]), TypeError, "agf.runs("),
}
"""For each mistake: a wrong use of a run, the class of the error, and its words."""


@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize("way", WRONG)
def test_a_run_says_how_it_is_used(way: str, past: bool, tmp_path: Any) -> None:
    use, kind, words = WRONG[way]
    with kept.journal_in(tmp_path):
        run: Any = agf.run(ONE)
        run = agf.runs(run.run_id) if past else run
        with pytest.raises(kind) as refusal:
            use(run)
    assert words in str(refusal.value)


@pytest.mark.parametrize("where", ["kernel", "thread"])
def test_a_task_of_another_loop_is_reported_without_our_task(where: Any) -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry, where=where)
    def schedules() -> Any:
        loop = asyncio.new_event_loop()
        future = loop.create_future()
        loop.close()
        return future

    error = agf.run("{pipeline: p, steps: [{tool: {name: schedules}}]}", registry=registry, raises=False).error
    assert "make it `async def`" in str(error)
    assert "agf_magics" not in str(error)


@pytest.mark.kernel
def test_the_rerun_of_ipython_still_runs_lines_again(kernel: Kernel) -> None:  # noqa: F811
    kernel.good("count = 0")
    kernel.good("count += 1")
    kernel.good("%rerun -l 1")
    assert kernel.good("print(count)").printed.strip() == "2"
    kernel.good("%history -l 1")  # imports the magic that ours replaces
    for line in ("%rerun", "%rerun no_such_run"):  # ours
        assert "DefinitionError" in kernel.run(line).traceback


def test_each_step_of_a_past_run_has_its_time_within_that_of_the_run(tmp_path: Any) -> None:
    """This includes steps without a call, whose times the journal does not have. The timeline of a past run shows all
    steps."""
    registry = agf.Registry()
    agf.tool(lambda x: x, name="same", where="loop", registry=registry)
    flow = agf.define(
        "pipeline: p\nsteps:\n"
        "- for_each: {items: [1, 2], on_error: abort, do: {tool: {name: same, args: {x: !expr item}}}, "
        'collect: {transform: {value: "pipe"}}}\n'
        '- transform: {value: "pipe"}\n',
        registry=registry,
    )
    with kept.journal_in(tmp_path):
        past = agf.runs(agf.run(flow, registry=registry).run_id)
        assert isinstance(past, agf.PastRun)
        begin = past.progress.when
        for row in past.progress.rows.values():
            assert begin - 1 <= row.when <= row.ended <= begin + past.progress.seconds + 1
