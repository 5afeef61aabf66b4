"""The flow of a text with errors: the steps that could be read, without what connects them.

The linker looks up their names, so that an error in one of them hides no unknown tool in another
(decision D287). Nothing follows their values, because what could not be read may write or read any.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any, TypeVar

from ..flow.expressions import Computed
from ..flow.flow import Declarations, Flow
from ..flow.graph_steps import Dag
from ..flow.protocols import Name
from ..flow.step import Step
from ..flow.steps import Invoke, Sequence
from ..text.source import Source, Span

S = TypeVar("S", bound=Step)


def refused_flow(
    source: Source,
    language: str,
    name: Name,
    steps: Iterable[Step],
    declared: Declarations | None = None,
) -> Flow | None:
    """The flow of a refused text, which never runs; None: no step could be read."""
    whole = Dag(id="refused", word=language, span=name.span, steps=tuple(steps), open=_never)
    if not whole.steps:
        return None
    return Flow(
        name=name.text,
        language=language,
        source=source,
        body=Sequence(id=language, word=language, span=name.span, steps=(whole,)),
        start=_never,
        end=_never,
        declared=declared or Declarations(),
    )


def with_refused_arguments(step: S, names: tuple[tuple[str, Span | None], ...] | None = None) -> S:
    """``step`` with arguments of which only the ``names`` are known, if it is a call; default None:
    nothing is known of them."""
    if not isinstance(step, Invoke):
        return step
    span = step.place or Span(Source("", ""), 0, 0)
    return replace(step, args=Computed(span, _never, names=names))


def _never(frame: Any) -> Any:
    raise AssertionError("a refused flow does not run")
