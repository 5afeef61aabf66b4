"""The JSON Schema of each language, for editors. ``python -m docs schemas`` writes the files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agf_magics.languages import graph, plan, policy
from agf_magics.languages.pipeline import document_schema

SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    "pipeline": document_schema(),
    "policy": policy.SCHEMA,
    "plan": plan.SCHEMA,
    "graph": graph.SCHEMA,
}
"""The schema of a whole document, by language."""


def file(language: str) -> Path:
    return Path(__file__).parent / f"{language}.schema.json"


def text(language: str) -> str:
    return json.dumps(SCHEMAS[language], indent=2, ensure_ascii=False) + "\n"
