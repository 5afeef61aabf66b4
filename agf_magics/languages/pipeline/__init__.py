"""The pipeline DSL: steps over named stores and a pipe, with R1 expressions and prompt templates."""

from .load import Definition, expression, load
from .words import WORDS

__all__ = ["WORDS", "Definition", "expression", "load"]
