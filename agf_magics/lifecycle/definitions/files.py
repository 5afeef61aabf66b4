"""Finds the files and Python functions that a definition names.

A path is relative to the file that names it, else to the notebook's folder, and may not leave that
folder (decision A16). A Python file is imported only if the person allows it (decision A20).
"""

from __future__ import annotations

import contextlib
import importlib
import re
import sys
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType

from ...catalog import Tool, make_tool
from ...catalog.tools.callables import name_of
from ...compat.imports import for_the_person
from ...engine.linking.link import Files
from ...flow.flow import Flow
from ...flow.protocols import Name
from ...languages.ours import OURS
from ...settings.settings import current
from ...text.diagnostics import DefinitionError, Diagnostic
from ...text.file_names import PROTECTED, refusal
from ...text.files import read_file
from ...text.folder import notebook_folder, source_folder
from ...text.raised import describe_exception
from ...text.shorten import shorten
from ...text.source import UNUSABLE, path_error_reason

FUNCTION = re.compile(r"(?P<path>.+\.py):(?P<function>[A-Za-z_]\w*)")
"""The pattern of a function in a Python file: ``tools.py:add``."""

MODULE = re.compile(r"(?P<module>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):(?P<function>[A-Za-z_]\w*)")
"""The pattern of a function in an installed module: ``package.module:add``."""

LARGEST = 10_000_000
"""Bytes of a file that a definition names."""

_KEY = re.compile(r"(?:^[ \t]*+(?:- *+)?|[{,\[][ \t]*+)\"?(\w++)\"?[ \t]*+:", re.MULTILINE)
"""A key of a mapping in YAML or JSON, as far as that is seen without reading the text as such."""


def file_opener(define: Callable[[Path], Flow], loaded: dict[Path, Flow]) -> Files:
    """A function that opens a file for the linker. ``define`` loads the definition in a file.
    ``loaded`` has the flows of files that were loaded before, which are not read again."""

    def opened(name: Name, around: Flow) -> Flow | Tool:
        if python := FUNCTION.fullmatch(name.text):
            path = _within(Path(python["path"]), name, around, loaded)
            return _function(partial(_import_file, path), python["function"], name)
        if module := MODULE.fullmatch(name.text):
            find = partial(_module, module["module"])
            return _function(find, module["function"], name)
        path = _within(Path(name.text), name, around, loaded)
        if path not in loaded:
            loaded[path] = in_file(_define_file(path, name, define), str(path))
        return loaded[path]

    return opened


def in_file(flow: Flow, path: str) -> Flow:
    """``flow`` with the file that defines it."""
    return replace(flow, origin=flow.origin._replace(file=path))


def _define_file(path: Path, name: Name, define: Callable[[Path], Flow]) -> Flow:
    """The definition in a file. If the file is not a definition, the error shows no line of it: it may
    be any file of the folder, with a secret in it (decision D3)."""
    try:
        return define(path)
    except DefinitionError as error:
        if error.code == "define.file" or is_meant_as_definition(path):
            raise
    hint = f"agf-magics check {shorten(name.text)} shows what is wrong in it"
    raise _file_error(
        "file.not-a-definition", f"{shorten(name.text)!r} contains no definition", name, hint
    )


def is_meant_as_definition(path: Path) -> bool:
    """Whether a file seems to be a definition, so that an error may show a line of it."""
    with contextlib.suppress(OSError, ValueError):
        text = read_file(path)[:LARGEST].decode("utf-8")
        keys = {match[1] for match in _KEY.finditer(text)}
        return any(meant <= keys for language in OURS.values() for meant in language.keys)
    return False


def _within(path: Path, name: Name, around: Flow, loaded: Collection[Path]) -> Path:
    """The place of ``path``, relative to the definition that names it."""
    folder = source_folder(around.source)
    notebook = notebook_folder.path.resolve()
    root = notebook if folder.is_relative_to(notebook) else folder
    try:
        why = refusal(folder / path, root)
        place = (folder / path).resolve()
        exists = place in loaded or place.is_file()
    except UNUSABLE as error:
        raise _file_error(
            "file.missing",
            f"{shorten(name.text)!r} cannot be the name of a file: {path_error_reason(error)}",
            name,
        ) from None
    if why == "outside":
        hint = "move the file into the notebook's folder, or below it"
        raise _file_error(
            "file.outside",
            f"{shorten(name.text)!r} is outside of the notebook's folder",
            name,
            hint,
        )
    if why == "protected":
        message = f"{shorten(name.text)!r} is protected"
        raise _file_error("file.protected", message, name, PROTECTED)
    if not exists:
        hint = "a path is relative to the file that names it"
        raise _file_error("file.missing", f"there is no file {shorten(name.text)!r}", name, hint)
    if place.stat().st_size > LARGEST:
        message = f"{shorten(name.text)!r} has more than {LARGEST // 10**6} MB"
        raise _file_error("file.protected", message, name)
    return place


def _function(find: Callable[[], ModuleType], function: str, name: Name) -> Tool:
    """A function of a Python file or an installed module as a tool, which is not registered."""
    if not current.settings.allow_import:
        message = f"{name.text!r} is not imported: a definition cannot run code by itself"
        raise _file_error(
            "file.import-off",
            message,
            name,
            f"{current.words.switch('allow_import')} allows it, or register the function with @tool",
        )
    try:
        value = getattr(find(), function)
    except BaseException as error:  # raised by user code
        raise _file_error(
            "file.import",
            f"{name.text!r} cannot be imported: {describe_exception(error)}",
            name,
        ) from error
    try:
        return make_tool(value, name_of(value, "tool", function), None, None, True, ())
    except (TypeError, ValueError) as error:
        raise _file_error("file.import", str(error), name) from None


def _module(name: str) -> ModuleType:
    with for_the_person():
        return importlib.import_module(name)


def _import_file(path: Path) -> ModuleType:
    """A Python file as a module."""
    spec = importlib.util.spec_from_file_location(f"agf_file_{path.stem}", path)
    assert spec is not None and spec.loader is not None, "a file that ends in .py has both"  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _file_error(code: str, message: str, name: Name, hint: str | None = None) -> DefinitionError:
    return DefinitionError(Diagnostic(code, message, name.span, hint))
