"""``%%plan --planner MODEL``: the cell has the task, a model writes the plans, and each run is
shown in the cell.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import nullcontext
from functools import partial
from typing import Any

from ...catalog import Registry
from ...commands.line import ParsedLine
from ...commands.output_files import write_file
from ...commands.values import count, value, with_place_of
from ...commands.words import Token, line_error
from ...engine.run_options import RunOptions
from ...engine.runner import clock
from ...flow.flow import Flow
from ...languages.plan.header import Header, load_header
from ...lifecycle.input.fields import settle_fields
from ...lifecycle.planning.asking import Assignment
from ...lifecycle.planning.offer import PlanOffer, make_offer
from ...lifecycle.planning.planner import THINK, find_model, run_model
from ...lifecycle.planning.ticks import Begin, PlannerResult, TickOptions
from ...lifecycle.recordings.replay import replay
from ...lifecycle.runs.run import Run
from ...limits.limits import limits_of_run
from ...pictures.pages.parts import headline
from ...pictures.pages.run_page import run_header_html
from ...pictures.plain import html, line
from ...settings.settings import current
from ...text.diagnostics import DefinitionError, Diagnostics
from ...text.source import Source
from ...text.suggestions import suggest
from ...values.value import Value
from ..display import view
from ..display.print_problems import print_problems
from ..notebook import Notebook, RunRequest
from ..output.output import Bundle

NOT_FOR_A_MODEL = ("--dry", "--reuse", "--ordered", "--keep-going")
"""Options of a written plan that ``--planner`` does not allow."""


def run_planner_cell(notebook: Notebook, parsed: ParsedLine, body: str) -> PlannerResult | None:
    """Let the model of the line plan the task in the cell."""
    for flag in NOT_FOR_A_MODEL:
        if (word := parsed.word(flag)) is not None:
            raise line_error("unwanted-option", f"--planner has no {flag}", word, f"remove {flag}")
    request = notebook.request(parsed, runs=True)
    header = _header(Source(f"{notebook.cell} %%plan", body, first_line=2))
    assignment = Assignment(
        model=_model(notebook, parsed.words("--planner")[0]),
        task=header.task,
        offer=_offer(notebook, parsed, header),
        confirm=header.confirm,
    )
    options = TickOptions(
        context=_context(parsed, header),
        max_ticks=count(parsed, "--ticks", 10, 1),
        registry=notebook.registry,
        limits=limits_of_run(request.options.limits, current.settings.limits),
        on=request.options.on,
        resume_with="%%plan … --planner … --resume",
        execute=partial(_shown_run, notebook, request),
    )
    if (target := parsed.word("--write")) is not None:
        write_file(target, body)
    input: Mapping[str, Value] = settle_fields({**header.input, **request.input})
    resume = "--resume" in parsed
    recorded = parsed.word("--replay")
    # All ticks take their calls from one recording.
    with replay(recorded.text) if recorded is not None else nullcontext():
        result = run_model(assignment, options, input, resume=resume, messages=header.messages)
    return _report(notebook, result, request)


def _report(notebook: Notebook, result: PlannerResult, request: RunRequest) -> PlannerResult | None:
    """Show how a planner ended, and put its result into the variable of ``--out``."""
    if request.out:
        notebook.ipython.user_ns[request.out] = result
    if result.error is not None:
        raise result.error
    warnings = [
        warning
        for run in result.runs[-1:]
        for warning in run.warnings
        if warning.code == "run.max-ticks"
    ]
    if not request.quiet:
        print_problems(warnings)
    return None if request.out else result


def _shown_run(
    notebook: Notebook, request: RunRequest, begin: Begin, options: RunOptions, plan: Flow | None
) -> Run:
    """Start a run of the planner, show it in this cell and wait for its end. ``plan``: None if the run is
    the request for a plan."""
    drawn = plan if request.draw else None
    run, display = notebook.start(begin, options, quiet=request.quiet, drawn=drawn)
    is_reply = plan is None and run.error is None and isinstance(run.output, dict)
    if is_reply and isinstance(display, view.Page):
        display.slot.end(_reply_bundle(run, run.output))
    return run


def _reply_bundle(run: Run, reply: Mapping[str, Value]) -> Bundle:
    """The page of a request that succeeded: the plan that the model wrote, one call per line."""
    calls = [_call_line(call) for call in reply["calls"]]
    output = (
        f"output: {_shown(reply['output'])}" if reply["output"] is not None else "no output yet"
    )
    head = headline(run.progress, run.run_id, now=clock())
    items = "".join(f"<li><code>{html(call_text)}</code></li>" for call_text in calls)
    listed = f'<ol start="0" style="margin:4px 0">{items}</ol>' if calls else ""
    return {
        "text/plain": "\n".join([head, *(f"  {call_text}" for call_text in calls), f"  {output}"]),
        "text/html": f'{run_header_html(run)}{listed}<p style="margin:0 0 8px">{html(output)}</p>',
    }


def _call_line(call: Mapping[str, Value]) -> str:
    """A call of a plan as one line: ``price(fruit: fig) → †state.price``, ``think: …``."""
    tool = line(str(call["_tool"]), 60)
    path = call.get("_outputPath")
    arguments = ", ".join(
        f"{line(name, 40)}: {_shown(value, 60)}"
        for name, value in call.items()
        if not name.startswith("_")
    )
    text = f"{tool}: {_shown(call['_output'])}" if "_output" in call else f"{tool}({arguments})"
    return f"{text} → {line(str(path), 100)}" if path else text


def _shown(value: Value, most: int = 400) -> str:
    return line(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), most)


def _header(source: Source) -> Header:
    problems = Diagnostics()
    header = load_header(source, problems, current.settings.bounds)
    problems.refuse()
    assert header is not None, "a header without errors can be read"
    return header


def _model(notebook: Notebook, word: Token) -> Any:
    model = value(word, notebook.names) if word.text.startswith("$") else word.text
    try:
        return with_place_of(word, lambda: find_model(model, notebook.registry))
    except TypeError as error:
        raise line_error(
            "model", str(error), word, "write --planner openai:gpt-4o, or --planner $model"
        ) from None
    except DefinitionError:
        if not _is_model(notebook.names.get(word.text), notebook.registry):
            raise
    message = f"{word.text!r} is no name of a model, but a variable that has one"
    raise line_error("model", message, word, f"write --planner ${word.text}")


def _is_model(value: object, registry: Registry) -> bool:
    try:
        find_model(value, registry)
    except (TypeError, DefinitionError):
        return False
    return True


def _offer(notebook: Notebook, parsed: ParsedLine, header: Header) -> PlanOffer:
    """The tools that the model may call: the tools of ``--tools``, else all, and the tools that the
    header of the cell declares."""
    registry = notebook.registry
    listed = parsed.word("--tools")
    names = _listed_tools(registry, listed) if listed is not None else None
    declared = {name: schema for name, schema in header.tools.items() if name not in registry.tools}
    latent = {name: str(schema.get("description", "")) for name, schema in declared.items()}
    latent |= {word.text: "" for word in parsed.words("--latent")}
    paths = {
        name: path
        for name, schema in header.tools.items()
        if (path := _prescribed(schema)) is not None
    }
    return make_offer(registry, names, latent or THINK, paths, None)


_LISTED = re.compile(r"[^,\s][^,]*")


def _listed_tools(registry: Registry, listed: Token) -> list[str]:
    """The names in a word, separated by commas, all of which are registered."""
    written = [(match[0].rstrip(), match.start()) for match in _LISTED.finditer(listed.text)]
    callees = [*registry.tools, *registry.flows]
    for name, start in written:
        if name not in callees:
            hint = suggest(name, callees, "tools and flows")
            place = listed.part(start, start + len(name))
            raise line_error("unknown-tool", f"no tool {name!r} is registered", place, hint)
    return [name for name, _ in written]


def _prescribed(schema: Mapping[str, Any]) -> str | None:
    """The output path that the schema of a declared tool prescribes; None if it prescribes none."""
    rules = schema.get("properties", schema)
    rule = rules.get("_outputPath") if isinstance(rules, dict) else None
    path = rule.get("const") if isinstance(rule, dict) else None
    return path.replace("$", "†", 1) if isinstance(path, str) else None


def _context(parsed: ParsedLine, header: Header) -> str:
    return (
        parsed.text("--context")
        or parsed.text("NAME")
        or header.context
        or header.name
        or "planner"
    )
