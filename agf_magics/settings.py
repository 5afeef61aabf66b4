"""Limits and switches: defaults < ``[tool.agf-magics]`` of pyproject.toml < ``%config AgfMagics.*``.

They belong to the person: no definition reads or changes them.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from .engine.host import Asker
from .engine.limits import Limits
from .text.diagnostics import DefinitionError, Diagnostic, suggest
from .text.source import Source
from .text.yamlnodes import Bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that can be set; a field is a trait of ``%config AgfMagics`` and a key of ``[tool.agf-magics]``."""

    max_pipeline_fan_out_depth: int = 5
    """How deep fan-outs may nest, through calls of any language; 0: no limit."""
    max_pipeline_spawns: int = 100
    """Agent steps and model sessions a run may open; 0: no limit."""
    timeout: float = 0.0
    """Seconds a run may take; 0: no limit."""
    step_timeout: float = 0.0
    """Seconds one call of a tool, an agent or a transform may take; 0: no limit."""
    model: str = ""
    """The model that answers, whatever a definition names: openai:gpt-4o; empty: the one that it names."""
    model_base_url: str = ""
    """The address of a server that speaks the OpenAI protocol, for models of openai and those without a provider."""
    model_timeout: float = 300.0
    """Seconds a model may take for one reply; 0: no limit."""
    allow_shell: bool = False
    """Whether shell steps may start processes."""
    allow_import: bool = False
    """Whether a definition may name functions of Python files, which are then imported."""
    journal: str | None = ".agf/runs.sqlite"
    """The file that runs are kept in, relative to the project's folder; None, or an empty text: nowhere."""
    journal_value: int = 10_000_000
    """Bytes a value may take in the journal; a step that gives a larger one runs again when its run is taken up."""
    journal_days: int = 30
    """Days after which a run that has ended is forgotten; 0: never."""
    journal_size: int = 1_000_000_000
    """Bytes the journal may take before the oldest runs that have ended are forgotten; 0: no limit."""
    max_text: int = 1_000_000
    """Characters of a definition."""
    max_depth: int = 100
    """How deep a definition may nest."""
    max_aliases: int = 1_000
    """YAML alias expansions of a definition."""
    max_nodes: int = 100_000
    """YAML nodes of a definition."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value, want = getattr(self, field.name), type(field.default)
            fits = type(value) is want or (want is float and type(value) is int) or (want is str and value is None)
            if not fits or (want in (int, float) and value < 0):
                kind = KINDS.get(want, "a number, 0 or more")
                raise ValueError(f"{field.name} takes {kind}, not {value!r}")

    @property
    def limits(self) -> Limits:
        return Limits(
            fan_out_depth=self.max_pipeline_fan_out_depth,
            spawns=self.max_pipeline_spawns,
            timeout=self.timeout or None,
            step_timeout=self.step_timeout or None,
            model_timeout=self.model_timeout or None,
        )

    @property
    def bounds(self) -> Bounds:
        return Bounds(text=self.max_text, depth=self.max_depth, aliases=self.max_aliases, nodes=self.max_nodes)


def read(folder: Path) -> Settings:
    """The settings of the nearest pyproject.toml at or above ``folder``; the defaults where there is none.

    Raises DefinitionError for an unknown key or a value that does not fit.
    """
    for place in (folder, *folder.resolve().parents):
        path = place / "pyproject.toml"
        if path.is_file():
            return _settings(path)
    return Settings()


def _settings(path: Path) -> Settings:
    try:
        text = path.read_text(encoding="utf-8")
        tools = tomllib.loads(text).get("tool")
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return Settings()  # somebody else's broken file is not ours to report at every start
    table: Any = tools.get("agf-magics", {}) if isinstance(tools, dict) else {}
    known: dict[str, Any] = {}
    try:
        if not isinstance(table, dict):
            raise TypeError(f"it is a table of settings, not {table!r}")
        known = {key.replace("-", "_"): value for key, value in table.items()}
        return replace(Settings(), **known)
    except (TypeError, ValueError) as error:
        names = [field.name for field in fields(Settings)]
        strange = next((key for key in known if key not in names), None)
        message = f"[tool.agf-magics] knows no {strange!r}" if strange else f"[tool.agf-magics]: {error}"
        where = max(text.find("[tool.agf-magics]"), 0)
        span = Source(str(path), text).span(where, where + len("[tool.agf-magics]"))
        hint = suggest(strange, names, "settings") if strange else None
        raise DefinitionError(Diagnostic("settings.pyproject", message, span, hint)) from None


KINDS = {bool: "true or false", str: "a text"}


class Current:
    """The settings in force in this process: one slot, set by the notebook's ``%config`` and by pyproject.toml."""

    def __init__(self) -> None:
        self.settings = Settings()
        self.ask: Asker | None = None
        """Who puts a question to a person while a thread waits for the run; None: nobody is there (decision A18)."""
        self.ask_behind: Asker | None = None
        """The same for a run in the background, and one that is awaited."""


current = Current()
