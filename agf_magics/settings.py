"""Limits and switches: defaults < the user's own file < ``[tool.agf-magics]`` of pyproject.toml < environment variables
< ``%config AgfMagics.*``.

They belong to the person: no definition reads or changes them. A project's file comes with the project, whoever wrote
it, so it cannot set what opens something (`OPENING`, decision D4).
"""

from __future__ import annotations

import math
import os
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path, PurePath
from typing import Any

from .host.host import Asker
from .host.limits import Limits
from .text.diagnostics import DefinitionError, Diagnostic, suggest
from .text.source import Source, Span
from .text.yamlnodes import Bounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Everything that can be set; a field is a trait of ``%config AgfMagics`` and, but for `OPENING`, a key of
    ``[tool.agf-magics]``."""

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
            if not fits or (want in (int, float) and (value < 0 or math.isnan(value))):
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
    """The settings of the user's own file, the nearest pyproject.toml at or above ``folder``, and the environment.

    Raises DefinitionError for an unknown key, a value that does not fit, or a project that sets what it may not.
    """
    found, own = Settings(), user_file()
    if own is not None and own.is_file():
        found = _own(own)
    for place in (folder, *folder.resolve().parents):
        path = place / "pyproject.toml"
        if path.is_file():
            found = _project(path, found)
            break
    return replace(found, **_environment())


def without_files() -> Settings:
    """The settings of a process that has read no file: the defaults and the environment. What does not fit there is
    off; `read` says so."""
    try:
        return replace(Settings(), **_environment())
    except DefinitionError:
        return Settings()


def user_file() -> Path | None:
    """The user's own settings, outside of every project; None: there is no home."""
    try:
        home = Path.home()
    except RuntimeError:
        return None
    if sys.platform == "win32":
        folder = Path(os.environ.get("APPDATA") or home / "AppData" / "Roaming")
    elif sys.platform == "darwin":
        folder = home / "Library" / "Application Support"
    else:
        folder = Path(os.environ.get("XDG_CONFIG_HOME") or home / ".config")
    return folder / "agf-magics" / "config.toml"


def variable(name: str) -> str:
    """The environment variable of a setting: ``AGF_MAGICS_ALLOW_SHELL``."""
    return f"AGF_MAGICS_{name.upper()}"


def _environment() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in OPENING:
        said = os.environ.get(variable(name), "").strip()
        value: Any = said if OPENING[name] is str else SAID.get(said.lower())
        if said and value is None:
            message = f"{variable(name)} must be one of {', '.join(filter(None, SAID))}, got {said[:40]!r}"
            raise DefinitionError(Diagnostic("settings.environment", message))
        if said:
            found[name] = value
    return found


def _own(path: Path) -> Settings:
    try:
        text = path.read_text(encoding="utf-8")
        known = tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise DefinitionError(Diagnostic("settings.user-file", f"{path} cannot be read: {why}")) from None
    return _fitting(known, Settings(), "settings.user-file", path.name, Source(str(path), text).span(0, 0))


def _project(path: Path, before: Settings) -> Settings:
    try:
        text = path.read_text(encoding="utf-8")
        tools = tomllib.loads(text).get("tool")
    except (OSError, ValueError, RecursionError):
        return before  # somebody else's broken file is not ours to report at every start
    table: Any = tools.get("agf-magics", {}) if isinstance(tools, dict) else {}
    source, header = Source(str(path), text), "[tool.agf-magics]"
    where = max(text.find(header), 0)
    whole = source.span(where, where + len(header))
    for name in table if isinstance(table, dict) else ():
        setting = name.replace("-", "_")
        if setting in OPENING:
            span = _key(source, where, name) or whole
            value = 1 if OPENING[setting] is bool else "…"
            hint = (
                f"only you can: %config AgfMagics.{setting} = …, {variable(setting)}={value}, or your own config.toml"
            )
            message = f"a project cannot set {name}: whoever wrote it would decide what may be done here"
            raise DefinitionError(Diagnostic("settings.person-only", message, span, hint))
    found_settings = _fitting(table, before, "settings.pyproject", header, whole)
    _refuse_journal_elsewhere(found_settings, before, whole)
    return found_settings


def _key(source: Source, start: int, name: str) -> Span | None:
    """The key ``name`` of the table whose header is at ``start``."""
    for line in source.text[start:].splitlines(keepends=True):
        if line.partition("=")[0].strip(" \t\"'") == name:
            at = start + line.index(name)
            return source.span(at, at + len(name))
        start += len(line)
    return None


def _fitting(table: Any, before: Settings, code: str, whose: str, span: Span) -> Settings:
    """``before`` with what ``table`` says."""
    known: dict[str, Any] = {}
    try:
        if not isinstance(table, dict):
            raise TypeError(f"it is a table of settings, not {table!r}")
        known = {key.replace("-", "_"): value for key, value in table.items()}
        return replace(before, **known)
    except (TypeError, ValueError) as error:
        names = [field.name for field in fields(Settings)]
        strange = next((key for key in known if key not in names), None)
        message = f"{whose} knows no {strange!r}" if strange else f"{whose}: {error}"
        hint = suggest(strange, names, "settings") if strange else None
        raise DefinitionError(Diagnostic(code, message, span, hint)) from None


def _refuse_journal_elsewhere(found: Settings, before: Settings, span: Span) -> None:
    """A project keeps its runs in its own folder: it may not say which file of the user's is written."""
    if found.journal and found.journal != before.journal:
        path = PurePath(found.journal)
        if path.is_absolute() or path.drive or ".." in path.parts or found.journal.startswith("~"):
            message = f"a project cannot keep its runs outside its folder: {found.journal!r}"
            hint = "only you can: %config AgfMagics.journal = …, or your own config.toml"
            raise DefinitionError(Diagnostic("settings.person-only", message, span, hint))


OPENING: Mapping[str, type] = {"allow_shell": bool, "allow_import": bool, "model_base_url": str}
"""What opens something: a process, an import, an address that prompts and a key are sent to. Each is also read from an
environment variable, and never from a project's file."""

SAID = {"1": True, "true": True, "yes": True, "on": True, "0": False, "false": False, "no": False, "off": False}
"""What a switch is in an environment variable."""

KINDS = {bool: "true or false", str: "a text"}


class Current:
    """The settings in force in this process: one slot, set by the notebook's ``%config`` and by pyproject.toml."""

    def __init__(self) -> None:
        self.settings = without_files()
        self.ask: Asker | None = None
        """Who puts a question to a person while a thread waits for the run; None: nobody is there (decision A18)."""
        self.ask_behind: Asker | None = None
        """The same for a run in the background, and one that is awaited."""


current = Current()
