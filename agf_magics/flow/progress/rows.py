"""A row of a run's state: how often a step started, how that ended, what it used.

There is one per step, also of called flows, and never one per element or iteration: 100,000
elements cost one row and the first failures. Steps without a box in the picture have a hidden row:
the steps of a loop taken together, and the step that is a whole plan or graph.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from itertools import islice
from typing import Any, NamedTuple

from ...values.unread import read_all
from ...values.value import Value
from ..flow import Flow, outermost
from ..graph_steps import Dag, Walk
from ..step import Step
from ..step_names import name_of, only_call, part_names, says_nothing
from ..step_path import StepPath, seconds_between
from ..steps import (
    Branches,
    Compute,
    Each,
    Fold,
    Invoke,
    Repeat,
    Sequence,
    children,
)
from . import events as ev
from .turns import Turns

Key = tuple[str, ...]
"""The name of a row: a `StepPath` without its numbers."""


def key_of(at: StepPath) -> Key:
    """The key of the row of a path."""
    return tuple([bit for bit in at if type(bit) is str])  # a list: half of the time


class Usage(NamedTuple):
    """The use of models in a run or a step."""

    requests: int = 0
    """The number of replies."""
    input: int = 0
    """Tokens, as the models count them; 0 for models that do not report them."""
    output: int = 0
    known_cost: Decimal = Decimal(0)
    """US dollars for the replies whose price is known."""
    unpriced: int = 0
    """The number of replies whose price is not known."""
    by_model: Mapping[str, Usage] = {}
    """The usage of each model, by its name."""

    @property
    def tokens(self) -> int:
        return self.input + self.output

    @property
    def cost(self) -> Decimal | None:
        """US dollars; None if a price is not known, or no model was asked."""
        return self.known_cost if self.requests and not self.unpriced else None

    def plus(self, other: Usage) -> Usage:
        """Both together."""
        models = dict(self.by_model)
        for name, used in other.by_model.items():
            models[name] = models.get(name, Usage()).plus(used)
        return Usage(
            self.requests + other.requests,
            self.input + other.input,
            self.output + other.output,
            self.known_cost + other.known_cost,
            self.unpriced + other.unpriced,
            models,
        )

    def as_json(self) -> dict[str, Value]:
        """The amounts as text, because they are decimal numbers."""
        cost = None if self.cost is None else f"{self.cost:f}"
        amounts = {
            "requests": self.requests,
            "input": self.input,
            "output": self.output,
            "cost": cost,
        }
        models = {name: used.as_json() for name, used in self.by_model.items()}
        return {**amounts, "by_model": models} if models else amounts


def cost_of(usage: Mapping[str, Value]) -> Decimal | None:
    """The price in the ``usage`` of a reply, which may come from a journal; None: it is not
    known."""
    text = usage.get("cost")
    if not isinstance(text, str) or not PRICE.fullmatch(text):
        return None
    return Decimal(text)


PRICE = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,30})?")


def one_reply(input: int, output: int, model: str, cost: Decimal | None) -> Usage:
    """The usage of one reply."""
    used = Usage(1, input, output, cost or Decimal(0), int(cost is None))
    return used._replace(by_model={model: used})


class Arriving:
    """The reply of a model to one request, as far as it has arrived."""

    LONGEST = 4_000
    """The largest number of characters of each part; the last ones are stored."""

    def __init__(self, at: StepPath, attempt: int) -> None:
        self.at = at
        self.attempt = attempt
        self.parts: dict[str, str] = {}
        """The ends of its ``thinking``, ``text`` and ``call``, in the order of their first text."""
        self.ended = False
        """Whether the request failed, was cancelled or was answered."""

    def add(self, part: str, text: str) -> None:
        self.parts[part] = (self.parts.get(part, "") + text)[-self.LONGEST :]


class Row:
    """The counters and the state of one step.

    Rare values start as the class's: a run makes a row for each step, and setting them all would
    take a tenth of a linear step.
    """

    by_need = False
    """Whether it runs when its inputs are available, so that the reason why it was skipped
    matters."""
    elements: tuple[Row, ...] = ()
    """The rows that count the elements of a fan-out."""
    failed = cancelled = left = skipped = dropped = retried = 0
    earlier = 0
    """The number of calls that an outcome of an earlier session replaced."""
    is_own = False
    """Whether these were made by earlier sessions of its run, and not by another run."""
    is_made = False
    """Whether this session of a resumed run made a call in it."""
    excused = False
    """Whether all its failures and cancellations so far are in elements that were dropped or
    retried, or in a step whose failure did not end the run."""
    within: frozenset[Row] | None = None
    fatal = False
    asks = False
    """Whether it, or a step in it, needs the answer that the run waits for; while it runs: whether it
    has asked a person and got no answer yet."""
    width: int | None = None
    """The number of elements of its fan-outs so far; None before the first one."""
    on_workers: tuple[int, str, int] | None = None
    """The number of a fan-out's elements that are with workers, the name of these workers, and the
    number of workers that are being started; None: no element is with workers."""
    error: BaseException | None = None
    why = ""
    """Why it was skipped, the last time it was."""
    arriving: Arriving | None = None
    """The reply of a model that arrives, or that ended in the middle. A row of several concurrent
    requests has one of them."""
    usage: Usage | None = None
    """The use of models by it, and by the flow that it calls; None: it asked none."""
    asked = ""
    """Who answers a step that asks an agent or a model, and with which tools."""
    printed = ""
    """The end of what its user code printed, if the run was watched."""
    rescues = False
    """Whether the run continues after its failure."""
    part_name = ""
    """The name of its branch or node."""
    is_inner = False
    """Whether views do not list it, because another row is the step that the author wrote: the parts
    of a model's session, the call inside a policy for its failures, a ``collect`` that only hands
    its value on."""
    turns: Turns | None = None
    """Of a model's session, and of its requests and tool calls: what it did so far."""
    lost = 0
    """The number of elements and branches that failed and were dropped in it, also in flows that it
    calls; of a step in such an element: its own failures there."""

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
        """Whether it is in a fan-out or a fold and may run more than once."""
        self.loops = loops
        """Whether it may run several times in order: an iteration, a visit of a node, an
        instance."""
        self.around = around
        """The fan-out that runs it once for each element, if one does."""
        if step.rescue is not None:
            self.rescues = True
        self.reports: dict[StepPath, ev.Progressed] = {}
        """The last reports of its running calls, the longest running call first."""
        self.started = self.finished = 0
        self.held: Value = None
        """Its value as the run has it: one of an earlier session may not be read yet."""
        self.when: float | None = None
        """Its first start and (`ended`) its last end, in seconds of a monotonic clock."""
        self.ended: float | None = None

    @property
    def value(self) -> Value:
        """Its value. Raises LostError for one of an earlier session that cannot be read any more."""
        return read_all(self.held)

    @property
    def again(self) -> bool:
        """Whether it loops and is not in a fan-out. Its value is that of the last time."""
        return self.loops and not self.many

    @property
    def word(self) -> str:
        return self.step.word

    @property
    def label(self) -> str:
        return self.step.title or self.step.label

    @property
    def name(self) -> str:
        """The name that all views use: its title, else that of its branch or node, else of what it
        writes, else of what it calls."""
        return name_of(self.step, self.part_name)

    @property
    def is_listed(self) -> bool:
        """Whether views list it. A session with one request and no tool is one row, that of its
        step, but while the reply arrives, and for good if it broke off."""
        if self.turns is None or not isinstance(self.step, Invoke):
            return not self.is_inner
        if not self.is_request:
            return bool(self.turns.tools)
        return bool(self.turns.tools) or self.turns.requests > 1 or self.arriving is not None

    @property
    def is_request(self) -> bool:
        """Whether it asks a model."""
        return isinstance(self.step, Invoke) and self.step.kind == "model"

    @property
    def id(self) -> str:
        """As a path is written: ``steps[1]/steps[0].do``."""
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
        # Workers have not yet reported any of its elements.
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
        """How often it will run in the fan-outs that started; None if that is not known."""
        return self.around.width if self.around is not None else None

    @property
    def seconds(self) -> float | None:
        return seconds_between(self.when, self.ended)

    @property
    def times(self) -> int:
        """How often it ran; retries do not count."""
        return self.started - self.retried

    def __repr__(self) -> str:
        times = f", {self.finished} of {self.started}" if self.many or self.times > 1 else ""
        took = f", {self.seconds:.3f} s" if self.seconds is not None else ""
        return f"<{self.id} {self.word} {self.label}: {self.state}{times}{took}>"


