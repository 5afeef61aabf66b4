"""The magics as data: operands, options, help, example.

The parser, ``--help``, ``?``, completion and the reference read these tables. What a magic does is in the
room notebook/magics.
"""

from __future__ import annotations

from .line import Command, Operand, Option
from .options import (
    FOR_ROWS,
    FOR_RUNS,
    INPUT,
    ON,
    OUT,
    OVER,
    PICTURE,
    QUIET,
    SAVE_PICTURE,
    SET,
    STRICT,
)


def _defines(name: str, about: str, example: str, *of_language: Option) -> Command:
    """A magic whose cell is a definition; ``of_language``: the options of its language."""
    return Command(
        name=name,
        about=about,
        operands=(
            Operand(
                "NAME",
                "its name; by default the name in the document",
                kind="value",
                required=False,
            ),
        ),
        options=(
            PICTURE,
            Option("--run", "run it"),
            *FOR_RUNS,
            *of_language,
            Option("--write", "also write the cell to a file", "file", "FILE"),
            STRICT,
            QUIET,
        ),
        example=example,
    )


PIPELINE = _defines(
    "%%pipeline",
    "Define a pipeline: one `pipeline:` document in YAML and the `schema:` documents it uses.",
    """\
%%pipeline --draw --run --set 'words=[pear, fig]'
pipeline: longest
steps:
- for_each:
    over: ctx.words
    on_error: abort
    do: {tool: {name: measure, args: {word: !expr item}}}
    collect: {transform: {value: pipe}}
    output: lengths""",
)

POLICY = _defines(
    "%%policy",
    "Define an agent: an Agent Format document in YAML or JSON, or only its `execution_policy`.",
    """\
%%policy article --draw --run --set topic=pears
id: agf.sequential
config:
  steps:
  - agent: writer
    input_mapping: {topic: parent.input.topic}
  - agent: editor
    input_mapping: {draft: writer.output.draft}""",
)

RUN_PIPELINE = Command(
    name="%run_pipeline",
    about="Run a registered flow, show it, and return the run with its output, stores and trace.",
    operands=(Operand("NAME", "a registered flow (%flows lists them)", "flow"),),
    options=(*FOR_RUNS, OVER, *FOR_ROWS, PICTURE, QUIET),
    example="""\
r = %run_pipeline longest --set words=$fruits
r.output""",
)

RUN_PIPELINE_ASYNC = Command(
    name="%run_pipeline_async",
    about="Start a registered flow in the background and return the run: await it, wait, result, "
    "cancel.",
    operands=(Operand("NAME", "a registered flow (%flows lists them)", "flow"),),
    options=(*FOR_RUNS, OVER, *FOR_ROWS, PICTURE, QUIET),
    example="""\
h = %run_pipeline_async longest --set words=$fruits
await h""",
)

RUN_PIPELINE_INLINE = Command(
    name="%%run_pipeline_inline",
    about="Run a pipeline without registering it, like an agent that wrote it: it must pass the "
    "static gate.",
    options=(*FOR_RUNS, PICTURE, QUIET),
    example="""\
%%run_pipeline_inline --set n=3
pipeline: twice
steps:
- transform: {value: ctx.n * 2}""",
)

RUN_PIPELINE_INLINE_ASYNC = Command(
    name="%%run_pipeline_inline_async",
    about="Start a pipeline in the background without registering it; it must pass the static "
    "gate.",
    options=(*FOR_RUNS, PICTURE, QUIET),
    example="""\
%%run_pipeline_inline_async --out h --set n=3
pipeline: twice
steps:
- transform: {value: ctx.n * 2}""",
)

NAMED = "the id of a run, the name of a flow: its last run, or the beginning of an id"
"""The help of an operand that names a run (decision RUN1)."""

