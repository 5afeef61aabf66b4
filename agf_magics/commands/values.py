"""Reads the values that the words of a line stand for: objects of the notebook, YAML values and
files.

A word is never pasted into code.
"""

from __future__ import annotations

import keyword
import math
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from inspect import isfunction
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
from ..text.placed import PlacedText
from ..text.replaced_file import refuse_same_file
from ..text.shorten import shorten
from ..text.source import UNUSABLE, Source, path_error_reason
from ..text.suggestions import join_hints, suggest
from ..text.yaml.nodes import Items, Scalar, plain
from ..text.yaml.reader import documents
from ..values.once_each import read_once_each
from ..values.tables.tables import open_rows
from ..values.value import type_name
from .line import Option, ParsedLine, check_known
from .options import FOR_ROWS
from .words import Token, line_error

T = TypeVar("T")
D = TypeVar("D")

_MOST_FILES = 1_000
"""The largest number of files of a folder whose names are compared with the name of a missing file.
"""


class Variables(dict[str, Any]):
    """The variables of a notebook by their names. A word of a line can name them."""

    def __init__(self, names: Mapping[str, Any], in_function: bool = False) -> None:
        super().__init__(names)
        self.in_function = in_function
        """Whether the line is inside a function. The line then sees the variables of this function,
        but not those of an outer function, unless the inner function uses them."""


Names = Mapping[str, Any] | None
"""The variables that a word can name. None: the line is from a shell, which has no variables."""


def inputs(parsed: ParsedLine, names: Names) -> dict[str, Any]:
    """The input of ``--input``, updated by the pair of each ``--set``."""
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
    """Warnings for the texts of ``--set`` that are also the name of a variable. The author may have
    meant the variable."""
    if "--quiet" in parsed:
        return ()
    warnings = (_warn_about_name(word, names) for word in parsed.words("--set"))
    return tuple(filter(None, warnings))


def _warn_about_name(word: Token, names: Mapping[str, Any]) -> Diagnostic | None:
    """The warning for one ``key=text`` whose text contains ``{name}`` or is the name of a variable;
    None for any other."""
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
    """Whether ``name`` is a variable that the user has assigned and that ``--set`` could pass."""
    if name not in names or name.startswith("_") or name in ("In", "Out"):
        return False
    return not callable(names[name]) and not isinstance(names[name], ModuleType)


_BRACES = re.compile(r"\{(?P<name>[^\W\d]\w*)\}")
"""A name in braces, as in an f-string or in a line of IPython."""


def _is_quoted(word: Token) -> bool:
    """Whether the value of ``key=value`` is in quotes, or the whole pair."""
    start = word.locate(word.text.find("=") + 1, len(word.text)).start
    return word.span.text[:1] in ("'", '"') or word.span.source.text[start - 1] in ("'", '"')


def near_file(text: str) -> str:
    """The hint for a missing file: the names of similar files in its folder."""
    path = Path(text)
    try:
        other_files = [
            str(path.with_name(sibling.name))
            for sibling in islice(path.parent.iterdir(), _MOST_FILES)
            if sibling.is_file()
        ]
    except UNUSABLE:
        other_files = []
    near = suggest(text, other_files)
    return join_hints(near, "a path is relative to the current folder") or ""


def value(word: Token, names: Names) -> Any:
    """Read the value of ``word``. ``$name`` is the notebook's object of this name. A text that
    begins with a bracket or a quote is YAML. Any other text is a scalar; a number with a leading
    zero is a code and stays a text, as in a CSV file."""
    text = word.text
    if names is not None and _VARIABLE.match(text):
        return lookup(word, names)
    if _CODE.match(text):
        return text
    if not text:
        return ""  # YAML would read null
    problems = Diagnostics()
    lead = "- "  # reads an element of a list, because a null document has no node
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
"""The start of ``$x``. It also matches ``${x}`` and ``$$x``, which `lookup` refuses, but not
``$5``."""
_CODE = re.compile(r"[-+]?0[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?$")
"""A number with a leading zero, such as the code 007."""


def lookup(word: Token, names: Mapping[str, Any]) -> Any:
    """The notebook's object of the name in ``word``, with or without a ``$`` before the name."""
    dollar = "$" if word.text.startswith("$") else ""
    name = word.text.removeprefix("$")
    if dollar:
        word = word.part(1, len(word.text))  # the place of the name without the quotes
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
        variables = [variable for variable in names if not variable.startswith("_")]
        message = f"the notebook has no variable {name!r}"
        otherwise = "run the cell that sets it first"
        if isinstance(names, Variables) and names.in_function:
            otherwise = (
                f"a magic in a function reads the variables of this function and of the notebook: "
                f"write {name} = {name} in the function if one around it has the variable"
            )
        check_known("unknown-variable", message, word, variables, "", otherwise)
    return names[name if name in names else written]


def new_name(word: Token | None) -> str | None:
    """The word as the name of a new variable; None if there is no word."""
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
"""The least number above 0."""

