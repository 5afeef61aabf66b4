"""Finds the name of a step that all views show.

The name is the author's title; without a title the name of the step's branch or node, of the value
that it writes, or of its callee.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from .graph_steps import Dag, Walk
from .protocols import Expr
from .step import Step
from .steps import Branches, Choose, Compute, Each, Fold, Invoke, Repeat

COLLECT = "collect"
"""The name of the step that combines the values of branches or elements."""


def name_of(step: Step, part_name: str = "") -> str:
    """The name of ``step``. ``part_name``: the name of its branch or node; empty: it is none."""
    call = only_call(step)
    name = step.title or part_name or output_of(step)
    if call is not None:
        return name or name_of(call)
    if name:
        return name
    if isinstance(step, Invoke | Compute):
        return callee_name(step) or step.word
    return heading(step)


def part_names(step: Step) -> Mapping[str, str]:
    """The names that the author gave the parts of a step, by the ids of the parts."""
    names: dict[str, str] = {}
    match step:
        case Walk(nodes=nodes):
            names = {node.id: name for name, node in nodes.items()}
        case Dag(steps=calls, feeds=feeds):
            names = _without_prefix({call.id: output_of(call) for call in calls}, feeds)
        case Branches(branches=branches) if only_call(step) is None:
            # The branches of a policy are numbered.
            if not all(_NUMBERED.fullmatch(named.id) for named in branches.values()):
                names = {branch.id: name for name, branch in branches.items()}
    collect = getattr(step, "collect", None)
    if isinstance(collect, Compute):
        names[collect.id] = COLLECT
    return names


def output_of(step: Step) -> str:
    """The name of the first value that a step writes; empty if it writes nothing."""
    written = step.target.writes() if step.target is not None else ()
    if named := next((ref.path[-1] for ref in written if len(ref.path) > 1), ""):
        return short_path(named)
    # a call of a plan
    if isinstance(step, Invoke) and step.label.startswith(f"{step.name.text} → "):
        return short_path(step.label.partition(" → ")[2].partition(" || ")[0])
    return ""


def short_path(name: str) -> str:
    """A path of a plan without its root: ``usd`` for ``$state.usd``."""
    return _ROOT.sub("", name)


def callee_name(step: Invoke | Compute) -> str:
    """The name of the tool, the agent or the flow that a step calls."""
    if isinstance(step, Invoke) and step.kind not in ("question", "model"):
        return step.name.text
    return ""


def only_call(step: Step) -> Invoke | None:
    """The call inside ``step``, if the step only handles the failures of that call: the author
    wrote both as one step."""
    if not isinstance(step, Branches) or step.gather is None or len(step.branches) != 1:
        return None
    (call,) = step.branches.values()
    return call if isinstance(call, Invoke) else None


def heading(step: Step) -> str:
    """The words for what a step does with its parts: ``each of orders``; of a run over a table, whose
    rows no text names: ``each row``."""
    match step:
        case Each():
            over = bare(text_of(step.over))
            return f"each of {over}" if over else f"each {step.label}"
        case Fold():
            return f"fold {bare(text_of(step.over))}"
        case Choose() if hasattr(step.pick, "text") or getattr(step.pick, "span", None):
            return bare(text_of(step.pick))
        case Repeat():
            return step.label or step.word if step.session else "repeat"
    return step.word.removeprefix("agf.")


def text_of(expr: Expr) -> str:
    """The text of an expression as its language shows it, otherwise its source."""
    return getattr(expr, "text", None) or expr.span.text


def bare(text: str) -> str:
    """The text of an expression without the prefix of the stores."""
    return text.replace("ctx.", "")


def is_unwritten(step: Step) -> bool:
    """Whether a step is the output of a policy that is the output of one agent: its author wrote no
    step for it."""
    if not isinstance(step, Compute) or step.word != "output_from":
        return False
    return len(tuple(step.value.reads())) == 1


def says_nothing(step: Step, parts: tuple[str, ...]) -> bool:
    """Whether a ``collect`` only hands a value on: ``pipe``, ``{a: a, b: b}``. ``parts``: the names
    that it may read."""
    if not isinstance(step, Compute):
        return False
    text = re.sub(r"\s", "", text_of(step.value))
    alike = "{" + ",".join(f"{name}:{name}" for name in parts) + "}"
    return text in ("pipe", re.sub(r"\s", "", alike))


def _without_prefix(
    names: Mapping[str, str], feeds: Iterable[tuple[str, str, str]]
) -> dict[str, str]:
    """The names of a plan's results without the path that all of them begin with."""
    paths = [*filter(None, names.values()), *(short_path(name) for _, _, name in feeds)]
    first, last = (min(paths), max(paths)) if len(set(paths)) > 1 else ("", "")
    same = next((n for n in range(len(first)) if first[n] != last[n : n + 1]), len(first))
    begin = first[:same].rpartition(".")[0]
    return {id: name.removeprefix(f"{begin}.") if begin else name for id, name in names.items()}


_NUMBERED = re.compile(r"\d+|.*\[\d+\]")
"""The id of a part that has no name of its own."""
_ROOT = re.compile(r"^[†$]?(?:input|state|output)\.")
"""The root of a path of a plan."""
