"""``define`` and ``load``: the places from which a flow gets its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf

POLICY = "{id: agf.sequential, config: {steps: [{agent: writer}]}}"
CALLS = "[{_tool: measure, word: pear, _outputPath: †state.n}]"
PIPELINE = "pipeline: p\nsteps:\n- transform: {value: '1'}\n"


@pytest.mark.parametrize("text", [POLICY, CALLS, PIPELINE])
def test_a_name_can_be_given_to_any_definition(text: str) -> None:
    registry = agf.Registry()
    flow = agf.define(text, name="main", registry=registry)
    assert (flow.name, list(registry.flows)) == ("main", ["main"])
    assert agf.load(text, name="main", registry=registry).name == "main"


@pytest.mark.parametrize(("text", "name"), [(POLICY, "policy"), (CALLS, "plan"), (PIPELINE, "p")])
def test_without_a_name_a_loaded_flow_has_that_of_its_document_or_language(text: str, name: str) -> None:
    assert agf.load(text, registry=agf.Registry()).name == name


def test_a_file_gives_its_name_and_name_replaces_it(tmp_path: Path) -> None:
    registry, file = agf.Registry(), tmp_path / "vote.agf.yaml"
    file.write_text(POLICY)
    agf.define(file, registry=registry)
    agf.define(file, name="second", registry=registry)
    assert list(registry.flows) == ["second", "vote"]


@pytest.mark.parametrize("name", ["", " ", 3])
def test_a_name_must_be_text(name: Any) -> None:
    for function in (agf.define, agf.load):
        with pytest.raises(agf.DefinitionError) as caught:
            function(PIPELINE, name=name, registry=agf.Registry())
        assert caught.value.code == "define.no-name"
