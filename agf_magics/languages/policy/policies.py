"""The execution policies as shapes: each is a table row and a function from its configuration to steps.

The last step leaves the policy's output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...flow.frame import Frame, Ref
from ...flow.steps import Branches, Choose, Each, Invoke, Name, Repeat, Sequence, Step
from ...flow.values import Value
from ...text.diagnostics import Diagnostic, StepError
from ...text.source import Span
from ...text.yamlnodes import Fields, Scalar, plain
from .matchers import Condition
from .model import react
from .outcome import Choice, output_step
from .path import Path, iteration_problem
from .reading import Policy, alias_of
from .values import EACH, RESULT, SIDE, Answered, Beside, Keep, Whole, output_of

AT_ONCE = 8
"""Items of a batch that run side by side (AMB-33)."""

OTHERWISE = "otherwise"
"""The label of the default agent of routes."""

ITERATIONS = 10
"""Of a loop that does not say how many."""


def sequential(policy: Policy) -> tuple[Step, ...]:
    """Steps in order; each may read those before it (AGF-62)."""
    steps, aliases = _steps(policy, "steps")
    choice = policy.output(Choice("last", policy.span("steps")), aliases)
    return (*steps, output_step(choice, aliases, output_of)) if aliases else ()


def parallel(policy: Policy) -> tuple[Step, ...]:
    """Agents side by side, all of them to their end (AGF-64, AMB-21)."""
    branches: dict[str, Step] = {}
    policy.once("agents that run side by side are told apart by their aliases", "agents", policy.span("agents"))
    for index, entry in enumerate(policy.items("agents")):
        call = policy.step(entry, f"agents[{index}]", "policy_step", (), None)
        if call is not None:
            branches[call.label] = call
    aliases = list(branches)
    choice = policy.output(Choice("merge", policy.span("agents")), aliases)
    if not aliases:
        return ()
    return (
        Branches(
            id="agents",
            word=policy.id.text,
            label=", ".join(aliases),
            span=policy.id.span,
            branches=branches,
            join=Beside(),
            collect=output_step(choice, aliases, lambda alias: (SIDE, alias)),
            on_error="finish",
            leaves=True,
        ),
    )


def loop(policy: Policy) -> tuple[Step, ...]:
    """Steps in order, again and again, until the condition matches or there were as many rounds as there may be."""
    steps, aliases = _steps(policy, "steps")
    choice = policy.output(Choice("last", policy.span("steps")), aliases)
    until = policy.config.fields.get("exit_condition")
    exit_condition = policy.condition(until, aliases) if until is not None else None
    if not aliases:
        return ()
    span = policy.span("max_iterations" if "max_iterations" in policy.config.keys else "exit_condition")
    body = Sequence(id="steps", word="round", span=policy.span("steps"), steps=steps)
    repeat = Repeat(
        id="loop",
        word=policy.id.text,
        label=", ".join(aliases),
        span=policy.id.span,
        body=body,
        until=_Matches(exit_condition) if exit_condition else None,
        limit=policy.number("max_iterations", ITERATIONS),
        over=lambda limit, frame: Diagnostic(
            "policy.loop-limit",
            f"the loop ended after {limit} rounds, and its exit_condition was never met",
            span,
            (exit_condition and exit_condition.doubt(frame))
            or "the output is the last round's; raise max_iterations, or look at what the condition reads",
            "warning",
        ),
    )
    return repeat, output_step(choice, aliases, output_of)


def batch(policy: Policy) -> tuple[Step, ...]:
    """One agent, once for every element of a list (AGF-69); all inputs are built before its first call."""
    mapping = policy.config.fields.get("input_mapping")
    paths = policy.paths(mapping, "batch", (), "agent")
    alias = policy.config.fields.get("agent")
    if not isinstance(mapping, Fields) or not isinstance(alias, Scalar):
        return ()
    call = policy.call(alias, "agent", paths, mapping, None)
    if len(paths) == len(mapping.fields) and (problem := iteration_problem(paths, policy.span("input_mapping"))):
        policy.problems.add(problem)
    over = next((path for path in paths.values() if path.elements is not None), None)
    if over is None:
        return ()
    span, most = policy.span("max_batch_count"), policy.number("max_batch_count", 0)
    return (
        Each(
            id="batch",
            word=policy.id.text,
            label=f"{over.array}.[]",
            span=policy.id.span,
            over=_List(over),
            element=EACH,
            body=call,
            limit=AT_ONCE,
            on_error="finish",
            most=most or None,
            cut=lambda left: Diagnostic(
                "policy.batch-truncated",
                f"{left} element{'s' * (left != 1)} of {over.array} left out: max_batch_count is {most}",
                span,
                "0 means no limit",
                "warning",
            ),
            ahead=True,
            target=Answered(lambda frame: alias.text),
        ),
    )


def conditional(policy: Policy) -> tuple[Step, ...]:
    """The agent of the first route whose condition matches, else the default one (AGF-73, AGF-74)."""
    routes: dict[str, tuple[Condition, Step]] = {}
    aliases: dict[str, str | None] = {}
    for index, entry in enumerate(policy.items("routes")):
        call = policy.step(entry, f"routes[{index}]", "route", (), None)
        when = entry.fields.get("when")
        if call is None or when is None:
            continue
        found = policy.condition(when, ())
        label = found.text if found.text not in routes else f"{found.text} ({index + 1})"
        routes[label] = (found, call)
        aliases[label] = alias_of(entry)
    other, default = policy.config.fields.get("default_agent"), None
    if isinstance(other, Scalar) and isinstance(other.value, str):
        default = policy.call(other, "default_agent", {}, None, None)
        aliases[OTHERWISE] = other.value
    if not routes:
        return ()
    pick = _Route(policy.span("routes"), {label: when for label, (when, _) in routes.items()}, default is not None)
    return (
        Choose(
            id="routes",
            word=policy.id.text,
            label=f"{len(routes)} route{'s' * (len(routes) != 1)}",
            span=policy.id.span,
            pick=pick,
            labels=lambda label: (label,),
            cases={label: call for label, (_, call) in routes.items()},
            said={label: label for label in routes},
            default=default,
            target=Answered(lambda frame: aliases.get(pick.evaluate(frame))),
        ),
    )


def vendor(policy: Policy) -> tuple[Step, ...]:
    """A policy that somebody registered; its configuration is its own business (AGF-34)."""
    agents = tuple(agent.alias for agent in policy.space.agents.values()) if policy.space.declared else None
    for agent in policy.space.agents.values():
        if agent.permit is not None:  # its calls are somebody's own code: nobody could be asked before them
            message = (
                f"{policy.id.text!r} calls agent {agent.alias.text!r} by itself: nobody would be asked to approve it"
            )
            hint = "take the approval out, or use a standard policy"
            policy.refuses.append(Diagnostic("policy.approval", message, agent.alias.span, hint))
    return (
        Invoke(
            id="policy",
            word=policy.id.text,
            span=policy.id.span,
            kind="policy",
            name=Name(policy.id.text, policy.id.span),
            args=Whole(),
            config=plain(policy.config),
            tools=agents,
            spawns=False,
            target=RESULT,
        ),
    )


def _steps(policy: Policy, key: str) -> tuple[tuple[Step, ...], list[str]]:
    """The steps of a list that runs in order, and their aliases."""
    steps: list[Step] = []
    ran: list[str] = []
    for index, entry in enumerate(policy.items(key)):
        alias = alias_of(entry)
        call = policy.step(entry, f"{key}[{index}]", "policy_step", ran, Keep(alias or "", first=index == 0))
        if call is not None and alias is not None:
            steps.append(call)
            ran.append(alias)
    return tuple(steps), ran


class _Matches:
    """Whether a condition matches."""

    __slots__ = ("condition", "evaluate", "span")

    evaluate: Callable[[Frame], Value]

    def __init__(self, condition: Condition) -> None:
        self.condition, self.span = condition, condition.span
        self.evaluate = lambda frame: condition.evaluate(frame) is not None

    @property
    def text(self) -> str:
        """In a line, as it is shown."""
        return self.condition.text

    def reads(self) -> tuple[Ref, ...]:
        return self.condition.reads()


class _List:
    """The list that a batch goes through."""

    __slots__ = ("evaluate", "path", "span")

    evaluate: Callable[[Frame], Value]

    def __init__(self, path: Path) -> None:
        self.path, self.span = path, path.span
        self.evaluate = path.over

    def reads(self) -> tuple[Ref, ...]:
        return self.path.reads()


class _Route:
    """The label of the first route whose condition matches."""

    __slots__ = ("evaluate", "other", "routes", "span")

    evaluate: Callable[[Frame], Value]

    def __init__(self, span: Span, routes: Mapping[str, Condition], other: bool) -> None:
        self.span, self.routes, self.other = span, dict(routes), other
        self.evaluate = self._first

    def _first(self, frame: Frame) -> str:
        for label, when in self.routes.items():
            if when.evaluate(frame) is not None:
                return label
        if not self.other:
            message, hint = "no route matches, and there is no default_agent", "default_agent names who answers then"
            raise StepError(Diagnostic("policy.no-route", message, self.span, hint))
        return OTHERWISE

    def reads(self) -> tuple[Ref, ...]:
        return tuple(ref for when in self.routes.values() for ref in when.reads())


POLICIES: Mapping[str, Callable[[Policy], tuple[Step, ...]]] = {
    "agf.react": react,
    "agf.sequential": sequential,
    "agf.parallel": parallel,
    "agf.loop": loop,
    "agf.batch": batch,
    "agf.conditional": conditional,
}
"""The standard ones by id (AGF-55, AGF-56)."""
