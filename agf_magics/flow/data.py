"""Data that nobody changes, held by the type checker and not while it runs.

A frozen dataclass costs twice as much to declare (a module of steps took a tenth of ``%load_ext``) and three times as
much to make (a definition is thousands of them); the checker knows these as frozen all the same.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True, eq_default=False, field_specifiers=(field,))
def data(kind: type[T]) -> type[T]:
    """A class of frozen data with slots, made by keywords; two are the same only if they are the same object."""
    return dataclass(slots=True, kw_only=True, eq=False)(kind)
