"""Checks a model's reply as a plan, and refuses it with all reasons, which the model gets next.

Each call is checked by the schema of the tool that it names. With an ``anyOf`` of all tools, the
error for a missing argument would often describe another tool.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ...catalog import Registry, parse_json_reply
from ...flow.flow import Flow
from ...languages.plan import Log
from ...languages.plan.calls import Call, expressions
from ...languages.plan.load import PlanDialect
from ...languages.plan.log.reference import Reference, references
from ...languages.plan.scheduling.scheduler import PlanScheduler
from ...schemas.json_schema import judge
from ...schemas.violations import describe_all
from ...text.diagnostics import DefinitionError, Diagnostic, Diagnostics, StepError
from ...text.source import Source, Span
from ...text.suggestions import suggest
from ...text.yaml.nodes import Fields, Items, Node
from ...text.yaml.reader import documents
from ...values.value import Value, type_name
from ..definitions.define import load
from .offer import MOST_PLAN_CALLS, REFERENCE, PlanOffer
from .ticks import PlannedTick

LONGEST_REPLY: Final = 200_000
"""Characters of a reply, as JSON."""
MOST_REASONS: Final = 10
"""Reasons that a refusal gives."""
READ_ONLY: Final = ("input", "error")
"""The kinds of messages that a model cannot write: the task's data, and the record of failures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyReader:
    """Reads the replies of one tick."""

    name: str
    """The name of the tick in messages: ``tick 2``."""
    offer: PlanOffer
    registry: Registry
    log: Log
    """The context that the plan continues."""
    confirm: bool | Sequence[str] = False
    """The tools whose calls a person must approve; True: all."""
    secret: frozenset[str] = frozenset()
    """The secret fields of the input."""

    def check(self, answer: Value) -> Value:
        """The reply as JSON. Raises StepError ``planner.reply`` with all reasons against it."""
        reply = self._parse(answer)
        self.read(reply)
        return reply

    def read(self, reply: Value) -> PlannedTick:
        """The plan in a reply that is JSON. Raises StepError ``planner.reply``."""
        text = json.dumps(reply, ensure_ascii=False, indent=1)
        if len(text) > LONGEST_REPLY:
            size = f"{len(text):,} characters"
            message = f"the reply has {size}, and a plan has at most {LONGEST_REPLY:,}"
            hint = "plan fewer calls, and pass large values by reference"
            raise self._refusal(message, text, hint)
        source = Source(self.name, text)
        problems = Diagnostics()
        nodes = documents(source, problems)
        if problems.errors:
            message = f"the reply cannot be read: {problems.errors[0].message}"
            raise self._refusal(message, text, "plan fewer calls, with simpler values")
        self._refuse(self._violations(reply, nodes[0]))
        assert isinstance(reply, dict), "its violations were checked"
        return self._load_flow(reply, source)

    def _parse(self, answer: Value) -> Value:
        if not isinstance(answer, str):
            return answer
        try:
            # The reply is calls, which a tool would get with one of two values (decision D286).
            return parse_json_reply(answer, once_each=True)
        except StepError as error:
            diagnostic = error.diagnostic
        raise self._refusal(diagnostic.message, answer, "reply with JSON alone")

    def _violations(self, reply: Value, node: Node) -> Iterator[Diagnostic]:
        """The problems of a reply. ``node``: the reply as YAML nodes with places."""
        hint = 'reply with {"calls": [...], "output": ...}'
        if not isinstance(reply, dict):
            yield _problem(f"a reply must be an object, not {type_name(reply)}", node, hint)
            return
        fields = node.fields if isinstance(node, Fields) else {}
        for name in reply.keys() - {"calls", "output"}:
            yield _problem(f"unknown key {name!r} of a reply", fields.get(name), hint)
        calls = reply.get("calls")
        listed = fields.get("calls")
        if not isinstance(calls, list):
            yield _problem("a reply must have 'calls', a list", listed or node, hint)
            return
        if len(calls) > MOST_PLAN_CALLS:
            yield _problem(
                f"{len(calls):,} calls, and a plan has at most {MOST_PLAN_CALLS}",
                listed,
                "plan fewer calls",
            )
            return
        assert isinstance(listed, Items), "the text is that of the reply"
        for number, (call, fields_of_call) in enumerate(zip(calls, listed.items, strict=True)):
            yield from self._call_violations(number, call, fields_of_call)
        yield from self._output_violations(reply.get("output"), fields.get("output"))

    def _call_violations(
        self, number: int, call: Value, fields: Node | None
    ) -> Iterator[Diagnostic]:
        """The problems of one call, by the schema of the tool that it names."""
        tool = call.get("_tool") if isinstance(call, dict) else None
        if not isinstance(tool, str) or not isinstance(fields, Fields):
            hint = 'for example {"_tool": "NAME", "ARGUMENT": …, "_outputPath": "†state.NAME"}'
            yield _problem(f"calls[{number}] must be an object with '_tool'", fields, hint)
        elif tool not in self.offer.calls:
            near = suggest(tool, self.offer.calls, "the offered tools")
            yield _problem(
                f"calls[{number}]: no tool {tool!r} is offered", fields.fields.get("_tool"), near
            )
        elif violations := judge({**self.offer.calls[tool], "$defs": self.offer.defs})(call):
            properties = self.offer.calls[tool]["properties"]
            unknown = [fields.keys[name] for name in fields.fields if name not in properties]
            places = [
                fields.fields[part]
                for violation in violations
                for part in violation.path[:1]
                if part in fields.fields
            ]
            arguments = [name for name in properties if not name.startswith("_")]
            near = suggest(unknown[0].text, properties) if unknown else None
            place = next(iter([*unknown, *places]), fields)
            message = f"calls[{number}] ({tool}): {describe_all(violations)}"
            yield _problem(
                message, place, near or f"its arguments are {', '.join(arguments) or '(none)'}"
            )

    def _output_violations(self, output: Value, node: Node | None) -> Iterator[Diagnostic]:
        """The problems of the output. The value of a reference is judged after the plan has run."""
        is_reference = isinstance(output, str) and not _REFERENCE(output)
        if output is None or self.offer.gives is None or is_reference:
            return
        if violations := judge(self.offer.gives)(output):
            yield _problem(
                f"output: {describe_all(violations)}", node, "null until the task is done"
            )

    def _load_flow(self, reply: dict[str, Value], source: Source) -> PlannedTick:
        """The flow of a reply whose calls conform to their schemas."""
        has_output = reply.get("output") is not None
        # Tools that the plan does not call count as well: a called flow or agent must not call them
        # either.
        asks: bool | list[str] = self.confirm is True
        if not asks:
            untrusted = [name for name, tool in self.registry.tools.items() if tool.asks_first]
            listed = [] if isinstance(self.confirm, bool) else self.confirm
            asks = list(dict.fromkeys([*listed, *untrusted]))
        document = dict(reply)
        if not has_output:
            document.pop("output", None)
        if asks:
            document["confirm"] = asks
        text = json.dumps(document, ensure_ascii=False, indent=1)
        problems: Sequence[Diagnostic]
        try:
            flow = load(
                Source(self.name, text),
                "plan",
                registry=self.registry,
                latent=sorted(self.offer.latent),
            )
        except DefinitionError as error:
            problems = error.diagnostics
        else:
            self._refuse(self._plan_problems(flow))
            return PlannedTick(flow, has_output, self.offer.gives)
        raise _refusals(
            [
                replace(problem, message=f"{problem.message} [{problem.code}]")
                for problem in problems
            ]
        )

    def _plan_problems(self, flow: Flow) -> Iterator[Diagnostic]:
        """The problems of a plan whose calls are valid: it writes read-only data, passes on a
        secret, or cannot go on from this log."""
        assert isinstance(flow.dialect, PlanDialect), "the text is a plan"
        plan = flow.dialect.plan
        for call in plan.calls:
            for destination in call.output.destinations:
                if destination.kind in READ_ONLY:
                    message = f"{call.id} ({call.tool.text}): {destination} cannot be written"
                    hint = "write the result to †state.NAME"
                    yield Diagnostic(
                        "planner.reply", message, call.output.span or call.tool.span, hint
                    )
            yield from self._exposed_secrets(call)
        for ref in self._secret_refs(plan.output):
            message = f"output: {ref} contains a secret"
            yield Diagnostic("planner.reply", message, ref.span, "leave it out")
        yield from PlanScheduler(plan, self.log).refusals()

    def _exposed_secrets(self, call: Call) -> Iterator[Diagnostic]:
        """The arguments that would give a secret to a tool that does not keep it secret."""
        for name, _, template, _ in call.arguments:
            if name in self.offer.secret.get(call.tool.text, ()):
                continue
            for ref in self._secret_refs(template):
                message = (
                    f"{call.id} ({call.tool.text}): {ref} is or contains a secret, and "
                    f"{name!r} is not"
                )
                hint = "use it only for a secret argument"
                yield Diagnostic("planner.reply", message, ref.span, hint)

    def _secret_refs(self, template: Value) -> Iterator[Reference]:
        """The references in a template that read a secret field of the input, or all fields."""
        for expression in expressions(template):
            for ref in references(expression):
                if ref.kind == "input" and self.secret and {*ref.path[:1]} <= self.secret:
                    yield ref

    def _refusal(self, message: str, text: str, hint: str) -> StepError:
        """The refusal of a reply as a whole, with its beginning."""
        begin = text.strip()[:80] or " "
        source = Source(self.name, begin if len(begin) < 80 else f"{begin}…")
        return StepError(Diagnostic("planner.reply", message, source.span(0, len(begin)), hint))

    def _refuse(self, errors: Iterator[Diagnostic]) -> None:
        if problems := list(errors):
            raise _refusals(problems)


_REFERENCE: Callable[[Value], Sequence[Any]] = judge(REFERENCE)
"""Returns why a value is not a reference; nothing for a reference."""


def _problem(message: str, node: Node | None, hint: str | None) -> Diagnostic:
    span: Span | None = node.span if node is not None else None
    return Diagnostic("planner.reply", message, span, hint)


def _refusals(problems: Sequence[Diagnostic]) -> StepError:
    named = [replace(problem, code="planner.reply", severity="error") for problem in problems]
    return StepError(*named[:MOST_REASONS])
