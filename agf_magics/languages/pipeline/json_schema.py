"""The pipeline language as a JSON Schema (Draft 2020-12), for editors, made from the tables of the
loader.

``python -m agf_magics.languages.pipeline.json_schema`` prints it. It describes one document of a
definition; it cannot describe expressions and !expr.
"""

from __future__ import annotations

import json

from ..documents import Json, Kind, kind_schema, mapping_of, reference
from .body import TITLE
from .kinds import DOCUMENTS, STEPS
from .schema_documents import TYPES
from .takes import TARGET


def document_schema() -> Json:
    """The schema of one document."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A document of a pipeline definition",
        "oneOf": [reference(f"{name}_document") for name in DOCUMENTS],
        "$defs": {
            **{f"{name}_document": kind_schema(kind) for name, kind in DOCUMENTS.items()},
            "step": {
                "description": "One step: its kind, and under it the kind's keys.",
                "type": "object",
                "properties": {
                    **{name: reference(name) for name in STEPS},
                    TITLE.name: {**TITLE.takes.schema, "description": TITLE.doc},
                },
                "additionalProperties": False,
                "oneOf": [{"required": [name]} for name in STEPS],
            },
            **{name: _step(kind) for name, kind in STEPS.items()},
            "target": kind_schema(TARGET),
            "fields": {**mapping_of(reference("type")), "minProperties": 1},
            "type": {"oneOf": [kind_schema(kind) for kind in TYPES.values()]},
        },
    }


def _step(kind: Kind) -> Json:
    lists = (
        {"not": {"required": ["over", "items"]}}
        if "over" in kind.keys and "items" in kind.keys
        else {}
    )
    return {**kind_schema(kind), **lists}


if __name__ == "__main__":
    print(json.dumps(document_schema(), indent=2))
