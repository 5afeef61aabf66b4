"""A flow has as many steps where it is announced as in its picture, its list and its header: those of its author."""

from __future__ import annotations

import pytest

import agf_magics as agf
from agf_magics.flow.progress.progress import Progress
from agf_magics.pictures.outline import count_steps
from agf_magics.pictures.pages.parts import counts
from agf_magics.pictures.row_words import listed
from agf_magics.pictures.scene.builder import scene

POLICY = """\
schema_version: "1.0.0"
metadata: {id: counted, name: Counted, version: "1.0.0", description: Two agents.}
interface:
  input: {type: object}
  output: {}
action_space:
  local_agents:
  - {alias: a, source: notebook, source_type: kernel}
  - {alias: b, source: notebook, source_type: kernel}
execution_policy:
  id: agf.sequential
  config:
    steps: [{agent: a}, {agent: b}]
"""
PIPELINE = """\
pipeline: counted
steps:
- tool: {name: bump, args: {n: 1}, output: one}
"""
FLOWS = {
    "a policy": (POLICY, 2),
    "a policy with its last output": (POLICY + "    output_from: last\n", 2),
    "a policy with the output of one agent": (POLICY + "    output_from: a\n", 2),
    "a policy that merges": (POLICY + "    output_from: merge\n", 3),
    "a pipeline": (PIPELINE, 1),
    "a last transform that hands the value on": (PIPELINE + "- transform: {value: pipe}\n", 2),
    "a last transform with an output": (PIPELINE + "- transform: {value: pipe, output: two}\n", 2),
    "a last transform that reads": (PIPELINE + "- transform: {value: ctx.one}\n", 2),
    "a transform in the middle": (PIPELINE.replace("steps:\n", "steps:\n- transform: {value: pipe}\n"), 2),
}


@pytest.mark.parametrize("name", FLOWS)
def test_a_step_that_its_author_wrote_is_counted_drawn_and_listed(name: str) -> None:
    text, steps = FLOWS[name]
    registry = agf.Registry()
    agf.tool(lambda n: n + 1, name="bump", registry=registry)
    for agent in ("a", "b"):
        agf.agent(lambda: 1, name=agent, registry=registry)
    flow = agf.define(text, registry=registry)
    words = f"{steps} step{'s' * (steps > 1)}"
    assert count_steps(flow) == words
    assert counts(Progress(flow)) == [f"0 of {words}"]
    boxes = [box for box in scene(flow).parts if box.step is not None]
    assert len(boxes) == steps
    run = agf.run(flow, registry=registry)
    assert counts(run.progress) == [f"{steps} of {words}"]
    assert len(listed(run.progress)) == steps
