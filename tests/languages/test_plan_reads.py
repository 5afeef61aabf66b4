"""Reading a reference from the context of a plan: the rows are the rules, and the laws hold for every context."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import agf_magics as agf
from agf_magics.languages.descend import MISSING
from agf_magics.languages.plan import resolve
from agf_magics.languages.plan.log.log import Log, remove_secrets
from agf_magics.languages.plan.log.messages import read_content, render
from agf_magics.languages.plan.log.reference import (
    Both,
    Either,
    Expression,
    Literal,
    Reference,
    parse,
)
from agf_magics.languages.plan.log.writes import Conflict, find, replay
from agf_magics.text.names import same_name
from agf_magics.text.source import Source

VECTORS = Path(__file__).parents[1] / "vectors" / "context_reads.json"
ROWS = json.loads(VECTORS.read_text("utf-8"))["rows"]


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_reads(row: dict[str, Any]) -> None:
    before = json.dumps(row["messages"])
    as_row = {key: value for key, value in row.items() if key not in ("value", "error", "at")}
    try:
        as_row["value"] = resolve(row["messages"], row["ref"], row.get("instance"))
    except agf.AgfError as error:
        as_row |= {"error": error.code, "at": error.diagnostic.span.text if error.diagnostic.span else None}
    assert json.dumps(as_row, sort_keys=True) == json.dumps(row, sort_keys=True)
    assert json.dumps(row["messages"]) == before


@pytest.mark.parametrize("row", ROWS, ids=[row["id"] for row in ROWS])
def test_an_expression_alone_reads_the_same(row: dict[str, Any]) -> None:
    context = {"messages": row["messages"], "instance": row["instance"]} if "instance" in row else row["messages"]
    assert value_or_code(lambda: agf.evaluate("reference", row["ref"], context)) == row.get("value", row.get("error"))


def value_or_code(work: Callable[[], Any]) -> Any:
    try:
        return work()
    except agf.AgfError as error:
        return error.code


def output(path: str, value: Any, method: str | None = None, instance: str | None = None) -> dict[str, Any]:
    """The message of a call that wrote ``value`` to ``path``."""
    kind, *segments = path.removeprefix("†").split(".")
    data = value
    for segment in reversed(segments):
        data = {segment: data}
    more = {"_outputMethod": method} if method else {}
    owner = {"_instance": instance} if instance else {}
    return {"type": "data", "kind": kind, **owner, "data": data, "_call": {"_tool": "t", "_outputPath": path}, **more}


# --- laws ---

NAMES = st.sampled_from(["a", "b", "0", "1"])
VALUES = st.recursive(
    st.one_of(st.integers(0, 3), st.none(), st.sampled_from(["", "x"])),
    lambda inner: st.one_of(st.lists(inner, max_size=2), st.dictionaries(NAMES, inner, max_size=2)),
    max_leaves=4,
)
PATHS = st.lists(NAMES, max_size=3).map(lambda names: ".".join(["†k", *names]))
METHODS = st.sampled_from([None, "set", "merge", "assign", "push", "concat"])
OWNERS = st.sampled_from([None, None, "①", "②"])
PLAIN = st.builds(
    lambda data, method, owner: {
        "type": "data",
        "kind": "k",
        "data": data,
        **({"_outputMethod": method} if method else {}),
        **({"_instance": owner} if owner else {}),
    },
    VALUES,
    METHODS,
    OWNERS,
)
MESSAGES = st.lists(st.one_of(st.builds(output, PATHS, VALUES, METHODS, OWNERS), PLAIN), max_size=6)


def folded(messages: list[dict[str, Any]], path: tuple[str, ...], instance: str | None) -> Any:
    """The same value, computed by applying all messages in their order."""
    contents = [content for message in messages if (content := read_content(message)) is not None]
    layers = (
        [content for content in contents if content.instance is None],
        [content for content in contents if content.instance == instance],
    )
    writings = [w for layer in (layers if instance else layers[:1]) for content in layer for w in content.writings]
    return find(replay(writings), path)


READ = ["†k", "†k.a", "†k.b", "†k.0", "†k.1", "†k.a.b", "†k.a.0", "†k.b.a", "†k.b.1", "†k.0.a", "†k.1.0", "†k.a.0.b"]


@given(MESSAGES)
def test_a_scan_from_the_newest_and_a_fold_of_everything_agree(messages: list[dict[str, Any]]) -> None:
    log = Log(messages)
    for path, instance in itertools.product(READ, (None, "①")):  # 12,000 reads over all examples
        reference = parse(Source("", path).span())
        assert isinstance(reference, Reference)
        try:
            expected = folded(messages, reference.path, instance)
        except Conflict:
            continue  # perhaps older than the messages of the scan, which decides
        assert repr(log.read(reference, instance)) == repr(expected), path


TEXTS = st.text(st.characters(exclude_categories=("Cs",)), max_size=6)  # type: ignore[arg-type]
REFERENCES: st.SearchStrategy[Expression] = st.builds(
    Reference,
    st.from_regex(r"[A-Za-z_][A-Za-z0-9_-]{0,5}", fullmatch=True),
    st.lists(TEXTS.map(same_name), max_size=3).map(tuple),  # normalised like the names of a path
    st.sampled_from([None, "*", "①", "employee_B"]),
)
DEFAULTS: st.SearchStrategy[Expression] = st.builds(
    Literal, st.one_of(st.integers(-99, 99), TEXTS, st.booleans(), st.none(), st.floats(-5, 5))
)
EXPRESSIONS = st.recursive(
    REFERENCES | DEFAULTS,
    lambda inner: st.one_of(
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: Either(tuple(parts))),
        st.lists(inner, min_size=2, max_size=3).map(lambda parts: Both(tuple(parts))),
    ),
    max_leaves=6,
)


@given(EXPRESSIONS)
def test_a_printed_reference_is_read_as_the_same_reference(expression: Expression) -> None:
    assert parse(Source("", str(expression)).span()) == expression


@given(st.text("†$ab.[]()|&\"'\\ 01①*", max_size=20))
def test_any_text_is_read_or_refused_at_a_place(text: str) -> None:
    outcome = value_or_code(lambda: parse(Source("", text).span()))
    assert outcome in ("plan.bad-reference", "plan.bad-expression") or parse(Source("", str(outcome)).span()) == outcome


# --- the cost of a read ---


class Counted(list[Any]):
    """The writes of a log, which counts how many of them are read."""

    looked_at = 0

    def __getitem__(self, index: Any) -> Any:
        self.looked_at += 1
        return super().__getitem__(index)


def looked_at(log: Log, reference: str) -> int:
    log._index.writings = counted = Counted(log._index.writings)
    log.read(parse(Source("", reference).span()))  # type: ignore[arg-type]
    return counted.looked_at


def other_messages(count: int) -> Iterator[dict[str, Any]]:
    for i in range(count):
        yield output(f"†state.job{i % 1000}", i)
        yield {"type": "data", "kind": "state", "data": {"plain": {str(i): i}}}


@pytest.mark.parametrize("count", [0, 10, 20_000])
def test_unread_messages_do_not_cost_a_read(count: int) -> None:
    expected = [output("†state.user", {"name": "A"}), output("†state.user.age", 7)]
    before = [output("†state.user", {"name": str(i)}) for i in range(count)]
    log = Log([*before, *expected, *other_messages(count)])
    assert looked_at(log, "†state.user") == 2
    assert looked_at(log, "†state.user.age") == 1
    assert looked_at(log, "†state.user.name") == 1
    assert looked_at(log, "†state.nothing") == 0


def test_as_many_pushes_as_there_are_messages_are_one_list() -> None:
    log = Log(output("†state.log", i, "push") for i in range(20_000))
    assert resolve(log, "†state.log") == list(range(20_000))


def test_a_growing_log_does_not_change_earlier_logs() -> None:
    first = Log([output("†state.x", 1)])
    second = first.append(output("†state.x", 2))
    other = first.append(output("†state.x", 3), output("†state.y", 4))
    assert [resolve(log, "†state.x") for log in (first, second, other)] == [1, 2, 3]
    assert [len(log) for log in (first, second, other, other.until(2), other.until(0))] == [1, 2, 3, 2, 0]
    assert resolve(other.until(1), "†state.x") == 1
    assert list(second) == [output("†state.x", 1), output("†state.x", 2)]
    with pytest.raises(agf.StepError, match=r"†state[.]y"):
        resolve(second, "†state.y")


# --- cases that rows cannot describe ---


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (
            {"type": "data", "kind": "input", "data": {"key": 1, "n": 2}},
            {"type": "data", "kind": "input", "data": {"n": 2}},
        ),
        ({"type": "input", "key": 1, "n": 2}, {"type": "input", "n": 2}),
        ({"type": "input", "input": {"key": 1}}, {"type": "input", "input": {}}),
        ({"content": {"type": "input", "key": 1, "n": 2}}, {"content": {"type": "input", "n": 2}}),
        ({"type": "data", "kind": "token", "data": "abc"}, {"type": "data", "kind": "token", "data": {}}),
        ({"type": "state", "key": 1}, {"type": "state", "key": 1}),
        ({"type": "tool", "tool": {"key": {}}}, {"type": "tool", "tool": {"key": {}}}),
        ({"type": "data", "data": "SECRET"}, None),
    ],
)
def test_a_log_that_is_kept_has_no_secret(message: dict[str, Any], expected: dict[str, Any] | None) -> None:
    cleaned = remove_secrets([message], {("input", "key"), ("token",)}, lambda held: held.get("data") == "SECRET")
    assert list(cleaned) == ([] if expected is None else [expected])


def test_no_text_drives_the_parser_over_a_bound() -> None:
    for text in ("(" * 100_000, "†a" + ".b" * 100_000, "†a || " * 50_000 + "†a", "(" * 51 + "†a" + ")" * 51):
        outcome = value_or_code(lambda text=text: resolve([{"type": "data", "kind": "a", "data": 1}], text))  # type: ignore[misc]
        assert outcome == 1 or str(outcome).startswith("plan.")


def test_a_reading_is_a_copy() -> None:
    messages = [output("†state.user", {"tags": ["a"]})]
    resolve(messages, "†state.user")["tags"].append("b")
    resolve(messages, "†state")["user"]["tags"].append("c")
    assert resolve(messages, "†state.user.tags") == ["a"]


def test_an_opaque_value_is_the_same_object() -> None:
    table = object()
    assert resolve([output("†state.table", table)], "†state.table") is table


def test_an_error_names_the_missing_value() -> None:
    with pytest.raises(agf.StepError, match=r"†state[.]nope") as caught:
        resolve([output("†state.x", 1)], "†state.nope || †input.nope")
    assert caught.value.code == "plan.not-found"


def test_a_model_does_not_see_the_writers_of_messages() -> None:
    message = {**output("†state.x", 1, "push", "①"), "_date": "2025-10-26T12:00:00Z"}
    assert render(message) == {"type": "data", "kind": "state", "_instance": "①", "data": {"x": 1}}


def test_a_wrong_list_of_messages_is_refused() -> None:
    for messages in ({"type": "data"}, None, [1], "text"):
        with pytest.raises(agf.StepError) as caught:
            resolve(messages, "†state")  # type: ignore[arg-type]
        assert caught.value.code == "plan.messages"


def test_the_log_tells_which_messages_a_value_came_from() -> None:
    log = Log([output("†state.x", 0), output("†state.x", {"a": 1}), output("†state.y", 2), output("†state.x.b", 3)])
    assert log.used(Reference("state", ("x",))) == (1, 3)
    assert log.read(Reference("state", ("z",))) is MISSING


@pytest.mark.parametrize(
    ("text", "message"), [("$state.nothing", "$state.nothing"), ("†state.nothing", "†state.nothing")]
)
def test_an_error_has_the_sign_of_the_text(text: str, message: str) -> None:
    with pytest.raises(agf.StepError, match=r"nothing found for") as caught:
        resolve([{"type": "data", "kind": "state", "data": {"x": 1}}], text)
    assert message in caught.value.diagnostic.message
    assert message[0] in (caught.value.diagnostic.hint or "")


def test_a_value_of_all_instances_depends_on_the_messages_of_each() -> None:
    log = Log([{"type": "data", "kind": "state", "_instance": name, "data": {"x": x}} for x, name in enumerate("ab")])
    assert resolve(log, "†state[*].x") == [0, 1]
    expression = parse(Source("<test>", "†state[*].x").span())
    assert isinstance(expression, Reference)
    assert log.used(expression) == (0, 1)
