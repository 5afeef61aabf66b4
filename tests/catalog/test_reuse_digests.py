"""Tests pairs of values and functions whose digests must differ (or be unknown), and pairs whose digests must be
equal."""

from __future__ import annotations

import collections
import datetime
import ipaddress
import pickle
import re
import sys
import tracemalloc
import types
import uuid
import zoneinfo
from collections.abc import Callable
from typing import Annotated, Any

import annotated_types
import numpy
import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from pandas.testing import assert_frame_equal

from agf_magics.catalog.digests.digest import MAX_PARTS
from agf_magics.catalog.digests.digesting import digest_function, digest_value, why_no_digest
from agf_magics.journal.codec.encoding import encode_value


def table(**columns: Any) -> pandas.DataFrame:
    return pandas.DataFrame(columns or {"a": [1, 2]})


def series(values: Any, **more: Any) -> Any:
    return pandas.Series(values, **more)


def with_attrs(frame: Any, **attrs: Any) -> Any:
    frame.attrs.update(attrs)
    return frame


def with_field(schema: Any, **fields: Any) -> Any:
    for name, value in fields.items():
        object.__setattr__(schema, name, value)
    return schema


DAYS = pandas.date_range("2020-01-01", periods=3)
TUPLES, CATEGORIES, PERIODS = pandas.MultiIndex.from_tuples, pandas.Categorical, pandas.period_range


class Sub(numpy.ndarray[Any, Any]):
    pass


class SubFrame(pandas.DataFrame):
    _metadata = ["unit"]  # noqa: RUF012 - as pandas has it


N = collections.namedtuple("N", "a")


class Text(str):
    pass


class Failure(Exception):
    pass


class Dropping:
    def __init__(self, kept: int, dropped: int) -> None:
        self.kept, self.dropped = kept, dropped

    def __getstate__(self) -> Any:
        return {"kept": self.kept}


class Zone(datetime.tzinfo):
    def __init__(self, hours: int) -> None:
        self.hours = hours

    def __repr__(self) -> str:
        return "Zone()"

    def utcoffset(self, when: Any) -> datetime.timedelta:
        return datetime.timedelta(hours=self.hours)


def zoned(hours: int) -> datetime.datetime:
    return datetime.datetime(2020, 1, 1, tzinfo=Zone(hours))  # type: ignore[abstract]


def struct(*names: str, **more: Any) -> Any:
    return numpy.array([(1, 2)], dtype=numpy.dtype([(name, "i4") for name in names], **more))


