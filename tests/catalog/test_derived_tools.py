"""The tool that a definition derives from a registered one keeps all that the registered tool says about its calls."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.catalog import Tool
from agf_magics.catalog.tools.derived_tool import derive
from agf_magics.catalog.tools.throttle import Gate, Throttle
from agf_magics.flow.step_options import DerivedTool

DERIVED = DerivedTool("list", "shell", "List it.", ("x", "y"), lambda a: {"command": [a["x"]]}, lambda result: result)

SET: dict[str, Any] = {
    "where": "thread",
    "timeout": 7.0,
    "reuse": False,
    "kernel_only": True,
    "listed_only": True,
    "resources": {"gpu": 1.0},
    "asks_first": True,
    "server": "hub",
    "server_ref": "hub-1",
    "throttle": Throttle(Gate(), agf.Retry(2)),
}
"""An option that is not the default, for each option of a tool's calls."""


def base(*, secret: bool = False) -> Tool:
    registry = agf.Registry()
    agf.tool(lambda command: command, name="shell", registry=registry, secret=("command",) if secret else ())
    return registry.tools["shell"]


OTHER = {"name", "function", "arguments", "description", "digest", "is_async"}
"""What makes it another tool."""


@pytest.mark.parametrize("option", sorted({field.name for field in fields(Tool)} - OTHER))
def test_each_option_of_the_registered_tool_holds(option: str) -> None:
    derived = derive(DERIVED, replace(base(), **{option: SET[option]}))
    assert getattr(derived, option) == SET[option]


def test_what_the_definition_says_is_its_own() -> None:
    derived = derive(DERIVED, replace(base(), digest="of the registered tool"))
    assert (derived.name, derived.description, derived.takes) == ("list", "List it.", "x (anything), y (anything)")
    assert derived.digest is None
    assert derived.function(x="a") == ["a"]


@pytest.mark.parametrize("secret", [True, False])
def test_each_argument_is_secret_if_the_registered_tool_has_a_secret(secret: bool) -> None:
    assert derive(DERIVED, base(secret=secret)).secret == (frozenset("xy") if secret else frozenset())
