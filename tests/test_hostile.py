"""Texts and files that are mutilated, long, deep or full of special characters give a flow, or a short error with its
place.

The flow can be drawn. The cost grows with the size of a text, not with its square.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import agf_magics as agf
from agf_magics.catalog import install
from agf_magics.commands.line import read
from agf_magics.commands.magics import COMMANDS
from agf_magics.journal.database.store import Store
from agf_magics.languages import LANGUAGES
from agf_magics.languages.ours import detect_language
from agf_magics.lifecycle.definitions.define import register
from agf_magics.settings import settings as all_settings
from agf_magics.text.suggestions import COMPARED
from agf_magics.text.yaml import nodes
from tests.counting import work
from tests.engine import kept
from tests.languages.loading import load as load_text

VECTORS = Path(__file__).parent / "vectors"

CODE = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\.[a-z0-9]+(?:-[a-z0-9]+)*")
PIECE = re.compile(r"[A-Za-z_†$][\w.†-]*|\d+|[^\w\s]|\s+")
JUNK = (
    "", "null", "true", "-1", "1e999", ".nan", "[]", "{}", "[[]]", "'", '"', "\u202e", "\0", "\ud800", "†state.x",
    "{state.x}", "a.output.b", ".[]", "!expr ctx.a", "*a", "&a x", "- ", "? ", "|", "\n", "\t", "{", "}", ":", ",",
    "9" * 400, "(((", "\u2028", "𐀀", "{{", "$state.x", "x < 1", "_tool", "agf.loop", "pipe", "item", "1_000", "１",
)  # fmt: skip


def texts(language: str) -> list[str]:
    """Small documents of a language, from its vectors."""
    rows = json.loads((VECTORS / f"{language}_documents.json").read_text("utf-8"))["rows"]
    return [row["text"] for row in rows if len(row["text"]) < 3_000]


@st.composite
def mutilated(draw: st.DrawFn, language: str, documents: list[str]) -> str:
    """A document with some of its pieces replaced, doubled, swapped or removed."""
    pieces = PIECE.findall(draw(st.sampled_from(documents))) or [""]
    for _ in range(draw(st.integers(1, 3))):
        place, other = (draw(st.integers(0, len(pieces) - 1)) for _ in range(2))
        match draw(st.integers(0, 4)):
            case 0:
                pieces[place] = draw(st.sampled_from(JUNK))
            case 1:
                pieces[place] = pieces[other]
            case 2:
                pieces[place], pieces[other] = pieces[other], pieces[place]
            case 3:
                pieces.insert(place, pieces[other])
            case _:
                pieces[place] = ""
    return "".join(pieces)


@pytest.fixture(scope="module")
def registry() -> agf.Registry:
    registry = agf.Registry()
    install(registry, folder=Path.cwd, allow_shell=lambda: False)
    for name in ("a", "b", "f"):
        agf.tool(lambda **arguments: arguments, name=name, registry=registry)
    return registry


def check_diagnostic(diagnostic: agf.Diagnostic) -> None:
    assert CODE.fullmatch(diagnostic.code), diagnostic.code
    assert diagnostic.span is None or 0 <= diagnostic.span.start <= diagnostic.span.end <= len(
        diagnostic.span.source.text
    ), diagnostic
    assert len(str(diagnostic)) < 5_000


def check_is_short(error: agf.AgfError) -> None:
    assert len(str(error)) < 100_000


def try_text(language: str, text: str, registry: agf.Registry) -> None:
    """Load a text and draw it, and start it as a dry run, which calls nothing."""
    try:
        flow = agf.load(text, language, registry=registry)
        for diagnostic in flow.warnings:
            check_diagnostic(diagnostic)
        mime_texts = agf.draw(flow)._repr_mimebundle_()
        assert not set("\0\x1b\u202e") & set("".join(mime_texts.values()))
        agf.run(flow, {"x": 1, "items": [1]}, registry=registry, raises=False, dry=True)._repr_mimebundle_()
    except agf.DefinitionError as error:
        for diagnostic in error.diagnostics:
            check_diagnostic(diagnostic)
        check_is_short(error)


@pytest.mark.law
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_mutilated_document_is_refused_or_can_be_drawn(language: str, registry: agf.Registry) -> None:
    @given(mutilated(language, texts(language)))
    @example("")
    @example("[]")
    @example("calls: []")
    def look(text: str) -> None:
        try_text(language, text, registry)

    look()


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_text_cut_short_anywhere_is_a_definition_or_an_error_that_says_what_is_wrong(language: str) -> None:
    whole = texts(language)
    for text in whole[:: max(1, len(whole) // 30)]:
        for end in range(len(text)):
            definition, problems = load_text(language, text[:end])
            assert definition.flow or definition.schemas or problems


@given(st.text(max_size=60))
def test_any_text_is_of_some_language_and_no_flow_by_accident(text: str) -> None:
    try_text(detect_language(text), text, agf.Registry())


@pytest.mark.parametrize("begin", ["{", "", "nodes", "{,", "- "])
@pytest.mark.parametrize("more", [" ", "\n", "{ ", "- "])
def test_the_language_of_a_large_text_that_begins_like_another_is_named(begin: str, more: str) -> None:
    """Each pattern reads a letter once. Two patterns that accept the same blanks would never end."""
    assert detect_language(begin + more * 200_000 + "x") == "pipeline"


EXPRESSIONS = [(name, expression) for name, language in LANGUAGES.items() for expression in language.expressions]
SIGNS = st.sampled_from(
    [*"()[]{}.,:'\"|&!=<>+-*/%†$①é\\ \n\0", "and", "or", "not", "state", "ctx", "parent", "output", "input", "x", "1",
     "1e9", "†state.x", "{state.x}", ".[]", "'a'", "||", "&&", "map(", "x =>", "null", "\ud800"]
)  # fmt: skip


@pytest.mark.law
@pytest.mark.parametrize("name", [expression for _, expression in EXPRESSIONS])
def test_any_expression_has_a_value_or_says_what_is_wrong(name: str) -> None:
    @given(st.lists(SIGNS, max_size=14).map("".join))
    @example("(" * 5_000)
    @example("[" * 5_000 + "]" * 5_000)
    @example("{" * 5_000)
    @example("a." * 50_000)
    @example("†state.x || " * 5_000)
    @example("1 + " * 5_000 + "1")
    def look(text: str) -> None:
        try:
            agf.evaluate(name, text, {"x": [1, {"a": None}], "parent": {"input": {"x": 1}}})
        except (agf.DefinitionError, agf.StepError) as error:
            for diagnostic in error.diagnostics:
                check_diagnostic(diagnostic)

    look()


@pytest.mark.law
@pytest.mark.parametrize("name", COMMANDS)
def test_any_line_of_a_magic_is_understood_or_refused(name: str) -> None:
    words = ["a", "--set", "x=1", "--run", "--help", "-h", "--", "é", *"'\"\\-= \0\u202e\t"]

    @given(st.lists(st.sampled_from(words), max_size=8).map("".join) | st.text(max_size=30))
    def look(line: str) -> None:
        try:
            read(COMMANDS[name], line)
        except agf.DefinitionError as error:
            check_diagnostic(error.diagnostic)

    look()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(
    st.binary(max_size=40)
    | st.lists(
        st.sampled_from(
            ["[tool.agf-magics]\n", "journal", "model", "=", "1", '"x"', "true", "\n", "[", "]", "nan", "'"]
        ),
        max_size=12,
    ).map(lambda parts: "".join(parts).encode())
)
def test_any_project_file_gives_settings_or_an_error(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "pyproject.toml").write_bytes(data)
    try:
        all_settings.read(tmp_path)
    except agf.DefinitionError as error:
        check_diagnostic(error.diagnostic)


# --- the journal ---


def ask_journal(registry: agf.Registry) -> None:
    """Ask everything about the runs of a journal that may be damaged."""
    for run in agf.runs():
        try:
            past = agf.runs(run.run_id)
            past._repr_mimebundle_()
            list(past.records())
            repr(past.calls), repr(past.trace), past.output, past.stores, past.error
            agf.resume(run.run_id, registry=registry, raises=False)
        except agf.AgfError as error:
            check_diagnostic(error.diagnostic)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=40)), max_size=4), st.floats(0, 1))
def test_a_damaged_journal_is_an_error_and_nothing_else(
    tmp_path: Path, registry: agf.Registry, scars: list[tuple[float, bytes]], length: float
) -> None:
    path = tmp_path / "runs.sqlite"
    with kept.journal_in(tmp_path):
        agf.run("pipeline: p\nsteps:\n- tool: {name: f, args: {x: [1]}, output: o}", registry=registry)
        kept.flush(path)
    data = bytearray(path.read_bytes())
    for place, scar in scars:
        start = int(place * len(data))
        data[start : start + len(scar)] = scar
    for spare in tmp_path.glob("runs.sqlite*"):
        spare.unlink()
    path.write_bytes(data if length > 0.3 else data[: int(length * 3 * len(data))])
    with kept.journal_in(tmp_path):
        try:
            ask_journal(registry)
        except agf.AgfError as error:
            check_diagnostic(error.diagnostic)
    Store.close_all()
    for spare in tmp_path.glob("runs.sqlite*"):
        spare.unlink()


# --- signs that are somebody's code, or move a terminal's cursor ---

EVIL = "\0\x1b[31m<script>alert(1)</script>\u202e\" &amp; '"
WRITTEN = json.dumps(EVIL)
DOCUMENTS = {
    "pipeline": f"pipeline: {WRITTEN}\ndescription: {WRITTEN}\nsteps:\n"
    f"- tool: {{name: TOOL, args: {{x: {WRITTEN}, {WRITTEN}: 1}}, output: o}}\n",
    "plan": f"- {{_tool: TOOL, x: {WRITTEN}, {WRITTEN}: 1, _outputPath: †state.x}}\n",
    "graph": f"name: {WRITTEN}\nstate: {{x: any}}\nnodes:\n"
    f"  {WRITTEN}: {{type: tool, tool: TOOL, state_key: x, variables: {{x: {WRITTEN}}}}}\n"
    f"edges: [{{from: START, to: {WRITTEN}}}, {{from: {WRITTEN}, to: END}}]\n",
    "policy": "id: agf.sequential\n"
    f"config: {{steps: [{{agent: TOOL, input_mapping: {{{WRITTEN}: parent.input.x}}}}]}}\n",
}


def check_shown(bundle: Mapping[str, str]) -> None:
    for kind, text in bundle.items():
        assert not set("\0\x1b\u202e") & set(text), kind
        assert "<script" not in text or kind in ("text/plain", "text"), kind
        text.encode("utf-8")


@pytest.mark.parametrize("name", ["ident", "boom", "large", "half"])
@pytest.mark.parametrize("language", DOCUMENTS)
def test_signs_that_are_code_are_shown_and_never_obeyed(language: str, name: str, tmp_path: Path) -> None:
    registry = agf.Registry()

    def ident(**arguments: Any) -> Any:
        return arguments

    def boom(**arguments: Any) -> Any:
        raise ValueError(EVIL)

    def large(**arguments: Any) -> Any:
        return {"o": (EVIL + "x") * 200_000}

    def half(**arguments: Any) -> Any:
        return {"\ud800": ["\udfff" + EVIL]}

    for function in (ident, boom, large, half):
        agf.tool(function, registry=registry)
        agf.agent(lambda input, function=function: function(**input), name=function.__name__, registry=registry)
    with kept.journal_in(tmp_path):
        flow = agf.load(DOCUMENTS[language].replace("TOOL", name), language, registry=registry)
        check_shown(agf.draw(flow)._repr_mimebundle_())
        run = agf.run(flow, {"x": EVIL}, registry=registry, raises=False)
        assert (run.status == "error") == (name == "boom")
        check_shown(run._repr_mimebundle_() | {"text": str(run.error)})
        check_shown(agf.draw(run)._repr_mimebundle_())
        check_shown({"text": repr(run.trace), "html": run.trace._repr_html_()} | {"runs": agf.runs()._repr_html_()})
        (one_line,) = agf.runs()
        past = agf.runs(one_line.run_id)
        check_shown(past._repr_mimebundle_() | {"calls": past.calls._repr_html_()})
        assert json.loads(past.export(tmp_path / "run.json").read_text("utf-8"))


def test_names_of_a_hundred_thousand_letters_are_shown_shortened() -> None:
    long = "n" * 100_000
    for text in (
        f"pipeline: {long}\nsteps:\n- tool: {{name: {long}, args: {{{long}: 1}}, output: {long}}}\n",
        f"- {{_tool: {long}, {long}: †state.{long}, _outputPath: †state.{long}}}\n",
        f"name: {long}\nnodes: {{{long}: {{type: tool, tool: {long}}}}}\nedges: [{{from: START, to: {long}}}]\n",
    ):
        try:
            flow = agf.load(text)
        except agf.DefinitionError as error:
            check_is_short(error)
            continue
        assert sum(map(len, agf.draw(flow)._repr_mimebundle_().values())) < 1_000_000


# --- what it costs ---


def _joined(lines: Callable[[int], str]) -> Callable[[int], str]:
    return lambda n: "".join(map(lines, range(n)))


LARGE: dict[str, tuple[str, Callable[[int], str]]] = {
    "steps": (
        "pipeline",
        lambda n: "pipeline: p\nsteps:\n" + _joined(lambda i: f"- tool: {{name: f, output: o{i}}}\n")(n),
    ),
    "unknown names": (
        "pipeline",
        lambda n: (
            "pipeline: p\nsteps:\n"
            + _joined(lambda i: f"- transform: {{value: '1', output: store_{i}}}\n- transform: {{value: stoer_{i}}}\n")(
                n
            )
        ),
    ),
    "braces": ("pipeline", lambda n: "pipeline: p\nsteps:\n- agent: {prompt: '" + "{ctx.a} " * n + "'}"),
    "slots of a prompt": (
        "pipeline",
        lambda n: "pipeline: p\nsteps:\n- agent: {prompt: '" + " ".join(f"{{ctx.a{i}}}" for i in range(n)) + "'}",
    ),
    "values of an enum": (
        "pipeline",
        lambda n: (
            "schema: A\nfields: {x: {type: enum, values: ["
            + ", ".join(f"v{i}" for i in range(n))
            + "]}}\n---\npipeline: p\nsteps:\n- tool: {name: f, schema: A, output: o}\n- transform: {value: ctx.o.x}\n"
        ),
    ),
    "schemas in a chain": (
        "pipeline",
        lambda n: (
            _joined(lambda i: f"schema: A{i}\nfields: {{x: {{type: ref, schema: A{i + 1}}}}}\n---\n")(n)
            + f"schema: A{n}\nfields: {{x: {{type: string}}}}\n---\npipeline: p\nsteps:\n"
            + _joined(lambda i: "- tool: {name: f, schema: A0, output: o}\n- transform: {value: ctx.o.x.x.y}\n")(n)
        ),
    ),
    "calls in a chain": (
        "plan",
        _joined(lambda i: f"- {{_tool: f, x: †state.a{i - 1 if i else 0}, _outputPath: †state.a{i}}}\n"),
    ),
    "alternatives": (
        "plan",
        lambda n: "- {_tool: f, x: '" + " || ".join(f"†state.a{i}" for i in range(n)) + "', _outputPath: †state.z}",
    ),
    "nodes in a chain": (
        "graph",
        lambda n: (
            "name: g\nstate: {x: int}\nnodes:\n"
            + _joined(lambda i: f"  n{i}: {{type: passthrough, output: {{x: 1}}}}\n")(n)
            + "edges:\n- {from: START, to: n0}\n"
            + _joined(lambda i: f"- {{from: n{i}, to: {f'n{i + 1}' if i + 1 < n else 'END'}}}\n")(n)
        ),
    ),
    "nodes in a ring": (
        "graph",
        lambda n: (
            "name: g\nstate: {x: int}\nnodes:\n"
            + _joined(lambda i: f"  n{i}: {{type: passthrough, output: {{x: 1}}}}\n")(n)
            + "edges:\n- {from: START, to: n0}\n"
            + _joined(lambda i: f"- {{from: n{i}, to: n{(i + 1) % n}, condition: x < {i}}}\n")(n)
        ),
    ),
    "steps of a policy": (
        "policy",
        lambda n: "id: agf.sequential\nconfig:\n  steps:\n" + _joined(lambda i: "  - {agent: ag}\n")(n),
    ),
    "fields of a mapping": (
        "policy",
        lambda n: (
            "id: agf.sequential\nconfig:\n  steps:\n  - agent: ag\n    input_mapping:\n"
            + _joined(lambda i: f"      x{i}: parent.input.a{i}\n")(n)
        ),
    ),
}


@pytest.mark.parametrize("name", LARGE)
def test_what_a_text_costs_grows_with_its_length(name: str, registry: agf.Registry) -> None:
    language, text_of = LARGE[name]

    def load(text: str) -> Callable[[], object]:
        def act() -> None:
            try:
                register(text, language, name="large", registry=agf.Registry())
            except agf.DefinitionError as error:
                check_is_short(error)

        return act

    load(text_of(10))()  # fills the caches
    small, large = work(load(text_of(100))), work(load(text_of(400)))
    assert large < 4 * small * 1.1, (small, large)  # these are counts of calls, which grow at most 4.0-fold


def test_guesses_at_names_are_bounded_for_a_whole_text() -> None:
    count = 600
    text = "pipeline: p\nsteps:\n" + "".join(f"- transform: {{value: '1', output: store_{i}}}\n" for i in range(count))
    flow = agf.load(text + "".join(f"- transform: {{value: stoer_{i}}}\n" for i in range(count)))
    guessed = [warning for warning in flow.warnings if "did you mean" in (warning.hint or "")]
    assert 0 < len(guessed) <= 2 * COMPARED // count


def test_a_place_in_a_long_text_is_found_without_reading_it_again() -> None:
    """The text contains \\n as an escape. A text without escapes would not be read at all."""
    nodes._letters.cache_clear()
    agf.load('pipeline: p\nsteps:\n- agent: {prompt: "' + "{ctx.a} " * 500 + '\\n"}')
    cache = nodes._letters.cache_info()
    assert cache.hits > 500
    assert cache.misses < 20


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.sampled_from("abcdef")), max_size=14))
def test_a_loop_of_plain_edges_is_reported_and_nothing_else_is(pairs: list[tuple[str, str]]) -> None:
    def ways(name: str) -> set[str]:
        reached: set[str] = set()
        waiting = [name]
        while waiting:
            node = waiting.pop()
            waiting += [to for source, to in pairs if source == node and to not in reached]
            reached |= {to for source, to in pairs if source == node}
        return reached

    nodes = ", ".join(f"{name}: {{type: passthrough}}" for name in "abcdef")
    edges = ", ".join(f"{{from: {source}, to: {to}}}" for source, to in (("START", "a"), *pairs))
    flow = agf.load(f"nodes: {{{nodes}}}\nedges: [{edges}]", "graph", registry=agf.Registry())
    spans = [warning.span for warning in flow.warnings if warning.code == "graph.endless-loop"]
    looping = [name for name in "abcdef" if name in ways(name)]
    assert bool(spans) == bool(looping)
    for place in spans:
        assert place is not None
        assert place.text in looping


def test_a_thousand_runs_leave_nothing_behind() -> None:
    import gc

    registry = agf.Registry()
    agf.tool(lambda x=None: x, name="f", where="loop", registry=registry)
    for text in (
        "pipeline: large\nsteps:\n- tool: {name: f, args: {x: 1}}",
        "name: small\nstate: {n: int}\nnodes: {a: {type: passthrough, output: {n: 1}}}\n"
        "edges: [{from: START, to: a}, {from: a, to: END}]",
    ):
        agf.define(text, registry=registry)

    def runs(count: int) -> int:
        for _ in range(count):
            agf.run("large", registry=registry)
            agf.run("small", {"n": 0}, registry=registry)
        gc.collect()
        return len(gc.get_objects())

    runs(100)
    before = runs(100)
    assert runs(400) < before + 400
