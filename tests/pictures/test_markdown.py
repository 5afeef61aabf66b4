"""The Markdown of a model's reply as HTML in a saved cell: what is converted, and that no text becomes markup."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agf_magics.pictures.markdown import markdown_html
from tests.counting import work

LINK = 'rel="noopener noreferrer" target="_blank"'
RULES = [
    ("a heading is bold", "# Order 17", "<p><strong>Order 17</strong></p>"),
    ("emphasis", "**a** and *b*", "<p><strong>a</strong> and <em>b</em></p>"),
    ("a star between blanks is a star", "2 * 3 * 4", "<p>2 * 3 * 4</p>"),
    ("code is not read", "`**a**`", "<p><code>**a**</code></p>"),
    ("names with underscores stay", "lookup_order_item", "<p>lookup_order_item</p>"),
    ("a block of code keeps its lines", "```python\n# a\n\n  b\n```", "<pre># a\n\n  b</pre>"),
    ("a block of code may not end yet", "~~~\na", "<pre>a</pre>"),
    ("a fence with a text behind it ends nothing", "```py\na\n``` b\nc", "<pre>a\n``` b\nc</pre>"),
    ("a shorter fence ends nothing", "````\n```\na\n```\n````\nb", "<pre>```\na\n```</pre><p>b</p>"),
    ("another fence ends nothing", "~~~\n```\n~~~", "<pre>```</pre>"),
    ("a longer fence is an end", "```\na\n````\nb", "<pre>a</pre><p>b</p>"),
    ("fences around a line are code in it", "```a``` b\nc", "<p>``<code>a</code>`` b\nc</p>"),
    ("words behind a fence are shown", "```so it is\na\n```", "<pre>so it is\na</pre>"),
    ("a block of code in an item keeps its empty lines", "- a\n  ```\n  b\n\n  c\n  ```\n- d",
     "<ul><li>a<pre>  b\n\n  c</pre></li><li>d</li></ul>"),
    ("a block of code begins an item", "- ```py\n  a\n  ```\n- b", "<ul><li><pre>  a</pre></li><li>b</li></ul>"),
    ("a list", "- a\n- b", "<ul><li>a</li><li>b</li></ul>"),
    ("a list in a list", "1. a\n   - b\n2. c", "<ol><li>a<ul><li>b</li></ul></li><li>c</li></ol>"),
    ("a list begins where its numbers do", "3. a", '<ol start="3"><li>a</li></ol>'),
    ("a list after a text", "so:\n* a", "<p>so:</p><ul><li>a</li></ul>"),
    ("a table", "|a|b|\n|--|:-:|\n| *1* | 2 |",
     "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td><em>1</em></td><td>2</td></tr></tbody></table>"),
    ("a row may have more cells than the head", "|a|\n|-|\n|b|c|",
     "<table><thead><tr><th>a</th></tr></thead><tbody><tr><td>b</td><td>c</td></tr></tbody></table>"),
    ("a bar alone is no table", "a | b\nc", "<p>a | b\nc</p>"),
    ("a quote", "> a\n> b", "<blockquote><p>a\nb</p></blockquote>"),
    ("a line across", "a\n\n---\n\nb", "<p>a</p><hr><p>b</p>"),
    ("a link", "[us](https://a.org/?b=1&c)", f'<p><a href="https://a.org/?b=1&amp;c" {LINK}>us</a></p>'),
    ("a picture is a link", "![a](http://a.org/b.png)", f'<p><a href="http://a.org/b.png" {LINK}>a</a></p>'),
    ("a script is no link", "[a](javascript:alert(1))", "<p>[a](javascript:alert(1))</p>"),
    ("HTML is text", '<img src=x onerror="a()">', "<p>&lt;img src=x onerror=&quot;a()&quot;&gt;</p>"),
]  # fmt: skip
"""A rule of Markdown, a text, and the page of this text."""


@pytest.mark.parametrize(("markdown", "page"), [row[1:] for row in RULES], ids=[row[0] for row in RULES])
def test_markdown_is_converted(markdown: str, page: str) -> None:
    assert re.sub(' style="[^"]*"', "", markdown_html(markdown)) == page


class Elements(HTMLParser):
    """The elements of a page with their attributes."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.names = set[str]()
        self.open = list[str]()
        self.text = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.names |= {tag, *(name for name, _ in attrs)}
        if tag != "hr":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


WRITTEN = {
    *("p", "strong", "em", "code", "pre", "ul", "ol", "li", "table", "thead", "tbody", "tr", "th", "td"),
    *("blockquote", "hr", "a", "href", "rel", "target", "style", "start"),
}
PIECES = ["# ", "**", "*", "`", "```", "- ", "1. ", "> ", "|", "--", "\n", "  ", "<b>", "&", '"', "[a](http://b)", "x"]


@given(st.lists(st.sampled_from(PIECES), max_size=40).map("".join))
def test_each_text_gives_whole_elements_that_are_known(text: str) -> None:
    page = Elements(markdown_html(text))
    assert page.names <= WRITTEN
    assert not page.open
    assert page.text.count("x") == text.count("x")
    assert page.text.count("<b>") == text.count("<b>")


FENCES = ["```", "```py", "``` so word", "````", "~~~", "  ```", "> ```", "- ```"]
BLOCKS = ["", "- word", "  - word", "1. word", "# word", "> word", "> - word", "> | word", "      word", "---", "|--|"]
INLINE = ["word", "  word", "```word```", "**word", "`word`", "| word | word |", "| word | word | word |", "<b>word"]


@given(st.lists(st.sampled_from(FENCES + BLOCKS + INLINE), max_size=12).map("\n".join))
@example("```py\nword\n``` word")
@example("> ```\n> word\n> ``` word word\nword")
@example("- word\n  ```\n  word\n\n  ``` word\nword")
@example("- word\n- ```\n\nword\n- word\n\nword")
@example("| word |\n|--|\n| word | word |")
def test_no_word_of_a_text_is_lost(text: str) -> None:
    assert Elements(markdown_html(text)).text.count("word") == text.count("word")


@pytest.mark.parametrize(
    "piece",
    ["[", "*", "**a", "`", "- ", "> ", "\n> ", "\n- a", "|\n|-", "[a](http://", "~~~\n", "\n  - a", "- ```\n"],
)
def test_the_cost_grows_with_the_text(piece: str) -> None:
    small, large = (work(lambda: markdown_html(piece * count)) for count in (100, 400))  # noqa: B023
    assert large < 6 * small + 200
