"""The page of a run inside an MCP client, which is simulated by a page with a sandboxed frame, as MCP Apps describes
it."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING, Any

import pytest

import agf_magics as agf
from agf_magics import Registry
from agf_magics.mcp.server.run_app import RUN_ID, document, page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.browser

CLIENT = """
<iframe id="app" sandbox="allow-scripts" style="width: 600px; height: 400px"></iframe>
<script>
window.seen = [];
const app = document.getElementById("app");
window.tell = (method, params) => app.contentWindow.postMessage({ jsonrpc: "2.0", method, params }, "*");
window.addEventListener("message", async ({ source, data }) => {
  if (source !== app.contentWindow) return;
  window.seen.push(data.method);
  const answer = (result) => source.postMessage({ jsonrpc: "2.0", id: data.id, result }, "*");
  if (data.method === "ui/initialize") answer({ hostContext: { theme: "dark" }, hostCapabilities: {} });
  if (data.method === "tools/call") answer(JSON.parse(await window.callTool(JSON.stringify(data.params))));
});
</script>
"""
CSP = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'"
"""The content policy of a client for a page that declares no connection."""


def open_client(browser: Browser, call: Any) -> Page:
    client = browser.new_page()
    client.expose_function("callTool", lambda text: json.dumps(call(json.loads(text))))
    client.set_content(CLIENT)
    guarded = document().replace("<head>", f'<head><meta http-equiv="Content-Security-Policy" content="{CSP}">')
    client.evaluate("html => { document.getElementById('app').srcdoc = html; }", guarded)
    client.wait_for_function("window.seen.includes('ui/notifications/initialized')")
    return client


def test_the_page_follows_a_run_until_it_has_ended(browser: Browser) -> None:
    registry, gate = Registry(), threading.Event()

    @agf.tool(registry=registry)
    def hold(word: str) -> str:
        gate.wait()
        return word

    agf.define("pipeline: held\nsteps:\n- tool: {name: hold, args: {word: '<i>fig</i>'}}\n", registry=registry)
    run = agf.start("held", registry=registry)
    try:
        app = open_client(browser, lambda params: {"structuredContent": page(run)})
        frame = app.frame_locator("#app")
        app.evaluate(
            "id => tell('ui/notifications/tool-result', {structuredContent: {data: {run_id: id}}})", run.run_id
        )
        frame.get_by_text("running").first.wait_for()
        gate.set()
        frame.get_by_text("✓ ok").first.wait_for()
        assert "<i>fig</i>" in frame.locator("#run").inner_text()
        app.wait_for_function("window.seen.includes('ui/notifications/size-changed')")
        app.close()
    finally:
        gate.set()
        run.wait()


def test_the_result_of_a_flow_and_an_error_are_shown(browser: Browser) -> None:
    registry = Registry()
    agf.define("pipeline: done\nsteps:\n- transform: {value: ctx.n}\n", registry=registry)
    run = agf.run("done", {"n": 7}, registry=registry)

    def call(params: Any) -> Any:
        if params["arguments"]["run_id"] != run.run_id:
            return {"isError": True, "content": [{"type": "text", "text": "there is no run"}]}
        return {"structuredContent": page(run)}

    app = open_client(browser, call)
    frame = app.frame_locator("#app")
    for id, text in ((run.run_id, "✓ ok"), ("made-up", "there is no run")):
        app.evaluate("meta => tell('ui/notifications/tool-result', {content: [], _meta: meta})", {RUN_ID: id})
        frame.get_by_text(text).first.wait_for()
    app.close()
