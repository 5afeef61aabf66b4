"""`input` in tools and agents: one question at a time, each call gets its own answer, and ■ ends the question."""

from __future__ import annotations

from pathlib import Path
from queue import Empty

import pytest

from tests.notebook.conftest import PATIENCE, Cell, Kernel, headless, kernel, kernels, page_kernel  # noqa: F401
from tests.processes import script

TOOLS = """
import agf_magics as agf, asyncio, getpass, threading
from concurrent.futures import ThreadPoolExecutor
from agf_magics import agent

@tool
def asks(x: str) -> str:
    return x + "/" + input("Q" + x + " ")

@tool
def asks_thrice(x: str) -> str:
    return "+".join(input("Q" + x + str(n) + " ") for n in range(3))

@tool
def hides(x: str) -> str:
    return x + "/" + getpass.getpass("Q" + x + " ")

@tool
async def asks_on_the_loop(x: str) -> str:
    return x + "/" + input("Q" + x + " ")

@tool
def asks_by_threads(x: str) -> str:
    with ThreadPoolExecutor(2) as pool:
        return "+".join(pool.map(lambda n: input("Q" + x + str(n) + " "), range(2)))

@tool(timeout=3)
def asks_in_time(x: str) -> str:
    return x + "/" + input("Q" + x + " ")

@tool
def debugs(x: str) -> str:
    value = "V" + x
    from IPython.core.debugger import set_trace
    set_trace()
    return value

@agent(default=True)
def me(prompt):
    return prompt + "/" + input("Q" + prompt + " ")

def fan(name, do):
    agf.define("{pipeline: %s, steps: [{for_each: {items: [a, b, c, d], on_error: abort, do: %s,"
               " collect: {transform: {value: pipe}}}}]}" % (name, do))

for name in ("asks", "asks_thrice", "hides", "asks_on_the_loop", "asks_by_threads", "asks_in_time", "debugs"):
    fan(name, "{tool: {name: %s, args: {x: !expr item}}}" % name)
fan("agent", "{agent: {prompt: '{item}'}}")
agf.define("{calls: [%s], output: {%s}}" % (
    ", ".join("{_tool: asks, x: %s, _outputPath: $state.%s}" % (x, x) for x in "abcd"),
    ", ".join("%s: $state.%s" % (x, x) for x in "abcd")), "plan", name="plan")
agf.define("{id: agf.batch, config: {agent: answers, input_mapping: {x: 'parent.input.xs.[]'}}}",
           "policy", name="batch")
agf.define("{state: {xs: list, r: list}, nodes: {m: {type: map, over: '{state.xs}', as: x,"
           " node: {type: python, tool: asks}, collect: r}}, edges: [{from: START, to: m}]}", "graph", name="map")

@agent
def answers(x):
    return asks(x)
"""


@pytest.fixture
def ready(kernel: Kernel) -> Kernel:  # noqa: F811
    kernel.good(TOOLS)
    return kernel


def typed(kernel: Kernel, cell: Cell, at_most: int = 100, answer: str = "") -> list[str]:  # noqa: F811
    """Answer each question with ``answer``, or with its own text, until the cell ends. Returns the questions."""
    questions: list[str] = []
    while len(questions) < at_most:
        try:
            question = kernel.client.get_stdin_msg(timeout=0.1)
        except Empty:
            try:
                message = kernel.client.get_iopub_msg(timeout=0.1)
            except Empty:
                continue
            cell.messages.append(message)
            state = message["content"].get("execution_state")
            if message["parent_header"].get("msg_id") == cell.id and state == "idle":
                break
            continue
        with pytest.raises(Empty):  # only one question at a time
            kernel.client.get_stdin_msg(timeout=0.05)
        questions.append(question["content"]["prompt"])
        kernel.client.input(answer or f"answer to {questions[-1].strip()}")
    return questions


def pairs(*names: str) -> str:
    return str([f"{name}/answer to Q{name}" for name in names])


