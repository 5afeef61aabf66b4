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
QUIET = Option("--quiet", "show neither warnings nor how it goes")
STRICT = Option("--strict", "refuse what would only be warned about")

FOR_RUNS = (SET, INPUT, OUT, DRY, TIMEOUT)
"""What only a run has a use for."""

PIPELINE = Command(
    name="%%pipeline",
    about="Define a pipeline: one `pipeline:` document in YAML and the `schema:` documents it uses.",
    operands=(Operand("NAME", "what it is called; else what the document says", "new", required=False),),
    options=(
        PICTURE,
        Option("--run", "run it"),
        SET,
        INPUT,
        OUT,
        DRY,
        TIMEOUT,
        Option("--write", "also write the cell to a file", "file", "FILE"),
        STRICT,
        QUIET,
    ),
    example="""\
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

RUN_PIPELINE = Command(
    name="%run_pipeline",
    about="Run a registered flow, watch it, and get the run: its output, its stores, its trace.",
    operands=(Operand("NAME", "a registered flow (%flows lists them)", "flow"),),
    options=(SET, INPUT, OUT, DRY, TIMEOUT, PICTURE, QUIET),
    example="""\
r = %run_pipeline longest --set words=$fruits
r.output""",
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
    about="Define the pipelines of files; * stands for any part of a name.",
    operands=(Operand("FILE", "a .yaml file, or a pattern of them", "file", many=True),),
    options=(STRICT, QUIET),
    example="""\
%define flows/*.yaml""",
)

COMMANDS = {command.name.lstrip("%"): command for command in (PIPELINE, RUN_PIPELINE, FLOWS, TOOLS, DRAW, R1, DEFINE)}
