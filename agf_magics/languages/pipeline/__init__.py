"""The pipeline DSL: steps over named stores and a pipe, with R1 expressions and prompt
templates."""

from .kinds import WORDS, document_schema
from .load import load
from .r1 import parse

__all__ = ["WORDS", "document_schema", "load", "parse"]