RUNS = {
    "asks": ("agf.run('asks').output", pairs(*"abcd")),
    "agent": ("agf.run('agent').output", pairs(*"abcd")),
    "hides": ("agf.run('hides').output", pairs(*"abcd")),
    "asks_on_the_loop": ("agf.run('asks_on_the_loop').output", pairs(*"abcd")),
    "asks_in_time": ("agf.run('asks_in_time').output", pairs(*"abcd")),
    "plan": ("list(agf.run('plan').output.values())", pairs(*"abcd")),
    "batch": ("agf.run('batch', {'xs': list('abcd')}).output", pairs(*"abcd")),
    "map": ("[each['value'] for each in agf.run('map', {'xs': list('abcd')}).output['r']]", pairs(*"abcd")),
    "arun": ("(await agf.arun('asks')).output", pairs(*"abcd")),
    "thrice": (
        "agf.run('asks_thrice').output",
        str(["+".join(f"answer to Q{x}{n}" for n in range(3)) for x in "abcd"]),
    ),
    "threads": (
        "agf.run('asks_by_threads').output",
        str(["+".join(f"answer to Q{x}{n}" for n in range(2)) for x in "abcd"]),
    ),
}


@pytest.mark.kernel
@pytest.mark.parametrize("way", RUNS)
def test_each_call_gets_its_own_answer(way: str, ready: Kernel) -> None:
    code, value = RUNS[way]
    cell = ready.begin(f"print({code})")
    questions = typed(ready, cell)
    assert value in cell.printed, cell.told
    assert len(questions) == value.count("answer")
    ready.reply(cell.id)


@pytest.mark.kernel
@pytest.mark.parametrize("way", ["asks", "agent", "asks_on_the_loop", "arun", "threads", "magic"])
def test_an_interrupt_ends_the_question_and_the_cell_and_no_other_is_asked(way: str, ready: Kernel) -> None:
    code = "get_ipython().run_line_magic('run_pipeline', 'asks')" if way == "magic" else RUNS[way][0]
    cell = ready.begin(f"for _ in range(3):\n    try:\n        {code}\n    except Exception: print('kept')")
    typed(ready, cell, at_most=1)
    question = ready.client.get_stdin_msg(timeout=PATIENCE)  # the second question is open
    assert question["content"]["prompt"].startswith("Q")
    ready.interrupt()
    cell.end()
    assert cell.reply["status"] == "error"
    assert "kept" not in cell.printed
    with pytest.raises(Empty):
        ready.client.get_stdin_msg(timeout=0.3)
    follows = ready.begin("print(input('next '))")
    assert typed(ready, follows) == ["next "]
    assert "answer to next" in follows.printed
    ready.reply(follows.id)


@pytest.mark.kernel
def test_a_debugger_in_a_fan_out_is_typed_into_one_line_at_a_time(ready: Kernel) -> None:
    cell = ready.begin("print(agf.run('debugs').output)")
    questions = typed(ready, cell, answer="c")
    assert "['Va', 'Vb', 'Vc', 'Vd']" in cell.printed, cell.told
    assert set(questions) == {"ipdb> "}
    ready.reply(cell.id)


@pytest.mark.kernel
def test_a_background_run_in_which_nobody_can_type_fails_with_what_to_write(ready: Kernel) -> None:
    cell = ready.run("h = agf.start('asks')\nprint(h.wait().status, h.error)")
    assert "error" in cell.printed
    assert "agf.ToolContext" in cell.printed


def test_the_threads_of_a_script_ask_one_after_another(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").touch()
    code = (
        "from agf_magics import tool\nimport builtins\n"
        + TOOLS
        + """
import time
active, most = [], []

def asked(prompt=""):  # a person at a terminal, who needs a while
    active.append(prompt)
    most.append(len(active))
    time.sleep(0.02)
    active.remove(prompt)
    return "answer to " + prompt.strip()

builtins.input = asked
print(agf.run("asks").output, max(most))
print(agf.start("asks").result().output, max(most))
print(asyncio.run(agf.arun("asks")).output, max(most))
print(builtins.input is asked)
"""
    )
    completed = script(code, tmp_path)
    assert completed.returncode == 0, completed.stderr
    assert completed.stdout.splitlines() == [f"{pairs(*'abcd')} 1"] * 3 + ["True"]
