"""Whether two stored values are the same, as far as their bytes say it; nothing is unpickled.

Two pickles of one value may differ: a text that two places share is written once, and the elements
of a set have the order of this process. So of pickles that differ in their bytes the instructions
are read, as data: what they build is compared, and nothing of it is built. JSON is compared without
the order of names.

A value of which only a preview is stored is compared with nothing. Previews that differ are those of
different values; equal ones say nothing.
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
"""Characters of a JSON text whose names are sorted."""
MOST_INSTRUCTIONS = 200_000
"""Instructions of a pickle that are read; of a longer one only the bytes count."""


class Stored(Protocol):
    """A value in the journal, or as it would be there."""

    @property
    def form(self) -> str | None: ...
    @property
    def data(self) -> str | bytes | None: ...
    @property
    def shown(self) -> str | None: ...


class Essence(NamedTuple):
    """What is remembered of a stored value to compare it with others."""

    form: str | None
    digest: bytes
    """Of what it says: the same for two texts or pickles of one value."""
    shown: bytes
    """The digest of its preview."""
    is_certain: bool = True
    """Whether another digest means another value."""
    layout: str = ""
    """The sizes of its parts: values of other ones are compared by their digests only if equal."""


def is_same(first: Stored, other: Stored) -> bool | None:
    """Whether both are the same value; None: what is stored does not say it."""
    if first.form == other.form != "again" and first.data == other.data:
        return True
    return have_same(essence(first), essence(other))


def essence(stored: Stored) -> Essence:
    """What `have_same` compares."""
    data = stored.data
    shown = stored.shown
    is_certain = True
    if stored.form == "json" and isinstance(data, str | None):
        digest = _hash("json", _sorted(data or "").encode("utf-8", "surrogatepass"))
        shown = encode(preview(_loaded(data)))
    elif stored.form == "pickle" and isinstance(data, bytes):
        digest, is_certain = _pickle_digest(bare(data))
    elif stored.form == "parts" and isinstance(data, bytes):
        return _essence_of_parts(data, shown or "")
    else:
        digest, is_certain = b"", encode(MASK)[1:-1] not in (shown or "")
        if isinstance(data, bytes):  # `Print.contents` of what is not stored
            shown_digest = _hash("shown", (shown or "").encode())
            return Essence("again", data[CONTENTS:], shown_digest, True, data[:CONTENTS].hex())
    return Essence(stored.form, digest, _hash("shown", (shown or "").encode()), is_certain)


def have_same(first: Essence, other: Essence) -> bool | None:
    """As `is_same`."""
    are_certain = first.is_certain and other.is_certain and first.layout == other.layout
    if first.form == other.form == "again" and first.digest and other.digest:
        return False if first.digest != other.digest and are_certain else None
    if "again" in (first.form, other.form):
        return False if first.shown != other.shown and are_certain else None
    if first.form != other.form:
        return False
    if first.digest == other.digest:
        return True
    return False if are_certain else None


def _essence_of_parts(data: bytes, shown: str) -> Essence:
    shown_digest = _hash("shown", shown.encode())
    try:
        parts, layout, rest = content_of(bare(data))
    except DecodeError:
        return Essence("parts", _hash("bytes", data), shown_digest, False)
    inside, is_certain = _pickle_digest(rest) if rest else (b"", False)
    # A missing value of Arrow has any bytes in its place.
    is_certain &= b"pyarrow" not in rest and b"polars" not in rest
    return Essence("parts", _hash("parts", parts, inside), shown_digest, is_certain, layout)


def is_same_json(first: str | None, other: str | None) -> bool:
    """Whether two JSON texts are the same value; None: there is none."""
    if first == other or first is None or other is None:
        return first == other
    # The order of names does not change the length.
    return len(first) == len(other) and _sorted(first) == _sorted(other)


def _loaded(text: str | None) -> Any:
    try:
        return json.loads(text or "null")
    except (ValueError, RecursionError):
        return text


def _sorted(text: str) -> str:
    if len(text) > LONGEST_SORTED:
        return text
    try:
        return json.dumps(json.loads(text), sort_keys=True)
    except (ValueError, RecursionError):
        return text


def _pickle_digest(data: bytes) -> tuple[bytes, bool]:
    """The digest of what a pickle builds, and whether another one means another value."""
    # cloudpickle writes a class or a function out, with a number of its own for each process.
    is_certain = b"cloudpickle" not in data
    try:
        return _digest(_built(data)), is_certain
    except _Unread:
        return _hash("bytes", data), False


class _Unread(Exception):
    """A pickle whose instructions are not followed."""


class _Node:
    """What an instruction builds: its name, its parts, and whether their order counts."""

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
    """What a pickle builds, as nodes."""
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
    """Follow one instruction. ``before``: what it takes from the stack."""
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
    elif name == "NEXT_BUFFER":  # a part, which is compared by its digest
        stack.append(_Node("buffer", []))
    elif not before and argument is not None:  # a number, a text, bytes
        stack.append(bytes(argument) if isinstance(argument, bytearray) else argument)
    else:
        raise _Unread


def _marked(stack: list[Any]) -> list[Any]:
    """What lies above the last mark, which is taken off too."""
    place = len(stack) - 1
    while stack[place] is not _MARK:
        place -= 1
        if place < 0:
            raise _Unread
    above = stack[place + 1 :]
    del stack[place:]
    return above


def _fill(name: str, stack: list[Any]) -> None:
    single = {"SETITEM": 2, "APPEND": 1}.get(name)
    parts = _marked(stack) if single is None else [stack.pop() for _ in range(single)][::-1]
    if "SETITEM" in name:
        parts = [_Node("item", list(pair)) for pair in zip(parts[::2], parts[1::2], strict=True)]
    filled = stack[-1]
    if not isinstance(filled, _Node):
        raise _Unread
    if filled.name not in ("list", "dict", "set"):  # an object that is one of these
        stack[-1] = _Node("filled", [filled, *parts])
        return
    filled.parts += parts


def _digest(whole: object) -> bytes:
    """The digest of what was built, without recursion; a part that contains itself is not read."""
    digests: dict[int, bytes] = {}
    held: list[Any] = []  # so that no other object gets the identity of one
    left: list[tuple[Any, bool]] = [(whole, False)]
    open_nodes = set[int]()
    while left:
        node, is_ready = left.pop()
        if id(node) in digests:
            continue
        held.append(node)
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
            left.append((node, True))
            left += [(part, False) for part in node.parts]
    return digests[id(whole)]


def _raw(atom: object) -> bytes:
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
