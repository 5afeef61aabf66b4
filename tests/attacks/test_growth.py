"""Loading takes time in proportion to the length of a text, for 128 constructions.

Each construction is repeated 100 times and 8 times as often. A quadratic loader takes 64 times as long for the larger
text. The limit is 12 times, which is growth with the power 1.2.
"""

from __future__ import annotations

import contextlib
import gc
import json
import time
from collections.abc import Callable
from typing import Any

import pytest

import agf_magics as agf

Make = Callable[[int], str]

FEW, TIMES = 100, 8
QUICK = 0.06
SQUARE = {("policy", "steps without a mapping")}
"""Flows in which each step reads all earlier steps, so the number of wires is quadratic. 1,600 steps, which nobody
writes, take 0.2 s."""
"""CPU seconds. A larger text that loads within this time is not measured again."""


def repeated(part: Callable[[int], str], join: str = "") -> Make:
    return lambda n: join.join(map(part, range(n)))


def steps(part: Callable[[int], str]) -> Make:
    return lambda n: "pipeline: p\nsteps:\n" + "".join(f"- {part(i)}\n" for i in range(n))


def step(text: str, part: Callable[[int], str], join: str = "") -> Make:
    """A pipeline of one step. The parts replace the ``@`` in its text."""
    return lambda n: f"pipeline: p\nsteps:\n- {text.replace('@', join.join(map(part, range(n))))}\n"


def expression(part: Callable[[int], str], join: str, around: str = "@") -> Make:
    return step(f"transform: {{value: {json.dumps(around)}}}", lambda i: json.dumps(part(i))[1:-1], join)


def schema(part: Callable[[int], str]) -> Make:
    return lambda n: "schema: A\nfields:\n" + "".join(f"  {part(i)}\n" for i in range(n)) + "---\n" + ONE


ONE = "pipeline: p\nsteps: [{transform: {value: '1'}}]\n"

PIPELINES: dict[str, Make] = {
    "transforms": steps(lambda i: f"transform: {{value: 'ctx.a{i}', output: a{i + 1}}}"),
    "transforms of one store": steps(lambda i: "transform: {value: 'ctx.a', output: a}"),
    "unused outputs": steps(lambda i: f"transform: {{value: '1', output: a{i}}}"),
    "unknown tools": steps(lambda i: f"tool: {{name: t{i}, args: {{x: 1}}, output: o{i}}}"),
    "one unknown tool": steps(lambda i: "tool: {name: t, args: {x: !expr ctx.x}}"),
    "titles": steps(lambda i: f"title: T{i}\n  transform: {{value: '1'}}"),
    "agents": steps(lambda i: f'agent: {{name: a, prompt: "x {{ctx.s{i}}}", output: s{i + 1}}}'),
    "calls": steps(lambda i: f"call: {{pipeline: p{i}, pass: [a{i}], output: r{i}}}"),
    "shells": steps(lambda i: f"shell: {{command: [echo, a{i}], output: s{i}}}"),
    "unknown kinds": steps(lambda i: f"tol: {{name: t{i}}}"),
    "unknown keys": steps(lambda i: f"tool: {{name: t, arg{i}: 1}}"),
    "two kinds": steps(lambda i: "tool: {name: t}\n  transform: {value: '1'}"),
    "for_each": steps(
        lambda i: (
            "for_each: {over: ctx.a, on_error: abort, do: {transform: {value: item}}, "
            "collect: {transform: {value: pipe}}}"
        )
    ),
    "matches": steps(
        lambda i: (
            f"match: {{on: 'ctx.a{i}', cases: {{x: {{transform: {{value: '1'}}}}}}, "
            f"default: {{transform: {{value: '2'}}}}}}"
        )
    ),
    "arguments": step("tool: {name: t, args: {@}}", lambda i: f"x{i}: 1", ", "),
    "arguments that are computed": step("tool: {name: t, args: {@}}", lambda i: f"x{i}: !expr ctx.a{i}", ", "),
    "nested arguments": step("tool: {name: t, args: {x: [@]}}", lambda i: "{a: [1, {b: !expr ctx.c}]}", ", "),
    "branches": step(
        "parallel: {on_error: abort, branches: {@}, collect: {transform: {value: '1'}}}",
        lambda i: f"b{i}: {{transform: {{value: 'ctx.x'}}}}",
        ", ",
    ),
    "cases": step("match: {on: ctx.k, cases: {@}}", lambda i: f"k{i}: {{transform: {{value: '1'}}}}", ", "),
    "slots": step('agent: {prompt: "@"}', lambda i: f"{{ctx.a{i}}} "),
    "slots of expressions": step('agent: {prompt: "@"}', lambda i: "{ctx.a + 1} "),
    "open braces": step('agent: {prompt: "@"}', lambda i: "{ "),
    "doubled braces": step('agent: {prompt: "@"}', lambda i: "{{a}} "),
    "attached files": step("agent: {prompt: x, attach: [@]}", lambda i: f"\"'a{i}.png'\"", ", "),
    "passed names": step("call: {pipeline: q, pass: [@]}", lambda i: f"a{i}", ", "),
    "fields of a schema": schema(lambda i: f"f{i}: string"),
    "values of an enum": lambda n: (
        f"schema: A\nfields:\n  x: {{type: enum, values: [{', '.join(f'v{i}' for i in range(n))}]}}\n---\n{ONE}"
    ),
    "schemas in a chain": lambda n: (
        "".join(f"schema: A{i}\nfields: {{x: {{type: ref, schema: A{i + 1}}}}}\n---\n" for i in range(n))
        + f"schema: A{n}\nfields: {{x: string}}\n---\n{ONE}"
    ),
    "schemas of one name": lambda n: "schema: A\nfields: {x: string}\n---\n" * n + ONE,
    "unknown types": schema(lambda i: f"f{i}: strin"),
}

