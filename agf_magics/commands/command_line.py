"""The operands and options of each command of the command line, as tables.

`magics.py` has the tables of magics, `options.py` the options that several tables share.
"""

from __future__ import annotations

from . import magics
from .line import Command, Operand, Option
from .options import (
    DRY,
    FOR_LIMITS,
    FOR_ROWS,
    INPUT,
    ON,
    REPLAY,
    SAVE_PICTURE,
    SET,
    STRICT,
)
from .options import OVER as OVER_ROWS

FILE = Operand("FILE", "a definition in any of the languages (YAML or JSON)", "file")
ALWAYS = (
    Option(
        "--tools",
        "a module or .py file that registers tools and agents",
        "file",
        "MODULE",
        many=True,
    ),
    Option("--allow-import", "import the Python files whose functions the definition names"),
    Option(
        "--define",
        "the file of a definition that this one calls, or a folder of them",
        "file",
        "FILE",
        many=True,
    ),
)
"""The options of every command that reads definitions."""
FOR_SERVERS = (
    Option(
        "--mcp",
        "a file that lists MCP servers (.mcp.json), whose tools the definition calls; with "
        "--allow-mcp",
        "file",
        "FILE",
        many=True,
    ),
    Option("--allow-mcp", "start and connect the servers of --mcp"),
)
FOLDER = Option(
    "--folder",
    "the folder of the journal and of the files that definitions name",
    "file",
    "FOLDER",
)
SHARED = {option.flag: option for option in (*magics.RUNS.options, *FOR_ROWS)}
"""The options of the magics that the command line has, too, by their flags."""
RUN_OPTIONS = (
    *ALWAYS,
    SET._replace(
        help="one input, as --set 'words=[pear, fig]': a text, a number, YAML in brackets or quotes"
    ),
    INPUT._replace(help="the input: a .json or .yaml file", metavar="FILE"),
    Option("--allow-shell", "let shell steps start programs"),
    *FOR_SERVERS,
    *FOR_LIMITS,
    ON,
    SHARED["--record"],
    Option("--export", "write the files that the graph exports into this folder", "file", "FOLDER"),
    Option("--trace", "report the run to OpenTelemetry as spans, with the provider of the process"),
    SHARED["--report"],
    Option("--quiet", "print the output alone"),
)
FOR_SCORES = (
    SHARED["--score"]._replace(
        help="a score of each row: MODULE:FUNCTION, FILE.py:FUNCTION, or a flow that judges"
    ),
    SHARED["--against"],
    Option(
        "--fail-below",
        "return 1 if a score over all rows is lower; without --score, the share of good rows",
        "count",
        "LEAST",
    ),
    Option(
        "--figures", "write the scores and the low rows to a file: .html or .json", "file", "FILE"
    ),
    SHARED["--save"],
    SHARED["--yes"],
)
_SCORE_FLAGS = {option.flag for option in FOR_SCORES}
FORMATS = ("text", "json", "github")
"""The formats in which ``check`` can print the problems."""

QUICKSTART_COMMAND = Command(
    name="agf-magics quickstart",
    about="Write quickstart.ipynb, a notebook to begin with, into the current folder.",
    operands=(),
    options=(),
    example="agf-magics quickstart",
)
RUN_COMMAND = Command(
    name="agf-magics run",
    about="Run a definition and print its output as JSON.",
    operands=(FILE,),
    options=(
        *RUN_OPTIONS,
        *FOR_SCORES,
        OVER_ROWS._replace(
            help="run once for each row of a file: .csv, .jsonl, .parquet, or a data set"
        ),
        *(option for option in FOR_ROWS if option.flag not in _SCORE_FLAGS),
        FOLDER._replace(help=f"{FOLDER.help}; by default that of FILE"),
        DRY,
        REPLAY,
    ),
    example="agf-magics run longest.yaml --tools tools.py --set 'words=[pear, fig]'",
)
RESUME_COMMAND = Command(
    name="agf-magics resume",
    about="Resume a run of the project's journal and print its output as JSON.",
    operands=(
        Operand(
            "RUN",
            "the id of the run, the name of a flow: its last run that can be resumed, or the "
            "beginning of an id",
            "run",
        ),
    ),
    options=(
        *RUN_OPTIONS,
        *FOR_SCORES,
        FOLDER._replace(help=f"{FOLDER.help}; by default the current folder"),
    ),
    example="agf-magics resume longest-1-4f2a --tools tools.py",
)
FILES = Operand(
    "FILE", "definitions, folders of them, or patterns such as 'flows/*.yaml'", "file", many=True
)
CHECK_COMMAND = Command(
    name="agf-magics check",
    about="Print everything that is wrong with definitions.",
    operands=(FILES,),
    options=(
        *ALWAYS,
        STRICT,
        Option(
            "--format",
            "text; json: a list of problems; github: annotations of a pull request",
            "value",
            "|".join(FORMATS),
        ),
    ),
    example="agf-magics check flows --strict",
)
DRAW_COMMAND = Command(
    name="agf-magics draw",
    about="Print the graph of a definition, or save its picture.",
    operands=(FILE,),
    options=(*ALWAYS, SAVE_PICTURE),
    example="agf-magics draw longest.yaml --save longest.svg",
)
MCP_COMMAND = Command(
    name="agf-magics mcp",
    about="Serve definitions as tools of an MCP server, over stdin and stdout or HTTP.",
    operands=(FILES,),
    options=(
        *ALWAYS,
        Option(
            "--http",
            "serve on this port of 127.0.0.1 instead of stdin and stdout; 0: a free one",
            "count",
            "PORT",
        ),
        Option("--at-once", "the number of runs at the same time; by default 8", "count", "N"),
        Option("--allow-shell", "let shell steps start programs"),
        *FOR_SERVERS,
        *FOR_LIMITS,
        Option(
            "--trace", "report the runs to OpenTelemetry as spans, with the provider of the process"
        ),
        FOLDER._replace(help=f"{FOLDER.help}; by default that of FILE"),
    ),
    example="agf-magics mcp flows --tools tools.py",
)
LSP_COMMAND = Command(
    name="agf-magics lsp",
    about="Serve an editor: the language server, over stdin and stdout.",
    operands=(),
    options=(),
    example="agf-magics lsp",
)
