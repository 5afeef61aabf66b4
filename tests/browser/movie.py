"""The moving picture of the README: ``make movie`` plays the first cells of the quickstart in a real JupyterLab.

A person reads the cell, runs it, sees it fail, goes to the line that failed, repairs it and clicks *Resume*. The frames
are screenshots. Each scene has a length of its own, whatever the machine took for it, so a busy machine makes the same
movie. The file names the script and the cells that it was made from: a test says when one of them has changed since. A
test of the browser plays it again, and says when its last frame looks different: what the explorer looks like is in
many files, and a digest of them would ask for a new movie after each edit.
"""

from __future__ import annotations

import hashlib
import io
import sys
import tempfile
import time
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import nbformat

from tests.browser.harness import Lab, Notebook, chromium

if TYPE_CHECKING:
    from PIL import Image
    from playwright.sync_api import Locator

ROOT = Path(__file__).parents[2]
TARGET = ROOT / "docs" / "_static" / "first-minute.webp"
NOTEBOOK = ROOT / "notebooks" / "quickstart.ipynb"

CELLS = 2
"""The code cells that are played, with the text above each."""
MOST_BYTES = 1_000_000
WIDTH, HEIGHT = 920, 860
SHORTEST = 80
"""Milliseconds of a frame of a scene, at least."""
REPAIR = " if primes else 0"
LOOKS_OTHER = 40
"""Levels of grey, of 255, by which a point of a frame looks different."""
MOST_APART = 0.02
"""The share of the last frame that may look different before the movie is made again."""

# Screenshots have no pointer of the mouse: this one is a part of the page.
POINTER = """() => {
  const pointer = document.createElement("div");
  pointer.id = "movie-pointer";
  pointer.style.cssText = "position:fixed;z-index:99999;pointer-events:none;left:70%;top:80%;width:22px;height:22px";
  pointer.innerHTML = `<svg viewBox="0 0 20 20"><path d="M2 1v15l4-4 3 7 3-1-3-7h6z" fill="#111" stroke="#fff"/></svg>`;
  document.body.append(pointer);
}"""
MOVE = """([x, y]) => Object.assign(document.getElementById("movie-pointer").style, {left: `${x}px`, top: `${y}px`})"""


class Frame(NamedTuple):
    picture: bytes
    """A PNG."""
    milliseconds: int


