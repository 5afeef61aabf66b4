"""Images and documents of an agent step: what the model gets, what the journal has, and which files are refused."""

from __future__ import annotations

import base64
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.catalog.builtin.attachments import MAX_BYTES, MAX_FILES
from agf_magics.pictures.pages.parts import progress_text
from notebooks.scripted_server import Answer, ScriptedServer, calls, failing
from tests.engine import kept


def _chunk(kind: bytes, data: bytes) -> bytes:
    return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")


PNG = b"".join((
    b"\x89PNG\r\n\x1a\n", _chunk(b"IHDR", bytes((0, 0, 0, 1, 0, 0, 0, 1, 8, 0, 0, 0, 0))),
    _chunk(b"IDAT", zlib.compress(b"\0\0")), _chunk(b"IEND", b""),
))  # fmt: skip
PDF = b"%PDF-1.4\n1 0 obj <<>> endobj\ntrailer <<>>\n%%EOF\n"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[ScriptedServer]:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "figure.png").write_bytes(PNG)
    with ScriptedServer(["a fig"]) as scripted:
        monkeypatch.setenv("OPENAI_BASE_URL", scripted.url)
        monkeypatch.setenv("OPENAI_API_KEY", "not-to-be-seen")
        yield scripted


@pytest.fixture
def registry() -> agf.Registry:
    registry = agf.Registry()
    registry.choose("openai-chat:gpt-4o")
    return registry


def text_of(*attach: str) -> str:
    listed = "".join(f'\n    - "{expression}"' for expression in attach)
    return f"pipeline: look\nsteps:\n- agent:\n    prompt: What is it?\n    attach:{listed}\n"


def run(registry: agf.Registry, *attach: str, fields: Any = None, **options: Any) -> agf.Run:
    return agf.run(text_of(*attach), fields, registry=registry, raises=False, **options)


def failure(registry: agf.Registry, *attach: str, fields: Any = None) -> Any:
    error = run(registry, *attach, fields=fields).error
    assert isinstance(error, agf.StepError), error
    return error.diagnostic


def test_the_model_gets_images_documents_and_texts_in_order(
    server: ScriptedServer, registry: agf.Registry, tmp_path: Path
) -> None:
    (tmp_path / "notes.md").write_text("Sweet.")
    ended = run(registry, "'figure.png'", "ctx.report", "'notes.md'", fields={"report": PDF})
    assert ended.output == "a fig"
    content = server.requests[0]["messages"][-1]["content"]
    assert content[0] == {"type": "text", "text": "What is it?"}
    assert content[1]["image_url"]["url"] == "data:image/png;base64," + base64.b64encode(PNG).decode()
    assert content[2]["file"]["file_data"] == "data:application/pdf;base64," + base64.b64encode(PDF).decode()
    assert content[3] == {"type": "text", "text": "notes.md:\n\nSweet."}
    assert "attach: 3 files" in progress_text(ended.progress, now=0)


def test_a_list_of_paths_is_several_attachments(server: ScriptedServer, registry: agf.Registry) -> None:
    run(registry, "ctx.files", fields={"files": ["figure.png", "figure.png"]})
    assert [part["type"] for part in server.requests[0]["messages"][-1]["content"]] == [
        "text",
        "image_url",
        "image_url",
    ]


def test_a_field_with_the_name_of_an_ending_is_an_expression(server: ScriptedServer, registry: agf.Registry) -> None:
    assert run(registry, "ctx.report.pdf", fields={"report": {"pdf": PDF}}).error is None


def test_no_attachment_is_a_plain_prompt(server: ScriptedServer, registry: agf.Registry) -> None:
    run(registry, "ctx.files", fields={"files": []})
    assert server.requests[0]["messages"][-1]["content"] == "What is it?"


def test_reuse_compares_the_content_of_a_file(server: ScriptedServer, registry: agf.Registry, tmp_path: Path) -> None:
    with kept.journal_in(tmp_path):
        _reuse(server, registry, tmp_path)


def _reuse(server: ScriptedServer, registry: agf.Registry, tmp_path: Path) -> None:
    agf.define(text_of("'figure.png'"), registry=registry)
    agf.run("look", registry=registry)
    agf.run("look", registry=registry, reuse=True)
    assert len(server.requests) == 1
    (tmp_path / "figure.png").write_bytes(PNG[:-12] + _chunk(b"tEXt", b"a\0b") + _chunk(b"IEND", b""))
    agf.run("look", registry=registry, reuse=True)
    assert len(server.requests) == 2


def test_the_journal_has_a_digest_and_no_bytes(server: ScriptedServer, registry: agf.Registry, tmp_path: Path) -> None:
    with kept.journal_in(tmp_path) as journal:
        ended = run(registry, "'figure.png'")
        assert ended.output == "a fig"
        stored = b"".join(path.read_bytes() for path in journal.parent.iterdir() if path.name.startswith(journal.name))
    assert b"sha256" in stored
    assert PNG not in stored
    assert base64.b64encode(PNG)[:60] not in stored


