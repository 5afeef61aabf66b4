"""Runs replay from a recording: they have the same end, and make no call."""

from __future__ import annotations

import asyncio
import json
import subprocess
import threading
from pathlib import Path
from typing import Any

import pytest

import agf_magics as agf
from agf_magics.engine import runner as perform
from agf_magics.engine.host import host
from agf_magics.lifecycle.recordings import recording as recordings
from agf_magics.lifecycle.recordings.replay import Replay
from notebooks.scripted_server import ScriptedServer, calls
from tests.engine import kept
from tests.languages.loading import write_files
from tests.lifecycle.test_resume_vectors import World, rows
from tests.processes import command_line

FRUITS = """\
pipeline: fruits
steps:
- for_each:
    over: ctx.words
    max_parallel: 4
    on_error: continue
    output: prices
    do: {tool: {name: price, args: {fruit: !expr item}}}
    collect: {transform: {value: pipe}}
"""


class Shop:
    """A registry whose tool counts its calls."""

    def __init__(self) -> None:
        self.registry, self.asked = agf.Registry(), list[str]()

        @agf.tool(registry=self.registry)
        def price(fruit: str) -> Any:
            self.asked.append(fruit)
            return {"pear": 2.5, "fig": 7.0}[fruit]

    def run(self, *words: str, text: str = FRUITS, **options: Any) -> agf.Run:
        return agf.run(text, {"words": list(words)}, registry=self.registry, **options)


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def recorded(shop: Shop, *words: str) -> Path:
    with kept.journal_in(Path("kept")):
        return agf.record(shop.run(*words), "run.agf")


