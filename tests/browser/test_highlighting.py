"""Cells of our magics are coloured as YAML below a command line, in JupyterLab and in Notebook 7."""

from __future__ import annotations

import pytest

from tests.browser.harness import Open

pytestmark = pytest.mark.browser

PYTHON = "for name in [1, 2.5, 'text', None, True]:\n    # a comment\n    print(name)"
PIPELINE = """%%pipeline review --draw --set doc=$text
# what happens to a document
pipeline: review
description: look for an error in it, or not
steps:
  - for_each:
      over: "ctx.items"
      max_parallel: 4
      on_error: continue
      do: {tool: {name: fetch, args: {name: !expr item, deep: true}}}
      collect: {transform: {value: "pipe"}}
      output: found
  - agent:
      prompt: |
        Is this right: {ctx.doc}?
        # not a comment
      schema: Review
"""
BOTH = pytest.mark.parametrize("app", ["lab", "notebooks"])


@BOTH
def test_a_pipeline_is_coloured_as_yaml_when_it_is_opened(opened: Open, app: str) -> None:
    page = opened(PYTHON, PIPELINE, app=app)
    key = page.look(1, "pipeline")
    assert key
    assert {page.look(1, word) for word in ("description", "for_each", "max_parallel", "tool", "deep")} == {key}
    assert page.look(1, "# what happens to a document") == page.look(0, "# a comment") != ""
    assert page.look(1, '"ctx.items"') == page.look(0, "'text'") != ""
    assert page.look(1, "4") == page.look(0, "1") != ""
    assert page.look(1, "true") == page.look(0, "True") != ""
    assert page.look(1, "!expr") == page.look(1, "%%pipeline") == page.look(0, "for") != ""
    # The rest of a prompt is text, even if it looks like something else.
    assert page.look(1, "        # not a comment") == page.look(0, "'text'")
    # Words that are keywords of Python are plain text here.
    assert {token.look for token in page.tokens(1) if "error in it" in token.text} == {""}


@BOTH
def test_a_cell_changes_its_colours_while_its_first_line_is_typed(opened: Open, app: str) -> None:
    page = opened("", PIPELINE, app=app)
    key, keyword = page.look(1, "pipeline"), page.look(1, "%%pipeline")
    page.type(0, "%%pla\nfor: x")
    page.becomes(0, "for", keyword)
    page.press("Control+Home", "End", "n")
    page.becomes(0, "for", key)
    page.press("Control+Home", "#")
    page.becomes(0, "for", keyword)


@BOTH
def test_enter_indents_as_yaml_needs_it(opened: Open, app: str) -> None:
    page = opened("%%pipeline", app=app)
    page.type(0, "\npipeline: p\nsteps:\n- agent:\nprompt: |\nfor all")
    assert page.source(0).splitlines()[1:] == [
        "pipeline: p",
        "steps:",
        "  - agent:",
        "      prompt: |",
        "        for all",
    ]


STEPS = "\npipeline: p\nsteps:\n"


TYPED = [
    # The next element begins where the last one began.
    (
        "- tool: {name: a, args: {b: [1]}}\n- transform: {value: 1}  # why\n- x",
        "  - tool: {name: a, args: {b: [1]}}\n  - transform: {value: 1}  # why\n  - x",
    ),
    ("- {name: a}\n- x", "  - {name: a}\n  - x"),
    ("- tool: {name: a,\nargs: {}}\n- x", "  - tool: {name: a,\n    args: {}}\n  - x"),
    # A dash where only a key could be goes to its list.
    ("- agent:\nprompt: a\n- x", "  - agent:\n      prompt: a\n  - x"),
    ("- title: a\n- x", "  - title: a\n  - x"),
    (
        "- parallel:\nbranches:\na:\n- tool: {name: b}\n- x",
        "  - parallel:\n      branches:\n        a:\n          - tool: {name: b}\n          - x",
    ),
    # All other lines and dashes stay where they are.
    ("- agent:\nname: a\ntools:\n- x", "  - agent:\n      name: a\n      tools:\n        - x"),
    ("- agent:\nprompt: |\n- x\n- {y}\n- z", "  - agent:\n      prompt: |\n        - x\n        - {y}\n        - z"),
    ("- title: a {b}\nx", "  - title: a {b}\n    x"),
]
"""What is typed as steps, and the text that it gives."""


def test_an_element_of_a_list_is_typed_beside_the_others(opened: Open) -> None:
    page = opened(*["%%pipeline"] * len(TYPED))
    for cell, (typed, _) in enumerate(TYPED):
        page.type(cell, STEPS + typed)
    sources = [page.source(cell) for cell in range(len(TYPED))]
    assert sources == ["%%pipeline" + STEPS + written for _, written in TYPED]


def test_a_reloaded_page_has_the_colours(opened: Open) -> None:
    page = opened(PYTHON, PIPELINE)
    key = page.look(1, "pipeline")
    page.reload()
    page.becomes(1, "pipeline", key)


def test_the_magics_of_ours_are_known_and_no_others(opened: Open) -> None:
    our_magics = ["%%pipeline", "%%policy", "%%plan", "%%graph", "\n  %%pipeline", "%%pipeline?"]
    other_words = ["%%pipeline_inline", "%%pipelines", "%%timeit", "%pipeline", "# %%pipeline"]
    page = opened(PIPELINE, *(f"{magic}\nfor name: x" for magic in our_magics + other_words))
    key, keyword = page.look(0, "pipeline"), page.look(0, "%%pipeline")
    assert key != keyword
    for line_number, magic in enumerate(our_magics + other_words, 1):
        page.becomes(line_number, *(("for name", key) if magic in our_magics else ("for", keyword)))


@BOTH
def test_pictures_in_light_and_dark(opened: Open, app: str) -> None:
    page = opened(PYTHON, PIPELINE, app=app)
    page.theme("Dark")
    dark = page.picture(f"highlighting-{app}-dark")
    page.theme("Light")  # last, because the server keeps the theme for later tests
    light = page.picture(f"highlighting-{app}-light")
    assert light.read_bytes() != dark.read_bytes()
    assert not [error for error in page.errors if "agf" in error]
