"""A run whose model passes a secret to a tool: its recording has no secret, and can be replayed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import agf_magics as agf
from agf_magics.lifecycle.recordings.masked_calls import fits
from tests.engine import kept

SECRET = "hunter2-hunter2"
HELP = "pipeline: help\nsteps:\n- agent: {prompt: 'help {ctx.q}', output: a}"


def asking(secret: Any, calls_made: list[str]) -> agf.Registry:
    """A model that looks up an order with the secret, and then answers."""
    registry = agf.Registry()
    kind = type(secret)

    def look(order: str, token: Any) -> int:
        calls_made.append("tool")
        assert token == secret
        return 3

    look.__annotations__["token"] = kind
    agf.tool(look, secret=["token"], registry=registry)

    def reply(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        calls_made.append("model")
        if len(messages) > 1:
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart("look", {"order": "A1", "token": secret})])

    registry.choose(FunctionModel(reply))
    return registry


QUESTIONS: dict[str, tuple[str, Any]] = {
    "a plain question": ("where is it", SECRET),
    "a secret in the question": (f"my token is {SECRET}, where is it", SECRET),
    "a secret at the end": (f"where is it? {SECRET}", SECRET),
    "a secret in it twice": (f"{SECRET}: where is it? {SECRET}", SECRET),
    "a number": ("my pin is 48151623", 48151623),
}


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("way", ["record", "missing"])
def test_a_recording_has_no_secret_that_a_model_passes_and_is_replayed(
    question: str, way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    calls_made: list[str] = []
    words, secret = QUESTIONS[question]
    registry = asking(secret, calls_made)
    if way == "record":
        with kept.journal_in(Path("kept")):
            agf.record(agf.run(HELP, {"q": words}, registry=registry), "run.agf")
    else:
        with agf.replay("run.agf", missing="record"):
            agf.run(HELP, {"q": words}, registry=registry)
    assert calls_made == ["model", "tool", "model"]
    assert str(secret) not in Path("run.agf").read_text("utf-8")
    for missing in ("fail", "call"):
        with agf.replay("run.agf", missing=missing, strict=True):  # type: ignore[arg-type]
            assert agf.run(HELP, {"q": words}, registry=registry).output == "done"
    assert calls_made == ["model", "tool", "model"]
    with agf.replay("run.agf"), pytest.raises(agf.StepError, match="has no call of model"):
        agf.run(HELP, {"q": "something else"}, registry=registry)


def test_a_tool_that_is_called_in_a_replay_needs_the_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    calls_made: list[str] = []
    registry = asking(SECRET, calls_made)
    with kept.journal_in(Path("kept")):
        agf.record(agf.run(HELP, {"q": "where is it"}, registry=registry), "run.agf")
    with agf.replay("run.agf", only="models"), pytest.raises(agf.StepError, match="needs 'token' again"):
        agf.run(HELP, {"q": "where is it"}, registry=registry)
    assert calls_made == ["model", "tool", "model"]


def test_a_recording_of_a_secret_that_cannot_be_searched_for_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    registry = asking("k", [])
    with kept.journal_in(Path("kept")), pytest.warns(UserWarning, match="cannot be searched for one"):
        agf.record(agf.run(HELP, {"q": "my token is k"}, registry=registry), "run.agf")
    assert "token is k" not in Path("run.agf").read_text("utf-8")
    with agf.replay("run.agf"), pytest.raises(agf.StepError, match="cannot be searched for one"):
        agf.run(HELP, {"q": "my token is k"}, registry=registry)


FITS: list[tuple[Any, Any, bool]] = [
    ("a ••• b", "a secret b", True),
    ("a ••• b", "a b", False),
    ("•••", {"any": 1}, True),
    ("••• and •••", "x and y", True),
    ("••• and •••", "x or y", False),
    ({"a": ["•••", 1]}, {"a": ["x", 1]}, True),
    ({"a": ["•••", 1]}, {"a": ["x", 2]}, False),
    ({"a": "•••"}, {"a": "x", "b": 1}, False),
    (1, True, False),
    ("a•••ba", "aba", True),
    ("ab•••ba", "aba", False),
]


@pytest.mark.parametrize(("recorded", "made", "is_fitting"), FITS)
def test_a_mask_stands_for_any_text(recorded: Any, made: Any, is_fitting: bool) -> None:
    assert fits(recorded, made) is is_fitting
