"""Runs a flow, whatever its language: emits events and returns a value."""