EXPRESSIONS: dict[str, Make] = {
    "a sum": expression(lambda i: "ctx.a", " + "),
    "an and": expression(lambda i: f"ctx.a{i} > {i}", " and "),
    "an or of names": expression(lambda i: f"ctx.a{i}", " or "),
    "a list": expression(lambda i: str(i), ", ", "[@]"),
    "an object": expression(lambda i: f"k{i}: {i}", ", ", "{@}"),
    "texts": expression(lambda i: "'a'", " + "),
    "a long path": expression(lambda i: f"b{i}", ".", "ctx.@"),
    "indexes": expression(lambda i: "[0]", "", "ctx.a@"),
    "comparisons": expression(lambda i: "ctx.a == 1", " or "),
    "unknown functions": expression(lambda i: f"f{i}(1)", " + "),
    "unknown names": expression(lambda i: f"n{i}", " + "),
    "lambdas": expression(lambda i: "count(filter(ctx.a, x -> x > 1))", " + "),
    "a long text": expression(lambda i: "abcdefgh", "", "'@'"),
    "escapes": expression(lambda i: "\\n", "", "'@'"),
    "blanks": expression(lambda i: "        ", "", "ctx.a @ + 1"),
    "minus signs": expression(lambda i: "1", " - "),
    "numbers": expression(lambda i: "9", "", "@"),
    "open parentheses": expression(lambda i: "(", "", "@"),
    "closed parentheses": expression(lambda i: ")", "", "1@"),
    "wrong operators": expression(lambda i: "1", " && "),
}

YAML: dict[str, Make] = {
    "comments": lambda n: "# a comment\n" * n + ONE,
    "empty lines": lambda n: "\n" * 10 * n + ONE,
    "comments of JavaScript": lambda n: ONE + "// a comment\n" * n,
    "documents": lambda n: (ONE + "---\n") * n,
    "anchors": lambda n: "pipeline: p\nsteps:\n" + repeated(lambda i: f"- &a{i} {{tool: {{name: t}}}}\n")(n),
    "aliases": lambda n: "pipeline: p\nsteps:\n- &a {tool: {name: t}}\n" + "- *a\n" * n,
    "unknown aliases": lambda n: "pipeline: p\nsteps:\n" + repeated(lambda i: f"- *a{i}\n")(n),
    "equal keys": step("tool: {name: t, args: {@}}", lambda i: "x: 1", ", "),
    "tags": step("tool: {name: t, args: {@}}", lambda i: f"x{i}: !env A", ", "),
    "directives": lambda n: repeated(lambda i: f"%TAG !e{i}! tag:x\n")(n) + f"--- \n{ONE}",
    "a block": lambda n: "pipeline: p\nsteps:\n- agent:\n    prompt: |\n" + "      some words of a line\n" * n,
    "a folded text": lambda n: "pipeline: p\nsteps:\n- agent:\n    prompt: >\n" + "      some words of a line\n\n" * n,
    "a quoted text of many lines": lambda n: (
        'pipeline: p\nsteps:\n- agent: {prompt: "' + "some words\n   " * n + '"}\n'
    ),
    "open brackets": lambda n: "pipeline: p\nsteps: " + "[" * n,
    "open braces of a mapping": lambda n: "pipeline: p\nsteps: " + "{a: " * n,
    "indented lists": lambda n: "pipeline: p\nsteps:\n" + repeated(lambda i: " " * (i % 50) + "-\n")(n),
    "dashes": lambda n: "pipeline: p\nsteps: " + "- " * n,
    "question marks": lambda n: "pipeline: p\n" + "? a\n" * n,
    "tabs": lambda n: "pipeline: p\nsteps:\n" + "\t- a\n" * n,
    "foreign letters": lambda n: "pipeline: p\nsteps:\n- agent: {prompt: '" + "é😀" * n + "'}\n",
}

