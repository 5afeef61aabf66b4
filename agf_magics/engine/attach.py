"""The images and documents of an agent step. The run holds their bytes; the messages have digests instead, so that the
journal stores no bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..catalog.attachments import MAX_FILES, MAX_TOTAL, Attachment, read_attachment, refused
from ..flow.steps import Invoke
from ..flow.values import Value
from ..text.diagnostics import Diagnostic, StepError
from ..text.source import Span
from .runner import CallSite

READ = "file__read"
"""The tool that an agent must be allowed to use to attach a file."""


async def attach_files(site: CallSite[Invoke], given: Mapping[str, Value]) -> dict[str, Value]:
    """The arguments of a session with descriptions of the attachments; their bytes are in ``run.models.files``.

    Raises StepError ``agent.attach``, ``tool.file-path``, ``step.not-allowed`` at the expression.
    """
    each = [
        (part, span)
        for value, span in zip(given["attach"], site.step.asking.attach, strict=True)
        for part in (value if type(value) is list else [value])
    ]
    found, total = list[Attachment](), 0
    for value, span in each:
        if len(found) == MAX_FILES:
            raise _placed(refused(f"more than {MAX_FILES} attachments", "divide them among several steps"), span)
        if type(value) is str and not site.scope.grant.allows(READ):
            message, hint = f"{site.scope.grant.identity!r} may not attach a file", f"allow the tool {READ}"
            raise StepError(Diagnostic("step.not-allowed", message, span, hint))
        ok, read = await site.run.host.call("thread", read_attachment, {"value": value})
        if not ok:
            raise _placed(read, span) if isinstance(read, StepError) else read
        total += len(read.data)
        if total > MAX_TOTAL:
            hint = f"they have at most {MAX_TOTAL:,} bytes: make them smaller, or divide them among several steps"
            raise _placed(refused("the attachments are too large together", hint), span)
        found.append(read)
    described = [one.describe() for one in found]
    for one, about in zip(found, described, strict=True):
        site.run.models.files[about["sha256"]] = one.data
    return {**given, "attach": described}


def _placed(error: StepError, span: Span) -> StepError:
    return StepError(replace(error.diagnostic, span=span))
