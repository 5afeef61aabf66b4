"""Placeholders of one of our languages in a text of another: told where the name in them exists, and nowhere else."""

from __future__ import annotations

import pytest

from agf_magics.catalog import Registry
from agf_magics.editor.problems import problems_of

GRAPH = """%%graph
name: g
state: {{n: int, out: str}}
nodes:
  a: {{type: passthrough, output: {{out: "{}"}}}}
edges:
- {{from: START, to: a}}
- {{from: a, to: END}}
"""
PLAN = """%%plan p
input: {{n: 1}}
calls:
- {{_tool: fetch, _outputPath: $state.text, url: x}}
- {{_tool: send, body: "{}"}}
"""
PIPELINE = """%%pipeline p
steps:
- transform: {{value: ctx.n, output: total}}
- tool: {{name: send, args: {{body: "{}"}}, output: sent}}
"""
PROMPT = """%%pipeline p
steps:
- transform: {{value: ctx.n, output: total}}
- agent: {{prompt: "{}", output: reply}}
"""


@pytest.mark.parametrize(
    ("cell", "text", "hint"),
    [
        (GRAPH, "${state.n}", 'write "{state.n}"; for an amount, "costs ${state.n}" or "USD {state.n}"'),
        (GRAPH, "costs ${state.n}", ""),
        (GRAPH, "{ctx.n}", "write {state.n}"),
        (GRAPH, "${n}", "write {state.n}"),
        (PLAN, "{ctx.text}", "write $state.text"),
        (PLAN, "{{ text }}", "write $state.text"),
        (PLAN, "${text}", "write $state.text"),
        (PLAN, "{text}", "write $state.text"),
        (PLAN, "{ctx.n}", "write $input.n"),
        (PLAN, "{date}", ""),
        (PLAN, "{name.first}", ""),
        (PLAN, "the {text} of it", ""),
        (PIPELINE, "{input.n}", "write: !expr ctx.n (for the text itself: !expr \"'{input.n}'\")"),
        (PIPELINE, "{state.total}", "write: !expr ctx.total (for the text itself: !expr \"'{state.total}'\")"),
        (PIPELINE, "{input.other}", ""),
        (PIPELINE, "{date}", ""),
        (PROMPT, "{input.n}", "write {ctx.n}"),
        (PROMPT, "{parent.input.n}", "write {ctx.n}"),
        (PROMPT, "for {ctx.n} and {total}", ""),
        (PROMPT, "{{ ctx.n }}", "write: {ctx.n}"),
    ],
)
def test_a_placeholder_of_another_language_is_told_with_what_to_write(cell: str, text: str, hint: str) -> None:
    problems = problems_of(cell.format(text), Registry())
    hints = [problem["hint"] for problem in problems if problem["severity"] == "warning"]
    assert hints == [hint] * bool(hint)
