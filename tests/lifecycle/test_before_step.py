"""What a run from a step on makes again before the step, said before it runs, is what it then makes."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
from pydantic_ai.models.function import AgentInfo, FunctionModel

import agf_magics as agf
from agf_magics.lifecycle.forecasts.before_step import again_before
from tests.engine.kept import journal_in

FLOW = """\
pipeline: trip
steps:
- tool: {name: rate, args: {city: Bern}, output: rate}
- for_each:
    items: [Bern, Basel]
    on_error: continue
    do: {tool: {name: fails, args: {city: !expr item}}}
    collect: {transform: {value: pipe}}
    output: none
- agent: {prompt: "Describe {rate}", output: advice}
- tool: {name: send, args: {text: here}, output: sent}
- tool: {name: last, args: {text: !expr advice}, output: end}
"""


def registry_of(made: Path, rate: int) -> agf.Registry:
    registry, path = agf.Registry(), str(made)
    lock = threading.Lock()

    def note(word: str) -> None:
        with open(path, "a") as file:
            file.write(f"{word}\n")

    def talk(messages: Sequence[ModelMessage], info: AgentInfo) -> ModelResponse:
        with lock:  # so that the model cannot be compared
            note("advice")
        return ModelResponse(parts=[TextPart("a town")])

    @agf.tool(name="rate", registry=registry)
    def price(city: str) -> int:
        with open(path, "a") as file:
            file.write("rate\n")
        return rate

    @agf.tool(registry=registry)
    def fails(city: str) -> int:
        with open(path, "a") as file:
            file.write("fails\n")
        raise ValueError(city)

    @agf.tool(reuse=False, registry=registry)
    def send(text: str) -> str:
        with open(path, "a") as file:
            file.write("sent\n")
        return text

    @agf.tool(registry=registry)
    def last(text: str) -> str:
        with open(path, "a") as file:
            file.write("end\n")
        return text

    registry.choose(FunctionModel(talk))
    agf.define(FLOW, registry=registry)
    return registry


@pytest.mark.parametrize("is_past", [False, True])
@pytest.mark.parametrize(
    ("step", "rate", "before"),
    [
        ("steps[0]", 1, []),
        ("steps[2]", 1, []),
        ("steps[3]", 1, ["steps[2]"]),
        ("steps[4]", 1, ["steps[2]", "steps[3]"]),
        ("steps[4]", 2, ["steps[0]", "steps[2]", "steps[3]"]),
    ],
)
def test_the_forecast_names_what_the_run_from_the_step_makes_before_it(
    tmp_path: Path, step: str, rate: int, before: list[str], is_past: bool
) -> None:
    names = {"steps[0]": "rate", "steps[2]": "advice", "steps[3]": "sent"}
    with journal_in(tmp_path):
        made = tmp_path / "made"
        live = agf.run("trip", registry=registry_of(made, 1))
        run = agf.runs(live.run_id) if is_past else live
        registry = registry_of(made, rate)
        made.write_text("")
        again = again_before(run, step, registry)
        assert made.read_text() == ""
        assert list(again) == before
        assert all(again.values())
        agf.rerun(live.run_id, step, registry=registry)
        calls = made.read_text().split()
        after = int(step[6])
        assert {names[id] for id in before} == {
            name for id, name in names.items() if int(id[6]) < after and name in calls
        }
        assert ("fails" in calls) == (after <= 1)


DROPS = """\
pipeline: month
steps:
- for_each:
    items: [1, 2, 3]
    on_error: continue
    do: {tool: {name: tax, args: {x: !expr item}}}
    collect: {transform: {value: pipe}}
    output: taxed
- tool: {name: total, args: {xs: !expr taxed}, output: sum}
- tool: {name: report, args: {x: !expr sum}, output: text}
"""


def month(made: Path, rate: int) -> agf.Registry:
    registry, path = agf.Registry(), str(made)

    @agf.tool(registry=registry)
    def tax(x: int) -> int:
        with open(path, "a") as file:
            file.write("tax\n")
        if x == 3:
            raise ValueError(x)
        return x * rate

    @agf.tool(registry=registry)
    def total(xs: list[int]) -> int:
        with open(path, "a") as file:
            file.write("total\n")
        return sum(xs)

    @agf.tool(registry=registry)
    def report(x: int) -> str:
        with open(path, "a") as file:
            file.write("report\n")
        return str(x)

    agf.define(DROPS, registry=registry)
    return registry


@pytest.mark.parametrize(
    ("rates", "before"),
    [
        ([1], ["", ""]),
        ([2], ["steps[0].do steps[1]", ""]),
        ([2, 3], ["steps[0].do steps[1]", "steps[0].do steps[1]"]),
    ],
    ids=["nothing was edited", "edited once", "edited twice"],
)
def test_a_failure_that_the_run_went_on_without_is_no_reason_to_run_what_reads_its_results(
    tmp_path: Path, rates: list[int], before: list[str]
) -> None:
    names = {"steps[0].do": "tax", "steps[1]": "total"}
    with journal_in(tmp_path):
        made = tmp_path / "made"
        run = agf.run("month", registry=month(made, 1))
        for rate, forecast in zip([*rates, rates[-1]], before, strict=False):
            registry = month(made, rate)
            again = again_before(run, "steps[2]", registry)
            assert " ".join(again) == forecast
            made.write_text("")
            run = agf.rerun(run, "steps[2]", registry=registry)
            calls = {*made.read_text().split()}
            assert calls == {*(names[id] for id in again), "report"}
