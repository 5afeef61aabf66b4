"""All mistakes of a definition are told at once: none hides another, and none is told twice.

A table has one mistake of each kind for each language. Alone, a mistake is exactly one problem; two mistakes in one
text are exactly these two problems.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise, permutations
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
    "the name of an item": (
        "for_each: {item: doc, over: '[1]', on_error: abort, do: {transform: {value: item}}, "
        "collect: {transform: {value: pipe}}}",
        "pipeline.unknown-key",
        "item",
    ),
    "a misspelt kind": ("transfrom: {value: '1'}", "pipeline.step-kind", "transfrom"),
    "an unknown kind": ("zebra: {value: '1'}", "pipeline.step-kind", "zebra"),
    "two kinds": ("transform: {value: '1'}\n  tool: {name: use}", "pipeline.step-shape", "tool"),
    "a key beside its kind": ("transform: {value: '1'}\n  output: x", "pipeline.step-shape", "output"),
    "a step that is a text": ("transform", "pipeline.step-shape", "transform"),
    "a step without keys": ("transform: ctx.a", "pipeline.wrong-type", "ctx.a"),
    "a kind with a text, and its keys beside it": ("tool: use\n  args: {x: 1}", "pipeline.step-shape", "tool"),
    "a step of GitHub Actions": ("name: use it\n  uses: use\n  with: {x: 1}", "pipeline.step-shape", "uses"),
    "a step with a type": ("type: tool\n  name: use\n  args: {x: 1}", "pipeline.step-shape", "type"),
    "a command with its name": ("name: list\n  run: ls -l", "pipeline.step-shape", "run"),
    "cases without cases": (
        "match: {on: \"'a'\", a: {pipeline: q}}",
        "pipeline.missing-key",
        "match",
    ),
    "branches without branches": (
        "parallel: {a: {transform: {value: '1'}}, b: {transform: {value: '2'}}, collect: {transform: {value: pipe.a}}}",
        "pipeline.missing-key",
        "parallel",
    ),
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

PLAN: dict[str, tuple[str, str, str]] = {
    "a misspelt key": ("{_tool: use, x: 1, _outputPth: $state.a}", "plan.unknown-key", "_outputPth"),
    "a misspelt tool key": ("{_tol: use, x: 1}", "plan.unknown-key", "_tol"),
    "a key that nothing resembles": ("{_tool: use, x: 1, _zebra: 1}", "plan.unknown-key", "_zebra"),
    "the tool without an underscore": ("{tool: use, x: 1}", "plan.bad-call", "tool"),
    "the tool at another key": ("{uses: use, x: 1}", "plan.bad-call", "uses"),
    "wrapped arguments": ("{_tool: use, args: {x: 1}}", "flow.unknown-argument", "args"),
    "a call that is a text": ("use", "plan.bad-call", "use"),
    "a call without a tool": ("{x: 1}", "plan.bad-call", "{x: 1}"),
    "a wrong type": ("{_tool: [use]}", "plan.bad-call", "[use]"),
    "a wrong path": ("{_tool: use, x: 1, _outputPath: 5}", "plan.bad-output-path", "5"),
    "a broken path": ("{_tool: use, x: 1, _outputPath: state.a}", "plan.bad-output-path", "state.a"),
    "a broken reference": ("{_tool: use, x: $state..a}", "plan.bad-reference", "."),
    "an unknown method": (
        "{_tool: use, x: 1, _outputPath: $state.b, _outputMethod: ad}",
        "plan.unknown-method",
        "ad",
    ),
    "an unknown tool": ("{_tool: nope}", "flow.unknown-tool", "nope"),
    "an unknown argument": ("{_tool: use, x: 1, zebra: 2}", "flow.unknown-argument", "zebra"),
    "a missing argument": ("{_tool: use}", "flow.missing-argument", "use"),
    "an unknown flow": ("{_delegate: nowhere}", "flow.unknown-flow", "nowhere"),
}
"""A call with one mistake for each kind of mistake."""

GRAPH: dict[str, tuple[str, str, str]] = {
    "a misspelt key": ("{type: python, tool: take, state_ky: a}", "graph.unknown-key", "state_ky"),
    "a misspelt type key": ("{tpye: python, tool: take, state_key: a}", "graph.unknown-key", "tpye"),
    "a key that nothing resembles": ("{type: python, tool: take, zebra: 1}", "graph.unknown-key", "zebra"),
    "a misspelt key without a value": (
        '{type: map, over: "{state.xs}", as: x, node: {type: passthrough}, colect: }',
        "graph.unknown-key",
        "colect",
    ),
    "an unknown type": ("{type: zebra}", "graph.node-type", "zebra"),
    "a misspelt type": ("{type: pyton, tool: take}", "graph.node-type", "pyton"),
    "a type as a key": ("{python: take, state_key: g}", "graph.unknown-key", "python"),
    "a type as the key around a node": (
        "{tool: {tool: use, variables: {x: 1}, state_key: h}}",
        "graph.unknown-key",
        "tool",
    ),
    "no type": ("{tool: use, variables: {x: 1}, state_key: i}", "graph.missing-key", "tool"),
    "the tool at a key of GitHub Actions": ("{type: python, uses: take, state_key: j}", "graph.unknown-key", "uses"),
    "a node that is a text": ("take", "graph.node-shape", "take"),
    "a missing key": ("{type: tool}", "graph.missing-key", "NODE"),
    "a wrong type": ("{type: tool, tool: [use]}", "graph.wrong-type", "[use]"),
    "wrong variables": ("{type: tool, tool: use, variables: [1]}", "graph.wrong-type", "[1]"),
    "a wrong limit": ("{type: python, tool: take, timeout: soon}", "graph.wrong-type", "soon"),
    "braces without quotes": (
        "{type: tool, tool: text, variables: {x: {state.n}}, state_key: f}",
        "graph.literal-braces",
        "{state.n}",
    ),
    "a broken expression": (
        '{type: tool, tool: use, variables: {x: "{state.n +}"}, state_key: b}',
        "graph.unfinished",
        "}",
    ),
    "an unknown tool": ("{type: tool, tool: nope, state_key: c}", "flow.unknown-tool", "nope"),
    "an unknown argument": (
        "{type: tool, tool: use, variables: {x: 1, zebra: 2}, state_key: d}",
        "flow.unknown-argument",
        "zebra",
    ),
    "a missing argument": ("{type: tool, tool: use, state_key: e}", "flow.missing-argument", "use"),
    "an unknown graph": (
        "{type: subgraph, graph: nowhere, input_mapping: {n: n}, output_mapping: {g: n}}",
        "flow.unknown-flow",
        "nowhere",
    ),
}
"""A node with one mistake for each kind of mistake."""

POLICY: dict[str, tuple[str, str, str]] = {
    "a misspelt key": ("{agnt: writer}", "policy.schema", "agnt"),
    "a key that nothing resembles": ("{agent: writer, zebra: 1}", "policy.unknown-field", "zebra"),
    "a misspelt mapping": (
        "{agent: writer, input_maping: {topic: parent.input.topic}}",
        "policy.unknown-field",
        "input_maping",
    ),
    "a step that is a text": ("writer", "policy.schema", "writer"),
    "a step without an agent": (
        "{input_mapping: {topic: parent.input.topic}}",
        "policy.schema",
        "{input_mapping: {topic: parent.input.topic}}",
    ),
    "a wrong type": ("{agent: [writer]}", "policy.schema", "[writer]"),
    "a wrong mapping": ("{agent: writer, input_mapping: [1]}", "policy.schema", "[1]"),
    "a path that is no text": ("{agent: writer, input_mapping: {topic: 5}}", "policy.schema", "5"),
    "a broken path": ("{agent: writer, input_mapping: {topic: parent.input..a}}", "policy.path-syntax", "."),
    "an unknown source": ("{agent: writer, input_mapping: {topic: zebra.output.a}}", "policy.unknown-alias", "zebra"),
    "an unknown agent": ("{agent: nobody}", "flow.unknown-agent", "nobody"),
    "an unknown field": (
        "{agent: writer, input_mapping: {tpic: parent.input.topic}}",
        "flow.unknown-field-given",
        "tpic",
    ),
}
"""A step of an agf.sequential with one mistake for each kind of mistake."""

VOID: dict[str, tuple[str, set[str]]] = {
    "pipeline": (
        "flow.unwritten",
        {
            "a key that nothing resembles",
            "an unknown kind",
            "two kinds",
            "a step that is a text",
            "a step without keys",
            "a wrong store",
        },
    ),
    "policy": ("policy.unknown-alias", {"a step that is a text", "a step without an agent", "a wrong type"}),
}
"""For each language the code of a wrong reference, and the mistakes before which, or after which in a pipeline, no
reference is wrong: what cannot be read may have the name."""


def registry() -> agf.Registry:
    shelf = agf.Registry()

    @agf.tool(registry=shelf)
    def use(x: Any) -> Any:
        return x

    @agf.tool(registry=shelf)
    def text(x: str) -> str:
        return x

    @agf.agent(registry=shelf, default=True)
    def bot(prompt: str) -> str:
        return prompt

    @agf.tool(registry=shelf)
    def take(state: dict[str, Any]) -> Any:
        return state

    @agf.agent(registry=shelf)
    def writer(topic: str) -> str:
        return topic

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


def plan(*calls: str) -> str:
    return "\n".join(["calls:", *(f"- {call}" for call in calls)])


def graph(*nodes: str) -> str:
    names = ("START", *(f"n{number}" for number, _ in enumerate(nodes)), "END")
    edges = (f"- {{from: {first}, to: {second}}}" for first, second in pairwise(names))
    return "\n".join(["nodes:", *(f"  n{number}: {node}" for number, node in enumerate(nodes)), "edges:", *edges])


def policy(*steps: str) -> str:
    return "\n".join(["id: agf.sequential", "config:", "  steps:", *(f"  - {step}" for step in steps)])


TEXTS: dict[str, tuple[dict[str, tuple[str, str, str]], Callable[..., str]]] = {
    "pipeline": (PIPELINE, pipeline),
    "plan": (PLAN, plan),
    "graph": (GRAPH, graph),
    "policy": (POLICY, policy),
}


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
        code_of_reference, unsure = VOID.get(language, ("", set()))
        is_unsure = not unsure.isdisjoint(names[:1] if language == "pipeline" else names)
        problems = [
            (code, at.replace("NODE", f"n{number}"))
            for number, (_, code, at) in enumerate(rows)
            if not (is_unsure and code == code_of_reference)
        ]
        yield Case(names, language, text(*(row[0] for row in rows)), problems)


SINGLE = [case for language in TEXTS for case in cases(language, 1)]


@pytest.mark.parametrize("case", SINGLE, ids=lambda case: f"{case.language}: {case.names[0]}")
def test_one_mistake_is_one_problem(case: Case) -> None:
    assert told(case.text, case.language) == case.problems


@pytest.mark.parametrize("language", TEXTS)
def test_no_mistake_hides_another(language: str) -> None:
    for case in cases(language, 2):
        assert sorted(told(case.text, language)) == sorted(case.problems), case.text


def test_a_misspelt_key_without_a_value_is_one_problem_of_an_edge() -> None:
    text = "nodes:\n  a: {type: passthrough}\nedges: [{from: START, to: a}, {fom: , to: END}]\n"
    assert told(text, "graph") == [("graph.unknown-key", "fom")]


HIDDEN: dict[str, tuple[str, list[Found]]] = {
    "a step of a pipeline as a call": (
        "- {tool: use, args: {x: $state..a}, output: y}\n- {name: nope, arguments: {x: 1}}",
        [
            ("plan.bad-call", "tool"),
            ("flow.unknown-argument", "args"),
            ("plan.bad-reference", "."),
            ("flow.unknown-argument", "output"),
            ("plan.bad-call", "name"),
            ("flow.unknown-tool", "nope"),
        ],
    ),
    "a step of GitHub Actions as a call": (
        "- {name: first, uses: use, with: {x: 1}, if: $input.a, needs: [a]}",
        [
            ("flow.unknown-argument", "name"),
            ("plan.bad-call", "uses"),
            ("flow.unknown-argument", "with"),
            ("flow.unknown-argument", "if"),
            ("flow.unknown-argument", "needs"),
        ],
    ),
    "labels and words of other languages beside a step": (
        "pipeline: p\nsteps:\n- name: first\n  tool: {name: use, args: {x: 1}}\n  needs: b\n  if: ctx.a\n  retry: 3",
        [
            ("pipeline.step-shape", "name"),
            ("pipeline.step-shape", "needs"),
            ("pipeline.step-shape", "if"),
            ("pipeline.step-shape", "retry"),
        ],
    ),
    "a task of Airflow": (
        "pipeline: p\nsteps:\n- task_id: a\n  python_callable: nope\n  op_kwargs: {x: 1}\n  trigger_rule: all_done",
        [
            ("pipeline.step-shape", "python_callable"),
            ("flow.unknown-tool", "nope"),
            ("pipeline.step-shape", "trigger_rule"),
        ],
    ),
    "branches beside a misspelt collect": (
        "pipeline: p\nsteps:\n- parallel:\n    branch_a: {transform: {value: ctx.a +}}\n"
        "    branch_b: {tool: {name: nope}}\n    colect: {transform: {value: pipe.branch_a}}",
        [
            ("pipeline.missing-key", "parallel"),
            ("r1.syntax", "+"),
            ("flow.unknown-tool", "nope"),
            ("pipeline.unknown-key", "colect"),
        ],
    ),
    "a reference without its sign behind a tool without an underscore": (
        "- {tool: use, x: input.name}\n- {_tool: use, x: input.csv}",
        [("plan.bad-call", "tool"), ("plan.no-dagger", "input.name")],
    ),
    "config and steps": (
        "id: agf.sequential\nConfig:\n  Steps:\n  - {agent: nobody}\n  output_from: nope",
        [
            ("policy.schema", "Config"),
            ("policy.schema", "Steps"),
            ("flow.unknown-agent", "nobody"),
            ("policy.output-from", "nope"),
        ],
    ),
    "steps for agents": (
        "id: agf.parallel\nconfig: {steps: [{agent: writer, input_mapping: {topic: parent.input..a}}]}",
        [("policy.schema", "steps"), ("policy.path-syntax", ".")],
    ),
    "a config of another name in a policy with a misspelt name": (
        "Execution_policy: {Id: agf.parallel, settings: 1, configuration: {agents: [{agent: nobody}]}}",
        [
            ("policy.document-kind", "Execution_policy"),
            ("policy.schema", "Id"),
            ("policy.unknown-field", "settings"),
            ("policy.schema", "configuration"),
            ("flow.unknown-agent", "nobody"),
        ],
    ),
    "an id behind its config": (
        "config: {steps: [{agent: nobody}]}\nID: agf.sequential",
        [("flow.unknown-agent", "nobody"), ("policy.document-kind", "ID")],
    ),
    "no config": (
        "id: agf.sequential\nsteps: [{agnt: nobody}]\noutput_from: nope",
        [
            ("policy.schema", "id"),
            ("policy.schema", "agnt"),
            ("flow.unknown-agent", "nobody"),
            ("policy.output-from", "nope"),
        ],
    ),
    "an agent and a path of a batch": (
        "id: agf.batch\nconfig: {agents: nobody, input_mapping: {topic: parent.input.a}}",
        [
            ("policy.schema", "agents"),
            ("flow.unknown-agent", "nobody"),
            ("policy.iteration-missing", "input_mapping"),
        ],
    ),
    "routes and their condition": (
        "id: agf.conditional\nconfig: {Routes: [{if: {args_match: {zebra.output.a: 1}}, agent: nobody}]}",
        [
            ("policy.schema", "Routes"),
            ("policy.schema", "if"),
            ("policy.unknown-alias", "zebra"),
            ("flow.unknown-agent", "nobody"),
        ],
    ),
    "a route without a condition": (
        "id: agf.conditional\nconfig: {routes: [{agent: nobody}], default_agent: nobody_else}",
        [
            ("policy.schema", "{agent: nobody}"),
            ("flow.unknown-agent", "nobody"),
            ("flow.unknown-agent", "nobody_else"),
        ],
    ),
    "a value that its key does not mean": (
        "id: agf.sequential\nconfig: {steps: [{agnt: [nobody]}], output_from: nobody}",
        [("policy.schema", "agnt")],
    ),
    "steps that are no list": (
        "id: agf.sequential\nconfig: {steps: {agent: writer}, output_from: writer}",
        [("policy.schema", "{agent: writer}")],
    ),
    "a step that is no mapping": (
        "id: agf.sequential\nconfig: {steps: [writer, {agent: bot}], output_from: writer}",
        [("policy.schema", "writer")],
    ),
    "one mapping in two places": (
        "id: agf.sequential\nconfig: {steps: [&a {agnt: nobody}, *a]}",
        [("policy.schema", "agnt"), ("flow.unknown-agent", "nobody")],
    ),
}
"""Pipelines, plans and policies with a mistake around others, and all of their problems."""


@pytest.mark.parametrize("title", HIDDEN)
def test_a_mistake_around_others_hides_none(title: str) -> None:
    text, problems = HIDDEN[title]
    language = "pipeline" if text.startswith("pipeline") else "plan" if text.startswith("-") else "policy"
    assert told(text, language) == problems


DOCUMENT = """schema_version: "1.0.0"
metadata: {id: t, name: T, version: "1.0.0", description: test}
interface: {input: {properties: {topic: {type: string}}}, output: {}}
"""
REACT = "execution_policy: {id: agf.react, config: {instructions: Be helpful., model: 'ollama:m'}}\n"
NODES = "nodes: {a: {type: passthrough}}\nedges: [{from: START, to: a}, {from: a, to: END}]\n"

ENTRIES: dict[str, tuple[str, str, list[Found]]] = {
    "exports": ("graph", f"{NODES}exports: {{x: 1, y: 2}}", [("graph.wrong-type", "1"), ("graph.wrong-type", "2")]),
    "state": (
        "graph",
        f"state: {{x: [1], y: [2]}}\n{NODES}",
        [("graph.wrong-type", "[1]"), ("graph.wrong-type", "[2]")],
    ),
    "tools": (
        "graph",
        f"tools: {{x: 1, c: {{command: ls}}, d: {{type: pyton}}, y: 2}}\n{NODES}",
        [("graph.wrong-type", "1"), ("graph.wrong-type", "pyton"), ("graph.wrong-type", "2")],
    ),
    "paths in a text": (
        "graph",
        graph('{type: tool, tool: use, variables: {x: "see state.zebra and state.n"}, state_key: n}'),
        [("graph.literal-path", "state.n")],
    ),
    "computed placeholders": (
        "graph",
        graph('{type: tool, tool: use, variables: {x: "{state.n + 1}, {{state.n}} and {state.n - 3}"}, state_key: n}'),
        [
            ("graph.text-arithmetic", "{state.n "),
            ("graph.literal-braces", "{{state.n}}"),
            ("graph.text-arithmetic", "{state.n "),
        ],
    ),
    "keywords of a schema": (
        "graph",
        graph(
            '{type: llm, prompt: "{n}", state_key: n, output_schema: {type: object, properties: '
            "{a: {type: string, minLenght: 1, patern: x}, c: {d: 3}, e: {f: 3}}}}"
        ),
        [
            ("graph.schema-keyword", "minLenght"),
            ("graph.schema-keyword", "patern"),
            ("graph.prompt-schema", "d"),
            ("graph.prompt-schema", "f"),
        ],
    ),
    "attached files": (
        "pipeline",
        pipeline("agent: {prompt: hi, attach: [report.pdf, data.csv]}"),
        [("pipeline.attach-path", "report.pdf"), ("pipeline.attach-path", "data.csv")],
    ),
    "hyphens of a name": (
        "pipeline",
        pipeline("transform: {value: '1', output: run-2-total}", "transform: {value: run-2-total}"),
        [("pipeline.store-name", "run-2-total")],
    ),
    "steps with cases": (
        "pipeline",
        pipeline(
            "match: {on: kind, cases: {a: {pipeline: q}}}",
            "match: {on: \"'a'\", cases: {a: {pipeline: q}, b: {pipeline: q}}}",
        ),
        [("flow.label", "b")],
    ),
    "arguments that look like calls": (
        "plan",
        plan("{_tool: use, x: 1, y: {_tool: use}, z: {_tool: use}}"),
        [
            ("plan.literal-reference", "y"),
            ("flow.unknown-argument", "y"),
            ("plan.literal-reference", "z"),
            ("flow.unknown-argument", "z"),
        ],
    ),
    "governance policies": (
        "policy",
        f"{DOCUMENT}constraints: {{governance_policies: [{{required: true}}, {{policy_ref: b}}]}}\n{REACT}",
        [("policy.schema", "{required: true}"), ("policy.governance", "b")],
    ),
    "tools with one alias": (
        "policy",
        f"{DOCUMENT}action_space: {{local_tools: [{{alias: use}}, {{alias: use}}, {{alias: nope}}]}}\n{REACT}",
        [("policy.duplicate-alias", "use"), ("flow.unknown-tool", "nope")],
    ),
    "tools without an alias": (
        "policy",
        f"{DOCUMENT}action_space: {{local_tools: [{{}}, {{alias: nope}}]}}\n{REACT}",
        [("policy.schema", "{}"), ("flow.unknown-tool", "nope")],
    ),
    "agents that a model may not call": (
        "policy",
        f"{DOCUMENT}action_space: {{local_tools: [{{alias: use}}], local_agents: [{{alias: writer, "
        f"source_type: kernel, source: writer}}, {{alias: use, source: ./u.agf.yaml}}, "
        f"{{alias: x, source: ./x.agf.yaml}}]}}\n{REACT}",
        [("policy.not-offered", "use"), ("policy.not-offered", "x")],
    ),
    "routes": (
        "policy",
        "id: agf.conditional\nconfig: {routes: [{when: {args_match: {parent.input.a: 1}}}, {agent: nobody}, "
        "{agent: writer, when: {args_match: {zebra.output.a: 1}}}]}",
        [
            ("policy.schema", "{when: {args_match: {parent.input.a: 1}}}"),
            ("policy.schema", "{agent: nobody}"),
            ("flow.unknown-agent", "nobody"),
            ("policy.unknown-alias", "zebra"),
        ],
    ),
    "fields of an agent that takes a prompt": (
        "policy",
        policy("{agent: bot, input_mapping: {a: parent.input.x, promtp: parent.input.y}}"),
        [("flow.unknown-field-given", "bot"), ("flow.unknown-field-given", "promtp")],
    ),
    "paths of a mapping": (
        "policy",
        policy("{agent: writer, input_mapping: {topic: 5, b: parent.input..x}}"),
        [("policy.schema", "5"), ("flow.unknown-field-given", "b"), ("policy.path-syntax", ".")],
    ),
    "placeholders of a text": (
        "policy",
        DOCUMENT + REACT.replace("Be helpful.", "'Look at {zebra}, {topic} and {{topic}}.'"),
        [("policy.literal-path", "{topic}"), ("policy.literal-path", "{{topic}}")],
    ),
}
"""For each list of a language a text whose list has a faulty entry before others, and all of its problems."""


@pytest.mark.parametrize("title", ENTRIES)
def test_a_faulty_entry_hides_none_after_it(title: str) -> None:
    language, text, problems = ENTRIES[title]
    assert told(text, language) == problems


@pytest.mark.parametrize(
    ("step", "hint"),
    [
        ("run: ls -l", "write: shell: {command: ls -l}"),
        ("if: ctx.n > 1\n  then: 1", "match runs a pipeline by a value"),
        ("match: {on: pipe, a: q, cases: {b: {pipeline: q}}}", "indent a case below cases: a: {pipeline: NAME}"),
        (
            "for_each: {item: doc, over: '[1]', on_error: abort, do: {transform: {value: item}}, "
            "collect: {transform: {value: pipe}}}",
            "an element is called item in do:",
        ),
    ],
)
def test_a_word_of_another_language_is_advised(step: str, hint: str) -> None:
    with pytest.raises(agf.DefinitionError) as raised:
        agf.load(pipeline(step), "pipeline", registry=SHELF)
    assert [problem.hint and problem.hint.startswith(hint) for problem in raised.value.diagnostics] == [True]
