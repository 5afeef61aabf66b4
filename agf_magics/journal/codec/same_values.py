"""Decides whether two stored values are the same by their bytes alone, without unpickling.

Two pickles of the same value may differ: a text that two places share is written once, and the
order of a set depends on the process. So if the bytes of two pickles differ, their instructions are
read as data and compared by what they would build, but nothing is built. JSON is compared without
the order of names. If only a preview of a value is stored, different previews mean different
values, but equal previews mean nothing.
"""

from __future__ import annotations

import hashlib
import json
import pickletools
from typing import Any, NamedTuple, Protocol

from ...catalog.tools.tool import MASK
from .encoding import DecodeError, preview
from .fingerprints import CONTENTS
from .identities import bare
from .json_texts import encode
from .parted import content_of

LONGEST_SORTED = 5_000_000
"""The largest number of characters of a JSON text whose names are sorted."""
MOST_INSTRUCTIONS = 200_000
"""The largest number of instructions of a pickle that are read. Of a longer pickle only the bytes
count."""


class Stored(Protocol):
    """A value in its stored form."""

    @property
    def form(self) -> str | None: ...
    @property
    def data(self) -> str | bytes | None: ...
    @property
    def shown(self) -> str | None: ...


class Essence(NamedTuple):
    """The data by which a stored value is compared with others."""

    form: str | None
    digest: bytes
    """The digest of the content, which is the same for all texts or pickles of the same value."""
    shown: bytes
    """The digest of the preview; empty: it has a mask, which may stand for any value."""
    is_certain: bool = True
    """Whether a different digest means a different value."""
    layout: str = ""
    """The sizes of the parts. If they differ, different digests do not mean different values."""


def is_same(first: Stored, second: Stored) -> bool | None:
    """Whether both are the same value; None: the stored forms do not tell."""
    if first.form == second.form != "again" and first.data == second.data:
        return True
    return have_same(essence(first), essence(second))


def essence(stored: Stored) -> Essence:
    """The essence of a stored value, for `have_same`."""
    data = stored.data
    shown = stored.shown
    is_certain = True
    if stored.form == "json" and isinstance(data, str | None):
        digest = _hash("json", _sorted(data or "").encode("utf-8", "surrogatepass"))
        shown = encode(preview(_loaded(data)))
    elif stored.form == "pickle" and isinstance(data, bytes):
        digest, is_certain = _pickle_digest(bare(data))
        is_certain &= not _has_arrow(data)
    elif stored.form == "parts" and isinstance(data, bytes):
        return _essence_of_parts(data, shown or "")
    else:
        # The value is not stored.
        digest, is_certain = b"", encode(MASK)[1:-1] not in (shown or "")
        if isinstance(data, bytes):  # the `ObjectFingerprint.contents` of the value
            return Essence(
                "again", data[CONTENTS:], _digest_shown(shown), True, data[:CONTENTS].hex()
            )
    return Essence(stored.form, digest, _digest_shown(shown), is_certain)


def have_same(first: Essence, second: Essence) -> bool | None:
    """`is_same` for two essences."""
    are_certain = first.is_certain and second.is_certain and first.layout == second.layout
    if first.form == second.form == "again" and first.digest and second.digest:
        return False if first.digest != second.digest and are_certain else None
    if "again" in (first.form, second.form):
        return False if first.shown != second.shown and are_certain else None
    if first.form != second.form:
        return False
    if first.digest == second.digest:
        return True
    has_other_preview = first.shown and second.shown and first.shown != second.shown
    return False if are_certain or has_other_preview else None


def _essence_of_parts(data: bytes, shown: str) -> Essence:
    shown_digest = _digest_shown(shown)
    try:
        parts, layout, rest = content_of(bare(data))
    except DecodeError:
        return Essence("parts", _hash("bytes", data), shown_digest, False)
    inside, is_certain = _pickle_digest(rest) if rest else (b"", False)
    is_certain &= not _has_arrow(rest)
    return Essence("parts", _hash("parts", parts, inside), shown_digest, is_certain, layout)