RUNS = Command(
    name="%runs",
    about="List the latest runs; show one step by step; compare two; wait for runs; cancel or "
    "delete one.",
    operands=(
        Operand(
            "RUN",
            NAMED,
            "run",
            required=False,
        ),
    ),
    options=(
        Option(
            "--status",
            "list only runs with this status: ok, failed (or error), dropped (with dropped elements), "
            "cancelled, waiting, running, interrupted, damaged",
            "status",
            "STATUS",
        ),
        Option("--name", "list only runs of flows with TEXT in the name", "flow", "TEXT"),
        Option(
            "--text",
            "list only runs with all words of TEXT in the id, name, state, note, error or input",
            "value",
            "TEXT",
        ),
        Option(
            "--since",
            "list only runs that started at TIME or later: 2h, 3d, 18:30, 2026-11-22",
            "time",
            "TIME",
        ),
        Option("--before", "list only runs that started before TIME", "time", "TIME"),
        Option(
            "--notebook",
            "list only runs of notebooks with TEXT in the path; by default of this notebook",
            "notebook",
            "TEXT",
            optional=True,
        ),
        Option("--page", "list page N; by default 1, the latest runs", "count", "N"),
        Option("--limit", "list N runs on a page; by default 20", "count", "N"),
        Option(
            "--wait",
            "wait for the run, or for all background runs; an interrupt only ends the waiting",
        ),
        Option("--cancel", "cancel a run", "run", "RUN"),
        Option(
            "--compare",
            "show in which steps, values and definitions OTHER differs from RUN",
            "run",
            "OTHER",
        ),
        Option("--key", "match the rows of two runs over tables by a column", "column", "COLUMN"),
        Option("--export", "write RUN to a .json file", "file", "FILE"),
        Option(
            "--report",
            "write RUN, or its comparison with OTHER, to an .html file that opens without a kernel",
            "file",
            "FILE",
        ),
        Option(
            "--record",
            "write the calls of RUN to a file from which --replay takes them",
            "file",
            "FILE",
        ),
        Option("--delete", "delete a run from the journal", "run", "RUN"),
        Option(
            "--prune",
            "delete the runs that ended more than DAYS ago; by default as the settings say",
            "days",
            "DAYS",
            optional=True,
        ),
    ),
    example="""\
%runs --status failed --since 2d""",
)

RESUME = Command(
    name="%resume",
    about="Resume a run that was interrupted, failed, was cancelled or waits for an answer; "
    "finished calls stay.",
    operands=(
        Operand(
            "RUN",
            "the id of a run, the name of a flow: its last run that can be resumed, or the beginning "
            "of an id; by default the last such run of this notebook",
            "run",
            required=False,
        ),
    ),
    options=(
        Option(
            "--answer",
            "the answer that the run waits for: a YAML value, or $name",
            "value",
            "ANSWER",
        ),
        SET,
        INPUT,
        Option("--trust", "read values that another user has signed: they may run any code"),
        Option("--caps", "use the current limits instead of the original ones"),
        ON,
        OUT,
        QUIET,
    ),
    example="""\
%resume longest-1-4f2a""",
)

ANSWER = Command(
    name="%answer",
    about="Answer the question that a background run asks, where its view cannot be used.",
    operands=(
        Operand("RUN", "the id of a run, the name of a flow, or the beginning of an id", "run"),
        Operand("VALUE", "the answer: a YAML value, or $name", "value"),
    ),
    options=(
        Option(
            "--step",
            "the step whose question it answers; by default the one that is open",
            "step",
            "STEP",
        ),
    ),
    example="""\
%answer release-1-4f2a yes""",
)

RERUN = Command(
    name="%rerun",
    about="Run a flow again from one step on: a new run that reuses the results on which the step "
    "depends. With `-l`, `-g` or numbers of lines it is IPython's own.",
    operands=(
        Operand(
            "RUN",
            NAMED,
            "run",
        ),
    ),
    options=(
        Option(
            "--from",
            "the step from which on nothing is reused; by default the one that failed",
            "step",
            "STEP",
        ),
        SET,
        INPUT,
        ON,
        OUT,
        PICTURE,
        QUIET,
    ),
    example="""\
%rerun longest-1-4f2a --from 'steps[1]' --set limit=5""",
)

STEP = Command(
    name="%step",
    about="Open one call of a run: its arguments as a variable, and a new cell that makes the "
    "call.",
    operands=(
        Operand(
            "RUN",
            NAMED,
            "run",
        ),
        Operand(
            "STEP",
            "a step, or one call of it: steps[1].do#3; by default its last failed call",
            "step",
        ),
    ),
    options=(
        Option(
            "--out", "the variable that receives the arguments; by default arguments", "new", "VAR"
        ),
    ),
    example="""\
%step longest-1-4f2a steps[0].do#2""",
)

