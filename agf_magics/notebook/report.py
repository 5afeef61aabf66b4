"""A run, or the comparison of two runs, as one HTML file that opens without a kernel.

The file has the explorer with the answers to all its requests, and the same answers as plain HTML: for a
reader without scripts, and for paper. So both show the same values, cut and masked as in the explorer.
The content policy of the page allows one script, by its digest, and no connection. Every text is written
as text; HTML of a value, such as a data frame's, is not in the file.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from ..engine.runner import clock
from ..flow.progress.rows import Row
from ..flow.steps import Invoke
from ..journal.secrets.masking import LEAST, Secrets
from ..lifecycle.past.calls_of_run import calls_of
from ..lifecycle.past.comparison_tables import Comparison
from ..lifecycle.past.named_run import find_named
from ..lifecycle.past.past_run import PastRun
from ..lifecycle.run_internals import linked_flow
from ..lifecycle.runs.run import Run
from ..lifecycle.scoring.table_comparison import TableComparison
from ..pictures import theme as look
from ..pictures.amounts import counted
from ..pictures.diagram import Diagram
from ..pictures.layout.graphviz import NoPicture
from ..pictures.pages.parts import chip, header_html, shown_status
from ..pictures.pages.updates import Updates, describe_tree
from ..pictures.pages.wire import ColumnRow, DroppedRow, StepRow, TableRow
from ..pictures.plain import html, line, plain
from ..pictures.row_words import does, listed, shown_name, took
from ..pictures.text_tables import table_html
from ..pictures.values import shown_html
from ..text.diagnostics import AgfError
from ..text.replaced_file import replaced_file
from ..version import __version__
from .display.conversation import message_html
from .explorer.calls import PAGE, whole_calls
from .explorer.evaluations import evaluation_batches
from .explorer.replies import reply_to
from .explorer.request_types import AnyRun, Json
from .explorer.requests import requests_of
from .explorer.table import FAILED, ROWS_SHOWN

MOST_RECORDED = 10_000_000
"""The most characters of the recorded values of a report, and of the steps on its plain page."""
MOST_PAGES = 20
"""The most pages of calls of one step."""
LONGEST_COPIED = 20_000
"""The most characters of a value that can be copied from a report."""
MOST_DEFINITION = 200_000
"""The most characters of a definition."""
MOST_MOMENTS = 200
"""The most moments of the state over time."""

MOST_LISTED_ROWS = 200
"""The most rows of a run over a table, and the most failed rows."""

MARK = "agf-report"
"""The class of the element over which the script draws, and the name of the run in its data."""
REPORT_FILES = Path(__file__).parent / "browser"
"""The folder of the script and the style of a report."""


def report(
    run: Run | PastRun | Comparison | TableComparison | str,
    path: str | Path,
    *,
    most: int = MOST_RECORDED,
) -> Path:
    """Write a run, or the comparison of two, as one HTML file that opens without a kernel and
    without a connection, and return its path.

    It has the explorer, the picture, the recorded values as the explorer shows them, without
    secrets, and all of it once more as a page that needs no scripts and can be printed. A run that
    has not ended is written as it is now.

    Parameters:

    - ``run``: a `Run`, a `PastRun`, what names a run, or a comparison: what ``run.compare(other)``
      or ``agf.compare_over(first, other)`` returns. Required.
    - ``path``: the file; an existing one is replaced. Required.
    - ``most``: the largest number of characters of the recorded values. What is left out is named
      in the file. Default 10000000.

    Raises DefinitionError if there is no such run, or if the file cannot be written.
    """
    if isinstance(run, str):
        run = find_named(run)
    page = (
        _comparison_page(run)
        if isinstance(run, Comparison | TableComparison)
        else _run_page(run, most)
    )
    target = Path(path)
    with replaced_file(target) as file:
        file.write(page)
    return target


class ReportAnswers:
    """The answers to requests of the explorer, as long as they are at most ``most`` characters."""

    def __init__(self, run: AnyRun, most: int) -> None:
        self._run = run
        self._budget = most
        self._requests = requests_of(run)
        self.replies: dict[str, Json] = {}
        """The answers, by `key_of` of the request."""
        self._calls: dict[int, Json] = {}
        """Calls in full, by their numbers. They are read once: a fan-out and the steps in it have the
        same calls."""
        self.left_out = 0
        """The number of answers that had no room."""

    def ask(self, name: str, **arguments: Any) -> Any:
        """The answer to a request, which the file has from now on; None if there is no answer or no room
        for it."""
        key = key_of(name, arguments)
        if key in self.replies:
            return self.replies[key].get("value")
        return self._keep(name, key, reply_to({"do": name, "with": arguments}, self._requests))

    def ask_whole_picture(self, **arguments: Any) -> None:
        """Ask for the picture without folded frames: in the file nobody could unfold them."""
        request = {"do": "picture", "with": arguments | {"folded": []}}
        self._keep("picture", key_of("picture", arguments), reply_to(request, self._requests))

    def ask_calls(self, step: str, rows: Sequence[Json]) -> None:
        """Ask for each of these calls of a page in full: one answer has all of them."""
        missing = [row for row in rows if row["number"] not in self._calls]
        calls = calls_of(self._run)
        if missing and calls is not None:
            self._calls |= whole_calls(calls, missing)
        for row in rows:
            key = key_of("call", {"step": step, "number": row["number"]})
            answer = self._calls.get(row["number"])
            if answer is not None and key not in self.replies:
                self._keep("call", key, {"ok": True, "value": answer})

    def ask_evaluations(self, rows: Sequence[Row]) -> None:
        """Ask for the evaluations of these steps: one evaluation of the run has all of them."""
        if not rows or calls_of(self._run) is None:
            return
        try:
            pages_of_rows = list(evaluation_batches(self._run, rows))
        except AgfError:  # the explorer says so for each step
            return
        for row, pages in pages_of_rows:
            for number, page in enumerate(pages[:MOST_PAGES]):
                key = key_of("evaluations", {"step": row.id, "offset": number * PAGE})
                if self._keep("evaluations", key, {"ok": True, "value": page}) is None:
                    break

    def _keep(self, name: str, key: str, reply: Json) -> Any:
        """Keep a reply without secrets, if there is room, and return its value; else None."""
        answer = {part: reply[part] for part in ("ok", "value", "why") if part in reply}
        if name == "step" and reply["ok"]:
            # Without a kernel no elements are listed and no call is opened, so there are no buttons.
            answer["value"] = {**answer["value"], "elements": False, "opens": False}
        answer = masked(self._run, answer)
        size = len(json.dumps(answer, ensure_ascii=False))
        if size > self._budget or (name == "text" and size > LONGEST_COPIED):
            # A text for *Copy* that is left out is not missed: the page shows its beginning.
            self.left_out += name != "text"
            return None
        self._budget -= size
        self.replies[key] = answer
        return answer.get("value")

    def pages(
        self, name: str, size: int = PAGE, most: int = MOST_PAGES, **arguments: Any
    ) -> Iterator[Json]:
        """The pages of a list: calls of a step, evaluations or rows. ``size``: the entries of a page.
        ``most``: the most pages."""
        for number in range(most):
            page = self.ask(name, offset=number * size, **arguments)
            if page is None:
                return
            yield page
            if (number + 1) * size >= page["total"]:
                return

    def calls(self, step: str, failed: bool = False) -> list[Json]:
        """The pages of the calls of a step."""
        return list(self.pages("calls", step=step, failed=failed, index=[]))

    def table(self) -> list[Json]:
        """The first rows of a run over a table, page by page, then its first failed rows."""
        pages = list[Json]()
        most_pages = MOST_LISTED_ROWS // ROWS_SHOWN
        for only, which in (("", "rows"), (FAILED, "failed rows")):
            order: Json = {"sort": "", "down": False, "only": only, "below": None}
            for page in self.pages("table", ROWS_SHOWN, most_pages, **order):
                pages.append(page)
                # The reply that is in the file is changed, not a copy.
                page["before"] = ""  # nothing is compared without a kernel
                total = page["total"]
                if total > MOST_LISTED_ROWS:
                    page["total"] = MOST_LISTED_ROWS
                    note = f"The first {MOST_LISTED_ROWS} of {total:,} {which} are in this report."
                    page["note"] = "; ".join(filter(None, (note, page["note"])))
        return pages

    def moments(self) -> bool:
        """Ask for the first moments of the run; returns whether the run has any."""
        moments = self.ask("moments")
        if not moments:
            return False
        if moments["total"] > MOST_MOMENTS:
            # The reply that is in the file is changed, not a copy.
            moments["total"] = MOST_MOMENTS
            moments["note"] += f" Only the first {MOST_MOMENTS} moments are in this report."
        for number in range(moments["total"]):
            # The page asks for all changes since the beginning, or for those of one moment.
            for since in {0, max(0, number - 1)}:
                self.ask("moment", at=number, since=since)
        return bool(moments["total"])


def key_of(name: str, arguments: Mapping[str, Any]) -> str:
    """The name of a request in the file, as the script of the page writes it."""
    parts = [name, *sorted([key, value] for key, value in arguments.items())]
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))


def masked(run: AnyRun, value: Any) -> Any:
    """``value`` without the secrets of the run. Recorded values are masked already; this masks
    definitions, labels and pictures. A text shorter than `LEAST` is left: it is a word of the protocol or
    was masked as a value."""
    match value:
        case str():
            return run.secrets.text(value) if len(value) >= LEAST else value
        case list() | tuple():
            return [masked(run, part) for part in value]
        case dict():
            return {key: masked(run, part) for key, part in value.items()}
    return value


# --- the page ---


def _run_page(run: AnyRun, most: int) -> str:
    """The file of a run: the data of the explorer, and the plain page."""
    answers = ReportAnswers(run, most)
    plain_page = "".join(_plain_page(run, answers, most))
    _ask_for_explorer(run, answers)
    has_moments = answers.moments()
    missing = "Not in this report"
    if answers.left_out:
        missing += f", which has at most {most:,} characters of recorded values"
        number = counted(answers.left_out, "value")
        note = f"{missing}: {number} left out. agf.report(…, most=…) keeps more."
        plain_page += f"<p><strong>{html(note)}</strong></p>"
    tree = describe_tree(run.progress)
    # Not the ids: the page asks by them.
    steps: list[StepRow] = tree["rows"]
    rows = [row._replace(name=masked(run, row.name), does=masked(run, row.does)) for row in steps]
    update = masked(run, Updates(run.progress).complete(clock()))
    # `Channel` adds n, hears and can to an update. A file does not change and takes no answers, so
    # it is not live and has no questions, even if the run goes on.
    update |= {"n": 0, "hears": True, "live": False, "questions": []}
    update["can"] = ["moments"] if has_moments else []
    shown = {"tree": tree | {"rows": rows}, "update": update, "hears": True, "draw": False}
    data = {
        "runs": {MARK: shown | {"id": line(run.run_id, 90), "notices": False, "fixed": True}},
        "answers": answers.replies,
        "missing": f"{missing}: open the run in a notebook.",
    }
    title = f"{line(run.name, 80)} · {look.state(shown_status(run.progress)).word}"
    explorer = f'<div id="agf-explorer"><div class="{MARK}"></div></div>'
    return _document(title, f'{explorer}<main id="agf-page">{plain_page}</main>', data)


def _comparison_page(comparison: Comparison | TableComparison) -> str:
    # A new `Secrets` masks the secrets of the environment.
    shown = Secrets().text(comparison._repr_html_()).replace("<details>", "<details open>")
    if isinstance(comparison, TableComparison):  # rows of a live run are not masked yet
        for table in (comparison.first, comparison.other):
            shown = table.run.secrets.text(shown)
    first, other = comparison.runs
    title = f"{line(first, 90)} compared with {line(other, 90)}"
    return _document(title, f'<main id="agf-page">{shown}</main>')


def _document(title: str, body: str, data: Json | None = None) -> str:
    """The text of the file. ``data``: the data for the script; None for a file without a script."""
    scripts = ""
    policy = "'none'"
    button = ""
    if data is not None:
        from .explorer.widget_model import later_script, script

        later = later_script().replace("export default ", "const laterViews = ")
        start = (REPORT_FILES / "report.js").read_text(encoding="utf-8")
        code = f"(() => {{\n{script()}\n{later}\n{start}}})();"
        digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
        policy = f"'sha256-{digest}'"
        # A data block ends at the first `</script`, wherever it is.
        written = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
        block = f'<script type="application/json" id="agf-answers">{written}</script>'
        scripts = f"{block}<script>{code}</script>"
        button = '<button type="button" id="agf-toggle" hidden>Show everything on one page</button>'
    style = (REPORT_FILES / "report.css").read_text(encoding="utf-8")
    allowed = f"default-src 'none'; script-src {policy}; style-src 'unsafe-inline'; img-src data:"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f"<meta http-equiv=\"Content-Security-Policy\" content=\"{allowed}; base-uri 'none'; form-action 'none'\">\n"
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f'<meta name="referrer" content="no-referrer">\n<title>{html(title)}</title>\n'
        f"<style>\n{style}</style>\n</head>\n<body>\n"
        f'<div class="top"><h1>{html(title)}</h1>{button}</div>\n{body}\n'
        f'<p class="dim">agf-magics {__version__}</p>\n{scripts}\n</body>\n</html>\n'
    )


def _ask_for_explorer(run: AnyRun, answers: ReportAnswers) -> None:
    """Ask for all that only the explorer shows, the least important last: room may run out."""
    rows = list(run.progress.rows.values())
    # The key of a row without its last part is the key of the flow in which it stands.
    flows = dict.fromkeys(row.key[:-1] for row in rows)
    for flow in [list(key) for key in flows] or [[]]:
        answers.ask_whole_picture(flow=flow, direction="auto")
    for direction in ("TB", "LR"):
        answers.ask_whole_picture(flow=[], direction=direction)
    for row in rows if calls_of(run) is not None else ():
        if row.many or row.elements or row.again:
            answers.ask("spans", step=row.id)
            for page in (*answers.calls(row.id), *answers.calls(row.id, failed=True)):
                answers.ask_calls(row.id, page["rows"])
    answers.ask_evaluations(
        [row for row in rows if (answers.ask("step", step=row.id) or {}).get("evaluates")]
    )
    answers.ask("text")
    for row in rows:
        answers.ask("text", step=row.id)
    for number in range(len((answers.ask("run") or {"stores": ()})["stores"])):
        answers.ask("text", number=number)


def _plain_page(run: AnyRun, answers: ReportAnswers, most: int) -> Iterator[str]:
    """All recorded values as plain HTML, in parts. ``most``: the most characters of the steps."""
    now = run.progress.ended if run.progress.ended is not None else clock()
    yield header_html(run.progress, line(run.run_id, 90), now=now)
    yield f'<p class="dim">started {_started(run):%Y-%m-%d %H:%M:%S}</p>'
    about = answers.ask("run")
    if about is None:
        return
    yield f"<p><em>{html(about['note'])}</em></p>" if about["note"] else ""
    yield _error(about, told := set[str]())
    yield from _table(answers.table()) if about["table"] else ()
    yield from _titled(about, "output", "input", level="h2")
    yield f"<h2>Picture</h2>{_picture(run)}<h2>Steps</h2>"
    size = 0
    for row in listed(run.progress):
        step = "".join(_step(row, answers, told))
        size += len(step)
        if size > most:
            answers.left_out += 1
            continue
        yield f'<section style="margin-left:{min(row.depth, 12) * 1.2:.1f}em">{step}</section>'
    for number, (name, _) in enumerate(about["stores"]):
        yield "<h2>Stores</h2>" if not number else ""
        yield f"<h3><code>{html(name)}</code></h3>{_value(answers.ask('store', number=number))}"
    for why, count, places in map(DroppedRow._make, about["dropped"]):
        yield f"<h2>Failed and dropped</h2><p>{count:,} × {html(why)}</p>"
        yield f"<p><code>{html(', '.join(places))}</code></p>"
    for warning in about["warnings"]:
        yield f"<h2>Warning</h2><pre>{html(warning)}</pre>"
    text = run.secrets.text(run.flow.source.text)
    yield f"<h2>Definition</h2><pre>{html(plain(text, MOST_DEFINITION))}</pre>"


def _table(pages: Sequence[Json]) -> Iterator[str]:
    """The rows of all pages in one table."""
    rows = dict[int, dict[tuple[str, str], str]]()
    looks = dict[tuple[str, str], str]()
    for page in pages:
        if not page["rows"]:
            continue
        first, *others = map(ColumnRow._make, page["columns"])
        columns = [first, ColumnRow("", page["label"], ""), *others]
        for column in columns:
            looks[column[:2]] = looks.get(column[:2]) or column.look
        for place, _, (number, *texts), label in map(TableRow._make, page["rows"]):
            keys = (column[:2] for column in columns)
            rows[place] = dict(zip(keys, (number, label, *texts), strict=True))
    # A column that no row fills is left out.
    filled = [column for column in looks if any(row.get(column) for row in rows.values())]
    cells = (tuple(row.get(column, "") for column in filled) for _, row in sorted(rows.items()))
    names = tuple(text for _, text in filled)
    shown_looks = [looks[column] for column in filled]
    yield f"<h2>Rows</h2>{table_html(names, tuple(cells), is_whole=True, looks=shown_looks)}"
    for note in dict.fromkeys(page["note"] for page in pages):
        yield f"<p>{html(note)}</p>"


def _started(run: AnyRun) -> datetime:
    if isinstance(run, PastRun):
        return run.started
    since = clock() - run.progress.when if run.progress.when is not None else 0.0
    return datetime.now() - timedelta(seconds=since)


def _picture(run: AnyRun) -> str:
    """The picture as an image, in which no script could act on the page."""
    drawn = Diagram(run.flow, run.progress, callees=linked_flow(run).callees)
    try:
        picture = run.secrets.text(drawn.svg())
    except NoPicture as error:
        outlined = run.secrets.text(drawn.outline())
        return f"<pre>{html(plain(outlined, MOST_DEFINITION))}</pre><p>{html(error.diagnostic.message)}</p>"
    data = base64.b64encode(picture.encode()).decode()
    name = html(f"The flow {line(run.name, 80)}")
    return f'<img alt="{name}" src="data:image/svg+xml;base64,{data}">'


def _step(row: Row, answers: ReportAnswers, told: set[str]) -> Iterator[str]:
    """A step: what came of it, its conversation or its calls, and what went in, as in the explorer.
    ``told``: the errors and the conversations that stand above it; its own are added."""
    facts = answers.ask("step", step=row.id)
    kind = look.kind(row.word)
    title = [line(shown_name(row), 200), line(does(row), 200), line(row.id, 200)]
    name, what, id = map(html, masked(answers._run, title))
    shown = look.state(row.look)
    state = chip(shown, facts["words"] if facts else f"{shown.mark} {shown.word}")
    yield f"<h3>{state} {kind.glyph} {name} <span class=dim>{what} <code>{id}</code></span></h3>"
    if facts is None:
        yield "<p>left out</p>"
        return
    parts = (took(row), facts["counted"], facts["why"], facts.get("note"))
    summary = " · ".join(filter(None, parts))
    yield f'<p class="dim">{html(summary)}</p>' if summary else ""
    yield _error(facts, told)
    yield from _titled(facts, "output", level="h4")
    if (id := facts["session"]) and (session := answers.ask("session", step=id)) is not None:
        if id not in told:
            yield f"<h4>Conversation</h4>{''.join(map(message_html, session['messages']))}"
            told.add(id)
        for numbers, *_ in session["sessions"]:
            if numbers != session["index"]:
                answers.ask("session", step=id, index=numbers)
    if "printed" in facts:
        yield f"<h4>Printed</h4><pre>{html(facts['printed'])}</pre>"
    if "attempts" in facts:
        yield f"<h4>Attempts</h4>{_calls(facts['attempts'])}"
    if facts["many"] and not facts["session"] and not facts.get("note"):
        yield from _calls_of_step(row, answers.calls(row.id))
    yield from _titled(facts, "input", level="h4")


def _calls_of_step(row: Row, pages: Sequence[Json]) -> Iterator[str]:
    """The calls on these pages. Nothing for a fan-out: its calls are listed with the steps in it."""
    if not pages or not isinstance(row.step, Invoke):
        return
    calls = [call for page in pages for call in page["rows"]]
    more = pages[0]["total"] - len(calls)
    yield f"<h4>Calls</h4>{_calls(calls)}" if calls else ""
    yield f"<p>… {counted(more, 'more call')}</p>" if more > 0 else ""


def _titled(facts: Json, *names: str, level: str) -> Iterator[str]:
    """The values that ``facts`` has under these names, each below its name."""
    for name in names:
        if name in facts:
            yield f"<{level}>{name.capitalize()}</{level}>{_value(facts[name])}"


def _error(facts: Json, told: set[str]) -> str:
    """The error, unless it is among those ``told`` already, to which it is added."""
    first = facts.get("error", "").partition("\n")[0]  # without its place: a past call has none
    if first in told:
        return '<p class="dim">its error stands above</p>'
    told |= {first} - {""}
    return f'<pre class="error">{html(facts["error"])}</pre>' if first else ""


def _calls(calls: Sequence[Json]) -> str:
    columns = ("call", "", "took", "output or error", "input")
    rows = list[tuple[str, ...]]()
    for call in calls:
        again = f" (attempt {call['attempt']})" if call["attempt"] > 1 else ""
        outcome: str = call["what"]
        state = {"failed": "✗ failed", "finished": "✓ ok"}.get(outcome, outcome)
        rows.append((call["at"] + again, state, call["took"], call["output"], call["input"]))
    return table_html(columns, tuple(rows), is_whole=True)


def _value(value: Json | None) -> str:
    """A value of the explorer as HTML, all of it open."""
    return "<p>left out</p>" if value is None else shown_html(value, is_whole=True)
