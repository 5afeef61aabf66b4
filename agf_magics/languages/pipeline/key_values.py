"""Reads the values of a step's keys, with a function for each kind of value in `takes`.

A function gets the reader of the step, the YAML node of the value and the key. It returns the value
for `Grammar.build`, or None after reporting an error.
"""

from __future__ import annotations

import re

from ...flow.expressions import Constant, NamedArguments
from ...flow.protocols import Expr, Name
from ...flow.step import FailurePolicy, Step
from ...flow.steps import part
from ...text.diagnostics import Diagnostic
from ...text.names import same_name
from ...text.suggestions import suggest
from ...text.yaml.nodes import Fields, Items, Node, Scalar, is_expression, is_text, shown
from ..documents import text_at
from ..keys import Key
from ..pipeline import lookalikes
from .body import Reader, refused_value, written
from .r1.written import HOLES, literal
from .scope import ROOTS
from .template import Template, parse_template
from .values import BRANCH_ERRORS, Command

RETRY = (
    r"retry\(([0-9]{1,9})(?:, ?wait: ?([0-9]{1,6}(?:\.[0-9]{1,3})?)(ms|s|min))?"
    r"(, ?then: ?continue)?\)"
)
"""The pattern of a retry: its times, the number and the unit of the pause, and whether to continue
after the last attempt."""


_RETRY = re.compile(RETRY, re.ASCII)


_SECONDS = {"ms": 0.001, "s": 1.0, "min": 60.0}
"""The seconds of each unit of the pause."""


_ON_ERROR = {"abort": FailurePolicy("abort"), "continue": FailurePolicy("continue")}


_ON_ERROR_ELSEWHERE = {
    "ignore": "continue",
    "skip": "continue",
    "drop": "continue",
    "fail": "abort",
    "stop": "abort",
    "raise": "abort",
    "retry": "retry(1)",
}
"""Other words for the policies."""


def read_output(reader: Reader, node: Node, key: Key) -> Name | None:
    """The name of a store."""
    name = reader.name(node, key)
    if name is None:
        return None
    check_name(reader, name, "this store", "ctx")
    meant = lookalikes.lookalike(name.text, reader.scope)
    if meant and (meant.expression != name.text or "." in name.text):
        last = meant.expression.rpartition(".")[2]
        message = f"'output' is a name: this creates a store called {name.text!r}"
        reader.warn(lookalikes.CODE, message, name.span, f"write: output: {last}")
    else:
        check_readable(reader, name, "this store")
    return name


def check_name(reader: Reader, name: Name | Scalar, meaning: str, root: str) -> None:
    """Warn of a name that alone means something else. No error: the path from its root reads it, as
    in Reyn."""
    if name.text in ROOTS:
        message = f"{name.text!r} alone never reads {meaning}: {ROOTS[name.text]}"
        hint = f"choose another name; {root}.{name.text} reads this one"
        reader.warn("pipeline.store-name", message, name.span, hint)


def check_readable(reader: Reader, name: Name, meaning: str) -> None:
    """Warn of a name that no expression can read: ``get`` splits it at its dots, too."""
    plain = name.text.strip().replace(".", "_")
    if plain not in ("", name.text):
        reason = "its name has a '.'" if "." in name.text else "its name has blanks at an end"
        message = f"no expression can read {meaning}: {reason}"
        hint = f"write {plain}"
        problem = Diagnostic("pipeline.store-name", message, name.span, hint, "warning")
        # Only a list of `pass` can name such a store.
        reader.grammar.doubts.append((name.text, problem))


def check_blank(reader: Reader, name: Name | Scalar, meaning: str) -> None:
    """Refuse a key that names something and is blank."""
    if not name.text.strip():
        message = f"{meaning} has a blank name"
        reader.error("pipeline.blank-name", message, name.span, "give it a name")


def read_expression(reader: Reader, node: Node, key: Key) -> Expr | None:
    text = reader.text(node, key)
    return reader.r1(text) if text else None


def read_template(reader: Reader, node: Node, key: Key) -> Template | None:
    text = reader.text(node, key)
    if text is None:
        return None
    if not text.text.strip():
        reader.warn("pipeline.empty-prompt", "the prompt is empty", text.span)
    template = parse_template(text, reader.scope)
    reader.problems.extend((*template.warnings, *lookalikes.in_prompt(text, reader.scope)))
    for hole in template.holes:
        reader.hidden(hole.path)
    return template


