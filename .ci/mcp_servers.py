"""Three servers that others have written, in one flow, which is served again and called by clients of others.

    python .ci/mcp_servers.py      (make mcp-servers)

The servers of time, git and web pages are those of PyPI, each in an environment of its own, since each may need another
version of the SDK. The clients are the SDK for Python, the one for TypeScript, which also calls the flow as a task, and
the command line of the MCP Inspector. Installing needs a network and Node.js; the calls stay on this computer.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import venv
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "build" / "mcp"
SERVERS = {
    "time": ["--local-timezone", "UTC"],
    "git": [],
    "fetch": ["--ignore-robots-txt", "--allow-private-ips"],
}
PACKAGES = ("@modelcontextprotocol/sdk@1", "@modelcontextprotocol/inspector@0")
PAGE = "<html><body><p>Figs cost seven euros a kilo.</p></body></html>"

FLOW = """\
pipeline: report
description: The time in Tokyo, the last commit of a repository, and a page.
steps:
- parallel:
    on_error: abort
    branches:
      now: {tool: {name: time__convert_time, args: {source_timezone: UTC, time: "12:00", target_timezone: Asia/Tokyo}}}
      log: {tool: {name: git__git_log, args: {repo_path: !expr ctx.repository, max_count: 1}}}
      page: {tool: {name: fetch__fetch, args: {url: !expr ctx.page, raw: true}}}
    collect: {transform: {value: pipe}}
"""
SERVE = (
    sys.executable,
    "-m",
    "agf_magics",
    "mcp",
    "report.yaml",
    "--mcp",
    ".mcp.json",
    "--allow-mcp",
)


def install() -> dict[str, Any]:
    """The entries of a client's file of servers."""
    entries = {}
    for name, words in SERVERS.items():
        place = FOLDER / name
        if not (place / "bin" / f"mcp-server-{name}").exists():
            venv.create(place, with_pip=True, clear=True)
            packages = ("install", "--quiet", "--disable-pip-version-check", f"mcp-server-{name}")
            subprocess.run([place / "bin" / "python", "-m", "pip", *packages], check=True)
        entries[name] = {"command": str(place / "bin" / f"mcp-server-{name}"), "args": words}
    if not (FOLDER / "node_modules").exists():
        (FOLDER / "package.json").write_text("{}")
        subprocess.run(
            ["npm", "install", "--silent", "--no-audit", "--no-fund", *PACKAGES],
            cwd=FOLDER,
            check=True,
        )
    return entries


def write(entries: dict[str, Any]) -> Path:
    """The folder with the flow, its servers, a page and a repository."""
    here = FOLDER / "flow"
    here.mkdir(exist_ok=True)
    (here / "pyproject.toml").touch()
    (here / "report.yaml").write_text(FLOW)
    (here / ".mcp.json").write_text(json.dumps({"mcpServers": entries}))
    (here / "page.html").write_text(PAGE)
    if not (here / "repository").exists():
        git = ("git", "-c", "user.name=Ann", "-c", "user.email=ann@example.org")
        subprocess.run([*git, "init", "--quiet", "repository"], cwd=here, check=True)
        commit = ("commit", "--quiet", "--allow-empty", "--message", "The first fig")
        subprocess.run([*git, *commit], cwd=here / "repository", check=True)
    return here


def output(*command: str, here: Path) -> str:
    """What a command prints. The package is the one of this checkout, also where another one is installed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        command, cwd=here, env=environment, text=True, stdout=subprocess.PIPE, check=True
    ).stdout


async def of_the_sdk(here: Path, arguments: dict[str, str], mode: str) -> Any:
    from mcp import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    program, *words = SERVE
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    server = StdioServerParameters(command=program, args=words, cwd=here, env=environment)
    async with Client(stdio_client(server), mode=mode) as client:
        result = await client.call_tool("report", arguments)
        print(f"the SDK for Python, {client.protocol_version}: ok")
        return result.structured_content["result"]


def check(found: Any) -> None:
    assert found["now"]["target"]["datetime"].endswith("21:00:00+09:00"), found
    assert "The first fig" in found["log"], found
    assert "Figs cost seven euros" in found["page"], found


def main() -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    here = write(install())
    handler = partial(SimpleHTTPRequestHandler, directory=str(here))
    pages = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=pages.serve_forever, daemon=True).start()
    page = f"http://127.0.0.1:{pages.server_port}/page.html"
    arguments = {"repository": str(here / "repository"), "page": page}
    words = [f"{name}={value}" for name, value in arguments.items()]

    line = [word for pair in words for word in ("--set", pair)]
    run = (sys.executable, "-m", "agf_magics", "run", *SERVE[4:], *line, "--quiet")
    check(json.loads(output(*run, here=here)))
    print("a run of the command line: ok")
    for mode in ("auto", "legacy"):
        check(asyncio.run(of_the_sdk(here, arguments, mode)))
    client = str(ROOT / ".ci" / "mcp_client.mjs")
    for act in ("call", "task"):
        told = output(
            "node", client, str(FOLDER), act, "report", json.dumps(arguments), *SERVE, here=here
        )
        check(json.loads(told)["structuredContent"]["result"])
        print(f"the SDK for TypeScript, a {act}: ok")
    inspector = str(FOLDER / "node_modules" / ".bin" / "mcp-inspector")
    line = [word for pair in words for word in ("--tool-arg", pair)]
    call = ("--method", "tools/call", "--tool-name", "report", *line)
    told = output(inspector, "--cli", "-e", f"PYTHONPATH={ROOT}", *SERVE, *call, here=here)
    check(json.loads(told)["structuredContent"]["result"])
    print("the command line of the MCP Inspector: ok")


if __name__ == "__main__":
    main()
