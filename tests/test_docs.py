"""The documentation and the code agree: the docs describe everything, everything that they describe exists, every
example runs."""

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

import agf_magics as agf
from agf_magics.commands.magics import COMMANDS
from agf_magics.languages import keys
from agf_magics.languages.graph import words as graph_words
from agf_magics.languages.graph.takes import TYPES
from agf_magics.languages.pipeline import takes
from agf_magics.languages.pipeline import words as words_module
from agf_magics.languages.pipeline.r1.functions import FUNCTIONS
from agf_magics.languages.policy import SCHEMA
from agf_magics.notebook.config import AgfMagics
from agf_magics.settings.settings import OPENING, Settings
from docs import markdown, search, tables
from tests import doc_codes
from tests.doc_pages import (
    DOCS,
    ERRORS,
    HOWTO,
    PASTED,
    Entry,
    Finding,
    Session,
    Shell,
    blocks,
    entries,
    example,
    messages,
    new_shell,
    pages,
    session,
    session_in,
)  # fmt: skip
from tests.shells import only_shell
from tests.slow import slow_but

ENTRIES = [entry for page in sorted(ERRORS.glob("*.md")) for entry in entries(page.read_text(encoding="utf-8"))]
PASTED_PAGES = sorted(HOWTO.glob("*.md"))

AGAIN = ("explore", "share", "resume", "reuse")
"""Pages about earlier runs. They also find the runs of another day."""

PAGES = [page for page in pages() if page not in PASTED_PAGES and (page.parent != ERRORS or page.name == "index.md")]

SITE = {page.relative_to(DOCS).as_posix(): page.read_text(encoding="utf-8") for page in pages()}

README = DOCS.parent / "README.md"

WHENS = {
    "error when defined", "warning when defined", "note when defined", "error before a run", "error while running",
    "warning while running", "error of the line", "warning of the line", "error when read",
    "error when connected", "warning when connected", "note when connected",
}  # fmt: skip


@pytest.fixture(scope="module")
def shell() -> Iterator[Shell]:
    with only_shell(new_shell) as shell:
        yield shell  # type: ignore[misc]


# --- errors ---


def test_every_code_has_an_entry_and_every_entry_a_code() -> None:
    assert sorted(entry.code for entry in ENTRIES) == sorted(doc_codes.codes())


def test_no_code_is_composed_in_an_unlisted_place() -> None:
    assert doc_codes.composed() == set(doc_codes.COMPOSED)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.code)
def test_an_example_reports_its_code_and_shows_every_message(entry: Entry, shell: Shell) -> None:
    reported: list[Finding] = []
    for block, findings in example(entry, shell):
        assert block.text == messages(findings), "python -m tests.doc_pages writes the messages"
        reports = [finding for finding in findings if finding.diagnostic.code == entry.code]
        assert reports, "the example does not report it"
        reported += reports
    assert reported, "an entry shows its message"
    assert {report.when for report in reported} == entry.whens


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.code)
def test_an_entry_says_when_it_is_reported_and_gives_the_cure(entry: Entry) -> None:
    assert entry.whens <= WHENS
    assert not entry.text.rstrip().endswith("```"), "the cure follows the message"


# --- pages ---


@pytest.mark.parametrize("page", PASTED_PAGES, ids=lambda page: page.stem)
def test_the_blocks_of_a_how_to_page_can_be_pasted_into_a_notebook(page: Path, shell: Shell) -> None:
    """Each block goes into a cell, in order, with nothing but the extension loaded. A text block is the result of the
    previous block."""
    with session(shell) as reader:
        paste(page, reader)


@pytest.mark.parametrize(
    "page",
    slow_but([HOWTO / f"{name}.md" for name in AGAIN], PASTED_PAGES),
    ids=lambda page: page.stem,
)
def test_the_blocks_of_a_how_to_page_can_be_pasted_again(page: Path, shell: Shell, tmp_path: Path) -> None:
    """A new kernel in the same folder, with the files and the runs of the first time, gives the same results."""
    for _ in range(2):
        with session_in(shell, tmp_path) as reader:
            paste(page, reader)


def paste(page: Path, reader: Session) -> None:
    findings, printed = reader.results()
    for block in blocks(page.read_text(encoding="utf-8")):
        if block.language == "text" and not block.aside:
            assert _is_like(block.text, printed), f"line by line:\n{printed}"
            printed = ""
            continue
        assert block.aside or block.language in PASTED or block.language.startswith("{"), block.language
        assert not re.search(r"^(?:warning|note):", printed, re.MULTILINE), f"the page does not show it:\n{printed}"
        reader.read(block)
        findings, printed = reader.results()
        assert not [finding.text for finding in findings if finding.when.startswith("error")]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(DOCS).as_posix())
