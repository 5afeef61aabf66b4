"""The server's tools besides its flows: they start and follow runs, and help to write
definitions."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, NamedTuple

from ...catalog import Registry
from ...schemas.json_schema import judge
from ...schemas.violations import describe_all
from ...text.diagnostics import refused
from ...values.value import Value
from .authoring import check_definition, describe_language, explain, languages
from .envelopes import Envelope, started
from .flow_tools import FlowTool, Schema
from .run_app import META, PAGE_META, PAGE_TOOL, page
from .served_runs import ServedRuns

Arguments = Mapping[str, Any]

NAMES = (
    *("run_pipeline_async", "run_result", "run_answer", "run_cancel"),
    *("check_definition", "explain", "describe_language", PAGE_TOOL),
)
"""The names of these tools. A flow of a server cannot have one of them."""


class OwnTool(NamedTuple):
    """A tool of the server that is no flow."""

    name: str
    description: str
    accepts: Schema
    call: Callable[[Arguments], Awaitable[dict[str, Value] | str]]
    """The function of the tool. It gets arguments that fit ``accepts``, and may raise
    DefinitionError."""
    reads_only: bool = False
    """Whether the tool changes nothing."""
    meta: Mapping[str, Any] | None = None
    """The tool's metadata about the page of a run: the page shows its result, or calls it."""

    async def checked(self, arguments: Arguments) -> dict[str, Value] | str:
        """Call the tool. Raises DefinitionError ``mcp.arguments`` if the arguments do not fit."""
        if violations := judge(self.accepts)(dict(arguments)):
            message = f"{self.name} cannot be called so: {describe_all(violations)}"
            raise refused("mcp.arguments", message)
        return await self.call(arguments)


def own_tools(
    served: ServedRuns, tools: Mapping[str, FlowTool], registry: Registry
) -> dict[str, OwnTool]:
    """The tools of a server, by name. ``tools``: the tools of its flows."""
    every = (*_for_runs(served, tools), *_for_authors(registry))
    return {tool.name: tool for tool in every}


class _RunTools:
    """The functions of the tools for runs."""

    def __init__(self, served: ServedRuns, tools: Mapping[str, FlowTool]) -> None:
        self._served = served
        self._tools = tools

    async def launch(self, arguments: Arguments) -> Envelope:
        tool = self._tools[arguments["name"]]
        run = await self._served.launch(tool.name, tool.input_of(arguments.get("input") or {}))
        assert run.run is not None, "it was started"
        return started(run.run.run_id)

    async def result(self, arguments: Arguments) -> Envelope:
        return await self._served.state(arguments["run_id"])

    async def answer(self, arguments: Arguments) -> Envelope:
        return await self._served.answer(arguments["run_id"], arguments["answer"])

    async def page(self, arguments: Arguments) -> dict[str, Any]:
        return await asyncio.to_thread(page, await self._served.find_run(arguments["run_id"]))

    async def cancel(self, arguments: Arguments) -> Envelope:
        return await self._served.cancel(arguments["run_id"])


def _for_runs(served: ServedRuns, tools: Mapping[str, FlowTool]) -> Sequence[OwnTool]:
    act = _RunTools(served, tools)
    return (*_to_begin(act, sorted(tools)), *_to_follow(act))


def _to_begin(act: _RunTools, names: Sequence[str]) -> Sequence[OwnTool]:
    """The tool that starts one of the flows ``names``."""
    name = _text("The flow.", enum=list(names)) if names else _text("The flow.")
    input = {"type": "object", "description": "Its arguments, as for the tool of this name."}
    return (
        OwnTool(
            "run_pipeline_async",
            "Start a flow that takes long and return its run_id at once. run_result returns the result.",
            _schema(required=("name",), name=name, input=input),
            act.launch,
            meta=META,
        ),
    )


def _to_follow(act: _RunTools) -> Sequence[OwnTool]:
    """The tools about a run that was started, which take its id."""
    run_id = _text("The id that the start returned.")
    about_answer = (
        "yes or no, one of the choices, or a text; instead of a yes a mapping of changed arguments, "
        "if the question says so."
    )
    of_person = {"description": about_answer, "type": ["string", "boolean", "number", "object"]}
    return (
        OwnTool(
            "run_result",
            "Return the result of a run, the status started while it is running, or the question that "
            "it asks. A run that the end of the server interrupted goes on.",
            _schema(run_id=run_id),
            act.result,
            meta=META,
        ),
        OwnTool(
            "run_answer",
            "Answer the question of a run with what the person said. Never answer for the person.",
            _schema(run_id=run_id, answer=of_person),
            act.answer,
            meta=META,
        ),
        OwnTool(
            "run_cancel",
            "Cancel a run. What it has done stays in the journal.",
            _schema(run_id=run_id),
            act.cancel,
            meta=META,
        ),
        OwnTool(
            PAGE_TOOL,
            "Return the page of a run as it is now, for the client to show.",
            _schema(run_id=run_id),
            act.page,
            reads_only=True,
            meta=PAGE_META,
        ),
    )


def _for_authors(registry: Registry) -> Sequence[OwnTool]:
    """The tools for an agent that writes definitions (authoring.py)."""

    async def check(arguments: Arguments) -> dict[str, Any]:
        definition = arguments["definition"]
        language = arguments.get("language", "")
        # On a thread, because a long text takes time, and other clients make calls meanwhile.
        return await asyncio.to_thread(check_definition, definition, language, registry)

    async def page(arguments: Arguments) -> str:
        return explain(arguments["code"])

    async def describe(arguments: Arguments) -> str:
        return describe_language(arguments["language"], registry)

    names = list(languages())
    to_check = _schema(
        required=("definition",),
        definition=_text("The text, in YAML or JSON."),
        language=_text("The language; without it, it is recognised.", enum=names),
    )
    to_explain = _schema(code=_text("The code."))
    to_describe = _schema(language=_text("The language.", enum=names))
    about = _first_paragraph
    return (
        OwnTool("check_definition", about(check_definition), to_check, check, reads_only=True),
        OwnTool("explain", about(explain), to_explain, page, reads_only=True),
        OwnTool(
            "describe_language", about(describe_language), to_describe, describe, reads_only=True
        ),
    )


def _first_paragraph(function: Callable[..., Any]) -> str:
    """The first paragraph of a docstring, on one line."""
    return " ".join(inspect.cleandoc(function.__doc__ or "").partition("\n\n")[0].split())


def _text(about: str, **more: Any) -> Schema:
    return {"type": "string", "description": about, **more}


def _schema(*, required: Sequence[str] | None = None, **properties: Schema) -> Schema:
    """The schema of an object with these fields. ``required``: None: all fields are required."""
    names = list(properties if required is None else required)
    return {
        "type": "object",
        "properties": properties,
        "required": names,
        "additionalProperties": False,
    }
