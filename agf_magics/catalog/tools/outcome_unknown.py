"""`OutcomeUnknown`, the mark of an exception that is no outcome of its call."""

from __future__ import annotations


class OutcomeUnknown(Exception):
    """The call may have had its effect, or may still have it: its worker or its server was lost, or
    it was left running. This is not an outcome of the call (decision D7). No `Retry` repeats such a
    call; one with an effect (``reuse=False``) is made again only by a person who knows."""
