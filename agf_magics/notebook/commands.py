"""The magics as data: what each takes, its help, its example. Parser, ``--help``, ``?`` and completion read this."""

from __future__ import annotations

from .options import Command, Operand, Option

SET = Option("--set", "a field of the input: a YAML value, or $name for the notebook's object of that name", "pair",
             "KEY=VALUE", many=True)  # fmt: skip
INPUT = Option(
    "--input", "the whole input: the name of a dict in the notebook, or a .json or .yaml file", "variable", "VAR"
)
OUT = Option("--out", "the variable that receives the run", "new", "VAR")
DRY = Option("--dry", "call no tool and no agent: they answer with values made from their schemas")
TIMEOUT = Option("--timeout", "cancel the run after so many seconds", "seconds", "SECONDS")
PICTURE = Option("--draw", "show the picture; of a run in the colours of what became of each step")
REUSE = Option(
    "--reuse", "take over the results of equal calls, of the last run of this name or of RUN", "run", "RUN",
    optional=True,
)  # fmt: skip
QUIET = Option("--quiet", "show neither warnings nor how it goes")
STRICT = Option("--strict", "refuse what would only be warned about")

FOR_RUNS = (SET, INPUT, OUT, DRY, TIMEOUT, REUSE)
"""What only a run has a use for."""


