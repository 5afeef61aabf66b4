"""The settings of this process, for programs without a notebook.

``current.settings`` holds the settings in force; assign other `Settings` to change them. `read`
returns the settings that the files of the user and of a project have.
"""

from .settings import Settings, current, read

__all__ = ["Settings", "current", "read"]
