"""What the front end of the kernel can do, as far as the kernel sees it.

Environment variables decide only whether a widget is opened (decision D142).
"""

from __future__ import annotations

import os
from typing import Any

from IPython import get_ipython

VSCODE = "__vsc_ipynb_file__"
"""The name that VS Code sets in the namespace of each kernel that it uses, also of a remote one."""


class Page:
    """What the pages of the kernel have told it."""

    has_reported = False
    """Whether a view has sent a message. Where the script of the widgets cannot be reached, none
    ever does, whatever the environment looks like."""


page = Page()


def in_frames() -> bool:
    """Whether the front end shows each output in a frame of its own. The page's script cannot find
    an element there, so the output has the explorer as a widget during the run. `VSCODE_PID` does
    not tell: a JupyterLab that was started in a terminal of VS Code has it, a remote kernel of VS
    Code has not."""
    names = getattr(get_ipython(), "user_ns", {})
    return "COLAB_RELEASE_TAG" in os.environ or VSCODE in names


def hears_while_busy(shell: Any) -> bool:
    """Whether the kernel receives messages while a cell waits (ipykernel 7). Without it there is no
    button. JupyterLite hands its kernel one message at a time: `kernel_info` names no subshells. VS
    Code names none in its messages, so the kernel must have one of its own (see `receiving`), which
    ipykernel makes possible from 7.4 on."""
    kernel = getattr(shell, "kernel", None)
    features = getattr(kernel, "kernel_info", {}).get("supported_features", ())
    names_none = VSCODE in getattr(shell, "user_ns", {})
    version = tuple(map(int, getattr(kernel, "implementation_version", "0.0").split(".")[:2]))
    return "kernel subshells" in features and (version >= (7, 4) or not names_none)
