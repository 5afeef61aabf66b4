"""Offers long runs as tasks of the protocol of 2025-11-25, whose results a client fetches later.

A task has the id of its run, so a task outlives the server as its run does. The SDK has the types
of tasks, but cannot answer the call of a tool with a task. So a call that asks for a task is
answered before it reaches the SDK's handler. In the protocol of 2026-07-28 tasks are an extension
of another form, for which the SDK has no types. Clients of that protocol, and clients without
tasks, use the launch tools (own_tools.py) instead.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.context import CallNext, HandlerResult
from mcp_types.methods import serialize_server_result

from ...lifecycle.past.past_run import PastRun
from ...lifecycle.runs.live import started_at
from ...lifecycle.runs.run import Run
from ...text.diagnostics import DefinitionError
from .envelopes import Envelope, error_text, started
from .flow_tools import FlowTool
from .served_run import ServedRun
from .served_runs import ServedRuns

VERSION = "2025-11-25"
"""The only protocol with tasks of this form."""

POLL = 1_000
"""Milliseconds after which a client asks again."""

RELATED = "io.modelcontextprotocol/related-task"
"""The key of a task's id in the ``_meta`` of a message that belongs to the task."""

ON_DEMAND = types.ToolExecution(task_support="optional")
"""The metadata of a tool that can be called as a task."""

CAPABILITY = types.ServerTasksCapability(
    cancel=types.TasksCancelCapability(),
    requests=types.ServerTasksRequestsCapability(
        tools=types.TasksToolsCapability(call=types.TasksCallCapability())
    ),
)
"""The server's capabilities for tasks. Tasks are not listed, because a client is known only by
their ids."""

STATUSES: Mapping[str, types.TaskStatus] = {
    "ok": "completed",
    "error": "failed",
    "cancelled": "cancelled",
    "started": "working",
    "waiting": "input_required",
}
"""The status of a task, by the status in the envelope of its run."""

Context = ServerRequestContext[Any, Any]
Follow = Callable[
    [Context, FlowTool, ServedRun], Awaitable[types.CallToolResult | types.InputRequiredResult]
]
"""Waits for the end of a run, and brings its questions to the client."""
Result = Callable[[FlowTool, Run | PastRun], Awaitable[types.CallToolResult]]
"""The result of a run that has ended."""


class Tasks:
    """The tasks of one server."""

    def __init__(
        self,
        served: ServedRuns,
        tools: Mapping[str, FlowTool],
        follow: Follow,
        result: Result,
    ) -> None:
        self._served = served
        self._tools = tools
        self._follow = follow
        self._result_of = result

    def serve(self, server: Server[Any]) -> None:
        """Add the tasks to the SDK's server."""
        server.middleware.append(self._begin)
        server.add_request_handler("tasks/get", types.GetTaskRequestParams, self._get)
        server.add_request_handler("tasks/result", types.GetTaskPayloadRequestParams, self._result)
        server.add_request_handler("tasks/cancel", types.CancelTaskRequestParams, self._cancel)

    async def _begin(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Answer a call that asks for a task; hand on every other request."""
        written = ctx.params if isinstance(ctx.params, Mapping) else {}
        is_call = ctx.method == "tools/call" and ctx.protocol_version == VERSION
        # The SDK refuses a client that has not sent its capabilities.
        if not is_call or written.get("task") is None or ctx.session.client_capabilities is None:
            return await call_next(ctx)
        params = types.CallToolRequestParams.model_validate(written, by_name=False)
        tool = self._tools.get(params.name)
        if tool is None:
            message = f"{params.name[:80]!r} cannot be called as a task"
            raise MCPError(types.METHOD_NOT_FOUND, message)
        with _errors_of_the_protocol():
            run = await self._served.launch(tool.name, tool.input_of(params.arguments or {}))
        assert run.run is not None, "it was started"
        return {"task": _about(run.run, started(run.run.run_id))}

    async def _get(self, context: Context, params: types.GetTaskRequestParams) -> dict[str, Any]:
        return _about(*await self._state(params.task_id))

    async def _result(
        self, context: Context, params: types.GetTaskPayloadRequestParams
    ) -> dict[str, Any]:
        """Wait for the end of the run, and return the result of the call. The run goes on if the
        waiting client disconnects."""
        run, _ = await self._state(params.task_id)
        tool = self._tools[run.name]
        running = self._served.served(params.task_id)
        result: types.CallToolResult | types.InputRequiredResult
        if running is not None:
            result = await self._follow(context, tool, running)
        else:
            result = await self._result_of(tool, run)
        meta = {**(result.meta or {}), RELATED: {"taskId": params.task_id}}
        result = result.model_copy(update={"meta": meta})
        # The SDK writes the result of a call in the same way.
        written = result.model_dump(by_alias=True, mode="json", exclude_none=True)
        return serialize_server_result("tools/call", VERSION, written)

    async def _cancel(
        self, context: Context, params: types.CancelTaskRequestParams
    ) -> dict[str, Any]:
        with _errors_of_the_protocol():
            run = await self._served.find_run(params.task_id)
            if run.status in ("ok", "error", "cancelled"):
                message = f"the task {params.task_id!r} has ended: {STATUSES[run.status]}"
                raise MCPError(types.INVALID_PARAMS, message)
            envelope = await self._served.cancel(params.task_id)
            return _about(await self._served.find_run(params.task_id), envelope)

    async def _state(self, run_id: str) -> tuple[Run | PastRun, Envelope]:
        """The run of a task, and its state. A run that the end of a server interrupted is
        resumed."""
        with _errors_of_the_protocol():
            envelope = await self._served.state(run_id)
            return await self._served.find_run(run_id), envelope


@contextmanager
def _errors_of_the_protocol() -> Iterator[None]:
    """Raise a DefinitionError of the block as an error of the protocol."""
    try:
        yield
    except DefinitionError as error:
        raise MCPError(types.INVALID_PARAMS, error_text(error)) from None


def _about(run: Run | PastRun, envelope: Envelope) -> dict[str, Any]:
    """The task of a run, as the protocol writes it."""
    data = envelope["data"]
    question = data.get("question")
    message = question["text"] if question else data.get("error") or data.get("hint")
    began, ended = _times(run)
    task = types.Task(
        task_id=run.run_id,
        status=STATUSES[envelope["status"]],
        status_message=message,
        created_at=_written(began),
        last_updated_at=_written(ended),
        ttl=None,
        poll_interval=POLL,
    )
    # The protocol requires null for the missing end, and other missing fields to be left out.
    return {**task.model_dump(by_alias=True, mode="json", exclude_none=True), "ttl": None}


def _times(run: Run | PastRun) -> tuple[float, float]:
    """The begin of a run, and its end or the current time, in seconds since 1970."""
    if isinstance(run, PastRun):
        began, ended = run.started, run.ended
        return began.timestamp(), ended.timestamp() if ended is not None else time.time()
    began_at = started_at(run)
    return began_at, began_at + (run.seconds or 0.0) if run.done else time.time()


def _written(when: float) -> str:
    return datetime.fromtimestamp(when, UTC).isoformat(timespec="milliseconds")
