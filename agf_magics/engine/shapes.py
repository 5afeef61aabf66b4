"""The function that runs each kind of step."""

from __future__ import annotations

from collections.abc import Mapping

from ..flow.step import Dag, Step, Walk
from ..flow.steps import Branches, Choose, Compute, Each, Fold, Invoke, Repeat, Sequence
from .concurrent import branches, each
from .invoke import invoke
from .order import choose, compute, fold, repeat, run_dag, run_walk, sequence
from .runner import Shape

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
