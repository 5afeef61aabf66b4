"""The docstring of each public name says what every parameter means, with its default and, for a time, its unit."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import agf_magics as agf
from docs import tables

CONSTRUCTED = (agf.Limits, agf.planning.Message)
"""Public dataclasses that a user constructs. The other public classes are results of functions."""

MODULES = ("agent_tools", "mcp", "planning")


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public functions and the public methods of the public classes."""
    for name in agf.__all__:
        value = getattr(agf, name)
        if inspect.isfunction(value):
            yield name, value
        for method, member in vars(value).items() if inspect.isclass(value) else ():
            plain = getattr(member, "__func__", member)
            called = f"{name}.{method}"
            if inspect.isfunction(plain) and not method.startswith("_"):
                yield called, plain


PARAMETERS = [
    (f"{name}({parameter.name})", function, parameter)
    for name, function in functions()
    for parameter in inspect.signature(function).parameters.values()
    if parameter.name not in ("self", "cls")
]


def described(docstring: str, name: str) -> str:
    """The paragraph or list item that describes a parameter: it names the parameter and says whether it is required.

    >>> described("Wait.\\n\\n- ``timeout``: in seconds. Default None.\\n- ``other``: Required.", "timeout")
    '- ``timeout``: in seconds. Default None.'
    """
    parts = re.split(r"\n\n|\n(?=- )", docstring)
    descriptions = [
        part for part in parts if f"``{name}``" in part and re.search("default|required", part, re.IGNORECASE)
    ]
    return descriptions[0] if descriptions else ""


@pytest.mark.parametrize(("function", "parameter"), [one[1:] for one in PARAMETERS], ids=[one[0] for one in PARAMETERS])
def test_a_parameter_is_described_with_its_default(function: Callable[..., Any], parameter: inspect.Parameter) -> None:
    text = described(inspect.getdoc(function) or "", parameter.name)
    assert text, f"``{parameter.name}``: meaning, and its default or Required"
    optional = parameter.default is not parameter.empty or parameter.kind is parameter.VAR_KEYWORD
    assert ("default" if optional else "required") in text.lower()
    default = parameter.default if optional and isinstance(parameter.default, bool | int | float | str) else ""
    if default or isinstance(default, bool):
        assert str(default) in text, f"the default is {default!r}"
    if "float" in str(parameter.annotation) and "Mapping" not in str(parameter.annotation):
        assert "seconds" in text, "the unit"


@pytest.mark.parametrize("class_", CONSTRUCTED)
def test_a_field_is_described(class_: type) -> None:
    assert is_dataclass(class_)
    descriptions = tables.field_docs(inspect.getmodule(class_), class_.__name__)
    assert set(descriptions) == {field.name for field in fields(class_)}
    for field in fields(class_):
        if "float" in str(field.type):
            assert re.search("seconds|dollars", descriptions[field.name].lower()), f"{field.name}: the unit"


@pytest.mark.parametrize("name", agf.__all__)
def test_a_public_name_has_a_docstring_of_its_own(name: str) -> None:
    value = getattr(agf, name)
    assert isinstance(value, ModuleType) == (name in MODULES)
    assert (type(value) if name == "registry" else value).__doc__


PUBLIC = """
tool agent transform policy model_agent Registry registry define load evaluate export report draw run arun start rerun
resume stale runs record replay replay_model import_run Flow Run PastRun Limits Retry ToolContext context NamedContext
Event Question AgfError
DefinitionError StepError RunCancelled RunInterrupted Diagnostic Workers trace_to agent_tools mcp planning Over
score_over compare_over
check_over CheckFailed
"""


def test_the_public_names_are_these() -> None:
    assert set(agf.__all__) == set(PUBLIC.split())


@pytest.mark.parametrize("name", ["ticks", "launch_tools", "run_pipeline_async", "Message", "branch", "Runs"])
def test_a_former_name_says_what_to_use(name: str) -> None:
    with pytest.raises(AttributeError, match=rf"has no attribute '{name}': use agf_magics\.\w+"):
        getattr(agf, name)


def test_the_public_names_are_sorted_and_unique() -> None:
    assert agf.__all__ == sorted(set(agf.__all__))
    assert set(agf.__all__) <= set(dir(agf))


@pytest.mark.parametrize(
    ("docstring", "is_described"),
    [
        ("Do it.\n\n``size``: in bytes. Default 3.", True),
        ("Do it, at most ``size`` (default 3) times.", True),
        ("Do it.\n\n``size``: in bytes.", False),
        ("Do it.\n\n``sizes``: Default 3.", False),
        ("Do it.\n\n``size``: in bytes.\n\nThe default is 3.", False),
    ],
)
def test_a_description_has_the_name_and_the_default_in_one_place(docstring: str, is_described: bool) -> None:
    assert bool(described(docstring, "size")) is is_described


def test_no_public_object_has_the_name_of_a_module() -> None:
    """``from agf_magics import x`` and ``import agf_magics.x`` must not mean two things."""
    package = Path(agf.__file__).parent
    modules = {path.stem for path in package.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert modules & set(agf.__all__) == {"mcp", "planning"}  # these names are the modules


def test_no_public_object_of_planning_has_the_name_of_one_of_its_modules() -> None:
    package = Path(agf.planning.__file__).parent
    assert {path.stem for path in package.glob("*.py")} & set(agf.planning.__all__) == set()
