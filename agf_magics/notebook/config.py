"""``%config AgfMagics.*``: the settings as traits, and the settings of the view, which only a
notebook has.

IPython's ``%config`` logs every Exception of a trait and lets the cell succeed, so `BadSetting` is
a BaseException.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

from traitlets import Bool, Enum, Float, Int, TraitError, Unicode
from traitlets.config import Config, Configurable

from ..catalog import default
from ..settings import settings
from ..settings.worker_words import TAKES, read_word
from ..text.diagnostics import Diagnostic
from ..text.folder import notebook_folder
from ..text.source import UNUSABLE
from ..text.suggestions import suggest

SHARED = tuple(field.name for field in fields(settings.Settings))
"""The settings that files and the environment can also set."""

DEFAULTS = settings.Settings()


class BadSetting(BaseException):
    """An unknown setting or a wrong value."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic)
        self.diagnostic = diagnostic
        self.diagnostics = (diagnostic,)


def _setting(kind: type[Any], default: Any, help: str, **options: Any) -> Any:
    """A trait. A text may be None, a number has a ``min``."""
    return kind(default, help=help, **options).tag(config=True)


class On(Unicode[Any, Any]):
    """A text of ``--on``: a word or an address."""

    def validate(self, obj: Any, value: Any) -> Any:
        found = super().validate(obj, value)
        if found and read_word(found) is None:
            raise TraitError
        return found


class Folder(Unicode[Any, Any]):
    """The path of a folder, relative to the current one at the moment in which it is written."""

    def validate(self, obj: Any, value: Any) -> Any:
        folder = Path(super().validate(obj, value)).expanduser()
        try:
            if folder.is_dir():
                return str(folder.resolve())
        except UNUSABLE:
            pass
        raise TraitError


