"""Definitions that the tests draw, and a run of one of them, made from events by hand."""

from __future__ import annotations

from collections.abc import Iterable

import agf_magics as agf
from agf_magics.flow.progress import events as ev
from agf_magics.flow.progress.progress import Progress
from agf_magics.pictures.pages import parts as page
from agf_magics.pictures.problems import error_html, warnings_html
from agf_magics.text.source import Source

REVIEW = """\
pipeline: review_and_report
steps:
- agent: {prompt: "Review {ctx.doc}.", output: review}
- transform: {value: "review and 'OK' or 'NO'", output: verdict}
- tool: {name: file__write, args: {path: verdict.txt, content: !expr verdict}, output: written}
"""

DIGEST = """\
pipeline: digest
description: Every kind of frame, one in another.
steps:
- tool: {name: fetch, args: {url: !expr ctx.url}, output: feed}
- for_each:
    over: ctx.feed
    max_parallel: 4
    on_error: retry(2)
    do:
      parallel:
        on_error: continue
        branches:
          topic: {agent: {prompt: "What is {ctx.feed} about?"}}
          "two words": {tool: {name: detect}}
        collect: {transform: {value: "pipe"}}
    collect: {transform: {value: "filter(pipe, r -> r.topic != '')"}}
    output: rows
- fold: {over: ctx.rows, init: "0", do: {transform: {value: "acc + (item.topic and 1 or 0)"}}, output: total}
- match:
    on: "total > 10"
    cases:
      "True": {pipeline: publish, pass: [rows, total]}
      "False": {pipeline: hold_back, pass: [rows]}
    default: {pipeline: ask_editor}
    output: verdict
- tool: {name: file__write, args: {path: !expr ctx.path, content: !expr verdict}}
"""


ETL = """\
pipeline: nightly_etl
steps:
- tool: {name: connect_warehouse, args: {dsn: !expr ctx.dsn}, output: warehouse}
- tool: {name: read_watermark, args: {table: orders}, output: since}
- tool: {name: extract_all, args: {since: !expr ctx.since}, output: raw}
- tool: {name: deduplicate, args: {rows: !expr raw.orders}, output: orders}
- tool: {name: fetch_rates, args: {day: !expr ctx.day}, output: rates}
- for_each:
    over: ctx.orders
    on_error: continue
    do: {tool: {name: normalise_currency, args: {row: !expr item, rates: !expr ctx.rates}}}
    collect: {transform: {value: pipe}}
    output: normal
- tool: {name: join_customers, args: {orders: !expr ctx.normal, customers: !expr raw.customers}, output: joined}
- tool: {name: join_products, args: {orders: !expr ctx.joined, products: !expr raw.products}, output: joined2}
- tool: {name: subtract_refunds, args: {orders: !expr ctx.joined2, refunds: !expr raw.refunds}, output: net}
- tool: {name: validate_rows, args: {rows: !expr ctx.net}, output: valid}
- transform: {value: "filter(valid, r -> r.v >= 0)", output: good}
- transform: {value: "filter(valid, r -> r.v < 0)", output: bad}
- tool: {name: quarantine, args: {rows: !expr ctx.bad}}
- tool: {name: aggregate_daily, args: {rows: !expr ctx.good}, output: daily}
- tool: {name: aggregate_weekly, args: {rows: !expr ctx.daily}, output: weekly}
- tool: {name: detect_anomalies, args: {rows: !expr ctx.weekly}, output: odd}
- tool: {name: write_parquet, args: {rows: !expr ctx.daily, path: daily.parquet}, output: file}
- tool: {name: load_table, args: {rows: !expr ctx.daily, table: orders_daily}}
- tool: {name: refresh_views, args: {table: orders_daily}}
- tool: {name: run_tests, args: {table: orders_daily}, on_error: continue}
- tool: {name: update_watermark, args: {table: orders}}
- transform: {value: "'Loaded ' + text(count(daily)) + ' days'", output: message}
- tool: {name: notify_slack, args: {text: !expr ctx.message}}
- tool: {name: archive, args: {path: daily.parquet}}
"""


def load(text: str) -> agf.Flow:
    return agf.load(text)


def long(steps: int) -> str:
    """A pipeline of tools in sequence, each of which reads what the previous one wrote."""
    lines = ["pipeline: long", "steps:", "- tool: {name: t0, output: v0}"]
    for i in range(1, steps):
        lines.append(f"- tool: {{name: t{i}, args: {{x: !expr ctx.v{i - 1}}}, output: v{i}}}")
    return "\n".join(lines)


SOURCE = Source("In[6] %%pipeline", 'steps:\n- transform: {value: "acc + item.scor"}\n', 2)
MISSING = agf.StepError(
    agf.Diagnostic("r1.missing-path", "no field 'scor' in item", SOURCE.span(36, 40), "did you mean score?"),
)


def progress_of(flow: agf.Flow, events: Iterable[ev.Event]) -> Progress:
    progress = Progress(flow)
    for event in events:
        progress.apply(event)
    return progress


def halfway() -> list[ev.Event]:
    """The events of DIGEST with 1,000 elements: 12 ok, 3 dropped, 8 running."""
    do, topic = "steps[1].do", "steps[1].do.branches.topic"
    events: list[ev.Event] = [
        ev.RunStarted("digest", 0.0),
        ev.StepStarted(("steps[0]",), 0.0),
        ev.StepFinished(("steps[0]",), 0.25, []),
        ev.StepStarted(("steps[1]",), 0.25),
        ev.FanOutStarted(("steps[1]",), 0.25, 1000),
    ]
    for i in range(23):
        events += [ev.StepStarted((do, i), 0.5), ev.StepStarted((topic, i), 0.5)]
        if i < 12:
            events += [ev.StepFinished((topic, i), 1.0), ev.StepFinished((do, i), 1.0)]
        elif i < 15:
            error = agf.StepError(agf.Diagnostic("step.tool-failed", f"rate <b>limit</b> \x1b[31m{i}"))
            events += [ev.StepFailed((topic, i), 1.0, error), ev.StepFailed((do, i), 1.0, error)]
            events.append(ev.ElementDropped((do, i), 1.0, error))
    return events


def failed() -> list[ev.Event]:
    """The same events, followed by the failure of the run."""
    return [*halfway(), ev.StepFailed(("steps[1]",), 2.0, MISSING), ev.RunEnded(2.0, "error", MISSING)]


def progress_html(progress: Progress, *, now: float) -> str:
    """The parts of a run's page about its steps. ``now`` is a time on the clock of the events."""
    parts = [page.header_html(progress, now=now), page.steps_html(progress, now=now), page.questions_html(progress)]
    parts += [page.failures_html(progress), warnings_html(progress.warnings)]
    return "".join([*parts, *([error_html(progress.error)] if progress.error else [])])
