"""The matcher for IPython. `complete` imports the languages, so it is imported at the first Tab.

Shift-Tab: the help of a magic in its line; in the cell of a definition, of a key, a kind, a
function or a registered name, and the problem at the cursor; of a code of an error, its page.

Problems of a cell while a person writes it: the findings of loading, for the editor to
underline.

The extension of JupyterLab sends the text of a cell some time after the last key. The kernel reads
it, on a thread of its own where the kernel has subshells, and answers with places and messages.
Nothing is registered, no file is read and no code of a user is called. The comm is only registered,
not announced: a front end that wants it asks for it by its target, also after it loads its page
again.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from IPython.core.completer import CompletionContext, SimpleMatcherResult, context_matcher

from ..catalog import Registry
from ..catalog.tools import Tool
from ..languages import LANGUAGES, OURS, Language
from ..lifecycle.define import find_problems
from ..lifecycle.settings import current
from ..pictures.plain import line, plain
from ..pictures.plain import line as one_line
from ..text.diagnostics import AgfError, Diagnostic, Diagnostics, Source
from .commands import COMMANDS
from .cursor import Reading
from .explorer import open_again
from .magics import entries
from .options import ParsedLine, read
from .output import receive_while_busy

if TYPE_CHECKING:
    from .complete import Known
    from .notebook import Notebook

Matcher = Callable[[CompletionContext], SimpleMatcherResult]


def matcher(known: Callable[[], Known]) -> Matcher:
    """The matcher for ``shell.Completer.custom_matchers``."""

    def agf_magics(context: CompletionContext) -> SimpleMatcherResult:
        from .complete import answer

        return answer(context, known())

    marked: Matcher = context_matcher(priority=200)(agf_magics)
    return marked


def known(notebook: Notebook, shell: Any) -> Known:
    """The present state of the notebook."""
    from .complete import Known
    from .history import kept_ids

    return Known(notebook.registry, shell.user_ns, notebook.frame, kept_ids)


_LINE = re.compile(r"\s*(?:[\w.]+\s*=\s*)?%{1,2}(\w+)")
_CELL = re.compile(r"%%(\w+)")
_WORD, _NAME = re.compile(r"[\w-]+"), re.compile(r"[\w.-]+")
_QUOTED = re.compile(r"(: |-> )'([^']{0,200})'")
MOST_HELP = 300
"""Characters of a signature and of a description."""
MOST_TOOLTIP = 2_000
"""Characters of a docstring."""


def install_inspector(undo: ExitStack, shell: Any, registry: Registry) -> None:
    """Answer the kernel's inspect requests in our cells. All others, and any failure, go to
    IPython."""
    kernel: Any = getattr(shell, "kernel", None)
    before = getattr(kernel, "do_inspect", None)
    if before is None:
        return

    def do_inspect(code: str, cursor_pos: int, *rest: Any, **named: Any) -> Any:
        try:
            text = describe(code, cursor_pos, registry)
        except Exception:  # help is never worth a failed request
            text = None
        if text is None:
            return before(code, cursor_pos, *rest, **named)
        return {
            "status": "ok",
            "found": bool(text),
            "data": {"text/plain": text} if text else {},
            "metadata": {},
        }

    kernel.do_inspect = do_inspect
    undo.callback(setattr, kernel, "do_inspect", before)


def describe(code: str, position: int, registry: Registry) -> str | None:
    """The help for the word at ``position``: empty where a cell of ours has none, None where the
    cell is not ours."""
    start, end = code.rfind("\n", 0, position) + 1, code.find("\n", position)
    line = code[start : end if end >= 0 else len(code)]
    word, name = (_word_at(pattern, line, position - start) for pattern in (_WORD, _NAME))
    magic = _LINE.match(line)
    if magic is not None:
        command = COMMANDS.get(magic[1])
        if command is None:
            return None
        page = entries().get(name[0]) if name is not None else None
        return page or command.help
    cell = _CELL.match(code.lstrip("\n"))
    if cell is None or cell[1] not in COMMANDS:
        return None
    found = problems_at(code, position, registry)
    if word is not None and name is not None:
        language = LANGUAGES[cell[1] if cell[1] in OURS else "pipeline"]  # %%run_pipeline_inline
        body = code.index("\n") + 1
        found += _help(language, code[body : start + word.start()], word[0])
        found += _named(language, code[body : start + name.start()], name[0], registry)
    return "\n".join(dict.fromkeys(found))


def _word_at(pattern: re.Pattern[str], line: str, column: int) -> re.Match[str] | None:
    return next(
        (found for found in pattern.finditer(line) if found.start() <= column <= found.end()), None
    )


def _named(language: Language, before: str, name: str, registry: Registry) -> Iterator[str]:
    """The help of a value that is the name of a kind, a tool, an agent or a flow."""
    from .names import describe_value  # imports the pipeline language

    spot = Reading(before).spot
    if spot.part != "value":
        return
    if language.schema is not None and (text := describe_value(language.schema, spot, name)):
        yield f"{name}: {text}"
    if (tool := registry.tools.get(name)) is not None:
        yield f"tool {name} takes {one_line(tool.takes, MOST_HELP) or 'no arguments'}"
        yield one_line(f"{name}{_signature(tool)}", MOST_HELP)
        yield plain(inspect.getdoc(tool.function) or tool.description, MOST_TOOLTIP)
    if (agent := registry.agents.get(name)) is not None:
        yield f"agent {name}: {one_line(agent.description, MOST_HELP)}".rstrip(": ")
    if (flow := registry.flows.get(name)) is not None:
        inputs = ", ".join(dict.fromkeys(str(ref.path[-1]) for ref in flow.inputs))
        yield f"{flow.language} {name} reads {one_line(inputs, MOST_HELP) or 'no input'}"
        yield one_line(flow.declared.description, MOST_HELP)


def _signature(tool: Tool) -> str:
    """``(topic: str, count: int = 40) -> list``"""
    try:
        # Postponed annotations are texts, with quotes.
        return _QUOTED.sub(r"\1\2", str(inspect.signature(tool.function)))
    except (TypeError, ValueError):  # a callable without one
        return f"({tool.takes})"


def _help(language: Language, before: str, word: str) -> Iterator[str]:
    """The help of a key with the keys below it, or of a function of an expression."""
    from .names import keys_at  # imports the pipeline language

    spot, schema = Reading(before).spot, language.schema or {}
    if text := keys_at(schema, spot).get(word):
        below = spot._replace(path=(*spot.path, word), around=({}, *spot.around))
        keys = ", ".join(keys_at(schema, below))
        yield f"{word}: {text}" + (f" Keys: {one_line(keys, MOST_HELP)}." if keys else "")
    if word in language.functions and spot.part == "value":
        yield language.functions[word]


TARGET = "agf-magics.problems"
"""The target of the comm."""

LONGEST_CELL = 50_000
"""Characters of a cell that is checked while it is written."""
MOST_PROBLEMS = 50
MOST_MESSAGE = 2_000
"""Characters of a message and of a hint."""

_MAGIC = re.compile(
    r"\s*%%(?P<name>pipeline|policy|plan|graph|run_pipeline_inline(?:_async)?)(?=\s|$)"
)
DEFINES = ("pipeline", "policy", "plan", "graph")

Problem = dict[str, Any]
"""``start`` and ``end`` in UTF-16 units of the cell, as JavaScript counts; ``severity``,
``message``, ``hint``, ``code``."""


def problems_of(cell: str, registry: Registry) -> list[Problem]:
    """The errors and warnings of a cell with one of our cell magics; none for any other cell.

    >>> [(one["code"], one["start"], one["end"]) for one in problems_of("%%pipeline p\\nstps: []", Registry())][:1]
    [('pipeline.document-kind', 13, 17)]
    """
    magic = _MAGIC.match(cell)
    if magic is None or len(cell) > LONGEST_CELL:
        return []
    start, newline = magic.start("name") - 2, cell.find("\n", magic.end())
    end = newline if newline >= 0 else len(cell)
    head, body = cell[start:end], cell[end + 1 :]
    source = Source("this cell", body, first_line=cell.count("\n", 0, end) + 2)
    places = {id(source): end + 1}
    try:
        parsed = read(COMMANDS[magic["name"]], cell[magic.end() + 1 : end])
        if parsed is None or not body.strip():  # `--help`, or a cell that a person begins
            return []
        places[id(parsed.source)] = start
        found = _findings(magic["name"], parsed, source, registry)
    except AgfError as error:
        places |= {
            id(one.span.source): start
            for one in error.diagnostics
            if one.span and one.span.source is not source
        }
        found = list(error.diagnostics)
    shown = (
        _problem(one, cell, places, (start, start + len(head)))
        for one in found
        if one.severity != "note"
    )
    return list(islice(filter(None, shown), MOST_PROBLEMS))


def problems_at(cell: str, position: int, registry: Registry) -> list[str]:
    """The problems at a place of a cell, in characters, as texts."""
    place = _units(cell, position)
    here = [one for one in problems_of(cell, registry) if one["start"] <= place <= one["end"]]
    return [
        f"{one['severity']}: {one['message']} [{one['code']}]"
        + f"\n  = {one['hint']}" * bool(one["hint"])
        for one in here
    ]


def _findings(
    magic: str, parsed: ParsedLine, source: Source, registry: Registry
) -> list[Diagnostic]:
    if "--planner" in parsed:
        from ..languages.plan.document import load_header

        found = Diagnostics()
        load_header(source, found, current.settings.bounds)
        return list(found)
    given = (
        None
        if "--input" in parsed
        else [word.text.partition("=")[0] for word in parsed.words("--set")]
    )
    is_definition = magic in DEFINES
    return find_problems(
        source,
        magic if is_definition else "pipeline",
        registry=registry,
        given=given,
        name=parsed.text("NAME") if is_definition else "inline",
        latent=[word.text for word in parsed.words("--latent")],
    )


def _problem(
    found: Diagnostic, cell: str, places: dict[int, int], head: tuple[int, int]
) -> Problem | None:
    """A finding at its place in the cell: to the end of the line, at least a character. None for
    the place of another cell; the line of the magic for a finding without a place."""
    if found.span is None:
        start, end = head
    elif id(found.span.source) not in places:
        return None
    else:
        begin = places[id(found.span.source)]
        start, end = (min(begin + place, len(cell)) for place in (found.span.start, found.span.end))
        newline = cell.find("\n", start, end)
        end = max(newline if newline >= 0 else end, min(start + 1, len(cell)))
        start = min(start, max(0, end - 1))
    return {
        "start": _units(cell, start),
        "end": _units(cell, end),
        "severity": found.severity,
        "message": plain(found.message, MOST_MESSAGE),
        "hint": plain(found.hint or "", MOST_MESSAGE),
        "code": line(found.code, 80),
    }


def _units(text: str, offset: int) -> int:
    """An offset in UTF-16 units."""
    return offset if text.isascii() else offset + sum(char > "\uffff" for char in text[:offset])


# --- the comm
# --------------------------------------------------------------------------------------------------


def install_problems(undo: ExitStack, shell: Any, registry: Registry) -> None:
    """Answer requests for problems in a kernel; nothing in a shell without one."""
    if getattr(shell, "kernel", None) is None:
        return
    import comm

    channel = comm.create_comm(target_name=TARGET, primary=False)
    channel.on_msg(_answerer(channel.send, registry))
    receive_while_busy(channel)
    manager = comm.get_comm_manager()
    manager.register_comm(channel)
    undo.callback(channel.close)


def _described(code: str, at: object, registry: Registry) -> str:
    """`describe`, for a page: empty if there is no help."""
    if type(at) is not int or not 0 <= at <= len(code) <= LONGEST_CELL:
        return ""
    return plain(describe(code, at, registry) or "", MOST_TOOLTIP)


def _answerer(
    send: Callable[[dict[str, Any]], object], registry: Registry
) -> Callable[[dict[str, Any]], None]:
    """A function that answers a message ``{id, text}`` by ``{id, problems}``, and ``{id, open,
    mark}`` (see `open_again`) by ``{id, why}``, ``{id, help, at}`` (see `describe`) by ``{id,
    text}``."""

    answers: Mapping[str, Callable[[str, dict[str, Any]], dict[str, Any]]] = {
        "open": lambda run, data: {"why": open_again(run, str(data.get("mark")))},
        "help": lambda cell, data: {"text": _described(cell, data.get("at"), registry)},
        "text": lambda cell, data: {"problems": problems_of(cell, registry)},
    }

    def answer(message: dict[str, Any]) -> None:
        data = message.get("content", {}).get("data")
        for asked, reply in answers.items() if isinstance(data, dict) else ():
            if isinstance(data.get(asked), str):
                told: dict[str, Any] = {"why": "this cannot be shown", "text": "", "problems": []}
                # Another thread may change the registry; help is never worth an error.
                with suppress(Exception):
                    told = reply(data[asked], data)
                send({"id": data.get("id"), **told})
                return

    return answer
