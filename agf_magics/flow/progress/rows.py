"""`Row`, the state of one step in a run: how often it started, how it ended, what it used.

Each step has one row, the steps of called flows included. Elements and iterations share the row of
their step. A step without a box in the picture has a hidden row.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any

from ...values.unread import read_all
from ...values.value import Value
from ..flow import Flow, outermost
from ..graph_steps import Dag, Walk
from ..session_tools import answering, asks_words, offered_by
from ..step import Step
from ..step_names import is_unwritten, name_of, only_call, part_names, says_nothing
from ..step_path import StepPath
from ..steps import (
    Branches,
    Each,
    Fold,
    Invoke,
    Repeat,
    Sequence,
    children,
)
from . import events as ev
from .turns import Turns
from .usage import Usage
from .worked import Worked

Key = tuple[str, ...]
"""The key of a row: a `StepPath` without its numbers."""


def key_of(path: StepPath) -> Key:
    """The key of the row for the path ``path``."""
    # A list comprehension takes half of the time of a generator.
    return tuple([bit for bit in path if type(bit) is str])


class Arriving:
    """The part of a model's reply that has arrived."""

    LONGEST = 4_000
    """The number of last characters that are stored of each part."""
    MOST = 50
    """The number of replies that a row stores at the same time."""

    def __init__(self, at: StepPath, attempt: int) -> None:
        self.at = at
        self.attempt = attempt
        self.parts: dict[str, str] = {}
        """The last characters of ``thinking``, ``text`` and ``call``, in the order of their
        arrival."""
        self.ended = False
        """Whether the request failed or was cancelled."""
        self.cancelled = False

    def add(self, part: str, text: str) -> None:
        self.parts[part] = (self.parts.get(part, "") + text)[-self.LONGEST :]


