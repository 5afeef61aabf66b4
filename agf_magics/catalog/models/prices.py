"""The price of a request, by the model that answered it."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal

from genai_prices import Usage, calc_price

from .messages import Tokens


def price(provider: str, model: str, used: Tokens) -> Decimal | None:
    """The price of a reply in US dollars; None: the table has no price for the model.

    It is an estimate, from the table of `genai-prices`: the table is as old as the installed
    package, and it knows no contract of the user's."""
    usage = Usage(
        input_tokens=used["input"],
        output_tokens=used["output"],
        cache_read_tokens=used.get("cache_read"),
        cache_write_tokens=used.get("cache_write"),
    )
    # An unknown model; tokens that the table has no price for.
    with suppress(LookupError, ValueError):
        return calc_price(usage, model, provider_id=provider).total_price
    return None
