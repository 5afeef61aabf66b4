"""Builds the steps of the execution policies: `POLICIES` has one function for each standard policy.

`reading` reads the configuration. The last step of a policy stores its output.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...flow.expressions import Computed
from ...flow.protocols import Frame, Name
from ...flow.step import ElementLimit, FailurePolicy, Step
from ...flow.step_options import Asking
from ...flow.steps import Branches, Choose, Each, Invoke, Repeat, Sequence
from ...text.diagnostics import Diagnostic, StepError
from ...text.source import Span
from ...text.yaml.nodes import Fields, plain
from .frame import (
    EACH,
    PARALLEL,
    RESULT,
    JoinParallel,
    output_of,
    store_agent,
    store_output,
    whole_input,
)
from .matchers import Condition
from .output_from import Choice, output_step
from .path import iteration_problem
from .react import react
from .reading import Policy, alias_of

_OTHERWISE = "otherwise"
"""The label of the default agent."""

_ITERATIONS = 10
"""The default of ``max_iterations``."""


def sequential(policy: Policy) -> tuple[Step, ...]:
    """Steps in order; each may read the earlier ones (AGF-62)."""
    steps, aliases = _steps(policy, "steps")
    choice = policy.output(Choice("last", policy.span("steps")), aliases)
    return (*steps, output_step(choice, aliases, output_of)) if aliases else ()


def parallel(policy: Policy) -> tuple[Step, ...]:
    """Concurrent agents, which all run to the end (AGF-64, AMB-21)."""
    branches: dict[str, Step] = {}
    policy.check_unique("the agents of an agf.parallel need different aliases", "agents")
    for index, entry in enumerate(policy.config.entries("agents")):
        if call := policy.step(entry, f"agents[{index}]", "policy_step", (), None):
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
            join=JoinParallel(),
            collect=output_step(choice, aliases, lambda alias: (PARALLEL, alias)),
            failing=FailurePolicy("finish"),
            leaves=True,
        ),
    )


def loop(policy: Policy) -> tuple[Step, ...]:
    """Steps in order, repeatedly, until the condition matches or ``max_iterations`` is reached."""
    steps, aliases = _steps(policy, "steps")
    choice = policy.output(Choice("last", policy.span("steps")), aliases)
    until = policy.config.fields.get("exit_condition")
    exit_condition = policy.condition(until, aliases) if until is not None else None
    if not aliases:
        return ()
    span = policy.span(
        "max_iterations" if "max_iterations" in policy.config.keys else "exit_condition"
    )
    body = Sequence(id="steps", word="round", span=policy.span("steps"), steps=steps)
    repeat = Repeat(
        id="loop",
        word=policy.id.text,
        label=", ".join(aliases),
        span=policy.id.span,
        body=body,
        until=exit_condition and _matches(exit_condition),
        limit=policy.number("max_iterations", _ITERATIONS),
        over=lambda limit, frame: Diagnostic(
            "policy.loop-limit",
            f"the loop ended after {limit} rounds without meeting its exit_condition",
            span,
            (exit_condition and exit_condition.mismatch(frame))
            or "the output is that of the last round; raise max_iterations, or check the values "
            "of the condition",
            "warning",
        ),
    )
    return repeat, output_step(choice, aliases, output_of)


def batch(policy: Policy) -> tuple[Step, ...]:
    """One agent for each element of a list (AGF-69). All inputs are built before the first call."""
    mapping = policy.config.fields.get("input_mapping")
    paths = policy.paths(mapping, "batch", (), "agent")
    alias = policy.config.scalar("agent")
    if not isinstance(mapping, Fields) or alias is None:
        return ()
    call = policy.call(alias, "agent", paths, mapping, None)
    if len(paths) == len(mapping.fields) and (
        problem := iteration_problem(paths, policy.span("input_mapping"))
    ):
        policy.problems.add(problem)
    over = next((path for path in paths.values() if path.elements is not None), None)
    if over is None:
        return (call,)  # refused: there is no list
    return (
        Each(
            id="batch",
            word=policy.id.text,
            label=f"{over.array}.[]",
            span=policy.id.span,
            over=Computed(over.span, over.over, over.reads()),
            element=EACH,
            body=call,
            failing=FailurePolicy("finish"),
            cut=_element_limit(policy, over.array),
            ahead=True,
            target=store_output(lambda frame: alias.text),
        ),
    )


def _element_limit(policy: Policy, array: str) -> ElementLimit | None:
    """The limit ``max_batch_count``: further elements of the list at the path ``array`` are skipped
    with a warning; None: there is no limit."""
    span = policy.span("max_batch_count")
    limit = policy.number("max_batch_count", 0)

    def skipped(count: int) -> Diagnostic:
        elements = f"{count} element{'s' * (count != 1)}"
        message = f"skipped {elements} of {array}: max_batch_count is {limit}"
        hint = "raise max_batch_count; 0 means no limit"
        return Diagnostic("policy.batch-truncated", message, span, hint, "warning")

    return ElementLimit(limit, skipped) if limit else None


def conditional(policy: Policy) -> tuple[Step, ...]:
    """The agent of the first route whose condition matches, else the default one (AGF-73,
    AGF-74)."""
    routes: dict[str, tuple[Condition, Step]] = {}
    aliases: dict[str, str | None] = {}
    unread: list[Step] = []
    """The calls of routes without a condition: the policy is refused."""
    for index, entry in enumerate(policy.config.entries("routes")):
        call = policy.step(entry, f"routes[{index}]", "route", (), None)
        when = entry.fields.get("when")
        if call is None:
            continue
        if when is None:
            unread.append(call)
            continue
        condition = policy.condition(when, ())
        label = condition.text
        if label in routes:
            label = f"{label} ({index + 1})"
        routes[label] = (condition, call)
        aliases[label] = alias_of(entry)
    default = _default_agent(policy)
    aliases[_OTHERWISE] = default.label if default else None
    if not routes:
        return (*unread, *([default] if default else ()))
    conditions = {label: condition for label, (condition, _) in routes.items()}
    pick = _route(policy.span("routes"), conditions, default is not None)
    return (
        *unread,
        Choose(
            id="routes",
            word=policy.id.text,
            label=f"{len(routes)} route{'s' * (len(routes) != 1)}",
            span=policy.id.span,
            pick=pick,
            labels=lambda label: (label,),
            cases={label: call for label, (_, call) in routes.items()},
            conditions={label: label for label in routes},
            default=default,
            target=store_output(lambda frame: aliases.get(pick.evaluate(frame))),
        ),
    )


def _default_agent(policy: Policy) -> Step | None:
    """The call of the agent that runs if no route matches."""
    alias = policy.config.scalar("default_agent")
    if alias is None or not isinstance(alias.value, str):
        return None
    return policy.call(alias, "default_agent", {}, None, None)


def vendor(policy: Policy) -> tuple[Step, ...]:
    """A registered vendor policy, which reads its own configuration (AGF-34)."""
    agents = None
    if policy.space.declared:
        agents = tuple(agent.alias for agent in policy.space.agents.values())
    for agent in policy.space.agents.values():
        if agent.permit is not None:  # the policy is user code that calls its agents without asking
            message = (
                f"agent {agent.alias.text!r} needs approval, which {policy.id.text!r} "
                f"cannot ask for"
            )
            hint = "remove the approval, or use a standard policy"
            policy.refuses.append(Diagnostic("policy.approval", message, agent.alias.span, hint))
    return (
        Invoke(
            id="policy",
            word=policy.id.text,
            span=policy.id.span,
            kind="policy",
            name=Name(policy.id.text, policy.id.span),
            args=whole_input(policy.id.span),
            tools=agents,
            asking=Asking(config=plain(policy.config), counts_as_session=False),
            target=RESULT,
        ),
    )


def _steps(policy: Policy, key: str) -> tuple[tuple[Step, ...], list[str]]:
    """The steps of a list that runs in order, and the alias of each."""
    steps: list[Step] = []
    aliases: list[str] = []
    ran: dict[str, None] = {}
    """The aliases of the earlier steps; the latest one is the last."""
    for index, entry in enumerate(policy.config.entries(key)):
        alias = alias_of(entry)
        call = policy.step(
            entry, f"{key}[{index}]", "policy_step", ran, store_agent(alias or "", index == 0)
        )
        if call is not None and alias is not None:
            steps.append(call)
            aliases.append(alias)
            ran.pop(alias, None)
            ran[alias] = None
    return tuple(steps), aliases


def _matches(condition: Condition) -> Computed:
    """Whether a condition matches."""
    test = condition.evaluate
    return Computed(
        condition.span, lambda frame: test(frame) is not None, condition.reads(), condition.text
    )


def _route(span: Span, routes: Mapping[str, Condition], has_default: bool) -> Computed:
    """The label of the first route whose condition matches."""

    def first(frame: Frame) -> str:
        for label, when in routes.items():
            if when.evaluate(frame) is not None:
                return label
        if not has_default:
            message = "no route matches, and there is no default_agent"
            hint = "default_agent: NAME runs if no route matches"
            raise StepError(Diagnostic("policy.no-route", message, span, hint))
        return _OTHERWISE

    # The condition of the first route is always read. The condition of another route is read only
    # if no earlier condition matches.
    reads = (
        ref if number == 0 else ref._replace(certain=False)
        for number, when in enumerate(routes.values())
        for ref in when.reads()
    )
    return Computed(span, first, tuple(reads))


POLICIES: Mapping[str, Callable[[Policy], tuple[Step, ...]]] = {
    "agf.react": react,
    "agf.sequential": sequential,
    "agf.parallel": parallel,
    "agf.loop": loop,
    "agf.batch": batch,
    "agf.conditional": conditional,
}
"""The standard policies by id (AGF-55, AGF-56)."""
