"""The settings of this process, read from the files of the user and the project, and the
environment.

Limits and switches: defaults < the user's own file < ``[tool.agf-magics]`` of pyproject.toml <
environment variables < ``%config AgfMagics.*``. Only the settings of `OPENING`, ``on`` and
``journal`` have an environment variable. No definition reads or changes the settings. A
pyproject.toml may come from a stranger, so it cannot set the settings that open something
(`OPENING`, decision D4).
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any, NamedTuple, TypeVar

from ..engine.host.host import Asker
from ..journal.codec.signatures import user_folder
from ..limits.limits import (
    FAN_OUT_DEPTH,
    LIMITS,
    MAX_COST,
    MAX_TOKENS,
    MODEL_TIMEOUT,
    SPAWNS,
    STEP_TIMEOUT,
    TIMEOUT,
    LimitRow,
    Limits,
    N,
)
from ..text.diagnostics import DefinitionError, Diagnostic
from ..text.files import open_file
from ..text.shorten import shorten
from ..text.source import Source, Span, path_error_reason
from ..text.suggestions import suggest
from ..text.yaml.reader import Bounds
from .worker_words import FOR_PROJECTS, TAKES, read_word

LARGEST_FILE = 100_000
"""The largest number of bytes in a settings file."""
MOST_DOTS = 20
"""The largest number of dots in a key of a settings file."""
_NOT_IN_A_KEY = re.compile(r"[^\w\-.\"' \t]+")
"""The characters between two keys of a line. The parts between them are counted for `MOST_DOTS`."""

UNLIMITED_BY_0 = frozenset(row.setting for row in LIMITS)
"""The settings whose value 0 means no limit."""
LIMITING = (*UNLIMITED_BY_0, "max_text", "max_depth", "max_aliases", "max_nodes")
"""Settings that a project's file can only lower."""


class SettingError(ValueError):
    """A value that a setting cannot have."""

    def __init__(self, name: str, problem: str) -> None:
        super().__init__(f"{name} {problem}")
        self.name, self.problem = name, problem


T = TypeVar("T")


def setting(default: T, about: str, least: int = 0) -> T:
    """A field of `Settings`. ``about``: its description, for ``%config`` and the docs. ``least``:
    the smallest value of a number; default 0."""
    return field(default=default, metadata={"about": about, "least": least})


def limit(row: LimitRow[N]) -> N:
    """The field of `Settings` for a limit."""
    return setting(row.default, row.sentence)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """All settings: traits of ``%config AgfMagics`` and, except `OPENING`, keys of
    ``[tool.agf-magics]``."""

    max_pipeline_fan_out_depth: int = limit(FAN_OUT_DEPTH)
    max_pipeline_spawns: int = limit(SPAWNS)
    timeout: float = limit(TIMEOUT)
    step_timeout: float = limit(STEP_TIMEOUT)
    max_tokens: int = limit(MAX_TOKENS)
    max_cost: float = limit(MAX_COST)
    model: str = setting(
        "",
        "The model to use instead of the one that a definition names, such as openai:gpt-4o; "
        "empty: the named one.",
    )
    model_base_url: str = setting(
        "",
        "The address of a server with the OpenAI protocol, for models of openai and models "
        "without a provider.",
    )
    model_timeout: float = limit(MODEL_TIMEOUT)
    on: str = setting(
        "",
        "Where the concurrent calls of a run are made: processes, processes:4, dask, dask:4, "
        "or the address of a scheduler, tcp://HOST:PORT or tls://HOST:PORT; empty or here: in "
        "this process. A project can set processes or dask.",
    )
    allow_shell: bool = setting(False, "Whether shell steps may start processes.")
    allow_import: bool = setting(
        False, "Whether definitions may name functions of Python files, which are then imported."
    )
    tracing: bool = setting(
        False,
        "Whether runs are reported to OpenTelemetry as spans, with the provider of this process.",
    )
    journal: str | None = setting(
        ".agf/runs.sqlite",
        "The file of the journal, relative to the project's folder; None or an empty text: no "
        "journal.",
    )
    journal_value: int = setting(
        10_000_000,
        "The largest value in a row of the journal, in bytes; a larger result is stored in files "
        "beside it.",
    )
    journal_days: int = setting(
        30, "Days after which an ended run is deleted from the journal; 0: never."
    )
    journal_size: int = setting(
        20_000_000_000,
        "The largest size of the journal with its values, in bytes; beyond it the oldest ended "
        "runs are deleted; 0: no limit. By default also at most a tenth of the disk.",
    )
    max_text: int = setting(1_000_000, "The largest number of characters in a definition.", least=1)
    max_depth: int = setting(100, "The largest depth of a definition.", least=1)
    max_aliases: int = setting(
        1_000, "The largest number of YAML alias expansions in a definition."
    )
    max_nodes: int = setting(100_000, "The largest number of YAML nodes in a definition.", least=1)

    def __post_init__(self) -> None:
        for setting_field in fields(self):
            value = getattr(self, setting_field.name)
            expected, types = KINDS[type(setting_field.default)]
            least = setting_field.metadata["least"]
            expected = f"{expected}, {least} or more" if expected == NUMBER else expected
            # `not >=` refuses NaN, too.
            is_too_small = type(value) in types and expected != "text" and not value >= least
            if type(value) not in types or is_too_small:
                raise SettingError(setting_field.name, f"must be {expected}, got {value!r}")
        if self.on and read_word(self.on) is None:
            raise SettingError("on", f"must be {TAKES}, got {shorten(self.on)!r}")

    # The next two are computed once: `Settings` never change, other settings are another object.
    @cached_property
    def limits(self) -> Limits:
        """The limits of runs."""
        return Limits(**{row.name: getattr(self, row.setting) for row in LIMITS})

    @cached_property
    def bounds(self) -> Bounds:
        """The bounds of the texts of definitions."""
        return Bounds(
            text=self.max_text, depth=self.max_depth, aliases=self.max_aliases, nodes=self.max_nodes
        )


