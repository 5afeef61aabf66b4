"""Adds functions and modules to a digest: their code, and everything of the notebook that the code
names.

The digest of a function covers its code, constants, defaults and closure, and all functions,
classes and plain values of the notebook that it names, directly or indirectly. An object of an
installed package counts as the package's name and version. File names and line numbers do not
count, so a cell can be moved or run again. A method, a builtin or a partial counts as its function
and the objects that it holds. Any other object has no digest, and a call without a digest is never
reused.
"""

from __future__ import annotations

import functools
import gc
import re
import sys
import types
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ForwardRef, Literal, get_args, get_origin

from .code_names import CodeNames, Text, names_of, texts_in, words_in, words_of_text
from .digest import CACHED_FUNCTION, CODE, Digest, NoDigest, add_parts, is_constant
from .origins import find_installed, is_ours, is_put_there, version_of
from .places import Place, in_cell, in_names

LARGEST_MODULE = 10_000_000
"""The largest number of bytes in the file of a notebook's module. A larger module has no digest."""

ITS_CODE = "its code"
"""The name of the part for the function's own code."""

_READS_ANYTHING = frozenset({"globals", "eval", "exec", "__import__"})
"""Functions that read globals without naming them."""

_FRAMES = frozenset(
    {"__globals__", "f_globals", "f_locals", "_getframe", "currentframe", "user_ns"}
)
"""Attributes and functions that lead to all globals."""

_PACKAGE = __name__.partition(".")[0]

_LAUNCHES = frozenset(
    {
        *("run", "arun", "start", "rerun", "resume", "evaluate", "find_flow", "registry"),
        *("check_over", "score_over", "run_planner", "agent_tools", "launch_tools"),
        *("run_pipeline", "run_pipeline_async"),
        *("run_pipeline_inline", "run_pipeline_inline_async"),
    }
)
"""Functions of this package that run flows, whose definitions and tools may be edited."""

_RUNS_A_FLOW = "it runs a flow, which may be edited"


@add_parts.register
def _add_function(function: types.FunctionType, digest: Digest) -> None:
    """Add the code of a function, its defaults, and everything that it names."""
    # Take the module of the code, because a decorator may have changed ``__module__``.
    is_installed = not is_ours(str(function.__globals__.get("__name__")))
    _check_launch(str(function.__module__), {function.__name__})
    if is_installed and _is_the_packages(function):
        add_installed(digest, function.__module__, function.__qualname__)
        return
    owner = f"{function.__module__}.{function.__qualname__}"
    if digest.is_state:
        digest.add_code(function, owner)
        return
    names = names_of(function)
    if digest.places is not None:
        digest.places.bound |= names.bound
    if is_installed:
        add_installed(digest, function.__globals__["__name__"], function.__qualname__)
    # A function of the notebook inside of a package's decorator counts.
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        digest.add_place(Place(name, f"{owner}.{name}", cell, name, in_cell(cell)))
    if is_installed:
        return
    with digest.part(ITS_CODE):
        _add_code(digest, function.__code__)
        objects = list(_add_defaults(digest, function, owner))
        add_annotations(digest, function.__annotations__, function.__globals__)
    for place in objects:
        digest.add_place(place)
    attributes = function.__dict__
    shared = "<locals>" not in owner
    for name in sorted(attributes):
        shown = f"{function.__name__}.{name}"
        look = in_names(attributes, name)
        digest.add_place(Place(shown, f"{owner}.{name}", function, name, look, shared=shared))
    _add_named(digest, function, names)


def _add_named(digest: Digest, function: types.FunctionType, names: CodeNames) -> None:
    """Add the globals that a function names, the modules that it imports, and the attributes that
    it reads of them."""
    words = words_in(function.__code__)
    is_hidden = not _FRAMES.isdisjoint(words) or not _READS_ANYTHING.isdisjoint(names.read)
    if "import_module" in words or is_hidden:
        raise NoDigest("it reads globals without naming them")
    variables = function.__globals__
    modules = _add_globals(digest, variables, names.read)
    modules += _add_imports(digest, names.imported)
    for module in modules:
        _check_launch(module.__name__, words)
    _add_attributes(digest, modules, words)
    if digest.places is not None:
        digest.places.texts += names.texts
        digest.places.readers |= names.readers
        digest.places.globals[id(variables)] = variables
    elif names.readers:
        raise NoDigest("the words of its texts may be names")


def _add_globals(
    digest: Digest, variables: dict[str, Any], names: Iterable[str]
) -> list[types.ModuleType]:
    """Add the globals with these names, and return the modules among them."""
    modules = []
    for name in names:
        place = _global(variables, name, name)
        value = variables.get(name)
        if isinstance(value, types.ModuleType):
            _add_module_at(digest, place, value)
            modules.append(value)
        elif name in variables:
            digest.add_place(place)
    return modules


