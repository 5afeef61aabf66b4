"""The table of the functions that run each kind of step."""

from __future__ import annotations

from collections.abc import Mapping

from ...flow.graph_steps import Dag, Walk
from ...flow.step import Step
from ...flow.steps import Branches, Choose, Compute, Each, Fold, Invoke, Repeat, Sequence
from ..calls.invoke import invoke
from ..runner import Shape
from .dag import run_dag
from .fan_out import branches, each
from .in_order import choose, compute, fold, repeat, sequence
from .walk import run_walk

SHAPES: Mapping[type[Step], Shape] = {
    Compute: compute,
    Invoke: invoke,
    Choose: choose,
    Sequence: sequence,
    Fold: fold,
    Repeat: repeat,
    Dag: run_dag,
    Walk: run_walk,
    Each: each,
    Branches: branches,
}
"""The function that runs each kind of step."""
