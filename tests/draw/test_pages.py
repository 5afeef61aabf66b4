"""Pages: what they say, twice (HTML and text), and what they must not contain."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agf_magics as agf
from agf_magics.pictures.diagram import Diagram
from agf_magics.pictures.listing import flows_html, flows_text, tools_html, tools_text
from agf_magics.pictures.page import error_html, error_text, progress_html, progress_text, warnings_html
from agf_magics.pictures.run_page import run_html, run_text
from agf_magics.progress import events as ev
from agf_magics.secrets.masking import Secrets
from agf_magics.text.diagnostics import Diagnostic, StepError
from tests.draw.flows import DIGEST, MISSING, REVIEW, failed, halfway, load, told

# What JupyterLab 4 leaves of an untrusted output, as far as we use it; each style was tried on its own rules.
TAGS = {"table", "caption", "thead", "tbody", "tr", "th", "td", "details", "summary", "progress", "figure", "img"}
TAGS |= {"p", "div", "pre", "code", "em", "strong", "span", "ul", "li"}
ATTRIBUTES = {"style", "scope", "open", "value", "max", "alt", "src", "title"}
STYLES = re.compile(
    "background-color|border|border-collapse|border-left|caption-side|color|display|font-size|font-weight|height|left|list-style|"
    "margin|max-height|max-width|min-width|opacity|overflow|overflow-wrap|padding|padding-left|position|text-align|top|"
    "vertical-align|white-space|width"
)
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class Sanitized(HTMLParser):
    """Fails on whatever a sanitizer would take away; collects the text."""

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
                    assert STYLES.fullmatch(declaration.partition(":")[0].strip())
                assert "var(" not in (value or "")
                assert not re.search(r"(?<![\w-])color:\s*(#000|#fff|black|white)", value or "")
        if tag != "img":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


class Run:
    """A run as a page reads it."""

    secrets = Secrets()
    run_id = "digest-3-a1b2c3"
    note = ""
    name = "digest"
    warnings: tuple[Diagnostic, ...] = (Diagnostic("pipeline.unread", "'total' is never read", severity="warning"),)

    def __init__(
        self, output: Any = None, stores: dict[str, Any] | None = None, error: StepError | None = None
    ) -> None:
        self.output = output
        self.stores = stores or {}
        self.error = error
        self.progress = told(load(DIGEST), failed() if error else [*halfway(), ev.RunEnded(2.0, "ok")])
        self.status = self.progress.status


def squeezed(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def test_every_step_is_a_row_with_its_state_in_words() -> None:
    progress = told(load(DIGEST), halfway())
    text = progress_text(progress, now=4.5)
    rows = [squeezed(row) for row in text.split("\n")]
    assert rows[0] == "digest · ▶ running · 1 of 5 steps · 4.5 s"
    assert rows[1] == " ✓ ok ⚙ tool fetch 250 ms steps[0]"
    assert rows[2] == " ▶ running ⟳ for_each ctx.feed 12 ok, 3 failed, 8 running of 1,000 4.2 s steps[1]"
    assert rows[3] == " ▶ running ∥ parallel topic, two words 12 ok, 3 failed, 8 running 4.0 s steps[1].do"
    assert rows[14] == " · pending ⚙ tool file__write steps[4]"


def test_the_html_says_what_the_text_says() -> None:
    progress = told(load(DIGEST), failed())
    page = Sanitized(progress_html(progress, now=9.0)).text
    for line in progress_text(progress, now=9.0).split("\n"):
        for part in re.split(r"\s{2,}| · |: ", line.strip()):
            assert squeezed(part) in squeezed(page)


def test_a_fan_out_that_runs_has_a_bar_and_one_that_is_done_has_none() -> None:
    assert '<progress value="15" max="1000"' in progress_html(told(load(DIGEST), halfway()), now=1.0)
    assert "<progress" not in progress_html(told(load(DIGEST), failed()), now=1.0)


def test_failed_elements_are_listed_and_the_rest_is_a_number() -> None:
    error = StepError(Diagnostic("step.tool-failed", "no such page"))
    dropped = [ev.ElementDropped(("steps[1].do", i), 1.0, error) for i in range(20)]
    progress = told(load(DIGEST), [*halfway()[:5], *dropped])
    text = progress_text(progress, now=2.0)
    assert "✗ 20 elements failed and left out\n  steps[1].do#0: no such page" in text
    assert text.count("no such page") == 8
    assert "… and 12 more" in text
    assert "… and 12 more" in progress_html(progress, now=2.0)


def test_a_failed_run_ends_with_its_error_its_place_and_its_hint() -> None:
    progress = told(load(DIGEST), failed())
    end = 'line 3, column 30\n   3 | - transform: {value: "acc + item.scor"}\n'
    assert end in progress_text(progress, now=9.0)
    assert progress_text(progress, now=9.0).endswith("= did you mean score?")
    assert "did you mean score?" in progress_html(progress, now=9.0)


def test_somebody_elses_error_that_cannot_be_printed_is_named() -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert error_text(Mute()) == "✗ error: Mute: (its text cannot be had)"
    assert "Mute" in Sanitized(error_html(Mute())).text
    assert error_text(ValueError("x" * 10_000_000)).endswith("… 10 MB in all")


def test_the_run_page_shows_output_stores_steps_and_warnings() -> None:
    run = Run({"passed": True, "notes": "fine"}, {"total": 12, "verdict": "OK"})
    page = Sanitized(run_html(run)).text
    text = run_text(run)
    for said in (
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
        assert said in page
        assert said in text
    assert "<details open><summary>14 steps" not in run_html(run)


def test_the_page_of_a_failed_run_begins_with_the_error_and_shows_the_steps() -> None:
    page = run_html(Run(error=MISSING))
    assert page.index("no field") < page.index("14 steps")
    assert "<details open><summary>14 steps" in page
    assert "output" not in run_text(Run(error=MISSING))


def test_a_real_run_has_a_page() -> None:
    run = agf.run(agf.load("pipeline: p\nsteps: [{transform: {value: '1 + 1', output: two}}]"))
    assert "two: 2" in run_text(run)
    assert "✓ ok" in Sanitized(run_html(run)).text


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(exclude_categories=())),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=())), inner),
    max_leaves=30,
)


@given(VALUES, st.text(st.characters(exclude_categories=())))
def test_no_value_and_no_name_is_markup_or_moves_a_cursor(value: Any, name: str) -> None:
    run = Run(value, {name: value}, StepError(Diagnostic("a.b", name, hint=name)))
    Sanitized(run_html(run))
    assert not UNSAFE.search(run_text(run))
    run_html(run).encode()
    run_text(run).encode()


def test_diagrams_and_progress_survive_a_sanitizer() -> None:
    flow = load(DIGEST)
    Sanitized(Diagram(flow).html())
    Sanitized(progress_html(told(flow, halfway()), now=3.0))
    Sanitized(progress_html(told(flow, failed()), now=3.0))
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


def test_flows_are_listed_with_language_steps_and_inputs() -> None:
    flows = [load(REVIEW), load(DIGEST)]
    rows = [squeezed(row) for row in flows_text(flows).split("\n")]
    assert rows[0] == "name language steps inputs description"
    assert rows[2] == "digest pipeline 5 url, path Every kind of frame, one in another."
    assert "2 flows" in Sanitized(flows_html(flows)).text


def test_tools_are_listed_with_arguments_and_what_is_secret() -> None:
    row = squeezed(tools_text([Tool()]).split("\n")[1])
    assert row == "fetch<b> name (text), token (text) Looks a <name> up. Second line. worker token"
    assert "fetch<b>" in Sanitized(tools_html([Tool()])).text


@pytest.mark.parametrize("listed", [flows_text([]), flows_html([]), tools_text([]), tools_html([])])
def test_an_empty_listing_says_how_to_fill_it(listed: str) -> None:
    assert "%%pipeline" in listed or "@tool" in listed
