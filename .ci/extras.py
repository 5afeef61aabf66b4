"""Install the wheel with each extra alone in an empty environment, and run what the extra is for.

    python .ci/extras.py dist/agf_magics-*.whl [EXTRA ...]      (make extras)

An extra that needs a package of another one works in every environment with all of them, and in no environment of a
user who follows the documentation.
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

FOLDER = Path("build/extras")

FAN = '''
import agf_magics as agf

TEXT = """
pipeline: main
steps:
- for_each:
    over: ctx.numbers
    on_error: abort
    do: {{tool: {{name: double, args: {{x: !expr item}}}}}}
    collect: {{transform: {{value: sum(pipe)}}}}
"""

if __name__ == "__main__":

    @agf.tool
    def double(x: int) -> int:
        return 2 * x

    assert agf.run(TEXT, {{"numbers": [1, 2, 3]}}, on={on!r}).output == 12
'''

MODEL = """
import agf_magics as agf
from pydantic_ai.models.test import TestModel

agf.model_agent("clerk", model=TestModel(custom_output_text="seven"), default=True, tools=[])
run = agf.run("pipeline: main\\nsteps: [{agent: {prompt: 'How much?'}}]")
assert run.output == "seven", run.output
"""
PROVIDER = (
    MODEL
    + """
import os

os.environ["OPENAI_API_KEY"] = os.environ["ANTHROPIC_API_KEY"] = os.environ["GOOGLE_API_KEY"] = "not-a-key"
from pydantic_ai.models import infer_model

infer_model(NAME)
"""
)

CASES = {
    "": FAN.format(on="here")
    + """
    assert agf.draw(agf.load(TEXT)).svg().lstrip().startswith("<svg")
    assert "digraph" in agf.draw(agf.load(TEXT)).to_graphviz().source
""",
    "processes": FAN.format(on="processes:2"),
    "dask": FAN.format(on="dask:1"),
    "diagrams": """
import agf_magics as agf

flow = agf.load("pipeline: main\\nsteps: [{transform: {value: '1'}}]")
assert agf.draw(flow).save("flow.png").read_bytes().startswith(b"\\x89PNG")
assert agf.draw(flow).save("flow.pdf").read_bytes().startswith(b"%PDF")
""",
    "lsp": """
import json
import subprocess
from importlib.metadata import entry_points

[found] = entry_points(group="jupyter_lsp_spec_v1", name="agf-magics")  # as jupyter-lsp looks for it
spec = found.load()
assert spec.is_installed(None)
text = "pipeline: p\\nsteps:\\n- tool: {name: shel}\\n"
file = {"uri": "file:///p/p.yaml", "languageId": "yaml", "version": 1, "text": text}
told = [
    {"id": 1, "method": "initialize", "params": {"processId": None, "rootUri": None, "capabilities": {}}},
    {"method": "initialized", "params": {}},
    {"method": "textDocument/didOpen", "params": {"textDocument": file}},
    {"id": 2, "method": "textDocument/documentSymbol", "params": {"textDocument": {"uri": "file:///p/p.yaml"}}},
    {"id": 3, "method": "shutdown"},
    {"method": "exit"},
]
bodies = [json.dumps({"jsonrpc": "2.0", **one}).encode() for one in told]
sent = b"".join(b"Content-Length: %d\\r\\n\\r\\n%b" % (len(body), body) for body in bodies)
argv = spec(None)["agf-magics"]["argv"]
done = subprocess.run(argv, input=sent, capture_output=True, timeout=120, check=True)
assert b"flow.unknown-tool" in done.stdout and b"did you mean shell?" in done.stdout, done
""",
    "mcp": """
from agf_magics.mcp.sdk import require_sdk

require_sdk()
""",
    "sql": """
import agf_magics as agf

sql = agf.registry.tools["sql"].function
assert sql(query="select sum(kg) as kg from fruit", frames={"fruit": [{"kg": 3}, {"kg": 4}]}) == [{"kg": 7}]
""",
    "graphs": '''
import agf_magics as agf

GRAPH = """
state: {words: list, said: any}
nodes:
  say: {type: llm, prompt: "{% for word in words %}{{ word | upper }} {% endfor %}", state_key: said}
edges: [{from: START, to: say}, {from: say, to: END}]
"""


@agf.agent(default=True)
def echo(prompt: str) -> str:
    return prompt


flow = agf.define(GRAPH, "graph", name="main")
assert "PEARS FIGS" in agf.run("main", {"words": ["pears", "figs"]}).output["said"]
''',
    "llm": MODEL,
    "openai": PROVIDER.replace("NAME", "'openai:gpt-4o'"),
    "anthropic": PROVIDER.replace("NAME", "'anthropic:claude-sonnet-4-5'"),
    "google": PROVIDER.replace("NAME", "'google:gemini-2.5-flash'"),
    "otel": """
import agf_magics as agf
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
agf.trace_to(provider)
agf.run("pipeline: main\\nsteps: [{transform: {value: '1'}}]")
names = [span.name for span in exporter.get_finished_spans()]
assert names == ["transform steps[0]", "invoke_agent main"], names
""",
    "lab": """
import subprocess
import sys

listed = subprocess.run(
    [sys.executable, "-m", "jupyter", "labextension", "list"], capture_output=True, text=True, check=True
)
assert "agf-magics" in listed.stdout + listed.stderr, listed
""",
}


def check(wheel: Path, extra: str) -> str:
    """What is wrong with an extra; empty: nothing."""
    folder = FOLDER / (extra or "none")
    venv.create(folder / "env", clear=True, with_pip=True)
    python = folder / "env" / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    script = folder / "case.py"
    script.write_text(CASES[extra], encoding="utf-8")
    target = f"{wheel.resolve()}[{extra}]" if extra else str(wheel.resolve())
    pip = [
        str(python.absolute()),
        "-m",
        "pip",
        "--quiet",
        "--disable-pip-version-check",
        "install",
        target,
    ]
    for command in (pip, [str(python.absolute()), script.name]):
        try:
            done = subprocess.run(
                command, cwd=folder, capture_output=True, text=True, timeout=900, check=False
            )
        except subprocess.TimeoutExpired:
            return f"{command[-1]} did not end in 15 minutes"
        if done.returncode:
            return (done.stdout + done.stderr)[-4_000:]
    return ""


def main(arguments: list[str]) -> int:
    wheel, extras = Path(arguments[0]), arguments[1:] or list(CASES)
    failed = 0
    for extra in extras:
        why = check(wheel, extra)
        failed += bool(why)
        print(
            f"{extra or '(none)':10} {'FAILED' if why else 'ok'}",
            why,
            sep="\n" if why else " ",
            flush=True,
        )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
