"""A call that asks again after an answer that it cannot use: a resumed run asks nothing that was answered."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.processes import printed, script

CODE = """
import os, signal, sys
from pathlib import Path
import agf_magics as agf

answers = eval(sys.argv[2])

@agf.tool
def transfer(amount: int, to: str) -> str:
    if sys.argv[1] == "first":
        os.kill(os.getpid(), signal.SIGKILL)
    return f"{amount} to {to}"

def ask(question):
    print("asked")
    return answers.pop(0)

PLAN = '''
confirm: true
calls:
- {_tool: transfer, amount: 500, to: ann, _outputPath: $state.receipt}
output: $state.receipt
'''
if sys.argv[1] == "first":
    agf.run(agf.load(PLAN, language="plan"), ask=ask)
else:
    print(agf.resume(agf.runs()[0].run_id, ask=ask).output)
"""


@pytest.mark.parametrize("unusable", [[], ["lots"], ["lots", "more"], ["lots", "lots"]], ids=str)
def test_a_confirmed_call_is_not_asked_about_again(unusable: list[str], tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    answers = [*({"amount": word} for word in unusable), {"amount": 5}]
    script(CODE, tmp_path, "first", str(answers))
    assert printed(CODE, tmp_path, "again", "[]") == ["5 to ann"]
