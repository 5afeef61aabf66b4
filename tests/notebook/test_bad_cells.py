"""Hostile and clumsy cells in a real kernel: each ends in a short error, and the kernel and its registry stay
intact."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.notebook.conftest import Cell, Kernel, lent

pytestmark = pytest.mark.kernel

SETUP = """\
import asyncio, os, sys, threading, time
import agf_magics as agf

class Mute(Exception):
    def __str__(self): raise RuntimeError('no text')

class Shy:
    def __repr__(self): raise RuntimeError('no repr')
    def _repr_html_(self): return '<script>'

def tools(**made):
    for name, function in made.items():
        agf.tool(function, name=name)

def raises(error):
    def tool(): raise error
    return tool

def removes_itself():
    agf.registry.tools.remove('removes_itself')
    return 'gone'

def moves():
    os.chdir('..')
    return 'moved'

def threads():
    started = [threading.Thread(target=print, args=('from a thread',)) for _ in range(3)]
    for thread in started: thread.start()
    for thread in started: thread.join()

gate = os.path.abspath('gate')

async def blocks():
    print('blocking')
    open(gate).read()

tools(
    leaves=raises(SystemExit(3)), interrupts=raises(KeyboardInterrupt()), cancels=raises(asyncio.CancelledError()),
    mutes=raises(Mute()), groups=raises(ExceptionGroup('g', [ValueError(1)])), texts=raises(agf.StepError('mine')),
    breaks=raises(ExceptionGroup('g', [ExceptionGroup('h', [ValueError(1), OSError('no line')])])),
    marks=raises(ValueError('<script>\\x1b[31m\\x00\\u202e')),
    shy=Shy, removes_itself=removes_itself, threads=threads, blocks=blocks, moves=moves,
    nests=lambda: agf.run('calm').output, fails_within=lambda: agf.run('wrong'),
    runs_a_loop=lambda: asyncio.run(asyncio.sleep(0, 'ran')),
)

@agf.tool(secret=['token'])
def sign(token): raise ValueError('cannot sign with ' + token)

