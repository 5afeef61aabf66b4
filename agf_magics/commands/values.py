"""The values of the words of a line: objects of the notebook, YAML values, files. No text is pasted
into code.
"""

from __future__ import annotations

import json
import keyword
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from ..engine.recording import Recording
from ..lifecycle.past import past_run as kept_runs
from ..lifecycle.past.retried_rows import choose_rows
from ..limits.limits import LIMITS, Limits
from ..text.diagnostics import DefinitionError, Diagnostic, Diagnostics
from ..text.files import read_file
from ..text.names import same_name
from ..text.shorten import shorten
from ..text.source import UNUSABLE, Source, path_error_reason
from ..text.suggestions import join_hints, suggest
from ..text.yaml.nodes import Items, Scalar, plain
from ..text.yaml.reader import documents
from ..values.tables.tables import open_rows
from .line import Option, ParsedLine, check_known
from .options import FOR_ROWS
from .words import Token, line_error

T = TypeVar("T")
D = TypeVar("D")

_MOST_FILES = 1_000
"""Files of a folder that are compared with the name of a missing file."""


class Variables(dict[str, Any]):
    """The variables of a notebook, which a word can name."""

    def __init__(self, names: Mapping[str, Any], in_function: bool = False) -> None:
        super().__init__(names)
        self.in_function = in_function
        """Whether the line is in a function, which sees its own variables, but not those of a
        function around it that it does not name."""


Names = Mapping[str, Any] | None
"""The variables that a word can name; None: a line of a shell, which has none."""


def inputs(parsed: ParsedLine, names: Names) -> dict[str, Any]:
    """The input of ``--input``, updated by each ``--set``."""
    mapping = parsed.word("--input")
    fields = dict(_mapping(mapping, names)) if mapping else {}
    keys = set[str]()
    for word in parsed.words("--set"):
        key, equals, _ = word.text.partition("=")
        if equals and key in keys:
            raise line_error("set", f"--set gives {key!r} twice", word, "keep one of them")
        keys.add(key)
        if not equals or not key.isidentifier():
            name = word.text if word.text.isidentifier() else "name"
            variable = "" if names is None else f", --set {name}=$variable"
            hint = f"write --set {name}=text{variable} or --set '{name}=[a, b]'"
            raise line_error("set", f"--set takes key=value, not {word.text!r}", word, hint)
        fields[same_name(key)] = value(word.part(len(key) + 1, len(word.text)), names)
    return fields


def warn_about_names(parsed: ParsedLine, names: Mapping[str, Any]) -> tuple[Diagnostic, ...]:
    """Warnings for texts that are also the name of a variable, which the author may have meant."""
    if "--quiet" in parsed:
        return ()
    warnings = (_warn_about_name(word, names) for word in parsed.words("--set"))
    return tuple(filter(None, warnings))


def _warn_about_name(word: Token, names: Mapping[str, Any]) -> Diagnostic | None:
    """The warning for one ``key=text``: the text has ``{name}`` in it, or is a name."""
    if _is_quoted(word):
        return None
    key, _, text = word.text.partition("=")
    start = len(key) + 1
    braces = _BRACES.search(text)
    if braces is not None and braces["name"] in names:
        name = braces["name"]
        span = word.locate(start + braces.start(), start + braces.end())
        message = f"{key!r} gets {braces[0]!r} as it is written, not the variable {name}"
        hint = f"write --set {key}=${name} for the variable"
        if braces[0] != text:
            hint = f"make the text in a cell: text = f'…{{{name}}}…', and write --set {key}=$text"
    elif _is_a_persons(text, names) and value(word.part(start, len(word.text)), names) == text:
        span = word.locate(start, len(word.text))
        message = f"{key!r} gets the text {text!r}, not the variable {text}"
        hint = f'write --set {key}=${text} for the variable, --set {key}="{text}" for the text'
    else:
        return None
    return Diagnostic("magic.text", message, span, hint, "warning")


def _is_a_persons(name: str, names: Mapping[str, Any]) -> bool:
    """Whether a name is that of a value that a person has assigned, which ``--set`` could pass."""
    if name not in names or name.startswith("_") or name in ("In", "Out"):
        return False
    return not callable(names[name]) and not isinstance(names[name], ModuleType)