def _digest_shown(shown: str | None) -> bytes:
    """`Essence.shown` of the preview ``shown``."""
    is_masked = encode(MASK)[1:-1] in (shown or "")
    return b"" if is_masked else _hash("shown", (shown or "").encode())


def _has_arrow(data: bytes) -> bool:
    """Whether a pickle may hold memory of Arrow, as of a text of pandas: the bytes of a missing
    value are arbitrary, and a list of the missing values may stand where none is missing."""
    return b"pyarrow" in data or b"polars" in data


def is_same_json(first: str | None, second: str | None) -> bool:
    """Whether two JSON texts have the same value. None stands for a missing text."""
    if first == second or first is None or second is None:
        return first == second
    # The order of names does not change the length.
    return len(first) == len(second) and _sorted(first) == _sorted(second)


def _loaded(text: str | None) -> Any:
    """The value of a JSON text; the text itself if it is not JSON."""
    try:
        return json.loads(text or "null")
    except (ValueError, RecursionError):
        return text


def _sorted(text: str) -> str:
    """A JSON text with its names in order; the text itself if it is too long or not JSON."""
    if len(text) > LONGEST_SORTED:
        return text
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return text


def _pickle_digest(data: bytes) -> tuple[bytes, bool]:
    """The digest of the object that a pickle builds, and whether a different digest means a
    different value."""
    # cloudpickle writes classes and functions with a number that differs in each process.
    is_certain = b"cloudpickle" not in data
    try:
        return _digest(_built(data)), is_certain
    except _Unread:
        return _hash("bytes", data), False


class _Unread(Exception):
    """A pickle whose instructions are not followed."""


class _Node:
    """The object that an instruction builds: its name, its parts, and whether their order
    counts."""

    __slots__ = ("has_order", "name", "parts")

    def __init__(self, name: str, parts: list[Any], has_order: bool = True) -> None:
        self.name = name
        self.parts = parts
        self.has_order = has_order


_MARK = object()

