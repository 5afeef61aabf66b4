"""Tests of the translation between names of tools and the names that providers accept."""

from __future__ import annotations

import pytest

from agf_magics.catalog.models.messages import NAMELESS, Offered, Request
from agf_magics.catalog.models.tool_names import ToolNames

LONG = "a" * 64

SENT: dict[str, list[tuple[str, str]]] = {
    "a name that all providers accept": [("price_of-2", "price_of-2")],
    "other letters": [("shop.price of", "shop_price_of"), ("größe", "gr__e")],
    "no letter that providers accept": [("获取", "tool"), ("删除", "tool_2"), ("получить", "tool_3"), ("__", "__")],
    "two that become one": [("a.b", "a_b"), ("a_b", "a_b_2"), ("a b", "a_b_3")],
    "more than 64 letters": [(LONG + "b", LONG), (LONG + "c", LONG[:60] + "_2")],
}


def names_of(*tools: str) -> ToolNames:
    return ToolNames(Request((), tools=tuple(Offered(tool, "", {}) for tool in tools)))


@pytest.mark.parametrize("case", SENT)
def test_the_name_that_is_sent_and_back(case: str) -> None:
    names = names_of(*(tool for tool, _ in SENT[case]))
    assert [(tool, names.of(tool)) for tool, _ in SENT[case]] == SENT[case]
    assert [(names.tool_of(sent), sent) for _, sent in SENT[case]] == SENT[case]


def test_the_answer_has_a_name_that_no_tool_has() -> None:
    assert names_of("price").answer == "final_answer"
    assert names_of("final_answer").answer == "final_answer_2"


def test_a_call_of_the_answer_has_no_tool_if_it_is_offered() -> None:
    names = names_of("price")
    assert names.tool_of("final_answer") == "final_answer"
    names.offers_answer = True
    assert names.tool_of("final_answer") == ""
    assert names.tool_of("price") == "price"


@pytest.mark.parametrize("sent", [None, "", " ", "\n"])
def test_a_call_without_a_name_is_nameless(sent: str | None) -> None:
    assert names_of("price").tool_of(sent) == NAMELESS


@pytest.mark.parametrize(("tool", "sent"), [("gone tool", "gone_tool"), ("", "_"), (LONG + "b", LONG)])
def test_a_tool_of_the_history_that_is_not_offered(tool: str, sent: str) -> None:
    assert names_of("price").of(tool) == sent
    assert names_of("price").tool_of("other") == "other"


@pytest.mark.parametrize(
    ("tool", "told"),
    [("price", "Buys."), ("shop.price", "Buys."), ("获取", "获取: Buys."), ("größe", "größe: Buys.")],
)
def test_a_description_has_the_name_whose_letters_are_not_sent(tool: str, told: str) -> None:
    assert names_of(tool).described(tool, "Buys.") == told
    assert names_of(tool).described(tool, "") in ("", tool)
