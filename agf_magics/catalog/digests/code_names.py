"""Collects the names in a function's code: globals, attributes, imports, bindings, and words of
texts.

pandas and SQL look up the words of some texts as names.
"""

from __future__ import annotations

import dis
import re
import sys
import types
from collections.abc import Iterable, Iterator
from importlib.util import resolve_name
from typing import Any, NamedTuple

_STORES = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL", "STORE_DEREF", "DELETE_DEREF"})
_SETS = frozenset({"STORE_ATTR", "DELETE_ATTR"})
_SETTERS = frozenset({"setattr", "delattr", "vars"})
"""Functions that bind attributes whose names are texts."""

TEXT_READERS = frozenset(
    {
        *("query", "eval", "evaluate", "sql", "execute", "executemany"),
        *("read_sql", "read_sql_query", "read_database", "from_query", "query_df"),
        *("dmatrix", "dmatrices", "from_formula", "ols", "wls", "gls", "glm", "logit", "probit"),
    }
)
"""Functions of libraries that look up the words of a text in the globals of their caller:
``df.query("kg > @LIMIT")``, ``duckdb.sql("from prices")``, ``pd.eval``, formulas."""

_SQL = re.compile(r"\b(from|join|into|update|table|describe|summarize|pivot)\b", re.IGNORECASE)

_WORD = re.compile(r"(?<![\w.])[^\W\d]\w*")

_HAS_DOCSTRING = 0x4000000
"""The flag of code with a docstring, since Python 3.13."""


class Text(NamedTuple):
    """A text that a function has or names."""

    text: str
    local: frozenset[str] = frozenset()
    """The local names of the code that has it and reads it."""


class CodeNames(NamedTuple):
    """The names in a function and its inner functions."""

    read: dict[str, None]
    """The globals that the function reads, in order."""
    bound: set[str]
    """The names and attributes that the function binds to another object: ``global count; count +=
    1``, ``helpers.count = 1``."""
    imported: dict[str, None]
    """The modules that the body of the function imports."""
    texts: list[Text]
    """Its texts, without docstrings."""
    readers: set[str]
    """The functions of `TEXT_READERS` that it names."""


def names_of(function: types.FunctionType) -> CodeNames:
    names = CodeNames({}, set(), {}, [], set())
    for code in _codes_in(function.__code__):
        readers = TEXT_READERS.intersection(code.co_names)
        names.readers.update(readers)
        local = frozenset((*code.co_varnames, *code.co_cellvars) if readers else ())
        constants = code.co_consts[1:] if _has_docstring(code) else code.co_consts
        names.texts.extend(Text(text, local) for text in texts_in(constants))
        steps = list(dis.get_instructions(code))
        for at, step in enumerate(steps):
            if step.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                names.read[step.argval] = None
            elif step.opname in _STORES or step.opname in _SETS:
                names.bound.add(step.argval)
            elif step.opname == "IMPORT_NAME":
                # Python loads the level and the imported names just before.
                level = steps[at - 2].argval
                within = function.__globals__.get("__package__")
                module = resolve_name("." * level + step.argval, within) if level else step.argval
                names.imported[module] = None
    if not _SETTERS.isdisjoint(names.read):
        names.bound.update(words_in(function.__code__))
    defaults = (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values())
    names.texts.extend(map(Text, texts_in(defaults)))
    if "getattr" in names.read:
        names.readers.update(TEXT_READERS & words_in(function.__code__))
    for name in names.read:
        names.readers.update(_reader_names(function.__globals__.get(name)))
    return names


def _reader_names(value: Any) -> Iterator[str]:
    """The names of ``value`` in `TEXT_READERS`, if it is such a function under another name."""
    if isinstance(value, _FUNCTIONS):
        package = sys.modules.get(str(getattr(value, "__module__", "")).partition(".")[0])
        for name in TEXT_READERS:
            # `types` has none of these names: it stands for a package that is not loaded.
            if name == value.__name__ or vars(package or types).get(name) is value:
                yield name


_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)


def _has_docstring(code: types.CodeType) -> bool:
    if sys.version_info >= (3, 13):
        return bool(code.co_flags & _HAS_DOCSTRING)
    # The code of a comprehension has no docstring, and its first constant may be any text.
    return not code.co_name.startswith("<") and isinstance((*code.co_consts, None)[0], str)


def texts_in(values: Iterable[Any]) -> Iterator[str]:
    """The texts in ``values``, and in their tuples, lists and dicts."""
    for value in values:
        if isinstance(value, str):
            yield value
        elif type(value) in (tuple, list, frozenset, set):
            yield from texts_in(part for part in value if part is not value)
        elif type(value) is dict:
            yield from texts_in(part for part in value.values() if part is not value)


def words_of_text(text: Text, readers: set[str]) -> set[str]:
    """The words of a text that ``readers`` may look up as globals. In a condition for the columns
    of a table only words after ``@`` are globals."""
    if readers != {"query"} or _SQL.search(text.text):
        return set(_WORD.findall(text.text)) - text.local
    return set(re.findall(r"@([^\W\d]\w*)", text.text)) - text.local


def words_in(code: types.CodeType) -> frozenset[str]:
    """All names in a function, attributes and strings for ``getattr`` included."""
    words = (word for inner in _codes_in(code) for word in (*inner.co_names, *inner.co_consts))
    return frozenset(word for word in words if isinstance(word, str))


def _codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _codes_in(constant)
