"""The texts for coding agents agree with the code: ``docs/llms.txt`` is generated from it, and the skill describes the
commands."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from agf_magics.__main__ import ACTS
from agf_magics.commands.line import as_typed, read_words
from agf_magics.mcp.server.authoring import check_definition
from agf_magics.mcp.server.own_tools import NAMES
from docs import llms

ROOT = Path(__file__).parents[1]
SKILL = (ROOT / "editors" / "agents" / "agf-magics" / "SKILL.md").read_text(encoding="utf-8")
TEXTS = {"the skill": SKILL, "llms.txt": llms.HEAD}
LINES = [line for text in TEXTS.values() for line in re.findall(r"^    (agf-magics .+)$", text, re.MULTILINE)]


def test_the_file_is_that_of_the_code() -> None:
    assert llms.FILE.read_text(encoding="utf-8") == llms.text(), "python -m docs llms writes it"


def test_each_page_has_a_sentence() -> None:
    rows = re.findall(r"^- \[.+\]\((.+)\): (.*)$", llms.text(), re.MULTILINE)
    assert len(rows) > 60
    assert [page for page, sentence in rows if len(sentence.split()) < 2 or not (llms.DOCS / page).is_file()] == []


@pytest.mark.parametrize("line", LINES)
def test_a_line_for_a_terminal_is_one_of_the_command(line: str) -> None:
    source, words = as_typed("agf-magics", shlex.split(line)[1:])
    command, _ = ACTS[words[0].text]
    assert read_words(command, source, words[1:]) is not None


def test_the_skill_begins_as_agents_read_it_and_its_definition_is_right() -> None:
    head = re.match(r"---\nname: agf-magics\ndescription: (.+)\n---\n", SKILL)
    assert head is not None
    assert len(head[1]) < 1_024  # the most that agents read of each skill at their start
    (definition,) = re.findall(r"```yaml\n(.*?)```", SKILL, re.DOTALL)
    assert check_definition(definition) == {"language": "pipeline", "ok": True, "problems": []}


def test_the_tools_that_the_texts_name_exist() -> None:
    named = {name for text in TEXTS.values() for name in re.findall(r"`([a-z]+_[a-z_]+|explain)`", text)}
    assert {"check_definition", "describe_language", "explain"} <= named
    assert named - set(NAMES) - {"for_each"} == set()
