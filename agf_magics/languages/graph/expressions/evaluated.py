"""`Evaluated`, a parsed text as an expression of a flow, for value expressions and conditions."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

from ....flow.expressions import Computed
from ....flow.protocols import Ref
from ....text.source import Text
from ...scan import Refusal
from .tokens import KEY_NAME, Path
from .value_errors import CANNOT, value_failed

Node = TypeVar("Node")


@lru_cache(maxsize=512)
def parse_public(parse: Callable[[str], Node], text: str) -> Node:
    """The node that ``parse`` returns for a text of the public functions. Raises ValueError."""
    try:
        return parse(text)
    except Refusal as refusal:
        hint = f" ({refusal.hint})" if refusal.hint else ""
        raise ValueError(f"{refusal.message}: {text!r}{hint}") from None


class Evaluated(Computed):
    """A parsed text and what it computes from the state.

    ``root``: the key of a frame that has the state, at the beginning of each path; empty: the frame
    is the state."""

    __slots__ = ()

    def __init__(
        self, text: Text, get: Callable[[Any], Any], paths: tuple[Path, ...], root: tuple[str, ...]
    ) -> None:
        span = text.locate(0, len(text.text))
        key = root[0] if root else ""
        reads = tuple(
            Ref(
                (*root, *path.names),
                text.locate(path.start, path.end),
                # An odd name is probably meant as an expression: the warning about it tells.
                certain=all(map(KEY_NAME.fullmatch, path.names)),
            )
            for path in paths
        )

        def evaluate(frame: Any) -> Any:
            try:
                return get(frame[key] if key else frame)
            except CANNOT as error:
                raise value_failed(self.text, span, error) from error

        super().__init__(span, evaluate, reads, text.text)
