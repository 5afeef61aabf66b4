"""The pages of runs: they say the same in HTML and in text, and contain nothing unsafe."""

from __future__ import annotations

import io
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agf_magics as agf
from agf_magics.flow.progress import events as ev
from agf_magics.flow.progress.progress import Progress
from agf_magics.flow.progress.question import Question
from agf_magics.flow.protocols import Name
from agf_magics.journal.secrets.masking import Secrets
from agf_magics.lifecycle.past.past_run import find_past_run
from agf_magics.notebook.display import registry_page
from agf_magics.pictures import theme as look
from agf_magics.pictures.call_words import open_questions
from agf_magics.pictures.diagram import Diagram
from agf_magics.pictures.pages.live_line import LiveLine, live_line
from agf_magics.pictures.pages.parts import (
    OWN_SHARE,
    headline,
    progress_text,
    steps_html,
    steps_text,
)
from agf_magics.pictures.pages.past_page import past_html
from agf_magics.pictures.pages.run_page import run_html, run_text
from agf_magics.pictures.pages.updates import Updates
from agf_magics.pictures.problems import error_html, error_text, warnings_html
from agf_magics.settings.settings import Settings, current
from tests.pictures import shapes
from tests.pictures.flows import DIGEST, MISSING, REVIEW, failed, halfway, load, progress_html, progress_of

# The elements and styles that JupyterLab 4 keeps in an untrusted output, as far as this package uses them. Each style
# was tried with its own rules.
TAGS = {"table", "caption", "thead", "tbody", "tr", "th", "td", "details", "summary", "progress", "figure", "img"}
TAGS |= {"p", "div", "pre", "code", "em", "strong", "span", "ul", "li", "wbr"}
# A style element is removed with its text. So an untrusted page loses the rules for paper, but none for the screen.
TAGS |= {"style"}
ATTRIBUTES = {"class", "style", "scope", "open", "value", "max", "alt", "src", "title"}
STYLES = re.compile(
    "background-color|border|border-collapse|border-left|border-radius|caption-side|color|display|font-family|font-size|"
    "font-weight|height|left|list-style|margin|max-height|max-width|min-width|opacity|overflow|"
    "overflow-wrap:(normal|break-word)|padding|padding-left|position|table-layout|text-align|top|vertical-align|"
    "white-space|width|word-break:normal"
)
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class Sanitized(HTMLParser):
    """A parser that fails on everything that a sanitizer would remove, and collects the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.text = ""
        self.open: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []
        assert not UNSAFE.search(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS
        for name, value in attrs:
            assert name in ATTRIBUTES
            if name == "style":
                for declaration in (value or "").split(";"):
                    name = declaration.partition(":")[0].strip()
                    assert STYLES.fullmatch(declaration) or STYLES.fullmatch(name), declaration
                assert "var(" not in (value or "")
                assert not re.search(r"(?<![\w-])color:\s*(#000|#fff|black|white)", value or "")
        # nbconvert has another font for it, in which columns and carets move.
        assert tag != "pre" or "font-family:monospace" in (dict(attrs).get("style") or "")
        if tag not in ("img", "wbr"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["style"]:
            assert data.startswith(("@media print{", ".agf-figure{color-scheme:"))
        else:
            self.text += data


class Run:
    """A run with the fields that a page reads."""

    secrets = Secrets()
    run_id = "digest-3-a1b2c3"
    note = how_to_continue = ""
    name = "digest"
    warnings: tuple[agf.Diagnostic, ...] = (
        agf.Diagnostic("pipeline.unread", "'total' is never read", severity="warning"),
    )

    def __init__(
        self, output: Any = None, stores: dict[str, Any] | None = None, error: agf.StepError | None = None
    ) -> None:
        self.shown_output = output
        self.stores = stores or {}
        self.error = error
        self.progress = progress_of(load(DIGEST), failed() if error else [*halfway(), ev.RunEnded(2.0, "ok")])
        self.status = self.progress.status

    @property
    def table(self) -> Any:
        raise agf.DefinitionError(agf.Diagnostic("over.no-rows", "this run is not a run over a table"))


def squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", text)


TWO_FANS = """\
pipeline: fans
steps:
- for_each:
    over: ctx.files
    on_error: abort
    do: {tool: {name: fetch, args: {x: !expr item}}}
    collect: {transform: {value: pipe}}
    output: texts
