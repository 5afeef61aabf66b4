"""Runs a flow: emits events and returns a value. Does not depend on languages or IPython."""
