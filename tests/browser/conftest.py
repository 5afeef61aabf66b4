"""Opens one JupyterLab and one Chromium for all tests of this folder, and a page for each test."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.browser.harness import Lab, Notebook, Open, chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="package")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Lab(tmp_path_factory.mktemp("lab") / "notebooks") as lab:
        yield lab


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture
def opened(lab: Lab, browser: Browser, request: pytest.FixtureRequest) -> Iterator[Open]:
    """Opens notebooks in pages that are closed after the test. `Open` describes the call."""
    pages: list[Notebook] = []

    def open_notebook(*cells: str, app: str = "lab", file: str = "", width: int = 1200) -> Notebook:
        name = file or f"{request.node.originalname}-{width}-{len(pages)}-{app}.ipynb"
        if not file:
            lab.write(name, *cells)
        pages.append(Notebook(browser, lab, name, app, width=width))
        return pages[-1]

    yield open_notebook
    for page in pages:
        page.command("notebook:shutdown-kernel")
        page.close()