FOR_PLANNERS = (
    Option(
        "--tools",
        "the tools and flows that the model may call; by default all that you registered",
        "tools",
        "TOOL,TOOL",
    ),
    Option(
        "--ticks", "the largest number of plans that the model writes; by default 10", "count", "N"
    ),
    Option(
        "--resume", "continue the last planner of the context; completed plans are not repeated"
    ),
)
"""The options of ``%%plan`` that need ``--planner``."""

PLAN = _defines(
    "%%plan",
    "Define a plan: a list of calls in YAML or JSON, connected by the references that they read "
    "and write.",
    """\
%%plan report --draw --run --set 'word=pear'
calls:
- {_tool: measure, word: †input.word, _outputPath: †state.length}
- {_tool: double, number: †state.length, _outputPath: †state.twice}
output: †state""",
    Option(
        "--context",
        "the named context that it continues; by default each run begins with an empty one",
        "context",
        "NAME",
    ),
    Option(
        "--latent",
        "a tool that is never executed: each of its calls gives _output",
        "value",
        "TOOL",
        many=True,
    ),
    Option(
        "--ordered",
        "write overlapping results in the order of the calls instead of the order in which they "
        "end",
    ),
    Option("--keep-going", "a failed call is only a warning and does not fail the run"),
    Option(
        "--planner",
        "let a model write the plans: the cell has its task:. A name, or $name for a model object",
        "model",
        "MODEL",
    ),
    *FOR_PLANNERS,
)

GRAPH = _defines(
    "%%graph",
    "Define a graph: nodes in YAML and the edges between them, with conditions.",
    """\
%%graph countdown --draw --run --set n=3
state: {n: int}
nodes:
  tick: {type: passthrough, output: {n: "{state.n - 1}"}}
edges:
- {from: START, to: tick}
- {from: tick, to: tick, condition: n > 0}
- {from: tick, to: END, condition: else}""",
)

CONTEXT = Command(
    name="%context",
    about="Show the named context of a plan: its messages, the value of a reference, its state "
    "after any message.",
    operands=(
        Operand("NAME", "a context; by default that of the last run", "context", required=False),
        Operand(
            "REFERENCE",
            "the reference to read: $state.user or †state.user",
            "reference",
            required=False,
        ),
    ),
    options=(
        Option("--at", "its state after the first N messages", "count", "N"),
        Option("--clear", "start a new context of that name; variables keep the old log"),
        Option("--save", "write it to a .jsonl file, one message per line", "file", "FILE"),
        Option("--load", "load its messages from a .jsonl or .json file", "file", "FILE"),
    ),
    example="""\
%context report $state.twice --at 2""",
)

FLOWS = Command(
    name="%flows",
    about="List the registered flows; show the source of one, write it to a file, or delete it.",
    operands=(Operand("NAME", "a registered flow", "flow", required=False),),
    options=(
        Option("--export", "write NAME to a .yaml file", "file", "FILE"),
        Option("--delete", "delete a flow", "flow", "NAME"),
    ),
    example="""\
%flows longest --export flows/longest.yaml""",
)

TOOLS = Command(
    name="%tools",
    about="List the registered tools and agents with their arguments, or show one.",
    operands=(Operand("NAME", "a registered tool or agent", "tool", required=False),),
    example="""\
%tools measure""",
)

WORKERS = Command(
    name="%workers",
    about="Show the workers that runs of this process use: lanes, work, memory and versions; "
    "restart or close them.",
    options=(
        Option("--restart", "end the worker processes and start new ones"),
        Option(
            "--close",
            "end the worker processes and the connections; the next run starts them again",
        ),
    ),
    example="""\
%workers""",
)

