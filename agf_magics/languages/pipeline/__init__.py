"""The pipeline language: steps over named stores and a pipe, with R1 expressions and prompt
templates."""

from ..language import Language
from .json_schema import document_schema
from .load import load, load_named, with_name
from .r1.parse import parse
from .words import FUNCTION_HELP, STEPS

LANGUAGE = Language(
    "pipeline",
    load,
    {"r1": parse},
    schema=document_schema(),
    functions=FUNCTION_HELP,
    named=load_named,
    with_name=with_name,
)

__all__ = ["FUNCTION_HELP", "LANGUAGE", "STEPS", "document_schema", "load", "parse"]
