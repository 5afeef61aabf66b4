"""Runs the law tests in rounds of new random examples until a budget of minutes ends: ``make laws MINUTES=60``.

A round is one pytest with its own seed. A test that fails is shown at once, with the commands that run it again and
that pin its example. Later rounds leave this test out. The output of each round is in ``build/laws``. The exit status
is 1 if a test failed.
"""

from __future__ import annotations

import random
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

LOGS = Path("build/laws")
FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+::.+?)(?: - .*)?$", re.MULTILINE)
SUMMARY = re.compile(r"^(?:=+ )?((?:\d+ [a-z]+,? ?)+ in [0-9.]+s.*?)(?: =+)?$", re.MULTILINE)
SHOWN = re.compile(r"^=+ (?:FAILURES|ERRORS) =+$.*", re.MULTILINE | re.DOTALL)
PROFILE = "--hypothesis-profile=laws"

INTERRUPTED = 2
"""pytest's exit status after a SIGINT: the budget ended in this round."""

HOW = """\
To run the example again:  make test ARGS='{test} {profile} --hypothesis-seed={seed}'
To pin it:                 copy the arguments below "Falsifying example" into @example(...) above the test's @given;
                           make test ARGS='{test}' then runs it every time. Fix the cause, keep the example.
"""


def main(minutes: float, options: list[str]) -> int:
    """Run rounds for ``minutes``. ``options``: more arguments of pytest, for instance a folder or ``-k``."""
    LOGS.mkdir(parents=True, exist_ok=True)
    end = time.monotonic() + minutes * 60
    failed: list[str] = []
    rounds = 0
    while (remaining := end - time.monotonic()) > 0:
        rounds += 1
        seed = random.SystemRandom().randrange(2**32)
        status, output = run(seed, failed, options, remaining)
        (LOGS / f"round-{rounds}.txt").write_text(output, encoding="utf-8")
        summary = SUMMARY.findall(output) or ["no summary"]
        print(f"round {rounds}, seed {seed}: {summary[-1]}{', interrupted' * (status == INTERRUPTED)}", flush=True)
        failed_now = list(dict.fromkeys(FAILED.findall(output)))
        report(output, failed_now, seed)
        failed += failed_now
        if status not in (0, INTERRUPTED) and not failed_now:  # pytest itself failed, or there are no tests
            print(output)
            return status
    print(f"{rounds} rounds, " + (f"{len(failed)} tests FAILED: {', '.join(failed)}" if failed else "every law held"))
    return int(bool(failed))


def run(seed: int, without: list[str], options: list[str], seconds: float) -> tuple[int, str]:
    """Run one round, and interrupt pytest after ``seconds``. Returns the exit status and the output."""
    command = [sys.executable, "-m", "pytest", "-m", "law", "-rfE", PROFILE, f"--hypothesis-seed={seed}"]
    command += [f"--deselect={test}" for test in without]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        for grace in (seconds, 30.0):
            with suppress(subprocess.TimeoutExpired):
                return _ended(process, grace)
            process.send_signal(signal.SIGINT)
        process.kill()
        return _ended(process, None)


def _ended(process: subprocess.Popen[str], seconds: float | None) -> tuple[int, str]:
    output, _ = process.communicate(timeout=seconds)
    return process.returncode, output


def report(output: str, failed: list[str], seed: int) -> None:
    """Show what pytest says about the failed tests, with the commands that run and pin each of them."""
    if failed:
        summary = SHOWN.search(output)
        print(summary.group() if summary else output)
    for test in failed:
        print(HOW.format(test=test, profile=PROFILE, seed=seed), flush=True)


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1]), sys.argv[2:]))