def read_schema_name(reader: Reader, node: Node, key: Key) -> Name | None:
    """The name of a schema; None if that schema has errors, since nothing is known of it."""
    name = reader.name(node, key)
    return None if name is None or name.text in reader.grammar.refused_schemas else name


def read_literals(reader: Reader, node: Node, key: Key) -> Expr | None:
    return None if reader.items(node, key) is None else reader.literal(node, key)


def read_on_error(reader: Reader, node: Node, key: Key) -> FailurePolicy | None:
    text = "" if node.is_expr else node.text
    if text in _ON_ERROR:
        return _ON_ERROR[text]
    if retry := _RETRY.fullmatch(text):
        wait = float(retry[2]) * _SECONDS[retry[3]] if retry[2] else 0.0
        return FailurePolicy("continue" if retry[4] else "abort", int(retry[1]), wait)
    if isinstance(node, Fields) and len(node.fields) == 1:  # {retry: 3}
        text = " ".join(f"{name} {value.text}" for name, value in node.fields.items())
    correction = _ON_ERROR_ELSEWHERE.get(text)
    if (
        not correction
        and text.lower().startswith("retry")
        and (times := re.search("[1-9][0-9]*", text))
    ):
        correction = f"retry({times[0]})" if "wait" not in text else None
    hint = f"write: {correction}" if correction else suggest(text, (*_ON_ERROR, "retry(1)"))
    if isinstance(node, Items) or "," in text:
        hint = "to try again and then skip: 'retry(2, then: continue)', in quotes"
    if (corrected := _corrected_retry(text)) is not None:
        hint = f"write: {corrected}"
    reader.error(
        "pipeline.on-error",
        f"{key.name!r} must be {key.takes.says}, got {shown(node)}",
        node.span,
        hint,
    )
    return None


_RETRY_PARTS = re.compile(r"retry ?\( ?([0-9]{1,9})((?:[,;][^,;()]{1,40})+)\)", re.ASCII)
_WAIT = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?) ?([a-z]*)", re.ASCII)
_UNITS = {
    "": (1, "s"),
    **dict.fromkeys(("ms", "millisecond", "milliseconds"), (1, "ms")),
    **dict.fromkeys(("s", "sec", "second", "seconds"), (1, "s")),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), (1, "min")),
    **dict.fromkeys(("h", "hour", "hours"), (60, "min")),
}
"""The units of time that people write: the factor and the unit of the language."""


def _corrected_retry(text: str) -> str | None:
    """``text`` as a retry policy with the same times, pause and end; None: these are not known.

    >>> _corrected_retry("retry(2, then: abort, wait: 1h)")
    "'retry(2, wait: 60min)'"
    """
    retry = _RETRY_PARTS.fullmatch(text.strip())
    if retry is None:
        return None
    options = dict[str, str]()
    for written_option in retry[2].replace(";", ",").split(",")[1:]:
        name, _, option = written_option.partition(":")
        options[name.strip()] = option.strip()
    corrected = f"retry({retry[1]}"
    if "wait" in options:
        wait = _WAIT.fullmatch(options.pop("wait"))
        if wait is None or wait[2] not in _UNITS:
            corrected += ", wait: 3s"  # an example, since nobody knows the time
        else:
            factor, unit = _UNITS[wait[2]]
            corrected += f", wait: {float(wait[1]) * factor:g}{unit}"
    end = options.pop("then", "abort")
    end = _ON_ERROR_ELSEWHERE.get(end, end)
    # For any other end the "?" keeps the text from being a retry, so there is no correction.
    corrected += {"abort": "", "continue": ", then: continue"}.get(end, "?") + ")"
    return f"'{corrected}'" if not options and _RETRY.fullmatch(corrected) else None


SHELL = "shell"
"""The tool of a shell step, and the kind of the step."""


def read_arguments(reader: Reader, node: Node, key: Key) -> NamedArguments | None:
    if not isinstance(node, Fields):
        reader.wrong_type(node, key)
        return None
    # shell: {command: …} is sugar for tool: {name: shell, args: {command: …}}
    is_shell = text_at(reader.values, "name") == SHELL
    arguments = list[tuple[Name, Expr]]()
    for name, value in node.fields.items():
        argument = Key(name, key.takes)
        if is_shell and name == "command":
            expr = read_command(reader, value, argument) or refused_value(value.span)
        elif is_expression(value):
            expr = reader.r1(value)
        else:
            expr = reader.literal(value, argument)
        arguments.append((Name(same_name(name), node.keys[name].span), expr))
    return NamedArguments(tuple(arguments))


