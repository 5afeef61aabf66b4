"""A flow as indented text, wherever a picture cannot be shown."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import filterfalse
from types import MappingProxyType

from ..flow.flow import Flow, outermost
from ..flow.graph_steps import END, Dag, Walk
from ..flow.progress.progress import Progress
from ..flow.progress.rows import Key
from ..flow.session_tools import session_calls
from ..flow.step import Step
from ..flow.step_names import is_unwritten
from ..flow.steps import Branches, Choose, Repeat, Sequence, children, every
from ..text.columns import cells
from . import theme as look
from .amounts import counted
from .corners import numbers_of, taken_edges
from .plain import html, line, lines_html, padded
from .row_words import count_words, state_words, tallies
from .scene.cycles import condition_of
from .scene.data_flow import DataFlow
from .scene.step_text import answered, how
from .tally import Tally

_MOST_OPEN = 30
"""Lines up to which an outline is not folded."""
_GROUP = 50
"""Lines of one fold."""
_SHORT = 5
"""Lines below which a group in a folded outline is not folded."""
_MOST_LINES = 3_000
"""The most lines of an outline as HTML."""


def outline(
    flow: Flow,
    progress: Progress | None = None,
    answering: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """A line for each step: kind and label, reads and writes, id, and its state in a run; then a
    graph's edges. ``answering``: `called_flows.Called.answering`."""
    return "\n".join(text for _, text in _lines(flow, progress, answering))


