"""A flow as indented text: what stands where the picture cannot."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..engine.progress import Key, Progress
from ..flow.steps import Branches, Choose, Flow, Step, children
from ..flow.wiring import wires
from . import look
from .plain import cells, counted, line, padded
from .scene import how
from .tally import Tally, tallies, times, words


def outline(flow: Flow, progress: Progress | None = None) -> str:
    """Every step on a line: its state if it runs, its kind and label, what it reads and writes, its id."""
    named = list(_named(flow.body, 1))
    about = f"{line(flow.name, 80)} · {flow.language} · {counted(len(flow.body.steps), 'step')}"
    reads, tallied = _reads(flow), tallies(progress) if progress else {}
    rows = []
    for depth, part, step in named:
        said = f"{part}{look.kind(step.word).glyph} {line(step.word, 24)} {line(step.label, 60)}".rstrip()
        what = "  " * depth + " · ".join(bit for bit in (said, how(step)) if bit)
        rows.append((what, _flows(step, reads), line(step.id, 120), _state(step, progress, tallied)))
    lines = [about + (f" · {progress.status}" if progress else "")]
    if flow.description:
        lines.append(f"  {line(flow.description, 160)}")
    widths = [max((cells(row[column]) for row in rows), default=0) for column in range(3)]
    for what, data, id, state in rows:
        columns = (padded(what, widths[0]), padded(data, widths[1]), padded(id, widths[2]), state)
        lines.append("  ".join(column for column in columns if column).rstrip())
    return "\n".join(lines)


def _named(step: Step, depth: int) -> Iterator[tuple[int, str, Step]]:
    """Every step under ``step`` with its depth and what part of ``step`` it is."""
    for child in children(step):
        part = _part(step, child)
        yield depth, f"{line(part, 24)}: " if part else "", child
        yield from _named(child, depth + 1)


def _part(step: Step, child: Step) -> str:
    match step:
        case Branches(branches=parts) | Choose(cases=parts):
            named = next((name for name, part in parts.items() if part is child), None)
            if named is not None:
                return named
            return "otherwise" if isinstance(step, Choose) else "collect"
    return "collect" if getattr(step, "collect", None) is child else ""


def _reads(flow: Flow) -> dict[str, list[str]]:
    reads: dict[str, list[str]] = {}
    for wire in wires(flow):
        names = reads.setdefault(wire.dest, [])
        names += [] if wire.name in names else [wire.name]
    return reads


def _flows(step: Step, reads: dict[str, list[str]]) -> str:
    read = line(", ".join(reads.get(step.id, ())), 48)
    kept = step.target.writes() if step.target else ()
    written = line(", ".join(ref.path[-1] for ref in kept if len(ref.path) > 1), 48)
    return f"{read} → {written}".strip() if written else f"{read} →" if read else ""


def _state(step: Step, progress: Progress | None, counted: Mapping[Key, Tally]) -> str:
    row = progress.rows.get((step.id,)) if progress else None
    if row is None:
        return ""
    tally = counted.get(row.key)
    return (
        f"{words(row)}: {tally}" if tally else f"{words(row)}: {times(row)}" if row.many and row.started else words(row)
    )
