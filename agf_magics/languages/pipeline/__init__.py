"""The pipeline DSL: steps over named stores and a pipe, with R1 expressions and prompt
templates."""

from ..documents import Language
from .kinds import FUNCTIONS, STEPS, document_schema
from .load import load
from .r1.parse import parse

LANGUAGE = Language("pipeline", load, {"r1": parse}, schema=document_schema(), functions=FUNCTIONS)

__all__ = ["FUNCTIONS", "LANGUAGE", "STEPS", "document_schema", "load", "parse"]
