"""The scene of a flow: its steps as boxes and frames, their order and the flow of values as lines.

The calls of a plan are placed only by its values, the nodes of a graph only by its edges; a plan or a
graph that is the whole flow has no frame. The values of a graph are in its boxes, since every node may
read and write the state. A ``collect`` that only hands a value on (``pipe``) has no box. A called flow
is a box, or a frame with its own steps (`opened`).
"""

from __future__ import annotations

import os.path
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, pairwise

from ...flow.flow import Flow
from ...flow.graph_steps import END, START, Dag, Walk
from ...flow.session_tools import offered_tools, session_calls
from ...flow.step import Step
from ...flow.step_names import (
    COLLECT,
    bare,
    callee_name,
    heading,
    is_unwritten,
    name_of,
    only_call,
    part_names,
    says_nothing,
    short_path,
)
from ...flow.steps import (
    Branches,
    Choose,
    Compute,
    Each,
    Fold,
    Invoke,
    Repeat,
    children,
    every,
)
from ...flow.steps import Sequence as Steps
from ..plain import line
from .boxes import (
    INPUT,
    LABEL,
    LONGEST,
    TOOLTIP,
)
from .cycles import condition_of, edges_far, either, passed_ranks
from .data_flow import DataFlow
from .scene import (
    Box,
    Frame,
    Link,
    Scene,
    first_boxes,
    framed,
    frames_around,
    last_boxes,
    way,
)
from .session_boxes import tool_boxes
from .step_text import CONDITION, answered, condition, how

MANY_NODES = 40
"""Nodes above which a graph is dense: an edge back, or past more than `NEAR_NODES` ranks, is then a tag
of its source, because long edges take graphviz a cubic time."""
MANY_RANKS = 220
"""Ranks that the edges of a graph pass together, above which it is dense, too."""
NEAR_NODES = 3
"""Ranks that an edge of a dense graph may pass without becoming a tag."""
MANY_ENDS = 3
"""Edges to END above which they are tags of their sources, in a graph without a frame."""
DOES = 80
"""The most characters of what a box does."""


def scene(
    flow: Flow,
    folded: Collection[str] = (),
    called: Collection[str] = (),
    opened: Mapping[str, Flow] | None = None,
    offered: Mapping[str, Sequence[str]] | None = None,
    answering: Mapping[str, str] | None = None,
) -> Scene:
    """The boxes, frames and lines of ``flow``. The steps ``folded`` are boxes instead of frames.
    ``called``: the paths of the calls of flows that are boxes. ``opened``: the called flows that are
    frames, by the path of the call (see `called_flows.Called`). ``offered``: the tools that models may
    call, by the path of the step that calls them. ``answering``: the models that answer in place of
    those that steps name, by the paths of the steps."""
    folded, called = frozenset(folded), frozenset(called)
    return _Builder(flow, folded, called, opened or {}, offered or {}, answering or {}).scene()


