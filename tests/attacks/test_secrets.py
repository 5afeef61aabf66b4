"""Tools return, wrap, encode or raise a secret that they received: no form of the secret is stored or shown."""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import datetime
import decimal
import functools
import html
import json
import os
import pickle
import re
import sqlite3
import struct
import tempfile
import types
import urllib.parse
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import pandas
import pydantic
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import agf_magics as agf
from agf_magics.catalog import MASK
from agf_magics.journal.secrets.masking import HELD_BACK, Secrets
from agf_magics.lifecycle.runs.run import state_of
from agf_magics.settings.settings import current
from tests.engine import kept
from tests.slow import slow_but


@dataclasses.dataclass
class Box:
    held: Any


class Slotted:
    __slots__ = ("held",)

    def __init__(self, held: Any) -> None:
        self.held = held


class Model(pydantic.BaseModel):
    held: Any


# --- what a tool may make of a secret ---


def leaves(secret: Any) -> list[Any]:
    """The texts, bytes and numbers that a secret contains."""
    if isinstance(secret, dict):
        return [leaf for part in (*secret.keys(), *secret.values()) for leaf in leaves(part)]
    if isinstance(secret, list | tuple | set | frozenset):
        return [leaf for part in secret for leaf in leaves(part)]
    return [secret]


def texts(secret: Any) -> list[str]:
    return [leaf.decode("latin-1") if isinstance(leaf, bytes) else str(leaf) for leaf in leaves(secret)]


def in_each_form(make: Callable[[str], Any]) -> Callable[[Any], Any]:
    return lambda secret: [make(text) for text in texts(secret)]


def as_bytes(encoding: str) -> Callable[[Any], Any]:
    return in_each_form(lambda text: text.encode(encoding, "replace"))


MAKES: dict[str, Callable[[Any], Any]] = {
    "itself": lambda s: s,
    "in a dict": lambda s: {"got": [s, {"more": s}]},
    "in a set": lambda s: set(leaves(s)),
    "in a frozenset": lambda s: (frozenset(leaves(s)),),
    "as keys": lambda s: dict.fromkeys(leaves(s), 1),
    "as text keys": lambda s: dict.fromkeys(texts(s), 1),
    "in a sentence": in_each_form(lambda text: f"got {text}, thanks"),
    "in a word": in_each_form(lambda text: f"x{text}y"),
    "as JSON": lambda s: json.dumps(texts(s)),
    "as JSON, not escaped": lambda s: json.dumps(texts(s), ensure_ascii=False),
    "as a repr": repr,
    "as a repr with both quotes": lambda s: repr([f"{text} '\"" for text in texts(s)]),
    "for a URL": in_each_form(lambda text: f"https://x.org/?key={urllib.parse.quote(text)}"),
    "in a form": in_each_form(urllib.parse.quote_plus),
    "in base64": in_each_form(lambda text: base64.b64encode(text.encode()).decode()),
    "in a header": in_each_form(lambda text: base64.b64encode(f"ann:{text}".encode()).decode()),
    "in hex": in_each_form(lambda text: text.encode().hex()),
    "in utf-8": as_bytes("utf-8"),
    "in utf-16": as_bytes("utf-16"),
    "in utf-32": as_bytes("utf-32"),
    "in latin-1": as_bytes("latin-1"),
    "in a bytearray": in_each_form(lambda text: bytearray(text.encode())),
    "in an object": Box,
    "in a model": lambda s: Model(held=s),
    "in slots": Slotted,
    "in a namespace": lambda s: types.SimpleNamespace(held=[s]),
    "pickled": pickle.dumps,
    "pickled as text": lambda s: pickle.dumps(s, protocol=0),
    "compressed": lambda s: zlib.compress(repr(s).encode()),
    "compressed in an object": lambda s: Box({"of": zlib.compress(repr(s).encode())}),
    "compressed in an array": lambda s: numpy.frombuffer(zlib.compress(repr(s).encode()), dtype="u1"),
    "in an array": lambda s: numpy.array(texts(s)),
    "in an object array": lambda s: numpy.array([*leaves(s), None], dtype=object),
    "in a table": lambda s: pandas.DataFrame({"got": pandas.Series(leaves(s), dtype=object)}),
    "in a column's name": lambda s: pandas.DataFrame({text: [1] for text in texts(s)}),
    "as whole numbers": lambda s: [f"pin {round(leaf)}" for leaf in leaves(s) if isinstance(leaf, int | float)],
    "as numbers": lambda s: [leaf for leaf in leaves(s) if isinstance(leaf, int | float)],
    "as decimals": lambda s: [decimal.Decimal(leaf) for leaf in leaves(s) if isinstance(leaf, int | float)],
    "as numbers of an array": lambda s: numpy.array([leaf for leaf in leaves(s) if isinstance(leaf, int | float)]),
    "as numbers in an object": lambda s: Box([leaf for leaf in leaves(s) if isinstance(leaf, int | float)]),
    "none of it": lambda s: len(leaves(s)),
}


