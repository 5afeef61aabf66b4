"""Estimates the price of a reply by the model that sent it."""

from __future__ import annotations

from contextlib import suppress
from decimal import Decimal

from genai_prices import Usage, calc_price

from .messages import Tokens


def price(provider: str, model: str, used: Tokens) -> Decimal | None:
    """The price of a reply in US dollars; None: the table has no price for the model.

    The price comes from the table of the installed package `genai-prices`, which may be old and
    does not know the user's contracts."""
    usage = Usage(
        input_tokens=used["input"],
        output_tokens=used["output"],
        cache_read_tokens=used.get("cache_read"),
        cache_write_tokens=used.get("cache_write"),
    )
    # The model, or a kind of its tokens, has no price in the table.
    with suppress(LookupError, ValueError):
        return calc_price(usage, model, provider_id=provider).total_price
    return None
