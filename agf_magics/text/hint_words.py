"""The words of hints, for the place where they are read.

A hint names the commands of a notebook, whatever raises it: the rooms below know no other place. A
program that is not a notebook chooses its own words once, and each report has them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence


class HintWords:
    """The words that replace the commands of a notebook in hints."""

    def __init__(self) -> None:
        self.rows: Sequence[tuple[re.Pattern[str], str]] = ()
        """Patterns and the words that replace what they match, in order; empty in a notebook."""

    def of(self, hint: str) -> str:
        """``hint`` in the words of this place."""
        if "%" in hint:
            for pattern, words in self.rows:
                hint = pattern.sub(words, hint)
        return hint


hint_words = HintWords()
"""The words of this process."""


IN_A_TERMINAL = (
    (re.compile(r"(only you can: .*?)%config AgfMagics\.\w+ = …, (?:or (?=your own))?"), r"\1"),
    (
        re.compile(r"%config AgfMagics\.(\w+) = (\S+?)(?=[,;)]? |[,;)]?$)"),
        r"\1 = \2 in config.toml",
    ),
    (re.compile(r"%config AgfMagics\.(\w+)"), r"\1 in config.toml"),
    (re.compile(r"%resume (\S+) --answer …"), r"agf-magics resume \1"),
    (
        re.compile(r"%resume RUN --answer yes calls it again; --answer '\{(\w+): …\}' gives"),
        r'in Python, agf.resume(RUN, answer="yes") calls it again; answer={"\1": …} gives',
    ),
    (re.compile(r"%resume (\S+) --answer yes"), r'in Python, agf.resume(\1, answer="yes")'),
    (re.compile(r"%resume the run"), "resume the run"),
    (re.compile(r"%resume(?: --caps)?"), "agf-magics resume"),
    (re.compile(r"%runs(?: --status \w+)? lists"), "in Python, agf.runs() lists"),
    (re.compile(r"%runs (\S+) shows"), r'in Python, agf.runs("\1") shows'),
    (re.compile(r"%workers --restart"), "a new command"),
    (
        re.compile(r"agf\.record\(run, …\) or %runs RUN --record FILE"),
        "--record FILE of agf-magics run",
    ),
    (re.compile(r"%run_pipeline NAME --over \S+"), "agf-magics run FILE --over ROWS"),
    (re.compile(r"%run_pipeline"), "agf-magics run"),
)
"""The words for a person at a terminal. A command that has to be made where another run goes on, in
the notebook of that run, stays."""
