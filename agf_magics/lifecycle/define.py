"""Definitions: a text is loaded, checked and linked to a flow, and `define` registers it.

A definition names files: other definitions, and functions of Python files (decisions A5, A16, A20).
A path is relative to the file that names it, else to the notebook's folder, and may not leave that
folder. A Python file is imported only if the person allows it.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from ..catalog import Agent, Registry, Tool, Transform, default, make_tool
from ..catalog.tools import name_of
from ..engine.link import Files, link
from ..engine.linked import Linked, Person
from ..flow.schemas import Schema, check_schemas, resolve
from ..flow.steps import Definition, Flow, Name
from ..flow.values import TooDeep, Value, settle, type_name
from ..flow.wiring import check
from ..languages import LANGUAGES, Language, detect_language
from ..text.diagnostics import (
    UNUSABLE,
    DefinitionError,
    Diagnostic,
    Diagnostics,
    Source,
    path_error_reason,
    safe,
    share_suggestion_budget,
    source_folder,
    suggest,
)
from ..text.nodes import shorten
from .settings import current

FUNCTION = re.compile(r"(?P<path>.+\.py):(?P<function>[A-Za-z_]\w*)")
"""``tools.py:add``"""

MODULE = re.compile(r"(?P<module>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*):(?P<function>[A-Za-z_]\w*)")
"""``package.module:add``"""

LARGEST = 10_000_000
"""Bytes of a file that a definition names."""
DEFINITIONS = (".yaml", ".yml", ".json")
"""Suffixes of files of which an error may show a line."""

SWITCH = "%config AgfMagics.allow_import = True"


def file_opener(define: Callable[[Path], Flow], loaded: dict[Path, Flow]) -> Files:
    """A function that opens a file for the linker. ``define`` loads a definition; files in
    ``loaded`` are not read."""

    def opened(name: Name, around: Flow) -> Flow | Tool:
        if python := FUNCTION.fullmatch(name.text):
            path = _within(Path(python["path"]), name, around, loaded)
            return _function(partial(_imported, path), python["function"], name)
        if module := MODULE.fullmatch(name.text):
            find = partial(importlib.import_module, module["module"])
            return _function(find, module["function"], name)
        path = _within(Path(name.text), name, around, loaded)
        if path not in loaded:
            loaded[path] = in_file(_defined(path, name, define), str(path))
        return loaded[path]

    return opened


def in_file(flow: Flow, path: str) -> Flow:
    """``flow`` with the file that defines it."""
    return replace(flow, origin=flow.origin._replace(file=path))


def _defined(path: Path, name: Name, define: Callable[[Path], Flow]) -> Flow:
    """The definition in a file. An error about a file that is none shows no line of it: it may be
    any file of the folder, with a secret in it (decision D3)."""
    try:
        return define(path)
    except DefinitionError:
        if path.suffix.lower() in DEFINITIONS:
            raise
    hint = f"a definition is a file with the suffix {', '.join(DEFINITIONS)}"
    raise _refused(
        "file.not-a-definition", f"{shorten(name.text)!r} contains no definition", name, hint
    )


def _within(path: Path, name: Name, around: Flow, loaded: Collection[Path]) -> Path:
    """The place of ``path``, relative to the definition that names it."""
    folder = source_folder(around.source.name)
    root = Path.cwd().resolve() if folder.is_relative_to(Path.cwd().resolve()) else folder
    try:
        place = (folder / path).resolve()
        there = place in loaded or place.is_file()
    except UNUSABLE as error:
        raise _refused(
            "file.missing",
            f"{shorten(name.text)!r} cannot be the name of a file: {path_error_reason(error)}",
            name,
        ) from None
    if not place.is_relative_to(root):
        hint = "move the file into the notebook's folder, or below it"
        raise _refused(
            "file.outside",
            f"{shorten(name.text)!r} is outside of the notebook's folder",
            name,
            hint,
        )
    if any(part.startswith(".") for part in place.relative_to(root).parts):
        hint = "a definition cannot name a dot-file, or a file in a dot-folder"
        raise _refused("file.protected", f"{shorten(name.text)!r} is protected", name, hint)
    if not there:
        hint = "a path is relative to the file that names it"
        raise _refused("file.missing", f"there is no file {shorten(name.text)!r}", name, hint)
    if place.stat().st_size > LARGEST:
        message = f"{shorten(name.text)!r} has more than {LARGEST // 10**6} MB"
        raise _refused("file.protected", message, name)
    return place


def _function(find: Callable[[], ModuleType], function: str, name: Name) -> Tool:
    """A function of a Python file or an installed module as a tool, which is not registered."""
    if not current.settings.allow_import:
        message = f"{name.text!r} is not imported: a definition cannot run code by itself"
        raise _refused(
            "file.import-off",
            message,
            name,
            f"{SWITCH} allows it, or register the function with @tool",
        )
    try:
        value = getattr(find(), function)
    except BaseException as error:  # of user code
        raise _refused(
            "file.import",
            f"{name.text!r} cannot be imported: {type(error).__name__}: {error}",
            name,
        ) from error
    try:
        return make_tool(value, name_of(value, "tool", function), None, None, True, ())
    except (TypeError, ValueError) as error:
        raise _refused("file.import", str(error), name) from None


def _imported(path: Path) -> ModuleType:
    """A Python file as a module."""
    spec = importlib.util.spec_from_file_location(f"agf_file_{path.stem}", path)
    assert spec is not None and spec.loader is not None, "a file that ends in .py has both"  # noqa: PT018
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def _refused(code: str, message: str, name: Name, hint: str | None = None) -> DefinitionError:
    return DefinitionError(Diagnostic(code, message, name.span, hint))


class Defined(NamedTuple):
    """A definition that was loaded."""

    flow: Flow | None
    """None: the text declares only schemas."""
    schemas: Mapping[str, Schema]
    findings: tuple[Diagnostic, ...]
    """Warnings and notes, sorted by place. A problem that linking found is a warning here, and an
    error of a run (decision A5)."""


TEXT = "<text>"
"""The name of a text that comes from neither a cell nor a file, until its flow is known."""


def load(
    text: str | Path | Source,
    language: str | None = None,
    *,
    name: str | None = None,
    strict: bool = False,
    registry: Registry | None = None,
    latent: Collection[str] = (),
) -> Flow:
    """Load and check a definition, and return its flow without registering it.

    Parameters:

    - ``text``: the definition, or the `Path` of a file that contains it. Required.
    - ``language``: ``"pipeline"``, ``"policy"``, ``"plan"`` or ``"graph"``. Default None:
      recognised from the text, else ``"pipeline"``.
    - ``name``: the name of the flow. Default None: the name in the definition, else that of the
      file or the language.
    - ``strict``: whether warnings are errors. Default False.
    - ``registry``: the `Registry` to look names up in. Default None: the registry of this process.
    - ``latent``: names of further latent tools of a plan: tools that are never called. Default:
      none.

    Raises DefinitionError with everything that is wrong.
    """
    file, text = file_name(text), source_of(text)
    language = language or detect_language(text.text)
    defined = check_definition(
        text, language, strict=strict, registry=default(registry), latent=latent
    )
    flow = _flow_of(defined.flow, file or language, text)
    flow = replace(flow, name=_checked_name(name) or flow.name)
    _name_text(text, flow)
    return flow


def define(
    text: str | Path | Source,
    language: str | None = None,
    *,
    name: str | None = None,
    strict: bool = False,
    registry: Registry | None = None,
    latent: Collection[str] = (),
) -> Flow | None:
    """Load and check a definition, and register its flow and its schemas under their names.

    Parameters:

    - ``text``: the definition, or the `Path` of a file that contains it. Required.
    - ``language``: ``"pipeline"``, ``"policy"``, ``"plan"`` or ``"graph"``. Default None:
      recognised from the text, else ``"pipeline"``.
    - ``name``: the name of the flow. Default None: the name in the definition, else that of the
      file.
    - ``strict``: whether warnings are errors. Default False.
    - ``registry``: the `Registry` to register in. Default None: the registry of this process.
    - ``latent``: names of further latent tools of a plan: tools that are never called. Default:
      none.

    Returns the flow, or None if the text declares only schemas. Raises DefinitionError with
    everything that is wrong.
    """
    return register(text, language, name=name, strict=strict, registry=registry, latent=latent).flow


def register(
    text: str | Path | Source,
    language: str | None = None,
    *,
    name: str | None = None,
    strict: bool = False,
    registry: Registry | None = None,
    origin: str | None = None,
    latent: Collection[str] = (),
    given: Collection[str] = (),
) -> Defined:
    """`define` with its findings. ``origin``: the cell's id or the file; if another origin has
    defined the name, there is a note (decision A2)."""
    registry, file, text = default(registry), file_name(text), source_of(text)
    language = language or detect_language(text.text)
    defined = check_definition(
        text, language, strict=strict, registry=registry, latent=latent, given=given
    )
    notes, flow, name = list[Diagnostic](), defined.flow, _checked_name(name)
    if flow is not None:
        flow = replace(flow, name=name or flow.name or file or "")
        if not flow.name:
            raise DefinitionError(_nameless(flow))
    for schema in defined.schemas.values():
        if replaced := registry.schemas.define(schema, origin):
            notes.append(Diagnostic("schema.replaced", replaced, schema.span, severity="note"))
    if flow is not None:
        _name_text(text, flow)
        if replaced := registry.flows.define(flow, origin):
            notes.append(Diagnostic("flow.replaced", replaced, flow.origin.span, severity="note"))
    return Defined(flow, defined.schemas, (*defined.findings, *notes))


def _name_text(source: Source, flow: Flow) -> None:
    """Name a text after its flow: an error of a called flow must say which one it is in."""
    if source.name == TEXT:
        source.name = f"<text of {safe(shorten(' '.join(flow.name.split())))}>"


def _nameless(flow: Flow) -> Diagnostic:
    hint = f"write %%{flow.language} NAME; in Python: define(…, name='NAME')"
    return Diagnostic("define.no-name", f"this {flow.language} has no name", flow.origin.span, hint)


def find_problems(
    source: Source,
    language: str,
    *,
    name: str | None,
    registry: Registry,
    latent: Collection[str] = (),
    given: Collection[str] | None = (),
) -> list[Diagnostic]:
    """The findings of `register` for a text that is still written. Nothing is registered, no file
    is read and no code of a user is called. ``given``: as in `check_definition`; None if it is not
    known."""
    try:
        flow, schemas, problems = _checked(source, language, latent)
    except DefinitionError as error:
        return list(error.diagnostics)
    _check_refs(schemas, registry, problems)
    if flow is not None:
        with share_suggestion_budget():
            problems.extend(link(flow, registry, passive=True)[1])
        if not (name or flow.name):
            problems.add(_nameless(flow))
    return list(problems.without(UNLESS_GIVEN) if given is None else for_input(problems, given))


def _checked_name(name: str | None) -> str | None:
    """The name that was given; None if none was."""
    if name is not None and not (isinstance(name, str) and name.strip()):
        raise DefinitionError(
            Diagnostic("define.no-name", f"the name of a flow must be text, not {name!r}")
        )
    return name


def check_definition(
    source: Source,
    language: str,
    *,
    strict: bool,
    registry: Registry,
    latent: Collection[str] = (),
    given: Collection[str] = (),
) -> Defined:
    """Load, check and link a definition, registering nothing. ``given``: the names of the input of
    a run that follows. Raises DefinitionError with everything that is wrong."""
    flow, schemas, problems = _checked(source, language, latent)
    _check_refs(schemas, registry, problems)
    if flow is not None:
        for problem in link_flow(flow, registry)[1]:
            problems.add(
                replace(problem, severity="warning") if problem.severity == "error" else problem
            )
    findings = Diagnostics()
    findings.extend(for_input(problems, given))
    findings.refuse(strict)
    return Defined(flow, schemas, tuple(findings))


def _check_refs(schemas: Mapping[str, Schema], registry: Registry, problems: Diagnostics) -> None:
    """Check the schemas of a text with those to which they refer: a schema of another cell may
    close a circle."""
    if not schemas:
        return
    used, _ = resolve(schemas, {**registry.schemas, **schemas})
    if len(used) > len(schemas):  # the language has checked those of the text alone
        check_schemas(used, problems)


UNLESS_GIVEN = "pipeline.template-name"
"""The code of a warning about the name at its place, which is void if the input has that name."""


def for_input(findings: Iterable[Diagnostic], given: Collection[str]) -> Iterator[Diagnostic]:
    """The findings that remain when the input has these names."""
    for finding in findings:
        if finding.code != UNLESS_GIVEN or finding.span is None:
            yield finding
        elif finding.span.text not in given:
            yield replace(finding, hint=suggest(finding.span.text, given) or finding.hint)


def _checked(
    source: Source, language: str, latent: Collection[str] = ()
) -> tuple[Flow | None, Mapping[str, Schema], Diagnostics]:
    problems = Diagnostics()
    with share_suggestion_budget():
        definition = load_definition(source, language, problems, latent)
        flow = definition.flow
        if flow is not None:
            flow, findings = check(flow)
            told = {problem.span for problem in problems}  # by the language, which knows more
            problems.extend(finding for finding in findings if finding.span not in told)
    problems.refuse()
    if flow is not None:
        # These depend only on the text. Problems that linking finds depend on the registry, which
        # later cells change.
        flow = replace(flow, warnings=tuple(problems))
    return flow, definition.schemas, problems


def load_definition(
    source: Source, language: str, problems: Diagnostics, latent: Collection[str] = ()
) -> Definition:
    """The definition in a text. Raises DefinitionError for a wrong ``latent``."""
    reader = language_of(language)
    if not latent:
        return reader.load(source, problems, current.settings.bounds)
    if isinstance(latent, str) or not all(
        isinstance(name, str) and name.strip() for name in latent
    ):
        message, hint = "latent must be a list of names of tools", "latent=['think']"
        raise DefinitionError(Diagnostic("define.latent", message, hint=hint))
    if reader.latent is None:
        message, hint = f"a {language} has no latent tools", "latent= is for plans"
        raise DefinitionError(Diagnostic("define.latent", message, hint=hint))
    return reader.latent(source, problems, current.settings.bounds, latent)


def findings_before_run(defined: Defined, registry: Registry) -> tuple[Diagnostic, ...]:
    """The findings of a definition that is run at once, without the errors of that run."""
    if defined.flow is None:
        return defined.findings
    refusing = {(error.code, error.span) for error in link_flow(defined.flow, registry)[1].errors}
    return tuple(
        finding for finding in defined.findings if (finding.code, finding.span) not in refusing
    )


def link_flow(flow: Flow, registry: Registry) -> tuple[Linked, Diagnostics]:
    """Link ``flow`` with the registry and with the files that it names.

    A flow that is run again is linked again only if the registry has changed: linking takes a third
    of a short run.
    """
    version = registry.version  # before: another thread may register now
    cached: Linked | None = flow.linked.get(version)
    if cached is not None:
        return cached, Diagnostics()
    files, opened = file_opener(_of_file, {}), list[Name]()

    def open_file(name: Name, around: Flow) -> Flow | Tool:
        opened.append(name)
        return files(name, around)

    with share_suggestion_budget():
        linked, problems = link(flow, registry, open_file)
    if not opened and not any(problems) and _depends_on_names(linked):
        flow.linked.clear()
        flow.linked[version] = linked
    return linked, problems


def _depends_on_names(linked: Linked) -> bool:
    """Whether linking it again gives the same if all names mean the same: it has no model, whose
    settings may change, and no policy, whose function may return something else."""
    return linked.agent is None and all(
        _depends_on_names(callee)
        if isinstance(callee, Linked)
        else isinstance(callee, (Tool, Agent, Transform, Person))
        for callee in linked.callees.values()
    )


def _of_file(path: Path) -> Flow:
    """The flow of a file. The caller links it, and finds cycles of files."""
    source = source_of(path)
    language = detect_language(source.text)
    return _flow_of(_checked(source, language)[0], file_name(path) or language, source)


def _flow_of(flow: Flow | None, name: str, source: Source) -> Flow:
    """The flow of a definition, with ``name`` if it has no own. Raises DefinitionError if there are
    only schemas."""
    if flow is not None:
        # A context has a name of the document's: two texts without a name do not share one.
        if flow.name:
            return flow
        dialect = flow.dialect
        return replace(flow, name=name, dialect=replace(dialect, context=dialect.context or None))
    hint = "write a document with pipeline: and steps:"
    raise DefinitionError(
        Diagnostic("pipeline.no-pipeline", "there is no pipeline here", source.span(0, 0), hint)
    )


_READS_MESSAGES = frozenset({"reference"})
"""The expression languages whose context may be a list of messages."""


def evaluate(language: str, expression: str, context: Value) -> Value:
    """Return the value of one expression.

    Parameters:

    - ``language``: the expression language: ``"r1"``, ``"path"``, ``"reference"``, ``"value"`` or
      ``"condition"``. Required.
    - ``expression``: the text of the expression. Required.
    - ``context``: the value that the expression reads. Required. For ``r1`` it is a mapping of root
      names, for ``path`` ``{"parent": {"input": …}, alias: {"input": …, "output": …}}``, for
      ``value`` and ``condition`` the state of a graph.

    Raises DefinitionError if the expression is malformed, and StepError if it fails on its data.
    """
    parsers = {
        name: parse for lang in LANGUAGES.values() for name, parse in lang.expressions.items()
    }
    if language not in parsers:
        hint = suggest(language, parsers, "expression languages")
        raise DefinitionError(
            Diagnostic("evaluate.language", f"unknown expression language {language!r}", hint=hint)
        )
    if not isinstance(expression, str):
        raise TypeError(f"an expression must be text, not {type_name(expression)}")
    parsed = parsers[language](Source("<expression>", expression).span())
    try:
        frame = settle(context)
    except TooDeep as error:
        raise DefinitionError(
            Diagnostic("run.input", f"the context cannot be used: {error}")
        ) from None
    if (
        not isinstance(frame, dict) and language not in _READS_MESSAGES
    ):  # which checks its context itself
        message = f"the context of an expression must be a mapping, not {type_name(frame)}"
        raise DefinitionError(Diagnostic("run.input", message))
    return parsed.evaluate(frame)


_FILE_NAME = re.compile(r"[^\n:{}]+\.(?:yaml|yml|json)", re.ASCII)


def source_of(text: str | Path | Source) -> Source:
    """The source of a definition. Raises DefinitionError if its file cannot be read."""
    if isinstance(text, Source):
        return text
    if isinstance(text, Path):
        try:
            return Source(str(text), text.read_bytes().decode("utf-8"))
        except UNUSABLE as error:
            raise DefinitionError(
                Diagnostic("define.file", f"{text} cannot be read: {path_error_reason(error)}")
            ) from None
    if not isinstance(text, str):
        raise TypeError(
            f"a definition must be text or the Path of a file, not {type_name(text)}; "
            f"json.dumps(…) makes text of a dict"
        )
    if _FILE_NAME.fullmatch(text):
        hint = f"give a file as a Path: Path({text!r})"
        raise DefinitionError(Diagnostic("define.file", f"{text!r} is text", hint=hint))
    return Source(TEXT, text)


def file_name(text: str | Path | Source) -> str | None:
    """The name of a definition without one, from its file: ``article`` for
    ``team/article.agf.yaml``."""
    return text.name.split(".")[0] or None if isinstance(text, Path) else None


def language_of(name: str) -> Language:
    if name not in LANGUAGES:
        hint = suggest(name, LANGUAGES, "languages")
        raise DefinitionError(
            Diagnostic("define.language", f"unknown language {name!r}", hint=hint)
        )
    return LANGUAGES[name]
