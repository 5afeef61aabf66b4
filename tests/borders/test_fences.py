"""A definition that was pasted together with its Markdown fence, in each language, in a cell and in a file."""

from __future__ import annotations

from pathlib import Path

import pytest

import agf_magics as agf

TEXTS = {
    "pipeline": 'pipeline: p\nsteps:\n- transform: {value: "1"}\n',
    "policy": "id: agf.sequential\nconfig: {steps: [{agent: a, input_mapping: {x: parent.input.x}}]}\n",
    "plan": "name: p\ncalls:\n- {_tool: t}\n",
    "graph": "name: p\nnodes: {a: {type: passthrough}}\nedges: [{from: START, to: a}]\n",
}
FENCES = {
    "a fence": "```yaml\n{}```\n",
    "one without a language": "```\n{}```\n",
    "the end alone": "{}```\n",
    "the begin alone": "```yaml\n{}",
    "tildes": "~~~yaml\n{}~~~\n",
    "indented": "  ```yaml\n{}  ```\n",
}


@pytest.mark.parametrize("place", ["text", "file"])
@pytest.mark.parametrize("fence", FENCES)
@pytest.mark.parametrize("language", TEXTS)
def test_a_fence_is_to_be_deleted(tmp_path: Path, language: str, fence: str, place: str) -> None:
    text = FENCES[fence].format(TEXTS[language])
    mark = "~~~" if fence == "tildes" else "```"
    file = tmp_path / "p.yaml"
    file.write_text(text)
    registry = agf.Registry()
    with pytest.raises(agf.DefinitionError) as caught:
        agf.run(file, registry=registry) if place == "file" else agf.define(text, language, registry=registry)
    diagnostic = caught.value.diagnostic
    assert (diagnostic.code, diagnostic.message) == ("yaml.syntax", "a line cannot be a fence of Markdown"), diagnostic
    assert diagnostic.hint == f"delete the lines that begin with {mark}"
    assert diagnostic.span is not None
    assert diagnostic.span.text.strip().startswith(mark)


def test_a_fence_in_a_text_of_several_lines_is_not_the_mistake() -> None:
    text = (
        "pipeline: p\nsteps:\n- agent:\n    prompt: |\n      ```yaml\n      a: 1\n      ```\n- transform: {value: [}\n"
    )
    with pytest.raises(agf.DefinitionError) as caught:
        agf.define(text, registry=agf.Registry())
    assert "fence" not in str(caught.value)