def test_a_page_does_what_it_shows(page: Path, shell: Shell) -> None:
    with session(shell) as reader:
        findings, printed = reader.results()
        for block in blocks(page.read_text(encoding="utf-8")):
            if block.language == "text" and not block.aside:
                assert _is_like(block.text, printed), f"line by line:\n{printed}"
                continue
            reader.read(block)
            findings, printed = reader.results()
            assert not [finding for finding in findings if finding.when.startswith("error")]


def test_the_blocks_of_the_readme_can_be_pasted(shell: Shell) -> None:
    """Each block goes into a cell. The README marks cells of magics as YAML, because a renderer of Markdown does not
    know the magics."""
    with session(shell) as reader:
        cells = [block for block in blocks(README.read_text(encoding="utf-8")) if not block.aside]
        assert {block.language for block in cells} == {"python", "yaml"}
        for block in cells:
            reader.read(block._replace(language="ipython"))
            assert not [finding.text for finding in reader.results()[0] if finding.when.startswith("error")]


@pytest.mark.parametrize("name", SITE)
def test_a_reader_of_the_site_sees_what_is_not_run(name: str) -> None:
    skipped = [block for block in blocks(SITE[name]) if block.aside == "not run"]
    reasons = re.findall(r"^<!-- not run: (.+) -->$", SITE[name], re.MULTILINE)
    assert len(skipped) == len(reasons)
    forms = [reason for reason in reasons if reason in markdown.FORMS]
    assert markdown.site(SITE[name]).count('<p class="not-run">') == len(reasons) - len(forms)
    assert not forms or "not cells" in SITE[name].partition("\n## ")[0], "the top of the page says it"


@pytest.mark.parametrize("name", SITE)
def test_a_reader_of_the_site_sees_the_name_of_each_file(name: str) -> None:
    files = [block.name for block in blocks(SITE[name]) if block.aside == "file"]
    names_shown = re.findall(r'<p class="file"><code>(.+)</code></p>\n\n```', markdown.site(SITE[name]))
    assert names_shown == files


def _is_like(expected: str, printed: str) -> bool:
    options = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return doctest.OutputChecker().check_output(expected, printed.strip() + "\n", options)


@pytest.mark.parametrize("name", SITE)
def test_a_link_leads_to_a_page_and_its_anchor_to_a_heading(name: str) -> None:
    """This holds on the site and in the Markdown of the repository."""
    prose = re.sub(r"^```.*?^```$|`[^`\n]*`", "", SITE[name], flags=re.MULTILINE | re.DOTALL)
    for link in re.findall(r"\]\(([^)\s]+)\)", prose):
        target, _, anchor = link.partition("#")
        path = (DOCS / name).parent / target if target else DOCS / name
        copied = DOCS.parent / "notebooks" / path.name if path.parent.name == "notebooks" else path
        assert link.startswith("https://") or copied.resolve().is_file(), link
        assert not anchor or anchor in _anchors(path), link


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", SITE)
def test_the_generated_parts_of_a_page_are_those_of_the_code(name: str) -> None:
    assert SITE[name] == tables.fill(SITE[name]), "python -m docs tables writes them"


def test_every_generated_part_is_in_a_page() -> None:
    assert {match[2] for page in SITE.values() for match in tables.MARK.finditer(page)} == set(tables.TABLES)


# --- what there is ---


@pytest.mark.parametrize(
    "kind", [*words_module.STEPS.values(), *words_module.DOCUMENTS.values()], ids=lambda kind: kind.name
)
def test_a_kind_and_all_its_keys_are_described(kind: keys.MappingSpec) -> None:
    section = _section(SITE["reference/steps.md"], kind.name)
    for key in kind.keys.values():
        assert re.search(rf"^\| `{key.name}` \| {'yes' if key.required else 'no'} \|", section, re.MULTILINE)
    if kind.name in words_module.STEPS:
        assert [
            block for block in blocks(section) if block.text.startswith("%%pipeline") and f"{kind.name}:" in block.text
        ]


def test_targets_and_reserved_keys_are_described() -> None:
    page = SITE["reference/steps.md"]
    assert all(f"| `{key}` |" in page for key in takes.TARGET.keys)
    assert all(f"`{key}`" in page for key in words_module.PLANNED)


def test_types_of_fields_and_functions_are_described() -> None:
    assert all(f"| `{name}` |" in SITE["reference/schemas.md"] for name in words_module.FIELD_TYPES)
    assert all(f"| `{name}(" in SITE["reference/r1.md"] for name in FUNCTIONS)


def test_every_kind_of_a_graph_has_its_table_and_every_node_an_example() -> None:
    page = (DOCS / "reference" / "graphs.md").read_text(encoding="utf-8")
    tables_asked_for = {match[3] for match in tables.MARK.finditer(page) if match[2] == "graph"}
    assert tables_asked_for == set(tables.GRAPH_KINDS)
    examples = [block.text for block in blocks(page) if block.language in ("yaml graph", "ipython")]
    for name in graph_words.NODES:
        assert any(f"type: {name}" in text for text in examples), name
    assert all(f"`{name}`" in SITE["reference/graphs.md"] for name in (*TYPES, *graph_words.REDUCERS))


