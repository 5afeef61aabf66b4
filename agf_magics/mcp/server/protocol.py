"""`FlowServer`, the server in the SDK's terms: lists and calls tools, reports progress, asks,
cancels. The transports (stdio.py, http.py) carry its messages; `ServedRuns` starts its runs."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import mcp_types as types
from mcp import MCPError
from mcp.server import Server, apps

from ...catalog import Registry
from ...flow.flow import Flow
from ...flow.progress.question import Question
from ...lifecycle.past.final_values import final_values
from ...lifecycle.past.past_run import PastRun
from ...lifecycle.runs.run import Run
from ...limits.limits import Limits
from ...pictures.plain import plain
from ...text.diagnostics import DefinitionError, refused
from ...text.suggestions import suggest
from ...text.whole_text import whole_text, with_whole_texts
from ...values.as_json import as_json
from ...values.value import Value
from ...version import __version__
from . import questions
from .envelopes import (
    HOW_TO_ANSWER,
    LARGEST,
    Envelope,
    asks,
    bytes_in_message,
    error_text,
    said_beside,
    too_large,
    written,
)
from .flow_tools import FlowTool, flow_tools
from .own_tools import NAMES, OwnTool, own_tools
from .run_app import META, PAGE_TOOL, RUN_ID, TITLE, URI, document
from .served_run import ServedRun
from .served_runs import MOST_RUNNING, ServedRuns
from .tasks import CAPABILITY, ON_DEMAND, Context, Tasks

QUESTION_KEY = "question"
"""The key of the question in a result that requires input."""

CANCELLED = "the client of the MCP server cancelled it"
LEFT = "the client of the MCP server has gone"

GONE = "agf-magics.gone"
"""The key in the HTTP scope of an event that is set when the client disconnects."""

INSTRUCTIONS = (
    "Each flow is a tool that waits for its end. For one that takes long, call run_pipeline_async, and "
    "run_result until its status is no longer started. An agent that writes a definition calls "
    "describe_language before, and check_definition after it."
)


class FlowServer:
    """Flows, and the tools around them, for any number of clients on one loop."""

    def __init__(
        self,
        flows: Sequence[Flow],
        registry: Registry,
        most_running: int = MOST_RUNNING,
        limits: Limits | None = None,
    ) -> None:
        """Raises DefinitionError ``mcp.serve-name`` for a flow whose name no tool can have."""
        self.tools = flow_tools(flows, NAMES)
        self.served = ServedRuns(flows, registry, most_running, limits=limits)
        self.own = own_tools(self.served, self.tools, registry)
        self._tasks = Tasks(self.served, self.tools, self._follow, _result_of)

    def server(self) -> Server[Any]:
        """The SDK's server."""
        server: Server[Any] = _Server(
            "agf-magics",
            version=__version__,
            instructions=INSTRUCTIONS,
            on_list_tools=self._list,
            on_call_tool=self._call,
            on_list_resources=_list_resources,
            on_read_resource=_read_resource,
        )
        server.extensions[apps.EXTENSION_ID] = {}
        self._tasks.serve(server)
        return server

    async def _list(
        self, context: Context, params: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        listed = [_flow_tool(tool) for tool in self.tools.values()]
        # A client without pages would offer the tool of the page to its model, which cannot use it.
        shows = apps.client_supports_apps(context)
        own_tools = [tool for tool in self.own.values() if shows or tool.name != PAGE_TOOL]
        listed += map(_own_tool, own_tools)
        return types.ListToolsResult(tools=listed)

    async def _call(
        self, context: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        arguments = params.arguments or {}
        try:
            if (tool := self.tools.get(params.name)) is not None:
                return await self._run(context, tool, params)
            if (own_tool := self.own.get(params.name)) is not None:
                return _own_result(await own_tool.checked(arguments))
        except DefinitionError as error:
            return _failure(error_text(error))
        raise MCPError(types.INVALID_PARAMS, error_text(self.unknown(params.name)))

    def unknown(self, name: str) -> DefinitionError:
        """The error for a tool that the server does not have."""
        offered = (tool for tool in self.own if tool != PAGE_TOOL)
        near = suggest(name, (*self.tools, *offered), "tools")
        return refused("mcp.unknown-tool", f"the server has no tool {name[:80]!r}", near)

    async def _run(
        self, context: Context, tool: FlowTool, params: types.CallToolRequestParams
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Run a flow to its end, or to a question that the client must bring to the person."""
        served = await self._continued(params)
        if served is None:
            arguments = params.arguments or {}
            served = await self.served.start(tool.name, tool.input_of(arguments))
        assert served.run is not None, "it was started"
        leaving = asyncio.ensure_future(_cancel_when_gone(context, served.run))
        try:
            return await self._follow(context, tool, served)
        except asyncio.CancelledError:
            served.run.cancel(CANCELLED)
            raise
        finally:
            leaving.cancel()

    async def _follow(
        self, context: Context, tool: FlowTool, served: ServedRun
    ) -> types.CallToolResult | types.InputRequiredResult:
        """Wait for the end of a run, report how far it is, and bring its questions to the client."""
        assert served.run is not None, "it was started"
        reported = 0
        while not served.has_ended:
            question = await served.next(reported)
            if question is None:
                if served.done > reported:  # else the run has ended, or its question was given up
                    reported = served.done
                    await context.session.report_progress(reported, None, served.at)
            elif not _can_ask(context):
                return _waits(served.run, question)
            elif not context.session.can_send_request:
                return _input_required(served.run, _request(served, question))
            else:
                await _elicit(context, served, question)
        return await _result_of(tool, served.run)

    async def _continued(self, params: types.CallToolRequestParams) -> ServedRun | None:
        """The run whose question this call answers; the run may be in the journal only. None: this
        is a new call."""
        run_id = params.request_state
        if run_id is None:
            return None
        run = await self.served.find_run(run_id)
        if run.name != params.name:
            raise MCPError(types.INVALID_PARAMS, f"the run {run_id[:80]!r} is not one of this tool")
        reply = (params.input_responses or {}).get(QUESTION_KEY)
        served = self.served.served(run_id)
        if isinstance(reply, types.ElicitResult):
            # The run is in this process and waits for the answer.
            if served is not None and (question := served.open_question.current) is not None:
                _take(served, question, reply)
            # The run is in the journal only, and the answer resumes it.
            elif reply.action == "accept" and (content := reply.content or {}):
                await self.served.answer(run_id, content.get(questions.FIELD))
                served = self.served.served(run_id)
            # Otherwise nothing is answered: the declined question of a journaled run stays open.
        if served is None:
            raise MCPError(
                types.INVALID_PARAMS, f"the run {run_id!r} has ended: run_result has its result"
            )
        return served


class _Server(Server[Any]):
    """Adds the tasks capability, which the SDK's server does not announce."""

    def get_capabilities(self, *args: Any, **options: Any) -> types.ServerCapabilities:
        return super().get_capabilities(*args, **options).model_copy(update={"tasks": CAPABILITY})


async def _cancel_when_gone(context: Context, run: Run) -> None:
    """Cancel a run whose client closes the connection on which it waits."""
    gone = context.request.scope.get(GONE) if context.request is not None else None
    if gone is not None:
        await gone.wait()
        run.cancel(LEFT)


# --- what the SDK's types say ---


async def _list_resources(
    context: Context, params: types.PaginatedRequestParams | None
) -> types.ListResourcesResult:
    page = types.Resource(uri=URI, name=TITLE, mime_type=apps.APP_MIME_TYPE)
    return types.ListResourcesResult(resources=[page])


async def _read_resource(
    context: Context, params: types.ReadResourceRequestParams
) -> types.ReadResourceResult:
    if params.uri != URI:
        raise MCPError(types.INVALID_PARAMS, f"there is no resource {params.uri[:80]!r}")
    text = types.TextResourceContents(uri=URI, mime_type=apps.APP_MIME_TYPE, text=document())
    return types.ReadResourceResult(contents=[text])


def _flow_tool(tool: FlowTool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.accepts,
        output_schema=tool.gives,
        execution=ON_DEMAND,
        _meta=META,
    )


def _own_tool(tool: OwnTool) -> types.Tool:
    return types.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.accepts,
        annotations=types.ToolAnnotations(read_only_hint=tool.reads_only),
        _meta=dict(tool.meta) if tool.meta is not None else None,
    )


def _text(text: str) -> list[types.ContentBlock]:
    # Half of a character would end the connection, in this text and in the structured content.
    return [types.TextContent(type="text", text=whole_text(text))]


def _failure(text: str, run: Run | PastRun | None = None) -> types.CallToolResult:
    about = {RUN_ID: run.run_id} if run is not None else None
    return types.CallToolResult(content=_text(text), is_error=True, _meta=about)


def _own_result(value: dict[str, Value] | str) -> types.CallToolResult:
    structured = with_whole_texts(value) if isinstance(value, dict) else None
    return types.CallToolResult(content=_text(written(value)), structured_content=structured)


async def _result_of(tool: FlowTool, run: Run | PastRun) -> types.CallToolResult:
    return await asyncio.to_thread(_result, tool, run)


def _result(tool: FlowTool, run: Run | PastRun) -> types.CallToolResult:
    """The result of a run that has ended."""
    if run.status != "ok":
        error = run.error
        text = error_text(error) if error is not None else f"the run {run.run_id} has no result"
        if run.status == "waiting":
            text = f"{text}\nThe run {run.run_id} waits for an answer: {HOW_TO_ANSWER}"
        return _failure(text, run)
    values = final_values(run)
    output = as_json(values.output)
    text = written(output)
    if (size := bytes_in_message(text)) > LARGEST:
        return _failure(error_text(too_large(run.run_id, size)), run)
    structured = with_whole_texts(tool.structured(output))
    content = _text(text)
    if beside := said_beside(run, values):
        content += _text(beside)
    return types.CallToolResult(
        content=content, structured_content=structured, _meta={RUN_ID: run.run_id}
    )


def _waits(run: Run, question: Question) -> types.CallToolResult:
    """The result for a client without forms: the run goes on waiting, and the question can be
    answered with the tool run_answer and the id of the run."""
    envelope: Envelope = asks(run.run_id, question)
    return _failure(written(envelope), run)


def _can_ask(context: Context) -> bool:
    """Whether the client shows forms to its person."""
    capabilities = context.session.client_capabilities
    asking = capabilities.elicitation if capabilities is not None else None
    # Before the protocol of 2025-11-25 forms were the only mode, so a client does not name it.
    return asking is not None and (asking.form is not None or asking.url is None)


def _request(served: ServedRun, question: Question) -> types.ElicitRequestFormParams:
    text = questions.question_text(question)
    if complaint := served.open_question.complaint:
        text = f"{plain(complaint)}\n{text}"
    return types.ElicitRequestFormParams(message=text, requested_schema=questions.form(question))


def _input_required(run: Run, form: types.ElicitRequestFormParams) -> types.InputRequiredResult:
    """The result that lets the client ask its person and call again. It contains the id of the run,
    which is no secret."""
    request = types.ElicitRequest(params=form)
    return types.InputRequiredResult(
        input_requests={QUESTION_KEY: request}, request_state=run.run_id
    )


async def _elicit(context: Context, served: ServedRun, question: Question) -> None:
    """Ask on the connection of the call, as protocols before 2026-07-28 do."""
    form = _request(served, question)
    reply = await context.session.elicit_form(
        form.message, form.requested_schema, related_request_id=context.request_id
    )
    if served.open_question.current is question:  # the question may have been given up
        _take(served, question, reply)


def _take(served: ServedRun, question: Question, reply: types.ElicitResult) -> None:
    """Hand the person's reply to the run. A reply that does not fit leaves the question open."""
    answer = questions.form_answer(question, reply.action, reply.content)
    if answer is None:
        served.open_question.give_up()
    else:
        served.open_question.try_answer(answer)
