"""The log of a plan's messages, the references to it, and the writes into it."""