DIFFERENT: dict[str, tuple[Any, Any]] = {
    "a zone or none": (series(DAYS), series(DAYS.tz_localize("UTC"))),
    "two zones": (series(DAYS.tz_localize("UTC")), series(DAYS.tz_localize("Europe/Berlin").tz_convert("Asia/Tokyo"))),
    "two classes of one zone": (
        series(DAYS.tz_localize(datetime.UTC)), series(DAYS.tz_localize(zoneinfo.ZoneInfo("UTC")))),
    "units of a date": (series(DAYS.as_unit("s")), series(DAYS.as_unit("ms"))),
    "order of categories": (series(CATEGORIES(["a"], ["a", "b"])), series(CATEGORIES(["a"], ["b", "a"]))),
    "ordered categories": (
        series(CATEGORIES(["a"], ["a", "b"])), series(CATEGORIES(["a"], ["a", "b"], ordered=True))),
    "unused categories": (series(CATEGORIES(["a"], ["a"])), series(CATEGORIES(["a"], ["a", "b"]))),
    "name of a series": (series([1], name="a"), series([1], name="b")),
    "name of an index": (table().rename_axis("x"), table().rename_axis("y")),
    "name of the columns": (table().rename_axis(columns="x"), table().rename_axis(columns="y")),
    "names of a MultiIndex": (
        TUPLES([(1, 2)], names=["a", "b"]), TUPLES([(1, 2)], names=["b", "a"])),
    "values of a MultiIndex": (TUPLES([(1, 2)]), TUPLES([(1, 3)])),
    "values of an index": (table(), table().set_index(pandas.Index([1, 0]))),
    "type of an index": (pandas.Index([0, 1]), pandas.Index([0.0, 1.0])),
    "class of an index": (pandas.RangeIndex(2), pandas.Index([0, 1])),
    "freq": (DAYS, pandas.DatetimeIndex(list(DAYS))),
    "type of the labels": (pandas.DataFrame([[1]], columns=[1]), pandas.DataFrame([[1]], columns=["1"])),
    "order of the columns": (table(a=[1], b=[1]), table(b=[1], a=[1])),
    "type of a column": (table(a=[1]), table(a=[1.0])),
    "width of a column": (table(a=numpy.array([1], "i4")), table(a=numpy.array([1], "i8"))),
    "text and number": (series([1, "a"], dtype=object), series(["1", "a"], dtype=object)),
    "None and NaN": (series([None], dtype=object), series([float("nan")], dtype=object)),
    "nullable": (series([1, None], dtype="Int64"), series([1, None], dtype="float64")),
    "what is missing": (series([1, None], dtype="Int64"), series([None, 1], dtype="Int64")),
    "storage of texts": (series(["a"], dtype=object), series(["a"], dtype="str")),
    "missing text": (series(["a", None], dtype="str"), series(["a", "None"], dtype="str")),
    "texts": (series(["ab", "c"], dtype="str"), series(["a", "bc"], dtype="str")),
    "intervals": (
        series(pandas.interval_range(0, 2)), series(pandas.interval_range(0, 2, closed="left"))),
    "periods": (series(PERIODS("2020", periods=2, freq="M")), series(PERIODS("2020", periods=2, freq="D"))),
    "attrs": (table(), with_attrs(table(), unit="kg")),
    "flags": (table(), table().set_flags(allows_duplicate_labels=False)),
    "an attribute": (with_field(table(), unit=1), with_field(table(), unit=2)),
    "a subclass of tables": (with_field(SubFrame({"a": [1]}), unit="kg"), with_field(SubFrame({"a": [1]}), unit="g")),
    "a table and a series": (table(a=[1]), series([1], name="a")),
    "names of fields": (struct("a", "b"), struct("b", "a")),
    "titles of fields": (numpy.zeros(1, [(("t", "a"), "i4")]), numpy.zeros(1, [(("u", "a"), "i4")])),
    "alignment of fields": (struct("a", "b"), struct("a", "b", align=True)),
    "metadata": (numpy.zeros(1, numpy.dtype("i4", metadata={"u": 1})),
                 numpy.zeros(1, numpy.dtype("i4", metadata={"u": 2}))),
    "inner fields": (numpy.zeros(1, [("a", [("b", "i4")])]), numpy.zeros(1, [("a", [("c", "i4")])])),
    "order of bytes": (numpy.array([1], "<i4"), numpy.array([1 << 24], ">i4")),
    "shape": (numpy.zeros((2, 3)), numpy.zeros((3, 2))),
    "a scalar and an array": (numpy.float64(1), numpy.array(1.0)),
    "a scalar and a number": (numpy.float64(1), 1.0),
    "masks": (numpy.ma.array([1, 2], mask=[False, True]), numpy.ma.array([1, 2], mask=[True, False])),
    "masked or not": (numpy.ma.array([1, 2]), numpy.array([1, 2])),
    "a matrix": (numpy.matrix([[1]]), numpy.array([[1]])),
    "a subclass of arrays": (
        with_field(numpy.zeros(1).view(Sub), unit=1), with_field(numpy.zeros(1).view(Sub), unit=2)),
    "objects": (numpy.array([{1}], dtype=object), numpy.array([{2}], dtype=object)),
    "units of times": (numpy.array([1], "M8[s]"), numpy.array([1], "M8[D]")),
    "may be written": (numpy.zeros(1), numpy.frombuffer(bytes(8))),
    "signs of zero": (0.0, -0.0),
    "numbers that are equal": (1, True),
    "a set and a frozenset": ({1}, frozenset({1})),
    "a list and a tuple": ([1], (1,)),
    "order of a dict": ({"a": 1, "b": {1}}, {"b": {1}, "a": 1}),
    "bytes and a bytearray": (b"a", bytearray(b"a")),
    "a text of one's own": (Text("a"), Text("b")),
    "an error of one's own": (Failure(1), Failure(2)),
    "state that is dropped": (Dropping(1, 2), Dropping(1, 3)),
    "long patterns": (re.compile("a" * 300 + "b"), re.compile("a" * 300 + "c")),
    "flags of a pattern": (re.compile("a"), re.compile("a", re.IGNORECASE)),
    "patterns of bytes": (re.compile("a"), re.compile(b"a")),
    "matches": (re.match("a", "ab"), re.match("a", "ac")),
    "a zone of one's own": (zoned(1), zoned(2)),
    "zones": (datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC), datetime.datetime(2020, 1, 1)),
    "fold": (datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 1, fold=1)),
    "a date and a moment": (datetime.date(2020, 1, 1), datetime.datetime(2020, 1, 1)),
    "where a UUID is from": (
        uuid.UUID(int=1), uuid.UUID(int=1, is_safe=uuid.SafeUUID.safe)),
    "named tuples": (N(1), (1,)),
    "counters": (collections.Counter("a"), {"a": 1}),
    "factories": (collections.defaultdict(int, a=1), collections.defaultdict(list, a=1)),
    "deques": (collections.deque([1]), collections.deque([1], maxlen=1)),
    "moments of pandas": (pandas.Timestamp("2020-01-01"), pandas.Timestamp("2020-01-01 00:00:00.000000001")),
    "a moment and its text": (pandas.Timestamp("2020-01-01"), "2020-01-01 00:00:00"),
    "a moment of pandas and of Python": (pandas.Timestamp("2020-01-01"), datetime.datetime(2020, 1, 1)),
    "units of a moment": (pandas.Timestamp("2020-01-01").as_unit("s"), pandas.Timestamp("2020-01-01").as_unit("ns")),
    "zones of a moment": (pandas.Timestamp("2020", tz="UTC"), pandas.Timestamp("2020", tz="Europe/London")),
    "durations of pandas": (pandas.Timedelta(1), pandas.Timedelta(2)),
    "periods of pandas": (pandas.Period("2020-01", "M"), pandas.Period("2020-01-01", "D")),
    "sides of an interval": (pandas.Interval(0, 1), pandas.Interval(0, 1, closed="left")),
    "addresses": (ipaddress.ip_address("10.0.0.1"), ipaddress.ip_interface("10.0.0.1")),
    "ranges": (range(3), range(0, 3, 2)),
    "bytes that may change": (bytearray(b"a"), bytearray(b"b")),
    "namespaces": (types.SimpleNamespace(a=1), types.SimpleNamespace(a=2)),
}  # fmt: skip