MCP = Command(
    name="%mcp",
    about="Connect MCP servers, whose tools become tools of flows, and show, restart or close them.",
    operands=(
        Operand("SERVER", "connect, or the name of a connected server", "server", required=False),
        Operand("NAME", "of connect: the name of the server here", "server", required=False),
        Operand("ADDRESS", "of connect: https://…, of a server over HTTP", "value", required=False),
        Operand(
            "COMMAND",
            "of connect: the command that starts the server; python is the kernel's own",
            "value",
            required=False,
            many=True,
            after_dashes=True,
        ),
    ),
    options=(
        Option(
            "--env",
            "an environment variable of the command; a value $NAME is read when it starts",
            "value",
            "NAME=VALUE",
            many=True,
        ),
        Option(
            "--header",
            "a header of each request to the address; a value $NAME is read when it connects",
            "value",
            "NAME=VALUE",
            many=True,
        ),
        Option("--sign-in", "sign in to the address with a browser (OAuth)"),
        Option(
            "--from",
            "a file of another program that lists servers (.mcp.json, mcp.json of VS Code): connect "
            "its entry NAME",
            "file",
            "FILE",
        ),
        Option("--only", "the tools to register, with commas; all by default", "value", "TOOLS"),
        Option("--timeout", "the longest time of a call, in seconds; 60", "seconds", "SECONDS"),
        Option("--wait", "the longest time of connecting, in seconds; 10", "seconds", "SECONDS"),
        Option("--rate", "the calls that start in an interval: 20/s, 100/min", "value", "RATE"),
        Option("--at-once", "the number of calls at the same time", "count", "N"),
        Option("--trust", "believe what the server says about its tools: reuse, and no questions"),
        Option("--ref", "the server_ref by which policy documents name the server", "value", "REF"),
        Option("--tools", "show the tools of the server"),
        Option("--log", "show what the server logged and wrote to stderr"),
        Option("--restart", "end the server and start it again"),
        Option("--close", "close the server, or all, and remove their tools"),
    ),
    example="""\
%mcp connect files -- npx -y @modelcontextprotocol/server-filesystem .""",
)

DRAW = Command(
    name="%draw",
    about="Show the picture of a registered flow.",
    operands=(Operand("NAME", "a registered flow", "flow"),),
    options=(
        SAVE_PICTURE,
        Option(
            "--direction",
            "from left to right (LR) or from top to bottom (TB); by default the one that is lower",
            "direction",
            "LR|TB",
        ),
    ),
    example="""\
%draw longest --save longest.svg""",
)

R1 = Command(
    name="%r1",
    about="Evaluate an R1 expression on the last run: ctx has its input and stores, pipe is its "
    "output.",
    operands=(
        Operand(
            "EXPRESSION", "an R1 expression, without quotes around it", "expression", is_rest=True
        ),
    ),
    example="""\
%r1 count(filter(ctx.lengths, n -> n > 3))""",
)

DEFINE = Command(
    name="%define",
    about="Define the flows in files, in any of the languages; files that are defined together may "
    "call each other.",
    operands=(
        Operand(
            "FILE",
            "a .yaml or .json file, a folder of them, or a pattern: * matches any part of a name",
            "file",
            many=True,
        ),
    ),
    options=(STRICT, QUIET),
    example="""\
%define flows/*.yaml""",
)

EXPLAIN = Command(
    name="%explain",
    about="Show what an error code means, with an example and the cure; without a code, for the "
    "last error.",
    operands=(Operand("CODE", "the code in brackets after a message", "code", required=False),),
    example="""\
%explain pipeline.step-kind""",
)

LESSON = Command(
    name="%lesson",
    about="Show an exercise of the notebooks that teach the languages, or check your answer; without "
    "a name, list them.",
    operands=(Operand("NAME", "a lesson, such as pipeline.1", "lesson", required=False),),
    options=(Option("--check", "say what is still wrong with the answer"),),
    example="""\
%lesson pipeline.1 --check""",
)

COMMANDS = {
    command.name.lstrip("%"): command
    for command in (
        PIPELINE,
        POLICY,
        PLAN,
        GRAPH,
        RUN_PIPELINE,
        RUN_PIPELINE_ASYNC,
        RUN_PIPELINE_INLINE,
        RUN_PIPELINE_INLINE_ASYNC,
        RUNS,
        CONTEXT,
        RESUME,
        ANSWER,
        RERUN,
        STEP,
        FLOWS,
        TOOLS,
        WORKERS,
        MCP,
        DRAW,
        R1,
        DEFINE,
        EXPLAIN,
        LESSON,
    )
}
