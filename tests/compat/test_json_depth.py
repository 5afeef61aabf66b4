"""In a browser, JSON with too many levels is refused, because its decoder would end the whole session."""

from __future__ import annotations

import json

import pytest

from agf_magics.compat.json_depth import DEEPEST_JSON, bound_json


class Decoder(json.JSONDecoder):
    """A decoder for the tests. The decoder of this process is not changed."""


bound_json(Decoder)


@pytest.mark.parametrize(
    "text", ["[" * 100_000, '{"a":' * 5_000 + "1" + "}" * 5_000, "[1," * 1_001 + "2" + "]" * 1_001]
)
def test_deep_json_is_refused(text: str) -> None:
    with pytest.raises(RecursionError, match="JSON nests deeper than 1,000 levels"):
        Decoder().decode(text)


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([[n] for n in range(5_000)]),
        json.dumps("[" * 5_000 + '\\"' * 5_000 + "{" * 5_000),
        json.dumps({'"[': "\\", "]": ["[" * 2_000]}),
        "[" * 900 + "]" * 900,
        "1",
    ],
)
def test_other_json_is_read_as_usual(text: str) -> None:
    assert Decoder().decode(text) == json.loads(text)


def test_the_bound_leaves_room_for_what_a_value_may_nest() -> None:
    from agf_magics.text.length import DEEPEST

    assert DEEPEST_JSON >= DEEPEST
