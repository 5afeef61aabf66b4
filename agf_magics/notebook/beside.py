"""Magics that stand in files of their own beside `PipelineMagics`, and share its notebook: its cell, its names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from IPython.core.magic import Magics

if TYPE_CHECKING:
    from .magics import PipelineMagics


class Beside(Magics):
    """What `magics.takes` needs of whoever has a magic, taken from the notebook's own."""

    def __init__(self, shell: Any, notebook: PipelineMagics) -> None:
        super().__init__(shell)
        self.notebook = notebook

    @property
    def cell(self) -> str:
        return self.notebook.cell

    @property
    def local(self) -> Mapping[str, Any]:
        return self.notebook.local

    @local.setter
    def local(self, names: Mapping[str, Any]) -> None:
        self.notebook.local = names
