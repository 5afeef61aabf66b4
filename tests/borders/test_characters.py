"""Characters that look like those of a language: an error that such a character causes names it (fault N14).

In a correct text, and in an error about something else, the character is not mentioned.
"""

from __future__ import annotations

import pytest

import agf_magics as agf
from agf_magics.text.diagnostics import DefinitionError
from tests.notebook.conftest import Shell

BLANKS = {"no-break": "\u00a0", "narrow no-break": "\u202f", "ideographic": "\u3000", "em": "\u2003"}
HIDDEN = {"zero width": "\u200b", "joiner": "\u2060", "soft hyphen": "\u00ad", "left-to-right": "\u200e"}

PLACES = {
    "indentation": "pipeline: p\nsteps:\n- tool:\n@@@@name: t\n",
    "behind the colon": "pipeline:@p\nsteps: []\n",
    "behind the dash": "pipeline: p\nsteps:\n-@transform: {value: '1'}\n",
    "before the first key": "@pipeline: p\nsteps:\n- transform: {value: '1'}\n",
    "in a key": "pipeline: p\nsteps:\n- tool: {na@me: x}\n",
    "before a colon": "pipeline: p\nsteps:\n- tool: {name@: x}\n",
    "in an expression": "pipeline: p\nsteps:\n- transform: {value: 'ctx.n@+ 1'}\n",
}
LANGUAGES = {
    "policy": "id:@agf.sequential\nconfig: {}\n",
    "graph": "name: g\nnodes:\n@@a: {type: llm}\n",
    "plan": "calls:\n-@{_tool: x}\n",
}


def message_of(text: str, language: str = "pipeline") -> str:
    with pytest.raises(DefinitionError) as caught:
        agf.load(text, language)
    return str(caught.value)


@pytest.mark.parametrize("char", [*BLANKS.values(), *HIDDEN.values()], ids=[*BLANKS, *HIDDEN])
@pytest.mark.parametrize("place", PLACES)
def test_a_character_that_looks_like_a_blank_is_named(place: str, char: str) -> None:
    text = PLACES[place].replace("@", char)
    message = message_of(text)
    assert f"(U+{ord(char):04X}, " in message
    assert ("write an ordinary blank" if char in BLANKS.values() else "delete it") in message


@pytest.mark.parametrize("char", [BLANKS["no-break"], HIDDEN["zero width"]], ids=["no-break", "zero width"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_such_a_character_is_named_in_all_languages(language: str, char: str) -> None:
    assert f"(U+{ord(char):04X}, " in message_of(LANGUAGES[language].replace("@", char), language)


SIGNS = [
    ("pipeline", "pipeline： p\nsteps: []\n", "fullwidth colon): write :"),
    ("pipeline", "pipeline: p\nsteps：\n- transform: {value: '1'}\n", "fullwidth colon): write :"),
    ("pipeline", "pipeline: p\nsteps:\n– transform: {value: '1'}\n", "en dash): write -"),
    ("pipeline", "pipeline: p\nsteps:\n- transform: {value: “ctx.a”}\n", 'left double quotation mark): write "'),
    ("pipeline", "pipeline: p\nsteps:\n- transform: ｛value: '1'｝\n", "fullwidth left curly bracket): write {"),
    ("pipeline", "pipeline: p\nsteps:\n- tool: {name: t， args: {}}\n", "fullwidth comma): write ,"),
    ("pipeline", "pipeline: p\nsteps:\n- transform: {value: ctx.n – 1}\n", "en dash): write -"),
    ("pipeline", "pipeline: p\nsteps:\n- transform: {value: ctx.n ≥ 1}\n", "greater-than or equal to): write >="),
    ("pipeline", "pipeline: p\nsteps:\n- transform: {value: count（ctx.n）}\n", "fullwidth left parenthesis): write ("),
    ("policy", "id： agf.sequential\n", "fullwidth colon): write :"),
    ("graph", "name: g\nstate:｛a: any｝\n", "fullwidth left curly bracket): write {"),
    ("plan", "calls: [{_tool： x}]\n", "fullwidth colon): write :"),
]
"""A language, a text with a character that looks like a sign of it, and the hint."""


@pytest.mark.parametrize(("language", "text", "hint"), SIGNS)
def test_a_sign_that_looks_like_one_of_the_syntax_is_named(language: str, text: str, hint: str) -> None:
    assert hint in message_of(text, language)


@pytest.mark.parametrize(
    ("expression", "hint"),
    [
        ("1 – 1", "write -"),
        ("1\u00a0+ 1", "an ordinary blank"),
        ("“a”", 'write "'),
        ("count（ctx）", "write ("),
        ("1\u200b", "delete it"),
    ],
)
def test_such_a_character_is_named_in_an_expression(shell: Shell, expression: str, hint: str) -> None:
    assert hint in str(shell.run(f"%r1 {expression}").error)


RIGHT = [
    "pipeline: p\nsteps:\n- agent: {prompt: '10\u00a0000 € – “so”： ｛x｝'}\n",
    "pipeline: p\nsteps:\n- agent:\n    prompt: |\n      «Bonjour» – 10\u00a0%\n",
    "pipeline: p  # – a “comment”\u00a0\nsteps:\n- transform: {value: \"'→ ' + '数据：'\"}\n",
]


@pytest.mark.parametrize("text", RIGHT)
def test_such_characters_are_correct_in_a_text(text: str) -> None:
    assert not agf.load(text).warnings
    broken = message_of(text + "- nonsense: 1\n")
    assert "U+" not in broken


def test_only_characters_near_the_error_are_named() -> None:
    far = "pipeline: p\nsteps:\n- tool: {name: t, args: {a: “b”}}\n" + "# so\n" * 5 + "- nonsense: 1\n"
    assert "U+" not in message_of(far)
    assert "no-break space" in message_of(far.replace("nonsense: 1", "nonsense:\u00a01"))


@pytest.mark.parametrize(("language", "text", "message"), SIGNS)
def test_a_character_is_named_once(language: str, text: str, message: str) -> None:
    assert message_of(text, language).count(message) <= message_of(text, language).count(" [")
    with pytest.raises(DefinitionError) as caught:
        agf.load(text, language)
    for diagnostic in caught.value.diagnostics:
        assert (diagnostic.hint or "").count(message) <= 1
    again = DefinitionError(*caught.value.diagnostics)  # as the command line and %define combine errors
    assert str(again) == str(caught.value)