def read(folder: Path) -> Settings:
    """The settings of the user's own file, the nearest pyproject.toml at or above ``folder``, and
    the environment.

    Raises DefinitionError for an unknown key, a value of a wrong type, or a setting that a project
    cannot have.
    """
    settings, user_settings = Settings(), user_file()
    if user_settings is not None and user_settings.is_file():
        settings = _read_user_file(user_settings)
    for place in (folder, *folder.resolve().parents):
        path = place / "pyproject.toml"
        if path.is_file():
            settings = _read_project(path, settings)
            break
    return _with_environment(settings)


def without_files() -> Settings:
    """The settings of a process that has read no file: the defaults and the environment. If the
    environment has a wrong value, these are the defaults alone; `read` reports the error."""
    try:
        return _with_environment(Settings())
    except DefinitionError:
        return Settings()


def user_file() -> Path | None:
    """The path of the user's own settings, outside of every project; None if the user has no home
    folder."""
    try:
        home = Path.home()
    except RuntimeError:
        return None
    return user_folder(home, ("APPDATA", "Roaming"), ("XDG_CONFIG_HOME", ".config")) / "config.toml"


def variable(name: str) -> str:
    """The environment variable of the setting ``name``: ``AGF_MAGICS_ALLOW_SHELL``."""
    return f"AGF_MAGICS_{name.upper()}"


def _with_environment(settings: Settings) -> Settings:
    """``settings``, changed as the environment says. Raises DefinitionError."""
    values: dict[str, Any] = {}
    for name, kind in {**OPENING, "on": str}.items():
        text = os.environ.get(variable(name), "").strip()
        if not text:
            continue
        values[name] = text if kind is str else SWITCHES.get(text.lower())
        if values[name] is None:
            message = f"{variable(name)} must be one of {', '.join(SWITCHES)}, got {text[:40]!r}"
            raise DefinitionError(Diagnostic("settings.environment", message))
    # The journal's variable has a word that switches the journal off, or the path of its file
    # (decision D50).
    if text := os.environ.get(variable("journal"), "").strip():
        values["journal"] = "" if SWITCHES.get(text.lower()) is False else text
    try:
        return replace(settings, **values)
    except SettingError as error:
        message = f"{variable(error.name)} {error.problem}"
        raise DefinitionError(Diagnostic("settings.environment", message)) from None


class _Table(NamedTuple):
    """The table of a settings file, with the place of each key."""

    source: Source
    title: str
    """``[tool.agf-magics]``, or the name of the user's file."""
    start: int
    """The index of the table's header in the text; 0 for a file without a header."""
    keys: Mapping[str, Any]

    @property
    def written(self) -> Mapping[str, str]:
        """The keys as the file spells them, by the names of their settings."""
        return {key.replace("-", "_"): key for key in self.keys}

    def span(self, key: str = "") -> Span:
        """The place of ``key`` in the file; if it cannot be found, that of the table's header."""
        position = self.start
        for line in self.source.text[position:].splitlines(keepends=True) if key else ():
            if line.partition("=")[0].strip(" \t\"'") == key:
                position += line.index(key)
                return self.source.span(position, position + len(key))
            position += len(line)
        header = len(self.title) if self.source.text.startswith(self.title, self.start) else 0
        return self.source.span(self.start, self.start + header)