@pytest.mark.parametrize("case", DIFFERENT)
def test_the_digest_of_what_differs_differs_or_is_unknown(case: str) -> None:
    first, second = DIFFERENT[case]
    digests = digest_value(first), digest_value(second)
    assert digests[0] is None or digests[0] != digests[1]


EQUAL: dict[str, tuple[Any, Any]] = {
    "moments of pandas": (pandas.Timestamp("2020", tz="UTC"), pandas.Timestamp("2020", tz="UTC")),
    "objects in a column": (
        series([pandas.Timestamp(1), "a"], dtype=object), series([pandas.Timestamp(1), "a"], dtype=object)),
    "periods of pandas": (pandas.Period("2020", "M"), pandas.Period("2020", "M")),
    "addresses": (ipaddress.ip_address("::1"), ipaddress.ip_address("::1")),
    "JSON": ({"a": [1, {"b": []}]}, {"a": [1, {"b": []}]}),
    "tables": (table(a=[1, 2], b=["x", None], c=DAYS[:2]), table(a=[1, 2], b=["x", None], c=DAYS[:2])),
    "tables that were stored": (
        table(a=[1.5, 2], b=["x", "y"]), pickle.loads(pickle.dumps(table(a=[1.5, 2], b=["x", "y"])))),
    "categories": (series(CATEGORIES(["a"], ["a", "b"])), series(CATEGORIES(["a"], ["a", "b"]))),
    "zones": (series(DAYS.tz_localize("UTC")), series(DAYS.tz_localize("UTC"))),
    "nullable": (series([1, None], dtype="Int64"), series([1, None], dtype="Int64")),
    "mixed": (series([1, "a", None], dtype=object), series([1, "a", None], dtype=object)),
    "indexes": (
        TUPLES([(1, "a")], names=["x", None]), TUPLES([(1, "a")], names=["x", None])),
    "order in memory": (numpy.arange(6).reshape(2, 3), numpy.asfortranarray(numpy.arange(6).reshape(2, 3))),
    "views": (numpy.arange(6)[::2], numpy.array([0, 2, 4])),
    "scalars": (numpy.float32(1.5), numpy.float32(1.5)),
    "fields": (struct("a", "b"), struct("a", "b")),
    "sets": ({"a", "b", "c"}, {"c", "b", "a"}),
    "moments": (datetime.datetime(2020, 1, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin")),
                datetime.datetime(2020, 1, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Berlin"))),
    "patterns": (re.compile("a", re.MULTILINE), re.compile("a", re.MULTILINE)),
}  # fmt: skip


@pytest.mark.parametrize("case", EQUAL)
def test_the_digest_of_what_is_the_same_is_the_same(case: str) -> None:
    first, second = EQUAL[case]
    assert digest_value(first) is not None
    assert digest_value(first) == digest_value(second)


def cell(text: str, **given: Any) -> Callable[..., Any]:
    """A function as a cell of a notebook defines it."""
    names: dict[str, Any] = {"__name__": "__main__", **given}
    exec(compile(text, "<cell>", "exec"), names)
    function: Callable[..., Any] = names["f"]
    return function


DATACLASSES = {
    # what differs: the decorator and the body of a dataclass, before and after
    "a default": ("@dataclass", "b: int = 1", "@dataclass", "b: int = 2"),
    "no default": ("@dataclass", "b: int = 1", "@dataclass", "b: int"),
    "a default that is a text": ("@dataclass", "b: str = 'missing'", "@dataclass", "b: str"),
    "a factory": (
        "@dataclass", "b: list = field(default_factory=list)", "@dataclass", "b: list = field(default_factory=dict)"),
    "a factory of one's own": (
        "@dataclass", "b: int = field(default_factory=lambda: 1)",
        "@dataclass", "b: int = field(default_factory=lambda: 2)"),
    "a type": ("@dataclass", "b: int = 1", "@dataclass", "b: float = 1"),
    "the metadata": (
        "@dataclass", "b: int = field(default=1, metadata={'unit': 'm'})",
        "@dataclass", "b: int = field(default=1, metadata={'unit': 'km'})"),
    "a field of no init": ("@dataclass", "b: int = 1", "@dataclass", "b: int = field(default=1, init=False)"),
    "a field of the class": ("@dataclass", "b: int = 1", "@dataclass", "b: typing.ClassVar[int] = 1"),
    "a field of init alone": ("@dataclass", "b: int = 1", "@dataclass", "b: InitVar[int] = 1"),
    "frozen": ("@dataclass", "b: int = 1", "@dataclass(frozen=True)", "b: int = 1"),
    "equality": ("@dataclass", "b: int = 1", "@dataclass(eq=False)", "b: int = 1"),
    "order": ("@dataclass", "b: int = 1", "@dataclass(order=True)", "b: int = 1"),
    "keywords": ("@dataclass", "b: int = 1", "@dataclass(kw_only=True)", "b: int = 1"),
    "repr": ("@dataclass", "b: int = 1", "@dataclass(repr=False)", "b: int = 1"),
    "a hash": ("@dataclass", "b: int = 1", "@dataclass(unsafe_hash=True)", "b: int = 1"),
    "slots": ("@dataclass", "b: int = 1", "@dataclass(slots=True)", "b: int = 1"),
    "a method": ("@dataclass", "b: int = 1\n    def m(self): return 1",
                 "@dataclass", "b: int = 1\n    def m(self): return 2"),
    "what follows": ("@dataclass", "b: int = 1\n    def __post_init__(self): self.b = 1",
                     "@dataclass", "b: int = 1\n    def __post_init__(self): self.b = 2"),
}  # fmt: skip


def dataclasses_of(difference: str) -> tuple[str, str]:
    first_text, first_name, second_text, second_name = DATACLASSES[difference]
    text = "from dataclasses import InitVar, dataclass, field\nimport typing\n{}\nclass A:\n    {}\ndef f(): return A"
    return text.format(first_text, first_name), text.format(second_text, second_name)


KNOWN = {
    **{f"of a dataclass, {difference}": dataclasses_of(difference) for difference in DATACLASSES},
    "a default": ("def f(x=1): return x", "def f(x=2): return x"),
    "a keyword's default": ("def f(*, x=1): return x", "def f(*, x=2): return x"),
    "an annotation": ("def f(x: int): return x", "def f(x: float): return x"),
    "an annotation of parts": ("def f(x: list[int]): return x", "def f(x: list[float]): return x"),
    "an optional one": ("def f(x: int): return x", "def f(x: int | None): return x"),
    "a class that annotates": (
        "class A:\n    b = 1\ndef f(x: A): return x", "class A:\n    b = 2\ndef f(x: A): return x"),
    "a class that annotates by its name": (
        "class A:\n    b = 1\ndef f(x: 'A'): return x", "class A:\n    b = 2\ndef f(x: 'A'): return x"),
    "typing": (
        "import typing\ndef f(x: typing.Literal['a']): return x",
        "import typing\ndef f(x: typing.Literal['b']): return x"),
    "a closure": ("def g(n):\n    return lambda: n\nf = g(1)", "def g(n):\n    return lambda: n\nf = g(2)"),
    "a partial": (
        "import functools\ndef g(n): return n\nf = functools.partial(g, 1)",
        "import functools\ndef g(n): return n\nf = functools.partial(g, 2)"),
    "an attribute of a class": (
        "class A:\n    b = 1\ndef f(): return A.b", "class A:\n    b = 1\ndef f(): return A.b\nA.b = 2"),
    "a metaclass": (
        "class M(type):\n    def __call__(cls): return 1\nclass A(metaclass=M): pass\ndef f(): return A()",
        "class M(type):\n    def __call__(cls): return 2\nclass A(metaclass=M): pass\ndef f(): return A()"),
    "slots": (
        "class A:\n    __slots__ = ('b',)\na = A()\na.b = 1\ndef f(): return a.b",
        "class A:\n    __slots__ = ('b',)\na = A()\na.b = 2\ndef f(): return a.b"),
    "a member": (
        "import enum\nclass A(enum.Enum):\n    B = 1\ndef f(): return A.B",
        "import enum\nclass A(enum.Enum):\n    B = 2\ndef f(): return A.B"),
    "a property": (
        "class A:\n    @property\n    def b(self): return 1\ndef f(): return A().b",
        "class A:\n    @property\n    def b(self): return 2\ndef f(): return A().b"),
    "a base": (
        "class A:\n    b = 1\nclass C(A): pass\ndef f(): return C.b",
        "class A:\n    b = 2\nclass C(A): pass\ndef f(): return C.b"),
    "a bound method": (
        "class A:\n    def __init__(self, n): self.n = n\n    def m(self): return self.n\nf = A(1).m",
        "class A:\n    def __init__(self, n): self.n = n\n    def m(self): return self.n\nf = A(2).m"),
    "a name of another function": (
        "import functools, json\n@functools.wraps(json.dumps)\ndef f(x): return 1",
        "import functools, json\n@functools.wraps(json.dumps)\ndef f(x): return 2"),
    "a list in two places": ("a = [1]\nk = [a, a]\ndef f(): return k", "k = [[1], [1]]\ndef f(): return k"),
    "an empty dict in two places": (
        "a = {}\nk = {'a': [a], 'b': a}\ndef f(): return k", "k = {'a': [{}], 'b': {}}\ndef f(): return k"),
    "the place of a shared list": (
        "a = [1]\nk = [a, [1], a]\ndef f(): return k", "a = [1]\nk = [a, a, [1]]\ndef f(): return k"),
    "a set of constants": ("def f(x): return x in {1, 2}", "def f(x): return x in {1, 3}"),
}  # fmt: skip
UNKNOWN = {
    "a module made by hand": (
        "import types\nm = types.ModuleType('m')\nm.v = 1\ndef f(): return m.v",
        "import types\nm = types.ModuleType('m')\nm.v = 2\ndef f(): return m.v"),
    "one with the name of another": (
        "import types\nm = types.ModuleType('json')\nm.v = 1\ndef f(): return m.v",
        "import types\nm = types.ModuleType('json')\nm.v = 2\ndef f(): return m.v"),
    "a class made by a call": (
        "import dataclasses\nA = dataclasses.make_dataclass('A', [('b', int, 1)])\ndef f(): return A().b",
        "import dataclasses\nA = dataclasses.make_dataclass('A', [('b', int, 2)])\ndef f(): return A().b"),
    "a subclass of partial": (
        "import functools\nclass P(functools.partial): pass\nf = P(int, 1)\nf.n = 1",
        "import functools\nclass P(functools.partial): pass\nf = P(int, 1)\nf.n = 2"),
    "a subclass of property": (
        "class P(property): n = 1\nclass A:\n    b = P(lambda self: 1)\ndef f(): return A().b",
        "class P(property): n = 2\nclass A:\n    b = P(lambda self: 1)\ndef f(): return A().b"),
}  # fmt: skip


LIBRARIES = "import duckdb, functools, polars as pl, pandas as pd, agf_magics as agf\n"
IN_A_TEXT = {
    # a cell with a value, which the function names in a text
    "a condition": "K = VALUE\ndef f(t): return t.query('kg > @K')",
    "a condition of a helper": "K = VALUE\ndef g(t, q): return t.query(q)\ndef f(t): return g(t, 'kg > @K')",
    "a condition in a comprehension": "K = VALUE\ndef f(ts): return [t.query('kg > @K') for t in ts]",
    "a condition that is built": "K = VALUE\ndef f(t, c): return t.query(f'{c} > @K')",
    "a condition in a global": "K = VALUE\nQ = 'kg > @K'\ndef f(t): return t.query(Q)",
    "a condition in a dict": "K = VALUE\nQ = {'a': ['kg > @K']}\ndef f(t): return t.query(Q['a'][0])",
    "a condition in a closure": "K = VALUE\ndef g(q):\n    return lambda t: t.query(q)\nf = g('kg > @K')",
    "a default": "K = VALUE\ndef f(t, q='kg > @K'): return t.query(q)",
    "an attribute of a class": "K = VALUE\nclass T:\n    q = 'kg > @K'\ndef f(t): return t.query(T.q)",
    "a method": "K = VALUE\nclass T:\n    def go(self, t): return t.query('kg > @K')\nT1 = T()\nf = T1.go",
    "a function": "def k(): return VALUE\ndef f(t): return t.query('kg > @k()')",
    "a chain": "K = VALUE\nQ = 'a > @K'\ndef g(t): return t.query(Q)\ndef f(t): return t.eval('@g(1)')",
    "an expression": "K = VALUE\ndef f(t): return t.eval('a + @K')",
    "an expression of pandas": "K = VALUE\ndef f(): return pd.eval('K + 1')",
    "a table for duckdb": "t = pd.DataFrame({'a': [VALUE]})\ndef f(): return duckdb.sql('select sum(a) from t')",
    "a table for its query": "t = pd.DataFrame({'a': [VALUE]})\ndef f(): return duckdb.query('FROM t')",
    "a table for a connection": "t = pd.DataFrame({'a': [VALUE]})\ndef f(c): return c.execute('from t')",
    "a table for another name": "from duckdb import sql as go\nt = pd.Series([VALUE])\ndef f(): return go('from t')",
    "a table for getattr": "t = pd.DataFrame({'a': [VALUE]})\ndef f(): return getattr(duckdb, 'sql')('from t')",
    "a table of polars": "t = pl.DataFrame({'a': [VALUE]})\ndef f(): return pl.sql('select a from t')",
}  # fmt: skip
NOT_IN_A_TEXT = {
    "no such function": "K = VALUE\ndef f(t): return t.filter('kg > @K')",
    "the docstring": "K = VALUE\ndef f(t):\n    'K and @K'\n    return t.query('kg > 1')",
    "a column": "kg = VALUE\ndef f(t): return t.query('kg > 1')",
    "a part of a table": "kg = VALUE\nt = 1\ndef f(): return duckdb.sql('select t.kg from t')",
    "a local name": "t = VALUE\ndef f():\n    t = 1\n    return duckdb.sql('from t')",
    "an object of this package": "at = agf.Limits(timeout=VALUE)\ndef f(t): return t.query('kg > @at')",
    "part of a word": "K = VALUE\ndef f(t): return t.query('kg > @KK')",
}  # fmt: skip
HIDDEN = {
    "its globals": "h = 1\ndef f(): return f.__globals__['h']",
    "the frame": "import sys\nh = 1\ndef f(): return sys._getframe().f_globals['h']",
    "run": "import agf_magics as agf\ndef f(): return agf.run('sub').output",
    "arun": "import agf_magics as agf\nasync def f(): return await agf.arun('sub')",
    "start": "import agf_magics as agf\ndef f(): return agf.start('sub')",
    "rerun": "import agf_magics as agf\ndef f(): return agf.rerun('sub')",
    "resume": "import agf_magics as agf\ndef f(): return agf.resume('sub')",
    "an alias": "import agf_magics\ngo = agf_magics.run\ndef f(): return go('sub')",
    "an imported name": "from agf_magics import run as go\ndef f(): return go('sub')",
    "a name imported inside": "def f():\n    from agf_magics import run as go\n    return go('sub')",
    "a helper": "import agf_magics as agf\ndef g(): return agf.run('sub')\ndef f(): return g()",
    "an object that has it": "import agf_magics as agf\nd = {'go': agf.run}\ndef f(): return d['go']('sub')",
    "a partial": "import agf_magics as agf, functools\nf = functools.partial(agf.run, 'sub')",
    "a tool for agents": "import agf_magics as agf\ndef f(): return agf.agent_tools.run_pipeline('sub')",
}  # fmt: skip


@pytest.mark.parametrize("case", IN_A_TEXT)
def test_what_a_function_names_in_a_text_that_a_library_reads_counts(case: str) -> None:
    text = LIBRARIES + IN_A_TEXT[case]
    first, again, edited = (digest_function(cell(text.replace("VALUE", value))) for value in "112")
    assert first == again
    assert first != edited or first is None
    assert (first is None) is (case == "a table of polars")  # as in every function that names one


@pytest.mark.parametrize("case", NOT_IN_A_TEXT)
def test_other_words_of_texts_do_not_count(case: str) -> None:
    first, edited = (digest_function(cell(LIBRARIES + NOT_IN_A_TEXT[case].replace("VALUE", value))) for value in "12")
    assert first is not None
    assert first == edited


@pytest.mark.parametrize("case", HIDDEN)
def test_a_function_that_reads_what_it_does_not_name_or_runs_a_flow_is_unknown(case: str) -> None:
    assert digest_function(cell(HIDDEN[case])) is None
    assert why_no_digest(cell(HIDDEN[case]))


def test_a_function_may_use_the_package_without_running_a_flow() -> None:
    text = "import agf_magics as agf\ndef f(x): raise agf.StepError(agf.Diagnostic('a.b', 'no'))"
    assert digest_function(cell(text)) is not None


@pytest.mark.parametrize("case", [*KNOWN, *UNKNOWN])
def test_the_digest_of_another_function_is_another_or_unknown(case: str) -> None:
    first_cell, second_cell = {**KNOWN, **UNKNOWN}[case]
    digests = digest_function(cell(first_cell)), digest_function(cell(second_cell))
    assert digests[0] is None or digests[0] != digests[1]


@pytest.mark.parametrize("case", KNOWN)
def test_the_digest_of_the_same_cell_is_known_and_the_same(case: str) -> None:
    cell_text, _ = KNOWN[case]
    assert digest_function(cell(cell_text)) is not None
    assert digest_function(cell(cell_text)) == digest_function(cell(cell_text))


def test_a_module_that_the_notebook_made_is_not_taken_for_an_installed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("made_by_hand")
    monkeypatch.setitem(sys.modules, "made_by_hand", module)
    assert digest_function(cell("def f():\n    import made_by_hand\n    return made_by_hand.v")) is None
    assert digest_function(cell("def f(): return m.v", m=module)) is None
    assert digest_function(cell("def f(): return d['m'].v", d={"m": module})) is None


def test_what_is_put_into_an_installed_module_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    text = "import json\ndef f(x): return json.dumps(x)"
    before = digest_function(cell(text))
    monkeypatch.setattr("json.dumps", cell("def f(x): return 'patched'"))
    assert before is not None
    assert digest_function(cell(text)) != before


def test_what_a_class_annotates_an_argument_with_counts() -> None:
    def limited(most: int) -> Callable[..., Any]:
        def f(x: Any) -> None: ...

        f.__annotations__["x"] = Annotated[int, annotated_types.Gt(most)]
        return f

    assert digest_function(limited(1)) is None or digest_function(limited(1)) != digest_function(limited(2))


COLUMNS = st.sampled_from(["a", "b", 1, 1.0, None, True])
KINDS = st.sampled_from(["i4", "i8", "f4", "f8", "?", "M8[s]", "M8[ns]", "m8[s]", "U2", "S2", "u1"])
PLAIN = arrays.arrays(KINDS, 2, elements={"allow_nan": True}, fill=st.nothing())
ODD = st.lists(st.sampled_from([None, 1, 1.0, True, "1", "", float("nan"), (1,), b"1"]), min_size=2, max_size=2)
FANCY: list[Callable[[], Any]] = [
    lambda: CATEGORIES(["a", "b"], ["b", "a"]), lambda: CATEGORIES(["a", "b"], ["a", "b"]),
    lambda: pandas.array([1, None], dtype="Int64"), lambda: pandas.array([1, None], dtype="Int32"),
    lambda: pandas.array(["a", None], dtype="str"), lambda: pandas.array(["a", None], dtype="string"),
    lambda: DAYS[:2], lambda: DAYS[:2].tz_localize("UTC"), lambda: DAYS[:2].tz_localize("Asia/Tokyo"),
    lambda: PERIODS("2020", periods=2, freq="M"), lambda: pandas.interval_range(0, 2),
    lambda: pandas.arrays.SparseArray([0, 1]),
]  # fmt: skip
ONE = st.one_of(
    PLAIN, ODD.map(lambda values: pandas.array(values, dtype=object)), st.sampled_from(FANCY).map(lambda f: f())
)
INDEXES = st.sampled_from([
    pandas.RangeIndex(2), pandas.Index([0, 1]), pandas.Index([0, 1], name="n"), pandas.Index(["0", "1"]),
    pandas.Index([0.0, 1.0]), DAYS[:2], pandas.DatetimeIndex(list(DAYS[:2])), DAYS[:2].tz_localize("UTC"),
    TUPLES([(0, 1), (1, 1)]), TUPLES([(0, 1), (1, 1)], names=["a", "b"]),
    pandas.CategoricalIndex(["a", "b"]),
])  # fmt: skip


@st.composite
def frames(draw: st.DrawFn) -> Any:
    columns: list[Any] = draw(st.lists(ONE, min_size=0, max_size=3))
    frame: Any = (
        pandas.concat([series(column) for column in columns], axis=1) if columns else pandas.DataFrame(index=range(2))
    )
    frame.columns = pandas.Index(
        [draw(COLUMNS) for _ in columns], dtype=object, name=draw(st.sampled_from([None, "x"]))
    )
    frame.index = draw(INDEXES)
    return frame


@given(frames(), frames())
def test_tables_with_equal_digests_are_equal(first: pandas.DataFrame, second: pandas.DataFrame) -> None:
    digest = digest_value(first)
    assert digest is None or digest == digest_value(first.copy())
    if digest is not None and digest == digest_value(second):
        assert_frame_equal(first, second, check_exact=True, check_index_type=True, check_column_type=True)
        # Names, freq and categories are compared unless it is told otherwise.


@given(PLAIN, PLAIN)
def test_arrays_with_equal_digests_are_equal(first: Any, second: Any) -> None:
    if digest_value(first) == digest_value(second):
        assert first.dtype == second.dtype
        assert first.tobytes() == second.tobytes()
    assert digest_value(first) == digest_value(first.copy(order="F")) is not None


BIG = numpy.zeros(4_000_000)
LARGE: dict[str, Any] = {
    "an array": BIG,
    "a table": pandas.DataFrame({"a": BIG, "b": BIG}),
    "a series": pandas.Series(BIG),
    "a column of objects": pandas.DataFrame({"t": ["text"] * 1_000_000}),
    "text columns": pandas.DataFrame({"t": pandas.array(["text"] * 1_000_000, dtype="string")}),
    "a table in a list": [pandas.DataFrame({"a": BIG})],
}


@pytest.mark.parametrize("name", LARGE)
def test_a_value_above_the_limit_has_no_digest_and_is_not_copied(name: str) -> None:
    tracemalloc.start()
    try:
        assert digest_value(LARGE[name], most=1_000_000) is None
        assert tracemalloc.get_traced_memory()[1] < 3_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("name", LARGE)
def test_a_value_above_the_limit_is_not_stored_and_not_copied(name: str) -> None:
    tracemalloc.start()
    try:
        assert encode_value(LARGE[name], 1_000_000).form == "again"
        assert tracemalloc.get_traced_memory()[1] < 5_000_000
    finally:
        tracemalloc.stop()


def test_a_function_may_refer_to_json_of_any_number_of_parts() -> None:
    assert digest_function(cell("def f(): return numbers", numbers=[0] * (MAX_PARTS + 1))) is not None


def test_a_function_that_refers_to_a_large_table_has_no_fingerprint() -> None:
    table = LARGE["a table"]

    def total() -> float:
        return float(table["a"].sum())

    assert digest_function(total) is not None
    assert digest_function(total, most=1_000_000) is None
