"""What an R1 expression costs, as a ratio to the same expression as a Python lambda, next to other evaluators.

Half of the expressions are fixed; the other half is drawn from a seed. Run it with
``python -m tests.bench.expressions SEED``.
"""

from __future__ import annotations

import ast
import importlib.util
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

from agf_magics.languages.pipeline.r1 import Names, parse
from agf_magics.text.source import Source
from tests.bench.cases import FIXED, FRAME, SHAPED, Case, Evaluate
from tests.bench.generated import cases

NAMES = Names({"ctx": ("ctx",), "pipe": ("pipe",)})
PEERS = ("jmespath", "jinja2", "simpleeval", "asteval")


def rows(seed: int, rounds: int = 31) -> list[dict[str, Any]]:
    """A row for each expression: its name, its text, and by candidate the median ratio to the native lambda."""
    drawn = cases(seed, len(FIXED), FRAME)
    return [_row(case, rounds, peers=case in SHAPED) for case in (*FIXED, *drawn)]


def _row(case: Case, rounds: int, peers: bool) -> dict[str, Any]:
    expr = parse(Source(case.name, case.text).span(), NAMES)
    candidates = {"native": case.native, "R1": expr.evaluate, **(_peers(case) if peers else {})}
    wanted = case.native(FRAME)
    for name, candidate in candidates.items():
        assert candidate(FRAME) == wanted, (case.name, name, candidate(FRAME))
    ratios = _paired(candidates, FRAME, "native", rounds)
    loading = {
        "ast.parse": lambda source: ast.parse(case.python, mode="eval"),
        "parse": lambda source: parse(source, NAMES),
    }
    loads = _paired(loading, Source(case.name, case.text).span(), "ast.parse", rounds)
    return {"name": case.name, "text": case.text, **ratios, **loads}


def _paired(candidates: dict[str, Callable[[Any], Any]], given: Any, limit: str, rounds: int) -> dict[str, float]:
    counts = {name: max(1, int(1e-3 / _time(run, given, 3))) for name, run in candidates.items()}  # a millisecond each
    ratios: dict[str, list[float]] = {name: [] for name in candidates if name != limit}
    for _ in range(rounds):
        took = {name: _time(run, given, counts[name]) for name, run in candidates.items()}
        for name, values in ratios.items():
            values.append(took[name] / took[limit])
    return {name: statistics.median(values) for name, values in ratios.items()}


def _time(run: Callable[[Any], Any], given: Any, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        run(given)
    return (time.perf_counter() - start) / count


def _peers(case: Case) -> dict[str, Evaluate]:
    """The installed evaluators that have this expression, each parsed once.

    Most of the time of simpleeval is that it searches the whole context in every evaluation.
    """
    found: dict[str, Evaluate] = {}
    have = {name for name in PEERS if importlib.util.find_spec(name)}
    if "jmespath" in have and case.jmespath:
        import jmespath

        found["jmespath"] = jmespath.compile(case.jmespath).search
    if "jinja2" in have and case.jinja2:
        import jinja2

        compiled = jinja2.Environment().compile_expression(case.jinja2)
        found["jinja2"] = lambda frame: compiled(frame)
    if "simpleeval" in have and case.name != "E7":  # it refuses to read .get of a dict
        import simpleeval

        simple = simpleeval.EvalWithCompoundTypes(functions={"all": all, "len": len})
        tree = simple.parse(case.python)

        def by_simpleeval(frame: dict[str, Any]) -> Any:
            simple.names = frame
            return simple.eval(case.python, previously_parsed=tree)

        found["simpleeval"] = by_simpleeval
    if "asteval" in have:
        import asteval

        interpreter = asteval.Interpreter(use_numpy=False)
        node = interpreter.parse(case.python)

        def by_asteval(frame: dict[str, Any]) -> Any:
            interpreter.symtable["ctx"] = frame["ctx"]
            return interpreter.run(node)

        found["asteval"] = by_asteval
    return found


if __name__ == "__main__":
    for row in rows(int(sys.argv[1])):
        print(f"{row['name']:4} R1 {row['R1']:5.2f}  parse {row['parse']:5.2f}  {row['text']}")
