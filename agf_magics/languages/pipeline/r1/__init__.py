"""R1, the expressions of a pipeline: small, total, without side effects.

`parse` gives an `R1`, which is an Expr of the flow layer. `closures` has its meaning.
"""

from .nodes import Names
from .parse import R1, parse

__all__ = ["R1", "Names", "parse"]
