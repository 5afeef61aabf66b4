"""Digests of functions and data. Equal digests allow the reuse of an earlier result."""

# Each of these modules registers classes with `add_parts`, so all of them are always imported.
from . import class_parts, functions, library_parts, plain_parts, table_parts

__all__ = ["class_parts", "functions", "library_parts", "plain_parts", "table_parts"]
