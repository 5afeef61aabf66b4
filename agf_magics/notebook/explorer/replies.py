"""The reply to a request of the page, or why there is none."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...pictures.plain import line
from ...text.diagnostics import AgfError
from .request_types import Json, Refused, Requests

MOST_WHY = 600
"""The most characters of the reason why a request is refused."""


def reply_to(message: Mapping[str, Any], requests: Requests) -> Json:
    """The reply to a request of the page: what the request's function returns for the arguments, or why
    the request has no answer."""
    id = message.get("id")
    name = str(message.get("do"))
    arguments = message.get("with")
    try:
        if name not in requests:
            raise Refused(f"unknown request {name!r}")
        value = requests[name](arguments if isinstance(arguments, dict) else {})
        return {"type": "reply", "id": id, "ok": True, "value": value}
    except AgfError as error:
        why = str(error.diagnostic.message)
    except Refused as error:
        why = str(error)
    except (
        Exception
    ) as error:  # a value of a user, or a bug of ours: the page names it, the cell stays clean
        why = f"this cannot be shown ({type(error).__name__}: {error})"
    return {"type": "reply", "id": id, "ok": False, "why": line(why, MOST_WHY)}
