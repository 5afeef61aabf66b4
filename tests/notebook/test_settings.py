"""The settings of the notebook, and a clean state after the extension is unloaded."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from agf_magics.catalog import default
from agf_magics.notebook.config import AgfMagics, BadSetting
from agf_magics.settings.settings import Settings, current
from agf_magics.text.diagnostics import AgfError
from tests.notebook.conftest import LONGEST, Shell, code


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("progress = 'nope'", "magic.setting"),
        ("progres = 'auto'", "magic.unknown-setting"),
        ("timeout = -1", "magic.setting"),
        ("timeout = True", "magic.setting"),
        ("timeout = float('nan')", "magic.setting"),
        ("refresh_hz = float('nan')", "magic.setting"),
        ("refresh_hz = 1000", "magic.setting"),
        ("allow_shell = 'yes'", "magic.setting"),
        ("max_pipeline_spawns = 1.5", "magic.setting"),
    ],
)
def test_a_wrong_setting_ends_the_cell_and_changes_nothing(shell: Shell, line: str, code: str) -> None:
    before = current.settings
    result = shell.run(f"%config AgfMagics.{line}")
    assert isinstance(result.error, BadSetting)
    assert result.error.diagnostic.code == code
    assert result.out.startswith("BadSetting: ")
    assert current.settings == before


def test_settings_reach_the_runs(ready: Shell) -> None:
    ready.good("%config AgfMagics.max_pipeline_fan_out_depth = 1")
    assert current.settings.limits.fan_out_depth == 1
    ready.good("%config AgfMagics.max_text = 10")
    assert code(ready.run("%%pipeline\n" + LONGEST)) == "yaml.too-large"


def test_the_shell_is_off_until_it_is_turned_on(shell: Shell) -> None:
    cell = "%%pipeline --run\npipeline: p\nsteps: [{shell: {command: echo on}}]"
    result = shell.run(cell)
    assert "%config AgfMagics.allow_shell = True" in result.out
    shell.good("%config AgfMagics.allow_shell = True")
    assert shell.good(cell).value.output["stdout"].strip() == "on"


@pytest.mark.parametrize("setting", ["model = 'ollama:qwen3'", "model_base_url = 'http://127.0.0.1:9/v1'"])
def test_a_setting_that_the_registry_overrides_is_reported(shell: Shell, setting: str) -> None:
    default().choose("ollama:llama3")
    try:
        assert "[magic.no-effect]" in shell.good(f"%config AgfMagics.{setting}").out
        default().choose()
        assert shell.good(f"%config AgfMagics.{setting}").out == ""
    finally:
        default().choose()


def test_the_model_is_chosen_and_removed(shell: Shell) -> None:
    shell.good("%config AgfMagics.model = 'ollama:qwen3'")
    assert repr(default().model) == "<Model ollama:qwen3>"
    shell.good("%config AgfMagics.model = ''")
    assert default().model is None
    shell.good("%config AgfMagics.model = 'ollama:qwen3'")
    shell.good("%unload_ext agf_magics")
    assert default().model is None


def test_every_setting_is_a_trait_with_the_same_default() -> None:
    traits = AgfMagics.class_traits(config=True)
    defaults = Settings()
    for name in Settings.__dataclass_fields__:
        assert traits[name].default() == getattr(defaults, name)
        assert traits[name].help


def test_pyproject_is_read_and_the_notebook_overrides_it(shell: Shell) -> None:
    Path("pyproject.toml").write_text("[tool.agf-magics]\nmax-pipeline-spawns = 7\ntimeout = 3.5\n")
    shell.good("%reload_ext agf_magics")
    assert (current.settings.max_pipeline_spawns, current.settings.timeout) == (7, 3.5)
    shell.good("%config AgfMagics.max_pipeline_spawns = 8")
    assert current.settings.max_pipeline_spawns == 8


def test_ipythons_configuration_overrides_pyproject_and_survives(shell: Shell) -> None:
    Path("pyproject.toml").write_text("[tool.agf-magics]\nmax-pipeline-spawns = 7\ntimeout = 3.5\n")
    shell.good("%unload_ext agf_magics")
    shell.ip.config.AgfMagics.timeout = 4.5
    shell.good("%load_ext agf_magics")
    assert (current.settings.max_pipeline_spawns, current.settings.timeout) == (7, 4.5)
    shell.good("%config AgfMagics.timeout = 5.5")
    shell.good("%reload_ext agf_magics")
    assert current.settings.timeout == 4.5


def test_a_wrong_pyproject_is_an_error_of_loading_and_nothing_is_loaded(shell: Shell) -> None:
    shell.good("%unload_ext agf_magics")
    Path("pyproject.toml").write_text("[tool.agf-magics]\nspawns = 7\n")
    result = shell.run("%load_ext agf_magics")
    assert "settings.pyproject" in result.out
    assert shell.ip.find_line_magic("run_pipeline") is None
    Path("pyproject.toml").unlink()
    shell.good("%load_ext agf_magics")


# --- unloading -------------------------------------------------------------------------------------------------------


def footprint(ip: Any) -> dict[str, Any]:
    tables = ip.magics_manager.magics
    formatter = ip.display_formatter
    return {
        "line": set(tables["line"]),
        "cell": set(tables["cell"]),
        "registry": set(ip.magics_manager.registry),
        "configurables": len(ip.configurables),
        "matchers": list(ip.Completer.custom_matchers),
        "transformers": list(ip.input_transformers_cleanup),
        "mimebundle": dict(formatter.mimebundle_formatter.type_printers),
        "display": dict(formatter.ipython_display_formatter.type_printers),
        "hook": hasattr(AgfError, "_render_traceback_"),
        "settings": current.settings,
        "events": {name: len(callbacks) for name, callbacks in ip.events.callbacks.items()},
    }


def test_unloading_leaves_nothing_behind(shell: Shell) -> None:
    manager = shell.ip.extension_manager
    shell.good("%config AgfMagics")  # IPython loads its own magics at their first use
    manager.unload_extension("agf_magics")
    before = footprint(shell.ip)
    manager.load_extension("agf_magics")
    shell.good("%config AgfMagics.timeout = 9")
    shell.good("%%pipeline --run\npipeline: p\nsteps: [{transform: {value: '1'}}]")
    assert footprint(shell.ip) != before
    manager.unload_extension("agf_magics")
    assert footprint(shell.ip) == before
    for thread in [thread for thread in threading.enumerate() if thread.name == "agf-engine"]:
        thread.join(30)
        assert not thread.is_alive()
    manager.load_extension("agf_magics")


def test_a_magic_that_had_the_name_before_is_back(shell: Shell) -> None:
    manager = shell.ip.extension_manager
    manager.unload_extension("agf_magics")
    shell.good(
        "from IPython.core.magic import register_line_magic\n@register_line_magic\ndef flows(line): return 'mine'"
    )
    manager.load_extension("agf_magics")
    assert shell.good("%flows").value is None
    manager.unload_extension("agf_magics")
    assert shell.good("%flows").value == "mine"
    del shell.ip.magics_manager.magics["line"]["flows"]
    manager.load_extension("agf_magics")


def test_reloading_keeps_what_is_registered(ready: Shell) -> None:
    ready.good("%reload_ext agf_magics")
    assert ready.good("%run_pipeline longest --set 'words=[a]'").value.status == "ok"


def test_a_wrong_setting_looks_like_any_other_error(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell.ip, "colors", "linux")
    result = shell.run("%config AgfMagics.timout = 3")
    assert "\x1b[31mBadSetting\x1b[0m\x1b[1m: AgfMagics has no setting 'timout' [magic.unknown-setting]" in result.out


GREETER = """
schema_version: "1.0.0"
metadata: {id: greeter, name: Greeter, version: "1.0.0", description: Greets.}
interface: {input: {}, output: {}}
execution_policy:
  id: agf.react
  config: {instructions: Greet., provider: openai, model: gpt-4o}
"""


@pytest.mark.parametrize("line", ["", "--run --dry"])
def test_the_model_that_answers_is_named_once_in_a_cell(shell: Shell, line: str) -> None:
    shell.good("%config AgfMagics.model = 'ollama:qwen3'\n%config AgfMagics.progress = 'html'")
    result = shell.good(f"%%policy {line}{GREETER}")
    pages = "".join(output["text/plain"] for output in result.outputs)
    assert (result.out + pages).count("ollama:qwen3 answers") == 1
