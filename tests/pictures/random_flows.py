"""Makes random definitions in all four languages with up to 60 steps, each as a text that its language loads."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

MOST_STEPS = 60
TOOLS = (
    *("load", "clean", "join_two_tables", "x", "größe", "summarize_all_of_the_reviews_of_a_product"),
    *("计算今天所有订单的运费和税", "ترجمة_النص_إلى_اللغة_العربية", "MMMMMMMMMMMMMMMMMMMMMMMM_WWWWWWWWWWWWWWWW"),
)
WORDS = ("pears", "a rather long text about pears and other fruit of the season", "日本語", "q", "'quoted' & <b>")


def definition(seed: int) -> tuple[str, str]:
    """The language and the text of the flow number ``seed``, the same on every machine."""
    random = Random(seed)
    language = sorted(LANGUAGES)[seed % len(LANGUAGES)]
    return language, text_of(LANGUAGES[language](random, random.randint(1, MOST_STEPS)))


def text_of(document: Mapping[str, Any]) -> str:
    written = json.dumps(document, ensure_ascii=False, indent=1)
    return re.sub(r'"!expr ([^"]*)"', r'!expr "\1"', written)


class _Pipeline:
    """Random steps of all kinds, nested, which read what earlier steps wrote."""

    def __init__(self, random: Random, size: int) -> None:
        self.random, self.left, self.stores = random, size, ["doc", "rows"]

    def document(self) -> dict[str, Any]:
        steps = []
        while self.left > 0:
            steps.append(self.step(0))
        return {"pipeline": "p", "steps": steps}

    def step(self, depth: int) -> dict[str, Any]:
        """A random step. Only the outermost steps have an output."""
        self.left -= 1
        simple = ["tool", "tool", "tool", "transform", "agent", "shell", "call"]
        kind = self.random.choice(simple if depth >= 3 or self.left < 3 else [*simple, *FRAMES])
        body = getattr(self, kind)(depth)
        if depth == 0 and (kind == "fold" or self.random.random() < 0.8):
            store = f"{self.random.choice(['raw', 'review', 'summary_of_everything'])}_{self.left}"
            body["output"] = store
            self.stores.append(store)
        return {kind: body}

    def read(self) -> str:
        return self.random.choice(self.stores[-12:])

    def tool(self, depth: int) -> dict[str, Any]:
        names = [f"a{number}" for number in range(self.random.randint(0, 3))]
        args = {name: f"!expr {self.read()}" if self.random.random() < 0.7 else "x.csv" for name in names}
        return {"name": self.random.choice(TOOLS), "args": args}

    def transform(self, depth: int) -> dict[str, Any]:
        return {"value": self.random.choice(["{0}", "{0} == {1}", "[{0}, {1}]", "{0} and {1} or 'no'"]).format(
            self.read(), self.read())}  # fmt: skip

    def agent(self, depth: int) -> dict[str, Any]:
        body: dict[str, Any] = {"prompt": f"{self.random.choice(WORDS)} {{ctx.{self.read()}}} {{{self.read()}}}"}
        if self.random.random() < 0.5:
            body["identity"] = self.random.choice(["critic", "librarian"])
        if self.random.random() < 0.5:
            body["capabilities"] = {"tools": self.random.sample(TOOLS, self.random.randint(0, 4))}
        return body

    def shell(self, depth: int) -> dict[str, Any]:
        return {"command": ["ls", self.random.choice(WORDS)]}

    def call(self, depth: int) -> dict[str, Any]:
        return {"pipeline": self.random.choice(["publish", "hold_back"]), "pass": self.passed()}

    def passed(self) -> list[str]:
        return sorted({self.read() for _ in range(self.random.randint(0, 3))})

    def for_each(self, depth: int) -> dict[str, Any]:
        body = {
            "over": self.random.choice(["ctx.doc", "ctx.rows", "rows"]),
            "do": self.step(depth + 1),
            "on_error": self.random.choice(ON_ERROR),
        }
        body |= {"max_parallel": self.random.randint(1, 9), "collect": {"transform": {"value": "pipe"}}}  # type: ignore[dict-item]
        return body

    def parallel(self, depth: int) -> dict[str, Any]:
        names = self.random.sample(["a", "two words", "security", "x1", "y", "z", "日本"], self.random.randint(1, 5))
        branches = {name: self.step(depth + 1) for name in names}
        return {"branches": branches, "collect": {"transform": {"value": self.random.choice(["pipe", "1"])}}}

    def fold(self, depth: int) -> dict[str, Any]:
        return {
            "over": self.random.choice(["ctx.doc", "ctx.rows", "rows"]),
            "init": "0",
            "do": self.step(depth + 1),
            "output": f"sum_{self.left}",
        }

    def match(self, depth: int) -> dict[str, Any]:
        labels = self.random.sample(["True", "False", "a long label of a case", "1"], self.random.randint(1, 4))
        cases = {label: {"pipeline": "publish", "pass": self.passed()} for label in labels}
        default = {"default": {"pipeline": "hold_back"}} if self.random.random() < 0.5 else {}
        return {"on": f"{self.read()} == 1", "cases": cases, **default}


ON_ERROR = ("abort", "continue", "retry(2)")
FRAMES = ("for_each", "parallel", "fold", "match")


def pipeline(random: Random, size: int) -> dict[str, Any]:
    return _Pipeline(random, size).document()


def policy(random: Random, size: int) -> dict[str, Any]:
    names = [f"{random.choice(['writer', 'checker', 'translator_of_long_texts'])}{n}" for n in range(size)]
    kind = random.choice(["sequential", "sequential", "parallel", "loop", "conditional", "batch", "react"])
    steps: list[dict[str, Any]] = []
    for place, name in enumerate(names):
        sources = ["parent.input.topic", *(f"{earlier}.output.text" for earlier in names[max(0, place - 6) : place])]
        reads = sources[:1] if kind in ("parallel", "conditional") else sources
        fields = {field: random.choice(reads) for field in ("a", "b", "c")[: random.randint(0, 3)]}
        steps.append({"agent": name, "input_mapping": fields} if fields else {"agent": name})
    configs: dict[str, dict[str, Any]] = {
        "sequential": {"steps": steps},
        "parallel": {"agents": steps},
        "loop": {"steps": steps, "max_iterations": 3},
        "batch": {"agent": names[0], "max_concurrency": 4, "input_mapping": {"x": "parent.input.items.[].value"}},
        "conditional": {
            "routes": [
                {"when": {"args_match": {"parent.input.kind": n}}, **step} for n, step in zip(names, steps, strict=True)
            ],
            "default_agent": "other",
        },
        "react": {"model": "gpt-x", "provider": "openai", "instructions": random.choice(WORDS), "max_steps": 5},
    }
    return {"id": f"agf.{kind}", "config": configs[kind]}


def plan(random: Random, size: int) -> dict[str, Any]:
    calls: list[dict[str, Any]] = []
    for number in range(size):
        references = [f"†state.v{index}" for index in range(max(0, number - 8), number)] + ["†input.path"]
        call: dict[str, Any] = {"_tool": random.choice(TOOLS)}
        for name in ("a", "b", "c")[: random.randint(0, 3)]:
            call[name] = (
                random.choice(references) if random.random() < 0.8 else f"{random.choice(references)} || 'none'"
            )
        call["_outputPath"] = f"†state.v{number}"
        calls.append(call)
    return {"calls": calls}


def graph(random: Random, size: int) -> dict[str, Any]:
    kinds = ["draft", "judge", "refine_the_whole_text", "起草", "مسودة_التقرير"]
    names = [f"{random.choice(kinds)}_{number}" for number in range(size)]
    keys = ["topic", "score", "text", "items"]
    nodes: dict[str, Any] = {}
    for name in names:
        key, other = random.sample(keys[:3], 2)
        nodes[name] = random.choice([
            {"type": "llm", "prompt": f"write {random.choice(WORDS[:2])} on {{{other}}}", "state_key": key},
            {"type": "agent", "prompt": f"judge {{{key}}}", "tools": ["load", "clean"], "state_key": key},
            {"type": "passthrough", "output": {key: f"{{state.{other}}}"}},
            {"type": "tool_call", "tool": "load", "args": {"a": f"{{state.{key}}}"}, "state_key": key},
            {"type": "map", "over": "{state.items}", "as": "one", "collect": "items",
             "node": {"type": "llm", "prompt": "say {one}", "state_key": "said"}},
            {"type": "interrupt", "message": f"Is {{{key}}} right?", "resume_key": other},
        ])  # fmt: skip
    edges: list[dict[str, Any]] = [{"from": "START", "to": names[0]}]
    for place, name in enumerate(names):
        following = names[place + 1] if place + 1 < size else "END"
        if random.random() < 0.3:
            back = random.choice([name, *names[: place + 1]])  # a loop over one node or several
            edges.append({"from": name, "to": back, "condition": f"score < {random.randint(1, 9)}"})
            edges.append({"from": name, "to": following, "condition": "else"})
        elif random.random() < 0.3 and place + 2 < size:
            far = random.choice(names[place + 1 :])
            edges += [{"from": name, "to": far, "condition": "score >= 5 and text != null"}]
            edges.append({"from": name, "to": following, "condition": "else"})
        else:
            edges.append({"from": name, "to": following})
    return {"nodes": nodes, "edges": edges, "state": dict.fromkeys(keys, "any"), "name": "g"}


LANGUAGES: Mapping[str, Callable[[Random, int], dict[str, Any]]] = {
    "graph": graph, "pipeline": pipeline, "plan": plan, "policy": policy,
}  # fmt: skip