- fold:
    over: texts
    init: "0"
    do: {tool: {name: add, args: {x: !expr item}}}
    output: total
"""


def test_the_headline_counts_the_elements_of_the_fan_out_that_runs() -> None:
    first_path, second_path = ("steps[0]",), ("steps[1]",)
    first: list[ev.Event] = [ev.StepStarted(first_path, 0.0), ev.FanOutStarted(first_path, 0.0, 400)]
    second: list[ev.Event] = [
        ev.StepFinished(first_path, 1.0, []),
        ev.StepStarted(second_path, 1.0),
        ev.FanOutStarted(second_path, 1.0, 376),
    ]
    end: list[ev.Event] = [ev.StepFinished(second_path, 2.0, 0), ev.RunEnded(2.0, "ok")]
    begun: list[ev.Event] = [ev.RunStarted("fans", 0.0), *first]
    history = [
        [word for word in headline(progress_of(load(TWO_FANS), events), now=2.0).split(" · ") if "element" in word]
        for events in (begun, [*begun, *second])
    ]
    assert history == [["0 of 400 elements"], ["total: 0 of 376 elements"]]
    counts = Updates(progress_of(load(TWO_FANS), [*begun, *second, *end])).changes(2.0)
    assert counts is not None
    assert not [word for word in counts["counts"] if "element" in word]


def test_every_step_is_a_row_with_its_state_in_words() -> None:
    progress = progress_of(load(DIGEST), halfway())
    text = progress_text(progress, now=4.5)
    rows = [squeezed(row) for row in text.split("\n")]
    assert rows[0] == "digest · ▶ running · 1 of 5 steps · 15 of 1,000 elements · 4/s, 4 min 39 s left · 4.5 s"
    assert rows[1] == " ✓ ok ⚙ feed tool fetch 250 ms steps[0]"
    counts = "12 ok, 3 failed, 8 running of 1,000 · 4/s, 4 min 39 s left"
    assert rows[2] == f" ▶ running ⟳ rows for_each ctx.feed {counts} 4.3 s steps[1]"
    assert rows[3] == " ▶ running ∥ parallel topic, two words 12 ok, 3 failed, 8 running 4.0 s steps[1].do"
    assert rows[13] == " · pending ⚙ file__write tool steps[4]"


def test_the_html_says_what_the_text_says() -> None:
    progress = progress_of(load(DIGEST), failed())
    page = Sanitized(progress_html(progress, now=9.0)).text
    for line in progress_text(progress, now=9.0).split("\n"):
        for part in re.split(r"\s{2,}| · |: ", line.strip()):
            assert squeezed(part) in squeezed(page)


def test_a_fan_out_that_runs_has_a_bar_and_one_that_is_done_has_none() -> None:
    assert '<progress value="0.015" max="1"' in progress_html(progress_of(load(DIGEST), halfway()), now=1.0)
    assert "<progress" not in progress_html(progress_of(load(DIGEST), failed()), now=1.0)


def test_failed_elements_are_listed_and_the_rest_is_a_number() -> None:
    error = agf.StepError(agf.Diagnostic("step.tool-failed", "no such page"))
    other = [agf.StepError(agf.Diagnostic("step.tool-failed", f"code {'x' * i}")) for i in range(9)]
    errors = [error] * 20 + other
    dropped = [ev.ElementDropped(("steps[1].do", i), 1.0, error) for i, error in enumerate(errors)]
    progress = progress_of(load(DIGEST), [*halfway()[:5], *dropped])
    text = progress_text(progress, now=2.0)
    groups = "✗ 29 elements failed and dropped\n  20 × no such page: rows #0, rows #1, rows #2\n"
    assert groups in text
    assert "… and 2 more" in text
    assert "… and 2 more" in progress_html(progress, now=2.0)


def test_messages_that_differ_in_numbers_are_one() -> None:
    def failure(text: str) -> agf.StepError:
        return agf.StepError(agf.Diagnostic("step.tool-failed", text))

    errors = [failure(f"page {i} is away") for i in range(9)] + [failure("page 7: no")]
    dropped = [ev.ElementDropped(("steps[1].do", i), 1.0, error) for i, error in enumerate(errors)]
    text = progress_text(progress_of(load(DIGEST), [*halfway()[:5], *dropped]), now=2.0)
    assert "  9 × page … is away: rows #0, rows #1, rows #2\n  1 × page 7: no: rows #9" in text


def test_a_failed_run_ends_with_its_error_its_place_and_its_hint() -> None:
    progress = progress_of(load(DIGEST), failed())
    end = 'line 3, column 30\n   3 | - transform: {value: "acc + item.scor"}\n'
    assert end in progress_text(progress, now=9.0)
    assert progress_text(progress, now=9.0).endswith("= did you mean score?")
    assert "did you mean score?" in progress_html(progress, now=9.0)


def test_a_foreign_error_that_cannot_be_printed_is_named() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert error_text(Mute()) == "✗ error: Mute: (its text cannot be read: RuntimeError)"
    assert "Mute" in Sanitized(error_html(Mute())).text
    assert error_text(ValueError("x" * 10_000_000)).endswith("… 10 MB in all")


def test_the_run_page_shows_output_stores_steps_and_warnings() -> None:
    run = Run({"passed": True, "notes": "fine"}, {"total": 12, "verdict": "OK"})
    page = Sanitized(run_html(run)).text
    text = run_text(run)
    for part in (
        "digest",
        "✓ ok",
        "2.0 s",
        "passed: true",
        'notes: "fine"',
        "total",
        "12",
        "⚠ 1 warning",
        "steps[1].do",
    ):
        assert part in page
        assert part in text
    assert "<details open><summary>5 steps and 8 inside them" not in run_html(run)


def test_the_page_of_a_failed_run_begins_with_the_error_and_shows_the_steps() -> None:
    page = run_html(Run(error=MISSING))
    assert page.index("no field") < page.index("5 steps and 8 inside them")
    assert "<details open><summary>5 steps and 8 inside them" in page
    assert "output" not in run_text(Run(error=MISSING))


def test_a_real_run_has_a_page() -> None:
    run = agf.run(agf.load("pipeline: p\nsteps: [{transform: {value: '1 + 1', output: two}}]"))
    assert "two: 2" in run_text(run)
    assert "✓ ok" in Sanitized(run_html(run)).text


def test_a_run_that_can_be_continued_shows_its_id_and_the_line() -> None:
    run = Run(error=MISSING)
    run.how_to_continue = "%resume digest-3-a1b2c3"
    page, text = Sanitized(run_html(run)).text, run_text(run)
    for part in ("digest-3-a1b2c3", "to continue: %resume digest-3-a1b2c3"):
        assert part in page
        assert part in text


def many(count: int, end: str = "") -> Any:
    """The progress of a pipeline of ``count`` steps in the middle of its run, or after its end."""
    flow = load("pipeline: many\nsteps:\n" + "- transform: {value: 1 + 1}\n" * count)
    events: list[ev.Event] = [ev.RunStarted("many", 0.0)]
    for step in flow.body.steps[: count // 2]:
        events += [ev.StepStarted((step.id,), 0.0), ev.StepFinished((step.id,), 1.0)]
    middle = (flow.body.steps[count // 2].id,)
    events.append(ev.StepStarted(middle, 1.0))
    if end:
        events += [ev.StepFailed(middle, 2.0, MISSING), ev.RunEnded(2.0, end, MISSING)]
    return progress_of(flow, events)


@pytest.mark.parametrize("end", ["", "error"])
def test_steps_that_are_done_or_pending_are_folded_in_a_long_tree(end: str) -> None:
    progress = many(200, end)
    rows = [squeezed(row) for row in steps_text(progress, now=1.5)]
    assert rows[0] == " ✓ ok 100 steps"
    assert rows[1].endswith("steps[100]")
    assert rows[2] == (" – did not run 99 steps" if end else " · pending 99 steps")
    assert steps_html(progress, now=1.5).count("<tr>") == 4


def test_steps_inside_of_one_that_did_not_run_are_not_counted() -> None:
    registry = agf.Registry()
    for name in ("low", "high"):
        agf.define(
            f"pipeline: {name}\nsteps: [{{transform: {{value: '1'}}}}, {{transform: {{value: pipe}}}}]",
            registry=registry,
        )
    text = """\