class Row:
    """The counters and the state of one step.

    Rare values are class attributes at first: setting all values would take a tenth of the time of
    a linear step.
    """

    by_need = False
    """Whether the step runs as soon as its inputs exist, so that a skip needs a reason."""
    elements: tuple[Row, ...] = ()
    """The rows that count the elements of a fan-out."""
    fans: tuple[Row, ...] = ()
    """The fan-outs that a fan-out runs once for each of its elements."""
    failed = cancelled = left = skipped = dropped = retried = 0
    """Each start is counted once in ``finished``, ``failed``, ``cancelled`` or ``left`` (it still
    runs). ``retried`` and ``dropped``: the failures after which the element was tried again or left
    out."""
    earlier = 0
    """The number of calls that a recorded outcome replaced (`StepReplayed`)."""
    old = 0
    """How many of ``earlier`` came from the function as it was before an edit."""
    is_own = False
    """Whether ``earlier`` counts calls of an earlier session of this run."""
    is_made = False
    """Whether this session of a resumed run made a call in the step."""
    excused = False
    """Whether the failures and cancellations so far did not fail the run: their element was dropped
    or tried again, or a step around it was rescued. The next failure sets it to False."""
    within: frozenset[Row] | None = None
    """The row and the rows inside it, as far as `progress` has computed them; None: not yet."""
    idle = 0.0
    """The seconds since `when` in which the step did not run, until the last end or begin."""
    gap = 0.0
    """The last part of ``idle``: the seconds from the last end to the begin after it, until that run
    ends."""
    fatal = False
    """Whether the failure of the step is the failure of the run."""
    asks = False
    """Whether the step, or a step in it, waits for a person's answer."""
    width: int | None = None
    """The number of elements of its fan-outs so far; None before the first one."""
    over: Value = None
    """The sequence of its fan-out; None for a step that is none, or that may run more than once."""
    on_workers: tuple[int, str, int] | None = None
    """The number of a fan-out's elements with workers, the name of the workers, and how many are
    being started; None: no element is with workers."""
    error: BaseException | None = None
    """The last failure, also one that was excused; None: nothing has failed."""
    why = ""
    """The reason of the last skip."""
    replies: Mapping[StepPath, Arriving] = MappingProxyType({})
    """The replies of models that are arriving or broke off, at most `Arriving.MOST`, each with the path
    of its request."""
    usage: Usage | None = None
    """The use of models by the step and its callees; None: no model was asked."""
    models: tuple[str, str] | None = None
    """The model that the step names, and the one that answers in its place; None: no other one does."""
    asked = ""
    """The words for the agent or the model that a step asks, and for its tools."""
    printed = ""
    """The last characters that its user code printed, if the run was watched."""
    rescues = False
    """Whether the run continues after a failure of the step: the step or one around it is rescued, or
    it is a call of a plan, which goes on with all calls that do not need it."""
    part_name = ""
    """The name of the branch or node that the step is."""
    is_inner = False
    """Whether views hide the row, because another row stands for the step that the author wrote:
    the parts of a model's session, the call inside a policy for failures, a ``collect`` that only
    hands a value on."""
    turns: Turns | None = None
    """The requests and tool calls so far, for the rows of a model's session; None for other
    rows."""
    lost = 0
    """The number of elements dropped in the step and its callees; in such an element, the step's
    failures."""

    def __init__(
        self,
        key: Key,
        depth: int,
        step: Step,
        many: bool,
        loops: bool = False,
        around: Row | None = None,
    ) -> None:
        self.key = key
        self.depth = depth
        self.step = step
        self.many = many
        """Whether the step, in a fan-out or a fold, may run more than once."""
        self.loops = loops
        """Whether the step may run several times in order: in iterations, visits of a node,
        instances."""
        self.around = around
        """The row of the fan-out that runs the step once for each element; None: there is none, or
        the step may run more or less often."""
        if step.rescue is not None:
            self.rescues = True
        self.reports: dict[StepPath, ev.Progressed] = {}
        """The last reports of the running calls, the longest running call first."""
        self.started = self.finished = 0
        self.held: Value = None
        """The value of the step. A value of an earlier session may not be read yet."""
        self.when: float | None = None
        """The first start and (`ended`) the last end, in seconds of a monotonic clock."""
        self.ended: float | None = None

    @property
    def value(self) -> Value:
        """The value of the step. Raises LostError if a value of an earlier session cannot be
        read."""
        return read_all(self.held)

    @property
    def again(self) -> bool:
        """Whether the step loops and is not in a fan-out. Its value is the value of the last
        iteration."""
        return self.loops and not self.many

    @property
    def word(self) -> str:
        return self.step.word

    @property
    def label(self) -> str:
        return self.step.title or self.step.label

    @property
    def name(self) -> str:
        """The name that all views use: its title, else the name of its branch or node, else of what it
        writes, else of what it calls."""
        return name_of(self.step, self.part_name)

    @property
    def is_listed(self) -> bool:
        """Whether views list the row. The request of a session with one request and no tool is
        listed only while the reply arrives, and for good if the reply broke off."""
        if self.turns is None or not isinstance(self.step, Invoke):
            return not self.is_inner
        if not self.is_request:
            return bool(self.turns.tools)
        return bool(self.turns.tools) or self.turns.requests > 1 or bool(self.replies)

    @property
    def is_request(self) -> bool:
        """Whether the row is a request to a model."""
        return isinstance(self.step, Invoke) and self.step.kind == "model"

    @property
    def id(self) -> str:
        """The key as text: ``steps[1]/steps[0].do``."""
        return "/".join(self.key)

    @property
    def running(self) -> int:
        return self.started - self.finished - self.failed - self.cancelled - self.left

    @property
    def state(self) -> str:
        """``pending``, ``running``, ``ok``, ``failed``, ``kept`` (failed, and the run continued),
        ``cancelled``, ``skipped``, ``left`` (running after the end) or ``waiting``. A step whose
        failures were retried or dropped is ok if it finished at least once."""
        if self.running:
            return "waiting" if self.asks else "running"
        if self.left:
            return "left"
        if self.cancelled and not self.excused:
            return "cancelled"
        if self.asks:
            return "waiting"
        if self.fatal or (self.failed > self.retried + self.dropped and not self.excused):
            return "kept" if self.rescues and not self.fatal else "failed"
        if self.started:
            if self.finished:
                return "ok"
            return "failed" if self.failed else "cancelled"
        # Workers have not yet reported any element.
        if self.around is not None and self.around.on_workers:
            return "running"
        return "skipped" if self.skipped else "pending"

    @property
    def look(self) -> str:
        """The state as views show it: as `state`, but ``dropped`` if it is ok and something in it was
        dropped, and ``lost`` if nothing in it was ok."""
        state = self.state
        if not self.lost:
            return state
        if state == "ok":
            has_any = not self.elements or any(part.finished for part in self.elements)
            return "dropped" if has_any else "lost"
        is_dropped = state == "failed" and not self.fatal and (self.excused or self.dropped)
        return "lost" if is_dropped else state

    @property
    def total(self) -> int | None:
        """The number of times that the step will run in the fan-outs that started; None:
        unknown."""
        return self.around.width if self.around is not None else None

    @property
    def timed(self) -> Row:
        """The row whose times are those of the step: for a step that only handles the failures of
        one call, the row of the call, so that a pause between two attempts is no work."""
        if self.elements and only_call(self.step) is not None and self.elements[0].started:
            return self.elements[0]
        return self

    @property
    def arriving(self) -> Arriving | None:
        """The reply of a model that is arriving: of several, the one that began first; else the last
        one that broke off."""
        replies = list(self.replies.values())
        return next(
            (reply for reply in replies if not reply.ended), replies[-1] if replies else None
        )

    @property
    def worked(self) -> Worked | None:
        """When the step ran; None before its first end."""
        row = self.timed
        if row.when is None or row.ended is None:
            return None
        return Worked(row.when, row.ended, row.idle - row.gap)

    @property
    def is_reused(self) -> bool:
        """Whether all results of the step are those of another run, so that it made no call here: the
        time in which they were taken says nothing about the step."""
        parts = self.elements or (self,)
        is_over = self.times > 0 and not self.running
        return is_over and all(
            part.times > 0 and part.earlier == part.times and not part.is_own for part in parts
        )

    @property
    def seconds(self) -> float | None:
        """The seconds in which the step ran; None before its first end."""
        worked = self.worked
        return worked.seconds if worked is not None else None

    def seconds_until(self, now: float) -> float | None:
        """The seconds in which the step has run until ``now``; None before its first begin."""
        row = self.timed
        if row.running and row.when is not None:
            return now - row.when - row.idle
        return self.seconds

    @property
    def times(self) -> int:
        """The number of times that the step ran; retries do not count."""
        return self.started - self.retried

    def __repr__(self) -> str:
        times = f", {self.finished} of {self.started}" if self.many or self.times > 1 else ""
        took = f", {self.seconds:.3f} s" if self.seconds is not None else ""
        return f"<{self.id} {self.word} {self.label}: {self.state}{times}{took}>"


