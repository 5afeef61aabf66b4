"""A flow is served over MCP, and another flow calls it as the tool of a server."""

from __future__ import annotations

from typing import Literal

import pytest

import agf_magics as agf
from agf_magics import Registry, StepError
from agf_magics.mcp import close_all, connect, serve


@pytest.mark.parametrize("protocol", ["auto", "old"])
def test_a_served_flow_is_a_tool_of_a_flow(protocol: Literal["auto", "old"]) -> None:
    inside, outside = Registry(), Registry()
    agf.define("pipeline: double\nsteps:\n- transform: {value: '[ctx.n, ctx.n]'}\n", registry=inside)
    agf.define("pipeline: broken\nsteps:\n- transform: {value: ctx.n + 'x'}\n", registry=inside)
    agf.tool(lambda word: f"{word}\ud83c", registry=inside, name="cut")
    agf.define("pipeline: cut\nsteps:\n- tool: {name: cut, args: {word: !expr ctx.n}}\n", registry=inside)
    try:
        with serve(registry=inside) as served:
            connect("flows", served.url, headers=dict(served.headers), registry=outside, protocol=protocol)
            for name in ("double", "broken", "cut"):
                step = f"- tool: {{name: flows__{name}, args: {{n: !expr ctx.n}}}}"
                agf.define(f"pipeline: calls_{name}\nsteps:\n{step}\n", registry=outside)
            assert agf.run("calls_double", {"n": 2}, registry=outside).output == [2, 2]
            assert agf.run("calls_double", {"n": "fig \ud83c"}, registry=outside).output == ["fig \ufffd"] * 2
            assert agf.run("calls_cut", {"n": "fig "}, registry=outside).output == "fig \ufffd"
            with pytest.raises(StepError, match=r"\[r1\."):  # the error code of the served flow
                agf.run("calls_broken", {"n": 2}, registry=outside)
    finally:
        close_all()