_BRACES = re.compile(r"\{(?P<name>[^\W\d]\w*)\}")


def _is_quoted(word: Token) -> bool:
    """Whether the value of ``key=value`` is in quotes, or the pair."""
    start = word.locate(word.text.find("=") + 1, len(word.text)).start
    return word.span.text[:1] in ("'", '"') or word.span.source.text[start - 1] in ("'", '"')


def near_file(text: str) -> str:
    """The hint for a file that does not exist."""
    path = Path(text)
    try:
        others = [
            str(path.with_name(sibling.name))
            for sibling in islice(path.parent.iterdir(), _MOST_FILES)
            if sibling.is_file()
        ]
    except UNUSABLE:
        others = []
    near = suggest(text, others)
    return join_hints(near, "a path is relative to the current folder") or ""


def value(word: Token, names: Names) -> Any:
    """``$name`` is the object of that name; a text after a bracket or a quote is YAML; any other is
    a scalar, and a number that begins with a zero is a text, as in a CSV file: it is a code."""
    text = word.text
    if names is not None and _VARIABLE.match(text):
        return lookup(word, names)
    if _CODE.match(text):
        return text
    if not text:
        return ""  # the empty text, which YAML would read as null
    problems = Diagnostics()
    lead = "- "  # a list element: a null document would have no node
    nodes = documents(Source("", lead + text), problems)
    if text[:1] in ("{", "[", '"', "'"):
        for problem in problems.errors:
            assert problem.span is not None, "the reader of YAML says where"
            start, end = problem.span.start, problem.span.end
            span = word.locate(max(0, start - len(lead)), max(0, end - len(lead)))
            raise DefinitionError(Diagnostic(problem.code, problem.message, span, problem.hint))
        return plain(nodes[0])[0]
    match nodes:
        # `a: b`, `# c` and `*d` are other YAML, but as an unquoted value they are text.
        case [Items(items=[Scalar(text=read, tag=None) as node])] if read == text:
            return text if problems.errors else node.value
    return text


_VARIABLE = re.compile(r"\$[\w${]*[^\W\d]")
"""``$x``, and ``${x}`` and ``$$x`` of a shell, which are refused; not ``$5``."""
_CODE = re.compile(r"[-+]?0[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?$")


def lookup(word: Token, names: Mapping[str, Any]) -> Any:
    """The notebook's object of that name, which may be written ``$name``."""
    dollar = "$" if word.text.startswith("$") else ""
    name = word.text.removeprefix("$")
    if dollar:
        word = word.part(1, len(word.text))  # else it has its quotes, too
    if not name.isidentifier():
        hint = "assign the value to a variable in a cell above"
        if (bare := name.strip("${}")).isidentifier():
            hint = f"write {dollar}{bare}"
        elif name[:1] in ("{", "["):
            hint = f"{hint}, or give each value in the line: --set NAME=VALUE"
        elif dollar:
            hint += "; quote a text that begins with $ twice: '\"$a\"'"
        takes = "$ takes" if dollar else "this must be"
        raise line_error("variable", f"{takes} the name of a variable, not {name!r}", word, hint)
    written = name
    name = same_name(written)
    if name not in names and written not in names:
        yours = [variable for variable in names if not variable.startswith("_")]
        message = f"the notebook has no variable {name!r}"
        otherwise = "run the cell that sets it first"
        if isinstance(names, Variables) and names.in_function:
            otherwise = (
                f"a magic in a function reads the variables of this function and of the notebook: "
                f"write {name} = {name} in the function if one around it has the variable"
            )
        check_known("unknown-variable", message, word, yours, "", otherwise)
    return names[name if name in names else written]


def new_name(word: Token | None) -> str | None:
    """A name that a variable can have; None without a word."""
    if word is None:
        return None
    if not word.text.isidentifier() or keyword.iskeyword(word.text):
        message = f"{word.text!r} cannot be the name of a variable"
        fitting = re.sub(r"\W", "_", word.text)
        hint = f"write {fitting}" if fitting.isidentifier() else "use letters, digits and _"
        if keyword.iskeyword(fitting):
            hint = f"it is a word of Python: write {fitting}_"
        raise line_error("name", message, word, hint)
    return same_name(word.text)


