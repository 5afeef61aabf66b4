"""The functions of R1, one row each: `FUNCTIONS` is the only place that names them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from ....flow.null_warnings import warn_of_null
from ....flow.sessions.found_json import NoJson, find_json
from ....schemas.shapes import BOOL, NUMBER, TEXT, Shape, either, list_of, literal
from ....text.shorten import shorten
from ....values.json_text import TooLong, write_json
from ....values.times import iso_text
from ....values.value import Value
from ...descend import MISSING, descend
from .account import charge
from .failures import Failure, no_float, not_a_number
from .nodes import Call, Get, Path
from .row import EACH, LIST, Argument, Closure, Env, Function

LONGEST_WRITTEN = 1_000_000
"""The most characters of a value as text, in a prompt and by ``text``."""

Loop = Callable[[Env, list[Value]], Value]
"""The computation of a function with a lambda over its list."""


# In each loop the element becomes the parameter.


def _map(level: int, body: Closure, test: Closure) -> Loop:
    return lambda env, items: [body(env) for env[level] in items]


def _filter(level: int, body: Closure, test: Closure) -> Loop:
    return lambda env, items: [env[level] for env[level] in items if test(env)]


def _find(level: int, body: Closure, test: Closure) -> Loop:
    return lambda env, items: next((env[level] for env[level] in items if test(env)), None)


def _any(level: int, body: Closure, test: Closure) -> Loop:
    return lambda env, items: any(test(env) for env[level] in items)


def _all(level: int, body: Closure, test: Closure) -> Loop:
    return lambda env, items: all(test(env) for env[level] in items)


def _count(node: Call, items: Closure) -> Closure:
    return lambda env: len(items(env))


def _sum(node: Call, numbers: Closure) -> Closure:
    offset = node.offset
    width = len(node.name)

    def total(env: Env) -> Value:
        items = numbers(env)
        charge(len(items), offset, width, env)
        try:
            result = sum(items)
        except OverflowError:
            raise no_float(offset, width) from None
        is_nan = result != result
        if is_nan:
            place = next((place for place, value in enumerate(items) if value != value), None)
            if place is not None:  # else infinities have left no number
                raise not_a_number(node.name, [f"element {place}"], offset)
        return result

    return total


def _join(node: Call, texts: Closure, separator: Closure) -> Closure:
    offset = node.offset
    width = len(node.name)

    def joined(env: Env) -> Value:
        items = texts(env)
        between = separator(env)
        charge(sum(map(len, items)) + len(between) * len(items), offset, width, env)
        return between.join(items)

    return joined


def _parse_json(node: Call, written: Closure) -> Closure:
    offset = node.offset
    width = len(node.name)

    def parsed(env: Env) -> Value:
        text = written(env)
        charge(len(text), offset, width, env)
        try:
            return find_json(text)
        except NoJson as error:
            message = f"{error} in the text {shorten(text)!r}"
            hint = "ask the agent for JSON in its prompt, or give its step a schema"
            raise Failure("r1.no-json", message, offset, width, hint) from None

    return parsed


def _text(node: Call, value_of: Closure) -> Closure:
    offset = node.offset
    width = len(node.name)
    read = node.args[0]
    name = repr(".".join(read.parts)) if type(read) is Path else "a value in text()"

    def text(env: Env) -> str:
        value = value_of(env)
        try:
            written = text_form(value, name)
        except ValueError as problem:
            message = f"the value {problem}"
            hint = "turn it into text in a tool first"
            raise Failure("r1.type", message, offset, width, hint) from None
        charge(len(written), offset, width, env)
        return written

    return text


def text_form(value: Value, name: str = "the value") -> str:
    """The text of a value: a text itself, a date in ISO 8601, any other value as compact JSON.
    ``name``: the word for the value in a warning. Raises ValueError."""
    if type(value) is str:
        return value
    if (text := iso_text(value)) is not None:
        return text
    try:
        written = write_json(value, LONGEST_WRITTEN)
    except TypeError as error:
        raise ValueError(f"has {error} in it, which has no text form") from None
    except TooLong:
        raise
    except (ValueError, RecursionError):  # a number too long to write, or nested too deep
        raise ValueError("is too large to be written as text") from None
    if written.has_nulls:
        warn_of_null(name, value)
    return written.text


def _get(node: Get, base: Closure, default: Closure) -> Closure:
    keys = node.key.split(".")

    def get(env: Env) -> Value:
        value, otherwise = (base(env), default(env))  # the value may fail even if it is not needed
        value = descend(value, keys)
        return otherwise if value is MISSING else value

    return get


def _elements(items: Shape | None) -> Shape | None:
    return items and items.of


_ROWS = (
    Function(
        "map",
        (LIST, EACH),
        lambda items, body: list_of(body),
        _map,
        "the value of the lambda for each element, in order",
    ),
    Function(
        "filter",
        (LIST, EACH),
        lambda items, body: list_of(_elements(items)),
        _filter,
        "the elements for which the lambda is true",
    ),
    Function(
        "all",
        (LIST, EACH),
        lambda items, body: BOOL,
        _all,
        "`true` if the lambda is true for every element, also if the list is empty",
    ),
    Function(
        "any",
        (LIST, EACH),
        lambda items, body: BOOL,
        _any,
        "`true` if the lambda is true for at least one element",
    ),
    Function(
        "find",
        (LIST, EACH),
        lambda items, body: either([_elements(items), literal(None)]),
        _find,
        "the first element for which the lambda is true, or `null`",
    ),
    Function(
        "count",
        (LIST,),
        lambda items: NUMBER,
        _count,
        "the number of elements",
        foreign=("len", "length", "size"),
    ),
    Function(
        "sum",
        (LIST._replace(of="number"),),
        lambda items: NUMBER,
        _sum,
        "the sum of a list of numbers; `0` for an empty list",
    ),
    Function(
        "join",
        (LIST._replace(of="text"), Argument("separator", "text")),
        lambda items, separator: TEXT,
        _join,
        "the texts of a list as one text, with the separator between them",
    ),
    Function(
        "parse_json",
        (Argument("text", "text"),),
        lambda text: None,
        _parse_json,
        "the value of the JSON in a text",
    ),
    Function(
        "text",
        (Argument("value"),),
        lambda value: TEXT,
        _text,
        "the value as text: compact JSON, and a text as it is",
        foreign=("str",),
    ),
    Function(
        "get",
        (Argument("base"), Argument("'a.b'", "path"), Argument("default", optional=True)),
        lambda base, field, default: either([field, default]),
        _get,
        "the value at the path, or the default (`null` if it is left out) if there is none; never an error",
        foreign=("default",),
    ),
)

FUNCTIONS: Mapping[str, Function] = MappingProxyType({row.name: row for row in _ROWS})
"""The functions by name, in the order of the reference."""
EACH_NAMES = tuple(name for name, row in FUNCTIONS.items() if row.second == "lambda")
"""The functions whose second argument is a lambda."""