_NUMBERS = {
    "--wait": ("seconds", _ABOVE_0, "a number of seconds above 0", "60"),
    "--timeout": ("seconds", _ABOVE_0, "a number of seconds above 0", "30"),
    "--max-cost": ("dollars", _ABOVE_0, "a number of US dollars above 0", "0.5"),
    "--prune": ("days", 0.0, "a number of days", "30"),
    "--fail-below": ("count", -math.inf, "a number", "0.9"),
}
"""The code of the error, the least value, the description and an example of each option that takes
a number."""


_WITH_UNIT = re.compile(r"(?P<sign>\$?)(?P<number>[0-9]+(?:\.[0-9]+)?)(?P<unit>[a-z$%]*)", re.I)
_SECONDS = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86_400}
_UNITS: Mapping[str, Mapping[str, float]] = {
    "seconds": _SECONDS,
    "days": {**{unit: seconds / 86_400 for unit, seconds in _SECONDS.items()}, "w": 7},
    "dollars": dict.fromkeys(("", "$", "usd"), 1),
    "count": {"%": 0.01},
}
"""What a person may write behind a number, and how much of the option's own unit it is, by the code
of the error."""


def amount(parsed: ParsedLine, flag: str, default: D) -> float | D:
    """The number of an option in `_NUMBERS`; ``default`` if the line does not have the option."""
    word = parsed.word(flag)
    if word is None:
        return default
    code, least, about, example = _NUMBERS[flag]
    with suppress(ValueError):
        if least <= (size := float(word.text)) < math.inf:  # never NaN
            return size
    if written := _WITH_UNIT.fullmatch(word.text):
        size = float(written["number"]) * _UNITS.get(code, {}).get(written["unit"].lower(), 0)
        if size >= least and (code == "dollars" or not written["sign"]):
            example = f"{size:.10g}"
    raise line_error(code, f"{word.text!r} is not {about}", word, f"write {flag} {example}")


def limits_of(parsed: ParsedLine, limits: Limits) -> Limits:
    """``limits``, updated by the limits that the line sets."""
    on_line: dict[str, Any] = {
        row.name: count(parsed, row.flag, None, least=1)
        if type(row.default) is int
        else amount(parsed, row.flag, None)
        for row in LIMITS
        if row.flag in parsed
    }
    return replace(limits, **on_line)


def count(parsed: ParsedLine, flag: str, default: D, least: int = 0) -> int | D:
    """The whole number of an option, at least ``least``; ``default`` if the line does not have the
    option."""
    word = parsed.word(flag)
    if word is None:
        return default
    is_whole = word.text.isascii() and word.text.isdigit() and len(word.text) < 10
    if not is_whole or int(word.text) < least:
        message = f"{word.text!r} is not a whole number of at least {least}"
        raise line_error("count", message, word, f"write {flag} 12")
    return int(word.text)


INPUT_FILES = (".json", ".yaml", ".yml")
"""The suffixes of the files that ``--input`` reads."""


def _mapping(word: Token, names: Names) -> Mapping[str, Any]:
    """The input that ``--input`` names: a dict of the notebook, or the content of a file."""
    if "=" in word.text:
        takes = "the name of a dict" if names is not None else "a .json or .yaml file"
        message = f"--input takes {takes}, not {word.text!r}"
        raise line_error("input", message, word, f"write --set '{word.text}'")
    is_file = names is None or word.text.endswith(INPUT_FILES)
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
    """The value in a file of JSON or YAML."""
    path = Path(word.text)
    try:
        text = read_file(path).decode("utf-8")
    except UNUSABLE as error:
        message = f"{word.text!r} cannot be read: {path_error_reason(error)}"
        near = near_file(word.text) if isinstance(error, FileNotFoundError) else None
        raise line_error("file", message, word, near) from None
    # Try JSON first: the reader of definitions is 100 times slower and has the limits of
    # definitions. If JSON fails, that reader explains what is wrong with the file.
    with suppress(*UNUSABLE):
        return read_once_each(text)
    problems = Diagnostics()
    nodes = documents(Source(str(path), text), problems)
    problems.refuse()
    if len(nodes) > 1:
        message = f"{word.text!r} has {len(nodes):,} documents, and --input takes one"
        raise line_error("input", message, word)
    return plain(nodes[0]) if nodes else None


def reuse_of(parsed: ParsedLine) -> bool | str:
    """The id of the run whose results are reused. True: results of the last runs; False: none."""
    word = parsed.word("--reuse")
    if word is None or word.text == "--reuse":
        return word is not None
    return with_place_of(word, lambda: kept_runs.find_past_run(word.text).run_id)


WRITTEN = ("--save", "--figures", "--report", "--record")
"""The options with the files that a run over a table writes."""


