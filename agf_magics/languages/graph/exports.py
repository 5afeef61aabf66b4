"""Reads ``exports:`` of a graph: the keys of the state that are written to files, and their
formats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import PurePosixPath, PureWindowsPath

from ...flow.protocols import Name
from ...flow.step_options import Export
from ...text.yaml.nodes import Fields, shown
from ..documents import name_at
from .expressions.reading import Reader
from .words import EXPORT


def read_exports(reader: Reader, node: Fields | None) -> Iterator[Export]:
    """The exports of a graph; errors go to ``reader``."""
    # Paths of Windows, because its files have the same name in upper and lower case.
    keys: dict[PureWindowsPath, str] = {}
    for key, value in reader.named_entries(node):
        name = key.text
        if not isinstance(value, Fields):
            hint = f"{name}: {{format: markdown, filename: {name}.md}}"
            message = f"an export must be a mapping, got {shown(value)}"
            reader.error("graph.wrong-type", message, value.span, hint)
            continue
        fields = reader.fields(EXPORT, value, value.span)
        kind = fields.get("format") or "json"
        default = Name(f"{name}{ENDINGS[kind][0]}", key.span)
        path, place = name_at(fields, "filename", default)
        if not is_inside(path):
            hint = f"filename: {name}{ENDINGS[kind][0]} is written into the folder of the export"
            reader.error(
                "graph.export-file", f"{path!r} leaves the folder of the export", place, hint
            )
        elif not path.lower().endswith(ENDINGS[kind]):
            hint = f"the endings of {kind} are {', '.join(ENDINGS[kind])}"
            reader.error("graph.export-file", f"{path!r} cannot have this ending", place, hint)
        elif (other := keys.setdefault(PureWindowsPath(path), name)) != name:
            free = (
                default.text
                if PureWindowsPath(default.text) not in keys
                else f"{name}-2{ENDINGS[kind][0]}"
            )
            hint = f"filename: {free}"
            message = f"{path!r} is already the file of the export {other!r}"
            reader.error("graph.export-file", message, place, hint)
        yield Export(name, kind, path, key.span)


ENDINGS: Mapping[str, tuple[str, ...]] = {
    "json": (".json",),
    "markdown": (".md", ".markdown"),
    "text": (".txt", ".md", ".csv", ".tsv"),
}
"""The allowed endings of an exported file, none of which belongs to a program."""


def is_inside(path: str) -> bool:
    """Whether a file name stays inside its folder, on every system."""
    posix = PurePosixPath(path)
    windows = PureWindowsPath(path)
    rooted = posix.is_absolute() or windows.drive or windows.root or "\0" in path
    return bool(path.strip()) and not rooted and ".." not in (*posix.parts, *windows.parts)
