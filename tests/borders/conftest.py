"""Provides the shell of the notebook's tests, for rules that hold in Python and in magics."""

from tests.notebook.conftest import _ip, shell

__all__ = ["_ip", "shell"]
