"""Asks a model for the plan of a tick: the model gets the context and replies with a plan.

The request is a run with an agent step. It locks the context of the plan, so that no other run
writes to the context between the request and the plan. Its manifest has the messages with which a
resumed planner continues.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from ...catalog import Model, ModelAgent, Registry
from ...flow.flow import Flow
from ...flow.sessions.session import ASKED_AGAIN
from ...journal.secrets.masking import Secrets
from ...languages.plan import Log
from ...languages.plan.log.log import remove_secrets
from ...text.source import Source
from ...values.value import Value
from ..definitions.define import load
from ..launch.launch import start_run
from ..runs.run import Run
from .offer import INSTRUCTIONS, PlanOffer, request_text
from .reply import ReplyReader
from .ticks import PlannedTick, Ticks

STEPS: Final = ASKED_AGAIN + 2
"""The limit of requests of a session. It is one more than the requests that are made, because the
last request of a limit asks the model to stop."""
AGENT: Final = "planner"


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The task of a planning model, and the material that it gets."""

    model: Model | None
    """The model that is asked; None: the configured one."""
    task: str
    offer: PlanOffer
    instructions: str = ""
    """Added to `INSTRUCTIONS`."""
    confirm: bool | Sequence[str] = False
    """The tools whose calls a person must approve; True: all."""


class ModelPlanner:
    """A model that plans the ticks of a context."""

    def __init__(self, assignment: Assignment, ticks: Ticks) -> None:
        self.assignment = assignment
        self.ticks = ticks

    def __call__(self, number: int) -> PlannedTick | None:
        """The plan of a tick; None if the request has failed: `Ticks.error` says why."""
        options = self.ticks.options
        reader = self.reader(number)
        flow = request_flow(options.context, number, options.registry)
        request: Value = {"prompt": self._prompt(reader.log)}
        return self.replied(
            self.ticks.execute(partial(start_run, flow, request), self.registry(reader)), reader
        )

    def replied(self, run: Run, reader: ReplyReader) -> PlannedTick | None:
        """The plan in the reply that the run of a request returned."""
        self.ticks.asked.append(run)
        self.ticks.error = run.error
        return reader.read(run.output) if run.error is None else None

    def reader(self, number: int) -> ReplyReader:
        """Reads the replies of a tick in the context as it is now."""
        options = self.ticks.options
        assignment = self.assignment
        return ReplyReader(
            name=f"tick {number}",
            offer=assignment.offer.for_instances(self.ticks.log.instances),
            registry=options.registry,
            log=self.ticks.log,
            confirm=assignment.confirm,
            secret=frozenset(options.secret),
        )

    def registry(self, reader: ReplyReader) -> Registry:
        """A registry in which the model answers the request."""
        assignment = self.assignment
        registry = self.ticks.options.registry.without("agents")
        agent = ModelAgent(
            name=AGENT,
            model=assignment.model,
            instructions="\n\n".join(filter(None, (INSTRUCTIONS, assignment.instructions))),
            tools=(),
            gives=reader.offer.schema,
            read_answer=reader.check,
            steps=STEPS,
        )
        registry.agents.add(agent)
        return registry

    def _prompt(self, log: Log) -> str:
        secret = self.ticks.options.secret
        secrets = Secrets()
        for value in secret.values():
            secrets.learn(value)
        return request_text(self.assignment.task, log, secret, secrets)


def request_name(context: str, number: int) -> str:
    """The name of the request's run of a tick."""
    return f"{context}-{number}-ask"


def request_flow(context: str, number: int, registry: Registry) -> Flow:
    """The flow of a request. Its input is ``{"prompt": …}``, its output the reply."""
    name = request_name(context, number)
    text = (
        f"pipeline: {json.dumps(name)}\n"
        "steps:\n"
        f'- agent: {{prompt: "{{ctx.prompt}}", identity: {AGENT}, capabilities: {{tools: []}}}}\n'
    )
    flow = load(Source(name, text), "pipeline", registry=registry)
    dialect = replace(flow.dialect, context=context, without_secrets=remove_secrets)
    return replace(flow, dialect=dialect)
