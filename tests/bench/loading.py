"""§ 2: what loading a definition costs beside the bare C compose of the same text. Paired rounds.

Run it with ``python -m tests.bench.loading``.
"""

from __future__ import annotations

from pathlib import Path

import yaml

import agf_magics as agf
from agf_magics.catalog import install
from agf_magics.text.diagnostics import Diagnostics
from agf_magics.text.source import Source
from agf_magics.text.yamlnodes import documents
from tests.bench.rounds import Row, paired

STEPS = """\
  - agent:
      prompt: "Review {{ctx.doc}}. Reply with passed (bool) and notes (string). Be strict about {{ctx.topic{i}}}."
      schema: Review
      output: review{i}
  - transform:
      value: "review{i}.passed and 'OK' or 'NEEDS WORK'"
      output: verdict{i}
  - for_each:
      over: ctx.docs{i}
      on_error: continue
      do: {{tool: {{name: fetch, args: {{name: !expr item.name, n: {i}}}}}}}
      collect:
        transform: {{value: "filter(pipe, x -> x.size > {i})"}}
      output: found{i}
  - tool:
      name: file__write
      args:
        path: verdict{i}.txt
        content: !expr verdict{i}
      output: written{i}
"""


def document(steps: int = 200) -> str:
    """A pipeline of ``steps`` steps of four kinds and its schema: 200 are a thousand lines."""
    head = "schema: Review\nfields:\n  passed: {type: bool, required: true}\n  notes: {type: string}\n"
    return f"{head}---\npipeline: long\nsteps:\n" + "".join(STEPS.format(i=i) for i in range(steps // 4))


def fetch(name: str, n: int) -> dict[str, int]:
    return {"size": len(name) * n}


def reviewer(prompt: str) -> str:
    return prompt


def _registry() -> agf.Registry:
    """With everything the document names: what is not found is looked for among what sounds like it, and that costs."""
    registry = agf.Registry()
    agf.tool(fetch, registry=registry)
    agf.agent(reviewer, registry=registry)
    install(registry, folder=Path.cwd, allow_shell=lambda: False)
    return registry


def rows(text: str | None = None) -> list[Row]:
    text = document() if text is None else text
    registry = _registry()
    return paired(
        {
            "yaml.compose, C loader": lambda: list(yaml.compose_all(text, Loader=yaml.CSafeLoader)),
            "nodes with places": lambda: documents(Source("a text", text), Diagnostics()),
            "text → checked flow": lambda: agf.load(text, registry=registry),
        }
    )


def main() -> None:
    text = document()
    print(f"A document of {text.count(chr(10)):,} lines and {len(text):,} characters; goal: a checked flow at ≤ 4 ×.\n")
    print("| | ms | × compose |\n|---|---|---|")
    for row in rows(text):
        print(f"| {row.name} | {row.micros / 1000:.2f} | {row.ratio:.2f} |")


if __name__ == "__main__":
    main()
