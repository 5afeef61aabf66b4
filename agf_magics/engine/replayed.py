"""Elements of a fan-out whose call is a recorded one: they end without a task, a slot or a wait.

An element whose body is one plain tool call needs nothing but the value of that call. So a resumed run stores the
recorded value, and a run that reuses results builds the arguments, takes the result and copies its row. Everything that
is special is left to the pool, which does the same in a quarter of the speed: a failure, a value that is not JSON, a
secret, a limit of calls, an error in the arguments. `tests/engine/test_replayed.py` compares both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..catalog import Tool
from ..flow.frame import finished
from ..flow.steps import Each, Invoke
from ..flow.values import Value, isolate_parts
from ..host.host import TURN
from ..journal.copies import Copies
from ..journal.recorder import Journal
from ..journal.replay import ReplayLog
from .pool import Parts, Plan
from .runner import CallSite, Scope, clock
from .sequences import Elements

NONE = object()

MISSES = 50
"""Elements without a result to reuse, more than those with one, after which no more are looked up here: building their
arguments twice would take time for nothing."""


def replay_recorded(site: CallSite[Each], inside: Scope, plan: Plan, parts: Parts) -> None:
    """Let ``plan`` leave to the pool only the elements of which no usable record is found. ``parts``: that pool."""
    tool = replayed_tool(site, inside)
    if tool is not None and parts.items is not None:
        replay = Replay(site, inside, tool, parts.items, parts.keep)
        plan.rest = replay.rest(plan.rest, lambda: parts.failure is not None)


def replayed_tool(site: CallSite[Each], inside: Scope) -> Tool | None:
    """The tool whose calls are the whole body of the fan-out, if recorded calls may be replayed here; else None."""
    run, body = site.run, site.step.body
    if run.journal is None or (run.journal.earlier is None and run.journal.reuse is None) or run.dry or inside.meters:
        return None
    if type(body) is not Invoke or body.permit is not None or not body.awaited:
        return None
    if body.gives is not None or body.target is not None or body.keeps:
        return None
    tool = inside.linked.callees.get(body.id)
    if type(tool) is not Tool or tool.secret or not inside.grant.allows(tool.name):
        return None
    return None if (id(inside.linked.flow), body.id) in run.secrets.steps else tool


class Replay:
    """Replays the recorded elements of one fan-out."""

    def __init__(
        self,
        site: CallSite[Each],
        inside: Scope,
        tool: Tool,
        items: list[Value] | Elements,
        keep: Callable[[int, Value], None],
    ) -> None:
        """``inside``: the scope of the elements. ``keep(i, value)`` receives the value of element ``i``."""
        assert site.run.journal is not None, "replayed_tool has checked it"
        body = site.step.body
        assert isinstance(body, Invoke), "replayed_tool has checked it"
        self.site, self.run, self.body, self.tool, self.items, self.keep = site, site.run, body, tool, items, keep
        self.journal: Journal = site.run.journal
        self.path, self.tries = site.path_of(body), inside.tries
        self.left = MISSES
        self.copies: Copies | None = None
        is_quick = not isinstance(items, Elements) or items.is_quick  # the pool reads the others
        if self.journal.reuse is not None and is_quick and not (body.offers or body.wants):
            self.copies = Copies(self.journal, self.journal.reuse, body, tool, self.path, self.tries)

    def rest(self, numbers: Iterator[int], ends: Callable[[], bool]) -> Iterator[int]:
        """The elements that are left to the pool. The others are replayed between two of them, in their order.

        ``ends``: whether the fan-out has failed, so that no further element starts. After `TURN` seconds an element is
        left to the pool, which lets the loop run.
        """
        host, take = self.run.host, self._take
        for i in numbers:
            now = clock()
            if now - host.turned <= TURN and not ends() and take(i, now):
                continue
            self._write()
            yield i
        self._write()

    def _write(self) -> None:
        if self.copies is not None:
            self.copies.write()

    def _take(self, i: int, now: float) -> bool:
        """Replay element ``i``; False: it has no usable record, and nothing was done. ``now``: of `clock`."""
        earlier = self.journal.earlier
        found = self._recorded(earlier, i) if earlier is not None else None
        if found is None:
            found = self._reused(self.copies, i) if self.copies is not None and self.left > 0 else None
        if found is None:
            return False
        value, source = found
        self.run.calls += 1
        self.run.steps.replay((*self.path, i), now, now, source, value)
        self.keep(i, value)
        return True

    def _recorded(self, earlier: ReplayLog, i: int) -> tuple[Value, str] | None:
        value = earlier.values.pop(((*self.path, i), self.tries), NONE)
        return (value, self.journal.run_id) if value is not NONE else None

    def _reused(self, copies: Copies, i: int) -> tuple[Value, str] | None:
        try:
            frame = self.site.step.element.store(self.site.frame, finished((self.items[i], None, None, "finished")))
            given = self.tool.arguments.validate(isolate_parts(self.body.args.build(frame, None)))
        except Exception:  # the pool builds them again, for an error that is readable and has a place
            found = None
        else:
            found = copies.take(i, given)
        self.left += 1 if found is not None else -1
        return (found[0], copies.reuse.run_id) if found is not None else None
