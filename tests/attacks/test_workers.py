"""A foreign project folder cannot make a run send its calls to the workers of a stranger."""

from __future__ import annotations

import socket
import threading
from pathlib import Path

import pytest

import agf_magics as agf
from agf_magics.settings.settings import read
from agf_magics.text.diagnostics import DefinitionError

FAN = """
pipeline: main
steps:
  - for_each:
      items: [1, 2]
      on_error: abort
      do: {tool: {name: half, args: {x: !expr item}}}
      collect: {transform: {value: pipe}}
"""


@pytest.fixture
def address() -> str:
    """The address of a fake scheduler that counts its connections."""
    listener = socket.create_server(("127.0.0.1", 0))
    caught: list[object] = []
    threading.Thread(target=lambda: caught.append(listener.accept()), daemon=True).start()
    address = f"tcp://127.0.0.1:{listener.getsockname()[1]}"
    LISTENERS[address] = caught
    return address


LISTENERS: dict[str, list[object]] = {}


@pytest.mark.parametrize("written", ["{0}", "tls://10.0.0.5:8786", "processes:1000", "dask:64", "dask:1"])
def test_a_project_names_no_address_and_no_number_of_processes(
    written: str, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text(f'[tool.agf-magics]\non = "{written.format(address)}"\n')
    with pytest.raises(DefinitionError) as raised:
        read(tmp_path)
    assert raised.value.code == "settings.person-only"
    assert LISTENERS[address] == []


@pytest.mark.parametrize("word", ["processes", "dask", ""])
def test_a_project_may_ask_for_the_cores_of_this_machine(word: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(f'[tool.agf-magics]\non = "{word}"\n')
    assert read(tmp_path).on == word


@pytest.mark.parametrize("text", ["proceses", "$client", "client", "tcp://", "__import__('os')", "processes\n", 5])
def test_nothing_else_is_a_setting(text: object, tmp_path: Path) -> None:
    written = f"'''{text}'''" if isinstance(text, str) else str(text).lower()
    (tmp_path / "pyproject.toml").write_text(f"[tool.agf-magics]\non = {written}\n")
    with pytest.raises(DefinitionError):
        read(tmp_path)


def test_the_environment_and_the_person_may_name_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AGF_MAGICS_ON", "tcp://10.0.0.5:8786")
    assert read(tmp_path).on == "tcp://10.0.0.5:8786"
    monkeypatch.setenv("AGF_MAGICS_ON", "10.0.0.5")
    with pytest.raises(DefinitionError, match="AGF_MAGICS_ON must be processes"):
        read(tmp_path)


def test_the_configuration_of_dask_is_not_read(address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """DASK_SCHEDULER_ADDRESS, and a dask.yaml in the folder, select no workers for a run."""
    pytest.importorskip("distributed")
    import dask.config

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DASK_SCHEDULER_ADDRESS", address)
    monkeypatch.setenv("DASK_CONFIG", str(tmp_path))
    (tmp_path / "dask.yaml").write_text(f"scheduler-address: {address}\n")
    registry = agf.Registry()

    def half(x: int) -> float:
        return x / 2

    agf.tool(half, registry=registry)
    with dask.config.set({"scheduler-address": address}):
        assert agf.run(FAN, registry=registry, on="dask:1").output == [0.5, 1.0]
    assert LISTENERS[address] == []


def test_a_definition_cannot_name_workers() -> None:
    for text in (FAN.replace("pipeline: main", "pipeline: main\non: dask"),
                 FAN.replace("on_error: abort", "on_error: abort\n      on: dask")):  # fmt: skip
        with pytest.raises(DefinitionError):
            agf.load(text, registry=agf.Registry())
