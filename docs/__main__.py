"""``python -m docs [PART ...]``: write everything in the documentation that is made by running the code.

The parts are ``schemas`` (the JSON Schemas), ``tables`` (the generated parts of the reference), ``errors`` (the
messages in the error reference), ``lessons`` (the exercises of the notebooks, for ``%lesson``), ``llms``
(``llms.txt``) and ``notebooks`` (their outputs; ``notebooks/NAME.ipynb`` is one of them). Without arguments it writes
all. Tests compare each with the code.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests import doc_pages

from . import lessons, llms, schemas, tables

ROOT = Path(__file__).parents[1]


def write_schemas() -> None:
    for language in schemas.SCHEMAS:
        schemas.file(language).write_text(schemas.text(language), encoding="utf-8")


def write_tables() -> None:
    for page in doc_pages.pages():
        text = page.read_text(encoding="utf-8")
        if (filled := tables.fill(text)) != text:
            page.write_text(filled, encoding="utf-8")


def write_errors() -> None:
    doc_pages.main([])


def write_lessons() -> None:
    lessons.FILE.write_text(lessons.text(), encoding="utf-8")


def write_llms() -> None:
    llms.FILE.write_text(llms.text(), encoding="utf-8")


def write_notebooks(paths: Sequence[str] = ()) -> None:
    chosen = paths or [path.relative_to(ROOT).as_posix() for path in sorted(ROOT.glob("notebooks/*.ipynb"))]
    subprocess.run([sys.executable, "notebooks/execute.py", "--save", *chosen], cwd=ROOT, check=True)


PARTS: Mapping[str, Callable[[], None]] = {
    "schemas": write_schemas,
    "tables": write_tables,
    "errors": write_errors,
    "lessons": write_lessons,
    "llms": write_llms,
    "notebooks": write_notebooks,
}


def main(arguments: Sequence[str]) -> None:
    paths = [argument for argument in arguments if argument.endswith(".ipynb")]
    chosen = [argument for argument in arguments if argument not in paths]
    if not arguments:
        chosen = list(PARTS)
    if unknown := [part for part in chosen if part not in PARTS]:
        sys.exit(f"unknown part {unknown[0]!r}: the parts are {', '.join(PARTS)}, and paths of notebooks")
    for part in chosen:
        print(f"{part} ...", flush=True)
        PARTS[part]()
    if paths:
        write_notebooks(paths)


if __name__ == "__main__":
    main(sys.argv[1:])