# --- where the tests search for it ---


def forms(secret: Any) -> Iterator[tuple[str, bytes]]:
    """The forms of a secret that must not be found. They are written here by hand, independent of the engine's own
    search."""
    for leaf in leaves(secret):
        if isinstance(leaf, bytes):
            yield "bytes", leaf
        if isinstance(leaf, int | float):
            yield "number", json.dumps(leaf).encode()
            yield "pickled number", struct.pack(">d", leaf)
            if leaf == int(leaf):
                yield "whole number", str(int(leaf)).encode()
            # A smaller number has at most three bytes that are not zero: other bytes on the disk often have them, too.
            if isinstance(leaf, int) and abs(leaf) >= 1 << 24:
                yield "packed number", leaf.to_bytes(8, "little", signed=True)
    for text in texts(secret):
        plain = {text, json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1], repr(text)[1:-1],
                 html.escape(text), urllib.parse.quote(text)}  # fmt: skip
        plain |= {json.dumps(form)[1:-1] for form in plain}
        yield from (("text", form.encode()) for form in plain)
        yield from ((encoding, text.encode(encoding)) for encoding in ("utf-16-le", "utf-32-le"))
        raw = text.encode()
        yield "base64", base64.b64encode(raw)[: len(raw) * 8 // 6]
        yield "hex", raw.hex().encode()


def secrets_in(secret: Any, within: bytes) -> set[str]:
    return {name for name, form in forms(secret) if form in within}


def shown_bytes(run: agf.Run, events: list[Any]) -> bytes:
    past = agf.runs(run.run_id)
    pages = [*run._repr_mimebundle_().values(), *past._repr_mimebundle_().values(), repr(run), repr(run.trace),
             repr(list(run.trace)), repr(list(past.calls)), repr(events), repr(run.warnings)]  # fmt: skip
    error: BaseException | None = run.error
    while error is not None:
        pages += [str(error), repr(error), repr(error.args)]
        error = error.__cause__ or error.__context__
    return "\n".join(pages).encode("utf-8", "replace")


def run_converter(
    secret: Any, make: Callable[[Any], Any], folder: Path, fails: bool = False
) -> tuple[agf.Run, bytes, bytes]:
    """Run a tool that converts its secret. Returns the run, what is on the disk afterwards, and what is shown of the
    run."""
    registry, events = agf.Registry(), list[Any]()

    @agf.tool(registry=registry, secret=["token"])
    def use(token: Any) -> Any:
        if fails:
            raise ValueError(make(token))
        return make(token)

    @agf.tool(registry=registry)
    def other(x: Any) -> Any:
        return {"seen": x}

    text = (
        "pipeline: main\nsteps:\n- tool: {name: use, args: {token: !expr ctx.key}, output: got}\n"
        "- tool: {name: other, args: {x: !expr got}, output: more}\n"
    )
    with kept.journal_in(folder) as path:
        run = agf.run(text, {"key": secret}, registry=registry, on_event=events.append, raises=False)
        return run, kept.on_disk(path), shown_bytes(run, events)


# --- the property ---

LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\0")
VARIED = st.text(LETTERS, min_size=8, max_size=20).map("{}~7!".format)  # differs from all words of a definition
VARIED = VARIED.filter(lambda text: len(set(text)) > 6)
RAW = st.binary(min_size=8, max_size=20).map(lambda raw: raw + b"~7!").filter(lambda raw: len(set(raw)) > 6)
WHOLE = st.integers(10**9, 2**62).map(lambda number: number | 1) | st.integers(-(2**62), -(10**9))
FLOATS = st.floats(1e3, 1e12).filter(lambda number: len(repr(number)) > 10)
ATOMS = VARIED | RAW | WHOLE | FLOATS
NESTED = st.recursive(
    ATOMS,
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3)
        | st.dictionaries(VARIED.map("1!{}".format), inner, min_size=1, max_size=2)
        | st.frozensets(ATOMS, min_size=1, max_size=2).map(set)
        | st.tuples(inner, ATOMS)
    ),
    max_leaves=4,
)