def _read_user_file(path: Path) -> Settings:
    """The settings of the user's own file. Raises DefinitionError."""
    import tomllib  # imported here: most people have no such file

    try:
        text = _text_of(path)
        keys = tomllib.loads(text)
    except (OSError, ValueError, RecursionError) as error:
        why = path_error_reason(error)
        raise DefinitionError(
            Diagnostic("settings.user-file", f"{path} cannot be read: {why}")
        ) from None
    table = _Table(Source(str(path), text), path.name, 0, keys)
    return _with_table(Settings(), table, "settings.user-file")


def _text_of(path: Path) -> str:
    """The text of a settings file. Raises OSError, and ValueError if the file is too large or has a
    key with too many dots: tomllib takes quadratic time for these (decision D4)."""
    with open_file(path) as file:
        raw = file.read(LARGEST_FILE + 1)
    if len(raw) > LARGEST_FILE:
        raise ValueError(f"it has more than {LARGEST_FILE:,} bytes")
    text = raw.decode("utf-8-sig")
    for number, line in enumerate(text.splitlines(), 1):
        if any(part.count(".") > MOST_DOTS for part in _NOT_IN_A_KEY.split(line)):
            raise ValueError(f"a key has more than {MOST_DOTS} dots (line {number})")
    return text


def _read_project(path: Path, before: Settings) -> Settings:
    """The settings ``before``, changed as a project's file says. Raises DefinitionError."""
    try:
        text = _text_of(path)
        if "agf-magics" not in text:
            return before  # most projects have no such table, and need no parser

        import tomllib

        tools = tomllib.loads(text).get("tool")
    except (OSError, ValueError, RecursionError):
        return before  # other tools use this file, too, and report that it is broken
    header = "[tool.agf-magics]"
    keys: Any = tools.get("agf-magics", {}) if isinstance(tools, dict) else {}
    table = _Table(Source(str(path), text), header, max(text.find(header), 0), keys)
    if not isinstance(keys, dict):
        message = f"{header} must be a table of settings, got {keys!r}"
        raise DefinitionError(Diagnostic("settings.pyproject", message, table.span()))
    for name, key in table.written.items():
        if name in OPENING:
            value = 1 if OPENING[name] is bool else "…"
            hint = (
                f"only you can: %config AgfMagics.{name} = …, {variable(name)}={value}, or "
                f"your own config.toml"
            )
            message = f"a project cannot set {key}: it may come from a stranger"
            raise DefinitionError(
                Diagnostic("settings.person-only", message, table.span(key), hint)
            )
    settings = _with_table(before, table, "settings.pyproject")
    for name, message, how in _person_only(settings, before):
        key = name.replace("_", "-")
        if name in VARIABLES:
            how += f"{variable(name)}=…, "
        hint = f"only you can: {how}%config AgfMagics.{name} = …, or your own config.toml"
        span = table.span(table.written.get(name, key))
        raise DefinitionError(Diagnostic("settings.person-only", message, span, hint))
    return settings


def _with_table(before: Settings, table: _Table, code: str) -> Settings:
    """The settings ``before``, changed as ``table`` says. Raises DefinitionError with ``code``."""
    names, written = [field.name for field in fields(Settings)], table.written
    for key in table.keys:
        if (other := written[key.replace("-", "_")]) != key:
            message = f"{table.title} has one setting twice: {key!r} and {other!r}"
            raise DefinitionError(
                Diagnostic(code, message, table.span(other), "remove one of them")
            )
    for name, key in written.items():
        if name not in names:
            dashed = [setting.replace("_", "-") for setting in names]
            hint = suggest(name.replace("_", "-"), dashed, "settings")
            raise DefinitionError(
                Diagnostic(code, f"unknown setting {key!r} in {table.title}", table.span(key), hint)
            )
    try:
        return replace(before, **{name: table.keys[key] for name, key in written.items()})
    except SettingError as error:
        key = written.get(error.name, error.name)
        raise DefinitionError(Diagnostic(code, f"{key} {error.problem}", table.span(key))) from None


def _person_only(settings: Settings, before: Settings) -> Iterator[tuple[str, str, str]]:
    """The settings that a project's file must not set but does (decision D4): the name, the reason,
    and another way to set it.

    A project can only lower a limit, and writes no file outside of its folder. It does not choose
    where values are sent, nor how many processes start.
    """
    for name in LIMITING:
        limit, allowed = getattr(settings, name), getattr(before, name)
        if _as_limit(name, limit) > _as_limit(name, allowed):
            reason = f"{limit} is more than {allowed}"
            reason = reason if limit else f"0 is no limit, and there is one: {allowed}"
            yield name, f"a project can only lower {name.replace('_', '-')}: {reason}", ""
    if settings.journal and settings.journal != before.journal:
        path = PurePath(settings.journal)
        if path.anchor or ".." in path.parts or settings.journal.startswith("~"):
            message = f"a project cannot have its journal outside its folder: {settings.journal!r}"
            yield "journal", message, ""
    if settings.on not in (before.on, "", *FOR_PROJECTS):
        message = f"a project can set on to {' or '.join(FOR_PROJECTS)} only, not to"
        yield "on", f"{message} {shorten(settings.on)!r}", f"--on {settings.on}, "