def test_a_resumed_session_sends_the_attachments_again(
    registry: agf.Registry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "figure.png").write_bytes(PNG)
    agf.tool(lambda: 7, name="price", registry=registry)
    script: list[Answer] = [calls(("price", {})), failing(400, "no"), "seven"]
    with kept.journal_in(tmp_path), ScriptedServer(script) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "not-to-be-seen")
        first = run(registry, "'figure.png'")
        assert first.error is not None
        assert agf.resume(first.run_id, registry=registry).output == "seven"
    assert len(server.requests) == 3
    assert server.requests[1]["messages"] == server.requests[2]["messages"]
    assert "data:image/png" in str(server.requests[2])


def test_a_dry_run_reads_no_file_and_asks_no_model(server: ScriptedServer, registry: agf.Registry) -> None:
    assert run(registry, "'absent.png'", dry=True).error is None
    assert server.requests == []


def _large(folder: Path) -> None:
    with open(folder / "x.png", "wb") as file:
        file.truncate(MAX_BYTES + 1)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (_large, "is too large"),
        (lambda folder: (folder / "x.png").mkdir(), "is a folder"),
        (lambda folder: os.mkfifo(folder / "x.png"), "is not a file"),
        (lambda folder: None, "does not exist"),
        (lambda folder: (folder / "x.png").touch(), "is empty"),
        (lambda folder: (folder / "x.png").write_bytes(PNG[:40]), "is not a complete PNG file"),
        (lambda folder: (folder / "x.png").write_bytes(PDF), "is not a complete PNG file"),
        (lambda folder: (folder / "x.png").write_text("no image"), "is not a complete PNG file"),
    ],
)
def test_a_file_that_cannot_be_attached(
    server: ScriptedServer, registry: agf.Registry, tmp_path: Path, make: Any, reason: str
) -> None:
    make(tmp_path)
    error = failure(registry, "'figure.png'", "'x.png'")
    assert error.code == "agent.attach"
    assert reason in error.message
    assert error.span.text == "'x.png'"
    assert server.requests == []


@pytest.mark.parametrize("path", ["../secret.png", "/etc/hostname", ".env", "link.png", "linked/figure.png"])
def test_a_path_that_the_file_tools_refuse(
    server: ScriptedServer, registry: agf.Registry, tmp_path: Path, path: str
) -> None:
    (tmp_path / ".env").write_text("KEY=1")
    (tmp_path / "link.png").symlink_to(tmp_path / "figure.png")
    (tmp_path / "linked").symlink_to(tmp_path)
    error = failure(registry, "ctx.path", fields={"path": path})
    assert error.code == "tool.file-path"
    assert error.span.text == "ctx.path"
    assert server.requests == []


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (5, "not a number"),
        ({"path": "figure.png"}, "not an object"),
        ([["figure.png"]], "not a list"),
        (b"\x7fELF\xff\x00", "the kind of the value is unknown"),
        (["figure.png"] * (MAX_FILES + 1), f"more than {MAX_FILES} attachments"),
        ([b"a" * MAX_BYTES] * 3, "too large together"),
    ],
)
def test_a_value_that_cannot_be_attached(
    server: ScriptedServer, registry: agf.Registry, value: Any, reason: str
) -> None:
    error = failure(registry, "ctx.value", fields={"value": value})
    assert error.code == "agent.attach"
    assert reason in error.message
    assert error.span.text == "ctx.value"
    assert server.requests == []


def test_a_flow_whose_caller_may_not_read_files_attaches_none(
    registry: agf.Registry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "figure.png").write_bytes(PNG)
    agf.model_agent("seer", tools=[], registry=registry)
    agf.define(text_of("ctx.path").replace("    prompt", "    identity: seer\n    prompt"), registry=registry)
    agf.model_agent("lead", tools=["look"], registry=registry)
    with ScriptedServer([calls(("look", {"path": "figure.png"})), "sorry"]) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "not-to-be-seen")
        main_run = agf.run("{pipeline: main, steps: [{agent: {prompt: hi, identity: lead}}]}", registry=registry)
    assert main_run.output == "sorry"
    assert "may not attach a file" in server.requests[1]["messages"][-1]["content"]
    assert "image_url" not in str(server.requests)


def test_a_function_gets_no_attachments(server: ScriptedServer, registry: agf.Registry) -> None:
    agf.agent(lambda prompt: "x", name="clerk", registry=registry)
    text = text_of("'figure.png'").replace("    prompt", "    identity: clerk\n    prompt")
    with pytest.raises(agf.DefinitionError) as caught:
        agf.run(text, registry=registry)
    (diagnostic,) = (diagnostic for diagnostic in caught.value.diagnostics if diagnostic.severity == "error")
    assert diagnostic.code == "flow.agent-model"
    assert diagnostic.span.text == "'figure.png'"


def test_a_function_that_answers_by_default_is_named() -> None:
    registry = agf.Registry()
    agf.agent(lambda prompt: "x", name="clerk", default=True, registry=registry)
    with pytest.raises(agf.DefinitionError) as caught:
        agf.run("{pipeline: p, steps: [{agent: {prompt: hi, attach: [\"'a.png'\"]}}]}", registry=registry)
    (diagnostic,) = (diagnostic for diagnostic in caught.value.diagnostics if diagnostic.severity == "error")
    assert diagnostic.code == "flow.agent-model"
    assert diagnostic.hint is not None
    assert "AgfMagics.model" in diagnostic.hint
