"""The options that several magics share, each described once."""

from __future__ import annotations

from ..limits.limits import DOLLARS, LIMITS, SECONDS
from .line import Option, ParsedLine
from .words import line_error

SET = Option(
    "--set",
    "a field of the input: a YAML value, or $name for an object of the notebook",
    "pair",
    "KEY=VALUE",
    many=True,
)
INPUT = Option(
    "--input",
    "the whole input: the name of a dict in the notebook, or a .json or .yaml file",
    "input",
    "VAR",
)
OUT = Option("--out", "the variable that receives the run", "new", "VAR")
DRY = Option("--dry", "call no tool and no agent; use values made from their schemas instead")
_COUNTED = Option("", "", "count", "N")
_BY_UNIT = {
    SECONDS: Option("", "", "seconds", "SECONDS"),
    DOLLARS: Option("", "", "dollars", "DOLLARS"),
}
"""The kind and the metavar of the option of a limit, by the unit of the limit. For all other units
it is `_COUNTED`."""
FOR_LIMITS = tuple(
    _BY_UNIT.get(row.unit, _COUNTED)._replace(flag=row.flag, help=row.effect)
    for row in LIMITS
    if row.flag
)
"""The options of all limits that a line can set, from the table in `limits.limits`."""
PICTURE = Option("--draw", "show the picture; of a run, with the state of each step")
SAVE_PICTURE = Option(
    "--save",
    "write the picture to a file: .svg, .html, .png, .pdf, .dot, .mmd (Mermaid) or .txt",
    "file",
    "FILE",
)
REUSE = Option(
    "--reuse",
    "reuse the results of identical calls in the last 20 runs of this name, or in RUN",
    "run",
    "RUN",
    optional=True,
)
ON = Option(
    "--on",
    "make concurrent calls in other processes: processes, processes:4, dask, tcp://HOST:PORT, or "
    "a variable with a Dask client or an Executor; here: in this process",
    "workers",
    "WHERE",
)
OVER = Option(
    "--over",
    "run once for each row of a table: the name of a DataFrame, an Arrow table or a list of dicts, "
    "or a .csv, .jsonl or .parquet file",
    "table",
    "TABLE",
)
FOR_ROWS = (
    Option("--map", "bind an input to a column of another name", "pair", "INPUT=COLUMN", many=True),
    Option("--limit", "run only the first N rows", "count", "N"),
    Option("--sample", "run only N rows, chosen at random", "count", "N"),
    Option(
        "--seed",
        "the seed of --sample and of the intervals of scores; by default a new one, which is shown",
        "count",
        "N",
    ),
    Option("--repeat", "run each row N times, for models that vary", "count", "N"),
    Option("--width", "run N rows at the same time; by default 8", "count", "N"),
    Option("--yes", "go on after the first 20 rows without asking, whatever it costs"),
    Option("--retry-failed", "run only the rows that failed in RUN", "run", "RUN"),
    Option(
        "--score",
        "score each row: the name of a function of the output and the row, or a flow that judges",
        "score",
        "SCORE",
        many=True,
    ),
    Option("--against", "compare labels with a column", "column", "COLUMN"),
    Option("--save", "write the table to a file: .csv, .jsonl or .parquet", "file", "FILE"),
)
"""The options that only a run over a table has."""
QUIET = Option("--quiet", "show no warnings and no progress")
STRICT = Option("--strict", "treat warnings as errors")

REPLAY = Option(
    "--replay", "take the results of calls from a recording instead of making them", "file", "FILE"
)

FOR_RUNS = (SET, INPUT, OUT, DRY, *FOR_LIMITS, REUSE, ON, REPLAY)
"""The options of every run in a notebook."""


def refuse_without_run(parsed: ParsedLine) -> None:
    """Raise DefinitionError if the line of a cell that defines a flow has an option of a run and no
    ``--run``. The cell of a planner runs in any case."""
    for option in () if "--run" in parsed or "--planner" in parsed else FOR_RUNS:
        if option.flag in parsed:
            message = f"{option.flag} needs --run: this cell only defines a flow"
            raise line_error("needs-run", message, parsed.words(option.flag)[0], "add --run")


TIMES = ("1h", "1d", "7d", "00:00")
"""The times that completion offers for ``--since`` and ``--before``."""
