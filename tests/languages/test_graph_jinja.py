"""Jinja2 in prompts: what the subset gives, what it refuses at load, and what its budgets stop.

Each hostile case runs in a child process with 4 GB of address space, and the time of its processor is bounded there by
the operating system (RLIMIT_CPU), so that an endless template ends the test, not the test run.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.languages.graph.jinja import read_jinja
from agf_magics.languages.graph.reading import Reader
from agf_magics.text.diagnostics import Diagnostic, Diagnostics
from agf_magics.text.source import Source

pytest.importorskip("jinja2")

GIVEN: dict[str, Any] = {
    "name": "Ada", "items": ["a", "b"], "d": {"items": 3, "get": 4, "k": 5}, "n": 3, "none": None,
    "rows": [{"id": 2, "tags": ["x"]}, {"id": 1, "tags": []}], "_map_index": 7,
}  # fmt: skip

GOOD = {
    "Hello {{ name }}!": "Hello Ada!",
    "{% for x in items %}{{ loop.index }}.{{ x }} {% endfor %}": "1.a 2.b ",
    "{% for x in items %}{{ loop.cycle('o', 'e') }}{% if not loop.last %},{% endif %}{% endfor %}": "o,e",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% else %}none{% endfor %}": "items=3;get=4;k=5;",
    "{% for r in rows if r.tags %}{{ r.id }}{% endfor %}": "2",
    "{% if gone %}x{% else %}y{% endif %}": "y",
    "{% if gone.x.y %}x{% elif n > 2 %}z{% endif %}": "z",
    "{{ gone | default('none') }} {{ gone.x | default('deep') }}": "none deep",
    "{% if gone is defined %}x{% endif %}{% if d.k is defined %}y{% endif %}": "y",
    "{% if 'a' in items and 'z' not in items %}y{% endif %}": "y",
    "{{ items | join(', ') }} {{ items | length }}": "a, b 2",
    "{{ d.keys() | list | join(' ') }} {{ d.items }} {{ d['get'] }}": "items get k 3 4",
    "{{ 'a' ~ 1 ~ 'b' }}{% set y = 3 %}{{ y + 1 }}": "a1b4",
    "{{ 'x' if items else 'z' }} {{ items[0] }} {{ items[:1] }}": "x a ['a']",
    "{{ d | tojson }}": '{"items": 3, "get": 4, "k": 5}',
    "{{ 'a\nb' | indent(2) }}": "a\n  b",
    "{{ [1, 2] }} {{ none }} {{ true }}": "[1, 2] None True",
    "{{ rows | map(attribute='id') | sort | join('-') }} {{ rows | sum(attribute='id') }}": "1-2 3",
    "{{ rows | selectattr('id', 'equalto', 1) | list | length }}": "1",
    "{{ name.upper().replace('A', 'o') }} {{ 'a,b'.split(',') }}": "oDo ['a', 'b']",
    "{{ n * 2 }} {{ n / 2 }} {{ n // 2 }} {{ n % 2 }} {{ -n }} {{ 1 < n < 4 }}": "6 1.5 1 1 -3 True",
    "{{ state.name }} {{ state.d.k }} {{ _map_index }}": "Ada 5 7",
    "{{ 1.5 | round(1000000000, 'floor') }}": "1.5",
    "{# a comment #}{% raw %}{{ x }}{% endraw %}": "{{ x }}",
    "{{ '<b>' | e }} {{ '<b>' | safe }} {{ 1.26 | round(1) }}": "&lt;b&gt; <b> 1.3",
    "{%- for i in range(3) -%}\n {{ i }}\n{%- endfor %}": "012",
}

REFUSED = [
    "{% include '/etc/passwd' %}", "{% import 'os' as os %}", "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "{{ ''.__class__ }}", "{{ cycler() }}{{ lipsum(100000) }}", "{{ d.pop('k') }}", "{{ 'a' | center(10000000000) }}",
    "{{ '%1000000000d' | format(1) }}", "{{ [1]|random }}", "{% for x in d recursive %}{{ loop(x) }}{% endfor %}",
    "{{ x ** x }}", "{{ self }}", "{% block a %}{% endblock %}", "{{ " + "(" * 500 + "1" + ")" * 500 + " }}",
    "{{ range.__globals__ }}", "{{ items.append(1) }}", "{{ 'x'.format(1) }}", "{% call m() %}{% endcall %}",
    "{{ a" + ".b" * 3000 + " }}",
    # beyond the spike
    "{{ __each }}", "{% set __each = range %}", "{{ d.update({'a': 1}) }}", "{{ x | attr('y') }}", "{{ x is foo }}",
    "{{ namespace() }}", "{% set x %}a{% endset %}", "{% filter upper %}a{% endfilter %}", "{{ f(*items) }}",
    "{{ '".upper(), "{% if %}", "{% for %}{% endfor %}", "{{ 1", "{{ " + "9" * 5000 + " }}",
    "{% for a in items %}" * 30 + "{% endfor %}" * 30, "{{ a }}" * 30_000, "{% extends 'a' %}",
    "{{ opaque.secret() }}", "{{ d['__class__'].mro() }}", "{{ name._hidden }}",
    "{{ loop() }}", "{% with a = 1 %}{% endwith %}", "{{ joiner() }}", "{{ super() }}",
]  # fmt: skip

_DOUBLED = "{% set x = 'aaaaaaaaaa' %}"
HOSTILE = [
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
    "{{ gone }}", "{{ gone.x }}", "{% for i in gone %}{% endfor %}",
    "{% set x = [[1]] %}" + "{% set x = [x, x] %}" * 40 + "{{ x | tojson }}",
    "{% set n = '\\n' * 900000 %}{{ n | indent(900000, true, true) }}",
    # beyond the spike
    "{{ 15 | round(-1000000000) + gone }}",
    "{{ range(100000) | map('replace', '1', 'x' * 900000) | list | length }}",
    "".join(f"{{% set a{i} = 'a' * 900000 %}}" for i in range(600)),
    "".join(f"{{% set a{i} = [1] * 90000 %}}" for i in range(600)),
    "{% set a = [1] * 90000 %}" + "".join(f"{{% set a{i} = a[:] %}}" for i in range(600)),
    "{% set a = [1] * 90000 %}{% set b = [1] * 90000 %}{% set c = [a] * 90000 %}{% set e = [b] * 90000 %}{{ c == e }}",
    "{% set a = ['a' * 900] * 9000 %}{{ [a, a] | tojson }}",
    "{{ [[]] | sum(start=[]) }}", "{{ d.missing }}", "{{ name + 1 }}", "{{ items[:: 0] }}", "{{ 1 / 0 }}",
    "{{ [1, 'a'] | sort }}", "{{ {[1]: 2} }}", "{{ opaque }}",
    "{{ 'a'.split('') }}", "{{ items['__class__'] }}",
    "{% set x = ('a,' * 400000).split(',') %}{{ x | length }}", "{{ 'a' * -1 }}{{ gone }}",
    "{% for i in range(300) %}{{ ('b' * 900000) | replace('b', 'c') | length }}{% endfor %}",
]  # fmt: skip


def read(text: str) -> tuple[Any, list[Diagnostic]]:
    problems = Diagnostics()
    prompt = read_jinja(Reader(problems), Source("prompt", text).span())
    return prompt, list(problems)


@pytest.mark.parametrize("text", GOOD)
def test_the_subset_gives_what_jinja_gives(text: str) -> None:
    prompt, problems = read(text)
    assert not problems
    assert prompt.fill(GIVEN, GIVEN) == GOOD[text]


@pytest.mark.parametrize("text", REFUSED, ids=range(len(REFUSED)))
def test_a_template_outside_the_subset_is_refused_when_it_is_loaded(text: str) -> None:
    prompt, problems = read(text)
    assert prompt is None
    assert [(one.code, one.severity) for one in problems] == [("graph.template", "error")]
    assert all(one.span is not None and one.hint for one in problems)


class Opaque:
    """An object of the notebook whose text cannot be made."""

    def secret(self) -> str:
        return "secret"

    def __str__(self) -> str:
        raise OSError("no text")


_CHILD = """
import json, resource, sys, time
resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))
resource.setrlimit(resource.RLIMIT_CPU, (int(sys.argv[1]), int(sys.argv[1])))
from tests.languages.test_graph_jinja import GIVEN, HOSTILE, Opaque, read
import agf_magics as agf
found = []
for text in HOSTILE:
    prompt, problems = read(text)
    began = time.process_time()
    try:
        prompt.fill(GIVEN, {**GIVEN, "opaque": Opaque()})
        code = None
    except agf.StepError as error:
        code = [error.diagnostic.code, error.diagnostic.span is not None]
    found.append([code, time.process_time() - began])
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def ended() -> list[Any]:
    """How each hostile template ended in a process with 4 GB: its code, and its seconds of the processor."""
    root = Path(agf.__file__).parents[1]
    command = [sys.executable, "-c", _CHILD, str(3 * len(HOSTILE))]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, env={"PYTHONPATH": str(root)})
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))


