"""What the kernel learns of its page from the page's messages."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from agf_magics.notebook.output.front_end import Page


def reported(page: Page) -> None:
    """A message of the page is received on a thread of its own, as on a subshell."""
    thread = threading.Thread(target=page.report)
    thread.start()
    thread.join()


def test_the_first_who_asks_waits_for_the_message_of_the_page() -> None:
    page, looks = Page(), list[int]()

    def meanwhile() -> None:
        looks.append(len(looks))
        if len(looks) == 3:
            reported(page)

    assert page.hears_soon(60, meanwhile)
    assert looks == [0, 1, 2]
    assert page.hears_soon(60, meanwhile)
    assert looks == [0, 1, 2]


@pytest.mark.parametrize(("arrive", "hears"), [(reported, True), (Page.report, False)])
def test_nobody_waits_twice_and_only_a_message_of_another_thread_is_heard_while_busy(
    arrive: Callable[[Page], None], hears: bool
) -> None:
    page, looks = Page(), list[None]()
    assert not page.hears_soon(0, lambda: looks.append(None))
    assert not page.hears_soon(60, lambda: looks.append(None))
    assert not looks
    arrive(page)
    assert (page.has_reported, page.hears_while_busy) == (True, hears)
    assert page.hears_soon(60, lambda: looks.append(None)) is hears
    assert not looks
