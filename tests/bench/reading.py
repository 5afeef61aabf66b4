"""§ 1 and § 3: the cost of a condition, a value and a reference in the other languages, by paired rounds. The cost of a
reference does not depend on the messages of other paths."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from agf_magics.languages.graph.condition import parse_condition_text
from agf_magics.languages.graph.value import parse_value
from agf_magics.languages.plan.log import Log
from agf_magics.languages.plan.reference import parse
from agf_magics.languages.policy.matchers import condition
from agf_magics.languages.policy.path import parse_path
from agf_magics.text.diagnostics import Diagnostics
from agf_magics.text.source import Source
from agf_magics.text.yamlnodes import documents
from tests.bench.rounds import Row, paired

TIMES = 2_000
SIZES = (100, 10_000, 100_000)
STATE = {"score": 0.5, "status": "open", "n": 41, "user": {"name": "Ada"}}
FRAME = {"parent": {"input": {"n": 5}}, "writer": {"input": {}, "output": {"draft": "…", "score": 7}}}

Native = Callable[[Any], Any]

GRAPHS: tuple[tuple[str, Native], ...] = (
    ("score < 0.8", lambda s: s["score"] < 0.8),
    ("score < 0.8 and status == 'open'", lambda s: s["score"] < 0.8 and s["status"] == "open"),
    ("user.name == 'Ada' or n > 40", lambda s: s["user"]["name"] == "Ada" or s["n"] > 40),
)
VALUES: tuple[tuple[str, Native], ...] = (
    ("{state.n}", lambda s: s["n"]),
    ("{state.n + 1}", lambda s: s["n"] + 1),
    ("Hello, {state.user.name}!", lambda s: f"Hello, {s['user']['name']}!"),
)


def expressions() -> list[tuple[str, str, float]]:
    """Language, text, ratio to the native lambda."""
    found = []
    for text, native in GRAPHS:
        found.append(("graph", text, _against(native, parse_condition_text(Source("c", text).span()).evaluate, STATE)))
    for text, native in VALUES:
        found.append(("graph", text, _against(native, parse_value(Source("v", text).span()).evaluate, STATE)))
    path = parse_path("writer.output.draft", "policy_step")
    found.append(("policy", path.text, _against(lambda f: f["writer"]["output"]["draft"], path.evaluate, FRAME)))
    text = "{args_match: {writer.output.score: {gt: 5}}}"
    (node,) = documents(Source("m", text), Diagnostics())
    made = condition(node, "condition", Diagnostics())
    found.append(("policy", text, _against(lambda f: f["writer"]["output"]["score"] > 5, made.evaluate, FRAME)))
    return found


def _against(native: Native, ours: Native, given: Any) -> float:
    assert ours(given) == native(given) or ours(given) == 1  # a policy's condition gives the number of the group
    rows = paired({"native": _often(native, given), "ours": _often(ours, given)}, rounds=31, clock=time.thread_time)
    return rows[1].ratio


def _often(run: Native, given: Any) -> Callable[[], Any]:
    def often() -> None:
        for _ in range(TIMES):
            run(given)

    return often


def references() -> list[Row]:
    """Microseconds for a reading of a path that was written at the beginning, in logs of ever more messages."""
    logs = {count: log_of(count) for count in SIZES}
    reference = parse(Source("r", "†state.first.name || 'nobody'").span())

    def reading(log: Log) -> Callable[[], Any]:
        return lambda: reference.evaluate(log.read, None)

    return paired(
        {f"{count:,} messages": reading(log) for count, log in logs.items()},
        times=500,
        rounds=31,
        clock=time.thread_time,
    )


def appends() -> list[Row]:
    """Microseconds for a message more."""

    def appending(count: int) -> Callable[[], Any]:
        logs = [log_of(count)]

        def append() -> None:
            logs[0] = logs[0].append(_message("more", len(logs[0])))

        return append

    return paired(
        {f"{count:,} messages": appending(count) for count in SIZES}, times=50, rounds=31, clock=time.thread_time
    )


def log_of(count: int) -> Log:
    return Log([_message("first", {"name": "Ada"}), *(_message(f"x{i}", i) for i in range(count - 1))])


def _message(name: str, value: Any) -> dict[str, Any]:
    call = {"_tool": "t", "_outputPath": f"†state.{name}"}
    return {"type": "data", "kind": "state", "data": {name: value}, "_call": call, "_outputMethod": "set"}


def main() -> None:
    for language, text, ratio in expressions():
        print(f"{language:8} {text:50} {ratio:6.2f}")
    for row in (*references(), *appends()):
        print(f"{row.name:20} {row.micros:8.2f} us x {row.ratio:5.2f}")


if __name__ == "__main__":
    main()
