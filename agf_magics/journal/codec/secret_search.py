"""Searches stored data for secrets, piece by piece.

A secret has a dozen forms or more, and a large value may have gigabytes. RE2 looks for all forms in
one pass, without the lock of the interpreter, so that other threads go on. Python's own search,
form by form, is used for a few forms, and if RE2 is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from ...compat.imports import installed_only

SEARCHED = 1 << 20
"""The number of bytes that are searched at a time."""

FEW_FORMS = 8
"""The largest number of forms that are found faster one by one."""

LONGEST_PASS = 20_000
"""The largest number of bytes of all forms in one pass. For more, RE2 would need too much
memory."""

MEMORY = 256_000_000
"""The largest number of bytes that RE2 may use."""

_NUMBERS = frozenset("?hHiIlLqQnNefdg")
"""The formats of buffers that cannot contain text. Those of complex numbers begin with Z."""


class HoldsSecret(Exception):
    """The value contains one of the searched texts."""


class Search:
    """A search for texts in the data of one value, piece by piece, so that no thread waits for
    long."""

    def __init__(
        self, forms: Iterable[bytes], in_numbers: bool = False, clean: set[str] | None = None
    ) -> None:
        """``forms``: the texts. ``in_numbers``: whether the forms may be numbers; default False.
        ``clean``: the digests of buffers without a match, to which the search adds; default None:
        none are known."""
        self._forms, self._in_numbers = frozenset(forms), in_numbers
        self._clean = clean if clean is not None else set()
        self._overlap = max(map(len, self._forms), default=1) - 1
        self._end = b""
        """The end of the stream so far, in which a text may begin."""

    def search_next(self, data: Any) -> None:
        """Search the next data of a stream. Raises HoldsSecret."""
        if self._forms and memoryview(data).nbytes:
            view = memoryview(data).cast("B")
            self._find(self._end + bytes(view[: self._overlap]))
            self._find_in(view)
            last = bytes(view[max(view.nbytes - self._overlap, 0) :])
            self._end = (self._end + last)[-self._overlap :] if self._overlap else b""

    def search_buffer(self, buffer: memoryview, raw: memoryview, digest: str = "") -> None:
        """Search a single buffer. ``digest``: its digest; empty: unknown. Raises HoldsSecret."""
        if not self._forms or digest in self._clean:
            return
        kind = buffer.format.lstrip("@=<>!")
        if self._in_numbers or not (kind in _NUMBERS or kind.startswith("Z")):
            self._find_in(raw)
            if digest:
                self._clean.add(digest)

    def _find_in(self, view: memoryview) -> None:
        for piece in _pieces(view, self._overlap):
            self._find(piece)

    def _find(self, piece: memoryview | bytes) -> None:
        if _finder(self._forms)(piece):
            raise HoldsSecret


class Searches:
    """The searches of one run. A buffer without a match is not searched again for the same
    texts."""

    def __init__(self) -> None:
        self._last = (frozenset[bytes](), False), set[str]()
        """The texts of the last search (and whether they may be numbers), and the digests of buffers
        without any of them."""

    def search(self, forms: Iterable[bytes], in_numbers: bool) -> Search:
        """A `Search` for ``forms``."""
        searched = frozenset(forms), in_numbers
        # Set as one value, because another thread may search for more texts at the same time.
        last_search = self._last
        if last_search[0] != searched:
            last_search = self._last = searched, set()
        return Search(searched[0], in_numbers, last_search[1])


def _pieces(view: memoryview, overlap: int) -> Iterator[memoryview]:
    """The pieces of a buffer. Each piece begins with the end of the piece before it."""
    for start in range(0, view.nbytes, SEARCHED):
        yield view[max(start - overlap, 0) : start + SEARCHED]


@lru_cache(maxsize=8)
def _finder(forms: frozenset[bytes]) -> Callable[[memoryview | bytes], bool]:
    """A function that tells whether a piece contains one of ``forms``."""
    if len(forms) > FEW_FORMS:
        with suppress(ImportError):
            finders = list(map(_all_at_once, _groups(sorted(forms))))
            return lambda piece: any(find(piece) is not None for find in finders)
    return lambda piece: any(map(bytes(piece).__contains__, forms))


def _groups(forms: Sequence[bytes]) -> Iterator[list[bytes]]:
    """The forms in groups, each of which RE2 can search in one pass."""
    group, size = list[bytes](), 0
    for form in forms:
        if group and size + len(form) > LONGEST_PASS:
            yield group
            group, size = [], 0
        group.append(form)
        size += len(form)
    yield group


def _all_at_once(forms: Sequence[bytes]) -> Callable[[memoryview | bytes], Any]:
    with installed_only():
        import re2  # type: ignore[import-untyped]
    options = re2.Options()
    options.max_mem = MEMORY
    options.log_errors = False
    options.never_capture = True
    options.encoding = re2.Options.Encoding.LATIN1
    search: Callable[[memoryview | bytes], Any] = re2.compile(
        b"|".join(map(re2.escape, forms)), options
    ).search
    return search
