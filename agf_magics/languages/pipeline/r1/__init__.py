"""R1, the expression language of pipelines: small, total, without side effects.

The module `parse` returns an `R1`, which is an `Expr` of the room `flow`. The module `closures`
defines the meaning of expressions.
"""

from .nodes import Names
from .parse import R1, parse

__all__ = ["R1", "Names", "parse"]
