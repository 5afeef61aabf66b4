"""Values that share their parts: a small value may have millions of parts if each counts in each of its places.

Every walk over a value is bounded by the containers that it visits. The tests count calls, not seconds. The values have
2^24 parts, not 2^60, so that a regression in C code fails a test and does not hang it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.catalog.digests.digesting import digest_function, digest_value
from agf_magics.command_line.streams import printable_json
from agf_magics.flow.sessions.session import format_for_model
from agf_magics.journal.codec.encoding import encode_value, json_text, preview, to_show
from agf_magics.journal.records.failures import _cause_json
from agf_magics.journal.secrets.forms import parts_of
from agf_magics.journal.secrets.masking import Secrets
from agf_magics.languages.graph.expressions.written_text import format_value
from agf_magics.languages.pipeline.r1.functions import text_form
from agf_magics.languages.pipeline.values import labels
from agf_magics.languages.plan.log.lines import format_lines
from agf_magics.languages.policy.approval import _value_words as shown_to_person
from agf_magics.lifecycle.past.export import format_export
from agf_magics.pictures.difference import shorten_pair
from agf_magics.pictures.problems import error_text
from agf_magics.pictures.values import value_html, value_json, value_text
from agf_magics.text.length import can_write, weigh
from agf_magics.text.raised import describe_exception
from agf_magics.values.as_json import as_json
from agf_magics.values.extent import LARGEST, Extents, TooDeep, count_parts, dump_bounded
from agf_magics.values.large import LargeValues
from agf_magics.values.value import equal, is_json, isolate, settle
from agf_magics.workers.chunk import described
from tests.counting import work


def pairs() -> Any:
    value: Any = [1]
    for _ in range(24):
        value = [value, value]
    return value


def mappings() -> Any:
    value: Any = {"a": "text"}
    for _ in range(24):
        value = {"left": value, "right": value}
    return value


def wide() -> Any:
    value: Any = [1] * 200
    for _ in range(3):
        value = [value] * 200
    return value


def rows() -> Any:
    row = {f"c{i}": i for i in range(100)}
    return [[row] * 500] * 500


def mixed() -> Any:
    value: Any = {"n": 1.5}
    for _ in range(16):
        value = {"l": [value, value], "m": value, "s": "x" * 50}
    return value


KINDS: dict[str, Callable[[], Any]] = {make.__name__: make for make in (pairs, mappings, wide, rows, mixed)}


@dataclass
class Holder:
    """An object whose class writes its fields."""

    held: Any


def reader_of(value: Any) -> Callable[[], Any]:
    def read() -> Any:
        return value

    return read


def refusal_of(walk: Callable[[Any], object]) -> Callable[[Any], object]:
    def attempt(value: Any) -> None:
        with pytest.raises(TooDeep, match=r"parts|characters"):
            walk(value)

    return attempt


def refusing(write: Callable[[Any], object], value: Any) -> None:
    try:
        text = write(value)
    except ValueError:
        return
    assert len(str(text)) < 100  # Python writes a short text for a value that contains itself


def masking() -> Secrets:
    secrets = Secrets()
    secrets.surround(["a-secret-of-the-surroundings"])
    return secrets


def learning() -> Secrets:
    secrets = Secrets()
    secrets.learn("a-secret-of-the-call")
    return secrets


FEW = 20_000
"""The most calls of a walk that visits each of at most 1,000 containers once."""
COPIED = 2_000_000
"""The most calls of a walk that copies a quarter of a million parts before it counts all of them."""

WALKS: dict[str, tuple[int, Callable[[Any], object]]] = {
    "a result is taken": (COPIED, refusal_of(settle)),
    "arguments are copied": (COPIED, refusal_of(isolate)),
    "arguments are copied, large ones known": (COPIED, refusal_of(lambda value: LargeValues().isolate({"x": value}))),
    "the parts are counted": (FEW, refusal_of(count_parts)),
    "the value of a step is checked": (FEW, refusal_of(Extents().check)),
    "is it JSON": (FEW, is_json),
    "as JSON": (FEW, as_json),
    "equal": (FEW, lambda value: equal(value, KINDS[kind_of(value)]())),
    "weighed": (FEW, weigh),
    "written as JSON": (FEW, refusal_of(dump_bounded)),
    "stored": (FEW, partial(encode_value, most=10_000_000)),
    "stored if short": (FEW, partial(json_text, most=10_000_000)),
    "shown of a record": (FEW, partial(to_show, most=10_000)),
    "previewed": (FEW, preview),
    "masked, with a key in the environment": (FEW, lambda value: masking().shown(value)),
    "masked, with a secret argument": (FEW, lambda value: learning().shown(value)),
    "searched for a secret": (FEW, lambda value: learning().holds(value)),
    "an object searched for a secret": (FEW, lambda value: learning().shown(Holder(value))),
    "an exception searched for a secret": (FEW, lambda value: learning().raised(ValueError(value))),
    "taken as a secret": (600_000, parts_of),
    "digested": (FEW, digest_value),
    # Its place is looked at, and its state digested.
    "digested in a closure": (2 * FEW, lambda value: digest_function(reader_of(value))),
    "a label": (FEW, labels),
    "an object in a label": (FEW, lambda value: labels([Holder(value)])),
    "in a prompt": (FEW, lambda value: refusing(text_form, value)),
    "in a text of a graph": (FEW, lambda value: refusing(format_value, value)),
    "an object in a text of a graph": (FEW, lambda value: refusing(format_value, Holder(value))),
    "for a model": (FEW, format_for_model),
    "an object for a model": (FEW, lambda value: format_for_model(Holder(value))),
    "for a person who approves": (FEW, shown_to_person),
    "in a file": (FEW, partial(format_export, format="json")),
    "an object in the lines of a context": (FEW, lambda value: list(format_lines([{"x": Holder(value)}]))),
    "on the command line": (FEW, printable_json),
    "shown as JSON": (FEW, value_json),
    "shown as HTML": (FEW, value_html),
    "shown as text": (FEW, value_text),
    "compared in a line": (FEW, lambda value: shorten_pair(value, [value])),
    "in an exception": (FEW, lambda value: describe_exception(ValueError(value))),
    "in an exception on a page": (FEW, lambda value: error_text(ValueError(value))),
    "in an exception that is stored": (FEW, lambda value: _cause_json(ValueError(value))),
    "in an exception of a worker": (1_000_000, lambda value: described(ValueError(value))),
    "the text of an object": (FEW, lambda value: can_write(Holder(value))),
}


def kind_of(value: Any) -> str:
    return next(name for name, make in KINDS.items() if type(make()) is type(value) and len(make()) == len(value))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("walk", WALKS)
def test_a_walk_is_bounded_by_the_containers_that_it_visits(kind: str, walk: str) -> None:
    most, act = WALKS[walk]
    value = KINDS[kind]()
    assert weigh(value) > 8 * LARGEST
    work(lambda: act(value), most)


@pytest.mark.parametrize("walk", [name for name in WALKS if name != "equal"])
def test_a_walk_over_a_value_that_contains_itself_ends(walk: str) -> None:
    most, act = WALKS[walk]
    cyclic: list[Any] = []
    cyclic += [cyclic, cyclic]
    with suppress(ValueError, RecursionError, AssertionError):  # each walk may refuse the value with its own error
        work(lambda: act(cyclic), most + 4_000_000)  # a million parts, of a text of a graph


def test_a_long_text_in_many_places_is_not_written_out() -> None:
    value = ["x" * 1_000_000] * 1_000
    for walk in (labels, format_for_model, shown_to_person, value_html, _short_copy, digest_value):
        work(lambda walk=walk: walk(value), FEW)  # type: ignore[misc]
    assert encode_value(value, 10_000_000).form == "again"
    with pytest.raises(ValueError, match="more than 1,000,000 characters"):
        text_form(value)


def _short_copy(value: Any) -> str:
    return describe_exception(ValueError(value))


def test_shared_parts_of_a_small_value_are_compared_masked_and_digested_as_if_not_shared() -> None:
    part = {"key": "a-secret-of-the-surroundings", "n": 1}
    shared, plain = [part, [part, part]], json.loads(json.dumps([part, [part, part]]))
    assert equal(shared, plain)
    assert masking().shown(shared) == masking().shown(plain)
    assert digest_value(shared) == digest_value(plain)
    assert weigh(shared) == weigh(plain)
    assert count_parts(shared) == count_parts(plain) == 10
    assert as_json(shared) == plain


# --- runs ---


def chain(first: str, step: str) -> str:
    return "\n".join([first, *(step.format(i=i, j=i + 1) for i in range(40))])


FLOWS = {
    "a fold of a pipeline": (
        "pipeline",
        f"""