class Tree:
    """The rows of a flow and of the flows that it calls."""

    def __init__(self, flow: Flow, callees: Mapping[str, Any]) -> None:
        """``callees``: `Linked.callees`."""
        self.rows: dict[Key, Row] = {}
        """The visible rows, in the order of the definition."""
        self.unseen: dict[Key, Row] = {}
        """The rows of steps without a box in the picture."""
        self._sessions = set[Key]()
        """The keys of the steps that an agent's session answers."""
        self._built = set[Key]()
        """The keys of the steps whose flow the linker builds; the session in it belongs to the
        step."""
        self._has_inner = False
        self._flow(flow, callees, (), 0, False, False, None)
        if self._has_inner:
            self._indent()

    def _flow(
        self,
        flow: Flow,
        callees: Mapping[str, Any],
        before: Key,
        depth: int,
        many: bool,
        loops: bool,
        around: Row | None,
    ) -> None:
        shown = outermost(flow)
        if before and flow.origin.is_built:
            self._built.add(before)
        # The row of a whole plan or graph has only its own events.
        is_whole = shown is not flow.body.steps
        if is_whole:
            (whole,) = flow.body.steps
            self.unseen[(*before, whole.id)] = Row((*before, whole.id), depth, whole, many)
        for step in shown:
            # Whether a node runs is decided in the run, so no fan-out tells how often
            # (`Row.total`).
            row = self._step(
                step, callees, before, depth, many, loops or is_whole, None if is_whole else around
            )
            if is_whole and isinstance(flow.body.steps[0], Dag):
                row.by_need = row.rescues = True
            if is_unwritten(step):
                row.is_inner = self._has_inner = True
        if is_whole:
            self._give_names(whole, before)

    def _step(
        self,
        step: Step,
        callees: Mapping[str, Any],
        before: Key,
        depth: int,
        many: bool,
        loops: bool,
        around: Row | None,
    ) -> Row:
        key = before + (step.id,)  # noqa: RUF005  # faster, because `before` is mostly empty
        row = Row(key, depth, step, many, loops, around)
        callee = callees.get(step.id)
        if asked := asks_words(step, callee, before in self._sessions):
            row.asked = asked
        if models := answering(step, callees):
            row.models = models
        is_hidden = isinstance(step, Sequence)
        if is_hidden:
            self.unseen.setdefault(key, row)
        else:
            row = self.rows.setdefault(key, row)
        below = depth + (not is_hidden)
        fans_out = isinstance(step, (Each, Fold))
        loops_inside = loops or isinstance(step, (Repeat, Dag, Walk))
        # In other steps, a step may run more or less often than once for each element.
        inner = around if isinstance(step, (Sequence, Branches, Invoke)) else None
        if fans_out:
            inner = row
            if around is not None:
                around.fans += (row,)
        parts: list[Row] = []
        first = len(self.rows)
        for child in children(step):
            if isinstance(step, (Each, Branches)) and child is step.collect:
                collect = self._step(child, callees, before, below, many, loops_inside, around)
                self._hide(collect, tuple(step.branches) if isinstance(step, Branches) else ())
            else:
                parts.append(
                    self._step(child, callees, before, below, many or fans_out, loops_inside, inner)
                )
        self._set_parts(row, parts, before)
        if isinstance(step, Repeat) and step.session:
            self._close_session(row, before in self._built, first, offered_by(step, callees))
        if getattr(callee, "agent", None) is not None:
            self._sessions.add(key)
        for called in flows_of(callee):
            self._flow(called.flow, called.callees, key, below, many, loops, inner)
        return row

    def _set_parts(self, row: Row, parts: list[Row], before: Key) -> None:
        """Give ``row`` its ``parts``, the rows of the steps in its step, and name them."""
        step = row.step
        if isinstance(step, (Each, Fold, Branches)):
            row.elements = tuple(parts)
        if isinstance(step, (Each, Branches, Dag, Walk)):
            self._give_names(step, before)
        if only_call(step) is not None:
            parts[0].is_inner = self._has_inner = True
            parts[0].part_name = row.name

    def _give_names(self, step: Step, before: Key) -> None:
        """Give the parts of ``step`` the names of their branches or nodes."""
        parts = {child.id: child for child in children(step)}
        for id, name in part_names(step).items():
            part = parts[id]
            while isinstance(part, Sequence) and len(part.steps) == 1:
                part = part.steps[0]
            key = (*before, part.id)
            row = self.rows.get(key) or self.unseen[key]
            row.part_name = name
            if only_call(part) is not None:
                row.elements[0].part_name = row.name

    def _hide(self, row: Row, reads: tuple[str, ...]) -> None:
        """Hide ``row`` if its step only hands a value on. ``reads``: the names that the step may
        read."""
        if says_nothing(row.step, reads):
            row.is_inner = self._has_inner = True

    def _close_session(
        self, session: Row, of_agent: bool, first: int, tools: Iterable[str]
    ) -> None:
        """Let views list the requests and tool calls of a model's session. ``of_agent``: whether
        the agent's row is the session's, too. ``first``: the index of the session's first row."""
        session.turns = turns = Turns(not session.many, tuple(tools))
        session.is_inner = of_agent
        self._has_inner = True
        for inner in islice(self.rows.values(), first, None):
            if inner.key[:-1] == session.key[:-1]:  # the row is not in a flow that a tool calls
                inner.turns = turns
                inner.is_inner = not isinstance(inner.step, Invoke)

    def _indent(self) -> None:
        """Set the depth of each row to the number of listed rows around it."""
        outer: list[tuple[int, bool]] = []
        for row in self.rows.values():
            while outer and outer[-1][0] >= row.depth:
                outer.pop()
            outer.append((row.depth, row.is_inner))
            row.depth = sum(not is_inner for _, is_inner in outer[:-1])


def flows_of(callee: Any) -> tuple[Any, ...]:
    """The linked flows that a call may run: the named flow, or all that it can choose from."""
    if callee is None:
        return ()
    if isinstance(getattr(callee, "flow", None), Flow):
        return (callee,)
    others = getattr(callee, "callees", None)
    return tuple(flow for other in others.values() for flow in flows_of(other)) if others else ()
