"""The explorer with large content: hundreds of steps, thousands of calls, rich values. Several checks share one
page."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

from tests.browser.harness import Notebook, Open

pytestmark = pytest.mark.browser

SETUP = """%load_ext agf_magics
%config AgfMagics.journal = "large.sqlite"
import agf_magics as agf
from agf_magics import tool
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel

@tool
async def same(item: int) -> int:
    if item % 1000 == 7:
        raise ValueError(f"no {item}")
    return item

agf.model_agent("clerk", model=FunctionModel(lambda messages, info: ModelResponse(parts=[TextPart("Seen.")])))
steps = "".join(f"- transform: {{value: '{n}', output: o{n}}}\\n" for n in range(500))
agf.define("pipeline: long\\nsteps:\\n" + steps)"""

WALK = """%%graph walk --run --draw
state: {n: int}
variables: {n: 0}
nodes: {count: {type: passthrough, output: {n: "{state.n + 1}"}}, say: {type: passthrough, output: {n: "{state.n}"}}}
edges:
- {from: START, to: count}
- {from: count, to: count, condition: n < 3}
- {from: count, to: say, condition: else}
- {from: say, to: END}"""

MANY = """%%pipeline --run --set items=$items
pipeline: many
steps:
- for_each:
    over: ctx.items
    on_error: continue
    do: {tool: {name: same, args: {item: !expr item}}}
    collect: {transform: {value: count(pipe)}}
- for_each:
    items: [1, 2, 3]
    on_error: continue
    do: {agent: {prompt: "Look at {item}.", identity: clerk}}
    collect: {transform: {value: count(pipe)}}"""


def both_themes(page: Notebook, name: str, cell: int) -> None:
    for theme in ("Dark", "Light"):
        page.theme(theme)
        page.picture(f"explorer-{name}-{theme.lower()}", cell)


def test_long_flows_walks_and_thousands_of_calls(opened: Open) -> None:
    page = opened(SETUP, "%run_pipeline long", WALK, "items = list(range(4_200))", MANY)
    page.run_all()

    # A chain of 500 steps is in groups of 25, which a person opens.
    explorer = page.explorer(1)
    page.open_view(1, "Picture")
    boxes = explorer.locator(".picture g.box")
    boxes.first.wait_for()
    assert boxes.count() == 20
    assert "✓" in (boxes.first.text_content() or "")
    page.picture("long", 1)

    # In a walk, an edge shows the rounds after which it was taken.
    walk = page.explorer(2)
    walk.locator(".picture g[visibility=visible]").first.wait_for()
    assert walk.locator(".picture g[visibility=visible]").all_text_contents() == ["1", "2, 3", "4", "5"]
    both_themes(page, "walk", 2)

    # More than 4,000 calls are shown as a density, with the calls of each element and one of several sessions.
    many = page.explorer(4)
    page.open_step(4, "for_each")
    panel = many.locator(".panel")
    panel.locator("button:text-is('By element')").click()
    panel.locator("th:text-is('element')").wait_for()
    panel.locator("text=1–100 of 4,200").wait_for()
    panel.locator("h4:text-is('Elements')").wait_for()
    assert panel.locator(".of-calls th").all_inner_texts()[:2] == ["state", "element"]
    panel.locator("button:has-text('Only the ')").click()
    panel.locator("button:text-is('All')").click()
    panel.locator("[placeholder='Find an element']").fill("no 7")
    panel.locator("[placeholder='Find an element']").press("Enter")
    panel.locator("text=of 4,200").wait_for(state="detached")
    panel.locator("[placeholder='Find an element']").fill("")
    panel.locator("[placeholder='Find an element']").press("Enter")
    panel.locator("text=1–100 of 4,200").wait_for()
    row = panel.locator("tr[tabindex]").first
    assert row.locator("td").all_inner_texts()[:4] == ["✗ failed", "#7", "1", "1"]
    assert row.locator("td").all_inner_texts()[5:] == ["ValueError: no 7", "item: 7"]
    row.click()
    panel.locator(".calls b.bad:text-is('#7 · ✗ failed')").wait_for()
    panel.locator(".calls pre.error", has_text="no 7").wait_for()
    panel.locator("text=1–1 of 1").wait_for()
    both_themes(page, "elements", 4)
    many.locator(".row", has_text="for_each").nth(1).click()
    panel.locator("button:text-is('By element')").click()
    panel.locator("td:text-is('Look at 1.')").wait_for()
    assert panel.locator("td:text-is('Seen.')").count() == 3
    both_themes(page, "elements-of-agents", 4)
    panel.locator("td:text-is('Look at 2.')").click()
    panel.locator(".calls .said.user", has_text="Look at 2.").wait_for()
    panel.locator(".calls .said.model", has_text="Seen.").wait_for()
    assert panel.locator(".calls select").count() == 0
    both_themes(page, "element-of-an-agent", 4)
    panel.locator("button:text-is('‹ Elements')").click()
    panel.locator("td:text-is('Look at 1.')").wait_for()
    page.open_view(4, "Timeline")
    many.locator(".row:has([title*=' for_each'])").first.click()  # the timeline has names, not kinds
    many.locator("canvas[aria-label*='4,200 calls, at most']").wait_for()
    page.open_step(4, "clerk")
    panel.locator("select[aria-label=Session]").select_option(index=2)
    panel.locator(".said >> text=Look at 3.").wait_for()
    both_themes(page, "sessions", 4)
    assert page.errors == []


RICH = """import dataclasses, pydantic
import numpy, pandas
HACK = "<script>parent.hacked=1</script><img src=x onerror=parent.hacked=2>"