@pytest.mark.parametrize("number", range(len(HOSTILE)))
def test_a_hostile_template_ends_with_a_code_and_a_place(number: int, ended: list[Any]) -> None:
    code, _ = ended[number]
    assert code is not None, f"{HOSTILE[number][:100]} was rendered"
    assert code[0] in ("graph.template-failed", "graph.template-limit")
    assert code[1]


def test_an_error_names_its_line_and_a_fix() -> None:
    prompt, problems = read("Hello\n{{ nam }}\n")
    assert not problems
    with pytest.raises(agf.StepError) as caught:
        prompt.fill({}, {"name": "Ada"})
    found = caught.value.diagnostic
    assert (found.message, found.span.place) == ("the template failed: 'nam' has no value", (2, 1))
    assert found.hint == "did you mean name? a value that may be missing: {{ nam | default('') }}"
    _, problems = read("Hello\n  {{ name | uper }}\n")
    (refused,) = problems
    assert (refused.message, refused.span.text, refused.span.place[0]) == ("unknown filter 'uper'", "uper", 2)
    assert refused.hint is not None
    assert refused.hint.startswith("did you mean upper? filters are abs, ")


def test_a_template_reads_attributes_of_objects_but_no_methods() -> None:
    prompt, _ = read(
        "{{ one.name }} {{ one.call is defined }} {{ one._own is defined }}".replace("one._own", "one['_own']")
    )
    held = SimpleNamespace(name="Ada", call=print, _own=1)
    assert prompt.fill({}, {"one": held}) == "Ada False False"


def test_the_names_that_a_template_reads_are_known() -> None:
    prompt, _ = read("{% for x in xs %}{{ x }}{{ y.z }}{{ state.q.r }}{% endfor %}{{ w | default(1) }}")
    assert [(slot.names, slot.in_state, slot.certain) for slot in prompt.slots] == [
        (("xs",), False, True), (("y",), False, True), (("q", "r"), True, True), (("w",), False, False),
    ]  # fmt: skip


assert resource  # the child limits itself with it: this test needs a POSIX system
