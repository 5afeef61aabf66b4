"""All mistakes of a definition are told at once: none hides another, and none is told twice.

A table has one mistake of each kind for each language. Alone, a mistake is exactly one problem; two mistakes in one
text are exactly these two problems.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import Any, NamedTuple

import pytest

import agf_magics as agf

Found = tuple[str, str]
"""The code of a problem, and the text above its caret."""

PIPELINE: dict[str, tuple[str, str, str]] = {
    "a misspelt key": ("transform: {valu: '1'}", "pipeline.unknown-key", "valu"),
    "a misspelt key of a store": ("transform: {value: '1', outptu: x}", "pipeline.unknown-key", "outptu"),
    "a key of another language": ("tool: {name: use, arguments: {x: 1}}", "pipeline.unknown-key", "arguments"),
    "a key that nothing resembles": ("tool: {name: use, zebra: 1}", "pipeline.unknown-key", "zebra"),
    "a misspelt policy key": (
        "for_each: {over: '[1]', on_eror: abort, do: {transform: {value: item}}, collect: {transform: {value: pipe}}}",
        "pipeline.unknown-key",
        "on_eror",
    ),
    "a misspelt kind": ("transfrom: {value: '1'}", "pipeline.step-kind", "transfrom"),
    "an unknown kind": ("zebra: {value: '1'}", "pipeline.step-kind", "zebra"),
    "two kinds": ("transform: {value: '1'}\n  tool: {name: use}", "pipeline.step-shape", "tool"),
    "a key beside its kind": ("transform: {value: '1'}\n  output: x", "pipeline.step-shape", "output"),
    "a step that is a text": ("transform", "pipeline.step-shape", "transform"),
    "a step without keys": ("transform: ctx.a", "pipeline.wrong-type", "ctx.a"),
    "a missing key": ("transform: {output: y}", "pipeline.missing-key", "transform"),
    "a missing policy": (
        "for_each: {over: '[1]', do: {transform: {value: item}}, collect: {transform: {value: pipe}}}",
        "pipeline.missing-key",
        "for_each",
    ),
    "an empty key": ("transform: {value: }", "pipeline.wrong-type", "value"),
    "a wrong type": ("transform: {value: [1, 2]}", "pipeline.wrong-type", "[1, 2]"),
    "wrong arguments": ("tool: {name: use, args: [1, 2]}", "pipeline.wrong-type", "[1, 2]"),
    "a wrong store": ("transform: {value: '1', output: [z]}", "pipeline.wrong-type", "[z]"),
    "a wrong name": ("tool: {name: [use], args: {x: 1}}", "pipeline.wrong-type", "[use]"),
    "a wrong count": (
        "for_each: {over: '[1]', on_error: abort, max_parallel: 0, do: {transform: {value: item}}, "
        "collect: {transform: {value: pipe}}}",
        "pipeline.count",
        "0",
    ),
    "a wrong policy": ("tool: {name: use, args: {x: 1}, on_error: sometimes}", "pipeline.on-error", "sometimes"),
    "a broken expression": ("transform: {value: 'ctx.a +'}", "r1.syntax", "+"),
    "a type that does not fit": ("transform: {value: \"1 + 'a'\"}", "r1.type", "+"),
    "a wrong reference": (
        "transform: {value: '1', output: total}\n- transform: {value: ctx.totla}",
        "flow.unwritten",
        "totla",
    ),
    "no list": (
        "for_each: {over: '7', on_error: abort, do: {transform: {value: item}}, collect: {transform: {value: pipe}}}",
        "flow.not-a-list",
        "7",
    ),
    "an unknown tool": ("tool: {name: nope}", "flow.unknown-tool", "nope"),
    "an unknown argument": ("tool: {name: use, args: {x: 1, zebra: 2}}", "flow.unknown-argument", "zebra"),
    "a missing argument": ("tool: {name: use}", "flow.missing-argument", "use"),
    "an unknown agent": ("agent: {prompt: hi, identity: nobody}", "flow.unknown-agent", "nobody"),
    "an unknown pipeline": ("call: {pipeline: nowhere}", "flow.unknown-flow", "nowhere"),
    "an unknown schema": ("tool: {name: use, args: {x: 1}, schema: Nope}", "flow.unknown-schema", "Nope"),
    "a wrong case": (
        "match: {on: \"'a'\", cases: {a: {pipeline: q, pas: [n]}}}",
        "pipeline.unknown-key",
        "pas",
    ),
    "a case that is no mapping": ("match: {on: \"'a'\", cases: {a: q}}", "pipeline.wrong-type", "q"),
    "a mistake in a branch": (
        "parallel: {branches: {a: {transfrom: {value: '1'}}}, collect: {transform: {value: pipe.a}}}",
        "pipeline.step-kind",
        "transfrom",
    ),
}
"""A step with one mistake for each kind of mistake, and its problem."""

MAY_WRITE_ANY = {
    "pipeline": {
        "a key that nothing resembles",
        "an unknown kind",
        "two kinds",
        "a step that is a text",
        "a step without keys",
        "a wrong store",
    }
}
"""The mistakes after which no reference is wrong: the step may have written what a later one reads."""


def registry() -> agf.Registry:
    shelf = agf.Registry()

    @agf.tool(registry=shelf)
    def use(x: Any) -> Any:
        return x

    @agf.agent(registry=shelf, default=True)
    def bot(prompt: str) -> str:
        return prompt

    agf.define("pipeline: q\nsteps:\n- transform: {value: '1'}\n", registry=shelf)
    return shelf


SHELF = registry()


def told(text: str, language: str) -> list[Found]:
    """The errors and warnings of a text, in its order."""
    with pytest.raises(agf.DefinitionError) as raised:
        agf.load(text, language, strict=True, registry=SHELF)
    return [
        (problem.code, problem.span.text if problem.span else "")
        for problem in raised.value.diagnostics
        if problem.severity != "note"
    ]


def pipeline(*steps: str) -> str:
    return "\n".join(["pipeline: p", "steps:", *(f"- {step}" for step in steps)])


TEXTS = {"pipeline": (PIPELINE, pipeline)}


class Case(NamedTuple):
    """A text with mistakes, and its problems."""

    names: tuple[str, ...]
    language: str
    text: str
    problems: list[Found]


def cases(language: str, count: int) -> Iterator[Case]:
    table, text = TEXTS[language]
    for names in permutations(table, count):
        rows = [table[name] for name in names]
        is_unsure = names[0] in MAY_WRITE_ANY[language]
        problems = [(code, at) for _, code, at in rows if not (is_unsure and code == "flow.unwritten")]
        yield Case(names, language, text(*(row[0] for row in rows)), problems)


SINGLE = [case for language in TEXTS for case in cases(language, 1)]


@pytest.mark.parametrize("case", SINGLE, ids=lambda case: f"{case.language}: {case.names[0]}")
def test_one_mistake_is_one_problem(case: Case) -> None:
    assert told(case.text, case.language) == case.problems


@pytest.mark.parametrize("language", TEXTS)
def test_no_mistake_hides_another(language: str) -> None:
    for case in cases(language, 2):
        assert sorted(told(case.text, language)) == sorted(case.problems), case.text
