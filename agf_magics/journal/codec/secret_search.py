"""A search for secrets in what is stored, piece by piece.

A secret has a dozen forms or more, and a large value is gigabytes: RE2 looks for all forms in one
pass, and without the lock of the interpreter, so that other threads go on. Python's own search, form
by form, is for a few forms, and for where there is no RE2.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any

from ...compat.imports import installed_only

SEARCHED = 1 << 20
"""Bytes that are searched at a time."""

FEW_FORMS = 8
"""Forms that are quicker found one by one."""

LONGEST_PASS = 20_000
"""Bytes of the forms of one pass: for more, RE2 would need more memory than it may have."""

MEMORY = 256_000_000
"""Bytes that RE2 may use."""

_NUMBERS = frozenset("?hHiIlLqQnNefdg")
"""The formats of buffers in which no text can be."""


class HoldsSecret(Exception):
    """The value contains one of the texts that it must not contain."""


class Search:
    """A search for texts in what is stored, piece by piece: no other thread waits for long."""

    def __init__(
        self, forms: Iterable[bytes], in_numbers: bool = False, clean: set[str] | None = None
    ) -> None:
        """``in_numbers``: default False; True: the forms may be numbers. ``clean``: the digests of
        buffers in which nothing was found, to which the search adds others; default None: none is
        known."""
        self._forms, self._in_numbers = frozenset(forms), in_numbers
        self._clean = clean if clean is not None else set()
        self._overlap = max(map(len, self._forms), default=1) - 1
        self._end = b""

    def look(self, data: Any) -> None:
        """Look at what follows in one stream. Raises HoldsSecret."""
        if self._forms and memoryview(data).nbytes:
            view = memoryview(data).cast("B")
            self._find(self._end + bytes(view[: self._overlap]))
            self._find_in(view)
            last = bytes(view[max(view.nbytes - self._overlap, 0) :])
            self._end = (self._end + last)[-self._overlap :] if self._overlap else b""

    def look_at(self, buffer: memoryview, raw: memoryview, digest: str = "") -> None:
        """Look at a buffer alone. ``digest``: its own; default: it has none. Raises HoldsSecret."""
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
    """The searches of one run: a buffer in which nothing was found is not searched again for the same
    texts."""

    def __init__(self) -> None:
        self._last = (frozenset[bytes](), False), set[str]()

    def search(self, forms: Iterable[bytes], in_numbers: bool) -> Search:
        """A search for texts, as `Search`."""
        wanted = frozenset(forms), in_numbers
        # As one value: another thread may search for more texts at the same time.
        last = self._last
        if last[0] != wanted:
            last = self._last = wanted, set()
        return Search(wanted[0], in_numbers, last[1])


def _pieces(view: memoryview, overlap: int) -> Iterator[memoryview]:
    """Pieces of a buffer, each of which has the end of the one before it."""
    for start in range(0, view.nbytes, SEARCHED):
        yield view[max(start - overlap, 0) : start + SEARCHED]


@lru_cache(maxsize=8)
def _finder(forms: frozenset[bytes]) -> Callable[[memoryview | bytes], bool]:
    """What says whether one of ``forms`` is in a piece."""
    if len(forms) > FEW_FORMS:
        with suppress(ImportError):
            finders = list(map(_all_at_once, _groups(sorted(forms))))
            return lambda piece: any(find(piece) is not None for find in finders)
    return lambda piece: any(map(bytes(piece).__contains__, forms))


def _groups(forms: Sequence[bytes]) -> Iterator[list[bytes]]:
    """The forms in groups that are not too long."""
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
