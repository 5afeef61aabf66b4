"""The expressions that are the same in every run of the benchmark, and the values that they read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

Evaluate = Callable[[dict[str, Any]], Any]


class Case(NamedTuple):
    name: str
    text: str
    native: Evaluate
    python: str
    """The nearest Python text: what parsing is compared with, and what simpleeval and asteval evaluate."""
    jinja2: str | None = None
    jmespath: str | None = None


FRAME: dict[str, Any] = {
    "ctx": {
        "n": 41, "m": 7, "name": "Ada", "total": 12.5, "size": 4, "status": "done", "flag": False, "dir": "/out",
        "a": {"b": {"c": 3}},
        "limit": 40,
        "review": {"passed": True, "notes": "fine", "author": {"name": "Bo"}},
        "reviews": [{"passed": True, "score": i} for i in range(100)],
        "rows": [{"a": i, "b": i * 2} for i in range(1000)],
        "people": [{"name": f"p{i}" if i != 12 else "Ada", "age": i * 3, "active": i % 2 == 0} for i in range(20)],
        "orders": [{"price": i * 0.5, "qty": i % 7} for i in range(200)],
        "teams": [{"name": f"t{i}", "members": [{"score": 13 * j} for j in range(5)]} for i in range(10)],
    },
    "pipe": None,
}  # fmt: skip

SHAPED = (
    Case("E1", "ctx.n + 1", lambda f: f["ctx"]["n"] + 1, 'ctx["n"] + 1', "ctx.n + 1"),
    Case("E2", "'Hello, ' + ctx.name + '!'", lambda f: "Hello, " + f["ctx"]["name"] + "!",
         "'Hello, ' + ctx['name'] + '!'", "'Hello, ' + ctx.name + '!'", "join('', ['Hello, ', ctx.name, '!'])"),
    Case("E3", "review.passed and 'OK' or 'NO'", lambda f: (f["ctx"]["review"]["passed"] and "OK") or "NO",
         "ctx['review']['passed'] and 'OK' or 'NO'", "ctx.review.passed and 'OK' or 'NO'",
         "ctx.review.passed && 'OK' || 'NO'"),
    Case("E4", "all(ctx.reviews, r -> r.passed)", lambda f: all(r["passed"] for r in f["ctx"]["reviews"]),
         "all([r['passed'] for r in ctx['reviews']])", "ctx.reviews|rejectattr('passed')|list|length == 0",
         "length(ctx.reviews[?!passed]) == `0`"),
    Case("E5", "map(ctx.rows, x -> x.a * 2 + x.b)", lambda f: [x["a"] * 2 + x["b"] for x in f["ctx"]["rows"]],
         "[x['a'] * 2 + x['b'] for x in ctx['rows']]"),
    Case("E6", "count(filter(ctx.rows, x -> x.a > 500))", lambda f: len([x for x in f["ctx"]["rows"] if x["a"] > 500]),
         "len([x for x in ctx['rows'] if x['a'] > 500])", "ctx.rows|selectattr('a', 'gt', 500)|list|length",
         "length(ctx.rows[?a > `500`])"),
    Case("E7", "get(ctx, 'a.b.c', 0)", lambda f: f["ctx"].get("a", {}).get("b", {}).get("c", 0),
         "ctx.get('a', {}).get('b', {}).get('c', 0)", "ctx.a.b.c|default(0)", "ctx.a.b.c || `0`"),
    Case("E8", "{id: ctx.n, who: {name: ctx.name, tags: ['a', 'b', ctx.name]}, ok: review.passed}",
         lambda f: {"id": f["ctx"]["n"], "who": {"name": f["ctx"]["name"], "tags": ["a", "b", f["ctx"]["name"]]},
                    "ok": f["ctx"]["review"]["passed"]},
         "{'id': ctx['n'], 'who': {'name': ctx['name'], 'tags': ['a', 'b', ctx['name']]},"
         " 'ok': ctx['review']['passed']}",
         "{'id': ctx.n, 'who': {'name': ctx.name, 'tags': ['a', 'b', ctx.name]}, 'ok': ctx.review.passed}",
         "{id: ctx.n, who: {name: ctx.name, tags: ['a', 'b', ctx.name]}, ok: ctx.review.passed}"),
)  # fmt: skip
"""The expressions that the goal was first set for."""

SEEN = (
    Case("F1", "ctx.total / ctx.size * 100", lambda f: f["ctx"]["total"] / f["ctx"]["size"] * 100,
         "ctx['total'] / ctx['size'] * 100"),
    Case("F2", "join(map(ctx.people, p -> p.name), ', ')", lambda f: ", ".join([p["name"] for p in f["ctx"]["people"]]),
         "', '.join([p['name'] for p in ctx['people']])"),
    Case("F3", "sum(map(ctx.orders, o -> o.price * o.qty))",
         lambda f: sum([o["price"] * o["qty"] for o in f["ctx"]["orders"]]),
         "sum([o['price'] * o['qty'] for o in ctx['orders']])"),
    Case("F4", "filter(ctx.people, p -> p.age >= 18 and p.active)",
         lambda f: [p for p in f["ctx"]["people"] if p["age"] >= 18 and p["active"]],
         "[p for p in ctx['people'] if p['age'] >= 18 and p['active']]"),
    Case("F5", "find(ctx.people, p -> p.name == ctx.name)",
         lambda f: next((p for p in f["ctx"]["people"] if p["name"] == f["ctx"]["name"]), None),
         "next((p for p in ctx['people'] if p['name'] == ctx['name']), None)"),
    Case("F6", "ctx.status == 'done' and ctx.n > 3 or not ctx.flag",
         lambda f: (f["ctx"]["status"] == "done" and f["ctx"]["n"] > 3) or not f["ctx"]["flag"],
         "ctx['status'] == 'done' and ctx['n'] > 3 or not ctx['flag']"),
    Case("F7", "map(ctx.teams, t -> {name: t.name, size: count(t.members)})",
         lambda f: [{"name": t["name"], "size": len(t["members"])} for t in f["ctx"]["teams"]],
         "[{'name': t['name'], 'size': len(t['members'])} for t in ctx['teams']]"),
    Case("F8", "map(ctx.teams, t -> filter(t.members, m -> m.score > ctx.limit))",
         lambda f: [[m for m in t["members"] if m["score"] > f["ctx"]["limit"]] for t in f["ctx"]["teams"]],
         "[[m for m in t['members'] if m['score'] > ctx['limit']] for t in ctx['teams']]"),
    Case("F9", "['--name', ctx.name, '--out', ctx.dir + '/' + ctx.name + '.txt']",
         lambda f: ["--name", f["ctx"]["name"], "--out", f["ctx"]["dir"] + "/" + f["ctx"]["name"] + ".txt"],
         "['--name', ctx['name'], '--out', ctx['dir'] + '/' + ctx['name'] + '.txt']"),
    Case("F10", "get(review, 'author.name', 'anon') + ': ' + review.notes",
         lambda f: f["ctx"]["review"].get("author", {}).get("name", "anon") + ": " + f["ctx"]["review"]["notes"],
         "ctx['review'].get('author', {}).get('name', 'anon') + ': ' + ctx['review']['notes']"),
)  # fmt: skip
"""Written before anything was measured; the slow ones were looked at."""

FRESH = (
    Case("G1", "'Review ' + ctx.name + ' by ' + review.author.name",
         lambda f: "Review " + f["ctx"]["name"] + " by " + f["ctx"]["review"]["author"]["name"],
         "'Review ' + ctx['name'] + ' by ' + ctx['review']['author']['name']"),
    Case("G2", "ctx.n * 2 >= ctx.limit", lambda f: f["ctx"]["n"] * 2 >= f["ctx"]["limit"],
         "ctx['n'] * 2 >= ctx['limit']"),
    Case("G3", "map(ctx.people, p -> p.name + ' (' + ctx.status + ')')",
         lambda f: [p["name"] + " (" + f["ctx"]["status"] + ")" for p in f["ctx"]["people"]],
         "[p['name'] + ' (' + ctx['status'] + ')' for p in ctx['people']]"),
    Case("G4", "any(ctx.reviews, r -> r.score > 90)", lambda f: any(r["score"] > 90 for r in f["ctx"]["reviews"]),
         "any(r['score'] > 90 for r in ctx['reviews'])"),
    Case("G5", "sum(map(filter(ctx.rows, r -> r.a > 500), r -> r.b))",
         lambda f: sum([r["b"] for r in [r for r in f["ctx"]["rows"] if r["a"] > 500]]),
         "sum([r['b'] for r in [r for r in ctx['rows'] if r['a'] > 500]])"),
    Case("G6", "map(ctx.orders, o -> {total: o.price * o.qty, cheap: o.price < 10})",
         lambda f: [{"total": o["price"] * o["qty"], "cheap": o["price"] < 10} for o in f["ctx"]["orders"]],
         "[{'total': o['price'] * o['qty'], 'cheap': o['price'] < 10} for o in ctx['orders']]"),
    Case("G7", "count(ctx.reviews) > 0 and review.passed",
         lambda f: len(f["ctx"]["reviews"]) > 0 and f["ctx"]["review"]["passed"],
         "len(ctx['reviews']) > 0 and ctx['review']['passed']"),
    Case("G8", "filter(ctx.people, p -> not p.active or p.name == 'Ada')",
         lambda f: [p for p in f["ctx"]["people"] if not p["active"] or p["name"] == "Ada"],
         "[p for p in ctx['people'] if not p['active'] or p['name'] == 'Ada']"),
    Case("G9", "ctx.dir + '/' + ctx.name", lambda f: f["ctx"]["dir"] + "/" + f["ctx"]["name"],
         "ctx['dir'] + '/' + ctx['name']"),
    Case("G10", "get(pipe, 'verdict', 'none') == 'none'", lambda f: (f["pipe"] or {}).get("verdict", "none") == "none",
         "(pipe or {}).get('verdict', 'none') == 'none'"),
)  # fmt: skip
"""Not looked at while the code generator was written."""

FIXED = SHAPED + SEEN + FRESH