@pytest.mark.law
@pytest.mark.parametrize(("language", "row"), [*rows("pipeline"), *rows("policy"), *rows("plan"), *rows("graph")])
def test_a_replayed_run_has_the_end_of_the_recorded_run(
    language: str, row: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (perform, host):
        monkeypatch.setattr(module, "TURN", float("inf"))
    write_files(row)
    with kept.journal_in(tmp_path / "kept"):
        first = World(language, row)
        try:
            run = first.run()
        except agf.DefinitionError:
            return  # nothing was started
        expected = first.told(run)
        agf.record(run, "run.agf")
    _, lines = recordings.read_calls(Path("run.agf"))
    if any(call.opaque for call in lines) or run.status in ("waiting", "cancelled"):
        return  # the file does not have its values, so it has no end
    again = World(language, row)
    with agf.replay("run.agf") as played:
        end = again.run()
    assert again.told(end)[:4] == expected[:4]
    assert played.unused == []
    assert end.journal is None


def test_no_tool_is_called_and_every_step_says_that_it_is_replayed() -> None:
    shop = Shop()
    path = recorded(shop, "fig", "pear", "x", "fig")
    shop.asked.clear()
    with agf.replay(path) as played:
        run = shop.run("fig", "pear", "x", "fig")
    assert (run.output, shop.asked, played.used) == ([7.0, 2.5, 7.0], [], 4)
    assert run.progress.failures.total == 1


def test_an_edited_definition_finds_its_calls_in_another_order() -> None:
    shop = Shop()
    path = recorded(shop, "fig", "pear")
    with agf.replay(path):
        assert shop.run("pear", "fig", text=FRUITS.replace("prices", "costs")).output == [2.5, 7.0]


def test_equal_calls_get_the_outcomes_of_their_own_places() -> None:
    shop, number = Shop(), iter(range(10))

    @agf.tool(registry=shop.registry, name="price")
    def count(fruit: str) -> int:
        return next(number)

    with kept.journal_in(Path("kept")):
        run = shop.run("fig", "fig", "fig")
        agf.record(run, "run.agf")
    with agf.replay("run.agf"):
        assert shop.run("fig", "fig", "fig").output == run.output


def test_a_missing_call_is_never_dropped_and_names_the_nearest_one() -> None:
    shop = Shop()
    path = recorded(shop, "fig", "pear")
    with pytest.warns(UserWarning, match=r"replay\.unused"), agf.replay(path):
        run = shop.run("kiwi", raises=False)  # on_error: continue does not drop the element
    assert run.error.code == "replay.missing"
    assert 'the nearest recorded call has fruit = "fig", this one "kiwi"' in str(run.error)
    assert sorted(shop.asked) == ["fig", "pear"]  # the elements begin on two threads


def test_a_call_that_was_recorded_once_is_answered_once() -> None:
    shop = Shop()
    path = recorded(shop, "fig")
    with agf.replay(path):
        shop.run("fig")
        again = shop.run("fig", raises=False)
    assert again.error.code == "replay.missing"
    assert "has no more calls of tool 'price' with these arguments" in str(again.error)


def test_the_end_of_a_replay_waits_for_runs_in_the_background() -> None:
    shop = Shop()
    agf.define(FRUITS.replace("pipeline: fruits", "pipeline: behind"), registry=shop.registry)
    with agf.replay("new.agf", missing="record"):
        first = agf.start("behind", {"words": ["fig"]}, registry=shop.registry)
    with agf.replay("new.agf", strict=True):
        again = agf.start("behind", {"words": ["fig"]}, registry=shop.registry)
    assert (first.output, again.output, shop.asked) == ([7.0], [7.0], ["fig"])


def test_a_recording_of_another_definition_says_whose_it_is() -> None:
    shop = Shop()
    path = recorded(shop, "fig")
    text = "pipeline: other\nsteps:\n- tool: {name: file__read, args: {path: a}}"
    with pytest.warns(UserWarning, match=r"replay\.unused"), agf.replay(path):
        run = agf.run(text, raises=False)
    assert "it was recorded by 'fruits'" in str(run.error)


def test_missing_calls_are_made_or_recorded_on_request() -> None:
    shop = Shop()
    path = recorded(shop, "fig")
    shop.asked.clear()
    with agf.replay(path, missing="call"):
        assert shop.run("fig", "pear").output == [7.0, 2.5]
    assert shop.asked == ["pear"]
    with agf.replay(path, missing="record"):
        shop.run("fig", "pear")
    with agf.replay("new.agf", missing="record"):
        shop.run("pear", "x")
    shop.asked.clear()
    with agf.replay(path, strict=True):
        assert shop.run("fig", "pear").output == [7.0, 2.5]
    with agf.replay("new.agf", strict=True):
        assert shop.run("pear", "x").output == [2.5]
    assert shop.asked == []


def test_calls_that_nobody_made_again_are_an_error_if_that_is_wanted() -> None:
    shop = Shop()
    path = recorded(shop, "fig", "pear")
    with pytest.raises(agf.DefinitionError, match="1 × tool price") as caught, agf.replay(path, strict=True):
        shop.run("fig")
    assert caught.value.code == "replay.unused"


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.filterwarnings("error")
def test_after_a_failure_calls_that_were_not_made_are_not_reported(strict: bool) -> None:
    shop = Shop()
    path = recorded(shop, "fig", "pear")
    with pytest.raises(agf.StepError, match=r"replay\.missing"), agf.replay(path, strict=strict):
        shop.run("kiwi")


def test_redact_sees_every_line_and_the_arguments_of_the_replaying_run() -> None:
    def redact(line: dict[str, Any]) -> dict[str, Any]:
        text = json.dumps(line, ensure_ascii=False)
        return dict(json.loads(text.replace("fig", "FRUIT")))

    shop = Shop()
    with kept.journal_in(Path("kept")):
        agf.record(shop.run("fig"), "run.agf", redact=redact)
    assert "fig" not in Path("run.agf").read_text("utf-8")
    with agf.replay("run.agf", redact=redact):
        assert shop.run("fig").output == [7.0]
    with kept.journal_in(Path("kept")), pytest.raises(TypeError, match="redact must return the line"):
        agf.record(shop.run("fig"), "other.agf", redact=lambda line: None)  # type: ignore[arg-type,return-value]
    assert not list(Path().glob("other*"))


def test_secrets_are_masked_on_both_sides() -> None:
    registry, calls_made = agf.Registry(), list[str]()

    @agf.tool(registry=registry)
    def login() -> str:
        calls_made.append("login")
        return "hunter2-hunter2"

    @agf.tool(registry=registry, secret=("token",))
    def fetch(token: str, page: int) -> str:
        calls_made.append("fetch")
        return f"page {page}"

    text = (
        "pipeline: p\nsteps:\n- tool: {name: login, output: t}\n"
        "- tool: {name: fetch, args: {token: !expr ctx.t, page: 3}}"
    )
    with kept.journal_in(Path("kept")):
        agf.record(agf.run(text, registry=registry), "run.agf")
    assert "hunter2" not in Path("run.agf").read_text("utf-8")
    with agf.replay("new.agf", missing="record"):
        agf.run(text, registry=registry)
    assert "hunter2" not in Path("new.agf").read_text("utf-8")
    calls_made.clear()
    for name in ("run.agf", "new.agf"):
        with agf.replay(name, strict=True):
            assert agf.run(text, registry=registry).output == "page 3"
    assert calls_made == []


KEY = "hunter2-hunter2"
HELD: dict[str, tuple[str, Any]] = {
    "an object": (KEY, {"order": 7, "url": f"https://example.org/?key={KEY}"}),
    "a list": (KEY, [7, KEY]),
    "a text": (KEY, f"https://example.org/?key={KEY}"),
    "the secret": (KEY, KEY),
    "a result of a short secret": ("k", {"order": 7}),
}


@pytest.mark.parametrize("what", HELD)
def test_no_replay_gives_a_mask_in_place_of_a_result(what: str) -> None:
    registry = agf.Registry()
    key, result = HELD[what]
    agf.tool(lambda key: result, name="look", secret=["key"], registry=registry)
    text = "pipeline: p\nsteps:\n- tool: {name: look, args: {key: !expr ctx.key}}"
    with kept.journal_in(Path("kept")):
        run = agf.run(text, {"key": key}, registry=registry)
        with pytest.warns(UserWarning, match=r"run.agf has no result of 1 call, 1 × tool look: it has a secret"):
            agf.record(run, "run.agf")
    with agf.replay("new.agf", missing="record"):
        agf.run(text, {"key": key}, registry=registry)
    for name in ("run.agf", "new.agf"):
        assert KEY not in Path(name).read_text("utf-8")
        with agf.replay(name), pytest.raises(agf.StepError, match="it has a secret") as failure:
            agf.run(text, {"key": key}, registry=registry)
        assert failure.value.code == "replay.opaque"
        with agf.replay(name, missing="call"):
            assert agf.run(text, {"key": key}, registry=registry).output == result


def test_a_made_secret_that_is_no_text_is_not_replayed() -> None:
    registry = agf.Registry()
    agf.tool(lambda: {"token": KEY, "user": "ann"}, name="login", registry=registry)
    agf.tool(lambda token: "in", name="enter", secret=["token"], registry=registry)
    text = (
        "pipeline: p\nsteps:\n- tool: {name: login, output: made}\n"
        "- tool: {name: enter, args: {token: !expr ctx.made.token}}"
    )
    with kept.journal_in(Path("kept")), pytest.warns(UserWarning, match="1 × tool login"):
        agf.record(agf.run(text, registry=registry), "run.agf")
    with agf.replay("run.agf"), pytest.raises(agf.StepError, match="it has a secret"):
        agf.run(text, registry=registry)


def test_a_secret_is_known_before_the_call_that_receives_it_is_replayed() -> None:
    registry = agf.Registry()
    agf.tool(lambda text: len(text), name="note", registry=registry)
    agf.tool(lambda token: "in", name="enter", secret=("token",), registry=registry)
    text = (
        "pipeline: p\nsteps:\n- tool: {name: note, args: {text: !expr ctx.key}}\n"
        "- tool: {name: enter, args: {token: !expr ctx.key}}"
    )
    fields = {"key": "hunter2-hunter2"}
    with agf.replay("new.agf", missing="record"):
        agf.run(text, fields, registry=registry)
    assert "hunter2" not in Path("new.agf").read_text("utf-8")
    with agf.replay("new.agf", strict=True):
        assert agf.run(text, fields, registry=registry).output == "in"


def test_a_recording_names_no_folder_host_or_user(tmp_path: Path) -> None:
    shop = Shop()
    text = recorded(shop, "fig", "x").read_text("utf-8")
    assert str(tmp_path) not in text
    assert str(Path.home()) not in text


def test_a_result_that_cannot_be_pickled_is_reported_when_it_is_needed() -> None:
    registry = agf.Registry()
    lock = threading.Lock()

    @agf.tool(registry=registry)
    def when() -> Any:
        return lock

    text = "pipeline: p\nsteps:\n- tool: {name: when}"
    with kept.journal_in(Path("kept")):
        agf.record(agf.run(text, registry=registry), "run.agf")
    with agf.replay("run.agf"):
        run = agf.run(text, registry=registry, raises=False)
    assert run.error.code == "replay.opaque"
    with agf.replay("run.agf", missing="call"):
        assert agf.run(text, registry=registry).output is lock


def test_a_result_that_is_not_json_is_recorded() -> None:
    registry = agf.Registry()
    agf.tool(lambda: {1, 2}, name="when", registry=registry)
    text = "pipeline: p\nsteps:\n- tool: {name: when}"
    with kept.journal_in(Path("kept")):
        agf.record(agf.run(text, registry=registry), "run.agf")
    agf.tool(lambda: 1 / 0, name="when", registry=registry)
    with agf.replay("run.agf"):
        assert agf.run(text, registry=registry).output == {1, 2}


SESSION = """\
pipeline: p
steps:
- agent: {model: 'openai:gpt-test', prompt: 'What do figs cost?', capabilities: {tools: [price]}, output: answer}
- for_each:
    {over: ctx.words, on_error: abort, do: {tool: {name: price, args: {fruit: !expr item}}},
     collect: {transform: {value: pipe}}, output: prices}
- transform: {value: "{a: ctx.answer, p: ctx.prices}"}
"""


def test_a_model_session_replays_with_the_server_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop()
    monkeypatch.setenv("OPENAI_API_KEY", "test-key-of-nobody")
    with ScriptedServer([calls(("price", {"fruit": "fig"})), "They cost 7."]) as server:
        shop.registry.choose("openai:gpt-test", server.url)
        with kept.journal_in(Path("kept")):
            run = shop.run("pear", text=SESSION)
            agf.record(run, "run.agf")
        assert len(server.requests) == 2
    monkeypatch.delenv("OPENAI_API_KEY")
    shop.registry.choose("openai:another")  # without a key and without a server
    shop.asked.clear()
    with agf.replay("run.agf", strict=True):
        again = shop.run("pear", text=SESSION)
    assert (again.output, shop.asked) == (run.output, [])
    assert again.usage.requests == 0  # the replay cost nothing
    with agf.replay("run.agf", only="models"):
        assert shop.run("pear", text=SESSION).output == run.output
    assert shop.asked == ["fig", "pear"]
    with pytest.warns(UserWarning, match=r"replay\.unused"), agf.replay("run.agf"):
        changed = shop.run("pear", text=SESSION.replace("do figs", "do pears"), raises=False)
    assert "messages[0].text" in str(changed.error)
    with pytest.warns(UserWarning, match=r"replay\.unused"), agf.replay("run.agf", match="model"):
        assert shop.run("pear", text=SESSION, raises=False).status == "error"


def test_a_question_is_answered_from_the_file() -> None:
    text = (
        "name: g\nstate: {a: str}\nnodes:\n  ask: {type: interrupt, message: 'Which?', resume_key: a}\n"
        "edges:\n- {from: START, to: ask}\n- {from: ask, to: END}"
    )
    with kept.journal_in(Path("kept")):
        run = agf.run(text, ask=lambda question: "pear")
        agf.record(run, "run.agf")
    with agf.replay("run.agf", strict=True):
        assert agf.run(text, ask=None).output == run.output
    with agf.replay("new.agf", missing="record"):
        agf.run(text, ask=lambda question: "pear")
    with agf.replay("new.agf", strict=True):
        assert agf.run(text, ask=None).output == run.output


def test_a_recording_that_an_editor_saved_with_its_mark_is_replayed() -> None:
    shop = Shop()
    path = recorded(shop, "fig")
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    with agf.replay("run.agf", strict=True):
        assert shop.run("fig").stores["prices"] == [7.0]


def test_a_replayed_call_is_not_sent_to_a_worker() -> None:
    shop = Shop()
    path = recorded(shop, "fig", "pear")
    with agf.replay(path):
        assert shop.run("fig", "pear", on="processes:1").output == [7.0, 2.5]


def test_a_replay_holds_for_awaited_runs_and_ends_with_its_context() -> None:
    shop = Shop()
    path = recorded(shop, "fig")
    shop.asked.clear()

    async def main() -> Any:
        with agf.replay(path):
            return (await agf.arun(FRUITS, {"words": ["fig"]}, registry=shop.registry)).output

    assert asyncio.run(main()) == [7.0]
    assert shop.asked == []
    shop.run("fig")
    assert shop.asked == ["fig"]


def test_a_run_is_not_resumed_while_a_recording_is_replayed() -> None:
    path = recorded(Shop(), "fig")
    with (
        pytest.warns(UserWarning, match=r"replay\.unused"),
        agf.replay(path),
        pytest.raises(agf.DefinitionError, match=r"replay\.resume"),
    ):
        agf.resume("p")


HEAD = b'{"agf": 1}\n'
LINE = b'{"what": "finished", "kind": "tool", "name": "t", "given": {}, "value": 1}\n'


@pytest.mark.parametrize(
    ("content", "line", "why"),
    [
        (b"", 1, "it is empty"),
        (b'{"agf": 2}', 1, "it has the format 2, and this version reads 1"),
        (b'{"agf": true}', 1, "has the key 'agf'"),
        (b"[1]", 1, "a line must be an object"),
        (b'{"agf": 1, "agf": 1}', 1, "the key 'agf' is there twice"),
        (HEAD + LINE + LINE[:40], 3, "the file is cut"),
        (HEAD + LINE + b"text\n", 3, "it is not JSON"),
        (HEAD + b"\xff\xfe\n", 2, "it is not JSON"),
        (HEAD + b"[" * 200_000, 2, "it is nested too deeply"),
        (HEAD + b'{"a":' * 500 + b"1" + b"}" * 500, 2, "it is nested too deeply"),
        (HEAD + LINE.replace(b": 1}", b": " + b"9" * 5000 + b"}"), 2, "it is not JSON"),
        (HEAD + LINE.replace(b"finished", b"failed"), 2, "if it failed, an 'error'"),
        (HEAD + LINE.replace(b'"value": 1', b'"value": 1, "opaque": 1'), 2, "or, if it failed"),
        (HEAD + LINE.replace(b'"what": "finished", ', b""), 2, "a call has 'what'"),
        (HEAD + LINE.replace(b'"value": 1', b'"value": 1, "at": [-1]'), 2, "'at' must be a path"),
        (HEAD + b'{"what":"failed","kind":"a","name":"b","given":1,"error":{"said":[]}}', 2, "the 'error' is not one"),
    ],
)  # fmt: skip
def test_a_file_that_is_not_a_recording_is_reported_with_its_line(content: bytes, line: int, why: str) -> None:
    Path("bad.agf").write_bytes(content)
    with pytest.raises(agf.DefinitionError) as caught:
        Replay(Path("bad.agf"))
    assert caught.value.code == "replay.format"
    assert why in str(caught.value)
    assert caught.value.diagnostic.span.place[0] == line


def test_a_line_without_an_end_is_read_to_its_bound_only(monkeypatch: pytest.MonkeyPatch) -> None:
    with Path("bad.agf").open("wb") as file:
        file.write(HEAD + b'{"value": "')
        file.truncate(1_000_000_000)  # a sparse file, which uses no space on the disk
    monkeypatch.setattr(recordings, "MOST_LINE", 100_000)
    with pytest.raises(agf.DefinitionError, match="a line has more than 100,000 bytes"):
        Replay(Path("bad.agf"))


def test_a_missing_file_and_a_read_only_file_are_reported() -> None:
    for wrong in ("no.agf", "."):
        with pytest.raises(agf.DefinitionError) as caught:
            Replay(Path(wrong))
        assert caught.value.code == "replay.file"
    with kept.journal_in(Path("kept")):
        run = Shop().run("fig")
        with pytest.raises(agf.DefinitionError, match=r"file\.not-written"):
            agf.record(run, "no/folder/run.agf")
        with pytest.raises(agf.DefinitionError, match=r"journal\.unknown-run"):
            agf.record("no-run", "run.agf")


@pytest.mark.parametrize("options", [{"missing": "skip"}, {"only": "tools"}, {"match": "name"}])
def test_a_wrong_option_lists_the_choices(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="must be one of"):
        Replay(Path("run.agf"), **options)


def test_the_command_line_records_and_replays(tmp_path: Path) -> None:
    code = (
        "import agf_magics as agf\n\n\n@agf.tool\ndef price(fruit: str) -> float:\n    print('asked')\n    return 7.0\n"
    )
    Path("tools.py").write_text(code, encoding="utf-8")
    Path("fruits.yaml").write_text(FRUITS, encoding="utf-8")
    words = ["run", "fruits.yaml", "--tools", "tools.py", "--set", "words=[fig]", "--quiet"]

    def run(*options: str) -> subprocess.CompletedProcess[str]:
        return command_line(Path.cwd(), *words, *options)

    first, again, missing = run("--record", "run.agf"), run("--replay", "run.agf"), run("--replay", "no.agf")
    assert "asked" in first.stderr
    assert "wrote run.agf" in first.stderr
    assert again.stdout.split() == ["[", "7.0", "]"]
    assert missing.returncode == 2  # the exit code of every wrong word of a line
    assert "replay.file" in missing.stderr


def test_a_run_over_data_replays_and_a_missing_row_ends_it() -> None:
    shop = Shop()
    agf.define("pipeline: one\nsteps:\n- tool: {name: price, args: {fruit: !expr ctx.fruit}}", registry=shop.registry)
    with kept.journal_in(Path("kept")):
        run = agf.run("one", over=[{"fruit": "fig"}, {"fruit": "pear"}], registry=shop.registry)
        agf.record(run, "run.agf")
    shop.asked.clear()
    with agf.replay("run.agf", strict=True):
        again = agf.run("one", over=[{"fruit": "fig"}, {"fruit": "pear"}], registry=shop.registry)
    assert (again.output, shop.asked) == (run.output, [])
    with pytest.warns(UserWarning, match=r"replay\.unused"), agf.replay("run.agf"):
        missing = agf.run("one", over=[{"fruit": "kiwi"}], registry=shop.registry, raises=False)
    assert missing.error.code == "replay.missing"


def test_code_of_pydantic_ai_itself_gets_the_recorded_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    from pydantic_ai import Agent

    shop = Shop()
    monkeypatch.setenv("OPENAI_API_KEY", "test-key-of-nobody")
    with ScriptedServer([calls(("price", {"fruit": "fig"})), "They cost 7."]) as server:
        shop.registry.choose("openai:gpt-test", server.url)
        with kept.journal_in(Path("kept")):
            agf.record(shop.run(text=SESSION), "run.agf")

    def plain(path: str = "run.agf") -> Agent:
        agent = Agent(agf.replay_model(path))

        @agent.tool_plain
        def price(fruit: str) -> float:
            return {"pear": 2.5, "fig": 7.0}[fruit]

        return agent

    result = plain().run_sync("What do figs cost?")
    assert (result.output, result.usage.input_tokens > 0) == ("They cost 7.", True)

    async def streamed() -> list[str]:
        async with plain().run_stream("What do figs cost?") as stream:
            return [text async for text in stream.stream_text(debounce_by=None)]

    assert asyncio.run(streamed())[-1] == "They cost 7."
    with pytest.raises(agf.StepError) as caught:
        plain().run_sync("What do pears cost?")
    assert caught.value.code == "replay.missing"
    assert 'has "What do figs cost?", this one "What do pears cost?"' in str(caught.value)
    agent = plain()
    agent.run_sync("What do figs cost?")
    with pytest.raises(agf.StepError, match="no more of these requests"):
        agent.run_sync("What do figs cost?")


def test_a_structured_answer_is_given_to_pydantic_ai_in_its_form(monkeypatch: pytest.MonkeyPatch) -> None:
    from pydantic import BaseModel
    from pydantic_ai import Agent

    class Price(BaseModel):
        fruit: str
        price: float

    text = (
        "schema: Price\nfields: {fruit: {type: string}, price: {type: number}}\n---\npipeline: p\nsteps:\n"
        "- agent: {model: 'openai:gpt-test', prompt: 'What do figs cost?', schema: Price}"
    )
    registry = agf.Registry()
    monkeypatch.setenv("OPENAI_API_KEY", "test-key-of-nobody")
    with ScriptedServer(['{"fruit": "fig", "price": 7.0}']) as server, kept.journal_in(Path("kept")):
        registry.choose("openai:gpt-test", server.url)
        agf.record(agf.run(text, registry=registry), "run.agf")
    agent = Agent(agf.replay_model("run.agf"), output_type=Price)
    assert agent.run_sync("What do figs cost?").output == Price(fruit="fig", price=7.0)


def test_a_model_of_a_wrong_recording_is_refused() -> None:
    Path("x.agf").write_text("{}")
    with pytest.raises(agf.DefinitionError, match=r"replay\.format"):
        agf.replay_model("x.agf")
    Path("y.agf").write_bytes(HEAD + LINE.replace(b"tool", b"model"))
    from pydantic_ai import Agent

    with pytest.raises(agf.StepError, match="no request of a model"):
        Agent(agf.replay_model("y.agf")).run_sync("hello")
