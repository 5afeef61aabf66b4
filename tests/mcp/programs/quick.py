"""A small server that starts at once, written by hand: ``python quick.py``. It speaks a protocol from before 2026."""

from __future__ import annotations

import json
import os
import sys
from typing import Any

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 1}},
    "required": ["a"],
}
TOOLS = [
    {"name": "add", "description": "Adds.", "inputSchema": SCHEMA, "annotations": {"readOnlyHint": True}},
    {"name": "drop", "description": "Drops.", "inputSchema": {"type": "object"}},
    {"name": "die", "inputSchema": {"type": "object"}},
]


def answer(ask: dict[str, Any]) -> dict[str, Any]:
    match ask["method"]:
        case "initialize":
            info = {"name": "quick", "version": "1"}
            return {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
        case "tools/list":
            return {"tools": TOOLS}
        case "tools/call":
            arguments = ask["params"].get("arguments") or {}
            if mark := os.environ.get("MARK"):
                with open(mark, "a", encoding="utf-8") as file:
                    file.write(ask["params"]["name"] + "\n")
            if ask["params"]["name"] == "die":
                os._exit(3)
            return {"content": [{"type": "text", "text": str(arguments.get("a", 0) + arguments.get("b", 1))}]}
    return {}


def main() -> None:
    for line in sys.stdin:
        ask = json.loads(line)
        if ask.get("method") == "server/discover":
            reply: dict[str, Any] = {"error": {"code": -32601, "message": "no"}}
        else:
            reply = {"result": answer(ask)}
        if "id" in ask:
            print(json.dumps({"jsonrpc": "2.0", "id": ask["id"], **reply}), flush=True)


if __name__ == "__main__":
    main()
