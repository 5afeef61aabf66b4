"""A value that can be read only once, and that a second call gets, has a warning."""

from __future__ import annotations

import csv
import io
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import pytest

import agf_magics as agf

TWO = """
pipeline: two
steps:
- tool: {name: make, output: values}
- tool: {name: first, args: {values: !expr ctx.values}}
- tool: {name: second, args: {values: !expr ctx.values}}
"""
MAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "a generator": (lambda: (n for n in [1]), "generator"),
    "a map": (lambda: map(str, [1]), "map"),
    "a filter": (lambda: filter(None, [1]), "filter"),
    "a zip": (lambda: zip([1], [2], strict=True), "zip"),
    "an enumerate": (lambda: enumerate([1]), "enumerate"),
    "an iterator of a list": (lambda: iter([1]), "list_iterator"),
    "a reversed list": (lambda: reversed([1]), "list_reverseiterator"),
    "an iterator of values": (lambda: iter({"a": 1}.values()), "dict_valueiterator"),
    "rows of a file": (lambda: csv.reader(["a,b"]), "reader"),
    "mappings of a file": (lambda: csv.DictReader(["a", "1"]), "DictReader"),
    "an open file": (lambda: io.TextIOWrapper(io.BufferedReader(io.BytesIO(b"a"))), "TextIOWrapper"),
    "a file of bytes": (lambda: io.BufferedReader(io.BytesIO(b"a")), "BufferedReader"),
    "an iterator of bytes": (lambda: iter(b"ab"), "bytes_iterator"),
    "an iterator of calls": (lambda: iter(lambda: 1, 1), "callable_iterator"),
    "a list": (lambda: [1], ""),
    "a range": (lambda: range(3), ""),
    "values of a mapping": (lambda: {"a": 1}.values(), ""),
    "a counter that calls share": (itertools.count, ""),
    "a file to write": (lambda: io.StringIO(), ""),
    "an object": (object, ""),
}


def run(text: str, make: Callable[[], Any]) -> list[str]:
    registry = agf.Registry()
    agf.tool(make, name="make", registry=registry)
    for name in ("first", "second"):
        agf.tool(lambda values: None, name=name, registry=registry)
    ended = agf.run(text, registry=registry)
    return [warning.message for warning in ended.warnings if warning.code == "step.read-once"]


@pytest.mark.parametrize("what", MAKES)
def test_the_second_call_that_gets_it_is_warned_about(what: str) -> None:
    make, kind = MAKES[what]
    message = f"'second' gets a {kind} that 'first' got before: what was read from it is gone"
    assert run(TWO, make) == [message] * bool(kind)


@pytest.mark.parametrize("written", ["!expr '{rows: ctx.values}'", "!expr '[ctx.values]'"])
def test_it_is_found_in_what_the_author_writes_around_it(written: str) -> None:
    assert len(run(TWO.replace("!expr ctx.values", written), MAKES["a map"][0])) == 1


@pytest.mark.parametrize("kind", [list, list[int], Iterable])
def test_it_is_found_where_the_check_of_an_argument_reads_it(kind: Any) -> None:
    registry = agf.Registry()
    agf.tool(lambda: map(int, "12"), name="make", registry=registry)

    def reads(values: Any) -> int:
        return len(list(values))

    reads.__annotations__["values"] = kind
    for name in ("first", "second"):
        agf.tool(reads, name=name, registry=registry)
    ended = agf.run(TWO, registry=registry)
    assert "step.read-once" in [warning.code for warning in ended.warnings]


def test_one_call_may_have_it() -> None:
    assert run("\n".join(TWO.splitlines()[:-1]), MAKES["a map"][0]) == []


def test_a_value_in_two_stores_is_one() -> None:
    before, second = TWO.rsplit("\n- ", 1)
    copied = "transform: {value: ctx.values, output: again}"
    text = "\n- ".join([before, copied, second.replace("ctx.values", "ctx.again")])
    assert len(run(text, MAKES["a map"][0])) == 1
