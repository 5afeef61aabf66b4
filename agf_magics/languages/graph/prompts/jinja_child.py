"""The program of the process that renders templates. jinja_process.py starts it.

The program reads a request from standard input, a line of JSON with ``text`` and ``values``, and
answers with a line on standard output, ``{"text": …}`` or ``{"failed": …, "why": …, "line": …}``.
It imports nothing of this package or the notebook, and gets only JSON values. So an escape from the
sandbox finds no tool, no key and no object of the kernel.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
import time
from functools import lru_cache
from typing import Any

if __name__ == "__main__":
    # This comes before the import of jinja2, which may be among the user's own packages: `-I`
    # leaves these out. At the end of the path the folders hide no module of the standard library.
    sys.path += sys.argv[4:]

from jinja2 import (
    StrictUndefined,
    Template,
    TemplateSyntaxError,
    Undefined,
    UndefinedError,
    nodes,
)
from jinja2.sandbox import ImmutableSandboxedEnvironment

LONGEST_RENDERED = 1_000_000
"""Characters of a rendered text."""


class TooLong(Exception):
    """The rendered text exceeds its limit."""


class Missing(StrictUndefined):
    """A name without a value: false where it is tested, an error where it is written or computed
    with."""

    __slots__ = ()

    @property
    def _undefined_message(self) -> str:
        return self._undefined_hint or f"{self._undefined_name!r} has no value"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __bool__(self) -> bool:  # type: ignore[override]
        return False

    def __eq__(self, other: object) -> bool:  # type: ignore[override]
        return other is None or isinstance(other, Missing)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(Missing)


class Environment(ImmutableSandboxedEnvironment):
    """Jinja2's sandbox, where a key of a mapping comes before a method of the same name."""

    def getattr(self, obj: Any, attribute: str) -> Any:
        if isinstance(obj, dict) and attribute in obj:
            return obj[attribute]
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        return obj if isinstance(obj, Undefined) else super().getitem(obj, argument)

    def method(self, obj: Any, name: str) -> Any:
        """``obj.name`` where it is called: a method comes before a key."""
        return super().getattr(obj, name)


class NoNumber(float):
    """NaN or an infinity: a number in computations, null in a text (decision A1)."""

    def __str__(self) -> str:
        return "null"

    __repr__ = __str__

    def __format__(self, form: str) -> str:
        return "null"


def is_odd(value: Any) -> bool:
    """Whether ``value`` is NaN or an infinity."""
    return isinstance(value, float) and value - value != 0


def finalize_value(value: Any) -> Any:
    """``value``, if a prompt can contain it."""
    if is_odd(value):
        return "null"
    if callable(value) and not isinstance(value, Undefined):
        name = getattr(value, "__name__", "this")
        raise TypeError(f"{name!r} is a method: write {name}()")
    return value


ENVIRONMENT = Environment(undefined=Missing, keep_trailing_newline=True, finalize=finalize_value)
ENVIRONMENT.filters["__method"] = ENVIRONMENT.method


def tojson(value: Any, indent: int | None = None) -> str:
    """The filter ``tojson``. Jinja2's own filter sorts the keys, escapes < > & ' for web pages, and
    writes NaN."""
    try:
        return json.dumps(value, ensure_ascii=False, indent=indent, allow_nan=False)
    except ValueError:
        return json.dumps(without_odd(value), ensure_ascii=False, indent=indent)


def without_odd(value: Any) -> Any:
    """``value`` with None in the place of each NaN and infinity."""
    match value:
        case dict():
            return {key: without_odd(inner) for key, inner in value.items()}
        case list() | tuple():
            return list(map(without_odd, value))
    return None if is_odd(value) else value


ENVIRONMENT.filters["tojson"] = tojson


@lru_cache(maxsize=32)
def compile_template(text: str) -> Template:
    """The template of ``text``. Each ``a.b()`` becomes a call of the filter ``__method``, because a
    key ``b`` of ``a`` would otherwise come before the method (`Environment.getattr`)."""
    tree = ENVIRONMENT.parse(text)
    for call in tree.find_all(nodes.Call):
        if isinstance(call.node, nodes.Getattr):
            name = nodes.Const(call.node.attr)
            call.node = nodes.Filter(
                call.node.node, "__method", [name], [], None, None, lineno=call.lineno
            )
    return ENVIRONMENT.from_string(tree)


def answer(text: str, values: dict[str, Any]) -> dict[str, Any]:
    """The answer for the kernel."""
    template: Template | None = None
    try:
        template = compile_template(text)
        return {"text": render(template, values)}
    except Exception as error:  # raised by a filter, an operation or Python's compiler
        why, message = failure(error)
        return {"why": why, "failed": message[:200], "line": line_of(error, template)}


def render(template: Template, values: dict[str, Any]) -> str:
    """The rendered text. Raises TooLong, and whatever the template raises."""
    parts = list[str]()
    size = 0
    for part in template.root_render_func(template.new_context(values)):
        size += len(part)
        if size > LONGEST_RENDERED:
            raise TooLong(f"makes a text of more than {LONGEST_RENDERED:,} characters")
        parts.append(part)
    return "".join(parts)


def failure(error: Exception) -> tuple[str, str]:
    """The ``why`` of an answer (``limit``, ``undefined`` or ``failed``) and its message."""
    match error:
        case TooLong():
            return "limit", str(error)
        case MemoryError():
            return "limit", "needs too much memory"
        case RecursionError():
            return "limit", "nests too deep"
        case UndefinedError():
            return "undefined", str(error.message)
    return "failed", str(getattr(error, "message", error)) or type(error).__name__


def line_of(error: Exception, template: Template | None) -> int:
    """The line of the template in which ``error`` was raised."""
    if template is None:
        return error.lineno if isinstance(error, TemplateSyntaxError) else 1
    line = 1
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == "<template>":
            line = template.get_corresponding_lineno(trace.tb_lineno)
        trace = trace.tb_next
    return line


def limit_memory(size: int) -> None:
    """Limit the memory of this process, if the system can. Elsewhere jinja_process.py watches the
    process."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (size, size))


def limit_time(seconds: int) -> None:
    """Let the system end this process after ``seconds`` more of processor time, even if the kernel,
    which watches the process, is gone."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + 1 + seconds, hard))


def end_with(parent: int) -> None:
    """End with the kernel. A process that the kernel forked may hold the other end of standard
    input, which then does not close."""
    while os.getppid() == parent:
        time.sleep(2)
    os._exit(0)


def main() -> None:
    """Answer requests until standard input ends. The arguments of the program are the bytes of
    memory, the seconds of a rendering, the id of the kernel's process, and folders for the path."""
    memory, seconds, parent = map(int, sys.argv[1:4])
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # ^C in a terminal is for the kernel
    threading.Thread(target=end_with, args=(parent,), daemon=True).start()
    limit_memory(memory)
    for line in sys.stdin.buffer:
        limit_time(seconds)
        request = json.loads(line, parse_constant=NoNumber)
        sys.stdout.buffer.write(json.dumps(answer(**request)).encode() + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