_ABOVE_0 = math.ulp(0.0)

_NUMBERS = {
    "--wait": ("seconds", _ABOVE_0, "a number of seconds above 0", "60"),
    "--timeout": ("seconds", _ABOVE_0, "a number of seconds above 0", "30"),
    "--max-cost": ("dollars", _ABOVE_0, "a number of US dollars above 0", "0.5"),
    "--prune": ("days", 0.0, "a number of days", "30"),
    "--fail-below": ("count", -math.inf, "a number", "0.9"),
}
"""Of an option: its code, the least value, what it takes, an example."""


_TIMED = re.compile(r"(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>s|sec|m|min|h)")
_SECONDS = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600}


def amount(parsed: ParsedLine, flag: str, default: D) -> float | D:
    """The number of an option in `_NUMBERS`."""
    word = parsed.word(flag)
    if word is None:
        return default
    code, least, about, example = _NUMBERS[flag]
    with suppress(ValueError):
        if least <= (size := float(word.text)) < math.inf:  # never NaN
            return size
    if timed := _TIMED.fullmatch(word.text):
        example = f"{float(timed['number']) * _SECONDS[timed['unit']]:g}"
    raise line_error(code, f"{word.text!r} is not {about}", word, f"write {flag} {example}")


def limits_of(parsed: ParsedLine, limits: Limits) -> Limits:
    """``limits`` with those of the line."""
    on_line: dict[str, Any] = {
        row.name: count(parsed, row.flag, None, least=1)
        if type(row.default) is int
        else amount(parsed, row.flag, None)
        for row in LIMITS
        if row.flag in parsed
    }
    return replace(limits, **on_line)


def count(parsed: ParsedLine, flag: str, default: D, least: int = 0) -> int | D:
    """The whole number of an option, ``least`` or more."""
    word = parsed.word(flag)
    if word is None:
        return default
    is_whole = word.text.isascii() and word.text.isdigit() and len(word.text) < 10
    if not is_whole or int(word.text) < least:
        message = f"{word.text!r} is not a whole number of at least {least}"
        raise line_error("count", message, word, f"write {flag} 12")
    return int(word.text)


def _mapping(word: Token, names: Names) -> Mapping[str, Any]:
    """The input that ``--input`` names: a dict of the notebook, or what a file holds."""
    if "=" in word.text:
        takes = "the name of a dict" if names is not None else "a .json or .yaml file"
        message = f"--input takes {takes}, not {word.text!r}"
        raise line_error("input", message, word, f"write --set '{word.text}'")
    is_file = names is None or word.text.endswith((".json", ".yaml", ".yml"))
    mapping = _file(word) if is_file else lookup(word, names or {})
    if not isinstance(mapping, Mapping) or not all(isinstance(key, str) for key in mapping):
        message = (
            f"--input needs a dict with text keys, and {word.text!r} is a {type(mapping).__name__}"
        )
        hint = 'a file has names and values: {"word": "pear"}'
        if not is_file:
            hint = f"pass a single value with --set key=${word.text.lstrip('$')}"
        raise line_error("input", message, word, hint)
    return mapping


def _file(word: Token) -> Any:
    """The value of a file of JSON or YAML."""
    path = Path(word.text)
    try:
        text = read_file(path).decode("utf-8")
    except UNUSABLE as error:
        message = f"{word.text!r} cannot be read: {path_error_reason(error)}"
        near = near_file(word.text) if isinstance(error, FileNotFoundError) else None
        raise line_error("file", message, word, near) from None
    # JSON first: the reader of definitions is 100 times slower, and its limits are those of a
    # definition. What is wrong with a file only it says well.
    with suppress(*UNUSABLE):
        return json.loads(text, object_pairs_hook=_once_each)
    problems = Diagnostics()
    nodes = documents(Source(str(path), text), problems)
    problems.refuse()
    return plain(nodes[0]) if nodes else None


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("a key is given twice")
    return fields


def reuse_of(parsed: ParsedLine) -> bool | str:
    """The run whose results are reused; True for the last one."""
    word = parsed.word("--reuse")
    if word is None or word.text == "--reuse":
        return word is not None
    return with_place_of(word, lambda: kept_runs.find_past_run(word.text).run_id)


