"""``%config AgfMagics.*``: the settings as traits, and the settings of the view, which only a notebook has.

IPython's ``%config`` logs every Exception of a trait and lets the cell succeed, so `BadSetting` is a BaseException.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from traitlets import Bool, Enum, Float, Int, TraitError, Unicode
from traitlets.config import Config, Configurable

from .. import settings
from ..text.diagnostics import Diagnostic, suggest

SHARED = tuple(field.name for field in fields(settings.Settings))
"""The settings that files and the environment can also set."""

DEFAULTS = settings.Settings()


class BadSetting(BaseException):
    """An unknown setting or a wrong value."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic)
        self.diagnostic = diagnostic
        self.diagnostics = (diagnostic,)

    def __str__(self) -> str:
        return str(self.diagnostic)


class AgfMagics(Configurable):
    """Pipelines in the notebook."""

    progress = Enum(
        ("auto", "widget", "html", "text", "off"),
        "auto",
        help="How a run is shown: auto is a live widget in a front end, static HTML in a kernel without one, lines of "
        "text in a terminal.",
    ).tag(config=True)
    progress_after = Float(0.3, min=0.0, help="Seconds after which a live view of a run is shown.").tag(config=True)
    refresh_hz = Float(10.0, min=0.1, max=10.0, help="The most updates of a live view per second.").tag(config=True)
    traceback = Enum(
        ("short", "full"), "short", help="How errors are shown: in a few lines, or as Python tracebacks."
    ).tag(config=True)

    max_pipeline_fan_out_depth = Int(
        DEFAULTS.max_pipeline_fan_out_depth,
        min=0,
        help="How deep for_each scopes may nest; 0: no limit.",
    ).tag(config=True)
    max_pipeline_spawns = Int(
        DEFAULTS.max_pipeline_spawns, min=0, help="Agent steps and model sessions a run may open; 0: no limit."
    ).tag(config=True)
    timeout = Float(DEFAULTS.timeout, min=0.0, help="Seconds a run may take; 0: no limit.").tag(config=True)
    step_timeout = Float(
        DEFAULTS.step_timeout,
        min=0.0,
        help="Seconds a call of a tool, an agent or a transform may take; 0: no limit.",
    ).tag(config=True)
    model = Unicode(
        DEFAULTS.model,
        allow_none=True,
        help="The model that replaces the one in a definition: openai:gpt-4o; empty: no replacement.",
    ).tag(config=True)
    model_base_url = Unicode(
        DEFAULTS.model_base_url,
        allow_none=True,
        help="The address of a server that speaks the OpenAI protocol, for models of openai or without a provider.",
    ).tag(config=True)
    model_timeout = Float(
        DEFAULTS.model_timeout, min=0.0, help="Seconds a model may take for one reply; 0: no limit."
    ).tag(config=True)
    allow_shell = Bool(DEFAULTS.allow_shell, help="Whether shell steps may start processes.").tag(config=True)
    allow_import = Bool(
        DEFAULTS.allow_import, help="Whether a definition may name functions of Python files to import."
    ).tag(config=True)
    journal = Unicode(
        DEFAULTS.journal,
        allow_none=True,
        help="The file of the journal, relative to the project's folder; None: no journal.",
    ).tag(config=True)
    journal_value = Int(
        DEFAULTS.journal_value, min=0, help="The most bytes of a value in the journal; a larger value is not stored."
    ).tag(config=True)
    journal_days = Int(DEFAULTS.journal_days, min=0, help="Days after which an ended run is deleted; 0: never.").tag(
        config=True
    )
    journal_size = Int(
        DEFAULTS.journal_size, min=0, help="Bytes of the journal above which old runs are deleted; 0: no limit."
    ).tag(config=True)
    max_text = Int(DEFAULTS.max_text, min=1, help="Characters of a definition.").tag(config=True)
    max_depth = Int(DEFAULTS.max_depth, min=1, help="How deep a definition may nest.").tag(config=True)
    max_aliases = Int(DEFAULTS.max_aliases, min=0, help="YAML alias expansions of a definition.").tag(config=True)
    max_nodes = Int(DEFAULTS.max_nodes, min=1, help="YAML nodes of a definition.").tag(config=True)

    def __init__(self, shell: Any, folder: Path) -> None:
        """A value is that of IPython's configuration, otherwise that of `settings.read` for ``folder``."""
        found = settings.read(folder)
        self._check(shell.config)
        super().__init__(parent=shell)
        mine = shell.config.get("AgfMagics", {})
        for name in SHARED:
            if name not in mine:
                setattr(self, name, getattr(found, name))
        self.observe(self._apply, names=list(SHARED))
        self._apply()

    def update_config(self, config: Config) -> None:
        """Called by ``%config``. Raises BadSetting for any error, and then changes nothing."""
        self._check(config)
        super().update_config(config)

    def forget(self) -> None:
        """Restore the settings of a process without a notebook."""
        settings.current.settings = settings.without_files()

    def _check(self, config: Config) -> None:
        known: dict[str, Any] = dict(type(self).class_traits(config=True))
        for name, value in config.get("AgfMagics", {}).items():
            if name not in known:
                hint = suggest(name, sorted(known), "settings")
                raise _bad_setting("unknown-setting", f"AgfMagics has no setting {name!r}", hint)
            try:
                fits = isinstance(value, bool) <= isinstance(known[name], Bool)  # a bool is not a number
                if value is not None or not known[name].allow_none:
                    known[name].validate(self, value)
            except TraitError:
                fits = False
            if not fits:
                raise _bad_setting(
                    "setting", f"AgfMagics.{name} must be {_takes(known[name])}, not {value!r}", known[name].help
                )

    def _apply(self, _: object = None) -> None:
        settings.current.settings = settings.Settings(**{name: getattr(self, name) for name in SHARED})


def _takes(trait: Any) -> str:
    match trait:
        case Enum():
            return " or ".join(trait.values or ())
        case Bool():
            return "True or False"
        case Unicode():
            return "a text, or None"
    limits = (("least", trait.min), ("most", trait.max))
    bounds = [f"at {word} {limit:g}" for word, limit in limits if limit is not None and abs(limit) != float("inf")]
    return ", ".join(["a whole number" if isinstance(trait, Int) else "a number", *bounds])


def _bad_setting(what: str, message: str, hint: str | None) -> BadSetting:
    return BadSetting(Diagnostic(f"magic.{what}", message, hint=hint))
