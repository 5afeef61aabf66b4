"""The documentation is held to the code: what is there is described, what is described is there, what is shown runs."""

from __future__ import annotations

import doctest
import inspect
import re
from collections.abc import Iterator
from dataclasses import fields
from operator import attrgetter
from pathlib import Path
from typing import Any, get_args

import pytest
from IPython.core.interactiveshell import InteractiveShell

import agf_magics as agf
from agf_magics.languages.graph import words as graph_words
from agf_magics.languages.pipeline import words
from agf_magics.languages.pipeline.r1.nodes import COMBINATORS
from agf_magics.languages.policy import SCHEMA
from agf_magics.notebook.commands import COMMANDS
from agf_magics.notebook.config import AgfMagics
from agf_magics.progress.events import Event
from agf_magics.progress.progress import Row
from agf_magics.settings import OPENING, Settings
from docs import tables
from tests import doc_codes
from tests.doc_pages import DOCS, ERRORS, Entry, Told, blocks, entries, example, new_shell, pages, session

ENTRIES = [entry for page in sorted(ERRORS.glob("*.md")) for entry in entries(page.read_text(encoding="utf-8"))]
PAGES = [page for page in pages() if ERRORS not in page.parents or page.name == "index.md"]
CODES = doc_codes.codes()

SITE = {page.relative_to(DOCS).as_posix(): tables.filled(page.read_text(encoding="utf-8")) for page in pages()}
"""The pages with their tables in place, as they are built."""

WHENS = {
    "error when defined", "warning when defined", "note when defined", "error before a run", "error while running",
    "warning while running", "error of the line", "warning of the line", "error when read",
}  # fmt: skip


@pytest.fixture(scope="module")
def shell() -> Iterator[InteractiveShell]:
    InteractiveShell.clear_instance()
    yield new_shell()
    InteractiveShell.clear_instance()


# --- errors ---


def test_every_code_has_an_entry_and_every_entry_a_code() -> None:
    assert sorted(entry.code for entry in ENTRIES) == sorted(CODES)


def test_no_code_is_put_together_where_nobody_looks() -> None:
    assert doc_codes.composed() == set(doc_codes.COMPOSED)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.code)
def test_an_example_tells_its_code_in_these_words(entry: Entry, shell: InteractiveShell) -> None:
    told: list[Told] = []
    for block, found in example(entry, shell):
        assert found, "the example does not tell it"
        assert block.text == f"{found[0].text}\n", "python -m tests.doc_pages writes what is told now"
        told += found
    assert told, "an entry shows what is told"
    assert {each.when for each in told} == entry.whens


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.code)
def test_an_entry_can_be_linked_to_and_says_the_cure(entry: Entry) -> None:
    assert entry.label == entry.code
    assert entry.whens <= WHENS
    assert not entry.text.rstrip().endswith("```"), "after what is told stands the cure"


# --- pages ---


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_a_page_does_what_it_shows(page: Path, shell: InteractiveShell) -> None:
    with session(shell) as reader:
        for block in blocks(page.read_text(encoding="utf-8")):
            if block.language != "text" or block.aside:
                reader.read(block)
                continue
            told, said = reader.answer()
            assert not [each for each in told if each.when.startswith("error")]
            assert _is_like(block.text, said), f"line by line:\n{said}"
        assert not [each for each in reader.told if each.when.startswith("error")]


def _is_like(wanted: str, said: str) -> bool:
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return doctest.OutputChecker().check_output(wanted, said.strip() + "\n", options)


