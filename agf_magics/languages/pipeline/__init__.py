"""The pipeline DSL: steps over named stores and a pipe, with R1 expressions and prompt
templates."""

from ..documents import Language
from .kinds import WORDS, document_schema
from .load import load
from .r1.parse import parse

LANGUAGE = Language("pipeline", load, {"r1": parse}, WORDS)

__all__ = ["LANGUAGE", "WORDS", "document_schema", "load", "parse"]