def _defines(name: str, about: str, example: str, *own: Option) -> Command:
    """A magic whose cell is a definition; ``own``: what its language alone has."""
    return Command(
        name=name,
        about=about,
        operands=(Operand("NAME", "what it is called; else what the document says", "new", required=False),),
        options=(
            PICTURE,
            Option("--run", "run it"),
            *FOR_RUNS,
            *own,
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
    about="Run a registered flow, watch it, and get the run: its output, its stores, its trace.",
    operands=(Operand("NAME", "a registered flow (%flows lists them)", "flow"),),
    options=(*FOR_RUNS, PICTURE, QUIET),
    example="""\
r = %run_pipeline longest --set words=$fruits
r.output""",
)

RUN_PIPELINE_ASYNC = Command(
    name="%run_pipeline_async",
    about="Start a registered flow in the background and get its handle: await it, wait, result, cancel.",
    operands=(Operand("NAME", "a registered flow (%flows lists them)", "flow"),),
    options=(*FOR_RUNS, PICTURE, QUIET),
    example="""\
h = %run_pipeline_async longest --set words=$fruits
await h""",
)

RUN_PIPELINE_INLINE = Command(
    name="%%run_pipeline_inline",
    about="Run a pipeline without registering it, as an agent that wrote it might: it must pass the static gate.",
    options=(*FOR_RUNS, PICTURE, QUIET),
    example="""\
%%run_pipeline_inline --set n=3
pipeline: twice
steps:
- transform: {value: ctx.n * 2}""",
)

RUN_PIPELINE_INLINE_ASYNC = Command(
    name="%%run_pipeline_inline_async",
    about="Start a pipeline in the background without registering it; it must pass the static gate.",
    options=(*FOR_RUNS, PICTURE, QUIET),
    example="""\
%%run_pipeline_inline_async --out h --set n=3
pipeline: twice
steps:
- transform: {value: ctx.n * 2}""",
)

RUNS = Command(
    name="%runs",
    about="The runs that go on and those that are kept; one of them, step by step; wait for them; cancel one.",
    operands=(Operand("RUN", "the run's id, or a part of it that no other has", "run", required=False),),
    options=(
        Option("--wait", "wait for the run, or for all that go on; an interrupt ends the waiting alone"),
        Option("--cancel", "cancel a run", "run", "RUN"),
        Option("--compare", "in which steps RUN and OTHER differ", "run", "OTHER"),
        Option("--export", "write RUN to a .json file", "file", "FILE"),
        Option("--delete", "forget a run", "run", "RUN"),
        Option(
            "--prune",
            "forget the runs that ended more than DAYS ago, else what the settings say",
            "days",
            "DAYS",
            optional=True,
        ),
    ),
    example="""\
%runs --wait""",
)

RESUME = Command(
    name="%resume",
    about="Take up a run that was interrupted, failed, was cancelled or waits for an answer; what was done stays done.",
    operands=(
        Operand("RUN", "the run's id, or its beginning; else the last that was interrupted", "run", required=False),
    ),
    options=(
        Option("--answer", "the answer it waits for: a YAML value, or $name", "value", "ANSWER"),
        SET,
        INPUT,
        Option("--trust", "read values that somebody else has signed: they may run any code"),
        Option("--caps", "under the caps that are set now, not those it was begun with"),
        OUT,
        QUIET,
    ),
    example="""\
%resume longest-1-4f2a""",
)

PLAN = _defines(
    "%%plan",
    "Define a plan: a list of calls in YAML or JSON that are wired by what they read and write.",
    """\
%%plan report --draw --run --set 'word=pear'
calls:
- {_tool: measure, word: †input.word, _outputPath: †state.length}
- {_tool: double, number: †state.length, _outputPath: †state.twice}
output: †state""",
    Option("--context", "the named context it reads and adds to; else that of its own name", "context", "NAME"),
    Option("--latent", "a tool that nobody does: its calls have their answers as _output", "new", "TOOL", many=True),
    Option("--ordered", "results that overlap are kept in the order of the calls, not of their ends"),
    Option("--keep-going", "calls that fail are warned about; the run fails by none of them"),
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
    about="A plan's named context: its messages, what a reference reads, what it was after any of them.",
    operands=(
        Operand("NAME", "a context; else the one that a run added to last", "context", required=False),
        Operand("REFERENCE", "what to read of it, as in †state.user", "reference", required=False),
    ),
    options=(
        Option("--at", "as it was after so many messages", "count", "N"),
        Option("--clear", "begin a new one of that name; who has the old log keeps it"),
        Option("--save", "write it to a .jsonl file, a message a line", "file", "FILE"),
        Option("--load", "make it of the messages in a .jsonl or .json file", "file", "FILE"),
    ),
    example="""\
%context report †state.twice --at 2""",
)

FLOWS = Command(
    name="%flows",
    about="The registered flows; one of them as it was written; write it to a file; delete it.",
    operands=(Operand("NAME", "a registered flow", "flow", required=False),),
    options=(
        Option("--export", "write NAME to a .yaml file", "file", "FILE"),
        Option("--delete", "forget a flow", "flow", "NAME"),
    ),
    example="""\
%flows longest --export flows/longest.yaml""",
)

TOOLS = Command(
    name="%tools",
    about="The registered tools and agents, with their arguments.",
    example="""\
%tools""",
)

DRAW = Command(
    name="%draw",
    about="The picture of a registered flow.",
    operands=(Operand("NAME", "a registered flow", "flow"),),
    options=(Option("--save", "write the picture to a .svg or .dot file", "file", "FILE"),),
    example="""\
%draw longest --save longest.svg""",
)

R1 = Command(
    name="%r1",
    about="The value of an R1 expression on what the last run left: ctx is its input and stores, pipe its output.",
    operands=(Operand("EXPRESSION", "an R1 expression, without quotes around it", "expression", rest=True),),
    example="""\
%r1 count(filter(ctx.lengths, n -> n > 3))""",
)

DEFINE = Command(
    name="%define",
    about="Define the contents of files, in whichever language they are written; * stands for any part of a name.",
    operands=(Operand("FILE", "a .yaml or .json file, or a pattern of them", "file", many=True),),
    options=(STRICT, QUIET),
    example="""\
%define flows/*.yaml""",
)

EXPLAIN = Command(
    name="%explain",
    about="Show what an error code means, with an example and the cure; without a code, for the last error.",
    operands=(Operand("CODE", "the code in brackets after a message", "code", required=False),),
    example="""\
%explain pipeline.step-kind""",
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
        FLOWS,
        TOOLS,
        DRAW,
        R1,
        DEFINE,
        EXPLAIN,
    )
}