def _as_limit(name: str, value: float) -> float:
    """The value of a limit; infinite if it means that there is no limit."""
    return math.inf if value == 0 and name in UNLIMITED_BY_0 else value


OPENING: Mapping[str, type] = {
    "allow_shell": bool,
    "allow_import": bool,
    "model_base_url": str,
    "tracing": bool,
}
"""The settings that open something: a process, an import, an address that receives prompts and a
key, or one that receives traces. An environment variable can set each of them, and a project's file
none."""
VARIABLES = (*OPENING, "on", "journal")
"""The settings that an environment variable can set. Of ``on``, a project's file sets only the words
`FOR_PROJECTS`."""

SWITCHES = {
    "1": True,
    "true": True,
    "yes": True,
    "on": True,
    "0": False,
    "false": False,
    "no": False,
    "off": False,
}
"""The values of a switch in an environment variable."""

NUMBER = "a number"
KINDS: Mapping[type, tuple[str, tuple[type, ...]]] = {
    bool: ("true or false", (bool,)),
    str: ("text", (str, type(None))),
    int: (NUMBER, (int,)),
    float: (NUMBER, (float, int)),
}
"""The description of a setting and the types of its value, by the type of its default."""


class Phrases(NamedTuple):
    """The commands that hints name. They differ between notebook, command line and MCP client."""

    give: str = "{sets} (in Python: input={{{fields}}})"
    """The words to pass inputs, which `input_of` fills."""
    resume_run: str = "%resume {0}"
    """The words to resume a run; ``{0}`` is its id, here and below."""
    answer_run: str = "%resume {0} --answer …"
    allow: str = "%config AgfMagics.{0} = True"
    """The words to turn on a switch of `OPENING`."""
    list_runs: str = "%runs lists the runs"
    show_run: str = "%runs {0} shows it"
    define_folder: str = "define its files: %define reads a folder"

    def input_of(self, *names: str) -> str:
        """The words to pass the inputs with these names.

        >>> Phrases().input_of("a", "b")
        "--set a=… --set b=… (in Python: input={'a': …, 'b': …})"
        """
        return self.give.format(
            sets=" ".join(f"--set {name}=…" for name in names),
            fields=", ".join(f"{name!r}: …" for name in names),
            in_json=", ".join(f"{json.dumps(name, ensure_ascii=False)}: …" for name in names),
            quoted=" and ".join(map(repr, names)),
        )

    def switch(self, name: str) -> str:
        """The words to turn on the switch ``name``."""
        return self.allow.format(name, name.replace("_", "-"))

    def resume(self, run_id: str, status: str) -> str:
        """The words to resume the run ``run_id`` with this ``status``; empty if it cannot be
        resumed."""
        resumed = dict.fromkeys(("error", "cancelled", "interrupted"), self.resume_run)
        return {**resumed, "waiting": self.answer_run}.get(status, "").format(run_id)


COMMAND_LINE = Phrases(
    "--input FILE.json, with {{{in_json}}}",
    "agf-magics resume {0}",
    "agf-magics resume {0}",
    "--{1}",
    "in Python: agf.runs() lists the runs",
    "in Python: agf.runs({0!r}) shows it",
    "give its files: --define FOLDER and agf-magics check FOLDER read a folder",
)
"""The phrases for a person at a terminal."""

MCP_CLIENT = COMMAND_LINE._replace(
    give="as {quoted} of the arguments",
    resume_run="call run_result with {0!r}",
    answer_run="call run_answer with {0!r}",
    allow="start the server with --{1}",
    list_runs="run_pipeline_async returns the id of a run",
    show_run="call run_result with {0!r}",
)
"""The phrases for a model that calls the tools of our MCP server."""


class Current:
    """The settings in force in this process, from the notebook's ``%config`` or the files."""

    def __init__(self) -> None:
        self.settings = without_files()
        self.ask: Asker | None = None
        """Asks the person a question while a thread waits for the run; None: nobody can answer
        (decision A18)."""
        self.ask_in_background: Asker | None = None
        """The same for a background run and for an awaited run."""
        self.viewer: Any = None
        """A function that returns who shows the run that its caller starts, or None (see
        `lifecycle.launch.viewers`); None: there is no notebook."""
        self.meanwhile: Callable[[], object] = lambda: None
        """A function that a thread calls regularly while it waits for a run."""
        self.words = Phrases()
        """The commands that hints name, for the program that runs here."""
        self.tracing: Any = None
        """The choice of `trace_to`; None: the setting decides."""


current = Current()
