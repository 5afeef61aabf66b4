"""A JSON text in which a person sees every character is the same JSON."""

from __future__ import annotations

import json

import pytest

from agf_magics.text.visible import visible, visible_json

SHOWN = {
    "letters": "pear é 日本 🙂",
    "signs": '"\\/',
    "a presentation form beside the selectors": "\ufe10",
    "a space": "a b",
}
ESCAPED = {
    "an escape sequence": ("\x1b[2J", r"\u001b[2J"),
    "delete": ("a\x7f", r"a\u007f"),
    "delete beside letters": ("é\x7f", r"é\u007f"),
    "a line break": ("a\nb", r"a\nb"),
    "a control of eight bits": ("to\x9b2J", r"to\u009b2J"),
    "a mark that reverses": ("to\u202edo", r"to\u202edo"),
    "a space without width": ("a\u200bb", r"a\u200bb"),
    "a letter without a shape": ("a\u3164b", r"a\u3164b"),
    "the first selector": ("a\ufe00", r"a\ufe00"),
    "the last selector": ("a\ufe0f", r"a\ufe0f"),
    "the first further selector": ("a\U000e0100", r"a\udb40\udd00"),
    "the last further selector": ("a\U000e01ef", r"a\udb40\uddef"),
    "half of a pair": ("a\ud83d", r"a\ud83d"),
}


@pytest.mark.parametrize("case", SHOWN)
def test_what_a_person_sees_stays(case: str) -> None:
    text = json.dumps(SHOWN[case], ensure_ascii=False)
    assert visible(text) == text
    assert json.loads(visible_json([SHOWN[case]])) == [SHOWN[case]]


@pytest.mark.parametrize("case", ESCAPED)
def test_what_shows_nothing_or_changes_the_screen_is_an_escape(case: str) -> None:
    value, text = ESCAPED[case]
    shown = visible_json({"a": value})
    assert shown == f'{{"a":"{text}"}}'
    assert json.loads(shown) == {"a": value}


@pytest.mark.parametrize("letter", ["\x1b", "\x7f", "\t"])
def test_a_raw_control_in_a_json_text_is_an_escape(letter: str) -> None:
    assert json.loads(visible(f'"a{letter}"')) == f"a{letter}"


def test_a_part_that_is_no_json_is_converted_or_refused() -> None:
    assert visible_json({"a": {1}}, default=sorted) == '{"a":[1]}'
    with pytest.raises(TypeError):
        visible_json({1})
