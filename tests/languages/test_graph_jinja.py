"""Jinja2 in prompts: the result of a template, the refusals when it is loaded, and hostile templates in their
process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.compat.memory import memory_by_program, memory_of
from agf_magics.languages.graph.expressions.reading import Reader
from agf_magics.languages.graph.prompts.jinja import read_jinja
from agf_magics.languages.graph.prompts.jinja_process import Killed, NoProcess, Renderer
from agf_magics.text.diagnostics import Diagnostic, Diagnostics
from agf_magics.text.source import Source
from tests.slow import slow_but

pytest.importorskip("jinja2")

VECTORS = json.loads((Path(__file__).parents[1] / "vectors" / "jinja.json").read_text("utf-8"))
ROWS, GIVEN = VECTORS["rows"], VECTORS["given"]
TOO_LONG = ["{{ " + "(" * 2000 + "1" + ")" * 2000 + " }}", "{{ " + "9" * 5000 + " }}", "x{# #}" * 40_000]
TOO_DEEP = "{% for a in items %}" * 30 + "{% endfor %}" * 30

_DOUBLED = "{% set x = 'aaaaaaaaaa' %}"
HOSTILE = [  # templates that would use all CPU time or memory
    "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}", "{{ range(10000000000) }}",
    "{{ 'a' * 10000000000 }}", "{{ [1] * 1000000000 }}", "{% for i in range(100000) %}{{ 'x' * 1000 }}{% endfor %}",
    "{% set x = 'a' * 1000 %}" + "{% set x = x ~ x %}" * 60 + "{{ x }}",
    _DOUBLED + "{% set x = x.replace('a', x) %}" * 12 + "{{ x }}",
    _DOUBLED + "{% set x = x | replace('a', x) %}" * 12 + "{{ x }}",
    "{% set x = 99999999 %}" + "{% set x = x * x %}" * 40 + "{{ x }}",
    "{{ (['" + "y" * 1000 + "'] * 100000) | join }}", "{{ '%10000000000d' % 1 }}",
    "{% set x = [1] %}" + "{% set x = x + x %}" * 60 + "{{ x | length }}",
    "{% set x = [[1]] %}" + "{% set x = [x, x] %}" * 60 + "{{ x }}",
    "{% for i in range(90000) %}{% set y = 'a' * 900000 %}{% for j in range(90000) %}{% set y = 'a' * 900000 %}"
    "{% endfor %}{% endfor %}",
    "{% set x = [[1]] %}" + "{% set x = [x, x] %}" * 40 + "{{ x | tojson }}",
    "{% set n = '\\n' * 900000 %}{{ n | indent(900000, true, true) }}",
    # beyond the spike
    "{{ 15 | round(1000000000) }}",
    "{{ range(100000) | map('replace', '1', 'x' * 900000) | list | length }}",
    "".join(f"{{% set a{i} = 'a' * 900000 %}}" for i in range(600)),
    "".join(f"{{% set a{i} = [1] * 90000 %}}" for i in range(600)),
    "{% set a = [1] * 90000 %}" + "".join(f"{{% set a{i} = a[:] %}}" for i in range(600)),
    "{% set a = [1] * 90000 %}{% set b = [1] * 90000 %}{% set c = [a] * 90000 %}{% set e = [b] * 90000 %}{{ c == e }}",
    "{% set a = ['a' * 900] * 9000 %}{{ [a, a] | tojson }}",
    "{% set a = (1, 1) %}" + "{% set a = (a, a) %}" * 60 + "{{ {a: 1} | length }}",
    "{% set a = (1, 1) %}" + "{% set a = (a, a) %}" * 60 + "{{ d[a] }}",
    "{{ 'a' | center(10000000000) }}", "{{ '%1000000000d' | format(1) }}", "{{ lipsum(100000000) }}",
    "{{ 9 ** 9 ** 9 }}",
    "{{ " + "1 < (" * 300 + "1" + ") < 3" * 300 + " }}", "{{ a" + ".b" * 90_000 + " }}",
    "{% for i in range(300) %}{{ ('b' * 900000) | replace('b', 'c') | length }}{% endfor %}",
]  # fmt: skip


def read_template(text: str) -> tuple[Any, list[Diagnostic]]:
    problems = Diagnostics()
    prompt = read_jinja(Reader(problems), Source("prompt", text).span())
    return prompt, list(problems)


def fill(text: str) -> str:
    prompt, problems = read_template(text)
    assert not problems
    return str(prompt.fill(GIVEN, GIVEN))


@pytest.mark.parametrize("row", [row for row in ROWS if "ok" in row], ids=lambda row: row["text"])
def test_a_template_gives_what_jinja_gives(row: dict[str, Any]) -> None:
    assert fill(row["text"]) == row["ok"]


@pytest.mark.parametrize(
    "text", [row["text"] for row in ROWS if "refused" in row] + TOO_LONG, ids=lambda text: ascii(text)[:60]
)
def test_an_impossible_template_is_refused_when_it_is_loaded(text: str) -> None:
    prompt, problems = read_template(text)
    assert prompt is None
    assert {(problem.code, problem.severity) for problem in problems} == {("graph.template", "error")}
    assert all(problem.span is not None and problem.hint for problem in problems)


@pytest.mark.parametrize(
    "text", [*(row["text"] for row in ROWS if "fails" in row), TOO_DEEP], ids=lambda text: ascii(text)[:60]
)
def test_a_template_that_the_sandbox_refuses_fails_with_a_place(text: str) -> None:
    with pytest.raises(agf.StepError, match=r"graph\.template-(failed|limit)") as caught:
        fill(text)
    assert caught.value.diagnostic.span is not None


@pytest.fixture(scope="module")
def hurried() -> Iterator[Renderer]:
    renderer = Renderer(seconds=1)
    yield renderer
    renderer.close()


SECOND_EACH = (8, 12, 13, 17, 18, 19, 21, 23, 24, 27)
"""The numbers of templates that use up their second. Of this kind, 0, 9 and 14 are in `make test`."""


@pytest.mark.parametrize(
    "number", slow_but([n for n in range(len(HOSTILE)) if n not in SECOND_EACH], range(len(HOSTILE)))
)
def test_a_hostile_template_ends_and_the_next_one_is_rendered(number: int, hurried: Renderer) -> None:
    try:
        answer = hurried.render(HOSTILE[number], {**GIVEN, "state": GIVEN})
        assert len(answer.get("text", "")) <= 1_000_000
    except Killed:
        pass
    assert hurried.render("{{ name }}", {"name": "Ada"}) == {"text": "Ada"}


def test_many_threads_render_at_once() -> None:
    renderer, texts = Renderer(), dict[int, Any]()

    def work(number: int) -> None:
        texts[number] = [renderer.render("{{ n }}/{{ i }}", {"n": number, "i": i})["text"] for i in range(20)]

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == {number: [f"{number}/{i}" for i in range(20)] for number in range(8)}
    renderer.close()


def test_a_process_that_was_killed_is_replaced() -> None:
    renderer = Renderer()
    assert renderer.render("a{{ 1 }}", {}) == {"text": "a1"}
    process = renderer.process
    process.kill()
    process.wait()
    assert renderer.render("a{{ 2 }}", {}) == {"text": "a2"}
    renderer.close()
    assert renderer.process is None


@pytest.mark.parametrize(
    ("limit", "value", "reason"),
    [("seconds", 0.1, "takes longer than 0.1 s"), ("memory", 1 << 20, "needs more than 1 MB of memory")],
)
@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="POSIX")
def test_a_process_that_does_not_end_itself_is_killed_with_a_reason(limit: str, value: float, reason: str) -> None:
    """A stopped process uses no CPU time, so only the kernel can see that it takes too long."""
    renderer = Renderer()
    renderer.render("{{ 1 }}", {})
    assert renderer.process is not None
    renderer.process.send_signal(signal.SIGSTOP)
    setattr(renderer, limit, value)
    with pytest.raises(Killed, match=reason):
        renderer.render("{{ 2 }}", {})
    assert renderer.process is None


def test_where_no_process_starts_a_template_is_refused_with_a_code(monkeypatch: pytest.MonkeyPatch) -> None:
    renderer = Renderer()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with pytest.raises(NoProcess):
        renderer.render("{{ 1 }}", {})
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(NoProcess, match="it ended when it started"):
        renderer.render("{{ 1 }}", {})


_PROGRAM = """
import os, sys, time
from agf_magics.languages.graph.prompts.jinja_process import RENDERER
assert RENDERER.render("{{ 1 }}", {}) == {"text": "1"}
{more}
print(RENDERER.process.pid, flush=True)
{last}
"""


@pytest.mark.parametrize(
    ("more", "last"),
    [
        ("", ""),
        ("", "os._exit(0)"),
        ("", "os.kill(os.getpid(), 9)"),
        # A process that the kernel has forked holds the pipes.
        pytest.param(
            "child = os.fork()\nif not child: time.sleep(20); os._exit(0)",
            "os.kill(os.getpid(), 9)",
            marks=pytest.mark.slow,
        ),
    ],
    ids=["end", "exit", "killed", "killed, with a fork"],
)
@pytest.mark.skipif(not hasattr(os, "fork"), reason="POSIX")
def test_the_process_ends_with_the_kernel(more: str, last: str) -> None:
    kernel = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM.replace("{more}", more).replace("{last}", last)], stdout=subprocess.PIPE
    )
    pid = int(kernel.stdout.readline())
    kernel.wait()
    # Only the end of the process ends the loop. The time limit of pytest ends a test that hangs.
    while is_running(pid):
        threading.Event().wait(0.1)


def is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:  # the first process of a container may not collect the status of ended processes
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def test_the_process_has_no_key_of_the_kernel_and_no_module_of_the_notebook(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit(9)")
    (tmp_path / "jinja2.py").write_text("raise SystemExit(9)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("API_KEY", "s3cret-value")
    renderer = Renderer()
    assert renderer.render("{{ 1 }}", {}) == {"text": "1"}
    assert renderer.process is not None
    if sys.platform == "linux":
        assert b"s3cret" not in Path(f"/proc/{renderer.process.pid}/environ").read_bytes()
    renderer.close()


def test_memory_is_measured_where_the_system_has_no_limit() -> None:
    try:
        subprocess.run(["ps", "-o", "rss=", "-p", str(os.getpid())], capture_output=True, check=True)
    except (OSError, subprocess.SubprocessError):
        pytest.skip("this system has no ps")
    assert (memory_by_program(os.getpid()) or 0) > 1 << 20
    assert (memory_of(os.getpid()) or 0) > 1 << 20


def test_an_interrupt_of_the_kernel_does_not_end_the_process() -> None:
    renderer = Renderer()
    renderer.render("{{ 1 }}", {})
    process = renderer.process
    process.send_signal(signal.SIGINT)
    assert renderer.render("{{ 2 }}", {}) == {"text": "2"}
    assert renderer.process is process
    renderer.close()


def test_an_error_names_its_line_and_a_fix() -> None:
    prompt, problems = read_template("Hello\n{{ nam }}\n")
    assert not problems
    with pytest.raises(agf.StepError) as caught:
        prompt.fill({}, {"name": "Ada"})
    diagnostic = caught.value.diagnostic
    assert (diagnostic.message, diagnostic.span.place) == ("the template failed: 'nam' has no value", (2, 1))
    assert diagnostic.hint == "did you mean name? a value that may be missing: {{ nam | default('') }}"
    _, problems = read_template("Hello\n  {{ name | uper }}\n")
    (refused,) = problems
    assert (refused.message, refused.span.text, refused.span.place[0]) == ("unknown filter 'uper'", "uper", 2)
    assert refused.hint.startswith("did you mean upper? filters are abs, ")


def test_an_opaque_value_is_refused_where_it_is_read() -> None:
    prompt, _ = read_template("{{ one.name }} {{ state.one }}")
    with pytest.raises(agf.StepError) as caught:
        prompt.fill({}, {"one": SimpleNamespace(name="Ada"), "other": SimpleNamespace()})
    diagnostic = caught.value.diagnostic
    assert (diagnostic.code, diagnostic.span.text) == ("graph.template-value", "name")
    assert diagnostic.message == "a template cannot read 'one': it is an opaque SimpleNamespace"
    assert prompt.fill({"one": 1}, {"one": {"name": "Ada"}, "other": SimpleNamespace()}) == "Ada 1"


def test_a_name_that_a_template_sets_itself_needs_no_value_of_the_state() -> None:
    text = "{% for one in items %}{{ one }}{% endfor %}{% set two = 2 %}{{ two }}{{ items }}"
    prompt, _ = read_template(text)
    assert [slot.names for slot in prompt.slots] == [("items",), ("items",)]
    values = {"items": ["a"], "one": SimpleNamespace(), "two": SimpleNamespace()}
    assert prompt.fill({}, values) == "a2['a']"


def test_a_name_that_a_template_may_set_before_is_not_certain() -> None:
    for text in ("{% if x %}{% set a = 1 %}{% endif %}{{ a }}", "{{ a }}{% set a = 1 %}", "{{ range }}"):
        prompt, _ = read_template(text)
        assert prompt.slots[-1].names[0] in ("a", "range")
        assert not any(slot.certain for slot in prompt.slots if slot.names[0] != "x")


def test_the_names_that_a_template_reads_are_known() -> None:
    prompt, _ = read_template("{% for x in xs %}{{ x }}{{ y.z }}{{ state.q.r }}{% endfor %}{{ w | default(1) }}")
    assert [(slot.names, slot.in_state, slot.certain) for slot in prompt.slots] == [
        (("xs",), False, True), (("y",), False, True), (("q", "r"), True, True), (("w",), False, False),
    ]  # fmt: skip
