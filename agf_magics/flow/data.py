"""Data that is frozen for the type checker only.

A frozen dataclass takes twice as long to declare (a module of steps took a tenth of ``%load_ext``)
and three times as long to create (a definition has thousands of them).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(
    frozen_default=True, kw_only_default=True, eq_default=False, field_specifiers=(field,)
)
def data(kind: type[T]) -> type[T]:
    """A class of frozen data with slots and keyword arguments; two objects are never equal."""
    return dataclass(slots=True, kw_only=True, eq=False)(kind)
