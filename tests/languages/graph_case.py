"""Runs a graph that a vector row describes, and describes its problems."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from types import SimpleNamespace
from typing import Any

import yaml

import agf_magics as agf
from agf_magics.flow.graph_steps import Walk
from agf_magics.flow.progress.events import EdgeTaken, StepStarted
from agf_magics.flow.step import Step
from agf_magics.flow.steps import WIDTH, Branches, Choose, Each, Invoke, Sequence
from agf_magics.languages.graph.expressions.tokens import Literal, format_literal
from agf_magics.languages.graph.expressions.tokens import Path as StatePath
from agf_magics.languages.graph.expressions.values import (
    Atom,
    One,
    Operand,
    Pairs,
    Sentence,
    Template,
)
from agf_magics.languages.graph.state import Joining
from tests.engine.virtual_time import run_virtual
from tests.languages.loading import code_and_place, load, write_files


def decoded(value: Any) -> Any:
    """A value of a row, with the values that JSON lacks."""
    if isinstance(value, list):
        return [decoded(item) for item in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"__object__": fields}:
            return SimpleNamespace(**{name: decoded(inner) for name, inner in fields.items()})
        case {"__tuple__": items}:
            return tuple(decoded(item) for item in items)
        case {"__float__": text}:
            return float(text)
    return {name: decoded(inner) for name, inner in value.items()}


def found_in(text: str) -> list[dict[str, Any]]:
    return [code_and_place(problem) for problem in load("graph", text)[1]]


def edge_with(condition: str, state: Mapping[str, Any]) -> str:
    """A graph with declared state keys and this condition on an edge."""
    edges = [
        {"from": "START", "to": "a"},
        {"from": "a", "to": "b", "condition": condition},
        {"from": "a", "to": "END", "condition": "else"},
    ]
    document = {
        "state": dict.fromkeys(state, "any"),
        "nodes": {"a": {"type": "passthrough"}, "b": {"type": "passthrough"}},
        "edges": edges,
    }
    return yaml.safe_dump(document, allow_unicode=True, sort_keys=False, width=10_000)


def registry_of(row: Mapping[str, Any]) -> agf.Registry:
    """The functions, the agent and the flows that the graph of a row calls, under their names there."""
    registry, names = agf.Registry(), dict[str, Any]()
    exec(row.get("tools", ""), names)
    for text in (row["text"], *(text for name, text in row.get("files", {}).items() if "/" not in name)):
        for name, tool in (yaml.safe_load(text).get("tools") or {}).items():
            if tool.get("function") in names:
                agf.tool(names[tool["function"]], name=name, registry=registry, where="loop")
    if "agent" in row:
        agf.agent(eval(row["agent"], names), name="agent", registry=registry, default=True, where="loop")
    for text in row.get("library", ()):
        agf.define(text, registry=registry)
    return registry


def run_case(row: Mapping[str, Any]) -> dict[str, Any]:
    """The outcome of a row: its state, its rounds, its warnings, or its error."""
    before, rounds, answers = Path.cwd(), [list[str]()], iter(row.get("answers", ()))

    def heard(event: Any) -> None:
        if isinstance(event, StepStarted) and len(event.at) == 2 and event.at[0] != "nodes":
            rounds[-1].append(str(event.at[0]).removeprefix("nodes."))
        elif isinstance(event, EdgeTaken) and rounds[-1]:
            rounds.append([])

    with TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            write_files(row)
            registry = registry_of(row)
            flow = agf.load(row["text"], "graph", registry=registry)
            ask = (lambda question: next(answers)) if "answers" in row else None
            run = run_virtual(agf.arun(flow, row["input"], registry=registry, on_event=heard, ask=ask))
        except agf.AgfError as error:
            cause = {"cause": type(error.__cause__).__name__} if error.__cause__ is not None else {}
            return {"error": {**code_and_place(error.diagnostic), **cause}}
        finally:
            os.chdir(before)
    outcome: dict[str, Any] = {"ok": run.output, "order": [names for names in rounds if names]}
    if warnings := [code_and_place(warning) for warning in flow.warnings if warning.severity == "warning"]:
        outcome["warnings"] = warnings
    return outcome


def normal(flow: agf.Flow) -> dict[str, Any]:
    """A graph as data, with the defaults filled in."""
    (walk,) = flow.body.steps
    assert isinstance(walk, Walk)
    assert isinstance(walk.join, Joining)
    keys = {key.name: [key.type, key.reducer] for key in walk.join.keys.declared.values()}
    as_row: dict[str, Any] = {
        "name": flow.name,
        "description": flow.declared.description,
        "keys": keys,
        "nodes": {name: step_of(step) for name, step in walk.nodes.items()},
        "edges": [[edge.source, edge.target, "else" if edge.otherwise else edge.label] for edge in walk.edges],
        "limits": dict(walk.limits),
        "exits": dict(walk.exits),
        "rounds": walk.rounds,
        "width": walk.width,
        "exports": [[export.name, export.format, export.file] for export in flow.declared.exports],
    }
    return {key: value for key, value in as_row.items() if value not in ("", {}, [], 50, 8)}


def step_of(step: Step) -> dict[str, Any]:
    as_row: dict[str, Any] = {"kind": step.word, "label": step.label, "keeps_failures": step.rescue is not None}
    match step:
        case Invoke():
            as_row |= {"calls": [step.kind, step.name.text], "file": step.lookup.file and step.lookup.file.text}
            as_row |= {
                "among": None
                if step.pick is None or step.pick.among is None
                else [name.text for name in step.pick.among],
                "timeout": step.timeout,
            }
            as_row |= {"gives": step.gives and step.gives.text}
            as_row |= {"tools": [name.text for name in step.tools] if step.tools is not None else None}
            asks = {
                name: value
                for name, value in step.asking._asdict().items()
                if value and name not in ("span", "no_tools", "counts_as_session")
            }
            as_row |= {"asks": asks or None, "shows_while_waiting": step.exchange.while_waiting is not None}
        case Each():
            as_row |= {
                "node": step_of(step.body),
                "most": step.cut.most if step.cut is not None else None,
                "limit": step.limit or WIDTH,
            }
        case Branches():
            as_row |= {"call": step_of(step.branches["call"]), "retries": step.failing.retries}
        case Sequence():
            as_row |= {"steps": [step_of(inner) for inner in step.steps]}
        case Choose():
            as_row |= {"cases": {name: step_of(case) for name, case in step.cases.items()}}
    return {key: value for key, value in as_row.items() if value not in (None, False, "")}


def format_template(node: Template) -> str:
    """The text of a value expression."""
    if isinstance(node, Sentence):
        return "".join(part if isinstance(part, str) else part.text for part in node.parts)
    if isinstance(node, StatePath):
        return "{" + _format_atom(node) + "}"
    return "{" + f"{_format_atom(node.left)} {node.operator} {_format_operand(node.right)}" + "}"


def _format_operand(node: Operand) -> str:
    match node:
        case One():
            return f"[{_format_atom(node.item)}]"
        case Pairs():
            return "{" + ", ".join(f"{format_literal(key)}: {_format_atom(value)}" for key, value in node.pairs) + "}"
    return _format_atom(node)


def _format_atom(node: Atom) -> str:
    match node:
        case StatePath():
            return "state." + ".".join(node.names)
        case Literal():
            return format_literal(node.value)
    return node.text
