"""The options that more than one magic has, each described once."""

from __future__ import annotations

from .options import Option

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
    "variable",
    "VAR",
)
OUT = Option("--out", "the variable that receives the run", "new", "VAR")
DRY = Option("--dry", "call no tool and no agent; use values made from their schemas instead")
TIMEOUT = Option("--timeout", "cancel the run after this time", "seconds", "SECONDS")
MAX_TOKENS = Option(
    "--max-tokens", "end the run when its models have used more tokens", "count", "N"
)
MAX_COST = Option(
    "--max-cost",
    "end the run when its models have cost more; refuse models of unknown price",
    "dollars",
    "DOLLARS",
)
PICTURE = Option("--draw", "show the picture; of a run, with the state of each step")
REUSE = Option(
    "--reuse",
    "reuse the results of identical calls in the last run of this name or in RUN",
    "run",
    "RUN",
    optional=True,
)
ON = Option(
    "--on",
    "make concurrent calls in other processes: processes, processes:4, dask, tcp://HOST:PORT, or "
    "a variable "
    "with a Dask client or an Executor; here: in this process",
    "workers",
    "WHERE",
)
QUIET = Option("--quiet", "show no warnings and no progress")
STRICT = Option("--strict", "treat warnings as errors")

FOR_RUNS = (SET, INPUT, OUT, DRY, TIMEOUT, MAX_TOKENS, MAX_COST, REUSE, ON)
"""The options of a run."""
