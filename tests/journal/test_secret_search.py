"""`Searches` remembers which buffers of a run were searched for which secrets."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agf_magics.journal.codec.secret_search import HoldsSecret, Searches

TEXT = memoryview(b"the key is sk-1234567890, and the other one pk-0987654321")
FIRST, OTHER, ABSENT = b"sk-1234567890", b"pk-0987654321", b"zk-5555555555"


def finds(searches: Searches, forms: Sequence[bytes], digest: str = "text", in_numbers: bool = False) -> bool:
    try:
        searches.search(forms, in_numbers).search_buffer(TEXT, TEXT, digest)
    except HoldsSecret:
        return True
    return False


@pytest.mark.parametrize("then", [[FIRST], [ABSENT, FIRST], [OTHER]], ids=["another", "one more", "the other"])
def test_a_buffer_is_searched_again_for_other_texts(then: list[bytes]) -> None:
    searches = Searches()
    assert not finds(searches, [ABSENT])
    assert finds(searches, then)
    # This holds even after earlier texts: a buffer without the old texts may contain the new ones.
    assert not finds(searches, [ABSENT])
    assert finds(searches, then)


def test_a_buffer_is_not_searched_again_for_the_same_texts() -> None:
    """The digest stands for the bytes. A digest with other bytes shows that no search happens."""
    searches = Searches()
    searches.search([FIRST, OTHER], False).search_buffer(memoryview(b"nothing"), memoryview(b"nothing"), "text")
    assert not finds(searches, [OTHER, FIRST])
    assert finds(searches, [FIRST, OTHER], digest="another")
    assert finds(searches, [FIRST, OTHER], digest=""), "a buffer without a digest is always searched"
    assert finds(searches, [FIRST, OTHER], in_numbers=True)


def test_a_search_that_overlaps_a_later_search_keeps_its_own_buffers() -> None:
    searches = Searches()
    early = searches.search([ABSENT], False)
    late = searches.search([FIRST], False)
    early.search_buffer(TEXT, TEXT, "text")
    with pytest.raises(HoldsSecret):
        late.search_buffer(TEXT, TEXT, "text")
    with pytest.raises(HoldsSecret):
        searches.search([FIRST], False).search_buffer(TEXT, TEXT, "text")