def test_every_part_of_a_policy_document_has_its_table() -> None:
    page = (DOCS / "reference" / "policy-document.md").read_text(encoding="utf-8")
    tables_asked_for = {match[3] for match in tables.MARK.finditer(page) if match[2] == "policy"}
    parts = {name for name, rule in SCHEMA["$defs"].items() if "properties" in rule}
    elsewhere = {"ConditionGroup", "Operators", "SchemaRef"}  # conditions have their own page, JSON Schema is not ours
    assert tables_asked_for == {"document", *parts} - elsewhere
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
    in_modules = {
        f"{module}.{name}" for module in ("agent_tools", "mcp", "planning") for name in getattr(agf, module).__all__
    }
    described = {name for group in tables.API.values() for name in group}
    not_shown = {"agent_tools", "mcp", "planning", "agent_tools.Envelope", "planning.NamedContext", "planning.context"}
    assert described == ({*agf.__all__} | in_modules) - not_shown
    for name in described:
        section = _section(SITE["reference/python.md"], name)
        assert len(section.split()) > 3, f"{name} has no description"
        if inspect.isfunction(attrgetter(name)(agf)):
            assert all(parameter in section for parameter in inspect.signature(attrgetter(name)(agf)).parameters)


def test_events_and_their_fields_are_described() -> None:
    for event in get_args(agf.Event):
        named = ", ".join(f"`{name}`" for name in event._fields)
        (row,) = re.findall(rf"^\| `{event.__name__}` \| (.*) \| (.*) \|$", SITE["reference/events.md"], re.MULTILINE)
        assert row[0] == named
        assert row[1], "it says when"


def test_what_can_be_read_of_a_run_and_of_a_step_is_described_and_nothing_else() -> None:
    run = agf.run("{pipeline: p, steps: [{transform: {value: '1'}}]}", registry=agf.Registry())
    attributes = {name for name in dir(run) if not name.startswith("_")} - {"secrets"}
    assert attributes == set(re.findall(r"`(\w+)(?:\(\))?`", _column(_section(SITE["reference/events.md"], "A run"))))
    (row,) = [row for row in run.steps.values() if row.word == "transform"]
    described = set(re.findall(r"`(\w+)`", _section(SITE["reference/events.md"], "A step of a run").partition("|")[0]))
    assert {name for name in dir(row) if not name.startswith("_")} >= described - {"run"}
    assert {"id", "word", "label", "state", "value", "error", "seconds"} <= described
    assert row.value == 1


OTHERS = {
    "--to", "--execute",  # jupyter nbconvert
    "--agf-record", "--agf-no-journal",  # pytest
    "--enable-auto-tool-choice",  # vLLM
    "--resources", "--no-nanny",  # dask worker
    "--install-extension",  # code
    "--help", "--version",
}  # fmt: skip
"""Options of other programs, and two that no table of a command lists: every magic has the first, agf-magics the
second."""


def test_an_option_that_a_guide_names_exists() -> None:
    options = {option.flag for command in COMMANDS.values() for option in command.options} | OTHERS
    options |= set(re.findall(r"^\| `(--[a-z-]+)", SITE["reference/command-line.md"], re.MULTILINE))
    guides = [README.read_text(encoding="utf-8"), *(text for name, text in SITE.items() if name.startswith("howto/"))]
    named = {name for text in guides for name in re.findall(r"(?<![\w-])--[a-z][a-z-]+", text)}
    assert not named - options


def test_the_command_line_is_described() -> None:
    page = SITE["reference/command-line.md"]
    for option in ("--tools", "--define", "--input", "--dry", "--quiet", "--strict", "--set", "--save", "--format"):
        assert f"| `{option}" in page


def test_the_notebooks_are_pages_of_the_site() -> None:
    assert "notebooks/quickstart" in SITE["index.md"]
    assert "notebooks/*" in SITE["index.md"]


def _section(page: str, title: str) -> str:
    """The text below a heading, up to the next heading of its level or above."""
    heading = re.search(rf"^(#+) {re.escape(title)}$", page, re.MULTILINE)
    assert heading, f"no section {title!r}"
    below = page[heading.end() :]
    end = re.search(rf"^#{{1,{len(heading[1])}}} ", below, re.MULTILINE)
    return below[: end.start()] if end else below


def _column(section: str) -> str:
    """The texts in the first column of a table."""
    return "\n".join(line.split("|")[1] for line in section.splitlines() if line.startswith("|"))


@pytest.mark.parametrize("word", search.ANSWERS)
def test_a_page_names_the_words_that_a_search_for_it_uses(word: str) -> None:
    """`make docs` also tries the search of the built site."""
    named = re.findall(r"<!-- search: (.+) -->", SITE[f"{search.ANSWERS[word]}.md"])
    assert word in {phrase for words in named for phrase in words.split(", ")}
