"""Runs each shape of steps: in order, by dependency, along edges, in parallel."""
