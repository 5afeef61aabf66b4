"""Jinja2 in a prompt: a text with ``{{``, ``{%`` or ``{#`` is a template as a whole (decision
Y12′).

jinja2 is an extra and is imported with the first template. Without it a graph is defined, but
cannot run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NamedTuple

from ...flow.values import Value
from ...text.diagnostics import Diagnostic, StepError, suggest
from ...text.source import Span, Text
from .jinja_bounds import Budget, TooMuch, spent
from .prompt import Slot
from .reading import Reader

if TYPE_CHECKING:
    from jinja2 import Template

SYNTAX = re.compile(r"\{[{%#]")
INSTALL = 'pip install "agf-magics[graphs]"'
_LINES = re.compile(r"\r\n|\r|\n")


class JinjaPrompt(NamedTuple):
    """A prompt that is a template."""

    template: Template | None
    """None: jinja2 is not installed."""
    text: Text
    slots: tuple[Slot, ...]
    span: Span

    def fill(self, state: Mapping[str, Value], variables: Mapping[str, Value]) -> str:
        """The rendered text. Raises StepError ``graph.template-failed``,
        ``graph.template-limit``."""
        if self.template is None:
            raise StepError(not_installed(self.span))
        budget = Budget()
        token = spent.set(budget)
        try:
            return _render(self.template, budget, {"state": state, **variables})
        except Exception as error:  # of the template, and of objects in the state
            failure = self._failure(error, variables)
        finally:
            spent.reset(token)
        raise failure

    def _failure(self, error: Exception, variables: Mapping[str, Value]) -> StepError:
        place = place_of_line(self.text, _line_of(self.template, error))
        if isinstance(error, TooMuch):
            small = "prepare the text in a node before this one"
            return StepError(
                Diagnostic("graph.template-limit", f"the template {error}", place, small)
            )
        if isinstance(error, RecursionError):
            return StepError(
                Diagnostic(
                    "graph.template-limit", "the template uses a value that nests too deep", place
                )
            )
        reason = (str(getattr(error, "message", None) or error) or type(error).__name__)[:200]
        hint: str | None = None
        if type(error).__name__ == "UndefinedError":
            name = reason.split("'")[1] if reason.startswith("'") else ""
            near = suggest(name, [*variables, "state"]) or ""
            hint = (
                f"{near} a value that may be missing: {{{{ {name or 'name'} | default('') }}}}"
            ).strip()
        failure = StepError(
            Diagnostic("graph.template-failed", f"the template failed: {reason}", place, hint)
        )
        failure.__cause__ = error
        return failure


def _render(template: Template, budget: Budget, given: dict[str, Any]) -> str:
    from .jinja_bounds import check_length
    from .jinja_environment import CALLS

    parts, size = list[str](), 0
    context = template.new_context({**given, **CALLS, "__each": budget.each})
    for part in template.root_render_func(context):
        size += len(part)
        check_length(size)
        budget.check_time()
        parts.append(part)
    return "".join(parts)


def _line_of(template: Template | None, error: Exception) -> int:
    """The line of the template in which ``error`` was raised."""
    line, trace = 1, error.__traceback__
    while trace is not None and template is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = template.get_corresponding_lineno(trace.tb_lineno)
        trace = trace.tb_next
    return line


def read_jinja(reader: Reader, text: Text) -> JinjaPrompt | None:
    """The template of ``text``; None after an error."""
    span = text.locate(0, len(text.text))
    if find_spec("jinja2") is None:
        reader.refuses.append(not_installed(span))
        return JinjaPrompt(None, text, (), span)
    from .jinja_check import NotSupported, compile_jinja

    try:
        compiled = compile_jinja(text.text)
    except NotSupported as refused:
        place = place_of_line(text, refused.line, refused.word)
        hint = (
            refused.hint
            or "{{ name }} is a variable; {% raw %}{{ }}{% endraw %} writes the braces themselves"
        )
        reader.error("graph.template", refused.message, place, hint)
        return None
    slots = list[Slot]()
    for read in compiled.reads:
        in_state = read.names[0] == "state"
        place = place_of_line(text, read.line, read.names[-1])
        names = read.names[1:] if in_state else read.names
        slots.append(
            Slot(f"{{{{ {'.'.join(read.names)} }}}}", names, in_state, place, read.certain)
        )
    return JinjaPrompt(compiled.template, text, tuple(slots), span)


def not_installed(span: Span) -> Diagnostic:
    return Diagnostic(
        "graph.jinja-not-installed",
        "this prompt needs jinja2, which is not installed",
        span,
        INSTALL,
    )


def place_of_line(text: Text, line: int, word: str = "") -> Span:
    """The place of ``word`` in a line of a template, else the line itself."""
    starts = [0, *(found.end() for found in _LINES.finditer(text.text))]
    index = min(max(line, 1), len(starts)) - 1
    end = starts[index + 1] if index + 1 < len(starts) else len(text.text)
    content = text.text[starts[index] : end]
    at = content.find(word) if word else -1
    if at >= 0:
        return text.locate(starts[index] + at, starts[index] + at + len(word))
    lead = len(content) - len(content.lstrip())
    return text.locate(starts[index] + lead, starts[index] + max(lead, len(content.rstrip())))
