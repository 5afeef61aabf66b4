"""A model plans in a cell of JupyterLab: the user sees each reply and each plan, during the run and afterwards."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.browser.harness import Lab, Open

pytestmark = pytest.mark.browser

MODEL = """%load_ext agf_magics
import json
from agf_magics import tool
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel

@tool
def gate(name: str) -> str:
    "Waits until the test opens it."
    with open(name) as fifo:
        return fifo.read()

@tool
def shout(text: str) -> str:
    "The text in capitals."
    return text.upper()

def write(messages, info):
    seen = messages[-1].parts[-1].content
    if '"word"' not in seen:
        thought = {"_tool": "think", "_output": "First the word <b>behind the gate</b>."}
        calls = [thought, {"_tool": "gate", "name": "†input.gate", "_outputPath": "†state.word"}]
        return ModelResponse(parts=[TextPart(json.dumps({"calls": calls, "output": None}))])
    call = {"_tool": "shout", "text": "†state.word", "_outputPath": "†state.loud"}
    return ModelResponse(parts=[TextPart(json.dumps({"calls": [call], "output": "†state.loud"}))])

model = FunctionModel(write)"""
PLAN = "%%plan loud --planner $model --tools gate,shout --draw --set gate=GATE\ntask: What is the word, in capitals?"


def test_a_planner_is_watched_tick_by_tick(opened: Open, lab: Lab) -> None:
    gate = Path(lab.folder / "planner.gate")
    os.mkfifo(gate)
    page = opened(MODEL, PLAN.replace("GATE", gate.name))
    page.run_all(wait=False)
    page.says(1, "think: First the word <b>behind the gate</b>.", "gate(name: †input.gate) → †state.word", "running")
    assert "to continue" not in page.output(1).inner_text()
    page.picture("planner-running", 1)
    gate.write_text("pear")
    page.finished()
    page.says(1, "shout(text: †state.word) → †state.loud", "output: †state.loud", "PEAR")
    page.picture("planner-ran", 1)
