"""The JSON Schemas for editors: the files on the site are those of the loaders, and they tell right texts from wrong
ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from agf_magics.commands.magics import COMMANDS
from agf_magics.languages import LANGUAGES
from agf_magics.text.yaml.nodes import plain
from docs import schemas
from tests.languages.loading import nodes

each = pytest.mark.parametrize("language", LANGUAGES)


@each
def test_the_file_is_up_to_date_and_a_schema(language: str) -> None:
    assert schemas.file(language).read_text(encoding="utf-8") == schemas.text(language), "python -m docs schemas"
    jsonschema.Draft202012Validator.check_schema(schemas.SCHEMAS[language])


def document(language: str) -> Any:
    """The document in the help of the magic. For a policy alone, a document is put around it."""
    body = COMMANDS[language].example.split("\n", 1)[1]
    (node,), _ = nodes(body)
    value = plain(node)
    if language != "policy":
        return value
    metadata = {"id": "a", "name": "a", "version": "1", "description": "a"}
    whole = {"schema_version": "1.0.0", "metadata": metadata, "interface": {"input": {}, "output": {}}}
    return {**whole, "execution_policy": value}


@each
def test_an_editor_accepts_a_document_and_refuses_one_without_its_main_key(language: str) -> None:
    judge = jsonschema.Draft202012Validator(schemas.SCHEMAS[language])
    good = document(language)
    assert not [error.message for error in judge.iter_errors(good)]
    needed = {"pipeline": "steps", "policy": "execution_policy", "plan": "calls", "graph": "edges"}[language]
    assert list(judge.iter_errors({key: value for key, value in good.items() if key != needed}))


def test_the_site_has_all_schemas() -> None:
    assert {path.name for path in Path(schemas.__file__).parent.glob("*.schema.json")} == {
        schemas.file(language).name for language in LANGUAGES
    }
