"""Writes the definitions and the tools of a folder that ``agf-magics mcp`` serves in tests."""

from __future__ import annotations

from pathlib import Path

TOOLS = """\
import asyncio, os, subprocess, sys
from pathlib import Path
import agf_magics as agf

print("printed by the import")

@agf.tool
async def note(word: str) -> str:
    print("printed by the tool")
    subprocess.run([sys.executable, "-c", "import sys; print('printed by a child', sys.stdin.read())"])
    with open("made", "a") as file:
        file.write(word + "\\n")
    return word + "!"

@agf.tool
def cut(word: str) -> str:
    return word + "\\ud83c"

@agf.tool
async def hold(word: str) -> str:
    if not Path("go").exists():
        print("holding", word, flush=True)
        try:
            await asyncio.Event().wait()
        finally:
            print("released", word, flush=True)
    return word + "?"

@agf.tool
async def choose(call: agf.ToolContext) -> str:
    return await call.ask("Which colour?", choices=["red", "blue"])
"""
FLOWS = {
    "hail": "pipeline: hail\ndescription: Greets.\nsteps:\n- tool: {name: note, args: {word: !expr ctx.word}}\n",
    "cut": "pipeline: cut\nsteps:\n- tool: {name: cut, args: {word: !expr ctx.word}}\n",
    "long": """\
pipeline: long
steps:
- tool: {name: note, args: {word: !expr ctx.word}, output: noted}
- tool: {name: hold, args: {word: !expr noted}, output: held}
- tool: {name: choose, output: colour}
- transform: {value: "[held, colour]"}
""",
}


def write_definitions(folder: Path) -> Path:
    """Make ``folder`` a project with these definitions and tools."""
    (folder / "pyproject.toml").touch()
    (folder / "tools.py").write_text(TOOLS)
    for name, text in FLOWS.items():
        (folder / f"{name}.yaml").write_text(text)
    return folder
