"""What all magics share: their line is parsed before they are called, and they know the
notebook.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from IPython.core.magic import Magics, no_var_expand

from ...commands.line import Command, read
from ...commands.values import with_run_ids
from ...lifecycle.runs.run import RunInterrupted
from ...text.diagnostics import AgfError
from ..notebook import Notebook

Magic = Callable[..., Any]


class NotebookMagics(Magics):
    """A group of magics. All groups of a shell share one `Notebook`."""

    replaced: ClassVar[Mapping[str, re.Pattern[str]]] = {}
    """The lines for which a replaced magic of the shell is still called, by the magic's name."""

    def __init__(self, shell: Any, notebook: Notebook) -> None:
        super().__init__(shell)
        self.notebook = notebook


def takes(command: Command) -> Callable[[Magic], Magic]:
    """Make a method a magic. The method gets the parsed line, has the help of the command, and its errors
    are short."""

    def make_magic(method: Magic) -> Magic:
        @functools.wraps(method)
        def called(
            self: NotebookMagics, rest: str, *body: str, local_ns: Mapping[str, Any] | None = None
        ) -> Any:
            failure: BaseException
            try:
                self.notebook.local = local_ns or {}
                parsed = read(command, rest, self.notebook.cell)
                if parsed is None:
                    print(command.help)
                    return None
                return method(self, with_run_ids(parsed, self.notebook.names), *body)
            except AgfError as error:
                failure = error
            except RunInterrupted as interrupt:
                failure = interrupt
            except KeyboardInterrupt:
                failure = KeyboardInterrupt()
            # Raised outside of the except block, without a context: IPython renders an error differently
            # if its context is an ExceptionGroup.
            failure.__context__ = None
            raise failure

        called.__doc__ = command.help
        # IPython 7 reads the parameters of a magic from __wrapped__, and would find no local_ns.
        del called.__dict__["__wrapped__"]
        return no_var_expand(called)

    return make_magic
