"""Digests of functions and data, by which results are reused."""

# Each registers its classes with `add_parts`: a digest has all of them, whichever file is imported.
from . import class_parts, functions, plain_parts, table_parts

__all__ = ["class_parts", "functions", "plain_parts", "table_parts"]
