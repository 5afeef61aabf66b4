"""Which fan-outs send whole elements: one test for each condition that keeps them in the kernel, and what travels."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.catalog import Tool
from agf_magics.engine.limits import Meter
from agf_magics.engine.linked import Linked
from agf_magics.engine.runner import CallSite, Scope
from agf_magics.flow.step import Caps, Permit, Pick
from agf_magics.flow.steps import Declarations, Dialect, Each, Invoke, Repeat
from agf_magics.workers import elements
from agf_magics.workers.program import MANY, pruned, reads_of, reason_of_body, reason_to_stay
from tests.engine import kept
from tests.engine.small_flows import Says
from tests.workers.in_process import InProcess

PLAIN = """
pipeline: main
steps:
  - for_each:
      over: ctx.xs
      on_error: abort
      do: {tool: {name: work, args: {x: !expr item, y: !expr ctx.used}}}
      collect: {transform: {value: pipe}}
"""

CALLING = """
pipeline: main
steps:
  - for_each:
      over: ctx.xs
      on_error: abort
      do: {call: {pipeline: inner, pass: [used]}}
      collect: {transform: {value: pipe}}
"""

NESTED = """
pipeline: main
steps:
  - for_each:
      over: ctx.xs
      on_error: abort
      do:
        for_each:
          items: [1, 2]
          on_error: abort
          do: {tool: {name: work, args: {x: !expr item, y: 1}}}
          collect: {transform: {value: pipe}}
      collect: {transform: {value: pipe}}