class Order(pydantic.BaseModel):
    fruit: str
    amount: int

@dataclasses.dataclass
class Point:
    x: float
    label: str

class Evil:
    def _repr_html_(self):
        raise SystemExit("called")
    __repr__ = __str__ = _repr_html_

def png():
    import struct, zlib
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = zlib.compress((b"\\0" + bytes(range(200))) * 40)
    head = struct.pack(">IIBBBBB", 200, 40, 8, 0, 0, 0, 0)
    return b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")

def frame():
    return pandas.DataFrame({"fruit": ["pear", HACK], "price": [2.5, 7.0]})

def polars_frame():
    import polars
    return polars.DataFrame({"fruit": ["pear", HACK], "price": [2.5, 7.0]})

def figure():
    from matplotlib.figure import Figure
    found = Figure(figsize=(4, 2))
    found.subplots().plot([1, 4, 9, 16])
    return found

def image():
    import PIL.Image
    return PIL.Image.linear_gradient("L")

VALUES = {
    "figure": figure, "image": image, "png": png, "frame": frame, "polars": polars_frame,
    "array": lambda: numpy.arange(12).reshape(3, 4), "model": lambda: Order(fruit="fig", amount=3),
    "dataclass": lambda: Point(1.5, HACK), "nested": lambda: {"a": {"b": [{"c": 1, "d": HACK}, {"c": 2, "d": "x"}]}},
    "evil": Evil, "large": lambda: "x" * 10_000_000, "several": lambda: {"picture": png(), "table": frame()},
}

@tool
def make(name: str) -> object:
    return VALUES[name]()"""

LIBRARIES = {"figure": "matplotlib", "image": "PIL", "polars": "polars"}
"""Values of optional libraries. The notebook uses the installed ones."""

SHOWS = {
    "figure": ".panel img[alt=figure]",
    "image": ".panel img[alt*='256 × 256']",
    "png": ".panel img[alt=PNG]",
    "frame": ".panel details:has(> summary:text-is('DataFrame · 2 rows × 2 columns')) td:has-text('<script>')",
    "polars": ".panel th.number[title=Float64]:has-text('price')",
    "array": ".panel pre:has-text('array')",
    "model": ".panel summary:has-text('Order · 2 fields')",
    "dataclass": ".panel summary:has-text('Point · 2 fields')",
    "nested": ".panel td:has-text('<script>parent.hacked')",
    "evil": ".panel pre:has-text('Evil')",
    "large": ".panel pre:has-text('xxxx')",
    "several": ".panel li:has(img[alt=PNG]) ~ li td.number:has-text('2.5')",
}


def test_rich_values_are_shown_bounded_and_do_nothing(opened: Open) -> None:
    names = [name for name in SHOWS if find_spec(LIBRARIES.get(name, "numpy"))]
    steps = "".join(f"- tool: {{name: make, args: {{name: {name}}}, output: {name}_1}}\n" for name in names)
    page = opened(SETUP, RICH, f"%%pipeline --run\npipeline: rich\nsteps:\n{steps}")
    page.run_all()
    explorer = page.explorer(2)
    explorer.locator(".title:has-text('✓ ok')").wait_for()
    explorer.locator(".panel h4:text-is('Stores')").wait_for()
    images = explorer.locator("img").count()
    explorer.locator(".panel summary:has-text('png_1 · ')").click()  # a value is fetched when it is opened
    explorer.locator(".panel details:has(> summary:has-text('png_1 · ')) img").wait_for()
    assert explorer.locator("img").count() == images + 1
    for number, name in enumerate(names):
        explorer.locator(".row").nth(number).click()
        explorer.locator(f".panel code:text-is('steps[{number}]')").wait_for()
        explorer.locator(SHOWS[name]).first.wait_for()
        if name in ("figure", "several"):
            both_themes(page, f"value-{name}", 2)
        assert len(explorer.locator(".panel").inner_html()) < 3_000_000
    assert page.page.evaluate("window.hacked") is None
    saved = page.save()
    assert "widgets" not in saved.metadata
    page.reload()
    assert page.page.evaluate("window.hacked") is None
    assert page.errors == []