@given(secret=NESTED, how=st.sampled_from(list(MAKES)), fails=st.booleans())
@example('pä"ss\\wörd-☃', "in an object", False)
@example('pä"ss\\wörd-☃', "in utf-8", False)
@example('pä"ss\\wörd-☃', "in a set", False)
@example(b"bytes-secret-1", "itself", False)
@example({"set-secret-77"}, "itself", False)
@example(3.14159265, "itself", False)
@example(3.14159265, "in an object", False)
@example(314159265, "in an object", True)
@example(314159265.0, "as whole numbers", False)
@example({"4-key!": ['it\'s "quoted"']}, "as a repr", True)
def test_no_form_of_a_secret_is_stored_or_shown(secret: Any, how: str, fails: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        run, disk, pages = run_converter(secret, MAKES[how], Path(folder), fails)
    assert run.status == ("error" if fails else "ok")
    assert secrets_in(secret, disk) == set()
    assert secrets_in(secret, pages) == set()
    if how == "none of it" and not fails:
        assert f'"seen":{len(leaves(secret))}'.encode() in disk


LONG = ('pä"ss\\wörd-☃-9f8e', b"raw \xff\xfe secret", 314159265, 2718.281828)
FORMS = [(secret, how, fails) for secret in LONG for how in MAKES for fails in (False, True)]


@pytest.mark.parametrize(
    ("secret", "how", "fails"), slow_but([form for form in FORMS if form[0] == LONG[0] or not form[2]], FORMS)
)
def test_no_form_of_these_secrets_is_stored_or_shown(secret: Any, how: str, fails: bool, tmp_path: Path) -> None:
    run, disk, pages = run_converter(secret, MAKES[how], tmp_path, fails)
    assert run.status == ("error" if fails else "ok")
    assert secrets_in(secret, disk) == set()
    assert secrets_in(secret, pages) == set()


# --- what cannot be searched ---


def warning_codes(make: Callable[[Any], Any], folder: Path) -> list[str]:
    """The codes of the warnings of a run with one call that received a secret."""
    registry = agf.Registry()
    agf.tool(make, name="use", secret=["token"], registry=registry)
    text = "pipeline: main\nsteps:\n- tool: {name: use, args: {token: !expr ctx.key}}\n"
    with kept.journal_in(folder):
        run = agf.run(text, {"key": "s3cret-t0ken"}, registry=registry)
    return [warning.code for warning in run.warnings]


@pytest.mark.parametrize("how", ["compressed", "compressed in an object", "compressed in an array"])
def test_what_cannot_be_searched_for_the_secret_of_its_call_is_not_stored(how: str, tmp_path: Path) -> None:
    make = MAKES[how]
    assert warning_codes(lambda token: make(token), tmp_path) == ["journal.unkept"]


PLAIN_TABLE = pandas.DataFrame({"a": [1.5, 2], "b": pandas.Series(["x", "y"], dtype=object)})
PLAIN_TABLE.columns = PLAIN_TABLE.columns.astype(object)  # as objects, because buffers of pyarrow cannot be searched


@pytest.mark.parametrize(
    "result",
    [
        PLAIN_TABLE,
        numpy.arange(6.0).reshape(2, 3),
        Box({"when": datetime.datetime(2020, 1, 1), "of": [b"a text"]}),
        {"plain": [1, "json"]},
    ],
    ids=str,
)
def test_what_can_be_searched_is_stored(result: Any, tmp_path: Path) -> None:
    assert warning_codes(lambda token: result, tmp_path) == []


# --- short secrets, and values that must stay ---


def values(path: Path) -> str:
    """All parts of the journal that come from a value."""
    kept.flush(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        rows = [
            *connection.execute("SELECT given, value, shown, error FROM records"),
            *connection.execute("SELECT output, shown, stores, error FROM runs"),
        ]
    return "\n".join(str(cell) for row in rows for cell in row)


@pytest.mark.parametrize("secret", ["47Xz", "4a!7q", 4711, "4711", -4711, 47.11, b"47\xff1", ("47Xz",), {"pin": 4711}])
@pytest.mark.parametrize("how", ["itself", "in a sentence", "in a word", "in an object", "as a repr", "in utf-8"])
def test_a_secret_of_four_characters_is_neither_stored_nor_shown(secret: Any, how: str, tmp_path: Path) -> None:
    run, _, pages = run_converter(secret, MAKES[how], tmp_path)
    journaled = values(tmp_path / "runs.sqlite")
    assert run.status == "ok"
    (text,) = texts(leaves(secret)[-1:])  # the last leaf is the secret: of a mapping, the first is its key
    assert text not in journaled
    # The durations and times of a page are decimals and may contain the same digits.
    decimals = re.compile(r"\d+\.\d+")
    digits = text.strip("-")  # without the sign, which a page may show
    assert digits not in decimals.findall(pages.decode())
    assert digits not in decimals.sub("", pages.decode())


@pytest.mark.parametrize("secret", ["abc", 7, 3.5, b"ab", ["abc", 7], {"pin": "777"}, numpy.array([4, 7, 1, 1])])
def test_of_a_run_with_a_shorter_secret_no_value_is_stored_or_shown(secret: Any, tmp_path: Path) -> None:
    for fails in (False, True):
        run, _, pages = run_converter(secret, lambda token: {"got": f"<{token}>"}, tmp_path / str(fails), fails)
        assert run.status == ("error" if fails else "ok")
        journaled = values(tmp_path / str(fails) / "runs.sqlite")
        for text in (f"<{leaf}>" for leaf in leaves(secret)):
            assert text not in journaled
            assert text not in pages.decode()
        if fails:
            assert "fewer than 4 characters" in (run.error.diagnostic.hint or "")
            assert run.error.__cause__ is None
        else:
            assert {warning.code for warning in run.warnings} == {"journal.unkept"}


@pytest.mark.parametrize("nothing", [None, "", True, False, [], {}, {"port": None}])
def test_what_is_no_secret_hides_nothing(nothing: Any, tmp_path: Path) -> None:
    run, disk, _ = run_converter(nothing, lambda token: "pears and figs", tmp_path)
    assert b"pears and figs" in disk
    assert run.warnings == ()


def test_a_short_member_of_a_secret_keeps_the_result_of_its_call_out_of_the_journal(tmp_path: Path) -> None:
    card = {"number": "4111-1111-1111-1111", "check": "123"}
    run, _, _ = run_converter(card, lambda token: {"of": token["check"]}, tmp_path)
    assert [warning.code for warning in run.warnings] == ["journal.unkept"]
    with kept.journal_in(tmp_path):
        assert agf.runs(run.run_id).steps["steps[0]"].value == HELD_BACK


@pytest.mark.parametrize(("secret", "unrelated"), [(4711, [14711, 4.7119, "order 84711x"]), ("4711", "1471100 pears"),
                                                   ("47Xz", "a47Xzb"), (123456789, [1234567890])])  # fmt: skip
def test_what_only_looks_like_a_short_secret_is_stored(secret: Any, unrelated: Any, tmp_path: Path) -> None:
    """The text is in the result of a call that did not receive the secret."""
    registry = agf.Registry()
    agf.tool(lambda token: None, name="use", secret=["token"], registry=registry)
    agf.tool(lambda: unrelated, name="other", registry=registry)
    steps = "- tool: {name: use, args: {token: !expr ctx.key}}\n- tool: {name: other}\n"
    with kept.journal_in(tmp_path) as path:
        run = agf.run(f"pipeline: main\nsteps:\n{steps}", {"key": secret}, registry=registry)
        assert run.warnings == ()
        assert json.dumps(unrelated).replace(", ", ",") in values(path).split("\n")


def test_what_was_not_stored_is_called_again_and_gives_the_same(tmp_path: Path) -> None:
    registry, fails, called = agf.Registry(), [True], list[str]()

    @agf.tool(registry=registry, secret=["token"])
    def echo(token: str) -> Any:
        called.append("echo")
        return {"got": token}

    @agf.tool(registry=registry)
    def last(x: Any) -> Any:
        called.append("last")
        return len(str(x)) if not fails[0] else 1 / 0

    text = (
        "pipeline: main\nsteps:\n- tool: {name: echo, args: {token: !expr ctx.key}, output: got}\n"
        "- tool: {name: last, args: {x: !expr got}}\n"
    )
    agf.define(text, registry=registry)
    with kept.journal_in(tmp_path):
        failed = agf.run("main", {"key": "4a!7q"}, registry=registry, raises=False)
        fails[0] = False
        run = agf.resume(failed.run_id, registry=registry, input={"key": "4a!7q"})
    assert (run.output, called) == (len("{'got': '4a!7q'}"), ["echo", "last"] * 2)


def test_a_secret_is_left_out_wherever_the_input_repeats_it(tmp_path: Path) -> None:
    registry = agf.Registry()
    agf.tool(lambda token: None, name="use", secret=["token"], registry=registry)
    text = "pipeline: main\nsteps:\n- tool: {name: use, args: {token: !expr ctx.key}}\n"
    given_ = {"key": "s3cret-t0ken", "url": "https://x.org?key=s3cret-t0ken", "doc": "pears and figs"}
    with kept.journal_in(tmp_path) as path:
        run = agf.run(text, given_, registry=registry)
        assert json.loads(state_of(run).journal.manifest)["secret"] == ["key", "url"]
        disk = kept.on_disk(path)
    assert b"s3cret-t0ken" not in disk
    assert b"pears and figs" in disk


def test_words_of_the_journal_itself_may_be_secrets(tmp_path: Path) -> None:
    for secret in ("said", "steps", "code", "tool", "ok~~", "cause", "null", "json", "1000", 1000, 1000.0):
        folder = tmp_path / str(secret)
        run, _, _ = run_converter(secret, lambda token: {"got": token}, folder)
        failed, _, _ = run_converter(secret, str, folder, fails=True)
        with kept.journal_in(folder):
            past = agf.runs(run.run_id)
            assert (past.status, past.stores["key"], past.error) == ("ok", MASK, None)
            assert past.stores["got"] in (MASK, {"got": MASK})
            error = agf.runs(failed.run_id).error
            assert error.code == "step.tool-failed"


def test_a_secret_that_is_cut_where_its_error_is_too_long_is_not_shown(tmp_path: Path) -> None:
    run, disk, pages = run_converter("s3cret-t0ken", lambda token: "x" * 494 + token, tmp_path, fails=True)
    assert MASK in run.error.diagnostic.message
    assert b"xs3cre" not in disk + pages


def test_a_secret_that_an_exception_carries_and_does_not_say_is_not_its_cause(tmp_path: Path) -> None:
    class Refused(Exception):
        def __str__(self) -> str:
            return "refused"

    registry = agf.Registry()

    @agf.tool(registry=registry, secret=["token"])
    def use(token: str) -> None:
        raise Refused(token)

    text = "pipeline: main\nsteps:\n- tool: {name: use, args: {token: !expr ctx.key}}\n"
    run = agf.run(text, {"key": "s3cret-t0ken"}, registry=registry, raises=False)
    assert run.error.__cause__ is None


def test_a_named_context_does_not_carry_a_secret_into_the_next_run(tmp_path: Path) -> None:
    registry = agf.Registry()
    agf.tool(lambda token: {"got": token}, name="echo", secret=["token"], registry=registry)
    agf.tool(lambda: "pears and figs", name="other", registry=registry)
    first = (
        "name: p\ncontext: p\ncalls:\n- {_tool: echo, token: †input.token, _outputPath: †state.got}\n"
        "- {_tool: other, _outputPath: †state.doc}\n"
    )
    with kept.journal_in(tmp_path) as path:
        agf.run(agf.load(first, "plan", registry=registry), {"token": "s3cret-t0ken"}, registry=registry)
        assert "s3cret-t0ken" not in repr(list(agf.context("p", registry=registry).log or ()))
        second = "name: p\ncontext: p\ncalls:\n- {_tool: other, _outputPath: †state.more}\n"
        run = agf.run(agf.load(second, "plan", registry=registry), registry=registry)
        disk = kept.on_disk(path)
    assert run.status == "ok"
    assert b"s3cret-t0ken" not in disk
    assert b"pears and figs" in disk


def test_a_secret_that_a_plan_reads_from_its_context_is_not_stored_with_it(tmp_path: Path) -> None:
    registry = agf.Registry()
    agf.tool(lambda: {"key": "s3cret-t0ken", "doc": "pears and figs"}, name="mint", registry=registry)
    agf.tool(lambda token: None, name="use", secret=["token"], registry=registry)
    mint = "name: p\ncontext: p\ncalls:\n- {_tool: mint, _outputPath: †state}\n"
    use = "name: p\ncontext: p\ncalls:\n- {_tool: use, token: †state.key, _outputPath: †state.used}\n"
    agf.run(agf.load(mint, "plan", registry=registry), registry=registry)  # no journal
    with kept.journal_in(tmp_path) as path:
        run = agf.run(agf.load(use, "plan", registry=registry), registry=registry)
        disk = kept.on_disk(path)
    assert run.status == "ok"
    assert b"s3cret-t0ken" not in disk
    assert b"pears and figs" in disk


def test_a_digest_warning_codes_with_a_secret_needs_the_key_of_the_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def digests(key: bytes | None) -> list[Any]:
        for module in ("call_rows", "digest"):
            monkeypatch.setattr(f"agf_magics.journal.calls.{module}.user_key", lambda: key)
        folder = tmp_path / repr(key)
        run_converter("4a!7q", lambda token: [token], folder)
        with contextlib.closing(sqlite3.connect(folder / "runs.sqlite")) as connection:
            return [row[0] for row in connection.execute("SELECT digest FROM records ORDER BY line")]

    with_key, with_another_key, without_key = digests(b"1" * 32), digests(b"2" * 32), digests(None)
    assert without_key == [None, None]
    assert all(with_key)
    assert set(with_key).isdisjoint(with_another_key)


def test_a_key_of_the_environment_is_masked_and_not_stored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    key = "abcd-1234-efgh"
    monkeypatch.setenv("SEARCH_API_KEY", key)
    monkeypatch.setattr(current, "settings", replace(current.settings, journal=str(tmp_path / "r.sqlite")))

    def search(q: str) -> dict[str, Any]:
        if q == "bad":
            raise PermissionError(f"401 for https://api.test/?key={os.environ['SEARCH_API_KEY']}")
        return {"url": f"https://api.test/?key={os.environ['SEARCH_API_KEY']}"}

    registry = agf.Registry()
    agf.tool(search, registry=registry)
    flow = agf.load("pipeline: p\nsteps:\n- tool: {name: search, args: {q: !expr ctx.q}, output: found}\n")
    failed = agf.run(flow, {"q": "bad"}, registry=registry, raises=False)
    assert f"key={MASK}" in str(failed.error)
    assert failed.error.__cause__ is None
    run = agf.run(flow, {"q": "good"}, registry=registry)
    assert key in str(run.output), "the value itself is not changed"
    assert key.encode() not in b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())


def test_what_a_partial_gives_for_a_token_is_masked() -> None:
    def search(q: str, token: str) -> str:
        raise PermissionError(f"401 with {token}")

    registry = agf.Registry()
    agf.tool(functools.partial(search, token="s3cret-of-a-partial"), name="search", registry=registry)
    flow = agf.load("pipeline: p\nsteps:\n- tool: {name: search, args: {q: pear}}\n")
    failed = agf.run(flow, registry=registry, raises=False)
    assert f"401 with {MASK}" in str(failed.error)


@pytest.mark.parametrize("value", [0, "a text", {"a": [1, None]}, [True]])
def test_without_secrets_each_value_is_shown_as_it_is(value: Any) -> None:
    assert Secrets().shown(value) is value


# --- secrets that are defaults ---


def tell(q: str, token: str = "TOPSECRET99") -> str:
    return f"401 for {token}"


def refuse(q: str, token: str = "TOPSECRET99") -> str:
    raise ValueError(f"401 for {token}")


def of_field(q: str, token: str = pydantic.Field("TOPSECRET99")) -> str:
    raise ValueError(f"401 for {token}")


def of_object(q: str, token: Any = {"key": ["TOPSECRET99"]}) -> str:  # noqa: B006 - the very thing
    raise ValueError(f"401 for {token}")


@pytest.mark.parametrize("function", [tell, refuse, of_field, of_object])
def test_a_default_is_as_secret_as_an_argument(function: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "runs.db"
    monkeypatch.setattr(current, "settings", replace(current.settings, journal=str(path)))
    registry = agf.Registry()
    agf.tool(function, name="t", secret=["token"], registry=registry)
    run = agf.run("{pipeline: p, steps: [{tool: {name: t, args: {q: x}}}]}", registry=registry, raises=False)
    stored = b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert len(stored) > 1000
    assert b"TOPSECRET99" not in stored
    if run.error is not None:
        assert "TOPSECRET99" not in str(run.error)
        assert "401 for" in str(run.error)


@pytest.mark.parametrize("default", ["", None, "-", 5, object()], ids=["empty", "none", "short", "number", "object"])
def test_a_default_that_cannot_be_searched_for_hides_no_value(default: Any) -> None:
    registry = agf.Registry()

    def f(q: str, token=default) -> str:  # type: ignore[no-untyped-def]
        return q

    agf.tool(f, secret=["token"], registry=registry)
    run = agf.run("{pipeline: p, steps: [{tool: {name: f, args: {q: shown}}}]}", registry=registry)
    assert run.output == "shown"
    assert not state_of(run).secrets.blind


ASKED = "steps: [{tool: {name: asks, args: {token: !expr ctx.token}}}]"


@pytest.mark.parametrize(
    "choices", [("yes TOKEN", "no"), ("TOKEN", "TOKEN?"), ("TOKEN", "TOKEN-TOKEN", "no"), ("a", "b")]
)
@pytest.mark.parametrize("chosen", [0, 1])
def test_a_person_chooses_without_seeing_the_secret_in_the_choices(choices: tuple[str, ...], chosen: int) -> None:
    """Whoever shows the question gets it with masks, and the tool gets the choice that is meant."""
    token = "zXk9-Secret/V4l+ue"
    real = [choice.replace("TOKEN", token) for choice in choices]
    registry, seen = agf.Registry(), list[Any]()

    @agf.tool(secret=["token"], registry=registry)
    def asks(token: str, call: agf.ToolContext) -> int:
        return real.index(call.ask_and_wait(f"use {token}?", real))

    def ask(question: agf.Question) -> str:
        seen.append(question)
        return question.choices[chosen]

    run = agf.run(f"pipeline: p\n{ASKED}", {"token": token}, registry=registry, ask=ask, on_event=seen.append)
    assert run.output == chosen
    assert token not in repr(seen)
    (question,) = (shown for shown in seen if isinstance(shown, agf.Question))
    assert len(set(question.choices)) == len(choices)


def test_choices_that_masks_make_equal_stay_different() -> None:
    tokens = ["zXk9-Secret/V4l+ue", "pQ7w+Another/Secr3t"]
    registry, seen = agf.Registry(), list[Any]()

    @agf.tool(secret=["tokens"], registry=registry)
    def asks(tokens: list[str], call: agf.ToolContext) -> int:
        return tokens.index(call.ask_and_wait("which?", tokens))

    def ask(question: agf.Question) -> str:
        seen.append(question.choices)
        return question.choices[1]

    text = f"pipeline: p\n{ASKED}".replace("token", "tokens")
    assert agf.run(text, {"tokens": tokens}, registry=registry, ask=ask).output == 1
    assert seen == [("•••", "••• (2)")]