class Film:
    """The frames so far, of one page."""

    def __init__(self, page: Notebook) -> None:
        self.page = page
        self.frames: list[Frame] = []
        self._pointer = (WIDTH * 0.7, HEIGHT * 0.8)
        page.page.evaluate(POINTER)

    def hold(self, milliseconds: int) -> None:
        """What is there now, for a time."""
        self.frames.append(Frame(self.page.page.screenshot(), milliseconds))

    def until(self, *there: Locator, milliseconds: int) -> None:
        """What happens until these are there, as a scene of this length."""
        taken = [self._look()]
        while not all(each.count() for each in there):
            taken.append(self._look())
        self.frames += scene(taken, milliseconds)

    def for_a(self, milliseconds: int) -> None:
        """What happens in a time: at least one frame."""
        end = time.monotonic() + milliseconds / 1000
        taken = [self._look()]
        while time.monotonic() < end:
            taken.append(self._look())
        self.frames += scene(taken, milliseconds)

    def _look(self) -> bytes:
        """What is there now; the page gets time to go on."""
        picture = self.page.page.screenshot()
        self.page.page.wait_for_timeout(40)
        return picture

    def scroll(self, cell: int) -> None:
        """Show a cell from its first line."""
        self.page.cell(cell).evaluate("node => node.scrollIntoView({block: 'start'})")

    def click(self, target: Locator) -> None:
        """Move the pointer to something, and click it."""
        target.scroll_into_view_if_needed()
        box = target.bounding_box()
        assert box is not None
        (left, top), (x, y) = self._pointer, (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
        for part in (0.3, 0.65, 0.9, 1):
            self.page.page.evaluate(MOVE, [left + part * (x - left), top + part * (y - top)])
            self.hold(60)
        self._pointer = (x, y)
        self.hold(350)
        target.click()

    def write(self, text: str) -> None:
        """Type at the cursor."""
        for letter in text:
            self.page.page.keyboard.type(letter)
            self.hold(55)


def scene(pictures: list[bytes], milliseconds: int) -> list[Frame]:
    """The frames of a scene of this length, evenly chosen among the pictures that a machine took:
    a quick one takes many."""
    count = min(len(pictures), milliseconds // SHORTEST)
    chosen = [pictures[n * len(pictures) // count] for n in range(count)]
    ends = [milliseconds * n // count for n in range(count + 1)]
    return [Frame(each, end - start) for each, (start, end) in zip(chosen, pairwise(ends), strict=True)]


def played() -> nbformat.NotebookNode:
    """The beginning of the quickstart, up to its last cell that is played, without outputs."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    code = [index for index, cell in enumerate(notebook.cells) if cell.cell_type == "code"]
    notebook.cells = notebook.cells[: code[CELLS - 1] + 1]
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    return notebook


def made_from() -> str:
    """A digest of what the movie shows: the cells and this script."""
    sources = [cell.source for cell in played().cells]
    return hashlib.sha256("\0".join([Path(__file__).read_text("utf-8"), *sources]).encode()).hexdigest()[:20]


def film(page: Notebook) -> list[Frame]:
    """Play the cells."""
    function, run = (index for index, cell in enumerate(played().cells) if cell.cell_type == "code")
    page.command("application:toggle-left-area")
    page.select(function)
    shown = Film(page)
    shown.hold(1600)
    page.run(function)
    shown.hold(400)
    page.run(run, wait=False)
    explorer = page.explorer(run)
    shown.scroll(run)
    boxes = explorer.locator(".picture g.box").first
    shown.until(explorer.locator("header >> text=failed"), boxes, milliseconds=3500)
    page.finished()
    shown.hold(1500)
    shown.click(explorer.locator(".panel button.link", has_text="In[1]").last)
    shown.for_a(900)
    line = page.cell(function).locator(".cm-line", has_text="return sum")
    shown.click(line)
    page.press("End")
    shown.write(REPAIR)
    page.run(function)
    shown.hold(700)
    shown.scroll(run)
    shown.hold(400)
    shown.click(explorer.locator("button:text-is('Resume')"))
    shown.until(explorer.locator("header >> text=✓ ok"), boxes, milliseconds=1500)
    shown.for_a(500)
    shown.hold(3000)
    return shown.frames


def save(frames: list[Frame], target: Path) -> None:
    """Write the frames as one animated picture; it begins again."""
    from PIL import Image

    equal = [list(frames) for _, frames in groupby(frames, lambda frame: frame.picture)]
    pictures = [Image.open(io.BytesIO(each[0].picture)).convert("RGB") for each in equal]
    times = [sum(frame.milliseconds for frame in each) for each in equal]
    pictures[0].save(
        target, save_all=True, append_images=pictures[1:], duration=times, loop=0, quality=60, method=4,
        minimize_size=True, xmp=f"made from {made_from()}".encode(),
    )  # fmt: skip


def look_apart(one: Image.Image, other: Image.Image) -> float:
    """The share of a frame that looks different in another one: a time and the id of a run are little of it."""
    from PIL import ImageChops, ImageFilter

    small = [picture.convert("L").filter(ImageFilter.BoxBlur(3)) for picture in (one, other)]
    if small[0].size != small[1].size:
        return 1.0
    far = ImageChops.difference(*small).point(lambda grey: 255 * (grey > LOOKS_OTHER))
    return far.histogram()[255] / (far.width * far.height)


def last_frame(target: Path = TARGET) -> Image.Image:
    from PIL import Image

    movie = Image.open(target)
    movie.seek(movie.n_frames - 1)  # type: ignore[attr-defined]  # of an animated picture
    return movie.convert("RGB")


def play() -> list[Frame]:
    """Play the cells in a JupyterLab of its own."""
    with tempfile.TemporaryDirectory() as folder, Lab(Path(folder) / "notebooks") as lab, chromium() as browser:
        nbformat.write(played(), lab.folder / "quickstart.ipynb")
        page = Notebook(browser, lab, "quickstart.ipynb", width=WIDTH)
        page.page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
        return film(page)


def main(target: Path) -> None:
    frames = play()
    save(frames, target)
    seconds = sum(frame.milliseconds for frame in frames) / 1000
    print(f"{target}: {target.stat().st_size:,} bytes, {len(frames)} frames, {seconds:.1f} s")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else TARGET)