POLICY = (
    'schema_version: "1.0.0"\nmetadata: {id: t, name: T, version: "1.0.0", description: d}\n'
    "interface: {input: {}, output: {}}\nexecution_policy:\n  id: agf.%s\n  config:\n    %s:\n"
)


def policy(id: str, key: str, part: Callable[[int], str]) -> Make:
    return lambda n: POLICY % (id, key) + "".join(f"    - {part(i)}\n" for i in range(n))


def condition(part: Callable[[int], str]) -> Make:
    rows = f"{POLICY % ('conditional', 'routes')}    - agent: a\n      condition: {{or: [@]}}\n"
    return lambda n: rows.replace("@", ", ".join(map(part, range(n))))


POLICIES: dict[str, Make] = {
    "steps": policy(
        "sequential", "steps", lambda i: f"{{agent: x{i}, input_mapping: {{q: x{max(i - 1, 0)}.output.q}}}}"
    ),
    "steps that read the first": policy(
        "sequential", "steps", lambda i: f"{{agent: x{i}, input_mapping: {{q: x0.output.q}}}}"
    ),
    "steps without a mapping": policy("sequential", "steps", lambda i: f"{{agent: x{i}}}"),
    "steps of one agent": policy("sequential", "steps", lambda i: "{agent: a}"),
    "unknown sources": policy("sequential", "steps", lambda i: f"{{agent: x{i}, input_mapping: {{q: y{i}.output.q}}}}"),
    "misspelt keys": policy("sequential", "steps", lambda i: f"{{agnt: x{i}}}"),
    "broken paths": policy("sequential", "steps", lambda i: f"{{agent: x{i}, input_mapping: {{q: parent..q}}}}"),
    "long paths": policy(
        "sequential", "steps", lambda i: f"{{agent: x{i}, input_mapping: {{q: parent.input.{'a.' * 20}b}}}}"
    ),
    "agents at once": policy("parallel", "agents", lambda i: f"{{agent: x{i}, input_mapping: {{q: parent.input.q}}}}"),
    "agents at once, one name": policy("parallel", "agents", lambda i: "{agent: a}"),
    "a mapping": lambda n: (
        POLICY % ("sequential", "steps")
        + "    - {agent: a, input_mapping: {"
        + ", ".join(f"q{i}: parent.input.q{i}" for i in range(n))
        + "}}\n"
    ),
    "texts instead of steps": policy("sequential", "steps", lambda i: f"x{i}"),
    "routes": policy(
        "conditional",
        "routes",
        lambda i: f"{{agent: x{i}, condition: {{path: parent.input.q, operator: eq, value: {i}}}}}",
    ),
    "a condition of many": condition(lambda i: f"{{path: parent.input.q{i}, operator: eq, value: 1}}"),
    "a condition with broken paths": condition(lambda i: f"{{path: q{i}, operator: eq, value: 1}}"),
    "input fields": lambda n: (POLICY % ("sequential", "steps") + "    - {agent: a}\n").replace(
        "input: {}", "input: {properties: {" + ", ".join(f"p{i}: {{type: string}}" for i in range(n)) + "}}"
    ),
    "an enum of lists": lambda n: (POLICY % ("sequential", "steps") + "    - {agent: a}\n").replace(
        "input: {}", "input: {properties: {x: {enum: [" + ", ".join(f"[{i}]" for i in range(n)) + "]}}}"
    ),
    "required fields": lambda n: (POLICY % ("sequential", "steps") + "    - {agent: a}\n").replace(
        "input: {}", "input: {required: [" + ", ".join(f"p{i}" for i in range(n)) + "]}"
    ),
    "schemas in anyOf": lambda n: (POLICY % ("sequential", "steps") + "    - {agent: a}\n").replace(
        "input: {}", "input: {anyOf: [" + ", ".join("{type: string}" for i in range(n)) + "]}"
    ),
    "references of schemas": lambda n: (POLICY % ("sequential", "steps") + "    - {agent: a}\n").replace(
        "input: {}",
        "input: {$ref: '#/$defs/d0', $defs: {"
        + ", ".join(f"d{i}: {{$ref: '#/$defs/d{i + 1}'}}" for i in range(n))
        + f", d{n}: {{type: string}}}}}}",
    ),
}