class AgfMagics(Configurable):
    """Pipelines in the notebook."""

    folder = Folder(
        help="The notebook's folder: where the files of definitions and of the journal are; by "
        "default the current folder when the extension is loaded.",
    ).tag(config=True)

    progress = Enum(
        ("auto", "widget", "html", "text", "off"),
        "auto",
        help="How a run is shown: auto is a live widget in a front end, static HTML in a kernel "
        "without one, lines of "
        "text in a terminal.",
    ).tag(config=True)
    progress_after = Float(
        0.3, min=0.0, help="Seconds after which a live view of a run is shown."
    ).tag(config=True)
    refresh_hz = Float(
        10.0, min=0.1, max=10.0, help="The most updates of a live view per second."
    ).tag(config=True)
    notices = Bool(
        True, help="Whether a notice says that a background run ended, failed or asks a question."
    ).tag(config=True)
    traceback = Enum(
        ("short", "full"),
        "short",
        help="How errors are shown: in a few lines, or as Python tracebacks.",
    ).tag(config=True)

    max_pipeline_fan_out_depth = _setting(
        Int,
        DEFAULTS.max_pipeline_fan_out_depth,
        "How deep for_each scopes may nest; 0: no limit.",
        min=0,
    )
    max_pipeline_spawns = _setting(
        Int,
        DEFAULTS.max_pipeline_spawns,
        "Agent steps and model sessions a run may open; 0: no limit.",
        min=0,
    )
    timeout = _setting(Float, DEFAULTS.timeout, "Seconds a run may take; 0: no limit.", min=0.0)
    step_timeout = _setting(
        Float,
        DEFAULTS.step_timeout,
        "Seconds a call of a tool, an agent or a transform may take; 0: no limit.",
        min=0.0,
    )
    max_tokens = _setting(
        Int, DEFAULTS.max_tokens, "Tokens that the models of a run may use; 0: no limit.", min=0
    )
    max_cost = _setting(
        Float,
        DEFAULTS.max_cost,
        "US dollars that the models of a run may cost; 0: no limit. A model of unknown price is "
        "not asked then.",
        min=0.0,
    )
    model = _setting(
        Unicode,
        DEFAULTS.model,
        "The model that replaces the one in a definition: openai:gpt-4o; empty: no replacement.",
        allow_none=True,
    )
    model_base_url = _setting(
        Unicode,
        DEFAULTS.model_base_url,
        "The address of a server with the OpenAI protocol, for models of openai or without a "
        "provider.",
        allow_none=True,
    )
    model_timeout = _setting(
        Float,
        DEFAULTS.model_timeout,
        "Seconds a model may take for one reply; 0: no limit.",
        min=0.0,
    )
    on = On(
        DEFAULTS.on,
        help="Where the concurrent calls of a run are made: processes, processes:4, dask, "
        "tcp://HOST:PORT or "
        "tls://HOST:PORT; empty or here: in this process.",
    ).tag(config=True)
    allow_shell = _setting(Bool, DEFAULTS.allow_shell, "Whether shell steps may start processes.")
    allow_import = _setting(
        Bool,
        DEFAULTS.allow_import,
        "Whether a definition may name functions of Python files to import.",
    )
    tracing = _setting(
        Bool,
        DEFAULTS.tracing,
        "Whether runs are reported to OpenTelemetry as spans, with the provider of this process.",
    )
    journal = _setting(
        Unicode,
        DEFAULTS.journal,
        "The file of the journal, relative to the project's folder; None: no journal.",
        allow_none=True,
    )
    journal_value = _setting(
        Int,
        DEFAULTS.journal_value,
        "The most bytes of a value in the journal; a larger value is not stored.",
        min=0,
    )
    journal_days = _setting(
        Int, DEFAULTS.journal_days, "Days after which an ended run is deleted; 0: never.", min=0
    )
    journal_size = _setting(
        Int,
        DEFAULTS.journal_size,
        "Bytes of the journal above which old runs are deleted; 0: no limit.",
        min=0,
    )
    max_text = _setting(Int, DEFAULTS.max_text, "Characters of a definition.", min=1)
    max_depth = _setting(Int, DEFAULTS.max_depth, "How deep a definition may nest.", min=1)
    max_aliases = _setting(
        Int, DEFAULTS.max_aliases, "YAML alias expansions of a definition.", min=0
    )
    max_nodes = _setting(Int, DEFAULTS.max_nodes, "YAML nodes of a definition.", min=1)

    def __init__(self, shell: Any, folder: Path) -> None:
        """A value is that of IPython's configuration, otherwise that of `settings.read` for
        ``folder``."""
        self._check(shell.config)
        mine = shell.config.get("AgfMagics", {})
        chosen = Path(mine.get("folder", folder)).expanduser()
        found = settings.read(chosen)
        super().__init__(parent=shell)
        self.observe(self._move, names=["folder"])
        self.folder = str(chosen)
        self._move()
        for name in SHARED:
            if name not in mine:
                setattr(self, name, getattr(found, name))
        self.observe(self._apply, names=list(SHARED))
        self._apply()

    def update_config(self, config: Config) -> None:
        """Called by ``%config``. Raises BadSetting for any error, and then changes nothing."""
        self._check(config)
        super().update_config(config)
        ignored = [
            name for name in ("model", "model_base_url") if name in config.get("AgfMagics", {})
        ]
        if ignored and default().has_chosen:
            message = f"AgfMagics.{ignored[0]} has no effect: agf.registry.choose(…) wins over it"
            hint = "agf.registry.choose() leaves the model to the settings"
            print(
                f"warning: {Diagnostic('magic.no-effect', message, hint=hint, severity='warning')}"
            )

    def _check(self, config: Config) -> None:
        known: dict[str, Any] = dict(type(self).class_traits(config=True))
        for name, value in config.get("AgfMagics", {}).items():
            if name not in known:
                hint = suggest(name, sorted(known), "settings")
                raise _bad_setting("unknown-setting", f"AgfMagics has no setting {name!r}", hint)
            try:
                fits = isinstance(value, bool) <= isinstance(
                    known[name], Bool
                )  # a bool is not a number
                if value is not None or not known[name].allow_none:
                    known[name].validate(self, value)
            except TraitError:
                fits = False
            if not fits:
                raise _bad_setting(
                    "setting",
                    f"AgfMagics.{name} must be {_takes(known[name])}, not {value!r}",
                    known[name].help,
                )

    def _move(self, _: object = None) -> None:
        notebook_folder.change(Path(self.folder))

    def _apply(self, _: object = None) -> None:
        settings.current.settings = settings.Settings(
            **{name: getattr(self, name) for name in SHARED}
        )


def has_notices(shell: Any) -> bool:
    """Whether a person wants notices about background runs."""
    return next(
        (one.notices for one in getattr(shell, "configurables", ()) if isinstance(one, AgfMagics)),
        True,
    )


def _takes(trait: Any) -> str:
    match trait:
        case Enum():
            return " or ".join(trait.values or ())
        case Bool():
            return "True or False"
        case Folder():
            return "the path of a folder that exists"
        case On():
            return TAKES
        case Unicode():
            return "a text, or None"
    limits = (("least", trait.min), ("most", trait.max))
    bounds = [
        f"at {word} {limit:g}"
        for word, limit in limits
        if limit is not None and abs(limit) != float("inf")
    ]
    return ", ".join(["a whole number" if isinstance(trait, Int) else "a number", *bounds])


def _bad_setting(what: str, message: str, hint: str | None) -> BadSetting:
    return BadSetting(Diagnostic(f"magic.{what}", message, hint=hint))
