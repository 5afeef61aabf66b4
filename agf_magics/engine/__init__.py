"""Runs a flow: emits events and returns a value. Knows no language and no IPython."""