pipeline: p
steps:
- fold: {{items: [{",".join("1" * 40)}], init: "[1]", do: {{transform: {{value: "[acc, acc]"}}}}, output: o}}
""",
    ),
    "transforms of a pipeline": (
        "pipeline",
        chain(
            "pipeline: p\nsteps:\n- transform: {value: '[1]', output: s0}",
            "- transform: {{value: '{{l: s{i}, r: s{i}}}', output: s{j}}}",
        ),
    ),
    "maps of a pipeline": (
        "pipeline",
        chain(
            "pipeline: p\nsteps:\n- transform: {value: '[1]', output: s0}",
            "- transform: {{value: 'map([1, 2, 3, 4], y -> [s{i}, s{i}, s{i}, s{i}])', output: s{j}}}",
        ),
    ),
    "nodes of a graph": (
        "graph",
        json.dumps(
            {
                "name": "g",
                "state": {"a": "any"},
                "nodes": {
                    f"n{i}": {"type": "passthrough", "output": {"a": "{state.a + state.a}" if i else "{[1]}"}}
                    for i in range(40)
                },
                "edges": [{"from": "START", "to": "n0"}]
                + [{"from": f"n{i}", "to": f"n{i + 1}"} for i in range(39)]
                + [{"from": "n39", "to": "END"}],
            }
        ),
    ),
    "results of a tool": (
        "pipeline",
        "pipeline: p\nsteps:\n- tool: {name: nested, output: o}",
    ),
}


@pytest.fixture
def registry() -> agf.Registry:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def nested() -> Any:
        return pairs()

    return registry


@pytest.mark.parametrize("name", FLOWS)
def test_a_step_whose_value_has_too_many_parts_fails_and_its_run_is_shown(
    name: str, registry: agf.Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_API_KEY", "abcdefgh12345")
    language, text = FLOWS[name]
    flow = agf.load(text, language, registry=registry)
    run = agf.run(flow, registry=registry, raises=False)
    assert run.status == "error"
    codes = {diagnostic.code for diagnostic in run.error.diagnostics}
    assert codes & {"step.too-deep", "graph.value-failed"}, run.error
    assert "5,000,000" in str(run.error)
    assert len(run._repr_mimebundle_()["text/plain"]) < 100_000
