"""Measures what an R1 expression costs, as a ratio to the same expression in a Python lambda."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from agf_magics.languages.pipeline.r1 import Names, parse
from agf_magics.text.source import Source

NAMES = Names({"ctx": ("ctx",), "pipe": ("pipe",)})

FRAME: dict[str, Any] = {
    "ctx": {
        "n": 41, "name": "Ada", "total": 12.5, "size": 4, "status": "done", "flag": False, "limit": 40,
        "a": {"b": {"c": 3}},
        "review": {"passed": True, "notes": "fine", "author": {"name": "Bo"}},
        "reviews": [{"passed": True, "score": i} for i in range(100)],
        "rows": [{"a": i, "b": i * 2} for i in range(1000)],
        "people": [{"name": f"p{i}", "age": i * 3, "active": i % 2 == 0} for i in range(20)],
        "orders": [{"price": i * 0.5, "qty": i % 7} for i in range(200)],
        "teams": [{"name": f"t{i}", "members": [{"score": 13 * j} for j in range(5)]} for i in range(10)],
    },
    "pipe": None,
}  # fmt: skip

CASES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "ctx.n + 1": lambda f: f["ctx"]["n"] + 1,
    "'Hello, ' + ctx.name + '!'": lambda f: "Hello, " + f["ctx"]["name"] + "!",
    "ctx.total / ctx.size * 100": lambda f: f["ctx"]["total"] / f["ctx"]["size"] * 100,
    "review.passed and 'OK' or 'NO'": lambda f: (f["ctx"]["review"]["passed"] and "OK") or "NO",
    "ctx.status == 'done' and ctx.n > 3 or not ctx.flag": lambda f: (
        (f["ctx"]["status"] == "done" and f["ctx"]["n"] > 3) or not f["ctx"]["flag"]
    ),
    "get(ctx, 'a.b.c', 0)": lambda f: f["ctx"].get("a", {}).get("b", {}).get("c", 0),
    "{id: ctx.n, who: {name: ctx.name, tags: ['a', 'b', ctx.name]}, ok: review.passed}": lambda f: {
        "id": f["ctx"]["n"],
        "who": {"name": f["ctx"]["name"], "tags": ["a", "b", f["ctx"]["name"]]},
        "ok": f["ctx"]["review"]["passed"],
    },
    "all(ctx.reviews, r -> r.passed)": lambda f: all(r["passed"] for r in f["ctx"]["reviews"]),
    "any(ctx.reviews, r -> r.score > 90)": lambda f: any(r["score"] > 90 for r in f["ctx"]["reviews"]),
    "map(ctx.rows, x -> x.a * 2 + x.b)": lambda f: [x["a"] * 2 + x["b"] for x in f["ctx"]["rows"]],
    "count(filter(ctx.rows, x -> x.a > 500))": lambda f: len([x for x in f["ctx"]["rows"] if x["a"] > 500]),
    "sum(map(ctx.orders, o -> o.price * o.qty))": lambda f: sum([o["price"] * o["qty"] for o in f["ctx"]["orders"]]),
    "join(map(ctx.people, p -> p.name), ', ')": lambda f: ", ".join([p["name"] for p in f["ctx"]["people"]]),
    "filter(ctx.people, p -> p.age >= 18 and p.active)": lambda f: [
        p for p in f["ctx"]["people"] if p["age"] >= 18 and p["active"]
    ],
    "map(ctx.teams, t -> {name: t.name, size: count(t.members)})": lambda f: [
        {"name": t["name"], "size": len(t["members"])} for t in f["ctx"]["teams"]
    ],
    "map(ctx.teams, t -> filter(t.members, m -> m.score > ctx.limit))": lambda f: [
        [m for m in t["members"] if m["score"] > f["ctx"]["limit"]] for t in f["ctx"]["teams"]
    ],
}


class Ratio(NamedTuple):
    """The cost of an evaluation of an expression."""

    text: str
    evaluated: float
    """The ratio to the cost of a Python lambda that does the same."""
    micros: float
    """Microseconds of an evaluation."""


def rows(rounds: int = 31) -> list[Ratio]:
    """The medians over ``rounds`` paired rounds."""
    ratios = []
    for text, native in CASES.items():
        evaluate = parse(Source("bench", text).span(), NAMES).evaluate
        assert evaluate(FRAME) == native(FRAME), text
        counts = [max(1, int(1e-3 / _seconds(run, 3))) for run in (native, evaluate)]  # enough calls for a millisecond
        pairs = [(_seconds(native, counts[0]), _seconds(evaluate, counts[1])) for _ in range(rounds)]
        ratio = statistics.median(ours_seconds / theirs_seconds for theirs_seconds, ours_seconds in pairs)
        ratios.append(Ratio(text, ratio, statistics.median(ours_seconds for _, ours_seconds in pairs) * 1e6))
    return ratios


def _seconds(run: Callable[[Any], Any], count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        run(FRAME)
    return (time.perf_counter() - start) / count


if __name__ == "__main__":
    for row in rows():
        print(f"{row.evaluated:6.2f}  {row.micros:8.2f} µs  {row.text}")