def _check_launch(module: str, words: Iterable[str]) -> None:
    """Raise NoDigest if one of ``words`` is a function of this package that runs flows."""
    if module.partition(".")[0] == _PACKAGE and not _LAUNCHES.isdisjoint(words):
        raise NoDigest(_RUNS_A_FLOW)


def add_named_in_texts(digest: Digest) -> bool:
    """Add the globals that the texts of the functions name, if a function of a library looks them
    up. Return whether there are new ones."""
    places = digest.places
    if places is None or not places.readers:
        return False
    values = [value for _, value in places.constants]
    values += (place.look() for place in places.objects.values())
    words = set[str]()
    for text in (*places.texts, *map(Text, texts_in(values))):
        words |= words_of_text(text, places.readers)
    is_new = False
    for variables in list(places.globals.values()):
        for name in sorted(words & variables.keys()):
            if (id(variables), name) not in places.named_in_texts:
                places.named_in_texts.add((id(variables), name))
                if _may_be_read(variables[name]):
                    _add_globals(digest, variables, (name,))
                    is_new = True
    return is_new


def _may_be_read(value: Any) -> bool:
    """Whether a text may mean this global: no installed module, and no object of this package."""
    if isinstance(value, types.ModuleType):
        return is_ours(value.__name__)
    return type(value).__module__.partition(".")[0] != _PACKAGE


def _is_the_packages(function: types.FunctionType) -> bool:
    """Whether an installed module has this function under its name, so that the package's version
    identifies it. This includes functions from decorators, whose closures cannot be compared."""
    if find_installed(function) is None:
        return False
    return not any(is_put_there(in_cell(cell)()) for cell in function.__closure__ or ())


def _add_defaults(digest: Digest, function: types.FunctionType, owner: str) -> Iterator[Place]:
    """Add the constant defaults. Returns the places of other defaults, which all calls share."""
    code = function.__code__
    defaults = function.__defaults__ or ()
    names = code.co_varnames[code.co_argcount - len(defaults) : code.co_argcount]
    values = {**dict(zip(names, defaults, strict=True)), **(function.__kwdefaults__ or {})}
    for name, value in values.items():
        digest.add("default", name)
        if digest.places is None or isinstance(value, CODE) or is_constant(value):
            digest.add_value(value)
        else:
            yield Place(name, f"{owner}({name})", function, f"({name})", in_names(values, name))


def _global(names: dict[str, Any], name: str, shown: str) -> Place:
    """The place of the global ``name``. ``shown``: its name for a person."""
    key = f"{names.get('__name__')}.{name}"
    return Place(shown, key, names, name, in_names(names, name), shared=True)


def _add_module_at(digest: Digest, place: Place, module: types.ModuleType) -> None:
    if digest.places is not None:
        digest.places.add(place, module, "code")
    with digest.part(place.name):
        _add_named_module(digest, module)


def add_annotations(
    digest: Digest, annotations: Mapping[str, Any], variables: Mapping[str, Any]
) -> None:
    """Add the annotations of a function or a class, because values are converted to their types.
    ``variables``: the globals that their texts name."""
    for name, kind in annotations.items():
        digest.add("annotation", name)
        digest.add_value(kind)
        texts = " ".join(_texts_of(kind))
        for word in dict.fromkeys(re.findall(r"[^\W\d]\w*", texts)):
            value = variables.get(word)
            if isinstance(value, types.ModuleType):
                _add_named_module(digest, value)
            elif value is not None:
                digest.add("named", word)
                digest.add_value(value)


def _texts_of(kind: Any) -> Iterator[str]:
    """The texts in an annotation that stand for types: ``"Item"``, ``list["Item"]``."""
    if isinstance(kind, str):
        yield kind
    elif isinstance(kind, ForwardRef):
        yield kind.__forward_arg__
    elif isinstance(kind, list):  # the parameters of a Callable
        for part in kind:
            yield from _texts_of(part)
    elif get_origin(kind) is not Literal:
        of_types = 1 if get_origin(kind) is Annotated else None
        for part in get_args(kind)[:of_types]:
            yield from _texts_of(part)


def _add_imports(digest: Digest, names: Iterable[str]) -> Iterator[types.ModuleType]:
    """Add the modules that a function's body imports, and yield those that are loaded."""
    for name in names:
        module = sys.modules.get(name)
        with digest.part(name):
            if module is not None:
                _add_named_module(digest, module)
            elif not add_installed(digest, name, ""):
                raise NoDigest
        if module is not None:
            yield module