def plan(part: Callable[[int], str]) -> Make:
    return lambda n: "".join(f"- {part(i)}\n" for i in range(n))


PLANS: dict[str, Make] = {
    "calls": plan(lambda i: f"{{_tool: t, x: $state.a{i}, _outputPath: $state.a{i + 1}}}"),
    "calls from the input": plan(lambda i: f"{{_tool: t, x: $input.x, _outputPath: $state.a{i}}}"),
    "calls that push": plan(lambda i: "{_tool: t, x: 1, _outputPath: $state.a, _outputMethod: push}"),
    "calls that write one place": plan(lambda i: "{_tool: t, x: 1, _outputPath: $state.a}"),
    "calls that read one place": lambda n: (
        "- {_tool: t, _outputPath: $state.a}\n"
        + plan(lambda i: f"{{_tool: t, x: $state.a, _outputPath: $state.b{i}}}")(n)
    ),
    "unresolved references": plan(lambda i: f"{{_tool: t, x: $state.u{i}, _outputPath: $state.a{i}}}"),
    "unknown methods": plan(lambda i: "{_tool: t, _outputPath: $state.a, _outputMethod: append}"),
    "unknown words": plan(lambda i: "{_tol: t, _outputPath: $state.a}"),
    "texts that look like references": plan(lambda i: f"{{_tool: t, x: 'state.a{i}', _outputPath: $state.b{i}}}"),
    "parts of one result": plan(lambda i: f"{{_tool: t, x: $state.a.b{i}, _outputPath: $state.a.b{i + 1}}}"),
    "many arguments": lambda n: "- {_tool: t, " + ", ".join(f"x{i}: $input.x{i}" for i in range(n)) + "}\n",
    "a list of references": lambda n: "- {_tool: t, x: [" + ", ".join(f"$input.x{i}" for i in range(n)) + "]}\n",
    "fallbacks": lambda n: "- {_tool: t, x: '" + " || ".join(f"$input.x{i}" for i in range(n)) + "'}\n",
    "delegates": plan(lambda i: f"{{_delegate: a{i}, task: x, _outputPath: $state.a{i}}}"),
    "confirmations": lambda n: f"confirm: [{', '.join(f't{i}' for i in range(n))}]\ncalls:\n- {{_tool: t}}\n",
}

GRAPH = "state: {r: any}\nnodes:\n%s  a: {prompt: x}\nedges:\n- {from: START, to: a}\n%s"


def nodes(part: Callable[[int], str]) -> Make:
    return lambda n: GRAPH % ("".join(f"  {part(i)}\n" for i in range(n)), "")


def edges(part: Callable[[int], str]) -> Make:
    return lambda n: GRAPH % ("", "".join(f"- {part(i)}\n" for i in range(n)))