def rows_of(parsed: ParsedLine, names: Names, others: Sequence[Option] = ()) -> object:
    """The table of ``--over`` or ``--retry-failed`` with its options; None if the line has neither.
    ``others``: more options that are allowed only with a table."""
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
    if isinstance(table, str):
        for target in (word for flag in WRITTEN for word in parsed.words(flag)):
            with_place_of(target, partial(refuse_same_file, Path(target.text), Path(table)))
    renamed = dict(_read_mapping(mapping) for mapping in parsed.words("--map"))
    return with_place_of(
        retried or word,
        lambda: choose_rows(
            table, retried and retried.text, map=renamed, yes="--yes" in parsed, **counts
        ),
    )


def _table(word: Token, names: Names) -> Any:
    """The table of ``--over``: a file if the word ends like a file name, else an object of the
    notebook."""
    if names is None or (Path(word.text).suffix and not word.text.startswith("$")):
        with_place_of(word, lambda: open_rows(word.text))
        return word.text
    return lookup(word, names)


RUN_IDS = frozenset({"RUN", "--cancel", "--compare", "--delete", "--retry-failed", "--reuse"})
"""The operands and options that take the id of a run."""


def with_run_ids(parsed: ParsedLine, names: Mapping[str, Any]) -> ParsedLine:
    """Replace each ``$variable`` that stands for a run by the id of the run. The variable holds a
    run or its id."""
    tokens = dict(parsed.tokens)
    for name in RUN_IDS & tokens.keys():
        (word,) = tokens[name]
        if word.text.startswith("$"):
            run = lookup(word, names)
            text, span = getattr(run, "run_id", run), word.span
            if not isinstance(text, str):
                message = f"{word.text} is {type_name(run)}, not a run"
                hint = (
                    f"%runs lists the runs; --out {word.text.removeprefix('$')} keeps a run in it"
                )
                raise line_error("variable", message, word, hint)
            tokens[name] = (Token(text, span, (*(span.start,) * len(text), span.end)),)
    return ParsedLine(parsed.source, tokens)


def scores_of(parsed: ParsedLine, names: Mapping[str, Any], flows: Collection[str]) -> list[Any]:
    """The scores of the line: functions of the notebook, or the names of ``flows``."""
    for word in filter(lambda word: re.search(r"[\s(]", word.text), parsed.words("--score")):
        message = f"--score takes the name of a function, not {shorten(word.text)!r}"
        hint = "write it in a cell: def good(output, row): return …, and here --score good"
        raise line_error("name", message, word, hint)
    return [_score(word, names, flows) for word in parsed.words("--score")]


def _score(word: Token, names: Mapping[str, Any], flows: Collection[str]) -> Any:
    if word.text.startswith("$"):
        return lookup(word, names)
    if word.text not in names and word.text not in flows:
        functions = [name for name, value in names.items() if _may_score(name, value)]
        hint = suggest(word.text, [*functions, *flows], "functions and flows")
        otherwise = "write it in a cell: def good(output, row): return …, and here --score good"
        message = f"no function and no flow is called {shorten(word.text)!r}"
        raise DefinitionError(Diagnostic("score.kind", message, word.span, hint or otherwise))
    return names.get(word.text, word.text)


def _may_score(name: str, value: object) -> bool:
    """Whether a variable is probably a function of the person."""
    is_ours = str(getattr(value, "__module__", "")).partition(".")[0] == __name__.partition(".")[0]
    return isfunction(value) and not is_ours and not name.startswith("_")


def _read_mapping(word: Token) -> tuple[str, str]:
    """The input and the column in a word of ``--map``."""
    name, equals, column = word.text.partition("=")
    if not equals or not name or not column:
        name, column = [*filter(None, re.split("->|[:=]", word.text)), "COLUMN", "COLUMN"][:2]
        hint = (
            f"write --map {name}={column}: the input {name} has the values of the column {column}"
        )
        raise line_error("map", f"--map takes INPUT=COLUMN, not {word.text!r}", word, hint)
    start = len(word.text) - len(column)
    return (
        PlacedText.at(word.locate(0, len(name)), name),
        PlacedText.at(word.locate(start, len(word.text)), column),
    )


def recording_of(word: Token | None) -> Recording | None:
    """The recording that ``--replay`` names."""
    if word is None:
        return None
    # Imported here, because most runs replay nothing.
    from ..lifecycle.recordings.replay import Replay

    return with_place_of(word, lambda: Replay(Path(word.text), of_run=True))


def workers_of(word: Token | None, names: Names, dry: bool = False) -> object:
    """The workers of ``--on`` for `RunOptions.on`: a worker backend, or the word ``here``. None if
    there is no ``--on``, or in a dry run, which connects to nothing."""
    if word is None or dry:
        return None
    from ..workers.on import find_backend

    return with_place_of(word, lambda: find_backend(word.text, names)) or "here"


def with_place_of(word: Token | None, call: Callable[[], T]) -> T:
    """The result of ``call``. Its errors get the place of ``word``, if they have none."""
    try:
        return call()
    except DefinitionError as error:
        first, *later_diagnostics = error.diagnostics
    span = first.span or (word.span if word is not None else None)
    raise DefinitionError(replace(first, span=span), *later_diagnostics)
