"""The moving picture of the README shows the quickstart and the explorer as they look now."""

from __future__ import annotations

import io

import pytest

from tests.browser import movie

pytestmark = pytest.mark.browser
Image = pytest.importorskip("PIL.Image")


def test_the_movie_of_the_readme_ends_as_the_explorer_looks_now() -> None:
    now = Image.open(io.BytesIO(movie.play()[-1].picture))
    assert movie.look_apart(now, movie.last_frame()) < movie.MOST_APART, "make movie plays the cells again"


def test_a_frame_that_looks_different_is_detected() -> None:
    last = movie.last_frame()
    assert movie.look_apart(last, last) == 0
    other = last.copy()
    other.paste((255, 255, 255), (300, 300, 600, 700))
    assert movie.look_apart(last, other) > movie.MOST_APART
    assert movie.look_apart(last, last.resize((100, 100))) == 1
