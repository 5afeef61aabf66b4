"""Tests the digests of functions with the annotations, classes and objects that a notebook usually has: each is known,
is the same in every process, and differs after an edit."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest

from agf_magics.catalog.digests.digesting import digest_function, why_no_digest

HEAD = """
import abc, collections, dataclasses, datetime, decimal, enum, functools, logging, operator, pathlib, re, string
import struct, types, typing
import numpy as np
import pandas as pd
import pydantic
from typing import Annotated, Any, Generic, Literal, NamedTuple, NewType, Optional, Protocol, TypedDict, TypeVar, Union
from collections.abc import Callable, Mapping, Sequence
"""

EDITED = {
    # a cell, with what is edited, before and after
    "X | None": ("def f(a: OLD | None) -> OLD: return a", "float", "int"),
    "whether None is allowed": ("def f(a: float OLD): return a", "| None", ""),
    "Optional": ("def f(a: Optional[OLD]): return a", "float", "int"),
    "Union": ("def f(a: Union[int, OLD, None]): return a", "str", "float"),
    "a result": ("def f(a: int) -> OLD | None: return a", "int", "float"),
    "None": ("def f(a: int) -> OLD: return a", "None", "types.NoneType | int"),
    "list[X | None]": ("def f(a: list[OLD | None]): return a", "float", "int"),
    "a default": ("def f(b: str | None = OLD): return b", "None", "'a'"),
    "a helper": ("def h(x: int | None): return OLD\ndef f(a): return h(a)", "1", "2"),
    "a helper's annotation": ("def h(x: OLD | None): return 1\ndef f(a): return h(a)", "int", "str"),
    "a method": ("class C:\n def m(self, x: int | None) -> None: return OLD\ndef f(a): return C().m(a)", "1", "2"),
    "a class method": (
        "class C:\n @classmethod\n def m(cls, x: int | None) -> None: return OLD\ndef f(a): return C.m(a)", "1", "2"),
    "a dataclass": ("@dataclasses.dataclass\nclass D:\n a: OLD | None = None\ndef f(a: D): return a", "int", "str"),
    "a dataclass with slots": (
        "@dataclasses.dataclass(frozen=True, slots=True)\nclass D:\n a: int | None = OLD\ndef f(): return D()",
        "1", "2"),
    "an InitVar": (
        "@dataclasses.dataclass\nclass D:\n a: int | None\n b: dataclasses.InitVar[OLD] = 1\n"
        " def __post_init__(self, b): self.a = b\ndef f(a): return D(a)", "int", "str"),
    "Literal": ("def f(a: Literal['x', OLD, None]): return a", "'y'", "'z'"),
    "Literal of another type": ("def f(a: Literal[OLD]): return a", "1", "True"),
    "Annotated": ("def f(a: Annotated[int | None, pydantic.Field(ge=OLD)]): return a", "1", "2"),
    "Annotated with a text": ("def f(a: Annotated[int | None, 'OLD']): return a", "kg", "m"),
    "TypedDict": ("class T(TypedDict):\n a: OLD | None\ndef f(a: T) -> T: return a", "int", "str"),
    "TypedDict's keys": ("class T(TypedDict, total=OLD):\n a: int\ndef f(a: T): return a", "True", "False"),
    "NotRequired": ("class T(TypedDict):\n a: typing.OLD[int]\ndef f(a: T): return a", "NotRequired", "Required"),
    "NamedTuple": ("class P(NamedTuple):\n a: int\n b: int | None = OLD\ndef f(a): return P(a)", "1", "2"),
    "NamedTuple's method": ("class P(NamedTuple):\n a: int\n def m(self): return OLD\ndef f(a): return P(a)", "1", "2"),
    "a named tuple": (
        "class P(NamedTuple):\n a: int | None = None\nK = P(OLD)\ndef f(): return K", "1", "2"),
    "namedtuple": ("P = collections.namedtuple('P', 'a OLD')\ndef f(a): return P(a, 1)", "b", "c"),
    "namedtuple's defaults": ("P = collections.namedtuple('P', 'a', defaults=(OLD,))\ndef f(): return P()", "1", "2"),
    "Enum": ("class E(enum.Enum):\n A = OLD\n def m(self) -> int | None: return 1\ndef f(a: E): return a", "1", "2"),
    "StrEnum": ("class E(enum.StrEnum):\n A = 'OLD'\ndef f(a: E): return a", "x", "y"),
    "IntEnum": ("class E(enum.IntEnum):\n A = OLD\ndef f(a: E): return a", "1", "2"),
    "Flag": ("class E(enum.Flag):\n A = OLD\ndef f(a: E): return a", "1", "2"),
    "Protocol": ("class P(Protocol):\n def m(self) -> int | None: OLD\ndef f(a: P): return a.m()", "...", "return 1"),
    "a protocol of run time": (
        "@typing.runtime_checkable\nclass P(Protocol):\n OLD: int\ndef f(a): return isinstance(a, P)", "x", "y"),
    "ABC": (
        "class A(abc.ABC):\n @abc.abstractmethod\n def m(self) -> int | None: ...\n"
        "class B(A):\n def m(self): return OLD\ndef f(a): return B().m()", "1", "2"),
    "collections.abc": ("def f(a: OLD[str, int | None], b: Callable[[int], str]): return a", "Mapping", "dict"),
    "Callable": ("def f(a: Callable[[OLD], str | None]): return a", "int", "str"),
    "typing's generics": ("def f(a: typing.List[OLD], b: typing.Dict[str, Any]): return a", "int", "str"),
    "Generic": (
        "T = TypeVar('T')\nclass G(Generic[T]):\n def m(self, x: T) -> T | None: return OLD\n"
        "def f(a): return G[int]().m(a)", "1", "2"),
    "a bound": ("T = TypeVar('T', bound=OLD)\ndef f(a: T) -> T | None: return a", "int", "str"),
    "NewType": ("U = NewType('U', OLD)\ndef f(a: U) -> U | None: return a", "int", "str"),
    "a class that is named in a text": (
        "class A:\n b = OLD\ndef f(a: 'A | None') -> 'list[A]': return a", "1", "2"),
    "a class that is named in a text in a type": ("class A:\n b = OLD\ndef f(a: Optional['A']): return a", "1", "2"),
    "a class that is named in a text in a list": ("class A:\n b = OLD\ndef f(a: list['A']): return a", "1", "2"),
    "a constant of types": ("K = (int, type(None), OLD)\ndef f(a): return isinstance(a, K)", "str", "float"),
    "a model": ("class M(pydantic.BaseModel):\n a: OLD | None = None\ndef f(a: M) -> M: return a", "int", "str"),
    "a model's default": ("class M(pydantic.BaseModel):\n a: int = OLD\ndef f(a): return M(a=a)", "1", "2"),
    "a model's condition": (
        "class M(pydantic.BaseModel):\n a: int = pydantic.Field(1, ge=OLD)\ndef f(a): return M(a=a)", "0", "1"),
    "a model's alias": (
        "class M(pydantic.BaseModel):\n a: int = pydantic.Field(1, alias='OLD')\ndef f(a): return M(a=a)", "b", "c"),
    "a model's factory": (
        "class M(pydantic.BaseModel):\n a: Any = pydantic.Field(default_factory=lambda: OLD)\ndef f(): return M()",
        "1", "2"),
    "a model's description": (
        "class M(pydantic.BaseModel):\n a: int = pydantic.Field(description='OLD')\ndef f(a: M): return a", "b", "c"),
    "a model's configuration": (
        "class M(pydantic.BaseModel):\n model_config = pydantic.ConfigDict(extra='OLD')\n a: int\n"
        "def f(a): return M(a=a)", "forbid", "allow"),
    "a model's keyword": ("class M(pydantic.BaseModel, OLD):\n a: int\ndef f(a): return M(a=a)", "frozen=True", ""),
    "a model's validator": (
        "class M(pydantic.BaseModel):\n a: int\n @pydantic.field_validator('a')\n @classmethod\n"
        " def v(cls, x: int | None): return OLD\ndef f(a): return M(a=a)", "x", "x + 1"),
    "the mode of a validator": (
        "class M(pydantic.BaseModel):\n a: int\n @pydantic.field_validator('a', mode='OLD')\n @classmethod\n"
        " def v(cls, x): return x\ndef f(a): return M(a=a)", "before", "after"),
    "the field of a validator": (
        "class M(pydantic.BaseModel):\n a: int\n b: int\n @pydantic.field_validator('OLD')\n @classmethod\n"
        " def v(cls, x): return x\ndef f(a): return M(a=a)", "a", "b"),
    "a shared validator": (
        "def g(x): return OLD\nclass M(pydantic.BaseModel):\n a: int\n v = pydantic.field_validator('a')(g)\n"
        "def f(a): return M(a=a)", "x", "x + 1"),
    "a model's own validator": (
        "class M(pydantic.BaseModel):\n a: int\n @pydantic.model_validator(mode='after')\n"
        " def v(self): return OLD\ndef f(a): return M(a=a)", "self", "None"),
    "a validator in an annotation": (
        "def g(x): return OLD\nclass M(pydantic.BaseModel):\n a: Annotated[int, pydantic.AfterValidator(g)]\n"
        "def f(a): return M(a=a)", "x", "x + 1"),
    "a serializer": (
        "class M(pydantic.BaseModel):\n a: int\n @pydantic.field_serializer('a')\n"
        " def s(self, x): return OLD\ndef f(a): return M(a=a)", "x", "x + 1"),
    "a computed field": (
        "class M(pydantic.BaseModel):\n a: int\n @pydantic.computed_field\n @property\n"
        " def c(self) -> int: return OLD\ndef f(a): return M(a=a)", "1", "2"),
    "a model's method": (
        "class M(pydantic.BaseModel):\n a: int\n def m(self): return OLD\ndef f(a): return M(a=a).m()", "1", "2"),
    "a private attribute": (
        "class M(pydantic.BaseModel):\n a: int\n _p: int = OLD\ndef f(a): return M(a=a)", "1", "2"),
    "a model in a model": (
        "class N(pydantic.BaseModel):\n b: int = OLD\nclass M(pydantic.BaseModel):\n a: list[N] = []\n"
        "def f(a): return M(a=a)", "1", "2"),
    "a model's base": (
        "class N(pydantic.BaseModel):\n b: int = OLD\nclass M(N):\n a: int\ndef f(a): return M(a=a)", "1", "2"),
    "a generic model": (
        "T = TypeVar('T')\nclass M(pydantic.BaseModel, Generic[T]):\n a: T\ndef f(a): return M[OLD](a=a)",
        "int", "str"),
    "an object of a model": (
        "class M(pydantic.BaseModel):\n a: int\nK = M(a=OLD)\ndef f(): return K.a", "1", "2"),
    "a dataclass of pydantic": (
        "import pydantic.dataclasses as p\n@p.dataclass\nclass M:\n a: int | None = pydantic.Field(1, ge=OLD)\n"
        "def f(a): return M(a=a)", "0", "1"),
    "a validator of a dataclass": (
        "import pydantic.dataclasses as p\n@p.dataclass\nclass M:\n a: int\n @pydantic.field_validator('a')\n"
        " @classmethod\n def v(cls, x): return OLD\ndef f(a): return M(a=a)", "x", "x + 1"),
    "lru_cache": ("@functools.lru_cache(maxsize=3)\ndef h(x): return OLD\ndef f(a): return h(a)", "1", "2"),
    "the size of a cache": ("@functools.lru_cache(maxsize=OLD)\ndef h(x): return 1\ndef f(a): return h(a)", "1", "2"),
    "cache": ("K = OLD\n@functools.cache\ndef h(x): return K\ndef f(a): return h(a)", "1", "2"),
    "a cached method": (
        "class C:\n @functools.cache\n def m(self): return OLD\ndef f(a): return C().m()", "1", "2"),
    "cached_property": (
        "class C:\n @functools.cached_property\n def p(self): return OLD\ndef f(a): return C().p", "1", "2"),
    "singledispatch": (
        "@functools.singledispatch\ndef h(x): return x\n@h.register\ndef _(x: int): return OLD\n"
        "def f(a): return h(a)", "1", "2"),
    "a partial": ("h = functools.partial(int, base=OLD)\ndef f(a): return h(a)", "2", "3"),
    "a pattern": ("K = re.compile('a', OLD)\ndef f(a): return K.sub('', a)", "re.I", "re.S"),
    "a path": ("K = pathlib.Path('OLD')\ndef f(a): return K / a", "a", "b"),
    "a date": ("K = datetime.date(2020, 1, OLD)\ndef f(a): return K", "1", "2"),
    "a decimal": ("K = decimal.Decimal('OLD')\ndef f(a): return K", "1", "2"),
    "a frozenset": ("K = frozenset({'a', OLD})\ndef f(a): return a in K", "'b'", "'c'"),
    "a defaultdict": ("K = collections.defaultdict(OLD)\ndef f(a): return K[a]", "int", "list"),
    "the items of a defaultdict": ("K = collections.defaultdict(int, a=OLD)\ndef f(a): return K[a]", "1", "2"),
    "a Counter": ("K = collections.Counter('OLD')\ndef f(a): return K[a]", "aab", "abb"),
    "a deque": ("K = collections.deque([OLD])\ndef f(a): return K", "1", "2"),
    "the length of a deque": ("K = collections.deque([1], OLD)\ndef f(a): return K", "3", "4"),
    "an OrderedDict": ("K = collections.OrderedDict([OLD])\ndef f(a): return K", "('a', 1)", "('a', 2)"),
    "a view": ("K = types.MappingProxyType({'a': OLD})\ndef f(a): return K[a]", "1", "2"),
    "a namespace": ("K = types.SimpleNamespace(a=OLD)\ndef f(a): return K.a", "1", "2"),
    "itemgetter": ("K = operator.itemgetter('a', OLD)\ndef f(a): return K(a)", "1", "2"),
    "methodcaller": ("K = operator.methodcaller('a', b=OLD)\ndef f(a): return K(a)", "1", "2"),
    "a slice": ("K = slice(OLD, 3)\ndef f(a): return a[K]", "1", "2"),
    "a template": ("K = string.Template('OLD')\ndef f(a): return K.substitute()", "1", "2"),
    "a struct": ("K = struct.Struct('OLD')\ndef f(a): return K.pack(a)", "<i", ">i"),
    "a method of a text": ("K = str.OLD\ndef f(a): return K(a)", "strip", "title"),
    "a sentinel": ("A = object()\nB = OLD\ndef f(a=A): return a is B", "A", "object()"),
    "the name of a logger": ("log = logging.getLogger('OLD')\ndef f(a): log.info(a)", "a", "b"),
    "a dtype": ("K = np.dtype('OLD')\ndef f(a): return a.astype(K)", "i4", "i8"),
    "numpy": ("def f(a: np.ndarray | None) -> OLD: return np.mean(a)", "np.float64", "np.int64"),
    "pandas": ("def f(a: pd.DataFrame | None) -> OLD | None: return pd.concat(a)", "pd.Series", "pd.DataFrame"),
}  # fmt: skip

INCOMPARABLE = {
    # a cell, and the reason
    "a source of random numbers": ("import random\nK = random.Random(1)\ndef f(): return K.random()", "K (a Random "),
    "one of numpy": ("K = np.random.default_rng(1)\ndef f(): return K.random()", "K (a Generator "),
    "an iterator": ("K = iter([1])\ndef f(): return next(K)", "K (a list_iterator "),
    "a lock": ("import threading\nK = threading.Lock()\ndef f(): return K", "K (a lock "),
    "a validator of pydantic": ("K = pydantic.TypeAdapter(int)\ndef f(a): return K.validate_python(a)", "K (a "),
    "a client": ("import httpx\nK = httpx.Client()\ndef f(a): return K.get(a)", "K (a Client "),
    "a model that is not complete": (
        "class M(pydantic.BaseModel):\n a: 'Missing'\ndef f(a): return M(a=a)", "M (a model whose annotations "),
    "classes that are registered": (
        "class A(abc.ABC): pass\nA.register(int)\ndef f(a): return isinstance(a, A)", "A (classes are registered "),
    "a cache of another function": (
        "def g(): return 1\n@functools.wraps(g)\n@functools.cache\ndef h(): return 2\ndef f(): return h()", "h (a "),
    "a logger of one's own": ("log = logging.Logger('a')\ndef f(a): log.info(a)", "log (a Logger "),
}  # fmt: skip


def cell(text: str) -> Callable[..., Any]:
    """A function as a cell of a notebook defines it."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(HEAD + text, "<cell>", "exec", dont_inherit=True), names)
    function: Callable[..., Any] = names["f"]
    return function


@pytest.mark.parametrize("case", EDITED)
def test_the_digest_is_known_and_the_same_until_an_edit(case: str) -> None:
    text, old, new = EDITED[case]
    first, again, edited = (cell(text.replace("OLD", word)) for word in (old, old, new))
    assert why_no_digest(first) == ""
    assert digest_function(first) == digest_function(again)
    assert digest_function(first) is not None
    assert digest_function(first) != digest_function(edited)
    assert digest_function(edited) is not None


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the type statement")
def test_what_a_type_statement_stands_for_counts() -> None:
    text = "type U = OLD | None\ndef f(a: U) -> list[U]: return a"
    assert digest_function(cell(text.replace("OLD", "int"))) == digest_function(cell(text.replace("OLD", "int")))
    assert digest_function(cell(text.replace("OLD", "int"))) != digest_function(cell(text.replace("OLD", "str")))


@pytest.mark.parametrize("case", INCOMPARABLE)
def test_what_cannot_be_compared_is_named(case: str) -> None:
    text, reason = INCOMPARABLE[case]
    assert digest_function(cell(text)) is None
    assert why_no_digest(cell(text)).startswith(reason)