GRAPHS: dict[str, Make] = {
    "nodes in a chain": lambda n: (
        GRAPH
        % (
            repeated(lambda i: f"  n{i}: {{prompt: x}}\n")(n),
            repeated(lambda i: f"- {{from: n{i}, to: n{i + 1}}}\n")(n - 1) + "- {from: a, to: n0}\n",
        )
    ),
    "nodes without edges": nodes(lambda i: f"n{i}: {{prompt: x}}"),
    "nodes of tools": nodes(lambda i: f"n{i}: {{type: tool, tool: t{i}}}"),
    "unknown types": nodes(lambda i: f"n{i}: {{type: toool}}"),
    "passthroughs": nodes(lambda i: f"n{i}: {{type: passthrough, output: {{r: '{{state.r{i}}}'}}}}"),
    "unknown keys of nodes": nodes(lambda i: f"n{i}: {{prompt: x, stae_key: r}}"),
    "edges to unknown nodes": edges(lambda i: f"{{from: a, to: x{i}}}"),
    "edges with conditions": edges(lambda i: f"{{from: a, to: a, condition: r > {i}}}"),
    "broken conditions": edges(lambda i: "{from: a, to: a, condition: 'r >'}"),
    "edges of one pair": edges(lambda i: "{from: a, to: END}"),
    "keys of the state": lambda n: GRAPH.replace("r: any", ", ".join(f"r{i}: str" for i in range(n))) % ("", ""),
    "slots of a prompt": lambda n: (
        GRAPH.replace("prompt: x", f"prompt: '{' '.join(f'{{s{i}}}' for i in range(n))}'") % ("", "")
    ),
    "loop limits": lambda n: GRAPH % ("", "") + f"loop_limits: {{{', '.join(f'a{i}: 3' for i in range(n))}}}\n",
    "tools of the document": lambda n: (
        GRAPH % ("", "") + "tools:\n" + repeated(lambda i: f"  t{i}: {{command: 'echo {{x}}'}}\n")(n)
    ),
    "a chain of and": edges(lambda i: f"{{from: a, to: a, condition: 'r == {i} and r != 2'}}"),
}


def graph(node: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"state": {"r": "any"}, "nodes": {"a": node}, "edges": [{"from": "START", "to": "a"}], **more}


DOCUMENTS: dict[str, Callable[[int], Any]] = {
    "slots": lambda n: graph({"prompt": "x " + " ".join(f"{{s{i}}}" for i in range(n))}),
    "slots of a template": lambda n: graph({"prompt": " ".join(f"{{{{ s{i} }}}}" for i in range(n))}),
    "keys of a template": lambda n: graph({"prompt": "{{ a" + ".b" * n + " }}"}),
    "slots of a command": lambda n: graph(
        {"type": "tool", "tool": "t"}, tools={"t": {"command": "echo " + " ".join(f"{{x{i}}}" for i in range(n))}}
    ),
    "placeholders": lambda n: graph(
        {"type": "passthrough", "output": {"r": "x " + " ".join(f"{{state.r{i}}}" for i in range(n))}}
    ),
    "unknown nodes": lambda n: {
        **graph({"prompt": "x y"}),
        "edges": [{"from": "START", "to": f"x{i}"} for i in range(n)],
    },
    "conditions": lambda n: {
        **graph({"prompt": "x y"}),
        "edges": [
            {"from": "START", "to": "a"},
            *({"from": "a", "to": "a", "condition": f"b{i} > 1"} for i in range(n)),
        ],
    },
}


def as_document(document: Callable[[int], Any]) -> Make:
    return lambda n: json.dumps(document(n))


GRAPHS |= {name: as_document(document) for name, document in DOCUMENTS.items()}

CONSTRUCTIONS = {
    (language, name): make
    for language, table in (
        ("pipeline", PIPELINES | EXPRESSIONS | YAML),
        ("policy", POLICIES),
        ("plan", PLANS),
        ("graph", GRAPHS),
    )
    for name, make in table.items()
}


def seconds(language: str, text: str, rounds: int) -> float:
    """The smallest CPU time of several loads."""
    best = float("inf")
    gc.disable()  # a collection visits all objects of the process, also those of other tests
    try:
        for _ in range(rounds):
            began = time.process_time()
            with contextlib.suppress(agf.DefinitionError):
                agf.load(text, language, name="p", registry=agf.Registry())
            best = min(best, time.process_time() - began)
    finally:
        gc.enable()
    return best


def test_there_are_120_constructions() -> None:
    assert len(CONSTRUCTIONS) >= 120


@pytest.mark.parametrize(("language", "name"), CONSTRUCTIONS)
def test_loading_takes_linear_time(language: str, name: str) -> None:
    if language == "graph":
        pytest.importorskip("jinja2")
    make, exponent = CONSTRUCTIONS[language, name], 2.0 if (language, name) in SQUARE else 1.2
    seconds(language, make(3), 1)  # imports and compiles what the load needs
    few = FEW
    for rounds in (1, 3, 5):  # the machine may be busy, so a slow load gets two more chances
        long = seconds(language, make(TIMES * few), rounds)
        if long < QUICK or long <= TIMES**exponent * seconds(language, make(few), rounds):
            return
        few *= 2
    pytest.fail(f"{TIMES} times the text takes {long / seconds(language, make(few // 2), 5):.0f} times as long")
