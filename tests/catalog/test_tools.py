"""Tests of the decorator `tool`: its forms, the functions that it refuses, the properties that it keeps."""

from __future__ import annotations

import asyncio
import functools
import math
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pandas as pd
import pytest

import agf_magics as agf
from agf_magics.catalog import Registry, Tool, tool
from agf_magics.text.diagnostics import StepError


@pytest.fixture
def registry() -> Registry:
    return Registry()


class Client:
    """A client."""

    def search(self, query: str) -> list[str]:
        """Search for it.

        At length.
        """
        return [query]

    async def fetch(self, url: str) -> str:
        return url


class Search:
    """Searches."""

    def __call__(self, query: str) -> str:
        return query


class Slow:
    async def __call__(self, query: str) -> str:
        return query


def fetch(name: str, limit: int = 3) -> dict[str, int]:
    """Fetch it."""
    return {name: limit}


def yields():
    yield 1


def stars(*names): ...


def only(registry: Registry) -> Tool:
    (name,) = registry.tools
    return registry.tools[name]


def test_a_tool_stays_the_function_it_is(registry: Registry) -> None:
    assert tool(fetch, registry=registry) is fetch
    assert tool(registry=registry, name="again")(fetch) is fetch
    assert list(registry.tools) == ["again", "fetch"]


def test_without_a_registry_it_goes_into_the_default_one() -> None:
    code = "from agf_magics.catalog import tool, default\n@tool\ndef f(x): ...\nassert 'f' in default().tools"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_said_of_it_is_kept(registry: Registry) -> None:
    tool(fetch, registry=registry, timeout=5, where="worker", reuse=False, secret=["name"], group="web")
    registered = only(registry)
    assert (registered.name, registered.description) == ("web__fetch", "Fetch it.")
    assert (registered.timeout, registered.where, registered.reuse, registered.secret) == (5, "worker", False, {"name"})
    assert not registered.is_async


@pytest.mark.parametrize(
    ("function", "name", "described"),
    [
        (Client().search, "search", "Search for it."),
        (Search(), "Search", "Searches."),
        (Client, "Client", "A client."),
        (len, "len", "Return the number of items in a container."),
    ],
)
def test_whatever_can_be_called_has_a_name_and_a_description(
    registry: Registry, function: Callable[..., Any], name: str, described: str
) -> None:
    tool(function, registry=registry)
    assert (only(registry).name, only(registry).description) == (name, described)


def test_a_partial_is_described_as_its_function_and_takes_the_rest(registry: Registry) -> None:
    tool(functools.partial(fetch, limit=7), name="seven", registry=registry)
    registered = only(registry)
    assert registered.description == "Fetch it."
    assert registered.function(**registered.check({"name": "a"})) == {"a": 7}


def test_a_bound_method_does_not_take_its_object(registry: Registry) -> None:
    tool(Client().search, registry=registry)
    assert only(registry).takes == "query (text)"
    assert only(registry).function(**only(registry).check({"query": "q"})) == ["q"]


def test_coroutine_functions_are_told_in_every_form(registry: Registry) -> None:
    async def plain(x: int) -> int:
        return x

    tool(plain, registry=registry)
    tool(functools.partial(plain, 1), name="partial", registry=registry)
    tool(Client().fetch, registry=registry)
    tool(Slow(), registry=registry)
    tool(functools.partial(Slow(), "q"), name="partial_object", registry=registry)
    assert all(registered.is_async for registered in registry.tools.values())
    assert asyncio.run(registry.tools["plain"].function(x=2)) == 2


def test_positional_only_parameters_are_called_by_name(registry: Registry) -> None:
    def scale(value: float, by: float = 10, /, *, shift: float = 0) -> float:
        return value * by + shift

    tool(scale, registry=registry)
    tool(math.sqrt, registry=registry)
    registered = registry.tools["scale"]
    assert registered.function(**registered.check({"value": 2, "shift": 1})) == 21
    assert registered.function(**registered.check({"value": 2, "by": 3})) == 6
    root = registry.tools["sqrt"]
    assert root.function(**root.check({"x": 9})) == 3


def test_a_builtin_that_tells_no_signature_is_registered_and_takes_anything(registry: Registry) -> None:
    tool(max, registry=registry)
    assert only(registry).check({"a": 1}) == {"a": 1}
    assert only(registry).takes == "anything"
    assert only(registry).gives is None


