"""Wrong and hostile input from outside: each gives a clear error with a code and a place, regular events, and an
unchanged registry."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.__main__ import main
from agf_magics.catalog import install
from agf_magics.flow.progress import events as ev

STEPS = "pipeline: p\nsteps:\n"


def fan_out(keys: str, do: str = "{transform: {value: item}}", collect: str = "pipe") -> str:
    return f"- for_each: {{{keys}, do: {do}, collect: {{transform: {{value: {collect}}}}}}}"


BOMB = "a: &a [1,1,1,1,1,1,1,1,1,1]\n" + "".join(
    f"{name}: &{name} [{','.join(['*' + before] * 10)}]\n" for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)

TOOL = STEPS + "- tool: {name: f, args: {x: "
VALUE = STEPS + "- transform: {value: "

BAD_TEXTS = {
    "unknown key": (VALUE + "'1', valeu: 2}", "pipeline.unknown-key", "valeu"),
    "ten megabytes": (VALUE + "1" * 10_000_000, "yaml.too-large", None),
    "too many values": (TOOL + f"[{'1,' * 101_000}]}}}}", "yaml.too-many-nodes", None),
    "an alias bomb": (BOMB, "yaml.too-many-aliases", None),
    "10,000 nested lists": (TOOL + "[" * 10_000 + "]" * 10_000 + "}}", "yaml.too-deep", None),
    "10,000 that never close": (TOOL + "[" * 10_000, "yaml.too-deep", None),
    "a deep expression": (VALUE + f"'{'(' * 4_000}1{')' * 4_000}'}}", "r1.too-deep", None),
    "a long expression": (VALUE + f"'{'1+' * 50_000}1'}}", "r1.too-long", None),
    "a cyclic schema": ("schema: A\nfields: {a: {type: ref, schema: A}}", "schema.cycle", "A"),
    "half a character": ("pipeline: \ud800", "yaml.character", "\ud800"),
}
"""For each mistake: a text, the code of its error, and the text at the place of the error (None: any)."""


@pytest.fixture
def registry() -> agf.Registry:
    registered = agf.Registry()
    install(registered, folder=Path.cwd, allow_shell=lambda: False)
    agf.tool(lambda x=None: x, name="same", registry=registered)
    agf.tool(lambda: "danger", name="danger", registry=registered)
    agf.define("pipeline: kept\nsteps:\n- tool: {name: same}", registry=registered)
    return registered


@pytest.mark.parametrize("name", BAD_TEXTS)
def test_a_bad_text_is_an_error_with_a_code_and_a_place_and_registers_nothing(
    registry: agf.Registry, name: str
) -> None:
    text, code, marked = BAD_TEXTS[name]
    before = repr(registry)
    with pytest.raises(agf.DefinitionError) as caught:
        agf.define(text, registry=registry)
    diagnostic = next(d for d in caught.value.diagnostics if d.code == code)
    assert diagnostic.span is not None
    assert marked is None or diagnostic.span.text == marked
    assert len(str(caught.value)) < 20_000
    assert repr(registry) == before


def run_steps(registry: agf.Registry, steps: str, input: dict[str, Any] | None = None, **options: Any) -> agf.Run:
    """Run ``steps``, check the laws of events whatever the outcome is, and show the run."""
    events: list[ev.Event] = []
    run = agf.run(STEPS + steps, input, registry=registry, on_event=events.append, raises=False, **options)
    ends = (ev.StepFinished, ev.StepFailed, ev.StepCancelled, ev.StepAbandoned)
    assert Counter(e.at for e in events if isinstance(e, ev.StepStarted)) == Counter(
        e.at for e in events if isinstance(e, ends)
    )
    assert [isinstance(e, ev.RunEnded) for e in events] == [False] * (len(events) - 1) + [True]
    assert set(run._repr_mimebundle_()) == {"text/html", "text/plain"}
    assert (run.status == "ok") == (run.error is None)
    return run


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class TwoArguments(agf.StepError):
    def __init__(self, subject: str, problem: str) -> None:
        super().__init__(agf.Diagnostic("own.code", f"{subject} {problem}"))


class Lazy(agf.StepError):
    def __init__(self) -> None:
        pass


RAISED: dict[str, tuple[Callable[[], BaseException], str]] = {
    "SystemExit": (lambda: SystemExit(3), "step.tool-failed"),
    "KeyboardInterrupt": (lambda: KeyboardInterrupt(), "step.tool-failed"),
    "CancelledError": (lambda: asyncio.CancelledError(), "step.tool-failed"),
    "StopIteration": (lambda: StopIteration(), "step.tool-failed"),
    "GeneratorExit": (lambda: GeneratorExit(), "step.tool-failed"),
    "a group": (lambda: BaseExceptionGroup("g", [KeyboardInterrupt()]), "step.tool-failed"),
    "without a text": (lambda: Mute(), "step.tool-failed"),
    "with ten megabytes": (lambda: ValueError("x" * 10_000_000), "step.tool-failed"),
    "a definition error": (lambda: agf.DefinitionError(agf.Diagnostic("a.b", "mine")), "step.tool-failed"),
    "a step error": (lambda: agf.StepError(agf.Diagnostic("a.b", "mine")), "a.b"),
    "a step error of its own kind": (lambda: TwoArguments("a", "b"), "own.code"),
    "a step error that is only a text": (lambda: agf.StepError("mine"), "step.tool-failed"),  # type: ignore[arg-type]
    "a step error without anything": (lambda: Lazy(), "step.tool-failed"),
}


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("name", RAISED)
def test_whatever_a_tool_raises_is_a_failed_step_at_its_name(
    registry: agf.Registry, name: str, asynchronous: bool
) -> None:
    make, code = RAISED[name]

    def bad() -> None:
        raise make()

    async def worse() -> None:
        await asyncio.sleep(0)
        raise make()

    agf.tool(worse if asynchronous else bad, name="bad", registry=registry)
    error = run_steps(registry, "- tool: {name: bad}").error
    assert (error.code, len(str(error)) < 2_000) == (code, True)
    assert error.diagnostic.span.text == "bad"
    assert run_steps(registry, fan_out("items: [1, 2], on_error: continue", "{tool: {name: bad}}")).output == []


class Closed(dict[str, Any]):
    def items(self) -> Any:
        raise RuntimeError("not now")


class Number(int):
    def __int__(self) -> int:
        raise RuntimeError("not now")


class Pair(tuple[int, ...]):
    _fields = ("one",)


class Unlike:
    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no ==")

    def __bool__(self) -> bool:
        raise RuntimeError("no truth")

    def __repr__(self) -> str:
        raise RuntimeError("no repr")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize("value", [Closed(a=1), [Number(1)], Pair((1, 2))], ids=type)
def test_a_result_that_cannot_be_looked_into_fails_its_step(registry: agf.Registry, value: Any) -> None:
    agf.tool(lambda: value, name="bad", registry=registry)
    error = run_steps(registry, "- tool: {name: bad}").error
    assert error is not None
    assert "returned a value that cannot be used" in str(error)


def test_a_result_that_contains_itself_fails_its_step(registry: agf.Registry) -> None:
    value: list[Any] = []
    value.append(value)
    agf.tool(lambda: value, name="bad", registry=registry)
    error = run_steps(registry, "- tool: {name: bad}").error
    assert error.code == "step.too-deep"


STRANGE = [Unlike(), {1: 2}, {"a": {1: 2}}, float("nan"), 10**5_000, "\ud800", iter("ab"), "x" * 1_000_000]


@pytest.mark.parametrize("value", STRANGE, ids=type)
def test_a_strange_result_travels_as_it_is(registry: agf.Registry, value: Any) -> None:
    taken: list[Any] = []
    agf.tool(lambda: value, name="make", registry=registry)
    agf.tool(lambda x: taken.append(x), name="take", registry=registry)
    assert (
        run_steps(registry, "- tool: {name: make, output: it}\n- tool: {name: take, args: {x: !expr it}}").error is None
    )
    assert taken[0] is value or taken[0] == value


def test_what_a_tool_does_to_its_arguments_or_the_registry_changes_nothing_in_the_run(registry: agf.Registry) -> None:
    @agf.tool(registry=registry)
    def wreck(x: Any) -> int:
        x["a"].clear()
        registry.tools.remove("wreck")
        agf.tool(lambda x: 99, name="same", registry=registry)
        return 1

    steps = "- tool: {name: wreck, args: {x: !expr ctx.v}}\n" * 2 + "- tool: {name: same, args: {x: !expr ctx.v}}"
    assert run_steps(registry, steps, {"v": {"a": [1]}}).output == {"a": [1]}
    with pytest.raises(agf.DefinitionError, match=r"flow\.unknown-tool"):
        agf.run(STEPS + steps, {"v": {"a": [1]}}, registry=registry)


@pytest.mark.parametrize("on_error", ["abort", "continue"])
def test_a_run_that_fails_inside_a_tool_is_a_failure_of_that_tools_step(registry: agf.Registry, on_error: str) -> None:
    @agf.tool(registry=registry)
    def inner() -> None:
        agf.run(
            "pipeline: q\nsteps:\n" + "- transform: {value: '1'}\n" * 5 + "- transform: {value: 1/0}", registry=registry
        )

    run = run_steps(registry, "- tool: {name: inner}")
    assert (run.error.code, run.error.path) == ("r1.division-by-zero", ("steps[0]",))
    run = run_steps(registry, fan_out(f"items: [1, 2], on_error: {on_error}", "{tool: {name: inner}}"))
    assert (run.status == "ok") == (on_error == "continue")


SECRETS = ["hunter2", 'it\'s\n"hunter2"', ["x", {"k": "hunter2"}], 1002003]


@pytest.mark.parametrize("secret", SECRETS, ids=str)
def test_no_secret_is_shown_when_its_tool_fails(registry: agf.Registry, secret: Any) -> None:
    @agf.tool(registry=registry, secret=["token"])
    def sign(token: Any, how: int = 0) -> None:
        try:
            raise KeyError(token)
        except KeyError as error:
            raise ValueError(f"cannot sign with {token!r}, that is {token}") from error

    events: list[ev.Event] = []
    steps = STEPS + "- tool: {name: sign, args: {token: !expr ctx.key}}"
    run = agf.run(steps, {"key": secret}, registry=registry, on_event=events.append, raises=False)
    failed = [repr(event) for event in events if isinstance(event, ev.StepFailed)]
    texts = "".join([*failed, str(run.error), repr(run.trace)])
    error: BaseException | None = run.error
    while error is not None:
        texts += repr(error)
        error = error.__cause__ or error.__context__
    assert "cannot sign with" in texts
    assert "hunter2" not in texts
    assert "1002003" not in texts


@pytest.mark.parametrize(
    ("flows", "calls", "code"), [(60, 1, "flow.too-large"), (14, 4, "flow.too-large"), (7, 3, None)]
)
def test_calls_of_calls_of_calls_are_bounded(registry: agf.Registry, flows: int, calls: int, code: str | None) -> None:
    agf.define("pipeline: p0\nsteps:\n- transform: {value: '1'}", registry=registry)
    for n in range(1, flows):
        agf.define(f"pipeline: p{n}\nsteps:\n" + f"- call: {{pipeline: p{n - 1}}}\n" * calls, registry=registry)
    try:
        outcome = agf.run(f"p{flows - 1}", registry=registry, dry=True).output
    except agf.DefinitionError as error:
        outcome = [d.code for d in error.diagnostics]
    assert outcome == ([code] if code else 1)


@pytest.mark.parametrize("odd_input", [[1], "x", {1: 2}, {"a": Closed(b=1)}], ids=str)
def test_an_input_that_is_no_mapping_of_names_is_refused(registry: agf.Registry, odd_input: Any) -> None:
    with pytest.raises(agf.DefinitionError, match=r"run\.input"):
        agf.run("kept", odd_input, registry=registry)


@pytest.mark.parametrize("text", [3, None, b"pipeline: p"], ids=str)
def test_what_is_no_text_is_no_definition(text: Any) -> None:
    with pytest.raises(TypeError, match="a definition must be text or the Path of a file"):
        agf.load(text)


def test_runs_from_many_threads_do_not_meet(registry: agf.Registry) -> None:
    steps = fan_out(
        "over: ctx.xs, on_error: abort, max_parallel: 3", "{tool: {name: same, args: {x: !expr item}}}", "sum(pipe)"
    )
    sums: dict[int, Any] = {}

    def go(n: int) -> None:
        sums[n] = run_steps(registry, steps, {"xs": [n] * 10}).output

    threads = [threading.Thread(target=go, args=(n,)) for n in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert sums == {n: n * 10 for n in range(10)}


def test_a_listener_that_raises_something_without_a_text_is_dropped_with_a_warning() -> None:
    def listener(event: ev.Event) -> None:
        raise Mute

    run = agf.run(STEPS + "- transform: {value: '1'}", on_event=listener)
    assert (run.output, [d.code for d in run.warnings]) == (1, ["run.listener"])


def test_a_dry_run_answers_for_the_built_in_tools_too(registry: agf.Registry) -> None:
    steps = "- shell: {command: 'ls', output: s}\n- tool: {name: file__write, args: {path: x, content: y}, output: w}\n"
    run = run_steps(registry, steps + "- transform: {value: s.stdout + w.path}", dry=True)
    assert run.error is None


LINES = {
    "run folder": "define.file",
    "run latin.yaml": "define.file",
}


@pytest.mark.parametrize("line", LINES)
def test_a_wrong_command_is_reported_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "folder").mkdir()
    (tmp_path / "latin.yaml").write_bytes(b"pipeline: \xff")
    assert main(line.split()) in (1, 2)
    assert LINES[line] in " ".join(capsys.readouterr().err.split())


def test_the_command_line_prints_half_a_character_as_an_escape(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "half.py").write_text("import agf_magics as agf\nagf.tool(lambda: ['\\ud800'], name='half_of_it')\n")
    (tmp_path / "p.yaml").write_text("pipeline: p\nsteps:\n- tool: {name: half_of_it}\n")
    try:
        assert main(["run", "p.yaml", "--tools", "half.py", "--quiet"]) == 0
    finally:
        agf.registry.tools.remove("half_of_it")
    assert json.loads(capfd.readouterr().out) == ["\ud800"]


def test_an_input_that_nests_too_deep_is_an_error(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "p.yaml").write_text(VALUE + "'1'}")
    (tmp_path / "i.json").write_text("[" * 100_000)
    assert main(["run", str(tmp_path / "p.yaml"), "--input", str(tmp_path / "i.json")]) == 1
    assert "[yaml.too-deep]" in capfd.readouterr().err


@pytest.mark.parametrize("context", [3, "state", [1], None, object()])
@pytest.mark.parametrize(
    ("language", "expression"),
    [
        ("r1", "ctx.n"),
        ("path", "a.output.n"),
        ("value", "{state.n}"),
        ("condition", "n > 1"),
    ],
)
def test_the_context_of_an_expression_must_be_a_mapping(language: str, expression: str, context: Any) -> None:
    with pytest.raises(agf.DefinitionError) as caught:
        agf.evaluate(language, expression, context)
    assert (caught.value.code, "must be a mapping" in str(caught.value)) == ("run.input", True)


@pytest.mark.parametrize("context", [3, "state", [1], object()])
def test_the_context_of_a_reference_must_be_messages(context: Any) -> None:
    with pytest.raises(agf.AgfError, match="message"):
        agf.evaluate("reference", "†state.n", context)