class Tree:
    def __init__(self, flow: Flow, callees: Mapping[str, Any]) -> None:
        """``callees``: `Linked.callees`."""
        self.rows: dict[Key, Row] = {}
        """The visible rows, in the order of the definition."""
        self.unseen: dict[Key, Row] = {}
        self._sessions = set[Key]()
        """The keys of the steps that an agent's session answers."""
        self._built = set[Key]()
        """The keys of the steps whose flow is made by the linker: their session is theirs."""
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
        # A plan or a graph: only its own events need the row of the whole.
        is_whole = shown is not flow.body.steps
        if is_whole:
            (whole,) = flow.body.steps
            self.unseen[(*before, whole.id)] = Row((*before, whole.id), depth, whole, many)
        for step in shown:
            row = self._step(
                step, callees, before, depth, many, loops or is_whole, None if is_whole else around
            )
            if is_whole and isinstance(flow.body.steps[0], Dag):
                row.by_need = True
            if isinstance(step, Compute) and len(shown) > 1:
                self._hide(row, ("last",) if step.label == "last" else ())
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
        key = before + (step.id,)  # noqa: RUF005  # faster: `before` is mostly empty
        row = Row(key, depth, step, many, loops, around)
        callee = callees.get(step.id)
        if asked := _asks_words(step, callee, before in self._sessions):
            row.asked = asked
        is_hidden = isinstance(step, Sequence)
        if is_hidden:
            self.unseen.setdefault(key, row)
        else:
            row = self.rows.setdefault(key, row)
        below = depth + (not is_hidden)
        fans_out = isinstance(step, (Each, Fold))
        loops_inside = loops or isinstance(step, (Repeat, Dag, Walk))
        inner = around if isinstance(step, (Sequence, Branches, Invoke)) else None
        if fans_out:
            inner = row
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
            self._close_session(row, before in self._built, first)
        if getattr(callee, "agent", None) is not None:
            self._sessions.add(key)
        for called in flows_of(callee):
            self._flow(called.flow, called.callees, key, below, many, loops, inner)
        return row

    def _set_parts(self, row: Row, parts: list[Row], before: Key) -> None:
        """``parts`` are the rows of the steps in that of ``row``, which names them."""
        step = row.step
        if isinstance(step, (Each, Fold, Branches)):
            row.elements = tuple(parts)
        if isinstance(step, (Each, Branches, Dag, Walk)):
            self._give_names(step, before)
        if only_call(step) is not None:
            parts[0].is_inner = self._has_inner = True
            parts[0].part_name = row.name

    def _give_names(self, step: Step, before: Key) -> None:
        """The parts of ``step`` have the names of their branches or nodes."""
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
        """Views do not list a step that only hands a value on."""
        if says_nothing(row.step, reads):
            row.is_inner = self._has_inner = True

    def _close_session(self, session: Row, is_of_agent: bool, first: int) -> None:
        """Of a model's session views list the requests and the calls of tools. ``is_of_agent``: the
        row of the agent is that of the session, too. ``first``: the number of its first row."""
        session.turns = turns = Turns(is_one=not session.many)
        session.is_inner = is_of_agent
        self._has_inner = True
        for inner in islice(self.rows.values(), first, None):
            if inner.key[:-1] == session.key[:-1]:  # not in a flow that a tool calls
                inner.turns = turns
                inner.is_inner = not isinstance(inner.step, Invoke)

    def _indent(self) -> None:
        """The depth of a row counts the rows around it that views list."""
        outer: list[tuple[int, bool]] = []
        for row in self.rows.values():
            while outer and outer[-1][0] >= row.depth:
                outer.pop()
            outer.append((row.depth, row.is_inner))
            row.depth = sum(not is_inner for _, is_inner in outer[:-1])


