"""`Usage`, what the models of a run or of a step used: replies, tokens and dollars."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import NamedTuple

from ...values.value import Value


class Usage(NamedTuple):
    """The use of models in a run or a step."""

    requests: int = 0
    """The number of replies."""
    input: int = 0
    """Tokens, as the models count them; 0 for models that do not report them."""
    output: int = 0
    """Tokens, as for ``input``."""
    known_cost: Decimal = Decimal(0)
    """US dollars for the replies whose price is known."""
    unpriced: int = 0
    """The number of replies whose price is unknown."""
    by_model: Mapping[str, Usage] = {}
    """The usage of each model, by its name."""

    @property
    def tokens(self) -> int:
        return self.input + self.output

    @property
    def cost(self) -> Decimal | None:
        """US dollars; None if a price is unknown, or if no model was asked."""
        return self.known_cost if self.requests and not self.unpriced else None

    def plus(self, other: Usage) -> Usage:
        """The sum of this usage and ``other``."""
        models = dict(self.by_model)
        for name, used in other.by_model.items():
            models[name] = models.get(name, Usage()).plus(used)
        return Usage(
            self.requests + other.requests,
            self.input + other.input,
            self.output + other.output,
            self.known_cost + other.known_cost,
            self.unpriced + other.unpriced,
            models,
        )

    def as_json(self) -> dict[str, Value]:
        """The amounts for JSON. The cost is a text, because it is a decimal number."""
        cost = None if self.cost is None else f"{self.cost:f}"
        amounts = {
            "requests": self.requests,
            "input": self.input,
            "output": self.output,
            "cost": cost,
        }
        models = {name: used.as_json() for name, used in self.by_model.items()}
        return {**amounts, "by_model": models} if models else amounts


def cost_of(usage: Mapping[str, Value]) -> Decimal | None:
    """The price in ``usage``, the usage of a reply, perhaps from a journal; None: the price is
    unknown."""
    text = usage.get("cost")
    if not isinstance(text, str) or not PRICE.fullmatch(text):
        return None
    return Decimal(text)


PRICE = re.compile(r"[0-9]{1,12}(?:\.[0-9]{1,30})?")
"""The text of a price. It is bounded, because a journal may have any text."""


def one_reply(input: int, output: int, model: str, cost: Decimal | None) -> Usage:
    """The usage of one reply."""
    used = Usage(1, input, output, cost or Decimal(0), int(cost is None))
    return used._replace(by_model={model: used})
