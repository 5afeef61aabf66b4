"""Evaluates an R1 expression for a person, with the person's values."""

from __future__ import annotations

from ...languages import LANGUAGES
from ...text.diagnostics import DefinitionError, Diagnostic
from ...text.source import Source
from ...text.suggestions import suggest
from ...values.extent import TooDeep
from ...values.value import Value, settle, type_name

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
    ):  # `reference` checks its context itself
        message = f"the context of an expression must be a mapping, not {type_name(frame)}"
        raise DefinitionError(Diagnostic("run.input", message))
    return parsed.evaluate(frame)
