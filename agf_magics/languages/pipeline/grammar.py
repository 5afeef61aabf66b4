"""Describes the pipeline language in a few lines, for an agent that writes a definition."""

from __future__ import annotations

from ..documents import NAME
from ..keys import Key
from .takes import EXPRESSION
from .words import STEPS


def grammar() -> str:
    """The pipeline language in short, from its tables: for a model that writes a pipeline."""
    lines = []
    for step in STEPS.values():
        keys = [f"{key.name}: {_value_of(key)}" for key in step.keys.values() if key.required]
        more = [key.name for key in step.keys.values() if not key.required]
        optional = f" [, {', '.join(more)}]" if more else ""
        lines.append(f"- {step.name}: {{{', '.join(keys)}{optional}}}  # {step.doc}")
    return GRAMMAR.format(steps="\n".join(lines))


def _value_of(key: Key) -> str:
    if key.takes is NAME:
        return "NAME"
    return "EXPR" if key.takes is EXPRESSION else key.takes.example


GRAMMAR = """
A definition is YAML (keys in brackets are optional):

pipeline: NAME
steps:
{steps}

A step's result is `pipe` for the next step, and ctx.NAME after `output: NAME`. The input is in ctx.
EXPR is an expression: "ctx.n + 1", "count(pipe)", "item.price > 3". item is the element of for_each
and fold, acc the value of fold so far.
args: {{path: notes.txt, content: !expr ctx.notes}}: literals, or expressions after !expr.
on_error: abort, continue or retry(3).
for_each and fold read `over: EXPR`, `items: [1, 2]`, or pipe. In collect, pipe is the list of
results.
`schema: NAME` checks a result. A document of its own, after ---, declares it:
schema: NAME
fields: {{score: {{type: number}}}}"""