pipeline: chosen
steps:
- match: {on: ctx.size, cases: {small: {pipeline: low}}, default: {pipeline: high}}
"""
    progress = agf.run(text, {"size": "large"}, registry=registry).progress
    assert squeezed(steps_text(progress, now=1.5)[-1]) == " – did not run 1 inner step"


def test_a_short_tree_and_the_tree_of_a_run_that_went_well_are_complete() -> None:
    assert len(steps_text(many(20), now=1.5)) == 20
    events = [event for step in range(200) for event in _done(f"steps[{step}]")]
    flow = load("pipeline: many\nsteps:\n" + "- transform: {value: 1 + 1}\n" * 200)
    progress = progress_of(flow, [ev.RunStarted("many", 0.0), *events, ev.RunEnded(2.0, "ok")])
    assert len(steps_text(progress, now=2.0)) == 200
    page = steps_html(progress, now=2.0)
    shown, fold = page.split("<details><summary>… and 180 more rows</summary>")
    assert (shown.count("<tr>"), fold.count("<tr>")) == (21, 181)  # with the heads
    assert "max-height" not in page  # no row is cut
    assert "max-height" in steps_html(progress_of(flow, [ev.RunStarted("many", 0.0), *events]), now=2.0)


def _done(step: str) -> list[ev.Event]:
    return [ev.StepStarted((step,), 0.0), ev.StepFinished((step,), 1.0)]


def test_failed_elements_are_folded_where_the_run_went_well_and_some_succeeded() -> None:
    error = agf.StepError(agf.Diagnostic("step.tool-failed", "no such page"))
    halves = [*halfway(), ev.ElementDropped(("steps[1].do", 900), 1.0, error)]
    assert "<details open><summary>✗ 4 elements" in progress_html(progress_of(load(DIGEST), halves), now=2.0)
    ended = progress_of(load(DIGEST), [*halves, ev.RunEnded(2.0, "ok")])
    assert "<details><summary>✗ 4 elements" in progress_html(ended, now=2.0)


@pytest.mark.parametrize("status", ["error", "waiting"])
def test_a_question_closes_with_its_run(status: str) -> None:
    path = ("steps[0]",)
    events: list[ev.Event] = [ev.RunStarted("digest", 0.0), ev.StepStarted(path, 0.0)]
    events.append(ev.QuestionAsked(path, 0.5, Question("Go on?")))
    running = progress_of(load(DIGEST), events)
    assert "? waiting ⚙ feed tool fetch" in squeezed(progress_text(running, now=1.0))
    assert "waits for an answer: Go on?" in progress_text(running, now=1.0)
    ended = progress_of(load(DIGEST), [*events, ev.StepFailed(path, 1.0, MISSING), ev.RunEnded(1.0, status, MISSING)])
    assert "Go on?" not in progress_html(ended, now=1.0)


def test_a_question_that_is_asked_again_keeps_its_place() -> None:
    first, other = ("steps[1].do", 2), ("steps[1].do", 10)
    events = [*halfway(), *(ev.QuestionAsked(path, 1.0, Question(f"Pay {path[1]}?")) for path in (first, other))]
    events += [ev.QuestionAnswered(first, 1.5, "what"), ev.QuestionAsked(first, 2.0, Question("Pay 2? Say yes or no."))]
    progress = progress_of(load(DIGEST), events)
    assert [question.text for _, question in open_questions(progress)] == ["Pay 2? Say yes or no.", "Pay 10?"]
    assert re.search("Pay 2.*Pay 10", progress_text(progress, now=3.0), re.DOTALL)


def test_an_error_is_in_a_fixed_font_and_its_long_lines_are_wrapped_at_words() -> None:
    page = error_html(agf.StepError(agf.Diagnostic("a.b", "word " * 60, hint="hint " * 60)))
    assert "font-family:monospace" in page
    assert max(map(len, re.sub("<[^>]*>", "", page).split("\n"))) <= 78


def luminance(color: str) -> float:
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    """The contrast of two colours, as WCAG 2 defines it.

    >>> contrast("#000000", "#ffffff")
    21.0
    """
    dark, light = sorted(map(luminance, (first, second)))
    return (light + 0.05) / (dark + 0.05)


THEMES = {"light": ("#ffffff", "#212121"), "dark": ("#111111", "#e0e0e0")}
"""The colours of the page and the text of JupyterLab: 87 % black on white, and 87 % white on black."""


def mixed(front: str, back: str, share: float) -> str:
    parts = [(int(front[i : i + 2], 16), int(back[i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(
        f"{round(from_colour * share + to_colour * (1 - share)):02x}" for from_colour, to_colour in parts
    )


@pytest.mark.parametrize("theme", THEMES)
def test_every_text_has_a_contrast_of_at_least_4_5(theme: str) -> None:
    """A text has a background of its own, or the colour of the page, and may be faded."""
    runs = [Run(), Run(error=MISSING)]
    pages = [run_html(run) for run in runs] + [progress_html(progress_of(load(DIGEST), halfway()), now=3.0)]
    pages += [error_html(MISSING), registry_page.everything(registry([load(DIGEST)], [Tool()]))["text/html"]]
    back, text = THEMES[theme]
    checked = set[str]()
    for style in re.findall('style="([^"]*)"', "".join(pages)):
        rules = dict(part.split(":", 1) for part in style.split(";"))
        if "color-mix" in rules.get("color", ""):
            tint, share = re.findall(r"#\w{6}|\d+(?=%)", rules["color"])
            assert contrast(mixed(tint, text, int(share) / 100), back) >= 4.5, style
            checked.add(tint)
        elif rules.get("color", "inherit") != "inherit":
            assert contrast(rules["color"], rules["background-color"]) >= 4.5, style
        if "opacity" in rules:
            assert contrast(mixed(text, back, float(rules["opacity"])), back) >= 4.5, style
    assert len(checked) > 3
    for state in look.STATES.values():
        assert contrast(mixed(state.color, text, OWN_SHARE / 100), back) >= 4.5, state
        assert contrast("#ffffff", state.ink) >= 4.5, "a state on the border of its box, and the number on an edge"
        assert contrast(state.color, back) >= 3, "the border of a box"
    for kind in look.KINDS.values():
        for roles, is_dark in ((look.LIGHT, False), (look.DARK, True)):
            shades = look.colours(kind, is_dark)
            for fill in (shades.box, shades.frame):
                # What a running step does is written in the colour of the page's text.
                assert contrast(THEMES["dark" if is_dark else "light"][1], fill) >= 4.5, (kind, is_dark)
                for ink in (shades.ink, roles.text, roles.dim, roles.value):
                    assert contrast(ink, fill) >= 4.5, (kind, is_dark, ink, fill)
            assert contrast(roles.value, roles.chip) >= 4.5
            assert min(contrast(roles.text, roles.page), contrast(roles.dim, roles.page)) >= 4.5


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=())), inner),
    max_leaves=30,
)


@given(VALUES, st.text(st.characters(exclude_categories=())))
def test_no_value_and_no_name_is_markup_or_moves_a_cursor(value: Any, name: str) -> None:
    run = Run(value, {name: value}, agf.StepError(agf.Diagnostic("a.b", name, hint=name)))
    Sanitized(run_html(run))
    assert not UNSAFE.search(run_text(run))
    run_html(run).encode()
    run_text(run).encode()


def test_diagrams_and_progress_survive_a_sanitizer() -> None:
    flow = load(DIGEST)
    Sanitized(Diagram(flow).html())
    Sanitized(progress_html(progress_of(flow, halfway()), now=3.0))
    Sanitized(progress_html(progress_of(flow, failed()), now=3.0))
    Sanitized(warnings_html(Run.warnings))


def test_a_huge_run_is_a_small_page() -> None:
    run = Run([{"a": "x" * 1_000_000}] * 100_000, {f"s{i}": list(range(1000)) for i in range(5_000)})
    assert len(run_html(run)) < 200_000
    assert len(run_text(run)) < 100_000


class Tool:
    name = "fetch<b>"
    takes = "name (text), token (text)"
    description = "Looks a <name> up.\nSecond line."
    where = "worker"
    secret = frozenset({"token"})


def registry(flows: list[agf.Flow], tools: list[Any]) -> agf.Registry:
    registry = agf.Registry()
    for flow in flows:
        registry.flows.define(flow, None)
    for tool in tools:
        registry.tools.add(tool)
    return registry


def test_flows_are_listed_with_language_steps_and_inputs() -> None:
    listed = registry_page.flows(registry([load(REVIEW), load(DIGEST)], []))
    rows = [squeezed(row) for row in listed["text/plain"].split("\n")]
    assert rows[0] == "name language steps inputs description"
    assert rows[1] == "digest pipeline 5 url, path Every kind of frame, one in another."
    assert "2 flows" in Sanitized(listed["text/html"]).text


def test_tools_are_listed_with_arguments_and_what_is_secret() -> None:
    listed = registry_page.tools(registry([], [Tool()]))
    row = squeezed(listed["text/plain"].split("\n")[1])
    assert row == "fetch<b> name (text), token (text) Looks a <name> up. Second line. worker token"
    assert "fetch<b>" in Sanitized(listed["text/html"]).text


@pytest.mark.parametrize(
    "listed",
    [*registry_page.flows(agf.Registry()).values(), *registry_page.tools(agf.Registry()).values()],
)
def test_an_empty_listing_says_how_to_fill_it(listed: str) -> None:
    assert "%%pipeline" in listed or "@tool" in listed


def large(calls: int, output: str = "v{}") -> Progress:
    """A plan that has just ended its last call, of which every thousandth failed, and that still runs."""
    ids = [f"calls[{number}]" for number in range(calls)]
    labels = [f"load → †state.{output.format(index)}" for index in range(calls)]
    calls_of_plan = (shapes.call(id, "tool", "tool") for id in ids)
    steps = [replace(call, name=Name("load"), label=label) for call, label in zip(calls_of_plan, labels, strict=True)]
    progress = Progress(shapes.plan(*steps, feeds=()))
    progress.apply(ev.RunStarted("report", 0.0))
    for index, id in enumerate(ids):
        progress.apply(ev.StepStarted((id,), index / 1000))
        failed = index % 1000 == 7
        progress.apply(
            ev.StepFailed((id,), index / 1000, MISSING) if failed else ev.StepFinished((id,), index / 1000, 1)
        )
    return progress


def ended(progress: Progress) -> Progress:
    progress.apply(ev.RunEnded(10.0, "error", MISSING))
    return progress


def test_the_page_of_10_000_calls_has_less_than_a_megabyte_and_all_of_them_in_folds() -> None:
    progress = ended(large(10_000))
    page, text = progress_html(progress, now=10.0), progress_text(progress, now=10.0)
    assert len(page.encode()) + len(text.encode()) < 1_000_000
    assert page.count("<details><summary>calls[") == 100
    words = Sanitized(page).text
    assert "calls[0] … calls[99] · 99 ok, 1 failed" in words
    assert "✓ ok ⚙ v9999 tool load < 1 ms calls[9999]" in words


def test_failed_steps_of_a_large_run_come_first_and_are_not_folded() -> None:
    progress = ended(large(10_000))
    lines = [squeezed(line) for line in progress_text(progress, now=10.0).split("\n")]
    assert lines[1].startswith(" ✗ failed ⚙ v7 tool load ")
    assert lines[11] == " ✓ ok 9,990 steps"
    head = progress_html(progress, now=10.0).partition("<details>")[0]
    assert "calls[9007]" in head
    assert "9,990 steps" in head


def test_long_labels_do_not_make_a_large_page_larger() -> None:
    page = progress_html(ended(large(10_000, "ü" * 50 + "{}")), now=10.0)
    assert len(page.encode()) < 1_000_000
    assert re.search(r"… [\d,]+ more steps \([\d,]+ ok, \d+ failed\): run.progress.rows", page)


def test_a_large_run_that_still_runs_has_no_folds_that_a_new_page_would_close() -> None:
    progress = large(600)
    progress.apply(ev.StepStarted(("calls[3]",), 1.0))
    page = progress_html(progress, now=1.0)
    assert "<details>" not in page
    assert len(page) < 6_000
    assert [squeezed(line) for line in progress_text(progress, now=1.0).split("\n")][1].startswith(" ▶ running")


LARGE = agf.Registry()


@agf.tool(registry=LARGE)
def many_rows(n: int) -> list[dict[str, Any]]:
    return [{"id": i, "text": f"{'word ' * 40}{i}"} for i in range(n)]


@agf.tool(registry=LARGE)
async def odd_rows(item: dict[str, Any]) -> dict[str, Any]:
    if item["id"] % 2:
        raise ValueError(item["text"] * 5)
    return item


TEN_THOUSAND = """pipeline: large
steps:
- tool: {name: many_rows, args: {n: 10000}, output: found}
- for_each:
    over: found
    on_error: continue
    do: {tool: {name: odd_rows, args: {item: !expr item}}}
    collect: {transform: {value: pipe}}
    output: done"""
LONG = "\n".join(f"- tool: {{name: many_rows, args: {{n: 200}}, output: rows_{n}}}" for n in range(500))


@pytest.mark.parametrize(
    "text",
    [pytest.param(TEN_THOUSAND, marks=pytest.mark.slow), f"pipeline: long\nsteps:\n{LONG}"],
    ids=["rows", "steps"],
)
def test_a_cell_saves_at_most_300_kb_of_a_run(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(current, "settings", Settings(journal=str(tmp_path / "runs.sqlite")))
    run = agf.run(agf.load(text, "pipeline", registry=LARGE), registry=LARGE)
    for either_run in (run, agf.runs(run.run_id), find_past_run(run.run_id)):
        assert sum(map(len, either_run._repr_mimebundle_().values())) < 300_000
    page = past_html(find_past_run(run.run_id))
    assert ("not saved here, " in page) == (text != TEN_THOUSAND)  # which leaves out all calls but the first


def fan_out(ended: int, total: int) -> Progress:
    flow = load(
        "pipeline: p\nsteps:\n- for_each: {over: ctx.a, on_error: continue, do: {transform: {value: item}}, "
        "collect: {transform: {value: pipe}}}"
    )
    progress = Progress(flow)
    progress.apply(ev.RunStarted("p", 0.0))
    progress.apply(ev.StepStarted(("steps[0]",), 0.0))
    progress.apply(ev.FanOutStarted(("steps[0]",), 0.0, total))
    for number in range(ended):
        path = ("steps[0].do", number)
        progress.apply(ev.StepStarted(path, 0.0))
        progress.apply(ev.StepFinished(path, 1.0, None))
    return progress


@pytest.mark.parametrize(
    ("ended", "now", "pace"),
    [
        (2, 10.0, ""),  # too few elements for an estimate
        (240, 0.2, ""),  # too early for an estimate
        (240, 2.0, "120/s, 6.3 s left"),
        (240, 480.0, "one per 2.0 s, 25 min 20 s left"),
        (999, 3.0, "333/s, 1.0 s left"),
        (1000, 2.0, ""),
    ],
)
def test_a_running_fan_out_says_how_fast_it_is_and_how_long_it_takes(ended: int, now: float, pace: str) -> None:
    progress = fan_out(ended, 1000)
    text = progress_text(progress, now=now)
    assert (f"{ended:,} ok of 1,000 · {pace}" in text) if pace else "left" not in text
    assert f"{ended:,} of 1,000 elements" in headline(progress, now=now)
    assert pace in headline(progress, now=now)
    assert pace in str(Updates(progress).complete(now))
    assert live_line(progress, now).startswith("▰" * (ended // 100) + "▱" * (10 - ended // 100) + " p · ▶ running")
    progress.apply(ev.StepFinished(("steps[0]",), now, None))
    progress.apply(ev.RunEnded(now, "ok", None, {}))
    assert " left" not in progress_text(progress, now=now)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_the_live_line_is_written_into_a_terminal_when_it_changes_and_leaves_nothing() -> None:
    empty, file, progress = "\r\x1b[2K", Terminal(), fan_out(200, 1000)
    line = LiveLine(file)
    line.show(progress, 1.0)
    line.show(progress, 1.0)
    first = live_line(progress, 1.0)[: shutil.get_terminal_size().columns - 1]
    assert file.getvalue() == f"{empty}{first}"
    progress.apply(ev.RunEnded(2.0, "ok", None, {}))
    line.show(progress, 2.0)
    line.show(progress, 2.0)
    assert file.getvalue() == f"{empty}{first}{empty}"


def test_the_live_line_makes_room_for_what_a_tool_prints() -> None:
    empty, file, progress = "\r\x1b[2K", Terminal(), fan_out(200, 1000)
    line = LiveLine(file)
    first = live_line(progress, 1.0)[: shutil.get_terminal_size().columns - 1]
    for text in ("a", "\n"):  # as `print` writes them
        line.show(progress, 1.0)
        with line.away(text):
            file.write(text)
    line.show(progress, 1.0)
    assert file.getvalue() == f"{empty}{first}{empty}a\n{empty}{first}"


def test_the_live_line_is_not_written_into_a_file() -> None:
    file = io.StringIO()
    LiveLine(file).show(fan_out(200, 1000), 1.0)
    assert file.getvalue() == ""