def _asks_words(step: Step, callee: Any, in_session: bool) -> str:
    """``asks reviewer, tools: fetch, price``; without the tools if it may use all, without the name
    if that is the label. ``in_session``: the row of the agent has the tools, which its invoker
    limits."""
    answers: tuple[str, tuple[str, ...] | None] | None = getattr(callee, "answers", None)
    if answers is None or not isinstance(step, Invoke):
        return ""
    who, tools = answers
    allowed = None if step.tools is None else [name.text for name in step.tools]
    if tools is None:
        named = allowed
    elif allowed is None:
        named = list(tools)
    else:
        named = [name for name in tools if name in allowed]
    parts = [] if who == step.label else [f"asks {who}"]
    if named is not None and not in_session:
        more = f" and {len(named) - MOST_TOOLS} more" if len(named) > MOST_TOOLS else ""
        parts.append(f"tools: {', '.join(named[:MOST_TOOLS])}{more}" if named else "no tools")
    if files := len(step.asking.attach):
        parts.append(f"attach: {files} {'file' if files == 1 else 'files'}")
    return ", ".join(parts)


def flows_of(callee: Any) -> tuple[Any, ...]:
    """The linked flows that a call may run: the one that it names, or all that it can choose
    from."""
    if callee is None:
        return ()
    if isinstance(getattr(callee, "flow", None), Flow):
        return (callee,)
    others = getattr(callee, "callees", None)
    return tuple(flow for other in others.values() for flow in flows_of(other)) if others else ()


MOST_TOOLS = 6
"""Tools that are named in a row."""