@pytest.mark.parametrize(
    ("make", "error", "says"),
    [
        (
            lambda r: tool(lambda x: x, registry=r),
            ValueError,
            r"a lambda has no name: write tool\(…, name=…\)",
        ),
        (lambda r: tool(functools.partial(fetch), registry=r), ValueError, "a partial has no name"),
        (lambda r: tool("fetch", registry=r), TypeError, "@tool needs a function, not 'fetch'"),  # type: ignore[call-overload]
        (lambda r: tool(fetch, name="", registry=r), ValueError, "text without spaces, not ''"),
        (lambda r: tool(fetch, name="a b", registry=r), ValueError, "text without spaces, not 'a b'"),
        (lambda r: tool(fetch, name="a\nb", registry=r), ValueError, "text without spaces"),
        (lambda r: tool(fetch, name=3, registry=r), TypeError, "the name of tool must be text, not 3"),  # type: ignore[call-overload]
        (lambda r: tool(fetch, group=" ", registry=r), ValueError, "the group of tool must be text without spaces"),
        (
            lambda r: tool(fetch, where="cloud", registry=r),  # type: ignore[call-overload]
            ValueError,
            "where must be one of 'loop', 'kernel', 'thread', 'worker'",
        ),
        (lambda r: tool(fetch, timeout=0, registry=r), ValueError, "seconds above 0, got 0"),
        (lambda r: tool(fetch, timeout=math.nan, registry=r), ValueError, "seconds above 0, got nan"),
        (lambda r: tool(fetch, timeout="5", registry=r), TypeError, "timeout must be a number of seconds, got '5'"),  # type: ignore[call-overload]
        (lambda r: tool(fetch, timeout=True, registry=r), TypeError, "timeout must be a number of seconds, got True"),
        (lambda r: tool(fetch, reuse=1, registry=r), TypeError, "reuse must be True or False, got 1"),  # type: ignore[call-overload]
        (
            lambda r: tool(fetch, secret=["nmae"], registry=r),
            ValueError,
            "secret: .* no argument 'nmae': did you mean name",
        ),
        (lambda r: tool(fetch, secret=[3], registry=r), TypeError, "secret must be a list of names"),  # type: ignore[list-item]
        (lambda r: tool(yields, registry=r), ValueError, "yields, .* return a list instead"),
        (
            lambda r: tool(stars, registry=r),
            ValueError,
            r"cannot have \*names: arguments are passed by name, so write names: list",
        ),
        (lambda r: tool(Client.search, registry=r), ValueError, r"register a bound method, tool\(obj.search\)"),
    ],
)
def test_what_cannot_be_a_tool_is_refused_where_it_is_registered(
    registry: Registry, make: Callable[[Registry], Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says):
        make(registry)
    assert not registry.tools


def test_a_static_method_may_be_decorated_inside_its_class(registry: Registry) -> None:
    class Web:
        @staticmethod
        @tool(registry=registry)
        def get(url: str) -> str:
            return url

    assert Web.get("u") == "u"
    assert only(registry).takes == "url (text)"


def test_a_tool_of_the_same_name_is_replaced(registry: Registry) -> None:
    tool(fetch, registry=registry)
    tool(Client().search, name="fetch", registry=registry)
    assert only(registry).description == "Search for it."


def test_registering_and_listing_does_not_import_pydantic() -> None:
    code = (
        "import sys\nfrom agf_magics.catalog import default, tool\n"
        "@tool\ndef f(x: int): ...\nlist(default().tools)\nprint('pydantic' in sys.modules)\n"
        "default().tools['f'].check({'x': 1})\nprint('pydantic' in sys.modules)"
    )
    completed = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert completed.stdout.split() == ["False", "True"]


def test_the_json_schema_of_a_tool(registry: Registry) -> None:
    @tool(registry=registry, secret="token")
    def look(name: str, frame: pd.DataFrame, token: str = "hunter2", tags: tuple[str, ...] = ("a",)) -> list[int]: ...

    assert only(registry).accepts == {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "frame": {"title": "DataFrame"},
            "token": {"type": "string"},
            "tags": {"type": "array", "items": {"type": "string"}, "default": ["a"]},
        },
        "required": ["name", "frame"],
        "additionalProperties": False,
    }
    assert only(registry).gives == {"type": "array", "items": {"type": "integer"}}
    assert only(registry).takes == "name (text), frame (DataFrame), token (text, optional), tags (list, optional)"


def test_a_result_that_says_nothing_of_json_has_no_schema(registry: Registry) -> None:
    def frame() -> pd.DataFrame: ...
    def anything() -> Any: ...
    def unknown() -> Undefined: ...  # type: ignore[name-defined]  # noqa: F821 - the very thing
    def silent(): ...

    for function in (frame, anything, unknown, silent):
        tool(function, registry=registry)
    assert [registered.gives for registered in registry.tools.values()] == [None] * 4


@pytest.mark.parametrize("token", [["hunter2"], {"hunter2": 1}, 2.5e7, b"hunter2"])
def test_a_secret_that_does_not_fit_is_nowhere_in_the_error(registry: Registry, token: Any) -> None:
    @tool(registry=registry, secret=("token",))
    def call(token: str): ...

    with pytest.raises(StepError) as caught:
        only(registry).check({"token": token})
    error: BaseException | None = caught.value
    assert error.__context__ is None
    assert error.__cause__ is None
    assert "hunter2" not in repr(error) + str(error)
    assert "25000000" not in repr(error) + str(error)


def test_check_leaves_what_it_was_given_as_it_is(registry: Registry) -> None:
    tool(fetch, registry=registry)
    arguments = {"name": "a"}
    assert only(registry).check(arguments) is not arguments
    assert arguments == {"name": "a"}


def test_a_tool_and_an_agent_say_what_they_take_and_not_where_they_lie() -> None:
    registry = agf.Registry()

    @agf.tool(registry=registry)
    def pick(tree: str, most: int = 3) -> int:
        return most

    @agf.agent(registry=registry)
    def critic(prompt: str, schema: object) -> str:
        return prompt

    assert repr(registry.tools["pick"]) == "<Tool pick(tree (text), most (whole number, optional))>"
    assert repr(registry.agents["critic"]) == "<Agent critic(prompt, schema)>"
