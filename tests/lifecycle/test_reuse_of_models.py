"""``reuse`` and `agf.stale` with simulated models: their replies depend on their functions and settings."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.test import TestModel

import agf_magics as agf
from agf_magics.settings.settings import Settings, current

LOCK = threading.Lock()


@pytest.fixture(autouse=True)
def _journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr(current, "settings", Settings(journal=str(tmp_path / ".agf" / "runs.sqlite")))


def replies(text: str) -> Callable[..., Any]:
    def reply(messages: Any, info: Any) -> ModelResponse:
        return ModelResponse(parts=[TextPart(text)])

    return reply


def locked(messages: Any, info: Any) -> ModelResponse:
    with LOCK:
        return ModelResponse(parts=[TextPart("a")])


class Wrapped(FunctionModel):
    """A model of a class of the user, which may do more than its function."""


def stream(messages: Any, info: Any) -> Any:
    raise NotImplementedError


def of(model: Any) -> agf.Registry:
    registry = agf.Registry()
    registry.choose(model)
    agf.define("{pipeline: m, steps: [{agent: {prompt: 'hello'}}]}", registry=registry)
    return registry


def reason(run: agf.Run, model: Any) -> str:
    return next((row["why"] for row in agf.stale(run, registry=of(model)) if row["state"] == "again"), "")


MODELS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    # a model, and an edited one
    "a function": (lambda: FunctionModel(replies("a")), lambda: FunctionModel(replies("b"))),
    "its settings": (
        lambda: FunctionModel(replies("a"), settings={"temperature": 0}),
        lambda: FunctionModel(replies("a"), settings={"temperature": 1}),
    ),
    "its profile": (
        lambda: FunctionModel(replies("a")),
        lambda: FunctionModel(replies("a"), profile={"supports_tools": False}),
    ),
    "a function that streams": (
        lambda: FunctionModel(replies("a"), model_name="m"),
        lambda: FunctionModel(replies("a"), stream_function=stream, model_name="m"),
    ),
    "a test model": (lambda: TestModel(), lambda: TestModel(custom_output_text="b")),
    "its seed": (lambda: TestModel(), lambda: TestModel(seed=1)),
}


@pytest.mark.parametrize("case", MODELS)
def test_a_simulated_model_is_asked_again_only_after_an_edit(case: str) -> None:
    model, edited = MODELS[case]
    first = agf.run("m", registry=of(model()))
    assert agf.stale(first, registry=of(model())).again == ()
    again = agf.run("m", registry=of(model()), reuse=True)
    assert (again.output, again.usage.requests) == (first.output, 0)
    assert reason(first, edited()) == "its model was edited"
    assert agf.run("m", registry=of(edited()), reuse=True).usage.requests == 1


def test_a_model_of_another_name_is_asked() -> None:
    agf.run("m", registry=of(FunctionModel(replies("a"), model_name="m")))
    other = of(FunctionModel(replies("a"), model_name="n"))
    assert agf.run("m", registry=other, reuse=True).usage.requests == 1


@pytest.mark.parametrize(
    ("model", "why"),
    [
        (FunctionModel(locked), "its model cannot be compared: LOCK (a lock of _thread)"),
        (Wrapped(replies("a")), f"its model cannot be compared: a Wrapped of {__name__}"),
    ],
)
def test_a_model_that_cannot_be_compared_is_named(model: Any, why: str) -> None:
    run = agf.run("m", registry=of(model))
    assert reason(run, model) == why
    assert agf.run("m", registry=of(model), reuse=True).usage.requests == 1
