"""Exceptions of user code that misbehave: each is an ordinary failure, in every language and place."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import pytest
from IPython.core.interactiveshell import InteractiveShell

import agf_magics as agf
from agf_magics.settings.settings import current
from agf_magics.text.raised import (
    attribute,
    cause_of,
    describe_exception,
    format_trace,
    is_a,
    notes_of,
    text_of,
)
from tests.shells import only_shell

TEXT = "no such customer"


def refuse(*_: Any) -> NoReturn:
    raise LookupError("not of this object")


class Base(Exception):
    """Says what happened, unless a subclass hides it."""

    def __init__(self) -> None:
        super().__init__(TEXT)


class Data(Base):
    def __getattr__(self, name: str) -> Any:
        return {"message": TEXT}[name]


class Anything(Base):
    def __getattr__(self, name: str) -> Any:
        return "anything"


class Closed(Base):
    def __getattribute__(self, name: str) -> Any:
        return refuse()


class Noted(Base):
    __notes__ = 5  # type: ignore[assignment]


class NotedByCode(Base):
    __notes__ = property(refuse)


class NotedByObjects(Base):
    def __init__(self) -> None:
        super().__init__()
        self.__notes__: Any = [type("Mute", (), {"__str__": refuse, "__repr__": refuse})()]


class Mute(Base):
    __str__ = __repr__ = refuse


class Exits(Base):
    def __str__(self) -> str:
        raise SystemExit(3)


class NoText(Base):
    def __str__(self) -> Any:
        return 5


class Chained(Base):
    __cause__ = __context__ = __suppress_context__ = property(refuse)  # type: ignore[assignment]


class Traceless(Base):
    __traceback__ = property(refuse)  # type: ignore[assignment]


class Classless(Base):
    __class__ = property(refuse)  # type: ignore[assignment]


class Liar(Base):
    __class__ = agf.StepError  # type: ignore[assignment]


class Argless(Base):
    args = property(refuse)  # type: ignore[assignment]


class OddArgs(Base):
    def __init__(self) -> None:
        super().__init__()
        self.args = (Mute(), TEXT)


class Answered(Base):
    response = property(refuse)
    headers = property(refuse)
    status_code = property(refuse)


class Unsent(Base):
    def __reduce__(self) -> Any:
        return refuse()


class Meta(type):
    @property
    def __name__(cls) -> Any:  # type: ignore[override]
        return refuse()


class Nameless(Base, metaclass=Meta):
    pass


class OursClosed(agf.StepError):
    def __init__(self) -> None:
        super().__init__(agf.Diagnostic("own.code", TEXT))

    def __getattribute__(self, name: str) -> Any:
        return refuse()


class OursMute(agf.StepError):
    def __init__(self) -> None:
        super().__init__(agf.Diagnostic("own.code", TEXT))

    __str__ = refuse
    text = code = path_text = property(refuse)  # type: ignore[assignment]


def group() -> BaseException:
    return ExceptionGroup("two", [Data(), Classless()])


def after(kind: Callable[[], BaseException]) -> BaseException:
    """An ordinary error with an odd cause."""
    error = ValueError(TEXT)
    error.__cause__ = kind()
    return error


KINDS: dict[str, Callable[[], BaseException]] = {
    **{
        kind.__qualname__ if kind is not Nameless else "Nameless": kind
        for kind in (
            *(Data, Anything, Closed, Noted, NotedByCode, NotedByObjects, Mute, Exits, NoText, Chained, Traceless),
            *(Classless, Liar, Argless, OddArgs, Answered, Unsent, OursClosed, OursMute),
        )
    },
    "Nameless": Nameless,
    "a group of them": group,
    **{f"plain, from {kind.__name__}": partial(after, kind) for kind in (Data, Closed, Mute, Classless)},
}

SILENT = {"Mute", "Exits", "NoText", "OursClosed", "OursMute", "OddArgs", "a group of them"}
"""Exceptions that are shown with another text than their own."""


FLOWS = {
    "pipeline": "{pipeline: q, steps: [{tool: {name: fail}}]}",
    "for_each": "{pipeline: q, steps: [{for_each: {items: [1, 2], on_error: abort, do: {tool: {name: fail}}, "
    "collect: {transform: {value: pipe}}}}]}",
    "policy": "{id: agf.sequential, config: {steps: [{agent: fail}]}}",
    "plan": "{calls: [{_tool: fail, _outputPath: $state.a}], output: $state.a}",
    "graph": "{state: {r: any}, nodes: {n: {type: tool, tool: fail, state_key: r}}, edges: [{from: START, to: n}]}",
}
LANGUAGE = {"for_each": "pipeline"}

GO_ON = {
    "pipeline": "{pipeline: q, steps: [{tool: {name: fail, on_error: continue}}, {transform: {value: \"'went on'\"}}]}",
    "for_each": "{pipeline: q, steps: [{for_each: {items: [1, 2], on_error: continue, do: {tool: {name: fail}}, "
    "collect: {transform: {value: \"'went on'\"}}}}]}",
    "plan": "{calls: [{_tool: fail, _outputPath: $state.a || $state.b}, {_tool: say, _outputPath: $state.c}], "
    "output: $state.c}",
    "graph": "{state: {r: any, c: any}, nodes: {n: {type: tool, tool: fail, state_key: r, on_error: skip}, "
    "m: {type: python, tool: say, state_key: c}}, edges: [{from: START, to: n}, {from: n, to: m}]}",
}


def say(**_: Any) -> str:
    return "went on"


def registered(kind: str, asynchronous: bool = False, **options: Any) -> tuple[agf.Registry, list[str]]:
    """Tools and agents called ``fail`` and ``say``, and the list of the calls of ``fail``."""
    registry, calls, make = agf.Registry(), list[str](), KINDS[kind]

    def fail() -> NoReturn:
        calls.append(kind)
        raise make()

    async def fail_later() -> NoReturn:
        calls.append(kind)
        await asyncio.sleep(0)
        raise make()

    function = fail_later if asynchronous else fail
    agf.tool(function, name="fail", registry=registry, **options)
    agf.agent(function, name="fail", registry=registry)
    agf.tool(say, registry=registry)
    return registry, calls


def run(text: str, form: str, registry: agf.Registry, **options: Any) -> agf.Run:
    agf.define(text, LANGUAGE.get(form, form), name="q", registry=registry)
    return agf.run("q", registry=registry, raises=False, **options)


WAYS = [
    ("pipeline", False),
    ("pipeline", True),
    ("for_each", False),
    ("policy", True),
    ("plan", False),
    ("graph", True),
]


@pytest.mark.parametrize(("form", "asynchronous"), WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_an_exception_that_cannot_be_read_is_the_failure_of_its_step(
    kind: str, form: str, asynchronous: bool, tmp_path: Path
) -> None:
    current.settings = replace(current.settings, journal=str(tmp_path / "journal.db"))
    ended = run(FLOWS[form], form, registered(kind, asynchronous)[0])
    assert ended.status == "error"
    assert ended.error.code == ("step.agent-failed" if form == "policy" else "step.tool-failed")
    assert kind in SILENT or TEXT in str(ended.error)
    again = agf.resume(ended.run_id, registry=registered(kind)[0], raises=False)
    assert (again.status, again.error.code) == ("error", ended.error.code)
    for way in (ended, agf.runs(ended.run_id)):
        assert set(way._repr_mimebundle_()) == {"text/html", "text/plain"}


@pytest.mark.parametrize("form", GO_ON)
@pytest.mark.parametrize("kind", KINDS)
def test_a_flow_continues_after_it_where_its_text_says_so(kind: str, form: str) -> None:
    ended = run(GO_ON[form], form, registered(kind)[0])
    assert ended.status == "ok", ended.error
    assert "went on" in json.dumps(ended.output)


@pytest.mark.parametrize("kind", KINDS)
def test_a_failed_call_is_repeated_as_often_as_for_any_other_exception(kind: str) -> None:
    registry, calls = registered(kind)
    run("{pipeline: q, steps: [{tool: {name: fail, on_error: retry(2)}}]}", "pipeline", registry)
    assert len(calls) == 3
    registry, calls = registered(kind, retry=agf.Retry(2, on=(Exception,), first=0))
    run("{pipeline: q, steps: [{tool: {name: fail}}]}", "pipeline", registry)
    assert len(calls) == 3


UNSENDABLE = {"Liar", "Classless", "Nameless", "plain, from Classless"}
"""Exceptions whose class cannot be sent to a worker, because Python cannot make the class from its parts."""


@pytest.mark.parametrize("kind", sorted(KINDS.keys() - UNSENDABLE))
def test_a_worker_sends_such_an_exception(kind: str) -> None:
    registry = registered(kind)[0]
    text = GO_ON["for_each"].replace("\"'went on'\"", "__errors__")
    ended = run(text, "for_each", registry, on="processes:1")
    assert ended.status == "ok", ended.error
    assert [kind in SILENT or TEXT in failed["error"] for failed in ended.output] == [True, True]


@pytest.mark.parametrize("kind", KINDS)
def test_a_cell_shows_such_an_exception(kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    with only_shell(InteractiveShell) as shell:
        shell.run_line_magic("load_ext", "agf_magics")
        shell.user_ns.update(agf=agf, registry=registered(kind)[0])
        shell.run_cell("agf.run('{pipeline: q, steps: [{tool: {name: fail}}]}', registry=registry)")
        shell.run_line_magic("unload_ext", "agf_magics")
    printed = capsys.readouterr()
    assert "step.tool-failed" in printed.out + printed.err
    assert "Unexpected exception formatting" not in printed.out + printed.err


@pytest.mark.parametrize("kind", KINDS)
def test_no_read_of_such_a_run_raises(kind: str) -> None:
    try:
        raise KINDS[kind]()
    except BaseException as caught:
        error = caught
    assert is_a(error, Exception)
    assert not is_a(error, KeyError)
    for read in (text_of, notes_of, cause_of, describe_exception, format_trace, partial(attribute, name="status")):
        read(error)
