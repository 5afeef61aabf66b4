"""Makes a project folder with a foreign journal, and asks this journal everything that a user may ask."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import agf_magics as agf
from agf_magics.journal.database.file import connect
from agf_magics.journal.database.store import Store
from agf_magics.lifecycle.past import past_runs as kept_runs
from agf_magics.pictures.pages.past_page import past_html, past_text
from tests.engine import kept

CODE = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\.[a-z0-9]+(?:-[a-z0-9]+)*")

MAIN = """\
pipeline: main
steps:
- for_each:
    items: [pears, figs]
    max_parallel: 1
    on_error: continue
    do: {tool: {name: grade, args: {name: !expr item}}}
    collect: {transform: {value: pipe}}
    output: grades
- tool: {name: open_shop, args: {grades: !expr grades}, output: shop}
- tool: {name: count, args: {shop: !expr shop}}
"""
WANT = ["pears: good", "figs: good"]


class Shop:
    """A value that is stored as a pickle."""

    def __init__(self, grades: Any) -> None:
        self.grades = grades


def registry(fails: bool = False) -> agf.Registry:
    """The tools of the project's owner; ``fails``: the last one does."""
    registry = agf.Registry()
    agf.tool(lambda name: f"{name}: good", name="grade", registry=registry)
    agf.tool(Shop, name="open_shop", registry=registry)

    def count(shop: Any) -> Any:
        if fails:
            raise LookupError("no shop")
        return shop.grades

    agf.tool(count, registry=registry)
    agf.define(MAIN, registry=registry)
    return registry


OWN = cache(registry)
"""The same ones for all who add nothing to them: reading their signatures takes half of what a test asks for."""


class Runs(NamedTuple):
    """The ids of the three runs of a journal."""

    healthy: str
    """A run that ended well."""
    failed: str
    """A run of which a call failed."""
    cut: str
    """A run whose process ended in the middle."""


def make_journal(folder: Path) -> Runs:
    """A journal in ``folder`` with a run that is ok, one that failed and one whose process died."""
    with kept.journal_in(folder) as path:
        ids = Runs(
            agf.run("main", registry=OWN()).run_id,
            agf.run("main", registry=OWN(fails=True), raises=False).run_id,
            agf.run("main", registry=OWN(fails=True), raises=False).run_id,
        )
        kept.flush(path)
    with changed(path) as connection:
        where = "WHERE run=?"
        ended = "status='running', owner='1-0123456789ab', ended=NULL, output=NULL, form=NULL, error=NULL, stores=NULL"
        connection.execute(f"UPDATE runs SET {ended}, tree=NULL {where}", (ids.cut,))
        (num,) = connection.execute(f"SELECT num FROM runs {where}", (ids.cut,)).fetchone()
        connection.execute(
            "DELETE FROM records WHERE line=(SELECT max(line) FROM records WHERE line<?)", (num + (1 << 26),)
        )
        kept.seal(connection)
    return ids


@contextlib.contextmanager
def changed(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection to a journal that nobody has open; what it did is in the file itself afterwards."""
    with contextlib.closing(connect(path)) as connection:
        yield connection
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


class Answer(NamedTuple):
    """The outcome of one question to the journal."""

    what: str
    code: str
    """``ok``, or the code of the error."""
    value: Any = None


def ask_everything(ids: Runs) -> list[Answer]:
    """Everything that a person may ask of the journal of the current settings. Raises what is not an AgfError."""
    answers: list[Answer] = []

    def ask(question: str, look: Callable[[], Any]) -> None:
        try:
            answers.append(Answer(question, "ok", look()))
        except agf.AgfError as error:
            answers.append(Answer(question, error.code, str(error)))
        assert CODE.fullmatch(answers[-1].code) or answers[-1].code == "ok", answers[-1]

    ask("list", lambda: {run.run_id: run.status for run in agf.runs()})
    ask("page of runs", lambda: (repr(agf.runs()), agf.runs()._repr_html_()))
    ask("begin", kept_runs.find_unfinished)
    for name, run_id in ids._asdict().items():
        ask(f"show {name}", lambda run_id=run_id: looked_at(run_id))  # type: ignore[misc]
        ask(f"load {name}", lambda run_id=run_id: agf.runs(run_id).load())  # type: ignore[misc]
        ask(f"reuse {name}", lambda run_id=run_id: agf.run("main", registry=OWN(), reuse=run_id).output)  # type: ignore[misc]
    ask("run", lambda: agf.run("main", registry=OWN()).output)
    ask("resume failed", lambda: agf.resume(ids.failed, registry=OWN(), raises=False).output)
    ask("resume cut", lambda: agf.resume(ids.cut, registry=OWN(), raises=False).output)
    ask("resume", lambda: agf.resume(registry=OWN(), raises=False).output)
    ask("list after", lambda: {run.run_id: run.status for run in agf.runs()})
    ask("prune", lambda: kept_runs.prune(days=36_500.0, size=1))
    ask("delete", lambda: kept_runs.delete([run.run_id for run in agf.runs()]))
    return answers


def looked_at(run_id: str) -> Any:
    """All that a run of the journal shows."""
    run = agf.runs(run_id)
    past_html(run), past_text(run), repr(run.calls), repr(run.trace), run.note, run.usage, run.order
    return run.status, run.output, dict(run.stores), run.error, run.seconds, run.started, run.ended


@contextlib.contextmanager
def open_journal(folder: Path) -> Iterator[Path]:
    """The journal of ``folder`` in use, and closed afterwards whatever became of it."""
    try:
        with kept.journal_in(folder) as path:
            yield path
    finally:
        Store.close_all()
