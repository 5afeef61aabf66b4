"""Builds the JSON Schema of a pipeline document from the table of its keys."""

from __future__ import annotations

from ..key_schemas import Json, mapping_of, mapping_schema, reference
from ..keys import MappingSpec
from .body import TITLE
from .schema_documents import TYPES
from .takes import TARGET
from .words import DOCUMENTS, STEPS


def document_schema() -> Json:
    """The language as a JSON Schema (Draft 2020-12), for editors: one document of a definition. It
    cannot describe expressions and ``!expr``."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A document of a pipeline definition",
        "oneOf": [reference(f"{name}_document") for name in DOCUMENTS],
        "$defs": {
            **{f"{name}_document": mapping_schema(kind) for name, kind in DOCUMENTS.items()},
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
            **{name: _step_schema(kind) for name, kind in STEPS.items()},
            "target": mapping_schema(TARGET),
            "fields": {**mapping_of(reference("type")), "minProperties": 1},
            "type": {"oneOf": [mapping_schema(kind) for kind in TYPES.values()]},
        },
    }


def _step_schema(kind: MappingSpec) -> Json:
    takes_a_list = {"over", "items"} <= kind.keys.keys()
    lists = {"not": {"required": ["over", "items"]}} if takes_a_list else {}
    return {**mapping_schema(kind), **lists}