def rows_of(parsed: ParsedLine, names: Names, others: Sequence[Option] = ()) -> object:
    """The table of ``--over`` or ``--retry-failed`` with its options; None without these.
    ``others``: further options that only such a run has."""
    word = parsed.word("--over")
    retried = parsed.word("--retry-failed")
    if word is None and retried is None:
        for option in (*FOR_ROWS, *others):
            if (place := parsed.word(option.flag)) is not None:
                message = f"{option.flag} needs --over"
                raise line_error("needs-over", message, place, "add --over TABLE")
        return None
    counts = {
        name: number
        for name, least in (("limit", 1), ("sample", 1), ("seed", 0), ("repeat", 1), ("width", 1))
        if (number := count(parsed, f"--{name}", None, least)) is not None
    }
    table = _table(word, names) if word is not None else None
    renamed = dict(_read_mapping(mapping) for mapping in parsed.words("--map"))
    return with_place_of(
        retried or word,
        lambda: choose_rows(
            table, retried and retried.text, map=renamed, yes="--yes" in parsed, **counts
        ),
    )


def _table(word: Token, names: Names) -> Any:
    """The table of ``--over``: a file by the end of its name, else an object of the notebook."""
    if names is None or (Path(word.text).suffix and not word.text.startswith("$")):
        with_place_of(word, lambda: open_rows(word.text))
        return word.text
    return lookup(word, names)


RUN_IDS = frozenset({"RUN", "--cancel", "--compare", "--delete", "--retry-failed", "--reuse"})
"""The words of a line that are the id of a run."""


def with_run_ids(parsed: ParsedLine, names: Mapping[str, Any]) -> ParsedLine:
    """The line with the id of a run in the place of ``$run``: a run or an id in a variable."""
    tokens = dict(parsed.tokens)
    for name in RUN_IDS & tokens.keys():
        (word,) = tokens[name]
        if word.text.startswith("$"):
            run = lookup(word, names)
            text = str(getattr(run, "run_id", run))
            span = word.span
            tokens[name] = (Token(text, span, (*(span.start,) * len(text), span.end)),)
    return ParsedLine(parsed.source, tokens)


def scores_of(parsed: ParsedLine, names: Mapping[str, Any]) -> list[Any]:
    """The scores of the line: functions of the notebook, else names of flows."""
    for word in filter(lambda word: re.search(r"[\s(]", word.text), parsed.words("--score")):
        message = f"--score takes the name of a function, not {shorten(word.text)!r}"
        hint = "write it in a cell: def good(output, row): return …, and here --score good"
        raise line_error("name", message, word, hint)
    return [
        lookup(word, names) if word.text.startswith("$") else names.get(word.text, word.text)
        for word in parsed.words("--score")
    ]


def _read_mapping(word: Token) -> tuple[str, str]:
    """The input and the column of ``--map``."""
    name, equals, column = word.text.partition("=")
    if not equals or not name or not column:
        name, column = [*filter(None, re.split("->|[:=]", word.text)), "COLUMN", "COLUMN"][:2]
        hint = (
            f"write --map {name}={column}: the input {name} has the values of the column {column}"
        )
        raise line_error("map", f"--map takes INPUT=COLUMN, not {word.text!r}", word, hint)
    return name, column


def recording_of(word: Token | None) -> Recording | None:
    """The recording that ``--replay`` names."""
    if word is None:
        return None
    # Here: most runs replay nothing.
    from ..lifecycle.recordings.replay import Replay

    return with_place_of(word, lambda: Replay(Path(word.text), of_run=True))


def workers_of(word: Token | None, names: Names, dry: bool = False) -> object:
    """What ``--on`` names, for `RunOptions.on`: a worker backend, the word ``here``, or None
    without the option. A dry run connects to nothing."""
    if word is None or dry:
        return None
    from ..workers.on import find_backend

    return with_place_of(word, lambda: find_backend(word.text, names)) or "here"


def with_place_of(word: Token | None, call: Callable[[], T]) -> T:
    """The result of ``call``; its errors point at this word, if there is one."""
    try:
        return call()
    except DefinitionError as error:
        first, *others = error.diagnostics
    span = first.span or (word.span if word is not None else None)
    raise DefinitionError(replace(first, span=span), *others)