agf.define('pipeline: calm\\nsteps:\\n- transform: {value: "\\'calm\\'"}')
agf.define('pipeline: wrong\\nsteps:\\n- transform: {value: "1"}\\n- transform: {value: 1/0}')
"""


@pytest.fixture
def alive(kernels: dict[str, Kernel], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    yield from lent(kernels, "bad", tmp_path_factory, SETUP)


@pytest.fixture
def kernel(alive: Kernel) -> Iterator[Kernel]:
    """The kernel, which must be unchanged at the end of the test."""
    before = alive.good("print(repr(agf.registry))").printed
    yield alive
    if alive.unended:
        return
    alive.good("tools(removes_itself=removes_itself)\nif 'p' in agf.registry.flows: agf.registry.flows.remove('p')")
    assert alive.good("print(repr(agf.registry))").printed == before
    assert alive.good("print(agf.run('calm').output, sys.stdout is not None)").printed == "calm True\n"


def run(kernel: Kernel, *steps: str, line: str = "--run --draw") -> Cell:
    return kernel.run(f"%%pipeline {line}\npipeline: p\nsteps:\n" + "\n".join(f"- {step}" for step in steps))


def short(cell: Cell) -> str:
    """The error of a failed cell, which has no frame of this package or of IPython."""
    assert cell.reply["status"] == "error", cell.told
    assert "/agf_magics/" not in cell.traceback
    assert "site-packages" not in cell.traceback
    assert len(cell.traceback) < 10_000
    return cell.traceback


RAISING = ("leaves", "interrupts", "cancels", "mutes", "groups", "texts", "marks")


@pytest.mark.parametrize("name", RAISING)
def test_whatever_a_tool_raises_is_a_short_error_with_a_caret(kernel: Kernel, name: str) -> None:
    message = short(run(kernel, f"tool: {{name: {name}}}"))
    assert message.startswith(f"StepError: tool '{name}' failed: ")
    assert f"   4 | - tool: {{name: {name}}}\n     |                {'^' * len(name)}" in message
    assert not {"\u202e", "\x00"} & set(message)


def test_the_members_of_a_group_of_failures_are_named(kernel: Kernel) -> None:
    message = " ".join(short(run(kernel, "tool: {name: breaks}")).split())
    assert "failed: ExceptionGroup: g (1 sub-exception): ValueError: 1; OSError: no line [step.tool-failed]" in message


def test_a_run_that_fails_inside_a_tool_fails_that_tools_step(kernel: Kernel) -> None:
    cell = run(kernel, "tool: {name: fails_within}")
    assert "[r1.division-by-zero]" in short(cell)
    assert "✗" in cell.outputs[-1]["text/plain"]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("shy", "Shy"), ("removes_itself", "gone"), ("nests", "calm"), ("runs_a_loop", "ran"), ("moves", "moved")],
)
def test_a_tool_may_do_strange_things(kernel: Kernel, name: str, expected: str) -> None:
    cell = run(kernel, f"tool: {{name: {name}}}")
    assert cell.reply["status"] == "ok", cell.told
    assert expected in cell.outputs[-1]["text/plain"]
    assert "<script>" not in cell.outputs[-1]["text/html"]


def test_a_removed_tool_stays_available_to_the_run_that_has_it(kernel: Kernel) -> None:
    steps = ["tool: {name: removes_itself}"] * 2
    assert run(kernel, *steps).reply["status"] == "ok"
    assert "[flow.unknown-tool]" in short(run(kernel, *steps))


def test_prints_of_a_tools_own_threads_come_with_its_cell(kernel: Kernel) -> None:
    assert run(kernel, "tool: {name: threads}").printed.count("from a thread") == 3


def test_no_secret_is_shown_when_its_tool_fails(kernel: Kernel) -> None:
    cell = run(kernel, "tool: {name: sign, args: {token: !expr ctx.key}}", line="--run --draw --set key=hunter2")
    assert "cannot sign with •••" in short(cell)
    contents = cell.of("stream", "display_data", "update_display_data", "execute_result", "error")
    assert "hunter2" not in str([*contents, cell.reply])


NAMES = ["<img src=x onerror=alert(1)>", "a\u202eb", "a\\e[31m\\0\\nb", "'; DROP", "x" * 5_000]


@pytest.mark.parametrize("name", NAMES, ids=["markup", "bidi", "control", "quote", "long"])
def test_a_strange_name_is_shown_as_text(kernel: Kernel, name: str) -> None:
    cell = kernel.run(
        f'%%pipeline --run --draw\npipeline: "{name}"\nsteps:\n- transform: {{value: "1", output: "{name}"}}'
    )
    assert cell.reply["status"] == "ok", cell.told
    listed = kernel.good("%flows")
    kernel.good("for name in set(agf.registry.flows) - {'calm', 'wrong'}: agf.registry.flows.remove(name)")
    for output in [*cell.outputs, *listed.outputs]:
        assert "<img src=x" not in output["text/html"] + output.get("image/svg+xml", "")
        assert not any(c in text for text in output.values() for c in "\u202e\x1b\x00")
    assert "\u202e" not in cell.printed


BAD = {
    "two megabytes": ("- transform: {value: '" + "1" * 2_000_000 + "'}", "yaml.too-large"),
    "10,000 nested lists": ("- tool: {name: shy, args: {x: " + "[" * 10_000 + "]" * 10_000 + "}}", "yaml.too-deep"),
    "a tab": ("\t- transform: {value: '1'}", "yaml.syntax"),
    "two pipelines": ("- transform: {value: '1'}\n---\npipeline: q\nsteps: []", "pipeline.two-pipelines"),
    "a NUL": ("- transform: {value: \0}", "yaml.character"),
    "an unknown tool": ("- tool: {name: shyy}", "flow.unknown-tool"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_cell_is_a_short_error(kernel: Kernel, name: str) -> None:
    body, code = BAD[name]
    assert f"[{code}]" in short(kernel.run(f"%%pipeline --run\npipeline: p\nsteps:\n{body}"))


LINES = ["--set x", "--set x=$nobody", "--set x=[1", "--set x=$__import__('os')", "--out class", "--timeout -1", "--rn"]


@pytest.mark.parametrize("line", LINES)
def test_a_bad_line_is_a_short_error_and_nothing_runs(kernel: Kernel, line: str) -> None:
    cell = run(kernel, "transform: {value: '1'}", line=f"--run {line}")
    message = short(cell)
    assert "[magic." in message or "[yaml." in message
    assert "line 1, column" in message
    assert not cell.outputs


def test_a_loop_that_a_tool_blocks_is_abandoned_and_the_run_says_so(kernel: Kernel) -> None:
    cell = kernel.begin("%%pipeline --run --out r\npipeline: p\nsteps:\n- tool: {name: blocks}")
    cell.until("stream", "blocking")
    kernel.interrupt()
    message = short(cell.end())
    (kernel.folder / "gate").write_text("open")
    assert "left running: blocked in blocks" in message
    assert kernel.good("print(r.status, r.steps['steps[0]'].state)").printed == "cancelled left\n"


@pytest.mark.parametrize(
    "cell",
    [
        "print((await agf.arun('calm')).output)",
        "async def go(): return agf.run('calm').output\nprint(await go())",
        "print(*{r.output for r in await asyncio.gather(agf.arun('calm'), agf.arun('calm'))})",
        "print(await asyncio.to_thread(lambda: agf.run('calm').output))",
    ],
)
def test_a_run_works_at_every_place_of_a_notebook(kernel: Kernel, cell: str) -> None:
    assert kernel.good(cell).printed == "calm\n"