_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_EMPTY = {
    "EMPTY_LIST": "list",
    "EMPTY_TUPLE": "tuple",
    "EMPTY_DICT": "dict",
    "EMPTY_SET": "set",
}
_SIZED = {"TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}
_MARKED = {"TUPLE": "tuple", "LIST": "list", "DICT": "dict", "FROZENSET": "frozenset"}
_TAKES_TWO = {
    "REDUCE": "call",
    "NEWOBJ": "new",
    "STACK_GLOBAL": "global",
    "BUILD": "state",
}
_IGNORED = frozenset({"PROTO", "FRAME", "STOP", "READONLY_BUFFER"})


def _built(data: bytes) -> object:
    """The object that a pickle builds, as nodes. Raises _Unread if it cannot be followed."""
    stack: list[Any] = []
    memo: dict[int, Any] = {}
    try:
        for count, (opcode, argument, _) in enumerate(pickletools.genops(data)):
            if count > MOST_INSTRUCTIONS:
                raise _Unread
            _follow(opcode.name, argument, opcode.stack_before, stack, memo)
        (whole,) = stack
    except (ValueError, LookupError, TypeError) as error:
        raise _Unread from error
    return whole


def _follow(name: str, argument: Any, before: Any, stack: list[Any], memo: dict[int, Any]) -> None:
    """Follow one instruction of a pickle. ``before``: the kinds of objects that it takes from the
    stack."""
    if name in _IGNORED:
        return
    if name in ("MEMOIZE", "BINPUT", "LONG_BINPUT", "PUT"):
        memo[len(memo) if argument is None else int(argument)] = stack[-1]
    elif name in ("BINGET", "LONG_BINGET", "GET"):
        stack.append(memo[int(argument)])
    elif name == "MARK":
        stack.append(_MARK)
    elif name in _CONSTANTS:
        stack.append(_CONSTANTS[name])
    elif name in _EMPTY:
        stack.append(_Node(_EMPTY[name], [], name not in ("EMPTY_DICT", "EMPTY_SET")))
    elif name in _SIZED:
        stack.append(_Node("tuple", [stack.pop() for _ in range(_SIZED[name])][::-1]))
    elif name in _MARKED:
        stack.append(_Node(_MARKED[name], _marked(stack), name not in ("DICT", "FROZENSET")))
    elif name in ("APPENDS", "ADDITEMS", "SETITEMS", "APPEND", "SETITEM"):
        _fill(name, stack)
    elif name in _TAKES_TWO:
        second, first = stack.pop(), stack.pop()
        stack.append(_Node(_TAKES_TWO[name], [first, second]))
    elif name == "NEWOBJ_EX":
        third = stack.pop()
        second = stack.pop()
        first = stack.pop()
        stack.append(_Node("new", [first, second, third]))
    elif name == "GLOBAL":
        stack.append(_Node("global", list(str(argument).split(" ", 1))))
    elif name == "POP":
        stack.pop()
    elif name == "NEXT_BUFFER":  # a buffer, which is compared by its digest
        stack.append(_Node("buffer", []))
    elif not before and argument is not None:  # a constant: a number, a text, bytes
        stack.append(bytes(argument) if isinstance(argument, bytearray) else argument)
    else:
        raise _Unread


def _marked(stack: list[Any]) -> list[Any]:
    """Take the objects above the last mark from the stack, and the mark as well."""
    position = len(stack) - 1
    while stack[position] is not _MARK:
        position -= 1
        if position < 0:
            raise _Unread
    above = stack[position + 1 :]
    del stack[position:]
    return above


def _fill(name: str, stack: list[Any]) -> None:
    """Follow an instruction that adds the last objects of the stack to the container before them."""
    single = {"SETITEM": 2, "APPEND": 1}.get(name)
    parts = _marked(stack) if single is None else [stack.pop() for _ in range(single)][::-1]
    if "SETITEM" in name:
        parts = [_Node("item", list(pair)) for pair in zip(parts[::2], parts[1::2], strict=True)]
    filled = stack[-1]
    if not isinstance(filled, _Node):
        raise _Unread
    if filled.name not in ("list", "dict", "set"):  # an object of a subclass
        stack[-1] = _Node("filled", [filled, *parts])
        return
    filled.parts += parts


def _digest(whole: object) -> bytes:
    """The digest of ``whole``, without recursion. A part that contains itself is not followed."""
    digests: dict[int, bytes] = {}
    visited: list[Any] = []  # so that no other object gets the identity of one
    waiting: list[tuple[Any, bool]] = [(whole, False)]
    open_nodes = set[int]()
    while waiting:
        node, is_ready = waiting.pop()
        if id(node) in digests:
            continue
        visited.append(node)
        if not isinstance(node, _Node):
            digests[id(node)] = _hash("atom", f"{type(node).__name__} ".encode() + _raw(node))
        elif is_ready:
            parts = [digests[id(part)] for part in node.parts]
            open_nodes.discard(id(node))
            digests[id(node)] = _hash(node.name, *(parts if node.has_order else sorted(parts)))
        else:
            if id(node) in open_nodes:
                raise _Unread
            open_nodes.add(id(node))
            waiting.append((node, True))
            waiting += [(part, False) for part in node.parts]
    return digests[id(whole)]


def _raw(atom: object) -> bytes:
    """The bytes of a text, a number, None or bytes; ``?`` for any other object."""
    if isinstance(atom, bytes):
        return atom
    if isinstance(atom, str):
        return atom.encode("utf-8", "surrogatepass")
    return encode(atom).encode() if isinstance(atom, int | float) or atom is None else b"?"


def _hash(name: str, *parts: bytes) -> bytes:
    digest = hashlib.sha256(name.encode())
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return digest.digest()
