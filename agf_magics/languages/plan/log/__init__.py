"""The log of a plan's messages: references to it, and writes into it."""
