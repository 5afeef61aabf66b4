"""Text to flow: one Agent Format document, or the policy of one (decision B1, AMB-28).

All errors of the text are reported here at once; names in the registry (agents, transforms, vendor
policies, files) are checked when the flow is linked (decision A5).
"""

from __future__ import annotations

from typing import Any

from ...flow.declared import Taken
from ...flow.steps import Definition, Flow, Invoke, Sequence, Step, every
from ...text.diagnostics import Diagnostics, suggest
from ...text.source import Source, Text
from ...text.yamlnodes import Bounds, Fields, Node, Scalar, plain
from .agents import ActionSpace
from .document import document, is_bare
from .path import PARENT, Path, parse_path
from .policies import POLICIES, vendor
from .reading import Policy
from .safety import caps, refused
from .values import Interface, end, outputs, start

_BOUNDS = Bounds()


def load(source: Source, problems: Diagnostics, bounds: Bounds = _BOUNDS) -> Definition:
    """The policy that ``source`` defines. Errors are added to ``problems``."""
    before = len(problems.errors)
    root = document(source, problems, bounds)
    flow = None if root is None else _flow(source, root, problems)
    return Definition(None if len(problems.errors) > before else flow)


def parse(text: Text) -> Path:
    """A standalone path, which may contain ``.[]``."""
    return parse_path(text, "batch")


def _flow(source: Source, root: Fields, problems: Diagnostics) -> Flow | None:
    node = root.fields.get("execution_policy")
    policy = _policy(root, node, problems) if isinstance(node, Fields) else None
    limits, refuses = caps(root, problems), refused(root, problems)
    if policy is None:
        return None
    steps = _steps(policy)
    unused = list(policy.space.unused(for_model=policy.id.text == "agf.react"))
    problems.extend(found for found in unused if found.severity == "warning")
    refuses = (*refuses, *(found for found in unused if found.severity == "error"), *policy.refuses)
    name, description = _text(root, "id"), _text(root, "description")
    label = name.text if name else ""
    return Flow(
        name=label,
        language="policy",
        source=source,
        body=Sequence(
            id="policy", word=policy.id.text, label=label, span=policy.id.span, steps=steps
        ),
        start=start(policy.takes),
        end=end(policy.gives),
        kept=outputs,
        stores=(PARENT, "input"),
        description=description.text if description else "",
        span=name.span if name else policy.id.span,
        accepts=policy.takes.schema,
        gives=policy.gives.schema,
        taken=_taken(policy, steps),
        caps=limits,
        uses=None if is_bare(root) else policy.space.uses(),
        refuses=refuses,
    )


def _policy(root: Fields, node: Fields, problems: Diagnostics) -> Policy | None:
    id, config = node.fields.get("id"), node.fields.get("config")
    space = ActionSpace(root, problems)
    if not isinstance(id, Scalar) or not isinstance(config, Fields):
        return None
    takes, gives = _interface(root, "input"), _interface(root, "output")
    return Policy(id, config, space, takes, gives, problems)


def _steps(policy: Policy) -> tuple[Step, ...]:
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


def _taken(policy: Policy, steps: tuple[Step, ...]) -> tuple[Taken, ...]:
    """The fields that are read of each agent's output, by the step that runs the agent."""
    ids = {
        inner.name.text: inner.id
        for step in steps
        for inner in every(step)
        if isinstance(inner, Invoke)
    }
    return tuple(taken._replace(step=ids[alias]) for alias, taken in policy.taken if alias in ids)


def _interface(root: Fields, word: Any) -> Interface:
    interface = root.fields.get("interface")
    node: Node | None = interface.fields.get(word) if isinstance(interface, Fields) else None
    return Interface(
        word, plain(node) if isinstance(node, Fields) else None, node.span if node else None
    )


def _text(root: Fields, key: str) -> Scalar | None:
    metadata = root.fields.get("metadata")
    node = metadata.fields.get(key) if isinstance(metadata, Fields) else None
    return node if isinstance(node, Scalar) and isinstance(node.value, str) else None