@pytest.mark.parametrize("name", SITE)
def test_a_link_leads_to_a_page_or_to_an_entry(name: str) -> None:
    prose = re.sub(r"^```.*?^```$|`[^`\n]*`", "", SITE[name], flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        path = (DOCS / name).parent / target
        copied = DOCS.parent / "notebooks" / path.name if path.parent.name == "notebooks" else path
        assert target.startswith("https://") or target in CODES or copied.resolve().is_file(), target


def test_a_page_that_asks_for_a_table_names_one_there_is() -> None:
    asked = {found[1] for page in pages() for found in tables.MARK.finditer(page.read_text(encoding="utf-8"))}
    assert asked == set(tables.TABLES)
    assert not [name for name, page in SITE.items() if "<!-- generated" in page]


# --- what there is ---


@pytest.mark.parametrize("kind", [*words.STEPS.values(), *words.DOCUMENTS.values()], ids=lambda kind: kind.name)
def test_a_kind_and_all_its_keys_are_described(kind: words.Kind) -> None:
    section = _section(SITE["reference/steps.md"], kind.name)
    for key in kind.keys.values():
        assert re.search(rf"^\| `{key.name}` \| {'yes' if key.required else 'no'} \|", section, re.MULTILINE)
    if kind.name in words.STEPS:
        assert [block for block in blocks(section) if block.language == "yaml" and f"{kind.name}:" in block.text]


def test_targets_and_reserved_keys_are_described() -> None:
    page = SITE["reference/steps.md"]
    assert all(f"| `{key}` |" in page for key in words.TARGET.keys)
    assert all(f"`{key}`" in page for key in words.PLANNED)


def test_types_of_fields_and_functions_are_described() -> None:
    assert all(f"| `{name}` |" in SITE["reference/schemas.md"] for name in words.FIELD_TYPES)
    assert all(f"| `{name}(" in SITE["reference/r1.md"] for name in COMBINATORS)


def test_every_kind_of_a_graph_has_its_table_and_every_node_an_example() -> None:
    page = (DOCS / "reference" / "graphs.md").read_text(encoding="utf-8")
    asked = {found[2] for found in tables.MARK.finditer(page) if found[1] == "graph"}
    assert asked == set(tables.GRAPH_KINDS)
    shown = [block.text for block in blocks(page) if block.language in ("yaml graph", "ipython")]
    for name in graph_words.NODES:
        assert any(f"type: {name}" in text for text in shown), name
    assert all(f"`{name}`" in SITE["reference/graphs.md"] for name in (*graph_words.TYPES, *graph_words.REDUCERS))


def test_every_part_of_a_policy_document_has_its_table() -> None:
    page = (DOCS / "reference" / "policy-document.md").read_text(encoding="utf-8")
    asked = {found[2] for found in tables.MARK.finditer(page) if found[1] == "policy"}
    parts = {name for name, rule in SCHEMA["$defs"].items() if "properties" in rule}
    elsewhere = {
        "ConditionGroup",
        "Operators",
        "SchemaRef",
    }  # conditions are a page of their own, JSON Schema is not ours
    assert asked == {"document", *parts} - elsewhere
    conditions = _section(SITE["reference/paths.md"], "Conditions")
    assert all(f"`{operator}`" in conditions for operator in SCHEMA["$defs"]["Operators"]["properties"])


@pytest.mark.parametrize("command", COMMANDS.values(), ids=lambda command: command.name)
def test_a_magic_with_its_options_and_its_example_is_described(command: Any) -> None:
    section = _section(SITE["reference/magics.md"], command.name)
    for written in [*(o.metavar for o in command.operands), *(o.flag for o in command.options)]:
        assert re.search(rf"^\| `{re.escape(written)}[ `]", section, re.MULTILINE)
    assert command.about in section
    assert command.example in section


def test_settings_are_described_with_their_defaults() -> None:
    page = SITE["reference/settings.md"]
    for field in fields(Settings):
        in_project = "never" if field.name in OPENING else f"`{field.name.replace('_', '-')}`"
        assert f"| `{field.name}` | {in_project} | `{field.default!r}` |" in page
    for name, trait in AgfMagics.class_traits(config=True).items():
        assert f"| `{name}` |" in page, trait.help


def test_everything_public_is_described() -> None:
    in_modules = {f"{module}.{name}" for module in ("agent_tools", "planning") for name in getattr(agf, module).__all__}
    shown = {name for group in tables.API.values() for name in group}
    not_shown = {"agent_tools", "planning", "agent_tools.Envelope", "planning.NamedContext", "planning.context"}
    assert shown == ({*agf.__all__} | in_modules) - not_shown
    for name in shown:
        section = _section(SITE["reference/python.md"], name)
        assert len(section.split()) > 3, f"{name} has no description"
        if inspect.isfunction(attrgetter(name)(agf)):
            assert all(one in section for one in inspect.signature(attrgetter(name)(agf)).parameters)


def test_events_and_their_fields_are_described() -> None:
    for event in get_args(Event):
        named = ", ".join(f"`{name}`" for name in event._fields)
        (row,) = re.findall(rf"^\| `{event.__name__}` \| (.*) \| (.*) \|$", SITE["reference/events.md"], re.MULTILINE)
        assert row[0] == named
        assert row[1], "it says when"


def test_what_can_be_read_of_a_run_and_of_a_step_is_described_and_nothing_else() -> None:
    run = agf.run("{pipeline: p, steps: [{transform: {value: '1'}}]}", registry=agf.Registry())
    there = {name for name in dir(run) if not name.startswith("_")} - {"secrets"}
    assert there == set(re.findall(r"`(\w+)(?:\(\))?`", _column(_section(SITE["reference/events.md"], "A run"))))
    (row,) = [row for row in run.steps.values() if row.word == "transform"]
    told = set(re.findall(r"`(\w+)`", _section(SITE["reference/events.md"], "A step of a run").partition("|")[0]))
    assert {name for name in dir(Row) if not name.startswith("_")} >= told - {"run"}
    assert {"id", "word", "label", "state", "value", "error", "seconds"} <= told
    assert row.value == 1


def test_the_command_line_is_described() -> None:
    page = SITE["reference/command-line.md"]
    for option in ("--tools", "--define", "--input", "--dry", "--quiet", "--strict", "--out"):
        assert f"| `{option}" in page


def test_the_notebooks_are_pages_of_the_site() -> None:
    told = (DOCS / "index.md").read_text(encoding="utf-8")
    assert "notebooks/quickstart" in told
    assert "notebooks/*" in told


def _section(page: str, title: str) -> str:
    """What stands below a heading, up to the next of its level or above."""
    found = re.search(rf"^(#+) {re.escape(title)}$", page, re.MULTILINE)
    assert found, f"no section {title!r}"
    below = page[found.end() :]
    end = re.search(rf"^#{{1,{len(found[1])}}} ", below, re.MULTILINE)
    return below[: end.start()] if end else below


def _column(section: str) -> str:
    """The first cells of a table."""
    return "\n".join(line.split("|")[1] for line in section.splitlines() if line.startswith("|"))
