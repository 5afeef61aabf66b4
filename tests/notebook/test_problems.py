"""The problems of a cell while the user writes it: the same as at loading, at their places, without any effect."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agf_magics import define
from agf_magics.catalog import Registry, policy, tool
from agf_magics.editor.problems import LONGEST_CELL, problems_of
from agf_magics.flow.steps import Compute
from agf_magics.notebook.completion.editor import TARGET
from tests.notebook.conftest import Kernel


def problem_marks(cell: str, registry: Registry | None = None) -> list[tuple[str, str]]:
    """The code of each problem and the text that is underlined."""
    units = cell.encode("utf-16-le")
    problems = problems_of(cell, registry or Registry())
    return [
        (problem["code"], units[2 * problem["start"] : 2 * problem["end"]].decode("utf-16-le")) for problem in problems
    ]


READS = 'pipeline: p\nsteps:\n- transform: {value: "1 + bb"}\n'


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("%%pipeline\npipeline: p\nsteps:\n- tool: {name: fetsh}", [("flow.unknown-tool", "fetsh")]),
        ("\n%%pipeline\npipeline: 🍐\nsteps:\n- tol: {}", [("pipeline.step-kind", "tol")]),
        ("%%pipeline p --rn\npipeline: p", [("magic.unknown-option", "--rn")]),
        ("%%pipeline p --set 'a\npipeline: p", [("magic.quote", "'")]),
        ("%%policy p\nid: agf.loop\nconfig: {}", [("policy.schema", "config")]),
        ("%%plan p\n- _tool: nix", [("flow.unknown-tool", "nix")]),
        ("%%plan --planner m\ntasks: x", [("plan.unknown-key", "tasks")]),
        ("%%graph g\nnodes: {a: {type: tol}}\nedges: []", [("graph.node-type", "tol")]),
        ("%%graph\nnodes: {a: {type: passthrough, output: {}}}\nedges: [{from: START, to: a}, {from: a, to: END}]",
         [("define.no-name", "%%graph")]),
        ("%%run_pipeline_inline\npipeline: p\nsteps: x", [("pipeline.wrong-type", "x")]),
        (f"%%pipeline --set x=1\n{READS}", [("magic.needs-run", "x=1")]),
        (f"%%pipeline --draw --dry\n{READS}", [("magic.needs-run", "--dry")]),
        (f"%%pipeline --run\n{READS}", [("run.missing-input", "bb")]),
        (f"%%pipeline --run --set b=1\n{READS}", [("run.missing-input", "bb")]),
        (f"%%run_pipeline_inline\n{READS}", [("run.missing-input", "bb")]),
        (f"%%pipeline --run --set bb=1\n{READS}", []),
        (f"%%pipeline --run --input given\n{READS}", []),
        (f"%%pipeline\n{READS}", []),
        ("%%pipeline p", []),
        ("%%pipeline p\n\n", []),
        ("%%pipeline --help\nsteps", []),
        ("%%pipeline?\nsteps", []),
        ("%%bash\nsteps", []),
        ("x = 1", []),
        ("", []),
    ],
)  # fmt: skip
def test_the_findings_of_loading_are_underlined(cell: str, expected: list[tuple[str, str]]) -> None:
    assert problem_marks(cell)[: len(expected) or None] == expected


def test_the_input_of_the_line_is_known() -> None:
    cell = "%%pipeline p --run{}\npipeline: p\nsteps:\n- agent: {{prompt: '{{topic}}'}}"
    codes = [[code for code, _ in problem_marks(cell.format(line))] for line in ("", " --set topic=x", " --input data")]
    assert ["pipeline.template-name" in code for code in codes] == [True, False, False]


def test_nothing_is_registered_no_file_is_read_and_no_code_is_called(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    registry, called = Registry(), []
    (tmp_path / "tools.py").write_text("raise SystemExit('imported')")

    @policy("x-acme.own", registry=registry)
    def own(config: dict[str, Any]) -> Compute:
        called.append(config)
        raise AssertionError

    @tool(registry=registry)
    def fetch(url: str) -> str:
        called.append(url)  # type: ignore[arg-type]
        return url

    before = [list(shelf) for shelf in (registry.flows, registry.schemas, registry.tools)]
    assert problem_marks("%%policy p\nid: x-acme.own\nconfig: {}", registry) == []
    assert problem_marks("%%pipeline\npipeline: p\nsteps:\n- tool: {name: fetch, args: {url: x}}", registry) == []
    file = (
        "%%graph g\nnodes: {a: {type: subgraph, graph: other.yaml}}\nedges: [{from: START, to: a}, {from: a, to: END}]"
    )
    assert "file.missing" not in [code for code, _ in problem_marks(file, registry)]
    assert called == []
    assert [list(shelf) for shelf in (registry.flows, registry.schemas, registry.tools)] == before


def test_a_long_cell_is_not_read() -> None:
    assert problem_marks("%%pipeline p\n" + "x: [\n" * LONGEST_CELL) == []


@given(st.text(max_size=60))
def test_any_text_has_places_in_the_text(text: str) -> None:
    for cell in (text, f"%%pipeline p\n{text}", f"%%graph {text}", f"%%plan p\n- _tool: {text}"):
        size = len(cell.encode("utf-16-le", "surrogatepass")) // 2
        for problem in problems_of(cell, Registry()):
            assert 0 <= problem["start"] <= problem["end"] <= size


@pytest.mark.kernel
def test_a_page_finds_the_comm_by_its_target_and_asks_also_while_a_cell_runs(page_kernel: Kernel) -> None:
    comms = page_kernel.reply(page_kernel.client.comm_info(target_name=TARGET))["comms"]
    (comm,) = comms
    assert (
        ask(page_kernel, comm, "a", "%%pipeline p\npipeline: p\nsteps:\n- tol: {}")["problems"][0]["code"]
        == "pipeline.step-kind"
    )
    assert ask(page_kernel, comm, "b", "x = 1") == {"id": "b", "problems": []}
    page_kernel.client.control_channel.send(page_kernel.client.session.msg("create_subshell_request", {}))
    subshell = page_kernel.client.get_control_msg(timeout=60)["content"].get("subshell_id")
    if subshell is None:
        pytest.skip("this kernel has no subshells: it answers when the cell has ended")
    cell = page_kernel.begin("open('gate').read()")
    assert (
        ask(page_kernel, comm, "c", "%%plan p\n- _tool: nix", subshell)["problems"][0]["message"]
        == "no tool 'nix' is registered"
    )
    (page_kernel.folder / "gate").write_text("open")
    cell.end()
    page_kernel.client.control_channel.send(
        page_kernel.client.session.msg("delete_subshell_request", {"subshell_id": subshell})
    )
    page_kernel.client.get_control_msg(timeout=60)


def ask(kernel: Kernel, comm: str, id: str, text: str, subshell: str | None = None) -> dict[str, Any]:
    """The answer of the kernel, as a page receives it."""
    message = kernel.client.session.msg("comm_msg", {"comm_id": comm, "data": {"id": id, "text": text}})
    if subshell is not None:
        message["header"]["subshell_id"] = subshell
    kernel.client.shell_channel.send(message)
    while True:
        message = kernel.next()
        data = message["content"].get("data", {}) if message["msg_type"] == "comm_msg" else {}
        if data.get("id") == id:
            return dict(data)
        if message["parent_header"].get("msg_type") != "comm_msg":
            kernel.strays.append(message)


def test_a_flow_that_calls_itself_is_reported_even_if_only_the_line_names_it() -> None:
    cell = "%%graph g\nnodes: {a: {type: tool, tool: g}}\nedges: [{from: START, to: a}, {from: a, to: END}]"
    registry = Registry()
    define(cell.partition("\n")[2], "graph", name="g", registry=registry)
    assert ("flow.call-cycle", "g") in problem_marks(cell, registry)


def test_a_circle_of_schemas_that_another_cell_closes_is_reported() -> None:
    registry = Registry()
    define("schema: A\nfields: {b: {type: ref, schema: B}}\n", registry=registry)
    cell = "%%pipeline\nschema: B\nfields: {a: {type: ref, schema: A}}\n"
    assert problem_marks(cell, registry) == [("schema.cycle", "A")]
    assert problem_marks(cell.replace("schema: A", "schema: C"), registry) == []