def outline_html(
    flow: Flow,
    progress: Progress | None = None,
    answering: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """The outline as HTML. In a long one the steps inside a step, and `_GROUP` steps in a row, are
    folded."""
    (_, head), *lines = _lines(flow, progress, answering)
    shown = lines[:_MOST_LINES]
    more = len(lines) - len(shown)
    rest = (
        f"<p><em>… {counted(more, 'more line')}: "
        f"agf.draw({html(repr(line(flow.name, 80)))}).outline()</em></p>"
    )
    body = _pre(shown) if len(lines) <= _MOST_OPEN else "".join(_folded(shown))
    return f"{_pre([(0, head)])}{body}{rest if more else ''}"


def _folded(lines: list[tuple[int, str]]) -> Iterator[str]:
    """``lines``, which have a depth and a text, in folds by their depth."""
    top, _ = lines[0]
    starts = [place for place, (depth, _) in enumerate(lines) if depth <= top]
    plain: list[tuple[int, str]] = []
    for first, after in zip(starts, [*starts[1:], len(lines)], strict=True):
        if after == first + 1:
            plain.append(lines[first])
        if plain and (after > first + 1 or after == len(lines) or len(plain) == _GROUP):
            _, text = plain[0]
            title = f"{line(text, 80)} and {len(plain) - 1} more"
            yield _pre(plain) if len(plain) < _SHORT else _details(title, _pre(plain))
            plain = []
        if after > first + 1:
            _, text = lines[first]
            inside = lines[first + 1 : after]
            body = "".join(_folded(inside)) if len(inside) > _SHORT else _pre(inside)
            yield _details(text.strip(), body)


def _details(title: str, inside: str) -> str:
    return (
        f"<details><summary "
        f'style="white-space:pre;overflow:hidden;font-family:monospace">{html(title)}</summary>'
        f"{inside}</details>"
    )


def _pre(lines: Iterable[tuple[int, str]]) -> str:
    text = "\n".join(text for _, text in lines)
    return lines_html(html(text), "margin:0;white-space:pre-wrap")


def _lines(
    flow: Flow, progress: Progress | None, answering: Mapping[str, str]
) -> list[tuple[int, str]]:
    """The lines of the outline with their depths; the first one is the name."""
    shown = outermost(flow)
    steps = [part for step in shown for part in _with_roles(step, _whole(flow), 1)]
    about = f"{line(flow.name, 80)} · {flow.language} · {count_steps(flow)}"
    data = DataFlow(flow)
    tallied = tallies(progress) if progress else {}
    rows = []
    for depth, role, step in steps:
        name = line(answered(step, step.title or step.label, answering), 60)
        title = f"{role}{look.kind(step.word).glyph} {line(step.word, 24)} {name}".rstrip()
        text = "  " * depth + " · ".join(filter(None, (title, how(step))))
        rows.append((text, _flows(step, data), line(step.id, 120), _state(step, progress, tallied)))
    lines = [(0, about + (f" · {progress.status}" if progress else ""))]
    if flow.declared.description:
        lines.append((1, f"  {line(flow.declared.description, 160)}"))
    widths = [max((cells(row[column]) for row in rows), default=0) for column in range(3)]
    for (depth, _, _), (*texts, state) in zip(steps, rows, strict=True):
        columns = [padded(text, width) for text, width in zip(texts, widths, strict=True)]
        lines.append((depth, "  ".join(filter(None, (*columns, state))).rstrip()))
    return [
        *lines,
        *((1 if text.startswith("  edges") else 2, text) for text in _edges(flow, progress)),
    ]


def count_steps(flow: Flow) -> str:
    """``3 steps``, ``5 nodes``, ``2 calls``."""
    noun = {Dag: "call", Walk: "node"}.get(type(_whole(flow)), "step")
    return counted(sum(not is_unwritten(step) for step in outermost(flow)), noun)


def _whole(flow: Flow) -> Step:
    """The parent of the steps that are shown: the plan or the graph if the flow has nothing
    else."""
    return flow.body if outermost(flow) is flow.body.steps else flow.body.steps[0]


def _with_roles(step: Step, parent: Step, depth: int) -> Iterator[tuple[int, str, Step]]:
    """``step`` and every step under it, each with its depth and its role in its parent."""
    if not isinstance(step, Sequence):
        role = _role(parent, step)
        yield depth, f"{line(role, 40)}: " if role else "", step
        depth += 1
    # The other steps of a model's session are not the author's.
    parts = session_calls(step) if isinstance(step, Repeat) and step.session else children(step)
    for child in filterfalse(is_unwritten, parts):
        yield from _with_roles(child, step, depth)


def _edges(flow: Flow, progress: Progress | None) -> Iterator[str]:
    """A graph's edges with their conditions and the rounds after which they were taken."""
    numbers = taken_edges(progress.taken_edges) if progress else {}
    for walk in (step for step in every(flow.body) if isinstance(step, Walk)):
        yield "  edges:"
        for edge in walk.edges:
            way = f"    {line(edge.source, 40)} → {line(edge.target, 40)}"
            rounds = numbers.get((walk.id, edge.source, edge.target))
            taken = f"({numbers_of(rounds).words})" if rounds else ""
            yield "  ".join(filter(None, (way, condition_of(edge), taken)))
        for name, limit in walk.limits.items():
            target = walk.exits.get(name, END)
            rounds = numbers.get((walk.id, name, target))
            way = f"    {line(name, 40)} → {line(target, 40)}  after {limit:,} times"
            yield f"{way}  ({numbers_of(rounds).words})" if rounds else way


def _role(step: Step, child: Step) -> str:
    """What ``child`` is in the step around it: the name of a branch or a node, the condition of a
    case."""
    match step:
        case Branches(branches=branches):
            names = (name for name, branch in branches.items() if branch is child)
            return next(names, "collect")
        case Choose(cases=cases, conditions=conditions):
            labels = (label for label, case in cases.items() if case is child)
            label = next(labels, None)
            return conditions.get(label, label) if label is not None else "otherwise"
        case Walk(nodes=nodes):
            name = next((name for name, node in nodes.items() if node is child), "")
            return "" if name == child.label else name
    return "collect" if getattr(step, "collect", None) is child else ""


def _flows(step: Step, data: DataFlow) -> str:
    """``ctx.words → lengths``: what a step reads and writes."""
    reads = line(data.reads(step), 48)
    writes = line(data.writes(step), 48)
    if writes:
        return f"{reads} → {writes}".strip()
    return f"{reads} →" if reads else ""


def _state(step: Step, progress: Progress | None, counted: Mapping[Key, Tally]) -> str:
    """The state of a step in a run, with its counts."""
    row = progress.rows.get((step.id,)) if progress else None
    if row is None:
        return ""
    tally = counted.get(row.key)
    counts = ""
    if tally:
        counts = str(tally)
    elif (row.many and row.started) or row.times > 1:
        counts = count_words(row)
    return f"{state_words(row)}: {counts}" if counts else state_words(row)