"""

INNER = "pipeline: inner\nsteps: [{tool: {name: work, args: {x: 1, y: !expr ctx.used}}}]"

GIVEN = {"xs": [1, 2, 3], "used": "is-used", "unused": "is-not-used"}


def work(x: int, y: Any) -> int:
    return x + 1


class Asked:
    """A fan-out that has asked whether its elements may travel."""

    site: CallSite[Each]
    inside: Scope
    reason: str | None = "not asked"

    def again(self, count: int = 3, lanes: int = 2, **scope: Any) -> str | None:
        return reason_to_stay(self.site, self.inside._replace(**scope), count, lanes)

    @property
    def body(self) -> Invoke:
        body = self.site.step.body
        assert isinstance(body, Invoke)
        return body

    @property
    def linked(self) -> Linked:
        return self.inside.linked


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., Asked]:
    """Runs a pipeline on workers; says what its outermost fan-out asked, and what the answer was."""
    monkeypatch.chdir(tmp_path)

    def run(text: str = PLAIN, function: Any = work, given: Any = GIVEN, on: Any = None, **options: Any) -> Asked:
        asked, real = Asked(), reason_to_stay

        def listen(site: CallSite[Each], inside: Scope, count: int, lanes: int) -> str | None:
            reason = real(site, inside, count, lanes)
            if asked.reason == "not asked":
                asked.site, asked.inside, asked.reason = site, inside, reason
            return reason

        monkeypatch.setattr(elements, "reason_to_stay", listen)
        registry = agf.Registry()
        agf.tool(function, name="work", registry=registry, **options)
        agf.define(INNER, registry=registry)
        ended = agf.run(text, given, registry=registry, on=on or InProcess())
        assert ended.status == "ok"
        return asked

    return run


async def work_later(x: int, y: Any) -> int:
    return x + 1


@pytest.mark.parametrize("text", [PLAIN, CALLING], ids=["a tool", "a flow of tools"])
def test_a_body_of_plain_tools_travels(ask: Callable[..., Asked], text: str) -> None:
    assert ask(text).reason is None


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"where": "thread"}, "place"),
        ({"where": "loop"}, "place"),
        ({"where": "kernel"}, "place"),
        ({"secret": ["y"]}, "secret"),
        ({"reuse": False}, "effect"),
        ({"function": work_later}, "place"),
        ({"rate": "1000/s"}, "throttle"),
    ],
    ids=["thread", "loop", "kernel", "secret", "effect", "async", "rate"],
)
@pytest.mark.parametrize("text", [PLAIN, CALLING], ids=["a tool", "a flow"])
def test_the_tool_keeps_its_elements(
    ask: Callable[..., Asked], text: str, options: dict[str, Any], reason: str
) -> None:
    backend = InProcess()
    assert ask(text, on=backend, **options).reason == reason
    assert backend.numbers == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        *(({"kind": kind}, kind) for kind in ("agent", "model", "question", "policy")),
        ({"permit": Permit(lambda *given: None)}, "approval"),
        ({"pick": Pick(Says(lambda frame: "double"))}, "pick"),
        ({"awaited": False}, "not awaited"),
    ],
    ids=["agent", "model", "question", "policy", "approval", "choice by name", "fire and forget"],
)
def test_the_call_keeps_its_elements(ask: Callable[..., Asked], change: dict[str, Any], reason: str) -> None:
    asked = ask()
    assert reason_of_body(replace(asked.body, **change), asked.linked) == reason


@pytest.mark.parametrize(
    ("change", "reason"),
    [({"declared": Declarations(caps=Caps(tool_calls=3))}, "caps"), ({"dialect": Dialect(context="mine")}, "context")],
    ids=["caps", "named context"],
)
def test_the_called_flow_keeps_the_elements(ask: Callable[..., Asked], change: dict[str, Any], reason: str) -> None:
    asked = ask(CALLING)
    callee = asked.linked.callees[asked.body.id]
    assert isinstance(callee, Linked)
    callees = {asked.body.id: replace(callee, flow=replace(callee.flow, **change))}
    assert reason_of_body(asked.body, replace(asked.linked, callees=callees)) == reason


def test_a_tool_that_needs_a_resource_keeps_its_elements(ask: Callable[..., Asked]) -> None:
    """Its calls are sent to the workers that have the resource."""
    asked = ask()
    tool = asked.linked.callees[asked.body.id]
    assert isinstance(tool, Tool)
    callees = {asked.body.id: replace(tool, resources={"gpu": 1})}
    assert reason_of_body(asked.body, replace(asked.linked, callees=callees)) == "resources"


def test_a_time_limit_of_a_called_flow_keeps_the_elements(ask: Callable[..., Asked]) -> None:
    """It would have to stop a call that runs on the thread of the chunk."""
    asked = ask(CALLING)
    assert reason_of_body(replace(asked.body, timeout=3.0), asked.linked) == "timeout"


def test_a_session_of_a_model_keeps_the_elements(ask: Callable[..., Asked]) -> None:
    asked = ask()
    session = Repeat(id="s", word="agent", body=replace(asked.body, kind="model"), limit=1, session=True)
    assert reason_of_body(session, asked.linked) == "model"


def test_an_element_without_a_call_stays() -> None:
    backend = InProcess()
    text = PLAIN.replace("{tool: {name: work, args: {x: !expr item, y: !expr ctx.used}}}", "{transform: {value: item}}")
    assert agf.run(text, {"xs": [1], "used": 1}, registry=agf.Registry(), on=backend).output == [1]
    assert backend.numbers == []


def test_an_open_limit_of_a_definition_keeps_the_elements(ask: Callable[..., Asked]) -> None:
    asked = ask()
    assert asked.again() is None
    assert asked.again(meters=(Meter("main", Caps(tool_calls=9), 0),)) == "caps"


def test_a_sequential_fan_out_stays(ask: Callable[..., Asked]) -> None:
    assert ask().again(concurrent=False) == "sequential"


def test_a_run_that_reuses_results_keeps_its_elements(tmp_path: Path) -> None:
    registry = agf.Registry()
    agf.tool(work, registry=registry)
    with kept.journal_in(tmp_path):
        sent = []
        for reuse in (False, True):
            backend = InProcess()
            run = agf.run(PLAIN, GIVEN, registry=registry, on=backend, reuse=reuse)
            sent.append(len(backend.numbers))
    assert sent == [3, 0]
    assert run.steps["steps[0].do"].earlier == 3


def test_a_dry_run_keeps_its_elements(ask: Callable[..., Asked]) -> None:
    asked = ask()
    asked.site.run.dry = True
    assert asked.again() == "dry"


def test_an_outer_fan_out_needs_many_elements(ask: Callable[..., Asked]) -> None:
    asked = ask(NESTED)
    assert asked.reason == "outer"
    assert asked.again(MANY * 2 - 1, 2) == "outer"
    assert asked.again(MANY * 2, 2) is None
    assert ask(NESTED, given={**GIVEN, "xs": list(range(MANY * 2))}).reason is None


# --- secrets ---


@pytest.mark.parametrize(
    ("names", "reason"), [(("used",), "secret"), (("xs",), "secret"), (("unused",), None), ((), None)]
)
def test_a_name_that_feeds_a_secret_keeps_the_elements(
    ask: Callable[..., Asked], names: tuple[str, ...], reason: str | None
) -> None:
    asked = ask()
    asked.site.run.secrets.names = frozenset(names)
    assert asked.again() == reason


def test_a_run_that_has_a_secret_keeps_its_elements(ask: Callable[..., Asked]) -> None:
    asked = ask()
    asked.site.run.secrets.learn("a-long-secret-token")
    assert asked.again() == "secret"


def test_a_step_that_feeds_a_secret_keeps_the_elements(ask: Callable[..., Asked]) -> None:
    asked = ask()
    asked.site.run.secrets.steps = frozenset({(1, "steps[0]")})
    assert asked.again() == "secret"


MARKER = "MARKER-9f2c-secret"

LOGIN = """
pipeline: main
steps:
{first}
  - for_each:
      over: ctx.xs
      on_error: abort
      do: {{tool: {{name: work, args: {{x: !expr item, y: 1}}}}}}
      collect: {{transform: {{value: pipe}}}}
{last}
"""
SIGN_IN = "  - {tool: {name: sign_in, args: {token: !expr ctx.token}, output: ok}}"


@pytest.mark.parametrize(("first", "last"), [(SIGN_IN, ""), ("", SIGN_IN)], ids=["before", "after"])
def test_no_byte_that_is_sent_has_a_secret(
    first: str, last: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A secret in an input, a store, the environment, the default of another tool: in nothing that `submit` gets."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AGF_TEST_TOKEN", MARKER)
    registry, backend = agf.Registry(), InProcess()

    def sign_in(token: str, other: str = MARKER) -> bool:
        return True

    agf.tool(sign_in, registry=registry, secret=["token", "other"])
    agf.tool(work, registry=registry)
    run = agf.run(LOGIN.format(first=first, last=last), {"xs": [1, 2], "token": MARKER}, registry=registry, on=backend)
    assert run.status == "ok"
    assert backend.sent
    assert bool(backend.numbers) == (not first)  # after the sign-in the run has a secret, which only the kernel masks
    assert not any(MARKER.encode() in data for data in backend.sent)


def test_a_called_flow_travels_without_what_it_was_linked_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flow keeps its last linked form, which has all tools of the registry."""
    monkeypatch.chdir(tmp_path)
    registry, backend = agf.Registry(), InProcess()

    def other(text: str = MARKER) -> str:
        return text

    agf.tool(work, registry=registry)
    agf.tool(other, registry=registry)
    inner = agf.define(INNER, registry=registry)
    agf.run(inner, {"used": 1}, registry=registry)
    assert inner.linked
    assert agf.run(CALLING, GIVEN, registry=registry, on=backend).status == "ok"
    assert backend.numbers
    assert not any(MARKER.encode() in data for data in backend.sent)