def read_command(reader: Reader, node: Node, key: Key) -> Expr | None:
    if is_expression(node):
        expr = reader.r1(node)
        return Command(expr.span, expr)
    if is_text(node):
        words = reader.words(node) or []
    elif isinstance(node, Items):
        words = [item.text for item in node.items]
        for item in node.items:
            if item.is_expr or type(item.value) is not str:
                hint = f'quote it: "{item.text}"' if item.text else None
                if item.is_expr:
                    hint = "the whole command can be one: !expr \"['ls', ctx.folder]\""
                message = f"a command must be a list of texts, got {shown(item)}"
                reader.error("pipeline.command", message, item.span, hint)
        if not words:
            reader.error("pipeline.command", "the command is empty", node.span)
    else:
        reader.wrong_type(node, key)
        return None
    _check_words(reader, words, node, key)
    return Constant(node.span, words)


def _check_words(reader: Reader, words: list[str], node: Node, key: Key) -> None:
    """Warn of words of a command that look like expressions (decision P21)."""
    alike = [lookalikes.lookalike(word, reader.scope) for word in words]
    first = next((i for i, expression in enumerate(alike) if expression is not None), None)
    if first is not None:
        parts = ", ".join(
            meant.expression if meant else literal(word)
            for word, meant in zip(words, alike, strict=True)
        )
        message = (
            f"{key.name!r} has the text {words[first]!r}: no expression is replaced in a command"
        )
        hint = f"write: {key.name}: {lookalikes.with_tag(f'[{parts}]')}"
        if any(meant and not meant.expression for meant in alike):
            hint = HOLES
        doubtful = all(meant.store for meant in alike if meant)
        store = next(meant.store for meant in alike if meant) if doubtful else ""
        reader.literal_path(message, node.span, hint, store)


IN_COLLECT = (
    "collect runs once, over all results: pipe is their list, for instance map(pipe, r -> r.name)"
)
"""The hint for ``item`` in the ``collect`` of a for_each."""


IN_BRANCH = "a branch does not see another one; collect sees them all"
"""The hint for the name of a branch in a branch."""


def read_steps(reader: Reader, node: Node, key: Key) -> tuple[Step, ...]:
    if not isinstance(node, Items) or not node.items:
        hint = None
        if isinstance(node, Fields) and (first := next(iter(node.fields), "")):
            kind = next(iter(node.inner(first).fields), "")
            is_named = kind in reader.grammar.kinds and first not in reader.grammar.kinds
            hint = f"begin each step with a dash: - {first}:"
            if is_named:
                hint = f"a step has no name: - {kind}:; its box shows title: {first}"
        reader.wrong_type(node, key, hint)
        return ()
    steps = [
        reader.step(item, f"steps[{index}]", reader.scope._replace(number=index))
        for index, item in enumerate(node.items)
    ]
    return tuple(steps)


def read_step(reader: Reader, node: Node, key: Key) -> Step:
    loops = "acc" in key.binds  # the stores of a fold's step are visible in its next iteration
    branches = reader.values.get("branches") or () if key.name == "collect" else ()
    unseen = {"item": IN_COLLECT} if key.name == "collect" and not branches else {}
    scope = reader.scope.inside(
        key.binds, branches, written(node) if loops else frozenset(), unseen
    )
    return reader.step(node, f"{reader.id}.{key.name}", scope)


def read_branches(reader: Reader, node: Node, key: Key) -> dict[str, Step]:
    steps = {}
    branches = list(reader.written_entries(node, key))
    scope = reader.scope.inside((), unseen={name.text: IN_BRANCH for name, _ in branches})
    for name, value in branches:
        check_blank(reader, name, "a branch")
        if name.text == BRANCH_ERRORS:  # an error as in Reyn: collect would not see one of the two
            message = f"a branch is not called {name.text!r}: collect finds the errors under it"
            reader.error("pipeline.store-name", message, name.span, "choose another name")
        check_name(reader, name, "this branch", "pipe")
        steps[name.text] = reader.step(value, f"{reader.id}.branches{part(name.text)}", scope)
    return steps
