"""``%config AgfMagics.*``: the settings as traits, with the settings of the view that only a notebook has.

IPython's ``%config`` logs every Exception of a trait and lets the cell succeed, so `BadSetting` is
a BaseException.
"""

from __future__ import annotations

from dataclasses import Field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

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


class BadSetting(BaseException):
    """An unknown setting or a wrong value."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic)
        self.diagnostic = diagnostic
        self.diagnostics = (diagnostic,)


class On(Unicode[Any, Any]):
    """A trait for the text of ``--on``, which says where concurrent calls run: a word or an address."""

    def validate(self, obj: Any, value: Any) -> Any:
        word = super().validate(obj, value)
        if word and read_word(word) is None:
            raise TraitError
        return word


class Folder(Unicode[Any, Any]):
    """A trait for the path of a folder, relative to the folder that is current when the value is set."""

    def validate(self, obj: Any, value: Any) -> Any:
        folder = Path(super().validate(obj, value)).expanduser()
        try:
            if folder.is_dir():
                return str(folder.resolve())
        except UNUSABLE:
            pass
        raise TraitError


KINDS: dict[type, Any] = {bool: Bool, int: Int, float: Float, str: Unicode}
"""The class of a setting's trait, by the type of the setting's default."""


def _trait(setting: Field[Any]) -> Any:
    """The trait of a shared setting. A text may be None; a number has a least value."""
    kind: Any = On if setting.name == "on" else KINDS[type(setting.default)]
    options: dict[str, Any] = {}
    if kind is Unicode:
        options["allow_none"] = True
    elif kind in (Int, Float):
        options["min"] = setting.metadata["least"]
    return kind(setting.default, help=setting.metadata["about"], **options).tag(config=True)


if TYPE_CHECKING:
    _Shared = Configurable
else:
    # The class is made with its traits: traitlets ignores a trait that is set on a class later.
    _Shared = type(Configurable)(
        "_Shared",
        (Configurable,),
        {"__module__": __name__}
        | {setting.name: _trait(setting) for setting in fields(settings.Settings)},
    )


class AgfMagics(_Shared):
    """Pipelines in the notebook."""

    folder = Folder(
        help="The notebook's folder: where the files of definitions and of the journal are; by "
        "default the current folder when the extension is loaded.",
    ).tag(config=True)

    progress = Enum(
        ("auto", "widget", "html", "text", "off"),
        "auto",
        help="How a run is shown: auto is a live widget in a front end, static HTML in a kernel "
        "without one, lines of text in a terminal.",
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

    def __init__(self, shell: Any, folder: Path) -> None:
        """Take each value from IPython's configuration, or else from `settings.read` for ``folder``."""
        self._check(shell.config)
        mine = shell.config.get("AgfMagics", {})
        chosen = Path(mine.get("folder", folder)).expanduser()
        settings_read = settings.read(chosen)
        super().__init__(parent=shell)
        self.observe(self._move, names=["folder"])
        self.folder = str(chosen)
        self._move()
        for name in SHARED:
            if name not in mine:
                setattr(self, name, getattr(settings_read, name))
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
        """Refuse an unknown setting and a wrong value. Raises BadSetting."""
        traits: dict[str, Any] = dict(type(self).class_traits(config=True))
        for name, value in config.get("AgfMagics", {}).items():
            if name not in traits:
                hint = suggest(name, sorted(traits), "settings")
                raise _bad_setting("unknown-setting", f"AgfMagics has no setting {name!r}", hint)
            if not self._fits(traits[name], value):
                message = f"AgfMagics.{name} must be {_takes(traits[name])}, not {value!r}"
                raise _bad_setting("setting", message, traits[name].help)

    def _fits(self, trait: Any, value: Any) -> bool:
        if isinstance(value, bool) and not isinstance(trait, Bool):
            return False  # traitlets would accept a bool as a number
        if value != value:
            return False  # NaN is not below the least number, and equals nothing
        if value is None and trait.allow_none:
            return True
        try:
            trait.validate(self, value)
        except TraitError:
            return False
        return True

    def _move(self, _: object = None) -> None:
        notebook_folder.change(Path(self.folder))

    def _apply(self, _: object = None) -> None:
        settings.current.settings = settings.Settings(
            **{name: getattr(self, name) for name in SHARED}
        )


def has_notices(shell: Any) -> bool:
    """Whether a person wants notices about background runs."""
    return next(
        (
            configurable.notices
            for configurable in getattr(shell, "configurables", ())
            if isinstance(configurable, AgfMagics)
        ),
        True,
    )


def _takes(trait: Any) -> str:
    """The values of a trait in the words of an error: ``a whole number, at least 0``."""
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


def _bad_setting(name: str, message: str, hint: str | None) -> BadSetting:
    """The error ``magic.NAME`` of a setting."""
    return BadSetting(Diagnostic(f"magic.{name}", message, hint=hint))
