"""Direct calls: of tools that run on the engine's loop and need nothing but their arguments.

Most calls have nothing special: no permit, no secret, no time limit, no schema. The linker finds them, and
one function does for them what invoke.py, boundary.py, external.py and the host do in ten. That takes a third off an
element of a fan-out. Whatever goes wrong is left to those modules.
"""

from __future__ import annotations

from ..catalog import Tool
from ..flow.frame import Frame, finished
from ..flow.steps import Invoke
from ..flow.values import ATOMS, Value, isolate
from ..host.calls import Pending, call_on_loop, then
from ..progress import events as ev
from ..progress.rows import Row
from .boundary import checked_arguments
from .external import await_call, call_external, value_of_call
from .runner import CallSite, Index, Runner, Scope, ShapeResult, StepResult, clock
from .streaming import open_prints


def call_directly(
    run: Runner, step: Invoke, tool: Tool, frame: Frame, scope: Scope, index: Index, at: ev.StepPath, row: Row | None
) -> StepResult | Pending[StepResult]:
    """Call the tool and store its value, as `Runner.start_step` does with `invoke`."""
    try:
        wanted = tool.accepts if step.offers or step.wants else None
        try:
            given = tool.arguments.validate(isolate(step.args.build(frame, wanted)))
        except Exception:  # again, for an error that is readable and has a place
            given = checked_arguments(CallSite(run, step, frame, scope, index, at, row), tool, wanted)
        run.calls += 1
        if run.journal is not None:
            site = CallSite(run, step, frame, scope, index, at, row)
            value = call_external(site, tool, "tool", given)
            if type(value) is Pending:
                return Pending(run.wait_for(with_arguments(value, step, given).awaitable, site))
        else:
            prints = open_prints(run, at) if run.stream else None
            result = call_on_loop(tool.function, given, run.host.grace)
            if type(result) is Pending:
                site = CallSite(run, step, frame, scope, index, at, row)
                pending = Pending(await_call(site, result.awaitable, scope.grant, tool, "tool", prints))
                return Pending(run.wait_for(with_arguments(pending, step, given).awaitable, site))
            if prints is not None:
                if prints.pieces:
                    prints.close()
                prints.at = None
            value = result[1]
            if not result[0] or type(value) not in ATOMS:
                value = value_of_call(CallSite(run, step, frame, scope, index, at, row), result, tool, "tool")
        if step.target is not None:
            frame = step.target.store(frame, finished((value, given if step.keeps else None, None, "finished")))
    except BaseException as error:
        return run.rescue(error, CallSite(run, step, frame, scope, index, at, row))
    run.steps.finish(row, at, clock(), value)
    return value, frame


def with_arguments(pending: Pending[Value], step: Invoke, given: dict[str, Value]) -> Pending[Value | ShapeResult]:
    """The result of a call, with its arguments if the target of the step gets them."""
    return then(pending, lambda value: ShapeResult(value, given)) if step.keeps else pending  # type: ignore[return-value]
