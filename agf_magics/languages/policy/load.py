"""Loads an Agent Format document, or the policy of one, into a flow (decision B1, AMB-28).

All errors of the text are reported together. Names in the registry (agents, transforms, vendor
policies, files) are checked when the flow is linked (decision A5).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...flow.flow import Declarations, Definition, Dialect, Flow, Origin
from ...flow.protocols import Name
from ...flow.step import Step
from ...flow.step_options import ResultRead
from ...flow.steps import Sequence, calls
from ...text.diagnostics import Diagnostics
from ...text.source import Source, Text
from ...text.suggestions import suggest
from ...text.yaml.nodes import NOTHING, Fields, plain
from ...text.yaml.reader import Bounds
from ..refused import refused_flow
from .action_space import ActionSpace
from .document import document, is_bare
from .frame import outputs
from .interface import Interface, end, start
from .path import PARENT, Path, parse_path
from .policies import POLICIES, vendor
from .reading import Policy
from .safety import caps, unmet_requirements

_BOUNDS = Bounds()


def load(source: Source, problems: Diagnostics, bounds: Bounds = _BOUNDS) -> Definition:
    """The policy that ``source`` defines. Errors are added to ``problems``."""
    before = problems.error_count
    root = document(source, problems, bounds)
    flow = None if root is None else _flow(source, root, problems)
    if flow is not None and problems.error_count > before:
        name = Name(flow.name, flow.origin.span)
        flow = refused_flow(source, "policy", name, flow.body.steps, flow.declared)
    return Definition(flow)


def parse(text: Text) -> Path:
    """A standalone path, which may contain ``.[]``."""
    return parse_path(text, "batch")


def _flow(source: Source, root: Fields, problems: Diagnostics) -> Flow | None:
    policy = _policy(root, root.inner("execution_policy"), problems)
    limits = caps(root, problems)
    refuses = unmet_requirements(root, problems)
    if policy is None:
        return None
    steps = _policy_steps(policy)
    _check_tools(policy, problems)
    metadata = root.inner("metadata")
    name = metadata.scalar("id")
    label = metadata.text_at("id")
    return Flow(
        name=label,
        language="policy",
        source=source,
        body=Sequence(
            id="policy", word=policy.id.text, label=label, span=policy.id.span, steps=steps
        ),
        start=start(policy.takes),
        end=end(policy.gives),
        dialect=Dialect(stores=(PARENT, "input"), stores_of=outputs),
        declared=Declarations(
            metadata.text_at("description"),
            accepts=policy.takes.schema,
            gives=policy.gives.schema,
            result_reads=_result_reads(policy, steps),
            own_limits=limits,
            uses=None if is_bare(root) else policy.space.uses(),
            # The agents of another policy have their own documents, which say what they need.
            servers=policy.space.servers if policy.id.text == "agf.react" else (),
            refuses=(*refuses, *policy.refuses),
        ),
        origin=Origin(name.span if name else policy.id.span),
    )


def _check_tools(policy: Policy, problems: Diagnostics) -> None:
    """Report the tools that nothing can reach, or whose approval nobody would be asked for."""
    unreachable = list(policy.space.unreachable())
    if policy.id.text == "agf.react":  # otherwise its model would be offered these tools
        policy.refuses.extend(unreachable)
        return
    problems.extend(replace(error, severity="warning") for error in unreachable)
    for alias in policy.space.permits:
        message = f"tool {alias!r} needs approval: nothing that {policy.id.text!r} runs gets it"
        span = policy.space.tools[alias].name.span
        hint = "the model of an agf.react asks before it calls one"
        problems.warn("policy.approval", message, span, hint)


def _policy(root: Fields, node: Fields, problems: Diagnostics) -> Policy | None:
    id = node.scalar("id")
    config = node.inner("config")
    space = ActionSpace(root, problems)
    if id is None or config is NOTHING:
        return None
    takes = _interface(root, "input")
    gives = _interface(root, "output")
    return Policy(id, config, space, takes, gives, problems)


def _policy_steps(policy: Policy) -> tuple[Step, ...]:
    id = policy.id
    if id.text in POLICIES:
        return POLICIES[id.text](policy)
    if id.text.startswith("x-") and "." in id.text:
        return vendor(policy)
    hint = suggest(id.text, POLICIES, "execution policies")
    hint = f"{hint}; your own policies are named x-<vendor>.<name>"
    policy.problems.error(
        "policy.unsupported-policy", f"unknown execution policy {id.text!r}", id.span, hint
    )
    return ()


def _result_reads(policy: Policy, steps: tuple[Step, ...]) -> tuple[ResultRead, ...]:
    """The fields that are read of each agent's output, by the step that runs the agent."""
    ids = {call.name.text: call.id for step in steps for call in calls(step)}
    return tuple(
        read._replace(step=ids[alias]) for alias, read in policy.result_reads if alias in ids
    )


def _interface(root: Fields, word: Any) -> Interface:
    node = root.inner("interface").fields.get(word)
    schema = plain(node) if isinstance(node, Fields) else None
    return Interface(word, schema, node.span if node else None)