# --- what travels of a frame ---


def test_only_the_stores_that_the_body_reads_travel(ask: Callable[..., Asked]) -> None:
    backend = InProcess()
    asked = ask(on=backend)
    assert backend.numbers
    assert any(b"is-used" in data for data in backend.sent)
    assert not any(b"is-not-used" in data for data in backend.sent)
    frame = pruned(asked.site.frame, asked.site.step, asked.linked.flow)
    assert frame["ctx"] == {"xs": None, "used": "is-used", "unused": None}


def test_a_body_that_reads_all_stores_gets_all(ask: Callable[..., Asked]) -> None:
    backend = InProcess()
    ask(PLAIN.replace("ctx.used}", "ctx}"), on=backend)
    assert any(b"is-not-used" in data for data in backend.sent)


def test_where_the_reads_are_not_known_the_whole_frame_travels(ask: Callable[..., Asked]) -> None:
    asked = ask()
    flow = asked.linked.flow
    flow = replace(flow, dialect=replace(flow.dialect, reads_are_complete=False))
    assert reads_of(asked.body, flow) is None
    assert pruned(asked.site.frame, asked.site.step, flow)["ctx"] == asked.site.frame["ctx"]
    assert reads_of(asked.body, asked.linked.flow) is not None


def test_an_error_lists_the_names_of_all_stores() -> None:
    registry = agf.Registry()
    agf.tool(work, registry=registry)
    text = PLAIN.replace("ctx.used", "ctx.usd")
    errors = [agf.run(text, GIVEN | {"usd": None}, registry=registry, on=on).output for on in (None, InProcess())]
    assert errors[0] == errors[1]


def test_a_program_weighs_little() -> None:
    registry, backend = agf.Registry(), InProcess()
    agf.tool(work, registry=registry)
    agf.run(PLAIN, GIVEN, registry=registry, on=backend)
    _, order = pickle.loads(backend.sent[0])
    assert len(order[0]) < 8_000
