"""Converts the result of a server's tool to the value of a step, or to the text of an error."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ...values.value import Value


def value_of(result: Any, wraps: bool) -> Value:
    """The structured content, else the only text, else a list of parts. ``wraps``: whether the
    value is in the field ``result``, because the protocol allows only objects."""
    structured = result.structured_content
    if structured is not None:
        if wraps and isinstance(structured, dict) and set(structured) == {"result"}:
            return structured["result"]
        return structured
    parts = [_part(part) for part in result.content]
    return parts[0] if len(parts) == 1 and isinstance(parts[0], str) else parts


def is_wrapped(schema: dict[str, Any] | None) -> bool:
    """Whether the schema of a result has the one field ``result`` for a value that is no object."""
    fields = schema.get("properties") if schema else None
    return isinstance(fields, dict) and set(fields) == {"result"}


def text_of(result: Any) -> str:
    """The texts of a result, for an error; its structured content if it has no text."""
    held = [getattr(part, "resource", part) for part in result.content]
    texts = [part.text for part in held if hasattr(part, "text")]
    if not any(texts) and result.structured_content:
        return json.dumps(result.structured_content, ensure_ascii=False)
    return "\n".join(texts) or "the server does not say why"


def contents(resource: Iterable[Any]) -> Value:
    """The contents of a resource: its only text, or a list of its parts."""
    parts = [_held(part) for part in resource]
    if len(parts) == 1 and "text" in parts[0]:
        return parts[0]["text"]
    return parts


def links(value: Value) -> list[str]:
    """The addresses of the resources that a value links to."""
    parts = value if isinstance(value, list) else []
    # The structured content of a server may have any object that looks like a link.
    return [
        part["uri"]
        for part in parts
        if isinstance(part, dict) and part.get("type") == "link" and type(part.get("uri")) is str
    ]


def _part(part: Any) -> Value:
    match part.type:
        case "text":
            return part.text
        case "image" | "audio":
            return {"type": part.type, "mime": part.mime_type, "data": part.data}
        case "resource_link":
            return {"type": "link", "uri": str(part.uri), "name": part.name}
        case "resource":
            return _held(part.resource)
    return {"type": str(part.type)}


def _held(resource: Any) -> dict[str, Value]:
    held = {"type": "resource", "uri": str(resource.uri), "mime": resource.mime_type}
    return held | (
        {"text": resource.text} if hasattr(resource, "text") else {"data": resource.blob}
    )
