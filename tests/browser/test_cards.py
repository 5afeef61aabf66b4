"""Each reference card is exactly one printed page of A4, and no part of it is cut off."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser

DOCS = Path(__file__).parents[2] / "docs"
CARDS = DOCS / "reference" / "cards"
NAMES = sorted(card.stem for card in CARDS.glob("*.md"))
PAPER = {"width": 718, "height": 1047}
"""The size of A4 within margins of 1 cm, in pixels."""
MARGIN = dict.fromkeys(("top", "right", "bottom", "left"), "1cm")
CUT = """() => [...document.querySelectorAll('section *')]
    .filter(each => each.getBoundingClientRect().right > innerWidth
        || getComputedStyle(each).overflowX !== 'visible' && each.scrollWidth > each.clientWidth + 1)
    .map(each => each.textContent.slice(0, 80))"""
"""The elements that extend beyond the paper, or beyond their box."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The cards as pages of the site, with its theme and its styles, but without its other pages."""
    pytest.importorskip("furo")
    folder = tmp_path_factory.mktemp("cards")
    shutil.copytree(CARDS, folder / "source" / "cards")
    index = "\n".join(["# Cards", "", "```{toctree}", *(f"cards/{name}" for name in NAMES), "```", ""])
    (folder / "source" / "index.md").write_text(index, encoding="utf-8")
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", "-c", str(DOCS)]
    subprocess.run([*command, str(folder / "source"), str(folder / "site")], check=True, capture_output=True)
    return folder / "site" / "cards"


@pytest.mark.parametrize("name", NAMES)
def test_a_card_is_one_printed_page_and_nothing_is_cut(name: str, site: Path, browser: Browser) -> None:
    page = browser.new_page(viewport=PAPER)  # type: ignore[arg-type]
    page.goto((site / f"{name}.html").as_uri())
    page.emulate_media(media="print")
    printed = page.pdf(format="A4", margin=MARGIN)  # type: ignore[arg-type]
    assert len(re.findall(rb"/Type\s*/Page\b(?!s)", printed)) == 1
    assert page.evaluate(CUT) == []
    assert page.locator("h1").bounding_box()["y"] >= 0  # type: ignore[index]
    assert not page.locator(".announcement").is_visible()
    page.close()
