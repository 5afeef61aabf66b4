"""Reads the files that a prompt names, before the request to a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import PurePath

from ...catalog.builtin.attachments import (
    MAX_FILES,
    MAX_TOTAL,
    Attachment,
    attachment_error,
    read_attachment,
)
from ...flow.steps import Invoke
from ...text.diagnostics import Diagnostic, StepError
from ...text.source import Span
from ...values.value import Value
from ..runner import CallSite

READ = "file__read"
"""The tool that an agent must be allowed to use in order to attach a file."""


async def attach_files(site: CallSite[Invoke], arguments: Mapping[str, Value]) -> dict[str, Value]:
    """The arguments of a session with descriptions of the attachments; their bytes are in
    ``run.models.files``, so that the journal stores no bytes.

    Raises StepError ``agent.attach``, ``tool.file-path``, ``step.not-allowed`` at the expression.
    """
    named = list[tuple[Value, Span]]()
    for value, span in zip(arguments["attach"], site.step.asking.attach, strict=True):
        for part in value if type(value) is list else [value]:
            named.append((str(part) if isinstance(part, PurePath) else part, span))
    attachments = list[Attachment]()
    total = 0
    # The size is checked while reading: the files of a folder may exceed the memory.
    for value, span in named:
        if len(attachments) == MAX_FILES:
            hint = "divide them among several steps"
            raise _at_span(attachment_error(f"more than {MAX_FILES} attachments", hint), span)
        if type(value) is str and not site.scope.grant.allows(READ):
            message = f"{site.scope.grant.identity!r} may not attach a file"
            hint = f"allow the tool {READ}"
            raise StepError(Diagnostic("step.not-allowed", message, span, hint))
        # Read on a thread, because a file may be large or on a slow disk.
        ok, read = await site.run.host.call("thread", read_attachment, {"value": value})
        if not ok:
            raise _at_span(read, span) if isinstance(read, StepError) else read
        total += len(read.data)
        if total > MAX_TOTAL:
            hint = (
                f"they have at most {MAX_TOTAL:,} bytes: make them smaller, or divide them "
                f"among several steps"
            )
            raise _at_span(attachment_error("the attachments are too large together", hint), span)
        attachments.append(read)
    described = [attachment.describe() for attachment in attachments]
    for attachment, about in zip(attachments, described, strict=True):
        site.run.models.files[about["sha256"]] = attachment.data
    return {**arguments, "attach": described}


def _at_span(error: StepError, span: Span) -> StepError:
    return StepError(replace(error.diagnostic, span=span))
