"""``%explain`` shows the pages of the error reference in the notebook."""

from __future__ import annotations

import re

import pytest

from agf_magics.editor.error_pages import entries
from tests.doc_codes import codes
from tests.notebook.conftest import Shell, code


def test_every_code_has_an_explanation_without_links_and_labels() -> None:
    assert sorted(entries()) == sorted(codes())
    for name, text in entries().items():
        assert text.startswith(f"### {name}\n\n**")
        prose = re.sub(r"^```.*?^```$|`[^`\n]*`", "", text, flags=re.M | re.S)
        assert not re.search(r"\]\(|^\(.*\)=$", prose, re.M), name


def test_a_code_is_explained_in_markdown(shell: Shell) -> None:
    (page,) = shell.good("%explain pipeline.step-kind").outputs
    assert page["text/markdown"] == page["text/plain"] == entries()["pipeline.step-kind"]


def test_the_lines_of_a_message_keep_their_columns(shell: Shell) -> None:
    (page,) = shell.good("%explain pipeline.step-kind").outputs
    blocks = re.findall(r"<pre style=\"([^\"]*)\">(.*?)</pre>", page["text/html"], re.S)
    assert all("font-family:monospace" in style for style, _ in blocks)
    text = page["text/markdown"]
    assert [block for _, block in blocks if "^^^" in block]
    assert len(blocks) == len(re.findall(r"^```", text, re.M)) / 2


def test_brackets_around_a_code_are_copied_along(shell: Shell) -> None:
    (page,) = shell.good("%explain [pipeline.step-kind]").outputs
    assert page["text/markdown"] == entries()["pipeline.step-kind"]


def test_without_a_code_the_last_error_is_explained(shell: Shell) -> None:
    shell.run("%%pipeline\npipeline: p\nsteps:\n- transfrom: {value: '1'}\n- {}\n")
    titles = [page["text/markdown"].split("\n")[0] for page in shell.good("%explain").outputs]
    assert titles == ["### pipeline.step-kind", "### pipeline.step-shape"]


@pytest.mark.parametrize(
    ("line", "expected"), [("%explain nothing.here", "magic.unknown-code"), ("%explain a b", "magic.extra-word")]
)
def test_a_line_that_names_no_error_is_refused(shell: Shell, line: str, expected: str) -> None:
    assert code(shell.run(line)) == expected


def test_without_an_error_there_is_nothing_to_explain(shell: Shell) -> None:
    shell.run("1 / 0")
    assert code(shell.run("%explain")) == "magic.missing"


def test_on_a_page_a_code_names_the_magic_that_explains_it(shell: Shell) -> None:
    shell.good("@tool\ndef fail():\n    raise ValueError('no pears')")
    shell.good("import agf_magics as agf\nrun = agf.run('{pipeline: p, steps: [{tool: {name: fail}}]}', raises=False)")
    (page,) = shell.good("run").outputs
    assert '<span title="%explain step.tool-failed">[step.tool-failed]</span>' in page["text/html"]
