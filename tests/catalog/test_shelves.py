"""Tests of the shelves of a registry: names, order, replacement, and threads."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from agf_magics.catalog import Registry, agent, default, tool
from agf_magics.schemas.schema import Schema
from agf_magics.text.source import Source


@pytest.fixture
def registry() -> Registry:
    return Registry()


def add(registry: Registry, *names: str) -> None:
    for name in names:
        tool(print_nothing, name=name, registry=registry)


def print_nothing() -> None: ...


def test_what_is_registered_in_a_copy_is_not_here(registry: Registry) -> None:
    add(registry, "a")
    registry.flows.define(flow("f"), "cell 1")
    registry.contexts.named("day")
    other = registry.copy()
    add(other, "a", "b")
    other.flows.define(flow("f"), "cell 2")
    other.choose("openai:gpt-4o")
    assert (list(registry.tools), list(other.tools)) == (["a"], ["a", "b"])
    assert registry.tools["a"] is not other.tools["a"]
    assert (registry.flows.origin("f"), other.flows.origin("f")) == ("cell 1", "cell 2")
    assert not registry.has_chosen
    assert (list(registry.contexts), list(other.contexts)) == (["day"], [])


def flow(name: str, language: str = "pipeline") -> Any:
    return SimpleNamespace(name=name, language=language)


def test_a_shelf_is_a_mapping_in_the_order_of_names(registry: Registry) -> None:
    add(registry, "b", "a", "c")
    tools = registry.tools
    assert list(tools) == ["a", "b", "c"]
    assert [registered.name for registered in tools.values()] == ["a", "b", "c"]
    assert [name for name, _ in tools.items()] == ["a", "b", "c"]
    assert dict(tools) == {**tools}
    assert (len(tools), "a" in tools, "z" in tools, 3 in tools) == (3, True, False, False)
    assert tools["a"] is tools.get("a")
    assert tools.get("z") is None
    with pytest.raises(KeyError, match="z"):
        tools["z"]


def test_a_registry_shows_what_it_holds(registry: Registry) -> None:
    add(registry, "b", "a")
    assert repr(registry) == "Registry(<tools: a, b>, <agents: none>, <flows: none>, <schemas: none>)"


def test_removing_what_is_not_there_does_nothing(registry: Registry) -> None:
    add(registry, "a")
    registry.tools.remove("a")
    registry.tools.remove("a")
    assert not registry.tools


def test_a_missing_name_is_told_with_the_nearest_and_all_there_are(registry: Registry) -> None:
    span = Source("cell", "tool: fecth").span(6)
    add(registry, "fetch", "grade")
    diagnostic = registry.tools.missing("fecth", span, "flow.unknown-tool")
    assert (diagnostic.code, diagnostic.message, diagnostic.span) == ("flow.unknown-tool", "no tool 'fecth'", span)
    assert diagnostic.hint == "did you mean fetch? tools are fetch, grade"


def test_a_missing_name_on_an_empty_shelf_says_how_to_fill_it(registry: Registry) -> None:
    assert registry.tools.missing("f", None, "c").hint == "no tool is registered: write @tool above its def"
    assert "@agent" in str(registry.agents.missing("f", None, "c").hint)


def test_defining_again_from_the_same_place_is_silent(registry: Registry) -> None:
    assert registry.flows.define(flow("review"), "cell-1") is None
    assert registry.flows.define(flow("review"), "cell-1") is None
    assert registry.flows.define(flow("other"), None) is None
    assert registry.flows.define(flow("other"), None) is None


def test_defining_again_from_elsewhere_replaces_and_says_so(registry: Registry) -> None:
    registry.flows.define(flow("review"), "cell-1")
    again = flow("review")
    note = registry.flows.define(again, "cell-2")
    assert note == "flow 'review' was defined by another cell or file; this definition replaces it"
    assert registry.flows["review"] is again
    assert registry.flows.define(flow("review"), "cell-2") is None


def test_defining_again_in_another_language_says_so_even_in_the_same_cell(registry: Registry) -> None:
    registry.flows.define(flow("review", "plan"), "cell-1")
    assert registry.flows.define(flow("review"), "cell-1") == "flow 'review' replaces the plan of that name"


def test_schemas_are_defined_like_flows(registry: Registry) -> None:
    assert registry.schemas.define(Schema("Review", {}), "cell-1") is None
    assert registry.schemas.define(Schema("Review", {}), "cell-1") is None
    note = registry.schemas.define(Schema("Review", {}), "cell-2")
    assert note == "schema 'Review' was defined by another cell or file; this definition replaces it"


def test_what_was_removed_was_not_defined_before(registry: Registry) -> None:
    registry.flows.define(flow("review"), "cell-1")
    registry.flows.remove("review")
    assert registry.flows.define(flow("review"), "cell-2") is None


def test_the_first_agent_answers_until_one_says_it_does(registry: Registry) -> None:
    def answer(prompt): ...

    assert registry.agents.default is None
    agent(answer, name="b", registry=registry)
    agent(answer, name="a", registry=registry)
    assert registry.agents.default is registry.agents["b"]
    agent(answer, name="c", registry=registry, default=True)
    assert registry.agents.default is registry.agents["c"]
    agent(answer, name="d", registry=registry, default=True)
    assert registry.agents.default is registry.agents["d"]
    agent(answer, name="d", registry=registry)
    assert registry.agents.default is registry.agents["b"]
    registry.agents.remove("b")
    assert registry.agents.default is registry.agents["a"]


def test_the_kernel_has_one_default_registry() -> None:
    assert default() is default()


def test_reading_while_other_threads_register_sees_whole_shelves_and_loses_nothing(registry: Registry) -> None:
    add(registry, "always")
    go, wrong = threading.Barrier(3), []

    def register(letter: str) -> None:
        go.wait()
        for number in range(300):
            add(registry, f"{letter}{number}", "again")
            registry.tools.remove("again")

    writers = [threading.Thread(target=register, args=(letter,)) for letter in "xy"]
    for writer in writers:
        writer.start()
    go.wait()
    while any(writer.is_alive() for writer in writers):
        names, pairs = list(registry.tools), registry.tools.items()
        if (
            names != sorted(names)
            or any(registered.name != name for name, registered in pairs)
            or "always" not in names
        ):
            wrong.append(names)
    for writer in writers:
        writer.join()
    assert not wrong
    assert len(registry.tools) == 601
