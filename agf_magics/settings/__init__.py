"""The settings of this process, for programs without a notebook.

``current.settings`` is replaced as a whole, and `read` gives those of the files of the user and of
a project.
"""

from .settings import Settings, current, read

__all__ = ["Settings", "current", "read"]
