"""Checks the arguments of a call against the parameters of its function."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ...schemas.patterns import unusable
from ...text.diagnostics import Diagnostic
from ...text.raised import describe_exception, is_a, kind_of
from ...text.suggestions import suggest
from ...values.unread import Unread
from ...values.value import Value, is_json
from .callables import EXTRAS, names_around, options_of, routine_of, signature_of
from .context import is_context

if TYPE_CHECKING:
    from .annotations import ArgumentsModel


def errors_of(error: BaseException) -> list[Any]:
    """pydantic's list of problems in ``error``; empty for the error of a validator in a user's
    class."""
    from .annotations import ValidationError  # already loaded by its validator

    return list(error.errors(include_url=False)) if is_a(error, ValidationError) else []


class Arguments:
    """The parameters of a function, against which the arguments of calls are checked. Their
    pydantic model is built at first use."""

    def __init__(
        self,
        function: Callable[..., Any],
        owner: str,
        *,
        secret: Collection[str] = (),
        unchecked: Collection[str] = (),
    ) -> None:
        """``function``: the function that the user registered. ``owner``: the subject of errors,
        ``tool 'fetch'``. ``secret``: the parameters whose values are never shown. ``unchecked``:
        the parameters whose annotations are not checked."""
        self.function = function
        self._owner = owner
        self._routine = routine_of(function)
        self._code = getattr(self._routine, "__code__", None)
        """The code of the function when its parameters were read; None: it has none."""
        self._refused: tuple[Diagnostic, ...] = ()
        self._model: ArgumentsModel | None = None
        self.signature = signature_of(function)
        """The signature of the function; None: unknown."""
        self.parameters: dict[str, inspect.Parameter] = {}
        self.more = self.signature is None
        """Whether the function accepts other names, too."""
        self.starred = ""
        """The name of ``**options``, which is no argument; empty: there is none."""
        self._extras: inspect.Parameter | None = None
        """The parameter ``**options: T``, whose annotation all other arguments have; None: there is
        none, or it has no annotation."""
        self.context: tuple[str, ...] = ()
        """The parameters that get a `ToolContext`; `validate` does not know them."""
        if self.signature is not None:
            self._sort_parameters(self.signature)
        self._unchecked = frozenset(unchecked)
        self._leaving: dict[frozenset[str], Arguments] = {}
        """The models that leave parameters unchecked, by these parameters."""
        self.secret = frozenset(secret)

    def _sort_parameters(self, signature: inspect.Signature) -> None:
        """Tell the parameters that a call passes from those that get a context and from others.
        Raises ValueError for a parameter that nothing could be passed to."""
        starred = ""
        names = names_around(self.function)
        for name, parameter in signature.parameters.items():
            if parameter.kind is parameter.VAR_KEYWORD:
                self.starred = name
                options = options_of(parameter, names)
                self.more = options is None
                self.parameters.update(options or {})
                if self.more and parameter.annotation is not parameter.empty:
                    self._extras = parameter
            elif parameter.kind is parameter.VAR_POSITIONAL:
                starred = name
            elif is_context(parameter.annotation, names):
                self.context = (*self.context, name)
            else:
                self.parameters[name] = parameter
        if starred and not self.more:
            raise ValueError(
                f"{self._owner} cannot have *{starred}: arguments are passed by name, so write "
                f"{starred}: list"
            )

    def validate(self, arguments: dict[str, Value]) -> dict[str, Value]:
        """The checked arguments. Raises pydantic's ValidationError, which `explain` turns into a
        diagnostic."""
        # Not `_read`, which would build a model with undefined names again.
        model = self._model if self._model is not None else self._read()
        return model.validate(arguments)

    @property
    def are_current(self) -> bool:
        """Whether the function still has the code from which the parameters were read."""
        return getattr(self._routine, "__code__", None) is self._code

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON Schema of the arguments."""
        return self._read().schema

    @property
    def optional(self) -> Collection[str]:
        """The arguments that a call may leave out, also by a default in their annotation."""
        return self._read().optional

    @property
    def problems(self) -> tuple[str, ...]:
        """The annotations that cannot be used. Their arguments are not checked."""
        return self._read().doubts

    @property
    def refused(self) -> tuple[Diagnostic, ...]:
        """The errors for patterns of annotations that cannot be used (decision D5)."""
        self._read()
        return self._refused

    @property
    def takes(self) -> str:
        """The arguments in one line: ``name (text), limit (number, optional)``."""
        from .argument_errors import takes

        return takes(self.schema)

    @property
    def defaults(self) -> dict[str, Value]:
        """The JSON that the function gets for arguments that a call leaves out, without secrets."""
        return {
            name: parameter.default
            for name, parameter in self.parameters.items()
            if name not in self.secret and is_json(parameter.default)
        }

    @cached_property
    def gives(self) -> dict[str, Any] | None:
        """The JSON Schema of the result; None if the result has no annotation or is not JSON."""
        if self.signature is None or self.signature.return_annotation is inspect.Signature.empty:
            return None
        from .annotations import schema_of

        return schema_of(self.signature.return_annotation, names_around(self.function))

    def wrong_names(self, error: BaseException) -> frozenset[str]:
        """The names of the arguments in ``error``, which `validate` raised."""
        return frozenset(str(e["loc"][0]) for e in errors_of(error) if e["loc"])

    def refused_literal(self, code: str, owner: str, name: str, value: Value) -> Diagnostic | None:
        """What is wrong with ``value`` as the argument ``name``; None: nothing that is known without
        code of a user."""
        model = self._read()
        if (name if name in self.parameters else EXTRAS) not in model.of_json:
            return None
        try:
            self.validate({name: value})
        except ValueError as error:  # pydantic's; other arguments may be missing in it
            errors = [e for e in errors_of(error) if e["loc"][:1] == (name,)]
            return self._explain(code, owner, errors, {name: value}) if errors else None
        return None

    def explain(
        self, code: str, owner: str, error: BaseException, arguments: Mapping[str, Value]
    ) -> Diagnostic:
        """The diagnostic with all mistakes in ``arguments``. ``error``: raised by `validate`."""
        errors = errors_of(error)
        if not errors:  # a validator in a user's class raised another error
            why = kind_of(error) if self.secret else describe_exception(error)
            return Diagnostic(code, f"{owner} cannot check its arguments: {why}")
        return self._explain(code, owner, errors, arguments)

    def _explain(
        self, code: str, owner: str, errors: Sequence[Any], arguments: Mapping[str, Value]
    ) -> Diagnostic:
        hints = [
            suggest(error_part["loc"][0], self.parameters)
            for error_part in errors
            if error_part["type"] == "extra_forbidden" and len(error_part["loc"]) == 1
        ]
        if any(error_part["type"] in ("extra_forbidden", "missing") for error_part in errors):
            hints.append(f"it takes {self.takes}")
        plain = arguments.keys() - self.secret
        hints += [
            _quote_hint(arguments[name], error_part["type"])
            or _choice_hint(arguments[name], error_part)
            for error_part in errors
            if (name := error_part["loc"][0]) in plain
        ]
        hint = " ".join(dict.fromkeys(filter(None, hints))) or None
        from .argument_errors import faults

        return Diagnostic(
            code, f"{owner} {'; '.join(faults(errors, arguments, self.secret))}", hint=hint
        )

    def validate_unread(self, arguments: dict[str, Value]) -> dict[str, Value] | None:
        """`validate` for arguments of which some are unread; None: the check needs these values.
        Raises as `validate` does."""
        as_is = self._read().as_is
        unread = {name: value for name, value in arguments.items() if type(value) is Unread}
        if any(as_is.get(name) not in ("", value.kind) for name, value in unread.items()):
            return None
        return self._leave(frozenset(unread)).validate(arguments)

    def validate_changed(
        self, arguments: dict[str, Value], changes: Mapping[str, Value]
    ) -> dict[str, Value]:
        """`validate` for checked arguments of which some are replaced by ``changes``. The others are
        not checked again: a check may convert a value a second time. Raises as `validate` does."""
        kept = frozenset(arguments.keys() - changes.keys())
        return self._leave(kept).validate({**arguments, **changes})

    def _leave(self, names: frozenset[str]) -> Arguments:
        """These arguments without the check of the parameters ``names``."""
        if names not in self._leaving:
            hidden, unchecked = self.secret, self._unchecked | names
            self._leaving[names] = Arguments(
                self.function, self._owner, secret=hidden, unchecked=unchecked
            )
        return self._leaving[names]

    def _read(self) -> ArgumentsModel:
        """The model of the parameters. If a name was undefined, it is built again, because a later
        cell may have defined it."""
        if self._model is None or self._model.unresolved:
            from .annotations import build

            checked = {
                name: parameter.replace(annotation=Any) if name in self._unchecked else parameter
                for name, parameter in self.parameters.items()
            }
            if self._extras is not None:
                # One that is not checked again has a field of its own.
                kept = self._unchecked - self.parameters.keys()
                checked.update(dict.fromkeys(kept, self._extras.replace(annotation=Any)))
                checked[EXTRAS] = self._extras
            self._model = build(checked, self.more, names_around(self.function), self.secret)
            self._refused = unusable(self._model.schema, self._owner)
        return self._model


def _without_zeros(number: str) -> str:
    return re.sub(r"^(-?)0+(?=[0-9])", r"\1", number, flags=re.ASCII)


def _quote_hint(value: Value, error_kind: str) -> str | None:
    """The hint for a value that YAML reads differently than its author meant. ``error_kind``: the
    type of pydantic's error."""
    is_number = isinstance(value, str) and value.replace(".", "", 1).lstrip("-").isdecimal()
    if is_number and error_kind.startswith(("int_", "float_")):
        # YAML and `--set` read a number that begins with a zero as text.
        return f"write {_without_zeros(value)}, without quotes"
    if (
        isinstance(value, dict)
        and list(value.values()) == [None]
        and error_kind.startswith("string_")
    ):
        return f"write {next(iter(value))}, without braces"
    return None


def _choice_hint(value: Value, error: Mapping[str, Any]) -> str | None:
    """The choice of a literal or an enum that a text was probably meant as. ``error``: pydantic's."""
    if not isinstance(value, str) or error["type"] not in ("literal_error", "enum"):
        return None
    choices = re.findall(r"'([^']*)'", str((error.get("ctx") or {}).get("expected", "")))
    return suggest(value, choices) if choices else None
