"""Names for instances that were given none."""

from __future__ import annotations

_CIRCLED = [*range(0x2460, 0x2474), *range(0x3251, 0x3260), *range(0x32B1, 0x32C0)]


def instance_names(count: int) -> list[str]:
    """The first ``count`` names: ①, ② … ㊿, and then i51: a bare number would read as an index.

    >>> instance_names(52)[::17]
    ['①', '⑱', '㉟', 'i52']
    """
    return [chr(_CIRCLED[i]) if i < len(_CIRCLED) else f"i{i + 1}" for i in range(count)]
