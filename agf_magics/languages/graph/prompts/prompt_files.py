"""Finds the prompt file for a name such as ``review`` or ``loop/review``.

`places` lists the folders in the order in which they are searched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from ....text.file_names import PROTECTED, fold, is_protected, refusal
from ....text.folder import notebook_folder, source_folder
from ....text.shorten import shorten
from ....text.source import UNUSABLE, path_error_reason
from ....text.suggestions import join_hints, suggest
from ....text.yaml.nodes import Scalar
from ..expressions.reading import Reader

NAME = re.compile(r"(?!state\.)[\w-][\w.-]*+(?>(?:/[\w-][\w.-]*+)*)")
FILE = re.compile(r"[\w./-]+\.(?:yaml|yml|txt|md)")
ENDINGS = (".yaml", ".yml", ".txt", ".md")
"""The endings of prompt files; a name without one is tried with the first two."""
MOST_FILES = 1_000
"""Files of a folder that are compared with a name that leads to none."""


class Folders(NamedTuple):
    """The folders in which prompt files are searched, by ``prompts_dir`` and ``prompts_relative``
    of a graph."""

    prompts_dir: str = ""
    relative: bool = False


def places(name: str, source_folder: Path, working: Path, folders: Folders) -> list[Path]:
    """The files that ``name`` may lead to, in order as YAMLGraph searches; the fourth place is
    ours.

    ``source_folder``: the folder of the graph; ``working``: the notebook's.
    """
    bases = [source_folder, working] if folders.relative else [working]
    searched = [base / folders.prompts_dir for base in bases if folders.prompts_dir]
    searched += [*bases[:-1], working / "prompts", source_folder / "prompts"]
    if name.endswith(ENDINGS):
        return [
            source_folder / name,
            *(folder / name for folder in searched if NAME.fullmatch(name)),
        ]
    head, _, tail = name.rpartition("/")
    stems = [*(folder / name for folder in searched), working / head / "prompts" / tail]
    return [Path(f"{stem}{ending}") for stem in stems for ending in (".yaml", ".yml")]


def find_file(reader: Reader, node: Scalar, folders: Folders) -> Path | None:
    """The file that the name leads to; None: the name is the prompt itself."""
    working = notebook_folder.path.resolve()
    folder_of_source = source_folder(node.span.source)
    root = working if folder_of_source.is_relative_to(working) else folder_of_source
    tried = dict[str, None]()
    is_hidden = False
    for path in places(node.text, folder_of_source, working, folders):
        try:
            why = refusal(path, root)
            resolved = path.resolve()
            is_hidden |= why == "protected"
            if why is None:
                if resolved.is_file():
                    return resolved
                tried[shown_path(resolved, root)] = None
        except UNUSABLE as error:
            tried[f"{shorten(str(path))} ({path_error_reason(error)})"] = None
    if is_hidden:
        message = f"{shorten(node.text)!r} is protected"
        reader.refuse("file.protected", message, node.span, PROTECTED)
    near = _near(node.text, root, tried)
    if "/" not in node.text and not FILE.fullmatch(node.text):
        message = f"{shorten(node.text)!r} is sent as the prompt itself"
        files = " or ".join(list(tried)[:4:2])  # two files: each is tried with two endings
        hint = join_hints(near, f"a prompt file is {files}; a prompt of several words is text")
        reader.warn("graph.prompt-word", message, node.span, hint)
        return None
    if not tried:
        message = f"{shorten(node.text)!r} is outside the folder"
        reader.refuse(
            "graph.prompt-file", message, node.span, "move the prompt file next to the graph"
        )
    message = f"cannot find the prompt file {shorten(node.text)!r}"
    whole = node.text.endswith(ENDINGS)
    files = ", ".join(tried) if whole else f"{', '.join([*tried][::2])}, and the same with .yml"
    hint = join_hints(near, f"searched: {files}")
    reader.refuse("graph.prompt-file", message, node.span, hint)


def _near(name: str, root: Path, tried: Iterable[str]) -> str | None:
    """The hint of the prompt file that the name may mean, in the folders that were searched."""
    folders = dict.fromkeys((root / file).parent for file in tried)
    files = (file for folder in folders for file in islice(folder.glob("*.*"), MOST_FILES))
    head, slash, last = name.rpartition("/")
    named = last.endswith(ENDINGS)
    names = {
        f"{head}{slash}{file.name if named else file.stem}"
        for file in files
        if file.suffix in ENDINGS and not is_protected(fold(file.name))
    }
    return suggest(name, sorted(names))


def shown_path(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix()
