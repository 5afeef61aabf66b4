"""``python -m docs.schemas``: the JSON Schema of each language, for editors, as a file of the site."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agf_magics.languages import graph, plan, policy
from agf_magics.languages.pipeline.json_schema import document_schema

SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    "pipeline": document_schema(),
    "policy": policy.SCHEMA,
    "plan": plan.SCHEMA,
    "graph": graph.SCHEMA,
}
"""By the language, of a whole document."""


def file(language: str) -> Path:
    return Path(__file__).parent / f"{language}.schema.json"


def text(language: str) -> str:
    return json.dumps(SCHEMAS[language], indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    for language in SCHEMAS:
        file(language).write_text(text(language), encoding="utf-8")