class _Builder:
    """Builds the boxes of one flow and collects the lines between them on the way."""

    def __init__(
        self,
        flow: Flow,
        folded: Collection[str],
        called: Collection[str],
        opened: Mapping[str, Flow],
        offered: Mapping[str, Sequence[str]],
        answering: Mapping[str, str],
        before: str = "",
    ) -> None:
        self.flow = flow
        self.folded = folded
        self.called = called
        self.opened = opened
        self.offered = offered
        self.answering = answering
        self.before = before
        """The path of the calls that lead to this flow: the ids of all its boxes begin with it."""
        self.data = DataFlow(flow)
        self.links: list[Link] = []
        self.inner_values: dict[tuple[str, str], tuple[str, ...]] = {}
        """The values between the boxes of called flows that are frames."""
        self.box_of: dict[str, Box] = {}
        """The box or frame that shows a step, by the id of the step."""
        self.prefix = ""
        """The common beginning of all paths of a plan, which is not shown."""
        self.leaving: dict[str, list[str]] = {}
        """The texts of the edges that are tags, by the id of the box they leave."""

    def scene(self) -> Scene:
        parts, _, _ = self.body(None)
        parts = self.with_input(tuple(map(self.with_leaving, parts)))
        return Scene(
            name=self.flow.name,
            parts=parts,
            links=tuple(self.links),
            values=self.values(parts),
            is_free=self.whole() is not None,
        )

    def whole(self) -> Dag | Walk | None:
        """The plan or the graph that is the whole flow."""
        body: Step = self.flow.body
        while isinstance(body, Steps) and len(body.steps) == 1:
            body = body.steps[0]
        return body if isinstance(body, Dag | Walk) and children(body) else None

    def body(self, head: Box | None) -> tuple[tuple[Box, ...], Sequence[Box], Sequence[Box]]:
        """The boxes of the whole flow, the boxes with which it begins, and the boxes with which it ends;
        empty if these are its first and last box. ``head``: the box that becomes its frame, if any."""
        whole = self.whole()
        first = self.flow.body.steps[0] if self.flow.body.steps else None
        if self.flow.origin.is_built and isinstance(first, Repeat) and first.session:
            return self.session(first), (), ()
        if whole is None:
            return self.chain(self.flow.body.steps, head is not None and head.many), (), ()
        parts = self.free(whole, head)
        return parts, *(self.ends_of(whole, parts) if head is not None else ((), ()))

    def inside(self, path: str, head: Box) -> Box:
        """The frame of a call with the steps of the flow that it calls."""
        flow = self.opened[path]
        shared = self.folded, self.called, self.opened, self.offered, self.answering
        inner = _Builder(flow, *shared, f"{path}/")
        parts, begin, end = inner.body(head)
        self.inner_values |= inner.values(parts)
        self.links += inner.links
        self.leaving |= inner.leaving
        return framed(head, parts, begin, end)

    def step(self, step: Step, many: bool, name: str = "", case: str = "") -> Box:
        """The box or frame of a step. ``name``: the name of the branch or node that the step is.
        ``case``: see `Box.case`."""
        if isinstance(step, Steps) and len(step.steps) == 1:
            box = self.step(step.steps[0], many, name, case)
        else:
            box = self.drawn(step, many, name, case)
        self.box_of[step.id] = box
        return box

    def drawn(self, step: Step, many: bool, name: str, case: str) -> Box:
        """The box of a step, or its frame. A step around a single call is drawn as the call."""
        call = only_call(step)
        named = call or step
        output = self.short(self.data.writes(step) or step.label.partition(" → ")[2])
        shown, does, output = self.texts(named, name_of(step, name), output)
        shown, does = self.answered(named, shown), self.answered(named, does)
        if call is not None:
            does = " · ".join(filter(None, (does, how(step))))
        id = f"{self.before}{step.id}"
        path = f"{self.before}{named.id}"
        box = Box(
            id=id,
            word=step.word,
            name=shown,
            does=does,
            output=output,
            case=case,
            many=many,
            opens=path in self.called or (isinstance(named, Invoke) and named.kind == "flow"),
            tooltip=self.tooltip(step, shown),
            step=step,
        )
        if path in self.opened and id not in self.folded:
            box = self.inside(path, box)
        if isinstance(step, Invoke | Compute) or not children(step):
            return box
        if call is not None or id in self.folded:
            self.box_of |= {inner.id: box for inner in every(step)}
            return box
        return self.frame(step, box)

    def texts(self, step: Step, name: str, output: str) -> tuple[str, str, str]:
        """The name of a box, what it does, and its output if the name does not say it."""
        output = "" if output in (name, step.id.rpartition(".")[2]) else output
        if not isinstance(step, Invoke | Compute):
            head = line(heading(step), CONDITION)
            does = "" if head == name else head
            return line(name, 2 * LONGEST), " · ".join(filter(None, (does, _policy(step)))), output
        does = line(condition(step.value) if isinstance(step, Compute) else step.label, DOES)
        if step.id not in self.data.nodes:
            does = callee_name(step) or does
        bits = ("" if does in (name, output) else bare(does), how(step))
        return name, " · ".join(filter(None, bits)), output

    def answered(self, step: Step, text: str) -> str:
        """``text``; if it is the model that a step names, the model that answers in its place."""
        return answered(step, text, self.answering, self.before)

    def tooltip(self, step: Step, name: str) -> str:
        """Everything about a step, a line for each fact."""
        reads = self.data.reads(step)
        writes = self.data.writes(step)
        if step.id in self.data.returning:
            writes = f"{writes}, or the fields of an object that it returns".removeprefix(", or ")
        tools = (step.tools if isinstance(step, Invoke) else None) or ()
        is_named = self.answered(step, step.label) == step.label
        facts = (
            f"{step.id}: {step.word} {name if name != step.word else ''}".rstrip(),
            ("" if is_named else "instead of ") + step.label if step.label != name else "",
            how(step),
            f"tools: {', '.join(tool.text for tool in tools)}" if tools else "",
            f"reads {reads}" if reads else "",
            f"writes {writes}" if writes else "",
        )
        return "\n".join(line(fact, TOOLTIP) for fact in facts if fact)

    def frame(self, step: Step, head: Box) -> Box:
        """The frame ``head`` around the boxes of the steps in a step."""
        begin: Sequence[Box] = ()
        end: Sequence[Box] = ()
        match step:
            case Branches() | Choose():
                parts = self.ways(step, head.many)
                begin = [*chain.from_iterable(map(first_boxes, parts))]
                end = [*chain.from_iterable(map(last_boxes, parts))]
                if isinstance(step, Branches) and step.collect is not None:
                    parts, end = self.collected(
                        step.collect, parts, [*step.branches], head.many, end
                    )
            case Each(body=body):
                parts = self.chain([body], many=True)
                begin = first_boxes(parts[0])
                end = last_boxes(parts[-1])
                if step.collect is not None:
                    parts, end = self.collected(step.collect, parts, [], head.many, end)
            case Repeat(session=True):
                parts = self.session(step, head.name)
            case Fold(body=body) | Repeat(body=body):
                parts = self.chain(body.steps if isinstance(body, Steps) else [body], many=True)
                self.links.append(Link(parts[-1].id, parts[0].id, "back"))
            case Steps(steps=steps):
                parts = self.chain(steps, head.many)
            case _:
                assert isinstance(step, Dag | Walk), "every other step is a box"
                parts = self.free(step, head)
                begin, end = self.ends_of(step, parts)
        frame = framed(head, parts, begin, end)
        if isinstance(step, Fold | Repeat):
            self.box_of[step.body.id] = frame
        if isinstance(step, Branches | Each) and step.collect is not None:
            self.box_of.setdefault(step.collect.id, frame)
        return frame

    def session(self, step: Repeat, shown: str = "") -> tuple[Box, ...]:
        """The model of a session and the tools that it may call. ``shown``: the text of the frame
        around them; empty: there is no frame."""
        request, call = session_calls(step)
        model = self.step(request, many=True)
        does = ("" if model.does == shown else model.does, "" if shown else how(step))
        model = replace(model, does=" · ".join(filter(None, does)))
        path = f"{self.before}{call.id}"
        tools = tool_boxes(path, call, self.offered.get(path, offered_tools(call, None)))
        self.box_of |= {inner.id: model for inner in every(step.body)}
        self.links += [Link(model.id, tool.id, "then") for tool in tools]
        return (model, *tools)

    def ways(self, step: Branches | Choose, many: bool) -> tuple[Box, ...]:
        """The branches, or the cases with their conditions."""
        if isinstance(step, Choose):
            cases = [
                (line(step.conditions.get(label, f"= {label}"), LABEL), inner)
                for label, inner in step.cases.items()
            ]
            if step.default is not None:
                cases.append(("otherwise", step.default))
            return tuple(self.step(inner, many, case=case) for case, inner in cases)
        names = part_names(step)
        return tuple(
            self.step(inner, many, names.get(inner.id, "")) for inner in step.branches.values()
        )

    def collected(
        self,
        collect: Step,
        parts: tuple[Box, ...],
        names: list[str],
        many: bool,
        end: Sequence[Box],
    ) -> tuple[tuple[Box, ...], Sequence[Box]]:
        """``parts`` with the box of ``collect``, and the boxes at which they end."""
        if says_nothing(collect, tuple(names)):
            return parts, end
        box = self.step(collect, many, COLLECT if isinstance(collect, Compute) else "")
        self.links += [Link(part.id, box.id, "then") for part in parts]
        return (*parts, box), last_boxes(box)

    def chain(self, steps: Sequence[Step], many: bool) -> tuple[Box, ...]:
        """The boxes of the steps that their author wrote, after each other."""
        boxes = tuple(self.step(step, many) for step in steps if not is_unwritten(step))
        self.links += [Link(before.id, after.id, "then") for before, after in pairwise(boxes)]
        return boxes

    def free(self, step: Dag | Walk, head: Box | None) -> tuple[Box, ...]:
        """The calls of a plan, or the nodes of a graph. ``head``: the box of its frame, if any."""
        if isinstance(step, Walk):
            return self.walked(step, head)
        self.prefix = self.prefix or _common_prefix(self.data, step)
        names = part_names(step)
        return tuple(self.step(call, False, names[call.id]) for call in step.steps)

    def walked(self, step: Walk, head: Box | None) -> tuple[Box, ...]:
        """The nodes of a graph; without a frame also START, and END if a line reaches it."""
        nodes = {name: self.step(node, False, name) for name, node in step.nodes.items()}
        for name, most in step.limits.items():
            if name in nodes:
                self.leaving.setdefault(nodes[name].id, []).append(f"at most {most:,} times")
        ends = dict[str, Box]()
        if head is None:
            ends = {name: _terminal(f"{self.before}{step.id}", name) for name in (START, END)}
        boxes = nodes | ends
        self.link_edges(step, boxes, many_ends_are_tags=head is None)
        self.link_limits(step, boxes)
        linked = {id for link in self.links for id in (link.tail, link.head)}
        start = [box for name, box in ends.items() if name == START]
        end = [box for name, box in ends.items() if name == END and box.id in linked]
        return (*start, *nodes.values(), *end)

    def link_edges(self, step: Walk, boxes: Mapping[str, Box], many_ends_are_tags: bool) -> None:
        """The edges of a graph as lines, or as tags of their sources where there are too many. Edges
        between the same two nodes are one line: a run knows only the ends of an edge that it took."""
        is_dense = len(step.nodes) > MANY_NODES or passed_ranks(step.edges) > MANY_RANKS
        far = edges_far(step.edges, NEAR_NODES) if is_dense else set[int]()
        end_count = sum(edge.target == END for edge in step.edges)
        ends_are_tags = many_ends_are_tags and end_count > MANY_ENDS
        texts: dict[tuple[str, str], list[str]] = {}
        for place, edge in enumerate(step.edges):
            # Loading reports an edge to an unknown node; it cannot be drawn.
            if edge.source not in boxes or edge.target not in boxes:
                continue
            label = condition_of(edge)
            is_end = edge.target == END and edge.source != START
            if place in far or (is_end and ends_are_tags):
                source = last_boxes(boxes[edge.source])[-1]
                self.leaving.setdefault(source.id, []).append(f"{label} ▸ {edge.target}".strip())
            else:
                texts.setdefault((edge.source, edge.target), []).append(label)
        for (tail, head), labels in texts.items():
            ends = boxes[tail].id, boxes[head].id
            key = way(f"{self.before}{step.id}", tail, head)
            self.links.append(Link(*ends, "then", either(labels), key))

    def link_limits(self, step: Walk, boxes: Mapping[str, Box]) -> None:
        """A line from each node with a limit to where the walk goes above the limit, unless an edge
        leads there already."""
        edges = {(link.tail, link.head) for link in self.links}
        for name in step.limits:
            target = step.exits.get(name, END)
            if name not in boxes or target not in boxes:
                continue
            pair = (boxes[name].id, boxes[target].id)
            if pair not in edges:
                key = way(f"{self.before}{step.id}", name, target)
                self.links.append(Link(*pair, "limit", "limit reached", key))

    def ends_of(self, step: Dag | Walk, parts: tuple[Box, ...]) -> tuple[list[Box], list[Box]]:
        """The boxes with which the frame of a plan or a graph begins and ends."""
        if isinstance(step, Dag):
            # The ids of boxes begin with the path of the caller, those of `feeds` do not.
            fed = {f"{self.before}{reader}" for _, reader, _ in step.feeds}
            feeding = {f"{self.before}{writer}" for writer, _, _ in step.feeds if writer}
            return (
                [box for box in parts if box.id not in fed],
                [box for box in parts if box.id not in feeding],
            )
        node = {name: self.box_of[inner.id] for name, inner in step.nodes.items()}
        into = [node[e.target] for e in step.edges if e.source == START and e.target in node]
        out = [node[e.source] for e in step.edges if e.target == END and e.source in node]
        first = [*chain.from_iterable(map(first_boxes, into))]
        last = [*chain.from_iterable(map(last_boxes, out))]
        return first, last

    def with_leaving(self, box: Box) -> Box:
        """``box`` and the boxes in it, with the edges that are tags: these are known only when the
        whole graph has been read."""
        if isinstance(box, Frame):
            return replace(box, parts=tuple(map(self.with_leaving, box.parts)))
        return replace(box, leaves=tuple(dict.fromkeys(self.leaving.get(box.id, ()))))

    def with_input(self, parts: tuple[Box, ...]) -> tuple[Box, ...]:
        """``parts`` after the box of the run's input, if a step reads from it."""
        names = dict.fromkeys(
            self.short(wire.name.split(" → ")[0])
            for wire in self.data.wires
            if not wire.source and wire.dest in self.box_of and wire.dest not in self.data.nodes
        )
        if not names:
            return parts
        whole = "".join(self.flow.dialect.stores[-1:])
        if len(names) > 1:  # a step that reads the whole input adds no name to its fields
            names.pop(whole, None)
        text = ", ".join(names)
        about = "the whole input" if text == whole else f"the input: {text}"
        does = "" if text == INPUT else text
        box = Box(id=INPUT, word=INPUT, name=INPUT, does=does, tooltip=about)
        if not any(isinstance(step, Dag) for step in every(self.flow.body)) and parts:
            self.links.insert(0, Link(INPUT, parts[0].id, "then"))
        self.box_of[INPUT] = box
        return (box, *parts)

    def values(self, parts: Sequence[Box]) -> Mapping[tuple[str, str], tuple[str, ...]]:
        """The names of the values that flow from a box to a box, by their ids."""
        around = dict(frames_around(parts))
        names: dict[tuple[str, str], dict[str, None]] = {}
        for wire in self.data.wires:
            source = self.box_of.get(wire.source or INPUT)
            reader = self.box_of.get(wire.dest)
            if source is None or reader is None or wire.dest in self.data.nodes:
                continue
            tail, head = source.id, reader.id
            if tail == head or head in around.get(tail, ()) or tail in around.get(head, ()):
                continue
            if tail in around and head in around:
                names.setdefault((tail, head), {})[self.short(wire.name)] = None
        own_values = {ends: tuple(_without_fields(texts)) for ends, texts in names.items()}
        return own_values | self.inner_values

    def short(self, names: str) -> str:
        """Names without the prefix that all paths of a plan have."""
        shown = (
            name.removeprefix(f"{self.prefix}.") if self.prefix else name
            for name in names.split(", ")
        )
        return ", ".join(map(short_path, shown))


def _without_fields(names: Iterable[str]) -> Iterable[str]:
    """The names without the fields of a value that is among them: ``rivers``, and not ``rivers, rivers →
    name``."""
    values = set(names)
    return (name for name in names if (head := name.split(" → ")[0]) == name or head not in values)


def _common_prefix(data: DataFlow, step: Dag) -> str:
    """The beginning that all paths of a plan's state share, to its last dot; empty for fewer than
    two paths."""
    fed = [name for _, _, name in step.feeds]
    outputs = [name for call in step.steps for name in data.writes(call).split(", ")] + fed
    paths = [name for name in outputs if name[1:].startswith("state")]
    shared = os.path.commonprefix(paths)  # noqa: RUF071  # of the texts, to the last dot
    return shared.rpartition(".")[0] if len(paths) > 1 else ""


def _terminal(walk: str, name: str) -> Box:
    return Box(id=f"{walk} {name}", word="end", name=name, tooltip=name)


def _policy(step: Step) -> str:
    """How a frame repeats and fails. Eight at once is the default and is left out."""
    text = how(step)
    if isinstance(step, Each) and step.limit is None:
        return re.sub(r"^8 at once( · )?", "", text)
    return text
