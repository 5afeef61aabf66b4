"""Elements of a fan-out whose call is a recorded one: they end without a task, a slot or a wait.

An element whose body is one plain tool call needs nothing but the value of that call. So a resumed
run stores the recorded value, and a run that reuses results builds the arguments, takes the result
and copies its row. Everything that is special is left to the pool, which does the same in a quarter
of the speed: a failure, a value that is not JSON, a secret, a limit of calls, an error in the
arguments. `tests/engine/test_replayed.py` compares both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..flow.steps import Each
from ..flow.values import Value, isolate_parts
from ..host.host import TURN
from ..journal.copies import NO_RESULT, Copies
from ..journal.replay import ReplayLog
from .place import OneCall
from .pool import Parts, Plan
from .runner import CallSite, Scope, clock
from .sequences import Elements

MISSES = 50
"""Elements without a result to reuse, more than those with one, after which no more are looked up
here: building their arguments twice would take time for nothing."""


def replay_recorded(
    site: CallSite[Each], inside: Scope, one: OneCall | None, plan: Plan, parts: Parts
) -> None:
    """Let ``plan`` leave to the pool only the elements of which no usable record is found.
    ``parts``: that pool."""
    if one is not None and one.replays and parts.items is not None:
        replay = Replay(site, inside, one, parts.items, parts.keep)
        plan.rest = replay.rest(plan.rest, lambda: parts.failure is not None)


class Replay:
    """Replays the recorded elements of one fan-out."""

    def __init__(
        self,
        site: CallSite[Each],
        inside: Scope,
        one: OneCall,
        items: list[Value] | Elements,
        keep: Callable[[int, Value], None],
    ) -> None:
        """``inside``: the scope of the elements. ``keep(i, value)`` receives the value of element
        ``i``."""
        journal, body, tool = site.run.journal, one.step, one.tool
        assert journal is not None, "one_call has checked it"
        self.site, self.run, self.body, self.tool, self.items, self.keep = (
            site,
            site.run,
            body,
            tool,
            items,
            keep,
        )
        self.path = site.path_of(body)
        self.copies: Copies | None = None
        self.source = journal.run_id
        is_quick = not isinstance(items, Elements) or items.is_quick  # the pool reads the others
        if journal.earlier is not None:
            self.found = self._recorded(journal.earlier, inside.tries)
        elif journal.reuse is not None and is_quick and not (body.offers or body.wants):
            self.copies = Copies(journal, journal.reuse, body, tool, self.path, inside.tries)
            self.found, self.source = self._reused(self.copies), journal.reuse.run_id
        else:
            self.found = lambda i: NO_RESULT

    def rest(self, numbers: Iterator[int], ends: Callable[[], bool]) -> Iterator[int]:
        """The elements that are left to the pool. The others are replayed between two of them, in
        their order.

        ``ends``: whether the fan-out has failed, so that no further element starts. After `TURN`
        seconds an element is left to the pool, which lets the loop run.
        """
        while True:
            i = next(numbers, None) if ends() or not self._is_possible else self._replay(numbers)
            if i is None:
                return
            yield i

    @property
    def _is_possible(self) -> bool:
        return self.copies is None or self.copies.is_possible

    def _replay(self, numbers: Iterator[int]) -> int | None:
        """Replay elements until one has no usable record, for which nothing is done; returns its
        number, None after the last one. Nothing else runs meanwhile, so what they have in common is
        done once for all of them."""
        found, keep, host, now = self.found, self.keep, self.run.host, clock()
        replayed, values = list[int](), list[Value]()
        left = None
        try:
            for i in numbers:
                value = found(i) if now - host.turned <= TURN else NO_RESULT
                if value is NO_RESULT:
                    left = i
                    break
                keep(i, value)
                replayed.append(i)
                values.append(value)
                now = clock()
        finally:  # an interrupt may come at any line
            self.run.calls += len(replayed)
            if self.copies is not None:
                self.copies.write()
            self.run.steps.replay(self.path, replayed, values, now, self.source)
        return left

    def _recorded(self, earlier: ReplayLog, tries: str) -> Callable[[int], Value]:
        """A function of an element that takes the value of its call in an earlier session, or
        `NO_RESULT`."""
        values, path = earlier.values, self.path
        return lambda i: values.pop(((*path, i), tries), NO_RESULT)

    def _reused(self, copies: Copies) -> Callable[[int], Value]:
        """The same for the result of an equal call in another run."""
        items, frame, bind = self.items, self.site.frame, self.site.step.element.bind
        build, arguments, take, left = (
            self.body.args.build,
            self.tool.arguments,
            copies.take,
            MISSES,
        )

        def reused(i: int) -> Value:
            nonlocal left
            if left <= 0:
                return NO_RESULT
            try:
                found = take(
                    i, arguments.validate(isolate_parts(build(bind(frame, items[i]), None)))
                )
            except (
                Exception
            ):  # the pool builds them again, for an error that is readable and has a place
                found = NO_RESULT
            left += 1 if found is not NO_RESULT else -1
            return found

        return reused
