"""Finds the blocks of a text that an editor can fold: the lines that are indented below a line."""

from __future__ import annotations

from .text_group import WrittenFile


def folds_of(file: WrittenFile) -> list[tuple[int, int]]:
    """The first and the last line of each block that is indented below a line."""
    if file.read is None:
        return []
    folds = list[tuple[int, int]]()
    open_blocks = list[tuple[int, int]]()
    last = 0
    # A line `---` ends all blocks, so a further one is put below the text.
    for number, line in enumerate([*file.text.split("\n"), "---"]):
        bare = line.lstrip(" ")
        if not bare.strip():
            continue
        column = len(line) - len(bare) if not line.startswith("---") else -1
        while open_blocks and open_blocks[-1][0] >= column:
            _, first = open_blocks.pop()
            if last > first:
                folds.append((first, last))
        open_blocks.append((column, number))
        last = number
    return sorted(folds)