def _add_attributes(digest: Digest, modules: list[types.ModuleType], words: frozenset[str]) -> None:
    """Add the attributes of the notebook's modules that a function names, with their current
    values."""
    seen = set[int]()
    while modules:
        module = modules.pop()
        if id(module) in seen:
            continue
        seen.add(id(module))
        for word in sorted(words & vars(module).keys()):
            value = vars(module)[word]
            if is_ours(module.__name__) or is_put_there(value):
                place = _global(vars(module), word, f"{module.__name__}.{word}")
                if isinstance(value, types.ModuleType):
                    _add_module_at(digest, place, value)
                    modules.append(value)
                else:
                    digest.add_place(place)


def _add_code(digest: Digest, code: types.CodeType) -> None:
    digest.add("code", code.co_code)
    digest.add("raises", code.co_exceptiontable)
    shape = (code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount, code.co_flags)
    digest.add_all(
        "names", (*shape, *code.co_names, *code.co_varnames, *code.co_freevars, *code.co_cellvars)
    )
    digest.add("constants", str(len(code.co_consts)))
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            _add_code(digest, constant)
        else:
            digest.add_value(constant)


@add_parts.register
def _add_module(module: types.ModuleType, digest: Digest) -> None:
    """Add a module that is a value. A notebook's module has no digest, because any attribute may be
    read."""
    if sys.modules.get(module.__name__) is not module or not add_installed(
        digest, module.__name__, ""
    ):
        raise NoDigest


def _add_named_module(digest: Digest, module: types.ModuleType) -> None:
    """Add a module that a function names; `_add_attributes` adds what the function reads of it."""
    if sys.modules.get(module.__name__) is not module:
        raise NoDigest
    if add_installed(digest, module.__name__, ""):
        return
    path = Path(getattr(module, "__file__", None) or "")  # empty for a module that code made
    if not path.is_file() or path.stat().st_size > LARGEST_MODULE:
        raise NoDigest
    digest.add("module", path.read_bytes())


def add_installed(digest: Digest, module: str | None, name: str) -> bool:
    """Add the version of an installed package; return whether the module belongs to one."""
    if module is None or is_ours(module):
        return False
    digest.add("installed", f"{module}.{name} {version_of(module)}")
    return True


@add_parts.register
def _add_method(method: types.MethodType, digest: Digest) -> None:
    if (installed := find_installed(method)) is not None:
        digest.add("installed", installed)
        return
    digest.add_value(method.__func__)
    _add_held(digest, method, "its object", method.__self__)


@add_parts.register(types.BuiltinFunctionType)
@add_parts.register(types.MethodWrapperType)
def _add_builtin(function: Any, digest: Digest) -> None:
    owner = getattr(function, "__self__", None)
    module = getattr(function, "__module__", None) or ""
    if owner is None or isinstance(owner, types.ModuleType):
        digest.add("builtin", f"{module}.{function.__qualname__} {version_of(module)}")
    elif (installed := find_installed(function)) is not None:
        digest.add("installed", installed)
    else:
        digest.add("builtin method", function.__qualname__)
        _add_held(digest, function, "its object", owner)


@add_parts.register(CACHED_FUNCTION)
def _add_cached(cached: Any, digest: Digest) -> None:
    """Add a function with a cache of its results. The results that are in the cache do not
    count."""
    function = cached.__wrapped__
    # `functools.wraps` may have put another function there.
    if not any(referent is function for referent in gc.get_referents(cached)):
        raise NoDigest
    digest.add_all("cached", (function, cached.cache_parameters()))


@add_parts.register(functools.partial)
def _add_partial(partial: functools.partial[Any], digest: Digest) -> None:
    if type(partial) is not functools.partial:
        raise NoDigest
    if (installed := find_installed(partial)) is not None:
        digest.add("installed", installed)
        return
    numbered = {str(place): value for place, value in enumerate(partial.args)}
    values = {**numbered, **partial.keywords, **vars(partial)}
    digest.add("partial", f"{len(partial.args)} {list(partial.keywords)} {list(vars(partial))}")
    digest.add_value(partial.func)
    for name, value in values.items():
        _add_held(digest, partial, name, value)


def _add_held(digest: Digest, holder: Any, name: str, value: Any) -> None:
    """Add ``value``, an object that a method or a partial holds."""
    if digest.is_state or is_constant(value):
        digest.add_value(value)
        return
    owner = f"{getattr(holder, '__module__', '')}.{getattr(holder, '__qualname__', 'partial')}"
    digest.add_place(Place(name, f"{owner}.{name}", holder, f"({name})", lambda: value))
