"""The rows of messages to the page: the kernel and the script use the same names for their fields."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import agf_magics
from agf_magics.notebook.explorer.widget_model import LATER_SCRIPTS, SCRIPTS, script
from agf_magics.pictures.pages.wire import WIRE, fields_of, wire_script

BROWSER = Path(agf_magics.__file__).parent / "notebook" / "browser"
SOURCES = {path.stem: path.read_text(encoding="utf-8") for path in sorted(BROWSER.glob("*.js"))}
FIELDS = {row.__name__: fields_of(row) for row in WIRE}

PLACES = re.compile(r'\b(\w+) = placesOf\("(\w+)"\)')
"""The name in the script for the places of a row, as in ``row[Now.corner]``."""
VARIABLES = {"look": "StateRow"}
"""The variables that hold a row as an object, in all files."""
FUNCTIONS = {"badgeOf": "StaleRow"}
"""The functions that take a row as an object."""
NAMED = re.compile(r'(?:const (\S.*?) = )?named\("(\w+)", (?:[\w.]+|\[[^\]]*\]+)\)(?:\.map\(([^=]*)=>)?')
"""The forms of the script that give names to a row: the variable or the pattern, the row, and the parameters of a
function."""
TAKEN = re.compile(r"\{ ([^}]*) \}")
"""The fields that a pattern takes of a row."""


def taken(pattern: str) -> list[str]:
    """The names of the fields in ``{ number: id, ...mark }``."""
    (inside,) = TAKEN.findall(pattern)
    names = [part.split(":")[0].strip() for part in inside.split(",")]
    return [name for name in names if not name.startswith("...")]


def uses(sources: dict[str, str]) -> list[tuple[str, str, str]]:
    """The file, the row and the field of each use in the script. A use with invisible fields fails."""
    uses_found = []
    places = dict(PLACES.findall("\n".join(sources.values())))
    for file, source in sources.items():
        for name, row in (places | VARIABLES).items():
            uses_found += [(file, row, field) for field in re.findall(rf"(?<![\w.]){name}\.(\w+)", source)]
        for name, row in FUNCTIONS.items():
            declared = re.findall(rf"function {name}\((.*?)\)", source)
            uses_found += [(file, row, field) for pattern in declared for field in taken(pattern)]
        for name, row, pattern in NAMED.findall(source):
            if row in VARIABLES.values():
                continue
            patterns = [pattern or name]
            if not TAKEN.search(patterns[0]):  # for a variable, each function takes the fields that it needs
                patterns = re.findall(rf"(?<![\w.]){name}\.(?!length)\w+\(([^=]*)=>", source)
                uses_found += [
                    (file, row, field) for field in re.findall(rf"(?<![\w.]){name}\[[^\]]*\]\.(\w+)", source)
                ]
            assert patterns, f"{file}: {row} is not used"
            uses_found += [(file, row, field) for declared_pattern in patterns for field in taken(declared_pattern)]
    return uses_found


def test_the_script_has_the_names_of_every_row() -> None:
    (line,) = [line for line in script().split("\n") if line.startswith("const WIRE = ")]
    assert line == wire_script()
    assert json.loads(line.removeprefix("const WIRE = ").removesuffix(";")) == FIELDS


def test_the_script_uses_only_fields_that_the_kernel_sends() -> None:
    wrong = [(file, row, field) for file, row, field in uses(SOURCES) if field not in FIELDS.get(row, ())]
    assert wrong == []


def test_every_field_that_the_kernel_sends_is_used_by_the_script() -> None:
    sent = {(row, field) for row, fields in FIELDS.items() for field in fields}
    assert sent - {(row, field) for _, row, field in uses(SOURCES)} == set()


@pytest.mark.parametrize(
    "change", [("{ numbers, calls, failed,", "{ numbers, calls, faild,"), ("Now.corner", "Now.korner"),
               ("{ path, first, other }", "{ path, first, second }")]
)  # fmt: skip
def test_a_misspelled_field_is_found(change: tuple[str, str]) -> None:
    changed = {name: source.replace(*change) for name, source in SOURCES.items()}
    assert changed != SOURCES
    assert [field for _, row, field in uses(changed) if field not in FIELDS[row]]


def test_no_script_uses_the_number_of_a_place() -> None:
    """No file uses a number as the place of a row's field."""
    assert {*SCRIPTS, *LATER_SCRIPTS} <= set(SOURCES)
    by_number = {name: re.findall(r"\brow\[\d\]|\bmark\[\d\]|\bbar\[\d\]", source) for name, source in SOURCES.items()}
    assert {name: uses_found for name, uses_found in by_number.items() if uses_found} == {}


def test_a_row_is_sent_as_a_list_of_its_fields() -> None:
    for row in WIRE:
        values: list[Any] = list(range(len(row._fields)))
        assert json.loads(json.dumps(row._make(values))) == values


def test_no_two_parts_of_the_script_have_a_name_in_common() -> None:
    """A report has all parts in one script, which the browser refuses as a whole if a name is declared twice."""
    declared = re.compile(
        r"^(?:const|let|class|(?:async )?function) ([\w$]+)|^(?:const|let) \[([^\]]*)\]", re.MULTILINE
    )
    text = "\n".join(SOURCES[part] for part in (*SCRIPTS, *LATER_SCRIPTS))
    names = [name for one, several in declared.findall(text) for name in (one, *several.split(", ")) if name]
    assert len(names) > 100
    assert [name for name, count in Counter(names).items() if count > 1] == []
